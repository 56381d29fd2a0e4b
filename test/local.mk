# SPDX-License-Identifier: Apache-2.0
include test/unit/local.mk
include test/mp/local.mk
include test/launcher/local.mk
include test/bench/local.mk
