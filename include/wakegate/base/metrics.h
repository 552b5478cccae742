/* The metrics registry: one table, counters in shared memory of the process. One of the two global things.
 * Every value is one relaxed atomic, any thread adds. Series of a model or a tenant are found once by name,
 * when a configuration is loaded, and live until the process ends, so a pointer to them never dangles. Labels
 * come from the configuration only. */
#pragma once

#include <stdatomic.h>

#include "wakegate/base/buf.h"
#include "wakegate/base/clock.h"
#include "wakegate/base/reason.h"

enum { WG_HISTOGRAM_BUCKETS = 18 };

/* Upper bounds are fixed, in seconds: 0.001 … 900; the last bucket is +Inf. */
struct wg_histogram {
    _Atomic uint64_t bucket[WG_HISTOGRAM_BUCKETS]; /* not cumulative; made so when printed */
    _Atomic uint64_t sum_usec;
};

enum wg_wake_result { WG_WAKE_OK, WG_WAKE_FAILED, WG_WAKE_TIMEOUT, WG_WAKE_RESULTS };
enum wg_probe_result {
    WG_PROBE_OK,
    WG_PROBE_REFUSED,  /* no connection, or closed before an answer */
    WG_PROBE_TIMEOUT,  /* no complete answer within probe.timeout */
    WG_PROBE_STATUS,   /* not 2xx */
    WG_PROBE_INVALID,  /* 2xx, but no answer of a model in it */
    WG_PROBE_MISMATCH, /* an answer that `expect` does not match */
    WG_PROBE_RESULTS
};

/* In order; patched and pod_created … image_pulled are the kubernetes target's alone. */
enum wg_phase {
    WG_PHASE_PATCHED,
    WG_PHASE_POD_CREATED,
    WG_PHASE_SCHEDULED,
    WG_PHASE_IMAGE_PULLED,
    WG_PHASE_STARTED,
    WG_PHASE_LISTENING,
    WG_PHASE_ANSWERING,
    WG_PHASES
};
/* Calls to a Kubernetes API server: what was asked for, and the status of the answer by class, with those of
 * their own that say what to do. */
enum wg_api_verb { WG_API_GET, WG_API_LIST, WG_API_WATCH, WG_API_PATCH, WG_API_VERBS };
enum wg_api_status {
    WG_API_2XX,
    WG_API_3XX,
    WG_API_401,
    WG_API_403,
    WG_API_404,
    WG_API_409,
    WG_API_410,
    WG_API_429,
    WG_API_4XX, /* the others */
    WG_API_5XX,
    WG_API_ERROR, /* no complete answer, or one that is none */
    WG_API_STATUSES
};
const char *wg_phase_label(enum wg_phase phase);
const char *wg_probe_result_label(enum wg_probe_result result);

struct wg_model_metrics {
    const char *model;
    _Atomic uint64_t requests[WG_OUTCOME_COUNT];
    struct wg_histogram duration, first_byte, hold;
    _Atomic int64_t held, held_bytes, inflight; /* gauges */
    _Atomic int state; /* enum wg_model_state; -1 while unknown or no longer configured */
    _Atomic uint64_t wakes[WG_WAKE_RESULTS];
    struct wg_histogram cold_start[WG_PHASES];
    _Atomic uint64_t probes[WG_PROBE_RESULTS];
};

struct wg_tenant_metrics {
    const char *tenant;
    _Atomic uint64_t requests[WG_OUTCOME_COUNT];
};

struct wg_process_metrics {
    _Atomic int64_t connections, held_bytes; /* gauges: client connections, request bodies in memory */
    _Atomic uint64_t reloads_ok, reloads_failed, connections_refused;
    _Atomic uint64_t tls_reloads_ok, tls_reloads_failed, connections_calmed;
    _Atomic uint64_t api_requests[WG_API_VERBS][WG_API_STATUSES];
};

/* Finds or makes the series; never NULL. NULL or "" as a name is the series "other". */
struct wg_model_metrics *wg_metrics_model(const char *name);
struct wg_tenant_metrics *wg_metrics_tenant(const char *name);
struct wg_process_metrics *wg_metrics_process(void);

void wg_histogram_add(struct wg_histogram *histogram, wg_usec value);

static inline void wg_count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}
static inline void wg_gauge_add(_Atomic int64_t *gauge, int64_t delta)
{
    atomic_fetch_add_explicit(gauge, delta, memory_order_relaxed);
}

/* Appends everything as Prometheus text (version 0.0.4). state_names maps wg_model_metrics.state to its
 * label. */
void wg_metrics_render(struct wg_buf *out, const char *const *state_names, size_t n_states);
