/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun --explain. Ranks that share memory count as one host, whatever its name (without shared
 * memory, ranks with the same host name); the lowest of them is its leader. The leader and the
 * second rank start the drivers of GPUs. Rank 0 asks every leader how it reaches the others, and
 * prints the answers. All messages are notifications, so that it works under every engine; for
 * ranks that cannot reach rank 0, it reports what it sees itself.
 */
#include "config.h"

#include "launcher/explain.h"
#include "launcher/explain_measured.h"
#include "launcher/explain_tell.h"
#include "launcher/job.h"
#include "launcher/table.h"
#include "launcher/xalloc.h"
#include "nixlrun.h"

#include <stdint.h>

#define SECOND_NS  INT64_C(1000000000)
#define ANSWER_NS  (60 * SECOND_NS)  /* for a rank that is asked, and starts drivers of GPUs */
#define GOODBYE_NS (240 * SECOND_NS) /* for rank 0, which waits for all */

/* What a rank has to report on: another rank, and its parts. */
struct target {
    int32_t rank;
    uint32_t parts;
};

enum { MAX_TARGETS = NIXL_NOTE_MAX / (int)sizeof(struct target) };

/* What a rank reports about itself. */
struct hello {
    int32_t leader;
    struct explain_memory memory;
};

enum tag {
    TAG_HELLO = 1, /* to rank 0: struct hello */
    TAG_PLAN,      /* from rank 0: report how these are reached, an array of struct target */
    TAG_ROW,       /* to rank 0: a row, its first cell the rank that is reached */
    TAG_DONE,      /* to rank 0: there are no more */
    TAG_END,       /* from rank 0: leave */
};

enum explain_table {
    EXPLAIN_HOSTS,
    EXPLAIN_UNREACHED,
    EXPLAIN_GPU_MEMORY,
    EXPLAIN_STORAGE,
    EXPLAIN_FIGURES,
    EXPLAIN_ROUTES,
    EXPLAIN_REFUSED,
    EXPLAIN_N_TABLES
};

static const struct table_column host_columns[] = {
    {"name", "name", TABLE_TEXT},
    {"ranks", "ranks", TABLE_TEXT},
    {NULL, NULL, TABLE_TEXT},
};
static const struct table_column unreached_columns[] = {
    {"name", "name", TABLE_TEXT},
    {"why", "why", TABLE_TEXT},
    {NULL, NULL, TABLE_TEXT},
};
static const struct table_column explain_gpu_memory_columns[] = {
    {"kind", "kind", TABLE_TEXT},       {"hosts", "hosts", TABLE_TEXT},
    {"usable", "usable", TABLE_FLAG},   {"uuid", "UUID", TABLE_TEXT},
    {"why_not", "why not", TABLE_TEXT}, {NULL, NULL, TABLE_TEXT},
};
static const struct table_column explain_storage_columns[] = {
    {"what", "what", TABLE_TEXT}, {"hosts", "hosts", TABLE_TEXT}, {"by", "by", TABLE_TEXT},
    {"why", "why", TABLE_TEXT},   {NULL, NULL, TABLE_TEXT},
};
static const struct table_column explain_figure_columns[] = {
    {"host", "host", TABLE_TEXT},
    EXPLAIN_STORAGE_COLUMNS,
    {NULL, NULL, TABLE_TEXT},
};
static const struct table_column route_columns[] = {
    {"from", "from", TABLE_TEXT},
    {"to", "to", TABLE_TEXT},
    {"source", "source", TABLE_TEXT},
    {"target", "target", TABLE_TEXT},
    {"transport", "transport", TABLE_TEXT},
    {"method", "method", TABLE_TEXT},
    {"latency_ns", "latency ns", TABLE_NUMBER},
    {"bandwidth_mb_s", "MB/s", TABLE_NUMBER},
    {"rails", "rails", TABLE_NUMBER},
    {"devices", "devices", TABLE_TEXT},
    {"note", "note", TABLE_TEXT},
    {NULL, NULL, TABLE_TEXT},
};
static const struct table_column refused_columns[] = {
    {"from", "from", TABLE_TEXT},
    {"to", "to", TABLE_TEXT},
    {"source", "source", TABLE_TEXT},
    {"target", "target", TABLE_TEXT},
    {"transport", "transport", TABLE_TEXT},
    {"why", "why", TABLE_TEXT},
    {NULL, NULL, TABLE_TEXT},
};

static struct table explain_tables[EXPLAIN_N_TABLES] = {
    [EXPLAIN_HOSTS] = {.name = "hosts", .columns = host_columns},
    [EXPLAIN_UNREACHED] = {.name = "unreached", .columns = unreached_columns},
    [EXPLAIN_GPU_MEMORY] = {.name = "gpu_memory", .columns = explain_gpu_memory_columns},
    [EXPLAIN_STORAGE] = {.name = "storage", .columns = explain_storage_columns},
    [EXPLAIN_FIGURES] = {.name = EXPLAIN_STORAGE_TABLE, .columns = explain_figure_columns},
    [EXPLAIN_ROUTES] = {.name = "routes", .columns = route_columns},
    [EXPLAIN_REFUSED] = {.name = "refused", .columns = refused_columns},
};

/* Rank 0's view of a rank. */
struct member {
    int leader;
    bool is_reached;  /* by rank 0 */
    bool is_answered; /* it has named its leader; later: it has no more rows */
    char *label;      /* of its host; of leaders only */
    struct explain_memory memory;
    enum explain_part last_listed; /* a part that is already listed in a line */
};
static struct member *members;

static int explain_fail(const char *what)
{
    fprintf(stderr, "nixlrun: --explain: rank %d: %s: %s\n", nixl_rank(), what,
            nixl_last_error()->text);
    return LAUNCH_EXIT_FAILED;
}

/* ---- what a leader reports ------------------------------------------------------------------- */

/* The host of a rank, by its leader. */
static const char *label_of(int rank)
{
    return members[members[rank].leader].label;
}

/*
 * Rank 0: take a row "TABLE\tTO\tCELLS" of a rank; replace ranks by names of hosts. What storage
 * was measured to do is about one host.
 */
static void take_row(int from, char *row)
{
    char line[NIXL_NOTE_MAX + 512];
    char *table = strsep(&row, "\t"), *to = strsep(&row, "\t");
    int rank = to != NULL ? atoi(to) : -1;

    if (row == NULL || rank < 0 || rank >= nixl_size()) {
        return;
    }
    if (strcmp(table, EXPLAIN_STORAGE_TABLE) == 0) {
        snprintf(line, sizeof(line), "%s\t%s\t%s", table, label_of(from), row);
    } else {
        snprintf(line, sizeof(line), "%s\t%s\t%s\t%s", table, label_of(from), label_of(rank), row);
    }
    table_add_line(explain_tables, EXPLAIN_N_TABLES, line);
}

static bool explain_do_tell(char *row)
{
    if (nixl_rank() == 0) {
        take_row(0, row);
        return true;
    }
    return nixl_notify(0, TAG_ROW, row, strlen(row) + 1, ANSWER_NS) == NIXL_OK;
}

/* May ranks of this host share memory? */
static bool has_shared_memory(void)
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;

    for (unsigned i = 0; nixl_route_query(nixl_rank(), i, &route) == NIXL_OK; i++) {
        if (strcmp(route.transport, "shm") == 0) {
            return route.is_usable;
        }
    }
    return false;
}

static bool has_host_of(int rank, int other)
{
    const char *host = nixl_host(rank), *name = nixl_host(other);

    return host != NULL && name != NULL && strcmp(host, name) == 0;
}

/* Is a rank on this host? Shared memory proves it; without any, the host name decides. */
static bool explain_is_here(int rank)
{
    return nixl_scope(rank) == NIXL_SCOPE_LOCAL ||
           (!has_shared_memory() && has_host_of(rank, nixl_rank()));
}

/* The lowest rank of this host; *is_reporter_p: is the caller the lowest or the second? */
static int explain_find_leader(bool *is_reporter_p)
{
    int leader = nixl_rank(), n_lower = 0;

    for (int rank = nixl_rank() - 1; rank >= 0; rank--) {
        if (explain_is_here(rank)) {
            leader = rank;
            n_lower++;
        }
    }
    *is_reporter_p = n_lower < 2;
    return leader;
}

/* All ranks but 0: do what rank 0 says. */
static int follow(const struct hello *hello)
{
    struct nixl_note note;
    struct target targets[MAX_TARGETS];

    if (!explain_is_reached(0)) {
        return 0; /* rank 0 sees that, too */
    }
    if (nixl_notify(0, TAG_HELLO, hello, sizeof(*hello), ANSWER_NS) != NIXL_OK) {
        return explain_fail("cannot send to rank 0");
    }
    for (;;) {
        nixl_note_init(&note);
        if (nixl_notify_recv(0, 0, 0, GOODBYE_NS, &note) != NIXL_OK) {
            return explain_fail("no instructions from rank 0");
        }
        if (note.tag == TAG_END) {
            return 0;
        }
        memcpy(targets, note.payload, note.nbytes);
        for (size_t i = 0; i < note.nbytes / sizeof(targets[0]); i++) {
            if (!explain_routes(targets[i].rank, targets[i].parts, explain_do_tell)) {
                return explain_fail("cannot send to rank 0");
            }
        }
        if (!explain_figures(explain_do_tell)) {
            return explain_fail("cannot send to rank 0");
        }
        if (nixl_notify(0, TAG_DONE, NULL, 0, ANSWER_NS) != NIXL_OK) {
            return explain_fail("cannot send to rank 0");
        }
    }
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

static void explain_take_hello(int rank, const unsigned char *payload)
{
    struct hello hello;

    memcpy(&hello, payload, sizeof(hello));
    members[rank].leader = hello.leader >= 0 && hello.leader < rank ? hello.leader : rank;
    members[rank].memory = hello.memory;
}

/* Take answers until all reached ranks (NIXL_ALL_RANKS), or the one given, have answered. */
static void explain_collect(int from)
{
    int n_open = 0;

    for (int rank = 1; rank < nixl_size(); rank++) {
        bool is_asked = members[rank].is_reached && (from == NIXL_ALL_RANKS || from == rank);

        members[rank].is_answered = !is_asked;
        n_open += is_asked;
    }
    while (n_open > 0) {
        struct nixl_note note;
        struct member *member;

        nixl_note_init(&note);
        if (nixl_notify_recv(NIXL_ANY_RANK, 0, 0, ANSWER_NS, &note) != NIXL_OK) {
            break;
        }
        member = &members[note.rank];
        if (note.tag == TAG_ROW && note.nbytes > 0) {
            note.payload[note.nbytes - 1] = '\0';
            take_row(note.rank, (char *)note.payload);
            continue;
        }
        if (note.tag == TAG_HELLO && note.nbytes == sizeof(struct hello)) {
            explain_take_hello(note.rank, note.payload);
        }
        n_open -= !member->is_answered;
        member->is_answered = true;
    }
    for (int rank = 1; rank < nixl_size(); rank++) {
        if (!members[rank].is_answered) {
            fprintf(stderr, "nixlrun: --explain: rank %d on host %s does not answer\n", rank,
                    nixl_host(rank));
            members[rank].is_reached = false;
        }
    }
}

/* A rank that is not reached cannot name its neighbours: its host's name is used instead. */
static void lead_unreached(void)
{
    for (int rank = 1; rank < nixl_size(); rank++) {
        for (int other = 1; other < rank && !members[rank].is_reached; other++) {
            if (members[rank].leader == rank && !members[other].is_reached &&
                has_host_of(rank, other)) {
                members[rank].leader = members[other].leader;
            }
        }
    }
}

/* Ranks of a leader as "0-3,7". */
static void ranks_of(int leader, char *text, size_t text_nbytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (int rank = leader; rank < nixl_size() && used < text_nbytes; rank++) {
        int last = rank;

        if (members[rank].leader != leader) {
            continue;
        }
        while (last + 1 < nixl_size() && members[last + 1].leader == leader) {
            last++;
        }
        used += (size_t)snprintf(text + used, text_nbytes - used, last > rank ? "%s%d-%d" : "%s%d",
                                 used > 0 ? "," : "", rank, last);
        rank = last;
    }
}

/* Name the hosts; add the leader's rank if two hosts have the same name. */
static void name_hosts(void)
{
    char ranks[1024], label[320];

    for (int rank = 0; rank < nixl_size(); rank++) {
        const char *host = nixl_host(rank);
        bool is_alone = true;

        if (members[rank].leader != rank) {
            continue;
        }
        for (int other = 0; other < nixl_size(); other++) {
            is_alone = is_alone && (members[other].leader == rank || !has_host_of(rank, other));
        }
        snprintf(label, sizeof(label), is_alone ? "%.255s" : "%.255s (rank %d)",
                 host != NULL ? host : "unknown", rank);
        members[rank].label = x_strdup(table_cell(label));
        ranks_of(rank, ranks, sizeof(ranks));
        table_add(&explain_tables[EXPLAIN_HOSTS],
                  (const char *const[]){members[rank].label, ranks});
    }
}

/* Is it a leader that has reported this kind and is not listed yet? */
static bool is_to_be_listed(int rank, enum explain_part part)
{
    const struct member *member = &members[rank];

    return member->leader == rank && member->memory.parts != 0 && member->last_listed < part;
}

/* List GPU memory or storage of leaders. Hosts where it is the same share a line. */
static void list_part(enum explain_part part)
{
    char hosts[1024];

    for (int rank = 0; rank < nixl_size(); rank++) {
        struct explain_memory *first = &members[rank].memory;
        bool is_usable = (first->parts & 1u << part) != 0;
        size_t used = 0;

        if (!is_to_be_listed(rank, part)) {
            continue;
        }
        for (int other = rank; other < nixl_size(); other++) {
            struct explain_memory *memory = &members[other].memory;

            if (is_to_be_listed(other, part) && used < sizeof(hosts) &&
                strcmp(memory->device[part], first->device[part]) == 0 &&
                strcmp(memory->why[part], first->why[part]) == 0) {
                used += (size_t)snprintf(hosts + used, sizeof(hosts) - used, "%s%s",
                                         used > 0 ? ", " : "", members[other].label);
                members[other].last_listed = part;
            }
        }
        if (explain_part_is_storage(part)) {
            table_add(&explain_tables[EXPLAIN_STORAGE],
                      (const char *const[]){explain_part_name(part), hosts, first->device[part],
                                            table_cell(first->why[part])});
        } else {
            table_add(&explain_tables[EXPLAIN_GPU_MEMORY],
                      (const char *const[]){explain_part_name(part), hosts,
                                            is_usable ? "yes" : "no", first->device[part],
                                            table_cell(first->why[part])});
        }
    }
}

/* What a leader has to report on: a neighbour, or itself, and the other leaders. */
static size_t plan(int leader, struct target targets[MAX_TARGETS])
{
    int near = leader;
    size_t n = 1;

    for (int rank = 0; rank < nixl_size() && n < MAX_TARGETS; rank++) {
        if (members[rank].leader == leader && near == leader) {
            near = rank;
        } else if (members[rank].leader == rank && rank != leader &&
                   (members[rank].is_reached || leader == 0)) {
            targets[n++] = (struct target){rank, members[rank].memory.parts};
        }
    }
    targets[0] = (struct target){near, members[near].memory.parts};
    return n;
}

void explain_add_lost(char *host, char *why)
{
    table_add(&explain_tables[EXPLAIN_UNREACHED],
              (const char *const[]){table_cell(host), table_cell(why)});
}

/* Nothing of this job is on a lost host, so no transport has been tried: one row says all. */
static void add_lost_routes(int leader)
{
    const struct table *lost = &explain_tables[EXPLAIN_UNREACHED];

    for (size_t i = 0; i < lost->n_rows; i++) {
        table_add(&explain_tables[EXPLAIN_ROUTES],
                  (const char *const[]){label_of(leader), lost->rows[i][0], "host", "host", "none",
                                        "", "", "", "", "", lost->rows[i][1]});
    }
}

static void print(bool is_json)
{
    struct table_writer writer = {.out = stdout, .is_json = is_json};

    table_begin(&writer, "nixlrun", NIXLRUN_VERSION);
    for (size_t i = 0; i < EXPLAIN_N_TABLES; i++) {
        table_write(&writer, &explain_tables[i], "none");
        table_free(&explain_tables[i]);
    }
    table_end(&writer);
}

/* Ask one leader and wait, so that rows are in the order of hosts. */
static void ask_leader(int rank)
{
    struct target targets[MAX_TARGETS];
    size_t nbytes = plan(rank, targets) * sizeof(targets[0]);

    if (nixl_notify(rank, TAG_PLAN, targets, nbytes, ANSWER_NS) == NIXL_OK) {
        explain_collect(rank);
    } else {
        explain_fail("cannot query a rank");
    }
}

static void explain_let_go(void)
{
    for (int rank = 1; rank < nixl_size(); rank++) {
        if (members[rank].is_reached && nixl_notify(rank, TAG_END, NULL, 0, ANSWER_NS) != NIXL_OK) {
            explain_fail("cannot release a rank");
        }
    }
}

static int lead(const struct hello *hello, bool is_json)
{
    struct target targets[MAX_TARGETS];
    size_t n_targets;

    members = x_calloc((size_t)nixl_size(), sizeof(*members));
    for (int rank = 0; rank < nixl_size(); rank++) {
        members[rank] = (struct member){
            .leader = explain_is_here(rank) ? 0 : rank,
            .is_reached = explain_is_reached(rank),
        };
    }
    members[0].memory = hello->memory;
    explain_collect(NIXL_ALL_RANKS);
    lead_unreached();
    name_hosts();
    for (int part = PART_FIRST_GPU; part < N_PARTS; part++) {
        list_part((enum explain_part)part);
    }
    n_targets = plan(0, targets);
    for (size_t i = 0; i < n_targets; i++) {
        explain_routes(targets[i].rank, targets[i].parts, explain_do_tell);
    }
    (void)explain_figures(explain_do_tell);
    add_lost_routes(0);
    for (int rank = 1; rank < nixl_size(); rank++) {
        if (members[rank].leader == rank && members[rank].is_reached) {
            ask_leader(rank);
            add_lost_routes(rank);
        }
    }
    explain_let_go();
    print(is_json);
    for (int rank = 0; rank < nixl_size(); rank++) {
        free(members[rank].label);
    }
    free(members);
    return fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : LAUNCH_EXIT_FAILED;
}

int explain(bool is_json)
{
    struct hello hello = {0};
    bool is_reporter;
    int status;

    if (nixl_init(NULL) != NIXL_OK) {
        fprintf(stderr, "nixlrun: --explain: %s\n", nixl_last_error()->text);
        return LAUNCH_EXIT_FAILED;
    }
    hello.leader = explain_find_leader(&is_reporter);
    if (!explain_open(is_reporter, &hello.memory)) {
        return explain_fail("cannot create a region");
    }
    status = nixl_rank() == 0 ? lead(&hello, is_json) : follow(&hello);
    nixl_finalize();
    return status;
}
