/* What the fuzz targets of HTTP/2 share: what must hold for any request that was taken. */
#pragma once

#include "fuzz_h1.h"

/* The request is one that HTTP/1.1 knows, and the parser of that reads the same out of it. */
static inline void fuzz_check_request(const struct wg_request *request)
{
    const char *why;
    struct wg_request again;
    struct wg_buf head = WG_BUF_INIT(64 * 1024);
    wg_buf_addf(&head, WG_SLICE_FMT " " WG_SLICE_FMT " HTTP/1.1\r\nHost: " WG_SLICE_FMT "\r\n",
                WG_SLICE_ARG(request->method), WG_SLICE_ARG(request->target),
                WG_SLICE_ARG(request->authority));
    fuzz_write_fields(&head, &request->fields);
    enum wg_h1_result result = wg_h1_parse_request(head.data, head.len, &again, &why);
    if (request->fields.n == WG_FIELDS_MAX) {
        WG_ASSERT(result == WG_H1_TOO_LARGE);
    } else {
        WG_ASSERT(result == WG_H1_OK);
        WG_ASSERT(wg_slice_eq(again.method, request->method) && wg_slice_eq(again.target, request->target));
        WG_ASSERT(wg_slice_eq(again.path, request->path) && wg_slice_eq(again.query, request->query));
        WG_ASSERT(wg_slice_eq(again.authority, request->authority));
        WG_ASSERT(again.content_length == request->content_length && again.fields.n == request->fields.n + 1);
    }
    WG_ASSERT(request->version == 20 && !wg_fields_get(&request->fields, WG_TOKEN_HOST));
    wg_buf_clear(&head);
}
