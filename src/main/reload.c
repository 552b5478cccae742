/* Taking over a changed configuration: by SIGHUP, or when the file changes. The file is looked at, not
 * watched, so that edits in place, renames and a ConfigMap's symlink swap are one case. */
#include "serve.h"

#include "wakegate/base/log.h"

#include <string.h>
#include <sys/stat.h>

#define LOOK_EVERY (500 * WG_USEC_PER_MSEC)

static bool stamp_of(const char *path, struct wg_config_stamp *ret_stamp)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return false;
    *ret_stamp = (struct wg_config_stamp){
        .device = st.st_dev,
        .inode = st.st_ino,
        .size = (uint64_t)st.st_size,
        .modified = st.st_mtim.tv_sec * WG_USEC_PER_SEC + st.st_mtim.tv_nsec / 1000,
    };
    return true;
}

static bool same_stamp(const struct wg_config_stamp *a, const struct wg_config_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified == b->modified;
}

static void each_line(const struct wg_buf *text, enum wg_log_level level, const char *what)
{
    struct wg_slice rest = wg_buf_slice(text), line;
    while (rest.len > 0 && wg_slice_split(&rest, '\n', &line))
        if (line.len > 0)
            wg_log_write(level, "config", NULL, "%s" WG_SLICE_FMT, what, WG_SLICE_ARG(line));
}

static void take_over(struct server *server, struct wg_config *config, struct wg_tls_set *tls, uint64_t look)
{
    struct wg_buf restart = WG_BUF_INIT(8192);
    wg_config_restart_needed(server->config, config, &restart);
    each_line(&restart, WG_LOG_WARN, "a change of this option needs a restart: ");
    wg_buf_clear(&restart);
    wg_log_configure(config->log.level, config->log.format);
    wg_config_unref(server->config);
    server->config = config;
    certificates_take(server, tls, look);
    wg_admin_configure(server->admin, config);
    wg_activator_configure(server->activator, config);
}

/* A certificate that is wrong is a fault as any other. */
static int make_tls(struct server *server, const struct wg_config *config, struct wg_tls_set **ret_tls)
{
    struct wg_buf faults = WG_BUF_INIT(64 * 1024);
    const int error =
        certificates_make(server->started, config, server->tickets, server->tls, ret_tls, &faults);
    each_line(&faults, WG_LOG_ERROR, "");
    wg_buf_clear(&faults);
    return error;
}

void reload_now(struct server *server)
{
    struct wg_config *config = NULL;
    struct wg_tls_set *tls = NULL;
    struct wg_config_faults faults = {0};
    stamp_of(server->path, &server->loaded);
    server->seen = server->loaded;
    int error = wg_config_load(server->path, &config, &faults);
    each_line(&faults.text, error < 0 ? WG_LOG_ERROR : WG_LOG_WARN, "");
    wg_config_faults_clear(&faults);
    const uint64_t look = error == 0 ? certificates_look(config) : 0;
    if (error == 0)
        error = make_tls(server, config, &tls);
    if (error < 0) {
        wg_config_unref(config);
        wg_count(&wg_metrics_process()->reloads_failed);
        wg_error("config", NULL, "%s was not taken over; the configuration before it stays", server->path);
        return;
    }
    take_over(server, config, tls, look);
    wg_count(&wg_metrics_process()->reloads_ok);
    wg_info("config", NULL, "%s was reloaded", server->path);
}

/* A change is taken when it stood still for one look: a file that is being written changes again. */
static void on_look(struct wg_timer *timer)
{
    struct server *server = WG_CONTAINER_OF(timer, struct server, look);
    struct wg_config_stamp now;
    if (stamp_of(server->path, &now)) {
        const bool settled = same_stamp(&now, &server->seen);
        server->seen = now;
        if (settled && !same_stamp(&now, &server->loaded))
            reload_now(server);
    }
    wg_timer_set_after(&server->look, LOOK_EVERY);
}

void reload_init(struct server *server)
{
    stamp_of(server->path, &server->loaded);
    server->seen = server->loaded;
    wg_timer_init(&server->look, server->service, on_look);
    wg_timer_set_after(&server->look, LOOK_EVERY);
}

void reload_stop(struct server *server)
{
    wg_timer_cancel(&server->look);
}
