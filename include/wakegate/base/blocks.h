/* Chains of blocks from a pool: bodies and outgoing bytes live here, each byte once.
 * A pool and all chains filled from it belong to one thread. Size classes 1, 4 and 16 KiB; freed blocks are
 * kept for reuse up to the pool's limit. Chains do no accounting against caps: who fills a chain charges its
 * bytes first. */
#pragma once

#include <sys/uio.h>

#include "wakegate/base/slice.h"

struct wg_pool;
struct wg_block;

#define WG_BLOCK_MAX (16 * 1024)

struct wg_chain {
    struct wg_block *first, *last;
    size_t len; /* bytes in all blocks */
};

/* A place in a chain, for reading it more than once; valid as long as nothing before it is consumed or
 * spliced. */
struct wg_cursor {
    const struct wg_block *block; /* NULL: at the end, or chain empty when made */
    size_t offset;                /* bytes of that block already passed */
};

/* max_spare: bytes of freed blocks kept. NULL-safe free; all chains must be cleared before. */
struct wg_pool *wg_pool_new(size_t max_spare);
struct wg_pool *wg_pool_free(struct wg_pool *pool);
/* Bytes handed out now, block headers included. */
size_t wg_pool_used(const struct wg_pool *pool);
/* The pool's one read buffer (64 KiB), for bytes that are used before the next call to it. */
char *wg_pool_scratch(struct wg_pool *pool, size_t *ret_len);
/* Gives spare blocks back to the system down to `keep` bytes. */
void wg_pool_trim(struct wg_pool *pool, size_t keep);

#define WG_CHAIN_EMPTY                                                                                       \
    {                                                                                                        \
        0                                                                                                    \
    }

/* Copies the bytes in, filling the last block first and then blocks fitted to what is left. */
void wg_chain_append(struct wg_chain *chain, struct wg_pool *pool, const void *data, size_t len);
/* Writable room of at least one byte at the end, *ret_len bytes of it (a new block of at least `hint` up to
 * WG_BLOCK_MAX when the last is full); commit makes the first `len` of it part of the chain. */
char *wg_chain_reserve(struct wg_chain *chain, struct wg_pool *pool, size_t hint, size_t *ret_len);
void wg_chain_commit(struct wg_chain *chain, size_t len);
/* Drops the first `len` bytes (len <= chain->len) and frees the blocks that are done. */
void wg_chain_consume(struct wg_chain *chain, struct wg_pool *pool, size_t len);
/* Moves all of `from` behind `to` without copying. Same pool. */
void wg_chain_move(struct wg_chain *to, struct wg_chain *from);
void wg_chain_clear(struct wg_chain *chain, struct wg_pool *pool);

/* Replaces the `cut` bytes at `offset` by the bytes given, in place. offset + cut <= chain->len.
 * Cursors into the chain become invalid. */
void wg_chain_splice(struct wg_chain *chain, struct wg_pool *pool, size_t offset, size_t cut,
                     const void *data, size_t len);

/* Up to `max` pieces from the front, for writev; returns how many. */
int wg_chain_iov(const struct wg_chain *chain, struct iovec *iov, int max);
/* Copies up to `len` bytes from `offset` into out; returns how many. */
size_t wg_chain_copy(const struct wg_chain *chain, size_t offset, void *out, size_t len);

struct wg_cursor wg_cursor_begin(const struct wg_chain *chain);
int wg_cursor_iov(struct wg_cursor cursor, struct iovec *iov, int max);
void wg_cursor_advance(struct wg_cursor *cursor, size_t len);
/* Bytes from the cursor to the end. */
size_t wg_cursor_left(struct wg_cursor cursor);
