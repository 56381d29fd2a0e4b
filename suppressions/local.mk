# SPDX-License-Identifier: Apache-2.0
# What sanitizers and valgrind need not report, for users and for our own tests.
suppressionsdir = $(pkgdatadir)
dist_suppressions_DATA = %D%/lsan.supp %D%/tsan.supp %D%/valgrind.supp
