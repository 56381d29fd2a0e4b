# SPDX-License-Identifier: Apache-2.0
include src/util/local.mk
include src/memory/kernels/local.mk

# One library a folder, in the order of the floors. Hidden symbols are seen by the unit tests: a test links
# the library of its folder and those below it (test/unit/local.mk), or libnixlrun_core.la, that is all.
folder_libs = %D%/libnxr_attach.la %D%/libnxr_collective.la %D%/libnxr_channel.la %D%/libnxr_grant.la %D%/libnxr_pair.la %D%/libnxr_sync.la \
	%D%/libnxr_transfer.la transports/libnxr_transports.la %D%/libnxr_boot.la %D%/libnxr_net.la \
	%D%/libnxr_host.la %D%/libnxr_region.la %D%/libnxr_control.la %D%/libnxr_memory.la storage/libnxr_storage.la \
	%D%/memory/kernels/libnxr_kernels.la %D%/libnxr_core.la transports/libnxr_transport.la
noinst_LTLIBRARIES += %D%/libnxr_core.la %D%/libnxr_memory.la %D%/libnxr_control.la \
	%D%/libnxr_region.la %D%/libnxr_host.la %D%/libnxr_net.la %D%/libnxr_boot.la \
	%D%/libnxr_transfer.la %D%/libnxr_sync.la %D%/libnxr_pair.la %D%/libnxr_grant.la %D%/libnxr_channel.la \
	%D%/libnxr_collective.la %D%/libnxr_attach.la

%C%_libnxr_attach_la_SOURCES = \
	%D%/attach/attach.c %D%/attach/attach.h \
	%D%/attach/attempt.c %D%/attach/attempt.h \
	%D%/attach/connect.c %D%/attach/connect.h \
	%D%/attach/contacts.c %D%/attach/contacts.h \
	%D%/attach/detach.c \
	%D%/attach/observed.c \
	%D%/attach/directory.c %D%/attach/directory.h \
	%D%/attach/directory_etcd.c %D%/attach/directory_etcd.h \
	%D%/attach/entry.c %D%/attach/entry.h \
	%D%/attach/entry_etcd.c %D%/attach/entry_etcd.h \
	%D%/attach/introduction.c %D%/attach/introduction.h \
	%D%/attach/lease_etcd.c %D%/attach/lease_etcd.h \
	%D%/attach/list.c \
	%D%/attach/listener.c %D%/attach/listener.h \
	%D%/attach/place.c %D%/attach/place.h \
	%D%/attach/proof.c %D%/attach/proof.h \
	%D%/attach/publish.c \
	%D%/attach/reach.c %D%/attach/reach.h \
	%D%/attach/refer.c \
	%D%/attach/referral.c %D%/attach/referral.h \
	%D%/attach/token.c %D%/attach/token.h \
	%D%/attach/visit.c %D%/attach/visit.h \
	%D%/attach/where.c %D%/attach/where.h
%C%_libnxr_attach_la_CFLAGS = $(AM_CFLAGS) $(NETTLE_CFLAGS)

%C%_libnxr_core_la_SOURCES = \
	%D%/core/attached.c %D%/core/attached.h \
	%D%/core/card.c %D%/core/card.h %D%/core/contract.c \
	%D%/core/carrier.c %D%/core/carrier.h \
	%D%/core/context.c %D%/core/context.h \
	%D%/core/control.c %D%/core/control.h \
	%D%/core/cores.c %D%/core/cores.h \
	%D%/core/cq.c %D%/core/cq.h \
	%D%/core/cq_fd.c \
	%D%/core/cq_watch.c \
	%D%/core/debug_dump.c \
	%D%/core/event.c %D%/core/event.h \
	%D%/core/event_calls.c \
	%D%/core/form.c %D%/core/form.h \
	%D%/core/identity.c %D%/core/identity.h \
	%D%/core/inflight.c \
	%D%/core/job.c %D%/core/job.h \
	%D%/core/asking.c %D%/core/asking.h %D%/core/late.c %D%/core/late.h \
	%D%/core/life.c %D%/core/life.h \
	%D%/core/node.c %D%/core/node.h \
	%D%/core/observe.c %D%/core/observe.h \
	%D%/core/op_list.h \
	%D%/core/own_memory.c %D%/core/own_memory.h \
	%D%/core/peer.c \
	%D%/core/peer_calls.c \
	%D%/core/peer_find.c \
	%D%/core/peer_slot.h \
	%D%/core/poll.c %D%/core/poll.h \
	%D%/core/progress.c %D%/core/progress.h \
	%D%/core/range.c %D%/core/range.h \
	%D%/core/request.c %D%/core/request.h \
	%D%/core/request_calls.c \
	%D%/core/request_follow.c %D%/core/request_follow.h \
	%D%/core/request_watch.c %D%/core/request_watch.h \
	%D%/core/returned.c %D%/core/returned.h \
	%D%/core/route.c %D%/core/route.h \
	%D%/core/service.c %D%/core/service.h \
	%D%/core/stats.c %D%/core/stats.h %D%/core/stats_calls.c \
	%D%/core/subsystem.c %D%/core/subsystem.h \
	%D%/core/token.c %D%/core/token.h %D%/core/token_use.c \
	%D%/core/nvtx.c %D%/core/nvtx.h \
	%D%/core/trace.c %D%/core/trace.h \
	%D%/core/wait.c %D%/core/wait.h \
	%D%/core/wireup.h
%C%_libnxr_core_la_CFLAGS = $(AM_CFLAGS) $(NVTX_CFLAGS)

%C%_libnxr_memory_la_SOURCES = \
	%D%/memory/choose.c %D%/memory/choose.h \
	%D%/memory/copy.c \
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
	%D%/memory/device.h \
	%D%/memory/device_atomic.c %D%/memory/device_atomic.h \
	%D%/memory/export.c \
	%D%/memory/file/engine.h \
	%D%/memory/file/file.c %D%/memory/file/file.h \
	%D%/memory/file/file_copy.c \
	%D%/memory/file/file_engine.c \
	%D%/memory/file/file_grow.c \
	%D%/memory/file/file_gpu.c %D%/memory/file/file_gpu.h \
	%D%/memory/file/file_open.c \
	%D%/memory/file/file_share.c \
	%D%/memory/file/file_trial.c %D%/memory/file/file_trial.h \
	%D%/memory/file/kind.h \
	%D%/memory/host.c \
	%D%/memory/kind.c \
	%D%/memory/memory.h \
	%D%/memory/move.c \
	%D%/memory/object/kind.h \
	%D%/memory/object/object.c %D%/memory/object/object.h \
	%D%/memory/object/object_ask.c %D%/memory/object/object_ask.h \
	%D%/memory/object/object_copy.c \
	%D%/memory/object/object_engine.c \
	%D%/memory/object/object_key.c \
	%D%/memory/object/object_lost.c \
	%D%/memory/object/object_open.c \
	%D%/memory/object/object_part.c %D%/memory/object/object_part.h \
	%D%/memory/object/object_upload.c \
	%D%/memory/object/object_upload.h \
	%D%/memory/object/object_wait.c \
	%D%/memory/nearest_device.c %D%/memory/nearest_device.h \
	%D%/memory/reduce.h
if HAVE_VULKAN
%C%_libnxr_memory_la_SOURCES += \
	%D%/memory/vulkan/kind.h \
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
%C%_libnxr_memory_la_SOURCES += %D%/memory/vulkan/vulkan_none.c
endif
%C%_libnxr_memory_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)

%C%_libnxr_control_la_SOURCES = \
	%D%/control/dispatch.c %D%/control/dispatch.h \
	%D%/control/finalize_barrier.c %D%/control/finalize_barrier.h \
	%D%/control/detector.c %D%/control/detector.h \
	%D%/control/question.c %D%/control/question.h \
	%D%/control/wire.c %D%/control/wire.h
%C%_libnxr_control_la_CFLAGS = $(AM_CFLAGS)

%C%_libnxr_region_la_SOURCES = \
	%D%/region/segment.c %D%/region/segment.h \
	%D%/region/segment_ask.c \
	%D%/region/segment_probe.c \
	%D%/region/segment_request.c %D%/region/segment_request.h \
	%D%/region/leaving.c %D%/region/leaving.h \
	%D%/region/own_atomic.c %D%/region/own_atomic.h \
	%D%/region/publish.c %D%/region/publish.h \
	%D%/region/region.c %D%/region/region.h \
	%D%/region/region_directory.c \
	%D%/region/region_file.c \
	%D%/region/region_object.c \
	%D%/region/extents.c %D%/region/extents.h \
	%D%/region/region_handle.h %D%/region/region_make.c \
	%D%/region/region_name.c %D%/region/region_name.h \
	%D%/region/region_query.c \
	%D%/region/region_storage.c
%C%_libnxr_region_la_CFLAGS = $(AM_CFLAGS)

%C%_libnxr_host_la_SOURCES = \
	%D%/host/conn.c %D%/host/conn.h \
	%D%/host/deathwatch.c %D%/host/deathwatch.h \
	%D%/host/connect.c %D%/host/connect.h \
	%D%/host/greeting.c %D%/host/greeting.h \
	%D%/host/liveness.c %D%/host/liveness.h \
	%D%/host/local_socket.c %D%/host/local_socket.h \
	%D%/host/mapping.c %D%/host/mapping.h \
	%D%/host/packet.c %D%/host/packet.h \
	%D%/host/peer.c %D%/host/peer.h \
	%D%/host/unsent.c %D%/host/unsent.h \
	%D%/host/announce.c %D%/host/announce.h \
	%D%/host/card_queue.c %D%/host/card_queue.h \
	%D%/host/acceptor.c %D%/host/acceptor.h \
	%D%/host/atomic_ask.c %D%/host/atomic_ask.h \
	%D%/host/atomic_ring.c %D%/host/atomic_ring.h \
	%D%/host/atomic_serve.c %D%/host/atomic_serve.h
%C%_libnxr_host_la_CFLAGS = $(AM_CFLAGS)

%C%_libnxr_net_la_SOURCES = \
	%D%/net/alive.c \
	%D%/net/ask.c \
	%D%/net/bulk.c \
	%D%/net/clients.c %D%/net/clients.h \
	%D%/net/connect.c %D%/net/connect.h \
	%D%/net/deferred.c \
	%D%/net/expect.c \
	%D%/net/in.c %D%/net/in.h \
	%D%/net/key.c \
	%D%/net/later.c \
	%D%/net/peer.c \
	%D%/net/list.c \
	%D%/net/module.c \
	%D%/net/move.c %D%/net/move.h \
	%D%/net/net.h \
	%D%/net/note.c \
	%D%/net/offer.c %D%/net/offer.h \
	%D%/net/order.c \
	%D%/net/out.c %D%/net/out.h \
	%D%/net/own.c \
	%D%/net/poll.c \
	%D%/net/posted.c \
	%D%/net/reach.c \
	%D%/net/rma.c \
	%D%/net/start.c \
	%D%/net/state.h \
	%D%/net/transport.c \
	%D%/net/wire.c %D%/net/wire.h \
	%D%/net/atomic.c
%C%_libnxr_net_la_CFLAGS = $(AM_CFLAGS)

%C%_libnxr_boot_la_SOURCES = \
	%D%/boot/all_cards.c %D%/boot/all_cards.h \
	%D%/boot/alone.c %D%/boot/alone.h \
	%D%/boot/boot.h \
	%D%/boot/call.c %D%/boot/call.h \
	%D%/boot/events.c %D%/boot/events.h \
	%D%/boot/job_end.c \
	%D%/boot/meeting.c %D%/boot/meeting.h \
	%D%/boot/nodes.c %D%/boot/nodes.h \
	%D%/boot/pmix.c \
	%D%/boot/pmix_init.c %D%/boot/pmix_init.h \
	%D%/boot/rank_socket.c %D%/boot/rank_socket.h \
	%D%/boot/rendezvous.c %D%/boot/rendezvous.h \
	%D%/boot/sharing.c %D%/boot/sharing.h
%C%_libnxr_boot_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS) $(HWLOC_CFLAGS)

%C%_libnxr_transfer_la_SOURCES = \
	%D%/transfer/durable.c %D%/transfer/durable.h \
	%D%/transfer/bounce_serve.c \
	%D%/transfer/copy_crew.c %D%/transfer/copy_crew.h \
	%D%/transfer/copy_thread.c %D%/transfer/copy_thread.h \
	%D%/transfer/flush.c \
	%D%/transfer/op.c %D%/transfer/op.h \
	%D%/transfer/route_expect.c \
	%D%/transfer/route_query.c \
	%D%/transfer/staging.c %D%/transfer/staging.h \
	%D%/transfer/staging_buffer.h \
	%D%/transfer/staging_direct.c \
	%D%/transfer/staging_memory.c %D%/transfer/staging_memory.h \
	%D%/transfer/staging_pipeline.c %D%/transfer/staging_pipeline.h \
	%D%/transfer/staging_shared.c \
	%D%/transfer/staging_slot.c \
	%D%/transfer/stream.c %D%/transfer/stream.h \
	%D%/transfer/strided.c \
	%D%/transfer/transfer.c %D%/transfer/transfer.h \
	%D%/transfer/window.c %D%/transfer/window.h \
	%D%/transfer/work.c %D%/transfer/work.h \
	%D%/transfer/xfer.c %D%/transfer/xfer.h \
	%D%/transfer/xfer_batch.c \
	%D%/transfer/xfer_blocks.c \
	%D%/transfer/xfer_hand.c \
	%D%/transfer/xfer_query.c \
	%D%/transfer/xfer_run.c
%C%_libnxr_transfer_la_CFLAGS = $(AM_CFLAGS)

%C%_libnxr_sync_la_SOURCES = \
	%D%/sync/inbox.c %D%/sync/inbox.h \
	%D%/sync/notify_recv.c \
	%D%/sync/notify_say.c \
	%D%/sync/notify.c %D%/sync/notify.h \
	%D%/sync/peer.h \
	%D%/sync/put_notify.c \
	%D%/sync/receive.c %D%/sync/receive.h \
	%D%/sync/senders.c %D%/sync/senders.h \
	%D%/sync/signal_say.c \
	%D%/sync/signal_wait.c %D%/sync/signal_wait.h \
	%D%/sync/stream_signal.c %D%/sync/stream_signal.h \
	%D%/sync/atomic.c %D%/sync/atomic.h \
	%D%/sync/extended.c \
	%D%/sync/following.c %D%/sync/following.h \
	%D%/sync/granted.h \
	%D%/sync/atomic_start.c \
	%D%/sync/xfer_start.c
%C%_libnxr_sync_la_CFLAGS = $(AM_CFLAGS)

%C%_libnxr_pair_la_SOURCES = \
	%D%/pair/pair.h \
	%D%/pair/pair_expose.c %D%/pair/pair_exposed.c \
	%D%/pair/pair_handle.c \
	%D%/pair/pair_use.c
%C%_libnxr_pair_la_CFLAGS = $(AM_CFLAGS)

%C%_libnxr_grant_la_SOURCES = \
	%D%/grant/grant.h \
	%D%/grant/grant_calls.c \
	%D%/grant/grant_end.c \
	%D%/grant/grant_enter.c \
	%D%/grant/grant_lease.c \
	%D%/grant/grant_open.c \
	%D%/grant/grant_pieces.c \
	%D%/grant/grant_table.c \
	%D%/grant/grant_use.c \
	%D%/grant/grant_word.h
%C%_libnxr_grant_la_CFLAGS = $(AM_CFLAGS)

%C%_libnxr_channel_la_SOURCES = \
	%D%/channel/attached_lane.c \
	%D%/channel/channel.c %D%/channel/channel.h \
	%D%/channel/channel_move.c \
	%D%/channel/count.c \
	%D%/channel/lane.c \
	%D%/channel/producer.c
%C%_libnxr_channel_la_CFLAGS = $(AM_CFLAGS)

%C%_libnxr_collective_la_SOURCES = \
	%D%/collective/agreement.c %D%/collective/agreement.h \
	%D%/collective/buffer.c %D%/collective/buffer.h \
	%D%/collective/buffer_far.h \
	%D%/collective/buffer_move.c \
	%D%/collective/call.c %D%/collective/call.h \
	%D%/collective/coll.c %D%/collective/coll.h \
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
	%D%/collective/node_direct.c \
	%D%/collective/node_exchange.c \
	%D%/collective/node_piece.h \
	%D%/collective/node_reduce.c \
	%D%/collective/node_reduce_chain.c \
	%D%/collective/node_reduce_direct.c \
	%D%/collective/node_scan.c \
	%D%/collective/node_scatter.c \
	%D%/collective/node_wake.c \
	%D%/collective/phase.h \
	%D%/collective/plan.c %D%/collective/plan.h \
	%D%/collective/mailbox.c %D%/collective/mailbox.h \
	%D%/collective/start.c %D%/collective/start.h \
	%D%/collective/strided.c %D%/collective/strided.h \
	%D%/collective/reform.c %D%/collective/reform.h \
	%D%/collective/reform_calls.c %D%/collective/reforms.h \
	%D%/collective/reform_fail.c \
	%D%/collective/reform_say.c %D%/collective/reform_say.h \
	%D%/collective/reform_take.c \
	%D%/collective/team.c %D%/collective/team.h \
	%D%/collective/team_calls.c \
	%D%/collective/team_end.c \
	%D%/collective/team_make.c \
	%D%/collective/team_shrink.c \
	%D%/collective/team_state.c \
	%D%/collective/teams.h \
	%D%/collective/tree.c %D%/collective/tree.h \
	%D%/collective/trial.c %D%/collective/trial.h %D%/collective/trial_table.h \
	%D%/collective/two_level.h \
	%D%/collective/two_level_exchange.c \
	%D%/collective/two_level_reduce.c \
	%D%/collective/two_level_scatter.c \
	%D%/collective/whole.c %D%/collective/whole.h
%C%_libnxr_collective_la_CFLAGS = $(AM_CFLAGS)

# What composes them, and all of it.
noinst_LTLIBRARIES += %D%/libnixlrun_core.la
%C%_libnixlrun_core_la_SOURCES = %D%/init.c
%C%_libnixlrun_core_la_CFLAGS = $(AM_CFLAGS)
%C%_libnixlrun_core_la_LIBADD = $(folder_libs) src/util/libnxr_locality.la src/util/libnxr_util.la $(PMIX_LIBS) $(NETTLE_LIBS)

lib_LTLIBRARIES += %D%/libnixlrun.la
%C%_libnixlrun_la_SOURCES =
# libtool's current:revision:age. 0:0:0 until 1.0; then: source changed, revision+1; interfaces added,
# current+1, revision 0, age+1; interfaces removed or changed, current+1, revision 0, age 0.
# Never unloaded: threads of PMIx and exit handlers outlive a dlclose().
%C%_libnixlrun_la_LDFLAGS = $(AM_LDFLAGS) $(NODEFS_LDFLAGS) -Wl,-z,nodelete -version-info 0:0:0
%C%_libnixlrun_la_LIBADD = %D%/libnixlrun_core.la
EXTRA_DIST += %D%/libnixlrun.map %D%/libnixlrun-gdb.py

# gdb loads it with the library, by the real name of its file.
gdb_auto_load = $(DESTDIR)$(datadir)/gdb/auto-load$(libdir)
install-exec-hook:
	so=`readlink "$(DESTDIR)$(libdir)/libnixlrun.so"` || exit 0; \
	$(MKDIR_P) "$(gdb_auto_load)" && \
	$(INSTALL_DATA) $(srcdir)/%D%/libnixlrun-gdb.py "$(gdb_auto_load)/$$so-gdb.py"
uninstall-hook:
	rm -f "$(gdb_auto_load)"/libnixlrun.so*-gdb.py
# What each folder owns.
EXTRA_DIST += %D%/boot/README %D%/channel/README %D%/collective/README %D%/control/README \
	%D%/attach/README %D%/core/README %D%/grant/README %D%/host/README %D%/memory/README %D%/net/README %D%/pair/README \
	%D%/region/README %D%/sync/README %D%/transfer/README %D%/util/README
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
