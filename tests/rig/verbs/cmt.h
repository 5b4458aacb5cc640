/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cmt.h - what the cm_*.c programs share beyond vt.h: events that must come, listeners, and pairs
 * of connected ids within one process.
 */
#ifndef CMT_H
#define CMT_H

#include "tests/rig/verbs/vt.h"

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* The next event of the channel must be that one; the caller acknowledges it. */
struct rdma_cm_event *cmt_want(const char *file, int line, struct rdma_event_channel *ch,
			       struct rdma_cm_id *id, enum rdma_cm_event_type type, int status);
/* id NULL: whoever's. */
#define WANT_CM(ch, id, type, status) cmt_want(__FILE__, __LINE__, ch, id, type, status)
/* The same, acknowledged. */
#define WANT_CM_ACK(ch, id, type, status) CHECK_OK(rdma_ack_cm_event(WANT_CM(ch, id, type, status)))
/* Nothing is there: makes the channel non-blocking. */
#define CHECK_NO_EVENT(ch)                                                                         \
	do {                                                                                       \
		struct rdma_cm_event *got_;                                                        \
		cmt_nonblock(ch);                                                                  \
		CHECK(!vt_readable((ch)->fd, 0));                                                  \
		CHECK_ERR(rdma_get_cm_event(ch, &got_), EAGAIN);                                   \
	} while (0)
void cmt_nonblock(struct rdma_event_channel *ch);

/* The container's own address: GID 0 of the device. */
struct sockaddr_in cmt_self(void);
struct rdma_event_channel *cmt_channel(void);
struct rdma_cm_id *cmt_id(struct rdma_event_channel *ch, enum rdma_port_space ps);
/* Bound to the wildcard address and a port of the router's choice, and listening. */
struct rdma_cm_id *cmt_listen(struct rdma_event_channel *ch, enum rdma_port_space ps);
/* An id whose route to that listener of this container is resolved. */
struct rdma_cm_id *cmt_route(struct rdma_event_channel *ch, struct rdma_cm_id *listener);
/* Resolves the address and then the route, and takes both events. */
void cmt_resolve(struct rdma_cm_id *id, struct sockaddr *to);
/* A QP with CQs of its own, RC or UD as the id has it. */
void cmt_qp(struct rdma_cm_id *id);
/* Waits for a request, which must be that listener's, and returns the id that it made. */
struct rdma_cm_id *cmt_request(struct rdma_event_channel *ch, const struct rdma_cm_id *listener);
/*
 * Connects a, whose route is resolved, to the listener of the same channel; both ends get QPs. Returns
 * the listener's end.
 */
struct rdma_cm_id *cmt_connect(struct rdma_cm_id *a, const struct rdma_cm_id *listener);
/* Destroys the id and its QP. */
void cmt_destroy(struct rdma_cm_id *id);
/* Destroys a channel and, before it, those ids without QPs: NULL ends them. */
void cmt_close(struct rdma_event_channel *ch, ...) __attribute__((sentinel));

struct cmt_pair {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener, *active, *passive;
};
/* Two RC ids with QPs, connected through one channel; all events are acknowledged. */
void cmt_pair(struct cmt_pair *p);
void cmt_pair_close(struct cmt_pair *p);

/* A SEND of a page from one connected id to the other, whose content is checked. */
void cmt_transfer(struct rdma_cm_id *from, struct rdma_cm_id *to, uint32_t seed);

#endif
