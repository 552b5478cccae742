/* Writing HTTP/1.1: status lines, fields, dates and chunks. */
#include "h1_write.h"

#include <stdio.h>
#include <time.h>

static const struct {
    int status;
    const char *text;
} status_texts[] = {
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {529, "Overloaded"},
};

struct wg_slice h1_status_text(int status)
{
    for (size_t i = 0; i < WG_COUNT_OF(status_texts); i++)
        if (status_texts[i].status == status)
            return wg_slice_str(status_texts[i].text);
    return WG_SLICE("Status");
}

static char *two_digits(char *p, int value)
{
    *p++ = (char)('0' + value / 10 % 10);
    *p++ = (char)('0' + value % 10);
    return p;
}

/* By hand: this is written on every answer, and strftime would be a tenth of its cost. */
void h1_date(wg_usec wall, char out[static 32])
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const time_t seconds = (time_t)(wall / WG_USEC_PER_SEC);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    char *p = out;
    memcpy(p, days + 3 * tm.tm_wday, 3);
    p += 3;
    *p++ = ',';
    *p++ = ' ';
    p = two_digits(p, tm.tm_mday);
    *p++ = ' ';
    memcpy(p, months + 3 * tm.tm_mon, 3);
    p += 3;
    *p++ = ' ';
    p = two_digits(p, (tm.tm_year + 1900) / 100);
    p = two_digits(p, (tm.tm_year + 1900) % 100);
    *p++ = ' ';
    p = two_digits(p, tm.tm_hour);
    *p++ = ':';
    p = two_digits(p, tm.tm_min);
    *p++ = ':';
    p = two_digits(p, tm.tm_sec);
    memcpy(p, " GMT", 5);
}

static void write_slice(struct wg_chain *out, struct wg_pool *pool, struct wg_slice s)
{
    wg_chain_append(out, pool, s.ptr, s.len);
}

void h1_write_field(struct wg_chain *out, struct wg_pool *pool, struct wg_slice name, struct wg_slice value)
{
    write_slice(out, pool, name);
    write_slice(out, pool, WG_SLICE(": "));
    write_slice(out, pool, value);
    write_slice(out, pool, WG_SLICE("\r\n"));
}

void h1_write_status(struct wg_chain *out, struct wg_pool *pool, int status)
{
    char line[16] = "HTTP/1.1 000 ";
    line[9] = (char)('0' + status / 100 % 10);
    line[10] = (char)('0' + status / 10 % 10);
    line[11] = (char)('0' + status % 10);
    wg_chain_append(out, pool, line, 13);
    write_slice(out, pool, h1_status_text(status));
    write_slice(out, pool, WG_SLICE("\r\n"));
}

void h1_write_chunk(struct wg_chain *out, struct wg_pool *pool, const char *data, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    char line[20];
    char *p = line + sizeof(line);
    *--p = '\n';
    *--p = '\r';
    for (size_t left = len; left > 0; left >>= 4)
        *--p = hex[left & 15];
    wg_chain_append(out, pool, p, (size_t)(line + sizeof(line) - p));
    wg_chain_append(out, pool, data, len);
    write_slice(out, pool, WG_SLICE("\r\n"));
}
