/* The admin's table of paths, and the model's name inside one. */
#include "routes.h"

#include <stdlib.h>

static const struct admin_route routes[] = {
    {"/", NULL, ADMIN_INDEX, false, "this list"},
    {"/healthz", NULL, ADMIN_HEALTHZ, false, "200 while the process lives"},
    {"/readyz", NULL, ADMIN_READYZ, false, "200 while requests are taken, 503 while starting and stopping"},
    {"/metrics", NULL, ADMIN_METRICS, false, "Prometheus text"},
    {"/status", NULL, ADMIN_STATUS, false, "models, tenants and the process as JSON"},
    {"/scaler/", "", ADMIN_SCALER, false, "held, inflight and demand of a model, for an autoscaler"},
    {"/models/", "/wake", ADMIN_WAKE, true, "wake a model as a request would"},
    {"/models/", "/sleep", ADMIN_SLEEP, true, "seal a model and put it to sleep"},
};

static bool ends_with(struct wg_slice s, struct wg_slice suffix)
{
    return s.len >= suffix.len && wg_slice_eq(wg_slice(s.ptr + s.len - suffix.len, suffix.len), suffix);
}

static bool route_fits(const struct admin_route *route, struct wg_slice path, struct wg_slice *ret_name)
{
    struct wg_slice prefix = wg_slice_str(route->prefix), suffix = wg_slice_str(route->suffix);

    if (!route->suffix)
        return wg_slice_eq(path, prefix);
    if (path.len <= prefix.len + suffix.len || !wg_slice_starts_with(path, prefix) ||
        !ends_with(path, suffix))
        return false;
    *ret_name = wg_slice(path.ptr + prefix.len, path.len - prefix.len - suffix.len);
    return true;
}

const struct admin_route *admin_route_find(struct wg_slice path, struct wg_slice *ret_name)
{
    *ret_name = wg_slice(NULL, 0);
    for (size_t i = 0; i < WG_COUNT_OF(routes); i++) {
        if (route_fits(&routes[i], path, ret_name))
            return &routes[i];
    }
    return NULL;
}

bool admin_route_takes(const struct admin_route *route, struct wg_slice method)
{
    if (route->changes)
        return wg_slice_eq(method, WG_SLICE("POST"));
    return wg_slice_eq(method, WG_SLICE("GET")) || wg_slice_eq(method, WG_SLICE("HEAD"));
}

const char *admin_route_allow(const struct admin_route *route)
{
    return route->changes ? "POST" : "GET, HEAD";
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

char *admin_name_decode(struct wg_slice text)
{
    char *name = wg_xcalloc(text.len + 1, 1);
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '%') {
            name[len++] = text.ptr[i];
            continue;
        }
        int high = i + 2 < text.len ? hex_digit(text.ptr[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(text.ptr[i + 2]) : -1;
        if (low < 0)
            goto bad;
        name[len++] = (char)(high * 16 + low);
        i += 2;
    }
    if (len > 0 && !wg_slice_has_control(wg_slice(name, len)))
        return name;
bad:
    free(name);
    return NULL;
}

void admin_route_index(struct wg_buf *out)
{
    wg_buf_add_str(out, "Wakegate admin\n\n");
    for (size_t i = 0; i < WG_COUNT_OF(routes); i++) {
        const struct admin_route *route = &routes[i];
        char *path = wg_xasprintf("%s%s%s", route->prefix, route->suffix ? "{name}" : "",
                                  route->suffix ? route->suffix : "");
        wg_buf_addf(out, "%-4s %-22s %s\n", route->changes ? "POST" : "GET", path, route->help);
        free(path);
    }
}
