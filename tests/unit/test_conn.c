/* Connections and listeners: connect, accept, bytes both ways, hang-up behind unread bytes, reset, refusal.
 */
#include "unit.h"

#include "loop_until.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct pair {
    struct wg_loop *loop;
    struct wg_listener *listener;
    struct sockaddr_in address;
    int listen_fd;
    struct wg_conn *server, *client;
    char got[64];
    size_t n_got;
    ssize_t last_read;
    bool hung_up, connected, flushed;
    int connect_error;
};

static void server_readable(void *arg)
{
    struct pair *pair = arg;
    pair->last_read = wg_conn_read(pair->server, pair->got + pair->n_got, sizeof(pair->got) - pair->n_got);
    if (pair->last_read > 0)
        pair->n_got += (size_t)pair->last_read;
    wg_loop_stop(pair->loop);
}

static void server_hangup(void *arg)
{
    struct pair *pair = arg;
    pair->hung_up = true;
    wg_conn_watch_hangup(pair->server, false);
}

static void server_flush(void *arg)
{
    struct pair *pair = arg;
    pair->flushed = true;
}

static const struct wg_conn_handler server_handler = {
    .readable = server_readable, .hangup = server_hangup, .flush = server_flush};

static void on_accepted(void *arg, int fd, const struct sockaddr_storage *peer)
{
    struct pair *pair = arg;
    assert_int_equal(peer->ss_family, AF_INET);
    pair->server = wg_conn_new(pair->loop, fd, &server_handler, pair);
    if (pair->connected)
        wg_loop_stop(pair->loop);
}

static void client_writable(void *arg)
{
    struct pair *pair = arg;
    pair->connect_error = wg_conn_error(pair->client);
    pair->connected = true;
    wg_conn_want_write(pair->client, false);
    if (pair->server || pair->connect_error)
        wg_loop_stop(pair->loop);
}

static const struct wg_conn_handler client_handler = {.writable = client_writable};

static void listen_on_loopback(struct pair *pair)
{
    pair->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    pair->listen_fd = wg_listen((const struct sockaddr *)&pair->address, sizeof(pair->address));
    assert_true(pair->listen_fd >= 0);
    socklen_t len = sizeof(pair->address);
    assert_int_equal(getsockname(pair->listen_fd, (struct sockaddr *)&pair->address, &len), 0);
}

static void connect_pair(struct pair *pair)
{
    int error = 0;
    pair->client = wg_conn_connect(pair->loop, (const struct sockaddr *)&pair->address, sizeof(pair->address),
                                   &client_handler, pair, &error);
    assert_non_null(pair->client);
    wg_loop_run(pair->loop);
}

static int set_up(void **state)
{
    struct pair *pair = WG_NEW(struct pair);
    pair->loop = wg_loop_new();
    listen_on_loopback(pair);
    pair->listener = wg_listener_new(pair->loop, pair->listen_fd, on_accepted, pair);
    connect_pair(pair);
    assert_int_equal(pair->connect_error, 0);
    *state = pair;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;
    if (pair->client)
        wg_conn_close(pair->client, false);
    wg_conn_close(pair->server, false);
    wg_listener_free(pair->listener);
    close(pair->listen_fd);
    wg_loop_stop(pair->loop);
    wg_loop_run(pair->loop); /* reaps */
    wg_loop_free(pair->loop);
    wg_free_ptr(state);
    return 0;
}

static void send_text(struct pair *pair, const char *text)
{
    const struct iovec iov = {.iov_base = (char *)(uintptr_t)text, .iov_len = strlen(text)};
    assert_int_equal(wg_conn_writev(pair->client, &iov, 1), (ssize_t)strlen(text));
}

static bool has_hung_up(void *arg)
{
    const struct pair *pair = arg;
    return pair->hung_up;
}

static void test_bytes_and_end_of_file(void **state)
{
    struct pair *pair = *state;
    wg_conn_want_read(pair->server, true);
    send_text(pair, "hello");
    wg_loop_run(pair->loop);
    assert_int_equal(pair->n_got, 5);
    assert_memory_equal(pair->got, "hello", 5);
    assert_int_equal(wg_conn_read(pair->server, pair->got, 1), -EAGAIN);
    wg_conn_shutdown(pair->client);
    wg_loop_run(pair->loop);
    assert_int_equal(pair->last_read, 0);
}

static void test_hangup_is_seen_behind_unread_bytes(void **state)
{
    struct pair *pair = *state;
    wg_conn_watch_hangup(pair->server, true);
    send_text(pair, "never read");
    wg_conn_close(pair->client, false);
    pair->client = NULL;
    assert_true(loop_until(pair->loop, has_hung_up, pair, 5 * WG_USEC_PER_SEC));
    assert_int_equal(pair->n_got, 0);
}

/* The kernel tells a reset as an error, not as a hang-up: it must be seen all the same, and not over and
 * over. */
static void test_reset_is_seen_while_reading_is_off(void **state)
{
    struct pair *pair = *state;
    wg_conn_watch_hangup(pair->server, true);
    send_text(pair, "never read");
    wg_conn_close(pair->client, true);
    pair->client = NULL;
    assert_true(loop_until(pair->loop, has_hung_up, pair, 5 * WG_USEC_PER_SEC));
    assert_int_equal(pair->n_got, 0);
}

static void test_hard_close_is_a_reset(void **state)
{
    struct pair *pair = *state;
    wg_conn_want_read(pair->server, true);
    wg_conn_close(pair->client, true);
    pair->client = NULL;
    wg_loop_run(pair->loop);
    assert_int_equal(pair->last_read, -ECONNRESET);
}

static void test_flush_comes_once_at_the_end_of_the_turn(void **state)
{
    struct pair *pair = *state;
    wg_conn_mark_dirty(pair->server);
    wg_conn_mark_dirty(pair->server);
    assert_false(pair->flushed);
    wg_loop_stop(pair->loop);
    wg_loop_run(pair->loop);
    assert_true(pair->flushed);
}

static void test_refused(void **state WG_UNUSED)
{
    struct pair pair = {.loop = wg_loop_new()};
    listen_on_loopback(&pair);
    close(pair.listen_fd); /* nobody listens on the port any more */
    int error = 0;
    pair.client = wg_conn_connect(pair.loop, (const struct sockaddr *)&pair.address, sizeof(pair.address),
                                  &client_handler, &pair, &error);
    if (pair.client) {
        wg_loop_run(pair.loop);
        error = pair.connect_error;
        wg_conn_close(pair.client, false);
    }
    assert_int_equal(error, -ECONNREFUSED);
    wg_loop_stop(pair.loop);
    wg_loop_run(pair.loop);
    wg_loop_free(pair.loop);
}

static void test_port_in_use(void **state WG_UNUSED)
{
    struct pair pair = {0};
    listen_on_loopback(&pair);
    assert_int_equal(wg_listen((const struct sockaddr *)&pair.address, sizeof(pair.address)), -EADDRINUSE);
    close(pair.listen_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes_and_end_of_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hangup_is_seen_behind_unread_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reset_is_seen_while_reading_is_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hard_close_is_a_reset, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_flush_comes_once_at_the_end_of_the_turn, set_up, tear_down),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_port_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
