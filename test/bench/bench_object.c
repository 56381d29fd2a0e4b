/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting and getting objects of a store, the one of --object, by the rank that has opened them,
 * with some requests under way; beside `curl --parallel', where that is installed, with as many
 * connections, to the same keys, in turns with it. The time of curl has its start in it, and it
 * checks no bytes. What is left of a run that was killed lies under nixl_bench.PID/ of the URL.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_OBJECTS  64
#define DEPTH      8
#define N_TURNS    3
#define MAX_NBYTES ((uint64_t)1 << 20)
#define RANGE      ((uint64_t)65536)
#define N_LARGE    ((uint64_t)32 << 20) /* an object in four parts */
#define GOAL       (1 / 0.9)            /* of curl's rate */

enum object_work { PUT_WHOLE, GET_WHOLE, GET_RANGE };

struct object_case {
    const char *name;
    enum object_work work;
    uint64_t object_nbytes, nbytes; /* nbytes: of a request */
};

static const struct object_case object_cases[] = {
    {"put whole objects", PUT_WHOLE, 65536, 65536},
    {"get whole objects", GET_WHOLE, 65536, 65536},
    {"put whole objects", PUT_WHOLE, MAX_NBYTES, MAX_NBYTES},
    {"get whole objects", GET_WHOLE, MAX_NBYTES, MAX_NBYTES},
    {"get ranges", GET_RANGE, MAX_NBYTES, RANGE},
};

struct object_bench {
    struct bench *bench;
    const struct object_case *how;
    char url[1000], source[400];
    struct nixl_region *region;
    struct nixl_cq *cq;
    unsigned char *memory; /* DEPTH objects of the largest size, or a large one */
};

/* ---- nixlrun --------------------------------------------------------------------------------- */

static void object_begin(struct object_bench *objects, uint64_t object, uint64_t slot)
{
    const struct object_case *how = objects->how;
    unsigned char *memory = objects->memory + slot * how->nbytes;
    uint64_t offset = object * how->object_nbytes;
    struct nixl_op op = NIXL_OP_INIT;
    int rank = objects->bench->rank, status;

    op.cq = objects->cq;
    op.user_data = slot;
    if (how->work == PUT_WHOLE) {
        status = nixl_put_x(rank, objects->region, offset, memory, how->nbytes, &op, NULL);
    } else {
        status = nixl_get_x(rank, objects->region, offset, memory, how->nbytes, &op, NULL);
    }
    if (status != NIXL_INPROGRESS) {
        bench_check(status == NIXL_OK ? NIXL_E_INTERNAL : status, how->name);
    }
}

/* The time for one of N_OBJECTS requests. */
static double object_turn(struct object_bench *objects)
{
    struct nixl_cq_entry entries[DEPTH];
    uint64_t n_begun = 0, n_done = 0;
    int64_t start = nxr_now_ns();

    while (n_begun < DEPTH) {
        object_begin(objects, n_begun, n_begun);
        n_begun++;
    }
    while (n_done < N_OBJECTS) {
        size_t n = 0;

        bench_check(nixl_cq_wait(objects->cq, entries, DEPTH, BENCH_TIMEOUT_NS, &n),
                    "nixl_cq_wait");
        for (size_t i = 0; i < n; i++) {
            bench_check(entries[i].status, objects->how->name);
            n_done++;
            if (n_begun < N_OBJECTS) {
                object_begin(objects, n_begun++, entries[i].user_data);
            }
        }
    }
    return (double)(nxr_now_ns() - start) / N_OBJECTS;
}

/* ---- curl ------------------------------------------------------------------------------------ */

/* The credentials go through a pipe, as everybody sees a command's words. */
static void curl_configure(FILE *curl, const struct object_bench *objects)
{
    const struct object_case *how = objects->how;
    const char *region = getenv("AWS_REGION");

    fprintf(curl, "fail\nsilent\nparallel\nparallel-max = %d\n", DEPTH);
    for (int i = 0; i < N_OBJECTS; i++) {
        fprintf(curl, "%suser = \"%s:%s\"\naws-sigv4 = \"aws:amz:%s:s3\"\nurl = \"%s/%016x\"\n",
                i > 0 ? "next\nfail\nsilent\n" : "", getenv("AWS_ACCESS_KEY_ID"),
                getenv("AWS_SECRET_ACCESS_KEY"), region != NULL ? region : "us-east-1",
                objects->url, (unsigned)i);
        if (how->work == PUT_WHOLE) {
            fprintf(curl, "upload-file = \"%s\"\n", objects->source);
        }
        if (how->work == GET_RANGE) {
            fprintf(curl, "range = \"0-%llu\"\n", (unsigned long long)how->nbytes - 1);
        }
        fprintf(curl, "output = \"/dev/null\"\n");
    }
}

/* The same by curl. 0: there is no curl, or it cannot do this. */
static double curl_turn(const struct object_bench *objects)
{
    int64_t start = nxr_now_ns();
    FILE *curl;

    if (strncmp(objects->url, "http", 4) != 0 || getenv("AWS_ACCESS_KEY_ID") == NULL ||
        getenv("AWS_SECRET_ACCESS_KEY") == NULL || getenv("AWS_SESSION_TOKEN") != NULL) {
        return 0;
    }
    curl = popen("exec curl -K - >/dev/null 2>&1", "w");
    if (curl == NULL) {
        return 0;
    }
    curl_configure(curl, objects);
    return pclose(curl) == 0 ? (double)(nxr_now_ns() - start) / N_OBJECTS : 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int object_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void object_report(struct object_bench *objects, const char *what, uint64_t nbytes,
                          double *turns, double *curls, int n_curls)
{
    const int n_turns = sample_turns(objects->bench, N_TURNS);

    qsort(turns, (size_t)n_turns, sizeof(*turns), object_compare);
    if (n_curls > 0) {
        qsort(curls, (size_t)n_curls, sizeof(*curls), object_compare);
    }
    report_row(objects->bench, &(struct bench_row){.test = "objects",
                                                   .what = what,
                                                   .nbytes = nbytes,
                                                   .has_nbytes = true,
                                                   .unit = "ns",
                                                   .value = turns[n_turns / 2],
                                                   .min = turns[0],
                                                   .p99 = turns[n_turns - 1],
                                                   .bytes_per_op = (double)nbytes,
                                                   .limit_name = n_curls > 0 ? "curl" : NULL,
                                                   .limit = n_curls > 0 ? curls[n_curls / 2] : 0,
                                                   .goal = n_curls > 0 ? GOAL : 0});
}

static void object_run(struct object_bench *objects)
{
    double turns[N_TURNS], curls[N_TURNS];
    char what[64];
    int n_curls = 0;

    for (int i = 0; i < sample_turns(objects->bench, N_TURNS); i++) {
        turns[i] = object_turn(objects);
        curls[n_curls] = curl_turn(objects);
        n_curls += curls[n_curls] > 0;
    }
    snprintf(what, sizeof(what), "%s (%d under way)", objects->how->name, DEPTH);
    object_report(objects, what, objects->how->nbytes, turns, curls, n_curls);
}

/* ---- the objects ----------------------------------------------------------------------------- */

static struct nixl_region *object_open(const char *url, uint64_t n, uint64_t nbytes)
{
    struct nixl_object_params params = NIXL_OBJECT_PARAMS_INIT;
    struct nixl_region *region;

    params.nobjects = n;
    params.object_nbytes = nbytes;
    params.nconnections = DEPTH;
    bench_check(nixl_region_open_object(NULL, url, &params, &region), "nixl_region_open_object");
    return region;
}

static void object_close(struct nixl_region *region, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        bench_check(nixl_object_delete(region, i, BENCH_TIMEOUT_NS), "nixl_object_delete");
    }
    bench_check(nixl_region_close(region, BENCH_TIMEOUT_NS), "nixl_region_close");
}

/* What curl uploads. */
static void object_source(struct object_bench *objects, uint64_t nbytes)
{
    const char *dir = getenv("TMPDIR");
    FILE *file;

    snprintf(objects->source, sizeof(objects->source), "%s/nixl_bench.object.%d",
             dir != NULL ? dir : "/var/tmp", (int)getpid());
    file = fopen(objects->source, "we");
    if (file == NULL || fwrite(objects->memory, 1, nbytes, file) != nbytes || fclose(file) != 0) {
        bench_die("nixl_bench: cannot write %s: %m", objects->source);
    }
}

static void objects_of_size(struct object_bench *objects, uint64_t nbytes)
{
    objects->region = object_open(objects->url, N_OBJECTS, nbytes);
    object_source(objects, nbytes);
    for (size_t i = 0; i < sizeof(object_cases) / sizeof(object_cases[0]); i++) {
        objects->how = &object_cases[i];
        if (objects->how->object_nbytes == nbytes) {
            object_run(objects);
        }
    }
    (void)unlink(objects->source);
    object_close(objects->region, N_OBJECTS);
}

/* One object in parts, at once. */
static void object_in_parts(struct object_bench *objects)
{
    struct nixl_region *region = object_open(objects->url, 1, N_LARGE);
    double puts[N_TURNS], gets[N_TURNS];
    int rank = objects->bench->rank;

    for (int i = 0; i < sample_turns(objects->bench, N_TURNS); i++) {
        int64_t start = nxr_now_ns(), middle;

        bench_check(nixl_put(rank, region, 0, objects->memory, N_LARGE), "nixl_put");
        middle = nxr_now_ns();
        bench_check(nixl_get(rank, region, 0, objects->memory, N_LARGE), "nixl_get");
        puts[i] = (double)(middle - start);
        gets[i] = (double)(nxr_now_ns() - middle);
    }
    object_report(objects, "put an object in parts", N_LARGE, puts, NULL, 0);
    object_report(objects, "get an object in parts", N_LARGE, gets, NULL, 0);
    object_close(region, 1);
}

void test_objects(struct bench *bench)
{
    struct object_bench objects = {.bench = bench};

    if (bench->options.object == NULL) {
        bench_die("nixl_bench: objects needs --object URL, a place in a store for its objects");
    }
    snprintf(objects.url, sizeof(objects.url), "%s/nixl_bench.%d", bench->options.object,
             (int)getpid());
    objects.memory = malloc(N_LARGE);
    if (objects.memory == NULL) {
        bench_die("nixl_bench: no memory");
    }
    memset(objects.memory, 0x5a, N_LARGE);
    bench_check(nixl_cq_open(NULL, &objects.cq), "nixl_cq_open");
    objects_of_size(&objects, 65536);
    objects_of_size(&objects, MAX_NBYTES);
    object_in_parts(&objects);
    bench_check(nixl_cq_close(objects.cq), "nixl_cq_close");
    free(objects.memory);
}
