/* Comparing, trimming, splitting and reading borrowed runs of bytes. */
#include "wakegate/base/slice.h"

#include <errno.h>

static inline unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

bool wg_slice_eq_nocase(struct wg_slice a, struct wg_slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (a.ptr[i] != b.ptr[i] && lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    return true;
}

bool wg_slice_starts_with(struct wg_slice s, struct wg_slice prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

struct wg_slice wg_slice_trim(struct wg_slice s)
{
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

bool wg_slice_split(struct wg_slice *rest, char separator, struct wg_slice *ret_head)
{
    if (rest->ptr == NULL)
        return false;
    const char *at = rest->len > 0 ? memchr(rest->ptr, separator, rest->len) : NULL;
    if (at == NULL) {
        *ret_head = *rest;
        *rest = (struct wg_slice){0};
        return true;
    }
    size_t head = (size_t)(at - rest->ptr);
    *ret_head = wg_slice(rest->ptr, head);
    *rest = wg_slice(at + 1, rest->len - head - 1);
    return true;
}

int wg_slice_to_u64(struct wg_slice s, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (s.len == 0)
        return -EINVAL;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return -EINVAL;
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(s.ptr[i] - '0'), &value))
            return -EINVAL;
    }
    *ret_value = value;
    return 0;
}

char *wg_slice_dup(struct wg_slice s)
{
    return wg_xstrndup(s.ptr, s.len);
}

bool wg_slice_has_control(struct wg_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] < 0x20 || s.ptr[i] == 0x7f)
            return true;
    return false;
}
