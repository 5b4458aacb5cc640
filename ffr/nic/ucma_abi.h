/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ucma_abi.h - the calls of the kernel's rdma_cm, /dev/infiniband/rdma_cm, as <rdma/rdma_user_cm.h> has them. Each
 * is a write() to that file, by the thread that has opened it: the kernel takes none of others. ucma.c's worker.
 */
#ifndef FFR_NIC_UCMA_ABI_H
#define FFR_NIC_UCMA_ABI_H

#include <stdalign.h>
#include <sys/types.h>

#include "ffr/fast/ucma.h"

/* The two system calls; a test has its own. */
struct ucma_sys {
	int (*open)(void); /* as open(2), and reading does not wait */
	ssize_t (*write)(int fd, const void *bytes, size_t len);
};
extern const struct ucma_sys *ucma_sys;

/* An event, with what the kernel was asked about it at once. <rdma/rdma_user_cm.h> does not go with librdmacm's header. */
struct ucma_told {
	uint64_t uid;
	uint32_t id;
	uint32_t event; /* enum rdma_cm_event_type */
	int status;
	alignas(8) uint8_t resp[576]; /* struct rdma_ucm_event_resp */
	int err;		      /* of that; 0: */
	union ibv_gid peer;
	uint16_t peer_port;
	uint32_t rq_psn, sq_psn;
	uint8_t path_mtu, traffic_class;
};

/* 0 or -errno */
int ucma_create(int fd, uint64_t uid, uint16_t ps, uint8_t qp_type, uint32_t *id);
void ucma_destroy(int fd, uint32_t id);
/* To that address and port (0: any), which must be one of the device with that GUID, as the kernel has it. */
int ucma_bind(int fd, uint32_t id, const union ibv_gid *gid, uint16_t port, uint64_t guid);
int ucma_resolve(int fd, uint32_t id, const struct ucma_want *w);
int ucma_listen(int fd, uint32_t id, uint32_t backlog);
int ucma_connect(int fd, uint32_t id, const struct ff_cm_param *p, const void *pd, uint8_t len);
/* p NULL: rdma_establish() */
int ucma_accept(int fd, uint32_t id, uint64_t uid, const struct ff_cm_param *p, const void *pd,
		uint8_t len);
int ucma_reject(int fd, uint32_t id, uint8_t reason, const void *pd, uint8_t len);
int ucma_disconnect(int fd, uint32_t id);
/* The way to an address, which is known now. */
int ucma_resolve_route(int fd, uint32_t id);
/* The next event; -EAGAIN: there is none. */
int ucma_next(int fd, struct ucma_told *t);
/* More of it: the other side's address; where both sides begin to count, which the kernel has chosen, and their path. */
int ucma_ask_peer(int fd, struct ucma_told *t);
int ucma_ask_path(int fd, struct ucma_told *t);
/* What both sides say of a connection, or of a UD service. */
void ucma_fill(struct ucma_event *ev, const struct ucma_told *t, bool is_ud);

#endif
