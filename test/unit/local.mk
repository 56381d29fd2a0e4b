# SPDX-License-Identifier: Apache-2.0
# Tests of parts of the library in one process: Criterion, one program per source file.
if HAVE_CRITERION
unit_cflags = $(AM_CFLAGS) $(CRITERION_CFLAGS)
# A folder's tests link that folder and what is below it (test/metrics/floors), so that a call upwards does
# not link: floor_FOLDER for the tests of src/FOLDER, which test/check-layers.sh checks. floor_src is all of
# the library, for tests of what init.c does. FAKE_FOLDER_... gives the made-up job of fake_job.c as much.
floor_src = src/libnixlrun_core.la
floor_util = src/util/libnxr_util.la
floor_etcd = src/etcd/libnxr_etcd_pure.la $(floor_util)
floor_storage = storage/libnxr_s3_pure.la storage/libnxr_storage.la $(floor_util)
floor_core = src/libnxr_core.la transports/libnxr_transport.la $(floor_util)
floor_memory = src/libnxr_memory.la storage/libnxr_storage.la src/memory/kernels/libnxr_kernels.la src/util/libnxr_locality.la \
	$(floor_core)
floor_control = src/libnxr_control.la $(floor_memory)
floor_region = src/libnxr_region.la $(floor_control)
floor_host = src/libnxr_host.la $(floor_region)
floor_net = src/libnxr_net.la $(floor_region)
floor_transports = transports/libnxr_transports.la $(floor_memory)
floor_boot = src/libnxr_boot.la $(floor_core)
floor_attach = src/libnxr_attach.la $(floor_host)
floor_transfer = src/libnxr_transfer.la transports/libnxr_transports.la src/libnxr_host.la $(floor_net)
floor_sync = src/libnxr_sync.la $(floor_transfer)
floor_pair = src/libnxr_pair.la $(floor_sync)
floor_grant = src/libnxr_grant.la $(floor_sync)
floor_collective = src/libnxr_collective.la $(floor_sync)
unit_launcher_libs = launcher/libnxr_launcher.la $(CRITERION_LIBS)
# One program a line, sorted: two changes that each add a test rarely conflict.
unit_programs = \
	%D%/abi \
	%D%/adapters \
	%D%/atomic \
	%D%/atomic_ring \
	%D%/attach \
	%D%/attached \
	%D%/available \
	%D%/bounce \
	%D%/call \
	%D%/card \
	%D%/coll_table \
	%D%/combine \
	%D%/conn \
	%D%/control \
	%D%/copy \
	%D%/copy_crew \
	%D%/cores \
	%D%/cuda \
	%D%/cuda_copy \
	%D%/cuda_scatter \
	%D%/cuda_share \
	%D%/deathwatch \
	%D%/detector \
	%D%/device_copy \
	%D%/engine_slurm \
	%D%/env \
	%D%/extents \
	%D%/frame \
	%D%/grant \
	%D%/guardian \
	%D%/handle \
	%D%/identity \
	%D%/inflight \
	%D%/init \
	%D%/input \
	%D%/job_end \
	%D%/large \
	%D%/liveness \
	%D%/local_socket \
	%D%/locality \
	%D%/log \
	%D%/meeting \
	%D%/module \
	%D%/net \
	%D%/net_alive \
	%D%/net_calls \
	%D%/pair_claim \
	%D%/inbox \
	%D%/net_choice \
	%D%/net_connect \
	%D%/net_end \
	%D%/net_hostile \
	%D%/net_list \
	%D%/net_memory \
	%D%/net_reach \
	%D%/net_posted \
	%D%/net_refusal \
	%D%/notify \
	%D%/observe \
	%D%/options \
	%D%/packet \
	%D%/peer_slot \
	%D%/placement \
	%D%/question \
	%D%/rejoined \
	%D%/request \
	%D%/ring \
	%D%/segment_open \
	%D%/shares \
	%D%/sink \
	%D%/stats \
	%D%/status \
	%D%/stream \
	%D%/stream_signal \
	%D%/struct \
	%D%/table \
	%D%/tcp \
	%D%/tcp_choice \
	%D%/tcp_ep \
	%D%/tcp_health \
	%D%/tcp_pieces \
	%D%/tcp_rails \
	%D%/team_loss \
	%D%/thread \
	%D%/thread_priority \
	%D%/tmpdir \
	%D%/token \
	%D%/trace \
	%D%/unsent \
	%D%/upcall \
	%D%/values \
	%D%/vm \
	%D%/waits \
	%D%/wire \
	%D%/wire_team \
	%D%/xfer_batch \
	%D%/world
if WITH_DEBUG
unit_programs += %D%/contract
endif
EXTRA_PROGRAMS += $(unit_programs)
TESTS += $(unit_programs)

%C%_abi_CFLAGS = $(unit_cflags)
%C%_abi_LDADD = $(floor_src) $(CRITERION_LIBS)
%C%_attach_CFLAGS = $(unit_cflags)
%C%_attach_LDADD = $(floor_attach) $(NETTLE_LIBS) $(CRITERION_LIBS)
%C%_attached_SOURCES = %D%/attached.c $(fake_job)
%C%_attached_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_HOST
%C%_attached_CFLAGS = $(unit_cflags)
%C%_attached_LDADD = $(floor_host) $(CRITERION_LIBS)
%C%_adapters_CFLAGS = $(unit_cflags)
%C%_adapters_LDADD = $(floor_util) $(CRITERION_LIBS)
%C%_available_CFLAGS = $(unit_cflags)
%C%_available_LDADD = $(floor_util) $(CRITERION_LIBS)
%C%_bounce_CFLAGS = $(unit_cflags)
%C%_bounce_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=nxr_inflight_claim_own \
	-Wl,--wrap=nxr_publish_memory -Wl,--wrap=nxr_device_copy_begin
%C%_bounce_LDADD = $(floor_src) $(CRITERION_LIBS)
%C%_call_CFLAGS = $(unit_cflags) $(PMIX_CFLAGS)
%C%_call_LDADD = $(floor_boot) $(CRITERION_LIBS) $(PMIX_LIBS)
%C%_coll_table_CFLAGS = $(unit_cflags)
%C%_coll_table_LDADD = $(floor_util) $(CRITERION_LIBS)
%C%_combine_CFLAGS = $(unit_cflags)
%C%_combine_LDADD = $(floor_collective) $(CRITERION_LIBS) -lm
%C%_conn_SOURCES = %D%/conn.c $(fake_job)
%C%_conn_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_HOST
%C%_conn_CFLAGS = $(unit_cflags)
%C%_conn_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=nxr_service_watch
%C%_conn_LDADD = $(floor_host) $(CRITERION_LIBS)
%C%_control_CFLAGS = $(unit_cflags)
%C%_control_LDADD = $(floor_core) $(CRITERION_LIBS)
%C%_copy_crew_CFLAGS = $(unit_cflags)
%C%_copy_crew_LDADD = $(floor_transfer) $(CRITERION_LIBS)
%C%_cores_CFLAGS = $(unit_cflags) $(PMIX_CFLAGS)
%C%_cores_LDADD = $(floor_boot) $(CRITERION_LIBS) $(PMIX_LIBS)
%C%_module_CFLAGS = $(unit_cflags)
%C%_module_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dlopen
%C%_module_LDADD = $(floor_util) $(CRITERION_LIBS)
# The rpath is never used: it makes libtool build the module as a shared object.
check_LTLIBRARIES += %D%/nixlrun_taker.la
%C%_nixlrun_taker_la_SOURCES = %D%/nixlrun_taker.c
%C%_nixlrun_taker_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
%C%_meeting_CFLAGS = $(unit_cflags) $(PMIX_CFLAGS)
%C%_meeting_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=PMIx_Fence_nb -Wl,--wrap=PMIx_Get \
	-Wl,--wrap=PMIx_Query_info_nb -Wl,--wrap=PMIx_Resolve_peers -Wl,--wrap=nxr_call_new
%C%_meeting_LDADD = $(floor_boot) $(CRITERION_LIBS) $(PMIX_LIBS)
%C%_tmpdir_CFLAGS = $(unit_cflags)
%C%_tmpdir_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=open
%C%_tmpdir_LDADD = $(unit_launcher_libs)
%C%_request_LDADD = $(floor_core) $(CRITERION_LIBS)
%C%_contract_SOURCES = %D%/contract.c $(fake_net)
%C%_contract_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_TRANSFER
%C%_contract_CFLAGS = $(unit_cflags)
%C%_contract_LDADD = $(floor_transfer) $(CRITERION_LIBS)
%C%_copy_CFLAGS = $(unit_cflags)
%C%_copy_LDADD = $(floor_util) $(CRITERION_LIBS)
cuda_case = %D%/cuda_case.c %D%/cuda_case.h
cuda_cppflags = $(AM_CPPFLAGS) -DSTAND_IN='"$(abs_top_builddir)/test/cuda/.libs/libcuda.so.1"'
%C%_cuda_SOURCES = %D%/cuda.c %D%/cuda_abi.c $(cuda_case)
%C%_cuda_CPPFLAGS = $(cuda_cppflags)
%C%_cuda_CFLAGS = $(unit_cflags)
%C%_cuda_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=nxr_cuda_classify
%C%_cuda_LDADD = $(floor_memory) $(CRITERION_LIBS)
%C%_cuda_copy_SOURCES = %D%/cuda_copy.c $(cuda_case)
%C%_cuda_copy_CPPFLAGS = $(cuda_cppflags)
%C%_cuda_copy_CFLAGS = $(unit_cflags)
%C%_cuda_copy_LDADD = $(floor_memory) $(CRITERION_LIBS)
%C%_cuda_scatter_SOURCES = %D%/cuda_scatter.c $(cuda_case)
%C%_cuda_scatter_CPPFLAGS = $(cuda_cppflags)
%C%_cuda_scatter_CFLAGS = $(unit_cflags)
%C%_cuda_scatter_LDADD = $(floor_memory) $(CRITERION_LIBS)
%C%_cuda_share_SOURCES = %D%/cuda_share.c $(cuda_case)
%C%_cuda_share_CPPFLAGS = $(cuda_cppflags)
%C%_cuda_share_CFLAGS = $(unit_cflags)
%C%_cuda_share_LDADD = $(floor_memory) $(CRITERION_LIBS)
%C%_deathwatch_CFLAGS = $(unit_cflags)
%C%_deathwatch_LDADD = $(floor_host) $(CRITERION_LIBS)
%C%_detector_CFLAGS = $(unit_cflags)
%C%_detector_LDADD = $(floor_control) $(CRITERION_LIBS)
%C%_device_copy_CFLAGS = $(unit_cflags)
%C%_device_copy_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_mutex_lock
%C%_device_copy_LDADD = $(floor_memory) $(CRITERION_LIBS)
%C%_question_CFLAGS = $(unit_cflags)
%C%_question_LDADD = $(floor_control) $(CRITERION_LIBS)
%C%_env_CFLAGS = $(unit_cflags)
%C%_env_LDADD = $(floor_util) $(CRITERION_LIBS)
unit_programs += %D%/file_grow
%C%_file_grow_CFLAGS = $(unit_cflags)
%C%_file_grow_LDADD = $(floor_memory) $(CRITERION_LIBS)
unit_programs += %D%/file_trial
%C%_file_trial_CFLAGS = $(unit_cflags)
%C%_file_trial_LDADD = $(floor_memory) $(CRITERION_LIBS)
unit_programs += %D%/foreign %D%/foreign_output %D%/host_memory %D%/verdict
unit_programs += %D%/rendezvous
%C%_rendezvous_CFLAGS = $(unit_cflags)
%C%_rendezvous_LDADD = $(unit_launcher_libs)
unit_programs += %D%/reach
%C%_reach_CFLAGS = $(unit_cflags)
%C%_reach_LDADD = $(unit_launcher_libs)
unit_programs += %D%/top
%C%_top_CFLAGS = $(unit_cflags)
%C%_top_LDADD = $(unit_launcher_libs)
foreign_case = %D%/foreign_case.c %D%/foreign_case.h
foreign_wraps = -Wl,--wrap=clock_gettime -Wl,--wrap=guardian_signal -Wl,--wrap=guardian_start \
	-Wl,--wrap=guardian_kill_all -Wl,--wrap=getaddrinfo -Wl,--wrap=freeaddrinfo
%C%_engine_slurm_CFLAGS = $(unit_cflags)
%C%_engine_slurm_LDADD = $(unit_launcher_libs)
%C%_foreign_SOURCES = %D%/foreign.c $(foreign_case)
%C%_foreign_CFLAGS = $(unit_cflags)
%C%_foreign_LDFLAGS = $(AM_LDFLAGS) $(foreign_wraps)
%C%_foreign_LDADD = $(unit_launcher_libs)
%C%_verdict_SOURCES = %D%/verdict.c $(foreign_case)
%C%_verdict_CFLAGS = $(unit_cflags)
%C%_verdict_LDFLAGS = $(AM_LDFLAGS) $(foreign_wraps)
%C%_verdict_LDADD = $(unit_launcher_libs)
%C%_foreign_output_SOURCES = %D%/foreign_output.c $(foreign_case)
%C%_foreign_output_CFLAGS = $(unit_cflags)
%C%_foreign_output_LDFLAGS = $(AM_LDFLAGS) $(foreign_wraps)
%C%_foreign_output_LDADD = $(unit_launcher_libs)
%C%_frame_CFLAGS = $(unit_cflags)
%C%_frame_LDADD = $(unit_launcher_libs)
%C%_rejoined_SOURCES = %D%/rejoined.c $(fake_job)
%C%_rejoined_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_ATTACH
%C%_rejoined_CFLAGS = $(unit_cflags)
%C%_rejoined_LDADD = $(floor_attach) $(CRITERION_LIBS)
%C%_unsent_SOURCES = %D%/unsent.c $(fake_job)
%C%_unsent_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_HOST
%C%_unsent_CFLAGS = $(unit_cflags)
%C%_unsent_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
%C%_unsent_LDADD = $(floor_host) $(CRITERION_LIBS)
%C%_upcall_CFLAGS = $(unit_cflags) $(PMIX_CFLAGS)
%C%_upcall_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=PMIx_server_deregister_client
%C%_upcall_LDADD = $(unit_launcher_libs)
%C%_init_CFLAGS = $(unit_cflags)
%C%_init_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=epoll_ctl -Wl,--wrap=eventfd
%C%_init_LDADD = $(floor_src) $(CRITERION_LIBS)
%C%_job_end_CFLAGS = $(unit_cflags)
%C%_job_end_LDADD = $(floor_boot) $(CRITERION_LIBS) $(PMIX_LIBS)
%C%_inflight_CFLAGS = $(unit_cflags)
%C%_inflight_LDADD = $(floor_core) $(CRITERION_LIBS)
%C%_grant_SOURCES = %D%/grant.c $(fake_job)
%C%_grant_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_SYNC
%C%_grant_CFLAGS = $(unit_cflags)
%C%_grant_LDADD = $(floor_grant) $(CRITERION_LIBS)
%C%_guardian_CFLAGS = $(unit_cflags)
%C%_guardian_LDADD = $(unit_launcher_libs)
%C%_handle_CFLAGS = $(unit_cflags)
%C%_handle_LDADD = $(floor_util) $(CRITERION_LIBS)
%C%_host_memory_CFLAGS = $(unit_cflags)
%C%_host_memory_LDADD = $(floor_memory) $(CRITERION_LIBS)
%C%_identity_CFLAGS = $(unit_cflags)
%C%_identity_LDADD = $(floor_core) $(CRITERION_LIBS)
%C%_observe_CFLAGS = $(unit_cflags)
%C%_observe_LDADD = $(floor_core) $(CRITERION_LIBS)
%C%_stats_CFLAGS = $(unit_cflags)
%C%_stats_LDADD = $(floor_core) $(CRITERION_LIBS)
%C%_packet_CFLAGS = $(unit_cflags)
%C%_packet_LDADD = $(floor_host) $(CRITERION_LIBS)
%C%_extents_CFLAGS = $(unit_cflags)
%C%_extents_LDADD = $(floor_region) $(CRITERION_LIBS)
%C%_large_CFLAGS = $(unit_cflags)
%C%_large_LDADD = $(floor_transfer) $(CRITERION_LIBS)
%C%_xfer_batch_CFLAGS = $(unit_cflags)
%C%_xfer_batch_LDADD = $(floor_transfer) $(CRITERION_LIBS)
%C%_liveness_SOURCES = %D%/liveness.c $(fake_job)
%C%_liveness_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_HOST
%C%_liveness_CFLAGS = $(unit_cflags)
%C%_liveness_LDADD = $(floor_host) $(CRITERION_LIBS)
%C%_local_socket_CFLAGS = $(unit_cflags)
%C%_local_socket_LDADD = $(floor_host) $(CRITERION_LIBS)
%C%_segment_open_SOURCES = %D%/segment_open.c $(fake_job)
%C%_segment_open_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_HOST
%C%_segment_open_CFLAGS = $(unit_cflags)
%C%_segment_open_LDADD = $(floor_host) $(CRITERION_LIBS)
%C%_locality_SOURCES = %D%/locality.c %D%/topology.c %D%/topology.h
%C%_locality_CFLAGS = $(unit_cflags) $(HWLOC_CFLAGS)
%C%_locality_LDADD = $(floor_memory) $(CRITERION_LIBS)
%C%_log_CFLAGS = $(unit_cflags)
%C%_log_LDADD = $(floor_util) $(CRITERION_LIBS)
fake_job = %D%/fake_job.c %D%/fake_job.h
fake_net = %D%/net_case.h %D%/fake_net.c %D%/fake_message.c %D%/fake_net.h $(fake_job)
%C%_net_SOURCES = %D%/net.c $(fake_net)
%C%_net_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_NET
%C%_net_CFLAGS = $(unit_cflags)
%C%_net_LDADD = $(floor_net) $(CRITERION_LIBS)
%C%_net_alive_SOURCES = %D%/net_alive.c $(fake_net)
%C%_net_alive_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_NET
%C%_net_alive_CFLAGS = $(unit_cflags)
%C%_net_alive_LDADD = $(floor_net) $(CRITERION_LIBS)
%C%_net_choice_CFLAGS = $(unit_cflags)
%C%_net_choice_LDADD = $(floor_net) $(CRITERION_LIBS)
%C%_net_reach_SOURCES = %D%/net_reach.c $(fake_net)
%C%_net_reach_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_TRANSFER
%C%_net_reach_CFLAGS = $(unit_cflags)
%C%_net_reach_LDADD = $(floor_transfer) $(CRITERION_LIBS)
%C%_inbox_SOURCES = %D%/inbox.c $(fake_net)
%C%_inbox_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_SYNC
%C%_inbox_CFLAGS = $(unit_cflags)
%C%_inbox_LDADD = $(floor_sync) $(CRITERION_LIBS)
%C%_inbox_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=nxr_net_send_credit
%C%_pair_claim_SOURCES = %D%/pair_claim.c $(fake_net)
%C%_pair_claim_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_SYNC
%C%_pair_claim_CFLAGS = $(unit_cflags)
%C%_pair_claim_LDADD = $(floor_pair) $(CRITERION_LIBS)
%C%_net_calls_SOURCES = %D%/net_calls.c $(fake_net)
%C%_net_calls_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_SYNC
%C%_net_calls_CFLAGS = $(unit_cflags)
%C%_net_calls_LDADD = $(floor_sync) $(CRITERION_LIBS)
%C%_net_posted_SOURCES = %D%/net_posted.c $(fake_net)
%C%_net_posted_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_NET
%C%_net_posted_CFLAGS = $(unit_cflags)
%C%_net_posted_LDADD = $(floor_net) $(CRITERION_LIBS)
%C%_net_refusal_SOURCES = %D%/net_refusal.c $(fake_net)
%C%_net_refusal_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_SYNC
%C%_net_refusal_CFLAGS = $(unit_cflags)
%C%_net_refusal_LDADD = $(floor_sync) $(CRITERION_LIBS)
%C%_net_connect_SOURCES = %D%/net_connect.c $(fake_net)
%C%_net_connect_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_NET
%C%_net_connect_CFLAGS = $(unit_cflags)
%C%_net_connect_LDADD = $(floor_net) $(CRITERION_LIBS)
%C%_net_end_SOURCES = %D%/net_end.c $(fake_net)
%C%_net_end_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_NET
%C%_net_end_CFLAGS = $(unit_cflags)
%C%_net_end_LDADD = $(floor_net) $(CRITERION_LIBS)
%C%_net_memory_SOURCES = %D%/net_memory.c $(fake_net)
%C%_net_memory_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_SYNC
%C%_net_memory_CFLAGS = $(unit_cflags)
%C%_net_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc
%C%_net_memory_LDADD = $(floor_sync) $(CRITERION_LIBS)
%C%_net_hostile_SOURCES = %D%/net_hostile.c $(fake_net)
%C%_net_hostile_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_NET
%C%_net_hostile_CFLAGS = $(unit_cflags)
%C%_net_hostile_LDADD = $(floor_net) $(CRITERION_LIBS)
%C%_net_list_SOURCES = %D%/net_list.c $(fake_net)
%C%_net_list_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_NET
%C%_net_list_CFLAGS = $(unit_cflags)
%C%_net_list_LDADD = $(floor_net) $(CRITERION_LIBS)
%C%_notify_SOURCES = %D%/notify.c $(fake_net)
%C%_notify_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_SYNC
%C%_notify_CFLAGS = $(unit_cflags)
%C%_notify_LDADD = $(floor_sync) $(CRITERION_LIBS)
%C%_peer_slot_CFLAGS = $(unit_cflags)
%C%_peer_slot_LDADD = $(floor_core) $(CRITERION_LIBS)
%C%_trace_CFLAGS = $(unit_cflags)
%C%_trace_LDADD = $(unit_launcher_libs)
%C%_waits_CFLAGS = $(unit_cflags)
%C%_waits_LDADD = $(unit_launcher_libs)
%C%_options_CFLAGS = $(unit_cflags)
%C%_options_LDADD = $(unit_launcher_libs)
%C%_placement_CFLAGS = $(unit_cflags)
%C%_placement_LDADD = $(unit_launcher_libs)
%C%_team_loss_SOURCES = %D%/team_loss.c $(fake_job)
%C%_team_loss_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_FOLDER_SYNC
%C%_team_loss_CFLAGS = $(unit_cflags)
%C%_team_loss_LDADD = $(floor_collective) $(CRITERION_LIBS) -lm
%C%_thread_priority_CFLAGS = $(unit_cflags)
%C%_thread_priority_LDADD = $(floor_util) $(CRITERION_LIBS)
%C%_ring_CFLAGS = $(unit_cflags)
%C%_ring_LDADD = $(floor_util) $(CRITERION_LIBS)
%C%_shares_CFLAGS = $(unit_cflags)
%C%_shares_LDADD = $(floor_collective) $(CRITERION_LIBS) -lm
%C%_input_CFLAGS = $(unit_cflags)
%C%_input_LDADD = $(unit_launcher_libs)
%C%_sink_CFLAGS = $(unit_cflags) $(PMIX_CFLAGS)
%C%_sink_LDADD = $(unit_launcher_libs)
%C%_stream_CFLAGS = $(unit_cflags) $(PMIX_CFLAGS)
%C%_stream_LDADD = $(unit_launcher_libs)
%C%_status_CFLAGS = $(unit_cflags)
%C%_status_LDADD = $(floor_util) $(CRITERION_LIBS)
%C%_struct_CFLAGS = $(unit_cflags)
%C%_struct_LDADD = $(floor_util) $(CRITERION_LIBS)
%C%_stream_signal_CFLAGS = $(unit_cflags)
%C%_stream_signal_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=nxr_memory_stream_kind
%C%_stream_signal_LDADD = $(floor_src) $(CRITERION_LIBS)
%C%_table_CFLAGS = $(unit_cflags)
%C%_table_LDADD = $(unit_launcher_libs)
%C%_tcp_CFLAGS = $(unit_cflags)
%C%_tcp_LDADD = transports/tcp/libnxr_tcp_pure.la $(CRITERION_LIBS)
%C%_tcp_choice_SOURCES = %D%/tcp_choice.c
%C%_tcp_choice_CFLAGS = $(unit_cflags)
%C%_tcp_choice_LDADD = transports/tcp/libnxr_tcp_pure.la $(CRITERION_LIBS)
%C%_tcp_ep_SOURCES = %D%/tcp_ep.c transports/tcp/connect.c transports/tcp/ops.c \
	transports/tcp/outbox.c transports/tcp/pieces.c transports/tcp/stripes.c transports/reason.c
%C%_tcp_ep_CFLAGS = $(unit_cflags)
%C%_tcp_ep_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=connect -Wl,--wrap=send -Wl,--wrap=sendmsg
%C%_tcp_ep_LDADD = transports/tcp/libnxr_tcp_pure.la $(CRITERION_LIBS)
%C%_tcp_health_SOURCES = %D%/tcp_health.c transports/reason.c transports/tcp_health.c
%C%_tcp_health_CFLAGS = $(unit_cflags)
%C%_tcp_health_LDADD = $(CRITERION_LIBS)
%C%_tcp_pieces_SOURCES = %D%/tcp_pieces.c transports/tcp/ops.c transports/tcp/pieces.c \
	transports/tcp/stripes.c
%C%_tcp_pieces_CFLAGS = $(unit_cflags)
%C%_tcp_pieces_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=send
%C%_tcp_pieces_LDADD = transports/tcp/libnxr_tcp_pure.la $(CRITERION_LIBS)
%C%_tcp_rails_SOURCES = %D%/tcp_rails.c transports/tcp/ops.c transports/tcp/outbox.c \
	transports/tcp/pieces.c transports/tcp/rails.c transports/tcp/stripes.c
%C%_tcp_rails_CFLAGS = $(unit_cflags)
%C%_tcp_rails_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=bind -Wl,--wrap=connect -Wl,--wrap=send \
	-Wl,--wrap=sendmsg
%C%_tcp_rails_LDADD = transports/tcp/libnxr_tcp_pure.la $(CRITERION_LIBS)
%C%_thread_CFLAGS = $(unit_cflags)
%C%_thread_LDADD = $(floor_util) $(CRITERION_LIBS)
%C%_token_CFLAGS = $(unit_cflags)
%C%_token_LDADD = $(floor_core) $(CRITERION_LIBS)
%C%_values_CFLAGS = $(unit_cflags)
%C%_values_LDADD = $(unit_launcher_libs)
%C%_vm_CFLAGS = $(unit_cflags)
%C%_vm_LDADD = $(floor_transports) $(CRITERION_LIBS)
%C%_card_CFLAGS = $(unit_cflags)
%C%_card_LDADD = $(floor_control) $(CRITERION_LIBS)
%C%_wire_CFLAGS = $(unit_cflags)
%C%_wire_LDADD = $(floor_control) $(CRITERION_LIBS)
%C%_wire_team_CFLAGS = $(unit_cflags)
%C%_wire_team_LDADD = $(floor_control) $(CRITERION_LIBS)
%C%_atomic_CFLAGS = $(unit_cflags)
%C%_atomic_LDADD = $(floor_util) $(CRITERION_LIBS)
%C%_atomic_ring_CFLAGS = $(unit_cflags)
%C%_atomic_ring_LDADD = $(floor_host) $(CRITERION_LIBS)
%C%_world_SOURCES = %D%/world.c launcher/rank_world.c
%C%_world_CFLAGS = $(unit_cflags)
%C%_world_LDADD = $(unit_launcher_libs)
if HAVE_VULKAN
EXTRA_PROGRAMS += %D%/vulkan %D%/vulkan_cuda %D%/vulkan_fault
TESTS += %D%/vulkan %D%/vulkan_cuda %D%/vulkan_fault %D%/vulkan_layers.sh
%C%_vulkan_SOURCES = %D%/vulkan.c %D%/vulkan_case.h
%C%_vulkan_CFLAGS = $(unit_cflags)
%C%_vulkan_LDADD = $(floor_memory) $(CRITERION_LIBS)
%C%_vulkan_cuda_SOURCES = %D%/vulkan_cuda.c %D%/vulkan_case.h
%C%_vulkan_cuda_CFLAGS = $(unit_cflags)
%C%_vulkan_cuda_CPPFLAGS = $(cuda_cppflags)
%C%_vulkan_cuda_LDADD = $(floor_memory) $(CRITERION_LIBS)
%C%_vulkan_fault_SOURCES = %D%/vulkan_fault.c %D%/vulkan_case.h
%C%_vulkan_fault_CFLAGS = $(unit_cflags)
%C%_vulkan_fault_LDADD = $(floor_memory) $(CRITERION_LIBS)
endif
if HAVE_UCX
EXTRA_PROGRAMS += %D%/ucx_bulk %D%/ucx_endpoint %D%/ucx_message
TESTS += %D%/ucx_bulk %D%/ucx_endpoint %D%/ucx_message
ucx_case = %D%/ucx_case.c %D%/ucx_case.h
%C%_ucx_bulk_SOURCES = %D%/ucx_bulk.c transports/ucx/bulk.c transports/ucx/sender.c $(ucx_case)
%C%_ucx_bulk_CFLAGS = $(unit_cflags) $(UCX_CFLAGS)
%C%_ucx_bulk_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc
%C%_ucx_bulk_LDADD = $(CRITERION_LIBS)
%C%_ucx_endpoint_SOURCES = %D%/ucx_endpoint.c transports/ucx/endpoint.c transports/ucx/envelope.c
%C%_ucx_endpoint_CFLAGS = $(unit_cflags) $(UCX_CFLAGS)
%C%_ucx_endpoint_LDADD = $(CRITERION_LIBS)
%C%_ucx_message_SOURCES = %D%/ucx_message.c transports/ucx/message.c $(ucx_case)
%C%_ucx_message_CFLAGS = $(unit_cflags) $(UCX_CFLAGS)
%C%_ucx_message_LDADD = $(CRITERION_LIBS)
endif
if HAVE_ETCD
EXTRA_PROGRAMS += %D%/etcd
TESTS += %D%/etcd
%C%_etcd_CFLAGS = $(unit_cflags)
%C%_etcd_LDADD = $(floor_etcd) $(JANSSON_LIBS) $(NETTLE_LIBS) $(CRITERION_LIBS)
endif
if HAVE_LIBURING
EXTRA_PROGRAMS += %D%/uring
TESTS += %D%/uring
%C%_uring_SOURCES = %D%/uring.c storage/uring/uring.c
%C%_uring_CFLAGS = $(unit_cflags) $(LIBURING_CFLAGS)
%C%_uring_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=io_uring_submit,--wrap=io_uring_enter2
%C%_uring_LDADD = $(LIBURING_LIBS) $(CRITERION_LIBS)
endif
EXTRA_PROGRAMS += %D%/directory %D%/directory_list %D%/object_part %D%/s3 %D%/storage_move
TESTS += %D%/directory %D%/directory_list %D%/object_part %D%/s3 %D%/storage_move
%C%_directory_CFLAGS = $(unit_cflags)
%C%_directory_LDADD = $(floor_storage) $(NETTLE_LIBS) $(CRITERION_LIBS)
%C%_directory_list_CFLAGS = $(unit_cflags)
%C%_directory_list_LDADD = $(floor_storage) $(NETTLE_LIBS) $(CRITERION_LIBS)
%C%_storage_move_CFLAGS = $(unit_cflags)
%C%_storage_move_LDADD = $(floor_storage) $(NETTLE_LIBS) $(CRITERION_LIBS)
%C%_object_part_CFLAGS = $(unit_cflags)
%C%_object_part_LDADD = $(floor_memory) $(CRITERION_LIBS)
%C%_s3_CFLAGS = $(unit_cflags)
%C%_s3_LDADD = $(floor_storage) $(NETTLE_LIBS) $(CRITERION_LIBS)
if HAVE_OFI
EXTRA_PROGRAMS += %D%/ofi %D%/ofi_peer %D%/ofi_rail %D%/ofi_repair %D%/ofi_liveness
TESTS += %D%/ofi %D%/ofi_peer %D%/ofi_rail %D%/ofi_repair %D%/ofi_liveness
%C%_ofi_SOURCES = %D%/ofi.c %D%/topology.c %D%/topology.h
%C%_ofi_CFLAGS = $(unit_cflags) $(HWLOC_CFLAGS)
%C%_ofi_LDADD = transports/ofi/libnxr_ofi_pure.la src/util/libnxr_locality.la $(CRITERION_LIBS)
%C%_ofi_peer_SOURCES = %D%/ofi_peer.c transports/ofi/aside.c transports/ofi/peer.c \
	transports/reason.c
%C%_ofi_peer_CFLAGS = $(unit_cflags) $(OFI_CFLAGS) $(HWLOC_CFLAGS)
%C%_ofi_peer_LDADD = transports/ofi/libnxr_ofi_pure.la $(CRITERION_LIBS)
%C%_ofi_rail_SOURCES = %D%/ofi_rail.c transports/ofi/rail.c
%C%_ofi_rail_CFLAGS = $(unit_cflags) $(OFI_CFLAGS) $(HWLOC_CFLAGS)
%C%_ofi_rail_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc
%C%_ofi_rail_LDADD = $(CRITERION_LIBS)
%C%_ofi_repair_SOURCES = %D%/ofi_repair.c transports/ofi/repair.c
%C%_ofi_repair_CFLAGS = $(unit_cflags) $(OFI_CFLAGS) $(HWLOC_CFLAGS)
%C%_ofi_repair_LDADD = $(CRITERION_LIBS)
%C%_ofi_liveness_SOURCES = %D%/ofi_liveness.c transports/ofi/liveness.c
%C%_ofi_liveness_CFLAGS = $(unit_cflags) $(OFI_CFLAGS) $(HWLOC_CFLAGS)
%C%_ofi_liveness_LDADD = $(CRITERION_LIBS)
endif
endif
dist_check_SCRIPTS += %D%/vulkan_layers.sh
EXTRA_DIST += %D%/directory_case.h %D%/locale_case.h %D%/loop_case.h %D%/unit.h %D%/topologies/1-nic.xml %D%/topologies/2-sockets-4-nics.xml

# Protocols of the shared memory with both sides in one process: ThreadSanitizer sees no other
# process. Plain programs, since Criterion aborts under it.
tsan_programs = %D%/tsan_close %D%/tsan_ring %D%/tsan_sleep %D%/tsan_word
EXTRA_PROGRAMS += $(tsan_programs)
TESTS += $(tsan_programs)
%C%_tsan_close_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_tsan_ring_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_tsan_sleep_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
%C%_tsan_word_LDADD = test/mp/libmptest.la src/libnixlrun_core.la
