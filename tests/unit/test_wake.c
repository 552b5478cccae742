/* A model's states: wakes that succeed, fail and come late, idling out and arrivals in the middle of it,
 * crashes, endpoints that are set aside, orders and status. */
#include <errno.h>
#include <fcntl.h>

#include "activator_bench.h"

#define MODEL(more)                                                                                          \
    "models:\n"                                                                                              \
    "  - name: qwen\n"                                                                                       \
    "    target: { static: { endpoints: ['http://127.0.0.1:PORT'],\n"                                        \
    "              wake: { url: 'http://127.0.0.1:PORT/wake' }, sleep: { url: "                              \
    "'http://127.0.0.1:PORT/sleep' } } }\n" more
#define NO_HOOKS(more)                                                                                       \
    "models:\n"                                                                                              \
    "  - name: qwen\n"                                                                                       \
    "    target: { static: { endpoints: ['http://127.0.0.1:PORT'] } }\n" more

static int setup_keeper(void **state)
{
    struct wg_keeper_seat *seat;
    (void)state;
    if (wg_keeper_fork(&seat) < 0)
        return -1;
    bench_start_keeper(&bench, seat);
    return 0;
}

/* ---- waking ---- */

static void a_wake_is_measured(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL(""));
    const uint64_t ok = wg_metrics_model("qwen")->wakes[WG_WAKE_OK];
    bench_serve_one(&bench);
    bench_await_state(&bench, WG_MODEL_WARM);
    assert_int_equal(wg_metrics_model("qwen")->wakes[WG_WAKE_OK], ok + 1);
    assert_int_equal(wg_metrics_model("qwen")->state, WG_MODEL_WARM);
    assert_true(bench.views[0]->expected_start > 0);
    struct wg_status *status = bench_status(&bench);
    assert_int_equal(status->n_models, 1);
    const struct wg_status_model *model = &status->models[0];
    assert_string_equal(model->name, "qwen");
    assert_int_equal(model->state, WG_MODEL_WARM);
    assert_int_equal(model->n_endpoints, 1);
    assert_string_equal(model->endpoints[0].state, "serving");
    assert_int_equal(model->n_starts, 1);
    assert_true(model->starts[0].ok);
    assert_true(model->starts[0].phase[WG_PHASE_LISTENING] >= 0);
    assert_true(model->starts[0].phase[WG_PHASE_ANSWERING] >= model->starts[0].phase[WG_PHASE_LISTENING]);
    assert_int_equal(model->starts[0].phase[WG_PHASE_PATCHED], -1);
    assert_true(model->starts[0].wall_began > 0);
    wg_status_clear(status);
}

static void a_preloaded_model_wakes_by_itself(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL("    preload: true\n"));
    bench_await_state(&bench, WG_MODEL_WARM);
    assert_int_equal(model_counts->wakes, 1);
}

static void what_has_no_hooks_is_proved_from_the_start(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, NO_HOOKS("    idle: { timeout: 10ms }\n"));
    assert_int_equal(bench.views[0]->state, WG_MODEL_WAKING);
    bench.server.seen->script = MODEL_READY;
    bench_await_state(&bench, WG_MODEL_WARM);
    assert_int_equal(bench_order(&bench, "qwen", WG_COMMAND_SLEEP), -EOPNOTSUPP);
    assert_int_equal(bench_order(&bench, "qwen", WG_COMMAND_WAKE), 0);
    bench_serve_one(&bench);
    assert_int_equal(bench.views[0]->state, WG_MODEL_WARM);
}

/* ---- failing ---- */

static void a_wake_that_proves_nothing_times_out_and_may_come_late(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL("    wake: { timeout: 200ms, backoff: 1h, maxBackoff: 1h }\n"));
    const uint64_t timeouts = wg_metrics_model("qwen")->wakes[WG_WAKE_TIMEOUT];
    struct request waits, comes, late;
    bench_request(&bench, &waits);
    bench_expect_refusal(&bench, &waits, WG_REASON_MODEL_WAKE_TIMEOUT);
    assert_non_null(strstr(waits.ticket.message, "Loading model"));
    bench_await_state(&bench, WG_MODEL_FAILED);
    assert_int_equal(wg_metrics_model("qwen")->wakes[WG_WAKE_TIMEOUT], timeouts + 1);
    bench_request(&bench, &comes);
    bench_expect_refusal(&bench, &comes, WG_REASON_MODEL_WAKE_FAILED);
    assert_int_equal(comes.ticket.retry_after, 0);
    struct wg_status *status = bench_status(&bench);
    assert_true(status->models[0].back_off > 0);
    assert_false(status->models[0].starts[0].ok);
    assert_string_equal(status->models[0].reason, "the probe got 503: Loading model");
    wg_status_clear(status);
    bench.server.seen->script = MODEL_READY;
    bench_await_state(&bench, WG_MODEL_WARM);
    bench_request(&bench, &late);
    bench_expect_dispatch(&bench, &late);
    bench_finish(&bench, &late);
    assert_int_equal(model_counts->wakes, 1);
}

/* After the back-off. */
static void expect_timeout(struct request *request)
{
    do {
        bench_request(&bench, request);
        bench_await(&bench, request);
        assert_int_equal(request->ticket.verdict, WG_VERDICT_REFUSE);
    } while (request->ticket.reason == WG_REASON_MODEL_WAKE_FAILED);
    assert_int_equal(request->ticket.reason, WG_REASON_MODEL_WAKE_TIMEOUT);
}

static void what_hangs_through_two_wakes_is_started_anew(void **state)
{
    (void)state;
    struct request request;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL("    wake: { timeout: 200ms, backoff: 1ms, maxBackoff: 1ms }\n"));
    expect_timeout(&request);
    bench_settle(&bench);
    assert_int_equal(model_counts->sleeps, 0);
    expect_timeout(&request);
    while (model_counts->sleeps < 1)
        bench_settle(&bench);
    assert_int_equal(bench.views[0]->state, WG_MODEL_FAILED);
    /* The one after it is a first one again. */
    const int wakes = model_counts->wakes;
    expect_timeout(&request);
    assert_int_equal(model_counts->wakes, wakes + 1);
    assert_int_equal(model_counts->sleeps, 1);
    bench.server.seen->script = MODEL_READY;
    bench_await_state(&bench, WG_MODEL_WARM);
    bench_serve_one(&bench);
}

static void a_wake_hook_that_never_works_is_named_at_the_timeout(void **state)
{
    (void)state;
    model_counts->wake_waits = 1;
    bench_configure(&bench, MODEL("    wake: { timeout: 1500ms, backoff: 1ms }\n"));
    struct request request;
    bench_request(&bench, &request);
    bench_expect_refusal(&bench, &request, WG_REASON_MODEL_WAKE_TIMEOUT);
    assert_non_null(strstr(request.ticket.message, "the wake hook answered 503"));
    assert_int_equal(model_counts->wakes, 2);
    /* One that comes at once has the whole of its time again. */
    model_counts->wake_waits = 0;
    for (;;) {
        bench_request(&bench, &request);
        bench_await(&bench, &request);
        if (request.ticket.verdict == WG_VERDICT_DISPATCH)
            break;
        assert_int_equal(request.ticket.reason, WG_REASON_MODEL_WAKE_FAILED);
        assert_non_null(strstr(request.ticket.message, "It is not tried again for"));
    }
    bench_finish(&bench, &request);
}

static void a_failed_wake_tells_why_and_is_tried_again_after_its_back_off(void **state)
{
    (void)state;
    model_counts->wake_fails = 1;
    bench_configure(&bench, MODEL("    wake: { backoff: 50ms, maxBackoff: 50ms }\n"));
    struct request first;
    bench_request(&bench, &first);
    bench_expect_refusal(&bench, &first, WG_REASON_MODEL_WAKE_FAILED);
    assert_non_null(strstr(first.ticket.message, "qwen could not be started:"));
    assert_non_null(strstr(first.ticket.message, "404"));
    assert_int_equal(first.ticket.retry_after, 0);
    model_counts->wake_fails = 0;
    for (;;) {
        struct request again;
        bench_request(&bench, &again);
        bench_await(&bench, &again);
        if (again.ticket.verdict == WG_VERDICT_DISPATCH) {
            bench_finish(&bench, &again);
            break;
        }
        assert_int_equal(again.ticket.reason, WG_REASON_MODEL_WAKE_FAILED);
    }
    assert_true(wg_clock_monotonic() - first.ticket.arrived >= 50 * WG_USEC_PER_MSEC);
}

static void a_steady_refusal_fails_the_wake(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_NOT_FOUND;
    bench_configure(&bench, MODEL(""));
    struct request request;
    bench_request(&bench, &request);
    bench_expect_refusal(&bench, &request, WG_REASON_MODEL_WAKE_FAILED);
    assert_non_null(strstr(request.ticket.message, "the probe got 404: no such route"));
    assert_true(wg_clock_monotonic() - request.ticket.arrived >= 3 * WG_USEC_PER_SEC);
}

static void a_failed_model_goes_back_to_sleep(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench,
                    MODEL("    wake: { timeout: 100ms, backoff: 10ms }\n    idle: { timeout: 100ms }\n"));
    struct request request;
    bench_request(&bench, &request);
    bench_expect_refusal(&bench, &request, WG_REASON_MODEL_WAKE_TIMEOUT);
    bench_await_state(&bench, WG_MODEL_FAILED);
    bench_await_state(&bench, WG_MODEL_COLD);
    assert_int_equal(model_counts->sleeps, 1);
}

static void orders_do_not_mind_a_back_off(void **state)
{
    (void)state;
    model_counts->wake_fails = 1;
    bench_configure(&bench, MODEL("    wake: { backoff: 1h, maxBackoff: 1h }\n"));
    assert_int_equal(bench_order(&bench, "qwen", WG_COMMAND_WAKE), 0);
    bench_await_state(&bench, WG_MODEL_FAILED);
    model_counts->wake_fails = 0;
    assert_int_equal(bench_order(&bench, "qwen", WG_COMMAND_WAKE), 0);
    bench_await_state(&bench, WG_MODEL_WARM);
    assert_int_equal(bench_order(&bench, "nobody", WG_COMMAND_WAKE), -ENOENT);
}

/* ---- idling ---- */

static void an_idle_model_sleeps(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL("    idle: { timeout: 150ms }\n"));
    struct request request;
    bench_request(&bench, &request);
    bench_expect_dispatch(&bench, &request);
    usleep(400 * 1000); /* longer than the idle time: a request under way is not idleness */
    bench_settle(&bench);
    assert_int_equal(bench.states_seen[WG_MODEL_COOLING], 0);
    const wg_usec ended = wg_clock_monotonic();
    bench_finish(&bench, &request);
    bench_await_state(&bench, WG_MODEL_COLD);
    assert_true(wg_clock_monotonic() - ended >= 150 * WG_USEC_PER_MSEC);
    assert_int_equal(model_counts->sleeps, 1);
    assert_int_equal(bench.views[0]->n_endpoints, 0);
}

static void no_model_idles_out_faster_than_it_starts(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(&bench, MODEL("    idle: { timeout: 10ms }\n"));
    struct request request;
    bench_request(&bench, &request);
    bench_await_state(&bench, WG_MODEL_WAKING);
    usleep(300 * 1000); /* the length of the start */
    bench.server.seen->script = MODEL_READY;
    bench_expect_dispatch(&bench, &request);
    const wg_usec ended = wg_clock_monotonic();
    bench_finish(&bench, &request);
    bench_await_state(&bench, WG_MODEL_COLD);
    assert_true(wg_clock_monotonic() - ended >= 300 * WG_USEC_PER_MSEC);
}

static void an_arrival_during_the_sleep_wakes_again(void **state)
{
    (void)state;
    model_counts->sleep_msec = 300;
    bench_configure(&bench, MODEL("    idle: { timeout: 20ms }\n"));
    bench_serve_one(&bench);
    bench_await_state(&bench, WG_MODEL_COOLING);
    struct request request;
    bench_request(&bench, &request);
    bench_expect_dispatch(&bench, &request);
    assert_true(request.ticket.waited_cold);
    assert_int_equal(model_counts->sleeps, 1);
    assert_int_equal(model_counts->wakes, 2);
    bench_finish(&bench, &request);
}

/* Arrivals before, at and after the seal, by the view and by tickets: each is served. */
static void arrivals_around_the_seal_are_all_served(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL("    idle: { timeout: 20ms }\n"));
    for (int i = 0; i < 60; i++) {
        struct wg_endpoint *endpoint = bench.views[0]->n_endpoints > 0 ? wg_view_take(bench.views[0]) : NULL;
        if (endpoint) {
            assert_false(wg_slots_sealed(&endpoint->slots));
            bench_release(&bench, endpoint, 0, true);
        } else {
            bench_serve_one(&bench);
        }
        usleep((useconds_t)(18000 + i % 12 * 500));
        bench_settle(&bench);
    }
}

static void an_order_to_sleep_minds_what_runs(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL(""));
    assert_int_equal(bench_order(&bench, "qwen", WG_COMMAND_SLEEP), 0); /* it is cold */
    bench.server.seen->script = MODEL_LOADING;
    struct request request;
    bench_request(&bench, &request);
    assert_int_equal(bench_order(&bench, "qwen", WG_COMMAND_SLEEP), -EBUSY);
    bench.server.seen->script = MODEL_READY;
    bench_expect_dispatch(&bench, &request);
    assert_int_equal(bench_order(&bench, "qwen", WG_COMMAND_SLEEP), -EBUSY);
    bench_finish(&bench, &request);
    assert_int_equal(bench_order(&bench, "qwen", WG_COMMAND_SLEEP), 0);
    bench_await_state(&bench, WG_MODEL_COLD);
    bench_serve_one(&bench);
    assert_int_equal(model_counts->wakes, 2);
}

/* ---- endpoints ---- */

#define TWO_ENDPOINTS                                                                                        \
    "models:\n"                                                                                              \
    "  - name: qwen\n"                                                                                       \
    "    target: { static: { endpoints: ['http://127.0.0.1:PORT', 'http://127.0.0.1:SECOND'] } }\n"

static bool has_endpoints(struct bench *b, void *arg)
{
    return b->views[0]->n_endpoints == *(size_t *)arg;
}

static void await_endpoints(size_t n)
{
    bench_run_until(&bench, has_endpoints, &n);
}

static void an_endpoint_that_fails_is_set_aside_and_proved_again(void **state)
{
    (void)state;
    bench_configure(&bench, TWO_ENDPOINTS);
    await_endpoints(2);
    bench.server.seen->script = bench.second.seen->script = MODEL_LOADING;
    struct wg_endpoint *bad = wg_endpoint_ref(bench.views[0]->endpoints[0]);
    struct wg_endpoint *last = wg_endpoint_ref(bench.views[0]->endpoints[1]);
    wg_activator_suspect(bench.activator, 0, bad);
    await_endpoints(1);
    assert_ptr_equal(bench.views[0]->endpoints[0], last);
    assert_int_equal(wg_slots_take(&bad->slots), WG_SLOT_SEALED);
    struct wg_status *status = bench_status(&bench);
    assert_string_equal(status->models[0].endpoints[0].state, "suspect");
    wg_status_clear(status);
    /* The last one stays, with a clean slate. */
    atomic_store(&last->failures, 3);
    wg_activator_suspect(bench.activator, 0, last);
    bench_settle(&bench);
    assert_int_equal(bench.views[0]->n_endpoints, 1);
    assert_int_equal(last->failures, 0);
    bench.server.seen->script = bench.second.seen->script = MODEL_READY;
    await_endpoints(2);
    assert_int_equal(wg_slots_take(&bad->slots), WG_SLOT_TAKEN);
    assert_false(wg_slots_release(&bad->slots, false, 0));
    wg_endpoint_unref(bad);
    wg_endpoint_unref(last);
}

static void the_endpoint_with_the_fewest_tokens_is_taken(void **state)
{
    (void)state;
    bench_configure(&bench, TWO_ENDPOINTS);
    await_endpoints(2);
    struct wg_endpoint *const *endpoints = bench.views[0]->endpoints;
    atomic_store(&endpoints[0]->tokens, 50);
    assert_ptr_equal(wg_view_take(bench.views[0]), endpoints[1]);
    atomic_store(&endpoints[1]->tokens, 60);
    assert_ptr_equal(wg_view_take(bench.views[0]), endpoints[0]);
    atomic_store(&endpoints[0]->tokens, 60);
    /* As many tokens, as many slots: then the fewest slots decide. */
    struct wg_endpoint *third = wg_view_take(bench.views[0]), *fourth = wg_view_take(bench.views[0]);
    assert_ptr_not_equal(third, fourth);
    for (size_t i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            bench_release(&bench, endpoints[i], 0, false);
}

/* ---- processes ---- */

#define PROCESS(command, more)                                                                               \
    "models:\n"                                                                                              \
    "  - name: qwen\n"                                                                                       \
    "    target: { process: { command: " command ", stopTimeout: 1s } }\n" more

/* This program again, as a model server that behaves as `role` says. */
static void configure_process(const char *role, const char *more)
{
    char self[256], yaml[1024];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(n > 0);
    self[n] = '\0';
    snprintf(yaml, sizeof(yaml), PROCESS("['%s', %s, '{port}']", "%s"), self, role, more);
    bench_configure(&bench, yaml);
}

static void expect_failed_start(const char *why)
{
    struct request request;
    bench_request(&bench, &request);
    bench_expect_refusal(&bench, &request, WG_REASON_MODEL_WAKE_FAILED);
    if (!strstr(request.ticket.message, why))
        print_error("%s\n", request.ticket.message);
    assert_non_null(strstr(request.ticket.message, why));
}

/* It crashes under a request, which is not over by that. */
static void crash_under(struct wg_endpoint *endpoint)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&endpoint->address, endpoint->address_len), 0);
    assert_true(scripted_send(fd, "POST /crash HTTP/1.1\r\n\r\n"));
    close(fd);
    while (!wg_slots_sealed(&endpoint->slots))
        bench_settle(&bench);
}

static void crash(struct request *request)
{
    crash_under(request->ticket.endpoint);
    bench_finish(&bench, request);
}

static void processes_crash_and_come_back(void **state)
{
    (void)state;
    bench_configure(&bench, PROCESS("[sh, -c, 'exit 3', '{port}']", "    wake: { backoff: 10ms }\n"));
    expect_failed_start("exited with status 3");
    /* It listens, and dies of the first probe. */
    configure_process("frail", "    wake: { backoff: 10ms }\n");
    expect_failed_start(
        "the process was killed by signal 9 (Killed); its last output: no memory for a prompt");

    configure_process("sound", "    wake: { backoff: 300ms }\n");
    wg_usec asked[4];
    for (int i = 0; i < 4; i++) {
        struct request request;
        asked[i] = wg_clock_monotonic();
        bench_request(&bench, &request);
        bench_expect_dispatch(&bench, &request);
        crash(&request);
    }
    /* The next request brings it back at once, but not for ever. */
    assert_true(wg_clock_monotonic() - asked[2] >= 300 * WG_USEC_PER_MSEC);
    bench_await_state(&bench, WG_MODEL_COLD);

    /* With somebody waiting it comes back without a further request. */
    configure_process("sound",
                      "    wake: { backoff: 10ms }\n    concurrency: { perEndpoint: 1, rampStart: 1 }\n");
    struct request runs, waits;
    bench_request(&bench, &runs);
    bench_expect_dispatch(&bench, &runs);
    bench_request(&bench, &waits);
    bench_settle(&bench);
    crash(&runs);
    bench_expect_dispatch(&bench, &waits);
    assert_true(waits.ticket.waited_cold);

    /* Removed while it serves what it holds, and then it dies: there is nothing left to wait for. */
    struct request held;
    bench_request(&bench, &held);
    bench_settle(&bench);
    bench_configure(
        &bench,
        "models: [ { name: other, target: { static: { endpoints: ['http://127.0.0.1:PORT'] } } } ]\n");
    crash(&waits);
    bench_expect_refusal(&bench, &held, WG_REASON_MODEL_WAKE_FAILED);
}

static void make_file(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

/* A model that is replaced waits for its last request. What comes up in that time is nobody's any more. */
static void an_instance_that_comes_up_during_a_replacement_is_let_go(void **state)
{
    (void)state;
    char path[] = "/tmp/wakegate-test-XXXXXX", role[64];
    close(mkstemp(path));
    snprintf(role, sizeof(role), "late, '%s'", path);
    configure_process(role, "    concurrency: { perEndpoint: 1, rampStart: 1 }\n");
    struct request runs, waits;
    bench_request(&bench, &runs);
    bench_expect_dispatch(&bench, &runs);
    bench_request(&bench, &waits);
    bench_settle(&bench);
    unlink(path);
    crash_under(runs.ticket.endpoint);
    bench_await_state(&bench, WG_MODEL_WAKING);
    bench_configure(
        &bench, "models: [ { name: qwen, target: { static: { endpoints: ['http://127.0.0.1:PORT'] } } } ]\n");
    const uint64_t proved = wg_metrics_model("qwen")->probes[WG_PROBE_OK];
    make_file(path);
    while (wg_metrics_model("qwen")->probes[WG_PROBE_OK] == proved)
        bench_settle(&bench);
    bench_settle(&bench);
    assert_int_equal(bench.views[0]->state, WG_MODEL_COOLING);
    bench_finish(&bench, &runs);
    bench_expect_dispatch(&bench, &waits);
    assert_true(bench_went_to(&waits, &bench.server));
    bench_finish(&bench, &waits);
    unlink(path);
}

/* It takes longer than wake.timeout: it runs on, and the wake after that finds it on its way. */
static void a_start_that_outlasts_its_wake_is_not_begun_again(void **state)
{
    (void)state;
    char path[] = "/tmp/wakegate-test-XXXXXX", role[64];
    close(mkstemp(path));
    unlink(path);
    snprintf(role, sizeof(role), "late, '%s'", path);
    configure_process(role, "    wake: { timeout: 1s, backoff: 20ms, maxBackoff: 20ms }\n");
    struct request request;
    bench_request(&bench, &request);
    bench_expect_refusal(&bench, &request, WG_REASON_MODEL_WAKE_TIMEOUT);
    assert_non_null(strstr(request.ticket.message, "process started"));
    bench_await_state(&bench, WG_MODEL_FAILED);
    assert_int_equal(bench_order(&bench, "qwen", WG_COMMAND_WAKE), 0);
    bench_await_state(&bench, WG_MODEL_WAKING);
    make_file(path);
    bench_await_state(&bench, WG_MODEL_WARM);
    bench_serve_one(&bench);
    /* How long a start takes cannot be told from what was left of one. */
    assert_int_equal(bench.views[0]->expected_start, 0);
    unlink(path);
}

static bool child_answer(int fd, const char *request, struct scripted_seen *seen)
{
    if (seen->script == MODEL_SILENT || strncmp(request, "POST /crash", 11) == 0) {
        kill(getppid(), SIGKILL);
        return false;
    }
    return model_answer_prompt(fd, request, MODEL_READY);
}

/* At most as long as a test waits. */
static void await_file(const char *path)
{
    for (int i = 0; i < BENCH_PATIENCE * 100 && access(path, F_OK) < 0; i++)
        usleep(10 * 1000);
}

static int serve(const char *role, const char *path, const char *port)
{
    if (strcmp(role, "late") == 0)
        await_file(path);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)atoi(port)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 16) < 0)
        return 1;
    static struct scripted_seen seen;
    if (strcmp(role, "frail") == 0) {
        puts("no memory for a prompt");
        fflush(stdout);
        seen.script = MODEL_SILENT;
    }
    scripted_run(fd, child_answer, &seen);
    return 0;
}

#define TEST(function)         cmocka_unit_test_setup_teardown(function, setup, teardown)
#define PROCESS_TEST(function) cmocka_unit_test_setup_teardown(function, setup_keeper, teardown)

int main(int argc, char **argv)
{
    if (argc > 2) /* role, a file for some, port */
        return serve(argv[1], argv[2], argv[argc - 1]);
    const struct CMUnitTest tests[] = {
        PROCESS_TEST(processes_crash_and_come_back),
        PROCESS_TEST(a_start_that_outlasts_its_wake_is_not_begun_again),
        PROCESS_TEST(an_instance_that_comes_up_during_a_replacement_is_let_go),
        TEST(a_wake_is_measured),
        TEST(a_preloaded_model_wakes_by_itself),
        TEST(what_has_no_hooks_is_proved_from_the_start),
        TEST(a_wake_that_proves_nothing_times_out_and_may_come_late),
        TEST(what_hangs_through_two_wakes_is_started_anew),
        TEST(a_wake_hook_that_never_works_is_named_at_the_timeout),
        TEST(a_failed_wake_tells_why_and_is_tried_again_after_its_back_off),
        TEST(a_steady_refusal_fails_the_wake),
        TEST(a_failed_model_goes_back_to_sleep),
        TEST(orders_do_not_mind_a_back_off),
        TEST(an_idle_model_sleeps),
        TEST(no_model_idles_out_faster_than_it_starts),
        TEST(an_arrival_during_the_sleep_wakes_again),
        TEST(arrivals_around_the_seal_are_all_served),
        TEST(an_order_to_sleep_minds_what_runs),
        TEST(an_endpoint_that_fails_is_set_aside_and_proved_again),
        TEST(the_endpoint_with_the_fewest_tokens_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
