/* Header blocks of HTTP/2 into what makes requests and trailers of them. The session that decodes them checks
 * nothing itself, so that everything HPACK can carry arrives. The input's first byte: trailers or not, the
 * end of the stream or not, and how small the limit is. */
#include "fuzz_h2.h"
#include "http/h2_head.h"

enum { TRAILERS = 1, END_STREAM = 2, SMALL = 4, BLOCK_MAX = 16384, FRAME_HEAD = 9 };

static int on_header(nghttp2_session *session WG_UNUSED, const nghttp2_frame *frame WG_UNUSED,
                     nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags WG_UNUSED, void *head)
{
    WG_ASSERT(h2_head_add(head, name, value) == !h2_head_overflowed(head));
    return 0;
}

static nghttp2_session *new_session(struct h2_head *head)
{
    nghttp2_option *option;
    nghttp2_session *session;
    nghttp2_session_callbacks *callbacks;
    WG_ASSERT(nghttp2_option_new(&option) == 0 && nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_option_set_no_recv_client_magic(option, 1);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
    WG_ASSERT(nghttp2_session_server_new2(&session, callbacks, head, option) == 0);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return session;
}

/* The session ends before the head is looked at: the head holds what it needs. */
static void receive(struct h2_head *head, const uint8_t *block, size_t len)
{
    const uint8_t frames[2 * FRAME_HEAD] = {
        [3] = NGHTTP2_SETTINGS,
        [FRAME_HEAD + 1] = (uint8_t)(len >> 8),
        [FRAME_HEAD + 2] = (uint8_t)len,
        [FRAME_HEAD + 3] = NGHTTP2_HEADERS,
        [FRAME_HEAD + 4] = NGHTTP2_FLAG_END_HEADERS,
        [FRAME_HEAD + 8] = 1,
    };
    nghttp2_session *session = new_session(head);
    WG_ASSERT(nghttp2_session_mem_recv(session, frames, sizeof(frames)) == sizeof(frames));
    nghttp2_session_mem_recv(session, block, len);
    nghttp2_session_del(session);
}

static void check_trailers(const struct wg_fields *fields)
{
    for (unsigned i = 0; i < fields->n; i++) {
        fuzz_check_slice(fields->items[i].name);
        fuzz_check_slice(fields->items[i].value);
        WG_ASSERT(fields->items[i].token == WG_TOKEN_OTHER && fields->items[i].name.ptr[0] != ':');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *why = NULL;
    enum wg_h1_result result;
    if (size < 1 || size > BLOCK_MAX)
        return 0;
    struct h2_head *head = h2_head_new(data[0] & SMALL ? 300 : 64 * 1024);
    receive(head, data + 1, size - 1);
    if (data[0] & TRAILERS) {
        const struct wg_fields *fields;
        result = h2_head_trailers(head, &fields, &why);
        if (result == WG_H1_OK)
            check_trailers(fields);
    } else {
        const struct wg_request *request;
        result = h2_head_request(head, data[0] & END_STREAM, &request, &why);
        if (result == WG_H1_OK)
            fuzz_check_request(request);
        if (result == WG_H1_OK && (data[0] & END_STREAM))
            WG_ASSERT(request->body != WG_BODY_CHUNKED && request->content_length == 0);
    }
    WG_ASSERT(result == WG_H1_OK || result == WG_H1_BAD || result == WG_H1_TOO_LARGE);
    WG_ASSERT((result != WG_H1_OK) == (why != NULL));
    h2_head_free(head);
    return 0;
}
