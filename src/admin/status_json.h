/* What the admin says of the activator's status, as JSON. Pure but for the metrics of tenants. */
#pragma once

#include "wakegate/activator.h"

struct admin_process_status {
    const char *version;
    wg_usec uptime;
    bool ready;
};

/* The whole of GET /status. */
void admin_status_json(const struct wg_status *status, const struct wg_config *config,
                       const struct admin_process_status *process, struct wg_buf *out);
/* GET /scaler/{name}: false if the activator does not know the model. */
bool admin_scaler_json(const struct wg_status *status, const char *name, struct wg_buf *out);
