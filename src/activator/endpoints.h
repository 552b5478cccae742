/* Control's table of the endpoints of one model: what an instance is to us now, over its counted endpoint. */
#pragma once

#include "wakegate/activator.h"

/* PROVING → SERVING → SUSPECT → SERVING …, any → LEAVING. */
enum wg_record_state {
    WG_RECORD_PROVING, /* found; the probe has not passed yet; sealed */
    WG_RECORD_SERVING, /* proved; in the view, gives slots */
    WG_RECORD_SUSPECT, /* failed live traffic; sealed, being proved again */
    WG_RECORD_LEAVING, /* lost, or not wanted any more; sealed, goes once nothing is in use */
    WG_RECORD_STATES
};
const char *wg_record_state_label(enum wg_record_state state);

struct wg_record {
    struct wg_list link;
    struct wg_endpoint *endpoint; /* a reference */
    uint64_t instance;            /* the target's number for it, and endpoint->id */
    enum wg_record_state state;
    bool steady; /* its probe has been refused for so long that it will not pass by itself */
};

struct wg_records {
    struct wg_list list;
    size_t count[WG_RECORD_STATES];
};

void wg_records_init(struct wg_records *records);
/* Drops all, whatever their state. */
void wg_records_clear(struct wg_records *records);
size_t wg_records_count(const struct wg_records *records);
/* A new one, PROVING. */
struct wg_record *wg_records_add(struct wg_records *records, uint64_t instance, uint64_t endpoint_id,
                                 const struct wg_address *address, unsigned per_endpoint);
/* NULL: none. One that is LEAVING is not found. */
struct wg_record *wg_records_find(struct wg_records *records, uint64_t instance);
struct wg_record *wg_records_find_endpoint(struct wg_records *records, const struct wg_endpoint *endpoint);
/* The one setter: seals, unseals, counts. LEAVING also marks waiters, so that control is told of every slot
 * given back; a record that comes to serve has as many slots as `ramp_start` (looked at for SERVING only). */
void wg_record_set_state(struct wg_records *records, struct wg_record *record, enum wg_record_state state,
                         unsigned ramp_start);
/* Everything is LEAVING. */
void wg_records_dismiss(struct wg_records *records);
/* Frees those LEAVING that have nothing in use. */
void wg_records_sweep(struct wg_records *records);

/* Seals all that serve if none of them has anything in use; else leaves all as they were and returns false.
 */
WG_MUST_CHECK bool wg_records_seal_if_idle(struct wg_records *records);
void wg_records_unseal(struct wg_records *records);
void wg_records_forget_steady(struct wg_records *records);
void wg_records_mark_waiters(struct wg_records *records, bool waiting);
/* As wg_view_take, for a ticket, once waiters are marked; the first reference is the table's. */
struct wg_endpoint *wg_records_take(struct wg_records *records);
/* Of all records, those leaving included. */
uint64_t wg_records_in_use(const struct wg_records *records);
/* When the last slot of those that serve was given back. */
wg_usec wg_records_last_used(const struct wg_records *records);
/* perEndpoint has changed. */
void wg_records_set_max(struct wg_records *records, unsigned per_endpoint);
