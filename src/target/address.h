/* Socket addresses as the targets make them. */
#pragma once

#include "wakegate/config.h"

/* The address with its text: "10.0.0.5:8000", "[::1]:8000". Cleared by wg_address_clear. */
void address_make(const struct sockaddr *sa, socklen_t len, uint16_t port, struct wg_address *ret_address);
void address_loopback(int family, uint16_t port, struct wg_address *ret_address);
bool address_equal(const struct wg_address *a, const struct wg_address *b);
