/* SPDX-License-Identifier: Apache-2.0 */
/* Entries, introductions and proofs: what is taken, and what is refused. */
#include "attach/entry.h"
#include "attach/introduction.h"
#include "test/unit/unit.h"

#include <string.h>

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
    struct nxr_proof_talk talk = {{1, 0, 0}, {2, 0, 0}, {3}, {4}};
    unsigned char right[NXR_PROOF_NBYTES], proof[NXR_PROOF_NBYTES];

    nxr_proof_of_talk(secret, true, &talk, right);
    nxr_proof_of_talk(secret, true, &talk, proof);
    cr_expect(nxr_proof_fits(right, proof));
    nxr_proof_of_talk(secret, false, &talk, proof);
    cr_expect(not(nxr_proof_fits(right, proof)), "that of the other side");
    nxr_proof_of_talk(other_secret, true, &talk, proof);
    cr_expect(not(nxr_proof_fits(right, proof)), "with another secret");
    for (size_t i = 0; i < sizeof(talk); i++) {
        ((unsigned char *)&talk)[i] ^= 1;
        nxr_proof_of_talk(secret, true, &talk, proof);
        cr_expect(not(nxr_proof_fits(right, proof)), "byte %zu", i);
        ((unsigned char *)&talk)[i] ^= 1;
    }
}

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
        cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
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
    make_message(NXR_INTRO_REFUSED);
    message.refused.schema_nbytes = NIXL_SCHEMA_MAX + 1;
    cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
    make_message(NXR_INTRO_REFUSED);
    message.refused.refusal = 0;
    cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
    message.refused.refusal = NXR_INTRO_N_REFUSALS;
    cr_expect(eq(int, parse_message(message.head.nbytes), NIXL_E_TRANSPORT));
}
