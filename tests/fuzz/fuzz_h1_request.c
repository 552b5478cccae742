/* Request heads: what is taken and written again must parse to the same request. */
#include "fuzz_h1.h"

static void write_request(struct wg_buf *out, const struct wg_request *request)
{
    WG_ASSERT(request->method.len > 0 && request->target.len > 0);
    fuzz_check_slice(request->method);
    fuzz_check_slice(request->target);
    wg_buf_add_slice(out, request->method);
    wg_buf_add_char(out, ' ');
    wg_buf_add_slice(out, request->target);
    wg_buf_add_str(out, request->version == 11 ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
    fuzz_write_fields(out, &request->fields);
    WG_ASSERT(!out->failed);
}

static void check_request(const struct wg_request *request)
{
    static struct wg_request again;
    const char *why = NULL;
    struct wg_buf out = WG_BUF_INIT(1024 * 1024);
    write_request(&out, request);
    WG_ASSERT(wg_h1_parse_request(out.data, out.len, &again, &why) == WG_H1_OK);
    WG_ASSERT(wg_slice_eq(request->method, again.method) && wg_slice_eq(request->target, again.target));
    WG_ASSERT(wg_slice_eq(request->path, again.path) && wg_slice_eq(request->query, again.query));
    WG_ASSERT(request->version == 10 || wg_slice_eq(request->authority, again.authority));
    WG_ASSERT(request->body == again.body && request->content_length == again.content_length);
    WG_ASSERT(request->version == again.version && request->keep_alive == again.keep_alive);
    WG_ASSERT(request->expect_continue == again.expect_continue);
    fuzz_same_fields(&request->fields, &again.fields);
    wg_buf_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wg_request request;
    const char *why = NULL, *text = (const char *)data;
    size_t end = fuzz_head_end(text, size);
    if (end == 0)
        return 0;
    enum wg_h1_result result = wg_h1_parse_request(text, end, &request, &why);
    WG_ASSERT(result == WG_H1_OK || (result != WG_H1_PARTIAL && why != NULL));
    if (result == WG_H1_OK)
        check_request(&request);
    return 0;
}
