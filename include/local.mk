# SPDX-License-Identifier: Apache-2.0
include_HEADERS += %D%/nixlrun.h %D%/nixlrun_device.cuh
nodist_include_HEADERS += %D%/nixlrun_version.h

# nixlrun.h by subject, in the order to read them in.
subjectincludedir = $(includedir)/nixlrun
subjectinclude_HEADERS = \
	%D%/nixlrun/base.h \
	%D%/nixlrun/context.h \
	%D%/nixlrun/job.h \
	%D%/nixlrun/route.h \
	%D%/nixlrun/log.h \
	%D%/nixlrun/debug.h \
	%D%/nixlrun/region.h \
	%D%/nixlrun/file.h \
	%D%/nixlrun/object.h \
	%D%/nixlrun/directory.h \
	%D%/nixlrun/request.h \
	%D%/nixlrun/op.h \
	%D%/nixlrun/put_get.h \
	%D%/nixlrun/cq.h \
	%D%/nixlrun/notify.h \
	%D%/nixlrun/attach.h \
	%D%/nixlrun/event.h \
	%D%/nixlrun/xfer.h \
	%D%/nixlrun/type.h \
	%D%/nixlrun/atomic.h \
	%D%/nixlrun/signal.h \
	%D%/nixlrun/stats.h \
	%D%/nixlrun/channel.h \
	%D%/nixlrun/grant.h \
	%D%/nixlrun/pair.h \
	%D%/nixlrun/team.h \
	%D%/nixlrun/collective.h \
	%D%/nixlrun/reduce.h
