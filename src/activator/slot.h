/* What control and views look at in a slot word without taking. */
#pragma once

#include "wakegate/activator.h"

/* Slots that could be taken now; 0 when sealed. Stale the moment it returns. */
unsigned wg_slots_free(const struct wg_slots *slots);
