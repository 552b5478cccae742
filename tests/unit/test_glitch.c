/* The bucket for cheap tricks: what a flood gets through, and that polite clients are never cut. */
#include "http/glitch.h"
#include "unit.h"

enum { SOME_TIME = 1000 * 1000 * 1000 };
#define REFILL (WG_USEC_PER_SEC / GLITCH_PER_SECOND)

static struct glitch full(void)
{
    struct glitch glitch;
    glitch_init(&glitch, SOME_TIME);
    return glitch;
}

static unsigned taken_at(struct glitch *glitch, wg_usec now, enum glitch_kind kind)
{
    unsigned n = 0;
    while (glitch_take(glitch, now, kind))
        n++;
    return n;
}

static void each_flood_ends_by_its_cost(void **state)
{
    (void)state;
    static const struct {
        enum glitch_kind kind;
        unsigned frames;
    } floods[GLITCH_KINDS] = {
        {GLITCH_RESET, 200},       {GLITCH_PROVOKED_RESET, 100}, {GLITCH_SETTINGS, 100},
        {GLITCH_PING, 200},        {GLITCH_WINDOW_UPDATE, 200},  {GLITCH_EMPTY_FRAME, 200},
        {GLITCH_OTHER_FRAME, 200}, {GLITCH_HEADER_OVERFLOW, 10}, {GLITCH_EXTRA_FIELDS, 200},
    };
    for (size_t i = 0; i < GLITCH_KINDS; i++) {
        struct glitch glitch = full();
        assert_int_equal(taken_at(&glitch, SOME_TIME, floods[i].kind), floods[i].frames);
        assert_false(glitch_take(&glitch, SOME_TIME, floods[i].kind));
    }
}

static void what_is_too_dear_takes_the_rest(void **state)
{
    (void)state;
    struct glitch glitch = full();
    for (unsigned i = 0; i < GLITCH_BURST - 19; i++)
        assert_true(glitch_take(&glitch, SOME_TIME, GLITCH_PING));
    assert_false(glitch_take(&glitch, SOME_TIME, GLITCH_HEADER_OVERFLOW));
    assert_false(glitch_take(&glitch, SOME_TIME, GLITCH_PING));
}

static void refills_exactly(void **state)
{
    (void)state;
    struct glitch glitch = full();
    wg_usec now = SOME_TIME;
    taken_at(&glitch, now, GLITCH_PING);
    assert_false(glitch_take(&glitch, now + REFILL - 1, GLITCH_PING));
    assert_true(glitch_take(&glitch, now + REFILL, GLITCH_PING));
    assert_false(glitch_take(&glitch, now + REFILL, GLITCH_PING));

    /* In steps that do not divide it: no more and no less than at once. */
    unsigned n = 0;
    for (now += REFILL; now < SOME_TIME + REFILL + 60 * WG_USEC_PER_SEC; now += 333)
        n += taken_at(&glitch, now, GLITCH_PING);
    assert_in_range(n, 60 * GLITCH_PER_SECOND - 1, 60 * GLITCH_PER_SECOND);
}

static void never_holds_more_than_the_burst(void **state)
{
    (void)state;
    struct glitch glitch = full();
    assert_int_equal(taken_at(&glitch, WG_USEC_NEVER - 1, GLITCH_PING), GLITCH_BURST);
    glitch = full();
    for (int i = 0; i < 1000; i++)
        glitch_give(&glitch);
    assert_int_equal(taken_at(&glitch, SOME_TIME, GLITCH_PING), GLITCH_BURST);
}

/* The moment of being full counts as no time in advance. */
static void a_full_bucket_saves_up_nothing(void **state)
{
    (void)state;
    struct glitch glitch = full();
    const wg_usec later = SOME_TIME + REFILL / 2;
    assert_int_equal(taken_at(&glitch, later, GLITCH_PING), GLITCH_BURST);
    assert_false(glitch_take(&glitch, later + REFILL - 1, GLITCH_PING));
    assert_true(glitch_take(&glitch, later + REFILL, GLITCH_PING));
}

static void a_clock_that_stands_gives_nothing(void **state)
{
    (void)state;
    struct glitch glitch = full();
    taken_at(&glitch, SOME_TIME, GLITCH_PING);
    assert_false(glitch_take(&glitch, SOME_TIME - WG_USEC_PER_SEC, GLITCH_PING));
    assert_false(glitch_take(&glitch, SOME_TIME, GLITCH_PING));
}

/* Half of the streams cancelled, again and again at once: what ends well pays for what does not. */
static void cancelling_half_is_polite(void **state)
{
    (void)state;
    struct glitch glitch = full();
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 50; i++)
            assert_true(glitch_take(&glitch, SOME_TIME, GLITCH_RESET));
        for (int i = 0; i < 50; i++)
            glitch_give(&glitch);
    }
}

/* Two updates for every DATA frame and two for every request, also if they all come long after. */
static void updating_for_each_frame_is_free(void **state)
{
    (void)state;
    struct glitch glitch = full();
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 32 * 1024 - 32; i++)
            glitch_allow_updates(&glitch);
        for (int i = 0; i < 2 * (32 * 1024 - 32); i++)
            assert_true(glitch_use_update(&glitch));
    }
}

static void an_idle_client_has_few_updates(void **state)
{
    (void)state;
    struct glitch glitch = full();
    for (int i = 0; i < 64; i++)
        assert_true(glitch_use_update(&glitch));
    assert_false(glitch_use_update(&glitch));
    assert_false(glitch_use_update(&glitch));
    glitch_allow_updates(&glitch);
    assert_true(glitch_use_update(&glitch));
    assert_true(glitch_use_update(&glitch));
    assert_false(glitch_use_update(&glitch));
}

static void updates_are_saved_up_to_a_cap(void **state)
{
    (void)state;
    struct glitch glitch = full();
    for (int i = 0; i < 1000 * 1000; i++)
        glitch_allow_updates(&glitch);
    unsigned n = 0;
    while (glitch_use_update(&glitch))
        n++;
    assert_int_equal(n, 64 * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_flood_ends_by_its_cost),
        cmocka_unit_test(what_is_too_dear_takes_the_rest),
        cmocka_unit_test(refills_exactly),
        cmocka_unit_test(never_holds_more_than_the_burst),
        cmocka_unit_test(a_full_bucket_saves_up_nothing),
        cmocka_unit_test(a_clock_that_stands_gives_nothing),
        cmocka_unit_test(cancelling_half_is_polite),
        cmocka_unit_test(updating_for_each_frame_is_free),
        cmocka_unit_test(an_idle_client_has_few_updates),
        cmocka_unit_test(updates_are_saved_up_to_a_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
