/* One HTTP/2 header block as it comes: fields held by reference, bounded, and translated into what the rooms
 * above know (RFC 9113 8.2, 8.3; RFC 9110). Pure: no session, no sockets. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "wakegate/http.h"

struct h2_head; /* about 7 KiB, lives from the begin of a block to its end */

struct h2_head *h2_head_new(size_t max_bytes);
/* Drops all references. NULL-safe, returns NULL. */
struct h2_head *h2_head_free(struct h2_head *head);

/* Counts name + value + 32 (RFC 9113 10.5.1) and stores both by reference, unless the block is now over
 * max_bytes or has more than WG_FIELDS_MAX regular fields: then nothing more is stored, and what was is
 * dropped at once. True while it is within its limits. */
bool h2_head_add(struct h2_head *head, nghttp2_rcbuf *name, nghttp2_rcbuf *value);
bool h2_head_overflowed(const struct h2_head *head);
/* The method is HEAD, also in a block that is over its limits or bad: a refusal has no body either. */
bool h2_head_is_head(const struct h2_head *head);

/* The block is complete, and a request's head. Nothing is taken that our HTTP/1.1 parser would refuse: the
 * request leaves as HTTP/1.1. WG_H1_BAD: 400, *ret_why is static text; WG_H1_TOO_LARGE: 431. Slices borrow
 * head; :authority, or the host field in its place, is in request->authority, and fields has no host.
 * end_stream: no body follows. To be called once. */
enum wg_h1_result h2_head_request(struct h2_head *head, bool end_stream,
                                  const struct wg_request **ret_request, const char **ret_why);
/* The block is complete, and a trailer section: fields that may not be in one are dropped as with HTTP/1.1,
 * but pseudo, framing and connection fields and host are BAD. To be called once. */
enum wg_h1_result h2_head_trailers(struct h2_head *head, const struct wg_fields **ret_fields,
                                   const char **ret_why);
