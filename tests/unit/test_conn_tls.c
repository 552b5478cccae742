/* Connections with TLS on a loop: the same calls as in cleartext, bytes that the kernel no longer tells of,
 * and waiting for room to write when the caller wants to read. */
#include "unit.h"

#include "loop_until.h"
#include "tls_peer.h"

#include <time.h>

enum { MEGABYTE = 1024 * 1024 };

struct bench {
    struct pki *pki;
    struct wg_tls_tickets *tickets;
    struct wg_tls *tls;
    struct wg_loop *loop;
    struct wg_conn *server;
    SSL *client;
    int client_fd;
    struct wg_timer pump; /* the client's turns */
    int handshake;        /* the last result of the server's */
    bool client_shook;
    int n_readable, n_writable, n_hangup;
    size_t chunk;   /* bytes that the server reads at once */
    int stop_after; /* calls of readable; then reading is switched off */
    ssize_t last_read;
    char *sent, *got; /* a megabyte each */
    size_t n_sent, n_got, n_taken;
    char *client_got;
    size_t n_client_got;
};

/* ---- the client ---- */

static void client_turn(struct bench *bench)
{
    size_t n;
    ERR_clear_error();
    if (!bench->client_shook && SSL_do_handshake(bench->client) != 1)
        return;
    bench->client_shook = true;
    if (bench->n_sent < MEGABYTE &&
        SSL_write_ex(bench->client, bench->sent + bench->n_sent, MEGABYTE - bench->n_sent, &n) == 1)
        bench->n_sent += n;
    while (bench->n_client_got < MEGABYTE &&
           SSL_read_ex(bench->client, bench->client_got + bench->n_client_got,
                       WG_MIN(MEGABYTE - bench->n_client_got, (size_t)10000), &n) == 1)
        bench->n_client_got += n;
}

static void on_pump(struct wg_timer *timer)
{
    struct bench *bench = WG_CONTAINER_OF(timer, struct bench, pump);
    client_turn(bench);
    wg_timer_set(timer, 0);
}

/* ---- the server ---- */

static void fail_readable(void *arg WG_UNUSED)
{
    fail_msg("readable of the handler before");
}

static const struct wg_conn_handler no_handler = {.readable = fail_readable};

static void read_chunk(void *arg)
{
    struct bench *bench = arg;
    bench->n_readable++;
    bench->last_read =
        wg_conn_read(bench->server, bench->got + bench->n_got, WG_MIN(bench->chunk, MEGABYTE - bench->n_got));
    if (bench->last_read > 0)
        bench->n_got += (size_t)bench->last_read;
    if (bench->last_read == 0 || bench->n_readable == bench->stop_after)
        wg_conn_want_read(bench->server, false);
}

static void on_writable(void *arg)
{
    struct bench *bench = arg;
    bench->n_writable++;
    wg_conn_want_write(bench->server, false);
    wg_conn_mark_dirty(bench->server);
}

static void on_hangup(void *arg)
{
    struct bench *bench = arg;
    bench->n_hangup++;
    wg_conn_watch_hangup(bench->server, false);
}

/* Sends the megabyte, in pieces of a kilobyte. */
static void on_flush(void *arg)
{
    struct bench *bench = arg;
    struct iovec iov[64];
    ssize_t taken = 1;
    while (bench->n_taken < MEGABYTE && taken > 0) {
        int n = 0;
        for (size_t at = bench->n_taken; n < 64 && at < MEGABYTE; at += iov[n++].iov_len)
            iov[n] = (struct iovec){.iov_base = bench->sent + at, .iov_len = WG_MIN(1024, MEGABYTE - at)};
        taken = wg_conn_writev(bench->server, iov, n);
        assert_true(taken > 0 || taken == -EAGAIN);
        bench->n_taken += taken > 0 ? (size_t)taken : 0;
    }
    wg_conn_want_write(bench->server, bench->n_taken < MEGABYTE);
}

static const struct wg_conn_handler handler = {
    .readable = read_chunk, .writable = on_writable, .hangup = on_hangup, .flush = on_flush};

static void shake(void *arg)
{
    struct bench *bench = arg;
    bench->handshake = wg_conn_handshake(bench->server);
    if (bench->handshake == 0)
        wg_conn_set_handler(bench->server, &handler, bench);
}

static const struct wg_conn_handler shaking_handler = {.readable = shake};

/* ---- set-up ---- */

static int set_up_group(void **state)
{
    struct bench *bench = WG_NEW(struct bench);
    bench->pki = pki_new();
    bench->tickets = wg_tls_tickets_new();
    bench->tls = peer_tls_simple(bench->pki, bench->tickets, NULL);
    bench->sent = wg_xcalloc(1, MEGABYTE);
    bench->got = wg_xcalloc(1, MEGABYTE);
    bench->client_got = wg_xcalloc(1, MEGABYTE);
    for (unsigned i = 0; i < MEGABYTE; i++)
        bench->sent[i] = (char)((i * 2654435761U) >> 24);
    *state = bench;
    return 0;
}

static int tear_down_group(void **state)
{
    struct bench *bench = *state;
    wg_tls_unref(bench->tls);
    wg_tls_tickets_free(bench->tickets);
    pki_free(bench->pki);
    free(bench->sent);
    free(bench->got);
    free(bench->client_got);
    wg_free_ptr(state);
    return 0;
}

/* A connection with TLS, and a client that has not said anything. */
static int set_up(void **state)
{
    struct bench *bench = *state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    bench->loop = wg_loop_new();
    bench->server = wg_conn_new(bench->loop, fds[0], &no_handler, NULL);
    wg_conn_set_handler(bench->server, &shaking_handler, bench);
    assert_null(wg_conn_tls(bench->server));
    assert_int_equal(wg_conn_start_tls(bench->server, bench->tls), 0);
    assert_non_null(wg_conn_tls(bench->server));
    wg_conn_want_read(bench->server, true);
    bench->client_fd = fds[1];
    bench->client = peer_client_new(bench->pki, fds[1], (struct peer_spec){0});
    SSL_set_mode(bench->client, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    wg_timer_init(&bench->pump, bench->loop, on_pump);
    bench->handshake = -EAGAIN;
    bench->client_shook = false;
    bench->n_readable = bench->n_writable = bench->n_hangup = bench->stop_after = 0;
    bench->chunk = MEGABYTE;
    bench->n_sent = MEGABYTE; /* the client sends nothing unless a test wants it */
    bench->n_got = bench->n_client_got = bench->n_taken = 0;
    bench->last_read = -EAGAIN;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    wg_timer_cancel(&bench->pump);
    if (bench->server)
        wg_conn_close(bench->server, false);
    bench->server = NULL;
    wg_loop_stop(bench->loop);
    wg_loop_run(bench->loop);
    wg_loop_free(bench->loop);
    SSL_free(bench->client);
    close(bench->client_fd);
    ERR_clear_error();
    return 0;
}

static bool has_shaken(void *arg)
{
    const struct bench *bench = arg;
    return bench->handshake == 0 && bench->client_shook;
}

static bool has_got_all(void *arg)
{
    const struct bench *bench = arg;
    return bench->n_got == MEGABYTE && bench->n_client_got == MEGABYTE;
}

static void wait_for(struct bench *bench, bool (*is_true)(void *arg))
{
    assert_true(loop_until(bench->loop, is_true, bench, 20 * WG_USEC_PER_SEC));
}

static void connect_both(struct bench *bench)
{
    wg_timer_set(&bench->pump, 0);
    wait_for(bench, has_shaken);
    wg_timer_cancel(&bench->pump);
    client_turn(bench); /* takes the ticket */
}

static wg_usec cpu_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * WG_USEC_PER_SEC + now.tv_nsec / 1000;
}

/* Lets the loop run for a while, and checks that it sleeps. */
static void expect_rest(struct bench *bench)
{
    const int n = bench->n_readable;
    const wg_usec before = cpu_time();
    loop_for(bench->loop, 300 * WG_USEC_PER_MSEC);
    assert_true(cpu_time() - before < 150 * WG_USEC_PER_MSEC);
    assert_int_equal(bench->n_readable, n);
}

/* ---- tests ---- */

static void test_a_megabyte_both_ways(void **state)
{
    struct bench *bench = *state;
    bench->n_sent = 0;
    bench->chunk = 7000;
    wg_timer_set(&bench->pump, 0);
    wait_for(bench, has_shaken);
    wg_conn_mark_dirty(bench->server);
    wait_for(bench, has_got_all);
    assert_true(bench->n_writable > 0); /* the socket was full in between */
    assert_memory_equal(bench->got, bench->sent, MEGABYTE);
    assert_memory_equal(bench->client_got, bench->sent, MEGABYTE);
    assert_string_equal(wg_tls_version(wg_conn_tls(bench->server)), "TLSv1.3");
}

static bool got_fifty(void *arg)
{
    const struct bench *bench = arg;
    return bench->n_got == 50;
}

/* One record, read in bits: readable comes for each, though the kernel has nothing more, and not once too
 * often. */
static void test_short_reads(void **state)
{
    struct bench *bench = *state;
    connect_both(bench);
    bench->chunk = 10;
    assert_int_equal(SSL_write(bench->client, bench->sent, 50), 50);
    wait_for(bench, got_fifty);
    expect_rest(bench);
    assert_in_range(bench->n_readable, 5, 6);
    assert_memory_equal(bench->got, bench->sent, 50);
}

static bool has_stopped(void *arg)
{
    const struct bench *bench = arg;
    return bench->n_readable == bench->stop_after;
}

/* Bytes that wait inside do not keep the loop busy while nobody wants them, and are there when somebody
 * does. */
static void test_reading_off_and_on(void **state)
{
    struct bench *bench = *state;
    connect_both(bench);
    bench->chunk = 10;
    bench->stop_after = 2;
    assert_int_equal(SSL_write(bench->client, bench->sent, 50), 50);
    wait_for(bench, has_stopped);
    expect_rest(bench);
    assert_int_equal(bench->n_got, 20);
    wg_conn_want_read(bench->server, true);
    wait_for(bench, got_fifty);
}

/* The first bit is read by nobody's call. */
static void test_read_out_of_turn(void **state)
{
    struct bench *bench = *state;
    connect_both(bench);
    bench->chunk = 10;
    assert_int_equal(SSL_write(bench->client, bench->sent, 50), 50);
    read_chunk(bench);
    assert_int_equal(bench->n_got, 10);
    wait_for(bench, got_fifty);
}

static void look_only(void *arg)
{
    struct bench *bench = arg;
    if (++bench->n_readable == 5)
        wg_conn_set_handler(bench->server, &handler, bench);
}

static const struct wg_conn_handler looking_handler = {.readable = look_only};

/* As in cleartext: what is not read is told of again. */
static void test_unread_bytes_are_told_again(void **state)
{
    struct bench *bench = *state;
    connect_both(bench);
    bench->chunk = 10;
    bench->stop_after = 1;
    assert_int_equal(SSL_write(bench->client, bench->sent, 50), 50);
    wait_for(bench, has_stopped);
    bench->stop_after = 0;
    wg_conn_set_handler(bench->server, &looking_handler, bench);
    wg_conn_want_read(bench->server, true);
    wait_for(bench, got_fifty);
}

/* The client's last flight and its first bytes come in one piece, which the handshake takes whole. */
static void test_bytes_behind_the_handshake(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(SSL_do_handshake(bench->client), -1);
    loop_for(bench->loop, 20 * WG_USEC_PER_MSEC);
    assert_int_equal(bench->handshake, -EAGAIN);
    BIO *out = BIO_new(BIO_s_mem()), *socket = SSL_get_wbio(bench->client);
    char *raw;
    BIO_up_ref(socket);
    SSL_set0_wbio(bench->client, out);
    assert_int_equal(SSL_do_handshake(bench->client), 1);
    assert_int_equal(SSL_write(bench->client, bench->sent, 50), 50);
    const long len = BIO_get_mem_data(out, &raw);
    assert_int_equal(send(bench->client_fd, raw, (size_t)len, 0), len);
    SSL_set0_wbio(bench->client, socket);
    shake(bench); /* not as an answer to readable */
    assert_int_equal(bench->handshake, 0);
    wait_for(bench, got_fifty);
}

/* The answer to the hello does not fit: the loop sleeps until there is room, and then asks for the handshake
 * again. */
static void test_handshake_waits_for_room(void **state)
{
    struct bench *bench = *state;
    char junk[1024] = {0};
    size_t filled = 0;
    for (ssize_t n; (n = send(wg_conn_fd(bench->server), junk, sizeof(junk), 0)) > 0;)
        filled += (size_t)n;
    BIO *nothing = BIO_new(BIO_s_mem()), *socket = SSL_get_rbio(bench->client);
    BIO_up_ref(socket);
    SSL_set0_rbio(bench->client, nothing);
    assert_int_equal(SSL_do_handshake(bench->client), -1); /* sends its hello */
    SSL_set0_rbio(bench->client, socket);
    expect_rest(bench);
    assert_int_equal(bench->handshake, -EAGAIN);
    assert_true(wg_tls_wants_write(wg_conn_tls(bench->server)));
    while (filled > 0) {
        const ssize_t n = recv(bench->client_fd, junk, WG_MIN(sizeof(junk), filled), 0);
        assert_true(n > 0);
        filled -= (size_t)n;
    }
    wg_conn_want_read(bench->server, false); /* nobody wants to go on: room is no news then */
    expect_rest(bench);
    wg_conn_want_read(bench->server, true);
    connect_both(bench);
    expect_rest(bench);
}

static bool handshake_is_over(void *arg)
{
    const struct bench *bench = arg;
    return bench->handshake != -EAGAIN;
}

static void test_cleartext_is_refused(void **state)
{
    struct bench *bench = *state;
    static const char http[] = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    assert_int_equal(send(bench->client_fd, http, sizeof(http) - 1, 0), sizeof(http) - 1);
    wait_for(bench, handshake_is_over);
    assert_int_equal(bench->handshake, -EPROTO);
    assert_string_equal(wg_tls_why(wg_conn_tls(bench->server)), "http request");
}

static bool has_ended(void *arg)
{
    const struct bench *bench = arg;
    return bench->last_read == 0;
}

/* Our end first; the client's bytes still come, and then its end. */
static void test_shutdown(void **state)
{
    struct bench *bench = *state;
    char byte;
    connect_both(bench);
    wg_conn_shutdown(bench->server);
    assert_int_equal(SSL_read(bench->client, &byte, 1), 0);
    assert_int_equal(SSL_get_shutdown(bench->client), SSL_RECEIVED_SHUTDOWN);
    assert_int_equal(recv(bench->client_fd, &byte, 1, 0), 0);
    assert_int_equal(SSL_write(bench->client, bench->sent, 50), 50);
    SSL_shutdown(bench->client);
    wait_for(bench, has_ended);
    assert_int_equal(bench->n_got, 50);
    expect_rest(bench);
}

/* What the client's socket has after a close: close_notify, or nothing but the end. */
static ssize_t bytes_at_the_end(struct bench *bench)
{
    char bytes[64];
    wg_loop_stop(bench->loop);
    wg_loop_run(bench->loop);
    return recv(bench->client_fd, bytes, sizeof(bytes), MSG_PEEK);
}

static void test_soft_close_says_so(void **state)
{
    struct bench *bench = *state;
    char byte;
    connect_both(bench);
    wg_conn_close(bench->server, false);
    bench->server = NULL;
    assert_true(bytes_at_the_end(bench) > 0);
    assert_int_equal(SSL_get_error(bench->client, SSL_read(bench->client, &byte, 1)), SSL_ERROR_ZERO_RETURN);
}

static void test_hard_close_does_not(void **state)
{
    struct bench *bench = *state;
    connect_both(bench);
    wg_conn_close(bench->server, true);
    bench->server = NULL;
    assert_int_equal(bytes_at_the_end(bench), 0);
}

static void read_a_bit_and_close(void *arg)
{
    struct bench *bench = arg;
    bench->n_readable++;
    assert_int_equal(wg_conn_read(bench->server, bench->got, 10), 10);
    assert_true(wg_tls_pending(wg_conn_tls(bench->server)));
    wg_conn_close(bench->server, false);
    bench->server = NULL;
}

static bool is_closed(void *arg)
{
    const struct bench *bench = arg;
    return bench->server == NULL;
}

/* With bytes left inside: nobody is called for them any more. */
static void test_close_while_bytes_wait(void **state)
{
    struct bench *bench = *state;
    static const struct wg_conn_handler closing_handler = {.readable = read_a_bit_and_close};
    connect_both(bench);
    wg_conn_set_handler(bench->server, &closing_handler, bench);
    assert_int_equal(SSL_write(bench->client, bench->sent, 50), 50);
    wait_for(bench, is_closed);
    expect_rest(bench);
    assert_int_equal(bench->n_readable, 1);
}

static bool has_hung_up(void *arg)
{
    const struct bench *bench = arg;
    return bench->n_hangup == 1;
}

static void test_hangup_while_reading_is_off(void **state)
{
    struct bench *bench = *state;
    connect_both(bench);
    wg_conn_want_read(bench->server, false);
    wg_conn_watch_hangup(bench->server, true);
    assert_int_equal(SSL_write(bench->client, bench->sent, 50), 50);
    assert_int_equal(shutdown(bench->client_fd, SHUT_RDWR), 0);
    wait_for(bench, has_hung_up);
    assert_int_equal(bench->n_got, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_megabyte_both_ways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_short_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reading_off_and_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_read_out_of_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unread_bytes_are_told_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bytes_behind_the_handshake, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_handshake_waits_for_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cleartext_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shutdown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_soft_close_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hard_close_does_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_close_while_bytes_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hangup_while_reading_is_off, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
