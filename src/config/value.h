/* Texts that have a form of their own: URLs, names, paths, expressions. The checks return NULL, or what is
 * wrong with the text. */
#pragma once

#include "wakegate/config.h"

/* "http://host[:port]" without anything behind it: 0 or -EINVAL. host is allocated, brackets of IPv6 taken
 * off. */
WG_MUST_CHECK int value_endpoint(struct wg_slice text, struct wg_config_endpoint *ret_endpoint);
/* "10.0.0.0/8", or an address alone: 0 or -EINVAL. Bits beyond the prefix are cleared. */
WG_MUST_CHECK int value_cidr(struct wg_slice text, struct wg_cidr *ret_cidr);
void value_cidr_format(const struct wg_cidr *cidr, char out[static 64]);
WG_MUST_CHECK int value_sha256(struct wg_slice hex, uint8_t out[static 32]);

const char *value_check_name(struct wg_slice text);
const char *value_check_file(struct wg_slice text);
const char *value_check_san(struct wg_slice text); /* a name that a certificate may have */
const char *value_check_endpoint(struct wg_slice text);
const char *value_check_hook(struct wg_slice text);       /* "" is fine */
const char *value_check_probe_path(struct wg_slice text); /* "" is fine */
const char *value_check_path(struct wg_slice text);       /* of models[].paths */
const char *value_check_regex(struct wg_slice text);      /* only what regcomp would not survive */
