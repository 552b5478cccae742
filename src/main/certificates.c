/* What listeners present with TLS: made from files, and made anew when these change. The files are looked at,
 * not watched, so that edits in place, renames and a Secret's symlink swap are one case. */
#include "serve.h"

#include "wakegate/base/log.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define LOOK_EVERY (500 * WG_USEC_PER_MSEC)
#define WHY_MAX    2048

/* ---- making a set ---- */

/* The one that runs as running->listeners[at]; at the same place if it can be (":0" may be there twice). */
static const struct wg_config_listener *listener_of(const struct wg_config *config,
                                                    const struct wg_config *running, size_t at)
{
    const char *address = running->listeners[at].address.text;
    if (at < config->n_listeners && strcmp(config->listeners[at].address.text, address) == 0)
        return &config->listeners[at];
    for (size_t i = 0; i < config->n_listeners; i++)
        if (strcmp(config->listeners[i].address.text, address) == 0)
            return &config->listeners[i];
    return NULL;
}

static void tell(const struct wg_config *config, const struct wg_config_listener *listener,
                 struct wg_buf *why, struct wg_buf *faults)
{
    wg_buf_addf(faults, "%s: listeners[%zu].tls: %s\n", config->path, (size_t)(listener - config->listeners),
                wg_buf_str(why));
    wg_buf_clear(why);
}

int certificates_make(const struct wg_config *running, const struct wg_config *config,
                      struct wg_tls_tickets *tickets, const struct wg_tls_set *was,
                      struct wg_tls_set **ret_set, struct wg_buf *faults)
{
    struct wg_tls_set *set = wg_tls_set_new(running->n_listeners);
    struct wg_buf why = WG_BUF_INIT(WHY_MAX);
    int error = 0;
    for (size_t i = 0; i < running->n_listeners; i++) {
        const struct wg_config_listener *listener = listener_of(config, running, i);
        if (!listener) {
            set->items[i] = was && was->items[i] ? wg_tls_ref(was->items[i]) : NULL;
        } else if (listener->tls.cert_file[0] &&
                   wg_tls_new(&listener->tls, tickets, &set->items[i], &why) < 0) {
            tell(config, listener, &why, faults);
            error = -EINVAL;
        }
    }
    if (error == 0)
        *ret_set = set;
    else
        wg_tls_set_unref(set);
    return error;
}

/* ---- files that change ---- */

static void fold(uint64_t *print, uint64_t value)
{
    *print = (*print ^ value) * UINT64_C(0x100000001b3); /* FNV-1a, a word at a time */
}

static void fold_file(uint64_t *print, const char *path)
{
    struct stat st;
    if (!path || !path[0])
        return;
    if (stat(path, &st) < 0) {
        fold(print, (uint64_t)errno);
        return;
    }
    fold(print, st.st_dev);
    fold(print, st.st_ino);
    fold(print, (uint64_t)st.st_size);
    fold(print, (uint64_t)st.st_mtim.tv_sec);
    fold(print, (uint64_t)st.st_mtim.tv_nsec);
}

uint64_t certificates_look(const struct wg_config *config)
{
    uint64_t print = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < config->n_listeners; i++) {
        const struct wg_config_tls *tls = &config->listeners[i].tls;
        fold_file(&print, tls->cert_file);
        fold_file(&print, tls->key_file);
        fold_file(&print, tls->client_ca_file);
        for (size_t j = 0; j < tls->n_certificates; j++) {
            fold_file(&print, tls->certificates[j].cert_file);
            fold_file(&print, tls->certificates[j].key_file);
        }
    }
    return print;
}

void certificates_take(struct server *server, struct wg_tls_set *set, uint64_t look)
{
    wg_tls_set_unref(server->tls);
    server->tls = set;
    server->renewed = server->moving = look;
    if (server->proxy)
        wg_proxy_set_tls(server->proxy, set);
}

static void renew(struct server *server)
{
    struct wg_buf faults = WG_BUF_INIT(64 * 1024);
    struct wg_tls_set *set;
    const uint64_t look = certificates_look(server->config);
    if (certificates_make(server->started, server->config, server->tickets, server->tls, &set, &faults) ==
        0) {
        certificates_take(server, set, look);
        wg_count(&wg_metrics_process()->tls_reloads_ok);
        wg_info("tls", NULL, "changed certificates were taken over");
    } else {
        server->renewed = look; /* said once */
        wg_count(&wg_metrics_process()->tls_reloads_failed);
        const struct wg_slice words =
            wg_slice(faults.data, faults.len - 1); /* the last line's end is the log's */
        wg_error("tls", NULL, "changed certificates were not taken over, those before stay: " WG_SLICE_FMT,
                 WG_SLICE_ARG(words));
    }
    wg_buf_clear(&faults);
}

/* A change is taken when it stood still for one look: files that are being written change again. */
static void on_look(struct wg_timer *timer)
{
    struct server *server = WG_CONTAINER_OF(timer, struct server, renew);
    const uint64_t now = certificates_look(server->config);
    const bool settled = now == server->moving;
    server->moving = now;
    if (settled && now != server->renewed)
        renew(server);
    wg_timer_set_after(&server->renew, LOOK_EVERY);
}

void certificates_init(struct server *server)
{
    wg_timer_init(&server->renew, server->service, on_look);
    wg_timer_set_after(&server->renew, LOOK_EVERY);
}

void certificates_stop(struct server *server)
{
    wg_timer_cancel(&server->renew);
}
