/* Time. One unit everywhere: microseconds in an int64_t (`wg_usec`). Deadlines and waits use the monotonic
 * clock only, so steps of the wall clock change no decision; the wall clock is for logs and for what people
 * read. */
#pragma once

#include "wakegate/base/obj.h"

typedef int64_t wg_usec;

#define WG_USEC_PER_MSEC ((wg_usec)1000)
#define WG_USEC_PER_SEC  ((wg_usec)1000000)
#define WG_USEC_NEVER    INT64_MAX /* a deadline that is never reached, a wait without end */

wg_usec wg_clock_monotonic(void);
wg_usec wg_clock_wall(void);

/* Whole milliseconds, rounded up. */
static inline int64_t wg_usec_to_msec(wg_usec t)
{
    return (t + WG_USEC_PER_MSEC - 1) / WG_USEC_PER_MSEC;
}

/* a + b that stays NEVER instead of overflowing; b >= 0. */
static inline wg_usec wg_usec_add(wg_usec a, wg_usec b)
{
    return a > WG_USEC_NEVER - b ? WG_USEC_NEVER : a + b;
}

/* 2026-11-30T23:01:26.123Z; out must hold 32 bytes. */
void wg_clock_format(wg_usec wall, char out[static 32]);
