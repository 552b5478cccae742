/* Chains of pooled blocks. A block's bytes are data[start..end); blocks without bytes may stand in a chain
 * (reserved but not filled) and every reader steps over them. */
#include "wakegate/base/blocks.h"

#include <stdlib.h>

enum { CLASSES = 3 };
static const uint32_t class_size[CLASSES] = {1024, 4096, WG_BLOCK_MAX};

struct wg_block {
    struct wg_block *next;
    uint32_t start, end, size; /* size: of data, one of class_size */
    uint32_t class;
    char data[];
};

#define POOL_MAGIC 0x9d1c3b07u

struct wg_pool {
    uint32_t magic;
    size_t used, spare, max_spare; /* bytes, headers included */
    struct wg_block *free[CLASSES];
    char scratch[64 * 1024];
};

static inline size_t block_bytes(const struct wg_block *block)
{
    return sizeof(*block) + block->size;
}

static inline size_t block_len(const struct wg_block *block)
{
    return block->end - block->start;
}

struct wg_pool *wg_pool_new(size_t max_spare)
{
    struct wg_pool *pool = WG_NEW(struct wg_pool);

    pool->magic = POOL_MAGIC;
    pool->max_spare = max_spare;
    return pool;
}

struct wg_pool *wg_pool_free(struct wg_pool *pool)
{
    if (pool == NULL)
        return NULL;
    WG_CHECK_OBJ(pool, POOL_MAGIC);
    WG_ASSERT(pool->used == 0);
    wg_pool_trim(pool, 0);
    pool->magic = 0;
    free(pool);
    return NULL;
}

size_t wg_pool_used(const struct wg_pool *pool)
{
    return pool->used;
}

char *wg_pool_scratch(struct wg_pool *pool, size_t *ret_len)
{
    *ret_len = sizeof(pool->scratch);
    return pool->scratch;
}

void wg_pool_trim(struct wg_pool *pool, size_t keep)
{
    for (int class = CLASSES - 1; class >= 0; class --)
        while (pool->spare > keep && pool->free[class] != NULL) {
            struct wg_block *block = pool->free[class];
            pool->free[class] = block->next;
            pool->spare -= block_bytes(block);
            free(block);
        }
}

/* A block with room for `want` bytes, or the largest there is. */
static struct wg_block *block_get(struct wg_pool *pool, size_t want)
{
    uint32_t class = 0;

    while (class < CLASSES - 1 && class_size[class] < want)
        class ++;
    struct wg_block *block = pool->free[class];
    if (block != NULL) {
        pool->free[class] = block->next;
        pool->spare -= block_bytes(block);
    } else {
        block = wg_xrealloc(NULL, 1, sizeof(*block) + class_size[class]);
        block->size = class_size[class];
        block->class = class;
    }
    block->next = NULL;
    block->start = block->end = 0;
    pool->used += block_bytes(block);
    return block;
}

static void block_put(struct wg_pool *pool, struct wg_block *block)
{
    size_t bytes = block_bytes(block);

    WG_ASSERT(pool->used >= bytes);
    pool->used -= bytes;
    if (pool->spare + bytes > pool->max_spare) {
        free(block);
        return;
    }
    block->next = pool->free[block->class];
    pool->free[block->class] = block;
    pool->spare += bytes;
}

static void link_last(struct wg_chain *chain, struct wg_block *block)
{
    if (chain->last != NULL)
        chain->last->next = block;
    else
        chain->first = block;
    chain->last = block;
}

char *wg_chain_reserve(struct wg_chain *chain, struct wg_pool *pool, size_t hint, size_t *ret_len)
{
    struct wg_block *last = chain->last;

    if (last == NULL || last->end == last->size) {
        last = block_get(pool, hint);
        link_last(chain, last);
    }
    *ret_len = last->size - last->end;
    return last->data + last->end;
}

void wg_chain_commit(struct wg_chain *chain, size_t len)
{
    struct wg_block *last = chain->last;

    WG_ASSERT(last != NULL && len <= last->size - last->end);
    last->end += (uint32_t)len;
    chain->len += len;
}

void wg_chain_append(struct wg_chain *chain, struct wg_pool *pool, const void *data, size_t len)
{
    const char *from = data;

    while (len > 0) {
        size_t room;
        char *to = wg_chain_reserve(chain, pool, len, &room);
        size_t part = WG_MIN(room, len);
        memcpy(to, from, part);
        wg_chain_commit(chain, part);
        from += part;
        len -= part;
    }
}

void wg_chain_consume(struct wg_chain *chain, struct wg_pool *pool, size_t len)
{
    WG_ASSERT(len <= chain->len);
    chain->len -= len;
    if (chain->len == 0) {
        wg_chain_clear(chain, pool);
        return;
    }
    for (;;) {
        struct wg_block *block = chain->first;
        WG_ASSERT(block != NULL);
        size_t have = block_len(block);
        if (len < have) {
            block->start += (uint32_t)len;
            return;
        }
        len -= have;
        chain->first = block->next;
        block_put(pool, block);
    }
}

void wg_chain_move(struct wg_chain *to, struct wg_chain *from)
{
    if (from->first == NULL)
        return;
    if (to->last != NULL)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    to->len += from->len;
    *from = (struct wg_chain)WG_CHAIN_EMPTY;
}

void wg_chain_clear(struct wg_chain *chain, struct wg_pool *pool)
{
    struct wg_block *next;

    for (struct wg_block *block = chain->first; block != NULL; block = next) {
        next = block->next;
        block_put(pool, block);
    }
    *chain = (struct wg_chain)WG_CHAIN_EMPTY;
}

/* Cuts the chain at `offset` and returns what was behind it; a block that straddles the cut gives its rest to
 * a new one. */
static struct wg_chain split(struct wg_chain *chain, struct wg_pool *pool, size_t offset)
{
    struct wg_chain tail = WG_CHAIN_EMPTY;
    struct wg_block *block = chain->first;
    size_t before = offset; /* bytes of `block` that stay */

    if (offset >= chain->len)
        return tail;
    if (offset == 0) {
        wg_chain_move(&tail, chain);
        return tail;
    }
    while (before > block_len(block)) {
        before -= block_len(block);
        block = block->next;
        WG_ASSERT(block != NULL);
    }
    tail.len = chain->len - offset;
    size_t rest = block_len(block) - before;
    if (rest > 0) {
        struct wg_block *copy = block_get(pool, rest);
        memcpy(copy->data, block->data + block->start + before, rest);
        copy->end = (uint32_t)rest;
        link_last(&tail, copy);
        block->end -= (uint32_t)rest;
    }
    if (block->next != NULL) {
        if (tail.last != NULL)
            tail.last->next = block->next;
        else
            tail.first = block->next;
        tail.last = chain->last;
    }
    block->next = NULL;
    chain->last = block;
    chain->len = offset;
    return tail;
}

void wg_chain_splice(struct wg_chain *chain, struct wg_pool *pool, size_t offset, size_t cut,
                     const void *data, size_t len)
{
    WG_ASSERT(offset <= chain->len && cut <= chain->len - offset);
    struct wg_chain tail = split(chain, pool, offset);

    wg_chain_consume(&tail, pool, cut);
    wg_chain_append(chain, pool, data, len);
    wg_chain_move(chain, &tail);
}

int wg_chain_iov(const struct wg_chain *chain, struct iovec *iov, int max)
{
    return wg_cursor_iov(wg_cursor_begin(chain), iov, max);
}

size_t wg_chain_copy(const struct wg_chain *chain, size_t offset, void *out, size_t len)
{
    const struct wg_block *block = chain->first;
    size_t done = 0;

    for (; block != NULL && offset >= block_len(block); block = block->next)
        offset -= block_len(block);
    for (; block != NULL && done < len; block = block->next, offset = 0) {
        size_t part = WG_MIN(block_len(block) - offset, len - done);
        memcpy((char *)out + done, block->data + block->start + offset, part);
        done += part;
    }
    return done;
}

/* Leaves the cursor on a block that has bytes to read, or at the end. */
static void cursor_settle(struct wg_cursor *cursor)
{
    while (cursor->block != NULL && cursor->offset >= block_len(cursor->block)) {
        cursor->offset -= block_len(cursor->block);
        cursor->block = cursor->block->next;
    }
}

struct wg_cursor wg_cursor_begin(const struct wg_chain *chain)
{
    struct wg_cursor cursor = {.block = chain->first};

    cursor_settle(&cursor);
    return cursor;
}

int wg_cursor_iov(struct wg_cursor cursor, struct iovec *iov, int max)
{
    int n = 0;

    for (const struct wg_block *block = cursor.block; block != NULL && n < max; block = block->next) {
        size_t len = block_len(block) - cursor.offset;
        if (len > 0) {
            const char *base = block->data + block->start + cursor.offset;
            /* writev does not write to what it is given */
            iov[n++] = (struct iovec){.iov_base = (void *)(uintptr_t)base, .iov_len = len};
        }
        cursor.offset = 0;
    }
    return n;
}

void wg_cursor_advance(struct wg_cursor *cursor, size_t len)
{
    cursor->offset += len;
    cursor_settle(cursor);
    WG_ASSERT(cursor->block != NULL || cursor->offset == 0);
}

size_t wg_cursor_left(struct wg_cursor cursor)
{
    size_t left = 0;

    for (const struct wg_block *block = cursor.block; block != NULL; block = block->next)
        left += block_len(block);
    return left - cursor.offset;
}
