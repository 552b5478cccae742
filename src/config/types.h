/* What can be done with a value of each type: read it, print it, free it. */
#pragma once

#include "reader.h"

struct option_type_ops {
    const char *name; /* for people: "a duration" */
    /* Sets the field, of which the old value is freed; after a fault it keeps a value that can be freed.
     * base: the struct. */
    void (*read)(struct reading *reading, const struct option *option, const struct node *node, void *base);
    /* One line of YAML; NULL: the type is not a value. reveal: secrets too. */
    void (*print)(struct wg_buf *out, const struct option *option, const void *base, bool reveal);
    void (*clear)(const struct option *option, void *base); /* NULL: nothing to free */
};

extern const struct option_type_ops option_types[OPT_TYPES];

/* "text" as YAML that reads back as the same string. */
void print_quoted(struct wg_buf *out, const char *text);
