# SPDX-License-Identifier: Apache-2.0
# One page per topic; every other function of a topic gets an alias that shows the same page.
man_pages = %D%/nixl_bench.1 %D%/nixlcc.1 %D%/nixlrun.1 %D%/nixlrun.7 \
	%D%/nixlrun-transports.7 %D%/nixl_atomic.3 %D%/nixl_attach.3 %D%/nixl_channel.3 %D%/nixl_collective.3 %D%/nixl_context.3 %D%/nixl_cq.3 %D%/nixl_debug_dump.3 %D%/nixl_error.3 %D%/nixl_event.3 \
	%D%/nixl_flush.3 %D%/nixl_grant.3 %D%/nixl_init.3 %D%/nixl_log.3 %D%/nixl_notify.3 %D%/nixl_op.3 %D%/nixl_pair.3 %D%/nixl_put.3 \
	%D%/nixl_reduce.3 %D%/nixl_region.3 %D%/nixl_region_open_directory.3 %D%/nixl_region_open_file.3 %D%/nixl_region_open_object.3 %D%/nixl_req.3 %D%/nixl_route_query.3 \
	%D%/nixl_signal.3 %D%/nixl_stats_query.3 %D%/nixl_team.3 %D%/nixl_version.3 %D%/nixl_xfer.3 \
	%D%/nixlrun-device.7 %D%/nixlrun-jobs.7 %D%/nixlrun-memory.7 %D%/nixlrun-observe.7 %D%/nixlrun-porting.7 \
	%D%/nixlrun-python.7 %D%/nixlrun-storage.7
dist_man_MANS += $(man_pages)
EXTRA_DIST += %D%/env-table.sh

# The names that a page has besides that of its file stand in its NAME section.
man_aliases = %D%/nixl_publish.3 %D%/nixl_publish_list.3 %D%/nixl_publish_query.3 %D%/nixl_unpublish.3 %D%/nixl_attach_rank.3 %D%/nixl_detach.3 %D%/nixl_context_open.3 %D%/nixl_context_close.3 %D%/nixl_cq_open.3 %D%/nixl_cq_wait.3 \
	%D%/nixl_cq_cancel.3 %D%/nixl_cq_fd.3 %D%/nixl_cq_arm.3 %D%/nixl_cq_close.3 \
	%D%/nixl_event_recv_x.3 %D%/nixl_notify_x.3 %D%/nixl_notify_recv_x.3 %D%/nixl_signal_wait_x.3 \
	%D%/nixl_xfer_start_x.3 %D%/nixl_team_node_x.3 %D%/nixl_team_strided_x.3 %D%/nixl_flush_x.3 \
	%D%/nixl_region_open_x.3 \
	%D%/nixl_object_delete.3 %D%/nixl_object_list.3 %D%/nixl_object_stat.3 \
	%D%/nixl_abort.3 %D%/nixl_channel_acquire.3 %D%/nixl_channel_close.3 \
	%D%/nixl_channel_open.3 %D%/nixl_channel_publish.3 %D%/nixl_channel_recv.3 \
	%D%/nixl_channel_release.3 %D%/nixl_atomic_compare_swap.3 %D%/nixl_event_arm.3 %D%/nixl_event_fd.3 %D%/nixl_event_recv.3 \
	%D%/nixl_job_end.3 %D%/nixl_rank_kill.3 \
	%D%/nixl_local_rank.3 %D%/nixl_local_size.3 %D%/nixl_program.3 \
	%D%/nixl_fence.3 %D%/nixl_finalize.3 %D%/nixl_finalize_x.3 %D%/nixl_get.3 %D%/nixl_get_x.3 \
	%D%/nixl_get_strided.3 %D%/nixl_put_strided.3 \
	%D%/nixl_get_notify.3 %D%/nixl_host.3 %D%/nixl_last_error.3 %D%/nixl_log_set_fn.3 \
	%D%/nixl_grant_create.3 %D%/nixl_grant_query.3 %D%/nixl_grant_renew.3 %D%/nixl_grant_revoke.3 \
	%D%/nixl_pair_decline.3 %D%/nixl_pair_expose.3 %D%/nixl_pair_query.3 \
	%D%/nixl_pair_read.3 %D%/nixl_pair_write.3 \
	%D%/nixl_note_init.3 %D%/nixl_notify_recv.3 %D%/nixl_incarnation.3 %D%/nixl_peer_number.3 %D%/nixl_peer_query.3 %D%/nixl_peer_readmit.3 %D%/nixl_peer_state.3 %D%/nixl_put_x.3 \
	%D%/nixl_put_notify.3 %D%/nixl_put_signal.3 %D%/nixl_rank.3 %D%/nixl_region_addr.3 %D%/nixl_region_alloc.3 \
	%D%/nixl_region_close.3 %D%/nixl_region_is_published.3 %D%/nixl_region_map.3 \
	%D%/nixl_region_of.3 %D%/nixl_region_nbytes.3 \
	%D%/nixl_region_open.3 %D%/nixl_region_query.3 %D%/nixl_region_query_extent.3 \
	%D%/nixl_region_register.3 %D%/nixl_region_register_extents.3 \
	%D%/nixl_region_unmap.3 %D%/nixl_question_cancel.3 %D%/nixl_req_cancel.3 %D%/nixl_req_detach.3 %D%/nixl_req_test.3 \
	%D%/nixl_req_wait.3 %D%/nixl_req_wait_any.3 %D%/nixl_route_query_segment.3 %D%/nixl_scope.3 %D%/nixl_signal_add.3 %D%/nixl_signal_set.3 \
	%D%/nixl_signal_wait.3 %D%/nixl_stats_sum.3 %D%/nixl_signal_wait_any.3 %D%/nixl_size.3 \
	%D%/nixl_word_wait.3 %D%/nixl_word_wait_any.3 \
	%D%/nixl_atomic_x.3 %D%/nixl_atomic_post.3 %D%/nixl_atomic_compare_swap_x.3 %D%/nixl_signal_x.3 \
	%D%/nixl_team_world.3 %D%/nixl_team_node.3 %D%/nixl_team_create.3 \
	%D%/nixl_team_world_x.3 %D%/nixl_team_create_x.3 %D%/nixl_team_split_x.3 \
	%D%/nixl_team_strided.3 %D%/nixl_team_split.3 %D%/nixl_team_shrink.3 \
	%D%/nixl_team_reform.3 %D%/nixl_team_reform_x.3 \
	%D%/nixl_team_free.3 %D%/nixl_team_size.3 %D%/nixl_team_rank.3 %D%/nixl_team_translate.3 \
	%D%/nixl_barrier.3 %D%/nixl_barrier_x.3 %D%/nixl_broadcast.3 %D%/nixl_broadcast_x.3 \
	%D%/nixl_gather.3 %D%/nixl_gather_x.3 %D%/nixl_gatherv.3 %D%/nixl_gatherv_x.3 \
	%D%/nixl_scatter.3 %D%/nixl_scatter_x.3 %D%/nixl_scatterv.3 %D%/nixl_scatterv_x.3 \
	%D%/nixl_allgather.3 %D%/nixl_allgather_x.3 %D%/nixl_allgatherv.3 \
	%D%/nixl_allgatherv_x.3 %D%/nixl_alltoall.3 %D%/nixl_alltoall_x.3 %D%/nixl_alltoallv.3 \
	%D%/nixl_alltoall_strided.3 %D%/nixl_alltoall_strided_x.3 \
	%D%/nixl_coll_free.3 %D%/nixl_coll_start.3 %D%/nixl_coll_start_x.3 \
	%D%/nixl_alltoallv_x.3 %D%/nixl_reduce_x.3 %D%/nixl_allreduce.3 \
	%D%/nixl_allreduce_x.3 %D%/nixl_reduce_scatter.3 %D%/nixl_reduce_scatter_x.3 \
	%D%/nixl_scan.3 %D%/nixl_scan_x.3 \
	%D%/nixl_strerror.3 %D%/nixl_xfer_cancel.3 %D%/nixl_xfer_create.3 %D%/nixl_xfer_free.3 \
	%D%/nixl_xfer_query.3 %D%/nixl_xfer_set_index.3 %D%/nixl_xfer_start.3 \
	%D%/nixl_xfer_wait.3
man_MANS = $(man_aliases)
CLEANFILES += $(man_aliases)
$(man_aliases): $(man_pages)
	$(AM_V_GEN)$(MKDIR_P) $(@D); name=`basename $@ .3`; \
	page=`cd $(srcdir)/%D% && grep -lE "^($$name|.*, $$name)(,| \\\\\\\\-)" *.3` && \
	echo ".so man3/$$page" >$@
