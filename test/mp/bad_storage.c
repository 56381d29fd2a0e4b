/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that no call which opens storage may accept. See bad_args.c. */
#include "mptest.h"

#include <string.h>

#define CANARY ((void *)&canary)
static char canary;

static struct nixl_region *region;

static void bad_files(void)
{
    struct nixl_region *other = CANARY;

    MPT_STATUS(nixl_region_open_file("null", NULL, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open_file("\1", "/dev/zero", NULL, &other), NIXL_E_INVALID_ARG);
    MPT_TRUE(other == CANARY);
}

static int no_object(const struct nixl_object_info *info, void *arg)
{
    (void)info;
    (void)arg;
    return 0;
}

/* All is refused before a store is asked. */
static void bad_objects(void)
{
    static const char *const keys[] = {"a", ""};
    struct nixl_object_params params = NIXL_OBJECT_PARAMS_INIT;
    struct nixl_object_info object = NIXL_OBJECT_INFO_INIT;
    struct nixl_region *other = CANARY;
    const char *url = "s3://bucket/prefix";

    MPT_STATUS(nixl_region_open_object("null", NULL, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open_object("\1", url, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open_object("null", url, NULL, NULL), NIXL_E_INVALID_ARG);
    params.flags = 8;
    MPT_STATUS(nixl_region_open_object("o", url, &params, &other), NIXL_E_INVALID_ARG);
    params.flags = 0;
    params.access = 4;
    MPT_STATUS(nixl_region_open_object("o", url, &params, &other), NIXL_E_INVALID_ARG);
    params.access = 0;
    params.keys = keys;
    MPT_STATUS(nixl_region_open_object("o", url, &params, &other), NIXL_E_INVALID_ARG);
    params.nobjects = 2;
    MPT_STATUS(nixl_region_open_object("o", url, &params, &other), NIXL_E_INVALID_ARG);
    params.object_nbytes = 4096;
    params.part_nbytes = 4096;
    MPT_STATUS(nixl_region_open_object("o", url, &params, &other), NIXL_E_INVALID_ARG);
    MPT_TRUE(strstr(nixl_last_error()->text, "5 MiB to 5 GiB") != NULL);
    params.part_nbytes = 0;
    params.nconnections = 5000;
    MPT_STATUS(nixl_region_open_object("o", url, &params, &other), NIXL_E_INVALID_ARG);
    params.struct_nbytes = 8;
    MPT_STATUS(nixl_region_open_object("o", url, &params, &other), NIXL_E_INVALID_ARG);
    MPT_TRUE(other == CANARY);
    MPT_STATUS(nixl_object_stat(region, 0, 0, &object), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_object_stat(NULL, 0, 0, &object), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_object_delete(region, 0, 0), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_object_list(region, NULL, 0, no_object, NULL), NIXL_E_INVALID_ARG);
    MPT_TRUE(strstr(nixl_last_error()->text, "nixl_region_open_object") != NULL);
}

/* All is refused before a directory is made. */
static void bad_directories(void)
{
    static const char *const keys[] = {"a"};
    struct nixl_directory_params params = NIXL_DIRECTORY_PARAMS_INIT;
    struct nixl_region *other = CANARY;

    MPT_STATUS(nixl_region_open_directory("d", NULL, NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open_directory("d", "", NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open_directory("\1", "/tmp", NULL, &other), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open_directory("d", "/tmp", NULL, NULL), NIXL_E_INVALID_ARG);
    params.flags = 16;
    MPT_STATUS(nixl_region_open_directory("d", "/tmp", &params, &other), NIXL_E_INVALID_ARG);
    MPT_TRUE(strstr(nixl_last_error()->text, "_DIRECT (0x8)") != NULL);
    params.flags = NIXL_DIRECTORY_READ_ONLY | NIXL_DIRECTORY_CREATE;
    MPT_STATUS(nixl_region_open_directory("d", "/tmp", &params, &other), NIXL_E_INVALID_ARG);
    MPT_TRUE(strstr(nixl_last_error()->text, "excludes") != NULL);
    params.flags = 0;
    params.access = 4;
    MPT_STATUS(nixl_region_open_directory("d", "/tmp", &params, &other), NIXL_E_INVALID_ARG);
    params.access = 0;
    params.keys = keys;
    MPT_STATUS(nixl_region_open_directory("d", "/tmp", &params, &other), NIXL_E_INVALID_ARG);
    params.nobjects = 1;
    params.mode = 010000;
    MPT_STATUS(nixl_region_open_directory("d", "/tmp", &params, &other), NIXL_E_INVALID_ARG);
    params.mode = 0;
    params.ndescriptors = UINT32_MAX;
    MPT_STATUS(nixl_region_open_directory("d", "/tmp", &params, &other), NIXL_E_INVALID_ARG);
    params.struct_nbytes = 8;
    MPT_STATUS(nixl_region_open_directory("d", "/tmp", &params, &other), NIXL_E_INVALID_ARG);
    MPT_TRUE(other == CANARY);
}

int main(void)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("args", 64, NULL, &region));
    bad_files();
    bad_objects();
    bad_directories();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
