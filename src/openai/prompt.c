/* The tiny request that proves a model. */
#include "wakegate/openai.h"

static void add_text(struct wg_buf *out, const char *before, struct wg_slice text, const char *behind)
{
    (void)wg_buf_add_str(out, before);
    (void)wg_buf_add_json(out, text);
    (void)wg_buf_add_str(out, behind);
}

int wg_prompt_body(struct wg_buf *out, enum wg_prompt_kind kind, struct wg_slice model,
                   struct wg_slice prompt, unsigned max_tokens)
{
    static const struct {
        const char *before, *behind;
    } shape[] = {
        [WG_PROMPT_CHAT] = {",\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]"},
        [WG_PROMPT_COMPLETIONS] = {",\"prompt\":\"", "\""},
        [WG_PROMPT_EMBEDDINGS] = {",\"input\":\"", "\""},
    };
    WG_ASSERT(kind < WG_COUNT_OF(shape));
    add_text(out, "{\"model\":\"", model, "\"");
    add_text(out, shape[kind].before, prompt, shape[kind].behind);
    if (kind != WG_PROMPT_EMBEDDINGS) {
        (void)wg_buf_add_str(out, ",\"max_tokens\":");
        (void)wg_buf_add_u64(out, max_tokens);
        (void)wg_buf_add_str(out, ",\"stream\":false");
    }
    return wg_buf_add_char(out, '}');
}
