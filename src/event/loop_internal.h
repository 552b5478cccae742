/* What the files of this room know of a loop. */
#pragma once

#include "wakegate/event.h"

#include <event2/event.h>

enum { WHEEL_LEVELS = 4, WHEEL_SLOTS = 256 };

/* Hierarchical wheel: level n holds timers due within 256^(n+1) ticks. */
struct wheel {
    struct wg_list slots[WHEEL_LEVELS][WHEEL_SLOTS];
    uint64_t occupied[WHEEL_LEVELS][WHEEL_SLOTS / 64]; /* a hint: a set bit may stand for an emptied slot */
    struct wg_list due;                                /* past already when set: fire in the next turn */
    uint64_t tick;                                     /* all timers up to this tick have fired */
    size_t armed;
    struct event *alarm;
    uint64_t alarm_tick; /* what the alarm is set to; UINT64_MAX: not set */
};

struct wg_loop {
    struct event_base *base;
    wg_usec now; /* 0: not read yet in this turn */
    struct wg_list deferred, dead;
    struct wheel wheel;
    int wake_fd; /* eventfd: wg_loop_stop from any thread */
    struct event *wake_event;
    int hangup_fd; /* epoll of the connections that are watched for their end alone: see conn.c */
    struct event *hangup_event;
    _Atomic bool stop;
};

int wheel_init(struct wg_loop *loop);
void wheel_clear(struct wg_loop *loop);

int hangups_init(struct wg_loop *loop);
void hangups_clear(struct wg_loop *loop);
