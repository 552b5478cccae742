/* Whom a call talks to: certificates, and the name that the server has to prove. */
#pragma once

#include <curl/curl.h>

#include "wakegate/fetch.h"

/* Sets the URL and all that TLS needs. *ret_connect_to must be freed after the handle, also on failure. */
WG_MUST_CHECK bool peer_set(CURL *easy, const struct wg_fetch_request *request,
                            struct curl_slist **ret_connect_to);
/* False for what curl itself would find out only after the start. */
bool peer_url_is_possible(const char *url);
/* "Host: …" of a URL, for calls whose URL was rewritten; freed with free(), NULL if it has none. */
char *peer_host_field(const char *url);
