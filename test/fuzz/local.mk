# SPDX-License-Identifier: Apache-2.0
# The fuzz targets are built by the script "run" with clang, not by make.
EXTRA_DIST += test/fuzz
