/* Decides whether a 2xx answer to the probe is an answer of a model: JSON or, for a probe of one's own, SSE.
 */
#include <jansson.h>

#include "utf8.h"
#include "wakegate/openai.h"

struct judge {
    enum wg_prompt_kind kind;
    struct wg_buf *text; /* may be NULL */
    bool answered;       /* something that a model made was seen */
};

static struct wg_slice string_of(const json_t *value)
{
    return json_is_string(value) ? wg_slice(json_string_value(value), json_string_length(value))
                                 : (struct wg_slice){0};
}

static bool is_text(const json_t *value, struct wg_slice text)
{
    return json_is_string(value) && wg_slice_eq(string_of(value), text);
}

/* As much as fits: a long answer is no failure. */
static void add_text(struct judge *judge, struct wg_slice text)
{
    if (judge->text != NULL && !judge->text->failed)
        (void)wg_buf_add_slice(judge->text, utf8_head(text, judge->text->max - judge->text->len));
}

static bool is_truthy(const json_t *value)
{
    switch (value != NULL ? json_typeof(value) : JSON_NULL) {
    case JSON_NULL:
    case JSON_FALSE:
        return false;
    case JSON_STRING:
        return json_string_length(value) > 0;
    case JSON_ARRAY:
        return json_array_size(value) > 0;
    case JSON_OBJECT:
        return json_object_size(value) > 0;
    case JSON_INTEGER:
    case JSON_REAL:
        return json_number_value(value) != 0;
    default:
        return true;
    }
}

/* An `error` member, or the shape of servers that put the error's members at the top. */
static bool has_error(const json_t *body)
{
    return is_truthy(json_object_get(body, "error")) ||
           is_text(json_object_get(body, "object"), WG_SLICE("error")) ||
           is_text(json_object_get(body, "type"), WG_SLICE("error")) ||
           is_text(json_object_get(body, "type"), WG_SLICE("response.failed"));
}

static void add_member(struct judge *judge, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_array(value)) {
        add_text(judge, string_of(value));
        return;
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        add_text(judge, string_of(json_object_get(json_array_get(value, i), "text")));
}

/* The text of a choice, of its message or delta, of a part of the content, of a piece of output. */
static void add_answer(struct judge *judge, const json_t *item)
{
    static const char *const names[] = {"reasoning_content", "reasoning", "thinking",
                                        "summary",           "content",   "text"};
    for (size_t i = 0; i < WG_COUNT_OF(names); i++)
        add_member(judge, item, names[i]);
}

/* Choices, Anthropic's content (llama.cpp has a plain string of that name), the output of a response. A
 * choice with empty text is an answer too: of a model that was only thinking, or that had no token left. */
static bool judge_items(struct judge *judge, const json_t *items)
{
    bool broken = false;
    judge->answered |= string_of(items).len > 0;
    add_text(judge, string_of(items));
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        broken |= is_truthy(json_object_get(item, "error"));
        judge->answered |= json_is_object(item);
        add_answer(judge, item);
        add_answer(judge, json_object_get(item, "message"));
        add_answer(judge, json_object_get(item, "delta"));
    }
    return !broken;
}

static bool judge_embeddings(struct judge *judge, const json_t *items)
{
    for (size_t i = 0; i < json_array_size(items); i++)
        judge->answered |= is_truthy(json_object_get(json_array_get(items, i), "embedding"));
    return true;
}

static bool judge_results(struct judge *judge, const json_t *items)
{
    judge->answered |= json_array_size(items) > 0;
    return true;
}

/* Where answers are found, by the kind of the probe. A body of the operator's own may well ask another API.
 */
static const struct {
    const char *name;
    bool (*judge)(struct judge *judge, const json_t *items); /* false: an error inside */
    bool generated;                                          /* not taken for an embedding */
} places[] = {
    {"choices", judge_items, true},    {"content", judge_items, true},    {"output", judge_items, true},
    {"data", judge_embeddings, false}, {"results", judge_results, false},
};

/* The last events of the other APIs' streams, which have no choices. */
static void judge_event(struct judge *judge, const json_t *body)
{
    static const char *const proofs[] = {"content_block_start",        "content_block_delta",
                                         "response.output_text.delta", "response.reasoning_text.delta",
                                         "response.output_item.added", "response.completed"};
    const json_t *delta = json_object_get(body, "delta");
    for (size_t i = 0; i < WG_COUNT_OF(proofs); i++) {
        if (!is_text(json_object_get(body, "type"), wg_slice_str(proofs[i])))
            continue;
        judge->answered = judge->kind != WG_PROMPT_EMBEDDINGS;
        add_text(judge, string_of(delta));
        add_answer(judge, delta);
    }
}

static enum wg_prompt_verdict judge_json(struct judge *judge, struct wg_slice body)
{
    json_t *json = json_loadb(body.ptr, body.len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    enum wg_prompt_verdict verdict = WG_PROMPT_OK;
    if (!json_is_object(json)) {
        verdict = WG_PROMPT_NOT_JSON;
    } else if (has_error(json)) {
        verdict = WG_PROMPT_ERROR_INSIDE;
    } else {
        for (size_t i = 0; i < WG_COUNT_OF(places); i++) {
            if (places[i].generated && judge->kind == WG_PROMPT_EMBEDDINGS)
                continue;
            if (!places[i].judge(judge, json_object_get(json, places[i].name)))
                verdict = WG_PROMPT_ERROR_INSIDE;
        }
        judge_event(judge, json);
    }
    json_decref(json);
    return verdict;
}

/* ---- SSE ---- */

/* The next line, without its end (LF, CR LF or CR); false when there is none. */
static bool next_line(struct wg_slice *rest, struct wg_slice *ret_line)
{
    if (rest->len == 0)
        return false;
    size_t len = 0;
    while (len < rest->len && rest->ptr[len] != '\n' && rest->ptr[len] != '\r')
        len++;
    *ret_line = wg_slice(rest->ptr, len);
    if (len + 1 < rest->len && rest->ptr[len] == '\r' && rest->ptr[len + 1] == '\n')
        len++;
    len += len < rest->len;
    *rest = wg_slice(rest->ptr + len, rest->len - len);
    return true;
}

static bool is_field(struct wg_slice line, struct wg_slice name, struct wg_slice *ret_value)
{
    if (!wg_slice_starts_with(line, name))
        return false;
    *ret_value = wg_slice(line.ptr + name.len, line.len - name.len);
    if (ret_value->len > 0 && ret_value->ptr[0] == ' ')
        *ret_value = wg_slice(ret_value->ptr + 1, ret_value->len - 1);
    return true;
}

static bool is_sse(struct wg_slice body)
{
    static const char *const starts[] = {":", "data:", "event:", "id:", "retry:"};
    for (size_t i = 0; i < WG_COUNT_OF(starts); i++)
        if (wg_slice_starts_with(body, wg_slice_str(starts[i])))
            return true;
    return false;
}

static enum wg_prompt_verdict judge_data(struct judge *judge, const struct wg_buf *data, bool error_event,
                                         struct wg_slice *ret_error)
{
    struct wg_slice body = wg_buf_slice(data);
    if (body.len == 0 || wg_slice_starts_with(body, WG_SLICE("[DONE]")))
        return WG_PROMPT_OK;
    enum wg_prompt_verdict verdict = error_event ? WG_PROMPT_ERROR_INSIDE : judge_json(judge, body);
    if (verdict == WG_PROMPT_ERROR_INSIDE)
        *ret_error = body;
    return verdict;
}

static void add_error(struct judge *judge, struct wg_slice body)
{
    if (judge->text == NULL || judge->text->failed)
        return;
    wg_buf_reset(judge->text);
    wg_error_text(body, judge->text->max, judge->text);
}

/* The first event that is no good decides; an event that the end cuts off does not count. */
static enum wg_prompt_verdict judge_sse(struct judge *judge, struct wg_slice body)
{
    enum wg_prompt_verdict verdict = WG_PROMPT_OK;
    struct wg_buf data = WG_BUF_INIT(body.len);
    struct wg_slice rest = body, line, value, error = {0};
    bool error_event = false;
    while (verdict == WG_PROMPT_OK && next_line(&rest, &line)) {
        if (line.len == 0) {
            verdict = judge_data(judge, &data, error_event, &error);
            if (verdict != WG_PROMPT_OK)
                break;
            wg_buf_reset(&data);
            error_event = false;
        } else if (is_field(line, WG_SLICE("event:"), &value)) {
            error_event = wg_slice_eq(value, WG_SLICE("error"));
        } else if (is_field(line, WG_SLICE("data:"), &value)) {
            (void)wg_buf_add_str(&data, data.len > 0 ? "\n" : "");
            (void)wg_buf_add_slice(&data, value);
        }
    }
    if (verdict == WG_PROMPT_ERROR_INSIDE)
        add_error(judge, error);
    wg_buf_clear(&data);
    return verdict;
}

static struct wg_slice without_leading_space(struct wg_slice body)
{
    size_t skip = 0;
    while (skip < body.len && strchr(" \t\r\n", body.ptr[skip]) != NULL && body.ptr[skip] != '\0')
        skip++;
    return wg_slice(body.ptr + skip, body.len - skip);
}

enum wg_prompt_verdict wg_prompt_judge(enum wg_prompt_kind kind, struct wg_slice body,
                                       struct wg_buf *ret_text)
{
    struct judge judge = {.kind = kind, .text = ret_text};
    enum wg_prompt_verdict verdict;
    body = without_leading_space(body);
    if (is_sse(body)) {
        verdict = judge_sse(&judge, body);
    } else {
        verdict = judge_json(&judge, body);
        if (verdict == WG_PROMPT_ERROR_INSIDE)
            add_error(&judge, body);
    }
    return verdict == WG_PROMPT_OK && !judge.answered ? WG_PROMPT_NO_CHOICES : verdict;
}
