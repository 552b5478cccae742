/* What the admin listens to: the table of paths. Pure: a path in, a row out. */
#pragma once

#include "wakegate/base/buf.h"

enum admin_page {
    ADMIN_INDEX,
    ADMIN_HEALTHZ,
    ADMIN_READYZ,
    ADMIN_METRICS,
    ADMIN_STATUS,
    ADMIN_WAKE,
    ADMIN_SLEEP,
    ADMIN_SCALER,
};

struct admin_route {
    const char *prefix,
        *suffix; /* of a path with a model's name between them; suffix NULL: the prefix is the whole path */
    enum admin_page page;
    bool changes;     /* POST, and guarded by admin.keys; all others are GET and HEAD */
    const char *help; /* for the index */
};

/* The row of this path, and the part of the path that names the model (as sent; empty if the row has none).
 * NULL: nothing is there. */
const struct admin_route *admin_route_find(struct wg_slice path, struct wg_slice *ret_name);
bool admin_route_takes(const struct admin_route *route, struct wg_slice method);
/* For the Allow field. */
const char *admin_route_allow(const struct admin_route *route);
/* A model's name out of a path, raw or percent-encoded; free() it. NULL: a bad escape, a control character,
 * or nothing. */
char *admin_name_decode(struct wg_slice text);
/* The index page: one line for each row. */
void admin_route_index(struct wg_buf *out);
