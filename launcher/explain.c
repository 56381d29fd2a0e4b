/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlrun --explain. Ranks that share memory are a host, whatever its name (where shared memory is
 * left out, those of one name); the lowest of them is its leader. Rank 0 asks every leader how it
 * reaches the others, and prints what comes back. All goes by notifications, so that it works under
 * every engine; of ranks that have no way to rank 0 it tells what it sees itself.
 */
#include "config.h"

#include "launcher/explain.h"
#include "launcher/job.h"
#include "launcher/table.h"
#include "launcher/xalloc.h"
#include "nixlrun.h"

#include <stdint.h>

#define SECOND_NS  INT64_C(1000000000)
#define ANSWER_NS  (30 * SECOND_NS)  /* for a rank that is asked */
#define GOODBYE_NS (120 * SECOND_NS) /* for rank 0, which waits for all */
#define PART_NS    (10 * SECOND_NS)

enum { PART_NBYTES = 4096, MAX_TARGETS = NIXL_NOTE_MAX / (int)sizeof(int32_t) };

enum tag {
    TAG_LEADER = 1, /* to rank 0: the leader of the sender's host, an int32_t */
    TAG_PLAN,       /* from rank 0: tell how these ranks are reached, an array of int32_t */
    TAG_ROW,        /* to rank 0: a row, its first cell the rank that is reached */
    TAG_DONE,       /* to rank 0: there are no more */
    TAG_END,        /* from rank 0: leave */
};

enum explain_table { EXPLAIN_HOSTS, EXPLAIN_ROUTES, EXPLAIN_REFUSED, EXPLAIN_N_TABLES };

static const struct table_column host_columns[] = {
    {"name", "name", TABLE_TEXT},
    {"ranks", "ranks", TABLE_TEXT},
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
    {"from", "from", TABLE_TEXT}, {"to", "to", TABLE_TEXT}, {"transport", "transport", TABLE_TEXT},
    {"why", "why", TABLE_TEXT},   {NULL, NULL, TABLE_TEXT},
};

static struct table tables[EXPLAIN_N_TABLES] = {
    [EXPLAIN_HOSTS] = {.name = "hosts", .columns = host_columns},
    [EXPLAIN_ROUTES] = {.name = "routes", .columns = route_columns},
    [EXPLAIN_REFUSED] = {.name = "refused", .columns = refused_columns},
};

/* Rank 0's view of a rank. */
struct member {
    int leader;
    bool is_reached;  /* by rank 0 */
    bool is_answered; /* it told its leader; later: it has no more rows */
    char *label;      /* of its host; of leaders only */
};
static struct member *members;

/* The two kinds of memory that a target may have: allocated by the library, and registered. */
static struct nixl_region *parts[2];
static const char *const part_kinds[2] = {"host, allocated", "host, registered"};

static int fail(const char *what)
{
    fprintf(stderr, "nixlrun: --explain: rank %d: %s: %s\n", nixl_rank(), what,
            nixl_last_error()->text);
    return LAUNCH_EXIT_FAILED;
}

/* ---- what a leader tells --------------------------------------------------------------------- */

/* The host of a rank, by its leader. */
static const char *label_of(int rank)
{
    return members[members[rank].leader].label;
}

/* Rank 0: take a row "TABLE\tTO\tCELLS" of a rank; ranks become names of hosts. */
static void take_row(int from, char *row)
{
    char line[NIXL_NOTE_MAX + 512];
    char *table = strsep(&row, "\t"), *to = strsep(&row, "\t");
    int rank = to != NULL ? atoi(to) : -1;

    if (row == NULL || rank < 0 || rank >= nixl_size()) {
        return;
    }
    snprintf(line, sizeof(line), "%s\t%s\t%s\t%s", table, label_of(from), label_of(rank), row);
    table_add_line(tables, EXPLAIN_N_TABLES, line);
}

static bool tell(char *row)
{
    if (nixl_rank() == 0) {
        take_row(0, row);
        return true;
    }
    return nixl_notify(0, TAG_ROW, row, strlen(row) + 1, ANSWER_NS) == NIXL_OK;
}

/* One kind of memory of a rank that is reached by this route. */
static bool tell_part(int rank, int kind, struct nixl_route_info *route)
{
    struct nixl_region_info part = NIXL_REGION_INFO_INIT;
    char latency[TABLE_NUMBER_NBYTES], bandwidth[TABLE_NUMBER_NBYTES];
    char row[NIXL_NOTE_MAX], note[512];

    if (nixl_region_query(parts[kind], rank, PART_NS, &part) == NIXL_OK) {
        snprintf(note, sizeof(note), "%s", part.note);
    } else {
        part = (struct nixl_region_info){0};
        snprintf(note, sizeof(note), "%s", nixl_last_error()->text);
    }
    snprintf(row, sizeof(row), "routes\t%d\thost\t%s\t%s\t%s\t%s\t%s\t%u\t%s\t%s", rank,
             part_kinds[kind], route->transport, part.method,
             table_number(part.latency_ns, latency), table_number(part.bandwidth_mbps, bandwidth),
             route->n_rails, table_cell(route->devices), table_cell(note));
    return tell(row);
}

/* Messages and bulk may go over two networks: "ucx, ofi". */
static void add_chosen(struct nixl_route_info *chosen, const struct nixl_route_info *route)
{
    size_t used = strlen(chosen->transport), devices_used = strlen(chosen->devices);

    snprintf(chosen->transport + used, sizeof(chosen->transport) - used, "%s%s",
             used > 0 ? ", " : "", route->transport);
    snprintf(chosen->devices + devices_used, sizeof(chosen->devices) - devices_used, "%s%s",
             devices_used > 0 ? "\n" : "", route->devices);
    chosen->n_rails = route->n_rails > chosen->n_rails ? route->n_rails : chosen->n_rails;
}

/* How this rank reaches another, and why not otherwise. False: rank 0 is not reached any more. */
static bool tell_routes(int rank)
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT, chosen = {0};
    char row[NIXL_NOTE_MAX];
    bool is_told = true;

    for (unsigned i = 0; nixl_route_query(rank, i, &route) == NIXL_OK; i++) {
        if (route.is_chosen) {
            add_chosen(&chosen, &route);
        } else {
            snprintf(row, sizeof(row), "refused\t%d\t%s\t%s", rank, route.transport,
                     table_cell(route.why));
            is_told = tell(row) && is_told;
        }
    }
    if (chosen.transport[0] != '\0') {
        return tell_part(rank, 0, &chosen) && tell_part(rank, 1, &chosen) && is_told;
    }
    snprintf(row, sizeof(row), "routes\t%d\thost\thost\tnone\t\t\t\t\t\tno transport reaches it",
             rank);
    return tell(row) && is_told;
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

/* Is a rank on this host? Shared memory proves it; without any, the name must do. */
static bool is_here(int rank)
{
    return nixl_scope(rank) == NIXL_SCOPE_LOCAL ||
           (!has_shared_memory() && has_host_of(rank, nixl_rank()));
}

/* The lowest rank of this host. */
static int find_leader(void)
{
    for (int rank = 0; rank < nixl_rank(); rank++) {
        if (is_here(rank)) {
            return rank;
        }
    }
    return nixl_rank();
}

static bool is_reached(int rank)
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;

    for (unsigned i = 0; nixl_route_query(rank, i, &route) == NIXL_OK; i++) {
        if (route.is_chosen) {
            return true;
        }
    }
    return false;
}

/* A rank but 0: do what rank 0 says. */
static int follow(void)
{
    struct nixl_note note;
    int32_t leader = find_leader(), targets[MAX_TARGETS];

    if (!is_reached(0)) {
        return 0; /* rank 0 sees that, too */
    }
    if (nixl_notify(0, TAG_LEADER, &leader, sizeof(leader), ANSWER_NS) != NIXL_OK) {
        return fail("cannot tell rank 0");
    }
    for (;;) {
        nixl_note_init(&note);
        if (nixl_notify_recv(0, 0, 0, GOODBYE_NS, &note) != NIXL_OK) {
            return fail("rank 0 does not say what to do");
        }
        if (note.tag == TAG_END) {
            return 0;
        }
        memcpy(targets, note.payload, note.nbytes);
        for (size_t i = 0; i < note.nbytes / sizeof(targets[0]); i++) {
            if (!tell_routes(targets[i])) {
                return fail("cannot tell rank 0");
            }
        }
        if (nixl_notify(0, TAG_DONE, NULL, 0, ANSWER_NS) != NIXL_OK) {
            return fail("cannot tell rank 0");
        }
    }
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

/* Take answers until all reached ranks have given theirs, or, if not NIXL_ALL_RANKS, that one. */
static void collect(int from)
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
        if (note.tag == TAG_LEADER && note.nbytes == sizeof(int32_t)) {
            int32_t leader;

            memcpy(&leader, note.payload, sizeof(leader));
            member->leader = leader >= 0 && leader < note.rank ? leader : note.rank;
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

/* Ranks that are not reached cannot say with whom they are: their host's name must do. */
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

/* Name the hosts: by their leader's rank as well where two have one name. */
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
        table_add(&tables[EXPLAIN_HOSTS], (const char *const[]){members[rank].label, ranks});
    }
}

/* The ranks that a leader shall tell of: a neighbour, or itself, and the other leaders. */
static size_t plan(int leader, int32_t targets[MAX_TARGETS])
{
    size_t n = 1;

    targets[0] = leader;
    for (int rank = 0; rank < nixl_size() && n < MAX_TARGETS; rank++) {
        if (members[rank].leader == leader && targets[0] == leader) {
            targets[0] = rank;
        } else if (members[rank].leader == rank && rank != leader &&
                   (members[rank].is_reached || leader == 0)) {
            targets[n++] = rank;
        }
    }
    return n;
}

static void print(bool is_json)
{
    struct table_writer writer = {.out = stdout, .is_json = is_json};

    table_begin(&writer, "nixlrun", NIXLRUN_VERSION);
    for (size_t i = 0; i < EXPLAIN_N_TABLES; i++) {
        table_write(&writer, &tables[i], "none");
        table_free(&tables[i]);
    }
    table_end(&writer);
}

/* Ask one leader and wait, so that rows are in the order of hosts. */
static void ask_leader(int rank)
{
    int32_t targets[MAX_TARGETS];
    size_t nbytes = plan(rank, targets) * sizeof(targets[0]);

    if (nixl_notify(rank, TAG_PLAN, targets, nbytes, ANSWER_NS) == NIXL_OK) {
        collect(rank);
    } else {
        fail("cannot ask a rank");
    }
}

static void let_go(void)
{
    for (int rank = 1; rank < nixl_size(); rank++) {
        if (members[rank].is_reached && nixl_notify(rank, TAG_END, NULL, 0, ANSWER_NS) != NIXL_OK) {
            fail("cannot let a rank go");
        }
    }
}

static int lead(bool is_json)
{
    int32_t targets[MAX_TARGETS];
    size_t n_targets;

    members = x_calloc((size_t)nixl_size(), sizeof(*members));
    for (int rank = 0; rank < nixl_size(); rank++) {
        members[rank] = (struct member){
            .leader = is_here(rank) ? 0 : rank,
            .is_reached = is_reached(rank),
        };
    }
    collect(NIXL_ALL_RANKS);
    lead_unreached();
    name_hosts();
    n_targets = plan(0, targets);
    for (size_t i = 0; i < n_targets; i++) {
        tell_routes(targets[i]);
    }
    for (int rank = 1; rank < nixl_size(); rank++) {
        if (members[rank].leader == rank && members[rank].is_reached) {
            ask_leader(rank);
        }
    }
    let_go();
    print(is_json);
    for (int rank = 0; rank < nixl_size(); rank++) {
        free(members[rank].label);
    }
    free(members);
    return fflush(stdout) == 0 ? 0 : LAUNCH_EXIT_FAILED;
}

int explain(bool is_json)
{
    static char registered[PART_NBYTES];
    int status;

    if (nixl_init(NULL) != NIXL_OK) {
        fprintf(stderr, "nixlrun: --explain: %s\n", nixl_last_error()->text);
        return LAUNCH_EXIT_FAILED;
    }
    if (nixl_region_alloc("nixlrun.allocated", PART_NBYTES, NULL, &parts[0]) != NIXL_OK ||
        nixl_region_register("nixlrun.registered", registered, PART_NBYTES, NULL, &parts[1]) !=
            NIXL_OK) {
        return fail("cannot make a region");
    }
    status = nixl_rank() == 0 ? lead(is_json) : follow();
    nixl_finalize();
    return status;
}
