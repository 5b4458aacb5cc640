/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ucma.h - rdma_cm with peers in the NIC's network: the operations that the connection manager (cm/plain.c) uses of the
 * carrier that has the NIC (nic/cm/ucma.c). The carrier asks the host's kernel. A part of struct carrier.
 *
 * The control thread calls these operations, without the lock. None waits for the kernel: the kernel gets the commands
 * in the order in which they were given, and answers with events. host->cm_wake() is called when there are events.
 */
#ifndef FFR_FAST_UCMA_H
#define FFR_FAST_UCMA_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "ffr/abi/ff_cm.h"

struct fast;
struct container;
struct carrier_later;
struct ucma_id; /* one of the host's rdma_cm, bound to the GID of the container's NIC */

/* What an id is for. */
struct ucma_want {
	void *user; /* comes back in the id's events */
	const struct container *cont;
	uint16_t ps;
	uint8_t qp_type;
	uint8_t tos;
	union ibv_gid dst; /* resolve: the peer's GID */
	uint16_t port;	   /* resolve: the peer's; listen: the id's own; host byte order */
	uint32_t timeout_ms;
	uint32_t backlog;
};

struct ucma_event {
	uint32_t event; /* enum rdma_cm_event_type; ROUTE_RESOLVED: the address is, too */
	int status;	/* REJECTED: the reason, UD's UNREACHABLE: SIDR's; else 0 or -errno */
	void *user;	/* CONNECT_REQUEST: the listener's */
	struct ucma_id *request;  /* CONNECT_REQUEST: a new id, which is to be kept or destroyed */
	struct ff_cm_param param; /* as its receiver sees it */
	union ibv_gid peer;	  /* CONNECT_REQUEST */
	uint16_t peer_port;
	uint8_t traffic_class;
	uint8_t path_mtu; /* CONNECT_REQUEST and _RESPONSE of connections; enum ibv_mtu */
	uint32_t rq_psn, sq_psn;
	uint32_t pd_len;
	uint8_t pd[FF_CM_PD_MAX];
};

struct ucma_ops {
	/* Can the container's NIC now make ids of port space `ps` for QPs of type qp_type? */
	bool (*is_there)(const struct container *c, uint16_t ps, uint8_t qp_type);
	/* How often the answer of is_there(), or the GID of the container's NIC, has changed. */
	uint32_t (*changes)(const struct container *c);
	/* An id, or NULL: there is no memory, or there are too many. ROUTE_RESOLVED or ADDR_ERROR follows. */
	struct ucma_id *(*resolve)(const struct ucma_want *w);
	/* An id, or NULL, like resolve(). No event follows; with `l`, l->done() does. */
	struct ucma_id *(*listen)(const struct ucma_want *w, struct carrier_later *l);
	/* Keep the new id of a CONNECT_REQUEST: its events are for `user` from now on. */
	void (*keep)(struct ucma_id *id, void *user);
	/* End the id. The kernel tells the peer what it has to; no event of the id comes any more. */
	void (*destroy)(struct ucma_id *id);
	/*
	 * 0 or -ENOMEM. If the kernel refuses, a CONNECT_ERROR follows. With iWARP a CONNECT_ERROR also follows for a
	 * QP that is not the container's, is not in INIT (to accept: INIT, RTR or RTS), or has been connected before.
	 */
	int (*connect)(struct ucma_id *id, const struct ff_cm_param *p, const void *pd,
		       uint32_t len);
	int (*accept)(struct ucma_id *id, const struct ff_cm_param *p, const void *pd,
		      uint32_t len);
	int (*establish)(struct ucma_id *id); /* after a CONNECT_RESPONSE */
	int (*reject)(struct ucma_id *id, uint8_t reason, const void *pd, uint32_t len);
	int (*disconnect)(struct ucma_id *id); /* disconnect, or agree to the peer's disconnect */
	/* The next event. False: there is none. */
	bool (*event)(struct fast *f, struct ucma_event *ev);
};

#endif
