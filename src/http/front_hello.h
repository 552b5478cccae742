/* A client connection whose protocol is not known yet. */
#pragma once

#include "front.h"

#define H2_PREFACE_LEN 24 /* RFC 9113 3.4 */

enum hello_state {
    HELLO_TLS,    /* the handshake runs */
    HELLO_SILENT, /* nothing has come */
    HELLO_BEGUN,  /* what has come may become the preface of HTTP/2 */
    HELLO_OVER,   /* another protocol goes on in this memory, or the connection is closed */
};

struct hello_front {
    struct wg_front base;
    enum hello_state state;
    char bytes[H2_PREFACE_LEN];
    size_t n;
    struct wg_timer timer;
};
