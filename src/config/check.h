/* What no single option can tell: defaults that depend on others, and faults between options. */
#pragma once

#include "reader.h"

/* A place in the tree with its path, for faults under it. */
struct spot {
    struct reading *reading;
    const struct node *node; /* NULL: nothing was written there */
    char path[128];
};

/* The node at "a.b" under the spot; NULL if it was not given. */
const struct node *spot_find(const struct spot *spot, const char *keys);
/* The i-th member of the list at `keys`. */
struct spot spot_member(const struct spot *spot, const char *keys, size_t i);
void spot_fault(const struct spot *spot, const char *keys, const char *format, ...) WG_PRINTF(3, 4);
void spot_warning(const struct spot *spot, const char *keys, const char *format, ...) WG_PRINTF(3, 4);

/* The form in which names in certificates are compared: see wg_config_tenant_of_san. To be freed. */
char *config_san(struct wg_slice name);
/* Completes the configuration (maps, keys from files, compiled expressions) and reports what does not fit
 * together. Always called once behind read_config, faults or not. */
void check_config(struct reading *reading, struct wg_config *config, const struct node *root);
void check_model(const struct spot *spot, const struct wg_config *config, struct wg_config_model *model);
