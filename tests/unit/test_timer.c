/* Timers: never early, in time, movable and cancellable, alone and by the thousand. */
#include "unit.h"

#include "wakegate/event.h"

#include <stdlib.h>

#define LATE_AT_MOST (2 * WG_USEC_PER_SEC) /* a shared machine may stand still for a while */

struct probe {
    struct wg_timer timer;
    wg_usec want, fired;
    unsigned times;
    unsigned *left;
    struct wg_timer *cancels; /* another timer that this one cancels */
};

static void on_fire(struct wg_timer *timer)
{
    struct probe *probe = WG_CONTAINER_OF(timer, struct probe, timer);
    probe->times++;
    probe->fired = wg_clock_monotonic();
    if (probe->cancels)
        wg_timer_cancel(probe->cancels);
    if (--*probe->left == 0)
        wg_loop_stop(timer->loop);
}

static void set_up(struct probe *probe, struct wg_loop *loop, unsigned *left, wg_usec wait)
{
    wg_timer_init(&probe->timer, loop, on_fire);
    probe->left = left;
    probe->want = wg_clock_monotonic() + wait;
    wg_timer_set(&probe->timer, probe->want);
}

static void test_many_fire_once_and_never_early(void **state WG_UNUSED)
{
    enum { MANY = 5000 };
    struct wg_loop *loop = wg_loop_new();
    struct probe *probes = wg_xcalloc(MANY, sizeof(*probes));
    unsigned left = MANY;
    srand(7);
    for (size_t i = 0; i < MANY; i++)
        set_up(&probes[i], loop, &left,
               rand() % 1500 * WG_USEC_PER_MSEC); /* beyond the first level of the wheel */
    wg_loop_run(loop);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(probes[i].times, 1);
        assert_true(probes[i].fired >= probes[i].want);
        assert_true(probes[i].fired < probes[i].want + LATE_AT_MOST);
    }
    free(probes);
    wg_loop_free(loop);
}

static void test_moving_and_cancelling(void **state WG_UNUSED)
{
    struct wg_loop *loop = wg_loop_new();
    struct probe moved = {0}, cancelled = {0}, last = {0};
    unsigned left = 2;
    set_up(&moved, loop, &left, 10 * WG_USEC_PER_SEC);
    set_up(&cancelled, loop, &left, 5 * WG_USEC_PER_MSEC);
    set_up(&last, loop, &left, 300 * WG_USEC_PER_MSEC);
    wg_timer_set_after(&moved.timer, 20 * WG_USEC_PER_MSEC);
    wg_timer_cancel(&cancelled.timer);
    assert_false(wg_timer_armed(&cancelled.timer));
    wg_loop_run(loop);
    assert_int_equal(moved.times, 1);
    assert_int_equal(cancelled.times, 0);
    assert_int_equal(last.times, 1);
    assert_true(moved.fired < last.fired);
    wg_loop_free(loop);
}

static void test_a_timer_may_cancel_one_that_is_due_with_it(void **state WG_UNUSED)
{
    struct wg_loop *loop = wg_loop_new();
    struct probe first = {0}, second = {0};
    unsigned left = 1;
    set_up(&first, loop, &left, 0);
    set_up(&second, loop, &left, 0);
    first.cancels = &second.timer;
    wg_loop_run(loop);
    assert_int_equal(first.times, 1);
    assert_int_equal(second.times, 0);
    wg_loop_free(loop);
}

static void on_fire_again(struct wg_timer *timer)
{
    struct probe *probe = WG_CONTAINER_OF(timer, struct probe, timer);
    if (++probe->times < 50)
        wg_timer_set(timer, 0);
    else
        wg_loop_stop(timer->loop);
}

static void test_setting_in_the_past_waits_for_the_next_turn(void **state WG_UNUSED)
{
    struct wg_loop *loop = wg_loop_new();
    struct probe probe = {0};
    wg_timer_init(&probe.timer, loop, on_fire_again);
    wg_timer_set(&probe.timer, 0);
    wg_loop_run(loop);
    assert_int_equal(probe.times, 50);
    wg_loop_free(loop);
}

static void test_never_is_not_armed(void **state WG_UNUSED)
{
    struct wg_loop *loop = wg_loop_new();
    struct probe probe = {0};
    wg_timer_init(&probe.timer, loop, on_fire);
    wg_timer_set(&probe.timer, WG_USEC_NEVER);
    assert_false(wg_timer_armed(&probe.timer));
    wg_timer_set_after(&probe.timer, WG_USEC_NEVER);
    assert_false(wg_timer_armed(&probe.timer));
    wg_timer_set_after(&probe.timer, 400 * 86400 * WG_USEC_PER_SEC); /* beyond the whole wheel */
    assert_true(wg_timer_armed(&probe.timer));
    wg_timer_cancel(&probe.timer);
    wg_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_fire_once_and_never_early),
        cmocka_unit_test(test_moving_and_cancelling),
        cmocka_unit_test(test_a_timer_may_cancel_one_that_is_due_with_it),
        cmocka_unit_test(test_setting_in_the_past_waits_for_the_next_turn),
        cmocka_unit_test(test_never_is_not_armed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
