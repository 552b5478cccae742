/* URLs and TLS of a call. curl compares the certificates that a kept connection was made with before it uses
 * it again, so that a new CA or a new certificate of ours means a new connection. */
#include "peer.h"

#include <stdlib.h>

bool peer_url_is_possible(const char *url)
{
    CURLU *parts = curl_url();
    char *scheme = NULL;
    bool possible = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                    curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                    (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_url_cleanup(parts);
    return possible;
}

static char *part_of(CURLU *parts, CURLUPart part, unsigned flags)
{
    char *text = NULL;
    return curl_url_get(parts, part, &text, flags) == CURLUE_OK ? text : NULL;
}

char *peer_host_field(const char *url)
{
    CURLU *parts = curl_url();
    char *field = NULL;
    if (parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK) {
        char *host = part_of(parts, CURLUPART_HOST, 0);
        char *port = part_of(parts, CURLUPART_PORT, 0);
        if (host)
            field = wg_xasprintf("Host: %s%s%s", host, port ? ":" : "", port ? port : "");
        curl_free(host);
        curl_free(port);
    }
    curl_url_cleanup(parts);
    return field;
}

/* curl takes the name that it expects, and tells the server, from the URL: so the name goes there, and the
 * connection to where the URL pointed. */
static bool set_renamed_url(CURL *easy, CURLU *parts, const char *name, struct curl_slist **ret_connect_to)
{
    char *host = part_of(parts, CURLUPART_HOST, 0);
    char *port = part_of(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    char *connect_to WG_AUTO_FREE = wg_xasprintf("::%s:%s", host ? host : "", port ? port : "");
    char *url = NULL;
    *ret_connect_to = curl_slist_append(NULL, connect_to);
    const bool set = *ret_connect_to && curl_url_set(parts, CURLUPART_HOST, name, 0) == CURLUE_OK &&
                     (url = part_of(parts, CURLUPART_URL, 0)) != NULL &&
                     curl_easy_setopt(easy, CURLOPT_CONNECT_TO, *ret_connect_to) == CURLE_OK &&
                     curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK;
    curl_free(url);
    curl_free(host);
    curl_free(port);
    return set;
}

static bool set_url(CURL *easy, const struct wg_fetch_request *request, struct curl_slist **ret_connect_to)
{
    if (!request->tls || !request->tls->server_name)
        return curl_easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK;
    CURLU *parts = curl_url();
    const bool set = parts && curl_url_set(parts, CURLUPART_URL, request->url, 0) == CURLUE_OK &&
                     set_renamed_url(easy, parts, request->tls->server_name, ret_connect_to);
    curl_url_cleanup(parts);
    return set;
}

static bool set_blob(CURL *easy, CURLoption option, const char *pem, unsigned flags)
{
    struct curl_blob blob = {.len = strlen(pem), .flags = flags};
    blob.data = (void *)(uintptr_t)pem; /* only read */
    return curl_easy_setopt(easy, option, &blob) == CURLE_OK;
}

/* Without it curl would believe the CAs of the system as well. */
static bool set_ca(CURL *easy, const char *pem)
{
    return curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CAINFO, NULL) == CURLE_OK &&
           set_blob(easy, CURLOPT_CAINFO_BLOB, pem, CURL_BLOB_COPY);
}

/* The key is not copied: nothing of curl's would wipe it. An empty password keeps the TLS library from asking
 * for one on the terminal. */
static bool set_identity(CURL *easy, const char *cert, const char *key)
{
    return set_blob(easy, CURLOPT_SSLCERT_BLOB, cert, CURL_BLOB_COPY) &&
           set_blob(easy, CURLOPT_SSLKEY_BLOB, key, CURL_BLOB_NOCOPY) &&
           curl_easy_setopt(easy, CURLOPT_KEYPASSWD, "") == CURLE_OK;
}

static bool set_tls(CURL *easy, const struct wg_fetch_tls *tls)
{
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, tls->insecure ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, tls->insecure ? 0L : 2L);
    if (tls->ca && !set_ca(easy, tls->ca))
        return false;
    return !tls->cert || !tls->key || set_identity(easy, tls->cert, tls->key);
}

bool peer_set(CURL *easy, const struct wg_fetch_request *request, struct curl_slist **ret_connect_to)
{
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    return set_url(easy, request, ret_connect_to) && (!request->tls || set_tls(easy, request->tls));
}
