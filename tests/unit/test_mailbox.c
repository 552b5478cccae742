/* Mailboxes: every message once, in each poster's order, from many threads at a time; what is left is
 * delivered at the end. */
#include "unit.h"

#include "wakegate/event.h"

#include <stdlib.h>

enum { POSTERS = 4, EACH = 5000 };

struct letter {
    struct wg_mail mail;
    unsigned poster, number;
};

struct reader {
    struct wg_loop *loop;
    unsigned next[POSTERS], total;
    bool in_order;
};

static void on_letter(struct wg_mail *mail, void *receiver)
{
    struct letter *letter = WG_CONTAINER_OF(mail, struct letter, mail);
    struct reader *reader = receiver;
    reader->in_order &= letter->number == reader->next[letter->poster];
    reader->next[letter->poster]++;
    if (++reader->total == POSTERS * EACH)
        wg_loop_stop(reader->loop);
    free(letter);
}

struct poster {
    struct wg_mailbox *mailbox;
    unsigned index;
};

static void post_one(struct wg_mailbox *mailbox, unsigned poster, unsigned number)
{
    struct letter *letter = WG_NEW(struct letter);
    wg_mail_init(&letter->mail, on_letter);
    letter->poster = poster;
    letter->number = number;
    wg_mailbox_post(mailbox, &letter->mail);
}

static void run_poster(void *arg)
{
    const struct poster *poster = arg;
    for (unsigned i = 0; i < EACH; i++)
        post_one(poster->mailbox, poster->index, i);
}

static void test_many_threads_post(void **state WG_UNUSED)
{
    struct reader reader = {.loop = wg_loop_new(), .in_order = true};
    struct wg_mailbox *mailbox = wg_mailbox_new(reader.loop, &reader);
    struct poster posters[POSTERS];
    struct wg_thread *threads[POSTERS];
    for (unsigned i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){mailbox, i};
        assert_int_equal(wg_thread_start("poster", run_poster, &posters[i], &threads[i]), 0);
    }
    wg_loop_run(reader.loop);
    for (unsigned i = 0; i < POSTERS; i++)
        wg_thread_join(threads[i]);
    assert_int_equal(reader.total, POSTERS * EACH);
    assert_true(reader.in_order);
    wg_mailbox_free(mailbox);
    wg_loop_free(reader.loop);
}

static void test_what_is_left_is_delivered_at_the_end(void **state WG_UNUSED)
{
    struct reader reader = {.loop = wg_loop_new(), .in_order = true};
    struct wg_mailbox *mailbox = wg_mailbox_new(reader.loop, &reader);
    for (unsigned i = 0; i < 10; i++)
        post_one(mailbox, 0, i);
    wg_mailbox_free(mailbox);
    assert_int_equal(reader.total, 10);
    wg_loop_free(reader.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_threads_post),
        cmocka_unit_test(test_what_is_left_is_delivered_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
