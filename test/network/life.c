/* SPDX-License-Identifier: Apache-2.0 */
/* Open and close; endpoints too; addresses, whole and damaged. */
#include "config.h"

#include "network_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_LAST 500u

static void talk(void)
{
    char buffer[64];
    struct nt_op op = {.is_taken = false};
    uint64_t before = nt_told.n_received;

    nt_barrier();
    nt_make(buffer, sizeof(buffer), 0, 0);
    nt_send(!nt_rank, buffer, sizeof(buffer), NULL, 0, &op);
    nt_until_ended(&op, NIXL_OK);
    nt_until_count(&nt_told.n_received, before + 1, "the other was heard");
}

static void open_again(void)
{
    for (int i = 0; i < 3; i++) {
        memset(&nt_told, 0, sizeof(nt_told));
        nt_open(false);
        nt_connect();
        talk();
        nt_close();
    }
}

static void open_and_close(void)
{
    for (int i = 0; i < 10; i++) {
        nt_open(false);
        nt_is_open = false;
        nt_net->close();
    }
}

static bool has_no_random;

/* The modules', too: a program's own function goes before the C library's. */
NIXL_API ssize_t getrandom(void *bytes, size_t nbytes, unsigned flags)
{
    if (has_no_random) {
        errno = EPERM;
        return -1;
    }
    return syscall(SYS_getrandom, bytes, nbytes, flags);
}

/* As under a strict seccomp filter: every network draws the number by which it is named. */
static void without_random_numbers(void)
{
    char why[512] = "";
    int status;

    has_no_random = true;
    status = nt_try_open(false, why, sizeof(why));
    has_no_random = false;
    MPT_EQ(status, NIXL_E_TRANSPORT);
    MPT_TRUE(strstr(why, "random") != NULL);
}

/* ---- an orderly end of an endpoint ----------------------------------------------------------- */

/* What was accepted before the close arrives. */
static void last_words(void)
{
    static struct nt_op ops[N_LAST];
    size_t nbytes = 4000;
    char *buffers = malloc(N_LAST * nbytes);
    int64_t until = mpt_now_ns() + NT_WAIT_NS;

    MPT_TRUE(buffers != NULL);
    talk();
    if (nt_rank == 1) {
        nt_until_count(&nt_told.n_received, 1 + N_LAST, "the last words came");
    } else {
        for (unsigned i = 0; i < N_LAST; i++) {
            nt_make(buffers + i * nbytes, nbytes, 0, i);
            nt_send(1, buffers + i * nbytes, nbytes, NULL, 0, &ops[i]);
        }
        nt_net->ep_close(nt_eps[1], true);
        nt_eps[1] = NULL;
        for (unsigned i = 0; i < N_LAST; i++) {
            while (ops[i].is_taken && ops[i].n_ends == 0) {
                MPT_LT(mpt_now_ns(), until);
                nt_drive();
            }
            if (ops[i].is_taken) {
                MPT_OK(ops[i].status);
            }
        }
    }
    nt_barrier();
    free(buffers);
}

/* The other never calls in; an orderly close ends all the same, also for a sleeper. */
static void deaf_peer(void)
{
    static struct nt_op ops[N_LAST];
    size_t nbytes = 60000;
    char *buffers = malloc(N_LAST * nbytes);
    uint64_t n_taken;
    bool was_full = false;
    int64_t deadline = mpt_now_ns() + NT_WAIT_NS;

    MPT_TRUE(buffers != NULL);
    talk();
    nt_barrier();
    n_taken = nt_told.n_ended;
    if (nbytes > nt_net->attr()->message_nbytes) {
        nbytes = nt_net->attr()->message_nbytes;
    }
    if (nt_rank == 1) {
        nt_doze(0);
        free(buffers);
        nt_die();
    }
    for (unsigned i = 0; i < N_LAST; i++) {
        int status;

        nt_make(buffers + i * nbytes, nbytes, 0, i);
        status = nt_net->send(nt_eps[1], buffers + i * nbytes, nbytes, NULL, 0, &ops[i].op);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS || status == NIXL_E_AGAIN);
        ops[i].is_taken = status == NIXL_INPROGRESS;
        n_taken += ops[i].is_taken;
        was_full |= status == NIXL_E_AGAIN;
    }
    MPT_TRUE(was_full || n_taken > nt_told.n_ended);
    nt_net->ep_close(nt_eps[1], true);
    nt_eps[1] = NULL;
    while (nt_told.n_ended < n_taken) {
        MPT_LT(mpt_now_ns(), deadline);
        (void)nt_sleep(NT_WAIT_NS / MPT_MS);
        nt_drive();
    }
    MPT_EQ(nt_told.n_ended, n_taken);
    MPT_EQ(nt_told.n_failed[1], 0);
    nt_tell(1, "", 1);
    nt_is_dead[1] = true;
    free(buffers);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool is_refused(const unsigned char *bytes, size_t nbytes)
{
    struct nxr_net_ep *ep;
    char why[200] = "";
    unsigned n_rails;
    int peer = 0;

    if (nt_net->reach(bytes, nbytes, &n_rails, why, sizeof(why)) == NIXL_OK) {
        return false;
    }
    MPT_TRUE(why[0] != '\0' && strlen(why) < sizeof(why) && strchr(why, '\n') == NULL);
    return nt_net->ep_open(bytes, nbytes, &peer, &ep) < 0;
}

static void addresses(void)
{
    unsigned char *bytes = malloc(NXR_NET_ADDRESS_NBYTES); /* ASan sees what reads behind it */
    unsigned char again[NXR_NET_ADDRESS_NBYTES];
    size_t nbytes = 0, again_nbytes = 0;
    uint64_t state = 7;
    unsigned n_rails;
    char why[200];

    MPT_TRUE(bytes != NULL);
    MPT_OK(nt_net->address(bytes, &nbytes));
    MPT_OK(nt_net->address(again, &again_nbytes));
    MPT_EQ(nbytes, again_nbytes);
    MPT_EQ(memcmp(bytes, again, nbytes), 0);
    MPT_OK(nt_net->reach(bytes, nbytes, &n_rails, why, sizeof(why)));
    for (size_t bit = 0; bit < nbytes * 8; bit++) {
        bytes[bit / 8] ^= 1 << bit % 8;
        if (!is_refused(bytes, nbytes)) {
            mpt_fail(__FILE__, __LINE__, "an address with bit %zu of %zu flipped", bit, nbytes * 8);
        }
        bytes[bit / 8] ^= 1 << bit % 8;
    }
    for (size_t cut = 0; cut < nbytes; cut++) {
        MPT_TRUE(is_refused(bytes, cut));
    }
    for (unsigned i = 0; i < 10000; i++) {
        size_t random_nbytes = mpt_random(&state) % (NXR_NET_ADDRESS_NBYTES + 1);

        mpt_fill(bytes, random_nbytes, mpt_random(&state));
        MPT_TRUE(is_refused(bytes, random_nbytes));
    }
    free(bytes);
    talk();
}

/* What a user reads. */
static void words(void)
{
    const struct nxr_net_attr *attr = nt_net->attr();
    char line[256];
    unsigned n = 0;

    MPT_TRUE(attr->library[0] != '\0' && attr->devices[0] != '\0');
    MPT_GE(attr->n_rails, 1);
    MPT_GE(attr->latency_ns, 1);
    MPT_GE(attr->bandwidth_mbps, 1);
    MPT_GE(attr->message_nbytes, attr->put_message_nbytes);
    while (nt_net->describe(n, line, sizeof(line)) == NIXL_OK) {
        MPT_TRUE(line[0] != '\0' && strchr(line, '\n') == NULL);
        n++;
    }
    MPT_GE(n, 1);
    MPT_EQ(nt_net->describe(n, line, sizeof(line)), NIXL_E_NOT_FOUND);
    if (nt_rank == 0) {
        fprintf(stderr, "# %s; %s; message %zu, put %zu, get %zu\n", attr->library, attr->devices,
                attr->message_nbytes, attr->put_message_nbytes, attr->get_message_nbytes);
    }
}

const struct nt_case nt_life_cases[] = {
    {.text = "it says what it is", .n_processes = 2, .run = words},
    {.text = "open and close, ten times",
     .n_processes = 2,
     .run = open_and_close,
     .starts_closed = true},
    {.text = "closed and opened again, it works",
     .n_processes = 2,
     .run = open_again,
     .starts_closed = true},
    {.text = "it is not opened without random numbers for secrets",
     .n_processes = 2,
     .run = without_random_numbers,
     .starts_closed = true},
    {.text = "an orderly close delivers what was accepted", .n_processes = 2, .run = last_words},
    {.text = "an orderly close of a deaf peer ends",
     .n_processes = 2,
     .run = deaf_peer,
     .killed = 1},
    {.text = "damaged addresses are refused", .n_processes = 2, .run = addresses},
    {.text = NULL},
};
