/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine can do without nixlrun, on the same memory and between the same processes. */
#include "config.h"

#include "bench.h"
#include "util/copy.h"

#include <string.h>
#include <sys/uio.h>

static void wait_flag(_Atomic uint64_t *flag, uint64_t value)
{
    while (atomic_load_explicit(flag, memory_order_acquire) != value) {
    }
}

static void read_payload(struct bench *bench, bool has_payload)
{
    if (has_payload) {
        fresh_read(bench, bench->mine + bench->alignment.dst, bench->nbytes);
    }
}

/* The word and nothing else; with arg 1 the payload before it, by the C library's memcpy. */
static void ping_pong(struct bench *bench, long n, bool with_payload)
{
    struct bench_page *page = bench->page;

    for (long i = 0; i < n; i++) {
        bench->flag_seq++;
        if (bench->rank == 1) {
            wait_flag(&page->flag_a, bench->flag_seq);
            read_payload(bench, with_payload);
        }
        if (with_payload) {
            fresh_write(bench, bench->src, bench->nbytes);
            memcpy(bench->raw_dst, bench->src, bench->nbytes);
        }
        atomic_store_explicit(bench->rank == 0 ? &page->flag_a : &page->flag_b, bench->flag_seq,
                              memory_order_release);
        if (bench->rank == 0) {
            wait_flag(&page->flag_b, bench->flag_seq);
            read_payload(bench, with_payload);
        }
    }
}

void bare_flag(struct bench *bench, long n, int arg)
{
    (void)arg;
    ping_pong(bench, n, false);
}

void bare_copy_flag(struct bench *bench, long n, int arg)
{
    (void)arg;
    ping_pong(bench, n, true);
}

struct bench_lane bare_one_way_lane(const struct bench *bench, bool is_word)
{
    if (bench->wire != NULL) {
        return bare_tcp_lane(bench, is_word ? TCP_WORD_ONE_WAY : TCP_ONE_WAY);
    }
    if (is_word || bench->theirs == NULL || bench->nbytes <= sizeof(uint64_t)) {
        return (struct bench_lane){"flag", bare_flag, 0, ACTOR_PAIR, 2};
    }
    return (struct bench_lane){"memcpy and flag", bare_copy_flag, 0, ACTOR_PAIR, 2};
}

static void copy_to(struct bench *bench, long n, int method)
{
    for (long i = 0; i < n; i++) {
        nxr_copy_by((enum nxr_copy_method)method, bench->raw_dst, bench->src, bench->nbytes);
        __asm__ volatile("" : : : "memory");
    }
}

static void copy_from(struct bench *bench, long n, int method)
{
    for (long i = 0; i < n; i++) {
        nxr_copy_by((enum nxr_copy_method)method, bench->src, bench->raw_dst, bench->nbytes);
        __asm__ volatile("" : : : "memory");
    }
}

int bare_copy_lanes(struct bench_lane *lanes, bool is_get)
{
    int n_lanes = 0;

    for (int method = 0; method < NXR_COPY_N_METHODS; method++) {
        if (nxr_copy_is_usable((enum nxr_copy_method)method)) {
            lanes[n_lanes++] = (struct bench_lane){
                nxr_copy_method_name((enum nxr_copy_method)method),
                is_get ? copy_from : copy_to,
                method,
                ACTOR_FIRST,
                1,
            };
        }
    }
    return n_lanes;
}

/* One call moves what it can; 2 GiB is more than any size here. */
static ssize_t process_vm(struct bench *bench, bool is_read)
{
    struct iovec local = {bench->src, bench->nbytes};
    struct iovec remote = {
        (void *)(uintptr_t)(bench->page->user_memory[bench->peer] + bench->alignment.dst),
        bench->nbytes};
    pid_t pid = bench->page->pids[bench->peer];

    return is_read ? process_vm_readv(pid, &local, 1, &remote, 1, 0)
                   : process_vm_writev(pid, &local, 1, &remote, 1, 0);
}

void bare_process_vm(struct bench *bench, long n, int arg)
{
    for (long i = 0; i < n; i++) {
        if (process_vm(bench, arg == 1) != (ssize_t)bench->nbytes) {
            bench_die("nixl_bench: process_vm moved less than %llu bytes",
                      (unsigned long long)bench->nbytes);
        }
    }
}

bool bare_process_vm_works(struct bench *bench)
{
    return process_vm(bench, true) == (ssize_t)bench->nbytes;
}
