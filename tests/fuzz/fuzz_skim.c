/* The skim against itself at another split, and against jansson: both take the same bodies, but for what the
 * skim alone refuses by its contract and the few things that jansson cannot read. */
#include <jansson.h>
#include <stdlib.h>

#include "wakegate/openai.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool skim(struct wg_skim *skim, const uint8_t *data, size_t size, size_t piece)
{
    int r = 0;
    for (size_t at = 0, len; at < size && r == 0; at += len) {
        len = WG_MIN(piece, size - at);
        char *copy = malloc(len);
        WG_ASSERT(copy != NULL);
        memcpy(copy, data + at, len);
        r = wg_skim_feed(skim, copy, len);
        free(copy);
    }
    return r == 0 && wg_skim_finish(skim) == 0;
}

/* Refusals that are not about syntax. */
static bool by_contract(const char *error)
{
    static const char *const texts[] = {"duplicate key ", "more than ", " must be ", "nested deeper ",
                                        "the key at byte "};
    for (size_t i = 0; i < WG_COUNT_OF(texts); i++)
        if (strstr(error, texts[i]) != NULL)
            return true;
    return false;
}

/* jansson has no lone surrogates, no numbers beyond a double, no U+0000 in a key. */
static bool beyond_jansson(const json_error_t *error)
{
    return json_error_code(error) == json_error_numeric_overflow ||
           json_error_code(error) == json_error_null_byte_in_key ||
           strstr(error->text, "invalid Unicode") != NULL;
}

static void compare_with_jansson(const struct wg_skim *skim, bool accepted, const uint8_t *data, size_t size)
{
    json_error_t error;
    json_t *json = json_loadb((const char *)data, size, JSON_ALLOW_NUL, &error);
    bool has_nul = size > 0 && memchr(data, 0, size) != NULL; /* jansson reads over one behind a token */
    if (accepted)
        WG_ASSERT(json_is_object(json) || beyond_jansson(&error));
    else
        WG_ASSERT(!json_is_object(json) || has_nul || by_contract(wg_skim_error(skim)));
    if (accepted && json != NULL) {
        const char *model = json_string_value(json_object_get(json, "model"));
        WG_ASSERT((model != NULL) == wg_skim_result(skim)->has_model);
        WG_ASSERT(model == NULL || strcmp(model, wg_skim_result(skim)->model) == 0);
        WG_ASSERT((json_object_size(json) == 0) == wg_skim_result(skim)->object_empty);
        WG_ASSERT(json_is_true(json_object_get(json, "stream")) == wg_skim_result(skim)->stream);
    }
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wg_skim *whole = wg_skim_new(), *split = wg_skim_new();
    bool accepted = skim(whole, data, size, size);
    for (size_t piece = 1; piece <= 9; piece += 4) {
        wg_skim_reset(split);
        WG_ASSERT(skim(split, data, size, piece) == accepted);
        WG_ASSERT(strcmp(wg_skim_error(whole), wg_skim_error(split)) == 0);
        WG_ASSERT(memcmp(wg_skim_result(whole), wg_skim_result(split), sizeof(struct wg_skim_result)) == 0);
    }
    WG_ASSERT(wg_skim_result(whole)->text_bytes <= 3 * size);
    compare_with_jansson(whole, accepted, data, size);
    wg_skim_free(whole);
    wg_skim_free(split);
    return 0;
}
