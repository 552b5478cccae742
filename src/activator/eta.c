/* The ETA: medians over the last starts that succeeded, so that one odd start (a cold page cache, a pulled
 * image) does not spoil it. Per phase, so that a start that is slow early is not promised to be quick. */
#include "eta.h"

#include <stdlib.h>

enum { SAMPLES = 5 };

void wg_history_add(struct wg_history *history, const struct wg_status_start *start)
{
    history->starts[history->next] = *start;
    history->next = (history->next + 1) % WG_STATUS_STARTS;
    history->count = WG_MIN(history->count + 1, (size_t)WG_STATUS_STARTS);
}

const struct wg_status_start *wg_history_get(const struct wg_history *history, size_t i)
{
    if (i >= history->count)
        return NULL;
    return &history->starts[(history->next + WG_STATUS_STARTS - 1 - i) % WG_STATUS_STARTS];
}

static int compare(const void *a, const void *b)
{
    const wg_usec x = *(const wg_usec *)a, y = *(const wg_usec *)b;
    return (x > y) - (x < y);
}

/* The median of (answering - from) over the newest starts that saw both; from < 0: since the beginning. */
static wg_usec median(const struct wg_history *history, int from, wg_usec none)
{
    wg_usec samples[SAMPLES];
    size_t n = 0;
    const struct wg_status_start *start;
    for (size_t i = 0; n < SAMPLES && (start = wg_history_get(history, i)); i++) {
        const wg_usec began = from < 0 ? 0 : start->phase[from];
        if (start->ok && began >= 0)
            samples[n++] = WG_MAX(start->phase[WG_PHASE_ANSWERING] - began, 0);
    }
    if (n == 0)
        return none;
    qsort(samples, n, sizeof(samples[0]), compare);
    return samples[n / 2];
}

wg_usec wg_eta_whole(const struct wg_history *history)
{
    return median(history, -1, 0);
}

wg_usec wg_eta_from(const struct wg_history *history, enum wg_phase phase)
{
    return median(history, (int)phase, -1);
}
