/* Notes what a target tells, and the little configuration that it needs. */
#pragma once

#include "loop_until.h"
#include "wakegate/target.h"

struct watch {
    int found, lost, trouble, failed, asleep;
    int found_at_loss; /* how many had been found when the newest was lost */
    int phases[WG_PHASES];
    uint64_t instance; /* the newest found */
    struct sockaddr_storage sa;
    socklen_t sa_len;
    char address[64], why[1024]; /* of the newest found; of the newest lost, trouble or failed */
    char detail[512];
    struct wg_target *free_in_found; /* freed from inside the handler */
};

static inline void watch_found(void *arg, uint64_t instance, const struct wg_address *address)
{
    struct watch *watch = arg;
    assert_true(instance > watch->instance); /* never used twice */
    watch->found++;
    watch->instance = instance;
    watch->sa = address->sa;
    watch->sa_len = address->len;
    snprintf(watch->address, sizeof(watch->address), "%s", address->text);
    if (watch->free_in_found)
        watch->free_in_found = wg_target_free(watch->free_in_found);
}

static inline void watch_lost(void *arg, uint64_t instance WG_UNUSED, const char *why)
{
    struct watch *watch = arg;
    watch->lost++;
    watch->found_at_loss = watch->found;
    assert_true(watch->lost <= watch->found);
    snprintf(watch->why, sizeof(watch->why), "%s", why);
}

static inline void watch_phase(void *arg, enum wg_phase phase, wg_usec at)
{
    struct watch *watch = arg;
    assert_true(at <= wg_clock_monotonic());
    watch->phases[phase]++;
}

static inline void watch_trouble(void *arg, const char *why)
{
    struct watch *watch = arg;
    watch->trouble++;
    snprintf(watch->why, sizeof(watch->why), "%s", why);
}

static inline void watch_failed(void *arg, const char *why)
{
    struct watch *watch = arg;
    watch->failed++;
    snprintf(watch->why, sizeof(watch->why), "%s", why);
}

static inline void watch_detail(void *arg, const char *why)
{
    struct watch *watch = arg;
    assert_true(watch->lost + watch->failed > 0);
    snprintf(watch->detail, sizeof(watch->detail), "%s", why);
}

static inline void watch_asleep(void *arg)
{
    struct watch *watch = arg;
    assert_int_equal(watch->lost, watch->found);
    watch->asleep++;
}

static const struct wg_target_handler watch_handler = {
    .found = watch_found,
    .lost = watch_lost,
    .phase = watch_phase,
    .trouble = watch_trouble,
    .failed = watch_failed,
    .detail = watch_detail,
    .asleep = watch_asleep,
};

static inline bool watch_is_found(void *arg)
{
    return ((const struct watch *)arg)->found > ((const struct watch *)arg)->lost;
}

static inline bool watch_has_lost(void *arg)
{
    return ((const struct watch *)arg)->lost > 0;
}

static inline bool watch_has_trouble(void *arg)
{
    return ((const struct watch *)arg)->trouble > 0;
}

static inline bool watch_has_failed(void *arg)
{
    return ((const struct watch *)arg)->failed > 0;
}

static inline bool watch_is_asleep(void *arg)
{
    return ((const struct watch *)arg)->asleep > 0;
}
