/* SPDX-License-Identifier: Apache-2.0 */
/* A doubly linked list whose links live in its members. An empty list points to itself. */
#ifndef NXR_UTIL_LIST_H
#define NXR_UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct nxr_list {
    struct nxr_list *next;
    struct nxr_list *prev;
};

#define nxr_list_entry(_link, _type, _member)                                                      \
    ((_type *)(void *)((char *)(_link)-offsetof(_type, _member)))

/* Loop over the members; the current one may be removed. */
#define nxr_list_for_each(_link, _after, _list)                                                    \
    for ((_link) = (_list)->next, (_after) = (_link)->next; (_link) != (_list);                    \
         (_link) = (_after), (_after) = (_link)->next)

static inline void nxr_list_init(struct nxr_list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool nxr_list_is_empty(const struct nxr_list *list)
{
    return list->next == list;
}

static inline void nxr_list_append(struct nxr_list *list, struct nxr_list *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline void nxr_list_prepend(struct nxr_list *list, struct nxr_list *link)
{
    link->next = list->next;
    link->prev = list;
    list->next->prev = link;
    list->next = link;
}

/* Remove a member; removing it again is harmless. */
static inline void nxr_list_remove(struct nxr_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    nxr_list_init(link);
}

/* Remove and return the first member; NULL if there is none. */
static inline struct nxr_list *nxr_list_pop(struct nxr_list *list)
{
    struct nxr_list *link = list->next;

    if (link == list) {
        return NULL;
    }
    nxr_list_remove(link);
    return link;
}

/* Move all members of `from` to the end of `list`. */
static inline void nxr_list_splice(struct nxr_list *list, struct nxr_list *from)
{
    if (!nxr_list_is_empty(from)) {
        from->next->prev = list->prev;
        list->prev->next = from->next;
        from->prev->next = list;
        list->prev = from->prev;
        nxr_list_init(from);
    }
}

#endif
