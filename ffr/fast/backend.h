/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * backend.h - the device as fast/, peer/ and dir/ know it, which the rooms below implement: soft/, or a test's fake.
 *
 * Every op is called with the fast lock held, by the thread named, and must not block; what is the device's own is
 * f->be->priv. Objects belong to the caller; the device hangs its own state on them (qp->soft) between create and
 * destroy. What moves WRs off this host are carriers (carrier.h).
 */
#ifndef FFR_FAST_BACKEND_H
#define FFR_FAST_BACKEND_H

#include "ffr/fast/carrier.h"
#include "ffr/fast/fast.h"

/* What became of a WR that was given to post_send. */
enum post_result {
	POST_SENT, /* the backend has a copy, qp->busy is false; comp_sent() follows some time */
	POST_DONE, /* comp_send() was called for it */
	POST_MORE, /* progress was made, more is to do: call progress() in the next turn */
	POST_WAIT, /* waits for a timer, a peer or a worker; the backend activates the QP */
};

/*
 * How a QP's WRs are carried out: qp->send, which the backend sets in qp_create, and anew when its way to
 * its peer becomes another one. [lock]
 */
struct send_ops {
	const char *name;			/* for operators: what carries them */
	const char *(*by)(const struct qp *qp); /* ... now, where that may become another; or NULL */
	enum post_result (*post)(struct fast *f, struct qp *qp); /* qp->wr, just fetched */
	enum post_result (*progress)(struct fast *f,
				     struct qp *qp); /* ... and not done: qp->busy */
};

struct remote;
struct wire_peer;
struct wire_io;
struct wire_hello;
struct backend_ops {
	/* control thread, before there are others, no lock */
	int (*open)(struct backend *be);
	void (*close)(struct backend *be);
	/* control thread */
	int (*qp_create)(struct fast *f, struct qp *qp);
	/* qp->attr and qp->state are new; old is the state before. Aborts the WR under way if need be. */
	void (*qp_modify)(struct fast *f, struct qp *qp, enum ibv_qp_state old);
	void (*qp_destroy)(struct fast *f, struct qp *qp);
	/* An XRC SRQ goes, to which QPs of its domain may be delivering. */
	void (*srq_destroy)(struct fast *f, struct srq *srq);
	/*
	 * Several fast threads (threads.c): the QP is to's from now on, and so is its container; a container has come,
	 * whom some may wait for.
	 */
	void (*qp_move)(struct fast *from, struct fast *to, struct qp *qp);
	void (*container_come)(struct fast *f);
	/* A container has left: forget resolutions that name it. */
	void (*container_gone)(struct fast *f, struct container *c);

	/* Other hosts: f is the first thread, which has the wires. The directory tells: a group's hosts have changed. */
	void (*mcast_changed)(struct fast *f, const char *tenant, const union ibv_gid *mgid);
	/*
	 * peer/, on the control thread: a handshake is done, and the stream is the device's. p->tcp is
	 * NULL before, p->generation is this one's. Frames of the peer may be in it
	 * already. 0, or -errno: then the stream stays the caller's, who closes it.
	 */
	int (*wire_attach)(struct fast *f, struct wire_peer *p, struct wire_io *io,
			   const struct wire_hello *theirs);
	/* Close the attached connection (p->tcp is set), as if it had been lost, but without peer_lost(). */
	void (*wire_detach)(struct fast *f, struct wire_peer *p, const char *why);

	/* Runner: receives were posted on a ring whose `need` was set. srq or qp is NULL. True: so many wait for
	 * them that it wants to be called once more, in the next turn. */
	bool (*recv_posted)(struct fast *f, struct qp *qp, struct srq *srq);
};

extern const struct backend_ops soft_ops;

#endif
