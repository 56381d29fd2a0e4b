/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PMIx client: joining, the exchange of cards, leaving. Every call that may block runs with our
 * deadline (call.h). No lock: only the thread that joins and leaves writes this state.
 */
#include "config.h"

#include "boot/boot.h"
#include "core/node.h"
#include "boot/all_cards.h"
#include "boot/alone.h"
#include "boot/call.h"
#include "boot/events.h"
#include "boot/meeting.h"
#include "boot/nodes.h"
#include "boot/pmix_init.h"
#include "boot/rank_socket.h"
#include "boot/rendezvous.h"
#include "boot/sharing.h"
#include "nixlrun.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/meet.h"

#include <errno.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CARD_KEY   "nixlrun.card"
#define NUMBER_KEY "nixlrun.program" /* of a rank's program: 1, 2, ... */
#define ABORT_NS   (5 * NXR_S)

static pmix_proc_t myself;
static int job_size;
static bool is_connected;
static bool may_return;              /* ranks may come back, as events tell */
static bool is_by_rendezvous;        /* instead of PMIx; then has_left when all have met */
static bool has_left;                /* was connected, and left PMIx once it had all cards */
static char card_key[64] = CARD_KEY; /* with the number from the second program on */
static uint32_t n_met;               /* how often this process has met the others */

/* The job part of identities: PMIx names a job by its namespace. */
static uint64_t boot_job(void)
{
    return nxr_hash(myself.nspace, strlen(myself.nspace));
}

static bool is_of_nixlrun(const char *nspace)
{
    return strncmp(nspace, "nixlrun.", strlen("nixlrun.")) == 0;
}

/*
 * A PMIx server refuses other users without saying why; the owner of its directory shows whose it
 * is.
 */
static bool is_of_another_user(void)
{
    const char *dir = getenv("PMIX_SERVER_TMPDIR");
    struct stat info;

    if (dir == NULL) {
        return false;
    }
    return stat(dir, &info) == 0 ? info.st_uid != geteuid() || info.st_gid != getegid()
                                 : errno == EACCES;
}

static int boot_explain(pmix_status_t status, const char *what, char *why, size_t why_nbytes)
{
    if (status == PMIX_ERR_TIMEOUT) {
        snprintf(
            why, why_nbytes,
            "%s: no answer within NIXLRUN_INIT_TIMEOUT; is the launcher of PMIX_NAMESPACE=%.60s "
            "alive, and did all ranks call nixl_init?",
            what, myself.nspace[0] != '\0' ? myself.nspace : getenv("PMIX_NAMESPACE"));
        return NIXL_E_TIMEOUT;
    }
    if (status == PMIX_ERR_NOMEM || status == PMIX_ERR_OUT_OF_RESOURCE) {
        snprintf(why, why_nbytes, "%s: no memory (PMIx: %s)", what, PMIx_Error_string(status));
        return NIXL_E_NO_MEMORY;
    }
    if (is_of_another_user()) {
        snprintf(why, why_nbytes,
                 "%s: %s (%d); the launcher runs as another user or group than this rank, which is "
                 "user %u, group %u; start ranks as the user and group that start the job",
                 what, PMIx_Error_string(status), status, (unsigned)geteuid(), (unsigned)getegid());
        return NIXL_E_TRANSPORT;
    }
    snprintf(
        why, why_nbytes,
        "%s: %s (%d); PMIX_NAMESPACE=%.60s is set, so a launcher's server should answer; unset it "
        "to run alone",
        what, PMIx_Error_string(status), status, getenv("PMIX_NAMESPACE"));
    return NIXL_E_TRANSPORT;
}

/*
 * Refuse a rank that was started again after its process had died: the others could not recognize
 * it.
 */
static int refuse_restarted(char *why, size_t why_nbytes)
{
    snprintf(why, why_nbytes,
             "rank %u was started again after its process had ended without nixl_finalize, and a "
             "rank cannot rejoin its job unless nixlrun itself starts it again (--on-failure "
             "restart); restart the whole job",
             myself.rank);
    return NIXL_E_UNSUPPORTED;
}

/* ---- joining -------------------------------------------------------------------------------- */

static pmix_status_t finalize_pmix(void *unused)
{
    (void)unused;
    return PMIx_Finalize(NULL, 0);
}

/* Tell nixlrun-rank what an engine does not notice about a rank, or does not report. */
static bool pmix_send_to_helper(enum nxr_rank_message_kind kind, int value)
{
    return nxr_rank_socket_send((unsigned)myself.rank, myself.nspace, kind, value);
}

static void stop_pmix(int64_t timeout_ns)
{
    is_connected = false;
    if (nxr_call_blocking(finalize_pmix, NULL, timeout_ns) == PMIX_ERR_TIMEOUT) {
        nxr_warn(BOOT, "PMIx_Finalize did not return in time; continuing without it");
    }
}

/*
 * A numeric attribute of the job or of a rank, of whatever integer type; -1: the engine has none.
 */
static long job_number(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    pmix_status_t status;
    long number = -1;

    PMIX_LOAD_PROCID(&proc, myself.nspace, rank);
    status = PMIx_Get(&proc, key, NULL, 0, &value);
    if (status == PMIX_SUCCESS && value != NULL) {
        PMIX_VALUE_GET_NUMBER(status, value, number, long);
        PMIX_VALUE_RELEASE(value);
    }
    return status == PMIX_SUCCESS ? number : -1;
}

/* This rank's index among the `n_local` ranks of its host, if the launcher does not give it. */
static int count_local_rank(int rank, int n_local, int size)
{
    int n = 0;

    if (n_local == size) {
        return rank;
    }
    for (int lower = 0; lower < rank; lower++) {
        n += nxr_node_of(lower) == nxr_node_of(rank);
    }
    return n;
}

/* Read this rank's place in the job from the launcher. */
static void boot_read_place(struct nxr_boot_info *info, int64_t timeout_ns)
{
    long incarnation = job_number(myself.rank, PMIX_REINCARNATION);
    long n_local = job_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE);
    long local_rank = job_number(myself.rank, PMIX_LOCAL_RANK);
    long program = job_number(myself.rank, PMIX_APPNUM);

    info->self.incarnation = incarnation > 0 ? (uint32_t)incarnation : 0;
    info->may_return = false;
    if (is_of_nixlrun(myself.nspace) && nxr_env.incarnation != NULL &&
        nxr_env.incarnation[0] != '\0') { /* NULL: nixl_init() has not read the environment */
        info->self.incarnation = (uint32_t)strtoul(nxr_env.incarnation, NULL, 10);
        info->may_return = true;
    }
    info->n_local = n_local > 0 && n_local <= info->size ? (int)n_local : info->size;
    info->program = program > 0 && program < info->size ? (int)program : 0;
    nxr_nodes_read(myself.nspace, info->size, timeout_ns);
    info->local_rank = local_rank >= 0 && local_rank < info->n_local
                           ? (int)local_rank
                           : count_local_rank(info->self.rank, info->n_local, info->size);
}

/* Ranks that nixlrun-rank may start again do without PMIx. */
static int start_by_rendezvous(const char *nspace, int64_t timeout_ns, struct nxr_boot_info *info_p,
                               char *why, size_t why_nbytes)
{
    const char *rank = getenv("PMIX_RANK");
    struct nxr_boot_info info = {.may_return = true};
    int status;

    if (rank == NULL) {
        snprintf(why, why_nbytes,
                 "PMIX_RANK is not set, and PMIX_NAMESPACE is; start it by nixlrun");
        return NIXL_E_TRANSPORT;
    }
    PMIX_LOAD_PROCID(&myself, nspace, (pmix_rank_t)strtoul(rank, NULL, 10));
    info.self = (struct nxr_identity){
        .job = boot_job(),
        .rank = (int32_t)myself.rank,
        .incarnation =
            nxr_env.incarnation != NULL ? (uint32_t)strtoul(nxr_env.incarnation, NULL, 10) : 0};
    status = nxr_rendezvous_come(&info, timeout_ns, why, why_nbytes);
    if (status == NIXL_OK) {
        job_size = info.size;
        may_return = is_by_rendezvous = true;
        *info_p = info;
    }
    return status;
}

int nxr_boot_start(int64_t timeout_ns, struct nxr_boot_info *info_p, char *why, size_t why_nbytes)
{
    const char *nspace = getenv("PMIX_NAMESPACE");
    struct nxr_boot_info info = {.size = 1, .n_local = 1, .is_alone = true};
    pmix_status_t status;
    long size;

    if (nspace == NULL || nspace[0] == '\0') {
        nxr_alone_warn();
        nxr_nodes_read("", 1, timeout_ns);
        *info_p = info;
        return NIXL_OK;
    }
    if (nxr_rendezvous_is_given()) {
        return start_by_rendezvous(nspace, timeout_ns, info_p, why, why_nbytes);
    }
    status = nxr_pmix_init(&myself, !is_of_nixlrun(nspace), timeout_ns);
    if (status != PMIX_SUCCESS) {
        return boot_explain(status, "PMIx_Init", why, why_nbytes);
    }
    is_connected = true;
    size = job_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    if (size < 1 || size > INT32_MAX || myself.rank >= (unsigned long)size) {
        snprintf(why, why_nbytes, "the launcher reports rank %u of %ld ranks, which is impossible",
                 myself.rank, size);
        nxr_boot_stop(timeout_ns);
        return NIXL_E_TRANSPORT;
    }
    info.self.job = boot_job();
    info.self.rank = (int32_t)myself.rank;
    info.size = job_size = (int)size;
    info.is_alone = false;
    boot_read_place(&info, timeout_ns);
    if (info.self.incarnation > 0 && !info.may_return) {
        nxr_boot_stop(timeout_ns);
        return refuse_restarted(why, why_nbytes);
    }
    may_return = info.may_return;
    nxr_boot_events_watch(myself.nspace, info.self.job, is_of_nixlrun(myself.nspace));
    *info_p = info;
    return NIXL_OK;
}

/*
 * Some engines end or freeze a job after the death of a rank that still used PMIx. So read all
 * cards, which is all that PMIx is needed for, and leave it. The second fence keeps a rank from
 * leaving while others still read.
 */
static pmix_status_t leave_early(int64_t timeout_ns)
{
    pmix_status_t status = PMIX_SUCCESS;

    if (!nxr_all_cards_are_kept()) {
        status = nxr_all_cards_read(myself.nspace, job_size, card_key, timeout_ns);
        if (status == PMIX_SUCCESS) {
            status = nxr_meeting_by_fence(myself.nspace, false, timeout_ns);
        }
    }
    if (status == PMIX_SUCCESS) {
        stop_pmix(timeout_ns);
        has_left = true;
    } else {
        nxr_all_cards_drop();
    }
    return status;
}

static pmix_status_t boot_put(const char *key, pmix_value_t *value)
{
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, value);

    return status == PMIX_SUCCESS ? PMIx_Commit() : status;
}

/* Under nixlrun the launcher collects and distributes the cards itself. */
static pmix_status_t exchange_by_nixlrun(const struct nxr_full_card *card, int64_t timeout_ns)
{
    void *answer = NULL;
    size_t nbytes = 0;
    pmix_status_t status =
        nxr_meeting_of_cards(&myself, card, card->head.nbytes, timeout_ns, &answer, &nbytes);

    return status == PMIX_SUCCESS ? nxr_all_cards_take(answer, nbytes, job_size) : status;
}

/*
 * Other launchers keep what former programs of the ranks have put: the cards of a rank's programs
 * have names of their own. All ranks meet as often, so those of the same number belong together. A
 * fence may miss a rank between two programs, or not end for it: the cards tell who has joined.
 */
static pmix_status_t exchange_by_others(const struct nxr_full_card *card, int64_t timeout_ns)
{
    uint32_t n_former = nxr_meeting_count_former(&myself, NUMBER_KEY, timeout_ns);
    bool is_local = job_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE) == job_size;
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = {(char *)card, card->head.nbytes}};
    pmix_status_t status;

    n_former = n_former > n_met ? n_former : n_met;
    if (n_former > 0) {
        snprintf(card_key, sizeof(card_key), CARD_KEY ".%u", n_former + 1);
    }
    status = boot_put(card_key, &value);
    if (status == PMIX_SUCCESS) {
        status = n_former > 0 && is_local
                     ? nxr_meeting_by_key(myself.nspace, job_size, card_key, timeout_ns)
                     : nxr_meeting_by_fence(myself.nspace, n_former > 0, timeout_ns);
    }
    if (status == PMIX_SUCCESS) { /* one that has met nobody does not count */
        n_met = n_former + 1;
        value = (pmix_value_t){.type = PMIX_UINT32, .data.uint32 = n_met};
        status = boot_put(NUMBER_KEY, &value);
    }
    return status;
}

int nxr_boot_exchange(const struct nxr_full_card *card, int64_t timeout_ns, char *why,
                      size_t why_nbytes)
{
    pmix_status_t status;

    if (is_by_rendezvous) {
        int met = nxr_rendezvous_meet(card, timeout_ns, why, why_nbytes);

        has_left = met == NIXL_OK; /* as if it had left PMIx */
        if (met == NIXL_OK) {
            pmix_send_to_helper(NXR_RANK_JOINED, 0);
        }
        return met;
    }
    if (!is_connected) {
        return NIXL_OK;
    }
    if (is_of_nixlrun(myself.nspace)) {
        status = exchange_by_nixlrun(card, timeout_ns);
    } else {
        status = exchange_by_others(card, timeout_ns);
    }
    if (status == NXR_MEET_RESTARTED) {
        return refuse_restarted(why, why_nbytes);
    }
    if (status != PMIX_SUCCESS) {
        return boot_explain(status, "waiting for all ranks", why, why_nbytes);
    }
    status = nxr_env.leave_pmix && !may_return ? leave_early(timeout_ns) : PMIX_SUCCESS;
    if (status != PMIX_SUCCESS) {
        return boot_explain(status, "leaving PMIx (NIXLRUN_LEAVE_PMIX)", why, why_nbytes);
    }
    pmix_send_to_helper(NXR_RANK_JOINED, 0);
    return NIXL_OK;
}

int nxr_boot_count_sharing(const struct nxr_card *mine)
{
    return is_connected || has_left ? nxr_sharing_count(mine, &myself, job_size, card_key) : 1;
}

/* The callback of a fence under way. */
struct fence {
    nxr_wireup_fence_fn *fence_fn;
    void *arg;
};

static void boot_fence_ended(pmix_status_t status, void *arg)
{
    struct fence *fence = arg;

    fence->fence_fn(status == PMIX_SUCCESS ? NIXL_OK : NIXL_E_TRANSPORT, fence->arg);
    free(fence);
}

static void pmix_fence(nxr_wireup_fence_fn *fence_fn, void *arg)
{
    struct fence *fence = is_connected ? malloc(sizeof(*fence)) : NULL;

    if (fence == NULL) {
        fence_fn(NIXL_E_TRANSPORT, arg);
        return;
    }
    *fence = (struct fence){fence_fn, arg};
    if (is_of_nixlrun(myself.nspace)) {
        nxr_meeting_to_leave(&myself, boot_fence_ended, fence);
    } else {
        nxr_meeting_fence(myself.nspace, boot_fence_ended, fence);
    }
}

/* ---- cards of others ------------------------------------------------------------------------- */

struct card_ask {
    int rank;
    nxr_wireup_card_fn *card_fn;
};

static void boot_card_came(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct card_ask *ask = arg;
    const struct nxr_identity owner = {.job = boot_job(), .rank = ask->rank};
    struct nxr_full_card card;
    bool is_good = status == PMIX_SUCCESS && value != NULL && value->type == PMIX_BYTE_OBJECT &&
                   nxr_card_parse(value->data.bo.bytes, value->data.bo.size, &owner, &card) == 0;

    if (!is_good) {
        nxr_debug(BOOT, "no card of %s: %s", nxr_identity_own_name(&owner),
                  PMIx_Error_string(status));
    }
    ask->card_fn(ask->rank, is_good ? &card : NULL);
    free(ask);
}

static bool pmix_kept_card(int rank, struct nxr_full_card *card_p)
{
    const struct nxr_identity owner = {.job = boot_job(), .rank = rank};
    size_t nbytes = 0;
    const void *bytes = nxr_all_cards_are_kept() ? nxr_all_cards_find(rank, &nbytes) : NULL;

    return bytes != NULL && nxr_card_parse(bytes, nbytes, &owner, card_p) == NIXL_OK;
}

/* Only of ranks that may come back; the cards are kept then. */
static uint32_t pmix_incarnation_of(int rank)
{
    struct nxr_full_card card;

    return pmix_kept_card(rank, &card) ? card.head.identity.incarnation : 0;
}

static void pmix_get_card(int rank, nxr_wireup_card_fn *card_fn)
{
    const struct nxr_identity owner = {.job = boot_job(), .rank = rank};
    struct nxr_full_card card;
    struct card_ask *ask;
    pmix_proc_t proc;
    pmix_status_t status = PMIX_ERR_NOMEM;

    if (nxr_all_cards_are_kept()) {
        card_fn(rank, pmix_kept_card(rank, &card) ? &card : NULL);
        return;
    }
    ask = malloc(sizeof(*ask));
    if (ask != NULL) {
        *ask = (struct card_ask){rank, card_fn};
        PMIX_LOAD_PROCID(&proc, myself.nspace, (pmix_rank_t)rank);
        status = PMIx_Get_nb(&proc, card_key, NULL, 0, boot_card_came, ask);
    }
    if (status != PMIX_SUCCESS) {
        free(ask);
        nxr_debug(BOOT, "cannot request the card of %s: %s", nxr_identity_own_name(&owner),
                  PMIx_Error_string(status));
        card_fn(rank, NULL);
    }
}

/* ---- leaving --------------------------------------------------------------------------------- */

void nxr_boot_stop(int64_t timeout_ns)
{
    if (is_connected || has_left) {
        pmix_send_to_helper(NXR_RANK_LEFT, 0);
    }
    if (is_connected) {
        stop_pmix(timeout_ns);
    }
    if (is_by_rendezvous) {
        nxr_rendezvous_leave();
        is_by_rendezvous = false;
    }
    nxr_boot_events_stop();
    nxr_all_cards_drop();
    has_left = false;
}

bool nxr_boot_is_nixlrun(void)
{
    return is_connected && is_of_nixlrun(myself.nspace);
}

/* ---- the end of the job, or of a rank -------------------------------------------------------- */

/* A request to the launcher, made on a thread of its own. */
struct end_request {
    int exit_code;
    int rank;
    char why[256];
};

/*
 * Run a request with a copy that is kept if no answer arrives in time. False: it failed or was not
 * answered.
 */
static bool ask_launcher(nxr_call_fn *fn, const struct end_request *request)
{
    struct end_request *copy = is_connected || has_left ? malloc(sizeof(*copy)) : NULL;
    pmix_status_t status;

    if (copy == NULL) {
        return false;
    }
    *copy = *request;
    status = nxr_call_blocking(fn, copy, ABORT_NS);
    if (status != PMIX_ERR_TIMEOUT) {
        free(copy);
    }
    return status == PMIX_SUCCESS;
}

static pmix_status_t abort_pmix(void *arg)
{
    const struct end_request *request = arg;

    if (has_left) {
        nxr_pmix_init_again(); /* connect again, only for this call */
    }
    return PMIx_Abort(request->exit_code, request->why, NULL, 0);
}

void nxr_boot_abort(int exit_code, const char *why)
{
    struct end_request request = {.exit_code = exit_code};

    if (is_by_rendezvous) {
        pmix_send_to_helper(NXR_RANK_ENDS_JOB, exit_code);
        return;
    }
    snprintf(request.why, sizeof(request.why), "%s", why);
    ask_launcher(abort_pmix, &request);
}

static pmix_status_t end_job_pmix(void *arg)
{
    const struct end_request *request = arg;
    pmix_status_t status;
    pmix_info_t directive, *results = NULL;
    size_t n_results = 0;

    PMIX_INFO_LOAD(&directive, NXR_JOB_END_KEY, &request->exit_code, PMIX_INT);
    status = PMIx_Job_control(NULL, 0, &directive, 1, &results, &n_results);
    if (results != NULL) {
        PMIX_INFO_FREE(results, n_results);
    }
    return status;
}

bool nxr_boot_end_job(int exit_code)
{
    if (nxr_boot_is_nixlrun()) {
        return ask_launcher(end_job_pmix, &(struct end_request){.exit_code = exit_code});
    }
    return (is_connected || has_left) && pmix_send_to_helper(NXR_RANK_ENDS_JOB, exit_code);
}

static pmix_status_t kill_pmix(void *arg)
{
    const struct end_request *request = arg;
    pmix_proc_t proc;

    PMIX_LOAD_PROCID(&proc, myself.nspace, (pmix_rank_t)request->rank);
    return PMIx_Abort(0, NULL, &proc, 1);
}

bool nxr_boot_kill(int rank)
{
    return nxr_boot_is_nixlrun() && ask_launcher(kill_pmix, &(struct end_request){.rank = rank});
}

const struct nxr_wireup nxr_boot_wireup = {
    .kept_card = pmix_kept_card,
    .get_card = pmix_get_card,
    .incarnation_of = pmix_incarnation_of,
    .fence = pmix_fence,
};
