/* The access log: one line a request, with what an operator asks first when it was slow or failed. */
#include "exchange.h"

#include "wakegate/base/log.h"

#include <stdio.h>

static struct wg_slice milliseconds(char out[static 24], wg_usec t)
{
    const int len = snprintf(out, 24, "%lld.%03lld", (long long)(t / WG_USEC_PER_MSEC),
                             (long long)(t % WG_USEC_PER_MSEC));
    return wg_slice(out, (size_t)len);
}

static struct wg_slice number(char out[static 24], uint64_t value)
{
    const int len = snprintf(out, 24, "%llu", (unsigned long long)value);
    return wg_slice(out, (size_t)len);
}

static struct wg_slice text_or_dash(const char *text)
{
    return wg_slice_str(text && text[0] ? text : "-");
}

void access_log(const struct exchange *x)
{
    if (!wg_log_on(WG_LOG_INFO))
        return;
    char status[24], held[24], first[24], took[24], in[24], out[24];
    const wg_usec now = wg_loop_now(x->worker->loop);
    struct wg_log_field fields[16];
    size_t n = 0;
    fields[n++] = (struct wg_log_field){"method", text_or_dash(x->method)};
    fields[n++] = (struct wg_log_field){"path", text_or_dash(x->path)};
    fields[n++] = (struct wg_log_field){"model", text_or_dash(x->model ? x->model->name : NULL)};
    fields[n++] = (struct wg_log_field){"tenant", text_or_dash(x->tenant ? x->tenant->name : NULL)};
    fields[n++] = (struct wg_log_field){"outcome", wg_slice_str(wg_outcome_label(x->outcome))};
    fields[n++] = (struct wg_log_field){"status", number(status, (uint64_t)x->status)};
    if (x->waited)
        fields[n++] = (struct wg_log_field){x->waited_cold ? "held_cold_ms" : "held_busy_ms",
                                            milliseconds(held, x->held_for)};
    if (x->first_byte_at)
        fields[n++] =
            (struct wg_log_field){"first_byte_ms", milliseconds(first, x->first_byte_at - x->arrived)};
    fields[n++] = (struct wg_log_field){"took_ms", milliseconds(took, now - x->arrived)};
    fields[n++] = (struct wg_log_field){"bytes_in", number(in, x->received)};
    fields[n++] = (struct wg_log_field){"bytes_out", number(out, x->answered)};
    fields[n++] = (struct wg_log_field){"request_id", text_or_dash(x->id)};
    if (x->detail)
        fields[n++] = (struct wg_log_field){"detail", wg_slice_str(x->detail)};
    fields[n] = (struct wg_log_field){0};
    wg_log_fields(WG_LOG_INFO, "access", NULL, "request", fields);
}
