/* Intrusive doubly linked list. State is list membership wherever a list exists: a node that is in no list
 * points to itself. */
#pragma once

#include "wakegate/base/obj.h"

struct wg_list {
    struct wg_list *prev, *next;
};

static inline void wg_list_init(struct wg_list *list)
{
    list->prev = list->next = list;
}

static inline bool wg_list_empty(const struct wg_list *list)
{
    return list->next == list;
}

/* True if the node is a member of some list. */
static inline bool wg_list_linked(const struct wg_list *node)
{
    return node->next != node;
}

static inline void wg_list_insert_(struct wg_list *prev, struct wg_list *next, struct wg_list *node)
{
    node->prev = prev;
    node->next = next;
    prev->next = node;
    next->prev = node;
}

/* The node must be in no list. */
static inline void wg_list_append(struct wg_list *list, struct wg_list *node)
{
    wg_list_insert_(list->prev, list, node);
}

static inline void wg_list_prepend(struct wg_list *list, struct wg_list *node)
{
    wg_list_insert_(list, list->next, node);
}

/* Leaves the node in no list; a node that is in none stays so. */
static inline void wg_list_remove(struct wg_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    wg_list_init(node);
}

/* Moves all nodes of `from` to the end of `to`; `from` is empty after it. */
static inline void wg_list_splice(struct wg_list *to, struct wg_list *from)
{
    if (wg_list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    wg_list_init(from);
}

static inline struct wg_list *wg_list_first(struct wg_list *list)
{
    return wg_list_empty(list) ? NULL : list->next;
}

/* Takes the first node off the list; NULL if there is none. */
static inline struct wg_list *wg_list_pop(struct wg_list *list)
{
    struct wg_list *node = list->next;
    if (node == list)
        return NULL;
    list->next = node->next;
    node->next->prev = list;
    wg_list_init(node);
    return node;
}

#define WG_LIST_ENTRY(node, type, member) WG_CONTAINER_OF(node, type, member)

/* NOLINTBEGIN(bugprone-macro-parentheses): `node` is declared here, not used */
#define wg_list_foreach(node, list)                                                                          \
    for (struct wg_list *node = (list)->next; node != (list); node = node->next)

/* The body may remove `node`, and nothing else, from the list. */
#define wg_list_foreach_safe(node, list)                                                                     \
    for (struct wg_list *node = (list)->next, *node##_next = node->next; node != (list);                     \
         node = node##_next, node##_next = node->next)
/* NOLINTEND(bugprone-macro-parentheses) */
