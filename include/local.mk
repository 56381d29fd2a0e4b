# SPDX-License-Identifier: Apache-2.0
include_HEADERS += %D%/nixlrun.h
nodist_include_HEADERS += %D%/nixlrun_version.h
