/* SPDX-License-Identifier: Apache-2.0 */
/* The argument that places ranks on other hosts, and the variables of a placement. */
#include "launcher/rank_world.h"
#include "launcher/world.h"

#include "test/unit/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct launch_host hosts[3] = {
    {.name = (char *)"a"}, {.name = (char *)"b"}, {.name = (char *)"c"}};
static char word[WORLD_WORD_NBYTES];

static const char *print(int np, int ppn, int n_hosts, const int n_ranks[3])
{
    struct launch_job job = {.np = np, .ppn = ppn, .hosts = hosts, .n_hosts = n_hosts};

    for (int i = 0; i < n_hosts; i++) {
        hosts[i].n_ranks = n_ranks[i];
    }
    cr_assert(world_print(&job, word));
    return word;
}

Test(world, a_word_says_who_is_where)
{
    cr_expect(eq(str, (char *)print(4, 0, 0, NULL), (char *)"4"));
    cr_expect(eq(str, (char *)print(5, 2, 0, NULL), (char *)"5:2,2,1"));
    cr_expect(eq(str, (char *)print(5, 0, 3, (int[]){2, 1, 2}), (char *)"5:2,1,2@a"));
    cr_expect(eq(str, (char *)print(3, 0, 3, (int[]){0, 1, 2}), (char *)"3:1,2@b"));
    cr_expect(eq(str, (char *)print(1, 0, 3, (int[]){1, 0, 0}), (char *)"1:1@a"));
}

static struct world parse(const char *text, int rank, bool *is_good_p)
{
    struct world world = {.rank = -1, .size = -1, .local_rank = -1, .local_size = -1, .port = -1};

    snprintf(word, sizeof(word), "%s", text);
    *is_good_p = world_parse(word, rank, &world);
    return world;
}

Test(world, each_rank_finds_its_place)
{
    static const int places[][2] = {{0, 2}, {1, 2}, {0, 1}, {0, 3}, {1, 3}, {2, 3}};
    bool is_good;

    for (int rank = 0; rank < 6; rank++) {
        struct world world = parse("6:2,1,3@first.host", rank, &is_good);

        cr_expect(is_good);
        cr_expect(eq(int, world.rank, rank));
        cr_expect(eq(int, world.size, 6));
        cr_expect(eq(int, world.local_rank, places[rank][0]));
        cr_expect(eq(int, world.local_size, places[rank][1]));
        cr_expect(eq(str, (char *)world.master, (char *)"first.host"));
    }
}

Test(world, what_is_not_told_stays_unknown)
{
    bool is_good;
    struct world world = parse("6", 5, &is_good);

    cr_expect(is_good);
    cr_expect(eq(int, world.rank, 5));
    cr_expect(eq(int, world.local_rank, -1));
    cr_expect(eq(int, world.local_size, -1));
    cr_expect(world.master == NULL);
}

Test(world, damaged_words_are_refused)
{
    static const char *const words[] = {"",
                                        "x",
                                        "0",
                                        "-1",
                                        "4x",
                                        "4:",
                                        "4:x",
                                        "4:0,4",
                                        "4:-1,5",
                                        "4:2,1",
                                        "4:9",
                                        "4:2,,2",
                                        "4 :4",
                                        "3",
                                        "@a",
                                        ":4",
                                        "4:99999999999999999999"};
    bool is_good;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        parse(words[i], 3, &is_good);
        cr_expect(not(is_good), "'%s'", words[i]);
    }
    parse("4", -1, &is_good);
    cr_expect(not(is_good));
}

static void collect(const char *name, const char *value, void *arg)
{
    char *text = arg, *end = text + strlen(text);

    snprintf(end, 256 - strlen(text), "%s=%s ", name, value != NULL ? value : "?");
}

Test(world, each_variable_is_told_once)
{
    struct world world = {
        .rank = 3, .size = 8, .local_rank = 1, .local_size = 2, .master = "a", .port = 7};
    char text[256] = "";

    world_tell(&world, collect, text);
    cr_expect(eq(str, text,
                 (char *)"RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_SIZE=2 LOCAL_WORLD_SIZE=2 "
                         "MASTER_ADDR=a MASTER_PORT=7 "));
    world = (struct world){.rank = 3, .size = 8, .local_rank = -1, .local_size = -1, .port = -1};
    text[0] = '\0';
    world_tell(&world, collect, text);
    cr_expect(eq(str, text,
                 (char *)"RANK=3 WORLD_SIZE=8 LOCAL_RANK=? LOCAL_SIZE=? LOCAL_WORLD_SIZE=? "
                         "MASTER_ADDR=? MASTER_PORT=? "));
    cr_expect(world_has("LOCAL_RANK=") && world_has("MASTER_PORT=1") && world_has("RANK=0"));
    cr_expect(not(world_has("RANKS=1") || world_has("MY_RANK=1") || world_has("RANK")));
}

Test(world, ports_are_ports)
{
    int port = world_free_port();

    cr_expect(port > 0 && port < 65536);
    cr_expect(eq(int, world_port_of("slurm.pmix.7.0"), world_port_of("slurm.pmix.7.0")));
    cr_expect(ne(int, world_port_of("slurm.pmix.7.0"), world_port_of("slurm.pmix.7.1")));
    cr_expect(world_port_of("x") >= 1024 && world_port_of("x") < 32768);
}

/* A rank of 14 that Slurm has started; `tasks` are those of each node. */
static void start_in_slurm(const char *rank, const char *tasks, const char *node, const char *local)
{
    char ranks[] = "14";

    setenv("PMIX_NAMESPACE", "slurm.pmix.7.0", 1);
    setenv("PMIX_RANK", rank, 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", tasks, 1);
    setenv("SLURM_NODEID", node, 1);
    setenv("SLURM_LOCALID", local, 1);
    setenv("SLURM_STEP_NODELIST", "n[01-03],m", 1);
    rank_world_set(ranks, "");
}

static void variable_is(const char *name, const char *wanted)
{
    const char *value = getenv(name);

    cr_expect_str_eq(value != NULL ? value : "not set", wanted, "%s", name);
}

Test(world, slurm_says_which_rank_of_its_host_this_is)
{
    char port[16];

    start_in_slurm("13", "2(x2),10", "2", "9");
    variable_is("RANK", "13");
    variable_is("WORLD_SIZE", "14");
    variable_is("LOCAL_RANK", "9");
    variable_is("LOCAL_WORLD_SIZE", "10");
    variable_is("MASTER_ADDR", "n01");
    snprintf(port, sizeof(port), "%d", world_port_of("slurm.pmix.7.0"));
    variable_is("MASTER_PORT", port);
    start_in_slurm("3", "2(x2),10", "1", "1");
    variable_is("LOCAL_RANK", "1");
    variable_is("LOCAL_WORLD_SIZE", "2");
    start_in_slurm("3", "14", "0", "3");
    variable_is("MASTER_ADDR", "127.0.0.1");
}

Test(world, what_slurm_says_is_a_number_or_nothing)
{
    static const char *const damaged[] = {"", "x", "1x", "-1", "4294967297", "10"};

    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        start_in_slurm("3", "10,4", "0", damaged[i]);
        variable_is("LOCAL_RANK", "not set");
        variable_is("RANK", "3");
    }
    start_in_slurm("3", "(x2),x", "0", "1");
    variable_is("LOCAL_RANK", "not set");
    start_in_slurm("3", "10,4", "2", "1");
    variable_is("LOCAL_RANK", "not set");
}
