/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rig.h - the router's fast path in a test: containers, sessions and objects without sockets or
 * threads, virtual time, and a client's side of the rings.
 *
 * The "application" memory is the test's own, reached by mapping (rig_mr) or through
 * /proc/self/mem (rig_mr_pvm). Time stands still until rig_run() or rig_advance().
 */
#ifndef RIG_H
#define RIG_H

#include "ffr/fast/backend.h"
#include "ffr/fast/internal.h"
#include "ffr/fast/pvm.h"

struct rig_qp {
	struct qp qp;
	struct qp *peer;
	uint32_t sq_tail, rq_tail;
};

struct rig_cq {
	struct cq cq;
	uint32_t ci;
	int channel[2]; /* [0]: the client's end */
	struct channel chan;
};

struct rig_srq {
	struct srq srq;
	uint32_t tail;
};

struct rig_ses {
	struct session s;
	struct pd pd;
	int async; /* the client's end */
	int bell;  /* eventfd */
};

struct rig {
	struct backend be;
	struct fast *f; /* the first thread */
	struct container cont[4];
};

/* Fast threads of the rigs to come. Containers 0 and 2 begin on the first, 1 and 3 on the second. */
extern uint32_t rig_threads;
/* The carriers of the rigs to come; NULL: the wire, with the software device. */
extern const struct carrier_use *rig_carriers;
void rig_init(struct rig *r, const struct backend_ops *ops);
void rig_fini(struct rig *r);
/* A session in container 0 to 3, with a PD. */
struct rig_ses *rig_session(struct rig *r, int container);
void rig_session_free(struct rig *r, struct rig_ses *s);
struct rig_cq *rig_cq(struct rig *r, struct rig_ses *s, uint32_t depth, bool with_channel);
void rig_cq_free(struct rig *r, struct rig_cq *c);
struct rig_srq *rig_srq(struct rig *r, struct rig_ses *s, uint32_t depth);
void rig_srq_free(struct rig *r, struct rig_srq *q);
/* A QP of depth 16, 4 SGEs, 64 bytes inline, in RESET. Another depth for those to come: rig_depth. */
extern uint32_t rig_depth;
struct rig_qp *rig_qp(struct rig *r, struct rig_ses *s, enum ibv_qp_type type, struct rig_cq *scq,
		      struct rig_cq *rcq, struct rig_srq *srq);
/* The same, or NULL and *err, -errno: the backend has none to give. */
struct rig_qp *rig_qp_try(struct rig_ses *s, enum ibv_qp_type type, struct rig_cq *scq,
			  struct rig_cq *rcq, struct rig_srq *srq, int *err);
void rig_qp_free(struct rig *r, struct rig_qp *q);
/* A rig with one of each; the CQ has a channel or not. */
struct rig_one {
	struct rig r;
	struct rig_ses *s;
	struct rig_cq *cq;
	struct rig_qp *qp;
};
void rig_one_open(struct rig_one *o, const struct backend_ops *ops, enum ibv_qp_type type,
		  uint32_t cqe, bool with_channel);
void rig_one_close(struct rig_one *o);
/* Attributes of a connection to `to`, then INIT, RTR, RTS. */
void rig_connect(struct rig *r, struct rig_qp *q, struct rig_qp *to);
void rig_state(struct rig *r, struct rig_qp *q, enum ibv_qp_state st);
/* The same, or -errno: the backend refuses, and nothing has changed. */
int rig_state_try(struct rig_qp *q, enum ibv_qp_state st);
struct mr *rig_mr(struct rig *r, struct rig_ses *s, void *buf, uint64_t len, uint32_t access);
/* One whose bytes from va on are at those n places, in a row, each of that length. */
struct mr *rig_mr_runs(struct rig_ses *s, uint64_t va, uint8_t *const *host, const uint64_t *len,
		       unsigned n, uint32_t access);
struct mr *rig_mr_pvm(struct rig *r, struct rig_ses *s, void *buf, uint64_t len, uint32_t access);
void rig_mr_free(struct rig *r, struct mr *mr);

/* The client's side. post: fills the SQE and makes it valid, without a doorbell but activating. */
struct ff_sqe *rig_sqe(struct rig_qp *q, uint8_t opcode, uint64_t wr_id);
void rig_sge(struct ff_sqe *e, const struct mr *mr, uint64_t addr, uint32_t len);
void rig_post(struct rig *r, struct rig_qp *q);
/* As the library does it: a WRITE of nothing, then the doorbell only if it is asked for. Did it ring? */
bool rig_post_as_ffl(struct rig_one *o, uint64_t wr_id);
void rig_recv(struct rig *r, struct rig_qp *q, uint64_t wr_id, const struct mr *mr, uint64_t addr,
	      uint32_t len);
void rig_srq_recv(struct rig *r, struct rig_srq *q, uint64_t wr_id, const struct mr *mr,
		  uint64_t addr, uint32_t len);
/* The next CQE, if there is one. */
bool rig_poll(struct rig_cq *c, struct ff_cqe *out);
/* Next asynchronous event, 0: none (they are numbered from 0: returns type + 1). */
int rig_async(struct rig_ses *s, uint32_t *handle);

/* Turns of all fast threads until they find no work. */
void rig_run(struct rig *r);
/* The clock, then rig_run(). */
void rig_advance(struct rig *r, uint64_t ns);

#endif
