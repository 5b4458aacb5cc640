/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * remote.h - a connected QP whose peer is on another host. Everything [lock].
 *
 * Theory. The requester numbers its messages (MSN) and keeps a copy of each WR until it is done; the
 * responder carries them out in order and remembers the next number. What was lost with a connection
 * is sent again from the first message that is not done, on the next connection, from its beginning:
 *	- a SEND or WRITE that the responder has had is acknowledged again and not done again;
 *	- a READ is carried out again (IBTA 9.7.5.1.2 wants the same), from the first byte that did not come;
 *	- an atomic's answer is given again, for as many of them as can be under way.
 * An ACK stands for all messages up to its number, except those that fetch: their data does.
 * A NAK names the first message that was not done. RNR, a QP that is not there, an order that was
 * lost: the requester goes back to that message, some time later or at once. The others end the
 * connection, as between QPs of one host (local.c, responder.c).
 *
 * Memory behind a process can keep a frame waiting for a worker, and the connection is everybody's. So what follows
 * of the message is thrown away meanwhile, on either side, but no byte that was taken comes twice: the NAK tells from
 * where on the message is to go on, and a READ from where on it asks. It may be a worker for each frame, for as long as
 * pvm.c is careful with a container: each is a step ahead. So that what is thrown away does not become most of what is
 * sent, a requester whose frames were, or whose own memory made it throw away what it fetched, goes by steps: so many
 * frames, and then it waits until it has heard how far the peer is, or has what it asked for. A step that went well is
 * followed by one of twice the length, until there are none; one that did not, by half of it.
 *
 * Everything a requester sends has a tag that it chose when it came to RTS. A responder keeps to the
 * first that it sees, with a message number 0: a QP that was reset and connected again never takes
 * part in an old sequence.
 *
 * Who the peer is was settled when the QP got its path: a container, its epoch and so its host. Should
 * it move, nobody answers this QP any more.
 *
 * Programs that talk by turns get by with one frame in a way where there would be two: when the last
 * messages of a QP were answered at once, the ACK of the next waits for the answer, for REMOTE_ACK_HOLD
 * at most, and for no more than one message.
 *
 * Time. TCP loses nothing while a connection lives, so a time-out is not a loss: the ACK time-out counts
 * down `retry_cnt` only while the peer's router is not heard of, which is forgotten when it is, or says that there is
 * no such QP. News from the directory and a new connection are no answers: the time-out goes on. A
 * requester whose peer is silent while its router is not asks what became of its first message; it
 * waits for that QP no longer than PATIENCE.
 * UC sends the same frames, without waiting for an answer and without sending anything twice.
 *
 * The mem-to-shadow map is asked before a WRITE, READ or atomic leaves (dir_map()). What it refuses,
 * or does not know in time, is asked of the peer's router by a PROBE, which has no data: that one
 * answers for its own memory, and a refusal has the same consequences as on one host.
 *
 * The room ffr/remote/ may use wire/, soft/ and what these may. soft/ and wire/ call it, circles that tests/lint/rooms
 * names. Runner of the first thread; the control thread, by the lock.
 */
#ifndef FFR_REMOTE_REMOTE_H
#define FFR_REMOTE_REMOTE_H

#include "ffr/dir/dir.h"
#include "ffr/peer/peer.h"
#include "ffr/remote/cm.h"
#include "ffr/soft/soft.h"
#include "ffr/wire/wire.h"

#define REMOTE_WINDOW	 128u /* messages of a QP that may be under way */
#define REMOTE_JOBS	 128u /* fetches that a responder has at hand; max_qp_rd_atom */
#define REMOTE_SMALL_SGE 4u
#define REMOTE_MANY	 1024u /* bytes of the largest WR's SGEs or inline data */
/* ns that an ACK is held back at most: programs that sleep answer in 20 to 80 us */
#define REMOTE_ACK_HOLD 100000u

/* frame.kind */
enum {
	FRAME_REQUEST,
	FRAME_PROBE,
	FRAME_NAK,
	FRAME_DATA,
	FRAME_ATOMIC,
	FRAME_ACK,
	FRAME_GO,
	FRAME_ASK
};

/* A WR that is under way. */
struct sent {
	struct send_wr wr;
	union {
		struct ff_sge sge[REMOTE_SMALL_SGE];
		uint8_t inl[REMOTE_SMALL_SGE * sizeof(struct ff_sge)];
	} few;
	void *many;   /* room for more than that, kept for the next one; or NULL */
	uint64_t got; /* bytes that came of what it fetches, or that the peer has said are there */
	/* ns: when the requester stops waiting for the map and asks the peer; 0: it has not waited */
	uint64_t map_until;
	bool is_mapped; /* the map, or the peer, allows it */
	bool probe;	/* ask the peer */
	bool done;	/* completes when it is the first: */
	uint8_t status; /* enum ibv_wc_status */
	uint8_t why;	/* enum ff_vendor_err */
};

static_assert(REMOTE_MANY >= FF_MAX_INLINE && REMOTE_MANY >= FF_MAX_SGE * sizeof(struct ff_sge),
	      "");

/* A fetch that the responder is to answer. */
struct job {
	uint32_t msn;
	bool is_atomic;
	uint64_t orig; /* atomic */
	struct ff_sge at;
	uint64_t off; /* READ: bytes sent */
	uint64_t end; /* ... and bytes that are to be sent for now */
};

/* Of the requester: nothing is sent but in REM_RUN; what ends the others. */
enum remote_phase {
	REM_RUN,   /* messages are sent, from nxt on */
	REM_RNR,   /* the peer has no receive: timer, or its GO */
	REM_WAIT,  /* nobody answers: timer, its GO, or news of it */
	REM_MAP,   /* the map does not know yet: timer, or the directory */
	REM_LATER, /* the peer could not take it just now: timer */
	REM_NUM_PHASES
};
const char *remote_phase_str(enum remote_phase phase);

/*
 * Of the responder: what it does with a frame of message `msn`, the first that is not done. Those before
 * it are answered again in all states but the first. _RECV: the message is matched with a receive, which
 * is at hand (soft_qp.has_recv); should that one go, the peer is told to send the message again.
 */
enum rx_state {
	RX_CLOSED,    /* there is no sequence: message 0 opens one */
	RX_EXPECT,    /* msn may begin */
	RX_TAKE,      /* msn's next part is taken, which goes into no receive; or msn begins anew */
	RX_TAKE_RECV, /* the same, into the receive that it has */
	RX_DROP, /* msn's parts are thrown away; it may begin anew, or go on where it was stalled, at rx.off */
	RX_DROP_RECV,
	/* From here on all of it is thrown away: */
	RX_STALL, /* until what msn wants behind a process is done, by a worker as a rule. Then as RX_DROP */
	RX_STALL_RECV,
	RX_STALL_CUT, /* the same, but the connection has ended since: nothing of msn is on its way */
	RX_REFUSE,    /* until all jobs are done. Then msn ends the connection, because of rx.why */
	RX_REFUSE_RECV,
	RX_MISFIT, /* the same, because of the receive that there is for msn */
	RX_NUM_STATES
};
const char *rx_state_str(enum rx_state state);

/* What of a QP may wait for a limit; rate.c */
enum remote_rate_kind { REMOTE_RATE_SEND, REMOTE_RATE_SERVE, REMOTE_RATE_RECV, REMOTE_RATES };
struct remote_rate {
	struct rate_wait w;
	struct remote_qp *rq;
};

/* The requester's half. */
struct remote_tx {
	struct sent **win; /* [win_size], a power of two; by message number */
	uint32_t win_size;
	uint32_t tag;
	uint32_t una, nxt, tail; /* first that is not done, is not sent, does not exist */
	uint64_t off;		 /* bytes of nxt that are sent */
	uint32_t top; /* as nxt and off, but what is sent again does not take them back */
	uint64_t top_off;
	uint32_t fetches; /* READs and atomics sent and not done */
	enum remote_phase phase;
	bool is_met;	     /* UC: the peer was there */
	bool solo;	     /* after an RNR NAK: one message at a time, until one is done */
	uint64_t busy_until; /* ns: the same for the peer's limits, which it has told of */
	uint8_t rnr_left, retry_left;
	uint8_t silent; /* of those that are not left, the ones since the peer's router was heard of */
	uint64_t try_ends; /* ns: when the ACK time-out is over; 0: it is infinite */
	bool is_unknown;   /* the peer's router has said during this try that it knows no such QP */
	uint64_t heard;	   /* ns: wire_heard() when the try began */
	uint64_t answered_at; /* ns: when an answer last came */
	bool ask;	      /* none has come for long: ask what became of una */
	uint32_t step;	  /* frames that are sent before the peer is heard again; 0: any number */
	uint32_t unheard; /* ... and that were sent since */
	bool step_asked;  /* it was asked what became of step_msn, the last one */
	bool in_part; /* the last message is a READ, and asked for its bytes up to part_end: nothing more is sent */
	uint32_t step_msn; /* of the READ, too */
	uint64_t part_end;
	struct timer timer;
	struct xfer in;	 /* fetched data, on its way into memory behind a process */
	uint32_t in_msn; /* REM_LATER: whose */
	uint64_t in_off; /* ... and how many bytes of it were there before */
};

/* The responder's half. */
struct remote_rx {
	enum rx_state state; /* changed by rx_to() only */
	enum answer why;     /* RX_REFUSE */
	uint32_t tag, msn;   /* of the sequence; the next message */
	uint64_t off; /* bytes of msn that are where they belong, if it need not begin anew */
	struct send_wr wr;
	struct ff_sge at;
	struct xfer x;
	bool nak_due, ack_due, go_due;
	enum wire_nak nak_code;
	uint32_t nak_msn, nak_tag;
	uint64_t nak_off;	/* bytes of nak_msn that are there */
	struct timer ack_timer; /* armed: ack_due, but it is held back for what answers the message */
	uint64_t done;		/* ns: when the last message was, if it has no answer yet */
	uint8_t dialog;		/* messages that were answered at once, up to DIALOG_MIN */
	bool rnr_owed;		/* the peer waits for a receive, of ours or of an SRQ: */
	bool at_srq;
	LIST_ENTRY(remote_qp) of_srq;
	struct job *jobs; /* [REMOTE_JOBS] */
	uint32_t job_head, job_tail;
	struct {
		uint32_t msn;
		uint64_t orig;
	} * atomics; /* [REMOTE_JOBS] the last ones' answers */
	uint32_t num_atomics;
};

/*
 * Memory of a WR, or of a job, behind a process: read ahead for ... A container has few buffers for that; so a QP has
 * a full one only while it is in line to send (wire_tx()).
 */
struct remote_out {
	struct xfer x;
	uint32_t msn;
	uint64_t off;
	bool is_job;
	bool awaited;	/* it was begun, or waits for a buffer, and nobody has looked since */
	uint64_t batch; /* wire_dev.batch of the frame that has a pointer to it */
};

struct remote_qp {
	struct qp *qp;
	uint32_t cont, epoch;	/* the peer's container */
	struct wire_peer *peer; /* its host; NULL: not known */
	LIST_ENTRY(remote_qp) of_peer;
	TAILQ_ENTRY(remote_qp) queued; /* something is to be sent */
	LIST_ENTRY(remote_qp)
	stalled; /* rx.x (RX_STALL) or out.x waits for memory behind a process */
	bool is_queued, is_stalled;
	uint32_t incarnation; /* grows when all that was under way is forgotten */
	struct remote_tx tx;  /* req.c */
	struct remote_rx rx;  /* resp.c, answer.c */
	struct remote_out out;
	struct remote_rate rate[REMOTE_RATES];
};

/* ---- remote.c ------------------------------------------------------------------------------------ */

/* The QP's path leads to another host, now: have what is needed for that. False: no memory. */
bool remote_open(struct fast *f, struct qp *qp);
/*
 * Bytes of heap that a QP with rings may have at most for that: copies of its WRs until the peer has answered, and what
 * it answers the peer. Control thread, at any time of the QP's life.
 */
uint64_t remote_bytes(const struct qp *qp);
/* A frame for a QP that another carrier has: its peer goes by the wire (qp->soft->met). */
void remote_meet(struct fast *f, struct wire_peer *p, const struct wire_hdr *h);
/* By which of its host's NICs a container goes; -EAGAIN: that is not known yet, and the carriers' work() follows. */
int remote_nic(struct fast *f, struct remote *there);
/* Is the peer that the QP was connected to still who it was? */
bool remote_is_peer(const struct remote_qp *rq);
/* The QP enters ERR (its WRs are flushed, in order), RESET, or goes. */
void remote_abort(struct fast *f, struct qp *qp, bool flush);
void remote_free(struct fast *f, struct qp *qp);
void remote_stall(struct fast *f, struct remote_qp *rq);
extern const struct carrier wire_carrier;
/* The backend's ops of these names (fast/backend.h); f: the first thread. */
void remote_changed(struct fast *f, struct remote *r);
void remote_policy_changed(struct fast *f);
void remote_mcast_changed(struct fast *f, const char *tenant, const union ibv_gid *mgid);
/*
 * Bytes of `src` from `off` on that no pointer reaches, at most n, as payload of a frame: of message
 * msn, a job's or our own. NEXT_NONE: they are not there yet.
 */
enum next remote_fetch_bytes(struct fast *f, struct remote_qp *rq, const struct side *src,
			     bool is_job, uint32_t msn, uint64_t off, uint64_t n, struct frame *fr,
			     enum ff_vendor_err *why);
/* The job's, or our own, bytes go out by pointers now: what was read of them before, or is being read, was for nothing. */
void remote_fetch_needless(struct fast *f, struct remote_qp *rq, bool is_job);
/* The QP can receive now: tell its peer, who may be waiting for that. */
void remote_announce(struct fast *f, struct qp *qp);
/* cm.c: a message has come; a connection is there, or is not any more; it takes small frames;
 * a sender may be known now. */
void remote_cm_recv(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
		    const uint8_t *msg);
void remote_cm_changed(struct fast *f);
void remote_cm_flush(struct fast *f, struct wire_peer *p);
void remote_cm_known(struct fast *f);
void remote_cm_fini(struct soft_dev *dev);
/* The frame's header, as far as it is the same for all of the QP's. */
void remote_hdr(const struct remote_qp *rq, struct wire_hdr *h, enum wire_type type);

static inline struct sent *remote_sent_wr(const struct remote_qp *rq, uint32_t msn)
{
	return rq->tx.win[msn & (rq->tx.win_size - 1)];
}

/* ---- rate.c --------------------------------------------------------------------------------- */

void remote_rate_init(struct remote_qp *rq);
void remote_rate_forget(struct fast *f, struct remote_qp *rq);
/* Of `want` bytes those that the limits let through now; *wait: none, it waits for them. */
uint64_t remote_rate_ask(struct fast *f, struct remote_qp *rq, enum remote_rate_kind kind,
			 enum rate_dir dir, uint64_t want, bool *wait);
void remote_rate_charge(struct fast *f, struct remote_qp *rq, enum remote_rate_kind kind,
			enum rate_dir dir, uint64_t bytes, uint32_t ops);
/* A datagram for that QP: charged, or to be dropped (false). */
bool remote_rate_datagram(struct fast *f, struct qp *qp, uint64_t bytes);

/* ---- req.c ---------------------------------------------------------------------------------- */

extern const struct send_ops remote_send;
/* The peer, or the way to it, may be there again. */
void remote_resume(struct fast *f, struct remote_qp *rq);
/* The peer's QP is there, or has a receive. */
void request_go(struct fast *f, struct remote_qp *rq);
void remote_no_answer(struct fast *f, struct remote_qp *rq);
void remote_mapped(struct fast *f, struct remote_qp *rq);
enum next request_next(struct fast *f, struct remote_qp *rq, struct frame *fr);
void request_timer(struct timer *t);
/* The peer answers. The memory that READ_DATA goes to: NULL, if it is not wanted. */
void request_ack(struct fast *f, struct remote_qp *rq, uint32_t msn);
void request_nak(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h);
bool request_data_begin(struct remote_qp *rq, const struct wire_hdr *h);
void request_data_end(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h);
void request_data_bad(struct fast *f, struct remote_qp *rq, uint32_t msn, enum ff_vendor_err why);
/*
 * The program's own memory keeps the data of message msn waiting, of which `off` bytes are there: when that is over, the
 * rest is fetched again.
 */
void request_data_later(struct fast *f, struct remote_qp *rq, uint32_t msn, uint64_t off);
/* Is that so? And is it over: then it goes on, and this is true. */
bool request_settles(const struct remote_qp *rq);
bool request_settled(struct fast *f, struct remote_qp *rq);
/* Data come. False: earlier ones are being written still, and these are not wanted. */
bool request_data_settled(struct fast *f, struct remote_qp *rq);
bool request_atomic(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h);
/* Complete what is done. */
void request_advance(struct fast *f, struct remote_qp *rq);
/* Nobody will answer message msn, which is not done: what went out of it was sent, and is counted. */
void request_unanswered(struct remote_qp *rq, uint32_t msn);

/* ---- step.c --------------------------------------------------------------------------------- */

/* Nothing is under way: all is sent again, or was answered. */
void step_anew(struct remote_qp *rq);
/* ... and what the peer, or its successor, can take is not known. */
void step_none(struct remote_qp *rq);
/* Is nothing to be sent before the peer is heard? */
bool step_is_over(struct remote_qp *rq);
/* Make h, an ASK, the step's. False: the peer was asked. */
bool step_ask(struct remote_qp *rq, struct wire_hdr *h);
/* A frame that is none of a READ goes out; the last request, with that opcode, did not, after all. */
void step_sent(struct remote_qp *rq);
void step_unsent(struct remote_qp *rq, uint8_t opcode);
/* All up to msn is acknowledged. */
void step_acked(struct remote_qp *rq, uint32_t msn);
/* The peer has `off` bytes of message msn and wants what is behind them, again if it was sent. Before going back. */
void step_told(struct remote_qp *rq, uint32_t msn, uint64_t off);
/* The READ rq->tx.nxt goes out, `got` bytes of whose `len` are there: wire_hdr.req.most. */
uint64_t step_read(struct remote_qp *rq, uint64_t got, uint64_t len);
/* `got` bytes of the READ msn are there. True: that is all that was asked for. */
bool step_read_done(struct remote_qp *rq, uint32_t msn, uint64_t got);
/* What comes of it behind `off` bytes and a frame is thrown away. Before going back. */
void step_read_threw(struct remote_qp *rq, uint32_t msn, uint64_t off);

/* ---- resp.c --------------------------------------------------------------------------------- */

/* A REQ comes in. Where its payload goes. */
enum sink response_begin(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
			 struct remote_qp **rq);
/* What became of that message? */
void response_asked(struct fast *f, struct wire_peer *p, const struct wire_hdr *h);
bool response_end(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h);
/* The memory that it goes to fails. */
void response_bad(struct fast *f, struct remote_qp *rq, enum ff_vendor_err why);
/* It takes longer, in rq->rx.x: what comes behind byte `off` of the message, and of that call, comes again. */
void response_wait(struct fast *f, struct remote_qp *rq, uint64_t off);
struct side response_side(struct remote_qp *rq);
void response_abort(struct fast *f, struct remote_qp *rq);
/* Is it in one of RX_STALL? Then it is to be told when the call may have ended. */
bool response_stalls(const struct remote_qp *rq);
void response_stalled(struct fast *f, struct remote_qp *rq);
/* The connection has ended. */
void response_down(struct remote_qp *rq);
/* XRC: the message's receive has ended without it: it is to come again, and take another one. */
void response_recv_gone(struct fast *f, struct remote_qp *rq);

/* Every change of the state comes through here. */
static inline void rx_to(struct remote_qp *rq, enum rx_state state)
{
	rq->rx.state = state;
}

static inline bool rx_has_recv(const struct remote_qp *rq)
{
	switch (rq->rx.state) {
	case RX_TAKE_RECV:
	case RX_DROP_RECV:
	case RX_STALL_RECV:
	case RX_REFUSE_RECV:
		return true;
	default:
		return false;
	}
}

static inline bool rx_refuses(const struct remote_qp *rq)
{
	return rq->rx.state == RX_REFUSE || rq->rx.state == RX_REFUSE_RECV ||
	       rq->rx.state == RX_MISFIT;
}
/* Nothing is taken of the message before it goes on at rx.off; or before it begins anew. */
void rx_hold(struct remote_qp *rq);
void rx_drop(struct remote_qp *rq);

/* ---- answer.c ------------------------------------------------------------------------------- */

enum next response_next(struct fast *f, struct remote_qp *rq, struct frame *fr);
/* The program sends: does it answer what has just come? */
void response_spoke(struct fast *f, struct remote_qp *rq);
void response_timer(struct timer *t);
/* Receives were posted. */
void response_recv_posted(struct fast *f, struct remote_qp *rq);
/* A fetch that was carried out before. */
void response_fetch_again(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h);

/* To somebody with whom no QP of ours is connected. */
void answer_stranger(struct fast *f, struct wire_peer *p, const struct wire_hdr *h);
/* Message msn is not taken, for that reason; a UC peer is told of nothing but NAK_PROBE_OK. */
void answer_nak(struct fast *f, struct remote_qp *rq, uint32_t msn, enum wire_nak code);
/* A fetch was answered; should the requester have thrown that away, a NAK comes behind it. */
void answer_lost(struct fast *f, struct remote_qp *rq, uint32_t msn);
/* The message at hand is to come again from rx.off on, for that reason. */
void answer_go_on(struct fast *f, struct remote_qp *rq, enum wire_nak code);
/* Message msn breaks the rules. What was asked for before it is answered first. */
void answer_refuse(struct fast *f, struct remote_qp *rq, uint32_t msn, enum answer a);
/* Tell of what ended the connection; the QP is in error already. */
void answer_tell_refusal(struct fast *f, struct remote_qp *rq, uint32_t msn, uint32_t tag,
			 enum answer a);
/* There is no receive for the message: the peer is told now, and when there is one. Or not then. */
void answer_rnr(struct fast *f, struct remote_qp *rq);
void answer_not_owed(struct remote_qp *rq);
/* An answer that comes at once takes the ACK with it. Is one to be expected, and waited for? */
bool answer_hold_ack(struct fast *f, struct remote_qp *rq);
/* What has been completed here is acknowledged, whatever becomes of the QP: its program may know by now. */
void answer_last(struct fast *f, struct remote_qp *rq);
/* The request h asks for this, or part of it. False: too many at once; the requester has broken its own limit. */
bool answer_read(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h,
		 const struct send_wr *wr);
bool answer_atomic(struct fast *f, struct remote_qp *rq, uint32_t msn, uint64_t orig);

/* Is the answer of fetch msn on the way? */
bool answer_is_due(const struct remote_qp *rq, uint32_t msn);
static inline bool answer_has_jobs(const struct remote_qp *rq)
{
	return rq->rx.job_head != rq->rx.job_tail;
}

/* ---- ud.c ----------------------------------------------------------------------------------- */

/* Send the datagram under way to that container. Ends the WR but with POST_MORE and POST_WAIT. */
enum post_result remote_ud_send(struct fast *f, struct qp *qp, struct remote *to);
/* The same, of a group, to all hosts that have members. POST_DONE: it was sent, the WR goes on. */
enum post_result remote_ud_mcast(struct fast *f, struct qp *qp, enum ff_vendor_err *why);
/* One for a group has come (mcast.c). False: again in the next turn. */
bool mcast_from_remote(struct fast *f, const struct remote *from, const struct wire_hdr *h,
		       const uint8_t *data);
bool remote_ud_recv(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
		    const uint8_t *data);
/* One that was for the QP is not delivered. */
void remote_ud_lost(struct qp *qp);
/* Do so many of its container's wait, some only for a moment, that the next one is to stay where it is? */
bool remote_ud_must_wait(struct fast *f, const struct qp *qp);
/* A datagram for that QP, whoever sent it. */
void remote_ud_deliver(struct fast *f, struct qp *qp, const struct wire_hdr *h,
		       const uint8_t *data);
/* Those that wait for the QP's memory are lost. */
void remote_ud_forget(struct fast *f, struct qp *qp);
/* The sender of datagrams that are held may be known now; and the next turn, which delivers them. */
void remote_ud_known(struct fast *f, struct remote *r);
uint32_t remote_ud_poll(struct fast *f);
void remote_ud_fini(struct soft_dev *dev);

#endif
