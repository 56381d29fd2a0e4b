# SPDX-License-Identifier: Apache-2.0
# One program that walks every guarantee; each .mp file runs it in one of the ways.
EXTRA_PROGRAMS += %D%/conformance
%C%_conformance_SOURCES = \
	%D%/conformance.h \
	%D%/access.c \
	%D%/atomic.c \
	%D%/channel.c \
	%D%/close.c \
	%D%/collective.c \
	%D%/data.c \
	%D%/directory.c %D%/event.c \
	%D%/extended.c %D%/extents.c %D%/extents.h %D%/extents_xfer.c \
	%D%/exchange.c %D%/exchange.h \
	%D%/file.c \
	%D%/grant.c \
	%D%/job.c \
	%D%/kinds.c %D%/kinds_channel.c %D%/kinds_collective.c \
	%D%/later.c \
	%D%/local.c %D%/local.h \
	%D%/main.c \
	%D%/notify.c \
	%D%/order.c \
	%D%/pair.c \
	%D%/mixture.c \
	%D%/prepared.c \
	%D%/reduction.c \
	%D%/region.c \
	%D%/request.c \
	%D%/signal.c \
	%D%/team.c \
	%D%/xfer.c \
	%D%/xfer_data.c
%C%_conformance_LDFLAGS = $(mp_link)
%C%_conformance_LDADD = $(mp_libs)

# Litmus tests of the memory model.
EXTRA_PROGRAMS += %D%/litmus
%C%_litmus_SOURCES = %D%/litmus.c %D%/litmus.h \
	%D%/litmus_two.c %D%/litmus_three.c %D%/litmus_words.c
%C%_litmus_LDFLAGS = $(mp_link)
%C%_litmus_LDADD = $(mp_libs)

conformance_tests = %D%/allocated.mp %D%/bounce.mp %D%/cuda.mp %D%/directory.mp %D%/file.mp \
	%D%/launchers.mp %D%/litmus.mp %D%/registered.mp
EXTRA_DIST += $(conformance_tests) %D%/every.mp
TESTS += $(conformance_tests)
if HAVE_VULKAN
TESTS += %D%/vulkan.mp
endif
EXTRA_DIST += %D%/vulkan.mp
