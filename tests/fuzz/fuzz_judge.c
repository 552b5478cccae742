/* What model servers may answer: the probe's judgement and the text of errors, which must be clean whatever
 * comes. */
#include "wakegate/openai.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { TEXT_MAX = 100 };
    struct wg_slice body = wg_slice(data, size);
    struct wg_buf text = WG_BUF_INIT(TEXT_MAX);
    for (int kind = WG_PROMPT_CHAT; kind <= WG_PROMPT_EMBEDDINGS; kind++) {
        wg_buf_reset(&text);
        enum wg_prompt_verdict verdict = wg_prompt_judge((enum wg_prompt_kind)kind, body, &text);
        WG_ASSERT(!text.failed && text.len <= TEXT_MAX);
        WG_ASSERT(verdict == wg_prompt_judge((enum wg_prompt_kind)kind, body, NULL));
    }
    wg_buf_reset(&text);
    wg_error_text(body, TEXT_MAX / 2, &text);
    WG_ASSERT(!text.failed && text.len <= TEXT_MAX / 2);
    WG_ASSERT(!wg_slice_has_control(wg_buf_slice(&text)));
    wg_buf_clear(&text);
    return 0;
}
