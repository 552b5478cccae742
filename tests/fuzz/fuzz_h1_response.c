/* Response heads, to a GET and to a HEAD: what is taken and written again must parse to the same response. */
#include "fuzz_h1.h"

static void write_response(struct wg_buf *out, const struct wg_response *response)
{
    WG_ASSERT(response->status >= 100 && response->status <= 599);
    wg_buf_add_str(out, response->version == 11 ? "HTTP/1.1 " : "HTTP/1.0 ");
    wg_buf_add_u64(out, (uint64_t)response->status);
    wg_buf_add_str(out, "\r\n");
    fuzz_write_fields(out, &response->fields);
    WG_ASSERT(!out->failed);
}

static void check_response(const struct wg_response *response, struct wg_slice method)
{
    static struct wg_response again;
    const char *why = NULL;
    struct wg_buf out = WG_BUF_INIT(1024 * 1024);
    write_response(&out, response);
    WG_ASSERT(wg_h1_parse_response(out.data, out.len, method, &again, &why) == WG_H1_OK);
    WG_ASSERT(response->status == again.status && response->version == again.version);
    WG_ASSERT(response->body == again.body && response->content_length == again.content_length);
    WG_ASSERT(response->keep_alive == again.keep_alive);
    WG_ASSERT(response->body != WG_BODY_CLOSE || !response->keep_alive);
    fuzz_same_fields(&response->fields, &again.fields);
    wg_buf_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct wg_slice methods[] = {{"GET", 3}, {"HEAD", 4}};
    static struct wg_response response;
    const char *text = (const char *)data;
    size_t end = fuzz_head_end(text, size);
    for (size_t i = 0; end > 0 && i < WG_COUNT_OF(methods); i++) {
        const char *why = NULL;
        enum wg_h1_result result = wg_h1_parse_response(text, end, methods[i], &response, &why);
        WG_ASSERT(result == WG_H1_OK || (result != WG_H1_PARTIAL && why != NULL));
        if (result == WG_H1_OK)
            check_response(&response, methods[i]);
    }
    return 0;
}
