/* The slot word: its rules one by one, and the protocol of newcomers, waiters and the seal between real
 * threads. */
#include <pthread.h>
#include <sched.h>

#include "unit.h"
#include "wakegate/activator.h"

static void takes_up_to_the_limit(void **state)
{
    (void)state;
    struct wg_slots slots;
    wg_slots_init(&slots, 2);
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_TAKEN);
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_TAKEN);
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_FULL);
    assert_int_equal(wg_slots_take_for_waiter(&slots), WG_SLOT_FULL);
    assert_int_equal(wg_slots_in_use(&slots), 2);
    assert_false(wg_slots_release(&slots, false, 8));
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_TAKEN);
}

static void newcomers_do_not_overtake(void **state)
{
    (void)state;
    struct wg_slots slots;
    wg_slots_init(&slots, 2);
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_TAKEN);
    wg_slots_mark_waiters(&slots, true);
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_WAITERS);
    assert_int_equal(wg_slots_take_for_waiter(&slots), WG_SLOT_TAKEN);
    assert_true(wg_slots_release(&slots, false, 8));
    wg_slots_mark_waiters(&slots, false);
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_TAKEN);
    assert_false(wg_slots_release(&slots, false, 8));
}

static void a_success_grows_the_limit(void **state)
{
    (void)state;
    struct wg_slots slots;
    wg_slots_init(&slots, 1);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(wg_slots_take(&slots), WG_SLOT_TAKEN);
        assert_false(wg_slots_release(&slots, true, 3));
    }
    assert_int_equal(wg_slots_limit(&slots), 3);
    wg_slots_set_limit(&slots, 1);
    assert_int_equal(wg_slots_limit(&slots), 1);
    assert_int_equal(wg_slots_in_use(&slots), 0);
}

static void a_lowered_limit_waits_for_those_in_use(void **state)
{
    (void)state;
    struct wg_slots slots;
    wg_slots_init(&slots, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(wg_slots_take(&slots), WG_SLOT_TAKEN);
    wg_slots_set_limit(&slots, 1);
    assert_false(wg_slots_release(&slots, false, 3));
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_FULL);
    assert_false(wg_slots_release(&slots, false, 3));
    assert_false(wg_slots_release(&slots, false, 3));
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_TAKEN);
}

static void the_seal_closes(void **state)
{
    (void)state;
    struct wg_slots slots;
    wg_slots_init(&slots, 2);
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_TAKEN);
    assert_false(wg_slots_seal_if_idle(&slots));
    assert_false(wg_slots_sealed(&slots));
    wg_slots_seal(&slots);
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_SEALED);
    assert_int_equal(wg_slots_take_for_waiter(&slots), WG_SLOT_SEALED);
    assert_false(wg_slots_release(&slots, false, 2));
    assert_int_equal(wg_slots_in_use(&slots), 0);
    wg_slots_unseal(&slots);
    assert_true(wg_slots_seal_if_idle(&slots));
    assert_int_equal(wg_slots_take(&slots), WG_SLOT_SEALED);
    assert_int_equal(wg_slots_limit(&slots), 2);
}

/* ---- threads: workers that take or wait, a control that hands over and seals, as in hold.c and model.c ----
 */

enum { WORKERS = 3, ROUNDS = 20000, SLOTS = 2 };

struct stress {
    struct wg_slots slots;
    _Atomic int holders;  /* who holds a slot, counted beside the word */
    _Atomic bool closed;  /* between a successful seal and the unseal */
    pthread_mutex_t lock; /* the mailbox of control */
    pthread_cond_t mail;
    unsigned waiting, freed, finished;
    unsigned granted; /* hand-overs not picked up yet */
    pthread_cond_t grants;
    unsigned waits, seals;
};

static void hold_slot(struct stress *stress)
{
    assert_false(stress->closed);
    assert_true(atomic_fetch_add(&stress->holders, 1) < SLOTS);
    sched_yield();
    assert_false(stress->closed);
    atomic_fetch_sub(&stress->holders, 1);
}

static void wait_for_slot(struct stress *stress)
{
    pthread_mutex_lock(&stress->lock);
    stress->waiting++;
    pthread_cond_signal(&stress->mail);
    while (stress->granted == 0)
        pthread_cond_wait(&stress->grants, &stress->lock);
    stress->granted--;
    pthread_mutex_unlock(&stress->lock);
}

static void *stress_worker(void *arg)
{
    struct stress *stress = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (wg_slots_take(&stress->slots) != WG_SLOT_TAKEN)
            wait_for_slot(stress);
        hold_slot(stress);
        if (!wg_slots_release(&stress->slots, false, SLOTS))
            continue;
        pthread_mutex_lock(&stress->lock);
        stress->freed++;
        pthread_cond_signal(&stress->mail);
        pthread_mutex_unlock(&stress->lock);
    }
    pthread_mutex_lock(&stress->lock);
    stress->finished++;
    pthread_cond_signal(&stress->mail);
    pthread_mutex_unlock(&stress->lock);
    return NULL;
}

static void stress_seal(struct stress *stress)
{
    if (!wg_slots_seal_if_idle(&stress->slots))
        return;
    stress->seals++;
    atomic_store(&stress->closed, true);
    assert_int_equal(wg_slots_in_use(&stress->slots), 0);
    atomic_store(&stress->closed, false);
    wg_slots_unseal(&stress->slots);
}

static void stress_grant(struct stress *stress)
{
    pthread_mutex_lock(&stress->lock);
    stress->granted++;
    pthread_cond_signal(&stress->grants);
    pthread_mutex_unlock(&stress->lock);
}

/* Sleeps only on its mailbox: a lost wake-up ends in the test's time limit. */
static void stress_control(struct stress *stress)
{
    unsigned queue = 0, finished = 0;
    while (finished < WORKERS) {
        pthread_mutex_lock(&stress->lock);
        while (stress->waiting == 0 && stress->freed == 0 && stress->finished == finished)
            pthread_cond_wait(&stress->mail, &stress->lock);
        queue += stress->waiting;
        stress->waits += stress->waiting;
        stress->waiting = stress->freed = 0;
        finished = stress->finished;
        pthread_mutex_unlock(&stress->lock);
        if (queue == 0) {
            stress_seal(stress);
            continue;
        }
        wg_slots_mark_waiters(&stress->slots, true);
        for (; queue > 0 && wg_slots_take_for_waiter(&stress->slots) == WG_SLOT_TAKEN; queue--)
            stress_grant(stress);
        if (queue == 0)
            wg_slots_mark_waiters(&stress->slots, false);
    }
    assert_int_equal(queue, 0);
}

static void threads_lose_no_slot_and_no_wakeup(void **state)
{
    (void)state;
    struct stress stress = {0};
    wg_slots_init(&stress.slots, SLOTS);
    pthread_mutex_init(&stress.lock, NULL);
    pthread_cond_init(&stress.mail, NULL);
    pthread_cond_init(&stress.grants, NULL);
    pthread_t threads[WORKERS];
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stress_worker, &stress), 0);
    stress_control(&stress);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wg_slots_in_use(&stress.slots), 0);
    assert_int_equal(wg_slots_limit(&stress.slots), SLOTS);
    assert_int_equal(stress.granted, 0);
    assert_true(stress.waits > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_up_to_the_limit),     cmocka_unit_test(newcomers_do_not_overtake),
        cmocka_unit_test(a_success_grows_the_limit), cmocka_unit_test(a_lowered_limit_waits_for_those_in_use),
        cmocka_unit_test(the_seal_closes),           cmocka_unit_test(threads_lose_no_slot_and_no_wakeup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
