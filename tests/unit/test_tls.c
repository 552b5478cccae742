/* Contexts and handshakes: versions, suites, ALPN, SNI, certificates of clients, and files that are wrong. */
#include "unit.h"

#include "tls_peer.h"

#include <sys/stat.h>

struct bench {
    struct pki *pki;
    struct wg_tls_tickets *tickets;
};

static int set_up(void **state)
{
    struct bench *bench = WG_NEW(struct bench);
    bench->pki = pki_new();
    bench->tickets = wg_tls_tickets_new();
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

/* ---- versions and suites ---- */

static void test_versions(void **state)
{
    struct bench *bench = *state;
    static const struct {
        int version;
        const char *name;
    } rows[] = {{TLS1_2_VERSION, "TLSv1.2"}, {TLS1_3_VERSION, "TLSv1.3"}, {0, "TLSv1.3"}};
    struct wg_tls *tls = peer_tls_simple(bench->pki, bench->tickets, NULL);
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++) {
        struct peer peer = peer_connect(bench->pki, tls, (struct peer_spec){.version = rows[i].version});
        assert_string_equal(wg_tls_version(peer.server), rows[i].name);
        assert_string_equal(wg_tls_why(peer.server), "");
        assert_null(wg_tls_sans(peer.server));
        peer_server_sends(&peer, "hello");
        peer_close(&peer);
    }
    peer_refused(bench->pki, tls, (struct peer_spec){.version = TLS1_1_VERSION}, "unsupported protocol");
    wg_tls_unref(tls);
}

static void test_suites(void **state)
{
    struct bench *bench = *state;
    static const char *const refused[] = {"ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384",
                                          "AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-CCM"};
    static const char *const taken[] = {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
                                        "ECDHE-ECDSA-CHACHA20-POLY1305"};
    struct wg_tls *tls = peer_tls_simple(bench->pki, bench->tickets, NULL);
    for (size_t i = 0; i < WG_COUNT_OF(refused); i++)
        peer_refused(bench->pki, tls, (struct peer_spec){.version = TLS1_2_VERSION, .suites = refused[i]},
                     "no shared cipher");
    for (size_t i = 0; i < WG_COUNT_OF(taken); i++) {
        struct peer peer =
            peer_connect(bench->pki, tls, (struct peer_spec){.version = TLS1_2_VERSION, .suites = taken[i]});
        assert_string_equal(SSL_get_cipher_name(peer.client), taken[i]);
        peer_close(&peer);
    }
    wg_tls_unref(tls);
}

/* ---- ALPN ---- */

static void test_alpn(void **state)
{
    struct bench *bench = *state;
    static const struct {
        const char *offered, *chosen;
        bool h2;
    } rows[] = {
        {"\x02h2", "h2", true},
        {"\x08http/1.1", "http/1.1", false},
        {"\x08http/1.1\x02h2", "h2", true},
        {"\x03xyz\x08http/1.1", "http/1.1", false},
        {NULL, "", false},
    };
    struct wg_tls *tls = peer_tls_simple(bench->pki, bench->tickets, NULL);
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++) {
        struct peer peer = peer_connect(bench->pki, tls, (struct peer_spec){.alpn = rows[i].offered});
        const unsigned char *name;
        unsigned len;
        SSL_get0_alpn_selected(peer.client, &name, &len);
        assert_int_equal(len, strlen(rows[i].chosen));
        if (len > 0)
            assert_memory_equal(name, rows[i].chosen, len);
        assert_int_equal(wg_tls_is_h2(peer.server), rows[i].h2);
        peer_close(&peer);
    }
    peer_refused(bench->pki, tls, (struct peer_spec){.alpn = "\x03xyz"}, "no application protocol");
    wg_tls_unref(tls);
}

/* ---- SNI ---- */

static void test_certificate_by_name(void **state)
{
    struct bench *bench = *state;
    static const struct {
        const char *asked, *got;
    } rows[] = {
        {NULL, "a"},
        {"a.test", "a"},
        {"b.test", "b"},
        {"B.TEST", "b"},
        {"x.wild.test", "wild"},
        {"api.wild.test", "exact"}, /* though the wildcard stands before it */
        {"x.y.wild.test", "a"},
        {"wild.test", "a"},
        {"unknown.test", "a"},
    };
    const struct identity *ca = &bench->pki->ca;
    pki_issue(bench->pki, "b", (struct identity_spec){.issuer = ca, .name = "b", .sans = "DNS:b.test"});
    pki_issue(bench->pki, "wild",
              (struct identity_spec){.issuer = ca, .name = "wild", .sans = "DNS:*.wild.test"});
    pki_issue(bench->pki, "exact",
              (struct identity_spec){.issuer = ca, .name = "exact", .sans = "DNS:api.wild.test"});
    struct wg_tls *tls = peer_tls_new(bench->pki, bench->tickets,
                                      (const char *const[]){"server", "b", "wild", "exact", NULL}, NULL);
    for (size_t i = 0; i < 2 * WG_COUNT_OF(rows); i++) {
        struct peer_spec spec = {.server_name = rows[i / 2].asked, .alpn = "\x02h2"};
        spec.version = i % 2 ? TLS1_2_VERSION : TLS1_3_VERSION;
        struct peer peer = peer_connect(bench->pki, tls, spec);
        char name[64];
        X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(peer.client)),
                                  NID_commonName, name, sizeof(name));
        assert_string_equal(name, rows[i / 2].got);
        assert_true(wg_tls_is_h2(peer.server));
        peer_close(&peer);
    }
    wg_tls_unref(tls);
}

/* A chain is sent as it stands in the file. */
static void test_chain(void **state)
{
    struct bench *bench = *state;
    struct identity middle =
        pki_identity((struct identity_spec){.issuer = &bench->pki->ca, .name = "middle", .is_ca = true});
    struct identity leaf =
        pki_identity((struct identity_spec){.issuer = &middle, .name = "leaf", .sans = "DNS:leaf.test"});
    pki_save(bench->pki, "leaf", &leaf, &middle);
    struct wg_tls *tls = peer_tls_new(bench->pki, bench->tickets, (const char *const[]){"leaf", NULL}, NULL);
    struct peer peer = peer_connect(bench->pki, tls, (struct peer_spec){0});
    assert_int_equal(sk_X509_num(SSL_get_peer_cert_chain(peer.client)), 2);
    peer_close(&peer);
    wg_tls_unref(tls);
    pki_identity_clear(&leaf);
    pki_identity_clear(&middle);
}

/* ---- certificates of clients ---- */

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

static void test_client_certificates(void **state)
{
    struct bench *bench = *state;
    pki_issue(bench->pki, "team",
              (struct identity_spec){.issuer = &bench->pki->ca,
                                     .name = "team",
                                     .sans = "DNS:team.test,URI:spiffe://cluster/team,IP:127.0.0.1,"
                                             "email:team@example.test"});
    pki_issue(
        bench->pki, "foreign",
        (struct identity_spec){.issuer = &bench->pki->other_ca, .name = "team", .sans = "DNS:team.test"});
    pki_issue(bench->pki, "late",
              (struct identity_spec){.issuer = &bench->pki->ca, .name = "late", .has_expired = true});
    pki_issue(bench->pki, "nameless", (struct identity_spec){.issuer = &bench->pki->ca, .name = "nameless"});
    struct wg_tls *tls = peer_tls_simple(bench->pki, bench->tickets, "ca");
    for (size_t i = 0; i < WG_COUNT_OF(versions); i++) {
        struct peer_spec spec = {.version = versions[i], .identity = "team"};
        struct peer peer = peer_connect(bench->pki, tls, spec);
        const struct wg_strings *sans = wg_tls_sans(peer.server);
        assert_non_null(sans);
        assert_int_equal(sans->n, 3);
        assert_string_equal(sans->items[0], "team.test");
        assert_string_equal(sans->items[1], "spiffe://cluster/team");
        assert_string_equal(sans->items[2], "team@example.test");
        assert_int_equal(sk_X509_NAME_num(SSL_get_client_CA_list(peer.client)), 1);
        peer_close(&peer);

        spec.identity = "nameless";
        peer = peer_connect(bench->pki, tls, spec);
        assert_non_null(wg_tls_sans(peer.server));
        assert_int_equal(wg_tls_sans(peer.server)->n, 0);
        peer_close(&peer);

        spec.identity = "foreign";
        peer_refused(bench->pki, tls, spec,
                     "certificate verify failed: unable to get local issuer certificate");
        spec.identity = "late";
        peer_refused(bench->pki, tls, spec, "certificate verify failed: certificate has expired");
        spec.identity = NULL;
        peer_refused(bench->pki, tls, spec, "peer did not return a certificate");
    }
    wg_tls_unref(tls);
}

static void push_name(GENERAL_NAMES *names, int type, const char *data, size_t len)
{
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING_set(text, data, (int)len);
    GENERAL_NAME_set0_value(name, type, text);
    sk_GENERAL_NAME_push(names, name);
}

/* Names that could deceive or fill the memory are left out. */
static void test_sans_are_bounded(void **state)
{
    struct bench *bench = *state;
    char longest[514];
    memset(longest, 'x', sizeof(longest));
    longest[1] = ':';
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    push_name(names, GEN_DNS, "good.test\0.evil.test", 20);
    push_name(names, GEN_DNS, "", 0);
    push_name(names, GEN_DNS, "spiffe://h/a", 12); /* as no host is called, but as a key may be */
    push_name(names, GEN_EMAIL, "host.test", 9);
    push_name(names, GEN_URI, "host.test", 9);
    push_name(names, GEN_URI, longest, 513);
    push_name(names, GEN_URI, longest, 512);
    for (int i = 0; i < 40; i++)
        push_name(names, GEN_EMAIL, "m@example.test", 14);
    pki_issue(bench->pki, "many",
              (struct identity_spec){.issuer = &bench->pki->ca, .name = "many", .raw_sans = names});
    GENERAL_NAMES_free(names);
    struct wg_tls *tls = peer_tls_simple(bench->pki, bench->tickets, "ca");
    struct peer peer = peer_connect(bench->pki, tls, (struct peer_spec){.identity = "many"});
    const struct wg_strings *sans = wg_tls_sans(peer.server);
    assert_int_equal(sans->n, 32);
    assert_int_equal(strlen(sans->items[0]), 512);
    assert_string_equal(sans->items[1], "m@example.test");
    peer_close(&peer);
    wg_tls_unref(tls);
}

/* ---- what is no TLS ---- */

static void refuse_bytes(struct bench *bench, const char *bytes, size_t len, int error, const char *why)
{
    struct wg_tls *tls = peer_tls_simple(bench->pki, bench->tickets, NULL);
    struct peer peer = peer_open(bench->pki, tls, (struct peer_spec){0});
    assert_int_equal(wg_tls_handshake(peer.server), -EAGAIN);
    assert_false(wg_tls_wants_write(peer.server));
    assert_int_equal(send(peer.client_fd, bytes, len, 0), len);
    assert_int_equal(shutdown(peer.client_fd, SHUT_WR), 0);
    assert_int_equal(wg_tls_handshake(peer.server), error);
    assert_string_equal(wg_tls_why(peer.server), why);
    wg_tls_shutdown(peer.server); /* sends nothing into what is broken */
    peer_close(&peer);
    wg_tls_unref(tls);
}

static void test_no_tls(void **state)
{
    static const char http[] = "GET /v1/models HTTP/1.1\r\nHost: a.test\r\n\r\n";
    static const char garbage[] = "\x00\xff\x17 what is this? it is no record of TLS";
    static const char hello_begun[] = "\x16\x03\x01\x02\x00\x01\x00";
    refuse_bytes(*state, http, sizeof(http) - 1, -EPROTO, "http request");
    refuse_bytes(*state, garbage, sizeof(garbage) - 1, -EPROTO, "wrong version number");
    refuse_bytes(*state, hello_begun, sizeof(hello_begun) - 1, -ECONNRESET,
                 "the client closed the connection");
    refuse_bytes(*state, "", 0, -ECONNRESET, "the client closed the connection");
}

/* ---- files ---- */

/* Words that wg_tls_new must end with, behind the option and the file's name. */
static void refuse_files(struct bench *bench, const char *const *names, const char *ca, const char *option,
                         const char *file, const char *words)
{
    struct peer_files files;
    struct wg_buf why = WG_BUF_INIT(1024);
    struct wg_tls *tls = NULL;
    peer_files_init(&files, bench->pki, names, ca);
    assert_int_equal(wg_tls_new(&files.config, bench->tickets, &tls, &why), -EINVAL);
    assert_null(tls);
    char *expected WG_AUTO_FREE = wg_xasprintf("%s %s/%s: %s", option, bench->pki->folder, file, words);
    assert_string_equal(wg_buf_str(&why), expected);
    assert_int_equal(ERR_peek_error(), 0);
    wg_buf_clear(&why);
    peer_files_clear(&files);
}

static void write_text(struct bench *bench, const char *file, const char *text)
{
    pki_write(bench->pki, file, text, strlen(text));
}

/* The first `part` per cent of a file, as a writer leaves it for a moment. */
static void write_part(struct bench *bench, const char *from, const char *to, size_t percent)
{
    char *path WG_AUTO_FREE = pki_path(bench->pki, from);
    char data[8192];
    FILE *in = fopen(path, "r");
    const size_t len = fread(data, 1, sizeof(data), in);
    fclose(in);
    pki_write(bench->pki, to, data, len * percent / 100);
}

static void write_encrypted_key(struct bench *bench, const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    BIO *bio = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_PrivateKey_traditional(bio, key, EVP_aes_128_cbc(),
                                                          (const unsigned char *)"secret", 6, NULL, NULL),
                     1);
    pki_write_bio(bench->pki, name, "key", bio);
    EVP_PKEY_free(key);
}

static void test_wrong_certificates(void **state)
{
    struct bench *bench = *state;
    const char *const names[] = {"x", NULL}, *const second[] = {"server", "x", NULL};
    char *path WG_AUTO_FREE = pki_path(bench->pki, "x.crt");
    char *big WG_AUTO_FREE = wg_xcalloc(1, 2 * 1024 * 1024);
    refuse_files(bench, names, NULL, "certFile", "x.crt", "No such file or directory");
    write_text(bench, "x.crt", "");
    refuse_files(bench, names, NULL, "certFile", "x.crt", "holds no certificate in PEM");
    write_text(bench, "x.crt", "nothing to see");
    refuse_files(bench, second, NULL, "certFile", "x.crt", "holds no certificate in PEM");
    write_part(bench, "server.crt", "x.crt", 50);
    refuse_files(bench, names, NULL, "certFile", "x.crt", "holds a damaged or half-written certificate");
    pki_write(bench->pki, "x.crt", big, 2 * 1024 * 1024);
    refuse_files(bench, names, NULL, "certFile", "x.crt", "larger than 1 MiB");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    refuse_files(bench, names, NULL, "certFile", "x.crt", "not a regular file");
    unlink(path);
}

/* The second certificate of a chain is missing its end. */
static void test_half_a_chain(void **state)
{
    struct bench *bench = *state;
    struct identity leaf = pki_identity((struct identity_spec){.issuer = &bench->pki->ca, .name = "leaf"});
    pki_save(bench->pki, "whole", &leaf, &bench->pki->ca);
    pki_identity_clear(&leaf);
    write_part(bench, "whole.crt", "half.crt", 75);
    write_part(bench, "whole.key", "half.key", 100);
    refuse_files(bench, (const char *const[]){"half", NULL}, NULL, "certFile", "half.crt",
                 "holds a damaged or half-written certificate");
}

static void test_wrong_keys(void **state)
{
    struct bench *bench = *state;
    const char *const names[] = {"y", NULL}, *const second[] = {"server", "y", NULL};
    write_part(bench, "server.crt", "y.crt", 100);
    refuse_files(bench, names, NULL, "keyFile", "y.key", "No such file or directory");
    write_part(bench, "ca.key", "y.key", 100);
    refuse_files(bench, second, NULL, "keyFile", "y.key", "not the key of the certificate");
    write_text(bench, "y.key", "");
    refuse_files(bench, names, NULL, "keyFile", "y.key", "holds no private key in PEM");
    write_text(bench, "y.key", "nothing to see");
    refuse_files(bench, names, NULL, "keyFile", "y.key", "holds no private key in PEM");
    write_part(bench, "server.key", "y.key", 60);
    refuse_files(bench, names, NULL, "keyFile", "y.key", "holds a damaged or half-written private key");
    write_encrypted_key(bench, "y");
    refuse_files(bench, names, NULL, "keyFile", "y.key", "is encrypted: keys are read without a passphrase");
}

/* OpenSSL itself finds the key too short. */
static void test_weak_certificate(void **state)
{
    struct bench *bench = *state;
    struct identity weak = pki_identity((struct identity_spec){.issuer = &bench->pki->ca, .name = "weak"});
    EVP_PKEY_free(weak.key);
    weak.key = EVP_RSA_gen(1024);
    X509_set_pubkey(weak.certificate, weak.key);
    X509_sign(weak.certificate, bench->pki->ca.key, EVP_sha256());
    pki_save(bench->pki, "weak", &weak, NULL);
    pki_identity_clear(&weak);
    refuse_files(bench, (const char *const[]){"weak", NULL}, NULL, "certFile", "weak.crt",
                 "ee key too small");
}

static void test_wrong_ca(void **state)
{
    struct bench *bench = *state;
    const char *const names[] = {"server", NULL};
    refuse_files(bench, names, "none", "clientCaFile", "none.crt", "No such file or directory");
    write_part(bench, "ca.crt", "half-ca.crt", 50);
    refuse_files(bench, names, "half-ca", "clientCaFile", "half-ca.crt",
                 "holds a damaged or half-written certificate");
}

/* A certificate that has expired is the caller's to warn of; and one file may hold both. */
static void test_accepted_files(void **state)
{
    struct bench *bench = *state;
    pki_issue(bench->pki, "old",
              (struct identity_spec){.issuer = &bench->pki->ca, .name = "old", .has_expired = true});
    struct identity both = pki_identity((struct identity_spec){.issuer = &bench->pki->ca, .name = "both"});
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, both.key, NULL, NULL, 0, NULL, NULL);
    PEM_write_bio_X509(bio, both.certificate);
    pki_write_bio(bench->pki, "both", "crt", bio);
    write_part(bench, "both.crt", "both.key", 100);
    pki_identity_clear(&both);
    struct wg_tls *tls =
        peer_tls_new(bench->pki, bench->tickets, (const char *const[]){"old", "both", NULL}, NULL);
    struct peer peer = peer_connect(bench->pki, tls, (struct peer_spec){0});
    peer_close(&peer);
    assert_null(wg_tls_unref(tls));
}

/* Connections keep what they began with. */
static void test_context_outlives_its_owner(void **state)
{
    struct bench *bench = *state;
    struct wg_tls *tls = peer_tls_simple(bench->pki, bench->tickets, NULL);
    struct wg_tls *again = wg_tls_ref(tls);
    wg_tls_unref(again);
    struct peer peer = peer_open(bench->pki, tls, (struct peer_spec){0});
    wg_tls_unref(tls);
    peer_shake(&peer);
    assert_int_equal(peer.server_result, 0);
    peer_server_sends(&peer, "still here");
    peer_close(&peer);
    assert_null(wg_tls_unref(NULL));
    assert_null(wg_tls_session_free(NULL));
    assert_null(wg_tls_tickets_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_suites),
        cmocka_unit_test(test_alpn),
        cmocka_unit_test(test_certificate_by_name),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_client_certificates),
        cmocka_unit_test(test_sans_are_bounded),
        cmocka_unit_test(test_no_tls),
        cmocka_unit_test(test_wrong_certificates),
        cmocka_unit_test(test_half_a_chain),
        cmocka_unit_test(test_wrong_keys),
        cmocka_unit_test(test_weak_certificate),
        cmocka_unit_test(test_wrong_ca),
        cmocka_unit_test(test_accepted_files),
        cmocka_unit_test(test_context_outlives_its_owner),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
