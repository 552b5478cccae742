/* File descriptors: what limits.maxConnections needs of them, and raising the limit to it. */
#include "serve.h"

#include <sys/resource.h>

/* Each client connection may have one towards a model beside it; the rest is for logs, loops and the
 * service's own calls. */
#define FILES_OWN 512

bool files_fit(const struct wg_config *config, bool raise, uint64_t *ret_fits)
{
    const uint64_t need = 2 * config->limits.max_connections + FILES_OWN;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return true;
    if (limit.rlim_cur >= need)
        return true;
    const struct rlimit wanted = {.rlim_cur = need, .rlim_max = WG_MAX(need, limit.rlim_max)};
    const struct rlimit before = limit;
    const bool fits = need <= limit.rlim_max || setrlimit(RLIMIT_NOFILE, &wanted) == 0;
    if (raise) {
        limit.rlim_cur = fits ? need : limit.rlim_max;
        limit.rlim_max = WG_MAX(limit.rlim_max, limit.rlim_cur);
        setrlimit(RLIMIT_NOFILE, &limit);
    } else if (fits) {
        setrlimit(RLIMIT_NOFILE, &before);
    }
    if (!fits)
        *ret_fits = limit.rlim_max > FILES_OWN ? (limit.rlim_max - FILES_OWN) / 2 : 0;
    return fits;
}
