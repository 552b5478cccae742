/* The static target: hooks against a real server, names against a name service that the test plays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>

#include "log_capture.h"
#include "scripted_server.h"
#include "target_watch.h"

static const wg_usec patience = 20 * WG_USEC_PER_SEC;

/* ---- the name service ---- */

enum { NAMES_ONE, NAMES_OTHER, NAMES_FAIL, NAMES_BLOCK };
static _Atomic int names_mode, names_asked, names_blocked;

static int play_name(const char *answer, struct addrinfo **list)
{
    const struct addrinfo numeric = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    return getaddrinfo(answer, NULL, &numeric, list);
}

/* Stands in front of the system's: answers for "*.test" itself. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    const size_t len = host ? strlen(host) : 0;
    if (len < 5 || strcmp(host + len - 5, ".test") != 0 || (hints->ai_flags & AI_NUMERICHOST)) {
        lookup *next;
        void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
        memcpy(&next, &symbol, sizeof(next));
        return next(host, service, hints, list);
    }
    atomic_fetch_add(&names_asked, 1);
    if (atomic_load(&names_mode) == NAMES_BLOCK) {
        atomic_store(&names_blocked, 1);
        while (atomic_load(&names_mode) == NAMES_BLOCK)
            usleep(1000);
    }
    switch (atomic_load(&names_mode)) {
    case NAMES_ONE:
        return play_name("10.0.0.1", list);
    case NAMES_OTHER:
        return play_name("10.0.0.2", list);
    default:
        return EAI_AGAIN;
    }
}

/* ---- the hooks ---- */

enum { HOOKS_FINE, HOOKS_LOADING_ONCE, HOOKS_MISSING, HOOKS_BROKEN, HOOKS_HANG };

static bool answer_hook(int fd, const char *request WG_UNUSED, struct scripted_seen *seen)
{
    switch (atomic_load(&seen->script)) {
    case HOOKS_FINE:
        return scripted_reply(fd, "200 OK", "");
    case HOOKS_LOADING_ONCE:
        atomic_store(&seen->script, HOOKS_FINE);
        return scripted_reply(fd, "503 Service Unavailable", "later");
    case HOOKS_MISSING:
        return scripted_reply(fd, "404 Not Found", "no such\nmodel\n");
    case HOOKS_BROKEN:
        return scripted_reply(fd, "500 Internal Server Error", "oops");
    default:
        scripted_wait_close(fd);
        return false;
    }
}

struct fixture {
    struct wg_loop *loop;
    struct wg_fetch *fetch;
    struct scripted_server server;
    struct wg_config config;
    struct wg_config_model model;
    struct wg_config_endpoint endpoints[2];
    char host[64], wake[128], sleep[128];
    struct wg_target *target;
    struct watch watch;
};

static int set_up(void **state)
{
    static char post[] = "POST", name[] = "qwen";
    struct fixture *f = WG_NEW(struct fixture);
    f->server = scripted_start(answer_hook);
    f->loop = wg_loop_new();
    f->fetch = wg_fetch_new(f->loop);
    f->config.refs = 1; /* never the last one: it is not on the heap */
    f->model.name = name;
    f->model.target = WG_TARGET_STATIC;
    f->model.wake.timeout = 15 * 60 * WG_USEC_PER_SEC;
    f->endpoints[0] = (struct wg_config_endpoint){.host = f->host, .port = 8000};
    f->model.static_ = (struct wg_config_static){.endpoints = f->endpoints,
                                                 .n_endpoints = 1,
                                                 .wake = {.method = post, .url = f->wake},
                                                 .sleep = {.method = post, .url = f->sleep}};
    strcpy(f->host, "10.0.0.5");
    atomic_store(&names_mode, NAMES_ONE);
    atomic_store(&names_asked, 0);
    atomic_store(&names_blocked, 0);
    log_capture_begin();
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    wg_target_free(f->target);
    wg_fetch_free(f->fetch);
    wg_loop_free(f->loop);
    scripted_stop(&f->server);
    assert_int_equal(f->config.refs, 1);
    log_capture_end();
    free(f);
    return 0;
}

static void with_hooks(struct fixture *f, bool wake, bool sleep)
{
    if (wake)
        sprintf(f->wake, "http://127.0.0.1:%u/wake_up", f->server.port);
    if (sleep)
        sprintf(f->sleep, "http://127.0.0.1:%u/sleep?level=1", f->server.port);
}

static void make(struct fixture *f)
{
    const struct wg_target_env env = {.loop = f->loop, .fetch = f->fetch};
    f->target = wg_target_new(&env, &f->config, &f->model, &watch_handler, &f->watch);
    assert_non_null(f->target);
}

static bool until(struct fixture *f, bool (*is_true)(void *arg))
{
    return loop_until(f->loop, is_true, &f->watch, patience);
}

static int requests(const struct fixture *f)
{
    return atomic_load(&f->server.seen->requests);
}

static bool was_called(const struct fixture *f, const char *line)
{
    return strstr(f->server.seen->last, line) == f->server.seen->last;
}

static void test_without_hooks_found_at_once(void **state)
{
    struct fixture *f = *state;
    char v6[] = "fd00::1";
    f->endpoints[1] = (struct wg_config_endpoint){.host = v6, .port = 81};
    f->model.static_.n_endpoints = 2;
    make(f);
    assert_false(wg_target_wakes(&f->model));
    assert_int_equal(f->watch.found, 0);
    assert_true(until(f, watch_is_found));
    assert_int_equal(f->watch.found, 2);
    assert_string_equal(f->watch.address, "[fd00::1]:81");
    assert_int_equal(f->watch.sa_len, sizeof(struct sockaddr_in6));
    wg_target_wake(f->target);
    loop_for(f->loop, 20 * WG_USEC_PER_MSEC);
    assert_int_equal(f->watch.found, 2);
}

static void test_both_hooks(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, true, true);
    make(f);
    assert_true(wg_target_wakes(&f->model));
    loop_for(f->loop, 20 * WG_USEC_PER_MSEC);
    assert_int_equal(f->watch.found + requests(f), 0); /* starts asleep */
    wg_target_wake(f->target);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    assert_string_equal(f->watch.address, "10.0.0.5:8000");
    assert_true(was_called(f, "POST /wake_up HTTP/1.1\r\n"));
    assert_int_equal(requests(f), 1);

    wg_target_sleep(f->target);
    wg_target_sleep(f->target);
    assert_true(until(f, watch_is_asleep));
    assert_true(was_called(f, "POST /sleep?level=1 HTTP/1.1\r\n"));
    assert_int_equal(requests(f), 2);
    assert_int_equal(f->watch.lost, 1);
    assert_string_equal(f->watch.why, "put to sleep");
    wg_target_sleep(f->target);
    loop_for(f->loop, 20 * WG_USEC_PER_MSEC);
    assert_int_equal(f->watch.asleep, 2);
    assert_int_equal(requests(f), 2);

    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    assert_int_equal(f->watch.found, 2);
}

static void test_only_a_sleep_hook(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, false, true);
    make(f);
    assert_true(until(f, watch_is_found));
    assert_int_equal(requests(f), 0);
    wg_target_sleep(f->target);
    assert_true(until(f, watch_is_asleep));
    assert_int_equal(requests(f), 1);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    assert_int_equal(requests(f), 1);
}

static void test_only_a_wake_hook(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, true, false);
    make(f);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    wg_target_sleep(f->target);
    assert_true(until(f, watch_is_asleep));
    assert_int_equal(requests(f), 1);
}

static void test_wake_hook_is_repeated(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, true, false);
    atomic_store(&f->server.seen->script, HOOKS_LOADING_ONCE);
    make(f);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    assert_int_equal(requests(f), 2);
    assert_true(log_capture_has("the wake hook answered 503: later; trying again"));
}

static void test_wake_hook_refused_is_repeated(void **state)
{
    struct fixture *f = *state;
    struct scripted_server other = scripted_start(answer_hook);
    sprintf(f->wake, "http://127.0.0.1:%u/", other.port);
    scripted_stop(&other);
    make(f);
    wg_target_wake(f->target);
    loop_for(f->loop, 200 * WG_USEC_PER_MSEC);
    assert_int_equal(f->watch.failed + f->watch.found, 0);
    assert_true(log_capture_has("the wake hook failed: "));
    assert_false(log_capture_has("http://")); /* a URL may carry secrets */
    wg_target_sleep(f->target);
    assert_true(until(f, watch_is_asleep));
    assert_int_equal(f->watch.failed, 0);
}

/* Nobody waits for longer than wake.timeout, so nobody is bothered for longer either. */
static void test_wake_hook_is_not_repeated_for_ever(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, true, false);
    f->model.wake.timeout = 500 * WG_USEC_PER_MSEC;
    atomic_store(&f->server.seen->script, HOOKS_BROKEN);
    make(f);
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_trouble));
    assert_string_equal(f->watch.why, "the wake hook answered 500: oops");
    assert_true(until(f, watch_has_failed));
    assert_string_equal(f->watch.why, "the wake hook answered 500: oops");
    assert_int_equal(requests(f), 1);
    assert_int_equal(f->watch.trouble, 1);
}

static void test_silent_wake_hook_is_cut(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, true, false);
    f->model.wake.timeout = 200 * WG_USEC_PER_MSEC;
    atomic_store(&f->server.seen->script, HOOKS_HANG);
    make(f);
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_failed));
    assert_int_equal(requests(f), 1);
}

static void test_another_wake_renews_the_patience(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, true, false);
    f->model.wake.timeout = 500 * WG_USEC_PER_MSEC;
    atomic_store(&f->server.seen->script, HOOKS_BROKEN);
    make(f);
    wg_target_wake(f->target);
    loop_for(f->loop, 700 * WG_USEC_PER_MSEC);
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_failed));
    assert_int_equal(requests(f), 2);
}

static void test_wake_hook_says_no(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, true, false);
    atomic_store(&f->server.seen->script, HOOKS_MISSING);
    make(f);
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_failed));
    assert_string_equal(f->watch.why, "the wake hook answered 404: no such model");
    assert_int_equal(requests(f), 1);
    atomic_store(&f->server.seen->script, HOOKS_FINE);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
}

static void test_wake_hook_with_an_impossible_url(void **state)
{
    struct fixture *f = *state;
    strcpy(f->wake, "nonsense");
    make(f);
    wg_target_wake(f->target);
    assert_int_equal(f->watch.failed, 0);
    assert_true(until(f, watch_has_failed));
    assert_string_equal(f->watch.why, "the wake hook has a URL that cannot be called");
}

static bool hangs(void *arg)
{
    return requests(arg) > 0;
}

static void test_sleep_during_wake(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, true, true);
    atomic_store(&f->server.seen->script, HOOKS_HANG);
    make(f);
    wg_target_wake(f->target);
    assert_true(loop_until(f->loop, hangs, f, patience));
    atomic_store(&f->server.seen->script, HOOKS_FINE);
    wg_target_sleep(f->target);
    assert_true(until(f, watch_is_asleep));
    assert_true(was_called(f, "POST /sleep?level=1 ")); /* it may have been half awake */
    assert_int_equal(f->watch.found + f->watch.failed, 0);
}

static void test_wake_during_sleep(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, true, true);
    make(f);
    wg_target_wake(f->target);
    assert_true(until(f, watch_is_found));
    wg_target_sleep(f->target);
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_lost));
    assert_true(until(f, watch_is_found));
    assert_int_equal(requests(f), 3); /* wake, sleep, wake: in this order */
    assert_true(was_called(f, "POST /wake_up "));
    assert_int_equal(f->watch.asleep, 0);
}

static void test_sleep_hook_that_fails(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, false, true);
    atomic_store(&f->server.seen->script, HOOKS_BROKEN);
    make(f);
    assert_true(until(f, watch_is_found));
    wg_target_sleep(f->target);
    assert_true(until(f, watch_has_lost));
    assert_true(until(f, watch_is_asleep));
    assert_int_equal(requests(f), 3);
    assert_true(log_capture_has("error static qwen: the sleep hook answered 500: oops; taken for asleep"));
}

static void test_free_during_a_hook(void **state)
{
    struct fixture *f = *state;
    with_hooks(f, true, true);
    atomic_store(&f->server.seen->script, HOOKS_HANG);
    make(f);
    wg_target_wake(f->target);
    assert_true(loop_until(f->loop, hangs, f, patience));
    f->target = wg_target_free(f->target);
    loop_for(f->loop, 20 * WG_USEC_PER_MSEC);
    assert_int_equal(f->watch.found + f->watch.failed + f->watch.asleep, 0);
}

static void test_name_is_resolved(void **state)
{
    struct fixture *f = *state;
    strcpy(f->host, "localhost");
    make(f);
    assert_true(until(f, watch_is_found));
    assert_string_equal(f->watch.address, "127.0.0.1:8000");
    assert_int_equal(f->watch.found, 1); /* IPv6 of the same server is not one more */
}

static void test_name_that_leads_elsewhere(void **state)
{
    struct fixture *f = *state;
    strcpy(f->host, "model.test");
    with_hooks(f, false, true);
    make(f);
    assert_true(until(f, watch_is_found));
    assert_string_equal(f->watch.address, "10.0.0.1:8000");
    wg_target_sleep(f->target);
    assert_true(until(f, watch_is_asleep));
    assert_int_equal(f->watch.lost, 1);

    atomic_store(&names_mode, NAMES_OTHER);
    f->watch.lost = f->watch.found = 0;
    wg_target_wake(f->target);
    assert_true(until(f, watch_has_lost)); /* the old one, until the answer is there */
    assert_string_equal(f->watch.why, "its name no longer leads to this address");
    assert_string_equal(f->watch.address, "10.0.0.2:8000");
    assert_int_equal(f->watch.found, 2);
    assert_int_equal(f->watch.found_at_loss, 2); /* a wake must not be told that all is lost */
}

static bool was_asked_again(void *arg WG_UNUSED)
{
    return atomic_load(&names_asked) > 1 && log_capture_has("cannot be looked up");
}

static void test_name_that_fails_keeps_what_it_had(void **state)
{
    struct fixture *f = *state;
    strcpy(f->host, "model.test");
    with_hooks(f, false, true);
    make(f);
    assert_true(until(f, watch_is_found));
    wg_target_sleep(f->target);
    assert_true(until(f, watch_is_asleep));
    atomic_store(&names_mode, NAMES_FAIL);
    wg_target_wake(f->target);
    assert_true(loop_until(f->loop, was_asked_again, NULL, patience));
    assert_true(until(f, watch_is_found));
    assert_string_equal(f->watch.address, "10.0.0.1:8000");
    assert_int_equal(f->watch.lost, 1);
    assert_int_equal(f->watch.trouble, 0);
}

static void test_name_that_fails_is_asked_again(void **state)
{
    struct fixture *f = *state;
    strcpy(f->host, "model.test");
    atomic_store(&names_mode, NAMES_FAIL);
    make(f);
    assert_true(until(f, watch_has_trouble));
    assert_ptr_equal(strstr(f->watch.why, "model.test cannot be looked up: "), f->watch.why);
    assert_true(log_capture_has("warn static qwen: model.test cannot be looked up: "));
    assert_int_equal(f->watch.found + f->watch.failed, 0);
    atomic_store(&names_mode, NAMES_ONE);
    assert_true(until(f, watch_is_found));
}

static bool is_blocked(void *arg WG_UNUSED)
{
    return atomic_load(&names_blocked);
}

/* A name service that hangs holds up nobody: neither the loop nor the end of the target. */
static void test_free_while_a_name_is_asked(void **state)
{
    struct fixture *f = *state;
    strcpy(f->host, "model.test");
    atomic_store(&names_mode, NAMES_BLOCK);
    make(f);
    assert_true(loop_until(f->loop, is_blocked, NULL, patience));
    f->target = wg_target_free(f->target);
    atomic_store(&names_mode, NAMES_ONE);
    loop_for(f->loop, 50 * WG_USEC_PER_MSEC);
    assert_int_equal(f->watch.found, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_without_hooks_found_at_once),
        TEST(test_both_hooks),
        TEST(test_only_a_sleep_hook),
        TEST(test_only_a_wake_hook),
        TEST(test_wake_hook_is_repeated),
        TEST(test_wake_hook_refused_is_repeated),
        TEST(test_wake_hook_is_not_repeated_for_ever),
        TEST(test_silent_wake_hook_is_cut),
        TEST(test_another_wake_renews_the_patience),
        TEST(test_wake_hook_says_no),
        TEST(test_wake_hook_with_an_impossible_url),
        TEST(test_sleep_during_wake),
        TEST(test_wake_during_sleep),
        TEST(test_sleep_hook_that_fails),
        TEST(test_free_during_a_hook),
        TEST(test_name_is_resolved),
        TEST(test_name_that_leads_elsewhere),
        TEST(test_name_that_fails_keeps_what_it_had),
        TEST(test_name_that_fails_is_asked_again),
        TEST(test_free_while_a_name_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
