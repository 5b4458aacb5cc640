/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * carrier.h - what moves WRs off this host: the wire, RapidIO, a NIC.
 *
 * The software device (soft/) has the objects, states and errors, and copies between containers of this host. A carrier
 * brings the frames of QPs to other hosts, or takes QPs over whole, as a NIC does. ffr/carriers.c has the list of
 * carriers and chooses from the list what the configuration names; each thread's struct backend has the chosen ones.
 * Each carrier is in a folder of its own, but for the wire: its struct carrier is in remote/remote.c, because remote/
 * knows what frames mean. docs/internals/carrier.md tells how to add one.
 *
 * An op that is NULL does nothing. A carrier hangs its own state on the object (mr->backend, qp->nic), so at most one
 * chosen carrier has `make`, and at most one sets wire_dev.by.
 */
#ifndef FFR_FAST_CARRIER_H
#define FFR_FAST_CARRIER_H

#include "ffr/fast/fast.h"

struct remote;
struct ucma_ops;

/* Something that a carrier counts, for operators: metrics have these names. */
struct carrier_counter {
	const char *name, *help; /* help NULL: the name says it */
	bool gauge;		 /* the value may fall */
	uint64_t value;
};
#define CARRIER_COUNTERS 16u

/* The caller of an op that takes long, who waits for done(). The memory is the caller's. */
struct carrier_later {
	void (*done)(struct carrier_later *l, int err); /* by the control thread, from work() */
};

struct carrier {
	const char *name;
	const struct ucma_ops *ucma; /* rdma_cm beyond freeflow's hosts: ucma.h. NULL: none */
	bool locks; /* it has clients' memory locked: the router raises RLIMIT_MEMLOCK */

	/*
	 * Control thread, before there are other threads; once for each fast thread. conf: the carrier's own
	 * configuration. 0 or -errno.
	 */
	int (*open)(struct fast *f, const void *conf);
	void (*close)(struct fast *f);
	/* The runner's thread, before its sandbox and its first turn. 0, or -errno with a line in the log. */
	int (*start)(struct fast *f);
	/* Control thread: the runner has ended; end the carrier's own threads. */
	void (*stop)(struct fast *f);

	/* ---- control thread, no lock: these may take long ------------------------------------------------- */
	/* Take away from *dev what programs cannot have. */
	void (*describe)(struct fast *f, struct ff_query_device_resp *dev);
	/*
	 * Make the carrier's part of an MR or a QP, before anybody knows the object; end the carrier's part of an MR,
	 * QP, PD or SRQ, when nobody knows the object any more. An MR has its pages already. The op may give an MR its
	 * keys and a QP its number: programs tell these to their peers, so a carrier that moves WRs by the device's own
	 * keys must give them. 0 or -errno. With `l`, which is only for MRs: 1 if the op takes long; l->done() follows,
	 * and until then the caller keeps the MR, its PD and its pages. Otherwise 0, and the op has done nothing: call
	 * it without `l`.
	 */
	int (*make)(struct fast *f, enum obj_kind kind, struct obj *o, struct carrier_later *l);
	int (*end)(struct fast *f, enum obj_kind kind, struct obj *o, struct carrier_later *l);
	/*
	 * The QP is about to go from state `now` to state `next`, which is allowed, with these attributes. 0; or
	 * -errno: the QP keeps its state and attributes.
	 */
	int (*prepare)(struct fast *f, struct qp *qp, const struct ff_qp_attr *attr,
		       enum ibv_qp_state now, enum ibv_qp_state next);
	/* The program says that it will use this range of an on-demand MR soon; the range is inside the MR. */
	void (*advise)(struct fast *f, struct mr *mr, const struct ff_advise_mr_req *req);
	/* Call done() of the ops that have ended: after host->work_wake(), or before an answer. all: wait for each. */
	void (*work)(struct fast *f, bool all);

	/* ---- [lock] --------------------------------------------------------------------------------------- */
	/* Control thread; f is the first fast thread. The number of counters in `list`. */
	size_t (*counters)(struct fast *f, struct carrier_counter list[CARRIER_COUNTERS]);
	/*
	 * The QP's state and attributes are new; `old` is the state before. True: the carrier has the QP, and the
	 * software device does nothing. Control thread, after prepare(). ERR and SQE also come without prepare(), from
	 * the runner or the control thread (fast_qp_error(), qp_send_failed()). What has to wait is for work().
	 */
	bool (*claim)(struct fast *f, struct qp *qp, enum ibv_qp_state old);
	void (*forget)(struct fast *f, struct qp *qp); /* control thread: the QP ends */
	/*
	 * The directory tells, on any thread, that a container of another host has changed (epoch, host, up, mappings);
	 * r NULL: the policy has changed. f is the first fast thread. The op may ask the directory, and must not wait.
	 */
	void (*news)(struct fast *f, struct remote *r);

	/* ---- [lock], runner ------------------------------------------------------------------------------- */
	/*
	 * Receives were posted; srq or qp is NULL. A QP's are told before the software device looks, an SRQ's
	 * afterwards. True: the QP is the carrier's, and the software device does nothing.
	 */
	bool (*recv)(struct fast *f, struct qp *qp, struct srq *srq);
	/* At the start of a turn: take what has come in. The number of events. */
	uint32_t (*poll)(struct fast *f);
	/* At the end of a turn: send what goes out. The number of events. */
	uint32_t (*flush)(struct fast *f);
	/* Before the runner sleeps: have epoll tell of what comes. True: something has come already. */
	bool (*arm)(struct fast *f);
	/* epoll reports `what`, of fast_watch(), which may be gone. True: `what` is the carrier's. */
	bool (*ready)(struct fast *f, void *what, uint32_t events);
};

/* A carrier that the configuration has chosen. A list of them ends with ops NULL. */
struct carrier_use {
	const struct carrier *ops;
	const void *conf;
};

struct backend_ops;
struct wire_dev;

/* A fast thread's software device (backend.h), and the carriers beside it. */
struct backend {
	const struct backend_ops *ops;
	struct fast *f;
	void *priv;
	struct wire_dev *wire; /* the frames to other hosts; wire/wire.h. NULL before open() */
	const struct carrier_use *carriers; /* of this host; NULL: none */
	uint32_t num_open;		    /* how many of the carriers are open */
};

#define CARRIER_FOREACH(u, f)                                                                      \
	for (const struct carrier_use *u = (f)->be->carriers; u && u->ops; u++)
/* Call `op` of each carrier that has it. */
#define CARRIERS_DO(op, f, ...)                                                                    \
	CARRIER_FOREACH(u_, f)                                                                     \
		if (u_->ops->op)                                                                   \
	u_->ops->op(f, ##__VA_ARGS__)
/* The first answer that is not 0, or 0; the carriers behind that one are not asked. */
#define CARRIERS_FIRST(op, f, ...)                                                                 \
	({                                                                                         \
		int first_ = 0;                                                                    \
		CARRIER_FOREACH(u_, f)                                                             \
			if (!first_ && u_->ops->op)                                                \
				first_ = u_->ops->op(f, ##__VA_ARGS__);                            \
		first_;                                                                            \
	})
#define CARRIERS_SUM(op, f)                                                                        \
	({                                                                                         \
		uint32_t sum_ = 0;                                                                 \
		CARRIER_FOREACH(u_, f)                                                             \
			if (u_->ops->op)                                                           \
				sum_ += u_->ops->op(f);                                            \
		sum_;                                                                              \
	})

/* Does a carrier make objects of its own, so that pages have to be there when an MR is registered? */
static inline bool carriers_make_objects(const struct fast *f)
{
	CARRIER_FOREACH(u, f)
		if (u->ops->make)
			return true;
	return false;
}

static inline const struct ucma_ops *carriers_ucma(const struct fast *f)
{
	CARRIER_FOREACH(u, f)
		if (u->ops->ucma)
			return u->ops->ucma;
	return NULL;
}

#endif
