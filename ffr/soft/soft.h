/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * soft.h - internals of the software device: what its files share. Everything [lock].
 *
 * qp->send (fast/backend.h) says which file carries a QP's WRs out. Connected QPs begin with local.c, which serves
 * pairs of QPs of this host. When the path turns out to lead to another host, remote_open() changes to remote/req.c. UD
 * QPs have ud.c, which chooses a way for each datagram when it is posted. requester.c has the common part of these
 * files, responder.c what a receiving QP does with a request, wherever the request comes from, and xfer.c moves bytes.
 *
 * The room ffr/soft/ is the software device: objects, their states, the rules of InfiniBand. It may use fast/, mem/,
 * peer/, dir/ and wire/; other rooms call it by soft_ops. remote/ has the QPs and datagrams whose other end is on
 * another host; remote/ and soft/ use each other (tests/lint/rooms). Runners call this room; the control thread, by the
 * lock, makes, changes and ends objects.
 */
#ifndef FFR_SOFT_SOFT_H
#define FFR_SOFT_SOFT_H

#include "ffr/abi/ff_verbs.h"
#include "ffr/dir/dir.h"
#include "ffr/fast/internal.h"
#include "ffr/fast/pvm.h"
#include "ffr/mem/shadow.h"
#include "ffr/soft/copy.h"
#include "ffr/wire/wire.h"

#define SOFT_GRH_SZ 40u
/* Attachments of a container's QPs to multicast groups: in all, and to one group. */
#define MCAST_MAX_CONTAINER 4096u
#define MCAST_MAX_GROUP	    256u
#define SOFT_MTU	    4096u /* bytes: the port's MTU, and the longest UD message */

/* Multicast groups of all tenants (mcast.c). */
struct mcast_table {
	struct mcast_group *groups;
	uint64_t salt; /* part of each key, so that nobody can choose a group's place in the table */
	uint64_t last_seq; /* the number of the last attachment */
};
LIST_HEAD(mcast_list, mcast_member);

TAILQ_HEAD(ud_list, ud_held);
TAILQ_HEAD(late_list, ud_late);

/* be->priv */
struct soft_dev {
	struct mcast_table mcast;
	struct soft_list unreachable; /* requesters whose peer does not answer */
	struct wire_dev wire;
	LIST_HEAD(, remote_qp) stalled; /* QPs that wait for memory behind a process */
	struct ud_list held;		/* datagrams whose sender is not known yet */
	struct ud_list known; /* datagrams whose sender became known: the next turn delivers them */
	uint32_t num_held;    /* datagrams on `held` and `known` */
	struct soft_list late; /* QPs for which datagrams of other hosts wait */
	uint64_t late_bytes;
	/* Have a NIC send a datagram of the container, with its GRH, to that host. False: no. NULL: no NIC can. */
	bool (*ud_carry)(const struct container *c, struct wire_peer *p, const struct wire_hdr *h,
			 const void *payload);
	uint64_t random;
};

/* The state of a QP's WR. After a REQ_WAIT_ state, whose comment says what ends it, the WR goes on with REQ_NEW. */
enum req_state {
	REQ_IDLE,     /* no WR is under way */
	REQ_NEW,      /* the WR's peer is to be looked up, and asked */
	REQ_ADMITTED, /* the peer lets the WR be carried out: bytes move */
	REQ_MATCHED,  /* like REQ_ADMITTED, and the WR has a receive of req.peer */
	REQ_WAIT_RNR, /* the peer has no receive; ends by the timer, or when the peer posts a receive */
	REQ_WAIT_ACK, /* nobody answers; ends by the timer, or when the peer is there */
	REQ_WAIT_WIN, /* too many WRs are under way to another host; ends when one of them is done */
};

/*
 * One side of a copy: a list of SGEs that the keys of one container translate, or plain bytes.
 * Positions in bytes from the start of the message.
 */
struct side {
	const struct ff_sge *sge;
	/* Not NULL: all bytes of the side, and sge is not used. Of a destination, these bytes are written. */
	const uint8_t *bytes;
	const uint8_t *prefix; /* of a source: prefix_len bytes before the others */
	uint32_t prefix_len;
	uint32_t num_sge;
	const struct key_table *keys;
	const struct pd *pd;
	const struct qp *qp; /* remote access: the QP that received the request */
	uint32_t access;     /* IBV_ACCESS_* that the MR must have */
};

/* The progress of a copy from one side to another, or of an atomic. */
struct xfer {
	struct qp *qp;		   /* the QP that needs the copy */
	uint64_t done;		   /* bytes copied */
	uint64_t limit;		   /* bytes up to which the copy may go now; 0: no limit */
	uint32_t src_i, dst_i;	   /* number of the SGE at hand */
	uint64_t src_off, dst_off; /* bytes done in this SGE */
	struct pvm_call *call;	   /* a copy through process memory that is under way, or NULL */
	struct pvm_wait wait;	   /* the wait for room for such a copy */
	uint32_t buf_off, buf_len; /* bytes of call->buf that are read but not written */
	bool call_pending, call_writes;
	uint8_t atomic_step;
	uint64_t atomic_orig; /* the value before an atomic; atomic_step tells whether it is set */
};

/* The sending half of a QP; requester.c */
struct requester {
	enum req_state state;
	uint8_t rnr_left, retry_left;
	bool is_waiting; /* `waiting` is on a list of RNR waiters, or on soft_dev.unreachable */
	LIST_ENTRY(soft_qp) waiting;
	struct timer timer;
	struct qp *
		peer; /* REQ_MATCHED: the QP whose receive the message goes to; resp.from of `peer` is this QP */
	struct xfer x; /* the copy under way */
};

/* Has a QP a receive at hand, for the next message or for the message that is coming in? */
enum recv_state {
	RECV_NONE,
	RECV_TAKEN,
	RECV_BAD, /* the receive is malformed */
};

/* The receiving half of a QP; responder.c */
struct responder {
	enum recv_state recv;
	struct recv_wr *rwr; /* RECV_TAKEN: the receive; the memory is kept for the next one */
	struct qp *from;     /* the QP of this host whose message is coming in */
	struct soft_list rnr_waiters; /* requesters that wait for a receive */
	struct xfer from_wire; /* UD: a datagram of another host, on its way into the receive */
	bool is_late;	       /* datagrams of other hosts wait: the QP is on soft_dev.late */
	LIST_ENTRY(soft_qp) late_entry;
	struct late_list late; /* the datagrams that wait; remote/ud.c */
	uint64_t late_bytes;
};

/* Where the datagram under way goes to. */
enum ud_way {
	UD_HERE,  /* a container of this host: qp.dest */
	UD_AWAY,  /* soft_qp.there: a container of another host, or one that is not known yet */
	UD_GROUP, /* a multicast group: mcast.c */
};

/* UD: the datagram under way; ud.c */
struct soft_ud {
	enum ud_way way;
	bool paid;  /* UD_AWAY: the limits have let the datagram through */
	uint8_t sl; /* SL of the receiver's completion, which says what header grh[] has */
	uint8_t grh[SOFT_GRH_SZ];
	uint64_t give_up;	/* UD_AWAY, ns: when the datagram is dropped */
	struct ff_ah_attr path; /* UD_AWAY */
	uint8_t *gathered;	/* UD_AWAY, UD_GROUP: SOFT_GRH_SZ + SOFT_MTU bytes; kept */
};

/* The progress of a message for a multicast group. */
enum mcast_step {
	MCAST_NONE,
	MCAST_PAY,    /* the message waits for the limits */
	MCAST_HERE,   /* members on this host get the message, one after the other */
	MCAST_OTHERS, /* the other hosts get the message */
	MCAST_ASKED, /* the message waits, because the other hosts are not known, or not connected yet */
};

/* UD: the groups that the QP is in, and the message that it sends to a group; mcast.c */
struct soft_mcast {
	struct mcast_list groups;
	enum mcast_step step;
	union ibv_gid gid;
	uint64_t seq;	  /* attachments up to this one have had their turn */
	uint64_t end;	  /* attachments after this one do not get the message */
	uint64_t give_up; /* ns: when the receiver under way has lost its turn */
};

/* qp->soft */
struct soft_qp {
	struct qp *qp;
	/*
	 * Where the path, or the datagram, leads: a container of another host, or one to wait for. A reference, or
	 * NULL.
	 */
	struct remote *there;
	struct remote_qp *rem; /* the connection to a QP on another host; NULL: none, or not yet */
	/*
	 * A QP that a carrier has (not route_is_ours()): the container that sent it a frame by the wire; 0: none has.
	 */
	uint32_t met;
	struct copy_how copy;
	struct requester req;
	struct responder resp;
	struct soft_ud ud;
	struct soft_mcast mcast;
};

/*
 * The right to the peer's memory that an operation needs: one of IBV_ACCESS_REMOTE_*, or 0. A FLUSH is not handled
 * here, because its WR says which right it needs (ff_flush_access()).
 */
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

/* Does the operation take a receive of the peer? */
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
/* Describe the device that programs see, before carriers and limits reduce it. */
void soft_describe(struct ff_query_device_resp *d);
/* The QP has a new state and attributes, `old` is the state before, and no carrier has claimed the QP. */
void soft_qp_follow(struct fast *f, struct qp *qp, enum ibv_qp_state old);
/* The SRQ has receives. True: call again in the next turn. */
bool soft_srq_posted(struct fast *f, struct srq *srq);

/* ---- route.c ---- */
/* Does this fast thread serve the QP? */
static inline bool qp_is_on(const struct qp *qp, const struct fast *f)
{
	return qp->soft && qp->o.ses->fast == f;
}
/* The QP of that number, if this thread serves it, and the container with the orchestrator's id `cont` has it. */
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
 * Does the QP receive messages: is it in such a state, and does its program live? mem_gone: a copy found the program
 * dead. The session's socket may tell of that later, or never, if a child of the program keeps the socket open.
 */
static inline bool route_receives(const struct qp *qp)
{
	return (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
		qp->state == IBV_QPS_SQE) &&
	       !qp->o.ses->mem_gone;
}
/*
 * Which container a path leads to, like dir_path(). If the container is on another fast thread, the QP waits: the
 * control thread brings the two containers to one thread (fast/threads.c), and wakes the QPs that wait.
 */
enum dir_answer route_path(struct fast *f, struct container *from, const struct ff_ah_attr *ah,
			   struct container **here, struct remote **there);
void route_resolve(struct fast *f, struct qp *qp); /* qp->attr.ah has changed */
/* Does the software device, or the wire, carry the connected QP? False for a QP that a carrier has, or may claim. */
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
/* The QP has begun to answer, or has stopped: let the QPs that wait for it look again. */
void local_wake_peer(struct fast *f, const struct qp *qp);

/* ---- ud.c ---- */
extern const struct send_ops ud_send;
/* RoCE v2: the SL of a completion, from the header that a NIC has put before the datagram. */
uint8_t ud_sl_of(const uint8_t grh[SOFT_GRH_SZ]);
/* The Q_Key of the datagram under way: a WR's Q_Key with the high bit set means the QP's own (IBTA 10.2.5). */
static inline uint32_t ud_qkey(const struct qp *qp)
{
	return qp->wr->remote_qkey & 0x80000000u ? qp->attr.qkey : qp->wr->remote_qkey;
}

/* ---- responder.c ---- */
/* A responder's answer to a request. */
enum answer {
	ANS_OK,
	ANS_RNR,	/* no receive is posted */
	ANS_INV_REQ,	/* NAK: invalid request */
	ANS_REM_ACCESS, /* NAK: remote access error */
	ANS_REM_OP,	/* NAK: remote operational error */
	ANS_DROP,	/* UC, UD: no answer */
};
/* Do the QP's attributes allow the peer this operation (IBTA 9.7.4.1.4)? access: the right that it needs. */
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
/* May this WR be carried out at the peer? Called before any byte is moved. */
enum answer responder_admit(struct fast *f, struct qp *peer, const struct send_wr *wr);
/* FLUSH: make what the sender wrote before visible, as the WR asks. False: the WR lacks the right. */
bool responder_flush(struct qp *peer, const struct send_wr *wr);
/* The QP has a receive at hand, in qp->kept, since a former router. */
void responder_had(struct qp *qp);
/* Have a receive at hand, in resp.rwr. False: none is posted. */
bool responder_take(struct fast *f, struct qp *peer);
/* Is there a receive that the message fits in? The answer says why not; the caller acts on the answer. */
enum answer responder_fits(struct fast *f, struct qp *peer, const struct send_wr *wr);
/* Like responder_fits(), and do what follows from the answer. ANS_OK: resp.rwr is the receive. */
enum answer responder_recv(struct fast *f, struct qp *peer, const struct send_wr *wr);
/* Like responder_recv(), for the WR under way of a QP of this host, which then has the receive. */
enum answer responder_match(struct fast *f, struct qp *peer, struct qp *from);
/* UD: does a datagram of another sender hold the receive at hand, but likely for a short time only? */
bool responder_soon(const struct qp *peer, const struct qp *from);
/*
 * SEND with invalidate: invalidate the rkey before the completion, so that a program that sees the completion finds the
 * window free (IBTA 10.6.7.2.5). False: the WR may not invalidate this rkey; nothing is done.
 */
bool responder_invalidate(struct qp *peer, const struct send_wr *wr);
/* The message has arrived: complete the receive that it was matched with. */
void responder_done(struct fast *f, struct qp *peer, struct qp *from);
/* Where a message comes from. */
struct origin {
	const struct send_wr *wr; /* only the head is read */
	uint32_t qp_num;
	uint16_t lid;
	uint8_t sl;
};
void responder_complete(struct fast *f, struct qp *peer, const struct origin *o);
/* The receive's own memory is at fault: complete the receive with an error, and take the QP to ERR. */
enum answer responder_fault(struct fast *f, struct qp *peer, enum ff_vendor_err why);
/* The request broke the peer's rules: send an event, and take the QP to ERR. Returns `a`, or ANS_DROP for UC. */
enum answer responder_refuse(struct fast *f, struct qp *peer, enum answer a);
void responder_abort(struct qp *qp, struct fast *f, bool flush); /* the QP leaves RTR/RTS */

/* ---- xfer.c ---- */
enum xfer_result {
	XFER_DONE,
	XFER_MORE, /* the quantum is used up */
	XFER_NEXT, /* the runner makes the submitted call before its next turn, then the QP is activated */
	XFER_WAIT, /* a worker makes the submitted call, then the QP is activated */
	XFER_SRC,  /* error at the source: *why */
	XFER_DST,  /* error at the destination: *why */
};
#define ACCESS_REMOTE                                                                              \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |             \
	 FF_ACCESS_FLUSH)
/* May a QP of that PD access that part of the MR? mr NULL: there is no such key. */
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
 * Pointers to bytes [off, off + len) of a side, as far as these can be reached by pointers: the number of iovs, at most
 * max, and their bytes in *bytes. 0: the first *bytes bytes cannot be reached by a pointer. -1: *why.
 */
int xfer_iov(const struct side *s, uint64_t off, uint64_t len, struct iovec *iov, int max,
	     uint64_t *bytes, enum ff_vendor_err *why);
/*
 * Write *len bytes to a side from off on, for x->qp; *len becomes the number of bytes that were written. XFER_MORE and
 * XFER_NEXT: call again in the next turn, with the rest. XFER_WAIT: call again with the rest, or xfer_reset(). Any
 * other result leaves x as it was.
 */
enum xfer_result xfer_put(struct fast *f, struct xfer *x, const struct side *dst, uint64_t off,
			  const uint8_t *buf, uint64_t *len, enum ff_vendor_err *why);
/*
 * Have up to PVM_MAX bytes from `off` on, which no pointer reaches, read into x->call->buf. XFER_DONE: x->buf_len bytes
 * are there. Otherwise XFER_MORE, XFER_NEXT, XFER_WAIT or an error.
 */
enum xfer_result xfer_get(struct fast *f, struct xfer *x, const struct side *src, uint64_t off,
			  uint64_t len, enum ff_vendor_err *why);
/* For a call that was submitted or waits for room. XFER_NEXT: the runner makes it; XFER_WAIT: a worker. */
enum xfer_result xfer_submitted(const struct xfer *x);
/* Is a submitted call not done yet, or does a call wait for room? */
static inline bool xfer_is_busy(const struct xfer *x)
{
	return x->wait.q || (x->call && x->call->busy);
}
/* Are all SGEs of a side, up to `total` bytes, within MRs that grant the access? */
enum ff_vendor_err xfer_check(const struct side *s, uint64_t total);
/* Look one SGE up: its MR, and the application's address. */
enum ff_vendor_err xfer_resolve(const struct side *s, const struct ff_sge *sge, struct mr **mr,
				uint64_t *va);
void xfer_reset(struct fast *f, struct xfer *x);

/* ---- requester.c ---- */
/* Count the bytes of a finished WR in the peer's statistics. */
static inline void requester_served(struct qp *qp, struct qp *peer)
{
	if (qp->wr->opcode == FF_OP_READ)
		stats_bytes(&peer->stats.tx_bytes, qp->wr->length);
	else if (qp->wr->opcode < FF_OP_READ || qp->wr->opcode == FF_OP_SEND_INV)
		stats_bytes(&peer->stats.rx_bytes, qp->wr->length);
}

/* Begin a WR. False: the WR failed, and has been completed. */
bool requester_begin(struct fast *f, struct qp *qp);
/* Check the WR at hand, as far as that needs no peer. */
enum ibv_wc_status requester_check(struct qp *qp, enum ff_vendor_err *why);
/* Carry out a bind or a local invalidation. */
enum post_result requester_mw(struct fast *f, struct qp *qp);
static inline bool requester_is_mw(const struct send_wr *wr)
{
	return wr->opcode == FF_OP_BIND_MW || wr->opcode == FF_OP_LOCAL_INV;
}
/* Can the requester's WR go on now? */
static inline bool requester_may_run(const struct requester *r)
{
	return r->state >= REQ_NEW && r->state <= REQ_MATCHED && !xfer_is_busy(&r->x);
}
/*
 * Do the limits allow the next bytes, of `total`, that the WR copies to or from the peer? False: the QP waits for the
 * limits.
 */
bool requester_consent(struct fast *f, struct qp *qp, struct qp *peer, uint64_t total);
/* Put the requester on a list of those that wait; the caller sets the state and the timer. */
void requester_wait_on(struct soft_qp *sq, struct soft_list *list);
/* The copy has not ended: what a send op returns. */
static inline enum post_result requester_not_copied(enum xfer_result r)
{
	return r == XFER_MORE ? POST_MORE : POST_WAIT;
}
/* The ACK time-out, 4.096 us * 2^timeout, in ns; 0: none (IBTA 9.9.2.1.1) */
uint64_t requester_ack_timeout(const struct qp *qp);
void requester_abort(struct fast *f, struct qp *qp);
void requester_resume(struct fast *f, struct soft_qp *sq); /* the WR's wait may be over */
void requester_timer(struct timer *t);
/* Complete the WR under way, whatever state it is in. */
enum post_result requester_finish(struct fast *f, struct qp *qp, enum ibv_wc_status st,
				  enum ff_vendor_err why);
/* UC, UD: the WR reaches nobody, and completes as if it had been sent. */
enum post_result requester_drop(struct fast *f, struct qp *qp);
/*
 * The peer has no receive: ns until the next try, by the RNR NAK timer field (IBTA table 45); 0: that was the last try.
 * *left: tries that are left, qp->attr.rnr_retry at first.
 */
uint64_t requester_rnr_wait(const struct qp *qp, uint8_t *left, uint8_t field);
/* The peer has posted receives: with an endless rnr_retry, the next RNR NAK begins a new wait. */
void requester_rnr_over(const struct qp *qp, uint8_t *left);

/* ---- mcast.c ---- */
void mcast_init(struct mcast_table *t);
/* 0, also if the QP is attached already; -ENOMEM: the container or the group has as many attachments as it may. */
int mcast_attach(struct fast *f, struct qp *qp, const union ibv_gid *gid, uint16_t lid);
int mcast_detach(struct fast *f, struct qp *qp, const union ibv_gid *gid, uint16_t lid);
void mcast_leave_all(struct fast *f, struct qp *qp);
/* Begin the WR under way, which goes to the group mcast.gid. The caller has checked it and made its GRH. */
enum post_result mcast_start(struct fast *f, struct qp *qp);
enum post_result mcast_run(struct fast *f, struct qp *qp); /* go on with a WR for a group */

/* ---- atomic.c ---- */
/* Carry out the atomic at the peer. XFER_DONE: x->atomic_orig is the value before, except for an ATOMIC_WRITE. */
enum xfer_result atomic_run(struct fast *f, struct xfer *x, const struct send_wr *wr,
			    const struct side *dst, const struct ff_sge *at,
			    enum ff_vendor_err *why);

#endif
