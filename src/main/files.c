/* File descriptors: what limits.maxConnections needs of them, and raising the limit to it. */
#include "serve.h"

#include <sys/resource.h>

/* Each client connection may have one towards a model beside it; the rest is for logs, loops and the
 * service's own calls. */
#define FILES_OWN 512

/* At a small limit half of it is kept back. */
static uint64_t that_fit(uint64_t files)
{
    return (files - WG_MIN((uint64_t)FILES_OWN, files / 2)) / 2;
}

bool files_fit(const struct wg_config *config, bool raise, uint64_t *ret_fits)
{
    const uint64_t need = 2 * config->limits.max_connections + FILES_OWN;
    struct rlimit limit;
    *ret_fits = config->limits.max_connections;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= need)
        return true;
    const struct rlimit wanted = {.rlim_cur = need, .rlim_max = WG_MAX(need, limit.rlim_max)};
    const struct rlimit before = limit;
    const bool fits = setrlimit(RLIMIT_NOFILE, &wanted) == 0;
    if (fits && !raise)
        setrlimit(RLIMIT_NOFILE, &before);
    if (fits)
        return true;
    if (raise) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    const uint64_t some = WG_MAX(that_fit(limit.rlim_max), 1);
    *ret_fits = WG_MIN(some, config->limits.max_connections);
    return some >= config->limits.max_connections;
}
