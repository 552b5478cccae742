/* The string map and its hash. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "wakegate/base/map.h"

static void finds_what_was_put_in(void **state)
{
    static int values[5000];
    struct wg_map *map = wg_map_new();
    char key[32];

    (void)state;
    assert_null(wg_map_get(map, WG_SLICE("nothing")));
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof(key), "model/%d", i);
        assert_int_equal(wg_map_insert(map, wg_slice_str(key), &values[i]), 0);
    }
    assert_int_equal(wg_map_count(map), 5000);
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof(key), "model/%d", i);
        assert_ptr_equal(wg_map_get(map, wg_slice_str(key)), &values[i]);
    }
    assert_null(wg_map_get(map, WG_SLICE("model/5000")));
    assert_int_equal(wg_map_insert(map, WG_SLICE("model/7"), &values[0]), -EEXIST);
    assert_ptr_equal(wg_map_get(map, WG_SLICE("model/7")), &values[7]);
    assert_null(wg_map_free(map));
    assert_null(wg_map_free(NULL));
}

static void keys_are_any_bytes(void **state)
{
    struct wg_map *map = wg_map_new();
    int a, b, c;

    (void)state;
    assert_int_equal(wg_map_insert(map, wg_slice("\0\1", 2), &a), 0);
    assert_int_equal(wg_map_insert(map, wg_slice("\0", 1), &b), 0);
    assert_int_equal(wg_map_insert(map, wg_slice("", 0), &c), 0);
    assert_ptr_equal(wg_map_get(map, wg_slice("\0\1", 2)), &a);
    assert_ptr_equal(wg_map_get(map, wg_slice("\0", 1)), &b);
    assert_ptr_equal(wg_map_get(map, (struct wg_slice){0}), &c);
    wg_map_free(map);
}

static void the_hash_sees_every_byte(void **state)
{
    unsigned char data[40] = {0};

    (void)state;
    for (size_t len = 1; len <= sizeof(data); len++) {
        uint64_t hash = wg_hash(data, len);
        assert_true(wg_hash(data, len) == hash);
        assert_true(wg_hash(data, len - 1) != hash);
        for (size_t i = 0; i < len; i++) {
            data[i] ^= 0x10;
            assert_true(wg_hash(data, len) != hash);
            data[i] ^= 0x10;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_put_in),
        cmocka_unit_test(keys_are_any_bytes),
        cmocka_unit_test(the_hash_sees_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
