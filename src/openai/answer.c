/* What Wakegate itself says to clients, in the shapes that their SDKs understand. */
#include "wakegate/openai.h"

static bool has_segments(struct wg_slice path, struct wg_slice segments)
{
    const char *question = path.len > 0 ? memchr(path.ptr, '?', path.len) : NULL;
    if (question != NULL)
        path.len = (size_t)(question - path.ptr);
    for (size_t i = 0; i + segments.len <= path.len; i++) {
        struct wg_slice rest = wg_slice(path.ptr + i, path.len - i);
        if (wg_slice_starts_with(rest, segments) &&
            (rest.len == segments.len || rest.ptr[segments.len] == '/'))
            return true;
    }
    return false;
}

enum wg_api wg_api_of_path(struct wg_slice path)
{
    if (has_segments(path, WG_SLICE("/v1/messages")))
        return WG_API_ANTHROPIC;
    return has_segments(path, WG_SLICE("/v1/responses")) ? WG_API_RESPONSES : WG_API_OPENAI;
}

bool wg_path_answers(struct wg_slice path)
{
    static const char *const silent[] = {"/embeddings", "/rerank",   "/score",      "/pooling",
                                         "/classify",   "/tokenize", "/detokenize", "/count_tokens"};
    for (size_t i = 0; i < WG_COUNT_OF(silent); i++)
        if (has_segments(path, wg_slice_str(silent[i])))
            return false;
    return true;
}

static int add_string(struct wg_buf *out, const char *before, struct wg_slice text)
{
    (void)wg_buf_add_str(out, before);
    (void)wg_buf_add_char(out, '"');
    (void)wg_buf_add_json(out, text);
    return wg_buf_add_char(out, '"');
}

static int add_string_or_null(struct wg_buf *out, const char *before, struct wg_slice text)
{
    if (text.len > 0)
        return add_string(out, before, text);
    (void)wg_buf_add_str(out, before);
    return wg_buf_add_str(out, "null");
}

static struct wg_slice message_or_default(enum wg_reason reason, const char *message)
{
    return wg_slice_str(message != NULL ? message : wg_reason_info(reason)->message);
}

/* The inside of OpenAI's `error` object. */
static void add_openai_members(struct wg_buf *out, enum wg_reason reason, const char *message,
                               const char *param)
{
    const struct wg_reason_info *info = wg_reason_info(reason);
    (void)add_string(out, "\"message\":", message_or_default(reason, message));
    (void)add_string(out, ",\"type\":", wg_slice_str(info->type));
    (void)add_string_or_null(out, ",\"param\":", wg_slice_str(param));
    (void)add_string(out, ",\"code\":", wg_slice_str(info->code));
}

static int add_anthropic_body(struct wg_buf *out, enum wg_reason reason, const char *message,
                              struct wg_slice request_id)
{
    (void)add_string(
        out, "{\"type\":\"error\",\"error\":{\"type\":", wg_slice_str(wg_reason_info(reason)->anthropic));
    (void)add_string(out, ",\"message\":", message_or_default(reason, message));
    (void)add_string_or_null(out, "},\"request_id\":", request_id);
    return wg_buf_add_char(out, '}');
}

int wg_error_body(struct wg_buf *out, enum wg_api api, enum wg_reason reason, const char *message,
                  const char *param, struct wg_slice request_id)
{
    if (api == WG_API_ANTHROPIC)
        return add_anthropic_body(out, reason, message, request_id);
    (void)wg_buf_add_str(out, "{\"error\":{");
    add_openai_members(out, reason, message, param);
    return wg_buf_add_str(out, "}}");
}

/* The API's own event has its members at the top; the SDKs raise only if there is an `error` object too. */
static void add_responses_event(struct wg_buf *out, enum wg_reason reason, const char *message)
{
    (void)add_string(
        out, "event: error\ndata: {\"type\":\"error\",\"code\":", wg_slice_str(wg_reason_info(reason)->code));
    (void)add_string(out, ",\"message\":", message_or_default(reason, message));
    (void)wg_buf_add_str(out, ",\"param\":null,\"sequence_number\":0,\"error\":{");
    add_openai_members(out, reason, message, NULL);
    (void)wg_buf_add_str(out, "}}");
}

int wg_error_event(struct wg_buf *out, enum wg_api api, enum wg_reason reason, const char *message,
                   struct wg_slice request_id)
{
    if (api == WG_API_RESPONSES) {
        add_responses_event(out, reason, message);
    } else {
        (void)wg_buf_add_str(out, api == WG_API_ANTHROPIC ? "event: error\ndata: " : "data: ");
        (void)wg_error_body(out, api, reason, message, NULL, request_id);
    }
    return wg_buf_add_str(out, "\n\n");
}

struct wg_slice wg_heartbeat(enum wg_api api)
{
    return api == WG_API_ANTHROPIC ? WG_SLICE("event: ping\ndata: {\"type\": \"ping\"}\n\n")
                                   : WG_SLICE(": keepalive\n");
}

int wg_model_entry(struct wg_buf *out, struct wg_slice name, const char *state, long eta_seconds)
{
    (void)add_string(out, "{\"id\":", name);
    (void)add_string(out,
                     ",\"object\":\"model\",\"created\":0,\"owned_by\":\"wakegate\",\"wakegate\":{\"state\":",
                     wg_slice_str(state));
    (void)wg_buf_add_str(out, ",\"eta_seconds\":");
    if (eta_seconds < 0)
        (void)wg_buf_add_str(out, "null");
    else
        (void)wg_buf_add_u64(out, (uint64_t)eta_seconds);
    return wg_buf_add_str(out, "}}");
}
