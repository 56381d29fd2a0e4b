# SPDX-License-Identifier: Apache-2.0
include src/util/local.mk
include src/memory/kernels/local.mk

# The core. Hidden symbols are seen by the unit tests, which link this and not the library.
noinst_LTLIBRARIES += %D%/libnixlrun_core.la
%C%_libnixlrun_core_la_SOURCES = \
	%D%/util/handle.c %D%/util/handle.h \
	%D%/util/list.h \
	%D%/util/ring.c %D%/util/ring.h \
	%D%/core/card.c %D%/core/card.h \
	%D%/core/carrier.c %D%/core/carrier.h \
	%D%/core/control.c %D%/core/control.h \
	%D%/core/event.c %D%/core/event.h \
	%D%/core/guard.c \
	%D%/core/job.c %D%/core/job.h \
	%D%/core/life.c %D%/core/life.h \
	%D%/core/node.c %D%/core/node.h \
	%D%/core/op_list.h \
	%D%/core/peer.c \
	%D%/core/peer_calls.c \
	%D%/core/poll.c %D%/core/poll.h \
	%D%/core/progress.c %D%/core/progress.h \
	%D%/core/range.c %D%/core/range.h \
	%D%/core/request.c %D%/core/request.h \
	%D%/core/request_calls.c \
	%D%/core/route.c %D%/core/route.h \
	%D%/core/service.c %D%/core/service.h \
	%D%/core/subsystem.c %D%/core/subsystem.h \
	%D%/core/wireup.h \
	%D%/core/wait.c %D%/core/wait.h \
	%D%/memory/choose.c %D%/memory/choose.h \
	%D%/memory/copy.c \
	%D%/memory/device.h \
	%D%/memory/export.c \
	%D%/memory/device_word.c %D%/memory/device_word.h \
	%D%/memory/host.c \
	%D%/memory/kind.c \
	%D%/memory/memory.h \
	%D%/memory/move.c \
	%D%/memory/nearest_device.c %D%/memory/nearest_device.h \
	%D%/memory/reduce.h \
	%D%/memory/cuda/cuda.c %D%/memory/cuda/cuda.h \
	%D%/memory/cuda/cuda_adopt.c \
	%D%/memory/cuda/cuda_alloc.c \
	%D%/memory/cuda/cuda_copy.c \
	%D%/memory/cuda/cuda_device.c \
	%D%/memory/cuda/cuda_end.c \
	%D%/memory/cuda/cuda_expect.c \
	%D%/memory/cuda/cuda_export.c \
	%D%/memory/cuda/cuda_external.c \
	%D%/memory/cuda/cuda_import.c \
	%D%/memory/cuda/cuda_kernel.c \
	%D%/memory/cuda/cuda_lane.c \
	%D%/memory/cuda/cuda_pin.c \
	%D%/memory/cuda/cuda_reach.c \
	%D%/memory/cuda/cuda_reduce.c \
	%D%/memory/cuda/cuda_scatter.c \
	%D%/memory/cuda/cuda_stream.c \
	%D%/memory/cuda/kind.h \
	%D%/memory/cuda/stream.h \
	%D%/memory/vulkan/kind.h \
	%D%/control/dispatch.c %D%/control/dispatch.h \
	%D%/control/farewell.c %D%/control/farewell.h \
	%D%/control/neighbour.c %D%/control/neighbour.h \
	%D%/control/question.c %D%/control/question.h \
	%D%/control/wire.c %D%/control/wire.h \
	%D%/region/part.c %D%/region/part.h \
	%D%/region/part_ask.c \
	%D%/region/part_probe.c \
	%D%/region/part_request.c %D%/region/part_request.h \
	%D%/region/publish.c %D%/region/publish.h \
	%D%/region/region.c %D%/region/region.h \
	%D%/region/region_query.c \
	%D%/host/conn.c %D%/host/conn.h \
	%D%/host/deathwatch.c %D%/host/deathwatch.h \
	%D%/host/link.c %D%/host/link.h \
	%D%/host/liveness.c %D%/host/liveness.h \
	%D%/host/packet.c %D%/host/packet.h \
	%D%/host/word_ask.c %D%/host/word_ask.h \
	%D%/host/word_ring.c %D%/host/word_ring.h \
	%D%/host/word_serve.c %D%/host/word_serve.h \
	%D%/net/alive.c \
	%D%/net/ask.c \
	%D%/net/bulk.c \
	%D%/net/clients.c \
	%D%/net/connect.c \
	%D%/net/deferred.c \
	%D%/net/expect.c \
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
	%D%/net/start.c \
	%D%/net/state.h \
	%D%/net/transport.c \
	%D%/net/wire.c %D%/net/wire.h \
	%D%/net/word.c \
	%D%/boot/all_cards.c %D%/boot/all_cards.h \
	%D%/boot/alone.c %D%/boot/alone.h \
	%D%/boot/boot.h \
	%D%/boot/call.c %D%/boot/call.h \
	%D%/boot/events.c %D%/boot/events.h \
	%D%/boot/job_end.c \
	%D%/boot/meeting.c %D%/boot/meeting.h \
	%D%/boot/nodes.c %D%/boot/nodes.h \
	%D%/boot/pmix.c \
	%D%/boot/rank_link.c %D%/boot/rank_link.h \
	%D%/transfer/bounce.c %D%/transfer/bounce.h \
	%D%/transfer/bounce_buffer.h \
	%D%/transfer/bounce_serve.c \
	%D%/transfer/copier.c %D%/transfer/copier.h \
	%D%/transfer/flush.c \
	%D%/transfer/op.c %D%/transfer/op.h \
	%D%/transfer/route_expect.c \
	%D%/transfer/route_query.c \
	%D%/transfer/stage.c %D%/transfer/stage.h \
	%D%/transfer/stage_lane.h \
	%D%/transfer/stage_piece.c \
	%D%/transfer/stream.c %D%/transfer/stream.h \
	%D%/transfer/strided.c \
	%D%/transfer/transfer.c %D%/transfer/transfer.h \
	%D%/transfer/window.c %D%/transfer/window.h \
	%D%/transfer/work.c %D%/transfer/work.h \
	%D%/transfer/xfer.c %D%/transfer/xfer.h \
	%D%/transfer/xfer_blocks.c \
	%D%/transfer/xfer_hand.c \
	%D%/transfer/xfer_query.c \
	%D%/transfer/xfer_run.c \
	%D%/sync/inbox.c %D%/sync/inbox.h \
	%D%/sync/notify.c %D%/sync/notify.h \
	%D%/sync/put_notify.c \
	%D%/sync/signal_wait.c \
	%D%/sync/stream_signal.c %D%/sync/stream_signal.h \
	%D%/sync/word.c %D%/sync/word.h \
	%D%/sync/word_nb.c \
	%D%/sync/xfer_notify.c \
	%D%/pair/pair.h \
	%D%/pair/pair_expose.c \
	%D%/pair/pair_handle.c \
	%D%/pair/pair_token.c %D%/pair/pair_token.h \
	%D%/pair/pair_use.c \
	%D%/channel/channel.c %D%/channel/channel.h \
	%D%/channel/channel_move.c \
	%D%/collective/agreement.c %D%/collective/agreement.h \
	%D%/collective/buffer.c %D%/collective/buffer.h \
	%D%/collective/buffer_far.h \
	%D%/collective/buffer_move.c \
	%D%/collective/call.c %D%/collective/call.h \
	%D%/collective/collectives.c \
	%D%/collective/combine.c %D%/collective/combine.h \
	%D%/collective/combine_loops.h \
	%D%/collective/device.c %D%/collective/device.h \
	%D%/collective/device_call.c \
	%D%/collective/device_reduce.c \
	%D%/collective/half.c %D%/collective/half.h \
	%D%/collective/host_call.c \
	%D%/collective/later.c %D%/collective/later.h \
	%D%/collective/making.c %D%/collective/making.h \
	%D%/collective/node.c %D%/collective/node.h \
	%D%/collective/node_alltoall.c \
	%D%/collective/node_barrier.c \
	%D%/collective/node_collective.h \
	%D%/collective/node_exchange.c \
	%D%/collective/node_piece.h \
	%D%/collective/node_reduce.c \
	%D%/collective/node_reduce_chain.c \
	%D%/collective/node_reduce_direct.c \
	%D%/collective/node_wake.c \
	%D%/collective/phase.h \
	%D%/collective/post.c %D%/collective/post.h \
	%D%/collective/strided.c %D%/collective/strided.h \
	%D%/collective/team.c %D%/collective/team.h \
	%D%/collective/team_calls.c \
	%D%/collective/team_end.c \
	%D%/collective/team_make.c \
	%D%/collective/team_shrink.c \
	%D%/collective/team_state.c \
	%D%/collective/teams.h \
	%D%/collective/two_level.h \
	%D%/collective/two_level_exchange.c \
	%D%/collective/two_level_reduce.c \
	%D%/collective/two_level_scatter.c \
	%D%/collective/whole.c %D%/collective/whole.h \
	%D%/init.c
if HAVE_VULKAN
%C%_libnixlrun_core_la_SOURCES += \
	%D%/memory/vulkan/vulkan.c %D%/memory/vulkan/vulkan.h \
	%D%/memory/vulkan/vulkan_arena.c \
	%D%/memory/vulkan/vulkan_batch.c \
	%D%/memory/vulkan/vulkan_copy.c \
	%D%/memory/vulkan/vulkan_device.c \
	%D%/memory/vulkan/vulkan_look.c \
	%D%/memory/vulkan/vulkan_memory.c \
	%D%/memory/vulkan/vulkan_pin.c \
	%D%/memory/vulkan/vulkan_share.c \
	%D%/memory/vulkan/vulkan_status.c \
	%D%/memory/vulkan/vulkan_watch.c
else
%C%_libnixlrun_core_la_SOURCES += %D%/memory/vulkan/vulkan_none.c
endif
%C%_libnixlrun_core_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS) $(HWLOC_CFLAGS) \
	-DNXR_MODULE_DIR='"$(pkglibdir)"'
%C%_libnixlrun_core_la_LIBADD = transports/libnxr_transports.la \
	src/memory/kernels/libnxr_kernels.la src/util/libnxr_locality.la \
	src/util/libnxr_util.la $(PMIX_LIBS)

lib_LTLIBRARIES += %D%/libnixlrun.la
%C%_libnixlrun_la_SOURCES =
# libtool's current:revision:age. 0:0:0 until 1.0; then: source changed, revision+1; interfaces added,
# current+1, revision 0, age+1; interfaces removed or changed, current+1, revision 0, age 0.
# Never unloaded: threads of PMIx and exit handlers outlive a dlclose().
%C%_libnixlrun_la_LDFLAGS = $(AM_LDFLAGS) $(NODEFS_LDFLAGS) -Wl,-z,nodelete -version-info 0:0:0
%C%_libnixlrun_la_LIBADD = %D%/libnixlrun_core.la
EXTRA_DIST += %D%/libnixlrun.map
# What each folder owns.
EXTRA_DIST += %D%/boot/README %D%/channel/README %D%/collective/README %D%/control/README \
	%D%/core/README %D%/host/README %D%/memory/README %D%/net/README %D%/pair/README \
	%D%/region/README %D%/sync/README %D%/transfer/README %D%/util/README transports/README \
	launcher/README
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
