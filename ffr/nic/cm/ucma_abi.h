/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ucma_abi.h - the calls of the kernel's rdma_cm, /dev/infiniband/rdma_cm, as in <rdma/rdma_user_cm.h>. Each call is a
 * write() to that file. ucma.c's worker makes all calls, because the kernel takes them only from the credential that
 * has opened the file.
 */
#ifndef FFR_NIC_CM_UCMA_ABI_H
#define FFR_NIC_CM_UCMA_ABI_H

#include <stdalign.h>
#include <sys/types.h>

#include "ffr/fast/ucma.h"

/* The two system calls; a test has its own. */
struct ucma_sys {
	int (*open)(void); /* as open(2), and reading does not wait */
	ssize_t (*write)(int fd, const void *bytes, size_t len);
};
extern const struct ucma_sys *ucma_sys;

/*
 * An event, and the answers to what the worker asked the kernel about the event. The kernel's structs are bytes here,
 * because <rdma/rdma_user_cm.h> and librdmacm's header cannot be included together.
 */
struct ucma_told {
	uint64_t uid;
	uint32_t id;
	uint32_t event; /* enum rdma_cm_event_type */
	int status;
	alignas(8) uint8_t resp[576]; /* struct rdma_ucm_event_resp */
	int err; /* of the questions about the event; 0: the members below are set */
	union ibv_gid peer;
	uint16_t peer_port;
	uint32_t rq_psn, sq_psn;
	uint8_t path_mtu, traffic_class;
};

/* 0 or -errno */
int ucma_create(int fd, uint64_t uid, uint16_t ps, uint8_t qp_type, uint32_t *id);
void ucma_destroy(int fd, uint32_t id);
/* Bind to that address and port (0: any). The kernel must find the address on the device with that GUID. */
int ucma_bind(int fd, uint32_t id, const union ibv_gid *gid, uint16_t port, uint64_t guid);
int ucma_resolve(int fd, uint32_t id, const struct ucma_want *w);
int ucma_listen(int fd, uint32_t id, uint32_t backlog);
int ucma_connect(int fd, uint32_t id, const struct ff_cm_param *p, const void *pd, uint8_t len);
/* p NULL: rdma_establish() */
int ucma_accept(int fd, uint32_t id, uint64_t uid, const struct ff_cm_param *p, const void *pd,
		uint8_t len);
int ucma_reject(int fd, uint32_t id, uint8_t reason, const void *pd, uint8_t len);
int ucma_disconnect(int fd, uint32_t id);
/* Resolve the route, after the address was resolved. */
int ucma_resolve_route(int fd, uint32_t id);
/* The next event; -EAGAIN: there is none. */
int ucma_next(int fd, struct ucma_told *t);
/* Ask for the peer's address of the event's id: t->peer and t->peer_port. */
int ucma_ask_peer(int fd, struct ucma_told *t);
/* Ask for the first PSNs of both sides, which the kernel has chosen, and for the path. */
int ucma_ask_path(int fd, struct ucma_told *t);
/* Fill in what the event says of a connection, or of a UD service. */
void ucma_fill(struct ucma_event *ev, const struct ucma_told *t, bool is_ud);

#endif
