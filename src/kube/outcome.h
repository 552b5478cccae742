/* What an answer means, and in words: a pure function of the request and its answer. */
#pragma once

#include "client.h"
#include "wakegate/base/metrics.h"

/* `why` is freed by the caller, and what ret_outcome->why borrows. `ended`: data() wanted no more. */
void kube_judge(const struct kube_request *request, const char *server, const struct wg_fetch_answer *answer,
                bool ended, struct wg_kube_outcome *ret_outcome, char **ret_why);

enum wg_api_verb kube_verb_of(const char *verb); /* must be one */
enum wg_api_status kube_status_of(const struct wg_fetch_answer *answer);
