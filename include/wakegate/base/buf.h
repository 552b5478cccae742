/* A growable buffer that is born with its maximum. A failed append empties it and marks it failed, every
 * later one fails too: so a run of appends is checked once, at its end. Always NUL-terminated when it holds
 * anything. */
#pragma once

#include "wakegate/base/slice.h"

struct wg_buf {
    char *data;
    size_t len, cap, max;
    bool failed;
};

#define WG_BUF_INIT(maximum)                                                                                 \
    {                                                                                                        \
        .max = (maximum)                                                                                     \
    }

void wg_buf_init(struct wg_buf *buf, size_t max);
/* Frees the memory; the buffer can be used again with the same maximum. */
void wg_buf_clear(struct wg_buf *buf);
/* Keeps the memory, forgets the bytes and the failure. */
void wg_buf_reset(struct wg_buf *buf);

/* 0, or -ENOSPC over the maximum, or -ENOMEM. The result may be ignored if `failed` is looked at later. */
int wg_buf_add(struct wg_buf *buf, const void *data, size_t len);
int wg_buf_add_slice(struct wg_buf *buf, struct wg_slice s);
int wg_buf_add_str(struct wg_buf *buf, const char *text);
int wg_buf_add_char(struct wg_buf *buf, char c);
int wg_buf_addf(struct wg_buf *buf, const char *format, ...) WG_PRINTF(2, 3);
/* Decimal, without printf. */
int wg_buf_add_u64(struct wg_buf *buf, uint64_t value);
/* The text as the inside of a JSON string (no quotes), invalid UTF-8 replaced by U+FFFD. */
int wg_buf_add_json(struct wg_buf *buf, struct wg_slice text);

/* Room for at least `len` more bytes (NULL: see add); commit says how many of them were filled. */
char *wg_buf_reserve(struct wg_buf *buf, size_t len);
void wg_buf_commit(struct wg_buf *buf, size_t len);
/* Drops the first `len` bytes. */
void wg_buf_consume(struct wg_buf *buf, size_t len);

static inline struct wg_slice wg_buf_slice(const struct wg_buf *buf)
{
    return wg_slice(buf->data, buf->len);
}

/* The text, "" when empty; valid until the next change. */
const char *wg_buf_str(const struct wg_buf *buf);
