/* Durations and sizes, from and to the form in which people write them. */
#include "wakegate/base/quantity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* Largest first: the first that divides a value gives its shortest form. */
static const struct unit duration_units[] = {
    {"d", UINT64_C(86400000000)}, {"h", UINT64_C(3600000000)}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000},
};
static const struct unit size_units[] = {
    {"Gi", 1u << 30},
    {"Mi", 1u << 20},
    {"Ki", 1u << 10},
};

static const struct unit *find_unit(const struct unit *units, size_t n, struct wg_slice name)
{
    for (size_t i = 0; i < n; i++)
        if (wg_slice_eq(name, wg_slice_str(units[i].name)))
            return &units[i];
    return NULL;
}

/* Takes the digits off the front: 0, -EINVAL without any, -ERANGE when they overflow (all digits are taken
 * even then). */
static int take_number(struct wg_slice *text, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t n = 0;
    bool overflow = false;

    for (; n < text->len && text->ptr[n] >= '0' && text->ptr[n] <= '9'; n++)
        if (__builtin_mul_overflow(number, (uint64_t)10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text->ptr[n] - '0'), &number))
            overflow = true;
    if (n == 0)
        return -EINVAL;
    text->ptr += n;
    text->len -= n;
    *ret_number = number;
    return overflow ? -ERANGE : 0;
}

static int parse(struct wg_slice text, const struct unit *units, size_t n_units, uint64_t max, uint64_t *ret)
{
    uint64_t number = 0, factor = 1, value;

    int r = take_number(&text, &number);
    if (r == -EINVAL)
        return r;
    if (text.len > 0) {
        const struct unit *unit = find_unit(units, n_units, text);
        if (unit == NULL)
            return -EINVAL;
        factor = unit->factor;
    } else if (units == duration_units && (r < 0 || number != 0)) {
        return -EINVAL;
    }
    if (r < 0 || __builtin_mul_overflow(number, factor, &value) || value > max)
        return -ERANGE;
    *ret = value;
    return 0;
}

int wg_duration_parse(struct wg_slice text, wg_usec *ret_usec)
{
    uint64_t value;

    int r = parse(text, duration_units, WG_COUNT_OF(duration_units), (uint64_t)WG_USEC_NEVER - 1, &value);
    if (r == 0)
        *ret_usec = (wg_usec)value;
    return r;
}

int wg_size_parse(struct wg_slice text, uint64_t *ret_bytes)
{
    return parse(text, size_units, WG_COUNT_OF(size_units), UINT64_MAX, ret_bytes);
}

static void format(uint64_t value, const struct unit *units, size_t n_units, const char *least,
                   char out[static 32])
{
    for (size_t i = 0; i < n_units; i++)
        if (value >= units[i].factor && value % units[i].factor == 0) {
            snprintf(out, 32, "%" PRIu64 "%s", value / units[i].factor, units[i].name);
            return;
        }
    snprintf(out, 32, "%" PRIu64 "%s", value, least);
}

void wg_duration_format(wg_usec t, char out[static 32])
{
    if (t == WG_USEC_NEVER) {
        memcpy(out, "never", sizeof("never"));
        return;
    }
    uint64_t value = t > 0 ? (uint64_t)t : 0;
    if (value == 0)
        memcpy(out, "0s", sizeof("0s"));
    else if (value % 1000 != 0) /* nothing that was parsed is finer than this */
        snprintf(out, 32, "%" PRIu64 "ms", value / 1000);
    else
        format(value, duration_units, WG_COUNT_OF(duration_units), "", out);
}

void wg_size_format(uint64_t bytes, char out[static 32])
{
    format(bytes, size_units, WG_COUNT_OF(size_units), "", out);
}

void wg_duration_human(wg_usec t, char out[static 32])
{
    int64_t msec = t > 0 ? (t + 500) / 1000 : 0;
    int64_t tenths = (msec + 50) / 100, seconds = (msec + 500) / 1000;

    if (t == WG_USEC_NEVER)
        memcpy(out, "never", sizeof("never"));
    else if (msec < 1000)
        snprintf(out, 32, "%" PRId64 " ms", msec);
    else if (tenths < 600)
        snprintf(out, 32, "%" PRId64 ".%" PRId64 " s", tenths / 10, tenths % 10);
    else if (seconds < 3600)
        snprintf(out, 32, "%" PRId64 " min %" PRId64 " s", seconds / 60, seconds % 60);
    else
        snprintf(out, 32, "%" PRId64 " h %" PRId64 " min", seconds / 3600, seconds % 3600 / 60);
}
