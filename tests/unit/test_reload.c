/* Reloads: ids that stay, options that follow, another target in the place of the old one, removal after the
 * last request. */
#include <errno.h>

#include "activator_bench.h"

#define HOOKS "wake: { url: 'http://127.0.0.1:PORT/wake' }, sleep: { url: 'http://127.0.0.1:PORT/sleep' }"
#define MODEL(name, port, more)                                                                              \
    "  - name: " name "\n"                                                                                   \
    "    target: { static: { endpoints: ['http://127.0.0.1:" port "'], " HOOKS " } }\n" more
#define QWEN  "models:\n" MODEL("qwen", "PORT", "")
#define MOVED "models:\n" MODEL("qwen", "SECOND", "")
#define OTHER "models:\n" MODEL("other", "PORT", "")

static void ids_stay_with_names(void **state)
{
    (void)state;
    bench_configure(&bench, "models:\n" MODEL("a", "PORT", "") MODEL("b", "PORT", ""));
    assert_int_equal(bench.plan->model_ids[0], 0);
    assert_int_equal(bench.plan->model_ids[1], 1);
    bench_configure(&bench, "models:\n" MODEL("c", "PORT", "") MODEL("b", "PORT", ""));
    assert_int_equal(bench.plan->model_ids[0], 2);
    assert_int_equal(bench.plan->model_ids[1], 1);
    assert_int_equal(bench.plan->n_ids, 3);
    bench_configure(&bench, "models:\n" MODEL("a", "PORT", ""));
    assert_int_equal(bench.plan->model_ids[0], 0);
    assert_int_equal(bench.plan->n_ids, 3);
    bench_serve_one(&bench);
}

static void options_follow_at_once(void **state)
{
    (void)state;
    bench_configure(&bench, QWEN "    concurrency: { perEndpoint: 8, rampStart: 8 }\n");
    struct request request;
    bench_request(&bench, &request);
    bench_expect_dispatch(&bench, &request);
    struct wg_endpoint *endpoint = request.ticket.endpoint;
    bench_configure(&bench,
                    QWEN "    concurrency: { perEndpoint: 2, rampStart: 2 }\n    idle: { timeout: 50ms }\n");
    assert_int_equal(wg_slots_limit(&endpoint->slots), 2);
    assert_int_equal(endpoint->slots_max, 2);
    assert_int_equal(bench.views[0]->state, WG_MODEL_WARM);
    bench_finish(&bench, &request);
    bench_await_state(&bench, WG_MODEL_COLD);
    assert_int_equal(model_counts->wakes, 1);
}

static void a_reload_gives_a_failed_model_another_chance(void **state)
{
    (void)state;
    model_counts->wake_fails = 1;
    bench_configure(&bench, QWEN "    wake: { backoff: 1h, maxBackoff: 1h }\n");
    struct request request;
    bench_request(&bench, &request);
    bench_expect_refusal(&bench, &request, WG_REASON_MODEL_WAKE_FAILED);
    model_counts->wake_fails = 0;
    bench_configure(&bench, QWEN "    wake: { backoff: 2h, maxBackoff: 2h }\n");
    bench_serve_one(&bench);
}

static void another_target_takes_over_after_the_old_one(void **state)
{
    (void)state;
    bench_configure(&bench, QWEN);
    struct request old, next;
    bench_request(&bench, &old);
    bench_expect_dispatch(&bench, &old);
    bench_configure(&bench, MOVED);
    assert_int_equal(bench.views[0]->n_endpoints, 0);
    bench_request(&bench, &next);
    bench_settle(&bench);
    /* One instance at a time: the old one has a request yet. */
    assert_int_equal(next.home, 0);
    assert_int_equal(model_counts->sleeps, 0);
    bench_finish(&bench, &old);
    bench_expect_dispatch(&bench, &next);
    assert_true(bench_went_to(&next, &bench.second));
    assert_int_equal(model_counts->sleeps, 1);
    assert_int_equal(model_counts->wakes, 2);
    bench_finish(&bench, &next);
}

static void a_cold_or_waking_target_is_replaced_too(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, QWEN);
    bench_configure(&bench, MOVED);
    assert_int_equal(model_counts->sleeps, 0);
    struct request request;
    bench_request(&bench, &request);
    bench_await_state(&bench, WG_MODEL_WAKING);
    bench_configure(&bench, QWEN);
    bench.server.seen->script = MODEL_READY;
    bench_expect_dispatch(&bench, &request);
    assert_true(bench_went_to(&request, &bench.server));
    bench_finish(&bench, &request);
}

static void a_target_without_hooks_is_replaced_at_once(void **state)
{
    (void)state;
    static const char one[] =
        "models: [ { name: qwen, target: { static: { endpoints: ['http://127.0.0.1:PORT'] } } } ]\n";
    static const char two[] =
        "models: [ { name: qwen, target: { static: { endpoints: ['http://127.0.0.1:SECOND'] } } } ]\n";
    bench_configure(&bench, one);
    struct request old, next;
    bench_request(&bench, &old);
    bench_expect_dispatch(&bench, &old);
    bench_configure(&bench, two);
    bench_request(&bench, &next);
    bench_expect_dispatch(&bench, &next);
    assert_true(bench_went_to(&next, &bench.second));
    bench_finish(&bench, &next);
    bench_finish(&bench, &old);
}

static void a_removed_model_is_not_found(void **state)
{
    (void)state;
    bench_configure(&bench, QWEN);
    bench_serve_one(&bench);
    bench_configure(&bench, OTHER);
    struct request request;
    bench_request(&bench, &request);
    bench_expect_refusal(&bench, &request, WG_REASON_MODEL_NOT_FOUND);
    assert_int_equal(bench_order(&bench, "qwen", WG_COMMAND_WAKE), -ENOENT);
    bench_await_state(&bench, WG_MODEL_COLD);
    assert_int_equal(model_counts->sleeps, 1);
    bench_settle(&bench);
    assert_int_equal(wg_metrics_model("qwen")->state, -1);
}

static void a_removed_model_serves_what_it_holds_while_warm(void **state)
{
    (void)state;
    bench_configure(&bench, QWEN "    concurrency: { perEndpoint: 1, rampStart: 1 }\n");
    struct request runs, held, late;
    bench_request(&bench, &runs);
    bench_expect_dispatch(&bench, &runs);
    bench_request(&bench, &held);
    bench_settle(&bench);
    bench_configure(&bench, OTHER);
    bench_request(&bench, &late);
    bench_expect_refusal(&bench, &late, WG_REASON_MODEL_NOT_FOUND);
    bench_finish(&bench, &runs);
    bench_expect_dispatch(&bench, &held);
    bench_settle(&bench);
    assert_int_equal(model_counts->sleeps, 0);
    bench_finish(&bench, &held);
    bench_await_state(&bench, WG_MODEL_COLD);
    assert_int_equal(model_counts->sleeps, 1);
}

static void a_removed_model_that_is_not_warm_refuses_what_it_holds(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, QWEN);
    struct request held;
    bench_request(&bench, &held);
    bench_settle(&bench);
    bench_configure(&bench, OTHER);
    bench_expect_refusal(&bench, &held, WG_REASON_MODEL_WAKE_FAILED);
    assert_string_equal(held.ticket.message, "The model was removed from the configuration.");
    bench_await_state(&bench, WG_MODEL_COLD);
}

static void a_model_that_comes_back_keeps_what_it_learned(void **state)
{
    (void)state;
    bench_configure(&bench, QWEN);
    bench_serve_one(&bench);
    bench_await_state(&bench, WG_MODEL_WARM);
    const wg_usec learned = bench.views[0]->expected_start;
    assert_true(learned > 0);
    bench_configure(&bench, OTHER);
    bench_configure(&bench, QWEN);
    assert_int_equal(bench.plan->model_ids[0], 0);
    assert_int_equal(bench.views[0]->expected_start, learned);
    bench_serve_one(&bench);
}

/* It had to serve what it held, and was put back before it was through. */
static void a_removal_can_be_taken_back(void **state)
{
    (void)state;
    bench_configure(&bench, QWEN "    concurrency: { perEndpoint: 1, rampStart: 1 }\n");
    struct request runs, held;
    bench_request(&bench, &runs);
    bench_expect_dispatch(&bench, &runs);
    bench_request(&bench, &held);
    bench_settle(&bench);
    bench_configure(&bench, OTHER);
    bench_configure(&bench, QWEN "    concurrency: { perEndpoint: 1, rampStart: 1 }\n");
    bench_finish(&bench, &runs);
    bench_expect_dispatch(&bench, &held);
    bench_finish(&bench, &held);
    bench_serve_one(&bench);
    assert_int_equal(model_counts->wakes, 1);
    assert_int_equal(model_counts->sleeps, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ids_stay_with_names),
        TEST(options_follow_at_once),
        TEST(a_reload_gives_a_failed_model_another_chance),
        TEST(another_target_takes_over_after_the_old_one),
        TEST(a_cold_or_waking_target_is_replaced_too),
        TEST(a_target_without_hooks_is_replaced_at_once),
        TEST(a_removed_model_is_not_found),
        TEST(a_removed_model_serves_what_it_holds_while_warm),
        TEST(a_removed_model_that_is_not_warm_refuses_what_it_holds),
        TEST(a_model_that_comes_back_keeps_what_it_learned),
        TEST(a_removal_can_be_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
