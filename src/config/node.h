/* A YAML document as a tree that knows its lines: scalars, lists, mappings; nothing typed yet. */
#pragma once

#include "faults.h"
#include "wakegate/base/slice.h"

enum node_kind {
    NODE_NULL, /* nothing written, ~ or null: the same as not being there */
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAPPING,
};

struct node {
    enum node_kind kind;
    unsigned line;
    bool quoted;   /* scalar: so it is a string, whatever it looks like */
    bool from_env; /* scalar: has a value of the environment in it, which is never shown */
    char *text;    /* scalar, without NUL inside */
    size_t n;      /* of items */
    struct node **items;
    char **keys; /* mapping: of each item */
};

/* The tree of the text, or NULL when it could not be read to its end. Faults do not always end the reading,
 * so a tree may come with some. An empty text is a NODE_NULL. */
struct node *node_parse(const char *file, struct wg_slice text, struct wg_config_faults *faults);
/* NULL-safe, returns NULL. Wipes what came from the environment. */
struct node *node_free(struct node *node);
/* The mapping's item of that key, or NULL. */
const struct node *node_get(const struct node *node, struct wg_slice key);

static inline struct wg_slice node_slice(const struct node *node)
{
    return wg_slice_str(node->text);
}
