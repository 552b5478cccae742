/* Durations (`250ms 10s 5m 24h 30d`) and sizes (`64Ki 32Mi 1Gi`, plain bytes) as people write them. */
#pragma once

#include "wakegate/base/clock.h"
#include "wakegate/base/slice.h"

/* One whole number and one unit of ms, s, m, h, d ("0" alone is allowed): 0, or -EINVAL, or -ERANGE. */
WG_MUST_CHECK int wg_duration_parse(struct wg_slice text, wg_usec *ret_usec);
/* One whole number, optionally with Ki, Mi, Gi: 0, or -EINVAL, or -ERANGE. */
WG_MUST_CHECK int wg_size_parse(struct wg_slice text, uint64_t *ret_bytes);

/* The shortest exact form that parses back, for --print; for people use wg_duration_human. out holds 32
 * bytes. */
void wg_duration_format(wg_usec t, char out[static 32]);
void wg_size_format(uint64_t bytes, char out[static 32]);
/* "850 ms", "12.3 s", "4 min 5 s". */
void wg_duration_human(wg_usec t, char out[static 32]);
