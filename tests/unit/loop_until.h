/* Runs a loop until something is true; a test that waits for too long fails. */
#pragma once

#include "wakegate/event.h"

struct loop_wait {
    struct wg_timer timer;
    bool (*is_true)(void *arg);
    void *arg;
    wg_usec deadline;
    bool met;
};

static inline void loop_wait_look(struct wg_timer *timer)
{
    struct loop_wait *wait = WG_CONTAINER_OF(timer, struct loop_wait, timer);
    wait->met = wait->is_true(wait->arg);
    if (wait->met || wg_clock_monotonic() >= wait->deadline)
        wg_loop_stop(timer->loop);
    else
        wg_timer_set_after(timer, 4 * WG_USEC_PER_MSEC);
}

/* False if it was not true within the time. */
static inline bool loop_until(struct wg_loop *loop, bool (*is_true)(void *arg), void *arg, wg_usec within)
{
    struct loop_wait wait = {.is_true = is_true, .arg = arg, .deadline = wg_clock_monotonic() + within};
    wg_timer_init(&wait.timer, loop, loop_wait_look);
    wg_timer_set_after(&wait.timer, 0);
    wg_loop_run(loop);
    return wait.met;
}

static inline bool loop_wait_never(void *arg WG_UNUSED)
{
    return false;
}

/* Lets the loop run for a time in which nothing must happen. */
static inline void loop_for(struct wg_loop *loop, wg_usec time)
{
    loop_until(loop, loop_wait_never, NULL, time);
}
