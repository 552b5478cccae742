/* Known field names with their policy, and the list of fields of a message. Policy is data: who forwards,
 * logs or frames a message asks for flags, never for names. */
#include "wakegate/http.h"

#include <errno.h>

#include "h1.h"

struct token_row {
    struct wg_slice name;
    unsigned flags;
    const char *repeated;
};

#define ROW(text, policy)                                                                                    \
    {                                                                                                        \
        .name = {.ptr = (text), .len = sizeof(text) - 1}, .flags = (policy),                                 \
        .repeated = "more than one " text " field",                                                          \
    }

enum {
    HOP = WG_FIELD_HOP,
    FRAMING = WG_FIELD_FRAMING,
    SECRET = WG_FIELD_SECRET,
    OURS_REQ = WG_FIELD_OURS_REQ,
    OURS_RES = WG_FIELD_OURS_RES,
    SINGLE = WG_FIELD_SINGLE,
    KEPT = WG_FIELD_KEPT,
};

static const struct token_row tokens[WG_TOKEN_COUNT] = {
    [WG_TOKEN_OTHER] = ROW("", 0),
    [WG_TOKEN_ACCEPT_ENCODING] = ROW("accept-encoding", KEPT),
    [WG_TOKEN_API_KEY] = ROW("api-key", SECRET | SINGLE | KEPT),
    [WG_TOKEN_AUTHORIZATION] = ROW("authorization", SECRET | SINGLE | KEPT),
    [WG_TOKEN_CONNECTION] = ROW("connection", HOP),
    [WG_TOKEN_CONTENT_ENCODING] = ROW("content-encoding", SINGLE | KEPT),
    [WG_TOKEN_CONTENT_LENGTH] = ROW("content-length", FRAMING | SINGLE | KEPT),
    [WG_TOKEN_CONTENT_TYPE] = ROW("content-type", SINGLE | KEPT),
    [WG_TOKEN_COOKIE] = ROW("cookie", 0),
    [WG_TOKEN_DATE] = ROW("date", OURS_RES),
    [WG_TOKEN_EXPECT] = ROW("expect", OURS_REQ | SINGLE | KEPT),
    [WG_TOKEN_HOST] = ROW("host", OURS_REQ | SINGLE | KEPT),
    [WG_TOKEN_HTTP2_SETTINGS] = ROW("http2-settings", HOP),
    [WG_TOKEN_KEEP_ALIVE] = ROW("keep-alive", HOP),
    [WG_TOKEN_PREFER] = ROW("prefer", KEPT),
    [WG_TOKEN_PROXY_AUTHENTICATE] = ROW("proxy-authenticate", HOP),
    [WG_TOKEN_PROXY_AUTHORIZATION] = ROW("proxy-authorization", HOP | SECRET),
    [WG_TOKEN_PROXY_CONNECTION] = ROW("proxy-connection", HOP),
    [WG_TOKEN_RETRY_AFTER] = ROW("retry-after", KEPT),
    [WG_TOKEN_SERVER_TIMING] = ROW("server-timing", 0),
    [WG_TOKEN_TE] = ROW("te", HOP),
    [WG_TOKEN_TRACEPARENT] = ROW("traceparent", OURS_REQ | KEPT),
    [WG_TOKEN_TRAILER] = ROW("trailer", HOP),
    [WG_TOKEN_TRANSFER_ENCODING] = ROW("transfer-encoding", HOP | FRAMING | SINGLE),
    [WG_TOKEN_UPGRADE] = ROW("upgrade", HOP),
    [WG_TOKEN_X_API_KEY] = ROW("x-api-key", SECRET | SINGLE | KEPT),
    [WG_TOKEN_X_FORWARDED_FOR] = ROW("x-forwarded-for", OURS_REQ | KEPT),
    [WG_TOKEN_X_FORWARDED_HOST] = ROW("x-forwarded-host", OURS_REQ | KEPT),
    [WG_TOKEN_X_FORWARDED_PROTO] = ROW("x-forwarded-proto", OURS_REQ | KEPT),
    [WG_TOKEN_FORWARDED] = ROW("forwarded", OURS_REQ | KEPT),
    [WG_TOKEN_X_GATEWAY_MODEL_NAME] = ROW("x-gateway-model-name", SINGLE | KEPT),
    [WG_TOKEN_X_REQUEST_ID] = ROW("x-request-id", OURS_REQ | OURS_RES | KEPT),
    [WG_TOKEN_X_STAINLESS_READ_TIMEOUT] = ROW("x-stainless-read-timeout", KEPT),
    [WG_TOKEN_X_STAINLESS_TIMEOUT] = ROW("x-stainless-timeout", KEPT),
};

/* Lookup is by length first: no length has more than three names. A row ends with WG_TOKEN_OTHER (0). */
enum { LONGEST_NAME = 24, NAMES_PER_LENGTH = 4 };
static const uint8_t by_length[LONGEST_NAME + 1][NAMES_PER_LENGTH] = {
    [2] = {WG_TOKEN_TE},
    [4] = {WG_TOKEN_HOST, WG_TOKEN_DATE},
    [6] = {WG_TOKEN_COOKIE, WG_TOKEN_EXPECT, WG_TOKEN_PREFER},
    [7] = {WG_TOKEN_API_KEY, WG_TOKEN_TRAILER, WG_TOKEN_UPGRADE},
    [9] = {WG_TOKEN_X_API_KEY, WG_TOKEN_FORWARDED},
    [10] = {WG_TOKEN_CONNECTION, WG_TOKEN_KEEP_ALIVE},
    [11] = {WG_TOKEN_TRACEPARENT, WG_TOKEN_RETRY_AFTER},
    [12] = {WG_TOKEN_CONTENT_TYPE, WG_TOKEN_X_REQUEST_ID},
    [13] = {WG_TOKEN_AUTHORIZATION, WG_TOKEN_SERVER_TIMING},
    [14] = {WG_TOKEN_CONTENT_LENGTH, WG_TOKEN_HTTP2_SETTINGS},
    [15] = {WG_TOKEN_ACCEPT_ENCODING, WG_TOKEN_X_FORWARDED_FOR},
    [16] = {WG_TOKEN_CONTENT_ENCODING, WG_TOKEN_PROXY_CONNECTION, WG_TOKEN_X_FORWARDED_HOST},
    [17] = {WG_TOKEN_TRANSFER_ENCODING, WG_TOKEN_X_FORWARDED_PROTO},
    [18] = {WG_TOKEN_PROXY_AUTHENTICATE},
    [19] = {WG_TOKEN_X_STAINLESS_TIMEOUT, WG_TOKEN_PROXY_AUTHORIZATION},
    [20] = {WG_TOKEN_X_GATEWAY_MODEL_NAME},
    [24] = {WG_TOKEN_X_STAINLESS_READ_TIMEOUT},
};

enum wg_token wg_token_find(struct wg_slice name)
{
    if (name.len > LONGEST_NAME)
        return WG_TOKEN_OTHER;
    for (const uint8_t *token = by_length[name.len]; *token != WG_TOKEN_OTHER; token++) {
        if (wg_slice_eq_nocase(tokens[*token].name, name))
            return (enum wg_token) * token;
    }
    return WG_TOKEN_OTHER;
}

unsigned wg_token_flags(enum wg_token token)
{
    WG_ASSERT(token < WG_TOKEN_COUNT);
    return tokens[token].flags;
}

struct wg_slice wg_token_name(enum wg_token token)
{
    WG_ASSERT(token < WG_TOKEN_COUNT);
    return tokens[token].name;
}

const char *wg_token_repeated(enum wg_token token)
{
    WG_ASSERT(token < WG_TOKEN_COUNT);
    return tokens[token].repeated;
}

const struct wg_field *wg_fields_get(const struct wg_fields *fields, enum wg_token token)
{
    WG_ASSERT(token != WG_TOKEN_OTHER);
    for (unsigned i = 0; i < fields->n; i++) {
        if (fields->items[i].token == token)
            return &fields->items[i];
    }
    return NULL;
}

const struct wg_field *wg_fields_find(const struct wg_fields *fields, struct wg_slice name)
{
    for (unsigned i = 0; i < fields->n; i++) {
        if (wg_slice_eq_nocase(fields->items[i].name, name))
            return &fields->items[i];
    }
    return NULL;
}

int wg_fields_add(struct wg_fields *fields, struct wg_slice name, struct wg_slice value)
{
    if (fields->n == WG_FIELDS_MAX)
        return -ENOSPC;
    enum wg_token token = wg_token_find(name);
    fields->items[fields->n++] = (struct wg_field){
        .name = name,
        .value = value,
        .token = token,
        .hop = (tokens[token].flags & WG_FIELD_HOP) != 0,
    };
    return 0;
}
