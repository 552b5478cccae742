/* What past starts tell: medians of the last five that succeeded, as a whole and from each phase. */
#include <stdio.h>

#include "../../src/activator/eta.h"
#include "unit.h"

static void add(struct wg_history *history, bool ok, wg_usec started, wg_usec answering)
{
    struct wg_status_start start = {.ok = ok};
    for (int phase = 0; phase < WG_PHASES; phase++)
        start.phase[phase] = -1;
    start.phase[WG_PHASE_STARTED] = started;
    start.phase[WG_PHASE_ANSWERING] = answering;
    wg_history_add(history, &start);
}

static void nothing_is_known_at_first(void **state)
{
    (void)state;
    struct wg_history history = {0};
    assert_int_equal(wg_eta_whole(&history), 0);
    assert_int_equal(wg_eta_from(&history, WG_PHASE_STARTED), -1);
    add(&history, false, 5, -1);
    assert_int_equal(wg_eta_whole(&history), 0);
    assert_null(wg_history_get(&history, 1));
}

static void the_median_ignores_odd_starts(void **state)
{
    (void)state;
    struct wg_history history = {0};
    add(&history, true, 1, 10);
    assert_int_equal(wg_eta_whole(&history), 10);
    add(&history, true, 1, 12);
    add(&history, true, 1, 500);
    add(&history, false, 1, -1);
    assert_int_equal(wg_eta_whole(&history), 12);
}

static void only_the_last_five_count(void **state)
{
    (void)state;
    struct wg_history history = {0};
    for (int i = 0; i < 30; i++)
        add(&history, true, 1, 1000);
    for (int i = 0; i < 3; i++)
        add(&history, true, 1, 20);
    assert_int_equal(wg_eta_whole(&history), 20);
    assert_int_equal(history.count, WG_STATUS_STARTS);
    assert_int_equal(wg_history_get(&history, 0)->phase[WG_PHASE_ANSWERING], 20);
    assert_int_equal(wg_history_get(&history, 3)->phase[WG_PHASE_ANSWERING], 1000);
    assert_null(wg_history_get(&history, WG_STATUS_STARTS));
}

static void phases_count_from_where_they_are(void **state)
{
    (void)state;
    struct wg_history history = {0};
    add(&history, true, 4, 10);
    add(&history, true, 90, 100);
    add(&history, true, 1, 9);
    assert_int_equal(wg_eta_from(&history, WG_PHASE_STARTED), 8);
    assert_int_equal(wg_eta_from(&history, WG_PHASE_LISTENING), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_at_first),
        cmocka_unit_test(the_median_ignores_odd_starts),
        cmocka_unit_test(only_the_last_five_count),
        cmocka_unit_test(phases_count_from_where_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
