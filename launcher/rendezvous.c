/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meeting of ranks that an engine starts and that may be started again. Each rank has one
 * connection, its guest; a process that comes while the former one of its rank still has one takes
 * its place, for nixlrun-rank starts it when the former is gone. What a guest is sent waits in its
 * buffer as long as the connection takes no more. Main thread only.
 */
#include "config.h"

#include "launcher/rendezvous.h"
#include "launcher/loop.h"
#include "launcher/sink.h"
#include "launcher/xalloc.h"
#include "util/clock.h"
#include "util/meet.h"
#include "util/random.h"
#include "util/rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_ADDRESSES 16
#define KNOCK_NS       (10 * NXR_S)   /* who has not shown the key by then is cut off */
#define DOOR_SHUT_NS   (100 * NXR_MS) /* when descriptors have run out */
#define MOST_QUEUED    (64u << 20)    /* a guest that leaves more than this unread is cut off */

struct guest {
    struct loop_fd watch;
    struct loop_timer knock;
    int rank; /* -1: it has not shown the key */
    char *in, *out;
    size_t n_in, n_out;
    bool is_cut; /* closed: to be freed */
};

/* What is known of a rank, whichever process it is. */
struct place {
    struct guest *guest;
    char host[NXR_RV_HOST_MAX]; /* "": it has never come */
    int node;
    uint32_t incarnation; /* of the guest */
    char *card;           /* of a guest that waits for the others, or has met them */
    size_t card_nbytes;
    bool wants_places; /* it has come, and not been told */
    bool is_meeting;   /* it has sent its card, and waits */
    bool has_met;
    bool was_in; /* this process has met the others before, and joins again */
    bool has_left;
    bool has_ended; /* it is not started again */
};

static const struct launch_job *place_job;
static struct loop_fd door;
static struct loop_timer door_timer;
static unsigned char rv_key[NXR_RV_KEY_NBYTES];
static struct place *places; /* [np] */
static uint64_t rv_changes;

/* ---- sending --------------------------------------------------------------------------------- */

static void guest_flush(struct guest *guest)
{
    while (guest->n_out > 0) {
        ssize_t n = send(guest->watch.fd, guest->out, guest->n_out, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno != EAGAIN) {
            guest->n_out = 0; /* its end follows */
            break;
        }
        if (n < 0) {
            break;
        }
        guest->n_out -= (size_t)n;
        memmove(guest->out, guest->out + n, guest->n_out);
    }
    loop_watch(&guest->watch, guest->n_out > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* Queue a message and, behind it, head.nbytes bytes; NULL: it has none. */
static void guest_send(struct guest *guest, struct nxr_rv_head head, const void *bytes)
{
    size_t nbytes = sizeof(head) + head.nbytes;

    if (guest == NULL || guest->is_cut) {
        return;
    }
    if (guest->n_out > MOST_QUEUED) {
        guest->n_out = 0;
        shutdown(guest->watch.fd, SHUT_RDWR); /* its end follows */
        return;
    }
    head.magic = NXR_RV_MAGIC;
    head.version = NXR_RV_VERSION;
    guest->out = x_array(guest->out, guest->n_out + nbytes, 1);
    memcpy(guest->out + guest->n_out, &head, sizeof(head));
    if (bytes != NULL) {
        memcpy(guest->out + guest->n_out + sizeof(head), bytes, head.nbytes);
    }
    guest->n_out += nbytes;
    guest_flush(guest);
}

/* Say it to all that have met, but for that rank. */
static void tell_others(int rank, enum nxr_rv_kind kind, const void *bytes, size_t nbytes)
{
    const struct nxr_rv_head head = {
        .kind = (uint16_t)kind, .rank = rank, .nbytes = (uint32_t)nbytes, .value = ++rv_changes};

    for (int i = 0; i < place_job->np; i++) {
        if (i != rank && places[i].has_met) {
            guest_send(places[i].guest, head, bytes);
        }
    }
}

/* ---- meeting --------------------------------------------------------------------------------- */

/* The program of a rank: ranks are assigned to the programs of the job in order. */
static int program_of(int rank)
{
    int app = 0;

    while (rank >= place_job->apps[app].np) {
        rank -= place_job->apps[app++].np;
    }
    return app;
}

/* Number the hosts by their first ranks. */
static void place_number_all(void)
{
    int n_nodes = 0;

    for (int i = 0; i < place_job->np; i++) {
        int first = 0;

        while (strcmp(places[first].host, places[i].host) != 0) {
            first++;
        }
        places[i].node = first < i ? places[first].node : n_nodes++;
    }
}

static void tell_places(int rank)
{
    size_t nbytes = sizeof(struct nxr_rv_places) + (size_t)place_job->np * sizeof(int32_t);
    struct nxr_rv_places head = {.size = place_job->np, .program = program_of(rank)};
    char *bytes = x_calloc(nbytes, 1);

    memcpy(bytes, &head, sizeof(head));
    for (int i = 0; i < place_job->np; i++) {
        const int32_t node = places[i].node;

        memcpy(bytes + sizeof(head) + (size_t)i * sizeof(node), &node, sizeof(node));
    }
    guest_send(
        places[rank].guest,
        (struct nxr_rv_head){.kind = NXR_RV_PLACES, .rank = rank, .nbytes = (uint32_t)nbytes},
        bytes);
    places[rank].wants_places = false;
    free(bytes);
}

/* Does every rank have a host by now? One that ended before it came has none of its own. */
static void look_for_places(void)
{
    for (int i = 0; i < place_job->np; i++) {
        if (places[i].host[0] == '\0' && !places[i].has_ended) {
            return;
        }
    }
    place_number_all();
    for (int i = 0; i < place_job->np; i++) {
        if (places[i].wants_places) {
            tell_places(i);
        }
    }
}

static void tell_met(int rank)
{
    struct nxr_rv_head head = {.kind = NXR_RV_MET, .rank = rank, .value = rv_changes};
    char *bytes = NULL;
    size_t n = 0;

    for (int i = 0; i < place_job->np; i++) {
        const struct nxr_meet_head of = {.rank = i, .nbytes = (uint32_t)places[i].card_nbytes};

        if (places[i].card == NULL && !places[i].has_left) {
            continue;
        }
        bytes = x_array(bytes, n + sizeof(of) + of.nbytes, 1);
        memcpy(bytes + n, &of, sizeof(of));
        if (of.nbytes > 0) {
            memcpy(bytes + n + sizeof(of), places[i].card, of.nbytes);
        }
        n += sizeof(of) + of.nbytes;
    }
    head.nbytes = (uint32_t)n;
    guest_send(places[rank].guest, head, bytes);
    places[rank].is_meeting = false;
    places[rank].has_met = places[rank].was_in = true;
    free(bytes);
}

/* Have all living ranks sent their cards? */
static void look_for_all(void)
{
    int n_meeting = 0;

    for (int i = 0; i < place_job->np; i++) {
        if (!places[i].has_ended && !places[i].is_meeting) {
            return;
        }
        n_meeting += places[i].is_meeting;
    }
    for (int i = 0; n_meeting > 0 && i < place_job->np; i++) {
        if (places[i].is_meeting) {
            tell_met(i);
        }
    }
}

/* Is it a process that was started again, and do others know each other already? */
static bool place_is_late(int rank)
{
    bool is_new = places[rank].incarnation > 0 && !places[rank].was_in;

    for (int i = 0; is_new && i < place_job->np; i++) {
        if (i != rank && places[i].has_met) {
            return true;
        }
    }
    return false;
}

static void drop_card(struct place *place)
{
    free(place->card);
    place->card = NULL;
    place->card_nbytes = 0;
}

static void take_card(int rank, const char *bytes, size_t nbytes)
{
    struct place *place = &places[rank];

    drop_card(place);
    place->card = x_calloc(nbytes, 1);
    place->card_nbytes = nbytes;
    memcpy(place->card, bytes, nbytes);
    place->has_left = false;
    place->is_meeting = true;
    if (place_is_late(rank)) {
        tell_others(rank, NXR_RV_JOINED, bytes, nbytes);
        tell_met(rank);
    } else {
        look_for_all();
    }
}

/* The process of that rank has left in order (is_end false), or has ended. */
static void place_is_empty(int rank, bool is_end)
{
    struct place *place = &places[rank];
    bool was_known = place->has_met;

    drop_card(place);
    place->has_left = was_known ? !is_end : place->has_left;
    place->has_met = place->is_meeting = place->wants_places = false;
    if (was_known && is_end) {
        tell_others(rank, NXR_RV_ENDED, NULL, 0);
    }
}

/* ---- guests ---------------------------------------------------------------------------------- */

static void guest_cut(struct guest *guest)
{
    int rank = guest->rank;

    if (guest->is_cut) {
        return;
    }
    guest->is_cut = true;
    loop_watch(&guest->watch, 0);
    loop_timer_clear(&guest->knock);
    close(guest->watch.fd);
    if (rank >= 0 && places[rank].guest == guest) {
        places[rank].guest = NULL;
        place_is_empty(rank, !places[rank].has_left);
    }
}

static void guest_refuse(struct guest *guest, const char *why)
{
    guest_send(
        guest,
        (struct nxr_rv_head){.kind = NXR_RV_REFUSED, .rank = -1, .nbytes = (uint32_t)strlen(why)},
        why);
    guest_cut(guest);
}

static bool key_is_right(const unsigned char *key)
{
    unsigned char differences = 0;

    for (size_t i = 0; i < sizeof(rv_key); i++) {
        differences |= key[i] ^ rv_key[i];
    }
    return differences == 0;
}

static void guest_comes(struct guest *guest, const struct nxr_rv_head *head, const char *bytes)
{
    struct nxr_rv_come come;
    struct place *place;

    if (head->nbytes != sizeof(come) || guest->rank >= 0) {
        guest_cut(guest);
        return;
    }
    memcpy(&come, bytes, sizeof(come));
    come.host[sizeof(come.host) - 1] = '\0';
    if (!key_is_right(come.key) || head->rank < 0 || head->rank >= place_job->np ||
        come.host[0] == '\0') {
        guest_cut(guest);
        return;
    }
    place = &places[head->rank];
    if (place->has_ended || come.incarnation < place->incarnation) {
        guest_refuse(guest, "this process belongs to an end of its rank that nixlrun has seen");
        return;
    }
    if (place->guest != NULL) {
        guest_cut(place->guest);
    }
    loop_timer_clear(&guest->knock);
    guest->rank = head->rank;
    place->guest = guest;
    place->was_in = place->was_in && come.incarnation == place->incarnation;
    place->incarnation = come.incarnation;
    place->wants_places = true;
    memcpy(place->host, come.host, sizeof(place->host));
    look_for_places();
}

static void guest_says(struct guest *guest, const struct nxr_rv_head *head, const char *bytes)
{
    if (head->kind == NXR_RV_COME) {
        guest_comes(guest, head, bytes);
    } else if (guest->rank < 0 || head->rank != guest->rank) {
        guest_cut(guest);
    } else if (head->kind == NXR_RV_CARD && head->nbytes > 0) {
        take_card(guest->rank, bytes, head->nbytes);
    } else if (head->kind == NXR_RV_LEFT) {
        place_is_empty(guest->rank, false);
    } else {
        guest_cut(guest);
    }
}

/* Take the messages that are whole. */
static void guest_parse(struct guest *guest)
{
    size_t at = 0;

    while (!guest->is_cut && guest->n_in - at >= sizeof(struct nxr_rv_head)) {
        struct nxr_rv_head head;

        memcpy(&head, guest->in + at, sizeof(head));
        if (head.magic != NXR_RV_MAGIC || head.nbytes > NXR_RV_GIVEN_MAX) {
            guest_cut(guest);
        } else if (head.version != NXR_RV_VERSION) {
            guest_refuse(guest, "it runs another version of nixlrun than the ranks");
        } else if (guest->n_in - at - sizeof(head) < head.nbytes) {
            break;
        } else {
            guest_says(guest, &head, guest->in + at + sizeof(head));
            at += sizeof(head) + head.nbytes;
        }
    }
    if (!guest->is_cut && at > 0) {
        guest->n_in -= at;
        memmove(guest->in, guest->in + at, guest->n_in);
    }
}

static void guest_is_ready(struct loop_fd *watch, uint32_t events)
{
    struct guest *guest = LOOP_OWNER(watch, struct guest, watch);
    size_t room = sizeof(struct nxr_rv_head) + NXR_RV_GIVEN_MAX;
    ssize_t n;

    if ((events & EPOLLOUT) != 0) {
        guest_flush(guest);
    }
    if ((events & ~(uint32_t)EPOLLOUT) == 0) {
        return;
    }
    n = recv(watch->fd, guest->in + guest->n_in, room - guest->n_in, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        guest_cut(guest);
    } else if (n > 0) {
        guest->n_in += (size_t)n;
        guest_parse(guest);
    }
}

static void guest_is_slow(struct loop_timer *timer)
{
    guest_cut(LOOP_OWNER(timer, struct guest, knock));
}

/* ---- the door -------------------------------------------------------------------------------- */

static struct guest **guests; /* all that are not freed */
static size_t n_guests;

/* Free those that were cut: nothing calls them any more. */
static void free_cut(void)
{
    size_t n = 0;

    for (size_t i = 0; i < n_guests; i++) {
        if (guests[i]->is_cut) {
            free(guests[i]->in);
            free(guests[i]->out);
            free(guests[i]);
        } else {
            guests[n++] = guests[i];
        }
    }
    n_guests = n;
}

static void door_opens_again(struct loop_timer *timer)
{
    (void)timer;
    loop_watch(&door, EPOLLIN);
}

static void door_is_ready(struct loop_fd *watch, uint32_t events)
{
    struct guest *guest;
    int fd, one = 1;

    (void)events;
    free_cut();
    fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        loop_watch(watch, 0); /* it would be ready at once */
        door_timer.fire = door_opens_again;
        loop_timer_set(&door_timer, nxr_now_ns() + DOOR_SHUT_NS);
    }
    if (fd < 0) {
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    guest = x_calloc(1, sizeof(*guest));
    guest->rank = -1;
    guest->in = x_calloc(sizeof(struct nxr_rv_head) + NXR_RV_GIVEN_MAX, 1);
    guest->watch = (struct loop_fd){.fd = fd, .ready = guest_is_ready};
    guest->knock.fire = guest_is_slow;
    guests = x_array(guests, n_guests + 1, sizeof(struct guest *));
    guests[n_guests++] = guest;
    if (loop_watch(&guest->watch, EPOLLIN) != 0) {
        guest_cut(guest);
        return;
    }
    loop_timer_set(&guest->knock, nxr_deadline(KNOCK_NS));
}

/* Append the addresses of this host, those that only it has if is_loopback. */
static void add_addresses(const struct ifaddrs *list, bool is_loopback, char *text, size_t nbytes)
{
    size_t used = strlen(text);
    int n = 0;

    for (const struct ifaddrs *each = list; each != NULL && n < MOST_ADDRESSES;
         each = each->ifa_next) {
        char address[INET6_ADDRSTRLEN] = "";

        if (each->ifa_addr == NULL || (each->ifa_flags & IFF_UP) == 0 ||
            ((each->ifa_flags & IFF_LOOPBACK) != 0) != is_loopback) {
            continue;
        }
        if (each->ifa_addr->sa_family == AF_INET) {
            struct sockaddr_in in;

            memcpy(&in, each->ifa_addr, sizeof(in));
            inet_ntop(AF_INET, &in.sin_addr, address, sizeof(address));
        } else if (each->ifa_addr->sa_family == AF_INET6) {
            struct sockaddr_in6 in6;

            memcpy(&in6, each->ifa_addr, sizeof(in6));
            if (in6.sin6_scope_id == 0) {
                inet_ntop(AF_INET6, &in6.sin6_addr, address, sizeof(address));
            }
        }
        if (address[0] != '\0' && used + strlen(address) + 2 < nbytes) {
            used += (size_t)snprintf(text + used, nbytes - used, ",%s", address);
            n++;
        }
    }
}

static void set_variable(int port)
{
    char text[2 * NXR_RV_KEY_NBYTES + 16 + 2 * MOST_ADDRESSES * (INET6_ADDRSTRLEN + 1)];
    struct ifaddrs *list = NULL;
    size_t used = 0;

    for (size_t i = 0; i < sizeof(rv_key); i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%02x", rv_key[i]);
    }
    snprintf(text + used, sizeof(text) - used, ",%d", port);
    if (getifaddrs(&list) == 0) {
        add_addresses(list, false, text, sizeof(text));
        add_addresses(list, true, text, sizeof(text));
        freeifaddrs(list);
    }
    setenv(RENDEZVOUS_VARIABLE, text, 1);
}

/* A socket that listens at any address, of both kinds if there are both. */
static int open_door(int *port_p)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr *address = (struct sockaddr *)&in6;
    socklen_t nbytes = sizeof(in6);
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), no = 0;

    if (fd >= 0) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    }
    if (fd < 0 || bind(fd, address, nbytes) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        address = (struct sockaddr *)&in;
        nbytes = sizeof(in);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, address, nbytes) != 0) {
            goto failed;
        }
    }
    if (listen(fd, SOMAXCONN) == 0 && getsockname(fd, address, &nbytes) == 0) {
        *port_p = ntohs(address->sa_family == AF_INET6 ? in6.sin6_port : in.sin_port);
        return fd;
    }
failed:
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

int rendezvous_open(const struct launch_job *job)
{
    int port = 0;

    place_job = job;
    places = x_calloc((size_t)job->np, sizeof(*places));
    if (!nxr_random(rv_key, sizeof(rv_key))) {
        return -errno;
    }
    door = (struct loop_fd){.fd = open_door(&port), .ready = door_is_ready};
    if (door.fd < 0) {
        return -errno;
    }
    set_variable(port);
    return loop_watch(&door, EPOLLIN);
}

void rendezvous_ended(int rank)
{
    if (places == NULL || places[rank].has_ended) {
        return;
    }
    places[rank].has_ended = true;
    if (places[rank].guest != NULL) {
        guest_cut(places[rank].guest);
    }
    look_for_places();
    look_for_all();
}
