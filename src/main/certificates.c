/* What listeners present: made from the files that the configuration names, and made anew when these change.
 * Files are looked at, not watched, so that edits in place, renames and a Secret's symlink swap are one case.
 * Each listener is on its own: a wrong file of one keeps no other from a renewed certificate. */
#include "serve.h"

#include "wakegate/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LOOK_EVERY (500 * WG_USEC_PER_MSEC)
#define WHY_MAX    4096

/* One listener: what it presents, and where that comes from. */
struct presented {
    struct wg_config *config;                  /* a reference: the newest one that has its address */
    const struct wg_config_listener *listener; /* in it; NULL: replaced by another */
    struct wg_tls *tls;                        /* NULL: cleartext */
    uint64_t read,
        seen; /* what its files looked like, in one number: when they were read; at the last look */
};

struct certificates {
    size_t n;
    struct presented items[];
};

/* ---- what files look like ---- */

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
    fold(print, (uint64_t)st.st_ctim.tv_sec); /* a key that may be read from now on is a change, too */
    fold(print, (uint64_t)st.st_ctim.tv_nsec);
}

static uint64_t look_at(const struct wg_config_tls *tls)
{
    uint64_t print = UINT64_C(0xcbf29ce484222325);
    fold_file(&print, tls->cert_file);
    fold_file(&print, tls->key_file);
    fold_file(&print, tls->client_ca_file);
    for (size_t i = 0; i < tls->n_certificates; i++) {
        fold_file(&print, tls->certificates[i].cert_file);
        fold_file(&print, tls->certificates[i].key_file);
    }
    return print;
}

/* ---- reading them ---- */

static bool has_tls(const struct wg_config_listener *listener)
{
    return listener->tls.cert_file && listener->tls.cert_file[0];
}

/* Looked at before they are read: what changes meanwhile is read again. */
static int read_files(struct presented *item, struct wg_tls_tickets *tickets, struct wg_buf *why)
{
    struct wg_tls *tls = NULL;
    item->read = item->seen = look_at(&item->listener->tls);
    const int error = has_tls(item->listener) ? wg_tls_new(&item->listener->tls, tickets, &tls, why) : 0;
    if (error < 0)
        return error;
    wg_tls_unref(item->tls);
    item->tls = tls;
    return 0;
}

static bool read_first(struct presented *item, size_t i, struct wg_config *config,
                       struct wg_tls_tickets *tickets, struct wg_buf *faults)
{
    struct wg_buf why = WG_BUF_INIT(WHY_MAX);
    item->config = wg_config_ref(config);
    item->listener = &config->listeners[i];
    const bool good = read_files(item, tickets, &why) == 0;
    if (!good)
        wg_buf_addf(faults, "%s: listeners[%zu].tls: %s\n", config->path, i, wg_buf_str(&why));
    wg_buf_clear(&why);
    return good;
}

struct certificates *certificates_load(struct wg_config *config, struct wg_tls_tickets *tickets,
                                       struct wg_buf *faults)
{
    const size_t n = config->n_listeners;
    struct certificates *loaded = wg_xcalloc(1, sizeof(*loaded) + n * sizeof(loaded->items[0]));
    bool good = true;
    for (loaded->n = 0; loaded->n < n; loaded->n++)
        good &= read_first(&loaded->items[loaded->n], loaded->n, config, tickets, faults);
    return good ? loaded : certificates_free(loaded);
}

struct certificates *certificates_free(struct certificates *certificates)
{
    for (size_t i = 0; certificates && i < certificates->n; i++) {
        wg_tls_unref(certificates->items[i].tls);
        wg_config_unref(certificates->items[i].config);
    }
    free(certificates);
    return NULL;
}

/* ---- taking them over ---- */

struct wg_tls_set *certificates_set(const struct certificates *certificates)
{
    struct wg_tls_set *set = wg_tls_set_new(certificates->n);
    for (size_t i = 0; i < set->n; i++)
        set->items[i] = certificates->items[i].tls ? wg_tls_ref(certificates->items[i].tls) : NULL;
    return set;
}

static void publish(struct server *server)
{
    struct wg_tls_set *set = certificates_set(server->certificates);
    wg_proxy_set_tls(server->proxy, set);
    wg_tls_set_unref(set);
}

/* Listeners whose port the system chooses may have one address: they are matched in their order. */
static struct presented *find(struct certificates *loaded, const char *address)
{
    for (size_t i = 0; i < loaded->n; i++) {
        const struct wg_config_listener *listener = loaded->items[i].listener;
        if (listener && strcmp(listener->address.text, address) == 0)
            return &loaded->items[i];
    }
    return NULL;
}

/* What is left in `loaded` is to be freed, and found no more. */
static void replace(struct presented *runs, struct presented *loaded)
{
    const struct presented old = *runs;
    *runs = *loaded;
    *loaded = old;
    loaded->listener = NULL;
}

void certificates_take(struct server *server, struct certificates *loaded)
{
    for (size_t i = 0; i < server->certificates->n; i++) {
        struct presented *runs = &server->certificates->items[i];
        struct presented *new = find(loaded, runs->listener->address.text);
        if (new)
            replace(runs, new);
    }
    certificates_free(loaded);
    publish(server);
}

/* ---- files that change ---- */

static bool renew(struct server *server, struct presented *item)
{
    const char *address = item->listener->address.text;
    struct wg_buf why = WG_BUF_INIT(WHY_MAX);
    const bool good = read_files(item, server->tickets, &why) == 0;
    if (good) {
        wg_count(&wg_metrics_process()->tls_reloads_ok);
        wg_info("tls", NULL, "changed certificates of the listener %s were taken over", address);
    } else {
        wg_count(&wg_metrics_process()->tls_reloads_failed);
        wg_error("tls", NULL,
                 "changed certificates of the listener %s were not taken over, those before stay: %s",
                 address, wg_buf_str(&why));
    }
    wg_buf_clear(&why);
    return good;
}

/* A change is taken when it stood still for one look: files that are being written change again. */
static bool look(struct server *server, struct presented *item)
{
    const uint64_t now = look_at(&item->listener->tls);
    const bool settled = now == item->seen;
    item->seen = now;
    return settled && now != item->read && renew(server, item);
}

static void on_look(struct wg_timer *timer)
{
    struct server *server = WG_CONTAINER_OF(timer, struct server, renew);
    bool renewed = false;
    for (size_t i = 0; i < server->certificates->n; i++)
        renewed |= look(server, &server->certificates->items[i]);
    if (renewed)
        publish(server);
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
