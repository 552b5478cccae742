/* A whole activator at work: control and service in threads of their own, the test as its worker, and a real
 * model server (a process) behind it. The test waits for what it expects to see, never for a time to pass; a
 * wait that takes 20 s has failed. */
#pragma once

#include "unit.h"

#include "scripted_server.h"
#include "wakegate/activator.h"
#include "wakegate/base/log.h"

enum model_script {
    MODEL_READY,
    MODEL_LOADING,   /* 503 */
    MODEL_NOT_FOUND, /* 404 */
    MODEL_GARBAGE,   /* 200, not JSON */
    MODEL_ERROR,     /* 200 with an error inside */
    MODEL_EMPTY,     /* 200 without a choice */
    MODEL_HUGE,      /* 200, longer than any answer to a probe */
    MODEL_LIMITED,   /* 429 */
    MODEL_SILENT,    /* takes the request, says nothing */
    MODEL_FLOOR,     /* 400 to a max_tokens below 16 */
};

/* Counted by the server's processes. */
struct model_counts {
    _Atomic int wakes, sleeps, probes, floors;
    _Atomic int sleep_msec; /* how long the sleep hook takes */
    _Atomic int wake_fails; /* the wake hook answers 404 */
    _Atomic int wake_waits; /* the wake hook answers 503 */
};
static struct model_counts *model_counts;

static inline bool model_send_huge(int fd)
{
    char spaces[4097];
    memset(spaces, ' ', sizeof(spaces) - 1);
    spaces[sizeof(spaces) - 1] = '\0';
    bool sent = scripted_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n");
    for (int i = 0; sent && i < 2048; i++)
        sent = scripted_send(fd, spaces);
    return sent;
}

static inline bool model_answer_prompt(int fd, const char *request, int script)
{
    static const char ok[] = "{\"choices\":[{\"message\":{\"content\":\"Hello\"}}]}";
    switch (script) {
    case MODEL_LOADING:
        return scripted_reply(fd, "503 Service Unavailable", "{\"error\":{\"message\":\"Loading model\"}}");
    case MODEL_NOT_FOUND:
        return scripted_reply(fd, "404 Not Found", "{\"error\":{\"message\":\"no such route\"}}");
    case MODEL_GARBAGE:
        return scripted_reply(fd, "200 OK", "<html>");
    case MODEL_ERROR:
        return scripted_reply(fd, "200 OK", "{\"error\":{\"message\":\"engine is dead\"}}");
    case MODEL_EMPTY:
        return scripted_reply(fd, "200 OK", "{\"choices\":[]}");
    case MODEL_LIMITED:
        return scripted_reply(fd, "429 Too Many Requests", "{\"error\":\"slow down\"}");
    case MODEL_HUGE:
        return model_send_huge(fd);
    case MODEL_SILENT:
        scripted_wait_close(fd);
        return false;
    case MODEL_FLOOR:
        if (!strstr(request, "\"max_tokens\":16")) {
            atomic_fetch_add(&model_counts->floors, 1);
            return scripted_reply(fd, "400 Bad Request", "{\"error\":{\"message\":\"max_tokens below 16\"}}");
        }
        return scripted_reply(fd, "200 OK", ok);
    default:
        return scripted_reply(fd, "200 OK", ok);
    }
}

static inline bool model_answer(int fd, const char *request, struct scripted_seen *seen)
{
    if (strncmp(request, "POST /wake", 10) == 0) {
        atomic_fetch_add(&model_counts->wakes, 1);
        return scripted_reply(fd,
                              model_counts->wake_fails   ? "404 Not Found"
                              : model_counts->wake_waits ? "503 Service Unavailable"
                                                         : "200 OK",
                              "{}");
    }
    if (strncmp(request, "POST /sleep", 11) == 0) {
        atomic_fetch_add(&model_counts->sleeps, 1);
        usleep((useconds_t)model_counts->sleep_msec * 1000);
        return scripted_reply(fd, "200 OK", "{}");
    }
    atomic_fetch_add(&model_counts->probes, 1);
    return model_answer_prompt(fd, request, seen->script);
}

enum { BENCH_MODELS = 8, BENCH_PATIENCE = 20 };

struct bench {
    struct scripted_server server, second;
    struct wg_loop *control, *service, *loop; /* loop: the test's own */
    struct wg_thread *control_thread, *service_thread;
    struct wg_fetch *fetch;
    struct wg_keeper *keeper; /* NULL without process targets */
    struct wg_activator *activator;
    struct wg_mailbox *mailbox;
    struct wg_config *config;
    struct wg_view *views[BENCH_MODELS];
    struct wg_plan *plan;
    unsigned states_seen[WG_MODEL_STATES]; /* views published with this state, model 0 */
    unsigned home, left;                   /* mails and leaves that came back */
    struct wg_order order;
    struct wg_status status;
    bool order_home, status_home;
    bool (*condition)(struct bench *bench, void *arg);
    void *condition_arg;
    struct wg_timer guard;
    bool timed_out;
};

/* A request of the test's. */
struct request {
    struct wg_ticket ticket;
    unsigned home, left; /* how often each mail came back */
    unsigned order;      /* the how-manieth of all that came home */
};

static inline void bench_check(struct bench *bench)
{
    if (bench->condition && bench->condition(bench, bench->condition_arg))
        wg_loop_stop(bench->loop);
}

static inline void bench_on_publication(struct wg_mail *mail, void *receiver)
{
    struct bench *bench = receiver;
    struct wg_publication *publication = WG_CONTAINER_OF(mail, struct wg_publication, mail);
    if (publication->view) {
        const uint32_t id = publication->view->model_id;
        assert_true(id < BENCH_MODELS);
        bench->states_seen[publication->view->state] += id == 0;
        wg_view_unref(bench->views[id]);
        bench->views[id] = wg_view_ref(publication->view);
    } else {
        for (size_t i = 0; i < publication->plan->config->n_models; i++)
            assert_non_null(bench->views[publication->plan->model_ids[i]]);
        wg_plan_unref(bench->plan);
        bench->plan = wg_plan_ref(publication->plan);
    }
    wg_publication_free(publication);
    bench_check(bench);
}

static inline void bench_on_guard(struct wg_timer *timer)
{
    struct bench *bench = WG_CONTAINER_OF(timer, struct bench, guard);
    bench->timed_out = true;
    wg_loop_stop(bench->loop);
}

static inline void bench_run_until(struct bench *bench, bool (*condition)(struct bench *, void *), void *arg)
{
    if (condition(bench, arg))
        return;
    bench->condition = condition;
    bench->condition_arg = arg;
    bench->timed_out = false;
    wg_timer_set_after(&bench->guard, BENCH_PATIENCE * WG_USEC_PER_SEC);
    wg_loop_run(bench->loop);
    wg_timer_cancel(&bench->guard);
    bench->condition = NULL;
    assert_false(bench->timed_out);
}

/* ---- life ---- */

static inline void bench_run_loop(void *arg)
{
    wg_loop_run(arg);
}

/* `seat`: NULL without process targets. */
static inline void bench_start_keeper(struct bench *bench, struct wg_keeper_seat *seat)
{
    memset(bench, 0, sizeof(*bench));
    model_counts =
        mmap(NULL, sizeof(*model_counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(model_counts, MAP_FAILED);
    bench->server = scripted_start(model_answer);
    bench->second = scripted_start(model_answer);
    wg_log_configure(WG_LOG_ERROR, WG_LOG_TEXT);
    bench->control = wg_loop_new();
    bench->service = wg_loop_new();
    bench->loop = wg_loop_new();
    bench->fetch = wg_fetch_new(bench->service);
    bench->keeper = seat ? wg_keeper_attach(seat, bench->service) : NULL;
    bench->mailbox = wg_mailbox_new(bench->loop, bench);
    wg_timer_init(&bench->guard, bench->loop, bench_on_guard);
    const struct wg_activator_env env = {
        .control = bench->control,
        .service = {.loop = bench->service, .keeper = bench->keeper, .fetch = bench->fetch},
    };
    bench->activator = wg_activator_new(&env);
    assert_non_null(bench->activator);
    wg_activator_subscribe(bench->activator, bench->mailbox, bench_on_publication);
    assert_int_equal(wg_thread_start("control", bench_run_loop, bench->control, &bench->control_thread), 0);
    assert_int_equal(wg_thread_start("service", bench_run_loop, bench->service, &bench->service_thread), 0);
}

static inline void bench_start(struct bench *bench)
{
    bench_start_keeper(bench, NULL);
}

static inline void bench_stop_threads(struct bench *bench)
{
    if (!bench->control_thread)
        return;
    wg_loop_stop(bench->control);
    bench->control_thread = wg_thread_join(bench->control_thread);
    wg_loop_stop(bench->service);
    bench->service_thread = wg_thread_join(bench->service_thread);
}

static inline void bench_stop(struct bench *bench)
{
    bench_stop_threads(bench);
    bench->activator = wg_activator_free(bench->activator);
    wg_keeper_free(bench->keeper);
    wg_mailbox_free(bench->mailbox);
    wg_fetch_free(bench->fetch);
    for (size_t i = 0; i < BENCH_MODELS; i++)
        wg_view_unref(bench->views[i]);
    wg_plan_unref(bench->plan);
    wg_config_unref(bench->config);
    wg_loop_free(bench->loop);
    wg_loop_free(bench->service);
    wg_loop_free(bench->control);
    scripted_stop(&bench->server);
    scripted_stop(&bench->second);
    munmap(model_counts, sizeof(*model_counts));
}

/* ---- configuration ---- */

static inline struct wg_config *bench_parse(const char *text)
{
    struct wg_config *config = NULL;
    struct wg_config_faults faults = {.text = WG_BUF_INIT(65536)};
    if (wg_config_parse("test.yaml", wg_slice_str(text), &config, &faults) < 0)
        print_error("%s", wg_buf_str(&faults.text));
    assert_non_null(config);
    wg_config_faults_clear(&faults);
    return config;
}

static inline bool bench_has_plan(struct bench *bench, void *arg)
{
    return bench->plan && bench->plan->config == arg;
}

/* The text with PORT and SECOND replaced by the ports of the two servers. */
static inline void bench_expand(const struct bench *bench, const char *text, struct wg_buf *out)
{
    const struct {
        const char *mark;
        uint16_t port;
    } marks[] = {{"PORT", bench->server.port}, {"SECOND", bench->second.port}};
    while (*text != '\0') {
        size_t i = 0;
        while (i < 2 && strncmp(text, marks[i].mark, strlen(marks[i].mark)) != 0)
            i++;
        if (i < 2)
            (void)wg_buf_add_u64(out, marks[i].port);
        else
            (void)wg_buf_add_char(out, *text);
        text += i < 2 ? strlen(marks[i].mark) : 1;
    }
}

/* Returns when the plan is out. */
static inline void bench_configure(struct bench *bench, const char *text)
{
    struct wg_buf yaml = WG_BUF_INIT(65536);
    bench_expand(bench, text, &yaml);
    struct wg_config *config = bench_parse(wg_buf_str(&yaml));
    wg_buf_clear(&yaml);
    wg_config_unref(bench->config);
    bench->config = config;
    wg_activator_configure(bench->activator, config);
    bench_run_until(bench, bench_has_plan, config);
}

/* ---- requests ---- */

static inline void bench_on_home(struct wg_mail *mail, void *receiver)
{
    struct bench *bench = receiver;
    struct request *request = WG_CONTAINER_OF(mail, struct request, ticket.mail);
    request->home++;
    request->order = ++bench->home;
    bench_check(bench);
}

static inline void bench_on_left(struct wg_mail *mail, void *receiver)
{
    struct bench *bench = receiver;
    WG_CONTAINER_OF(mail, struct request, ticket.leave)->left++;
    bench->left++;
    bench_check(bench);
}

/* Defaults, to be changed before bench_hold: the first model, the first tenant, patient. */
static inline void request_init(struct bench *bench, struct request *request)
{
    memset(request, 0, sizeof(*request));
    struct wg_ticket *ticket = &request->ticket;
    ticket->home = bench->mailbox;
    ticket->tenant = &bench->config->tenants[0];
    ticket->config = bench->config;
    ticket->tokens = 10;
    ticket->bytes = 100;
    ticket->arrived = wg_clock_monotonic();
    ticket->cold_deadline = ticket->arrived + 60 * WG_USEC_PER_SEC;
    ticket->client_wait = WG_USEC_NEVER;
    ticket->may_wake = true;
}

static inline void bench_hold(struct bench *bench, struct request *request)
{
    wg_mail_init(&request->ticket.mail, bench_on_home);
    wg_mail_init(&request->ticket.leave, bench_on_left);
    wg_activator_hold(bench->activator, &request->ticket);
}

static inline void bench_request(struct bench *bench, struct request *request)
{
    request_init(bench, request);
    bench_hold(bench, request);
}

static inline bool bench_is_home(struct bench *bench, void *arg)
{
    (void)bench;
    return ((struct request *)arg)->home > 0;
}

static inline void bench_await(struct bench *bench, struct request *request)
{
    bench_run_until(bench, bench_is_home, request);
}

static inline void bench_expect_dispatch(struct bench *bench, struct request *request)
{
    bench_await(bench, request);
    if (request->ticket.verdict != WG_VERDICT_DISPATCH)
        print_error("refused: %s\n", request->ticket.message);
    assert_int_equal(request->ticket.verdict, WG_VERDICT_DISPATCH);
    assert_non_null(request->ticket.endpoint);
}

static inline void bench_expect_refusal(struct bench *bench, struct request *request, enum wg_reason reason)
{
    bench_await(bench, request);
    assert_int_equal(request->ticket.verdict, WG_VERDICT_REFUSE);
    if (request->ticket.reason != reason)
        print_error("reason %s: %s\n", wg_reason_info(request->ticket.reason)->code, request->ticket.message);
    assert_int_equal(request->ticket.reason, reason);
}

/* True if it was sent to this server. */
static inline bool bench_went_to(const struct request *request, const struct scripted_server *server)
{
    const char *colon = strrchr(request->ticket.endpoint->authority, ':');
    return colon && atoi(colon + 1) == server->port;
}

static inline void bench_release(struct bench *bench, struct wg_endpoint *endpoint, uint32_t model_id,
                                 bool grow)
{
    atomic_store(&endpoint->last_used, wg_clock_monotonic());
    if (wg_slots_release(&endpoint->slots, grow, endpoint->slots_max))
        wg_activator_freed(bench->activator, model_id);
}

/* What a worker does when a dispatched request has ended. */
static inline void bench_finish(struct bench *bench, struct request *request)
{
    struct wg_ticket *ticket = &request->ticket;
    atomic_fetch_sub(&ticket->endpoint->tokens, (int64_t)ticket->tokens);
    bench_release(bench, ticket->endpoint, ticket->model_id, false);
    ticket->endpoint = wg_endpoint_unref(ticket->endpoint);
}

/* One request from hold to end. */
static inline void bench_serve_one(struct bench *bench)
{
    struct request request;
    bench_request(bench, &request);
    bench_expect_dispatch(bench, &request);
    bench_finish(bench, &request);
}

/* ---- states, orders, status ---- */

static inline bool bench_in_state(struct bench *bench, void *arg)
{
    return bench->views[0] && bench->views[0]->state == *(enum wg_model_state *)arg;
}

/* Of the first model. */
static inline void bench_await_state(struct bench *bench, enum wg_model_state state)
{
    bench_run_until(bench, bench_in_state, &state);
}

static inline void bench_on_order(struct wg_mail *mail, void *receiver)
{
    (void)mail;
    ((struct bench *)receiver)->order_home = true;
    bench_check(receiver);
}

static inline bool bench_order_is_home(struct bench *bench, void *arg)
{
    (void)arg;
    return bench->order_home;
}

static inline int bench_order(struct bench *bench, const char *model, enum wg_command command)
{
    char name[64];
    snprintf(name, sizeof(name), "%s", model);
    bench->order = (struct wg_order){.home = bench->mailbox, .model = name, .command = command};
    wg_mail_init(&bench->order.mail, bench_on_order);
    bench->order_home = false;
    wg_activator_order(bench->activator, &bench->order);
    bench_run_until(bench, bench_order_is_home, NULL);
    return bench->order.ret_error;
}

static inline void bench_on_status(struct wg_mail *mail, void *receiver)
{
    (void)mail;
    ((struct bench *)receiver)->status_home = true;
    bench_check(receiver);
}

static inline bool bench_status_is_home(struct bench *bench, void *arg)
{
    (void)arg;
    return bench->status_home;
}

/* To be cleared by wg_status_clear. Whatever was posted before it has been taken in by control. */
static inline struct wg_status *bench_status(struct bench *bench)
{
    bench->status = (struct wg_status){.home = bench->mailbox};
    wg_mail_init(&bench->status.mail, bench_on_status);
    bench->status_home = false;
    wg_activator_status(bench->activator, &bench->status);
    bench_run_until(bench, bench_status_is_home, NULL);
    return &bench->status;
}

/* Everything that was posted to control until now has been taken in. */
static inline void bench_settle(struct bench *bench)
{
    wg_status_clear(bench_status(bench));
}

/* ---- of every test: a bench of its own ---- */

static struct bench bench;

static int setup(void **state)
{
    (void)state;
    bench_start(&bench);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bench_stop(&bench);
    return 0;
}
