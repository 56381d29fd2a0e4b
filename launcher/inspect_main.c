/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun-inspect: reports what only a rank can find out, since only the library knows it. It is an
 * ordinary program that uses only the public calls; see inspect.h for how nixlrun uses it.
 */
#include "config.h"

#include "launcher/explain.h"
#include "launcher/explain_measured.h"
#include "launcher/inspect.h"
#include "launcher/job.h"
#include "launcher/storage_facts.h"
#include "launcher/table.h"
#include "nixlrun.h"
#include "util/env.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_GPUS = 64, MAX_MEASURED = 32 };

static void tell_library(void)
{
    unsigned loaded = nixl_version();
    char path[PATH_MAX] = "", version[32];
    Dl_info info;

    if (dladdr(dlsym(RTLD_DEFAULT, "nixl_init"), &info) == 0 ||
        realpath(info.dli_fname, path) == NULL) {
        path[0] = '\0';
    }
    snprintf(version, sizeof(version), "%u.%u.%u", loaded / 1000000, loaded / 1000 % 1000,
             loaded % 1000);
    printf("libraries\tlibnixlrun\t%s\t%s\n", version, table_cell(path));
    if (loaded != NIXL_VERSION) {
        printf("missing\tlibnixlrun " NIXLRUN_VERSION
               "\tversion %s is loaded, but nixlrun is " NIXLRUN_VERSION
               ": install both from one build, or correct LD_LIBRARY_PATH\n",
               version);
    }
}

static void tell_devices(struct nixl_route_info *route)
{
    char *next = route->devices;

    while (next != NULL && *next != '\0') {
        printf("devices\t%s\t%s\n", route->transport, table_cell(strsep(&next, "\n")));
    }
}

static void tell_transport(struct nixl_route_info *route)
{
    char latency[TABLE_NUMBER_NBYTES], bandwidth[TABLE_NUMBER_NBYTES], rails[TABLE_NUMBER_NBYTES];

    /* Leave out why it does not serve this rank, as that is the only one. */
    printf("transports\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", route->transport,
           route->is_usable ? "yes" : "no", table_number(route->latency_ns, latency),
           table_number(route->bandwidth_mbps, bandwidth), table_number(route->nrails, rails),
           table_cell(route->library), route->is_usable ? "" : table_cell(route->why));
}

static void tell_transports(void)
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;

    for (unsigned i = 0; nixl_route_query(0, i, &route) == NIXL_OK; i++) {
        tell_transport(&route);
        tell_devices(&route);
    }
}

/* Make a region on that device and print the result. Returns false if there is no such device. */
static bool tell_gpu(const char *name, enum nixl_mem_kind kind, const char *number)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *region;
    char why[256];
    int status;

    params.kind = kind;
    params.device = number;
    status = nixl_region_alloc("info", 1, &params, &region);
    if (status != NIXL_OK) {
        snprintf(why, sizeof(why), "%s", nixl_last_error()->text);
        if (status != NIXL_E_NO_DEVICE || strcmp(number, "0") == 0) {
            printf("gpu_memory\t%s\t%s\tno\t\t%s\n", name, status == NIXL_E_NO_DEVICE ? "" : number,
                   table_cell(why));
        }
        return status != NIXL_E_NO_DEVICE;
    }
    if (nixl_region_query(0, region, NIXL_FOREVER, &info) != NIXL_OK) {
        info.device[0] = '\0';
    }
    printf("gpu_memory\t%s\t%s\tyes\t%s\t\n", name, number, table_cell(info.device));
    return nixl_region_close(region, NIXL_FOREVER) == NIXL_OK;
}

/* The devices of a kind are numbered without gaps. */
static void tell_gpus(const char *name, enum nixl_mem_kind kind)
{
    char number[16];
    unsigned i = 0;

    do {
        snprintf(number, sizeof(number), "%u", i);
    } while (tell_gpu(name, kind, number) && ++i < MAX_GPUS);
}

/* ---- libcurl and etcd ------------------------------------------------------------------------ */

/* The libcurl that a module has brought in, once. */
static void tell_curl(void)
{
    static bool is_told;
    char path[PATH_MAX], version[CURL_VERSION_NBYTES];

    if (!is_told && storage_curl_find(path, version)) {
        printf("libraries\tlibcurl\t%s\t%s\n", version, table_cell(path));
        is_told = true;
    }
}

/* Is the library's module for etcd there? A query about a place in etcd loads it. */
static void tell_etcd(void)
{
    char text[64];

    if (nixl_publish_query("etcd://localhost:2379", "info", text, sizeof(text)) ==
        NIXL_E_UNSUPPORTED) {
        printf("missing\tnames in etcd\t%s\n", table_cell(strdupa(nixl_last_error()->text)));
    } else {
        tell_curl();
    }
}

/* ---- storage --------------------------------------------------------------------------------- */

/* By what storage would be read and written here, and why by that, or how. */
static void tell_storage(void)
{
    struct storage_facts facts;

    storage_facts_find(&facts);
    printf("storage\tfiles\t%s\t%s\n", facts.file_by, table_cell(facts.file_why));
    printf("storage\tdirectories\t%s\tas files; up to 32 threads of the owner open and name them\n",
           facts.file_by);
    printf("storage\tobjects\t%s\t%s\n", facts.object_by, table_cell(facts.object_why));
    printf("storage\tGPU memory\t%s\t%s\n", facts.gpu_by, table_cell(facts.gpu_why));
    if (facts.object_by[0] != '\0') {
        tell_curl();
    }
}

/* What nixl_bench tune has measured of it, by the file that jobs of this user take. */
static void tell_figures(void)
{
    struct explain_storage found[MAX_MEASURED];
    char cells[MEASURED_CELLS_NBYTES], why[256];
    struct nxr_env env;
    size_t n;

    if (nxr_env_parse(&env, why, sizeof(why)) != NIXL_OK || env.coll_table_file[0] == '\0') {
        return;
    }
    explain_measured_open(env.coll_table_file);
    n = explain_measured_storage(found, MAX_MEASURED);
    for (size_t i = 0; i < n; i++) {
        explain_storage_cells(&found[i], cells);
        printf(EXPLAIN_STORAGE_TABLE "\t%s\n", cells);
    }
}

/* Drivers of GPUs are started last: if they fail, everything else is already reported. */
static int tell_rank(void)
{
    if (nixl_init(NULL) != NIXL_OK) {
        printf("missing\tlibnixlrun\t%s\n", nixl_last_error()->text);
        return 0;
    }
    tell_transports();
    tell_etcd();
    tell_storage();
    tell_figures();
    fflush(stdout);
    tell_gpus("cuda", NIXL_MEM_CUDA);
    tell_gpus("vulkan", NIXL_MEM_VULKAN);
    return nixl_finalize() == NIXL_OK ? 0 : LAUNCH_EXIT_FAILED;
}

/* ---- nixlrun ps etcd://... ------------------------------------------------------------------- */

#define NAMES_NS 5000000000ll

/* "NAME PID HOST" as a row. */
static void print_name(char *line)
{
    const char *name = strsep(&line, " "), *pid = strsep(&line, " ");

    printf("%-32s  %s on %s\n", name, pid != NULL ? pid : "?", line != NULL ? line : "?");
}

static int tell_names(const char *where)
{
    static char text[256 * 1024];
    char *next = text;

    if (nixl_init(NULL) != NIXL_OK ||
        nixl_publish_list(where, NAMES_NS, text, sizeof(text), NULL) != NIXL_OK) {
        fprintf(stderr, "nixlrun: ps: %s\n", nixl_last_error()->text);
        return nixl_last_error()->status == NIXL_E_INVALID_ARG ? LAUNCH_EXIT_USAGE
                                                               : LAUNCH_EXIT_FAILED;
    }
    printf("%-32s  %s\n", "NAME", "PUBLISHER");
    while (next != NULL && *next != '\0') {
        print_name(strsep(&next, "\n"));
    }
    return nixl_finalize() == NIXL_OK && fflush(stdout) == 0 && ferror(stdout) == 0
               ? 0
               : LAUNCH_EXIT_FAILED;
}

/* Have the library open the networks, too, that it would leave closed here as slower than tcp. */
static void name_all_networks(void)
{
    char names[256];

    if (nxr_env_all_names("NIXLRUN_TRANSPORTS", names, sizeof(names))) {
        setenv("NIXLRUN_TRANSPORTS", names, 0);
    }
}

static int tell_info(void)
{
    int status;

    tell_library();
    status = tell_rank();
    puts(INSPECT_END);
    return fflush(stdout) == 0 && ferror(stdout) == 0 ? status : LAUNCH_EXIT_FAILED;
}

/* ---- nixlrun --explain ----------------------------------------------------------------------- */

/* What is behind `mark`, if the word begins with it; or NULL. */
static char *value_of(char *word, const char *mark)
{
    size_t nbytes = strlen(mark);

    return strncmp(word, mark, nbytes) == 0 ? word + nbytes : NULL;
}

/* The words behind --explain. Returns an exit code, or -1: there is one that we do not know. */
static int tell_routes(char **words)
{
    bool is_json = *words != NULL && strcmp(*words, "--json") == 0;

    for (words += is_json; *words != NULL; words++) {
        char *file = value_of(*words, INSPECT_MEASURED), *host = value_of(*words, INSPECT_LOST),
             *why;

        if (file != NULL) {
            explain_measured_open(file);
        } else if (host != NULL && (why = strchr(host, '=')) != NULL) {
            *why++ = '\0';
            explain_add_lost(host, why);
        } else {
            return -1;
        }
    }
    return explain(is_json);
}

int main(int argc, char **argv)
{
    int status = -1;

    if (argc == 3 && strcmp(argv[1], "--names") == 0) {
        return tell_names(argv[2]);
    }
    if (argc == 2 && strcmp(argv[1], INSPECT_THERE) == 0) {
        return 0;
    }
    setenv("NIXLRUN_OPEN_NETWORKS", "1", 0);
    if (argc == 2 && strcmp(argv[1], "--info") == 0) {
        name_all_networks();
        return tell_info();
    }
    if (argc > 1 && strcmp(argv[1], "--explain") == 0) {
        status = tell_routes(argv + 2);
    }
    if (status >= 0) {
        return status;
    }
    fprintf(stderr, "%s is internal to nixlrun; run nixlrun --info or nixlrun --explain\n",
            INSPECT_PROGRAM);
    return LAUNCH_EXIT_USAGE;
}
