# SPDX-License-Identifier: Apache-2.0
include_HEADERS += %D%/nixlrun.h %D%/nixlrun_device.cuh
nodist_include_HEADERS += %D%/nixlrun_version.h
