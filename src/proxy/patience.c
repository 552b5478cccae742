/* How long a client says that it will wait: `Prefer: wait=SECONDS` (RFC 7240) and what the official SDKs
 * announce. */
#include "exchange.h"

#define SECONDS_MAX 86400

/* Whole seconds with an optional fraction, which is dropped; a parameter behind ";" ends it. */
static wg_usec seconds(struct wg_slice text)
{
    struct wg_slice whole;
    text = wg_slice_trim(text);
    if (text.len >= 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"')
        text = wg_slice(text.ptr + 1, text.len - 2);
    wg_slice_split(&text, '.', &whole);
    uint64_t value;
    if (wg_slice_to_u64(whole, &value) < 0)
        return WG_USEC_NEVER;
    return (wg_usec)WG_MIN(value, (uint64_t)SECONDS_MAX) * WG_USEC_PER_SEC;
}

wg_usec patience_prefer(const struct wg_fields *fields)
{
    for (unsigned i = 0; i < fields->n; i++) {
        if (fields->items[i].token != WG_TOKEN_PREFER)
            continue;
        struct wg_slice rest = fields->items[i].value, item, name;
        while (wg_slice_split(&rest, ',', &item)) {
            struct wg_slice first;
            wg_slice_split(&item, ';', &first); /* parameters of the preference are not ours */
            if (!wg_slice_split(&first, '=', &name) || !first.ptr)
                continue;
            if (wg_slice_eq_nocase(wg_slice_trim(name), WG_SLICE("wait")))
                return seconds(first);
        }
    }
    return WG_USEC_NEVER;
}

wg_usec patience_announced(const struct wg_fields *fields)
{
    const struct wg_field *field = wg_fields_get(fields, WG_TOKEN_X_STAINLESS_READ_TIMEOUT);
    if (!field)
        field = wg_fields_get(fields, WG_TOKEN_X_STAINLESS_TIMEOUT);
    const wg_usec wait = field ? seconds(field->value) : WG_USEC_NEVER;
    if (wait == WG_USEC_NEVER || wait == 0)
        return WG_USEC_NEVER;
    /* The margin: our answer must be there before the client's clock ends, network included. */
    const wg_usec margin = WG_MAX(wait / 20, WG_MIN(wait / 4, WG_USEC_PER_SEC));
    return wait - margin;
}
