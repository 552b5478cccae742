/* PEM files of certificates and keys. What is half-written is an error, not a shorter chain. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_all(int fd, struct wg_buf *out, size_t len)
{
    char *room = wg_buf_reserve(out, len + 1);
    if (!room)
        return -ENOMEM;
    size_t got = 0;
    while (got <= len) {
        const ssize_t n = read(fd, room + got, len + 1 - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    wg_buf_commit(out, got);
    return got > len ? -EBUSY : 0;
}

/* O_NONBLOCK: a pipe without a writer must not stop us before we see that it is one. */
const char *pem_read(const char *path, struct wg_buf *out)
{
    struct stat st;
    const int fd WG_AUTO_CLOSE = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return strerrordesc_np(errno);
    if (!S_ISREG(st.st_mode))
        return "not a regular file";
    if ((uint64_t)st.st_size >= out->max)
        return "larger than 1 MiB";
    const int error = read_all(fd, out, (size_t)st.st_size);
    if (error == -EBUSY)
        return "being written to";
    return error < 0 ? strerrordesc_np(-error) : NULL;
}

const char *pem_openssl_words(void)
{
    const char *words = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return words ? words : "refused by OpenSSL";
}

/* Nobody is there to be asked for a passphrase. */
static int no_password(char *buf WG_UNUSED, int size WG_UNUSED, int writing WG_UNUSED, void *arg WG_UNUSED)
{
    return -1;
}

static bool at_the_end(void)
{
    const unsigned long error = ERR_peek_last_error();
    return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

const char *pem_certificates(struct wg_slice pem, STACK_OF(X509) * *ret_certificates)
{
    const char *wrong = NULL;
    STACK_OF(X509) *certificates = sk_X509_new_null();
    BIO *bio = BIO_new_mem_buf(pem.ptr ? pem.ptr : "", (int)pem.len);
    WG_ASSERT(certificates && bio);
    ERR_clear_error();
    X509 *certificate;
    while ((certificate = PEM_read_bio_X509(bio, NULL, no_password, NULL)))
        WG_ASSERT(sk_X509_push(certificates, certificate) > 0);
    if (!at_the_end())
        wrong = "holds a damaged or half-written certificate";
    else if (sk_X509_num(certificates) == 0)
        wrong = "holds no certificate in PEM";
    ERR_clear_error();
    BIO_free(bio);
    if (wrong)
        sk_X509_pop_free(certificates, X509_free);
    else
        *ret_certificates = certificates;
    return wrong;
}

static const char *why_no_key(struct wg_slice pem)
{
    const struct wg_slice mark = WG_SLICE("PRIVATE KEY-----");
    if (!pem.ptr || !memmem(pem.ptr, pem.len, mark.ptr, mark.len))
        return "holds no private key in PEM";
    for (unsigned long error; (error = ERR_get_error()) != 0;)
        if (ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_BAD_PASSWORD_READ)
            return "is encrypted: keys are read without a passphrase";
    return "holds a damaged or half-written private key";
}

const char *pem_key(struct wg_slice pem, EVP_PKEY **ret_key)
{
    BIO *bio = BIO_new_mem_buf(pem.ptr ? pem.ptr : "", (int)pem.len);
    WG_ASSERT(bio);
    ERR_clear_error();
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    const char *wrong = key ? NULL : why_no_key(pem);
    ERR_clear_error();
    BIO_free(bio);
    if (key)
        *ret_key = key;
    return wrong;
}
