/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun --metrics: an HTTP server, by libmicrohttpd in a thread of its own. It reads the pages of
 * the ranks for each request and shares nothing with the rest of nixlrun. The library, which brings
 * TLS along, is loaded only for this option: every start of nixlrun would pay for it, and a machine
 * without it could start nothing.
 */
#include "config.h"

#include "launcher/job.h"
#include "launcher/sink.h"
#include "launcher/stats.h"
#include "launcher/values.h"
#include "util/clock.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef HAVE_MICROHTTPD
#include <dlfcn.h>
#include <microhttpd.h>
#endif

#ifdef HAVE_MICROHTTPD

#define HTTP_LIBRARY  "libmicrohttpd.so.12"
#define MOST_CLIENTS  32 /* one more, and the idlest is sent away */
#define CLIENTS_LIMIT 64 /* of the library, with those that are being closed */
#define CLIENT_IDLE_S 30

static struct MHD_Daemon *server; /* NULL: none */

/* The functions of the library, by their names there without MHD_. */
static struct {
    __typeof__(MHD_start_daemon) *start_daemon;
    __typeof__(MHD_stop_daemon) *stop_daemon;
    __typeof__(MHD_lookup_connection_value) *lookup_connection_value;
    __typeof__(MHD_create_response_from_buffer) *create_response_from_buffer;
    __typeof__(MHD_add_response_header) *add_response_header;
    __typeof__(MHD_queue_response) *queue_response;
    __typeof__(MHD_destroy_response) *destroy_response;
    __typeof__(MHD_get_connection_info) *get_connection_info;
} http;

/* The library stays loaded: its threads may. False: *why_p says why not. */
static bool http_load(const char **why_p)
{
    void *library = dlopen(HTTP_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        *why_p = dlerror();
        return false;
    }
    http.start_daemon = dlsym(library, "MHD_start_daemon");
    http.stop_daemon = dlsym(library, "MHD_stop_daemon");
    http.lookup_connection_value = dlsym(library, "MHD_lookup_connection_value");
    http.create_response_from_buffer = dlsym(library, "MHD_create_response_from_buffer");
    http.add_response_header = dlsym(library, "MHD_add_response_header");
    http.queue_response = dlsym(library, "MHD_queue_response");
    http.destroy_response = dlsym(library, "MHD_destroy_response");
    http.get_connection_info = dlsym(library, "MHD_get_connection_info");
    *why_p = HTTP_LIBRARY " lacks a function";
    return http.start_daemon != NULL && http.stop_daemon != NULL &&
           http.lookup_connection_value != NULL && http.create_response_from_buffer != NULL &&
           http.add_response_header != NULL && http.queue_response != NULL &&
           http.destroy_response != NULL;
}

/* A socket that listens there; -1: *why_p says why not. */
static int metrics_listen(const char *address, int port, const char **why_p)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char service[16];
    int fd, one = 1, error;

    snprintf(service, sizeof(service), "%d", port);
    error = getaddrinfo(address, service, &hints, &found);
    if (error != 0) {
        *why_p = gai_strerror(error);
        return -1;
    }
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 &&
        (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
         bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0)) {
        error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    if (fd < 0) {
        *why_p = errno == EADDRINUSE      ? "the port is in use"
                 : errno == EADDRNOTAVAIL ? "this host has no such address"
                                          : strerror(errno);
    }
    freeaddrinfo(found);
    return fd;
}

/* ---- clients --------------------------------------------------------------------------------- */

/*
 * At its limit the library accepts nobody until a connection has been idle for too long. So that
 * idle and slow clients delay no other, the idlest makes room before. Only the server's thread
 * uses these.
 */
struct metrics_client {
    int fd;
    bool is_used, is_leaving;
    int64_t since_ns; /* when it came, or asked last */
};
static struct metrics_client metrics_clients[CLIENTS_LIMIT];

/* Its reads end; the library then closes it. */
static void clients_send_idlest_away(void)
{
    struct metrics_client *idlest = NULL;
    int n = 0;

    for (int i = 0; i < CLIENTS_LIMIT; i++) {
        if (metrics_clients[i].is_used && !metrics_clients[i].is_leaving) {
            n++;
            if (idlest == NULL || metrics_clients[i].since_ns < idlest->since_ns) {
                idlest = &metrics_clients[i];
            }
        }
    }
    if (n > MOST_CLIENTS) {
        idlest->is_leaving = true;
        shutdown(idlest->fd, SHUT_RDWR);
    }
}

static void client_comes(struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info =
        http.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    *context = NULL;
    for (int i = 0; info != NULL && i < CLIENTS_LIMIT; i++) {
        if (!metrics_clients[i].is_used) {
            metrics_clients[i] = (struct metrics_client){
                .fd = info->connect_fd, .is_used = true, .since_ns = nxr_now_ns()};
            *context = &metrics_clients[i];
            clients_send_idlest_away();
            return;
        }
    }
}

static void client_changes(void *arg, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode what)
{
    struct metrics_client *client = *context;

    (void)arg;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        client_comes(connection, context);
    } else if (client != NULL) {
        client->is_used = false;
    }
}

static void client_asks(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        http.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct metrics_client *client = info != NULL ? info->socket_context : NULL;

    if (client != NULL) {
        client->since_ns = nxr_now_ns();
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Does the client prefer OpenMetrics? Prometheus names it first. */
static bool metrics_wants_open(struct MHD_Connection *connection)
{
    const char *accepted =
        http.lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);

    return accepted != NULL && strstr(accepted, "application/openmetrics-text") != NULL;
}

static enum MHD_Result metrics_send(struct MHD_Connection *connection, unsigned code,
                                    const char *type, char *text, size_t nbytes)
{
    struct MHD_Response *response =
        http.create_response_from_buffer(nbytes, text, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result;

    if (response == NULL) {
        free(text);
        return MHD_NO;
    }
    http.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        http.add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    result = http.queue_response(connection, code, response);
    http.destroy_response(response);
    return result;
}

static enum MHD_Result metrics_send_all(struct MHD_Connection *connection)
{
    bool is_open = metrics_wants_open(connection);
    struct stats_job counted = stats_job_read(getpid(), false);
    char *text = NULL;
    size_t nbytes = 0;
    FILE *out = open_memstream(&text, &nbytes);

    stats_job_merge(&counted); /* no two samples may have the same labels */
    if (out != NULL) {
        metrics_write(out, &counted, is_open);
        fclose(out);
    }
    stats_job_free(&counted);
    return text == NULL ? MHD_NO
                        : metrics_send(connection, MHD_HTTP_OK,
                                       is_open ? "application/openmetrics-text; version=1.0.0; "
                                                 "charset=utf-8"
                                               : "text/plain; version=0.0.4; charset=utf-8",
                                       text, nbytes);
}

static enum MHD_Result metrics_answer(void *arg, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, const char *data,
                                      size_t *data_nbytes, void **state)
{
    static const char elsewhere[] = "nixlrun serves /metrics\n";
    bool is_get = strcmp(method, MHD_HTTP_METHOD_GET) == 0;
    char *text;

    (void)arg;
    (void)version;
    (void)data;
    (void)state;
    *data_nbytes = 0; /* a body is ignored */
    client_asks(connection);
    if ((is_get || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0) && strcmp(url, "/metrics") == 0) {
        return metrics_send_all(connection);
    }
    text = strdup(elsewhere);
    return text == NULL ? MHD_NO
                        : metrics_send(connection,
                                       strcmp(url, "/metrics") == 0 ? MHD_HTTP_METHOD_NOT_ALLOWED
                                                                    : MHD_HTTP_NOT_FOUND,
                                       "text/plain; charset=utf-8", text, strlen(text));
}

int metrics_open(const struct launch_job *job)
{
    char address[METRICS_ADDRESS_NBYTES], shown[VALUE_SHOWN_NBYTES];
    const char *why = "the server does not start";
    int port, fd;

    if (job->metrics == NULL || metrics_parse(job->metrics, address, &port) != 0) {
        return 0;
    }
    if (!http_load(&why)) {
        sink_say("--metrics: libmicrohttpd cannot be loaded (Debian: libmicrohttpd12): %s", why);
        return -1;
    }
    fd = metrics_listen(address, port, &why);
    if (fd >= 0) {
        server = http.start_daemon(
            MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, 0, NULL, NULL, metrics_answer, NULL,
            MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CLIENTS_LIMIT,
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CLIENT_IDLE_S, MHD_OPTION_NOTIFY_CONNECTION,
            client_changes, NULL, MHD_OPTION_END);
        if (server == NULL) {
            close(fd);
        }
    }
    if (server == NULL) {
        sink_say("--metrics %s: cannot listen there: %s", value_show(job->metrics, shown), why);
        return -1;
    }
    return 0;
}

void metrics_close(void)
{
    if (server != NULL) {
        http.stop_daemon(server);
        server = NULL;
    }
}

#else

int metrics_open(const struct launch_job *job)
{
    if (job->metrics != NULL) {
        sink_say("--metrics: this nixlrun was built without libmicrohttpd (Debian: "
                 "libmicrohttpd-dev); build it anew with that");
        return -1;
    }
    return 0;
}

void metrics_close(void)
{
}

#endif
