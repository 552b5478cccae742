/* Writes JSON into a buffer, member by member. Commas are its business, nesting is the caller's. A NULL key
 * writes an element of an array; keys are our own words and go out as they are, text is escaped and made
 * valid UTF-8. Failure is the buffer's `failed`. */
#pragma once

#include "wakegate/base/buf.h"
#include "wakegate/base/clock.h"

struct json_out {
    struct wg_buf *buf;
    bool comma; /* something stands before the next value on its level */
};

/* `bracket` is '{' or '['; close takes the other half. */
void json_out_open(struct json_out *json, const char *key, char bracket);
void json_out_close(struct json_out *json, char bracket);
void json_out_text(struct json_out *json, const char *key, const char *text);
void json_out_u64(struct json_out *json, const char *key, uint64_t value);
void json_out_i64(struct json_out *json, const char *key, int64_t value);
void json_out_null(struct json_out *json, const char *key);
void json_out_bool(struct json_out *json, const char *key, bool value);
/* Seconds with three decimals; null when negative (unknown). */
void json_out_seconds(struct json_out *json, const char *key, wg_usec t);
