/* The tickets that wait for one model, in the order in which they will be served: priority first, then
 * weighted turns between the tenants of a priority, then first come first served. Control's; intrusive; no
 * clocks, no policy. */
#pragma once

#include "wakegate/activator.h"

enum { WG_QUEUE_BUCKETS = 64 };

struct wg_queue {
    struct wg_list levels;                  /* those with tickets, highest priority first */
    struct wg_list lanes[WG_QUEUE_BUCKETS]; /* by hash of the tenant's name */
    size_t count;
    size_t wakers;  /* of those, who may wake the model */
    uint64_t bytes; /* of the tickets' bodies */
};

void wg_queue_init(struct wg_queue *queue);
/* At the end of its tenant's lane; at the head of it if the ticket comes `again`. The tenant's weight and
 * priority are the ticket's (while a lane has tickets it keeps its priority). Amortized O(1), O(priorities
 * that wait) for a lane's first ticket. */
void wg_queue_add(struct wg_queue *queue, struct wg_ticket *ticket);
/* A ticket that waits here. O(1). */
void wg_queue_remove(struct wg_queue *queue, struct wg_ticket *ticket);
/* Removes and returns whose turn it is; NULL when empty. O(1). */
struct wg_ticket *wg_queue_pop(struct wg_queue *queue);
/* Every ticket once, in no order that matters; visit must not change the queue. */
void wg_queue_each(const struct wg_queue *queue, void (*visit)(struct wg_ticket *ticket, void *arg),
                   void *arg);
