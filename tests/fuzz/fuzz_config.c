/* Any bytes as a configuration: no crash, no leak; and what is right prints as something that is right. */
#include <stdlib.h>
#include <string.h>

#include "wakegate/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Hidden secrets do not read back. */
static bool reads_back(const struct wg_buf *printed)
{
    return !printed->failed && strstr(wg_buf_str(printed), "sha256: \"<redacted>\"") == NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wg_config_faults faults = {0};
    struct wg_config *config = NULL, *again = NULL;
    struct wg_buf printed = WG_BUF_INIT(1 << 20);

    int r = wg_config_parse("fuzz.yaml", wg_slice(data, size), &config, &faults);
    WG_ASSERT((r == 0) == (faults.errors == 0) && (r == 0) == (config != NULL));
    if (r == 0 && wg_config_print(config, &printed) == 0 && reads_back(&printed))
        WG_ASSERT(wg_config_parse("again.yaml", wg_buf_slice(&printed), &again, &faults) == 0);
    wg_config_unref(config);
    wg_config_unref(again);
    wg_buf_clear(&printed);
    wg_config_faults_clear(&faults);
    return 0;
}
