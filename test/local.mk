# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += %D%/link %D%/tsan.supp
# In the order in which they run: what is quick first, then what takes long and mostly waits, so that under
# "make -j" there is always something beside it.
include test/unit/local.mk
include test/network/local.mk
include test/net/local.mk
include test/conformance/local.mk
include test/mp/local.mk
include test/storage/local.mk
include test/attach/local.mk
include test/gpu/local.mk
include test/bench/local.mk
include test/launcher/local.mk
include test/examples/local.mk
include test/cuda/local.mk
include test/cufile/local.mk
include test/fuzz/local.mk
include test/manual/local.mk
include test/check.mk
