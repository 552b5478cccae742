/* Taking over a changed configuration: by SIGHUP, or when the file changes. The file is looked at, not
 * watched, so that edits in place, renames and a ConfigMap's symlink swap are one case. */
#include "serve.h"

#include "wakegate/base/log.h"

#include <string.h>
#include <sys/stat.h>

#define LOOK_EVERY  (500 * WG_USEC_PER_MSEC)
#define AGAIN_LOOKS 6

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

/* What a reload reads: all of it is good, or nothing is taken over. */
struct reading {
    struct wg_config *config;
    struct certificates *certificates;
    struct wg_config_faults faults;
};

static bool read_all(struct server *server, struct reading *reading)
{
    if (wg_config_load(server->path, &reading->config, &reading->faults) < 0)
        return false;
    reading->certificates = certificates_load(reading->config, server->tickets, &reading->faults.text);
    if (!reading->certificates)
        reading->config = wg_config_unref(reading->config);
    return reading->certificates;
}

static void take_over(struct server *server, const struct reading *reading)
{
    struct wg_config *config = reading->config;
    struct wg_buf restart = WG_BUF_INIT(8192);
    wg_config_restart_needed(server->config, config, &restart);
    each_line(&restart, WG_LOG_WARN, "a change of this option needs a restart: ");
    wg_buf_clear(&restart);
    wg_log_configure(config->log.level, config->log.format);
    wg_config_unref(server->config);
    server->config = config;
    certificates_take(server, reading->certificates);
    wg_admin_configure(server->admin, config);
    wg_activator_configure(server->activator, config);
    wg_count(&wg_metrics_process()->reloads_ok);
    wg_info("config", NULL, "%s was reloaded", server->path);
}

void reload_now(struct server *server)
{
    struct reading reading = {.faults.text = WG_BUF_INIT(FAULTS_MAX)};
    stamp_of(server->path, &server->loaded);
    server->seen = server->loaded;
    const bool good = read_all(server, &reading);
    each_line(&reading.faults.text, good ? WG_LOG_WARN : WG_LOG_ERROR, "");
    if (good) {
        take_over(server, &reading);
    } else {
        wg_count(&wg_metrics_process()->reloads_failed);
        wg_error("config", NULL, "%s was not taken over; the configuration before it stays", server->path);
    }
    server->looks_ago = good ? 0 : 1;
    wg_config_faults_clear(&reading.faults);
}

/* A file that names others can be there before them, as when a ConfigMap is mounted anew before a Secret is:
 * what was wrong in it may be right by now. */
static void try_again(struct server *server)
{
    struct reading reading = {.faults.text = WG_BUF_INIT(FAULTS_MAX)};
    server->looks_ago = 1;
    if (read_all(server, &reading)) {
        server->looks_ago = 0;
        each_line(&reading.faults.text, WG_LOG_WARN, "");
        take_over(server, &reading);
    }
    wg_config_faults_clear(&reading.faults);
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
        else if (settled && server->looks_ago > 0 && ++server->looks_ago > AGAIN_LOOKS)
            try_again(server);
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
