/* Chunked bodies: the same outcome however the input is split, and what was decoded and is encoded again
 * decodes to the same body. The first byte of the input seeds the splits. */
#include "fuzz_h1.h"

struct outcome {
    enum wg_h1_result result;
    size_t used;
    struct wg_buf body;
    struct wg_h1_chunked chunked;
};

static void outcome_clear(struct outcome *outcome)
{
    wg_buf_clear(&outcome->body);
    wg_h1_chunked_clear(&outcome->chunked);
}

/* max_piece 0: all at once. Each piece is in memory of its own. */
static void decode(struct wg_slice input, size_t max_piece, uint32_t seed, struct outcome *ret)
{
    *ret = (struct outcome){.result = WG_H1_PARTIAL, .body = WG_BUF_INIT(16 * 1024 * 1024)};
    wg_h1_chunked_init(&ret->chunked);
    while (ret->result == WG_H1_PARTIAL && ret->used < input.len) {
        seed = seed * 1103515245u + 12345u;
        size_t want = max_piece ? 1 + (seed >> 16) % max_piece : input.len;
        size_t len = WG_MIN(want, input.len - ret->used), at = 0, used = 1;
        char *piece = wg_xcalloc(1, len);
        memcpy(piece, input.ptr + ret->used, len);
        while (ret->result == WG_H1_PARTIAL && at < len && used > 0) {
            struct wg_slice data = {0};
            used = 0;
            ret->result = wg_h1_chunked_feed(&ret->chunked, piece + at, len - at, &used, &data);
            WG_ASSERT(data.len <= used && used <= len - at);
            WG_ASSERT(data.len == 0 || data.ptr + data.len == piece + at + used);
            wg_buf_add_slice(&ret->body, data);
            at += used;
        }
        WG_ASSERT(ret->result != WG_H1_PARTIAL || at == len);
        ret->used += at;
        free(piece);
    }
    WG_ASSERT(!ret->body.failed);
    WG_ASSERT(ret->result != WG_H1_BAD || ret->chunked.why != NULL);
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    WG_ASSERT(a->result == b->result);
    WG_ASSERT(wg_slice_eq(wg_buf_slice(&a->body), wg_buf_slice(&b->body)));
    if (a->result == WG_H1_BAD) {
        WG_ASSERT(strcmp(a->chunked.why, b->chunked.why) == 0);
        return;
    }
    WG_ASSERT(a->used == b->used);
    WG_ASSERT(wg_slice_eq(wg_buf_slice(&a->chunked.trailer), wg_buf_slice(&b->chunked.trailer)));
}

static void check_again(const struct outcome *outcome)
{
    static struct wg_fields trailers, trailers_again;
    struct outcome again;
    struct wg_buf out = WG_BUF_INIT(16 * 1024 * 1024);
    WG_ASSERT(wg_h1_parse_trailers(&outcome->chunked, &trailers) == WG_H1_OK);
    if (outcome->body.len > 0) {
        wg_buf_addf(&out, "%zx\r\n", outcome->body.len);
        wg_buf_add_slice(&out, wg_buf_slice(&outcome->body));
        wg_buf_add_str(&out, "\r\n");
    }
    wg_buf_add_str(&out, "0\r\n");
    fuzz_write_fields(&out, &trailers);
    WG_ASSERT(!out.failed);
    decode(wg_buf_slice(&out), 0, 0, &again);
    WG_ASSERT(again.result == WG_H1_OK && again.used == out.len);
    WG_ASSERT(wg_slice_eq(wg_buf_slice(&outcome->body), wg_buf_slice(&again.body)));
    WG_ASSERT(wg_h1_parse_trailers(&again.chunked, &trailers_again) == WG_H1_OK);
    fuzz_same_fields(&trailers, &trailers_again);
    outcome_clear(&again);
    wg_buf_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t max_pieces[] = {1, 3, 40};
    struct outcome whole, split;
    if (size == 0)
        return 0;
    struct wg_slice input = wg_slice(data + 1, size - 1);
    decode(input, 0, 0, &whole);
    for (size_t i = 0; i < WG_COUNT_OF(max_pieces); i++) {
        decode(input, max_pieces[i], data[0], &split);
        assert_same(&whole, &split);
        outcome_clear(&split);
    }
    if (whole.result == WG_H1_OK)
        check_again(&whole);
    outcome_clear(&whole);
    return 0;
}
