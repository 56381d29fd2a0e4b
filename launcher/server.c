/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx server: its start, and events to clients. PMIx_server_finalize is never called: in PMIx 4.2
 * it hangs if clients were killed while they connected; nixlrun exits by _exit after its own
 * cleanup.
 */
#include "config.h"

#include "launcher/server.h"
#include "launcher/sink.h"
#include "launcher/xalloc.h"
#include "util/clock.h"
#include "util/meet.h"

#include <dirent.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

pmix_info_t *info_new(size_t n)
{
    pmix_info_t *info;

    PMIX_INFO_CREATE(info, n);
    return x_checked(info);
}

const pmix_info_t *info_find(const pmix_info_t *info, size_t n_info, const char *key)
{
    for (size_t i = 0; i < n_info; i++) {
        if (PMIX_CHECK_KEY(&info[i], key)) {
            return &info[i];
        }
    }
    return NULL;
}

int64_t info_timeout_ns(const pmix_info_t *info, size_t n_info)
{
    const pmix_info_t *timeout = info_find(info, n_info, PMIX_TIMEOUT);
    int64_t seconds = 0;
    pmix_status_t status = PMIX_SUCCESS;

    if (timeout == NULL) {
        return 0;
    }
    PMIX_VALUE_GET_NUMBER(status, &timeout->value, seconds, int64_t);
    return status == PMIX_SUCCESS && seconds > 0 ? seconds * NXR_S : 0;
}

/* ---- start ----------------------------------------------------------------------------------- */

/*
 * The folder of PMIx's plugins that came with this nixlrun and its PMIx, in a Python wheel; else
 * false: PMIx knows its own.
 */
static bool find_plugins(char path[PATH_MAX])
{
    char self[PATH_MAX - 32];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[n > 0 ? n : 0] = '\0';
    for (int i = 0; i < 2 && strrchr(self, '/') != NULL; i++) {
        *strrchr(self, '/') = '\0';
    }
    snprintf(path, PATH_MAX, "%s/lib/nixlrun/pmix", self);
    return access(path, X_OK) == 0;
}

/*
 * PMIx lets hwloc discover the whole machine. PCI devices, and the plugins that query graphics
 * drivers and X servers, take three quarters of our start, and on one host they are not needed:
 * leave them out of PMIx's discovery. Settings of the user stay, and ranks see no difference.
 */
static pmix_status_t init_quickly(pmix_info_t *info, size_t n_info)
{
    char plugins[PATH_MAX];
    const char *const settings[][2] = {{"HWLOC_PLUGINS_PATH", "/nonexistent"},
                                       {"HWLOC_COMPONENTS", "-pci,-linuxio,-x86"},
                                       {"PMIX_PKGLIBDIR", plugins}};
    int n_settings = find_plugins(plugins) ? 3 : 2;
    bool is_ours[3];
    pmix_status_t status;

    for (int i = 0; i < n_settings; i++) {
        is_ours[i] = getenv(settings[i][0]) == NULL;
        setenv(settings[i][0], settings[i][1], 0);
    }
    status = PMIx_server_init(&server_module, info, n_info);
    for (int i = 0; i < n_settings; i++) {
        if (is_ours[i]) {
            unsetenv(settings[i][0]);
        }
    }
    return status;
}

/*
 * Without TCP_NODELAY an event that follows another message within the client's delayed
 * acknowledgement comes 40 ms late. PMIx sets it nowhere. Connections that the server accepts
 * inherit it from its listening socket, so find that among our descriptors.
 */
static void send_without_delay(void)
{
    DIR *fds = opendir("/proc/self/fd");
    struct dirent *entry;
    int yes = 1;

    while (fds != NULL && (entry = readdir(fds)) != NULL) {
        int fd = atoi(entry->d_name), value = 0;
        socklen_t nbytes = sizeof(value);

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &nbytes) == 0 && value != 0) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        }
    }
    if (fds != NULL) {
        closedir(fds);
    }
}

int server_open(void)
{
    pmix_info_t info[8];
    pmix_rank_t rank = 0;
    bool no = false;
    char nspace[64];
    pmix_status_t status;

    if (upcalls_open() != 0) {
        return -1;
    }
    snprintf(nspace, sizeof(nspace), "nixlrun.%d", (int)getpid());
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, session.tmpdir, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, session.tmpdir, PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_SERVER_NSPACE, nspace, PMIX_STRING);
    PMIX_INFO_LOAD(&info[3], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&info[4], PMIX_HOSTNAME, session.host, PMIX_STRING);
    PMIX_INFO_LOAD(&info[5], PMIX_SERVER_TOOL_SUPPORT, &no, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[6], PMIX_SERVER_REMOTE_CONNECTIONS, &no, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[7], PMIX_IOF_LOCAL_OUTPUT, &no, PMIX_BOOL);
    status = init_quickly(info, 8);
    for (int i = 0; i < 8; i++) {
        PMIX_INFO_DESTRUCT(&info[i]);
    }
    if (status != PMIX_SUCCESS) {
        sink_say("cannot start the PMIx server: %s", PMIx_Error_string(status));
        return -1;
    }
    send_without_delay();
    return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

struct event {
    pmix_info_t *info;
    size_t n;
};

static void notified(pmix_status_t status, void *arg)
{
    struct event *event = arg;

    (void)status;
    PMIX_INFO_FREE(event->info, event->n);
    free(event);
}

static uint64_t last_change;

uint64_t server_last_change(void)
{
    return last_change;
}

/* Send an event about `proc` with one more value to the clients that registered for it. */
static void notify(pmix_status_t code, const pmix_proc_t *proc, const char *key, const void *value,
                   pmix_data_type_t type)
{
    struct event *event = malloc(sizeof(*event));
    bool yes = true;

    if (event == NULL) {
        return;
    }
    last_change++;
    event->n = 4;
    event->info = info_new(event->n);
    PMIX_INFO_LOAD(&event->info[0], PMIX_EVENT_AFFECTED_PROC, proc, PMIX_PROC);
    PMIX_INFO_LOAD(&event->info[1], key, value, type);
    /* for handlers of this code only; default handlers would see every death */
    PMIX_INFO_LOAD(&event->info[2], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&event->info[3], NXR_MEET_CHANGE_KEY, &last_change, PMIX_UINT64);
    if (PMIx_Notify_event(code, proc, PMIX_RANGE_LOCAL, event->info, event->n, notified, event) !=
        PMIX_SUCCESS) {
        notified(PMIX_SUCCESS, event);
    }
}

void server_notify_end(const struct rank *rank, pmix_status_t code, int exit_code)
{
    pmix_proc_t proc = rank_proc(rank);

    notify(code, &proc, PMIX_EXIT_CODE, &exit_code, PMIX_INT);
}

void server_notify_joined(const struct rank *rank, pmix_byte_object_t card)
{
    pmix_proc_t proc = rank_proc(rank);

    notify(NXR_MEET_JOINED, &proc, NXR_MEET_KEY, &card, PMIX_BYTE_OBJECT);
}

void server_notify_job_end(const struct space *space)
{
    pmix_status_t status = PMIX_SUCCESS;
    pmix_proc_t proc;

    for (int i = 0; i < space->n_ranks; i++) {
        status = space->ranks[i].has_failed ? PMIX_ERR_JOB_NON_ZERO_TERM : status;
    }
    PMIX_LOAD_PROCID(&proc, space->nspace, PMIX_RANK_WILDCARD);
    notify(PMIX_EVENT_JOB_END, &proc, PMIX_JOB_TERM_STATUS, &status, PMIX_STATUS);
}
