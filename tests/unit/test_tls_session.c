/* Bytes of a TLS session: both ways, in pieces, as records, under back-pressure, and how they end. */
#include "unit.h"

#include "tls_peer.h"

#include <netinet/in.h>

enum { MEGABYTE = 1024 * 1024 };

struct bench {
    struct pki *pki;
    struct wg_tls_tickets *tickets;
    struct wg_tls *tls;
    char *sent, *got; /* a megabyte each */
};

static int set_up(void **state)
{
    struct bench *bench = WG_NEW(struct bench);
    bench->pki = pki_new();
    bench->tickets = wg_tls_tickets_new();
    bench->tls = peer_tls_simple(bench->pki, bench->tickets, NULL);
    bench->sent = wg_xcalloc(1, MEGABYTE);
    bench->got = wg_xcalloc(1, MEGABYTE);
    for (unsigned i = 0; i < MEGABYTE; i++)
        bench->sent[i] = (char)((i * 2654435761U) >> 24);
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    wg_tls_unref(bench->tls);
    wg_tls_tickets_free(bench->tickets);
    pki_free(bench->pki);
    free(bench->sent);
    free(bench->got);
    wg_free_ptr(state);
    return 0;
}

static struct peer connect_to(struct bench *bench)
{
    return peer_connect(bench->pki, bench->tls, (struct peer_spec){0});
}

/* Takes the ticket that TLS 1.3 sends first, so that what lies in the socket is what the server sends. */
static void take_ticket(struct peer *peer)
{
    char byte;
    assert_int_equal(SSL_read(peer->client, &byte, 1), -1);
}

static void test_bytes_one_at_a_time(void **state)
{
    struct peer peer = connect_to(*state);
    for (int i = 0; i < 300; i++) {
        const char byte = (char)i;
        char got[2] = {0};
        const struct iovec iov = {.iov_base = got, .iov_len = 1};
        peer_client_sends(&peer, &byte, 1);
        assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), 1);
        assert_int_equal(got[0], byte);
        assert_int_equal(wg_tls_writev(peer.server, &iov, 1), 1);
        assert_int_equal(SSL_read(peer.client, got + 1, 1), 1);
        assert_int_equal(got[1], byte);
    }
    peer_close(&peer);
}

/* Records that come in bytes: nothing until one is whole, and no busy hand in between. */
static void test_record_in_bytes(void **state)
{
    struct peer peer = connect_to(*state);
    BIO *out = BIO_new(BIO_s_mem());
    SSL_set0_wbio(peer.client, out);
    peer_client_sends(&peer, "hello", 5);
    char *raw, got[16];
    const long len = BIO_get_mem_data(out, &raw);
    for (long i = 0; i < len; i++) {
        assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), -EAGAIN);
        assert_false(wg_tls_wants_write(peer.server));
        assert_false(wg_tls_pending(peer.server));
        assert_int_equal(send(peer.client_fd, raw + i, 1, 0), 1);
    }
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), 5);
    assert_false(wg_tls_pending(peer.server));
    peer_close(&peer);
}

/* Both sides at once; the sockets hold far less. */
static void test_a_megabyte_both_ways(void **state)
{
    struct bench *bench = *state;
    struct peer peer = connect_to(bench);
    size_t up = 0, up_got = 0, down = 0, down_got = 0;
    char *down_copy WG_AUTO_FREE = wg_xcalloc(1, MEGABYTE);
    bool has_waited = false;
    SSL_set_mode(peer.client, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    while (up_got < MEGABYTE || down_got < MEGABYTE) {
        size_t n;
        if (up < MEGABYTE && SSL_write_ex(peer.client, bench->sent + up, MEGABYTE - up, &n) == 1)
            up += n;
        const struct iovec iov = {.iov_base = bench->sent + down, .iov_len = MEGABYTE - down};
        const ssize_t written = wg_tls_writev(peer.server, &iov, 1);
        assert_true(written >= 0 || written == -EAGAIN);
        assert_true(written != -EAGAIN || wg_tls_wants_write(peer.server));
        has_waited |= written == -EAGAIN;
        down += written > 0 ? (size_t)written : 0;
        const ssize_t r =
            up_got < MEGABYTE ? wg_tls_read(peer.server, bench->got + up_got, MEGABYTE - up_got) : -EAGAIN;
        assert_true(r > 0 || r == -EAGAIN);
        up_got += r > 0 ? (size_t)r : 0;
        if (down_got < MEGABYTE && SSL_read_ex(peer.client, down_copy + down_got, 5000, &n) == 1)
            down_got += n;
        ERR_clear_error();
    }
    assert_true(has_waited);
    assert_memory_equal(bench->got, bench->sent, MEGABYTE);
    assert_memory_equal(down_copy, bench->sent, MEGABYTE);
    peer_close(&peer);
}

/* A read that is shorter than what came: the rest waits where the kernel does not tell of it. */
static void test_pending_after_a_short_read(void **state)
{
    struct peer peer = connect_to(*state);
    char got[16];
    peer_client_sends(&peer, "first", 5);
    peer_client_sends(&peer, "second", 6);
    assert_int_equal(wg_tls_read(peer.server, got, 3), 3);
    assert_true(wg_tls_pending(peer.server));
    assert_int_equal(recv(peer.server_fd, got + 8, 1, MSG_PEEK), -1);
    assert_int_equal(wg_tls_read(peer.server, got + 3, 8), 8);
    assert_memory_equal(got, "firstsecond", 11);
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), -EAGAIN);
    assert_false(wg_tls_pending(peer.server));
    peer_close(&peer);
}

/* ---- records ---- */

/* Application data records that lie in the client's socket, unread. */
static int records(const struct peer *peer, char *room, size_t len)
{
    const ssize_t n = recv(peer->client_fd, room, len, MSG_PEEK);
    int count = 0;
    for (ssize_t at = 0; at + 5 <= n; count++) {
        const unsigned char *head = (unsigned char *)room + at;
        assert_int_equal(head[0], 23);
        at += 5 + (head[3] << 8 | head[4]);
    }
    return n < 0 ? 0 : count;
}

static void client_gets(struct peer *peer, const char *bytes, size_t len)
{
    char *got WG_AUTO_FREE = wg_xcalloc(1, len);
    for (size_t at = 0; at < len;) {
        size_t n;
        assert_int_equal(SSL_read_ex(peer->client, got + at, len - at, &n), 1);
        at += n;
    }
    assert_memory_equal(got, bytes, len);
}

static void test_one_record_a_flush(void **state)
{
    struct bench *bench = *state;
    static const struct {
        size_t pieces, bytes; /* bytes each */
        int records;
    } rows[] = {
        {1, 1, 1},     {60, 100, 1},  {64, 256, 1},  {65, 256, 2},
        {1, 16384, 1}, {1, 16385, 2}, {4, 16384, 4}, {3, 9000, 2},
    };
    for (size_t row = 0; row < WG_COUNT_OF(rows); row++) {
        struct peer peer = connect_to(bench);
        assert_int_equal(records(&peer, bench->got, MEGABYTE), 1);
        take_ticket(&peer);
        struct iovec iov[132];
        const size_t n = rows[row].pieces, len = n * rows[row].bytes;
        for (size_t i = 0; i < n; i++) { /* with an empty one before each */
            iov[2 * i] = (struct iovec){.iov_base = NULL, .iov_len = 0};
            iov[2 * i + 1] =
                (struct iovec){.iov_base = bench->sent + i * rows[row].bytes, .iov_len = rows[row].bytes};
        }
        assert_int_equal(wg_tls_writev(peer.server, iov, (int)(2 * n)), len);
        assert_int_equal(records(&peer, bench->got, MEGABYTE), rows[row].records);
        client_gets(&peer, bench->sent, len);
        peer_close(&peer);
    }
}

static void test_nothing_to_write(void **state)
{
    struct peer peer = connect_to(*state);
    const struct iovec empty = {.iov_base = NULL, .iov_len = 0};
    assert_int_equal(wg_tls_writev(peer.server, NULL, 0), 0);
    assert_int_equal(wg_tls_writev(peer.server, &empty, 1), 0);
    peer_close(&peer);
}

/* A client that asks for small records gets them, and whole. */
static void test_small_records(void **state)
{
    struct bench *bench = *state;
    struct peer peer = peer_open(bench->pki, bench->tls, (struct peer_spec){0});
    assert_int_equal(SSL_set_tlsext_max_fragment_length(peer.client, TLSEXT_max_fragment_length_512), 1);
    peer_shake(&peer);
    assert_int_equal(peer.server_result, 0);
    take_ticket(&peer);
    struct iovec iov[10];
    for (size_t i = 0; i < WG_COUNT_OF(iov); i++)
        iov[i] = (struct iovec){.iov_base = bench->sent + 1000 * i, .iov_len = 1000};
    assert_int_equal(wg_tls_writev(peer.server, iov, WG_COUNT_OF(iov)), 10000);
    assert_int_equal(records(&peer, bench->got, MEGABYTE), 20);
    client_gets(&peer, bench->sent, 10000);
    peer_close(&peer);
}

/* ---- back-pressure ---- */

/* Many small pieces into a socket that is full; what was not taken is offered again together with more, as
 * other pieces. */
static void test_write_again(void **state)
{
    struct bench *bench = *state;
    struct peer peer = connect_to(bench);
    const int small = 4096;
    size_t taken = 0, got = 0, waits = 0;
    assert_int_equal(setsockopt(peer.server_fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    for (size_t piece = 700; got < MEGABYTE / 4; piece = 100 + (piece * 7) % 1900) {
        struct iovec iov[32];
        int n = 0;
        for (size_t at = taken; n < 32 && at < MEGABYTE / 4; n++) {
            const size_t len = WG_MIN(piece + waits % 3, MEGABYTE / 4 - at);
            iov[n] = (struct iovec){.iov_base = bench->sent + at, .iov_len = len};
            at += len;
            if (n == 31)
                iov[n].iov_len = WG_MIN(MEGABYTE / 4 - (at - len), (size_t)20000);
        }
        const ssize_t r = wg_tls_writev(peer.server, iov, n);
        assert_true(r >= 0 || r == -EAGAIN);
        taken += r > 0 ? (size_t)r : 0;
        if (r != -EAGAIN && taken < MEGABYTE / 4)
            continue;
        assert_int_equal(r == -EAGAIN, wg_tls_wants_write(peer.server));
        waits++;
        size_t m;
        while (SSL_read_ex(peer.client, bench->got + got, 3000, &m) == 1)
            got += m;
        ERR_clear_error();
    }
    assert_true(waits > 10);
    assert_int_equal(taken, MEGABYTE / 4);
    assert_memory_equal(bench->got, bench->sent, MEGABYTE / 4);
    peer_close(&peer);
}

/* ---- ends ---- */

static void test_end_with_close_notify(void **state)
{
    struct peer peer = connect_to(*state);
    char got[16];
    peer_client_sends(&peer, "bye", 3);
    SSL_shutdown(peer.client);
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), 3);
    assert_true(wg_tls_pending(peer.server)); /* the end, which came with the bytes */
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), 0);
    assert_false(wg_tls_pending(peer.server));
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), 0);
    peer_server_sends(&peer, "it can be answered yet");
    peer_close(&peer);
}

static void test_end_without_close_notify(void **state)
{
    struct peer peer = connect_to(*state);
    char got[16];
    peer_client_sends(&peer, "bye", 3);
    assert_int_equal(shutdown(peer.client_fd, SHUT_WR), 0);
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), 3);
    assert_true(wg_tls_pending(peer.server));
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), 0);
    assert_false(wg_tls_pending(peer.server));
    peer_server_sends(&peer, "it can be answered yet");
    peer_close(&peer);
}

static void test_shutdown(void **state)
{
    struct peer peer = connect_to(*state);
    char byte;
    const struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    take_ticket(&peer);
    wg_tls_shutdown(peer.server);
    wg_tls_shutdown(peer.server); /* once is enough */
    assert_int_equal(SSL_read(peer.client, &byte, 1), 0);
    assert_int_equal(SSL_get_shutdown(peer.client), SSL_RECEIVED_SHUTDOWN);
    assert_int_equal(recv(peer.client_fd, &byte, 1, 0), -1);
    assert_int_equal(wg_tls_writev(peer.server, &iov, 1), -EPIPE);
    peer_client_sends(&peer, "x", 1);
    assert_int_equal(wg_tls_read(peer.server, &byte, 1), 1);
    peer_close(&peer);
}

/* Bytes that were changed on the way; and after them nothing goes. */
static void test_forged_record(void **state)
{
    struct peer peer = connect_to(*state);
    char got[16];
    const struct iovec iov = {.iov_base = got, .iov_len = 1};
    static const char forged[] = "\x17\x03\x03\x00\x15 twenty bytes of junk";
    take_ticket(&peer);
    peer_client_sends(&peer, "good", 4);
    assert_int_equal(send(peer.client_fd, forged, sizeof(forged) - 1, 0), sizeof(forged) - 1);
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), 4);
    assert_true(wg_tls_pending(peer.server));
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), -EPROTO);
    assert_int_equal(ERR_peek_error(), 0);
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), -EPROTO);
    assert_int_equal(wg_tls_writev(peer.server, &iov, 1), -EPIPE);
    wg_tls_shutdown(peer.server);
    peer_close(&peer);
}

/* No signal when the client is gone: this process would die of it. */
static void test_write_to_nobody(void **state)
{
    struct peer peer = connect_to(*state);
    char byte = 'x';
    const struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    shutdown(peer.client_fd, SHUT_RDWR);
    assert_int_equal(wg_tls_writev(peer.server, &iov, 1), -EPIPE);
    assert_int_equal(wg_tls_writev(peer.server, &iov, 1), -EPIPE);
    wg_tls_shutdown(peer.server);
    peer_close(&peer);
}

/* A pair over TCP, whose client goes with a reset. */
static void test_reset(void **state)
{
    struct bench *bench = *state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct peer peer = {.client_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(connect(peer.client_fd, (struct sockaddr *)&address, len), 0);
    peer.server_fd = accept(listener, NULL, NULL); /* blocking: each call waits for its event */
    close(listener);
    peer.server = wg_tls_session_new(bench->tls, peer.server_fd);
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    setsockopt(peer.client_fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(peer.client_fd);
    assert_int_equal(wg_tls_handshake(peer.server), -ECONNRESET);
    assert_string_equal(wg_tls_why(peer.server), "Connection reset by peer");
    wg_tls_session_free(peer.server);
    close(peer.server_fd);
}

/* ---- messages without data ---- */

/* Key updates by the thousand hold nobody: the reader gets control back before all of them are done. */
static void test_key_updates(void **state)
{
    struct peer peer = connect_to(*state);
    char *raw, got[16];
    take_ticket(&peer);
    BIO *out = BIO_new(BIO_s_mem()), *socket = SSL_get_wbio(peer.client);
    BIO_up_ref(socket);
    SSL_set0_wbio(peer.client, out);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(SSL_key_update(peer.client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(peer.client), 1);
    }
    assert_int_equal(SSL_key_update(peer.client, SSL_KEY_UPDATE_REQUESTED), 1);
    peer_client_sends(&peer, "data", 4);
    const long len = BIO_get_mem_data(out, &raw);
    assert_int_equal(send(peer.client_fd, raw, (size_t)len, 0), len);
    SSL_set0_wbio(peer.client, socket);
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), -EAGAIN);
    assert_int_equal(recv(peer.server_fd, got, 1, MSG_PEEK), 1);
    assert_false(wg_tls_pending(peer.server)); /* the kernel tells of it */
    ssize_t n = -EAGAIN;
    for (int i = 0; i < 10 && n == -EAGAIN; i++)
        n = wg_tls_read(peer.server, got, sizeof(got));
    assert_int_equal(n, 4);
    peer_server_sends(&peer, "under the new key");
    peer_close(&peer);
}

static void test_no_renegotiation(void **state)
{
    struct bench *bench = *state;
    struct peer peer = peer_connect(bench->pki, bench->tls, (struct peer_spec){.version = TLS1_2_VERSION});
    char got[16];
    assert_int_equal(SSL_renegotiate(peer.client), 1);
    assert_int_equal(SSL_do_handshake(peer.client), -1);
    assert_int_equal(wg_tls_read(peer.server, got, sizeof(got)), -EAGAIN);
    assert_int_equal(SSL_do_handshake(peer.client), -1);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    ERR_clear_error();
    peer_close(&peer);
}

/* A handshake whose answer does not fit into the socket waits for room, and says so. */
static void test_handshake_wants_write(void **state)
{
    struct bench *bench = *state;
    struct peer peer = peer_open(bench->pki, bench->tls, (struct peer_spec){0});
    char junk[1024] = {0};
    size_t filled = 0;
    for (ssize_t n; (n = send(peer.server_fd, junk, sizeof(junk), 0)) > 0;)
        filled += (size_t)n;
    BIO *nothing = BIO_new(BIO_s_mem()), *socket = SSL_get_rbio(peer.client);
    BIO_up_ref(socket);
    SSL_set0_rbio(peer.client, nothing);
    assert_int_equal(SSL_do_handshake(peer.client), -1); /* sends its hello */
    SSL_set0_rbio(peer.client, socket);
    assert_int_equal(wg_tls_handshake(peer.server), -EAGAIN);
    assert_true(wg_tls_wants_write(peer.server));
    while (filled > 0) {
        const ssize_t n = recv(peer.client_fd, junk, WG_MIN(sizeof(junk), filled), 0);
        assert_true(n > 0);
        filled -= (size_t)n;
    }
    peer_shake(&peer);
    assert_int_equal(peer.server_result, 0);
    assert_false(wg_tls_wants_write(peer.server));
    peer_close(&peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_one_at_a_time),
        cmocka_unit_test(test_record_in_bytes),
        cmocka_unit_test(test_a_megabyte_both_ways),
        cmocka_unit_test(test_pending_after_a_short_read),
        cmocka_unit_test(test_one_record_a_flush),
        cmocka_unit_test(test_nothing_to_write),
        cmocka_unit_test(test_small_records),
        cmocka_unit_test(test_write_again),
        cmocka_unit_test(test_end_with_close_notify),
        cmocka_unit_test(test_end_without_close_notify),
        cmocka_unit_test(test_shutdown),
        cmocka_unit_test(test_forged_record),
        cmocka_unit_test(test_write_to_nobody),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_key_updates),
        cmocka_unit_test(test_no_renegotiation),
        cmocka_unit_test(test_handshake_wants_write),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
