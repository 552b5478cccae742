/* Walking a tree by the table of options, into the typed structs. */
#pragma once

#include "node.h"
#include "options.h"

enum { OPTIONS_MAX = 256 };

/* One reading of one file. */
struct reading {
    const char *file;
    struct wg_config_faults *faults;
    struct wg_buf shown;                 /* where we are: "models[0].hold" */
    struct wg_buf row;                   /* the same as in the table: "models[].hold" */
    bool filling;                        /* in defaults, which are right whatever a check says */
    struct node *fallbacks[OPTIONS_MAX]; /* the parsed defaults, made at first use */
};

/* Fills the configuration with defaults and then with what the tree says. */
void read_config(struct reading *reading, struct wg_config *config, const struct node *root);
void reading_clear(struct reading *reading);
/* A fault of this node, at the place where we are. */
void reading_fault(struct reading *reading, const struct node *node, const char *format, ...) WG_PRINTF(3, 4);
/* Of one member of a list: the place is "[i]" behind where we are. */
void reading_fault_item(struct reading *reading, const struct node *list, size_t i, const char *format, ...)
    WG_PRINTF(4, 5);

/* How the types that are no values of their own are read and freed; for the table of types. */
void read_section(struct reading *reading, const struct option *option, const struct node *node, void *base);
void read_list(struct reading *reading, const struct option *option, const struct node *node, void *base);
void read_later(struct reading *reading, const struct option *option, const struct node *node, void *base);
void clear_list(const struct option *option, void *base);
