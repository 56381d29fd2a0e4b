# SPDX-License-Identifier: Apache-2.0
# Tests of the tree itself: what no compiler looks at.
tree_tests = %D%/check-getenv.sh %D%/check-header.sh %D%/check-install.sh %D%/check-layers.sh \
	%D%/check-man.sh %D%/check-quickstart.sh %D%/check-style.sh
dist_check_SCRIPTS += $(tree_tests)
EXTRA_DIST += %D%/prototypes.awk %D%/tap.sh
TESTS += $(tree_tests)
