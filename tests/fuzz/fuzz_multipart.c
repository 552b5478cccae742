/* Forms read whole and in pieces must come to the same end. The input's first byte chooses the boundary. */
#include <stdlib.h>

#include "wakegate/openai.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const types[] = {"multipart/form-data; boundary=x", "multipart/form-data; boundary=\"--\"",
                                    "multipart/form-data; boundary=abcab"};

static struct wg_multipart *read_form(const char *type, const uint8_t *data, size_t size, size_t piece,
                                      bool *ret_accepted)
{
    struct wg_multipart *form = wg_multipart_new(wg_slice_str(type));
    int r = 0;
    for (size_t at = 0, len; at < size && r == 0; at += len) {
        len = WG_MIN(piece, size - at);
        char *copy = malloc(len);
        WG_ASSERT(copy != NULL);
        memcpy(copy, data + at, len);
        r = wg_multipart_feed(form, copy, len);
        free(copy);
    }
    *ret_accepted = r == 0 && wg_multipart_finish(form) == 0;
    return form;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Content-Type is a stranger's too. */
    wg_multipart_free(wg_multipart_new(wg_slice(data, size)));
    if (size < 1)
        return 0;
    const char *type = types[data[0] % WG_COUNT_OF(types)];
    bool accepted, accepted_split;
    struct wg_multipart *whole = read_form(type, data + 1, size - 1, size, &accepted);
    for (size_t piece = 1; piece <= 9; piece += 4) {
        struct wg_multipart *split = read_form(type, data + 1, size - 1, piece, &accepted_split);
        WG_ASSERT(accepted == accepted_split);
        WG_ASSERT(strcmp(wg_multipart_error(whole), wg_multipart_error(split)) == 0);
        const struct wg_skim_result *a = wg_multipart_result(whole), *b = wg_multipart_result(split);
        WG_ASSERT(!accepted || memcmp(a, b, sizeof(*a)) == 0);
        wg_multipart_free(split);
    }
    const struct wg_skim_result *result = wg_multipart_result(whole);
    if (result->has_model)
        WG_ASSERT(memcmp(data + 1 + result->model_at, result->model, result->model_size) == 0);
    wg_multipart_free(whole);
    return 0;
}
