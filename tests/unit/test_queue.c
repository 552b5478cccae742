/* The order of the queue: priority, weighted turns, first come first served, the head for those who come
 * again. */
#include <stdio.h>
#include <stdlib.h>

#include "../../src/activator/queue.h"
#include "unit.h"

static struct wg_config_tenant tenants[] = {
    {.name = (char[]){"a"}, .weight = 1},
    {.name = (char[]){"b"}, .weight = 1},
    {.name = (char[]){"heavy"}, .weight = 3},
    {.name = (char[]){"first"}, .weight = 1, .priority = 5},
    {.name = (char[]){"last"}, .weight = 1, .priority = -5},
};
enum { A, B, HEAVY, FIRST, LAST };

static struct wg_ticket tickets[600];
static size_t used;

static int setup(void **state)
{
    (void)state;
    memset(tickets, 0, sizeof(tickets));
    used = 0;
    return 0;
}

static struct wg_ticket *add(struct wg_queue *queue, int tenant)
{
    struct wg_ticket *ticket = &tickets[used++];
    ticket->tenant = &tenants[tenant];
    ticket->bytes = 10;
    wg_queue_add(queue, ticket);
    return ticket;
}

/* The tenants' first letters in the order in which they are served. */
static void expect_order(struct wg_queue *queue, const char *order)
{
    for (size_t i = 0; order[i] != '\0'; i++) {
        const struct wg_ticket *ticket = wg_queue_pop(queue);
        assert_non_null(ticket);
        assert_int_equal(ticket->tenant->name[0], order[i]);
        assert_null(ticket->lane);
    }
    assert_null(wg_queue_pop(queue));
    assert_int_equal(queue->count, 0);
    assert_int_equal(queue->bytes, 0);
}

static void first_come_first_served(void **state)
{
    (void)state;
    struct wg_queue queue;
    wg_queue_init(&queue);
    for (int i = 0; i < 5; i++)
        add(&queue, A);
    assert_int_equal(queue.count, 5);
    assert_int_equal(queue.bytes, 50);
    for (int i = 0; i < 5; i++)
        assert_ptr_equal(wg_queue_pop(&queue), &tickets[i]);
    assert_null(wg_queue_pop(&queue));
}

static void tenants_take_turns(void **state)
{
    (void)state;
    struct wg_queue queue;
    wg_queue_init(&queue);
    for (int i = 0; i < 4; i++)
        add(&queue, A);
    for (int i = 0; i < 2; i++)
        add(&queue, B);
    expect_order(&queue, "ababaa");
}

static void turns_go_by_weight(void **state)
{
    (void)state;
    struct wg_queue queue;
    wg_queue_init(&queue);
    for (int i = 0; i < 3; i++)
        add(&queue, A);
    for (int i = 0; i < 7; i++)
        add(&queue, HEAVY);
    expect_order(&queue, "ahhhahhhah");
}

static void priority_goes_first(void **state)
{
    (void)state;
    struct wg_queue queue;
    wg_queue_init(&queue);
    add(&queue, LAST);
    add(&queue, A);
    add(&queue, FIRST);
    add(&queue, A);
    add(&queue, FIRST);
    add(&queue, LAST);
    expect_order(&queue, "ffaall");
}

static void a_lone_request_is_served_in_the_next_turn(void **state)
{
    (void)state;
    struct wg_queue queue;
    wg_queue_init(&queue);
    for (int i = 0; i < 499; i++)
        add(&queue, A);
    for (int i = 0; i < 100; i++)
        wg_queue_pop(&queue);
    const struct wg_ticket *lone = add(&queue, B);
    const struct wg_ticket *one = wg_queue_pop(&queue), *two = wg_queue_pop(&queue);
    assert_true(one == lone || two == lone);
    while (wg_queue_pop(&queue))
        ;
}

static void idle_tenants_save_up_nothing(void **state)
{
    (void)state;
    struct wg_queue queue;
    wg_queue_init(&queue);
    add(&queue, HEAVY);
    add(&queue, A);
    wg_queue_pop(&queue); /* of a turn of three one was used, then it was empty */
    for (int i = 0; i < 4; i++)
        add(&queue, HEAVY);
    add(&queue, A);
    expect_order(&queue, "ahhhah");
}

static void what_comes_again_goes_to_the_head(void **state)
{
    (void)state;
    struct wg_queue queue;
    wg_queue_init(&queue);
    add(&queue, A);
    add(&queue, B);
    add(&queue, A);
    struct wg_ticket *ticket = wg_queue_pop(&queue);
    ticket->again = true;
    wg_queue_add(&queue, ticket);
    assert_int_equal(wg_queue_pop(&queue)->tenant->name[0], 'b');
    assert_ptr_equal(wg_queue_pop(&queue), ticket);

    assert_ptr_equal(wg_queue_pop(&queue), &tickets[2]);

    /* A lane that is empty by now is made anew at the front. */
    add(&queue, B);
    wg_queue_add(&queue, ticket);
    assert_ptr_equal(wg_queue_pop(&queue), ticket);
    expect_order(&queue, "b");
}

static void any_ticket_may_be_removed(void **state)
{
    (void)state;
    struct wg_queue queue;
    wg_queue_init(&queue);
    for (int i = 0; i < 3; i++)
        add(&queue, A);
    add(&queue, FIRST);
    add(&queue, B);
    wg_queue_remove(&queue, &tickets[1]);
    wg_queue_remove(&queue, &tickets[3]); /* with its level */
    wg_queue_remove(&queue, &tickets[4]); /* with its lane */
    assert_int_equal(queue.count, 2);
    assert_int_equal(queue.bytes, 20);
    assert_ptr_equal(wg_queue_pop(&queue), &tickets[0]);
    assert_ptr_equal(wg_queue_pop(&queue), &tickets[2]);
    assert_null(wg_queue_pop(&queue));
}

static void count_visit(struct wg_ticket *ticket, void *arg)
{
    ticket->tokens++;
    (*(int *)arg)++;
}

static void each_visits_everybody_once(void **state)
{
    (void)state;
    struct wg_queue queue;
    wg_queue_init(&queue);
    const int who[] = {A, B, A, FIRST, LAST, HEAVY};
    for (size_t i = 0; i < WG_COUNT_OF(who); i++)
        add(&queue, who[i]);
    int visits = 0;
    wg_queue_each(&queue, count_visit, &visits);
    assert_int_equal(visits, WG_COUNT_OF(who));
    for (size_t i = 0; i < WG_COUNT_OF(who); i++)
        assert_int_equal(tickets[i].tokens, 1);
    while (wg_queue_pop(&queue))
        ;
}

/* Against the plain definition: within a tenant the order of arrival holds whatever comes and goes. */
static void random_traffic_keeps_the_order(void **state)
{
    (void)state;
    struct wg_queue queue;
    wg_queue_init(&queue);
    uint64_t seed = 7, served[WG_COUNT_OF(tenants)] = {0}, stamp = 0;
    for (int step = 0; step < 20000; step++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        struct wg_ticket *ticket = &tickets[(seed >> 33) % WG_COUNT_OF(tickets)];
        if (!ticket->lane && (seed >> 20 & 1)) {
            ticket->tenant = &tenants[(seed >> 40) % WG_COUNT_OF(tenants)];
            ticket->tokens = ++stamp;
            wg_queue_add(&queue, ticket);
        } else if (ticket->lane && (seed >> 21 & 1)) {
            wg_queue_remove(&queue, ticket);
        } else if ((ticket = wg_queue_pop(&queue))) {
            const size_t tenant = (size_t)(ticket->tenant - tenants);
            assert_true(ticket->tokens > served[tenant]);
            served[tenant] = ticket->tokens;
        }
    }
    while (wg_queue_pop(&queue))
        ;
    assert_true(wg_list_empty(&queue.levels));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(first_come_first_served, setup),
        cmocka_unit_test_setup(tenants_take_turns, setup),
        cmocka_unit_test_setup(turns_go_by_weight, setup),
        cmocka_unit_test_setup(priority_goes_first, setup),
        cmocka_unit_test_setup(a_lone_request_is_served_in_the_next_turn, setup),
        cmocka_unit_test_setup(idle_tenants_save_up_nothing, setup),
        cmocka_unit_test_setup(what_comes_again_goes_to_the_head, setup),
        cmocka_unit_test_setup(any_ticket_may_be_removed, setup),
        cmocka_unit_test_setup(each_visits_everybody_once, setup),
        cmocka_unit_test_setup(random_traffic_keeps_the_order, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
