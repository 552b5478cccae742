/* The loop of a thread and what hangs on it: timers, mailboxes, listeners, and stream sockets.
 * Everything here belongs to the thread that runs the loop, but for wg_mailbox_post, wg_loop_stop and
 * wg_thread_*.
 *
 * One turn of a loop: the kernel's batch of events, then the deferred calls (each flush of a dirty
 * connection), then the reaping of what died in this turn. So nothing is freed inside its own callback, and
 * no callback sees freed memory. */
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include "wakegate/base/clock.h"
#include "wakegate/base/list.h"

struct event_base;
struct wg_loop;

/* NULL if the system refuses. */
struct wg_loop *wg_loop_new(void);
struct wg_loop *wg_loop_free(struct wg_loop *loop);
/* Runs turns until wg_loop_stop; then what is deferred and reaped is done once more. It can be run again. */
void wg_loop_run(struct wg_loop *loop);
/* Any thread. */
void wg_loop_stop(struct wg_loop *loop);
/* Monotonic time, read once a turn (when first asked for in it). */
wg_usec wg_loop_now(struct wg_loop *loop);
/* For libevent objects of the caller's own; made without locks: only the loop's thread may use it. */
struct event_base *wg_loop_base(struct wg_loop *loop);

/* Work for the end of this turn, embedded in its object. Deferring what is deferred already does nothing. */
struct wg_deferred {
    struct wg_list link;
    void (*run)(struct wg_deferred *deferred);
};
void wg_deferred_init(struct wg_deferred *deferred, void (*run)(struct wg_deferred *deferred));
void wg_loop_defer(struct wg_loop *loop, struct wg_deferred *deferred);
void wg_deferred_cancel(struct wg_deferred *deferred);
/* The same list, run after all deferred calls: for freeing. Cannot be cancelled. */
void wg_loop_reap(struct wg_loop *loop, struct wg_deferred *deferred);

/* Timers: O(1) to set and cancel, a granularity of 4 ms (never early). Embedded in their object; must be
 * cancelled before it is freed. */
struct wg_timer {
    struct wg_list link;
    wg_usec at;
    void (*fire)(struct wg_timer *timer);
    struct wg_loop *loop;
};
void wg_timer_init(struct wg_timer *timer, struct wg_loop *loop, void (*fire)(struct wg_timer *timer));
/* At a monotonic time (past: in the next turn); NEVER cancels. Setting again moves it. */
void wg_timer_set(struct wg_timer *timer, wg_usec at);
void wg_timer_set_after(struct wg_timer *timer, wg_usec wait);
void wg_timer_cancel(struct wg_timer *timer);
static inline bool wg_timer_armed(const struct wg_timer *timer)
{
    return wg_list_linked(&timer->link);
}

/* Messages between threads. A message is owned by who holds it: posting hands it over, delivery hands it to
 * the receiver. `deliver` runs on the receiving loop. Order is kept per poster. The short lock inside is the
 * only one on the way. */
struct wg_mail {
    struct wg_list link;
    void (*deliver)(struct wg_mail *mail, void *receiver);
};
struct wg_mailbox;
/* receiver is given to every deliver. NULL if the system refuses. */
struct wg_mailbox *wg_mailbox_new(struct wg_loop *loop, void *receiver);
/* On the loop's thread, or when it no longer runs; delivers what is left first. */
struct wg_mailbox *wg_mailbox_free(struct wg_mailbox *mailbox);
/* Any thread. */
void wg_mailbox_post(struct wg_mailbox *mailbox, struct wg_mail *mail);

static inline void wg_mail_init(struct wg_mail *mail, void (*deliver)(struct wg_mail *, void *))
{
    wg_list_init(&mail->link);
    mail->deliver = deliver;
}

/* A thread with a name, all signals blocked, running `run`. 0 or -errno. */
struct wg_thread;
WG_MUST_CHECK int wg_thread_start(const char *name, void (*run)(void *arg), void *arg,
                                  struct wg_thread **ret_thread);
struct wg_thread *wg_thread_join(struct wg_thread *thread);

/* A nonblocking stream socket on a loop, in cleartext or, on the server's side, with TLS behind the same
 * calls. */
struct wg_conn;
struct wg_tls;
struct wg_tls_session;
struct wg_conn_handler {
    void (*readable)(void *arg); /* bytes, end of file or an error are there to read */
    void (*writable)(void *arg); /* after wg_conn_want_write, or the end of a connect */
    void (*hangup)(
        void *arg); /* the peer shut down its side (or both), seen even while reading is off; may be NULL */
    void (*flush)(void *arg); /* end of the turn, after wg_conn_mark_dirty */
};

/* Takes the descriptor. Reading is off. */
struct wg_conn *wg_conn_new(struct wg_loop *loop, int fd, const struct wg_conn_handler *handler, void *arg);
/* Closes at once; no handler runs after it. `hard` sends a TCP reset instead of a FIN. The memory goes at the
 * end of the turn. */
void wg_conn_close(struct wg_conn *conn, bool hard);
/* Starts connecting (TCP_NODELAY set): `writable` tells the end, wg_conn_error how it went. NULL and
 * *ret_error (negative errno) when it failed at once. */
struct wg_conn *wg_conn_connect(struct wg_loop *loop, const struct sockaddr *address, socklen_t len,
                                const struct wg_conn_handler *handler, void *arg, int *ret_error);
/* Other calls from now on; nothing else changes. */
void wg_conn_set_handler(struct wg_conn *conn, const struct wg_conn_handler *handler, void *arg);

/* Puts TLS on a connection that was just accepted; a reference to tls is taken. 0 or -ENOMEM. Nothing is to
 * be read or written before wg_conn_handshake has come to 0. */
WG_MUST_CHECK int wg_conn_start_tls(struct wg_conn *conn, struct wg_tls *tls);
/* 0: done; -EAGAIN: call again when `readable` is called (reading must be on); other negative errno: it
 * failed. */
WG_MUST_CHECK int wg_conn_handshake(struct wg_conn *conn);
/* NULL: cleartext. */
const struct wg_tls_session *wg_conn_tls(const struct wg_conn *conn);

/* SO_ERROR as a negative errno, or 0. */
int wg_conn_error(struct wg_conn *conn);
int wg_conn_fd(const struct wg_conn *conn);
struct wg_loop *wg_conn_loop(const struct wg_conn *conn);

void wg_conn_want_read(struct wg_conn *conn, bool on);
void wg_conn_want_write(struct wg_conn *conn, bool on);
/* Watches for the peer's FIN or reset while reading is off; while it is on, a read tells. */
void wg_conn_watch_hangup(struct wg_conn *conn, bool on);
void wg_conn_mark_dirty(struct wg_conn *conn);

/* Bytes; 0 at end of file; -EAGAIN; other negative errno. `readable` is called again while bytes that TLS has
 * decrypted are left and reading is on. */
ssize_t wg_conn_read(struct wg_conn *conn, void *buf, size_t len);
/* Bytes taken, or a negative errno. What was not taken must be offered again first (see wg_tls_writev). */
ssize_t wg_conn_writev(struct wg_conn *conn, const struct iovec *iov, int n);
/* Sends close_notify where there is TLS, and FIN; reading goes on. */
void wg_conn_shutdown(struct wg_conn *conn);

/* A listening socket. Several loops may listen on one descriptor. Running out of descriptors pauses accepting
 * for 100 ms and is logged. */
struct wg_listener;
/* Binds and listens (backlog 4096, SO_REUSEADDR); a descriptor or -errno. */
WG_MUST_CHECK int wg_listen(const struct sockaddr *address, socklen_t len);
/* Does not take the descriptor. accepted() owns the new one, nonblocking, close-on-exec, TCP_NODELAY. */
struct wg_listener *wg_listener_new(struct wg_loop *loop, int fd,
                                    void (*accepted)(void *arg, int fd, const struct sockaddr_storage *peer),
                                    void *arg);
struct wg_listener *wg_listener_free(struct wg_listener *listener);
/* false: the kernel's queue is left alone until true. */
void wg_listener_enable(struct wg_listener *listener, bool on);
