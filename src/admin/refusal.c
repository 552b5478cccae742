/* The admin's own refusals, and the body of every refusal. */
#include "refusal.h"

#include "json_out.h"

const struct admin_refusal admin_no_keys = {
    403, "admin_keys_missing", "permission_error",
    "This address is not loopback and the configuration has no admin.keys, so nothing may be changed here. "
    "Configure admin.keys and send one of them, or bind admin.address to 127.0.0.1."};
const struct admin_refusal admin_cross_site = {403, "cross_site", "permission_error",
                                               "Pages of other sites may not change anything here."};
const struct admin_refusal admin_no_model = {
    404, "model_not_found", "invalid_request_error",
    "The model does not exist here. GET /status lists those that do."};
const struct admin_refusal admin_busy = {
    409, "busy", "invalid_request_error",
    "Requests wait for the model or run on it. It can sleep when they are done."};
const struct admin_refusal admin_no_hook = {400, "not_supported", "invalid_request_error",
                                            "The model's target is static and has no hook for this."};
const struct admin_refusal admin_internal = {500, "internal_error", "server_error",
                                             "The answer could not be made."};

struct admin_refusal admin_refusal_of(enum wg_reason reason)
{
    const struct wg_reason_info *info = wg_reason_info(reason);
    return (struct admin_refusal){info->status, info->code, info->type, info->message};
}

void admin_refusal_json(const struct admin_refusal *refusal, const char *message, struct wg_buf *out)
{
    struct json_out json = {.buf = out};

    json_out_open(&json, NULL, '{');
    json_out_open(&json, "error", '{');
    json_out_text(&json, "message", message ? message : refusal->message);
    json_out_text(&json, "type", refusal->type);
    json_out_null(&json, "param");
    json_out_text(&json, "code", refusal->code);
    json_out_close(&json, '}');
    json_out_close(&json, '}');
    wg_buf_add_char(out, '\n');
}
