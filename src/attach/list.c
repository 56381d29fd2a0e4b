/* SPDX-License-Identifier: Apache-2.0 */
/* The call that lists what is published in a folder or in etcd. No state, no lock. */
#include "config.h"

#include "attach/attach.h"
#include "attach/directory.h"
#include "attach/directory_etcd.h"
#include "core/wait.h"
#include "util/clock.h"
#include "util/status.h"

#include <stdio.h>
#include <string.h>

#define ANSWER_NS (5 * NXR_S)    /* for one request to etcd */
#define AGAIN_NS  (100 * NXR_MS) /* before it is asked again */

struct list {
    char *text;
    size_t room, used; /* `used` may exceed the room */
};

/* One line. The host is printed without blanks. */
static void list_add(struct list *list, const char *name, int pid, const char *host)
{
    size_t left = list->used < list->room ? list->room - list->used : 0;
    int nbytes = snprintf(left > 0 ? list->text + list->used : NULL, left, "%s %d %s\n", name, pid,
                          host[0] != '\0' ? host : "?");

    list->used += nbytes > 0 ? (size_t)nbytes : 0;
}

static void list_add_file(void *arg, const struct nxr_entry *entry)
{
    list_add(arg, entry->name, entry->pid, entry->host);
}

static void list_add_key(void *arg, const char *name, const struct nxr_etcd_found *found)
{
    if (found->is_entry && strcmp(found->entry.name, name) == 0) {
        list_add(arg, name, found->entry.pid, found->entry.host);
    }
}

static bool list_never(void *arg)
{
    (void)arg;
    return false;
}

/* Ask etcd, again and again while it is away. */
static int list_etcd(const struct nxr_where *where, int64_t deadline, struct list *list,
                     char why[NXR_ETCD_WHY_NBYTES])
{
    char key[NXR_ETCD_KEY_NBYTES];
    struct nxr_etcd *etcd;
    int status = nxr_directory_etcd_take(where, &etcd, why);

    if (status != NIXL_OK) {
        return status;
    }
    nxr_directory_etcd_key(where, "", key);
    for (;;) {
        int64_t now = nxr_now_ns(), until = deadline - now < ANSWER_NS ? deadline : now + ANSWER_NS;

        list->used = 0;
        status = nxr_etcd->list(etcd, key, until, list_add_key, list, why);
        if (status != NIXL_E_AGAIN || deadline - nxr_now_ns() <= AGAIN_NS) {
            break;
        }
        (void)nxr_wait(list_never, NULL, AGAIN_NS);
    }
    nxr_directory_etcd_give(where, etcd);
    return status == NIXL_E_AGAIN ? NIXL_E_TIMEOUT : status;
}

static int list_check(const char *operation, const char *text, int64_t timeout_ns,
                      struct nxr_where *where_p)
{
    const char *schema = NULL;
    int status = nxr_attach_check(operation, text, "name", &schema, where_p);

    if (status != NIXL_OK) {
        return status;
    }
    if (where_p->kind == NXR_WHERE_PORT) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "where is '%.100s', and a port has no list of names; allowed: file:DIR, "
                        "etcd://HOST:PORT",
                        text);
    }
    return timeout_ns > 0 ? NIXL_OK
                          : nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                                     "timeout_ns is %lld; allowed: more than 0, NIXL_FOREVER",
                                     (long long)timeout_ns);
}

int nixl_publish_list(const char *where, int64_t timeout_ns, char *text, size_t text_nbytes,
                      size_t *needed_p)
{
    static const char operation[] = "nixl_publish_list";
    struct list list = {.text = text, .room = text_nbytes};
    char why[NXR_DIRECTORY_WHY_NBYTES] = "";
    struct nxr_where place;
    int status = list_check(operation, where, timeout_ns, &place);

    if (status != NIXL_OK) {
        return status;
    }
    if (text == NULL && text_nbytes > 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "text is NULL");
    }
    if (text_nbytes > 0) {
        text[0] = '\0';
    }
    status = place.kind == NXR_WHERE_FOLDER
                 ? nxr_directory_each(place.dir, list_add_file, &list, why)
                 : list_etcd(&place, nxr_deadline(timeout_ns), &list, why);
    if (status != NIXL_OK) {
        return nxr_fail(status, operation, -1, "", 0, "cannot list the names in %s: %s", where,
                        why);
    }
    if (needed_p != NULL) {
        *needed_p = list.used + 1;
    }
    return list.used < text_nbytes ? NIXL_OK
                                   : nxr_fail(NIXL_E_TRUNCATED, operation, -1, "", 0,
                                              "text has room for %zu bytes, and %zu are needed",
                                              text_nbytes, list.used + 1);
}
