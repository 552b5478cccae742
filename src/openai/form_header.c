/* Reads the parameters of MIME headers, strictly: an unbalanced quote or a name without a value is an error.
 */
#include "form_header.h"

#include <errno.h>

static bool is_token(char c)
{
    return c > ' ' && c < 0x7f && strchr("()<>@,;:\\\"/[]?={}", c) == NULL;
}

static void skip_space(struct wg_slice *rest)
{
    while (rest->len > 0 && (rest->ptr[0] == ' ' || rest->ptr[0] == '\t')) {
        rest->ptr++;
        rest->len--;
    }
}

static char take(struct wg_slice *rest)
{
    WG_ASSERT(rest->len > 0);
    rest->len--;
    return *rest->ptr++;
}

static void add(struct form_param *param, char c)
{
    if (param->len < FORM_PARAM_MAX)
        param->value[param->len] = c;
    param->len++;
}

struct wg_slice form_header_value(struct wg_slice *rest)
{
    const char *semicolon = rest->len > 0 ? memchr(rest->ptr, ';', rest->len) : NULL;
    size_t len = semicolon ? (size_t)(semicolon - rest->ptr) : rest->len;
    struct wg_slice value = wg_slice_trim(wg_slice(rest->ptr, len));
    *rest = wg_slice(rest->ptr + len, rest->len - len);
    return value;
}

/* Behind the opening quote. */
static int take_quoted(struct wg_slice *rest, struct form_param *param)
{
    while (rest->len > 0) {
        char c = take(rest);
        if (c == '"')
            return 0;
        if (c == '\\' && rest->len > 0 && (rest->ptr[0] == '"' || rest->ptr[0] == '\\'))
            c = take(rest);
        add(param, c);
    }
    return -EINVAL;
}

static int take_value(struct wg_slice *rest, struct form_param *param)
{
    param->len = 0;
    if (rest->len > 0 && rest->ptr[0] == '"') {
        take(rest);
        return take_quoted(rest, param);
    }
    while (rest->len > 0 && is_token(rest->ptr[0]))
        add(param, take(rest));
    return param->len > 0 ? 0 : -EINVAL;
}

int form_header_param(struct wg_slice *rest, struct form_param *ret_param)
{
    struct wg_slice at = *rest;
    struct form_param param = {0};
    bool separated = false;

    for (skip_space(&at); at.len > 0 && at.ptr[0] == ';'; skip_space(&at)) {
        take(&at);
        separated = true;
    }
    if (at.len == 0) {
        *rest = at;
        return 0;
    }
    param.name.ptr = at.ptr;
    while (at.len > 0 && is_token(at.ptr[0]))
        take(&at);
    param.name.len = (size_t)(at.ptr - param.name.ptr);
    if (!separated || param.name.len == 0 || at.len == 0 || take(&at) != '=' || take_value(&at, &param) < 0)
        return -EINVAL;
    *rest = at;
    *ret_param = param;
    return 1;
}
