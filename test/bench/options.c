/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of nixl_bench. All ranks read the same one; rank 0 alone complains and exits
 * with 2, before it joins the job. The others exit with 0: a failing rank ends the job, maybe
 * before rank 0 has said why.
 */
#include "config.h"

#include "bench.h"
#include "util/env.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_NBYTES  (8ull << 30)
#define MAX_WINDOW  1024
#define MAX_PAIRS   1000000
#define EXIT_USAGE  2
#define LIST_NBYTES 64

/* Is this rank 0, or a process without a launcher? Known before the library is. */
static bool speaks(void)
{
    const char *rank = getenv("PMIX_RANK");

    return rank == NULL || strcmp(rank, "0") == 0;
}

static void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void usage_error(const char *format, ...)
{
    va_list args;

    if (!speaks()) {
        exit(EXIT_SUCCESS);
    }
    va_start(args, format);
    fprintf(stderr, "nixl_bench: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(EXIT_USAGE);
}

static void print_help(void)
{
    printf("Usage: nixlrun -np 2 nixl_bench TEST... [OPTION...]\n"
           "       nixl_bench tune [OPTION...] COMMAND...\n"
           "       nixl_bench compare [OPTION...] OLD.json NEW.json\n"
           "       nixl_bench plot [OPTION...] RESULTS.json... PICTURE\n"
           "       nixl_bench peers [OPTION...]\n"
           "Measure nixlrun beside the machine's limit for the same work, in the same run.\n\n"
           "Tests:\n");
    for (int i = 0; i < bench_n_tests; i++) {
        printf("  %-14s %s\n", bench_tests[i].name, bench_tests[i].help);
    }
    printf(
        "\nOptions:\n"
        "  -s, --sizes LIST      bytes, such as 8,4K,1M,256M (default: by test)\n"
        "  -a, --alignment LIST  offsets DST[:SRC] from a page, such as 0,1,8:8, or `all'\n"
        "  -b, --budget TIME     target time of a row, such as 300ms (default); or --duration\n"
        "  -i, --iters N         samples of a row, instead of a budget\n"
        "      --single          time each operation alone: percentiles up to p99.99\n"
        "  -r, --registered      use registered malloc memory instead of allocated regions\n"
        "  -f, --fresh           write all data before each operation, read it all after: "
        "copy_read,\n"
        "                        nb_read, get_read, put_notify, notify, channel, pattern, "
        "collectives,\n"
        "                        trace\n"
        "      --memory KIND     host (default), cuda or vulkan: where the data lies, at both "
        "ends;\n"
        "                        KIND:KIND: the peer's segment, and this end\n"
        "  -w, --window N        puts or gets in flight of put_nb, get_nb (default 64)\n"
        "      --pattern LIST    of `pattern': pair, all_pairs, many_to_one, one_to_many, ring,\n"
        "                        bisection, tp, or a file with a matrix of bytes (default ring)\n"
        "      --pairs N         only the first N pairs of pair, bisection and tp send\n"
        "      --threads N       threads of each rank that send in a pattern (default 1)\n"
        "      --seconds S       how long `idle' waits (default 3)\n"
        "      --publish WHERE   measure between two processes that are started separately: wait "
        "for the\n"
        "                        other one, which is given the same and --attach WHERE; "
        "file:DIR or\n"
        "                        tcp://HOST:PORT\n"
        "      --attach WHERE    the other one\n"
        "      --etcd WHERE      `attach' also by a name in that etcd, such as etcd://HOST:2379\n"
        "      --object URL      `objects' in that store, such as s3://BUCKET/PATH\n"
        "      --tcp             measure one host as if between hosts, beside TCP\n"
        "      --no-pin          do not bind each rank to a core of its own\n"
        "      --check           exit 1 if a goal is missed\n"
        "      --csv, --json     print that instead of a table\n"
        "      --plot PICTURE    draw the rows, too: a file .svg, .png or .html\n"
        "  -h, --help            this text\n"
        "  -V, --version         the version\n");
}

/* The next item of a comma list, cut out into `item`; false at the end. */
static bool next_item(const char **list, char *item)
{
    size_t nbytes = strcspn(*list, ",");

    if (**list == '\0') {
        return false;
    }
    snprintf(item, LIST_NBYTES, "%.*s", (int)(nbytes < LIST_NBYTES ? nbytes : LIST_NBYTES - 1),
             *list);
    *list += nbytes;
    *list += **list == ',';
    return true;
}

static void parse_sizes(struct bench_options *options, const char *list)
{
    char item[LIST_NBYTES];
    uint64_t nbytes;

    while (next_item(&list, item)) {
        if (nxr_env_parse_bytes(item, &nbytes) != 0 || nbytes > MAX_NBYTES) {
            usage_error("--sizes has '%s'; allowed: bytes up to 8G, such as 8,4K,1M", item);
        }
        if (options->n_sizes == BENCH_MAX_SIZES) {
            usage_error("--sizes has more than %d sizes", BENCH_MAX_SIZES);
        }
        options->sizes[options->n_sizes++] = nbytes;
    }
    if (options->n_sizes == 0) {
        usage_error("--sizes is empty; allowed: bytes up to 8G, such as 8,4K,1M");
    }
}

/* Names of patterns or of files; the list is cut up where it stands. */
static void parse_patterns(struct bench_options *options, char *list)
{
    for (char *rest = list, *name; (name = strsep(&rest, ",")) != NULL;) {
        if (*name == '\0') {
            usage_error("--pattern has an empty name; allowed: pair, all_pairs, many_to_one, "
                        "one_to_many, ring, bisection, tp, or a file");
        }
        if (options->n_patterns == BENCH_MAX_PATTERNS) {
            usage_error("--pattern has more than %d patterns", BENCH_MAX_PATTERNS);
        }
        if (!traffic_is_name(name) && access(name, R_OK) != 0) {
            usage_error("--pattern has '%s'; allowed: pair, all_pairs, many_to_one, one_to_many, "
                        "ring, bisection, tp, or a file that can be read",
                        name);
        }
        options->patterns[options->n_patterns++] = name;
    }
}

static void add_alignment(struct bench_options *options, size_t dst, size_t src)
{
    if (options->n_alignments == BENCH_MAX_ALIGNMENTS) {
        usage_error("--alignment has more than %d alignments", BENCH_MAX_ALIGNMENTS);
    }
    options->alignments[options->n_alignments++] = (struct bench_alignment){dst, src};
}

static void parse_alignments(struct bench_options *options, const char *list)
{
    static const struct bench_alignment all[] = {{0, 0},  {1, 0},    {8, 0},   {16, 0}, {32, 0},
                                                 {63, 0}, {64, 0},   {0, 1},   {0, 16}, {8, 8},
                                                 {3, 7},  {4095, 0}, {2048, 0}};
    char item[LIST_NBYTES], rest;
    unsigned dst, src;

    if (strcmp(list, "all") == 0) {
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
            add_alignment(options, all[i].dst, all[i].src);
        }
        return;
    }
    while (next_item(&list, item)) {
        src = 0;
        if ((sscanf(item, "%u%c", &dst, &rest) != 1 &&
             sscanf(item, "%u:%u%c", &dst, &src, &rest) != 2) ||
            dst > 4095 || src > 4095 || item[0] == '-') {
            usage_error("--alignment has '%s'; allowed: DST or DST:SRC, each 0 to 4095, or all",
                        item);
        }
        add_alignment(options, dst, src);
    }
    if (options->n_alignments == 0) {
        usage_error("--alignment is empty; allowed: DST or DST:SRC, each 0 to 4095, or all");
    }
}

/* A kind's name up to `end'. */
static enum nixl_mem_kind parse_kind(const char *list, const char *name, const char *end)
{
    static const struct {
        const char *name;
        enum nixl_mem_kind kind;
    } kinds[] = {{"host", NIXL_MEM_HOST}, {"cuda", NIXL_MEM_CUDA}, {"vulkan", NIXL_MEM_VULKAN}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strlen(kinds[i].name) == (size_t)(end - name) &&
            memcmp(kinds[i].name, name, (size_t)(end - name)) == 0) {
            return kinds[i].kind;
        }
    }
    usage_error("--memory is '%s'; allowed: KIND or KIND:KIND, each host, cuda or vulkan", list);
}

static void parse_memory(struct bench_options *options, const char *text)
{
    const char *colon = strchrnul(text, ':');

    options->there = parse_kind(text, text, colon);
    options->here =
        *colon == '\0' ? options->there : parse_kind(text, colon + 1, text + strlen(text));
}

static bool is_one_of(const struct bench_test *test, void (*const *list)(struct bench *), size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (test->run == list[i]) {
            return true;
        }
    }
    return false;
}

/* Tests in which one rank reads what another has written. */
static void check_fresh(const struct bench_options *options)
{
    static void (*const movers[])(struct bench *) = {
        test_copy_read,        test_nb_read,   test_get_read,       test_put_notify,
        test_notify,           test_channel,   test_pattern,        test_reduce,
        test_broadcast,        test_allreduce, test_reduce_scatter, test_scan,
        test_gather,           test_scatter,   test_allgather,      test_alltoall,
        test_alltoall_strided, test_gatherv,   test_scatterv,       test_allgatherv,
        test_alltoallv,        test_trace};

    if (!options->is_fresh) {
        return;
    }
    if (options->there != NIXL_MEM_HOST || options->here != NIXL_MEM_HOST) {
        usage_error("--fresh is for host memory and excludes --memory");
    }
    for (int i = 0; i < options->n_tests; i++) {
        if (options->tests[i]->run != test_barrier &&
            !is_one_of(options->tests[i], movers, sizeof(movers) / sizeof(movers[0]))) {
            usage_error("%s has no --fresh; copy_read, nb_read, get_read, put_notify, notify, "
                        "channel, pattern, collectives and trace have",
                        options->tests[i]->name);
        }
    }
}

/* Other tests have memory of their own. */
static void check_memory(const struct bench_options *options)
{
    static void (*const movers[])(struct bench *) = {
        test_put,        test_put_flush, test_get,        test_put_nb,    test_get_nb,
        test_put_notify, test_broadcast, test_reduce,     test_allreduce, test_reduce_scatter,
        test_scan,       test_gather,    test_scatter,    test_allgather, test_alltoall,
        test_gatherv,    test_scatterv,  test_allgatherv, test_alltoallv};

    if (options->there == NIXL_MEM_HOST && options->here == NIXL_MEM_HOST) {
        return;
    }
    if (options->is_registered) {
        usage_error("--registered is for host memory and excludes --memory");
    }
    for (int i = 0; i < options->n_tests; i++) {
        if (!is_one_of(options->tests[i], movers, sizeof(movers) / sizeof(movers[0]))) {
            usage_error("%s has no --memory; put, put_flush, get, put_nb, get_nb, put_notify and "
                        "collectives have",
                        options->tests[i]->name);
        }
    }
}

static long parse_number(const char *option, const char *text, long lowest, long highest)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < lowest || value > highest) {
        usage_error("%s is '%s'; allowed: a number from %ld to %ld", option, text, lowest, highest);
    }
    return value;
}

static void parse_test(struct bench_options *options, const char *name)
{
    for (int i = 0; i < bench_n_tests; i++) {
        if (strcmp(bench_tests[i].name, name) == 0) {
            if (options->n_tests == BENCH_MAX_TESTS) {
                usage_error("more than %d tests at once", BENCH_MAX_TESTS);
            }
            options->tests[options->n_tests++] = &bench_tests[i];
            return;
        }
    }
    usage_error("unknown test '%s'; `nixl_bench --help' lists them", name);
}

static const char *parse_picture(const char *path)
{
    static const char *const kinds[] = {".svg", ".png", ".html"};
    const char *kind = strrchr(path, '.');

    for (size_t i = 0; kind != NULL && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            return path;
        }
    }
    usage_error("--plot is '%s'; allowed: a file that ends in .svg, .png or .html", path);
}

static double parse_seconds(const char *text)
{
    double seconds;
    char rest;

    if (sscanf(text, "%lf%c", &seconds, &rest) != 1 || !(seconds > 0 && seconds <= 3600)) {
        usage_error("--seconds is '%s'; allowed: a number up to 3600", text);
    }
    return seconds;
}

/* The form is nixl_publish()'s to check. */
static const char *parse_etcd(const char *text)
{
    if (strncmp(text, "etcd://", 7) != 0 && strncmp(text, "etcds://", 8) != 0) {
        usage_error("--etcd is '%s'; allowed: etcd://[USER@]HOST:PORT[,...][/PREFIX], or etcds://",
                    text);
    }
    return text;
}

static void parse_option(struct bench_options *options, int option, char *text)
{
    switch (option) {
    case 's':
        parse_sizes(options, text);
        break;
    case 'a':
        parse_alignments(options, text);
        break;
    case 'b':
        if (nxr_env_parse_time(text, &options->budget_ns) != 0 || options->budget_ns <= 0 ||
            options->budget_ns > 600 * 1000000000ll) {
            usage_error("--budget or --duration is '%s'; allowed: a time up to 600s, such as 300ms",
                        text);
        }
        break;
    case 'i':
        options->n_samples = parse_number("--iters", text, 1, BENCH_MAX_SINGLES);
        break;
    case 'w':
        options->window = parse_number("--window", text, 1, MAX_WINDOW);
        break;
    case 'S':
        options->seconds = parse_seconds(text);
        break;
    case 'r':
        options->is_registered = true;
        break;
    case 'f':
        options->is_fresh = true;
        break;
    case 'M':
        parse_memory(options, text);
        break;
    case 'P':
        options->is_unpinned = true;
        break;
    case 'T':
        options->is_by_tcp = true;
        break;
    case 'u':
        options->publish = text;
        break;
    case 'A':
        options->attach = text;
        break;
    case 'K':
        options->is_checked = true;
        break;
    case 'q':
        parse_patterns(options, text);
        break;
    case 'n':
        options->n_pairs = (int)parse_number("--pairs", text, 1, MAX_PAIRS);
        break;
    case 't':
        options->n_threads = (int)parse_number("--threads", text, 1, BENCH_MAX_THREADS);
        break;
    case '1':
        options->is_single = true;
        break;
    case 'p':
        options->plot = parse_picture(text);
        break;
    case 'E':
        options->etcd = parse_etcd(text);
        break;
    case 'O':
        options->object = text;
        break;
    case 'C':
    case 'J':
        options->format = option == 'C' ? FORMAT_CSV : FORMAT_JSON;
        break;
    }
}

/* Between processes that are started separately there are two, on one host. */
static void check_apart(const struct bench_options *options)
{
    const char *option = options->publish != NULL ? "--publish" : "--attach";

    if (options->publish == NULL && options->attach == NULL) {
        return;
    }
    if (options->publish != NULL && options->attach != NULL) {
        usage_error("--publish and --attach are for one process each");
    }
    if (options->is_by_tcp) {
        usage_error("%s and --tcp cannot be combined: %s measures shared memory", option, option);
    }
    for (int i = 0; i < options->n_tests; i++) {
        if (!apart_is_possible(options->tests[i])) {
            usage_error("%s cannot run with %s; allowed: tests between two ranks, collectives",
                        options->tests[i]->name, option);
        }
    }
}

/* Patterns of other names have no pairs that could be left out. */
static void check_pairs(const struct bench_options *options)
{
    bool has_pairs = options->n_patterns > 0;

    for (int i = 0; i < options->n_patterns; i++) {
        has_pairs = has_pairs && traffic_has_pairs(options->patterns[i]);
    }
    if (options->n_pairs > 0 && !has_pairs) {
        usage_error("--pairs needs --pattern with pair, bisection or tp, and no other");
    }
}

static const struct option long_options[] = {{"sizes", required_argument, NULL, 's'},
                                             {"alignment", required_argument, NULL, 'a'},
                                             {"budget", required_argument, NULL, 'b'},
                                             {"duration", required_argument, NULL, 'b'},
                                             {"iters", required_argument, NULL, 'i'},
                                             {"window", required_argument, NULL, 'w'},
                                             {"seconds", required_argument, NULL, 'S'},
                                             {"registered", no_argument, NULL, 'r'},
                                             {"memory", required_argument, NULL, 'M'},
                                             {"no-pin", no_argument, NULL, 'P'},
                                             {"tcp", no_argument, NULL, 'T'},
                                             {"publish", required_argument, NULL, 'u'},
                                             {"attach", required_argument, NULL, 'A'},
                                             {"object", required_argument, NULL, 'O'},
                                             {"etcd", required_argument, NULL, 'E'},
                                             {"check", no_argument, NULL, 'K'},
                                             {"csv", no_argument, NULL, 'C'},
                                             {"json", no_argument, NULL, 'J'},
                                             {"help", no_argument, NULL, 'h'},
                                             {"version", no_argument, NULL, 'V'},
                                             {"fresh", no_argument, NULL, 'f'},
                                             {"single", no_argument, NULL, '1'},
                                             {"plot", required_argument, NULL, 'p'},
                                             {"pattern", required_argument, NULL, 'q'},
                                             {"pairs", required_argument, NULL, 'n'},
                                             {"threads", required_argument, NULL, 't'},
                                             {NULL, 0, NULL, 0}};

void options_parse(struct bench_options *options, int argc, char **argv)
{
    int option;

    *options = (struct bench_options){.budget_ns = 300000000,
                                      .window = 64,
                                      .n_threads = 1,
                                      .seconds = 3,
                                      .there = NIXL_MEM_HOST,
                                      .here = NIXL_MEM_HOST};
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":s:a:b:i:w:rfhV", long_options, NULL)) != -1) {
        switch (option) {
        case 'h':
            if (speaks()) {
                print_help();
            }
            exit(0);
        case 'V':
            if (speaks()) {
                printf("nixl_bench %s\n", PACKAGE_VERSION);
            }
            exit(0);
        case '?':
            usage_error("unknown option '%s'; `nixl_bench --help' lists them", argv[optind - 1]);
        case ':':
            usage_error("option '%s' needs a value; see `nixl_bench --help'", argv[optind - 1]);
        default:
            parse_option(options, option, optarg);
        }
    }
    if (optind == argc) {
        usage_error("no test named; `nixl_bench --help' lists them");
    }
    for (; optind < argc; optind++) {
        parse_test(options, argv[optind]);
    }
    for (int i = 0; i < options->n_tests; i++) {
        if ((options->tests[i]->flags & BENCH_ALONE) != 0 && options->n_tests > 1) {
            usage_error("%s cannot run together with other tests", options->tests[i]->name);
        }
    }
    check_apart(options);
    check_memory(options);
    check_fresh(options);
    check_pairs(options);
    if (!options->is_single && options->n_samples > BENCH_MAX_SAMPLES) {
        usage_error("--iters is '%ld'; allowed: a number from 1 to %d, with --single to %d",
                    options->n_samples, BENCH_MAX_SAMPLES, BENCH_MAX_SINGLES);
    }
    if (options->n_patterns == 0) {
        options->patterns[options->n_patterns++] = "ring";
    }
    if (options->n_alignments == 0) {
        add_alignment(options, 0, 0);
    }
}
