/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ctl_spin.h - when the control thread looks for the next request instead of sleeping.
 */
#ifndef FFR_CTL_SPIN_H
#define FFR_CTL_SPIN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct ctl_spin {
	uv_idle_t idle;	     /* active: the loop does not block */
	uint64_t last;	     /* ns, when the last request was served */
	uint64_t hold_until; /* ns: somebody else needs the CPU */
	uint64_t hold;	     /* ns, how long the last time */
};

void ctl_spin_init(struct ctl_spin *s, uv_loop_t *loop);
void ctl_spin_close(struct ctl_spin *s);
/* A request was served at `now`, ns of uv_hrtime(). */
void ctl_spin_served(struct ctl_spin *s, uint64_t now);
static inline bool ctl_spins(const struct ctl_spin *s)
{
	return uv_is_active((const uv_handle_t *)&s->idle);
}

#endif
