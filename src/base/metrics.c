/* The metrics registry: series by name, and the one table from which all of them are printed. Series are only
 * ever added, at the end of a list, so that printing takes no lock. */
#include "wakegate/base/metrics.h"

#include <inttypes.h>
#include <pthread.h>

#include "wakegate/base/map.h"

enum { MAX_SERIES = 20000 }; /* names beyond it count as "other" */

enum scope { SCOPE_MODEL, SCOPE_TENANT, SCOPE_PROCESS, SCOPES };
static const char *const scope_label[SCOPES] = {"model", "tenant", NULL};

/* One named series of a scope. The struct that others see is `of`. */
struct series {
    _Atomic(struct series *) next;
    union {
        struct wg_model_metrics model;
        struct wg_tenant_metrics tenant;
        struct wg_process_metrics process;
    } of;
    char name[];
};

static struct {
    pthread_mutex_t lock; /* of by_name and last */
    struct wg_map *by_name[SCOPES];
    struct series *last[SCOPES];
    _Atomic(struct series *) first[SCOPES];
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct wg_process_metrics process_metrics;

/* In microseconds; the last bucket of a histogram has no bound. */
static const struct {
    wg_usec usec;
    const char *text;
} bounds[WG_HISTOGRAM_BUCKETS] = {
    {1000, "0.001"},    {2500, "0.0025"},   {5000, "0.005"},         {10000, "0.01"},  {25000, "0.025"},
    {50000, "0.05"},    {100000, "0.1"},    {250000, "0.25"},        {500000, "0.5"},  {1000000, "1"},
    {2500000, "2.5"},   {5000000, "5"},     {10000000, "10"},        {30000000, "30"}, {60000000, "60"},
    {300000000, "300"}, {900000000, "900"}, {WG_USEC_NEVER, "+Inf"},
};

static const char *const phase_labels[WG_PHASES] = {
    [WG_PHASE_PATCHED] = "patched",     [WG_PHASE_POD_CREATED] = "pod_created",
    [WG_PHASE_SCHEDULED] = "scheduled", [WG_PHASE_IMAGE_PULLED] = "image_pulled",
    [WG_PHASE_STARTED] = "started",     [WG_PHASE_LISTENING] = "listening",
    [WG_PHASE_ANSWERING] = "answering",
};
static const char *const probe_labels[WG_PROBE_RESULTS] = {
    [WG_PROBE_OK] = "ok",         [WG_PROBE_REFUSED] = "refused", [WG_PROBE_TIMEOUT] = "timeout",
    [WG_PROBE_STATUS] = "status", [WG_PROBE_INVALID] = "invalid", [WG_PROBE_MISMATCH] = "mismatch",
};
static const char *const wake_labels[WG_WAKE_RESULTS] = {
    [WG_WAKE_OK] = "ok",
    [WG_WAKE_FAILED] = "failed",
    [WG_WAKE_TIMEOUT] = "timeout",
};

static const char *const api_status_labels[WG_API_STATUSES] = {
    [WG_API_2XX] = "2xx", [WG_API_3XX] = "3xx", [WG_API_401] = "401",     [WG_API_403] = "403",
    [WG_API_404] = "404", [WG_API_409] = "409", [WG_API_410] = "410",     [WG_API_429] = "429",
    [WG_API_4XX] = "4xx", [WG_API_5XX] = "5xx", [WG_API_ERROR] = "error",
};

const char *wg_phase_label(enum wg_phase phase)
{
    WG_ASSERT((unsigned)phase < WG_PHASES);
    return phase_labels[phase];
}

const char *wg_probe_result_label(enum wg_probe_result result)
{
    WG_ASSERT((unsigned)result < WG_PROBE_RESULTS);
    return probe_labels[result];
}

static const char *phase_value(int i)
{
    return phase_labels[i];
}

static const char *probe_value(int i)
{
    return probe_labels[i];
}

static const char *wake_value(int i)
{
    return wake_labels[i];
}

static const char *api_status_value(int i)
{
    return api_status_labels[i];
}

enum kind {
    KIND_COUNTER,
    KIND_OUTCOMES, /* counters, of which those never counted are left out, but for `shown` */
    KIND_GAUGE,
    KIND_HISTOGRAM, /* left out while empty */
    KIND_STATE,     /* one gauge of 0 or 1 for each state */
};
static const char *const kind_type[] = {"counter", "counter", "gauge", "histogram", "gauge"};

struct metric {
    const char *name;
    enum scope scope;
    enum kind kind;
    size_t offset;               /* in the scope's struct */
    const char *label;           /* the label besides the scope's own; NULL: none */
    const char *(*value)(int i); /* its values, one for each of the n members of the array */
    int n;
    int shown;                       /* OUTCOMES: the member that is printed in any case */
    const char *fixed_label, *fixed; /* one more label and its only value; NULL: none */
    const char *help;
};

#define MODEL(kind_, field_)      SCOPE_MODEL, kind_, offsetof(struct wg_model_metrics, field_)
#define TENANT(kind_, field_)     SCOPE_TENANT, kind_, offsetof(struct wg_tenant_metrics, field_)
#define PROCESS(kind_, field_)    SCOPE_PROCESS, kind_, offsetof(struct wg_process_metrics, field_)
#define PLAIN                     NULL, NULL, 1, 0, NULL, NULL
#define EACH(label_, fn_, count_) label_, fn_, count_, 0, NULL, NULL
#define EACH_OUTCOME              "outcome", wg_outcome_label, WG_OUTCOME_COUNT, WG_OUTCOME_OK, NULL, NULL
#define FIXED(label_, value_)     NULL, NULL, 1, 0, label_, value_
#define API(verb_)                                                                                           \
    "wakegate_kubernetes_requests_total", PROCESS(KIND_OUTCOMES, api_requests[verb_]), "status",             \
        api_status_value, WG_API_STATUSES, WG_API_2XX

/* Rows of one name stand together. */
static const struct metric metrics[] = {
    {"wakegate_requests_total", MODEL(KIND_OUTCOMES, requests), EACH_OUTCOME,
     "Requests by model and by how they ended."},
    {"wakegate_tenant_requests_total", TENANT(KIND_OUTCOMES, requests), EACH_OUTCOME,
     "Requests by tenant and by how they ended."},
    {"wakegate_request_duration_seconds", MODEL(KIND_HISTOGRAM, duration), PLAIN,
     "From the head of a request to the end of its answer."},
    {"wakegate_time_to_first_byte_seconds", MODEL(KIND_HISTOGRAM, first_byte), PLAIN,
     "From the head of a request to the first byte of the model server's answer."},
    {"wakegate_hold_duration_seconds", MODEL(KIND_HISTOGRAM, hold), PLAIN,
     "How long requests were held that had to wait for a cold or busy model."},
    {"wakegate_held_requests", MODEL(KIND_GAUGE, held), PLAIN, "Requests that wait now."},
    {"wakegate_held_bytes", MODEL(KIND_GAUGE, held_bytes), PLAIN, "Bytes of request bodies that wait now."},
    {"wakegate_inflight_requests", MODEL(KIND_GAUGE, inflight), PLAIN, "Requests at the model server now."},
    {"wakegate_model_state", MODEL(KIND_STATE, state), EACH("state", NULL, 0),
     "The state of a model: one of the series is 1."},
    {"wakegate_wakes_total", MODEL(KIND_COUNTER, wakes), EACH("result", wake_value, WG_WAKE_RESULTS),
     "Wakes by how they ended."},
    {"wakegate_cold_start_seconds", MODEL(KIND_HISTOGRAM, cold_start), EACH("phase", phase_value, WG_PHASES),
     "From the start of a wake to the end of each phase."},
    {"wakegate_probes_total", MODEL(KIND_COUNTER, probes), EACH("result", probe_value, WG_PROBE_RESULTS),
     "Probes by what they found."},
    {"wakegate_config_reloads_total", PROCESS(KIND_COUNTER, reloads_ok), FIXED("result", "ok"),
     "Reloads of the configuration."},
    {"wakegate_config_reloads_total", PROCESS(KIND_COUNTER, reloads_failed), FIXED("result", "failed"), NULL},
    {"wakegate_tls_reloads_total", PROCESS(KIND_COUNTER, tls_reloads_ok), FIXED("result", "ok"),
     "Changed certificates, keys and CAs taken over (ok) or refused (failed)."},
    {"wakegate_tls_reloads_total", PROCESS(KIND_COUNTER, tls_reloads_failed), FIXED("result", "failed"),
     NULL},
    {"wakegate_connections", PROCESS(KIND_GAUGE, connections), PLAIN, "Client connections open now."},
    {"wakegate_buffered_bytes", PROCESS(KIND_GAUGE, held_bytes), PLAIN,
     "Bytes of requests in memory now, waiting or being sent."},
    {"wakegate_connections_refused_total", PROCESS(KIND_COUNTER, connections_refused), PLAIN,
     "Client connections refused because limits.maxConnections was reached."},
    {"wakegate_connections_calmed_total", PROCESS(KIND_COUNTER, connections_calmed), PLAIN,
     "HTTP/2 connections ended because their client sent too much that is cheap for it."},
    {API(WG_API_GET), "verb", "get", "Calls to Kubernetes API servers by what came of them."},
    {API(WG_API_LIST), "verb", "list", NULL},
    {API(WG_API_WATCH), "verb", "watch", NULL},
    {API(WG_API_PATCH), "verb", "patch", NULL},
};

static struct series *find_or_make(enum scope scope, const char *name)
{
    if (name == NULL || name[0] == '\0')
        name = "other";
    pthread_mutex_lock(&registry.lock);
    if (registry.by_name[scope] == NULL)
        registry.by_name[scope] = wg_map_new();
    struct wg_map *map = registry.by_name[scope];
    if (wg_map_count(map) >= MAX_SERIES && wg_map_get(map, wg_slice_str(name)) == NULL)
        name = "other";
    struct series *series = wg_map_get(map, wg_slice_str(name));
    if (series == NULL) {
        size_t len = strlen(name);
        series = wg_xcalloc(1, sizeof(*series) + len + 1);
        memcpy(series->name, name, len);
        if (scope == SCOPE_MODEL) {
            series->of.model.model = series->name;
            atomic_init(&series->of.model.state, -1);
        } else {
            series->of.tenant.tenant = series->name;
        }
        WG_ASSERT(wg_map_insert(map, wg_slice_str(name), series) == 0);
        struct series *last = registry.last[scope];
        atomic_store_explicit(last != NULL ? &last->next : &registry.first[scope], series,
                              memory_order_release);
        registry.last[scope] = series;
    }
    pthread_mutex_unlock(&registry.lock);
    return series;
}

struct wg_model_metrics *wg_metrics_model(const char *name)
{
    return &find_or_make(SCOPE_MODEL, name)->of.model;
}

struct wg_tenant_metrics *wg_metrics_tenant(const char *name)
{
    return &find_or_make(SCOPE_TENANT, name)->of.tenant;
}

struct wg_process_metrics *wg_metrics_process(void)
{
    return &process_metrics;
}

void wg_histogram_add(struct wg_histogram *histogram, wg_usec value)
{
    int bucket = 0;

    value = WG_MAX(value, (wg_usec)0);
    while (value > bounds[bucket].usec)
        bucket++;
    wg_count(&histogram->bucket[bucket]);
    atomic_fetch_add_explicit(&histogram->sum_usec, (uint64_t)value, memory_order_relaxed);
}

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* {model="m",outcome="ok",le="5"}; a NULL name leaves its label out. */
static void add_labels(struct wg_buf *out, const char *const (*labels)[2], size_t n)
{
    char open = '{';

    for (size_t i = 0; i < n; i++) {
        if (labels[i][0] == NULL)
            continue;
        wg_buf_add_char(out, open);
        wg_buf_addf(out, "%s=\"", labels[i][0]);
        for (const char *c = labels[i][1]; *c != '\0'; c++) {
            if (*c == '\\' || *c == '"')
                wg_buf_add_char(out, '\\');
            if (*c == '\n')
                wg_buf_add_str(out, "\\n");
            else
                wg_buf_add_char(out, *c);
        }
        wg_buf_add_char(out, '"');
        open = ',';
    }
    if (open == ',')
        wg_buf_add_char(out, '}');
    wg_buf_add_char(out, ' ');
}

/* What a row is printed for: one series of its scope, at `base`. */
struct printing {
    struct wg_buf *out;
    const struct metric *metric;
    const char *name; /* value of the scope's label */
    const char *base;
    const char *const *state_names;
    size_t n_states;
};

static void print_head(const struct printing *p, const char *suffix, const char *value, const char *le)
{
    const char *const labels[][2] = {
        {scope_label[p->metric->scope], p->name},
        {p->metric->fixed_label, p->metric->fixed},
        {value != NULL ? p->metric->label : NULL, value},
        {le != NULL ? "le" : NULL, le},
    };

    wg_buf_add_str(p->out, p->metric->name);
    wg_buf_add_str(p->out, suffix);
    add_labels(p->out, labels, WG_COUNT_OF(labels));
}

static void print_u64(const struct printing *p, const char *value, uint64_t number)
{
    print_head(p, "", value, NULL);
    wg_buf_add_u64(p->out, number);
    wg_buf_add_char(p->out, '\n');
}

/* Members that share a label are one series: the first of them prints the sum. */
static void print_counters(const struct printing *p)
{
    const struct metric *m = p->metric;
    const _Atomic uint64_t *counters = (const void *)(p->base + m->offset);

    if (m->value == NULL) {
        print_u64(p, NULL, load(counters));
        return;
    }
    for (int i = 0; i < m->n; i++) {
        uint64_t sum = 0;
        int first = m->n;
        for (int j = m->n - 1; j >= 0; j--)
            if (strcmp(m->value(j), m->value(i)) == 0) {
                sum += load(&counters[j]);
                first = j;
            }
        if (first == i && (sum > 0 || m->kind != KIND_OUTCOMES || i == m->shown))
            print_u64(p, m->value(i), sum);
    }
}

static void print_gauge(const struct printing *p)
{
    const _Atomic int64_t *gauge = (const void *)(p->base + p->metric->offset);

    print_head(p, "", NULL, NULL);
    wg_buf_addf(p->out, "%" PRId64 "\n", atomic_load_explicit(gauge, memory_order_relaxed));
}

static void print_histogram(const struct printing *p, const char *value, const struct wg_histogram *histogram)
{
    uint64_t counts[WG_HISTOGRAM_BUCKETS], count = 0;

    for (int i = 0; i < WG_HISTOGRAM_BUCKETS; i++)
        counts[i] = count += load(&histogram->bucket[i]);
    if (count == 0)
        return;
    for (int i = 0; i < WG_HISTOGRAM_BUCKETS; i++) {
        print_head(p, "_bucket", value, bounds[i].text);
        wg_buf_addf(p->out, "%" PRIu64 "\n", counts[i]);
    }
    uint64_t sum = load(&histogram->sum_usec);
    print_head(p, "_sum", value, NULL);
    wg_buf_addf(p->out, "%" PRIu64 ".%06u\n", sum / 1000000, (unsigned)(sum % 1000000));
    print_head(p, "_count", value, NULL);
    wg_buf_addf(p->out, "%" PRIu64 "\n", count);
}

static void print_histograms(const struct printing *p)
{
    const struct metric *m = p->metric;
    const struct wg_histogram *histograms = (const void *)(p->base + m->offset);

    for (int i = 0; i < m->n; i++)
        print_histogram(p, m->value != NULL ? m->value(i) : NULL, &histograms[i]);
}

static void print_states(const struct printing *p)
{
    const _Atomic int *state = (const void *)(p->base + p->metric->offset);
    int now = atomic_load_explicit(state, memory_order_relaxed);

    for (size_t i = 0; now >= 0 && i < p->n_states; i++)
        print_u64(p, p->state_names[i], i == (size_t)now);
}

static void print_row(const struct printing *p)
{
    static void (*const print[])(const struct printing *) = {
        [KIND_COUNTER] = print_counters,     [KIND_OUTCOMES] = print_counters, [KIND_GAUGE] = print_gauge,
        [KIND_HISTOGRAM] = print_histograms, [KIND_STATE] = print_states,
    };

    print[p->metric->kind](p);
}

void wg_metrics_render(struct wg_buf *out, const char *const *state_names, size_t n_states)
{
    struct printing p = {.out = out, .state_names = state_names, .n_states = n_states};

    for (size_t i = 0; i < WG_COUNT_OF(metrics); i++) {
        p.metric = &metrics[i];
        if (p.metric->help != NULL)
            wg_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", p.metric->name, p.metric->help, p.metric->name,
                        kind_type[p.metric->kind]);
        if (p.metric->scope == SCOPE_PROCESS) {
            p.base = (const char *)&process_metrics;
            print_row(&p);
            continue;
        }
        struct series *series = atomic_load_explicit(&registry.first[p.metric->scope], memory_order_acquire);
        for (; series != NULL; series = atomic_load_explicit(&series->next, memory_order_acquire)) {
            p.name = series->name;
            p.base = (const char *)&series->of;
            print_row(&p);
        }
    }
}
