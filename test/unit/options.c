/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line, seen from inside: what stands in the job that the engine gets. What mistakes
 * are answered with is in test/launcher/options.transcript.
 */
#include "launcher/options.h"
#include "launcher/stats.h"
#include "launcher/option_table.h"
#include "launcher/values.h"
#include "util/clock.h"

#include "test/unit/unit.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct options options;
static char why[256];

/* Parse the words of a line, which are separated by one blank; the first is the name of nixlrun. */
static int parse(const char *line)
{
    static char words[512];
    static char *argv[64];
    int argc = 0;

    snprintf(words, sizeof(words), "%s", line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    why[0] = '\0';
    return options_parse(argc, argv, &options, why, sizeof(why));
}

static bool same(const char *text, const char *wanted)
{
    return strcmp(text, wanted) == 0;
}

static void teardown(void)
{
    options_free(&options);
}

TestSuite(options, .timeout = 120, .fini = teardown);

Test(options, defaults)
{
    const struct launch_job *job = &options.job;

    cr_assert(eq(int, parse("nixlrun app"), 0));
    cr_expect(eq(int, (int)options.action, (int)ACTION_RUN));
    cr_expect(eq(int, job->np, 1));
    cr_expect(eq(int, job->n_apps, 1));
    cr_expect(same(job->apps[0].argv[0], "app"));
    cr_expect(job->apps[0].argv[1] == NULL);
    cr_expect(job->apps[0].env[0] == NULL);
    cr_expect(job->apps[0].wdir == NULL);
    cr_expect(eq(int, (int)job->stdin_mode, (int)STDIN_RANK));
    cr_expect(eq(int, job->stdin_rank, 0));
    cr_expect(eq(i64, job->timeout_ns, INT64_MAX));
    cr_expect(eq(i64, job->grace_ns, 2 * NXR_S));
    cr_expect(eq(int, (int)job->bind, (int)BIND_NONE));
    cr_expect(eq(int, (int)job->map, (int)MAP_SLOT));
    cr_expect(eq(int, (int)job->on_failure, (int)ON_FAILURE_ABORT));
    cr_expect(job->mpi_hints && job->oversubscribe);
    cr_expect(job->tag_output == 0 && !job->timestamp_output && !job->report_bindings);
    cr_expect(job->dry_run == 0 && job->output_dir == NULL && job->verbose == 0);
}

Test(options, restarts_have_a_number_and_a_delay)
{
    static const struct {
        const char *line;
        int most;
        int64_t delay_ns;
    } good[] = {{"nixlrun --on-failure restart app", LAUNCH_RESTARTS_DEFAULT, 0},
                {"nixlrun --on-failure restart=0 app", 0, 0},
                {"nixlrun --on-failure restart=7 app", 7, 0},
                {"nixlrun --on-failure=restart=1000000,1.5 app", 1000000, 3 * NXR_S / 2},
                {"nixlrun --on-failure restart=2,250ms app", 2, 250 * NXR_MS}};
    static const char *const bad[] = {
        "restart=",        "restart=x",  "restart=-1",
        "restart=1000001", "restart=1,", "restart=1,2,3",
        "restart=,1",      "restarts",   "restart=0000000000000000001"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert(eq(int, parse(good[i].line), 0), "%s", why);
        cr_expect(eq(int, (int)options.job.on_failure, (int)ON_FAILURE_RESTART));
        cr_expect(eq(int, options.job.most_restarts, good[i].most));
        cr_expect(eq(i64, options.job.restart_delay_ns, good[i].delay_ns));
        options_free(&options);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char line[80];

        snprintf(line, sizeof(line), "nixlrun --on-failure %s app", bad[i]);
        cr_expect(ne(int, parse(line), 0), "%s", bad[i]);
        cr_expect(strstr(why, bad[i]) != NULL && strstr(why, "allowed: ") != NULL, "%s", why);
    }
}

Test(options, every_option_of_the_job)
{
    const struct launch_job *job = &options.job;

    cr_assert(eq(int,
                 parse("nixlrun -n 3 --tag-output --timestamp-output --output-dir . --stdin 2 "
                       "--timeout 1.5 --on-failure continue --kill-grace 0 --bind-to numa "
                       "--map-by=core --oversubscribe --report-bindings --no-mpi-hints --dry-run "
                       "--topology file --elastic -vv -v app"),
                 0),
              "%s", why);
    cr_expect(job->tag_output && job->timestamp_output && job->report_bindings);
    cr_expect(job->oversubscribe && !job->mpi_hints && job->dry_run);
    cr_expect(job->is_elastic);
    cr_expect(same(job->output_dir, "."));
    cr_expect(eq(int, job->stdin_rank, 2));
    cr_expect(eq(i64, job->timeout_ns, 3 * NXR_S / 2));
    cr_expect(eq(int, (int)job->on_failure, (int)ON_FAILURE_CONTINUE));
    cr_expect(eq(i64, job->grace_ns, 0));
    cr_expect(eq(int, (int)job->bind, (int)BIND_NUMA));
    cr_expect(eq(int, (int)job->map, (int)MAP_CORE));
    cr_expect(eq(int, job->verbose, 3));
    cr_expect(same(options.topology, "file"));
}

/* --stats takes no word that follows: that is the program. */
Test(options, statistics_and_metrics)
{
    const struct launch_job *job = &options.job;
    char address[METRICS_ADDRESS_NBYTES];
    int port;

    cr_assert(eq(int, parse("nixlrun --stats app"), 0));
    cr_expect(same(job->stats, ""));
    cr_expect(same(job->apps[0].argv[0], "app"));
    options_free(&options);
    cr_assert(eq(int, parse("nixlrun --stats=json --metrics 9400 app"), 0));
    cr_expect(same(job->stats, "json"));
    cr_expect(same(job->metrics, "9400"));
    cr_assert(eq(int, metrics_parse("9400", address, &port), 0));
    cr_expect(same(address, "127.0.0.1") && port == 9400);
    cr_assert(eq(int, metrics_parse("0.0.0.0:65535", address, &port), 0));
    cr_expect(same(address, "0.0.0.0") && port == 65535);
    cr_assert(eq(int, metrics_parse("[::1]:80", address, &port), 0));
    cr_expect(same(address, "::1") && port == 80);
    cr_expect(ne(int, metrics_parse("::1:80", address, &port), 0));
    cr_expect(ne(int, metrics_parse("65536", address, &port), 0));
    cr_expect(ne(int, metrics_parse("a:", address, &port), 0));
    cr_expect(ne(int, metrics_parse(":80", address, &port), 0));
    cr_expect(ne(int, metrics_parse("[]:x", address, &port), 0));
}

Test(options, trace)
{
    const struct launch_job *job = &options.job;

    cr_assert(
        eq(int, parse("nixlrun --trace trace.tmp --trace-kinds ^wait --trace-events 64 app"), 0));
    cr_expect(same(job->trace, "trace.tmp"));
    cr_expect(same(job->trace_kinds, "^wait"));
    cr_expect(eq(int, job->trace_events, 64));
    cr_expect(ne(int, parse("nixlrun --trace -x app"), 0));
    cr_expect(ne(int, parse("nixlrun --trace /nowhere/x app"), 0));
    cr_expect(ne(int, parse("nixlrun --trace-kinds puts app"), 0));
    cr_expect(ne(int, parse("nixlrun --trace-events 63 app"), 0));
    remove("trace.tmp");
}

Test(options, programs_keep_their_own)
{
    const struct launch_app *apps;

    cr_assert(eq(int, parse("nixlrun -n 2 -x A=1 --wdir / a -n 9 : -n3 -xA=2 b : c -- :x"), 0),
              "%s", why);
    apps = options.job.apps;
    cr_assert(eq(int, options.job.n_apps, 3));
    cr_expect(eq(int, options.job.np, 6));
    cr_expect(eq(int, apps[0].np, 2));
    cr_expect(same(apps[0].argv[2], "9"));
    cr_expect(apps[0].argv[3] == NULL);
    cr_expect(same(apps[0].env[0], "A=1"));
    cr_expect(same(apps[0].wdir, "/"));
    cr_expect(eq(int, apps[1].np, 3));
    cr_expect(same(apps[1].env[0], "A=2"));
    cr_expect(apps[1].wdir == NULL);
    cr_expect(eq(int, apps[2].np, 1));
    cr_expect(apps[2].env[0] == NULL);
    cr_expect(same(apps[2].argv[1], "--"));
    cr_expect(same(apps[2].argv[2], ":x"));
}

Test(options, ranks_of_all_programs_have_a_limit)
{
    cr_expect(eq(int, parse("nixlrun -n 65535 a : -n 1 b"), 0), "%s", why);
    cr_expect(eq(int, options.job.np, OPTIONS_MAX_NP));
    options_free(&options);
    cr_expect(eq(int, parse("nixlrun -n 65535 a : -n 2 b"), -1));
    cr_expect(strstr(why, "65537 ranks together; allowed: 65536") != NULL, "%s", why);
}

Test(options, a_variable_has_a_name)
{
    static const char *const lines[] = {"nixlrun -x =1 a", "nixlrun -x -n a", "nixlrun --env= a",
                                        "nixlrun -x = a"};

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        cr_expect(eq(int, parse(lines[i]), -1), "%s", lines[i]);
        options_free(&options);
    }
}

/* Only what has exactly that name is passed on. */
Test(options, a_variable_is_passed_as_it_is_in_the_environment)
{
    setenv("NIXL_UNIT_A", "1", 1);
    setenv("NIXL_UNIT_AB", "2", 1);
    cr_assert(eq(int, parse("nixlrun -x NIXL_UNIT_A a"), 0), "%s", why);
    cr_assert(options.job.apps[0].env[0] != NULL);
    cr_expect_str_eq(options.job.apps[0].env[0], "NIXL_UNIT_A=1");
    cr_expect(options.job.apps[0].env[1] == NULL);
    cr_expect(eq(int, options.n_notes, 0));
}

static void binding_is(const char *line, enum launch_bind bind, bool oversubscribe)
{
    cr_assert(eq(int, parse(line), 0), "%s", why);
    cr_expect(eq(int, (int)options.job.bind, (int)bind), "%s", line);
    cr_expect(eq(int, options.job.oversubscribe, oversubscribe), "%s", line);
    options_free(&options);
}

Test(options, binding_follows_mapping_and_oversubscription_follows_binding)
{
    binding_is("nixlrun -n 9 a", BIND_NONE, true);
    binding_is("nixlrun --no-oversubscribe a", BIND_NONE, false);
    binding_is("nixlrun --map-by slot a", BIND_NONE, true);
    binding_is("nixlrun --map-by core a", BIND_CORE, false);
    binding_is("nixlrun --map-by package a", BIND_SOCKET, false);
    binding_is("nixlrun --map-by numa --bind-to core a", BIND_CORE, false);
    binding_is("nixlrun --bind-to none --map-by numa a", BIND_NONE, true);
    binding_is("nixlrun --bind-to core --oversubscribe a", BIND_CORE, true);
    binding_is("nixlrun --oversubscribe --no-oversubscribe a", BIND_NONE, false);
}

Test(options, help_version_and_env_end_the_parsing)
{
    cr_assert(eq(int, parse("nixlrun --version --nonsense"), 0));
    cr_expect(eq(int, (int)options.action, (int)ACTION_VERSION));
    cr_assert(eq(int, parse("nixlrun --env"), 0));
    cr_expect(eq(int, (int)options.action, (int)ACTION_ENV));
    cr_assert(eq(int, parse("nixlrun -h"), 0));
    cr_expect(eq(int, (int)options.action, (int)ACTION_HELP));
    cr_expect(options.help_topic == NULL);
    cr_assert(eq(int, parse("nixlrun --help mapping"), 0));
    cr_expect(same(options.help_topic, "mapping"));
    cr_assert(eq(int, parse("nixlrun -h -n"), 0));
    cr_expect(options.help_topic == NULL);
}

Test(options, no_words_at_all)
{
    char *none[] = {NULL};

    cr_expect(eq(int, options_parse(0, none, &options, why, sizeof(why)), -1));
    cr_expect(ne(chr, why[0], '\0'));
}

Test(options, each_option_that_needs_a_value_says_so)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *option = &option_table[i];
        char word[64], line[80];

        if (option->value != VALUE_NEEDED) {
            continue;
        }
        snprintf(word, sizeof(word), "--%.*s", (int)strcspn(option->names, " "), option->names);
        snprintf(line, sizeof(line), "nixlrun %s", word);
        cr_expect(eq(int, parse(line), -1), "%s", word);
        cr_expect(strstr(why, "has no value; allowed:") != NULL, "%s: %s", word, why);
        cr_expect(strncmp(why, word, strlen(word)) == 0, "%s: %s", word, why);
        options_free(&options);
    }
}

Test(options, each_option_does_something)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *option = &option_table[i];
        const char *value = option->words != NULL ? option->words : "1";
        char line[120];

        snprintf(line, sizeof(line), "nixlrun --%.*s %.*s app", (int)strcspn(option->names, " "),
                 option->names, option->value == VALUE_NEEDED ? (int)strcspn(value, " ") : 0,
                 value);
        (void)parse(line); /* a value that is refused is an effect, too */
        cr_expect(strstr(why, "does nothing") == NULL, "%s", why);
        options_free(&options);
    }
    remove("1"); /* the file of --trace */
}

Test(options, no_name_stands_for_two_options)
{
    for (size_t i = 0; i < option_count; i++) {
        for (size_t j = 0; j < option_count; j++) {
            for (const char *name = option_table[i].names; i != j && *name != '\0';) {
                char word[64];

                snprintf(word, sizeof(word), "%.*s", (int)strcspn(name, " "), name);
                cr_expect(lt(int, value_word(word, option_table[j].names), 0), "%s", word);
                name += strlen(word);
                name += *name == ' ';
            }
        }
    }
}

/* Lines that end well, and lines that end at a mistake. */
static void parse_many_times(int n)
{
    static const char *const lines[] = {
        "nixlrun -x A=1 -x B=2 --host a:2,b -np 3 ./app 1 2 : -np 1 -x C=3 ./other",
        "nixlrun -x A=1 --host a:x ./app", "nixlrun --wdir / --np 2", "nixlrun --version"};

    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof(lines) / sizeof(lines[0]); k++) {
            parse(lines[k]);
            options_free(&options);
        }
    }
}

Test(options, nothing_is_kept_of_options_that_are_freed)
{
    size_t before;

    parse_many_times(10);
    before = mallinfo2().uordblks;
    parse_many_times(100);
    cr_expect_eq(mallinfo2().uordblks, before);
    cr_assert_eq(parse("nixlrun app"), 0); /* for the teardown */
}
