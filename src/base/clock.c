/* Reading the two clocks and writing the wall clock down. */
#include "wakegate/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static wg_usec read_clock(clockid_t id)
{
    struct timespec ts;

    WG_ASSERT(clock_gettime(id, &ts) == 0);
    return (wg_usec)ts.tv_sec * WG_USEC_PER_SEC + ts.tv_nsec / 1000;
}

wg_usec wg_clock_monotonic(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

wg_usec wg_clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}

void wg_clock_format(wg_usec wall, char out[static 32])
{
    time_t seconds = (time_t)(wall / WG_USEC_PER_SEC);
    unsigned msec = (unsigned)(wall % WG_USEC_PER_SEC / WG_USEC_PER_MSEC) % 1000;
    struct tm tm = {0};

    if (wall < 0 || gmtime_r(&seconds, &tm) == NULL || tm.tm_year > 9999 - 1900) {
        memset(&tm, 0, sizeof(tm));
        tm.tm_year = 70;
        tm.tm_mday = 1;
        msec = 0;
    }
    size_t len = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + len, 32 - len, ".%03uZ", msec);
}
