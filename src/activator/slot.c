/* The slot word of an endpoint: {in use, limit, waiters, sealed} in one atomic, changed only by
 * compare-and-swap. All that must not miss one another (taking, releasing, "somebody waits", "closed") meets
 * in the one order of changes of this word, so no step needs to look at two places. tests/model/slots.pml
 * checks the protocol. */
#include "slot.h"

#define COUNT_BITS  24
#define COUNT_MAX   ((UINT64_C(1) << COUNT_BITS) - 1)
#define LIMIT_SHIFT COUNT_BITS
#define WAITERS     (UINT64_C(1) << 62)
#define SEALED      (UINT64_C(1) << 63)

static unsigned in_use(uint64_t word)
{
    return (unsigned)(word & COUNT_MAX);
}

static unsigned limit(uint64_t word)
{
    return (unsigned)(word >> LIMIT_SHIFT & COUNT_MAX);
}

static uint64_t with_limit(uint64_t word, unsigned new_limit)
{
    return (word & ~(COUNT_MAX << LIMIT_SHIFT)) | (uint64_t)WG_MIN(new_limit, COUNT_MAX) << LIMIT_SHIFT;
}

static uint64_t load(const struct wg_slots *slots)
{
    return atomic_load_explicit(&slots->word, memory_order_acquire);
}

static bool swap(struct wg_slots *slots, uint64_t *was, uint64_t is)
{
    return atomic_compare_exchange_weak_explicit(&slots->word, was, is, memory_order_acq_rel,
                                                 memory_order_acquire);
}

void wg_slots_init(struct wg_slots *slots, unsigned first_limit)
{
    atomic_init(&slots->word, with_limit(0, first_limit));
}

static enum wg_slot_taken take(struct wg_slots *slots, uint64_t minded)
{
    uint64_t word = load(slots);
    do {
        if (word & SEALED)
            return WG_SLOT_SEALED;
        if (word & minded)
            return WG_SLOT_WAITERS;
        if (in_use(word) >= limit(word))
            return WG_SLOT_FULL;
    } while (!swap(slots, &word, word + 1));
    return WG_SLOT_TAKEN;
}

enum wg_slot_taken wg_slots_take(struct wg_slots *slots)
{
    return take(slots, WAITERS);
}

enum wg_slot_taken wg_slots_take_for_waiter(struct wg_slots *slots)
{
    return take(slots, 0);
}

bool wg_slots_release(struct wg_slots *slots, bool grow, unsigned grow_max)
{
    uint64_t word = load(slots), less;
    do {
        WG_ASSERT(in_use(word) > 0);
        less = word - 1;
        if (grow && limit(word) < grow_max)
            less = with_limit(less, limit(word) + 1);
    } while (!swap(slots, &word, less));
    return word & WAITERS;
}

void wg_slots_mark_waiters(struct wg_slots *slots, bool waiting)
{
    if (waiting)
        atomic_fetch_or_explicit(&slots->word, WAITERS, memory_order_acq_rel);
    else
        atomic_fetch_and_explicit(&slots->word, ~WAITERS, memory_order_acq_rel);
}

void wg_slots_set_limit(struct wg_slots *slots, unsigned new_limit)
{
    uint64_t word = load(slots);
    while (!swap(slots, &word, with_limit(word, new_limit)))
        ;
}

bool wg_slots_seal_if_idle(struct wg_slots *slots)
{
    uint64_t word = load(slots);
    do {
        if (in_use(word) > 0)
            return false;
    } while (!swap(slots, &word, word | SEALED));
    return true;
}

void wg_slots_seal(struct wg_slots *slots)
{
    atomic_fetch_or_explicit(&slots->word, SEALED, memory_order_acq_rel);
}

void wg_slots_unseal(struct wg_slots *slots)
{
    atomic_fetch_and_explicit(&slots->word, ~SEALED, memory_order_acq_rel);
}

unsigned wg_slots_in_use(const struct wg_slots *slots)
{
    return in_use(load(slots));
}

unsigned wg_slots_limit(const struct wg_slots *slots)
{
    return limit(load(slots));
}

bool wg_slots_sealed(const struct wg_slots *slots)
{
    return load(slots) & SEALED;
}

unsigned wg_slots_free(const struct wg_slots *slots)
{
    const uint64_t word = load(slots);
    return word & SEALED || in_use(word) >= limit(word) ? 0 : limit(word) - in_use(word);
}
