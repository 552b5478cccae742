/* Finds the message in a model server's error body, whatever shape it has, and cleans it for one line of
 * text. */
#include <jansson.h>

#include "utf8.h"
#include "wakegate/openai.h"

static struct wg_slice string_of(const json_t *value)
{
    return json_is_string(value) ? wg_slice(json_string_value(value), json_string_length(value))
                                 : (struct wg_slice){0};
}

/* OpenAI's {"error": {"message"}} and {"error": "text"}, {"message"}, FastAPI's {"detail": "text"} and
 * {"detail": [{"msg"}]}. Empty if it is none of them. */
static struct wg_slice find_message(const json_t *body)
{
    static const char *const names[] = {"error", "message", "detail", "msg", "error_description", "title"};
    for (size_t i = 0; i < WG_COUNT_OF(names); i++) {
        const json_t *value = json_object_get(body, names[i]);
        if (json_is_array(value))
            value = json_array_get(value, 0);
        for (size_t k = 0; json_is_object(value) && k < WG_COUNT_OF(names); k++) {
            const json_t *inner = json_object_get(value, names[k]);
            value = json_is_string(inner) ? inner : value;
        }
        if (string_of(value).len > 0)
            return string_of(value);
    }
    return (struct wg_slice){0};
}

/* A page's title says more than its text. */
static struct wg_slice find_title(struct wg_slice body)
{
    const char *open = memmem(body.ptr, body.len, "<title>", 7);
    if (open == NULL)
        return body;
    open += 7;
    size_t left = body.len - (size_t)(open - body.ptr);
    const char *close = memchr(open, '<', left);
    return wg_slice(open, close ? (size_t)(close - open) : left);
}

struct cleaner {
    struct wg_buf *out;
    size_t left; /* bytes that may still be written */
    bool gap;    /* white space is due before the next character */
    bool begun;
};

static bool put(struct cleaner *cleaner, const char *text, size_t len)
{
    size_t need = len + (cleaner->gap && cleaner->begun);
    if (need > cleaner->left)
        return false;
    if (cleaner->gap && cleaner->begun)
        (void)wg_buf_add_char(cleaner->out, ' ');
    (void)wg_buf_add(cleaner->out, text, len);
    cleaner->left -= need;
    cleaner->gap = false;
    cleaner->begun = true;
    return true;
}

/* White space and control characters become one space, broken UTF-8 becomes U+FFFD, tags are left out. */
static void clean(struct cleaner *cleaner, struct wg_slice text, bool html)
{
    const unsigned char *p = (const unsigned char *)text.ptr, *end = p + text.len;
    while (p < end) {
        const unsigned char *tag = html && *p == '<' ? memchr(p, '>', (size_t)(end - p)) : NULL;
        if (tag != NULL || *p <= ' ' || *p == 0x7f) {
            cleaner->gap = true;
            p = tag ? tag + 1 : p + 1;
            continue;
        }
        size_t len = *p < 0x80 ? 1 : utf8_sequence(p, end);
        bool fits = len > 0 ? put(cleaner, (const char *)p, len) : put(cleaner, "\xef\xbf\xbd", 3);
        if (!fits)
            return;
        p += len > 0 ? len : 1;
    }
}

void wg_error_text(struct wg_slice body, size_t max, struct wg_buf *out)
{
    if (body.len == 0 || out->failed)
        return;
    json_t *json = json_loadb(body.ptr, body.len, JSON_ALLOW_NUL, NULL);
    struct wg_slice text = find_message(json);
    bool html = text.len == 0 && memchr(body.ptr, '<', body.len) != NULL;
    if (text.len == 0)
        text = html ? find_title(body) : body;
    struct cleaner cleaner = {.out = out, .left = WG_MIN(max, out->max - out->len)};
    clean(&cleaner, text, html);
    json_decref(json);
}
