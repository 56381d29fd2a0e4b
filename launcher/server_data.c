/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publish, look up, unpublish. The published values are one list, owned by the main thread. A
 * look-up that waits (PMIX_WAIT) is parked until its keys are published or its timeout is over.
 */
#include "config.h"

#include "launcher/server_upcalls.h"
#include "launcher/xalloc.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

struct item {
    struct item *next;
    pmix_proc_t owner;
    pmix_key_t key;
    pmix_value_t value;
    pmix_data_range_t range;
    pmix_persistence_t persistence;
};

static struct item *items;
static struct upcall *data_parked; /* look-ups that wait, linked by next */

/* ---- items ----------------------------------------------------------------------------------- */

static bool is_visible(const struct item *item, const pmix_proc_t *reader)
{
    switch (item->range) {
    case PMIX_RANGE_PROC_LOCAL:
        return PMIX_CHECK_PROCID(&item->owner, reader);
    case PMIX_RANGE_NAMESPACE:
        return PMIX_CHECK_NSPACE(item->owner.nspace, reader->nspace);
    default:
        return true;
    }
}

static struct item **data_find_item(const char *key, const pmix_proc_t *reader)
{
    struct item **link = &items;

    while (*link != NULL && !(PMIX_CHECK_KEY(*link, key) && is_visible(*link, reader))) {
        link = &(*link)->next;
    }
    return link;
}

static void remove_item(struct item **link)
{
    struct item *item = *link;

    *link = item->next;
    PMIX_VALUE_DESTRUCT(&item->value);
    free(item);
}

void data_forget(const pmix_proc_t *proc)
{
    struct item **link = &items;

    while (*link != NULL) {
        if ((*link)->persistence == PMIX_PERSIST_PROC && PMIX_CHECK_PROCID(&(*link)->owner, proc)) {
            remove_item(link);
        } else {
            link = &(*link)->next;
        }
    }
}

/* Is this entry of a publish a directive, not data? */
static bool is_directive(const pmix_info_t *info)
{
    static const char *const keys[] = {PMIX_RANGE,  PMIX_PERSISTENCE, PMIX_TIMEOUT,
                                       PMIX_USERID, PMIX_GRPID,       PMIX_WAIT};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (PMIX_CHECK_KEY(info, keys[i])) {
            return true;
        }
    }
    return false;
}

static pmix_data_range_t range_of(const pmix_info_t *info, size_t n_info)
{
    const pmix_info_t *range = info_find(info, n_info, PMIX_RANGE);

    return range != NULL ? range->value.data.range : PMIX_RANGE_SESSION;
}

/* ---- look up --------------------------------------------------------------------------------- */

/* Answer a look-up with the values that are there. */
static void answer_found(struct upcall *call, size_t n_found)
{
    size_t n = 0;

    PMIX_PDATA_CREATE(call->found, n_found);
    x_checked(call->found);
    for (char **key = call->keys; *key != NULL && n < n_found; key++) {
        struct item **link = data_find_item(*key, &call->from);
        pmix_value_t *value;
        pmix_status_t status;

        if (*link == NULL) {
            continue;
        }
        call->found[n].proc = (*link)->owner;
        PMIX_LOAD_KEY(call->found[n].key, *key);
        value = &call->found[n].value;
        PMIX_VALUE_XFER(status, value, &(*link)->value);
        n += status == PMIX_SUCCESS ? 1 : 0;
        if ((*link)->persistence == PMIX_PERSIST_FIRST_READ) {
            remove_item(link);
        }
    }
    call->n_found = n;
    upcall_answer(call, PMIX_SUCCESS);
}

/* Answer if enough keys are there: one if the look-up does not wait, else those it waits for. */
static bool try_lookup(struct upcall *call, size_t n_needed)
{
    size_t n_found = 0;

    for (char **key = call->keys; *key != NULL; key++) {
        n_found += *data_find_item(*key, &call->from) != NULL;
    }
    if (n_found < n_needed) {
        return false;
    }
    answer_found(call, n_found);
    return true;
}

/* The number of keys that a look-up needs before it is answered: PMIX_WAIT with 0 means all. */
static size_t needed_by(const struct upcall *call)
{
    const pmix_info_t *wait = info_find(call->info, call->n_info, PMIX_WAIT);
    size_t n_keys = 0, n = 0;
    pmix_status_t status = PMIX_SUCCESS;

    while (call->keys[n_keys] != NULL) {
        n_keys++;
    }
    if (wait == NULL) {
        return 1;
    }
    PMIX_VALUE_GET_NUMBER(status, &wait->value, n, size_t);
    return status == PMIX_SUCCESS && n > 0 && n < n_keys ? n : n_keys;
}

static void unpark(struct upcall *call)
{
    for (struct upcall **link = &data_parked; *link != NULL; link = &(*link)->next) {
        if (*link == call) {
            *link = call->next;
            return;
        }
    }
}

static void lookup_timeout(struct loop_timer *timer)
{
    struct upcall *call = LOOP_OWNER(timer, struct upcall, timer);

    unpark(call);
    upcall_answer(call, PMIX_ERR_TIMEOUT);
}

static void do_lookup(struct upcall *call)
{
    int64_t timeout_ns = info_timeout_ns(call->info, call->n_info);

    if (try_lookup(call, needed_by(call))) {
        return;
    }
    if (info_find(call->info, call->n_info, PMIX_WAIT) == NULL) {
        upcall_answer(call, PMIX_ERR_NOT_FOUND);
        return;
    }
    call->next = data_parked;
    data_parked = call;
    if (timeout_ns > 0) {
        call->timer.fire = lookup_timeout;
        loop_timer_set(&call->timer, nxr_deadline(timeout_ns));
    }
}

pmix_status_t up_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                        size_t n_info, pmix_lookup_cbfunc_t done, void *arg)
{
    if (keys == NULL) {
        return PMIX_ERR_BAD_PARAM;
    }
    return upcall_queue(&(struct upcall){.serve = do_lookup,
                                         .from = *proc,
                                         .keys = keys,
                                         .info = info,
                                         .n_info = n_info,
                                         .lookup_done = done,
                                         .done_arg = arg});
}

/* ---- publish --------------------------------------------------------------------------------- */

static pmix_status_t publish_one(const struct upcall *call, const pmix_info_t *info)
{
    const pmix_info_t *persistence = info_find(call->info, call->n_info, PMIX_PERSISTENCE);
    pmix_data_range_t range = range_of(call->info, call->n_info);
    struct item *item;
    pmix_value_t *value;
    pmix_status_t status;

    for (item = items; item != NULL; item = item->next) {
        if (PMIX_CHECK_KEY(item, info->key) && item->range == range &&
            is_visible(item, &call->from)) {
            return PMIX_ERR_DUPLICATE_KEY;
        }
    }
    item = calloc(1, sizeof(*item));
    if (item == NULL) {
        return PMIX_ERR_NOMEM;
    }
    item->owner = call->from;
    item->range = range;
    item->persistence = persistence != NULL ? persistence->value.data.persist : PMIX_PERSIST_APP;
    PMIX_LOAD_KEY(item->key, info->key);
    value = &item->value;
    PMIX_VALUE_XFER(status, value, (pmix_value_t *)&info->value);
    if (status != PMIX_SUCCESS) {
        free(item);
        return status;
    }
    item->next = items;
    items = item;
    return PMIX_SUCCESS;
}

static void do_publish(struct upcall *call)
{
    pmix_status_t status = PMIX_SUCCESS;
    struct upcall *waiting, *next;

    for (size_t i = 0; i < call->n_info && status == PMIX_SUCCESS; i++) {
        if (!is_directive(&call->info[i])) {
            status = publish_one(call, &call->info[i]);
        }
    }
    upcall_answer(call, status);
    for (waiting = data_parked, data_parked = NULL; waiting != NULL; waiting = next) {
        next = waiting->next;
        if (!try_lookup(waiting, needed_by(waiting))) {
            waiting->next = data_parked;
            data_parked = waiting;
        }
    }
}

pmix_status_t up_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n_info,
                         pmix_op_cbfunc_t done, void *arg)
{
    return upcall_queue(&(struct upcall){.serve = do_publish,
                                         .from = *proc,
                                         .info = info,
                                         .n_info = n_info,
                                         .op_done = done,
                                         .done_arg = arg});
}

/* ---- unpublish ------------------------------------------------------------------------------- */

static bool data_is_named(const struct item *item, char **keys)
{
    if (keys == NULL) {
        return true; /* no keys: all that the caller has published */
    }
    while (*keys != NULL && !PMIX_CHECK_KEY(item, *keys)) {
        keys++;
    }
    return *keys != NULL;
}

static void do_unpublish(struct upcall *call)
{
    struct item **link = &items;

    while (*link != NULL) {
        if (PMIX_CHECK_PROCID(&(*link)->owner, &call->from) && data_is_named(*link, call->keys)) {
            remove_item(link);
        } else {
            link = &(*link)->next;
        }
    }
    upcall_answer(call, PMIX_SUCCESS);
}

pmix_status_t up_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                           size_t n_info, pmix_op_cbfunc_t done, void *arg)
{
    (void)info;
    (void)n_info;
    return upcall_queue(&(struct upcall){
        .serve = do_unpublish, .from = *proc, .keys = keys, .op_done = done, .done_arg = arg});
}
