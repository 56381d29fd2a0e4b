/* SPDX-License-Identifier: Apache-2.0 */
/* What etcd answers and holds: what is read of it, and what is refused. */
#include "etcd/answer.h"
#include "etcd/value.h"
#include "nixlrun.h"
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER "\"header\":{\"revision\":\"7\"}"

TestSuite(etcd, .timeout = 120);

static struct nxr_etcd_answer answer;
static char why[NXR_ETCD_WHY_NBYTES];

static int read_answer(long http, const char *text)
{
    memset(&answer, 0x5a, sizeof(answer));
    why[0] = '\0';
    return nxr_etcd_answer_read(http, text, strlen(text), &answer, why);
}

static struct nxr_etcd_entry an_entry(void)
{
    struct nxr_etcd_entry entry = {.name = "server",
                                   .job = "0123456789abcdef",
                                   .rank = 3,
                                   .incarnation = UINT32_MAX,
                                   .id = "00112233445566778899aabbccddeeff",
                                   .pid = 77,
                                   .host = "a.host",
                                   .n_contacts = 2,
                                   .contacts = {"tcp://10.0.0.1:7300", "tcp://[::1]:7300"}};

    memset(entry.proof, 'f', sizeof(entry.proof) - 1);
    return entry;
}

/* ---- entries --------------------------------------------------------------------------------- */

Test(etcd, an_entry_is_read_as_it_was_written)
{
    struct nxr_etcd_entry entry = an_entry(), again;
    char *text = nxr_etcd_value_write(&entry);

    cr_assert(text != NULL);
    cr_expect(nxr_etcd_value_read(text, strlen(text), &again) == NULL);
    cr_expect(memcmp(&entry, &again, sizeof(entry)) == 0);
    free(text);
}

/* Replace a part of a good entry. */
static const char *fault_of(const char *part, const char *other)
{
    struct nxr_etcd_entry entry = an_entry(), untouched;
    char *text = nxr_etcd_value_write(&entry), changed[NXR_ETCD_VALUE_MAX], *at;
    const char *fault;

    cr_assert(text != NULL);
    at = strstr(text, part);
    cr_assert(at != NULL, "%s has no %s", text, part);
    snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text, other,
             at + strlen(part));
    memset(&untouched, 1, sizeof(untouched));
    fault = nxr_etcd_value_read(changed, strlen(changed), &untouched);
    cr_expect(fault == NULL || untouched.rank == 0x01010101);
    free(text);
    return fault;
}

Test(etcd, what_no_publisher_writes_is_refused)
{
    static const char *const changes[][2] = {
        {"\"server\"", "\"\""},
        {"\"server\"", "7"},
        {"\"server\"", "\"a b\""},
        {"\"server\"", "\"a\\u0000b\""},
        {"0123456789abcdef", "0123"},
        {"0123456789abcdef", "0123456789ABCDEF"},
        {"\"rank\":3", "\"rank\":-1"},
        {"\"rank\":3", "\"rank\":2147483648"},
        {"\"rank\":3", "\"rank\":\"3\""},
        {"4294967295", "4294967296"},
        {"\"pid\":77", "\"pid\":0"},
        {"a.host", "a\\nhost"},
        {"\"tcp://10.0.0.1:7300\",", "1,"},
        {"\"tcp://10.0.0.1:7300\",\"tcp://[::1]:7300\"", ""},
        {"ffff", "ffxf"},
        {"\"id\"", "\"di\""},
        {"\"pid\":77", "\"pid\":77,\"pid\":78"},
    };

    cr_expect(fault_of("\"pid\":77", "\"more\":{},\"pid\":77") == NULL);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        cr_expect(fault_of(changes[i][0], changes[i][1]) != NULL, "%s", changes[i][1]);
    }
    cr_expect(strstr(fault_of("\"nixlrun\":1", "\"nixlrun\":2"), "another version") != NULL);
    cr_expect(strstr(fault_of("\"nixlrun\":1", "\"x\":1"), "no entry of nixlrun") != NULL);
}

Test(etcd, a_value_has_a_largest_size)
{
    static char text[NXR_ETCD_VALUE_MAX + 1];
    struct nxr_etcd_entry entry;

    memset(text, ' ', sizeof(text));
    cr_expect(strstr(nxr_etcd_value_read(text, sizeof(text), &entry), "larger") != NULL);
    cr_expect(strstr(nxr_etcd_value_read(text, sizeof(text) - 1, &entry), "no entry") != NULL);
    cr_expect(strstr(nxr_etcd_value_read("", 0, &entry), "no entry") != NULL);
}

/* ---- answers --------------------------------------------------------------------------------- */

Test(etcd, numbers_are_texts_or_left_out)
{
    cr_expect(eq(int, read_answer(200, "{" HEADER ",\"ID\":\"7587\",\"TTL\":\"10\"}"), NIXL_OK));
    cr_expect(eq(i64, answer.revision, 7));
    cr_expect(eq(i64, answer.lease, 7587));
    cr_expect(eq(i64, answer.ttl, 10));
    cr_expect(not(answer.found.is_there));
    cr_expect(eq(int, read_answer(200, "{" HEADER ",\"ID\":7587}"), NIXL_OK));
    cr_expect(eq(i64, answer.lease, 7587));
    cr_expect(eq(i64, answer.ttl, 0));
    cr_expect(
        eq(int, read_answer(200, "{\"result\":{" HEADER ",\"ID\":\"5\",\"TTL\":\"9\"}}"), NIXL_OK));
    cr_expect(eq(i64, answer.ttl, 9));
}

Test(etcd, a_watch_tells_events_and_its_end)
{
    cr_expect(eq(int, read_answer(200, "{\"result\":{" HEADER ",\"created\":true}}"), NIXL_OK));
    cr_expect(not(answer.has_events));
    cr_expect(not(answer.is_canceled));
    cr_expect(eq(int, read_answer(200, "{\"result\":{" HEADER ",\"events\":[{}]}}"), NIXL_OK));
    cr_expect(answer.has_events);
    cr_expect(eq(
        int,
        read_answer(200, "{\"result\":{" HEADER ",\"canceled\":true,\"compact_revision\":\"2\"}}"),
        NIXL_OK));
    cr_expect(answer.is_canceled);
    cr_expect(eq(i64, answer.compact_revision, 2));
}

Test(etcd, a_key_has_its_value_or_says_why_not)
{
    struct nxr_etcd_entry entry = an_entry();
    char *value = nxr_etcd_value_write(&entry), text[4096];
    char *value64 = nxr_etcd_base64(value, strlen(value));

    snprintf(text, sizeof(text),
             "{" HEADER ",\"kvs\":[{\"mod_revision\":\"5\",\"lease\":\"6\",\"value\":\"%s\"}]}",
             value64);
    cr_expect(eq(int, read_answer(200, text), NIXL_OK));
    cr_expect(answer.found.is_there && answer.found.is_entry);
    cr_expect(eq(i64, answer.found.mod_revision, 5));
    cr_expect(eq(i64, answer.found.lease, 6));
    cr_expect(eq(str, answer.found.entry.name, (char *)"server"));
    snprintf(text, sizeof(text),
             "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"value\":\"%s\"}]}}]}",
             "eA==");
    cr_expect(eq(int, read_answer(200, text), NIXL_OK));
    cr_expect(answer.found.is_there && !answer.found.is_entry && answer.found.fault[0] != '\0');
    cr_expect(eq(int, read_answer(200, "{" HEADER ",\"kvs\":[{}]}"), NIXL_OK));
    cr_expect(answer.found.is_there && !answer.found.is_entry);
    free(value);
    free(value64);
}

Test(etcd, failures_are_told_in_words)
{
    static const struct {
        long http;
        const char *text;
        int status;
        const char *words;
    } cases[] = {
        {400,
         "{\"error\":\"x\",\"message\":\"etcdserver: authentication failed, invalid user ID\"}",
         NIXL_E_ACCESS, "the password is wrong"},
        {403, "{\"message\":\"etcdserver: permission denied\",\"code\":7}", NIXL_E_ACCESS,
         "no right to this prefix"},
        {401, "{\"message\":\"etcdserver: invalid auth token\",\"code\":16}", NIXL_E_EXPIRED, ""},
        {404, "{\"message\":\"etcdserver: requested lease not found\",\"code\":5}",
         NIXL_E_NOT_FOUND, "lease not found"},
        {503, "{\"error\":{\"message\":\"etcdserver: no leader\",\"grpc_code\":14}}", NIXL_E_AGAIN,
         "no leader"},
        {503, "{\"message\":\"x\",\"code\":14}", NIXL_E_AGAIN, "'x'"},
        {400, "{\"message\":\"etcdserver: request is too large\",\"code\":3}", NIXL_E_TRANSPORT,
         "too large"},
        {404, "Not Found\n", NIXL_E_UNSUPPORTED, "no etcd, or one before 3.4"},
        {503, "<html>", NIXL_E_AGAIN, "503"},
        {502, "<html>", NIXL_E_AGAIN, "502"},
        {502, "{\"message\":\"x\",\"code\":2}", NIXL_E_AGAIN, "'x'"},
        {400, "Client sent an HTTP request to an HTTPS server.\n", NIXL_E_ACCESS, "etcds://"},
        {200, "<html>\x1b[2J</html>", NIXL_E_TRANSPORT, "is no JSON: '<html> [2J</html>'"},
        {200, "", NIXL_E_TRANSPORT, "is no JSON"},
        {200, "7", NIXL_E_TRANSPORT, "is no JSON"},
        {200, "{}", NIXL_E_TRANSPORT, "not that of an etcd"},
        {302, "{" HEADER "}", NIXL_E_TRANSPORT, "not that of an etcd"},
        {200, "{" HEADER ",\"ID\":\"9223372036854775808\"}", NIXL_E_TRANSPORT, "not that of"},
        {200, "{" HEADER ",\"ID\":\"1x\"}", NIXL_E_TRANSPORT, "not that of"},
        {200, "{" HEADER ",\"kvs\":{}}", NIXL_E_TRANSPORT, "not that of"},
        {200, "{" HEADER ",\"kvs\":[7]}", NIXL_E_TRANSPORT, "not that of"},
        {200, "{" HEADER ",\"kvs\":[{\"value\":\"?\"}]}", NIXL_E_TRANSPORT, "not that of"},
        {200, "{" HEADER ",\"kvs\":[{\"value\":7}]}", NIXL_E_TRANSPORT, "not that of"},
        {200, "{" HEADER ",\"token\":7}", NIXL_E_TRANSPORT, "not that of"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_expect(eq(int, read_answer(cases[i].http, cases[i].text), cases[i].status), "%s",
                  cases[i].text);
        cr_expect(strstr(why, cases[i].words) != NULL, "%s: %s", cases[i].text, why);
        cr_expect(answer.revision == 0x5a5a5a5a5a5a5a5a || strstr(why, "not that of") != NULL);
    }
}

static int n_listed;

static void count_name(void *arg, const char *rest, const struct nxr_etcd_found *found)
{
    cr_expect(arg == &n_listed && found->is_there && strcmp(rest, "name") == 0);
    n_listed++;
}

Test(etcd, a_list_has_the_keys_that_begin_so)
{
    static const char text[] = "{" HEADER ",\"kvs\":[{\"key\":\"L2EvbmFtZQ==\"},"
                               "{\"key\":\"L2IvbmFtZQ==\",\"value\":\"e30=\"}]}";
    static const char bad[] = "{" HEADER ",\"kvs\":[{\"key\":\"L2EvbmFtZQ==\"},{}]}";

    cr_expect(eq(int,
                 nxr_etcd_answer_list(200, text, strlen(text), "/b/", count_name, &n_listed, why),
                 NIXL_OK));
    cr_expect(eq(int, n_listed, 1));
    cr_expect(eq(int,
                 nxr_etcd_answer_list(200, bad, strlen(bad), "/b/", count_name, &n_listed, why),
                 NIXL_E_TRANSPORT));
}
