/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cm.h - the connection manager's messages from and to other hosts. [lock]
 */
#ifndef FFR_REMOTE_CM_H
#define FFR_REMOTE_CM_H

#include "ffr/wire/wire.h"
#include "ffr/dir/dir.h"

/* One that waits: to be looked at by the control thread, or for a connection. */
struct cm_frame {
	STAILQ_ENTRY(cm_frame) entry;
	struct wire_peer *peer; /* a reference */
	uint64_t until;		/* ns */
	struct wire_hdr h;
	uint8_t msg[]; /* h.len bytes */
};

/*
 * Where there is no connection it waits for one, if `keep`, for a while. The number of the connection
 * that it is in, or 0.
 */
uint32_t remote_cm_send(struct fast *f, const struct container *from, struct remote *to,
			const void *msg, uint32_t len, bool keep);
/* The number of the connection with that host, never the same again; 0: there is none. */
uint32_t remote_cm_conn(const struct remote *to);
/* How many have ended or begun, of all hosts: host->cm_frames() tells when it grows. */
uint32_t remote_cm_changes(struct fast *f);
/*
 * The next one whose sender is who it says: a container of the host that it came from. NULL: none
 * now; host->cm_frames() tells of more. remote_cm_taken() ends it.
 */
struct cm_frame *remote_cm_take(struct fast *f, struct remote **from);
void remote_cm_taken(struct fast *f, struct cm_frame *m);

#endif
