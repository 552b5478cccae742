/* JSON into a buffer, without a tree: what the admin answers is written once and read by others. */
#include "json_out.h"

#include <inttypes.h>

static void begin_value(struct json_out *json, const char *key)
{
    if (json->comma)
        wg_buf_add_char(json->buf, ',');
    json->comma = true;
    if (key)
        wg_buf_addf(json->buf, "\"%s\":", key);
}

void json_out_open(struct json_out *json, const char *key, char bracket)
{
    begin_value(json, key);
    wg_buf_add_char(json->buf, bracket);
    json->comma = false;
}

void json_out_close(struct json_out *json, char bracket)
{
    wg_buf_add_char(json->buf, bracket);
    json->comma = true;
}

void json_out_text(struct json_out *json, const char *key, const char *text)
{
    begin_value(json, key);
    wg_buf_add_char(json->buf, '"');
    wg_buf_add_json(json->buf, wg_slice_str(text));
    wg_buf_add_char(json->buf, '"');
}

void json_out_u64(struct json_out *json, const char *key, uint64_t value)
{
    begin_value(json, key);
    wg_buf_add_u64(json->buf, value);
}

void json_out_i64(struct json_out *json, const char *key, int64_t value)
{
    begin_value(json, key);
    wg_buf_addf(json->buf, "%" PRId64, value);
}

void json_out_null(struct json_out *json, const char *key)
{
    begin_value(json, key);
    wg_buf_add_str(json->buf, "null");
}

void json_out_bool(struct json_out *json, const char *key, bool value)
{
    begin_value(json, key);
    wg_buf_add_str(json->buf, value ? "true" : "false");
}

void json_out_seconds(struct json_out *json, const char *key, wg_usec t)
{
    if (t < 0) {
        json_out_null(json, key);
        return;
    }
    begin_value(json, key);
    wg_buf_addf(json->buf, "%" PRId64 ".%03" PRId64, t / WG_USEC_PER_SEC,
                t % WG_USEC_PER_SEC / WG_USEC_PER_MSEC);
}
