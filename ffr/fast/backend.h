/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * backend.h - what carries out verbs: the software device (soft), a NIC, RapidIO, a test's fake.
 *
 * Found by name with backend_find() (ffr/backend.c). Every op, but for those that say so, is called with the fast lock held, by
 * the thread named, and must not block; what is the backend's own is f->be->priv. Objects belong to
 * the caller; a backend hangs its own state on them (mr->backend, qp->soft) between create and destroy.
 */
#ifndef FFR_FAST_BACKEND_H
#define FFR_FAST_BACKEND_H

#include "ffr/fast/fast.h"

struct backend {
	const struct backend_ops *ops;
	struct fast *f;
	void *priv;
	const void *conf; /* the first thread's: what the backend calls its configuration, or NULL */
};

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

/* Who waits for what takes long; the waiter's memory. */
struct backend_later {
	void (*done)(struct backend_later *l, int err); /* by the control thread, from work() */
};

/* Something of its own that a backend counts, for operators: metrics have these names. */
struct backend_counter {
	const char *name, *help;
	bool gauge; /* it may become less */
	uint64_t value;
};
#define BACKEND_COUNTERS 16u

struct remote;
struct ucma_ops;
struct wire_peer;
struct wire_io;
struct wire_hello;
struct backend_ops {
	const char *name;
	const struct ucma_ops
		*ucma; /* rdma_cm beyond freeflow's hosts: ucma.h. NULL: there is none */

	/* control thread, before there are others */
	int (*open)(struct backend *be);
	void (*close)(struct backend *be);
	/* The runner's thread, before it is confined and before its first turn; no lock. 0 or -errno with a line
	 * in the log. NULL: nothing. */
	int (*start)(struct backend *be);
	/* control thread, no lock: the runner has ended, and so do threads of the backend's. NULL: nothing */
	void (*stop)(struct backend *be);
	void (*query)(struct backend *be, struct ff_query_device_resp *dev);
	/*
	 * The same without the lock, since it may take long: what the object is elsewhere than in the router,
	 * made before anybody knows it, and given back when nobody does any more. An MR has its pages, and may
	 * be given the number that its keys are to be; a QP likewise its own. 0 or -errno. NULL: nothing.
	 */
	int (*mr_make)(struct backend *be, struct mr *mr);
	void (*mr_break)(struct backend *be, struct mr *mr);
	/* On-demand memory is to be used soon, as the program says; its range is the MR's. No answer. NULL: nothing. */
	void (*mr_advise)(struct backend *be, struct mr *mr, const struct ff_advise_mr_req *req);
	/*
	 * The same of an MR that keeps this thread too long: true, and l->done() follows; until then the MR, its PD
	 * and its pages stay. False: nothing was done, call the one above. NULL: never.
	 */
	bool (*mr_make_later)(struct backend *be, struct mr *mr, struct backend_later *l);
	bool (*mr_break_later)(struct backend *be, struct mr *mr, struct backend_later *l);
	/* Wait until done() was called for all of them. NULL: there are none. */
	void (*settle)(struct backend *be);
	int (*qp_make)(struct backend *be, struct qp *qp);
	void (*qp_break)(struct backend *be, struct qp *qp);
	void (*pd_break)(struct backend *be, struct pd *pd);
	void (*srq_break)(struct backend *be, struct srq *srq);
	/* The QP, in state `now`, is about to get these attributes and that state, which is allowed. 0; or
	 * -errno: it keeps what it has. */
	int (*qp_prepare)(struct backend *be, struct qp *qp, const struct ff_qp_attr *attr,
			  enum ibv_qp_state now, enum ibv_qp_state next);
	/* [lock] What it counts, first thread: how many there are, at most BACKEND_COUNTERS. NULL: nothing. */
	size_t (*counters)(struct backend *be, struct backend_counter list[BACKEND_COUNTERS]);
	/* host->work_wake() was called, or a client's call is about to be answered. */
	void (*work)(struct backend *be);
	/* With it: */
	int (*mr_reg)(struct fast *f, struct mr *mr);
	void (*mr_dereg)(struct fast *f, struct mr *mr);
	int (*cq_create)(struct fast *f, struct cq *cq);
	void (*cq_destroy)(struct fast *f, struct cq *cq);
	int (*qp_create)(struct fast *f, struct qp *qp);
	/* qp->attr and qp->state are new; old is the state before. Aborts the WR under way if need be. */
	void (*qp_modify)(struct fast *f, struct qp *qp, enum ibv_qp_state old);
	void (*qp_destroy)(struct fast *f, struct qp *qp);
	/* The UD QP gets what is sent to that multicast GID, or no more. NULL: not supported. */
	int (*mcast_attach)(struct fast *f, struct qp *qp, const union ibv_gid *gid, uint16_t lid);
	int (*mcast_detach)(struct fast *f, struct qp *qp, const union ibv_gid *gid, uint16_t lid);
	/* An XRC SRQ goes, to which QPs of its domain may be delivering. */
	void (*srq_destroy)(struct fast *f, struct srq *srq);
	/*
	 * Several fast threads (threads.c): the container here that the QP works with or NULL; the
	 * QP is to's from now on, and so is its container; one has come, whom some may wait for.
	 */
	struct container *(*qp_peer)(const struct qp *qp);
	void (*qp_move)(struct fast *from, struct fast *to, struct qp *qp);
	void (*container_come)(struct fast *f);
	/* A container has left: forget resolutions that name it. */
	void (*container_gone)(struct fast *f, struct container *c);

	/*
	 * Other hosts: f is the first thread, which has the wires; these five are always there. The
	 * directory tells, on any thread: something of that container of another host has changed (epoch,
	 * host, up, mappings); the policy has; a group's hosts have. The op may ask the directory.
	 */
	void (*remote_changed)(struct fast *f, struct remote *r);
	void (*policy_changed)(struct fast *f);
	void (*mcast_changed)(struct fast *f, const char *tenant, const union ibv_gid *mgid);
	/*
	 * peer/, on the control thread: a handshake is done, and the stream is the backend's. p->tcp is
	 * NULL before, p->generation is this one's. Frames of the peer may be in it
	 * already. 0, or -errno: then the stream stays the caller's, who closes it.
	 */
	int (*wire_attach)(struct fast *f, struct wire_peer *p, struct wire_io *io,
			   const struct wire_hello *theirs);
	/* What an attached peer has told of its NIC is in p->nic_told and behind. NULL: nobody asks. */
	void (*peer_told)(struct fast *f, struct wire_peer *p);
	/* Close the attached connection (p->tcp is set), as if it had been lost, but without peer_lost(). */
	void (*wire_detach)(struct fast *f, struct wire_peer *p, const char *why);

	/* runner; how WRs are carried out is each QP's: struct send_ops */
	/* Receives were posted on a ring whose `need` was set. srq or qp is NULL. True: so many wait for
	 * them that it wants to be called once more, in the next turn. */
	bool (*recv_posted)(struct fast *f, struct qp *qp, struct srq *srq);
	/* Start of a turn: work that no QP of ours started (a wire, a NIC's CQ). Number of events. */
	uint32_t (*poll)(struct fast *f);
	/* Its end: what the QPs have for others goes out. Likewise; NULL: nothing does. */
	uint32_t (*flush)(struct fast *f);
	/* Before the runner sleeps: have epoll told of what comes. True: nothing has come. NULL: nothing does. */
	bool (*arm)(struct fast *f);
	/* epoll tells of what the backend put into fast->epoll_fd with FAST_EPOLL_BACKEND. */
	void (*ready)(struct fast *f, void *what, uint32_t events);
};

extern const struct backend_ops soft_ops;
const struct backend_ops *verbs_ops(void); /* made of soft_ops' and its own */
/* That of ffr.conf's `backend`, or NULL; ffr/backend.c */
const struct backend_ops *backend_find(const char *name);

#endif
