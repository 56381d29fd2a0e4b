/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank of nixlrun --explain finds out: which kinds of memory its host has, and, for each of
 * them and each part of another rank, the route and why no other is used. A transport that is
 * refused for the same reason for all memory is reported once.
 */
#include "config.h"

#include "launcher/explain_measured.h"
#include "launcher/explain_tell.h"
#include "launcher/storage_facts.h"
#include "launcher/table.h"
#include "nixlrun.h"

#include <string.h>

enum { PART_NBYTES = 4096, MAX_TRANSPORTS = 16, MAX_MEASURED = 32, ROW_NBYTES = NIXL_NOTE_MAX };

static const struct {
    const char *name;   /* as a target */
    const char *source; /* as a source; NULL: the same as another one */
    enum nixl_mem_kind kind;
} explain_line_kinds[N_PARTS] = {
    [PART_ALLOCATED] = {"host, allocated", "host", NIXL_MEM_HOST},
    [PART_REGISTERED] = {"host, registered", NULL, NIXL_MEM_HOST},
    [PART_CUDA] = {"cuda", "cuda", NIXL_MEM_CUDA},
    [PART_VULKAN] = {"vulkan", "vulkan", NIXL_MEM_VULKAN},
    [PART_FILE] = {"file", NULL, NIXL_MEM_FILE},
    [PART_OBJECT] = {"objects", NULL, NIXL_MEM_OBJECT},
};

static struct nixl_region
    *regions[N_PARTS]; /* of GPUs, files: maybe a mere handle, to query peers */
static uint32_t own_parts;

/* One rank's memory: the same sources and targets for all transports. */
struct refusals {
    char name[MAX_TRANSPORTS][16];
    char why[MAX_TRANSPORTS][N_PARTS][N_PARTS]
            [256]; /* by source and target; "" if the transport is used */
    bool is_asked[N_PARTS][N_PARTS];
};
static struct refusals refusals;

const char *explain_part_name(enum explain_part part)
{
    return explain_line_kinds[part].name;
}

/* ---- own memory ------------------------------------------------------------------------------ */

static bool has_part(uint32_t parts, int part)
{
    return (parts & 1u << part) != 0;
}

static bool open_gpu(enum explain_part part, struct explain_memory *memory)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;

    params.kind = explain_line_kinds[part].kind;
    if (nixl_region_alloc(explain_line_kinds[part].name, PART_NBYTES, &params, &regions[part]) !=
        NIXL_OK) {
        snprintf(memory->why[part], sizeof(memory->why[part]), "%s", nixl_last_error()->text);
        return false;
    }
    if (nixl_region_query(nixl_rank(), regions[part], NIXL_FOREVER, &info) == NIXL_OK) {
        snprintf(memory->device[part], sizeof(memory->device[part]), "%s", info.device);
    }
    return true;
}

static bool open_storage(bool is_reporter, struct explain_memory *memory)
{
    const char *name = explain_line_kinds[PART_FILE].name;
    struct storage_facts facts;

    if (!is_reporter) {
        return nixl_region_open(name, &regions[PART_FILE]) == NIXL_OK;
    }
    storage_facts_find(&facts);
    snprintf(memory->device[PART_FILE], sizeof(memory->device[0]), "%s", facts.file_by);
    snprintf(memory->why[PART_FILE], sizeof(memory->why[0]), "%s", facts.file_why);
    snprintf(memory->device[PART_OBJECT], sizeof(memory->device[0]), "%s", facts.object_by);
    snprintf(memory->why[PART_OBJECT], sizeof(memory->why[0]), "%s", facts.object_why);
    regions[PART_FILE] = storage_file_open(name);
    if (regions[PART_FILE] == NULL) {
        return nixl_region_open(name, &regions[PART_FILE]) == NIXL_OK;
    }
    memory->parts |= 1u << PART_FILE;
    return true;
}

bool explain_open(bool is_reporter, struct explain_memory *memory_p)
{
    static char registered[PART_NBYTES];

    *memory_p = (struct explain_memory){.parts = 1u << PART_ALLOCATED | 1u << PART_REGISTERED};
    if (nixl_region_alloc(explain_line_kinds[PART_ALLOCATED].name, PART_NBYTES, NULL,
                          &regions[PART_ALLOCATED]) != NIXL_OK ||
        nixl_region_register(explain_line_kinds[PART_REGISTERED].name, registered, PART_NBYTES,
                             NULL, &regions[PART_REGISTERED]) != NIXL_OK) {
        return false;
    }
    for (int part = PART_FIRST_GPU; part < PART_FIRST_STORAGE; part++) {
        if (is_reporter && open_gpu((enum explain_part)part, memory_p)) {
            memory_p->parts |= 1u << part;
        } else if (nixl_region_open(explain_line_kinds[part].name, &regions[part]) != NIXL_OK) {
            return false;
        }
    }
    if (!open_storage(is_reporter, memory_p)) {
        return false;
    }
    own_parts = memory_p->parts;
    return true;
}

/* ---- routes ---------------------------------------------------------------------------------- */

bool explain_is_reached(int rank)
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;

    for (unsigned i = 0; nixl_route_query(rank, i, &route) == NIXL_OK; i++) {
        if (route.is_chosen) {
            return true;
        }
    }
    return false;
}

/* Messages and bulk may go over two networks: "ucx, ofi". */
static void add_chosen(struct nixl_route_info *chosen, const struct nixl_route_info *route)
{
    size_t used = strlen(chosen->transport), devices_used = strlen(chosen->devices);

    snprintf(chosen->transport + used, sizeof(chosen->transport) - used, "%s%s",
             used > 0 ? ", " : "", route->transport);
    snprintf(chosen->devices + devices_used, sizeof(chosen->devices) - devices_used, "%s%s",
             devices_used > 0 ? "\n" : "", route->devices);
    chosen->nrails = route->nrails > chosen->nrails ? route->nrails : chosen->nrails;
    chosen->latency_ns = route->latency_ns;
    chosen->bandwidth_mbps = route->bandwidth_mbps;
    memcpy(chosen->method, route->method, sizeof(chosen->method));
    memcpy(chosen->why, route->why, sizeof(chosen->why));
}

static void remember(unsigned index, int source, int target, const struct nixl_route_info *route)
{
    if (index < MAX_TRANSPORTS) {
        memcpy(refusals.name[index], route->transport, sizeof(route->transport));
        memcpy(refusals.why[index][source][target], route->why, sizeof(route->why));
    }
}

/* Lines of devices as one text, separated by semicolons, as the lines contain blanks. */
static const char *explain_line_list_devices(char *lines, char text[ROW_NBYTES])
{
    size_t used = 0;

    text[0] = '\0';
    while (lines != NULL && used < ROW_NBYTES) {
        used += (size_t)snprintf(text + used, ROW_NBYTES - used, "%s%s", used > 0 ? "; " : "",
                                 strsep(&lines, "\n"));
    }
    return table_cell(text);
}

/* Between host memories, figures that were measured here replace the expected ones. */
static void explain_line_measure(int rank, int source, int target, struct nixl_route_info *chosen)
{
    static const char note[] = "measured by nixl_bench tune";
    char why[sizeof(chosen->why)];

    if (explain_line_kinds[source].kind != NIXL_MEM_HOST ||
        explain_line_kinds[target].kind != NIXL_MEM_HOST ||
        !explain_measured(nixl_scope(rank) == NIXL_SCOPE_LOCAL, chosen->transport,
                          &chosen->latency_ns, &chosen->bandwidth_mbps)) {
        return;
    }
    memcpy(why, chosen->why, sizeof(why));
    snprintf(chosen->why, sizeof(chosen->why), "%s%s%.200s", note, why[0] != '\0' ? "; " : "", why);
}

/* From one memory of this rank to one of another. */
static bool tell_pair(int rank, int source, int target, bool (*tell)(char *row))
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT, chosen = {0};
    const void *local = nixl_region_addr(regions[source]);
    char latency[TABLE_NUMBER_NBYTES], bandwidth[TABLE_NUMBER_NBYTES], rails[TABLE_NUMBER_NBYTES];
    char row[ROW_NBYTES], devices[ROW_NBYTES];
    int status;

    for (unsigned i = 0;; i++) {
        status = nixl_route_query_segment(rank, regions[target], local, i, &route);
        if (status != NIXL_OK) {
            break;
        }
        if (route.is_chosen) {
            add_chosen(&chosen, &route);
        } else {
            remember(i, source, target, &route);
        }
    }
    if (chosen.transport[0] == '\0') {
        snprintf(chosen.transport, sizeof(chosen.transport), "none");
        snprintf(chosen.why, sizeof(chosen.why), "%s", nixl_last_error()->text);
    }
    explain_line_measure(rank, source, target, &chosen);
    refusals.is_asked[source][target] = true;
    snprintf(row, sizeof(row), "routes\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", rank,
             explain_line_kinds[source].source, explain_line_kinds[target].name, chosen.transport,
             chosen.method, table_number(chosen.latency_ns, latency),
             table_number(chosen.bandwidth_mbps, bandwidth), table_number(chosen.nrails, rails),
             explain_line_list_devices(chosen.devices, devices), table_cell(chosen.why));
    return tell(row);
}

/* Nothing is known of memory there. */
static bool tell_unreached(int rank, bool (*tell)(char *row))
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;
    char row[ROW_NBYTES];
    bool is_told = true;

    for (unsigned i = 0; nixl_route_query(rank, i, &route) == NIXL_OK; i++) {
        snprintf(row, sizeof(row), "refused\t%d\tany\tany\t%s\t%s", rank, route.transport,
                 table_cell(route.why));
        is_told = tell(row) && is_told;
    }
    snprintf(row, sizeof(row), "routes\t%d\thost\thost\tnone\t\t\t\t\t\tno transport reaches it",
             rank);
    return tell(row) && is_told;
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* The reason for a pair; "": it is used there; NULL: unknown. */
static const char *why_of(unsigned index, int source, int target)
{
    return refusals.is_asked[source][target] ? refusals.why[index][source][target] : NULL;
}

/* The common reason for a target, for all sources; NULL: there are several. */
static const char *why_for_target(unsigned index, int target)
{
    const char *first = NULL;

    for (int source = 0; source < N_PARTS; source++) {
        const char *why = why_of(index, source, target);

        if (why != NULL && first != NULL && strcmp(first, why) != 0) {
            return NULL;
        }
        first = why != NULL ? why : first;
    }
    return first;
}

/* The common reason for everything; NULL: there are several. */
static const char *why_for_all(unsigned index, uint32_t targets)
{
    const char *first = NULL;

    for (int target = 0; target < N_PARTS; target++) {
        const char *why = has_part(targets, target) ? why_for_target(index, target) : first;

        if (why == NULL && has_part(targets, target)) {
            return NULL;
        }
        if (why != NULL && first != NULL && strcmp(first, why) != 0) {
            return NULL;
        }
        first = why;
    }
    return first;
}

struct teller {
    int rank;
    unsigned index;
    bool (*tell)(char *row);
    bool is_told;
};

static void tell_refusal(struct teller *teller, const char *source, const char *target,
                         const char *why)
{
    char row[ROW_NBYTES], text[256];

    if (why == NULL || why[0] == '\0') {
        return; /* it is used there */
    }
    snprintf(text, sizeof(text), "%s", why);
    snprintf(row, sizeof(row), "refused\t%d\t%s\t%s\t%s\t%s", teller->rank, source, target,
             refusals.name[teller->index], table_cell(text));
    teller->is_told = teller->tell(row) && teller->is_told;
}

static void tell_target(struct teller *teller, int target)
{
    const char *why = why_for_target(teller->index, target);

    if (why != NULL) {
        tell_refusal(teller, "any", explain_line_kinds[target].name, why);
        return;
    }
    for (int source = 0; source < N_PARTS; source++) {
        tell_refusal(teller, explain_line_kinds[source].source, explain_line_kinds[target].name,
                     why_of(teller->index, source, target));
    }
}

/* Report host memory in one row if the transport treats it as one. Returns the next target. */
static int explain_line_tell_host(struct teller *teller)
{
    const char *allocated = why_for_target(teller->index, PART_ALLOCATED);
    const char *registered = why_for_target(teller->index, PART_REGISTERED);

    if (allocated == NULL || registered == NULL || strcmp(allocated, registered) != 0) {
        return PART_ALLOCATED;
    }
    tell_refusal(teller, "any", "host", allocated);
    return PART_FIRST_GPU;
}

/* Those for storage are those for host memory, by which its bytes go. */
static bool tell_refusals(int rank, uint32_t targets, bool (*tell)(char *row))
{
    struct teller teller = {.rank = rank, .tell = tell, .is_told = true};

    for (unsigned i = 0; i < MAX_TRANSPORTS; i++) {
        const char *why = why_for_all(i, targets);

        if (refusals.name[i][0] == '\0') {
            continue; /* there is none, or it is used for everything */
        }
        teller.index = i;
        if (why != NULL) {
            tell_refusal(&teller, "any", "any", why);
            continue;
        }
        for (int target = explain_line_tell_host(&teller); target < N_PARTS; target++) {
            if (has_part(targets, target)) {
                tell_target(&teller, target);
            }
        }
    }
    return teller.is_told;
}

bool explain_routes(int rank, uint32_t parts, bool (*tell)(char *row))
{
    if (!explain_is_reached(rank)) {
        return tell_unreached(rank, tell);
    }
    refusals = (struct refusals){0};
    for (int source = 0; source < N_PARTS; source++) {
        for (int target = 0; target < N_PARTS; target++) {
            if (explain_line_kinds[source].source != NULL && has_part(own_parts, source) &&
                has_part(parts, target) && !tell_pair(rank, source, target, tell)) {
                return false;
            }
        }
    }
    return tell_refusals(rank, parts & ((1u << PART_FIRST_STORAGE) - 1), tell);
}

/* ---- figures of storage ---------------------------------------------------------------------- */

bool explain_figures(bool (*tell)(char *row))
{
    struct explain_storage found[MAX_MEASURED];
    size_t n = explain_measured_storage(found, MAX_MEASURED);
    char cells[MEASURED_CELLS_NBYTES], row[ROW_NBYTES];
    bool is_told = true;

    for (size_t i = 0; i < n && is_told; i++) {
        explain_storage_cells(&found[i], cells);
        snprintf(row, sizeof(row), "%s\t%d\t%s", EXPLAIN_STORAGE_TABLE, nixl_rank(), cells);
        is_told = tell(row);
    }
    return is_told;
}
