/* Joins one curl multi handle to a loop: which descriptors it watches, and when it wants to be woken. */
#pragma once

#include <curl/curl.h>
#include <event2/event_struct.h>

#include "wakegate/event.h"

struct multi {
    uint32_t magic;
    CURLM *curl; /* NULL: not made, or cleaned up */
    struct wg_list sockets;
    struct event timer;
    /* Something has happened in the transfers: look at curl_multi_info_read. Outside of all callbacks of
     * curl. */
    void (*progress)(struct multi *multi);
};

/* False if the system refuses. */
bool multi_init(struct multi *multi, struct wg_loop *loop, void (*progress)(struct multi *multi));
/* All easy handles must be removed before. Half-built is fine. */
void multi_clear(struct multi *multi);
/* So that a descriptor that curl closes is not watched any more; every easy handle gets it. */
void multi_adopt(struct multi *multi, CURL *easy);
