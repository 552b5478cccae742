/* One bucket for each HTTP/2 connection, from which everything is taken that costs the client next to nothing
 * and us work. A polite client never empties it; a flood does within some hundred frames. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wakegate/base/clock.h"

enum { GLITCH_BURST = 200, GLITCH_PER_SECOND = 20 };

enum glitch_kind {
    GLITCH_RESET,           /* the client reset a stream before its answer was complete */
    GLITCH_PROVOKED_RESET,  /* it made us reset one */
    GLITCH_SETTINGS,        /* SETTINGS, not an acknowledgement */
    GLITCH_PING,            /* PING, or an acknowledgement of one */
    GLITCH_WINDOW_UPDATE,   /* one beyond its allowance */
    GLITCH_EMPTY_FRAME,     /* DATA, HEADERS or CONTINUATION that carries nothing and ends nothing */
    GLITCH_OTHER_FRAME,     /* GOAWAY, PRIORITY, PRIORITY_UPDATE, unknown types: what we do nothing with */
    GLITCH_HEADER_OVERFLOW, /* a header block over its limits */
    GLITCH_EXTRA_FIELDS,    /* each GLITCH_FIELDS_A_COST further fields of such a block */
    GLITCH_KINDS
};
enum { GLITCH_FIELDS_A_COST = 64 };

struct glitch {
    wg_usec at;       /* refilled up to here */
    uint32_t left;    /* in the bucket */
    uint32_t updates; /* WINDOW_UPDATEs that are still free of charge */
};

void glitch_init(struct glitch *glitch, wg_usec now);
/* Takes what this kind costs, or all that is left: false if that is not enough, then the connection is to be
 * closed with ENHANCE_YOUR_CALM. now is of the monotonic clock. */
bool glitch_take(struct glitch *glitch, wg_usec now, enum glitch_kind kind);
/* A request that ended well gives one back. */
void glitch_give(struct glitch *glitch);

/* WINDOW_UPDATEs are honest work for a client that reads: two, for the stream and the connection, for every
 * DATA frame, however small. Some are allowed at the start, two more for each DATA frame that we send and
 * each request that comes; not more than a cap can be saved up. */
void glitch_allow_updates(struct glitch *glitch);
/* Uses one up; false if there is none, then it costs GLITCH_WINDOW_UPDATE. */
bool glitch_use_update(struct glitch *glitch);
