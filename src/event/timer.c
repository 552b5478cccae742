/* Timers of a loop: a hierarchical wheel with one libevent timeout, set to the next tick that has something
 * to do. */
#include "loop_internal.h"

#include <string.h>

#define TICK_USEC  4000
#define LEVEL_BITS 8
#define TICK_NONE  UINT64_MAX
#define DELTA_MAX  (((uint64_t)1 << (LEVEL_BITS * WHEEL_LEVELS)) - 1)

/* Never early: the tick at or after the time. */
static uint64_t tick_of(wg_usec at)
{
    return at <= 0 ? 0 : ((uint64_t)at + TICK_USEC - 1) / TICK_USEC;
}

static void mark(struct wheel *wheel, unsigned level, unsigned slot)
{
    wheel->occupied[level][slot / 64] |= (uint64_t)1 << (slot % 64);
}

/* True if something is in the slot; a mark left by cancelled timers is wiped. */
static bool occupied(struct wheel *wheel, unsigned level, unsigned slot)
{
    uint64_t *word = &wheel->occupied[level][slot / 64];
    const uint64_t bit = (uint64_t)1 << (slot % 64);
    if ((*word & bit) && wg_list_empty(&wheel->slots[level][slot]))
        *word &= ~bit;
    return *word & bit;
}

static void place(struct wheel *wheel, struct wg_timer *timer)
{
    uint64_t tick = tick_of(timer->at);
    if (tick <= wheel->tick) {
        wg_list_append(&wheel->due, &timer->link);
        return;
    }
    const uint64_t delta = WG_MIN(tick - wheel->tick, DELTA_MAX);
    tick = wheel->tick + delta;
    unsigned level = 0;
    while (delta >> (LEVEL_BITS * (level + 1)))
        level++;
    const unsigned slot = (unsigned)(tick >> (LEVEL_BITS * level)) % WHEEL_SLOTS;
    wg_list_append(&wheel->slots[level][slot], &timer->link);
    mark(wheel, level, slot);
}

/* How many slots ahead (1 to 256) the next one of this level is that has something; 0: none. */
static unsigned next_slot(struct wheel *wheel, unsigned level, unsigned from)
{
    for (unsigned ahead = 1; ahead <= WHEEL_SLOTS;) {
        const unsigned slot = (from + ahead) % WHEEL_SLOTS;
        if (slot % 64 == 0 && ahead + 64 <= WHEEL_SLOTS && wheel->occupied[level][slot / 64] == 0) {
            ahead += 64;
            continue;
        }
        if (occupied(wheel, level, slot))
            return ahead;
        ahead++;
    }
    return 0;
}

/* The next tick at which a slot is due or must be spread over the level below. */
static uint64_t next_tick(struct wheel *wheel)
{
    uint64_t next = TICK_NONE;
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        const unsigned shift = LEVEL_BITS * level;
        const uint64_t here = wheel->tick >> shift;
        const unsigned ahead = next_slot(wheel, level, (unsigned)here % WHEEL_SLOTS);
        if (ahead > 0)
            next = WG_MIN(next, (here + ahead) << shift);
    }
    return next;
}

static void spread(struct wheel *wheel, unsigned level)
{
    struct wg_list moved;
    wg_list_init(&moved);
    wg_list_splice(&moved, &wheel->slots[level][(wheel->tick >> (LEVEL_BITS * level)) % WHEEL_SLOTS]);
    wg_list_foreach_safe (node, &moved) {
        wg_list_remove(node);
        place(wheel, WG_LIST_ENTRY(node, struct wg_timer, link));
    }
}

static void advance(struct wheel *wheel, uint64_t target)
{
    for (;;) {
        const uint64_t next = next_tick(wheel);
        if (next > target)
            break;
        wheel->tick = next;
        for (unsigned level = WHEEL_LEVELS - 1; level > 0; level--)
            if (next % ((uint64_t)1 << (LEVEL_BITS * level)) == 0)
                spread(wheel, level);
        wg_list_splice(&wheel->due, &wheel->slots[0][next % WHEEL_SLOTS]);
    }
    wheel->tick = WG_MAX(wheel->tick, target);
}

static void set_alarm(struct wg_loop *loop, uint64_t tick)
{
    struct wheel *wheel = &loop->wheel;
    if (tick == wheel->alarm_tick)
        return;
    wheel->alarm_tick = tick;
    if (tick == TICK_NONE) {
        event_del(wheel->alarm);
        return;
    }
    const wg_usec wait = WG_MAX((wg_usec)tick * TICK_USEC - wg_loop_now(loop), 0);
    const struct timeval tv = {.tv_sec = wait / WG_USEC_PER_SEC, .tv_usec = wait % WG_USEC_PER_SEC};
    event_add(wheel->alarm, &tv);
}

static void on_alarm(evutil_socket_t fd WG_UNUSED, short what WG_UNUSED, void *arg)
{
    struct wg_loop *loop = arg;
    struct wheel *wheel = &loop->wheel;
    struct wg_list due;

    wheel->alarm_tick = TICK_NONE;
    advance(wheel, (uint64_t)wg_loop_now(loop) / TICK_USEC);
    wg_list_init(&due);
    wg_list_splice(&due, &wheel->due);
    struct wg_list *node;
    while ((node = wg_list_first(&due))) {
        struct wg_timer *timer = WG_LIST_ENTRY(node, struct wg_timer, link);
        wg_timer_cancel(timer);
        timer->fire(timer);
    }
    set_alarm(loop, wg_list_empty(&wheel->due) ? next_tick(wheel) : wheel->tick);
}

int wheel_init(struct wg_loop *loop)
{
    struct wheel *wheel = &loop->wheel;
    for (unsigned level = 0; level < WHEEL_LEVELS; level++)
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++)
            wg_list_init(&wheel->slots[level][slot]);
    wg_list_init(&wheel->due);
    wheel->tick = (uint64_t)wg_clock_monotonic() / TICK_USEC;
    wheel->alarm_tick = TICK_NONE;
    wheel->alarm = event_new(loop->base, -1, 0, on_alarm, loop);
    return wheel->alarm ? 0 : -1;
}

void wheel_clear(struct wg_loop *loop)
{
    WG_ASSERT(loop->wheel.armed == 0);
    if (loop->wheel.alarm)
        event_free(loop->wheel.alarm);
}

void wg_timer_init(struct wg_timer *timer, struct wg_loop *loop, void (*fire)(struct wg_timer *timer))
{
    wg_list_init(&timer->link);
    timer->at = WG_USEC_NEVER;
    timer->fire = fire;
    timer->loop = loop;
}

void wg_timer_set(struct wg_timer *timer, wg_usec at)
{
    struct wheel *wheel = &timer->loop->wheel;
    wg_timer_cancel(timer);
    timer->at = at;
    if (at == WG_USEC_NEVER)
        return;
    wheel->armed++;
    place(wheel, timer);
    const uint64_t tick = WG_MAX(tick_of(at), wheel->tick);
    if (tick < wheel->alarm_tick)
        set_alarm(timer->loop, tick);
}

void wg_timer_set_after(struct wg_timer *timer, wg_usec wait)
{
    wg_timer_set(timer, wg_usec_add(wg_loop_now(timer->loop), wait));
}

void wg_timer_cancel(struct wg_timer *timer)
{
    if (!wg_timer_armed(timer))
        return;
    wg_list_remove(&timer->link);
    timer->loop->wheel.armed--;
    timer->at = WG_USEC_NEVER;
}
