/* Tickets: dispatch and its order, refusals and their reasons, leaving at every moment, the clocks. */
#include "activator_bench.h"

/* A model with hooks: nothing is probed before a wake. */
#define MODEL(more)                                                                                          \
    "models:\n"                                                                                              \
    "  - name: qwen\n"                                                                                       \
    "    target: { static: { endpoints: ['http://127.0.0.1:PORT'],\n"                                        \
    "              wake: { url: 'http://127.0.0.1:PORT/wake' }, sleep: { url: "                              \
    "'http://127.0.0.1:PORT/sleep' } } }\n" more

#define TENANTS                                                                                              \
    "tenants:\n"                                                                                             \
    "  - { name: a, keys: [ { sha256: '" SHA(                                                                \
        "a") "' } ] }\n"                                                                                     \
             "  - { name: b, keys: [ { sha256: '" SHA(                                                       \
                 "b") "' } ] }\n"                                                                            \
                      "  - { name: vip, priority: 9, keys: [ { sha256: '" SHA("c") "' } ] }\n"
#define SHA(digit)                                                                                           \
    SHA8(digit) SHA8(digit) SHA8(digit) SHA8(digit) SHA8(digit) SHA8(digit) SHA8(digit) SHA8(digit)
#define SHA8(digit) digit digit digit digit digit digit digit digit

enum { MANY = 50 };
static struct request many[MANY];

static bool all_home(struct bench *b, void *arg)
{
    return b->home >= *(unsigned *)arg;
}

static void await_home(unsigned n)
{
    bench_run_until(&bench, all_home, &n);
}

static void many_tickets_cause_one_wake(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL("    concurrency: { perEndpoint: 64, rampStart: 64 }\n"));
    assert_int_equal(bench.views[0]->state, WG_MODEL_COLD);
    assert_int_equal(model_counts->probes, 0);
    for (size_t i = 0; i < MANY; i++)
        bench_request(&bench, &many[i]);
    bench_await_state(&bench, WG_MODEL_WAKING);
    bench_settle(&bench);
    assert_int_equal(bench.home, 0);
    bench.server.seen->script = MODEL_READY;
    await_home(MANY);
    for (size_t i = 0; i < MANY; i++) {
        bench_expect_dispatch(&bench, &many[i]);
        assert_int_equal(many[i].order, i + 1);
        assert_true(many[i].ticket.waited_cold);
    }
    struct wg_endpoint *endpoint = many[0].ticket.endpoint;
    assert_int_equal(wg_slots_in_use(&endpoint->slots), MANY);
    assert_int_equal(endpoint->tokens, MANY * 10);
    for (size_t i = 0; i < MANY; i++)
        bench_finish(&bench, &many[i]);
    assert_int_equal(model_counts->wakes, 1);
    assert_int_equal(wg_metrics_model("qwen")->held, 0);
    assert_int_equal(wg_metrics_model("qwen")->held_bytes, 0);
}

static void the_drain_goes_by_slots_priority_and_turns(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL("    concurrency: { perEndpoint: 1, rampStart: 1 }\n") TENANTS);
    static const struct {
        int tenant;
        unsigned order;
    } rows[] = {{0, 2}, {0, 4}, {0, 5}, {1, 3}, {2, 1}};
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++) {
        request_init(&bench, &many[i]);
        many[i].ticket.tenant = &bench.config->tenants[rows[i].tenant];
        bench_hold(&bench, &many[i]);
    }
    bench_settle(&bench);
    bench.server.seen->script = MODEL_READY;
    for (unsigned n = 1; n <= WG_COUNT_OF(rows); n++) {
        await_home(n);
        bench_settle(&bench);
        assert_int_equal(bench.home, n);
        for (size_t i = 0; i < WG_COUNT_OF(rows); i++)
            if (rows[i].order == n) {
                bench_expect_dispatch(&bench, &many[i]);
                assert_int_equal(wg_slots_in_use(&many[i].ticket.endpoint->slots), 1);
                bench_finish(&bench, &many[i]);
            }
    }
}

static void newcomers_do_not_overtake(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL("    concurrency: { perEndpoint: 1, rampStart: 1 }\n"));
    struct request first, second, third;
    bench_request(&bench, &first);
    bench_expect_dispatch(&bench, &first);
    bench_await_state(&bench, WG_MODEL_WARM);
    bench_request(&bench, &second);
    bench_settle(&bench);
    assert_null(wg_view_take(bench.views[0]));
    atomic_fetch_sub(&first.ticket.endpoint->tokens, 10);
    assert_true(wg_slots_release(&first.ticket.endpoint->slots, false, 1)); /* control is not told yet */
    assert_null(wg_view_take(bench.views[0]));
    wg_activator_freed(bench.activator, 0);
    bench_expect_dispatch(&bench, &second);
    assert_false(second.ticket.waited_cold);
    bench_finish(&bench, &second);
    bench_settle(&bench);
    struct wg_endpoint *endpoint = wg_view_take(bench.views[0]);
    assert_non_null(endpoint);
    bench_request(&bench, &third);
    bench_settle(&bench);
    bench_release(&bench, endpoint, 0, false);
    bench_expect_dispatch(&bench, &third);
    bench_finish(&bench, &third);
    wg_endpoint_unref(first.ticket.endpoint);
}

static void a_success_makes_room(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL("    concurrency: { perEndpoint: 3, rampStart: 1 }\n"));
    for (size_t i = 0; i < 3; i++)
        bench_request(&bench, &many[i]);
    bench_expect_dispatch(&bench, &many[0]);
    bench_release(&bench, many[0].ticket.endpoint, 0, true);
    await_home(3);
    assert_int_equal(wg_slots_limit(&many[0].ticket.endpoint->slots), 2);
    bench_finish(&bench, &many[1]);
    bench_finish(&bench, &many[2]);
    wg_endpoint_unref(many[0].ticket.endpoint);
}

static void what_comes_again_is_first(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL("    concurrency: { perEndpoint: 1, rampStart: 1 }\n    hold: { "
                                  "busyTimeout: 1ms, maxRequests: 1 }\n"));
    struct request first, again;
    bench_request(&bench, &first);
    bench_expect_dispatch(&bench, &first);
    assert_true(first.ticket.waited_cold);
    /* Its busy clock is over, but it had waited for a cold model; and the queue's limit is not its. */
    request_init(&bench, &again);
    again.ticket.again = again.ticket.waited_cold = true;
    again.ticket.arrived = first.ticket.arrived - WG_USEC_PER_SEC;
    bench_hold(&bench, &again);
    bench_settle(&bench);
    assert_int_equal(again.home, 0);
    bench_finish(&bench, &first);
    bench_expect_dispatch(&bench, &again);
    bench_finish(&bench, &again);
}

/* ---- leaving ---- */

static bool is_left(struct bench *b, void *arg)
{
    (void)b;
    const struct request *request = arg;
    return request->left > 0 && request->home > 0;
}

static void leave(struct request *request)
{
    wg_activator_leave(bench.activator, &request->ticket);
    bench_run_until(&bench, is_left, request);
    assert_int_equal(request->home, 1);
    assert_int_equal(request->left, 1);
}

static void a_client_leaves_while_it_waits(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL(""));
    struct request stays, goes;
    bench_request(&bench, &stays);
    bench_request(&bench, &goes);
    bench_settle(&bench);
    leave(&goes);
    assert_int_equal(goes.ticket.verdict, WG_VERDICT_LEFT);
    assert_int_equal(wg_metrics_model("qwen")->held, 1);
    bench.server.seen->script = MODEL_READY;
    bench_expect_dispatch(&bench, &stays);
    bench_finish(&bench, &stays);
}

static void a_client_leaves_before_its_ticket_is_seen(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL(""));
    struct request request;
    bench_request(&bench, &request);
    leave(&request);
    assert_int_equal(request.ticket.verdict, WG_VERDICT_LEFT);
    bench_await_state(&bench, WG_MODEL_WAKING); /* the wake goes on */
}

static void a_client_leaves_as_it_is_dispatched(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL("    concurrency: { perEndpoint: 1, rampStart: 1 }\n"));
    struct request request, next;
    bench_request(&bench, &request);
    bench_expect_dispatch(&bench, &request);
    leave(&request);
    assert_int_equal(request.ticket.verdict, WG_VERDICT_DISPATCH);
    bench_request(&bench, &next);
    bench_settle(&bench);
    bench_finish(&bench, &request);
    bench_expect_dispatch(&bench, &next);
    bench_finish(&bench, &next);
}

static void a_client_leaves_after_a_refusal(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL(""));
    struct request request;
    request_init(&bench, &request);
    request.ticket.may_wake = false;
    bench_hold(&bench, &request);
    bench_expect_refusal(&bench, &request, WG_REASON_MODEL_COLD);
    leave(&request);
    assert_int_equal(model_counts->wakes, 0);
}

/* All at once, while slots are handed out: nothing may be lost or given twice. */
static void clients_leave_while_the_queue_drains(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL("    concurrency: { perEndpoint: 4, rampStart: 4 }\n"));
    bench_serve_one(&bench);
    bench_await_state(&bench, WG_MODEL_WARM);
    struct wg_endpoint *endpoint = wg_endpoint_ref(bench.views[0]->endpoints[0]);
    bench.home = bench.left = 0;
    unsigned leavers = 0, finished = 0;
    for (size_t i = 0; i < MANY; i++)
        bench_request(&bench, &many[i]);
    for (size_t i = 0; i < MANY; i += 3, leavers++)
        wg_activator_leave(bench.activator, &many[i].ticket);
    while (finished < MANY) {
        await_home(WG_MIN(finished + 1, (unsigned)MANY));
        for (size_t i = 0; i < MANY; i++) {
            if (many[i].home != 1)
                continue;
            many[i].home = 2;
            finished++;
            if (many[i].ticket.verdict == WG_VERDICT_DISPATCH)
                bench_finish(&bench, &many[i]);
            else
                assert_int_equal(many[i].ticket.verdict, WG_VERDICT_LEFT);
        }
    }
    bench_settle(&bench);
    assert_int_equal(bench.left, leavers);
    assert_int_equal(wg_slots_in_use(&endpoint->slots), 0);
    assert_int_equal(endpoint->tokens, 0);
    assert_int_equal(wg_slots_take(&endpoint->slots), WG_SLOT_TAKEN); /* nobody is marked as waiting */
    assert_false(wg_slots_release(&endpoint->slots, false, 0));
    wg_endpoint_unref(endpoint);
}

/* ---- refusals ---- */

static void an_unknown_model_is_not_found(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL(""));
    struct request request;
    request_init(&bench, &request);
    request.ticket.model_id = 77;
    bench_hold(&bench, &request);
    bench_expect_refusal(&bench, &request, WG_REASON_MODEL_NOT_FOUND);
}

static void the_hold_is_full_by_requests(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL("    hold: { maxRequests: 2 }\n"));
    for (size_t i = 0; i < 3; i++)
        bench_request(&bench, &many[i]);
    bench_expect_refusal(&bench, &many[2], WG_REASON_HOLD_FULL);
    assert_int_equal(many[2].ticket.retry_after, 5);
    leave(&many[0]);
    leave(&many[1]);
}

static void the_hold_is_full_by_bytes(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL("    hold: { maxBytes: 1Ki }\n"));
    for (size_t i = 0; i < 2; i++) {
        request_init(&bench, &many[i]);
        many[i].ticket.bytes = 600;
        bench_hold(&bench, &many[i]);
    }
    bench_expect_refusal(&bench, &many[1], WG_REASON_HOLD_FULL);
    leave(&many[0]);
}

static void a_cold_wait_ends_with_what_was_seen(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL(""));
    struct request request;
    request_init(&bench, &request);
    request.ticket.cold_deadline = request.ticket.arrived + 300 * WG_USEC_PER_MSEC;
    bench_hold(&bench, &request);
    bench_expect_refusal(&bench, &request, WG_REASON_MODEL_WAKE_TIMEOUT);
    assert_non_null(strstr(request.ticket.message, "qwen did not start within"));
    assert_non_null(strstr(request.ticket.message, "listening, the probe got 503: Loading model"));
    assert_int_equal(request.ticket.retry_after, 5);
}

static void a_short_patience_ends_with_model_cold(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL(""));
    struct request request;
    request_init(&bench, &request);
    request.ticket.client_wait = 200 * WG_USEC_PER_MSEC; /* no ETA is known: it is worth a try */
    bench_hold(&bench, &request);
    bench_settle(&bench);
    assert_int_equal(request.home, 0);
    bench_expect_refusal(&bench, &request, WG_REASON_MODEL_COLD);
    assert_true(wg_clock_monotonic() - request.ticket.arrived >= request.ticket.client_wait);
}

static void an_impatient_client_is_refused_at_once_but_wakes(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL(""));
    struct request first, impatient;
    bench_request(&bench, &first);
    bench_settle(&bench);
    usleep(300 * 1000); /* the length of the start that is to be learned */
    bench.server.seen->script = MODEL_READY;
    bench_expect_dispatch(&bench, &first);
    bench_finish(&bench, &first);
    bench_await_state(&bench, WG_MODEL_WARM);
    assert_true(bench.views[0]->expected_start >= 300 * WG_USEC_PER_MSEC);
    assert_int_equal(bench_order(&bench, "qwen", WG_COMMAND_SLEEP), 0);
    bench_await_state(&bench, WG_MODEL_COLD);
    request_init(&bench, &impatient);
    impatient.ticket.client_wait = 100 * WG_USEC_PER_MSEC;
    bench_hold(&bench, &impatient);
    bench_expect_refusal(&bench, &impatient, WG_REASON_MODEL_COLD);
    assert_int_equal(impatient.ticket.retry_after, 1);
    bench_await_state(&bench, WG_MODEL_WARM);
    assert_int_equal(model_counts->wakes, 2);
}

static void a_busy_wait_ends_with_model_busy(void **state)
{
    (void)state;
    bench_configure(
        &bench,
        MODEL("    concurrency: { perEndpoint: 1, rampStart: 1 }\n    hold: { busyTimeout: 100ms }\n"));
    struct request first, second, brief;
    bench_request(&bench, &first);
    bench_expect_dispatch(&bench, &first);
    bench_request(&bench, &second);
    request_init(&bench, &brief);
    brief.ticket.client_wait = 10 * WG_USEC_PER_MSEC;
    bench_hold(&bench, &brief);
    bench_expect_refusal(&bench, &brief, WG_REASON_MODEL_BUSY);
    bench_expect_refusal(&bench, &second, WG_REASON_MODEL_BUSY);
    assert_true(brief.order < second.order);
    assert_in_range(second.ticket.retry_after, 1, 5);
    assert_false(second.ticket.waited_cold);
    bench_finish(&bench, &first);
}

static void a_shutdown_refuses_all(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL(""));
    struct request waits, comes;
    bench_request(&bench, &waits);
    bench_settle(&bench);
    wg_activator_shut(bench.activator);
    bench_expect_refusal(&bench, &waits, WG_REASON_SHUTTING_DOWN);
    bench_request(&bench, &comes);
    bench_expect_refusal(&bench, &comes, WG_REASON_SHUTTING_DOWN);
}

static void what_is_lent_at_the_end_comes_home(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL(""));
    struct request waits, posted;
    bench_request(&bench, &waits);
    bench_settle(&bench);
    bench_stop_threads(&bench);
    bench_request(&bench, &posted);
    bench.activator = wg_activator_free(bench.activator);
    bench_expect_refusal(&bench, &waits, WG_REASON_SHUTTING_DOWN);
    bench_expect_refusal(&bench, &posted, WG_REASON_SHUTTING_DOWN);
}

static void who_unsubscribes_hears_nothing_more(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL(""));
    const unsigned before = bench.states_seen[WG_MODEL_WARM];
    wg_activator_unsubscribe(bench.activator, bench.mailbox);
    bench_serve_one(&bench);
    bench_settle(&bench);
    assert_int_equal(bench.states_seen[WG_MODEL_WARM], before);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_tickets_cause_one_wake),
        TEST(the_drain_goes_by_slots_priority_and_turns),
        TEST(newcomers_do_not_overtake),
        TEST(a_success_makes_room),
        TEST(what_comes_again_is_first),
        TEST(a_client_leaves_while_it_waits),
        TEST(a_client_leaves_before_its_ticket_is_seen),
        TEST(a_client_leaves_as_it_is_dispatched),
        TEST(a_client_leaves_after_a_refusal),
        TEST(clients_leave_while_the_queue_drains),
        TEST(an_unknown_model_is_not_found),
        TEST(the_hold_is_full_by_requests),
        TEST(the_hold_is_full_by_bytes),
        TEST(a_cold_wait_ends_with_what_was_seen),
        TEST(a_short_patience_ends_with_model_cold),
        TEST(an_impatient_client_is_refused_at_once_but_wakes),
        TEST(a_busy_wait_ends_with_model_busy),
        TEST(a_shutdown_refuses_all),
        TEST(what_is_lent_at_the_end_comes_home),
        TEST(who_unsubscribes_hears_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
