/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * spin.h - when the control thread looks for the next request instead of sleeping.
 */
#ifndef FFR_CTL_SPIN_H
#define FFR_CTL_SPIN_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct ctl_conn;

struct ctl_spin {
	uv_idle_t idle; /* active while there are hot connections: the loop does not block */
	TAILQ_HEAD(, ctl_conn) hot;
	unsigned num_hot;
	uint32_t cpu;	     /* of this thread, as the hot ones know it */
	unsigned local;	     /* requests in a row that were posted on this CPU */
	uint64_t moved_at;   /* ns */
	uint64_t hold_until; /* ns: somebody else needs the CPU */
	uint64_t hold;	     /* ns, how long the last time */
};

/* A connection's part. */
struct ctl_heat {
	TAILQ_ENTRY(ctl_conn) entry; /* spin->hot */
	bool is_hot;
	uint64_t last; /* ns, when its last request was served */
	uint64_t spin; /* ns after it that the connection stays hot */
	uint32_t cpu;  /* where it was posted; the client's word for it */
};

void ctl_spin_init(struct ctl_spin *s, uv_loop_t *loop);
void ctl_spin_close(struct ctl_spin *s);
/* A request of that connection, which has a session, was served. */
void ctl_spin_served(struct ctl_conn *conn);
/* The connection is about to lose its session. */
void ctl_spin_forget(struct ctl_conn *conn);

#endif
