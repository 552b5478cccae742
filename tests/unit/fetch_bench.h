/* A loop, a fetch and a scripted server for tests of HTTP calls. */
#pragma once

#include "wakegate/fetch.h"

#include "scripted_server.h"

struct fixture {
    struct scripted_server server;
    struct wg_loop *loop;
    struct wg_fetch *fetch;
    struct wg_timer guard;
};

/* One call's answer, kept. */
struct kept {
    struct fixture *f;
    int times;
    struct wg_fetch_answer answer;
    char body[256], error[256];
    bool stop; /* the loop, when it has come */
};

static inline void keep(void *arg, const struct wg_fetch_answer *got)
{
    struct kept *kept = arg;
    kept->times++;
    kept->answer = *got;
    snprintf(kept->body, sizeof(kept->body), WG_SLICE_FMT, WG_SLICE_ARG(got->body));
    snprintf(kept->error, sizeof(kept->error), "%s", got->error);
    if (kept->stop)
        wg_loop_stop(kept->f->loop);
}

static inline void on_guard(struct wg_timer *timer WG_UNUSED)
{
    fail_msg("nothing has happened for too long");
}

static inline int fetch_bench_set_up(void **state, struct scripted_server server)
{
    struct fixture *f = WG_NEW(struct fixture);
    f->server = server;
    f->loop = wg_loop_new();
    f->fetch = wg_fetch_new(f->loop);
    assert_non_null(f->fetch);
    wg_timer_init(&f->guard, f->loop, on_guard);
    wg_timer_set_after(&f->guard, 20 * WG_USEC_PER_SEC);
    *state = f;
    return 0;
}

static inline int fetch_bench_tear_down(void **state)
{
    struct fixture *f = *state;
    wg_timer_cancel(&f->guard);
    wg_fetch_free(f->fetch);
    wg_loop_free(f->loop);
    scripted_stop(&f->server);
    free(f);
    return 0;
}

static inline struct wg_fetch_request request_of(struct fixture *f, struct kept *kept, const char *method,
                                                 char *url, const char *path)
{
    sprintf(url, "http://127.0.0.1:%u%s", (unsigned)f->server.port, path);
    kept->f = f;
    return (struct wg_fetch_request){
        .method = method,
        .url = url,
        .connect_timeout = 2 * WG_USEC_PER_SEC,
        .timeout = 5 * WG_USEC_PER_SEC,
        .max_answer = 32,
        .done = keep,
        .arg = kept,
    };
}

static inline struct kept run(struct fixture *f, const char *path, wg_usec timeout)
{
    char url[128];
    struct kept kept = {.stop = true};
    struct wg_fetch_request request = request_of(f, &kept, "GET", url, path);
    request.timeout = timeout;
    assert_non_null(wg_fetch_start(f->fetch, &request));
    assert_int_equal(kept.times, 0); /* never from inside start */
    wg_loop_run(f->loop);
    assert_int_equal(kept.times, 1);
    return kept;
}
