/* HTTPS calls against a real server: whom we believe, who we are, and when a kept connection is used again.
 */
#include "unit.h"

#include "fetch_bench.h"
#include "scripted_tls.h"

static bool answer(int fd, const char *request WG_UNUSED, struct scripted_seen *seen WG_UNUSED)
{
    return scripted_reply(fd, "200 OK", "{\"fine\":true}");
}

/* All PEM texts that the tests need. */
struct papers {
    struct pki *pki;
    SSL_CTX *context;
    char *ca, *other_ca;
    char *alice, *alice_key, *bob, *bob_key, *locked_key;
};

static struct papers papers;

static char *pem_of(const struct identity *identity, bool key, const char *password)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *data;
    if (key)
        PEM_write_bio_PrivateKey(bio, identity->key, password ? EVP_aes_128_cbc() : NULL,
                                 (const unsigned char *)password, password ? (int)strlen(password) : 0, NULL,
                                 NULL);
    else
        PEM_write_bio_X509(bio, identity->certificate);
    const long len = BIO_get_mem_data(bio, &data);
    char *text = wg_xstrndup(data, (size_t)len);
    BIO_free(bio);
    return text;
}

static int set_up_group(void **state WG_UNUSED)
{
    struct pki *pki = papers.pki = pki_new();
    struct identity server =
        pki_identity((struct identity_spec){.issuer = &pki->ca, .name = "server", .sans = "DNS:a.test"});
    struct identity alice = pki_identity((struct identity_spec){.issuer = &pki->ca, .name = "alice"});
    struct identity bob = pki_identity((struct identity_spec){.issuer = &pki->ca, .name = "bob"});
    papers.context = scripted_tls_context(&server, &pki->ca);
    papers.ca = pem_of(&pki->ca, false, NULL);
    papers.other_ca = pem_of(&pki->other_ca, false, NULL);
    papers.alice = pem_of(&alice, false, NULL);
    papers.alice_key = pem_of(&alice, true, NULL);
    papers.locked_key = pem_of(&alice, true, "sesame");
    papers.bob = pem_of(&bob, false, NULL);
    papers.bob_key = pem_of(&bob, true, NULL);
    pki_identity_clear(&server);
    pki_identity_clear(&alice);
    pki_identity_clear(&bob);
    return 0;
}

static int tear_down_group(void **state WG_UNUSED)
{
    SSL_CTX_free(papers.context);
    pki_free(papers.pki);
    char **const texts[] = {&papers.ca,  &papers.other_ca, &papers.alice,     &papers.alice_key,
                            &papers.bob, &papers.bob_key,  &papers.locked_key};
    for (size_t i = 0; i < WG_COUNT_OF(texts); i++)
        wg_free_ptr(texts[i]);
    return 0;
}

static int set_up(void **state)
{
    return fetch_bench_set_up(state, scripted_start_tls(answer, papers.context));
}

static struct kept ask(struct fixture *f, const struct wg_fetch_tls *tls)
{
    char url[128];
    struct kept kept = {.stop = true};
    struct wg_fetch_request request = request_of(f, &kept, "GET", url, "");
    sprintf(url, "https://127.0.0.1:%u/ok", (unsigned)f->server.port);
    request.tls = tls;
    assert_non_null(wg_fetch_start(f->fetch, &request));
    wg_loop_run(f->loop);
    assert_int_equal(kept.times, 1);
    return kept;
}

static void check_fails(struct fixture *f, const struct wg_fetch_tls *tls)
{
    struct kept kept = ask(f, tls);
    assert_int_equal(kept.answer.result, WG_FETCH_CONNECT);
    assert_true(strlen(kept.error) > 0);
    assert_int_equal(atomic_load(&f->server.seen->requests), 0);
}

static void test_believed(void **state)
{
    struct fixture *f = *state;
    struct kept kept = ask(f, &(struct wg_fetch_tls){.ca = papers.ca, .server_name = "a.test"});
    assert_int_equal(kept.answer.status, 200);
    assert_string_equal(kept.body, "{\"fine\":true}");
    assert_string_equal(f->server.seen->sni, "a.test");
    assert_string_equal(f->server.seen->peer, "");
    char host[64];
    sprintf(host, "\r\nHost: 127.0.0.1:%u\r\n", (unsigned)f->server.port);
    assert_non_null(strstr(f->server.seen->last, host));
    assert_null(strstr(f->server.seen->last, "a.test"));
}

static void test_not_believed(void **state)
{
    check_fails(*state, NULL);
    check_fails(*state, &(struct wg_fetch_tls){.server_name = "a.test"});
    check_fails(*state, &(struct wg_fetch_tls){.ca = papers.other_ca, .server_name = "a.test"});
    check_fails(*state, &(struct wg_fetch_tls){.ca = papers.ca}); /* it is no 127.0.0.1 */
    check_fails(*state, &(struct wg_fetch_tls){.ca = papers.ca, .server_name = "b.test"});
}

static void test_not_looked_at(void **state)
{
    struct kept kept = ask(*state, &(struct wg_fetch_tls){.insecure = true});
    assert_int_equal(kept.answer.status, 200);
}

static void test_papers_that_are_none(void **state)
{
    check_fails(*state, &(struct wg_fetch_tls){.ca = "nonsense", .server_name = "a.test"});
    check_fails(*state, &(struct wg_fetch_tls){.insecure = true, .cert = "no", .key = papers.alice_key});
    check_fails(*state, &(struct wg_fetch_tls){.insecure = true, .cert = papers.alice, .key = "no"});
    check_fails(*state,
                &(struct wg_fetch_tls){.insecure = true, .cert = papers.alice, .key = papers.bob_key});
    /* Nobody is asked for its password. */
    check_fails(*state,
                &(struct wg_fetch_tls){.insecure = true, .cert = papers.alice, .key = papers.locked_key});
}

static void test_impossible_name(void **state)
{
    struct fixture *f = *state;
    char url[128];
    struct kept kept = {0};
    struct wg_fetch_request request = request_of(f, &kept, "GET", url, "/ok");
    request.tls = &(struct wg_fetch_tls){.server_name = "no name/at all"};
    assert_null(wg_fetch_start(f->fetch, &request));
}

static void test_who_we_are(void **state)
{
    struct fixture *f = *state;
    struct wg_fetch_tls tls = {
        .ca = papers.ca, .server_name = "a.test", .cert = papers.alice, .key = papers.alice_key};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(f, &tls).answer.status, 200);
        assert_string_equal(f->server.seen->peer, "alice");
        assert_int_equal(atomic_load(&f->server.seen->connections), 1);
    }
    /* The same papers at another place in memory. */
    char *copy WG_AUTO_FREE = wg_xstrdup(papers.alice);
    tls.cert = copy;
    assert_int_equal(ask(f, &tls).answer.status, 200);
    assert_int_equal(atomic_load(&f->server.seen->connections), 1);

    tls.cert = papers.bob;
    tls.key = papers.bob_key;
    assert_int_equal(ask(f, &tls).answer.status, 200);
    assert_string_equal(f->server.seen->peer, "bob");
    assert_int_equal(atomic_load(&f->server.seen->connections), 2);
    tls.cert = tls.key = NULL;
    assert_int_equal(ask(f, &tls).answer.status, 200);
    assert_string_equal(f->server.seen->peer, "");
    assert_int_equal(atomic_load(&f->server.seen->connections), 3);
}

/* A kept connection was proved by a CA that we may no longer believe. */
static void test_changed_ca(void **state)
{
    struct fixture *f = *state;
    struct wg_fetch_tls tls = {.ca = papers.ca, .server_name = "a.test"};
    assert_int_equal(ask(f, &tls).answer.status, 200);
    tls.ca = papers.other_ca;
    assert_int_equal(ask(f, &tls).answer.result, WG_FETCH_CONNECT);
    char *both WG_AUTO_FREE = wg_xasprintf("%s%s", papers.other_ca, papers.ca);
    tls.ca = both;
    assert_int_equal(ask(f, &tls).answer.status, 200);
    tls.insecure = true;
    tls.server_name = NULL;
    assert_int_equal(ask(f, &tls).answer.status, 200);
    tls.insecure = false; /* nor is it used that nobody has looked at */
    assert_int_equal(ask(f, &tls).answer.result, WG_FETCH_CONNECT);
    assert_int_equal(atomic_load(&f->server.seen->requests), 3);
    assert_int_equal(atomic_load(&f->server.seen->connections), 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, fetch_bench_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_believed),        TEST(test_not_believed),
        TEST(test_not_looked_at),   TEST(test_papers_that_are_none),
        TEST(test_impossible_name), TEST(test_who_we_are),
        TEST(test_changed_ca),
    };
    return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
