/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* judge_cm.h - events and addresses of rdma_cm as words, for judge_cm_*.c. */
#ifndef JUDGE_CM_H
#define JUDGE_CM_H

#include "tests/conformance/judge.h"
#include "tests/rig/verbs/cms.h"

#define SA(x) ((struct sockaddr *)(x))

/*
 * The channel's events, acknowledged: the first within `ms`, further ones at once. "ROUTE_RESOLVED" is of
 * `id`, "other:ESTABLISHED" is not; "/-110" is its status, "/56" the length of its private data, which
 * may be followed by "=5", how many of its bytes are what j_data() has. Returns the last id that a
 * CONNECT_REQUEST brought, or NULL.
 */
struct rdma_cm_id *j_events(struct rdma_event_channel *ch, struct rdma_cm_id *id, unsigned ms);
/* As j_events(), for one event, which must come. The event is not acknowledged. */
struct rdma_cm_event *j_event(struct rdma_event_channel *ch, struct rdma_cm_id *id, unsigned ms);
void j_say_event(const struct rdma_cm_event *e, const struct rdma_cm_id *id);

/* 255 bytes, none of them 0 */
const uint8_t *j_data(void);

/* "any4", "self4", "lo4" and so on; without the port. */
void j_addr(const struct sockaddr *sa);
/* "port=0", "port=same" as that, or "port=some" */
void j_port(uint16_t port, uint16_t same);

/* Ids in channels of their own, the route to a listener resolved, or connected. */
struct j_pair {
	struct rdma_event_channel *ch, *lch; /* of active; of listener and passive */
	struct rdma_cm_id *listener, *active, *passive;
};
void j_pair_route(struct j_pair *p, enum rdma_port_space ps, int backlog);
/* The CONNECT_REQUEST has come and is acknowledged. */
void j_pair_request(struct j_pair *p, enum rdma_port_space ps);
void j_pair_connect(struct j_pair *p, bool qps);

#endif
