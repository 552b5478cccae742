/* Endpoints: the counted object that all threads share, the choice between several, and control's records of
 * them. What the states of a record mean for its model is model.c's. */
#include "endpoints.h"

#include <stdio.h>
#include <stdlib.h>

#include "slot.h"

struct wg_endpoint *wg_endpoint_ref(struct wg_endpoint *endpoint)
{
    atomic_fetch_add_explicit(&endpoint->refs, 1, memory_order_relaxed);
    return endpoint;
}

struct wg_endpoint *wg_endpoint_unref(struct wg_endpoint *endpoint)
{
    if (endpoint && atomic_fetch_sub_explicit(&endpoint->refs, 1, memory_order_acq_rel) == 1)
        free(endpoint);
    return NULL;
}

static struct wg_endpoint *endpoint_new(uint64_t id, const struct wg_address *address, unsigned per_endpoint)
{
    struct wg_endpoint *endpoint = WG_NEW(struct wg_endpoint);
    atomic_init(&endpoint->refs, 1);
    endpoint->id = id;
    endpoint->address = address->sa;
    endpoint->address_len = address->len;
    (void)snprintf(endpoint->authority, sizeof(endpoint->authority), "%s", address->text);
    atomic_init(&endpoint->slots_max, per_endpoint);
    wg_slots_init(&endpoint->slots, 0);
    wg_slots_seal(&endpoint->slots);
    return endpoint;
}

/* ---- the choice ---- */

/* About to be set aside: the word of it is on its way to control. */
static bool is_failing(const struct wg_endpoint *endpoint)
{
    return atomic_load_explicit(&endpoint->failures, memory_order_relaxed) >= WG_ENDPOINT_FAILURES;
}

/* Fewest outstanding tokens, then fewest slots in use; one without a free slot never. */
static struct wg_endpoint *better(struct wg_endpoint *best, struct wg_endpoint *other)
{
    if (wg_slots_free(&other->slots) == 0)
        return best;
    if (!best)
        return other;
    if (is_failing(best) != is_failing(other))
        return is_failing(best) ? other : best;
    const int64_t mine = atomic_load_explicit(&best->tokens, memory_order_relaxed);
    const int64_t its = atomic_load_explicit(&other->tokens, memory_order_relaxed);
    if (mine != its)
        return its < mine ? other : best;
    return wg_slots_in_use(&other->slots) < wg_slots_in_use(&best->slots) ? other : best;
}

struct wg_endpoint *wg_view_take(const struct wg_view *view)
{
    /* Each further round means that another thread was faster: bounded, then it is as good as full. */
    for (size_t round = 0; round <= view->n_endpoints; round++) {
        struct wg_endpoint *best = NULL;
        for (size_t i = 0; i < view->n_endpoints; i++)
            best = better(best, view->endpoints[i]);
        if (!best)
            return NULL;
        const enum wg_slot_taken taken = wg_slots_take(&best->slots);
        if (taken == WG_SLOT_TAKEN)
            return best;
        if (taken == WG_SLOT_WAITERS)
            return NULL;
    }
    return NULL;
}

struct wg_endpoint *wg_records_take(struct wg_records *records)
{
    for (;;) {
        struct wg_endpoint *best = NULL;
        wg_list_foreach (node, &records->list)
            best = better(best, WG_LIST_ENTRY(node, struct wg_record, link)->endpoint);
        /* Marked words give nothing to newcomers: what looked free stays free for us. */
        if (!best || wg_slots_take_for_waiter(&best->slots) == WG_SLOT_TAKEN)
            return best;
    }
}

/* ---- records ---- */

const char *wg_record_state_label(enum wg_record_state state)
{
    static const char *const labels[WG_RECORD_STATES] = {
        [WG_RECORD_PROVING] = "proving",
        [WG_RECORD_SERVING] = "serving",
        [WG_RECORD_SUSPECT] = "suspect",
        [WG_RECORD_LEAVING] = "leaving",
    };
    WG_ASSERT(state < WG_RECORD_STATES);
    return labels[state];
}

void wg_records_init(struct wg_records *records)
{
    *records = (struct wg_records){0};
    wg_list_init(&records->list);
}

static void record_free(struct wg_records *records, struct wg_record *record)
{
    wg_list_remove(&record->link);
    records->count[record->state]--;
    wg_endpoint_unref(record->endpoint);
    free(record);
}

void wg_records_clear(struct wg_records *records)
{
    wg_list_foreach_safe (node, &records->list)
        record_free(records, WG_LIST_ENTRY(node, struct wg_record, link));
}

size_t wg_records_count(const struct wg_records *records)
{
    size_t sum = 0;
    for (size_t i = 0; i < WG_RECORD_STATES; i++)
        sum += records->count[i];
    return sum;
}

struct wg_record *wg_records_add(struct wg_records *records, uint64_t instance, uint64_t endpoint_id,
                                 const struct wg_address *address, unsigned per_endpoint)
{
    struct wg_record *record = WG_NEW(struct wg_record);
    record->instance = instance;
    record->endpoint = endpoint_new(endpoint_id, address, per_endpoint);
    record->state = WG_RECORD_PROVING;
    records->count[WG_RECORD_PROVING]++;
    wg_list_init(&record->link);
    wg_list_append(&records->list, &record->link);
    return record;
}

struct wg_record *wg_records_find(struct wg_records *records, uint64_t instance)
{
    wg_list_foreach (node, &records->list) {
        struct wg_record *record = WG_LIST_ENTRY(node, struct wg_record, link);
        if (record->instance == instance && record->state != WG_RECORD_LEAVING)
            return record;
    }
    return NULL;
}

struct wg_record *wg_records_find_endpoint(struct wg_records *records, const struct wg_endpoint *endpoint)
{
    wg_list_foreach (node, &records->list) {
        struct wg_record *record = WG_LIST_ENTRY(node, struct wg_record, link);
        if (record->endpoint == endpoint)
            return record;
    }
    return NULL;
}

void wg_record_set_state(struct wg_records *records, struct wg_record *record, enum wg_record_state state,
                         unsigned ramp_start)
{
    static const unsigned may_follow[WG_RECORD_STATES] = {
        [WG_RECORD_PROVING] = 1U << WG_RECORD_SERVING | 1U << WG_RECORD_LEAVING,
        [WG_RECORD_SERVING] = 1U << WG_RECORD_SUSPECT | 1U << WG_RECORD_LEAVING,
        [WG_RECORD_SUSPECT] = 1U << WG_RECORD_SERVING | 1U << WG_RECORD_LEAVING,
    };
    WG_ASSERT(may_follow[record->state] & 1U << state);
    struct wg_endpoint *endpoint = record->endpoint;
    records->count[record->state]--;
    records->count[state]++;
    record->state = state;
    if (state == WG_RECORD_SERVING) {
        atomic_store(&endpoint->failures, 0);
        wg_slots_set_limit(&endpoint->slots, WG_MIN(ramp_start, atomic_load(&endpoint->slots_max)));
        wg_slots_unseal(&endpoint->slots);
        return;
    }
    wg_slots_seal(&endpoint->slots);
    wg_slots_mark_waiters(&endpoint->slots, state == WG_RECORD_LEAVING);
}

void wg_records_dismiss(struct wg_records *records)
{
    wg_list_foreach (node, &records->list) {
        struct wg_record *record = WG_LIST_ENTRY(node, struct wg_record, link);
        if (record->state != WG_RECORD_LEAVING)
            wg_record_set_state(records, record, WG_RECORD_LEAVING, 0);
    }
    wg_records_sweep(records);
}

void wg_records_sweep(struct wg_records *records)
{
    wg_list_foreach_safe (node, &records->list) {
        struct wg_record *record = WG_LIST_ENTRY(node, struct wg_record, link);
        if (record->state == WG_RECORD_LEAVING && wg_slots_in_use(&record->endpoint->slots) == 0)
            record_free(records, record);
    }
}

/* ---- all of them at once ---- */

bool wg_records_seal_if_idle(struct wg_records *records)
{
    wg_list_foreach (node, &records->list) {
        struct wg_record *record = WG_LIST_ENTRY(node, struct wg_record, link);
        /* One that is leaving or suspect is sealed, but what runs on it is work in flight all the same. */
        if (!wg_slots_seal_if_idle(&record->endpoint->slots)) {
            wg_records_unseal(records);
            return false;
        }
    }
    return true;
}

void wg_records_unseal(struct wg_records *records)
{
    wg_list_foreach (node, &records->list) {
        struct wg_record *record = WG_LIST_ENTRY(node, struct wg_record, link);
        if (record->state == WG_RECORD_SERVING)
            wg_slots_unseal(&record->endpoint->slots);
    }
}

void wg_records_forget_steady(struct wg_records *records)
{
    wg_list_foreach (node, &records->list)
        WG_LIST_ENTRY(node, struct wg_record, link)->steady = false;
}

void wg_records_mark_waiters(struct wg_records *records, bool waiting)
{
    wg_list_foreach (node, &records->list) {
        struct wg_record *record = WG_LIST_ENTRY(node, struct wg_record, link);
        if (record->state == WG_RECORD_SERVING)
            wg_slots_mark_waiters(&record->endpoint->slots, waiting);
    }
}

uint64_t wg_records_in_use(const struct wg_records *records)
{
    uint64_t sum = 0;
    wg_list_foreach (node, &records->list)
        sum += wg_slots_in_use(&WG_LIST_ENTRY(node, struct wg_record, link)->endpoint->slots);
    return sum;
}

wg_usec wg_records_last_used(const struct wg_records *records)
{
    wg_usec last = 0;
    wg_list_foreach (node, &records->list) {
        const struct wg_record *record = WG_LIST_ENTRY(node, struct wg_record, link);
        last = WG_MAX(last, atomic_load_explicit(&record->endpoint->last_used, memory_order_acquire));
    }
    return last;
}

void wg_records_set_max(struct wg_records *records, unsigned per_endpoint)
{
    wg_list_foreach (node, &records->list) {
        struct wg_endpoint *endpoint = WG_LIST_ENTRY(node, struct wg_record, link)->endpoint;
        atomic_store(&endpoint->slots_max, per_endpoint);
        if (wg_slots_limit(&endpoint->slots) > per_endpoint)
            wg_slots_set_limit(&endpoint->slots, per_endpoint);
    }
}
