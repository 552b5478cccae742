/* String map for names that come from the configuration: filled once, then read by many. Keys are copied.
 * Lookups by strangers' input are safe (the hash is keyed per process); inserts are the operator's. */
#pragma once

#include "wakegate/base/slice.h"

struct wg_map;

struct wg_map *wg_map_new(void);
/* Frees the map and its copies of the keys; values are the caller's. NULL-safe, returns NULL. */
struct wg_map *wg_map_free(struct wg_map *map);
/* 0, or -EEXIST (the map keeps the old value). value must not be NULL. */
WG_MUST_CHECK int wg_map_insert(struct wg_map *map, struct wg_slice key, void *value);
/* NULL if absent. */
void *wg_map_get(const struct wg_map *map, struct wg_slice key);
size_t wg_map_count(const struct wg_map *map);

/* SipHash-1-3 under a key drawn once per process. */
uint64_t wg_hash(const void *data, size_t len);
