/* Resumption: by ticket, across contexts and rotations of the keys, and never past what the client's
 * certificate was checked against. */
#include "unit.h"

#include "tickets.h"
#include "tls_internal.h"
#include "tls_peer.h"

#include <pthread.h>

static _Atomic wg_usec clock_now;

static wg_usec read_clock(void)
{
    return clock_now;
}

struct bench {
    struct pki *pki;
    struct wg_tls_tickets *tickets;
};

static int set_up(void **state)
{
    struct bench *bench = WG_NEW(struct bench);
    clock_now = 1000 * WG_USEC_PER_SEC;
    bench->pki = pki_new();
    bench->tickets = tickets_new_on(read_clock);
    pki_issue(bench->pki, "team",
              (struct identity_spec){.issuer = &bench->pki->ca, .name = "team", .sans = "DNS:team.test"});
    pki_issue(bench->pki, "late",
              (struct identity_spec){
                  .issuer = &bench->pki->ca, .name = "late", .sans = "DNS:late.test", .has_expired = true});
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    wg_tls_tickets_free(bench->tickets);
    pki_free(bench->pki);
    wg_free_ptr(state);
    return 0;
}

/* Connects; true if the session was resumed. *session is replaced by the one of this connection. */
static bool resumes(struct bench *bench, struct wg_tls *tls, struct peer_spec spec, SSL_SESSION **session)
{
    spec.session = *session;
    struct peer peer = peer_connect(bench->pki, tls, spec);
    peer_server_sends(&peer, "a ticket of TLS 1.3 comes before this");
    SSL_SESSION_free(*session);
    *session = SSL_get1_session(peer.client);
    const bool reused = SSL_session_reused(peer.client);
    if (spec.identity) {
        assert_int_equal(wg_tls_sans(peer.server)->n, 1);
        assert_string_equal(wg_tls_sans(peer.server)->items[0],
                            strcmp(spec.identity, "late") == 0 ? "late.test" : "team.test");
    }
    SSL_shutdown(peer.client); /* else OpenSSL takes the session for a bad one */
    peer_close(&peer);
    return reused;
}

static const struct peer_spec kinds[] = {
    {.version = TLS1_2_VERSION},
    {.version = TLS1_3_VERSION},
    {.version = TLS1_2_VERSION, .identity = "team"},
    {.version = TLS1_3_VERSION, .identity = "team"},
};

/* Also in a context made anew from the same files, as after a reload. */
static void test_resumption(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < WG_COUNT_OF(kinds); i++) {
        const char *ca = kinds[i].identity ? "ca" : NULL;
        struct wg_tls *tls = peer_tls_simple(bench->pki, bench->tickets, ca);
        struct wg_tls *anew = peer_tls_simple(bench->pki, bench->tickets, ca);
        SSL_SESSION *session = NULL;
        assert_false(resumes(bench, tls, kinds[i], &session));
        assert_true(SSL_SESSION_has_ticket(session));
        assert_true(resumes(bench, tls, kinds[i], &session));
        assert_true(resumes(bench, anew, kinds[i], &session));
        SSL_SESSION_free(session);
        wg_tls_unref(tls);
        wg_tls_unref(anew);
    }
}

/* Under a certificate that was chosen by name, too. */
static void test_resumption_by_name(void **state)
{
    struct bench *bench = *state;
    pki_issue(bench->pki, "b",
              (struct identity_spec){.issuer = &bench->pki->ca, .name = "b", .sans = "DNS:b.test"});
    struct wg_tls *tls =
        peer_tls_new(bench->pki, bench->tickets, (const char *const[]){"server", "b", NULL}, "ca");
    for (size_t i = 2; i < WG_COUNT_OF(kinds); i++) {
        struct peer_spec spec = kinds[i];
        SSL_SESSION *session = NULL;
        spec.server_name = "b.test";
        assert_false(resumes(bench, tls, spec, &session));
        assert_true(resumes(bench, tls, spec, &session));
        SSL_SESSION_free(session);
    }
    wg_tls_unref(tls);
}

/* The CA file changes: what was checked under the old one counts no more. */
static void test_another_ca(void **state)
{
    struct bench *bench = *state;
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, bench->pki->ca.certificate);
    PEM_write_bio_X509(bio, bench->pki->ca.certificate); /* twice, as bundles have it */
    PEM_write_bio_X509(bio, bench->pki->other_ca.certificate);
    pki_write_bio(bench->pki, "both-ca", "crt", bio);
    struct wg_tls *none = peer_tls_simple(bench->pki, bench->tickets, NULL);
    struct wg_tls *one = peer_tls_simple(bench->pki, bench->tickets, "ca");
    struct wg_tls *both = peer_tls_simple(bench->pki, bench->tickets, "both-ca");
    struct wg_tls *other = peer_tls_simple(bench->pki, bench->tickets, "other-ca");
    for (size_t i = 2; i < WG_COUNT_OF(kinds); i++) {
        SSL_SESSION *session = NULL;
        assert_false(resumes(bench, one, kinds[i], &session));
        assert_false(resumes(bench, both, kinds[i], &session));
        assert_false(resumes(bench, one, kinds[i], &session));

        struct peer_spec bare = kinds[i];
        bare.identity = NULL;
        bare.session = session;
        peer_refused(bench->pki, other, bare, "peer did not return a certificate");
        SSL_SESSION_free(session);

        session = NULL;
        bare.session = NULL;
        assert_false(resumes(bench, none, bare, &session));
        bare.session = session;
        peer_refused(bench->pki, one, bare, "peer did not return a certificate");
        SSL_SESSION_free(session);
    }
    wg_tls_unref(none);
    wg_tls_unref(one);
    wg_tls_unref(both);
    wg_tls_unref(other);
}

/* The first handshake is let through as if the certificate had been good then. */
static void test_expired_certificate_is_not_resumed(void **state)
{
    struct bench *bench = *state;
    struct wg_tls *tls = peer_tls_simple(bench->pki, bench->tickets, "ca");
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(tls->certificates[0].ssl), X509_V_FLAG_NO_CHECK_TIME);
    for (size_t i = 2; i < WG_COUNT_OF(kinds); i++) {
        struct peer_spec spec = kinds[i];
        SSL_SESSION *session = NULL;
        assert_false(resumes(bench, tls, spec, &session));
        assert_true(resumes(bench, tls, spec, &session));
        SSL_SESSION_free(session);
        session = NULL;
        spec.identity = "late";
        assert_false(resumes(bench, tls, spec, &session));
        assert_true(SSL_SESSION_has_ticket(session));
        assert_false(resumes(bench, tls, spec, &session));
        SSL_SESSION_free(session);
    }
    wg_tls_unref(tls);
}

/* A key seals for one rotation and opens for one more; then a ticket is worth nothing, and harms nothing. */
static void test_rotation(void **state)
{
    struct bench *bench = *state;
    struct wg_tls *tls = peer_tls_simple(bench->pki, bench->tickets, NULL);
    for (size_t i = 0; i < 2; i++) {
        SSL_SESSION *first = NULL, *copy;
        assert_false(resumes(bench, tls, kinds[i], &first));

        clock_now += WG_TLS_TICKET_ROTATION;
        copy = SSL_SESSION_dup(first);
        assert_true(resumes(bench, tls, kinds[i], &copy)); /* opened by the older key, sealed by the newest */

        clock_now += WG_TLS_TICKET_ROTATION - 1;
        assert_true(resumes(bench, tls, kinds[i], &copy));
        SSL_SESSION *late = SSL_SESSION_dup(first);
        assert_true(resumes(bench, tls, kinds[i], &late));
        SSL_SESSION_free(late);

        clock_now += 1;
        assert_false(resumes(bench, tls, kinds[i], &first));
        assert_true(resumes(bench, tls, kinds[i], &copy));
        SSL_SESSION_free(first);
        SSL_SESSION_free(copy);
    }
    wg_tls_unref(tls);
}

/* Nobody came for days: the key of then opens nothing any more. */
static void test_rotation_after_a_long_rest(void **state)
{
    struct bench *bench = *state;
    struct wg_tls *tls = peer_tls_simple(bench->pki, bench->tickets, NULL);
    SSL_SESSION *session = NULL;
    assert_false(resumes(bench, tls, kinds[1], &session));
    clock_now += 10 * WG_TLS_TICKET_ROTATION;
    assert_false(resumes(bench, tls, kinds[1], &session));
    assert_true(resumes(bench, tls, kinds[1], &session));
    SSL_SESSION_free(session);
    wg_tls_unref(tls);
}

/* Another process has other keys. */
static void test_foreign_ticket(void **state)
{
    struct bench *bench = *state;
    struct wg_tls_tickets *foreign = wg_tls_tickets_new();
    struct wg_tls *here = peer_tls_simple(bench->pki, bench->tickets, NULL);
    struct wg_tls *there = peer_tls_simple(bench->pki, foreign, NULL);
    for (size_t i = 0; i < 2; i++) {
        SSL_SESSION *session = NULL;
        assert_false(resumes(bench, there, kinds[i], &session));
        assert_false(resumes(bench, here, kinds[i], &session));
        assert_true(resumes(bench, here, kinds[i], &session));
        SSL_SESSION_free(session);
    }
    wg_tls_unref(here);
    wg_tls_unref(there);
    wg_tls_tickets_free(foreign);
}

struct crowd {
    struct bench *bench;
    struct wg_tls *tls;
    _Atomic int resumed;
};

/* A worker's life with the context: a reference of its own, and keys that turn meanwhile. */
static void *work(void *arg)
{
    struct crowd *crowd = arg;
    struct wg_tls *tls = wg_tls_ref(crowd->tls);
    SSL_SESSION *session = NULL;
    for (int i = 0; i < 20; i++) {
        crowd->resumed += resumes(crowd->bench, tls, kinds[1], &session);
        clock_now += WG_TLS_TICKET_ROTATION / 100;
    }
    SSL_SESSION_free(session);
    wg_tls_unref(tls);
    return NULL;
}

static void test_many_threads(void **state)
{
    struct crowd crowd = {.bench = *state};
    pthread_t threads[4];
    crowd.tls = peer_tls_simple(crowd.bench->pki, crowd.bench->tickets, NULL);
    for (size_t i = 0; i < WG_COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &crowd), 0);
    for (size_t i = 0; i < WG_COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(crowd.resumed, 4 * 19);
    wg_tls_unref(crowd.tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resumption),     cmocka_unit_test(test_resumption_by_name),
        cmocka_unit_test(test_another_ca),     cmocka_unit_test(test_expired_certificate_is_not_resumed),
        cmocka_unit_test(test_rotation),       cmocka_unit_test(test_rotation_after_a_long_rest),
        cmocka_unit_test(test_foreign_ticket), cmocka_unit_test(test_many_threads),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
