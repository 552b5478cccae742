/* What the fuzz targets of HTTP/1.1 heads share: checks that hold for any head that was taken. A broken one
 * aborts. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wakegate/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The end of the head: the same at once and in two pieces, wherever they are cut. */
static inline size_t fuzz_head_end(const char *data, size_t len)
{
    size_t scanned = 0, end = wg_h1_head_end(data, len, &scanned);
    for (size_t cut = 0; cut < WG_MIN(len, (size_t)256); cut++) {
        size_t again = 0, first = wg_h1_head_end(data, cut, &again);
        WG_ASSERT(first == 0 || first == end);
        WG_ASSERT(first != 0 || wg_h1_head_end(data, len, &again) == end);
    }
    return end;
}

static inline void fuzz_check_slice(struct wg_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        WG_ASSERT(s.ptr[i] == '\t' || ((unsigned char)s.ptr[i] >= 0x20 && s.ptr[i] != 0x7f));
    WG_ASSERT(wg_slice_trim(s).len == s.len);
}

static inline void fuzz_write_fields(struct wg_buf *out, const struct wg_fields *fields)
{
    for (unsigned i = 0; i < fields->n; i++) {
        fuzz_check_slice(fields->items[i].name);
        fuzz_check_slice(fields->items[i].value);
        WG_ASSERT(fields->items[i].name.len > 0);
        wg_buf_add_slice(out, fields->items[i].name);
        wg_buf_add_str(out, ": ");
        wg_buf_add_slice(out, fields->items[i].value);
        wg_buf_add_str(out, "\r\n");
    }
    wg_buf_add_str(out, "\r\n");
}

static inline void fuzz_same_fields(const struct wg_fields *a, const struct wg_fields *b)
{
    WG_ASSERT(a->n == b->n);
    for (unsigned i = 0; i < a->n; i++) {
        WG_ASSERT(wg_slice_eq(a->items[i].name, b->items[i].name));
        WG_ASSERT(wg_slice_eq(a->items[i].value, b->items[i].value));
        WG_ASSERT(a->items[i].token == b->items[i].token && a->items[i].hop == b->items[i].hop);
    }
}
