/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * soft.h - internals of the software device: what its files share.
 *
 * Path of a WR: backend_soft.c (ops) - requester.c (the WR's life: time-outs, RNR, errors) -
 * route.c (who is the peer) - responder.c (what the peer makes of it: access, receives) - xfer.c
 * (moving bytes). Everything [lock].
 */
#ifndef FFR_SOFT_H
#define FFR_SOFT_H

#include "../fast_int.h"
#include "../pvm.h"

#define SOFT_GRH_SZ 40u
#define SOFT_MTU    4096u /* bytes: the port's, and what a UD message may carry */

/* be->priv */
struct soft_dev {
	struct soft_list unreachable; /* requesters whose peer does not answer */
};

enum soft_phase {
	SOFT_IDLE,     /* no WR */
	SOFT_RUN,      /* progress is possible */
	SOFT_WAIT_RNR, /* the peer has no receive; timer or a posted receive goes on */
	SOFT_WAIT_ACK, /* the peer does not answer; timer or its arrival goes on */
};

/*
 * One side of a copy: a list of SGEs that the keys of one container translate, or plain bytes.
 * Positions in bytes from the start of the message.
 */
struct side {
	const struct ff_sge *sge;
	const uint8_t *bytes;  /* not NULL: here they are, all of them; sge unused */
	const uint8_t *prefix; /* source: prefix_len bytes before the others */
	uint32_t prefix_len;
	uint32_t num_sge;
	const struct key_table *keys;
	const struct pd *pd;
	uint32_t access; /* IBV_ACCESS_* that the MR must have */
};

struct soft_qp {
	struct qp *qp;
	/* as a requester */
	struct container *dest; /* of the path (UD: of the WR under way); NULL: not on this host */
	enum soft_phase phase;
	struct timer timer;
	uint8_t rnr_left, retry_left;
	LIST_ENTRY(soft_qp) waiting;
	bool is_waiting;    /* on a list of RNR waiters or of unreachable ones */
	struct qp *rx_peer; /* whose receive the message goes to, while it is under way */
	/* position of the copy under way */
	uint64_t done;		   /* bytes */
	uint32_t src_i, dst_i;	   /* SGE */
	uint64_t src_off, dst_off; /* bytes in it */
	struct pvm_call *call;	   /* copy through process memory under way, or NULL */
	uint32_t buf_off, buf_len; /* bytes of call->buf that are read but not written */
	bool call_pending, call_writes;
	uint64_t atomic_orig; /* value found; atomic_step tells whether it is there */
	uint8_t atomic_step;
	bool checked; /* the WR was admitted by the peer */
	bool matched; /* ... and has a receive there: rx_peer */
	uint8_t sl;   /* UD */
	uint8_t grh[SOFT_GRH_SZ];
	/* as a responder */
	struct soft_list rnr_waiters;
	struct recv_wr *rwr; /* receive taken for a message */
	bool has_recv;	     /* rwr is one */
	bool recv_bad;	     /* ... but malformed */
	struct qp *rx_from;  /* requester whose message it is receiving */
};

/* ---- route.c ---- */
/* The connected peer, ready to receive; NULL: it does not answer. */
struct qp *route_peer(struct fast *f, struct qp *qp);
/* Where an address handle leads; NULL: not on this host. */
struct container *route_ah(struct fast *f, const struct qp *qp, struct ah *ah);
/* Destination of the datagram under way, ready to receive, or NULL. */
struct qp *route_ud(struct fast *f, struct qp *qp);
void route_resolve(struct fast *f, struct qp *qp); /* qp->attr.ah has changed */

/* ---- responder.c ---- */
/* What a responder answers. */
enum answer {
	ANS_OK,
	ANS_RNR,	/* no receive is posted */
	ANS_INV_REQ,	/* NAK: invalid request */
	ANS_REM_ACCESS, /* NAK: remote access error */
	ANS_REM_OP,	/* NAK: remote operational error */
	ANS_DROP,	/* UC, UD: nothing */
};
/* May this WR be carried out at the peer? Before anything was moved. */
enum answer responder_admit(struct fast *f, struct qp *peer, const struct send_wr *wr);
/* Have a receive at hand, in soft->rwr. False: none is posted. */
bool responder_take(struct fast *f, struct qp *peer);
/* Match the WR with a receive of the peer's. ANS_OK: soft->rwr is it. */
enum answer responder_match(struct fast *f, struct qp *peer, struct qp *from);
/* The message has arrived: complete the receive. */
void responder_done(struct fast *f, struct qp *peer, struct qp *from);
/* The receive's own memory is at fault: it completes in error, and so does the QP. */
enum answer responder_fault(struct fast *f, struct qp *peer, enum ff_vendor_err why);
/* The request broke the peer's rules: event, QP in error. The same answer, or ANS_DROP for UC. */
enum answer responder_refuse(struct fast *f, struct qp *peer, enum answer a);
void responder_abort(struct qp *qp, struct fast *f, bool flush); /* the QP leaves RTR/RTS */

/* ---- xfer.c ---- */
enum xfer_result {
	XFER_DONE,
	XFER_MORE, /* quantum used up */
	XFER_WAIT, /* a worker moves bytes; the QP is activated when it has */
	XFER_GONE, /* the QP may not exist any more */
	XFER_SRC,  /* error at the source, the destination: *why */
	XFER_DST,
};
/* Go on with the QP's copy from soft->done to `total`. */
enum xfer_result xfer_run(struct fast *f, struct soft_qp *sq, const struct side *src,
			  const struct side *dst, uint64_t total, enum ff_vendor_err *why);
/* Are all SGEs of a side, up to `total` bytes, within MRs that grant the access? */
enum ff_vendor_err xfer_check(const struct side *s, uint64_t total);
/* One SGE: its MR and the application's address. */
enum ff_vendor_err xfer_resolve(const struct side *s, const struct ff_sge *sge, struct mr **mr,
				uint64_t *va);
/* Copy so that the last bytes are seen last: programs poll the end of a message. */
void xfer_copy(uint8_t *dst, const uint8_t *src, uint64_t n);
void xfer_reset(struct fast *f, struct soft_qp *sq);

/* ---- requester.c ---- */
enum post_result requester_start(struct fast *f, struct qp *qp);
enum post_result requester_run(struct fast *f, struct qp *qp);
void requester_abort(struct fast *f, struct qp *qp);
void requester_resume(struct fast *f, struct soft_qp *sq); /* what it waited for may be there */
void requester_timer(struct timer *t);
/* IBTA table 45: the RNR NAK timer field, ns */
uint64_t requester_rnr_ns(uint8_t field);

/* ---- atomic.c ---- */
/* Carry out the atomic at the peer. XFER_DONE: sq->atomic_orig is what was there. */
enum xfer_result atomic_run(struct fast *f, struct soft_qp *sq, const struct side *dst,
			    const struct ff_sge *at, enum ff_vendor_err *why);

#endif
