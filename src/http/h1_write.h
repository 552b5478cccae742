/* Writing HTTP/1.1: heads and chunk framing as bytes. */
#pragma once

#include "wakegate/http.h"

/* "Date: Mon, 30 Nov 2026 23:01:26 GMT" without the name; out holds 32 bytes. */
void h1_date(wg_usec wall, char out[static 32]);
struct wg_slice h1_status_text(int status);

/* Appends "\r\n" framed pieces of a response head to a chain. */
void h1_write_field(struct wg_chain *out, struct wg_pool *pool, struct wg_slice name, struct wg_slice value);
void h1_write_status(struct wg_chain *out, struct wg_pool *pool, int status);
/* One chunk of a chunked body. */
void h1_write_chunk(struct wg_chain *out, struct wg_pool *pool, const char *data, size_t len);
