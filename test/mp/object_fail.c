/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a store that has its faults, for test/storage/test_s3.sh. The store is that of
 * OBJECT_URL. Usage:
 *     object_fail open STATUS TEXT   opening fails with that status, and TEXT is in the message
 *     object_fail move ROUNDS [md5]  puts and gets succeed, and the bytes are right
 *     object_fail list               objects are put, and all of them are listed
 *     object_fail lost TEXT          a put and then a get fail, with TEXT in the message
 *     object_fail stat STATUS TEXT   asking for an object fails with that status, likewise
 *     object_fail size               an object is put, and has its size
 *     object_fail empty              the object that is there has no bytes
 *     object_fail large [TEXT]       an object in parts is put; or fails, with TEXT in the message
 *     object_fail part TEXT          a get of a part of an object fails, with TEXT in the message
 *     object_fail killed             rank 0 puts for ever, also in parts, until it is killed
 *     object_fail crash              an object in parts cannot be put, as the store dies; after a
 *                                    line on the standard input, the same region puts it
 */
#include "mptest.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_OBJECTS = 64, NBYTES = 3000, LARGE = 11 << 20, PART = 5 << 20 };

#define CRASH_NS (30 * INT64_C(1000000000))

static struct nixl_object_params fail_params = NIXL_OBJECT_PARAMS_INIT;
static const char *url;
static unsigned char *out, *in;

static void expect_text(int status, int expected, const char *text)
{
    MPT_STATUS(status, expected);
    if (strstr(nixl_last_error()->text, text) == NULL) {
        mpt_fail(__FILE__, __LINE__, "no '%s' in: %s", text, nixl_last_error()->text);
    }
}

static void opening(int expected, const char *text)
{
    struct nixl_region *region;

    expect_text(nixl_region_open_object("objects", url, &fail_params, &region), expected, text);
}

/* If SIGSEGV is blocked in a thread that faults, the program's handler is not called. */
static void expect_faults_are_heard(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;

    MPT_TRUE(tasks != NULL);
    while ((entry = readdir(tasks)) != NULL) {
        unsigned long long blocked = 0;
        char path[300], line[200];
        FILE *status;

        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        status = entry->d_name[0] != '.' ? fopen(path, "re") : NULL;
        while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
            (void)sscanf(line, "SigBlk: %llx", &blocked);
        }
        if (status != NULL) {
            fclose(status);
        }
        MPT_EQ(blocked >> (SIGSEGV - 1) & 1, 0);
    }
    closedir(tasks);
}

static void move(int rounds)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_region *region;
    struct nixl_xfer *put, *get;

    MPT_OK(nixl_region_open_object("objects", url, &fail_params, &region));
    expect_faults_are_heard();
    local.addr = out;
    local.block_nbytes = remote.block_nbytes = local.stride = remote.stride = NBYTES;
    local.nblocks = remote.nblocks = N_OBJECTS;
    remote.region = region;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, 0, &local, 1, &remote, 1, &put));
    local.addr = in;
    MPT_OK(nixl_xfer_create(NIXL_XFER_GET, 0, &local, 1, &remote, 1, &get));
    for (int i = 0; i < rounds; i++) {
        mpt_fill(out, (size_t)N_OBJECTS * NBYTES, (uint64_t)i);
        memset(in, 0, (size_t)N_OBJECTS * NBYTES);
        MPT_OK(nixl_xfer_start_x(put, NULL, NULL));
        MPT_OK(nixl_xfer_start_x(get, NULL, NULL));
        MPT_CHECK(in, (size_t)N_OBJECTS * NBYTES, (uint64_t)i);
    }
    MPT_OK(nixl_xfer_free(put));
    MPT_OK(nixl_xfer_free(get));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static int count_objects(const struct nixl_object_info *info, void *arg)
{
    MPT_EQ(info->nbytes, NBYTES);
    ++*(int *)arg;
    return 0;
}

static void list(void)
{
    struct nixl_region *region;
    int n = 0;

    move(1);
    MPT_OK(nixl_region_open_object("objects", url, &fail_params, &region));
    MPT_OK(nixl_object_list(region, NULL, MPT_PATIENCE, count_objects, &n));
    MPT_EQ(n, N_OBJECTS);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void lost(const char *text)
{
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    struct nixl_region *region;

    MPT_OK(nixl_region_open_object("objects", url, &fail_params, &region));
    for (int i = 0; i < 8; i++) {
        MPT_TRUE(nixl_object_stat(region, 0, MPT_PATIENCE, &info) != NIXL_OK);
    }
    expect_text(nixl_put(0, region, 0, out, NBYTES), NIXL_E_STORAGE, text);
    expect_text(nixl_get(0, region, 0, out, NBYTES), NIXL_E_STORAGE, text);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void ask(int expected, const char *text)
{
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    struct nixl_region *region;

    MPT_OK(nixl_region_open_object("objects", url, &fail_params, &region));
    expect_text(nixl_object_stat(region, 0, MPT_PATIENCE, &info), expected, text);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void size(void)
{
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    struct nixl_region *region;

    MPT_OK(nixl_region_open_object("objects", url, &fail_params, &region));
    MPT_OK(nixl_put(0, region, 0, out, NBYTES));
    MPT_OK(nixl_object_stat(region, 0, MPT_PATIENCE, &info));
    MPT_EQ(info.nbytes, NBYTES);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void empty(void)
{
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    struct nixl_region *region;

    MPT_OK(nixl_region_open_object("objects", url, &fail_params, &region));
    MPT_OK(nixl_object_stat(region, 0, MPT_PATIENCE, &info));
    MPT_EQ(info.nbytes, 0);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static struct nixl_region *open_large(void)
{
    struct nixl_region *region;
    char name[1100];

    snprintf(name, sizeof(name), "%s/large", url);
    fail_params.nobjects = 0;
    fail_params.object_nbytes = LARGE;
    fail_params.part_nbytes = PART;
    MPT_OK(nixl_region_open_object("large", name, &fail_params, &region));
    return region;
}

static void large(const char *text)
{
    struct nixl_region *region = open_large();

    mpt_fill(out, LARGE, 3);
    if (text != NULL) {
        expect_text(nixl_put(0, region, 0, out, LARGE), NIXL_E_STORAGE, text);
    } else {
        MPT_OK(nixl_put(0, region, 0, out, LARGE));
        MPT_OK(nixl_get(0, region, 0, in, LARGE));
        MPT_CHECK(in, LARGE, 3);
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void part(const char *text)
{
    struct nixl_region *region;

    MPT_OK(nixl_region_open_object("objects", url, &fail_params, &region));
    MPT_OK(nixl_put(0, region, 0, out, NBYTES));
    expect_text(nixl_get(0, region, 100, in, 100), NIXL_E_STORAGE, text);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* What a put of the whole object says, which has so long. */
static int put_within(struct nixl_region *region, int64_t timeout_ns)
{
    struct nixl_req *req = NULL;
    int status = nixl_put_x(0, region, 0, out, LARGE, NULL, &req);

    return status == NIXL_INPROGRESS ? nixl_req_wait(&req, timeout_ns) : status;
}

/* Every version of an object has one byte throughout, so that a mixture would be seen. */
static void killed(void)
{
    struct nixl_region *small, *whole;

    MPT_OK(nixl_region_open_object("objects", url, &fail_params, &small));
    whole = open_large();
    printf("begins\n");
    fflush(stdout);
    for (int i = 0;; i++) {
        struct nixl_req *req = NULL;

        memset(out, 'a' + i % 26, LARGE);
        MPT_TRUE(nixl_put_x(0, whole, 0, out, LARGE, NULL, &req) >= 0);
        for (int j = 0; j < N_OBJECTS; j++) {
            MPT_OK(nixl_put(0, small, (uint64_t)j * NBYTES, out, NBYTES));
        }
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    }
}

/* The version that fails is 'b' throughout, the one that comes behind it 'c'. */
static void crash(void)
{
    struct nixl_region *region = open_large();
    int64_t until;
    int status;

    memset(out, 'b', LARGE);
    MPT_STATUS(put_within(region, CRASH_NS), NIXL_E_STORAGE);
    printf("failed: %s\n", nixl_last_error()->text);
    fflush(stdout);
    MPT_TRUE(getchar() == '\n');
    memset(out, 'c', LARGE);
    until = mpt_now_ns() + MPT_PATIENCE;
    do { /* a store that has just begun may refuse it */
        status = put_within(region, MPT_PATIENCE);
    } while (status == NIXL_E_STORAGE && mpt_now_ns() < until);
    MPT_OK(status);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static int status_named(const char *name)
{
    return strcmp(name, "ACCESS") == 0      ? NIXL_E_ACCESS
           : strcmp(name, "NOT_FOUND") == 0 ? NIXL_E_NOT_FOUND
           : strcmp(name, "INVALID") == 0   ? NIXL_E_INVALID_ARG
                                            : NIXL_E_STORAGE;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    mpt_start();
    url = getenv("OBJECT_URL");
    if (url == NULL) {
        mpt_skip("OBJECT_URL names no store");
    }
    fail_params.nobjects = N_OBJECTS;
    fail_params.object_nbytes = NBYTES;
    fail_params.flags = argc > 3 && strcmp(argv[3], "md5") == 0 ? NIXL_OBJECT_MD5 : 0;
    MPT_OK(nixl_init(NULL));
    out = malloc(LARGE);
    in = malloc(LARGE);
    MPT_TRUE(out != NULL && in != NULL);
    if (strcmp(what, "open") == 0 && argc == 4) {
        opening(status_named(argv[2]), argv[3]);
    } else if (strcmp(what, "move") == 0 && argc > 2) {
        move(atoi(argv[2]));
    } else if (strcmp(what, "list") == 0) {
        list();
    } else if (strcmp(what, "lost") == 0 && argc == 3) {
        lost(argv[2]);
    } else if (strcmp(what, "stat") == 0 && argc == 4) {
        ask(status_named(argv[2]), argv[3]);
    } else if (strcmp(what, "size") == 0) {
        size();
    } else if (strcmp(what, "empty") == 0) {
        empty();
    } else if (strcmp(what, "large") == 0) {
        large(argc > 2 ? argv[2] : NULL);
    } else if (strcmp(what, "part") == 0 && argc == 3) {
        part(argv[2]);
    } else if (strcmp(what, "crash") == 0) {
        crash();
    } else if (strcmp(what, "killed") == 0) {
        killed();
    } else {
        mpt_fail(__FILE__, __LINE__, "usage: see the head of object_fail.c");
    }
    free(out);
    free(in);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
