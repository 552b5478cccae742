/* Certificates made for a test, as PEM files in a folder that goes with it. EC P-256: fast to make. */
#pragma once

#include "wakegate/base/obj.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct identity {
    X509 *certificate;
    EVP_PKEY *key;
};

struct identity_spec {
    const struct identity *issuer; /* NULL: itself */
    const char *name;
    const char *sans;        /* "DNS:a.test,URI:spiffe://b/c"; NULL: none */
    GENERAL_NAMES *raw_sans; /* instead of them */
    bool is_ca, has_expired;
};

struct pki {
    char folder[64];
    struct identity ca, other_ca;
};

static inline void pki_extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static inline struct identity pki_identity(struct identity_spec spec)
{
    struct identity made = {.certificate = X509_new(), .key = EVP_EC_gen("P-256")};
    const struct identity *issuer = spec.issuer ? spec.issuer : &made;
    static long serial;
    assert_non_null(made.key);
    X509_set_version(made.certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made.certificate), -7200);
    X509_gmtime_adj(X509_getm_notAfter(made.certificate), spec.has_expired ? -3600 : 3600);
    X509_set_pubkey(made.certificate, made.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)spec.name, -1, -1, 0);
    X509_set_issuer_name(made.certificate, X509_get_subject_name(issuer->certificate));
    if (spec.is_ca)
        pki_extend(made.certificate, issuer->certificate, NID_basic_constraints, "critical,CA:TRUE");
    if (spec.sans)
        pki_extend(made.certificate, issuer->certificate, NID_subject_alt_name, spec.sans);
    if (spec.raw_sans)
        assert_int_equal(X509_add1_ext_i2d(made.certificate, NID_subject_alt_name, spec.raw_sans, 0, 0), 1);
    assert_true(X509_sign(made.certificate, issuer->key, EVP_sha256()) > 0);
    return made;
}

static inline void pki_identity_clear(struct identity *identity)
{
    X509_free(identity->certificate);
    EVP_PKEY_free(identity->key);
    *identity = (struct identity){0};
}

/* The name of a file in the folder; freed by the caller. */
static inline char *pki_path(const struct pki *pki, const char *file)
{
    return wg_xasprintf("%s/%s", pki->folder, file);
}

static inline void pki_write(const struct pki *pki, const char *file, const void *data, size_t len)
{
    char *path WG_AUTO_FREE = pki_path(pki, file);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

static inline void pki_write_bio(const struct pki *pki, const char *name, const char *suffix, BIO *bio)
{
    char *file WG_AUTO_FREE = wg_xasprintf("%s.%s", name, suffix);
    char *data;
    const long len = BIO_get_mem_data(bio, &data);
    pki_write(pki, file, data, (size_t)len);
    BIO_free(bio);
}

/* NAME.crt (and the issuer's certificate behind it, unless NULL) and NAME.key. */
static inline void pki_save(const struct pki *pki, const char *name, const struct identity *identity,
                            const struct identity *issuer)
{
    BIO *bio = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_X509(bio, identity->certificate), 1);
    if (issuer)
        assert_int_equal(PEM_write_bio_X509(bio, issuer->certificate), 1);
    pki_write_bio(pki, name, "crt", bio);
    bio = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_PrivateKey(bio, identity->key, NULL, NULL, 0, NULL, NULL), 1);
    pki_write_bio(pki, name, "key", bio);
}

/* Made, saved and forgotten. */
static inline void pki_issue(const struct pki *pki, const char *file, struct identity_spec spec)
{
    struct identity made = pki_identity(spec);
    pki_save(pki, file, &made, NULL);
    pki_identity_clear(&made);
}

/* With ca.crt, other-ca.crt, and server.crt for a.test. */
static inline struct pki *pki_new(void)
{
    struct pki *pki = WG_NEW(struct pki);
    strcpy(pki->folder, "/tmp/wakegate-tls-XXXXXX");
    assert_non_null(mkdtemp(pki->folder));
    pki->ca = pki_identity((struct identity_spec){.name = "ca", .is_ca = true});
    pki->other_ca = pki_identity((struct identity_spec){.name = "other ca", .is_ca = true});
    pki_save(pki, "ca", &pki->ca, NULL);
    pki_save(pki, "other-ca", &pki->other_ca, NULL);
    pki_issue(pki, "server", (struct identity_spec){.issuer = &pki->ca, .name = "a", .sans = "DNS:a.test"});
    return pki;
}

static inline void pki_free(struct pki *pki)
{
    DIR *folder = opendir(pki->folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    assert_int_equal(rmdir(pki->folder), 0);
    pki_identity_clear(&pki->ca);
    pki_identity_clear(&pki->other_ca);
    free(pki);
}
