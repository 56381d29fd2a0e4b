/* SPDX-License-Identifier: Apache-2.0 */
/* Entries as JSON. No state, no lock. */
#include "config.h"

#include "etcd/value.h"

#include <jansson.h>
#include <string.h>

#define KEY_VERSION "nixlrun" /* its presence tells entries from what others keep in etcd */

char *nxr_etcd_value_write(const struct nxr_etcd_entry *entry)
{
    json_t *contacts = json_array(), *object;
    char *text = NULL;

    for (unsigned i = 0; contacts != NULL && i < entry->n_contacts; i++) {
        if (json_array_append_new(contacts, json_string(entry->contacts[i])) != 0) {
            json_decref(contacts);
            contacts = NULL;
        }
    }
    object =
        json_pack("{si ss ss si sI ss si ss so ss}", KEY_VERSION, NXR_ETCD_ENTRY_VERSION, "name",
                  entry->name, "job", entry->job, "rank", (int)entry->rank, "incarnation",
                  (json_int_t)entry->incarnation, "id", entry->id, "pid", (int)entry->pid, "host",
                  entry->host, "contacts", contacts, "proof", entry->proof);
    if (object != NULL) {
        text = json_dumps(object, JSON_COMPACT);
    }
    json_decref(object);
    return text;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A text of printable ASCII that fits, and is not empty. */
static bool value_text(const json_t *value, char *text, size_t room)
{
    const char *string = json_string_value(value);
    size_t nbytes = json_string_length(value);

    if (string == NULL || nbytes == 0 || nbytes >= room) {
        return false;
    }
    for (size_t i = 0; i < nbytes; i++) {
        if (string[i] <= ' ' || string[i] > '~') {
            return false;
        }
    }
    memcpy(text, string, nbytes + 1);
    return true;
}

/* Exactly so many hexadecimal digits. */
static bool value_hex(const json_t *value, char *text, size_t room)
{
    return value_text(value, text, room) && strlen(text) == room - 1 &&
           strspn(text, "0123456789abcdef") == room - 1;
}

/* A whole number within these limits. */
static bool value_number(const json_t *value, int64_t lowest, int64_t highest, int64_t *number_p)
{
    *number_p = json_integer_value(value);
    return json_is_integer(value) && *number_p >= lowest && *number_p <= highest;
}

static bool value_contacts(const json_t *array, struct nxr_etcd_entry *entry)
{
    size_t n = json_array_size(array);

    if (n == 0 || n > NXR_ETCD_MAX_CONTACTS) {
        return false;
    }
    entry->n_contacts = (unsigned)n;
    for (size_t i = 0; i < n; i++) {
        if (!value_text(json_array_get(array, i), entry->contacts[i], sizeof(entry->contacts[i]))) {
            return false;
        }
    }
    return true;
}

static const char *value_fields(const json_t *object, struct nxr_etcd_entry *entry)
{
    int64_t version, rank, incarnation, pid;

    if (!json_is_object(object) || json_object_get(object, KEY_VERSION) == NULL) {
        return "it is no entry of nixlrun";
    }
    if (!value_number(json_object_get(object, KEY_VERSION), NXR_ETCD_ENTRY_VERSION,
                      NXR_ETCD_ENTRY_VERSION, &version)) {
        return "it is an entry of another version of nixlrun";
    }
    if (!value_text(json_object_get(object, "name"), entry->name, sizeof(entry->name)) ||
        !value_hex(json_object_get(object, "job"), entry->job, sizeof(entry->job)) ||
        !value_number(json_object_get(object, "rank"), 0, INT32_MAX, &rank) ||
        !value_number(json_object_get(object, "incarnation"), 0, UINT32_MAX, &incarnation) ||
        !value_hex(json_object_get(object, "id"), entry->id, sizeof(entry->id)) ||
        !value_number(json_object_get(object, "pid"), 1, INT32_MAX, &pid) ||
        !value_text(json_object_get(object, "host"), entry->host, sizeof(entry->host)) ||
        !value_contacts(json_object_get(object, "contacts"), entry) ||
        !value_hex(json_object_get(object, "proof"), entry->proof, sizeof(entry->proof))) {
        return "the entry is damaged";
    }
    entry->rank = (int32_t)rank;
    entry->incarnation = (uint32_t)incarnation;
    entry->pid = (int32_t)pid;
    return NULL;
}

const char *nxr_etcd_value_read(const char *bytes, size_t nbytes, struct nxr_etcd_entry *entry_p)
{
    struct nxr_etcd_entry entry;
    const char *fault;
    json_t *object;

    if (nbytes > NXR_ETCD_VALUE_MAX) {
        return "it is larger than an entry of nixlrun";
    }
    memset(&entry, 0, sizeof(entry));
    object = json_loadb(bytes, nbytes, JSON_REJECT_DUPLICATES, NULL);
    fault = value_fields(object, &entry);
    json_decref(object);
    if (fault == NULL) {
        *entry_p = entry;
    }
    return fault;
}
