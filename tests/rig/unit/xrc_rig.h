/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * xrc_rig.h - clients of a router (ctl_rig) with XRC: their calls, and a target that a sender of another
 * container is connected to.
 */
#ifndef XRC_RIG_H
#define XRC_RIG_H

#include "tests/rig/unit/unit.h"
#include "ffr/fast/internal.h"
#include "ffr/fast/xrc.h"
#include "tests/rig/unit/ctl_calls.h"

/* ---- clients ------------------------------------------------------------------------------- */

struct xrc_client {
	int sock, async;
	struct session *s;
	uint32_t pd, cq;
	uint32_t ci; /* CQEs that were polled */
};

void xrc_client_open(struct xrc_client *c, int container);
void xrc_client_close(struct xrc_client *c);
/* The next asynchronous event and whose it is; -1: none. */
int xrc_event(struct xrc_client *c, uint32_t *handle);
bool xrc_poll(struct xrc_client *c, struct ff_cqe *out);
void xrc_expect(struct xrc_client *c, uint64_t wr_id, enum ibv_wc_status st);
void xrc_expect_none(struct xrc_client *c);

/* ---- objects ------------------------------------------------------------------------------- */

#define XRC_FILE_A 1, 77
#define XRC_FILE_B 1, 78

int xrc_open_xrcd(struct xrc_client *c, uint64_t dev, uint64_t ino, uint32_t flags, uint32_t *xrcd);
uint32_t xrc_domain_of(struct xrc_client *c, uint64_t dev, uint64_t ino);
int xrc_make_srq(struct xrc_client *c, uint32_t pd, uint32_t xrcd, uint32_t cq,
		 struct ff_create_srq_resp *resp);
struct ff_create_srq_resp xrc_new_srq(struct xrc_client *c, uint32_t xrcd);
int xrc_destroy_srq(struct xrc_client *c, uint32_t srq);
int xrc_make_qp(struct xrc_client *c, const struct ff_create_qp_req *req,
		struct ff_create_qp_resp *resp);
struct ff_create_qp_resp xrc_new_recv(struct xrc_client *c, uint32_t xrcd);
struct ff_create_qp_resp xrc_new_send(struct xrc_client *c);
int xrc_open_qp(struct xrc_client *c, uint32_t xrcd, uint32_t qpn, struct ff_open_qp_resp *resp);

/* ---- connections ---------------------------------------------------------------------------- */

#define XRC_TO_INIT  (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define XRC_TO_RTR   (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define XRC_TO_RTS   (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN)
#define XRC_RTR_RECV (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define XRC_RTS_SEND (IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

int xrc_modify(struct xrc_client *c, uint32_t qp, enum ibv_qp_state state, uint32_t mask,
	       uint16_t lid, uint32_t dest);
/* container: of the peer */
void xrc_connect_to(struct xrc_client *c, uint32_t qp, int container, uint32_t dest);
void xrc_run(uint64_t ns);

struct xrc_sender {
	struct xrc_client c;
	struct ff_create_qp_resp qp;
	uint32_t tail;
};

/* In container 1, connected to the XRC_RECV QP of that number in container 0. */
void xrc_sender_open(struct xrc_sender *s, uint32_t qpn);
struct ff_sqe *xrc_post(struct xrc_sender *s, uint8_t opcode, uint32_t srqn, uint64_t wr_id);
void xrc_go(struct xrc_sender *s);
void xrc_send_to(struct xrc_sender *s, uint32_t srqn, uint64_t wr_id);
/* An empty receive. */
void xrc_post_srq(struct xrc_client *c, const struct ff_create_srq_resp *srq, uint32_t i,
		  uint64_t wr_id);

/* ---- delivery -------------------------------------------------------------------------------- */

struct xrc_shared {
	struct xrc_client c[2]; /* processes of container 0 that share a domain */
	uint32_t xrcd[2];
	struct ff_create_srq_resp srq[2];
	struct ff_create_qp_resp qp; /* of c[0] */
	struct xrc_sender from;
};

void xrc_shared_open(struct xrc_shared *h);
void xrc_shared_close(struct xrc_shared *h);

#endif
