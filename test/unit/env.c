/* SPDX-License-Identifier: Apache-2.0 */
/* The environment table: every kind of value, its limits, and what is said of a bad one. */
#include "util/env.h"
#include "util/nearest.h"
#include "nixlrun.h"

#include "test/unit/unit.h"
#include <stdlib.h>
#include <string.h>

static struct nxr_env env;
static char why[256];

/* Parse with one variable set; the others as they are. */
static int parse_with(const char *name, const char *value)
{
    int status;

    setenv(name, value, 1);
    why[0] = '\0';
    status = nxr_env_parse(&env, why, sizeof(why));
    unsetenv(name);
    return status;
}

/* A refused value: INVALID_ARG, and a line that names variable, value and what is allowed. */
static void refused(const char *name, const char *value, const char *allowed)
{
    struct nxr_env before = env;

    cr_expect(eq(int, parse_with(name, value), NIXL_E_INVALID_ARG), "%s=%s", name, value);
    cr_expect(strstr(why, name) != NULL, "'%s' lacks %s", why, name);
    cr_expect(strstr(why, value) != NULL, "'%s' lacks the value %s", why, value);
    cr_expect(strstr(why, allowed) != NULL, "'%s' lacks '%s'", why, allowed);
    cr_expect(memcmp(&before, &env, sizeof(env)) == 0, "%s=%s has changed the struct", name, value);
}

TestSuite(env, .timeout = 120);

Test(env, defaults_are_those_of_the_table)
{
    cr_assert(eq(int, nxr_env_parse(&env, why, sizeof(why)), NIXL_OK));
    cr_expect_str_eq(env.log, "warn");
    cr_expect(eq(i64, env.op_timeout, 60000000000));
    cr_expect(eq(i64, env.resolve_timeout, 10000000000));
    cr_expect(eq(i64, env.orphan_grace, 5000000000));
    cr_expect(eq(i64, env.spin_time, 50000));
    cr_expect(eq(u64, env.note_queue, 64 << 20));
    cr_expect(eq(u64, env.bounce_bytes, 512 << 10));
    cr_expect(env.process_vm);
    cr_expect_str_eq(env.transports, "");
}

Test(env, an_empty_variable_counts_as_not_set)
{
    cr_assert(eq(int, parse_with("NIXLRUN_OP_TIMEOUT", ""), NIXL_OK));
    cr_expect(eq(i64, env.op_timeout, 60000000000));
}

Test(env, times_have_units)
{
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"0", 0},
        {"1", 1000000000},
        {"7ns", 7},
        {"10us", 10000},
        {"5ms", 5000000},
        {"2s", 2000000000},
        {"1m", 60000000000},
        {"1h", 3600000000000},
        {"3MS", 3000000},
        {"inf", INT64_MAX},
        {"INF", INT64_MAX},
        {"9223372036854775807ns", INT64_MAX},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t ns = -1;

        cr_expect(eq(int, nxr_env_parse_time(cases[i].text, &ns), 0), "%s", cases[i].text);
        cr_expect(eq(i64, ns, cases[i].ns), "%s", cases[i].text);
    }
}

Test(env, bad_times_are_refused)
{
    static const char *const cases[] = {
        "",           "s",
        "-1",         "+1",
        " 1",         "1 s",
        "1.5s",       "1sec",
        "0x10",       "nan",
        "infinite",   "9223372036854775808ns",
        "9223372037", "99999999999999999999",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t ns = 42;

        cr_expect(eq(int, nxr_env_parse_time(cases[i], &ns), -1), "'%s'", cases[i]);
        cr_expect(eq(i64, ns, 42), "'%s' has written", cases[i]);
    }
}

Test(env, sizes_have_units)
{
    static const struct {
        const char *text;
        uint64_t nbytes;
    } cases[] = {
        {"0", 0},
        {"512", 512},
        {"3b", 3},
        {"64K", 64 << 10},
        {"64kib", 64 << 10},
        {"16M", 16 << 20},
        {"1g", 1 << 30},
        {"2GiB", 2ull << 30},
        {"18446744073709551615", UINT64_MAX},
        {"17179869183g", 17179869183ull << 30},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t nbytes = 1;

        cr_expect(eq(int, nxr_env_parse_bytes(cases[i].text, &nbytes), 0), "%s", cases[i].text);
        cr_expect(eq(u64, nbytes, cases[i].nbytes), "%s", cases[i].text);
    }
}

Test(env, bad_sizes_are_refused)
{
    static const char *const cases[] = {
        "", "K", "-1", "1T", "1.5G", "0x10", "1 K", "18446744073709551616", "17179869184g",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t nbytes = 42;

        cr_expect(eq(int, nxr_env_parse_bytes(cases[i], &nbytes), -1), "'%s'", cases[i]);
        cr_expect(eq(u64, nbytes, 42), "'%s' has written", cases[i]);
    }
}

Test(env, flags_have_words)
{
    static const char *const on[] = {"1", "yes", "on", "true", "YES"};
    static const char *const off[] = {"0", "no", "off", "false", "Off"};

    for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
        cr_expect(eq(int, parse_with("NIXLRUN_PROCESS_VM", on[i]), NIXL_OK));
        cr_expect(env.process_vm, "%s", on[i]);
        cr_expect(eq(int, parse_with("NIXLRUN_PROCESS_VM", off[i]), NIXL_OK));
        cr_expect(not(env.process_vm), "%s", off[i]);
    }
    refused("NIXLRUN_STORAGE", "uring", "auto, io_uring, threads");
    refused("NIXLRUN_CUFILE", "1", "auto, never, always");
    refused("NIXLRUN_PROCESS_VM", "2", "0, 1, no or yes");
    refused("NIXLRUN_PROCESS_VM", "maybe", "0, 1, no or yes");
}

Test(env, limits_hold_and_are_named)
{
    cr_expect(eq(int, parse_with("NIXLRUN_BOUNCE_BYTES", "16K"), NIXL_OK));
    cr_expect(eq(u64, env.bounce_bytes, 16 << 10));
    cr_expect(eq(int, parse_with("NIXLRUN_BOUNCE_BYTES", "64M"), NIXL_OK));
    cr_expect(eq(u64, env.bounce_bytes, 64 << 20));
    refused("NIXLRUN_BOUNCE_BYTES", "16383", "from 16K to 64M");
    refused("NIXLRUN_BOUNCE_BYTES", "67108865", "from 16K to 64M");
    refused("NIXLRUN_BOUNCE_BYTES", "many", "a number of bytes");
    cr_expect(eq(int, parse_with("NIXLRUN_OP_TIMEOUT", "inf"), NIXL_OK));
    cr_expect(eq(i64, env.op_timeout, INT64_MAX));
    refused("NIXLRUN_OP_TIMEOUT", "999us", "from 1ms to inf");
    refused("NIXLRUN_OP_TIMEOUT", "soon", "a time such as 10us");
    refused("NIXLRUN_SPIN_TIME", "2s", "from 0s to 1s");
    refused("NIXLRUN_NOTE_QUEUE", "1", "from 64K to 64G");
}

Test(env, words_are_of_the_list)
{
    cr_expect(eq(int, parse_with("NIXLRUN_NET_METHOD", "rma"), NIXL_OK));
    cr_expect(eq(int, strcmp(env.net_method, "rma"), 0));
    cr_expect(eq(int, parse_with("NIXLRUN_NET_METHOD", ""), NIXL_OK));
    cr_expect(eq(int, strcmp(env.net_method, "auto"), 0));
    refused("NIXLRUN_NET_METHOD", "rm", "allowed: one of auto, rma");
    refused("NIXLRUN_NET_METHOD", "auto, rma", "one of auto, rma");
    refused("NIXLRUN_NET_METHOD", ",", "one of auto, rma");
}

Test(env, a_long_bad_value_is_cut)
{
    char value[4096];

    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    cr_expect(eq(int, parse_with("NIXLRUN_OP_TIMEOUT", value), NIXL_E_INVALID_ARG));
    cr_expect(lt(sz, strlen(why), sizeof(why) - 1));
    cr_expect(strstr(why, "from 1ms to inf") != NULL, "'%s'", why);
}

/* What --info opens: each name that the variable allows, as one value that it takes. */
Test(env, all_names_of_a_list_are_a_value_of_it)
{
    char list[256], small[8];

    cr_assert(eq(int, nxr_env_all_names("NIXLRUN_TRANSPORTS", list, sizeof(list)), 1));
    cr_expect(eq(int, strncmp(list, "self,shm,", 9), 0), "'%s'", list);
    cr_expect(strchr(list, ' ') == NULL, "'%s'", list);
    cr_expect(eq(int, parse_with("NIXLRUN_TRANSPORTS", list), NIXL_OK));
    cr_expect(eq(int, nxr_env_all_names("NIXLRUN_TRANSPORTS", small, sizeof(small)), 0));
    cr_expect_str_eq(small, "");
    cr_expect(eq(int, nxr_env_all_names("NIXLRUN_LOG_FILE", list, sizeof(list)), 0));
    cr_expect(eq(int, nxr_env_all_names("NIXLRUN_NONE", list, sizeof(list)), 0));
}

Test(env, texts_with_a_form_are_checked)
{
    cr_assert(eq(int, parse_with("NIXLRUN_TRANSPORTS", "^shm,ofi"), NIXL_OK));
    cr_expect_str_eq(env.transports, "^shm,ofi");
    cr_assert(eq(int, parse_with("NIXLRUN_LOG", "info,shm:debug"), NIXL_OK));
    cr_assert(eq(int, parse_with("NIXLRUN_COLL_TABLE", "cells_up_to=8192,flat_up_to=4"), NIXL_OK));
    refused("NIXLRUN_TRANSPORTS", "shn", "allowed: a list of ");
    refused("NIXLRUN_TRANSPORTS", " shm", "allowed: a list of ");
    refused("NIXLRUN_LOG", "loud", "SUBSYSTEM:LEVEL");
    refused("NIXLRUN_COLL_TABLE", "flat_up_to=1", "flat_up_to=2 to");
    cr_expect(eq(int, parse_with("NIXLRUN_TRANSPORTS", "^^shm"), NIXL_E_INVALID_ARG));
    cr_expect(strstr(why, "has '^shm'; ") != NULL, "'%s'", why);
}

/* It is a host's name in a card: two that differ behind the end would be one host. */
Test(env, a_text_may_have_a_limit)
{
    char name[73];

    memset(name, 'h', sizeof(name));
    name[72] = '\0';
    refused("NIXLRUN_HOSTID", name, "up to 71");
    name[71] = '\0';
    cr_expect(eq(int, parse_with("NIXLRUN_HOSTID", name), NIXL_OK));
    cr_expect_str_eq(env.hostid, name);
}

Test(env, a_value_is_checked_before_it_is_in_the_environment)
{
    cr_expect(eq(int, nxr_env_check("NIXLRUN_OP_TIMEOUT=5s", why, sizeof(why)), NIXL_OK));
    cr_expect(eq(int, nxr_env_check("NIXLRUN_OP_TIMEOUT=", why, sizeof(why)), NIXL_OK));
    cr_expect(eq(int, nxr_env_check("NIXLRUN_OP_TIMEOT=x", why, sizeof(why)), NIXL_OK));
    cr_expect(eq(int, nxr_env_check("HOME=x", why, sizeof(why)), NIXL_OK));
    cr_expect(eq(int, nxr_env_check("NIXLRUN_OP_TIMEOUT=x", why, sizeof(why)), NIXL_E_INVALID_ARG));
    cr_expect(strstr(why, "NIXLRUN_OP_TIMEOUT is 'x'; allowed: a time") != NULL, "'%s'", why);
    cr_expect(eq(int, nxr_env_check("NIXLRUN_TRANSPORTS=x", why, sizeof(why)), NIXL_E_INVALID_ARG));
    cr_expect(strstr(why, "NIXLRUN_TRANSPORTS has 'x'") != NULL, "'%s'", why);
    cr_expect(getenv("NIXLRUN_TRANSPORTS") == NULL);
}

/* ---- unknown variables, printing ------------------------------------------------------------- */

static char warned[512];

static void keep_line(enum nixl_log_level level, const char *subsystem, const char *text, void *arg)
{
    (void)arg;
    cr_expect(eq(int, level, NIXL_LOG_WARN));
    cr_expect_str_eq(subsystem, "env");
    snprintf(warned, sizeof(warned), "%s", text);
}

Test(env, an_unknown_name_gets_a_warning_with_the_nearest)
{
    char bogus[] = "NIXLRUN_BOGUS=2", known[] = "NIXLRUN_LOG=info", home[] = "HOME=/";
    char unknown[] = "NIXLRUN_LOGG=info";

    nixl_log_set_fn(keep_line, NULL);
    nxr_env_warn_unknown(NULL);
    cr_expect_str_eq(warned, "");
    setenv("NIXLRUN_OP_TIMEOT", "1s", 1);
    nxr_env_warn_unknown(NULL);
    cr_expect(strstr(warned, "NIXLRUN_OP_TIMEOT ") != NULL, "'%s'", warned);
    cr_expect(strstr(warned, "nearest is NIXLRUN_OP_TIMEOUT") != NULL, "'%s'", warned);
    unsetenv("NIXLRUN_OP_TIMEOT");
    setenv("NIXLRUN_BOGUS", "1", 1);
    nxr_env_warn_unknown(NULL);
    cr_expect(strstr(warned, "NIXLRUN_BOGUS ") != NULL && strstr(warned, "nearest") == NULL, "'%s'",
              warned);
    warned[0] = '\0';
    nxr_env_warn_unknown((char *const[]){bogus, known, home, NULL});
    cr_expect_str_eq(warned, "", "what the environment has is told once");
    nxr_env_warn_unknown((char *const[]){unknown, NULL});
    cr_expect(strstr(warned, "NIXLRUN_LOGG ") != NULL, "'%s'", warned);
    nixl_log_set_fn(NULL, NULL);
}

static void printed(const char *text, const char *line)
{
    cr_expect(strstr(text, line) != NULL, "'%s' is not in:\n%s", line, text);
}

Test(env, print_tells_value_default_and_origin)
{
    char *text = NULL;
    size_t nbytes;
    FILE *out = open_memstream(&text, &nbytes);

    setenv("NIXLRUN_SPIN_TIME", "7us", 1);
    setenv("NIXLRUN_BOUNCE_BYTES", "lots", 1);
    setenv("NIXLRUN_TOKEN", "of nobody's business", 1);
    nxr_env_print(out);
    fclose(out);
    printed(text, "NIXLRUN_SPIN_TIME          7us            50us       environment\n");
    printed(text, "NIXLRUN_BOUNCE_BYTES       lots           512K       environment (bad value)\n");
    printed(text, "NIXLRUN_OP_TIMEOUT         60s            60s        default\n");
    printed(text, "NIXLRUN_TOKEN              (set)          -          environment\n");
    cr_expect(strstr(text, "of nobody's business") == NULL, "a secret is shown");
    free(text);
}

/* Whatever a variable holds, checking a value for it changes nothing else. */
Test(env, a_value_of_any_kind_is_checked_aside)
{
    static const char *const good[] = {
        "NIXLRUN_LOG=info",          "NIXLRUN_SPIN_TIME=7us",   "NIXLRUN_PEER_TIMEOUT=inf",
        "NIXLRUN_TRANSPORTS=self",   "NIXLRUN_PROCESS_VM=0",    "NIXLRUN_BOUNCE_BYTES=64K",
        "NIXLRUN_HOSTID=any",        "NIXLRUN_NET_DEVICES=any", "NIXLRUN_NET_METHOD=rma",
        "NIXLRUN_OFI_PROVIDER=any",  "NIXLRUN_VULKAN_CPU=1",    "NIXLRUN_VULKAN_COPY=map",
        "NIXLRUN_MODULE_DIR=/any",   "NIXLRUN_TERMINAL=1",      "NIXLRUN_RANK_SOCKET=any",
        "NIXLRUN_SERVICE_PRIORITY=3"};
    struct nxr_env before = nxr_env;

    strcpy(why, "none");
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_expect(eq(int, nxr_env_check(good[i], why, sizeof(why)), NIXL_OK), "%s", good[i]);
    }
    cr_expect_str_eq(why, "none");
    cr_expect(zero(int, memcmp(&before, &nxr_env, sizeof(before))));
}

Test(env, the_distance_of_names_counts_edits)
{
    cr_expect(eq(u32, nxr_edit_distance("", ""), 0));
    cr_expect(eq(u32, nxr_edit_distance("", "abc"), 3));
    cr_expect(eq(u32, nxr_edit_distance("abc", ""), 3));
    cr_expect(eq(u32, nxr_edit_distance("abcd", "d"), 3));
    cr_expect(eq(u32, nxr_edit_distance("xyabc", "abc"), 2), "what is too much in front");
    cr_expect(eq(u32, nxr_edit_distance("kitten", "sitting"), 3));
}
