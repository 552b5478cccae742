/* Answers of an API server to the calls about a workload's scale: whatever comes, words are clean and numbers
 * within their bounds. */
#include <stdlib.h>

#include "objects.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_words(const char *words)
{
    WG_ASSERT(strlen(words) <= KUBE_MESSAGE_MAX);
    WG_ASSERT(!wg_slice_has_control(wg_slice_str(words)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct wg_slice body = wg_slice(data, size);
    char words[KUBE_MESSAGE_MAX + 1];
    struct kube_status status;
    kube_parse_status(body, &status);
    check_words(status.message);
    WG_ASSERT(status.retry_after >= 0 && status.retry_after <= 3600 * WG_USEC_PER_SEC);

    struct wg_kube_scale scale;
    json_t *root = kube_parse_scale(body, &scale);
    if (root) {
        WG_ASSERT(scale.replicas >= 0 && scale.observed >= 0 && scale.selector);
        WG_ASSERT(strlen(scale.resource_version) > 0);
    }
    json_decref(root);

    char *plural = NULL;
    bool scales = false;
    if (kube_parse_plural(body, "Foo", &plural, &scales) == 0)
        WG_ASSERT(plural[0] != '\0' && !strchr(plural, '/'));
    free(plural);
    if (kube_parse_replica_failure(body, words))
        check_words(words);
    if (kube_parse_failed_create(body, words))
        check_words(words);
    return 0;
}
