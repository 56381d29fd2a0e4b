/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the system: what is too much is refused, and what was there goes on.
 *
 *     limits much     more memory than there is, touched at once
 *     limits as       address space (RLIMIT_AS)
 *     limits fsize    size of files, which memory files are too (RLIMIT_FSIZE)
 *     limits nofile   64 descriptors, while every rank talks to every other
 *     limits regions  many regions that a peer has used are closed: the peer hears of all soon
 *     limits memcg    rank 1 runs in a memory group of 48 MiB and fills it: the kernel kills it
 */
#include "mptest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAG_PID  0x7101
#define TAG_HERE 0x7102

static struct nixl_note note;

static void set_limit(int resource, rlim_t value)
{
    struct rlimit limit;

    MPT_EQ(getrlimit(resource, &limit), 0);
    limit.rlim_cur = value;
    MPT_EQ(setrlimit(resource, &limit), 0);
}

/* A region between all ranks: what must go on to work. */
static void use_everything(const char *name)
{
    int rank = nixl_rank(), size = nixl_size();
    struct nixl_region *region = NULL;
    uint64_t *words, word = (uint64_t)rank + 1;

    MPT_OK(nixl_region_alloc(name, 8 * (size_t)size, NULL, &region));
    words = nixl_region_addr(region);
    mpt_barrier();
    for (int other = 0; other < size; other++) {
        MPT_OK(nixl_put_notify(other, region, 8 * (uint64_t)rank, &word, 8, TAG_HERE, NULL, 0,
                               MPT_PATIENCE));
    }
    for (int other = 0; other < size; other++) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(other, TAG_HERE, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_EQ(words[other], other + 1);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void expect_no_memory(size_t nbytes, unsigned flags)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region *region = NULL;

    params.flags = flags;
    MPT_STATUS(nixl_region_alloc("too much", nbytes, &params, &region), NIXL_E_NO_MEMORY);
    MPT_TRUE(region == NULL);
    printf("%s\n", nixl_last_error()->text);
}

static rlim_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long n_pages = 0;

    MPT_TRUE(file != NULL);
    MPT_EQ(fscanf(file, "%lu", &n_pages), 1);
    fclose(file);
    return (rlim_t)n_pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void test_address_space(void)
{
    /* Room for arenas of threads' malloc, of which glibc maps 128 MiB at a time. */
    set_limit(RLIMIT_AS, address_space() + (512u << 20));
    expect_no_memory((size_t)1 << 30, 0);
    use_everything("as");
}

/* More than any machine has, of which each page would be touched: refused before the first one. */
static void test_too_much(void)
{
    expect_no_memory((size_t)1 << 46, NIXL_MEM_POPULATE);
    MPT_TRUE(strstr(nixl_last_error()->text, "available") != NULL);
}

/* No SIGXFSZ may hit the rank: its default action would end it. */
static void test_file_size(void)
{
    set_limit(RLIMIT_FSIZE, 1u << 20);
    expect_no_memory(16u << 20, 0);
    MPT_TRUE(strstr(nixl_last_error()->text, "ulimit -f") != NULL);
    expect_no_memory(16u << 20, NIXL_MEM_POPULATE);
    use_everything("fsize");
}

/* Regions of many names in all directions, again and again, with few descriptors. */
static void test_descriptors(void)
{
    char name[32];

    for (int round = 0; round < 3; round++) {
        snprintf(name, sizeof(name), "nofile.%d", round);
        use_everything(name);
    }
}

/* ---- memory group -----------------------------------------------------------------------------
 */

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        mpt_fail(__FILE__, __LINE__, "cannot write '%s' to %s: %m", text, path);
    }
}

static void watch_the_group(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    char dir[128], text[32];
    pid_t pid;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1, TAG_PID, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&pid, note.payload, sizeof(pid));
    snprintf(dir, sizeof(dir), "/sys/fs/cgroup/memory/nixlrun-test-%d", (int)getpid());
    if (mkdir(dir, 0755) != 0) {
        kill(pid, SIGKILL);
        mpt_skip("no memory group can be made (%m)");
    }
    snprintf(text, sizeof(text), "%d", (int)pid);
    write_text(dir, "memory.limit_in_bytes", "48M");
    write_text(dir, "cgroup.procs", text);
    MPT_OK(nixl_notify(1, TAG_HERE, NULL, 0, MPT_PATIENCE));
    do {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    } while (event.type != NIXL_EVENT_PEER_LOST);
    MPT_EQ(event.rank, 1);
    for (int64_t end_ns = mpt_now_ns() + MPT_PATIENCE; rmdir(dir) != 0;) {
        MPT_LT(mpt_now_ns(), end_ns);
    }
}

static void fill_the_group(void)
{
    struct nixl_region *region = NULL;
    pid_t pid = getpid();

    MPT_OK(nixl_notify(0, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(0, TAG_HERE, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_OK(nixl_region_alloc("group", 256u << 20, NULL, &region));
    memset(nixl_region_addr(region), 1, 256u << 20);
    mpt_fail(__FILE__, __LINE__, "256 MiB fit into a group of 48 MiB");
}

/* ---- many regions ---------------------------------------------------------------------------- */

#define N_REGIONS 12000

/* Rank 1 puts into all; the CPU time that its questions and puts take. */
static int64_t use_all(struct nixl_region **regions)
{
    int64_t begin_ns = mpt_cpu_ns();
    char byte = 1;

    for (int i = 0; i < N_REGIONS && nixl_rank() == 1; i++) {
        MPT_OK(nixl_put(0, regions[i], 0, &byte, 1));
    }
    return mpt_cpu_ns() - begin_ns;
}

/*
 * Rank 0 closes all, and rank 1 hears of each. It has heard of all when an answer that was sent
 * behind them comes. That takes it about as much CPU time as the use, and with a search through all
 * for each ten times as much: the limit is three times. Its waits must not spin (limits.mp).
 */
static void test_regions(void)
{
    struct nixl_region **regions = calloc(N_REGIONS, sizeof(struct nixl_region *)), *last;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    char name[32], *memory = calloc(N_REGIONS, 1);
    int64_t use_ns, close_ns;

    MPT_TRUE(regions != NULL && memory != NULL);
    for (int i = 0; i < N_REGIONS; i++) {
        snprintf(name, sizeof(name), "limits.%d", i);
        MPT_OK(nixl_rank() == 0 ? nixl_region_register(name, memory + i, 1, NULL, &regions[i])
                                : nixl_region_open(name, &regions[i]));
    }
    mpt_barrier();
    use_ns = use_all(regions);
    mpt_barrier();
    close_ns = mpt_cpu_ns();
    for (int i = 0; i < N_REGIONS && nixl_rank() == 0; i++) {
        MPT_OK(nixl_region_close(regions[i], MPT_PATIENCE));
    }
    MPT_OK(nixl_rank() == 0 ? nixl_region_register("limits.last", memory, 1, NULL, &last)
                            : nixl_region_open("limits.last", &last));
    MPT_OK(nixl_region_query(0, last, MPT_PATIENCE, &info));
    close_ns = mpt_cpu_ns() - close_ns;
    if (nixl_rank() == 1) {
        printf("CPU ns: used %jd, closed %jd\n", (intmax_t)use_ns, (intmax_t)close_ns);
        MPT_LT(close_ns, 3 * use_ns);
    }
    mpt_barrier();
    for (int i = 0; i < N_REGIONS && nixl_rank() == 1; i++) {
        MPT_OK(nixl_region_close(regions[i], MPT_PATIENCE));
    }
    MPT_OK(nixl_region_close(last, MPT_PATIENCE));
    free(memory);
    free(regions);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    mpt_start();
    if (strcmp(what, "nofile") == 0) {
        set_limit(RLIMIT_NOFILE, 64);
    }
    MPT_OK(nixl_init(NULL));
    mpt_barrier();
    if (strcmp(what, "much") == 0) {
        test_too_much();
    } else if (strcmp(what, "as") == 0) {
        test_address_space();
    } else if (strcmp(what, "fsize") == 0) {
        test_file_size();
    } else if (strcmp(what, "regions") == 0) {
        test_regions();
    } else if (strcmp(what, "nofile") == 0) {
        test_descriptors();
    } else if (nixl_rank() == 1) {
        fill_the_group();
    } else {
        watch_the_group();
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
