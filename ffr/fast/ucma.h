/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ucma.h - rdma_cm with peers in the NIC's network: what the connection manager (cm/plain.c) wants of the
 * carrier that has the NIC (nic/ucma.c), which asks the host's kernel. A part of struct carrier.
 *
 * All of it is the control thread's, without the lock, and none of it waits for the kernel: commands are carried
 * out in the order in which they were given, and what comes of them are events, which host->cm_frames() tells of.
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
	void *user; /* comes back in its events */
	const struct container *cont;
	uint16_t ps;
	uint8_t qp_type;
	uint8_t tos;
	union ibv_gid dst; /* resolve: whom */
	uint16_t port;	   /* ... whose, or that is listened at; host byte order */
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
	/* Can ids of that port space be made now by the container's NIC, for QPs of that type? */
	bool (*is_there)(const struct container *c, uint16_t ps, uint8_t qp_type);
	/* So often the answer to that, or that NIC's GID, became another one. */
	uint32_t (*changes)(const struct container *c);
	/* An id, or NULL: there is no memory, or there are too many. ROUTE_RESOLVED or ADDR_ERROR follows. */
	struct ucma_id *(*resolve)(const struct ucma_want *w);
	/* The same, but l->done(), if there is l, and no event follows. */
	struct ucma_id *(*listen)(const struct ucma_want *w, struct carrier_later *l);
	/* A request's: its events are for `user` from now on. */
	void (*keep)(struct ucma_id *id, void *user);
	/* What the peer is to hear of that the kernel says, and no event of it comes any more. */
	void (*destroy)(struct ucma_id *id);
	/*
	 * 0 or -ENOMEM. What the kernel refuses is a CONNECT_ERROR, and likewise, with iWARP, a QP that is not the
	 * container's, not in INIT (or RTR and RTS, to accept), or has been connected before.
	 */
	int (*connect)(struct ucma_id *id, const struct ff_cm_param *p, const void *pd,
		       uint32_t len);
	int (*accept)(struct ucma_id *id, const struct ff_cm_param *p, const void *pd,
		      uint32_t len);
	int (*establish)(struct ucma_id *id); /* after a CONNECT_RESPONSE */
	int (*reject)(struct ucma_id *id, uint8_t reason, const void *pd, uint32_t len);
	int (*disconnect)(struct ucma_id *id); /* or agree to that */
	/* The next event. False: there is none. */
	bool (*event)(struct fast *f, struct ucma_event *ev);
};

#endif
