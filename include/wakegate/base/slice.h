/* A borrowed run of bytes: pointer and length, not NUL-terminated, owned by somebody else. */
#pragma once

#include <string.h>

#include "wakegate/base/obj.h"

struct wg_slice {
    const char *ptr;
    size_t len;
};

#define WG_SLICE(literal) ((struct wg_slice){.ptr = "" literal, .len = sizeof(literal) - 1})
#define WG_SLICE_FMT      "%.*s"
#define WG_SLICE_ARG(s)   (int)(s).len, (s).ptr

static inline struct wg_slice wg_slice(const void *ptr, size_t len)
{
    return (struct wg_slice){.ptr = ptr, .len = len};
}

static inline struct wg_slice wg_slice_str(const char *text)
{
    return (struct wg_slice){.ptr = text, .len = text ? strlen(text) : 0};
}

static inline bool wg_slice_eq(struct wg_slice a, struct wg_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* ASCII case-insensitive. */
bool wg_slice_eq_nocase(struct wg_slice a, struct wg_slice b);
bool wg_slice_starts_with(struct wg_slice s, struct wg_slice prefix);

/* Without leading and trailing spaces and tabs (the OWS of RFC 9110). */
struct wg_slice wg_slice_trim(struct wg_slice s);

/* Splits off what is before the first `separator` into *ret_head and leaves the rest in *rest; false when
 * *rest is exhausted (ptr NULL). "a,b" gives "a", "b"; "" gives one empty head. */
bool wg_slice_split(struct wg_slice *rest, char separator, struct wg_slice *ret_head);

/* Decimal digits only, no sign, no space, no overflow: 0, or -EINVAL. */
WG_MUST_CHECK int wg_slice_to_u64(struct wg_slice s, uint64_t *ret_value);

/* A NUL-terminated copy; freed with free(). */
char *wg_slice_dup(struct wg_slice s);

/* True if some byte is a control character (below 0x20 or 0x7f). */
bool wg_slice_has_control(struct wg_slice s);
