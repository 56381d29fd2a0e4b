/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The composition of the library: the one list of its subsystems, and the steps of joining and
 * leaving the job, visible in order. Lock: init_lock serialises init and finalize and guards
 * n_inits; everything else is set before the state becomes READY, and is constant while it is
 * READY.
 */
#include "config.h"

#include "attach/attach.h"
#include "boot/boot.h"
#include "channel/channel.h"
#include "collective/teams.h"
#include "control/finalize_barrier.h"
#include "control/detector.h"
#include "control/question.h"
#include "core/carrier.h"
#include "core/context.h"
#include "core/cores.h"
#include "core/cq.h"
#include "core/event.h"
#include "core/form.h"
#include "core/life.h"
#include "core/observe.h"
#include "core/own_memory.h"
#include "core/progress.h"
#include "core/request.h"
#include "core/request_watch.h"
#include "core/returned.h"
#include "core/route.h"
#include "core/service.h"
#include "core/stats.h"
#include "core/subsystem.h"
#include "core/trace.h"
#include "core/wait.h"
#include "grant/grant.h"
#include "host/conn.h"
#include "host/deathwatch.h"
#include "host/connect.h"
#include "host/liveness.h"
#include "host/atomic_serve.h"
#include "memory/cuda/kind.h"
#include "memory/file/kind.h"
#include "memory/object/kind.h"
#include "memory/device.h"
#include "memory/memory.h"
#include "memory/vulkan/kind.h"
#include "net/net.h"
#include "pair/pair.h"
#include "region/leaving.h"
#include "region/region.h"
#include "memory/device_atomic.h"
#include "sync/notify.h"
#include "sync/stream_signal.h"
#include "transfer/copy_crew.h"
#include "transfer/copy_thread.h"
#include "transfer/staging.h"
#include "transfer/transfer.h"
#include "transfer/window.h"
#include "transfer/xfer.h"
#include "transports/gpu/gpu.h"
#include "transports/self/self.h"
#include "transports/shm/shm.h"
#include "util/clock.h"
#include "util/coll_table.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/status.h"
#include "util/struct.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BOOT_STOP_NS   (10 * NXR_S)
#define BROKEN_STOP_NS (1 * NXR_S) /* also if its descriptors are closed */

/* Only calls the log's tick: util knows no subsystems. */
static const struct nxr_subsystem log_subsystem = {.name = "log", .tick = nxr_log_tick};

/*
 * In the order of start, whatever their folder. Each slot depends on the order in this way:
 *   register      windows come before staging: copies for peers begin before what waits for such
 *                 copies is looked at
 *   tick          connect comes before conn, which then knows when a new connection becomes idle
 *   serve         subsystems that bring work (net, words, bounce) come before those that do it
 *                 (device words, device, notify, request)
 *   peer_ended    the network's operations end first and connections last, so that nothing asks
 *                 again
 *   quiesce       grant, whose leases may start transfers, xfer, copy thread and pair come first;
 *                 then region, which waits for signals of streams; then late signals; then life:
 *                 from here on this rank is gone; then windows and net, which tell other hosts
 *   stop          network modules come first: they still end operations and hold memory keys
 */
static const struct nxr_subsystem *const all_subsystems[] = {
    &log_subsystem,
    &nxr_context_subsystem,
    &nxr_cq_subsystem,
    &nxr_cq_fd_subsystem,
    &nxr_cq_watch_subsystem,
    &nxr_memory_subsystem,
    &nxr_event_subsystem,
    &nxr_net_subsystem,
    &nxr_windows_subsystem,
    &nxr_atomics_subsystem,
    &nxr_bounce_subsystem,
    &nxr_device_atomics_subsystem,
    &nxr_device_subsystem,
    &nxr_staging_subsystem,
    &nxr_transports_subsystem,
    &nxr_life_subsystem,
    &nxr_attached_subsystem,
    &nxr_returned_subsystem,
    &nxr_stream_signal_subsystem,
    &nxr_region_subsystem,
    &nxr_notify_subsystem,
    &nxr_request_subsystem,
    &nxr_request_watch_subsystem,
    &nxr_connect_subsystem,
    &nxr_conn_subsystem,
    &nxr_liveness_subsystem,
    &nxr_deathwatch_subsystem,
    &nxr_question_subsystem,
    &nxr_detach_subsystem,
    &nxr_publish_subsystem,
    &nxr_referral_subsystem,
    &nxr_storage_subsystem,
    &nxr_detector_subsystem,
    &nxr_finalize_barrier_subsystem,
    &nxr_teams_subsystem,
    &nxr_channel_subsystem,
    &nxr_pair_subsystem,
    &nxr_copy_thread_subsystem,
    &nxr_xfer_subsystem,
    &nxr_grant_subsystem,
    &nxr_flush_subsystem,
    &nxr_net_modules_subsystem,
};

/* What threads do while they wait. */
static const struct nxr_pollers all_pollers = {
    .net = nxr_net_poll,
    .asked = nxr_connect_serve_asked,
    .copy = nxr_copy_thread_help_now,
    .copy_end = nxr_copy_thread_help_ends,
    .copy_briefly = nxr_copy_thread_look,
};

void nxr_subsystems_compose(void)
{
    nxr_pollers = all_pollers;
    nxr_note_source = nxr_inbox_note_source;
    nxr_memory_register(&nxr_memory_vulkan);
    nxr_memory_register(&nxr_memory_cuda); /* after Vulkan: it may know that memory, too */
    nxr_memory_register(&nxr_memory_file);
    nxr_memory_register(&nxr_memory_object);
    nxr_transport_register(&nxr_transport_self); /* by cost */
    nxr_transport_register(&nxr_transport_shm);
    nxr_transport_register(&nxr_transport_cuda_ipc);
    nxr_transport_register(&nxr_transport_vulkan_ipc);
    nxr_carriers_set(&nxr_host_carrier, &nxr_net_carrier);
    nxr_wireup_set(&nxr_boot_wireup);
    nxr_subsystems_set(all_subsystems, sizeof(all_subsystems) / sizeof(all_subsystems[0]));
}

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int n_in_lock; /* threads that hold init_lock or wait for it */
static pthread_once_t init_is_made = PTHREAD_ONCE_INIT;

static void init_take_lock(void)
{
    atomic_fetch_add(&n_in_lock, 1);
    pthread_mutex_lock(&init_lock);
}

static void init_give_lock(void)
{
    pthread_mutex_unlock(&init_lock);
    atomic_fetch_sub(&n_in_lock, 1);
}

/* A thread that joins or leaves does not exist in the child, where nothing unlocks its mutex. */
static void after_fork(void)
{
    if (nxr_is_joined() || atomic_load(&n_in_lock) > 0) {
        atomic_store(&nxr_job.state, NXR_STATE_FORKED);
        nxr_job.size = 0; /* no rank is valid: put and get leave their fast path, too */
        nxr_job.n_numbers = 0;
        nxr_job.trace_kinds = 0; /* the parent's thread still writes into its ring */
    }
}

/* Runs once per process. */
static void init_once(void)
{
    nxr_subsystems_compose();
    pthread_atfork(NULL, NULL, after_fork);
}

/* ---- joining --------------------------------------------------------------------------------- */

static int fail_init(int status, const char *why)
{
    return nxr_fail(status, "nixl_init", -1, "", 0, "%s", why);
}

static int read_environment(void)
{
    char why[256];
    int status = nxr_env_parse(&nxr_env, why, sizeof(why));

    if (status == NIXL_OK) {
        status = nxr_log_configure(nxr_env.log, why, sizeof(why));
    }
    if (status == NIXL_OK) {
        status = nxr_coll_table_set("", 0, nxr_env.coll_table, why, sizeof(why));
    }
    return status == NIXL_OK ? status : fail_init(status, why);
}

/*
 * Spinning makes sense only while every rank of this host can have a core. Ranks that may run on
 * the same cores share them; where these are enough for all ranks, nobody need be counted.
 */
static void choose_spin_time(int n_local)
{
    const struct nxr_cores cores = nxr_cores_read();
    int n_sharing =
        cores.n_allowed < n_local ? nxr_boot_count_sharing(&nxr_job.card.head) : n_local;

    nxr_job.is_oversubscribed = nxr_cores_are_few(&cores, n_local, n_sharing);
    nxr_job.has_spare_core = nxr_cores_have_spare(&cores, n_local, n_sharing);
    nxr_copy_crew_init(nxr_job.has_spare_core ? cores.n_allowed : 0, n_sharing);
    nxr_job.copy_at_once =
        nxr_copy_crew_size() > 0 ? (uint32_t)NXR_CREW_FROM_NBYTES - 1 : UINT32_MAX;
    nxr_job.spin_ns = nxr_env.spin_time;
    nxr_info(CORE, "%d of %d ranks of this host share %d of its %d cores: %s", n_sharing, n_local,
             cores.n_allowed, cores.n_online,
             nxr_job.is_oversubscribed ? "waits yield them" : "waits spin");
}

/* Make the card and complete the identity: a job of one process is named by its nonce. */
static int make_card(const struct nxr_boot_info *boot)
{
    int status = nxr_card_make(&boot->self, &nxr_job.card);
    char why[256];

    if (status != NIXL_OK) {
        snprintf(why, sizeof(why),
                 "no random numbers for the secrets of this rank: getrandom: %s; a sandbox that "
                 "filters system calls must permit it",
                 strerror(errno));
        return fail_init(status, why);
    }
    if (boot->is_alone) {
        nxr_job.card.head.identity.job =
            nxr_hash(nxr_job.card.head.nonce, sizeof(nxr_job.card.head.nonce));
    }
    nxr_job.self = nxr_job.card.head.identity;
    nxr_job.card.head.flags |= nxr_route_is_allowed("shm") ? 0 : NXR_CARD_NOT_LOCAL;
    nxr_job.card.head.flags |= nxr_wire_card_flags();
    nxr_log_identity("nixlrun", nxr_job.rank, nxr_job.size, nxr_job.card.head.host);
    if (nxr_log_open(nxr_env.log_file) != NIXL_OK) {
        snprintf(why, sizeof(why), "NIXLRUN_LOG_FILE is '%.120s': %s", nxr_env.log_file,
                 strerror(errno));
        return fail_init(NIXL_E_INVALID_ARG, why);
    }
    if (!nxr_boot_is_nixlrun()) {
        nxr_env_warn_unknown(NULL);
    }
    return NIXL_OK;
}

/*
 * Start what this rank has of its own: shared memory, the connection to itself, the service
 * thread.
 */
static int start_host(void)
{
    struct nxr_peer *self;
    int status = nxr_own_memory_make();

    if (status != NIXL_OK) {
        return status;
    }
    /*
     * Let siblings read and write our registered memory. The call fails on systems without Yama,
     * which is harmless.
     */
    prctl(PR_SET_PTRACER, (unsigned long)getppid(), 0, 0, 0);
    self = nxr_peer_get(nxr_job.rank);
    if (self == NULL) {
        return nxr_fail_no_peer("nixl_init", nxr_job.rank);
    }
    pthread_mutex_lock(&nxr_job.lock);
    nxr_connect_self(self);
    pthread_mutex_unlock(&nxr_job.lock);
    status = nxr_service_start();
    return status == NIXL_OK ? status : fail_init(status, "cannot start the service thread");
}

/*
 * Are there ranks that shared memory may not reach? If not, networks stay closed: opening them
 * takes time and descriptors.
 */
static bool needs_networks(const struct nxr_boot_info *boot)
{
    return nxr_env.open_networks ||
           (boot->size > 1 && (boot->n_local < boot->size || nxr_env.hostid[0] != '\0' ||
                               !nxr_route_is_allowed("shm")));
}

/* Set what this rank is and how it works, before anything runs. */
static void init_begin(const struct nixl_init_params *params, const struct nxr_boot_info *boot)
{
    nxr_job.rank = boot->self.rank;
    nxr_job.size = boot->size;
    nxr_job.n_numbers = boot->size;
    nxr_job.attached = NULL;
    nxr_job.local_rank = boot->local_rank;
    nxr_job.local_size = boot->n_local;
    nxr_job.program = boot->program;
    nxr_job.is_alone = boot->is_alone;
    nxr_job.may_return = boot->may_return;
    nxr_job.self = boot->self;
    nxr_job.is_multithreaded = params->thread_level != NIXL_THREAD_SINGLE;
    nxr_job.control = NULL;
    nxr_job.peers = NULL;
    nxr_job.event_fd = -1;
    nxr_job.n_inflight_indices = 0;
    nxr_job.is_leaving = false;
    nxr_job.n_starts++;
    pthread_mutex_init(&nxr_job.lock, NULL);
    nxr_copy_thread_init();
}

/*
 * Make the card and start everything that needs it. After a failure the caller stops what was
 * started.
 */
static int start_parts(const struct nxr_boot_info *boot)
{
    char why[256];
    int status = make_card(boot);

    if (status != NIXL_OK) {
        return status;
    }
    nxr_job.peers = calloc((size_t)nxr_job.size, sizeof(*nxr_job.peers));
    if (nxr_job.peers == NULL) {
        snprintf(why, sizeof(why), "no memory for a list of %d ranks", nxr_job.size);
        return fail_init(NIXL_E_NO_MEMORY, why);
    }
    (void)nxr_observe_open();
    nxr_stats_open();
    nxr_trace_open();
    nxr_route_init();
    if (nxr_env.coll_table_file[0] != '\0') {
        status = nxr_coll_table_set(nxr_env.coll_table_file, (size_t)nxr_job.size,
                                    nxr_env.coll_table, why, sizeof(why));
        if (status != NIXL_OK) {
            return fail_init(status, why);
        }
    }
    if (needs_networks(boot)) {
        nxr_net_start(&nxr_job.card);
    }
    return start_host();
}

/* Publish the card, and wait until all ranks have. */
static int meet_all(char *why, size_t nbytes)
{
    const struct nxr_reason reason = {.kind = NXR_WAIT_START, .call = "nixl_init", .peer = -1};
    struct nxr_waiting waiting = {
        .describe = nxr_describe_reason, .about = &reason, .since_ns = nxr_now_ns()};
    int status;

    nxr_turn(&waiting);
    nxr_trace_meets(NXR_TRACE_START);
    status = nxr_boot_exchange(&nxr_job.card, nxr_env.init_timeout, why, nbytes);
    nxr_trace_has_met(NXR_TRACE_START, status);
    nxr_waiting_ends(&waiting);
    return status;
}

static int init_join(const struct nixl_init_params *params)
{
    struct nxr_boot_info boot;
    char why[256];
    int status = read_environment();

    if (status != NIXL_OK) {
        return status;
    }
    if (nxr_memory_is_kept()) {
        return fail_init(NIXL_E_UNSUPPORTED, "this process has left a job with NIXL_OP_KEEP");
    }
    if (nxr_control_is_in_process()) {
        return fail_init(NIXL_E_UNSUPPORTED,
                         "another copy of the library in this process is already this rank, "
                         "perhaps one linked statically and one loaded as a shared library: use a "
                         "single copy in all of the program");
    }
    nxr_barrier_init(); /* takes milliseconds once PMIx has made threads */
    status = nxr_boot_start(nxr_env.init_timeout, &boot, why, sizeof(why));
    if (status != NIXL_OK) {
        return fail_init(status, why);
    }
    init_begin(params, &boot);
    status = start_parts(&boot);
    if (status != NIXL_OK) {
        goto err_drop;
    }
    status = meet_all(why, sizeof(why));
    if (status != NIXL_OK) {
        fail_init(status, why);
        nxr_service_stop();
        goto err_drop;
    }
    choose_spin_time(boot.n_local);
    nxr_observe_set_life(NXR_OBSERVE_RUNNING);
    atomic_store_explicit(&nxr_job.state, NXR_STATE_READY, memory_order_release);
    nxr_boot_listen(nxr_liveness_from_launcher);
    nxr_service_kick(); /* it may now use the cards of the others */
    return NIXL_OK;

err_drop:
    nxr_subsystems_stop();
    nxr_own_memory_drop();
    nxr_boot_stop(nxr_env.finalize_timeout);
    return status;
}

/* Read and check what the caller has given; NULL leaves *params as it is. */
static int init_read_params(const struct nixl_init_params *theirs, struct nixl_init_params *params)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_init_params, NIXL_INIT_PARAMS_INIT, struct_nbytes);
    int status =
        theirs != NULL ? nxr_struct_read("nixl_init", "params", &type, theirs, params) : NIXL_OK;

    if (status != NIXL_OK) {
        return status;
    }
    if (params->thread_level != NIXL_THREAD_MULTIPLE &&
        params->thread_level != NIXL_THREAD_SINGLE) {
        return nxr_fail(NIXL_E_INVALID_ARG, "nixl_init", -1, "", 0,
                        "thread_level is %d; allowed: NIXL_THREAD_MULTIPLE (0), "
                        "NIXL_THREAD_SINGLE (1)",
                        (int)params->thread_level);
    }
    return NIXL_OK;
}

uint32_t nixl_version(void)
{
    return NIXL_VERSION;
}

int nixl_init(const struct nixl_init_params *params)
{
    struct nixl_init_params ours = NIXL_INIT_PARAMS_INIT;
    const uint64_t began = nxr_ticks();
    int status = init_read_params(params, &ours);

    if (status != NIXL_OK) {
        return status;
    }
    if (nxr_is_forked()) {
        return nxr_check_ready("nixl_init");
    }
    pthread_once(&init_is_made, init_once);
    init_take_lock();
    if (nxr_job.n_inits == 0) {
        status = init_join(&ours);
    } else if (ours.thread_level == NIXL_THREAD_MULTIPLE) {
        nxr_job.is_multithreaded = true;
    }
    nxr_job.n_inits += status == NIXL_OK;
    nxr_trace_job("nixl_init", began, status);
    init_give_lock();
    return status;
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* Complete what is under way and wait for the others. Returns what nixl_finalize() returns. */
static int part(void)
{
    int status = nixl_flush(NIXL_ALL_RANKS, nxr_env.finalize_timeout);

    if (status != NIXL_OK && status != NIXL_E_PEER_LOST) {
        nxr_warn(CORE, "leaving with incomplete puts: %s",
                 status < 0 ? nixl_last_error()->text : "the timeout is 0");
    }
    nxr_leaving_say(nxr_notify_has_held);
    nxr_trace_meets(NXR_TRACE_END);
    status = nxr_job.size > 1 ? nxr_finalize_barrier(nxr_env.elastic ? 0 : nxr_env.finalize_timeout)
                              : NIXL_OK;
    nxr_trace_has_met(NXR_TRACE_END, status);
    if (status == NIXL_E_TIMEOUT) {
        nxr_warn(CORE, "%s", nixl_last_error()->text);
    }
    return status < 0 ? status : NIXL_OK; /* a timeout of 0 asks not to wait */
}

static int init_leave(void)
{
    const uint64_t began = nxr_ticks();
    bool is_broken;
    int status;

    nxr_observe_set_life(NXR_OBSERVE_LEAVING);
    pthread_mutex_lock(&nxr_job.lock);
    nxr_publish_leave();
    pthread_mutex_unlock(&nxr_job.lock);
    status = part();
    nxr_teams_free_all();
    nxr_leaving_stop();
    pthread_mutex_lock(&nxr_job.lock); /* the service thread reads is_leaving under it */
    nxr_job.is_leaving = true;
    pthread_mutex_unlock(&nxr_job.lock);
    nxr_subsystems_quiesce();
    nxr_trace_job("nixl_finalize", began, status);
    is_broken = nxr_service_is_broken();
    nxr_service_stop();
    nxr_subsystems_stop();
    nxr_boot_stop(is_broken ? BROKEN_STOP_NS : BOOT_STOP_NS);
    nxr_own_memory_drop();
    pthread_mutex_destroy(&nxr_job.lock);
    nxr_log_open(NULL);
    return status;
}

/* One counted call less; the last one leaves the job, and waits for so long. */
static int init_end(const char *operation, int64_t timeout_ns, bool keeps_memory)
{
    int status;

    init_take_lock();
    status = nxr_check_ready(operation); /* another thread may have left in the meantime */
    if (status == NIXL_OK && --nxr_job.n_inits == 0) {
        nxr_env.finalize_timeout = timeout_ns; /* the next nixl_init() reads the variable again */
        nxr_memory_keep(keeps_memory);
        nxr_job_set_leaver(true);
        atomic_store(&nxr_job.state, NXR_STATE_LEAVING);
        status = init_leave();
        nxr_job_set_leaver(false);
    }
    init_give_lock();
    return status;
}

int nixl_finalize(void)
{
    static const char operation[] = "nixl_finalize";
    int status = nxr_check_ready(operation);

    return status == NIXL_OK ? init_end(operation, nxr_env.finalize_timeout, false) : status;
}

int nixl_finalize_x(const struct nixl_op *op)
{
    static const char operation[] = "nixl_finalize_x";
    struct nxr_form form;
    int status = nxr_form_read(operation, op, NIXL_OP_KEEP, 0, &form);

    if (status != NIXL_OK) {
        return status;
    }
    return init_end(operation,
                    form.op->timeout_ns == 0 ? nxr_env.finalize_timeout : form.timeout_ns,
                    nxr_form_has(&form, NIXL_OP_KEEP));
}
