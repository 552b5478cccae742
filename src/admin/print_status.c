/* `wakegate status`: fetches GET /status from a running instance and prints it for people. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

#include "status_table.h"
#include "wakegate/admin.h"

#define ANSWER_MAX ((size_t)64 * 1024 * 1024)

static size_t body_write(char *data, size_t size, size_t count, void *arg)
{
    struct wg_buf *body = arg;
    return wg_buf_add(body, data, size * count) == 0 ? size * count : 0;
}

static char *status_url(const char *url)
{
    size_t len = strlen(url);

    while (len > 0 && url[len - 1] == '/')
        len--;
    return wg_xasprintf("%.*s/status", (int)len, url);
}

/* The answer's status; 0 with the reason in `why` if there was none. */
static long fetch(const char *url, struct wg_buf *body, char why[static CURL_ERROR_SIZE])
{
    long status = 0;
    CURL *curl = curl_easy_init();

    if (!curl)
        return 0;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_DEFAULT_PROTOCOL, "http");
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 15000L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "wakegate/" WAKEGATE_VERSION);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, body_write);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    CURLcode code = curl_easy_perform(curl);
    if (code == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    else if (!*why)
        snprintf(why, CURL_ERROR_SIZE, "%s", curl_easy_strerror(code));
    curl_easy_cleanup(curl);
    return status;
}

int wg_admin_print_status(const char *url)
{
    char why[CURL_ERROR_SIZE] = "";
    struct wg_buf body = WG_BUF_INIT(ANSWER_MAX), table = WG_BUF_INIT(ANSWER_MAX);
    char *full = status_url(url);
    long status = fetch(full, &body, why);
    int code = 1;

    if (status == 0)
        fprintf(stderr,
                "wakegate status: no answer from %s: %s.\n"
                "Is Wakegate running, and is this its admin.address? Name another with --admin URL.\n",
                full, why);
    else if (status != 200)
        fprintf(stderr, "wakegate status: %s answered with status %ld.\n", full, status);
    else if (!admin_status_table(wg_buf_slice(&body), &table) || table.failed)
        fprintf(stderr, "wakegate status: %s does not answer like Wakegate's admin address.\n", full);
    else if (fwrite(table.data, 1, table.len, stdout) == table.len && fflush(stdout) == 0)
        code = 0;
    else
        perror("wakegate status: standard output");
    free(full);
    wg_buf_clear(&body);
    wg_buf_clear(&table);
    return code;
}
