/* Parameters of Content-Type and Content-Disposition: `type/sub; name=value; name="quoted value"`. */
#pragma once

#include "wakegate/base/slice.h"

enum { FORM_PARAM_MAX = 70 }; /* the longest boundary of RFC 2046 */

struct form_param {
    struct wg_slice name;
    size_t len; /* of the value; what is longer than the maximum is cut in `value` */
    char value[FORM_PARAM_MAX];
};

/* Splits off the value before the parameters, trimmed. */
struct wg_slice form_header_value(struct wg_slice *rest);
/* 1 and the next parameter, 0 at the end, -EINVAL. In quoted strings `\"` and `\\` are unescaped; other
 * backslashes stay, as browsers send them in file names. */
WG_MUST_CHECK int form_header_param(struct wg_slice *rest, struct form_param *ret_param);

static inline struct wg_slice form_param_value(const struct form_param *param)
{
    return wg_slice(param->value, param->len < FORM_PARAM_MAX ? param->len : FORM_PARAM_MAX);
}
