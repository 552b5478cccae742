/* HTTP calls against a real server that answers well, badly, late or not at all. */
#include "unit.h"

#include "fetch_bench.h"

/* The path says how to answer. */
static bool answer(int fd, const char *request, struct scripted_seen *seen)
{
    const char *path = strchr(request, ' ') + 1;
    if (strncmp(path, "/ok ", 4) == 0)
        return scripted_reply(fd, "200 OK", "{\"fine\":true}");
    if (strncmp(path, "/status ", 8) == 0)
        return scripted_reply(fd, "503 Service Unavailable", "Loading model");
    if (strncmp(path, "/moved ", 7) == 0)
        return scripted_send(fd, "HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n");
    if (strncmp(path, "/large ", 7) == 0)
        return scripted_reply(fd, "200 OK", "0123456789012345678901234567890123456789");
    if (strncmp(path, "/close ", 7) == 0)
        return false;
    if (strncmp(path, "/short ", 7) == 0) {
        scripted_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        return false;
    }
    if (strncmp(path, "/reset ", 7) == 0) {
        scripted_reset(fd);
        return false;
    }
    if (strncmp(path, "/garbage ", 9) == 0) {
        scripted_send(fd, "this is not HTTP\r\n\r\n");
        return false;
    }
    scripted_wait_close(fd); /* "/hang" */
    atomic_store(&seen->script, 1);
    return false;
}

static int set_up(void **state)
{
    return fetch_bench_set_up(state, scripted_start(answer));
}

static void test_answer(void **state)
{
    struct kept kept = run(*state, "/ok", 5 * WG_USEC_PER_SEC);
    assert_int_equal(kept.answer.result, WG_FETCH_DONE);
    assert_int_equal(kept.answer.status, 200);
    assert_string_equal(kept.body, "{\"fine\":true}");
    assert_string_equal(kept.error, "");
    assert_true(kept.answer.connected >= 0 && kept.answer.connected <= kept.answer.took);
}

static void test_any_status_is_an_answer(void **state)
{
    struct kept kept = run(*state, "/status", 5 * WG_USEC_PER_SEC);
    assert_int_equal(kept.answer.result, WG_FETCH_DONE);
    assert_int_equal(kept.answer.status, 503);
    assert_string_equal(kept.body, "Loading model");
}

static void test_redirects_are_not_followed(void **state)
{
    assert_int_equal(run(*state, "/moved", 5 * WG_USEC_PER_SEC).answer.status, 302);
}

static void test_refused(void **state)
{
    struct fixture *f = *state;
    const int fd = socket(AF_INET, SOCK_STREAM, 0); /* bound, but not listening */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    const uint16_t port = f->server.port;
    f->server.port = ntohs(address.sin_port);
    struct kept kept = run(f, "/ok", 5 * WG_USEC_PER_SEC);
    f->server.port = port;
    close(fd);
    assert_int_equal(kept.answer.result, WG_FETCH_CONNECT);
    assert_int_equal(kept.answer.status, 0);
    assert_int_equal(kept.answer.connected, -1);
    assert_true(strlen(kept.error) > 0);
}

/* A full accept queue drops SYNs: a connection that neither stands nor is refused. */
static void test_no_connection_in_time(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    const int full = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(full, (struct sockaddr *)&address, len), 0);

    char url[128];
    struct kept kept = {.stop = true};
    struct wg_fetch_request request = request_of(f, &kept, "GET", url, "");
    sprintf(url, "http://127.0.0.1:%u/", (unsigned)ntohs(address.sin_port));
    request.connect_timeout = 100 * WG_USEC_PER_MSEC;
    assert_non_null(wg_fetch_start(f->fetch, &request));
    wg_loop_run(f->loop);
    close(full);
    close(listener);
    assert_int_equal(kept.answer.result, WG_FETCH_CONNECT);
    assert_true(kept.answer.took < 2 * WG_USEC_PER_SEC);
}

static void test_broken(void **state)
{
    static const char *const paths[] = {"/close", "/short", "/reset", "/garbage"};
    for (size_t i = 0; i < WG_COUNT_OF(paths); i++) {
        struct kept kept = run(*state, paths[i], 5 * WG_USEC_PER_SEC);
        assert_int_equal(kept.answer.result, WG_FETCH_BROKEN);
        assert_true(kept.answer.connected >= 0);
        assert_true(strlen(kept.error) > 0);
    }
}

static void test_timeout(void **state)
{
    struct kept kept = run(*state, "/hang", 150 * WG_USEC_PER_MSEC);
    assert_int_equal(kept.answer.result, WG_FETCH_TIMEOUT);
    assert_true(kept.answer.connected >= 0);
    assert_true(kept.answer.took >= 150 * WG_USEC_PER_MSEC);
}

static void test_too_large(void **state)
{
    struct kept kept = run(*state, "/large", 5 * WG_USEC_PER_SEC);
    assert_int_equal(kept.answer.result, WG_FETCH_TOO_LARGE);
    assert_string_equal(kept.error, "the answer is too large");
    assert_string_equal(kept.body, "");
}

static void test_request_as_asked(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct kept kept = {.stop = true};
    struct wg_fetch_request request = request_of(f, &kept, "POST", url, "/ok");
    request.body = WG_SLICE("{\"a\":1}");
    request.bearer = "sesame";
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    assert_non_null(wg_fetch_start(f->fetch, &request));
    wg_loop_run(f->loop);
    unsetenv("http_proxy");
    assert_int_equal(kept.answer.result, WG_FETCH_DONE);
    const char *seen = f->server.seen->last;
    assert_ptr_equal(strstr(seen, "POST /ok HTTP/1.1\r\n"), seen);
    assert_non_null(strstr(seen, "\r\nAuthorization: Bearer sesame\r\n"));
    assert_non_null(strstr(seen, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(seen, "\r\nContent-Length: 7\r\n"));
    assert_non_null(strstr(seen, "\r\n\r\n{\"a\":1}"));
    assert_null(strstr(seen, "Expect"));
}

static void test_post_without_body(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct kept kept = {.stop = true};
    struct wg_fetch_request request = request_of(f, &kept, "POST", url, "/ok");
    assert_non_null(wg_fetch_start(f->fetch, &request));
    wg_loop_run(f->loop);
    assert_int_equal(kept.answer.status, 200);
    assert_non_null(strstr(f->server.seen->last, "\r\nContent-Length: 0\r\n"));
    assert_null(strstr(f->server.seen->last, "Content-Type"));
}

static void test_connections_are_kept_unless_fresh(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct kept kept[3] = {{0}};
    for (size_t i = 0; i < 3; i++) {
        struct wg_fetch_request request = request_of(f, &kept[i], "GET", url, "/ok");
        request.fresh = i == 2;
        kept[i].stop = true;
        assert_non_null(wg_fetch_start(f->fetch, &request));
        wg_loop_run(f->loop);
        assert_int_equal(kept[i].times, 1);
    }
    assert_int_equal(atomic_load(&f->server.seen->requests), 3);
    assert_int_equal(atomic_load(&f->server.seen->connections), 2);
}

static void test_impossible(void **state)
{
    struct fixture *f = *state;
    static const char *const urls[] = {
        "", "http://", "nonsense", "ftp://127.0.0.1/", "http://127.0.0.1:99999/", "file:///etc/passwd"};
    for (size_t i = 0; i < WG_COUNT_OF(urls); i++) {
        char url[128];
        struct kept kept = {0};
        struct wg_fetch_request request = request_of(f, &kept, "GET", url, "/ok");
        request.url = urls[i];
        assert_null(wg_fetch_start(f->fetch, &request));
    }
    char url[128];
    struct kept kept = {0};
    struct wg_fetch_request request = request_of(f, &kept, "GET", url, "/ok");
    request.bearer = "a\r\nX-Injected: b";
    assert_null(wg_fetch_start(f->fetch, &request));
}

struct canceller {
    struct kept kept;
    struct wg_fetch_call *victim;
    struct wg_timer timer;
};

static void cancel_other(void *arg, const struct wg_fetch_answer *got WG_UNUSED)
{
    struct canceller *canceller = arg;
    wg_fetch_cancel(canceller->victim);
    wg_timer_set_after(&canceller->timer, 50 * WG_USEC_PER_MSEC);
}

/* Until the server has seen the connection of the cancelled call close. */
static void look_for_close(struct wg_timer *timer)
{
    struct canceller *canceller = WG_CONTAINER_OF(timer, struct canceller, timer);
    if (atomic_load(&canceller->kept.f->server.seen->script) == 1)
        wg_loop_stop(canceller->kept.f->loop);
    else
        wg_timer_set_after(timer, 5 * WG_USEC_PER_MSEC);
}

static void test_cancel_closes_the_connection(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct canceller canceller = {0};
    wg_timer_init(&canceller.timer, f->loop, look_for_close);
    struct wg_fetch_request request = request_of(f, &canceller.kept, "GET", url, "/hang");
    canceller.victim = wg_fetch_start(f->fetch, &request);
    request = request_of(f, &canceller.kept, "GET", url, "/ok");
    request.done = cancel_other;
    request.arg = &canceller;
    assert_non_null(wg_fetch_start(f->fetch, &request));
    wg_loop_run(f->loop);
    assert_int_equal(canceller.kept.times, 0);
    wg_fetch_cancel(NULL);
}

static void start_next(void *arg, const struct wg_fetch_answer *got)
{
    struct kept *kept = arg;
    assert_int_equal(got->result, WG_FETCH_DONE);
    char url[128];
    struct wg_fetch_request request = request_of(kept->f, kept, "GET", url, "/ok");
    assert_non_null(wg_fetch_start(kept->f->fetch, &request));
}

static void test_start_from_inside_done(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct kept kept = {.stop = true};
    struct wg_fetch_request request = request_of(f, &kept, "GET", url, "/ok");
    request.done = start_next;
    assert_non_null(wg_fetch_start(f->fetch, &request));
    wg_loop_run(f->loop);
    assert_int_equal(kept.times, 1);
    assert_int_equal(atomic_load(&f->server.seen->requests), 2);
}

static void test_free_ends_calls_silently(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct kept hanging = {0}, kept = {.stop = true};
    struct wg_fetch_request request = request_of(f, &hanging, "GET", url, "/hang");
    assert_non_null(wg_fetch_start(f->fetch, &request));
    request = request_of(f, &kept, "GET", url, "/ok");
    assert_non_null(wg_fetch_start(f->fetch, &request));
    wg_loop_run(f->loop);
    f->fetch = wg_fetch_free(f->fetch);
    assert_null(f->fetch);
    assert_int_equal(hanging.times, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, fetch_bench_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_answer),
        TEST(test_any_status_is_an_answer),
        TEST(test_redirects_are_not_followed),
        TEST(test_refused),
        TEST(test_no_connection_in_time),
        TEST(test_broken),
        TEST(test_timeout),
        TEST(test_too_large),
        TEST(test_request_as_asked),
        TEST(test_post_without_body),
        TEST(test_connections_are_kept_unless_fresh),
        TEST(test_impossible),
        TEST(test_cancel_closes_the_connection),
        TEST(test_start_from_inside_done),
        TEST(test_free_ends_calls_silently),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
