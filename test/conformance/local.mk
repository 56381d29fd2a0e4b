# SPDX-License-Identifier: Apache-2.0
# One program that walks every guarantee; each .mp file runs it in one of the ways.
check_PROGRAMS += %D%/conformance
%C%_conformance_SOURCES = \
	%D%/conformance.h \
	%D%/atomic.c \
	%D%/close.c \
	%D%/data.c \
	%D%/event.c \
	%D%/job.c \
	%D%/main.c \
	%D%/notify.c \
	%D%/order.c \
	%D%/region.c \
	%D%/request.c \
	%D%/signal.c
%C%_conformance_LDFLAGS = $(mp_link)
%C%_conformance_LDADD = $(mp_libs)

conformance_tests = %D%/allocated.mp %D%/bounce.mp %D%/launchers.mp %D%/registered.mp
EXTRA_DIST += $(conformance_tests)
TESTS += $(conformance_tests)
