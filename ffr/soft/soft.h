/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * soft.h - internals of the software device: what its files share. Everything [lock].
 *
 * Who carries a QP's WRs out is chosen once, and stands in qp->send (fast/backend.h): local.c, between
 * connected QPs of this host, from the beginning; remote/req.c when the path turned out to lead to another
 * host (remote_open()); ud.c for UD QPs, where each datagram's way is chosen when it is posted. What is the
 * same for all of them is in requester.c; what a receiving QP makes of a request, wherever that comes from,
 * in responder.c; the moving of bytes in xfer.c.
 *
 * The room ffr/soft/ is the software device: objects, their states, the rules of InfiniBand. It may use fast/, mem/,
 * peer/, dir/ and wire/, and is known by soft_ops. QPs and datagrams whose other end is on another host are in
 * remote/, which uses this header and is used here (tests/lint/rooms). Runners; the control thread, by the lock, makes,
 * changes and ends objects.
 */
#ifndef FFR_SOFT_SOFT_H
#define FFR_SOFT_SOFT_H

#include "ffr/abi/ff_verbs.h"
#include "ffr/dir/dir.h"
#include "ffr/fast/internal.h"
#include "ffr/fast/pvm.h"
#include "ffr/mem/shadow.h"
#include "ffr/soft/copy.h"
#include "ffr/remote/runs.h"
#include "ffr/wire/wire.h"

#define SOFT_GRH_SZ 40u
/* Attachments of a container's QPs to multicast groups: in all, and to one group. */
#define MCAST_MAX_CONTAINER 4096u
#define MCAST_MAX_GROUP	    256u
#define SOFT_MTU	    4096u /* bytes: the port's, and what a UD message may carry */

/* Multicast groups of all tenants (mcast.c). */
struct mcast_table {
	struct mcast_group *groups;
	uint64_t salt;	   /* part of each key, so that nobody can choose where a group is kept */
	uint64_t last_seq; /* of attachments */
};
LIST_HEAD(mcast_list, mcast_member);

STAILQ_HEAD(cm_frames, cm_frame);
#define RUNS_FRAMES 64u
TAILQ_HEAD(ud_list, ud_held);
TAILQ_HEAD(late_list, ud_late);

/* be->priv */
struct soft_dev {
	struct mcast_table mcast;
	struct soft_list unreachable; /* requesters whose peer does not answer */
	struct wire_dev wire;
	LIST_HEAD(, remote_qp) stalled; /* that wait for memory behind a process */
	struct ud_list held;		/* datagrams whose sender is not known yet */
	struct ud_list known;		/* ... is known now: the next turn delivers them */
	uint32_t num_held;		/* of both */
	struct soft_list late;		/* QPs for which datagrams of other hosts wait */
	uint64_t late_bytes;
	struct cm_frames cm_in, cm_out; /* remote/cm.c */
	uint32_t num_cm;
	uint32_t cm_changes; /* connections that ended or began */
	struct runs_frame
		runs[RUNS_FRAMES]; /* remote/runs.c: that wait for the control thread, oldest first */
	uint32_t num_runs;
	/* A NIC takes a datagram of the container for that host, with its GRH; or does not (false). NULL: there is none */
	bool (*ud_carry)(const struct container *c, struct wire_peer *p, const struct wire_hdr *h,
			 const void *payload);
	uint64_t random;
};

/* How far a QP's WR is. Waiting, it goes on with REQ_NEW. */
enum req_state {
	REQ_IDLE,     /* there is none under way */
	REQ_NEW,      /* its peer is to be looked for, and asked */
	REQ_ADMITTED, /* the peer lets it be carried out: bytes move */
	REQ_MATCHED,  /* the same, and it has a receive of req.peer's */
	REQ_WAIT_RNR, /* the peer has no receive: timer, or one is posted */
	REQ_WAIT_ACK, /* nobody answers: timer, or somebody comes */
	REQ_WAIT_WIN, /* as many as may be are under way to another host: one is done */
};

/*
 * One side of a copy: a list of SGEs that the keys of one container translate, or plain bytes.
 * Positions in bytes from the start of the message.
 */
struct side {
	const struct ff_sge *sge;
	const uint8_t *bytes;  /* not NULL: here they are, all of them; sge unused. Also of a
				* destination, then they are written to. */
	const uint8_t *prefix; /* source: prefix_len bytes before the others */
	uint32_t prefix_len;
	uint32_t num_sge;
	const struct key_table *keys;
	const struct pd *pd;
	const struct qp *qp; /* remote access: that received the request */
	uint32_t access;     /* IBV_ACCESS_* that the MR must have */
};

/* A copy from one side to another, or an atomic: how far it is. */
struct xfer {
	struct qp *qp;		   /* on whose behalf */
	uint64_t done;		   /* bytes */
	uint64_t limit;		   /* as far as it may go now; 0: nothing limits it */
	uint32_t src_i, dst_i;	   /* SGE */
	uint64_t src_off, dst_off; /* bytes in it */
	struct pvm_call *call;	   /* copy through process memory under way, or NULL */
	struct pvm_wait wait;	   /* ... or for room for one */
	uint32_t buf_off, buf_len; /* bytes of call->buf that are read but not written */
	bool call_pending, call_writes;
	uint8_t atomic_step;
	uint64_t atomic_orig; /* value found; atomic_step tells whether it is there */
};

/* A QP as one that sends; requester.c */
struct requester {
	enum req_state state;
	uint8_t rnr_left, retry_left;
	bool is_waiting; /* `waiting` is on a list of RNR waiters, or of unreachable ones */
	LIST_ENTRY(soft_qp) waiting;
	struct timer timer;
	struct qp *peer; /* REQ_MATCHED: whose receive the message goes to; its resp.from */
	struct xfer x;	 /* the copy under way */
};

/* The receive that a QP has at hand for the next message, or the one that is coming in. */
enum recv_state {
	RECV_NONE,
	RECV_TAKEN,
	RECV_BAD, /* it is malformed */
};

/* ... as one that receives; responder.c */
struct responder {
	enum recv_state recv;
	struct recv_wr *rwr;	      /* of RECV_TAKEN; memory is kept */
	struct qp *from;	      /* of this host: whose message is coming in */
	struct soft_list rnr_waiters; /* requesters that wait for a receive */
	struct xfer from_wire;	      /* UD: a datagram of another host, put into it */
	bool is_late;		      /* ... waits for memory behind a process; on soft_dev.late */
	LIST_ENTRY(soft_qp) late_entry;
	struct late_list late; /* the datagrams; remote/ud.c */
	uint64_t late_bytes;
};

/* Where the datagram under way goes to. */
enum ud_way {
	UD_HERE,  /* a container of this host: qp.dest */
	UD_AWAY,  /* another host, or somebody who is not known yet: soft_qp.there */
	UD_GROUP, /* a multicast group: mcast.c */
};

/* UD: the datagram under way; ud.c */
struct soft_ud {
	enum ud_way way;
	bool paid;  /* UD_AWAY: the limits have let it through */
	uint8_t sl; /* of the receiver's completion: what grh[] is */
	uint8_t grh[SOFT_GRH_SZ];
	uint64_t give_up;	/* UD_AWAY, ns: when it has waited for long enough */
	struct ff_ah_attr path; /* UD_AWAY */
	uint8_t *gathered;	/* UD_AWAY, UD_GROUP: SOFT_GRH_SZ + SOFT_MTU bytes; kept */
};

/* How far a message for a group is. */
enum mcast_step {
	MCAST_NONE,
	MCAST_PAY,    /* the limits are to let it through */
	MCAST_HERE,   /* members on this host have it one after the other */
	MCAST_OTHERS, /* they all had it: the other hosts */
	MCAST_ASKED,  /* ... which are not known, or not connected yet */
};

/* UD: groups that the QP is in, and its own message; mcast.c */
struct soft_mcast {
	struct mcast_list groups;
	enum mcast_step step;
	union ibv_gid gid;
	uint64_t seq;	  /* attachments up to this one have had their turn */
	uint64_t end;	  /* those made later than this one have none */
	uint64_t give_up; /* ns: when the receiver under way has lost its turn */
};

/* qp->soft */
struct soft_qp {
	struct qp *qp;
	struct remote *
		there; /* of the path, or of the datagram: on another host, or who is to be waited for; a reference */
	struct remote_qp *rem; /* connected to a QP on another host; NULL: not, or not yet */
	uint32_t met; /* not ours (route_is_ours()): the container whose QP has sent it a frame nevertheless; 0: nobody */
	struct copy_how copy;
	struct requester req;
	struct responder resp;
	struct soft_ud ud;
	struct soft_mcast mcast;
};

/* The right to the peer's memory that an operation needs: one of IBV_ACCESS_REMOTE_*, or none. That of a
 * FLUSH is its WR's, ff_flush_access(). */
static inline uint32_t op_remote_access(uint8_t opcode)
{
	switch (opcode) {
	case FF_OP_WRITE:
	case FF_OP_WRITE_IMM:
	case FF_OP_ATOMIC_WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	case FF_OP_READ:
		return IBV_ACCESS_REMOTE_READ;
	case FF_OP_CMP_SWAP:
	case FF_OP_FETCH_ADD:
		return IBV_ACCESS_REMOTE_ATOMIC;
	default:
		return 0;
	}
}

/* Does it take a receive of the peer's? */
static inline bool op_takes_recv(uint8_t opcode)
{
	return ff_op_sends(opcode) || opcode == FF_OP_WRITE_IMM;
}

/* The local memory of the WR under way. */
static inline struct side side_of_wr(const struct qp *qp, uint32_t access)
{
	const struct send_wr *wr = qp->wr;

	return (struct side){
		.sge = wr->sge,
		.num_sge = wr->num_sge,
		.bytes = wr->flags & FF_SQE_INLINE ? wr->inl : NULL,
		.keys = &qp->o.ses->cont->keys,
		.pd = qp->pd,
		.access = access,
	};
}

/* The receive that the peer has at hand. */
static inline struct side side_of_recv(const struct qp *peer)
{
	const struct recv_wr *rwr = peer->soft->resp.rwr;

	return (struct side){
		.sge = rwr->sge,
		.num_sge = rwr->num_sge,
		.keys = &peer->o.ses->cont->keys,
		.pd = peer->pd,
		.access = IBV_ACCESS_LOCAL_WRITE,
	};
}

/* ---- backend.c ---- */
/* The device that programs see, before carriers and limits take of it. */
void soft_describe(struct ff_query_device_resp *d);
/* The QP's state and attributes are new, `old` is the state before, and no other carrier has it. */
void soft_qp_follow(struct fast *f, struct qp *qp, enum ibv_qp_state old);
/* Receives of the SRQ are there. True: call it once more, in the next turn. */
bool soft_srq_posted(struct fast *f, struct srq *srq);

/* ---- route.c ---- */
/* Is it one that this thread has to do with? */
static inline bool qp_is_on(const struct qp *qp, const struct fast *f)
{
	return qp->soft && qp->o.ses->fast == f;
}
/* The QP of that number that the container with that id (the orchestrator's) has, if it is such a one. */
static inline struct qp *qp_here(struct fast *f, uint32_t cont, uint32_t num)
{
	for (uint8_t i = 0; !i || i < f->host->num_nics; i++) {
		struct qp *qp = qp_by_num(&f->host->qps, i, num);

		if (qp && qp_is_on(qp, f) && qp->o.ses->cont->id == cont)
			return qp;
	}
	return NULL;
}
/*
 * Does it receive messages: is it in such a state, and its program alive? That it has died, a copy may find out before
 * the session's socket tells, which a child may also keep open.
 */
static inline bool route_receives(const struct qp *qp)
{
	return (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
		qp->state == IBV_QPS_SQE) &&
	       !qp->o.ses->mem_gone;
}
/*
 * Whom a path leads to, as dir_path() has it. A container on another fast thread is to be waited for:
 * the control thread brings the two together (fast/threads.c), and wakes those who wait.
 */
enum dir_answer route_path(struct fast *f, struct container *from, const struct ff_ah_attr *ah,
			   struct container **here, struct remote **there);
void route_resolve(struct fast *f, struct qp *qp); /* qp->attr.ah has changed */
/* Is the connected QP carried out here or by the wire? Not one that another carrier has, or may get. */
bool route_is_ours(const struct qp *qp);
void route_forget(struct fast *f, struct qp *qp);
void route_set(struct fast *f, struct qp *qp, struct remote *there); /* with a reference; or NULL */
/* Is the other end of the path on another host? */
static inline bool route_is_remote(const struct qp *qp)
{
	return qp->soft->rem || (qp->soft->there && qp->soft->there->epoch);
}

/* ---- local.c ---- */
extern const struct send_ops local_send;
/* The QP has begun to answer, or does not any more: who waits for it looks again. */
void local_wake_peer(struct fast *f, const struct qp *qp);

/* ---- ud.c ---- */
extern const struct send_ops ud_send;
/* RoCE v2: what a completion's SL says of that header, which a NIC has put before a datagram. */
uint8_t ud_sl_of(const uint8_t grh[SOFT_GRH_SZ]);
/* The Q_Key of the datagram under way: one with the high bit set stands for the QP's own (IBTA 10.2.5). */
static inline uint32_t ud_qkey(const struct qp *qp)
{
	return qp->wr->remote_qkey & 0x80000000u ? qp->attr.qkey : qp->wr->remote_qkey;
}

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
/* Does the QP let its peer do that at all (IBTA 9.7.4.1.4)? access: the right that it needs. */
static inline bool responder_enables(const struct qp *peer, uint8_t opcode, uint32_t access)
{
	return (peer->attr.qp_access_flags & access) == access &&
	       (!ff_op_fetches(opcode) || peer->attr.max_dest_rd_atomic);
}
/* Does the message not fit in the receive at hand? */
static inline bool responder_too_long(const struct qp *peer, uint8_t opcode, uint64_t length)
{
	/* an RDMA WRITE with immediate leaves the receive's memory alone */
	return opcode != FF_OP_WRITE_IMM &&
	       peer->soft->resp.rwr->length < length + (peer->type == IBV_QPT_UD ? SOFT_GRH_SZ : 0);
}
/* May this WR be carried out at the peer? Before anything was moved. */
enum answer responder_admit(struct fast *f, struct qp *peer, const struct send_wr *wr);
/* FLUSH: what its QP wrote before is where it belongs, as that WR asks. False: it has no right to that. */
bool responder_flush(struct qp *peer, const struct send_wr *wr);
/* Have a receive at hand, in resp.rwr. False: none is posted. */
bool responder_take(struct fast *f, struct qp *peer);
/* Is there a receive that the message fits in? If not, why; nothing has come of that yet. */
enum answer responder_fits(struct fast *f, struct qp *peer, const struct send_wr *wr);
/* The same, and what follows from it. ANS_OK: resp.rwr is it. */
enum answer responder_recv(struct fast *f, struct qp *peer, const struct send_wr *wr);
/* The same for the WR under way of a QP of this host, which it stays with. */
enum answer responder_match(struct fast *f, struct qp *peer, struct qp *from);
/* UD: has another datagram come in in part, the rest of which does not keep from's for long? */
bool responder_soon(const struct qp *peer, const struct qp *from);
/*
 * SEND with invalidate: do that, before the completion, so that who sees it finds the window free
 * (IBTA 10.6.7.2.5). False: its rkey is none that it may invalidate; nothing is done.
 */
bool responder_invalidate(struct qp *peer, const struct send_wr *wr);
/* The message has arrived: complete the receive that it was matched with. */
void responder_done(struct fast *f, struct qp *peer, struct qp *from);
/* Where a message comes from. */
struct origin {
	const struct send_wr *wr; /* no more than its head is looked at */
	uint32_t qp_num;
	uint16_t lid;
	uint8_t sl;
};
void responder_complete(struct fast *f, struct qp *peer, const struct origin *o);
/* The receive's own memory is at fault: it completes in error, and so does the QP. */
enum answer responder_fault(struct fast *f, struct qp *peer, enum ff_vendor_err why);
/* The request broke the peer's rules: event, QP in error. The same answer, or ANS_DROP for UC. */
enum answer responder_refuse(struct fast *f, struct qp *peer, enum answer a);
void responder_abort(struct qp *qp, struct fast *f, bool flush); /* the QP leaves RTR/RTS */

/* ---- xfer.c ---- */
enum xfer_result {
	XFER_DONE,
	XFER_MORE, /* quantum used up */
	XFER_NEXT, /* a call was submitted, which the runner makes before its next turn; the QP is activated */
	XFER_WAIT, /* the same, but a worker makes it */
	XFER_SRC,  /* error at the source, the destination: *why */
	XFER_DST,
};
#define ACCESS_REMOTE                                                                              \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |             \
	 FF_ACCESS_FLUSH)
/* May that part of the MR be reached so, by a QP of that PD? mr may be NULL: there is no such key. */
static inline enum ff_vendor_err xfer_reach(const struct mr *mr, const struct pd *pd, uint64_t addr,
					    uint64_t len, uint32_t access)
{
	bool remote = access & ACCESS_REMOTE;

	if (!mr || mr->pd != pd || shadow_gone(mr))
		return remote ? FF_VERR_RKEY : FF_VERR_LKEY;
	if (addr - mr->iova > mr->length || len > mr->length - (addr - mr->iova))
		return remote ? FF_VERR_RKEY_BOUNDS : FF_VERR_LKEY_BOUNDS;
	if ((mr->access & access) != access)
		return remote ? FF_VERR_RKEY_ACCESS : FF_VERR_LKEY_ACCESS;
	return FF_VERR_NONE;
}
/* Go on with the copy from x->done to `total`. */
enum xfer_result xfer_run(struct fast *f, struct xfer *x, const struct side *src,
			  const struct side *dst, uint64_t total, enum ff_vendor_err *why);
/*
 * Where bytes [off, off + len) of a side are, as far as pointers reach: iovs, at most max, and their
 * bytes in *bytes. 0: the first is not reached by a pointer; *bytes of it are likewise. -1: *why.
 */
int xfer_iov(const struct side *s, uint64_t off, uint64_t len, struct iovec *iov, int max,
	     uint64_t *bytes, enum ff_vendor_err *why);
/*
 * Write *len bytes to a side from off on, for x->qp; *len becomes the number of those that are there. XFER_MORE,
 * XFER_NEXT: again in the next turn, with the rest of them. XFER_WAIT: likewise, or xfer_reset(). Else x is
 * where it was.
 */
enum xfer_result xfer_put(struct fast *f, struct xfer *x, const struct side *dst, uint64_t off,
			  const uint8_t *buf, uint64_t *len, enum ff_vendor_err *why);
/* Have up to PVM_MAX bytes from `off` on that no pointer reaches read into x->call->buf. DONE: x->buf_len of them are
 * there. MORE, NEXT or WAIT, or it fails. */
enum xfer_result xfer_get(struct fast *f, struct xfer *x, const struct side *src, uint64_t off,
			  uint64_t len, enum ff_vendor_err *why);
/* How a call that was submitted, or waits for room, goes on: XFER_NEXT, XFER_WAIT. */
enum xfer_result xfer_submitted(const struct xfer *x);
/* Is what was submitted not there yet, or does it wait to be? */
static inline bool xfer_is_busy(const struct xfer *x)
{
	return x->wait.q || (x->call && x->call->busy);
}
/* Are all SGEs of a side, up to `total` bytes, within MRs that grant the access? */
enum ff_vendor_err xfer_check(const struct side *s, uint64_t total);
/* One SGE: its MR and the application's address. */
enum ff_vendor_err xfer_resolve(const struct side *s, const struct ff_sge *sge, struct mr **mr,
				uint64_t *va);
void xfer_reset(struct fast *f, struct xfer *x);

/* ---- requester.c ---- */
/* Whom the WR is charged to. peer NULL: one on another host, or many. */
static inline struct rate_path requester_path(const struct qp *qp, const struct qp *peer)
{
	bool in = ff_op_fetches(qp->wr->opcode);

	return (struct rate_path){
		.own = qp->o.ses->cont,
		.peer = peer ? peer->o.ses->cont : NULL,
		.dir = in ? RATE_RX : RATE_TX,
		.peer_dir = in ? RATE_SERVE : RATE_RX,
	};
}

/* The bytes of a WR that is done, to those of its peer. */
static inline void requester_served(struct qp *qp, struct qp *peer)
{
	if (qp->wr->opcode == FF_OP_READ)
		stats_bytes(&peer->stats.tx_bytes, qp->wr->length);
	else if (qp->wr->opcode < FF_OP_READ || qp->wr->opcode == FF_OP_SEND_INV)
		stats_bytes(&peer->stats.rx_bytes, qp->wr->length);
}

/* A WR begins: it can go on, or it failed, and has been completed (false). */
bool requester_begin(struct fast *f, struct qp *qp);
/* What can be said of the WR at hand without its peer. */
enum ibv_wc_status requester_check(struct qp *qp, enum ff_vendor_err *why);
/* Binds and invalidations of our own. */
enum post_result requester_mw(struct fast *f, struct qp *qp);
static inline bool requester_is_mw(const struct send_wr *wr)
{
	return wr->opcode == FF_OP_BIND_MW || wr->opcode == FF_OP_LOCAL_INV;
}
/* Can it go on now? */
static inline bool requester_may_run(const struct requester *r)
{
	return r->state >= REQ_NEW && r->state <= REQ_MATCHED && !xfer_is_busy(&r->x);
}
/*
 * Have the limits' consent to the next bytes of the copy, of `total`, that the WR moves to or from that
 * peer. False: the QP waits for it.
 */
bool requester_consent(struct fast *f, struct qp *qp, struct qp *peer, uint64_t total);
/* Have the sender's limits let all of the WR through to many, or to another host? False: it waits. */
bool requester_pay(struct fast *f, struct qp *qp, uint64_t total);
/* What it waits for is on that list; the caller sets the state and the timer. */
void requester_wait_on(struct soft_qp *sq, struct soft_list *list);
/* The copy has not ended: what to return. */
static inline enum post_result requester_not_copied(enum xfer_result r)
{
	return r == XFER_MORE ? POST_MORE : POST_WAIT;
}
/* 4.096 us * 2^timeout, ns; 0: none (IBTA 9.9.2.1.1) */
uint64_t requester_ack_timeout(const struct qp *qp);
void requester_abort(struct fast *f, struct qp *qp);
void requester_resume(struct fast *f, struct soft_qp *sq); /* what it waited for may be there */
void requester_timer(struct timer *t);
/* Complete the WR under way, whatever state it is in. */
enum post_result requester_finish(struct fast *f, struct qp *qp, enum ibv_wc_status st,
				  enum ff_vendor_err why);
/* UC, UD: it reaches nobody, and is reported as sent. */
enum post_result requester_drop(struct fast *f, struct qp *qp);
/*
 * There is no receive: ns until it is tried again, by the RNR NAK timer field (IBTA table 45); 0: that
 * was the last try. *left: qp->attr.rnr_retry at first.
 */
uint64_t requester_rnr_wait(const struct qp *qp, uint8_t *left, uint8_t field);
/* Receives were posted: what is found now is a new wait. */
void requester_rnr_over(const struct qp *qp, uint8_t *left);

/* ---- mcast.c ---- */
void mcast_init(struct mcast_table *t);
/* 0, also if it is attached already; -ENOMEM: the container or the group has as many as it may. */
int mcast_attach(struct fast *f, struct qp *qp, const union ibv_gid *gid, uint16_t lid);
int mcast_detach(struct fast *f, struct qp *qp, const union ibv_gid *gid, uint16_t lid);
void mcast_leave_all(struct fast *f, struct qp *qp);
/* The WR under way is addressed to a group, mcast.gid, and checked; its GRH is made. */
enum post_result mcast_start(struct fast *f, struct qp *qp);
enum post_result mcast_run(struct fast *f, struct qp *qp); /* go on with it */

/* ---- atomic.c ---- */
/* Carry out the atomic at the peer. XFER_DONE: x->atomic_orig is what was there, but of an ATOMIC_WRITE. */
enum xfer_result atomic_run(struct fast *f, struct xfer *x, const struct send_wr *wr,
			    const struct side *dst, const struct ff_sge *at,
			    enum ff_vendor_err *why);

#endif
