/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * backend.h - the software device as fast/, peer/ and dir/ know it. soft/ implements these operations, or a fake in a
 * test.
 *
 * Every op is called with the fast lock held, by the thread named, and must not block. The device's own state is
 * f->be->priv. Objects belong to the caller; the device hangs its own state on them (qp->soft) between create and
 * destroy. Carriers (carrier.h) move WRs off this host.
 */
#ifndef FFR_FAST_BACKEND_H
#define FFR_FAST_BACKEND_H

#include "ffr/fast/carrier.h"
#include "ffr/fast/fast.h"

/* What became of a WR that was given to post_send. */
enum post_result {
	/*
	 * The op has kept a copy of the WR, cleared qp->busy and added 1 to qp->in_flight. comp_sent() follows some
	 * time, and takes the 1 away.
	 */
	POST_SENT,
	POST_DONE, /* comp_send() was called for the WR */
	POST_MORE, /* a part is done: call progress() in the next turn */
	POST_WAIT, /* the WR waits for a timer, a peer or a worker; the QP is activated then */
};

/*
 * How a QP's WRs are carried out: qp->send. [lock]
 *
 * The software device sets qp->send in qp_create. From then on the software device changes qp->send only from one of
 * its own ops to another (route_is_ours()), when the path leads elsewhere. A carrier that takes the QP sets its own ops
 * when the QP is in RTR. The carrier sets the software device's again when the QP is in RESET, and when the carrier has
 * lost its device.
 */
struct send_ops {
	const char *name; /* for operators: what carries the WRs */
	/* For operators: what carries the QP's WRs now, where that may change; NULL: always `name`. */
	const char *(*by)(const struct qp *qp);
	/* Begin qp->wr, which was just fetched. */
	enum post_result (*post)(struct fast *f, struct qp *qp);
	/* Go on with qp->wr, which post() has begun and nobody has completed (qp->busy). */
	enum post_result (*progress)(struct fast *f, struct qp *qp);
};

struct remote;
struct wire_peer;
struct wire_io;
struct wire_hello;
struct backend_ops {
	/* control thread, before there are other threads, without the lock */
	int (*open)(struct backend *be);
	void (*close)(struct backend *be);
	/* control thread */
	int (*qp_create)(struct fast *f, struct qp *qp);
	/*
	 * qp->attr and qp->state are new; `old` is the state before. Aborts the WR under way if need be. ERR and SQE
	 * come from the runner, too: fast_qp_error(), qp_send_failed().
	 */
	void (*qp_modify)(struct fast *f, struct qp *qp, enum ibv_qp_state old);
	void (*qp_destroy)(struct fast *f, struct qp *qp);
	/* An XRC SRQ is about to end; QPs of its domain may still be delivering to it. */
	void (*srq_destroy)(struct fast *f, struct srq *srq);
	/* With several fast threads (threads.c): the QP and its container are the thread `to`'s from now on. */
	void (*qp_move)(struct fast *from, struct fast *to, struct qp *qp);
	/* A container has come to this thread: QPs may wait for that. */
	void (*container_come)(struct fast *f);
	/* A container has left: forget resolutions that name it. */
	void (*container_gone)(struct fast *f, struct container *c);

	/* ---- other hosts: f is the first thread, which has the wires */
	/* The directory tells that the hosts of a multicast group have changed. */
	void (*mcast_changed)(struct fast *f, const char *tenant, const union ibv_gid *mgid);
	/*
	 * peer/, on the control thread: a handshake is done; the device takes the stream over. p->tcp is NULL before,
	 * and p->generation and p->version are this connection's. The stream may already hold frames of the peer.
	 * theirs: the peer's hello as it came, so numbers are big-endian; not there any more after the call. 0; or
	 * -errno: the stream stays the caller's, who closes it.
	 */
	int (*wire_attach)(struct fast *f, struct wire_peer *p, struct wire_io *io,
			   const struct wire_hello *theirs);
	/* Close the attached connection (p->tcp is set) as if the connection had been lost, but without peer_lost(). */
	void (*wire_detach)(struct fast *f, struct wire_peer *p, const char *why);

	/*
	 * Runner: receives were posted on a ring whose `need` was set. srq or qp is NULL. True: call again in the next
	 * turn, because more messages wait for receives than one turn delivers.
	 */
	bool (*recv_posted)(struct fast *f, struct qp *qp, struct srq *srq);
};

extern const struct backend_ops soft_ops;

#endif
