/* Help for the tests of the HTTP/1.1 parsers: inputs in memory of their exact size, so that a sanitizer sees
 * every read behind them, and the checks that hold for any head. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wakegate/http.h"

static inline char *h1_exact(struct wg_slice text)
{
    char *copy = malloc(text.len ? text.len : 1);
    assert_non_null(copy);
    if (text.len)
        memcpy(copy, text.ptr, text.len);
    return copy;
}

/* The end is found at the same place whether the head comes at once or byte by byte, and never before all of
 * it is there. */
static inline size_t h1_head_end_any_way(struct wg_slice text)
{
    size_t scanned = 0, slow = 0;
    char *all = h1_exact(text);
    size_t whole = wg_h1_head_end(all, text.len, &scanned);
    free(all);
    scanned = 0;
    for (size_t len = 0; len <= text.len && slow == 0; len++) {
        char *part = h1_exact(wg_slice(text.ptr, len));
        slow = wg_h1_head_end(part, len, &scanned);
        assert_true(slow == 0 || slow == len);
        assert_true(scanned <= len);
        free(part);
    }
    assert_int_equal(whole, slow);
    return whole;
}

static inline void h1_assert_slice(struct wg_slice slice, const char *expected)
{
    if (!wg_slice_eq(slice, wg_slice_str(expected)))
        fail_msg("got \"" WG_SLICE_FMT "\" instead of \"%s\"", WG_SLICE_ARG(slice), expected);
}

static inline void h1_assert_why(const char *why, const char *fragment, const char *name)
{
    if (!why || !strstr(why, fragment))
        fail_msg("%s: the reason is \"%s\", without \"%s\"", name, why ? why : "(none)", fragment);
}
