/* Deficit round robin with a cost of one: the tenant whose turn it is is served as many tickets as its
 * weight, then goes to the end of its level. A lane exists only while it has tickets, so nobody saves up
 * turns while idle. */
#include "queue.h"

#include <stdlib.h>

#include "wakegate/base/map.h"

/* All tenants of one priority. */
struct level {
    struct wg_list link;  /* queue.levels */
    struct wg_list turns; /* lanes, the next to be served first */
    int priority;
};

/* One tenant. */
struct wg_lane {
    struct wg_list link;   /* level.turns */
    struct wg_list bucket; /* queue.lanes */
    struct wg_list tickets;
    struct level *level;
    char *tenant;
    unsigned weight;
    unsigned credit; /* tickets left of the turn under way */
};

void wg_queue_init(struct wg_queue *queue)
{
    *queue = (struct wg_queue){0};
    wg_list_init(&queue->levels);
    for (size_t i = 0; i < WG_QUEUE_BUCKETS; i++)
        wg_list_init(&queue->lanes[i]);
}

static struct level *level_get(struct wg_queue *queue, int priority)
{
    struct wg_list *before = &queue->levels;
    wg_list_foreach (node, &queue->levels) {
        struct level *level = WG_LIST_ENTRY(node, struct level, link);
        if (level->priority == priority)
            return level;
        if (level->priority < priority)
            break;
        before = node;
    }
    struct level *level = WG_NEW(struct level);
    level->priority = priority;
    wg_list_init(&level->turns);
    wg_list_init(&level->link);
    wg_list_prepend(before, &level->link);
    return level;
}

static struct wg_list *bucket_of(struct wg_queue *queue, const char *tenant)
{
    return &queue->lanes[wg_hash(tenant, strlen(tenant)) % WG_QUEUE_BUCKETS];
}

static struct wg_lane *lane_find(struct wg_list *bucket, const char *tenant)
{
    wg_list_foreach (node, bucket) {
        struct wg_lane *lane = WG_LIST_ENTRY(node, struct wg_lane, bucket);
        if (strcmp(lane->tenant, tenant) == 0)
            return lane;
    }
    return NULL;
}

static struct wg_lane *lane_new(struct wg_queue *queue, struct wg_list *bucket,
                                const struct wg_ticket *ticket)
{
    struct wg_lane *lane = WG_NEW(struct wg_lane);
    lane->tenant = wg_xstrdup(ticket->tenant->name);
    lane->level = level_get(queue, ticket->tenant->priority);
    wg_list_init(&lane->tickets);
    wg_list_init(&lane->link);
    wg_list_init(&lane->bucket);
    wg_list_append(bucket, &lane->bucket);
    if (ticket->again) {
        /* It had its turn and could not use it. */
        lane->credit = 1;
        wg_list_prepend(&lane->level->turns, &lane->link);
    } else {
        wg_list_append(&lane->level->turns, &lane->link);
    }
    return lane;
}

static void lane_free(struct wg_lane *lane)
{
    struct level *level = lane->level;
    wg_list_remove(&lane->link);
    wg_list_remove(&lane->bucket);
    free(lane->tenant);
    free(lane);
    if (wg_list_empty(&level->turns)) {
        wg_list_remove(&level->link);
        free(level);
    }
}

void wg_queue_add(struct wg_queue *queue, struct wg_ticket *ticket)
{
    WG_ASSERT(!ticket->lane);
    struct wg_list *bucket = bucket_of(queue, ticket->tenant->name);
    struct wg_lane *lane = lane_find(bucket, ticket->tenant->name);
    if (!lane)
        lane = lane_new(queue, bucket, ticket);
    lane->weight = WG_MAX(ticket->tenant->weight, 1U);
    wg_list_init(&ticket->link);
    if (ticket->again)
        wg_list_prepend(&lane->tickets, &ticket->link);
    else
        wg_list_append(&lane->tickets, &ticket->link);
    ticket->lane = lane;
    queue->count++;
    queue->wakers += ticket->may_wake;
    queue->bytes += ticket->bytes;
}

void wg_queue_remove(struct wg_queue *queue, struct wg_ticket *ticket)
{
    struct wg_lane *lane = ticket->lane;
    WG_ASSERT(lane && queue->count > 0 && queue->bytes >= ticket->bytes);
    wg_list_remove(&ticket->link);
    ticket->lane = NULL;
    queue->count--;
    queue->wakers -= ticket->may_wake;
    queue->bytes -= ticket->bytes;
    if (wg_list_empty(&lane->tickets))
        lane_free(lane);
}

/* The turn is over once the credit is used up. */
static void take_turn(struct wg_lane *lane)
{
    if (lane->credit == 0)
        lane->credit = lane->weight;
    if (--lane->credit > 0)
        return;
    struct level *level = lane->level;
    wg_list_remove(&lane->link);
    wg_list_append(&level->turns, &lane->link);
}

struct wg_ticket *wg_queue_pop(struct wg_queue *queue)
{
    struct wg_list *first = wg_list_first(&queue->levels);
    if (!first)
        return NULL;
    struct level *level = WG_LIST_ENTRY(first, struct level, link);
    struct wg_lane *lane = WG_LIST_ENTRY(wg_list_first(&level->turns), struct wg_lane, link);
    struct wg_ticket *ticket = WG_LIST_ENTRY(wg_list_first(&lane->tickets), struct wg_ticket, link);
    take_turn(lane);
    wg_queue_remove(queue, ticket);
    return ticket;
}

static void lane_each(const struct wg_lane *lane, void (*visit)(struct wg_ticket *, void *), void *arg)
{
    wg_list_foreach (node, &lane->tickets)
        visit(WG_LIST_ENTRY(node, struct wg_ticket, link), arg);
}

void wg_queue_each(const struct wg_queue *queue, void (*visit)(struct wg_ticket *, void *), void *arg)
{
    for (size_t i = 0; i < WG_QUEUE_BUCKETS; i++)
        wg_list_foreach (node, &queue->lanes[i])
            lane_each(WG_LIST_ENTRY(node, struct wg_lane, bucket), visit, arg);
}
