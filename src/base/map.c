/* The string map: open addressing with linear probing, at most half full; and the keyed hash behind it. */
#include "wakegate/base/map.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#define MAP_MAGIC 0x3a7710c5u

struct entry {
    char *key; /* NULL: free */
    size_t len;
    uint64_t hash;
    void *value;
};

struct wg_map {
    uint32_t magic;
    size_t count, size; /* size: a power of two */
    struct entry *entries;
};

static pthread_once_t hash_once = PTHREAD_ONCE_INIT;
static uint64_t hash_key[2];

/* Early in boot the kernel may refuse; then the key is only as good as the address of the stack. */
static void draw_hash_key(void)
{
    if (getrandom(hash_key, sizeof(hash_key), 0) != (ssize_t)sizeof(hash_key))
        hash_key[0] ^= (uint64_t)(uintptr_t)&hash_once ^ (uint64_t)(uintptr_t)__builtin_frame_address(0);
}

static inline uint64_t rotl(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void sip_round(uint64_t v[static 4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] = rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] = rotl(v[2], 32);
}

uint64_t wg_hash(const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t tail = (uint64_t)len << 56;

    pthread_once(&hash_once, draw_hash_key);
    uint64_t v[4] = {
        hash_key[0] ^ 0x736f6d6570736575u,
        hash_key[1] ^ 0x646f72616e646f6du,
        hash_key[0] ^ 0x6c7967656e657261u,
        hash_key[1] ^ 0x7465646279746573u,
    };
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    for (size_t i = 0; i < len; i++)
        tail |= (uint64_t)p[i] << (8 * i);
    v[3] ^= tail;
    sip_round(v);
    v[0] ^= tail;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct wg_map *wg_map_new(void)
{
    struct wg_map *map = WG_NEW(struct wg_map);

    map->magic = MAP_MAGIC;
    map->size = 16;
    map->entries = wg_xcalloc(map->size, sizeof(*map->entries));
    return map;
}

struct wg_map *wg_map_free(struct wg_map *map)
{
    if (map == NULL)
        return NULL;
    WG_CHECK_OBJ(map, MAP_MAGIC);
    for (size_t i = 0; i < map->size; i++)
        free(map->entries[i].key);
    free(map->entries);
    map->magic = 0;
    free(map);
    return NULL;
}

/* The key's entry, or the free one where it belongs. */
static struct entry *find(const struct wg_map *map, struct wg_slice key, uint64_t hash)
{
    for (size_t i = hash & (map->size - 1);; i = (i + 1) & (map->size - 1)) {
        struct entry *entry = &map->entries[i];
        if (entry->key == NULL || (entry->hash == hash && wg_slice_eq(wg_slice(entry->key, entry->len), key)))
            return entry;
    }
}

static void grow(struct wg_map *map)
{
    struct wg_map larger = {.size = map->size * 2};

    larger.entries = wg_xcalloc(larger.size, sizeof(*larger.entries));
    for (size_t i = 0; i < map->size; i++) {
        struct entry *old = &map->entries[i];
        if (old->key != NULL)
            *find(&larger, wg_slice(old->key, old->len), old->hash) = *old;
    }
    free(map->entries);
    map->entries = larger.entries;
    map->size = larger.size;
}

int wg_map_insert(struct wg_map *map, struct wg_slice key, void *value)
{
    WG_CHECK_OBJ(map, MAP_MAGIC);
    WG_ASSERT(value != NULL);
    if ((map->count + 1) * 2 > map->size)
        grow(map);
    uint64_t hash = wg_hash(key.ptr, key.len);
    struct entry *entry = find(map, key, hash);
    if (entry->key != NULL)
        return -EEXIST;
    *entry = (struct entry){.key = wg_slice_dup(key), .len = key.len, .hash = hash, .value = value};
    map->count++;
    return 0;
}

void *wg_map_get(const struct wg_map *map, struct wg_slice key)
{
    WG_CHECK_OBJ(map, MAP_MAGIC);
    return find(map, key, wg_hash(key.ptr, key.len))->value;
}

size_t wg_map_count(const struct wg_map *map)
{
    return map->count;
}
