/* What the files of this room know of a connection. */
#pragma once

#include "wakegate/event.h"

#include <event2/event_struct.h>

#define CONN_MAGIC 0xc0221ec7

struct conn_tls;

struct wg_conn {
    uint32_t magic;
    int fd; /* -1: closed, waiting to be reaped */
    struct wg_loop *loop;
    const struct wg_conn_handler *handler;
    void *arg;
    struct event read, write;
    struct wg_deferred dirty, dead;
    struct conn_tls *tls; /* NULL: cleartext */
    bool reading, writing, watching;
    bool write_armed; /* for the handler, or for TLS alone */
};

/* Unless reading is off. The connection may be closed after it. */
void conn_call_readable(struct wg_conn *conn);
/* After a change of what the write event is waited for. */
void conn_arm_write(struct wg_conn *conn);

/* ---- conn_tls.c; all but the last are for connections with TLS ---- */
ssize_t conn_tls_read(struct wg_conn *conn, void *buf, size_t len);
ssize_t conn_tls_writev(struct wg_conn *conn, const struct iovec *iov, int n);
void conn_tls_shutdown(struct wg_conn *conn);
/* After anything that changes what is left to read, or whether it is wanted. */
void conn_tls_update(struct wg_conn *conn);
/* Reading goes on only when the socket takes bytes. */
bool conn_tls_stalled(const struct wg_conn *conn);
/* The socket takes bytes: calls `readable` if reading waited for that. */
void conn_tls_unstall(struct wg_conn *conn);
void conn_tls_free(struct wg_conn *conn);
