# SPDX-License-Identifier: Apache-2.0
# Tests of the tree itself: what no compiler looks at.
tree_tests = %D%/check-getenv.sh %D%/check-layers.sh
dist_check_SCRIPTS += $(tree_tests)
TESTS += $(tree_tests)
