/* Block chains against a plain array that does the same, under random operations. */
#include "unit.h"

#include <stdlib.h>

#include "wakegate/base/blocks.h"

enum { MODEL_MAX = 256 * 1024, ROUNDS = 4000 };

struct pair {
    struct wg_pool *pool;
    struct wg_chain chain;
    char *model;
    size_t len;
    uint32_t random;
};

static size_t pick(struct pair *p, size_t below)
{
    p->random = p->random * 1664525u + 1013904223u;
    return below == 0 ? 0 : (p->random >> 8) % below;
}

static void fill(struct pair *p, char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (char)pick(p, 256);
}

/* Mostly short, sometimes many blocks long, never over `max`. */
static size_t pick_len(struct pair *p, size_t max)
{
    static const size_t ranges[] = {4, 200, 2000, 5000, 40000};
    size_t len = pick(p, ranges[pick(p, WG_COUNT_OF(ranges))]);

    return WG_MIN(len, max);
}

static void append(struct pair *p)
{
    char data[40000];
    size_t len = pick_len(p, MODEL_MAX - p->len);

    fill(p, data, len);
    wg_chain_append(&p->chain, p->pool, data, len);
    memcpy(p->model + p->len, data, len);
    p->len += len;
}

static void reserve(struct pair *p)
{
    size_t room, hint = 1 + pick_len(p, WG_BLOCK_MAX);

    char *to = wg_chain_reserve(&p->chain, p->pool, hint, &room);
    assert_true(room >= 1);
    size_t len = pick(p, WG_MIN(room, MODEL_MAX - p->len) + 1);
    fill(p, to, len);
    memcpy(p->model + p->len, to, len);
    p->len += len;
    wg_chain_commit(&p->chain, len);
}

static void consume(struct pair *p)
{
    size_t len = pick_len(p, p->len);

    wg_chain_consume(&p->chain, p->pool, len);
    memmove(p->model, p->model + len, p->len - len);
    p->len -= len;
}

static void splice(struct pair *p)
{
    char data[40000];
    size_t offset = pick(p, p->len + 1), cut = pick_len(p, p->len - offset);
    size_t len = pick_len(p, MODEL_MAX - p->len);

    fill(p, data, len);
    wg_chain_splice(&p->chain, p->pool, offset, cut, data, len);
    memmove(p->model + offset + len, p->model + offset + cut, p->len - offset - cut);
    memcpy(p->model + offset, data, len);
    p->len = p->len - cut + len;
}

static void move(struct pair *p)
{
    struct wg_chain other = WG_CHAIN_EMPTY;
    char data[40000];
    size_t len = pick_len(p, MODEL_MAX - p->len), room;

    fill(p, data, len);
    wg_chain_append(&other, p->pool, data, len);
    if (pick(p, 2) == 0)
        (void)wg_chain_reserve(&other, p->pool, 1, &room);
    wg_chain_move(&p->chain, &other);
    assert_int_equal(other.len, 0);
    assert_null(other.first);
    memcpy(p->model + p->len, data, len);
    p->len += len;
}

static void clear(struct pair *p)
{
    if (pick(p, 20) != 0)
        return;
    wg_chain_clear(&p->chain, p->pool);
    p->len = 0;
    assert_int_equal(wg_pool_used(p->pool), 0);
    wg_pool_trim(p->pool, pick(p, 50000));
}

static void assert_pieces(const struct pair *p, const struct iovec *iov, int n, size_t from)
{
    for (int i = 0; i < n; i++) {
        assert_true(iov[i].iov_len > 0 && iov[i].iov_len <= p->len - from);
        assert_memory_equal(iov[i].iov_base, p->model + from, iov[i].iov_len);
        from += iov[i].iov_len;
    }
}

static void assert_same(struct pair *p)
{
    static char copy[MODEL_MAX];
    struct iovec iov[4];

    assert_int_equal(p->chain.len, p->len);
    assert_int_equal(wg_chain_copy(&p->chain, 0, copy, sizeof(copy)), p->len);
    assert_memory_equal(copy, p->model, p->len);
    size_t offset = pick(p, p->len + 1), want = pick_len(p, sizeof(copy));
    assert_int_equal(wg_chain_copy(&p->chain, offset, copy, want), WG_MIN(want, p->len - offset));
    assert_memory_equal(copy, p->model + offset, WG_MIN(want, p->len - offset));

    struct wg_cursor cursor = wg_cursor_begin(&p->chain);
    assert_pieces(p, iov, wg_chain_iov(&p->chain, iov, 4), 0);
    for (size_t at = 0;;) {
        assert_int_equal(wg_cursor_left(cursor), p->len - at);
        assert_int_equal(cursor.block == NULL, at == p->len);
        int n = wg_cursor_iov(cursor, iov, 4);
        assert_int_equal(n == 0, at == p->len);
        if (n == 0)
            break;
        assert_pieces(p, iov, n, at);
        size_t step = 1 + pick(p, WG_MIN(p->len - at, (size_t)30000));
        wg_cursor_advance(&cursor, step);
        at += step;
    }
}

static void does_what_an_array_does(void **state)
{
    static void (*const operations[])(struct pair *) = {append, reserve, consume, consume,
                                                        splice, move,    clear};
    struct pair p = {.pool = wg_pool_new(64 * 1024), .model = wg_xcalloc(1, MODEL_MAX), .random = 7};

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        operations[pick(&p, WG_COUNT_OF(operations))](&p);
        assert_same(&p);
    }
    wg_chain_clear(&p.chain, p.pool);
    assert_int_equal(wg_pool_used(p.pool), 0);
    assert_null(wg_pool_free(p.pool));
    free(p.model);
}

static void blocks_fit_what_they_hold(void **state)
{
    static const size_t sizes[][2] = {{1, 1024}, {1024, 1024}, {1025, 4096}, {4097, 16384}, {99999, 16384}};
    struct wg_pool *pool = wg_pool_new(0);

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(sizes); i++) {
        struct wg_chain chain = WG_CHAIN_EMPTY;
        size_t room;
        assert_non_null(wg_chain_reserve(&chain, pool, sizes[i][0], &room));
        assert_int_equal(room, sizes[i][1]);
        assert_true(wg_pool_used(pool) > room && wg_pool_used(pool) < room + 64);
        wg_chain_clear(&chain, pool);
        assert_int_equal(wg_pool_used(pool), 0);
    }
    wg_pool_free(pool);
    assert_null(wg_pool_free(NULL));
}

static void spare_blocks_are_used_again(void **state)
{
    struct wg_pool *pool = wg_pool_new(2 * 1100);
    struct wg_chain chain = WG_CHAIN_EMPTY;
    size_t room;

    (void)state;
    char *first = wg_chain_reserve(&chain, pool, 1, &room);
    wg_chain_clear(&chain, pool);
    assert_ptr_equal(wg_chain_reserve(&chain, pool, 1, &room), first);
    wg_chain_clear(&chain, pool);
    wg_pool_free(pool);
}

static void scratch_is_one_buffer(void **state)
{
    struct wg_pool *pool = wg_pool_new(0);
    size_t len = 0;

    (void)state;
    char *scratch = wg_pool_scratch(pool, &len);
    assert_int_equal(len, 64 * 1024);
    memset(scratch, 'x', len);
    assert_ptr_equal(wg_pool_scratch(pool, &len), scratch);
    assert_int_equal(wg_pool_used(pool), 0);
    wg_pool_free(pool);
}

static void a_splice_keeps_the_rest_in_place(void **state)
{
    struct wg_pool *pool = wg_pool_new(0);
    struct wg_chain chain = WG_CHAIN_EMPTY;
    char out[64];

    (void)state;
    wg_chain_append(&chain, pool, "{\"model\":\"a\"}", 13);
    wg_chain_splice(&chain, pool, 10, 1, "qwen/qwen3-8b", 13);
    size_t n = wg_chain_copy(&chain, 0, out, sizeof(out));
    assert_int_equal(n, 25);
    assert_memory_equal(out, "{\"model\":\"qwen/qwen3-8b\"}", 25);
    wg_chain_splice(&chain, pool, 25, 0, "!", 1);
    wg_chain_splice(&chain, pool, 0, 26, NULL, 0);
    assert_int_equal(chain.len, 0);
    wg_chain_clear(&chain, pool);
    wg_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_what_an_array_does),          cmocka_unit_test(blocks_fit_what_they_hold),
        cmocka_unit_test(spare_blocks_are_used_again),      cmocka_unit_test(scratch_is_one_buffer),
        cmocka_unit_test(a_splice_keeps_the_rest_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
