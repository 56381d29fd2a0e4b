/* SPDX-License-Identifier: Apache-2.0 */
/* Entries, introductions and proofs: what is taken, and what is refused. */
#include "attach/contacts.h"
#include "attach/directory.h"
#include "attach/entry.h"
#include "attach/entry_etcd.h"
#include "attach/introduction.h"
#include "attach/token.h"
#include "attach/where.h"
#include "test/unit/unit.h"
#include "util/env.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const unsigned char secret[NXR_PROOF_SECRET_NBYTES] = {1, 2, 3};
static const unsigned char other_secret[NXR_PROOF_SECRET_NBYTES] = {1, 2, 4};
static const struct nxr_card card = {.identity = {77, 2, 1}, .host = "here"};
static struct nxr_entry entry;
static const char *why;

static void make_entry(void)
{
    static const unsigned char socket[NXR_NONCE_NBYTES] = {9};

    nxr_entry_make(&card, "name", "schema", socket, &entry);
    nxr_entry_prove(&entry, secret);
}

static int parse(const void *bytes, size_t nbytes)
{
    struct nxr_entry parsed;

    return nxr_entry_parse(bytes, nbytes, "name", &parsed, &why);
}

Test(attach, names_are_those_of_files)
{
    static const char *const good[] = {"a", "A-b_c.d", "0"};
    static const char *const bad[] = {"", ".", ".a", "a/b", "a b", "a\n", "\xc3\xa4"};
    char longest[NIXL_PUBLISH_NAME_MAX + 2];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_expect(nxr_entry_is_name(good[i]));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect(not(nxr_entry_is_name(bad[i])), "'%s'", bad[i]);
    }
    cr_expect(not(nxr_entry_is_name(NULL)));
    memset(longest, 'x', sizeof(longest));
    longest[NIXL_PUBLISH_NAME_MAX] = '\0';
    cr_expect(nxr_entry_is_name(longest));
    longest[NIXL_PUBLISH_NAME_MAX] = 'x';
    longest[NIXL_PUBLISH_NAME_MAX + 1] = '\0';
    cr_expect(not(nxr_entry_is_name(longest)));
}

Test(attach, an_entry_says_what_was_published, .init = make_entry)
{
    struct nxr_entry parsed;

    cr_assert(eq(int, nxr_entry_parse(&entry, sizeof(entry), "name", &parsed, &why), NIXL_OK));
    cr_expect(nxr_identity_is(&parsed.publisher, &card.identity));
    cr_expect(eq(u32, parsed.schema_nbytes, 6));
    cr_expect(eq(int, memcmp(parsed.schema, "schema", 6), 0));
    cr_expect(eq(str, parsed.host, (char *)"here"));
    cr_expect(nxr_entry_is_proved(&parsed, secret));
    cr_expect(not(nxr_entry_is_proved(&parsed, other_secret)));
}

Test(attach, an_entry_of_any_other_size_is_refused, .init = make_entry)
{
    char bytes[sizeof(entry) + 1] = {0};

    memcpy(bytes, &entry, sizeof(entry));
    for (size_t nbytes = 0; nbytes <= sizeof(bytes); nbytes++) {
        cr_expect(
            eq(int, parse(bytes, nbytes), nbytes == sizeof(entry) ? NIXL_OK : NIXL_E_TRANSPORT));
    }
}

Test(attach, every_byte_of_an_entry_is_proved, .init = make_entry)
{
    for (size_t i = 0; i < sizeof(entry); i++) {
        ((unsigned char *)&entry)[i] ^= 1;
        cr_expect(not(nxr_entry_is_proved(&entry, secret)), "byte %zu", i);
        ((unsigned char *)&entry)[i] ^= 1;
    }
    cr_expect(nxr_entry_is_proved(&entry, secret));
}

Test(attach, what_no_publisher_writes_is_refused, .init = make_entry)
{
    struct nxr_entry good = entry;

    entry.version++;
    cr_expect(eq(int, parse(&entry, sizeof(entry)), NIXL_E_UNSUPPORTED));
    entry = good;
    entry.magic++;
    cr_expect(eq(int, parse(&entry, sizeof(entry)), NIXL_E_TRANSPORT));
    entry = good;
    entry.schema_nbytes = NIXL_SCHEMA_MAX + 1;
    cr_expect(eq(int, parse(&entry, sizeof(entry)), NIXL_E_TRANSPORT));
    entry = good;
    entry.schema_nbytes++; /* a zero in the schema */
    cr_expect(eq(int, parse(&entry, sizeof(entry)), NIXL_E_TRANSPORT));
    entry = good;
    entry.schema_nbytes--; /* bytes behind it */
    cr_expect(eq(int, parse(&entry, sizeof(entry)), NIXL_E_TRANSPORT));
    entry = good;
    memset(entry.host, 'x', sizeof(entry.host));
    cr_expect(eq(int, parse(&entry, sizeof(entry)), NIXL_E_TRANSPORT));
    entry = good;
    memset(entry.name, 'x', sizeof(entry.name));
    cr_expect(eq(int, parse(&entry, sizeof(entry)), NIXL_E_TRANSPORT));
    entry = good;
    entry.publisher.rank = -1;
    cr_expect(eq(int, parse(&entry, sizeof(entry)), NIXL_E_TRANSPORT));
    entry = good;
    cr_expect(
        eq(int, nxr_entry_parse(&entry, sizeof(entry), "nam", &good, &why), NIXL_E_TRANSPORT));
}

Test(attach, a_proof_is_of_one_side_and_one_talk)
{
    struct nxr_proof_talk talk = {{1, 0, 0}, {2, 0, 0}, "name", {3}, {4}};
    unsigned char right[NXR_PROOF_NBYTES], proof[NXR_PROOF_NBYTES], contents[3] = {5, 6, 7};

    nxr_proof_of_talk(secret, NXR_PROOF_PUBLISHER, &talk, contents, sizeof(contents), right);
    nxr_proof_of_talk(secret, NXR_PROOF_PUBLISHER, &talk, contents, sizeof(contents), proof);
    cr_expect(nxr_proof_fits(right, proof));
    nxr_proof_of_talk(secret, NXR_PROOF_ATTACHER, &talk, contents, sizeof(contents), proof);
    cr_expect(not(nxr_proof_fits(right, proof)), "that of the other side");
    nxr_proof_of_talk(other_secret, NXR_PROOF_PUBLISHER, &talk, contents, sizeof(contents), proof);
    cr_expect(not(nxr_proof_fits(right, proof)), "with another secret");
    for (size_t i = 0; i < sizeof(talk); i++) {
        ((unsigned char *)&talk)[i] ^= 1;
        nxr_proof_of_talk(secret, NXR_PROOF_PUBLISHER, &talk, contents, sizeof(contents), proof);
        cr_expect(not(nxr_proof_fits(right, proof)), "byte %zu", i);
        ((unsigned char *)&talk)[i] ^= 1;
    }
}

Test(attach, every_byte_behind_a_proof_is_proved)
{
    const struct nxr_proof_talk talk = {{1, 0, 0}, {2, 0, 0}, "name", {3}, {4}};
    unsigned char right[NXR_PROOF_NBYTES], proof[NXR_PROOF_NBYTES];
    union nxr_intro_message prove;
    unsigned char *bytes = (unsigned char *)&prove;

    for (int type = NXR_INTRO_PROVE; type <= NXR_INTRO_TAKEN; type++) {
        nxr_intro_init(&prove, (enum nxr_intro_type)type, &card);
        nxr_intro_make_proof(&prove, secret, &talk, right);
        for (size_t i = sizeof(prove.head) + NXR_PROOF_NBYTES; i < prove.head.nbytes; i++) {
            bytes[i] ^= 1;
            nxr_intro_make_proof(&prove, secret, &talk, proof);
            cr_expect(not(nxr_proof_fits(right, proof)), "type %d byte %zu", type, i);
            bytes[i] ^= 1;
        }
    }
}

/* ---- where and by which token ---------------------------------------------------------------- */

Test(attach, where_is_a_folder_or_a_port)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
    } good[] = {{"tcp://localhost:1", "localhost", 1},
                {"tcp://10.0.0.1:65535", "10.0.0.1", 65535},
                {"tcp://[::1]:0", "::1", 0}};
    static const char *const bad[] = {"",
                                      "tcp",
                                      "tcp://",
                                      "tcp://:1",
                                      "tcp://a",
                                      "tcp://a:",
                                      "tcp://a:65536",
                                      "tcp://a:-1",
                                      "tcp://a:1 ",
                                      "tcp://::1:1",
                                      "tcp://[]:1",
                                      "tcp://[::1:1",
                                      "tcp://[::1]1",
                                      "file:",
                                      "file",
                                      "http://a:1",
                                      "tcp://a:100000",
                                      "tcp://[::1]:1x"};
    struct nxr_where where;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_expect(nxr_where_parse(good[i].text, &where), "'%s'", good[i].text);
        cr_expect(eq(str, where.host, (char *)good[i].host));
        cr_expect(eq(u16, where.port, good[i].port));
        cr_expect(where.dir == NULL);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect(not(nxr_where_parse(bad[i], &where)), "'%s'", bad[i]);
    }
    cr_expect(not(nxr_where_parse(NULL, &where)));
    cr_expect(nxr_where_parse("file:/a b", &where));
    cr_expect(eq(str, (char *)where.dir, (char *)"/a b"));
}

Test(attach, where_is_in_etcd)
{
    static const struct {
        const char *text;
        bool is_tls;
        const char *user, *endpoints, *prefix;
    } good[] = {{"etcd://h:1", false, "", "h:1", "nixlrun"},
                {"etcds://h:1/", true, "", "h:1", "nixlrun"},
                {"etcd://u@h:1,[::1]:2/a", false, "u", "h:1,[::1]:2", "a"},
                {"etcd://10.0.0.1:65535/a/b.c/", false, "", "10.0.0.1:65535", "a/b.c"}};
    static const char *const bad[] = {
        "etcd:",          "etcd://",        "etcd://h",       "etcd://h:0",     "etcd://h:65536",
        "etcd://@h:1",    "etcd://u:p@h:1", "etcd://h:1,",    "etcd://,h:1",    "etcd://h:1;g:2",
        "etcd://h:1//",   "etcd://h:1/a//", "etcd://h:1//a",  "etcd://h:1/a b", "etcd://h:1/a//b",
        "etcd://h:1/a?b", "etcdss://h:1",   "etcd://u@v@h:1", "etcd://h h:1"};
    struct nxr_where where;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_expect(nxr_where_parse(good[i].text, &where), "'%s'", good[i].text);
        cr_expect(eq(int, where.kind, NXR_WHERE_ETCD));
        cr_expect(eq(int, where.is_tls, good[i].is_tls));
        cr_expect(eq(str, where.user, (char *)good[i].user));
        cr_expect(eq(str, where.endpoints, (char *)good[i].endpoints));
        cr_expect(eq(str, where.prefix, (char *)good[i].prefix));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect(not(nxr_where_parse(bad[i], &where)), "'%s'", bad[i]);
    }
}

Test(attach, a_password_is_not_shown)
{
    cr_expect(eq(str, nxr_where_show("etcd://u:p@h:1/a").text, (char *)"etcd://...@h:1/a"));
    cr_expect(eq(str, nxr_where_show("etcd://u:p@q@h:1/a").text, (char *)"etcd://...@h:1/a"));
    cr_expect(eq(str, nxr_where_show("etcd://u@h:1").text, (char *)"etcd://u@h:1"));
    cr_expect(eq(str, nxr_where_show(NULL).text, (char *)""));
}

Test(attach, the_proof_of_an_entry_in_etcd_covers_it_and_its_key)
{
    struct nxr_etcd_entry made, changed;

    cr_assert(nxr_entry_etcd_make(&card, "name", &made));
    nxr_env.announce = "";
    made.n_contacts = nxr_contacts_find("::1", 80, made.contacts);
    cr_expect(eq(uint, made.n_contacts, 1));
    cr_expect(eq(str, made.contacts[0], (char *)"tcp://[::1]:80"));
    nxr_entry_etcd_prove(&made, "/p/name", secret);
    cr_expect(nxr_entry_etcd_is_proved(&made, "/p/name", secret));
    cr_expect(not(nxr_entry_etcd_is_proved(&made, "/q/name", secret)));
    cr_expect(not(nxr_entry_etcd_is_proved(&made, "/p/name", other_secret)));
    changed = made;
    changed.pid++;
    cr_expect(not(nxr_entry_etcd_is_proved(&changed, "/p/name", secret)));
    changed = made;
    changed.contacts[0][10]++;
    cr_expect(not(nxr_entry_etcd_is_proved(&changed, "/p/name", secret)));
    changed = made;
    changed.n_contacts++;
    cr_expect(not(nxr_entry_etcd_is_proved(&changed, "/p/name", secret)));
    cr_expect(nxr_entry_etcd_identity(&made).job == card.identity.job);
    made.n_contacts = nxr_contacts_find("0.0.0.0", 80, made.contacts);
    cr_expect(gt(uint, made.n_contacts, 0));
    cr_expect(strstr(made.contacts[0], "0.0.0.0") == NULL);
}

Test(attach, what_is_announced_is_the_first_contact)
{
    char contacts[NXR_MAX_CONTACTS][NXR_CONTACT_NBYTES], text[200] = "";

    nxr_env.announce = "203.0.113.5,80:8080";
    cr_expect(eq(int, nxr_contacts_check(text, sizeof(text)), NIXL_OK));
    cr_expect(eq(uint, nxr_contacts_find("10.0.0.1", 80, contacts), 2));
    cr_expect(eq(str, contacts[0], (char *)"tcp://203.0.113.5:8080"));
    cr_expect(eq(str, contacts[1], (char *)"tcp://10.0.0.1:80"));
    nxr_env.announce = "2001:db8::5";
    cr_expect(eq(uint, nxr_contacts_find("10.0.0.1", 81, contacts), 2));
    cr_expect(eq(str, contacts[0], (char *)"tcp://[2001:db8::5]:81"));
    nxr_env.announce = "host";
    cr_expect(eq(int, nxr_contacts_check(text, sizeof(text)), NIXL_E_INVALID_ARG));
    cr_expect(strstr(text, "NIXLRUN_ANNOUNCE is 'host'; allowed: an IP address") != NULL);
}

Test(attach, a_host_may_be_as_long_as_its_room)
{
    char text[NXR_WHERE_HOST_NBYTES + 32];
    struct nxr_where where;

    memset(text, 'x', sizeof(text));
    memcpy(text, "tcp://", 6);
    strcpy(text + 6 + NXR_WHERE_HOST_NBYTES - 1, ":1");
    cr_expect(nxr_where_parse(text, &where));
    memset(text + 6, 'x', NXR_WHERE_HOST_NBYTES);
    strcpy(text + 6 + NXR_WHERE_HOST_NBYTES, ":1");
    cr_expect(not(nxr_where_parse(text, &where)));
}

Test(attach, what_is_written_can_be_read)
{
    struct nxr_where where;
    char text[64];

    cr_expect(gt(int, nxr_where_write("::1", 80, text, sizeof(text)), 0));
    cr_expect(eq(str, text, (char *)"tcp://[::1]:80"));
    cr_expect(nxr_where_parse(text, &where));
    cr_expect(eq(str, where.host, (char *)"::1"));
}

static char token_path[] = "/tmp/nixlrun-token-XXXXXX";
static char token_why[NXR_ATTACH_TOKEN_WHY_NBYTES];
static unsigned char token_secret[NXR_PROOF_SECRET_NBYTES];

/* The status of reading a token of that variable and of a file with these contents. */
static int read_token(const char *variable, const char *contents, mode_t mode)
{
    int fd = open(token_path, O_WRONLY | O_TRUNC);

    cr_assert(ge(int, fd, 0));
    cr_assert(eq(int, (int)write(fd, contents, strlen(contents)), (int)strlen(contents)));
    cr_assert(zero(int, fchmod(fd, mode)));
    close(fd);
    nxr_env.token = variable;
    nxr_env.token_file = contents[0] != '\0' ? token_path : "";
    return nxr_attach_token_read(token_secret, token_why);
}

static void make_token_file(void)
{
    close(mkstemp(token_path));
}

static void remove_token_file(void)
{
    unlink(token_path);
}

Test(attach, a_token_is_of_a_variable_or_a_file, .init = make_token_file, .fini = remove_token_file)
{
    unsigned char first[NXR_PROOF_SECRET_NBYTES];

    cr_expect(eq(int, read_token("0123456789abcdef", "", 0600), NIXL_OK));
    memcpy(first, token_secret, sizeof(first));
    cr_expect(eq(int, read_token("", "0123456789abcdef\n", 0600), NIXL_OK));
    cr_expect(eq(int, memcmp(first, token_secret, sizeof(first)), 0));
    cr_expect(eq(int, read_token("", "0123456789abcdeF\n", 0640), NIXL_OK));
    cr_expect(ne(int, memcmp(first, token_secret, sizeof(first)), 0));
    cr_expect(eq(int, read_token("", "", 0600), NIXL_E_ACCESS));
    cr_expect(
        eq(int, read_token("0123456789abcdef", "0123456789abcdef", 0600), NIXL_E_INVALID_ARG));
}

Test(attach, a_token_has_a_length_and_a_mode, .init = make_token_file, .fini = remove_token_file)
{
    static const mode_t bad[] = {0644, 0604, 0620, 0666};
    char text[NXR_ATTACH_TOKEN_MAX_NBYTES + 2];

    memset(text, 'x', sizeof(text));
    text[NXR_ATTACH_TOKEN_MAX_NBYTES] = '\0';
    cr_expect(eq(int, read_token("", text, 0600), NIXL_OK));
    cr_expect(eq(int, read_token(text, "", 0600), NIXL_OK));
    text[NXR_ATTACH_TOKEN_MAX_NBYTES] = 'x';
    text[NXR_ATTACH_TOKEN_MAX_NBYTES + 1] = '\0';
    cr_expect(eq(int, read_token("", text, 0600), NIXL_E_INVALID_ARG));
    cr_expect(eq(int, read_token(text, "", 0600), NIXL_E_INVALID_ARG));
    cr_expect(eq(int, read_token("", "0123456789abcde\n", 0600), NIXL_E_INVALID_ARG));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect(eq(int, read_token("", "0123456789abcdef", bad[i]), NIXL_E_ACCESS));
    }
    unlink(token_path);
    cr_expect(eq(int, nxr_attach_token_read(token_secret, token_why), NIXL_E_NOT_FOUND));
}

/* ---- introductions --------------------------------------------------------------------------- */

static const enum nxr_intro_type types[] = {NXR_INTRO_ASK, NXR_INTRO_CHALLENGE, NXR_INTRO_PROVE,
                                            NXR_INTRO_TAKEN, NXR_INTRO_REFUSED};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static union nxr_intro_message message;

static void make_message(enum nxr_intro_type type)
{
    nxr_intro_init(&message, type, &card);
    if (type == NXR_INTRO_ASK) {
        memcpy(message.ask.name, "name", 5);
    }
    if (type == NXR_INTRO_PROVE) {
        message.prove.job_size = 1;
    }
    if (type == NXR_INTRO_TAKEN) {
        message.taken.job_size = 1;
    }
    if (type == NXR_INTRO_REFUSED) {
        message.refused.refusal = NXR_INTRO_SCHEMA;
    }
}

static int parse_message(size_t nbytes)
{
    union nxr_intro_message parsed;

    return nxr_intro_parse(&message, nbytes, &parsed, &why);
}

Test(attach, an_introduction_has_the_length_of_its_type)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        make_message(types[i]);
        for (size_t nbytes = 0; nbytes <= sizeof(message); nbytes++) {
            bool fits = nbytes == message.head.nbytes;

            cr_expect(eq(int, parse_message(nbytes), fits ? NIXL_OK : NIXL_E_TRANSPORT));
            cr_expect(eq(int, why == NULL, fits));
        }
    }
}

Test(attach, the_head_of_an_introduction_is_checked)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        make_message(types[i]);
        message.head.magic++;
        cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
        make_message(types[i]);
        message.head.version++;
        cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_UNSUPPORTED));
        make_message(types[i]);
        message.head.type = NXR_INTRO_N_TYPES;
        cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
        make_message(types[i]);
        message.head.from.rank = -1;
        cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
    }
}

Test(attach, the_fields_of_an_introduction_are_checked)
{
    make_message(NXR_INTRO_ASK);
    memset(message.ask.name, 'x', sizeof(message.ask.name));
    cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
    make_message(NXR_INTRO_ASK);
    message.ask.name[1] = '/';
    cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
    make_message(NXR_INTRO_PROVE);
    message.prove.schema_nbytes = NIXL_SCHEMA_MAX + 1;
    cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
    make_message(NXR_INTRO_PROVE);
    message.prove.job_size = 0;
    cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
    make_message(NXR_INTRO_TAKEN);
    message.taken.job_size = -1;
    cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
    make_message(NXR_INTRO_REFUSED);
    message.refused.schema_nbytes = NIXL_SCHEMA_MAX + 1;
    cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
    make_message(NXR_INTRO_REFUSED);
    message.refused.refusal = 0;
    cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
    message.refused.refusal = NXR_INTRO_N_REFUSALS;
    cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
}

/* A stream brings a message in any pieces, and the next one behind it. */
Test(attach, a_stream_is_read_message_by_message)
{
    struct nxr_intro_link link = {.is_stream = true};
    union nxr_intro_message got;
    int ends[2];

    cr_assert(zero(int, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends)));
    link.fd = ends[0];
    make_message(NXR_INTRO_ASK);
    for (size_t i = 0; i < message.head.nbytes; i++) {
        cr_expect(eq(int, nxr_intro_receive(&link, &got, &why), NIXL_E_AGAIN));
        cr_assert(eq(int, (int)write(ends[1], (char *)&message + i, 1), 1));
    }
    cr_assert(
        eq(int, (int)write(ends[1], &message, message.head.nbytes), (int)message.head.nbytes));
    for (int i = 0; i < 2; i++) {
        cr_expect(eq(int, nxr_intro_receive(&link, &got, &why), NIXL_OK));
        cr_expect(eq(str, got.ask.name, (char *)"name"));
    }
    message.head.nbytes--;
    cr_assert(
        eq(int, (int)write(ends[1], &message, sizeof(message.head)), (int)sizeof(message.head)));
    cr_expect(eq(int, nxr_intro_receive(&link, &got, &why), NIXL_E_TRANSPORT));
    close(ends[1]);
    link.n_held = 0;
    cr_expect(eq(int, nxr_intro_receive(&link, &got, &why), NIXL_E_PEER_LOST));
    close(ends[0]);
}

/* ---- claims ---------------------------------------------------------------------------------- */

/* Whether another process could claim the name now. */
static bool is_free_for_others(const char *secret_path)
{
    pid_t child = fork();
    int how = 0;

    cr_assert(ge(int, child, 0));
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(secret_path, O_RDWR | O_CLOEXEC);

        _exit(fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0);
    }
    cr_assert(eq(int, waitpid(child, &how, 0), child));
    return WIFEXITED(how) && WEXITSTATUS(how) == 1;
}

/* Another thread looks for the name at that moment: closing the file would end the claim. */
Test(attach, the_secret_of_an_own_claim_is_not_opened)
{
    char dir[] = "/tmp/nixlrun-claim-XXXXXX", path[sizeof(dir) + 16];
    char said[NXR_DIRECTORY_WHY_NBYTES];
    unsigned char made[NXR_PROOF_SECRET_NBYTES], read[NXR_PROOF_SECRET_NBYTES];
    struct nxr_folder folder;
    int fd = -1;

    cr_assert(not(zero(ptr, mkdtemp(dir))));
    snprintf(path, sizeof(path), "%s/name.secret", dir);
    cr_assert(eq(int, nxr_folder_open(dir, &folder, said), NIXL_OK));
    cr_assert(eq(int, nxr_directory_claim(&folder, "name", made, &fd, said), NIXL_OK));
    cr_expect(not(is_free_for_others(path)));
    cr_expect(eq(int, nxr_directory_read_secret(dir, "name", read, said), NIXL_E_NOT_FOUND));
    cr_expect(not(is_free_for_others(path)));
    nxr_directory_release(&folder, "name", fd);
    nxr_folder_close(&folder);
    cr_expect(eq(int, rmdir(dir), 0));
}
