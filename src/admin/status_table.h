/* The answer of GET /status as a table for people. Pure. */
#pragma once

#include "wakegate/base/buf.h"

/* False if the text is not such an answer. What comes from model servers is stripped of control characters.
 */
bool admin_status_table(struct wg_slice json, struct wg_buf *out);
