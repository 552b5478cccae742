/* The growable buffer with a maximum: growth doubles, a failure sticks until the buffer is reset or cleared.
 */
#include "wakegate/base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void wg_buf_init(struct wg_buf *buf, size_t max)
{
    *buf = (struct wg_buf)WG_BUF_INIT(max);
}

void wg_buf_clear(struct wg_buf *buf)
{
    free(buf->data);
    *buf = (struct wg_buf)WG_BUF_INIT(buf->max);
}

void wg_buf_reset(struct wg_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

static int fail(struct wg_buf *buf, int error)
{
    wg_buf_reset(buf);
    buf->failed = true;
    return error;
}

/* Makes room for `len` more bytes and the NUL behind them. */
static int grow(struct wg_buf *buf, size_t len)
{
    if (WG_UNLIKELY(buf->failed || len > buf->max - buf->len))
        return fail(buf, -ENOSPC);
    size_t need = buf->len + len + 1;
    if (WG_LIKELY(need <= buf->cap))
        return 0;
    size_t cap = WG_MAX(WG_MAX(need, buf->cap * 2), (size_t)64);
    cap = WG_MAX(need, WG_MIN(cap, buf->max + 1));
    char *data = realloc(buf->data, cap);
    if (data == NULL)
        return fail(buf, -ENOMEM);
    buf->data = data;
    buf->cap = cap;
    return 0;
}

int wg_buf_add(struct wg_buf *buf, const void *data, size_t len)
{
    int r = grow(buf, len);

    if (r < 0)
        return r;
    if (len > 0)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
    return 0;
}

int wg_buf_add_slice(struct wg_buf *buf, struct wg_slice s)
{
    return wg_buf_add(buf, s.ptr, s.len);
}

int wg_buf_add_str(struct wg_buf *buf, const char *text)
{
    return wg_buf_add(buf, text, strlen(text));
}

int wg_buf_add_char(struct wg_buf *buf, char c)
{
    return wg_buf_add(buf, &c, 1);
}

int wg_buf_addf(struct wg_buf *buf, const char *format, ...)
{
    va_list args, again;

    if (buf->failed)
        return -ENOSPC;
    va_start(args, format);
    va_copy(again, args);
    size_t room = buf->cap > 0 ? buf->cap - buf->len : 0;
    int len = vsnprintf(room > 0 ? buf->data + buf->len : NULL, room, format, args);
    int r = len < 0 ? fail(buf, -EINVAL) : grow(buf, (size_t)len);
    if (r == 0) {
        if ((size_t)len >= room)
            vsnprintf(buf->data + buf->len, (size_t)len + 1, format, again);
        buf->len += (size_t)len;
    }
    va_end(again);
    va_end(args);
    return r;
}

int wg_buf_add_u64(struct wg_buf *buf, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return wg_buf_add(buf, digits + at, sizeof(digits) - at);
}

/* Length of the well-formed UTF-8 sequence at `p` (RFC 3629: no overlong forms, no surrogates), 0 if there is
 * none. */
static size_t utf8_sequence(const unsigned char *p, size_t left)
{
    unsigned char min = 0x80, max = 0xbf;
    size_t len = 0;

    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf)
        len = 2;
    else if ((p[0] & 0xf0) == 0xe0)
        len = 3;
    else if (p[0] >= 0xf0 && p[0] <= 0xf4)
        len = 4;
    if (len == 0 || len > left)
        return 0;
    if (p[0] == 0xe0)
        min = 0xa0;
    else if (p[0] == 0xed)
        max = 0x9f;
    else if (p[0] == 0xf0)
        min = 0x90;
    else if (p[0] == 0xf4)
        max = 0x8f;
    if (p[1] < min || p[1] > max)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

static void add_json_escape(struct wg_buf *buf, unsigned char c)
{
    static const char names[] = "\"\"\\\\\bb\ff\nn\rr\tt";

    for (size_t i = 0; i + 1 < sizeof(names); i += 2)
        if ((unsigned char)names[i] == c) {
            char escape[2] = {'\\', names[i + 1]};
            wg_buf_add(buf, escape, 2);
            return;
        }
    wg_buf_addf(buf, "\\u%04x", c);
}

int wg_buf_add_json(struct wg_buf *buf, struct wg_slice text)
{
    const unsigned char *p = (const unsigned char *)text.ptr;
    size_t plain = 0; /* start of the run that goes out as it is */

    for (size_t i = 0; i < text.len;) {
        size_t len = utf8_sequence(p + i, text.len - i);
        if (len > 0 && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\' && p[i] != 0x7f) {
            i += len;
            continue;
        }
        wg_buf_add(buf, p + plain, i - plain);
        if (len == 0)
            wg_buf_add_str(buf, "\xef\xbf\xbd");
        else
            add_json_escape(buf, p[i]);
        plain = ++i;
    }
    if (text.len > plain)
        wg_buf_add(buf, p + plain, text.len - plain);
    return buf->failed ? -ENOSPC : 0;
}

char *wg_buf_reserve(struct wg_buf *buf, size_t len)
{
    return grow(buf, len) < 0 ? NULL : buf->data + buf->len;
}

void wg_buf_commit(struct wg_buf *buf, size_t len)
{
    WG_ASSERT(len < buf->cap - buf->len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void wg_buf_consume(struct wg_buf *buf, size_t len)
{
    WG_ASSERT(len <= buf->len);
    if (len == 0)
        return;
    memmove(buf->data, buf->data + len, buf->len - len + 1);
    buf->len -= len;
}

const char *wg_buf_str(const struct wg_buf *buf)
{
    return buf->len > 0 ? buf->data : "";
}
