/* Feeds a body to the skim whole, byte by byte and in random pieces; all must agree, in the last bit of the
 * result. */
#pragma once

// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "wakegate/openai.h"

struct skimmed {
    bool accepted;
    struct wg_skim_result result;
    char error[200];
};

/* piece 0: pieces of random length. */
static inline struct skimmed skim_in_pieces(struct wg_slice body, size_t piece)
{
    struct wg_skim *skim = wg_skim_new();
    struct skimmed out = {0};
    int r = 0;
    for (size_t at = 0, len; at < body.len && r == 0; at += len) {
        len = piece > 0 ? piece : (size_t)rand() % 13;
        len = WG_MIN(len, body.len - at);
        char *copy = malloc(len); /* its own memory, so that a read beyond the piece is seen */
        if (len > 0)
            memcpy(copy, body.ptr + at, len);
        r = wg_skim_feed(skim, copy, len);
        free(copy);
    }
    out.accepted = r == 0 && wg_skim_finish(skim) == 0;
    out.result = *wg_skim_result(skim);
    snprintf(out.error, sizeof(out.error), "%s", wg_skim_error(skim));
    assert_int_equal(out.accepted, out.error[0] == '\0');
    if (!out.accepted) {
        assert_int_equal(wg_skim_feed(skim, "{}", 2), -EINVAL);
        assert_int_equal(wg_skim_finish(skim), -EINVAL);
    }
    wg_skim_free(skim);
    return out;
}

static inline struct skimmed skim_body(struct wg_slice body)
{
    struct skimmed whole = skim_in_pieces(body, body.len + 1);
    for (size_t round = 0; round < 12 && body.len < 100000; round++) {
        struct skimmed split = skim_in_pieces(body, round < 4 ? round + 1 : 0);
        assert_int_equal(whole.accepted, split.accepted);
        assert_string_equal(whole.error, split.error);
        assert_memory_equal(&whole.result, &split.result, sizeof(whole.result));
    }
    return whole;
}

static inline struct skimmed skim_text(const char *body)
{
    return skim_body(wg_slice_str(body));
}
