/* Help for the tests of HTTP/2 header blocks: a real block, encoded by HPACK and decoded by a session of
 * nghttp2 that checks nothing itself, so that every field arrives. */
#pragma once

#include "h1_check.h"
#include "http/h2_head.h"

/* A list of fields as one literal: H2_FIELD("name", "value") H2_FIELD(...). */
#define H2_FIELD(name, value) name "\x1f" value "\x1e"

enum { H2_FRAME_MAX = 16384, H2_HEADERS = 1, H2_CONTINUATION = 9, H2_END_HEADERS = 4, H2_FIELDS_MAX = 256 };

static inline size_t h2_frame(uint8_t *out, size_t len, uint8_t type, uint8_t flags, uint8_t stream)
{
    const uint8_t head[9] = {
        (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type, flags, 0, 0, 0, stream};
    memcpy(out, head, sizeof(head));
    return sizeof(head);
}

static inline size_t h2_encode(struct wg_slice text, uint8_t *out, size_t room)
{
    size_t n = 0;
    struct wg_slice field, name;
    nghttp2_nv nv[H2_FIELDS_MAX];
    nghttp2_hd_deflater *deflater;
    while (wg_slice_split(&text, '\x1e', &field) && text.ptr) {
        assert_true(n < H2_FIELDS_MAX);
        assert_true(wg_slice_split(&field, '\x1f', &name));
        nv[n++] = (nghttp2_nv){(uint8_t *)(uintptr_t)name.ptr, (uint8_t *)(uintptr_t)field.ptr, name.len,
                               field.len, NGHTTP2_NV_FLAG_NONE};
    }
    assert_int_equal(nghttp2_hd_deflate_new(&deflater, 4096), 0);
    ssize_t len = nghttp2_hd_deflate_hd(deflater, out, room, nv, n);
    nghttp2_hd_deflate_del(deflater);
    assert_true(len >= 0);
    return (size_t)len;
}

static inline int h2_on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                               nghttp2_rcbuf *value, uint8_t flags, void *head)
{
    (void)session, (void)frame, (void)flags;
    bool within = h2_head_add(head, name, value);
    assert_int_equal(within, !h2_head_overflowed(head));
    return 0;
}

static inline nghttp2_session *h2_session(struct h2_head *head, nghttp2_mem *mem)
{
    nghttp2_option *option;
    nghttp2_session *session;
    nghttp2_session_callbacks *callbacks;
    assert_int_equal(nghttp2_option_new(&option), 0);
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_option_set_no_recv_client_magic(option, 1);
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, h2_on_header);
    assert_int_equal(nghttp2_session_server_new3(&session, callbacks, head, option, mem), 0);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return session;
}

/* Adds the whole list to head; mem may be NULL. The session is gone when this returns, the head is not. */
static inline void h2_receive(struct h2_head *head, struct wg_slice text, nghttp2_mem *mem)
{
    enum { ROOM = 256 * 1024 };
    uint8_t *block = malloc(ROOM), frame[9 + H2_FRAME_MAX];
    assert_non_null(block);
    const size_t len = h2_encode(text, block, ROOM);
    nghttp2_session *session = h2_session(head, mem);
    assert_int_equal(nghttp2_session_mem_recv(session, frame, h2_frame(frame, 0, NGHTTP2_SETTINGS, 0, 0)), 9);
    for (size_t at = 0; at == 0 || at < len;) {
        const size_t part = WG_MIN(len - at, (size_t)H2_FRAME_MAX);
        const bool last = at + part == len;
        const size_t head_len =
            h2_frame(frame, part, at == 0 ? H2_HEADERS : H2_CONTINUATION, last ? H2_END_HEADERS : 0, 1);
        memcpy(frame + head_len, block + at, part);
        assert_int_equal(nghttp2_session_mem_recv(session, frame, head_len + part), head_len + part);
        at += part;
        if (last)
            break;
    }
    nghttp2_session_del(session);
    free(block);
}
