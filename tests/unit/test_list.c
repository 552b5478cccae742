/* The intrusive list against an array that does the same. */
#include "unit.h"

#include <stdlib.h>

#include "wakegate/base/list.h"

struct item {
    int id;
    struct wg_list node;
};

static void assert_order(struct wg_list *list, const int *ids, size_t n)
{
    size_t i = 0;

    wg_list_foreach (node, list) {
        assert_true(i < n);
        assert_int_equal(WG_LIST_ENTRY(node, struct item, node)->id, ids[i++]);
    }
    assert_int_equal(i, n);
    assert_int_equal(wg_list_empty(list), n == 0);
}

static void keeps_order(void **state)
{
    struct item items[4];
    struct wg_list list, other;

    (void)state;
    wg_list_init(&list);
    wg_list_init(&other);
    for (int i = 0; i < 4; i++) {
        items[i].id = i;
        wg_list_init(&items[i].node);
        assert_false(wg_list_linked(&items[i].node));
    }
    assert_null(wg_list_first(&list));
    wg_list_append(&list, &items[0].node);
    wg_list_append(&list, &items[1].node);
    wg_list_prepend(&list, &items[2].node);
    wg_list_append(&other, &items[3].node);
    assert_order(&list, (const int[]){2, 0, 1}, 3);
    assert_ptr_equal(wg_list_first(&list), &items[2].node);
    wg_list_splice(&list, &other);
    wg_list_splice(&list, &other);
    assert_order(&list, (const int[]){2, 0, 1, 3}, 4);
    assert_order(&other, NULL, 0);
    wg_list_remove(&items[0].node);
    wg_list_remove(&items[0].node);
    assert_false(wg_list_linked(&items[0].node));
    assert_order(&list, (const int[]){2, 1, 3}, 3);
}

static void may_remove_while_walking(void **state)
{
    struct item items[10];
    struct wg_list list;

    (void)state;
    wg_list_init(&list);
    for (int i = 0; i < 10; i++) {
        items[i].id = i;
        wg_list_append(&list, &items[i].node);
    }
    wg_list_foreach_safe (node, &list) {
        if (WG_LIST_ENTRY(node, struct item, node)->id % 2 == 1)
            wg_list_remove(node);
    }
    assert_order(&list, (const int[]){0, 2, 4, 6, 8}, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order),
        cmocka_unit_test(may_remove_while_walking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
