/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun --info. What the library has is found out by nixlrun-inspect, a separate process, so that
 * even an installation that makes it crash is reported. The rest is found out here.
 */
#include "config.h"

#include "launcher/info.h"

#include "launcher/engine.h"
#include "launcher/environ.h"
#include "launcher/explain_measured.h"
#include "launcher/helper.h"
#include "launcher/inspect.h"
#include "launcher/probe.h"
#include "launcher/xalloc.h"
#include "nixlrun.h"
#include "util/env.h"
#include "util/thread.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <pmix.h>
#include <unistd.h>

enum { ANSWER_NBYTES = 64 * 1024, TEXT_NBYTES = 512 };

/* In the order in which they are printed, and as nixlrun-inspect names them. */
enum info_table {
    INFO_TRANSPORTS,
    INFO_DEVICES,
    INFO_LIBRARIES,
    INFO_INTERFACES,
    INFO_GPUS,
    INFO_GPU_MEMORY,
    INFO_SHARING,
    INFO_STORAGE,
    INFO_FIGURES,
    INFO_ENGINES,
    INFO_MISSING,
    INFO_N_TABLES
};

/* Cells of rows. */
enum { TRANSPORT_USABLE = 1, TRANSPORT_WHY_NOT = 6 };
enum { GPU_MEMORY_USABLE = 2, GPU_MEMORY_WHY_NOT = 4 };

static const struct table_column transport_columns[] = {
    {"name", "name", TABLE_TEXT},
    {"usable", "usable", TABLE_FLAG},
    {"latency_ns", "latency ns", TABLE_NUMBER},
    {"bandwidth_mb_s", "MB/s", TABLE_NUMBER},
    {"rails", "rails", TABLE_NUMBER},
    {"library", "library", TABLE_TEXT},
    {"why_not", "why not", TABLE_TEXT},
    {NULL, NULL, TABLE_TEXT},
};
static const struct table_column device_columns[] = {
    {"transport", "transport", TABLE_TEXT},
    {"device", "device", TABLE_TEXT},
    {NULL, NULL, TABLE_TEXT},
};
static const struct table_column library_columns[] = {
    {"name", "name", TABLE_TEXT},
    {"version", "version", TABLE_TEXT},
    {"file", "file", TABLE_TEXT},
    {NULL, NULL, TABLE_TEXT},
};
static const struct table_column info_gpu_memory_columns[] = {
    {"kind", "kind", TABLE_TEXT},       {"device", "device", TABLE_NUMBER},
    {"usable", "usable", TABLE_FLAG},   {"uuid", "UUID", TABLE_TEXT},
    {"why_not", "why not", TABLE_TEXT}, {NULL, NULL, TABLE_TEXT},
};
static const struct table_column storage_columns[] = {
    {"what", "what", TABLE_TEXT},
    {"by", "by", TABLE_TEXT},
    {"why", "why", TABLE_TEXT},
    {NULL, NULL, TABLE_TEXT},
};
static const struct table_column info_figure_columns[] = {
    EXPLAIN_STORAGE_COLUMNS,
    {NULL, NULL, TABLE_TEXT},
};
static const struct table_column engine_columns[] = {
    {"name", "name", TABLE_TEXT},       {"usable", "usable", TABLE_FLAG},
    {"version", "version", TABLE_TEXT}, {"program", "program", TABLE_TEXT},
    {NULL, NULL, TABLE_TEXT},
};
static const struct table_column missing_columns[] = {
    {"what", "what", TABLE_TEXT},
    {"advice", "advice", TABLE_TEXT},
    {NULL, NULL, TABLE_TEXT},
};

/* Name, columns, and the line for an empty table in text. */
static const struct {
    const char *name;
    const struct table_column *columns;
    const char *if_empty;
} info_shapes[INFO_N_TABLES] = {
    [INFO_TRANSPORTS] = {"transports", transport_columns, "unknown"},
    [INFO_DEVICES] = {"devices", device_columns, "none in use"},
    [INFO_LIBRARIES] = {"libraries", library_columns, "unknown"},
    [INFO_INTERFACES] = {"interfaces", info_interface_columns, "none"},
    [INFO_GPUS] = {"gpus", info_gpu_columns, "none found"},
    [INFO_GPU_MEMORY] = {"gpu_memory", info_gpu_memory_columns, "unknown"},
    [INFO_SHARING] = {"sharing", info_sharing_columns, "unknown"},
    [INFO_STORAGE] = {"storage", storage_columns, "unknown"},
    [INFO_FIGURES] = {EXPLAIN_STORAGE_TABLE, info_figure_columns,
                      "none: nixl_bench tune --storage measures some"},
    [INFO_ENGINES] = {"engines", engine_columns, "none"},
    [INFO_MISSING] = {"missing", missing_columns, "nothing"},
};

static struct table info_tables[INFO_N_TABLES];

static void add_missing(const char *what, const char *advice)
{
    table_add(&info_tables[INFO_MISSING], (const char *const[]){what, advice});
}

/* ---- the library ----------------------------------------------------------------------------- */

/*
 * Query the library. Its log goes to our standard error; the last line of its output shows that it
 * ran to the end.
 */
static void ask_library(void)
{
    char *answer = x_array(NULL, ANSWER_NBYTES, 1), *next = answer;
    char path[PATH_MAX], text[PATH_MAX + 64];
    bool is_whole = false;

    answer[0] = '\0';
    environ_leave_outer_job();
    if (!helper_find(INSPECT_PROGRAM, path)) {
        snprintf(text, sizeof(text), "%s is missing: run 'make install'", path);
        add_missing(INSPECT_PROGRAM, text);
    } else {
        probe_ask(path, "--info", answer, ANSWER_NBYTES);
        while (next != NULL && *next != '\0') {
            char *line = strsep(&next, "\n");

            if (strcmp(line, INSPECT_END) == 0) {
                is_whole = true;
            } else if (!table_add_line(info_tables, INFO_N_TABLES, line)) {
                fprintf(stderr, "%s\n", line);
            }
        }
        if (!is_whole) {
            snprintf(text, sizeof(text), "'%s --info' did not finish", path);
            add_missing("libnixlrun", text);
        }
    }
    free(answer);
}

/*
 * Transports that could be added here, unless the user has excluded them, and their benefit: tcp
 * serves without them.
 */
static void add_missing_transports(void)
{
    static const struct {
        const char *name;
        const char *advice;
    } packages[] = {
        {"ucx",
         "for InfiniBand and RoCE; Debian packages libucx-dev to build it, libucx0 to use it"},
        {"ofi", "for several network cards at once, InfiniBand, EFA and Slingshot; Debian packages "
                "libfabric-dev to build it, libfabric1 to use it"},
    };
    char what[64];

    for (size_t i = 0; i < info_tables[INFO_TRANSPORTS].n_rows; i++) {
        char *const *row = info_tables[INFO_TRANSPORTS].rows[i];

        for (size_t j = 0; j < sizeof(packages) / sizeof(packages[0]); j++) {
            if (strcmp(row[0], packages[j].name) == 0 && strcmp(row[TRANSPORT_USABLE], "no") == 0 &&
                strstr(row[TRANSPORT_WHY_NOT], "NIXLRUN_TRANSPORTS") == NULL) {
                snprintf(what, sizeof(what), "transport %s", row[0]);
                add_missing(what, packages[j].advice);
            }
        }
    }
}

/* Why no memory of that kind is available; NULL: some is, or nothing is known. */
static const char *why_no_memory(const char *kind)
{
    const char *why = NULL;

    for (size_t i = 0; i < info_tables[INFO_GPU_MEMORY].n_rows; i++) {
        char *const *row = info_tables[INFO_GPU_MEMORY].rows[i];

        if (strcmp(row[0], kind) == 0) {
            if (strcmp(row[GPU_MEMORY_USABLE], "yes") == 0) {
                return NULL;
            }
            why = row[GPU_MEMORY_WHY_NOT];
        }
    }
    return why;
}

static void set_cell(char **cell, const char *text)
{
    free(*cell);
    *cell = x_strdup(text);
}

/*
 * The transports of GPU memory count as usable without a driver, and start none. Refuse those
 * without such memory.
 */
static void refuse_without_memory(void)
{
    static const char *const kinds[][2] = {{"cuda_ipc", "cuda"}, {"vulkan_ipc", "vulkan"}};

    for (size_t i = 0; i < info_tables[INFO_TRANSPORTS].n_rows; i++) {
        char **row = info_tables[INFO_TRANSPORTS].rows[i];

        for (size_t j = 0; j < sizeof(kinds) / sizeof(kinds[0]); j++) {
            const char *why = strcmp(row[0], kinds[j][0]) == 0 ? why_no_memory(kinds[j][1]) : NULL;

            if (why != NULL && strcmp(row[TRANSPORT_USABLE], "yes") == 0) {
                set_cell(&row[TRANSPORT_USABLE], "no");
                set_cell(&row[TRANSPORT_WHY_NOT], why);
            }
        }
    }
}

/* GPUs whose memory is not available; a host without a GPU lacks nothing. */
static void add_missing_memory(void)
{
    for (size_t i = 0; i < info_tables[INFO_GPU_MEMORY].n_rows && info_tables[INFO_GPUS].n_rows > 0;
         i++) {
        char *const *row = info_tables[INFO_GPU_MEMORY].rows[i];
        char what[64];

        if (strcmp(row[GPU_MEMORY_USABLE], "no") == 0) {
            snprintf(what, sizeof(what), "%s memory", row[0]);
            add_missing(what, row[GPU_MEMORY_WHY_NOT]);
        }
    }
}

/* May ranks serve other hosts before they compute? Tries the priority, and resets it at once. */
static void add_missing_precedence(void)
{
    struct nxr_env env;
    char why[TEXT_NBYTES];
    int nice = nxr_thread_nice(), first;

    if (nxr_env_parse(&env, why, sizeof(why)) != NIXL_OK) {
        return; /* the library has reported that */
    }
    first = nice - (int)env.service_priority;
    if (!nxr_thread_set_nice(first < NXR_LEAST_NICE ? NXR_LEAST_NICE : first)) {
        snprintf(why, sizeof(why),
                 "lowering nice by %d is not permitted: it needs CAP_SYS_NICE or a higher limit "
                 "(ulimit -e); until then transfers to ranks that compute take longer",
                 (int)env.service_priority);
        add_missing("priority for other hosts", why);
    }
    (void)nxr_thread_set_nice(nice);
}

/* ---- libraries and engines ------------------------------------------------------------------- */

/* The file that a function was loaded from; "" if it is not known. */
static const char *file_of(const char *function, char path[PATH_MAX])
{
    Dl_info info;
    void *addr = dlsym(RTLD_DEFAULT, function);

    if (addr == NULL || dladdr(addr, &info) == 0 || realpath(info.dli_fname, path) == NULL) {
        path[0] = '\0';
    }
    return path;
}

static void add_libraries(void)
{
    unsigned api = hwloc_get_api_version();
    char path[PATH_MAX], version[PROBE_VERSION_NBYTES], text[32];

    if (!probe_version(PMIx_Get_version(), "", version)) {
        snprintf(version, sizeof(version), "unknown");
    }
    table_add(&info_tables[INFO_LIBRARIES],
              (const char *const[]){"libpmix", version, file_of("PMIx_Get_version", path)});
    /* It reports no other version; that of the package is often newer. */
    snprintf(text, sizeof(text), "API %u.%u.%u", api >> 16, api >> 8 & 0xff, api & 0xff);
    table_add(&info_tables[INFO_LIBRARIES],
              (const char *const[]){"hwloc", text, file_of("hwloc_get_api_version", path)});
}

static void add_engines(void)
{
    char name[ENGINE_NAME_NBYTES], why[TEXT_NBYTES];
    struct engine_task task;

    table_add(&info_tables[INFO_ENGINES],
              (const char *const[]){"local", "yes", NIXLRUN_VERSION, "nixlrun"});
    for (size_t i = 0; engine_look(i, &task, name, why, sizeof(why)); i++) {
        table_add(
            &info_tables[INFO_ENGINES],
            (const char *const[]){name, why[0] == '\0' ? "yes" : "no", task.version, task.path});
        if (why[0] != '\0') {
            add_missing(task.engine->title, why);
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

void info_print(FILE *out, bool is_json)
{
    struct table_writer writer = {.out = out, .is_json = is_json};

    for (size_t i = 0; i < INFO_N_TABLES; i++) {
        info_tables[i] =
            (struct table){.name = info_shapes[i].name, .columns = info_shapes[i].columns};
    }
    ask_library();
    refuse_without_memory();
    add_missing_transports();
    add_libraries();
    info_add_interfaces(&info_tables[INFO_INTERFACES]);
    info_add_gpus(&info_tables[INFO_GPUS]);
    info_add_sharing(&info_tables[INFO_SHARING]);
    add_missing_memory();
    add_missing_precedence();
    add_engines();
    table_begin(&writer, "nixlrun", NIXLRUN_VERSION);
    for (size_t i = 0; i < INFO_N_TABLES; i++) {
        table_write(&writer, &info_tables[i], info_shapes[i].if_empty);
        table_free(&info_tables[i]);
    }
    table_end(&writer);
}
