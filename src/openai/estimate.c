/* How many tokens a request will cost, before any of it has run. */
#include "tokens.h"
#include "wakegate/openai.h"

enum { BYTES_PER_TOKEN = 4 };

uint64_t wg_tokens_estimate(const struct wg_skim_result *result, unsigned default_max_tokens,
                            unsigned per_image, bool answers)
{
    uint64_t text = result->text_bytes / BYTES_PER_TOKEN + (result->text_bytes % BYTES_PER_TOKEN != 0);
    uint64_t total = wg_tokens_sum(text, result->number_tokens);
    total = wg_tokens_sum(total, wg_tokens_product(result->media_parts, per_image));
    if (answers)
        total = wg_tokens_sum(total, result->answer_cap > 0 ? result->answer_cap : default_max_tokens);
    return total;
}
