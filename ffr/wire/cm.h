/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cm.h - the connection manager's messages between hosts: what has come in, and how a message waits. [lock]
 *
 * ffr/cm/ sends a message by wire_send(), as a frame of type CM, and keeps it in a queue of its own while there is no
 * connection. Messages that come in wait here for the control thread; host->cm_wake() tells of them.
 */
#ifndef FFR_WIRE_CM_H
#define FFR_WIRE_CM_H

#include "ffr/dir/dir.h"
#include "ffr/wire/wire.h"

/* A message that waits: for the control thread, or for a connection. */
struct cm_frame {
	STAILQ_ENTRY(cm_frame) entry;
	struct wire_peer *peer; /* a reference */
	uint64_t until;		/* ns; the message is dropped then */
	struct wire_hdr h;
	uint8_t msg[]; /* h.len bytes */
};

void cm_queue_init(struct cm_queue *q);
/*
 * Put a copy of the message at the end of the queue. The copy is dropped at `until`. Where the queue has no room, or
 * its sender's share of the room is used up, the message is lost, which the connection manager is used to.
 */
void cm_queue_add(struct cm_queue *q, struct wire_peer *p, const struct wire_hdr *h,
		  const void *msg, uint64_t now, uint64_t until);
void cm_queue_drop(struct cm_queue *q, struct cm_frame *m);
/* Drop the messages whose time is over. */
void cm_queue_expire(struct cm_queue *q, uint64_t now);

/*
 * The next message that has come in, whose sender is who it says: a container of the host that it came from. NULL: none
 * now; host->cm_wake() tells of more. wire_cm_taken() frees the message.
 */
struct cm_frame *wire_cm_take(struct fast *f, struct remote **from);
void wire_cm_taken(struct fast *f, struct cm_frame *m);
/* Nobody takes messages any more: drop those that have come in. host->cm_wake is NULL. */
void wire_cm_stop(struct fast *f);

#endif
