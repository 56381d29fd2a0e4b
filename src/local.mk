# SPDX-License-Identifier: Apache-2.0
include src/util/local.mk

# The core. Hidden symbols are seen by the unit tests, which link this and not the library.
noinst_LTLIBRARIES += %D%/libnixlrun_core.la
%C%_libnixlrun_core_la_SOURCES = \
	%D%/boot/all_cards.c %D%/boot/all_cards.h \
	%D%/boot/alone.c %D%/boot/alone.h \
	%D%/boot/boot.h \
	%D%/boot/call.c %D%/boot/call.h \
	%D%/boot/card.c %D%/boot/card.h \
	%D%/boot/events.c %D%/boot/events.h \
	%D%/boot/meeting.c %D%/boot/meeting.h \
	%D%/boot/nodes.c %D%/boot/nodes.h \
	%D%/boot/pmix.c \
	%D%/boot/rank_link.c %D%/boot/rank_link.h \
	%D%/collective/agreement.c %D%/collective/agreement.h \
	%D%/collective/buffer.c %D%/collective/buffer.h \
	%D%/collective/buffer_far.h \
	%D%/collective/buffer_move.c \
	%D%/collective/call.c %D%/collective/call.h \
	%D%/collective/collectives.c \
	%D%/collective/combine.c %D%/collective/combine.h %D%/collective/combine_loops.h \
	%D%/collective/device.c %D%/collective/device.h %D%/collective/device_call.c \
	%D%/collective/device_reduce.c \
	%D%/collective/half.c %D%/collective/half.h \
	%D%/collective/later.c %D%/collective/later.h \
	%D%/collective/making.c %D%/collective/making.h \
	%D%/collective/node.c %D%/collective/node.h \
	%D%/collective/node_barrier.c \
	%D%/collective/node_collective.h \
	%D%/collective/node_piece.h \
	%D%/collective/node_alltoall.c \
	%D%/collective/node_exchange.c \
	%D%/collective/node_reduce.c \
	%D%/collective/node_reduce_chain.c \
	%D%/collective/node_reduce_direct.c \
	%D%/collective/phase.h \
	%D%/collective/post.c %D%/collective/post.h \
	%D%/collective/strided.c %D%/collective/strided.h \
	%D%/collective/team.c %D%/collective/team.h \
	%D%/collective/team_calls.c \
	%D%/collective/team_make.c \
	%D%/collective/team_shrink.c \
	%D%/collective/teams.h \
	%D%/collective/two_level.h \
	%D%/collective/two_level_exchange.c \
	%D%/collective/two_level_reduce.c \
	%D%/collective/two_level_scatter.c \
	%D%/collective/whole.c %D%/collective/whole.h \
	%D%/channel.c %D%/channel.h %D%/channel_move.c \
	%D%/copier.c %D%/copier.h \
	%D%/device_word.c %D%/device_word.h \
	%D%/event.c %D%/event.h \
	%D%/flush.c \
	%D%/guard.c \
	%D%/host/bounce.c %D%/host/bounce.h %D%/host/bounce_buffer.h \
	%D%/host/bounce_serve.c \
	%D%/host/conn.c %D%/host/conn.h \
	%D%/host/control.c %D%/host/control.h \
	%D%/host/deathwatch.c %D%/host/deathwatch.h \
	%D%/host/dispatch.c %D%/host/dispatch.h \
	%D%/host/farewell.c %D%/host/farewell.h \
	%D%/host/link.c %D%/host/link.h \
	%D%/host/liveness.c %D%/host/liveness.h \
	%D%/host/publish.c %D%/host/publish.h \
	%D%/host/ring.c %D%/host/ring.h \
	%D%/host/service.c %D%/host/service.h \
	%D%/host/neighbour.c %D%/host/neighbour.h \
	%D%/host/op_list.h \
	%D%/host/packet.c %D%/host/packet.h \
	%D%/host/wire.c %D%/host/wire.h \
	%D%/host/word_ask.c %D%/host/word_ask.h \
	%D%/host/word_ring.c %D%/host/word_ring.h \
	%D%/host/word_serve.c %D%/host/word_serve.h \
	%D%/inbox.c %D%/inbox.h \
	%D%/init.c \
	%D%/job.h \
	%D%/memory/choose.c %D%/memory/choose.h \
	%D%/memory/copy.c \
	%D%/memory/cuda.c %D%/memory/cuda.h \
	%D%/memory/cuda_adopt.c \
	%D%/memory/cuda_alloc.c \
	%D%/memory/cuda_copy.c \
	%D%/memory/cuda_end.c \
	%D%/memory/cuda_expect.c \
	%D%/memory/cuda_export.c \
	%D%/memory/cuda_external.c \
	%D%/memory/cuda_import.c \
	%D%/memory/cuda_kernel.c \
	%D%/memory/cuda_lane.c \
	%D%/memory/cuda_pin.c \
	%D%/memory/cuda_reduce.c \
	%D%/memory/cuda_scatter.c \
	%D%/memory/cuda_stream.c %D%/memory/stream.h \
	%D%/memory/device.h \
	%D%/memory/export.c \
	%D%/memory/host.c \
	%D%/memory/kernel.h %D%/memory/kernel_copy_ptx.h %D%/memory/kernel_reduce_ptx.h \
	%D%/memory/kind.c \
	%D%/memory/memory.h \
	%D%/memory/move.c \
	%D%/memory/nearest_device.c %D%/memory/nearest_device.h \
	%D%/memory/range.c \
	%D%/memory/reduce.h \
	%D%/net/alive.c \
	%D%/net/ask.c \
	%D%/net/bulk.c \
	%D%/net/connect.c \
	%D%/net/in.c \
	%D%/net/key.c \
	%D%/net/later.c \
	%D%/net/link.c \
	%D%/net/list.c \
	%D%/net/module.c \
	%D%/net/move.c \
	%D%/net/net.h \
	%D%/net/note.c \
	%D%/net/offer.c %D%/net/offer.h \
	%D%/net/order.c \
	%D%/net/out.c \
	%D%/net/own.c \
	%D%/net/poll.c \
	%D%/net/reach.c \
	%D%/net/rma.c \
	%D%/net/state.h \
	%D%/net/transport.c \
	%D%/net/window.c %D%/net/window.h \
	%D%/net/wire.c %D%/net/wire.h \
	%D%/net/word.c \
	%D%/net/work.c \
	%D%/notify.c %D%/notify.h \
	%D%/pair.h %D%/pair_expose.c \
	%D%/pair_handle.c \
	%D%/pair_token.c %D%/pair_token.h \
	%D%/pair_use.c \
	%D%/part.c \
	%D%/part.h \
	%D%/part_ask.c \
	%D%/part_probe.c \
	%D%/peer.c \
	%D%/progress.c %D%/progress.h \
	%D%/question.c %D%/question.h \
	%D%/region.c %D%/region.h %D%/region_query.c \
	%D%/request.c %D%/request.h %D%/request_calls.c \
	%D%/route.c %D%/route.h %D%/route_expect.c %D%/route_query.c \
	%D%/signal_wait.c \
	%D%/stage.c %D%/stage.h %D%/stage_lane.h %D%/stage_piece.c \
	%D%/strided.c \
	%D%/stream.c %D%/stream.h \
	%D%/transfer.c %D%/transfer.h \
	%D%/util/list.h \
	%D%/wait.c %D%/wait.h \
	%D%/word.c %D%/word.h \
	%D%/word_nb.c \
	%D%/xfer.c %D%/xfer.h \
	%D%/xfer_blocks.c \
	%D%/xfer_hand.c \
	%D%/xfer_query.c \
	%D%/xfer_run.c
if HAVE_VULKAN
%C%_libnixlrun_core_la_SOURCES += \
	%D%/memory/vulkan.c %D%/memory/vulkan.h \
	%D%/memory/vulkan_arena.c \
	%D%/memory/vulkan_batch.c \
	%D%/memory/vulkan_copy.c \
	%D%/memory/vulkan_device.c \
	%D%/memory/vulkan_look.c \
	%D%/memory/vulkan_memory.c \
	%D%/memory/vulkan_pin.c \
	%D%/memory/vulkan_share.c \
	%D%/memory/vulkan_watch.c
else
%C%_libnixlrun_core_la_SOURCES += %D%/memory/vulkan_none.c
endif
%C%_libnixlrun_core_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS) $(HWLOC_CFLAGS) \
	-DNXR_MODULE_DIR='"$(pkglibdir)"'
%C%_libnixlrun_core_la_LIBADD = transports/libnxr_transports.la src/util/libnxr_locality.la \
	src/util/libnxr_util.la $(PMIX_LIBS)

lib_LTLIBRARIES += %D%/libnixlrun.la
%C%_libnixlrun_la_SOURCES =
# libtool's current:revision:age. 0:0:0 until 1.0; then: source changed, revision+1; interfaces added,
# current+1, revision 0, age+1; interfaces removed or changed, current+1, revision 0, age 0.
# Never unloaded: threads of PMIx and exit handlers outlive a dlclose().
%C%_libnixlrun_la_LDFLAGS = $(AM_LDFLAGS) $(NODEFS_LDFLAGS) -Wl,-z,nodelete -version-info 0:0:0
%C%_libnixlrun_la_LIBADD = %D%/libnixlrun_core.la
EXTRA_DIST += %D%/libnixlrun.map %D%/memory/kernel_copy.cu %D%/memory/kernel_reduce.cu %D%/memory/make-ptx
%C%_libnixlrun_la_DEPENDENCIES = %D%/libnixlrun_core.la %D%/libnixlrun.map
if HAVE_VERSION_SCRIPT
%C%_libnixlrun_la_LDFLAGS += -Wl,--version-script=$(srcdir)/%D%/libnixlrun.map
endif

# Programs that use the shared library are linked again only when its name has changed: they name it
# as $(nixlrun_la), and wait for this file. Without a shared library it is always new.
%D%/libnixlrun.name: %D%/libnixlrun.la
	@sed -n 's/^dlname=//p' $(nixlrun_la) >$@.new
	@if cmp -s $@.new $@ && grep -q so $@; then rm $@.new; else mv $@.new $@; fi
$(bin_PROGRAMS) $(pkglibexec_PROGRAMS) $(noinst_PROGRAMS) $(EXTRA_PROGRAMS): %D%/libnixlrun.name
CLEANFILES += %D%/libnixlrun.name

bin_SCRIPTS += %D%/nixlcc
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = %D%/nixlrun.pc
