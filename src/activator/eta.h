/* What past starts of a model tell about the one under way. Control's; no clock of its own. */
#pragma once

#include "wakegate/activator.h"

/* A ring of the last starts, newest first by wg_history_get. */
struct wg_history {
    struct wg_status_start starts[WG_STATUS_STARTS];
    size_t next, count;
};

void wg_history_add(struct wg_history *history, const struct wg_status_start *start);
/* i-th newest; NULL behind the last. */
const struct wg_status_start *wg_history_get(const struct wg_history *history, size_t i);

/* The usual length of a whole cold start: the median of the last five that succeeded; 0: none yet. */
wg_usec wg_eta_whole(const struct wg_history *history);
/* The usual time from reaching `phase` until answering; -1: never seen. */
wg_usec wg_eta_from(const struct wg_history *history, enum wg_phase phase);
