/* Messages between threads: a list under a short lock, and an eventfd that is written only when the list was
 * empty. */
#include "loop_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MAILBOX_MAGIC 0x3a11b0c5

struct wg_mailbox {
    uint32_t magic;
    struct wg_loop *loop;
    void *receiver;
    pthread_mutex_t lock; /* guards inbox */
    struct wg_list inbox;
    int fd;
    struct event *event;
};

static void deliver_all(struct wg_mailbox *mailbox)
{
    struct wg_list batch;
    wg_list_init(&batch);
    pthread_mutex_lock(&mailbox->lock);
    wg_list_splice(&batch, &mailbox->inbox);
    pthread_mutex_unlock(&mailbox->lock);

    struct wg_list *node;
    while ((node = wg_list_first(&batch))) {
        struct wg_mail *mail = WG_LIST_ENTRY(node, struct wg_mail, link);
        wg_list_remove(node);
        mail->deliver(mail, mailbox->receiver);
    }
}

static void on_mail(evutil_socket_t fd, short what WG_UNUSED, void *arg)
{
    struct wg_mailbox *mailbox = WG_CAST(wg_mailbox, arg, MAILBOX_MAGIC);
    uint64_t count;
    if (read(fd, &count, sizeof(count)) < 0)
        WG_ASSERT(errno == EAGAIN || errno == EINTR);
    deliver_all(mailbox);
}

struct wg_mailbox *wg_mailbox_new(struct wg_loop *loop, void *receiver)
{
    struct wg_mailbox *mailbox = WG_NEW(struct wg_mailbox);
    mailbox->magic = MAILBOX_MAGIC;
    mailbox->loop = loop;
    mailbox->receiver = receiver;
    wg_list_init(&mailbox->inbox);
    pthread_mutex_init(&mailbox->lock, NULL);
    mailbox->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (mailbox->fd >= 0)
        mailbox->event = event_new(loop->base, mailbox->fd, EV_READ | EV_PERSIST, on_mail, mailbox);
    if (!mailbox->event || event_add(mailbox->event, NULL) < 0)
        return wg_mailbox_free(mailbox);
    return mailbox;
}

struct wg_mailbox *wg_mailbox_free(struct wg_mailbox *mailbox)
{
    if (!mailbox)
        return NULL;
    deliver_all(mailbox);
    if (mailbox->event)
        event_free(mailbox->event);
    if (mailbox->fd >= 0)
        close(mailbox->fd);
    pthread_mutex_destroy(&mailbox->lock);
    mailbox->magic = 0;
    free(mailbox);
    return NULL;
}

void wg_mailbox_post(struct wg_mailbox *mailbox, struct wg_mail *mail)
{
    WG_CHECK_OBJ(mailbox, MAILBOX_MAGIC);
    pthread_mutex_lock(&mailbox->lock);
    const bool was_empty = wg_list_empty(&mailbox->inbox);
    wg_list_append(&mailbox->inbox, &mail->link);
    /* Under the lock: a receiver that frees its mailbox after the last message must not pull the descriptor
     * away. */
    const uint64_t one = 1;
    if (was_empty && write(mailbox->fd, &one, sizeof(one)) < 0)
        WG_ASSERT(errno == EAGAIN || errno == EINTR);
    pthread_mutex_unlock(&mailbox->lock);
}
