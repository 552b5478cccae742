/* Why a request to the admin is not answered as it would like to be. All text is static. */
#pragma once

#include "wakegate/base/buf.h"
#include "wakegate/base/reason.h"

struct admin_refusal {
    int status; /* HTTP */
    const char *code, *type, *message;
};

/* Those that only the admin knows; all others are rows of the table of reasons. */
extern const struct admin_refusal admin_no_keys, admin_cross_site, admin_no_model, admin_busy, admin_no_hook,
    admin_internal;

struct admin_refusal admin_refusal_of(enum wg_reason reason);
/* The body that the client gets, in OpenAI's shape; `message` may replace the refusal's own. */
void admin_refusal_json(const struct admin_refusal *refusal, const char *message, struct wg_buf *out);
