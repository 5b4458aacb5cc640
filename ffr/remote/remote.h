/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * remote.h - a connected QP whose peer is on another host. Everything [lock].
 *
 * Theory. The requester numbers its messages (MSN) and keeps a copy of each WR until the WR is done. The responder
 * carries the messages out in order and remembers the next number. When a connection is lost, the requester sends all
 * messages from the first one that is not done again, on the next connection, each from its beginning:
 *	- a SEND or WRITE that the responder has carried out is acknowledged again and not done again;
 *	- a READ is carried out again (as IBTA 9.7.5.1.2 wants), from the first byte that did not come;
 *	- an atomic's answer is given again; the responder keeps as many answers as atomics can be under way.
 * An ACK stands for all messages up to its number, except for READs and atomics, whose data are their answer. A NAK
 * names the first message that was not done. After an RNR, an unknown QP or a lost order, the requester goes back to
 * that message, at once or some time later. Other NAKs end the connection, as between QPs of one host (local.c,
 * responder.c).
 *
 * Memory behind a process can keep a frame waiting for a worker, and all QPs share the connection. So meanwhile either
 * side drops the rest of the message. No byte that was taken is sent twice: the NAK says from which byte on the message
 * goes on, and a READ asks for the bytes that are missing. While pvm.c is careful with a container, each frame may need
 * a worker. So that dropped frames do not become most of the traffic, a requester whose frames were dropped, or who
 * dropped fetched data because of its own memory, goes by steps: the requester sends a number of frames, and then waits
 * until it has heard how far the peer is, or has the data that it asked for. After a step that went well the next one
 * is twice as long, and at last there are no more steps; after any other, half as long (step.c).
 *
 * Everything that a requester sends has a tag, which the requester chose when its QP came to RTS. A responder keeps to
 * the first tag that comes with message number 0. So a QP that was reset and connected again never takes part in an old
 * sequence.
 *
 * The peer was settled when the QP got its path: a container, its epoch and so its host. If the container moves, nobody
 * answers this QP any more.
 *
 * Programs that talk by turns need one frame for each message where there would be two. When the last messages of a QP
 * were answered at once, the ACK of the next message waits for the program's answer, for REMOTE_ACK_HOLD at most, and
 * for one message at most.
 *
 * Time. TCP loses nothing while a connection lives, so a time-out is no loss. An ACK time-out uses up a try of
 * `retry_cnt` only while nothing comes from the peer's router, or if that router says that there is no such QP. When
 * the router is heard again, the tries of its silence are given back. News from the directory and a new connection are
 * no answers: the time-out goes on. If the peer is silent but its router is not, the requester asks what became of its
 * first message, and waits for that QP for PATIENCE at most. UC sends the same frames, but waits for no answer and
 * sends nothing twice.
 *
 * The requester asks the map of registered memory before a WRITE, READ or atomic leaves (dir_map()). If the map
 * refuses, or does not know in time, the requester asks the peer's router by a PROBE, which has no data. The peer's
 * router answers for its own memory, and a refusal has the same consequences as on one host.
 *
 * The room ffr/remote/ may use wire/, soft/ and the rooms that these may use. The wire calls it by struct wire_ops.
 * soft/ calls it, too, a circle that tests/lint/rooms names. Runner of the first thread; the control thread, by the
 * lock.
 */
#ifndef FFR_REMOTE_REMOTE_H
#define FFR_REMOTE_REMOTE_H

#include "ffr/dir/dir.h"
#include "ffr/peer/peer.h"
#include "ffr/soft/soft.h"
#include "ffr/wire/wire.h"

#define REMOTE_WINDOW	 128u /* messages of a QP that may be under way */
#define REMOTE_JOBS	 128u /* fetches that a responder has at hand; max_qp_rd_atom */
#define REMOTE_SMALL_SGE 4u
#define REMOTE_MANY	 1024u /* bytes of the largest WR's SGEs or inline data */
/* The longest time to hold an ACK back, ns. Programs that sleep answer in 20 to 80 us. */
#define REMOTE_ACK_HOLD 100000u
/* The shortest time-out: a router may be off its CPU for longer than a NIC. */
#define REMOTE_TIMEOUT_MIN (16 * NS_PER_MS)

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
	void *many; /* REMOTE_MANY bytes for longer lists or inline data, kept for the next WR; or NULL */
	uint64_t got; /* fetched bytes that have come, or sent bytes that the peer has said are there */
	/* ns: when the requester stops waiting for the map and asks the peer; 0: it has not waited */
	uint64_t map_until;
	bool is_mapped; /* the map, or the peer, allows the access */
	bool probe;	/* the peer is to be asked by a PROBE */
	bool done; /* the WR completes, with status and why, when all WRs before it have completed */
	uint8_t status; /* enum ibv_wc_status */
	uint8_t why;	/* enum ff_vendor_err */
};

static_assert(REMOTE_MANY >= FF_MAX_INLINE && REMOTE_MANY >= FF_MAX_SGE * sizeof(struct ff_sge),
	      "");

/* A fetch that the responder is to answer. */
struct job {
	uint32_t msn;
	bool is_atomic;
	uint64_t orig; /* atomic: the value before */
	struct ff_sge at;
	uint64_t off; /* READ: bytes sent */
	uint64_t end; /* READ: bytes that are to be sent for now */
};

/* The requester's phase. Only REM_RUN sends messages; the comments of the others say what ends them. */
enum remote_phase {
	REM_RUN,  /* messages are sent, from nxt on */
	REM_RNR,  /* the peer has no receive; ends by the timer, or by the peer's GO */
	REM_WAIT, /* nobody answers; ends by the timer, the peer's GO, or news of the peer */
	REM_MAP,  /* the map does not know yet; ends by the timer, or by the directory's answer */
	REM_LATER, /* the peer, or the own memory, could not take the message just now; ends by the timer */
	REM_NUM_PHASES
};
const char *remote_phase_str(enum remote_phase phase);

/*
 * What the responder does with a frame of message `msn`, the first message that is not done. Earlier messages are
 * answered again in all states except RX_CLOSED. In a state with _RECV, a receive is at hand for the message
 * (resp.recv); if that receive goes, the peer is told to send the message again.
 */
enum rx_state {
	RX_CLOSED,    /* there is no sequence: message 0 opens one */
	RX_EXPECT,    /* msn may begin */
	RX_TAKE,      /* take msn's next part, which goes into no receive; or msn begins anew */
	RX_TAKE_RECV, /* take msn's next part, which goes into the receive; or msn begins anew */
	RX_DROP, /* drop msn's parts; msn may begin anew, or go on at rx.off, where it was stalled */
	RX_DROP_RECV,
	/* The states from here on drop all frames of msn. */
	RX_STALL, /* until a call for msn on memory behind a process ends, mostly a worker's; then RX_DROP */
	RX_STALL_RECV,
	RX_STALL_CUT, /* RX_STALL, but the connection has ended since: nothing of msn is on its way */
	RX_REFUSE,    /* until all jobs are done; then msn ends the connection, because of rx.why */
	RX_REFUSE_RECV,
	RX_MISFIT, /* until all jobs are done; then msn ends the connection, because of its receive */
	RX_NUM_STATES
};
const char *rx_state_str(enum rx_state state);

/* The parts of a QP that may each wait for a limit; rate.c */
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
	/* Message numbers: the first one that is not done, the first one that is not sent, the next new one. */
	uint32_t una, nxt, tail;
	uint64_t off; /* bytes of nxt that are sent */
	/* The furthest nxt and off so far: sending again does not take these back. */
	uint32_t top;
	uint64_t top_off;
	uint32_t fetches; /* READs and atomics sent and not done */
	enum remote_phase phase;
	bool is_met; /* UC: the peer was there */
	bool solo;   /* after an RNR NAK: send one message at a time, until one is done */
	uint64_t busy_until; /* ns: until then send one message at a time, because of the peer's limits (NAK_BUSY) */
	uint8_t rnr_left, retry_left; /* tries that are left */
	uint8_t silent;	   /* tries that ended since the peer's router was last heard of */
	uint64_t try_ends; /* ns: when the ACK time-out is over; 0: it is infinite */
	bool is_unknown;   /* the peer's router has said during this try that it knows no such QP */
	uint64_t heard;	   /* ns: wire_heard() when the try began */
	uint64_t answered_at; /* ns: when an answer last came */
	bool ask;	      /* no answer has come for long: ask what became of una */
	uint32_t step;	      /* frames to send before the peer is heard again; 0: any number */
	uint32_t unheard; /* frames sent since the peer was last heard; counted while step is not 0 */
	bool step_asked; /* the peer was asked what became of step_msn, the step's last message */
	bool in_part; /* a READ asked for its bytes up to part_end: send nothing more until they have come */
	uint32_t step_msn; /* in_part: the READ's number */
	uint64_t part_end;
	struct timer timer;
	struct xfer in;	 /* fetched data, on its way into memory behind a process */
	uint32_t in_msn; /* REM_LATER: the message whose data `in` has */
	uint64_t in_off; /* REM_LATER: bytes of that message that were there before */
};

/* The responder's half. */
struct remote_rx {
	enum rx_state state; /* changed by rx_to() only */
	enum answer why;     /* RX_REFUSE */
	uint32_t tag, msn;   /* the sequence's tag; the number of the next message */
	uint64_t off;	     /* bytes of msn that are where they belong; 0: msn begins anew */
	struct send_wr wr;
	struct ff_sge at;
	struct xfer x;
	bool nak_due, ack_due, go_due;
	enum wire_nak nak_code;
	uint32_t nak_msn, nak_tag;
	uint64_t nak_off; /* bytes of nak_msn that are there */
	struct timer
		ack_timer; /* armed: ack_due, but the ACK is held back for the program's answer */
	uint64_t done;	   /* ns: when the last message was done; 0: the program has answered it */
	uint8_t dialog;	   /* messages in a row that were answered at once, up to DIALOG_MIN */
	bool rnr_owed;	   /* the peer waits for a receive of this QP, or of its SRQ */
	bool at_srq;	   /* of_srq is on the SRQ's list of those who wait */
	LIST_ENTRY(remote_qp) of_srq;
	struct job *jobs; /* [REMOTE_JOBS] */
	uint32_t job_head, job_tail;
	struct {
		uint32_t msn;
		uint64_t orig;
	} * atomics; /* [REMOTE_JOBS] the answers of the last atomics */
	uint32_t num_atomics;
};

/*
 * Bytes of a WR, or of a job, that are read ahead from memory behind a process. A container has few buffers for that,
 * so a QP has a full buffer only while it is in line to send (wire_tx()).
 */
struct remote_out {
	struct xfer x;
	uint32_t msn; /* the message, or the job's, that the bytes are of */
	uint64_t off; /* where in the message the bytes begin */
	bool is_job;
	bool awaited;	/* the call was begun, or waits for a buffer, and nobody has looked since */
	uint64_t batch; /* wire_dev.batch of the frame that points to the buffer */
};

struct remote_qp {
	struct wire_qp wire; /* the host of the peer's container, and the QP's place in line there */
	struct qp *qp;
	uint32_t cont, epoch; /* the peer's container */
	LIST_ENTRY(remote_qp) of_peer;
	LIST_ENTRY(remote_qp)
	stalled; /* rx.x (RX_STALL) or out.x waits for memory behind a process */
	bool is_stalled;
	uint32_t incarnation; /* grows when all that was under way is forgotten */
	struct remote_tx tx;  /* req.c */
	struct remote_rx rx;  /* resp.c, answer.c */
	struct remote_out out;
	struct remote_rate rate[REMOTE_RATES];
};

/* ---- remote.c ------------------------------------------------------------------------------------ */

/* The QP's path leads to another host now: make the QP's struct remote_qp. False: no memory. */
bool remote_open(struct fast *f, struct qp *qp);
/*
 * The most bytes of heap that a QP with rings may need for a peer on another host: copies of its WRs until the peer has
 * answered, and its answers to the peer. Control thread, at any time of the QP's life.
 */
uint64_t remote_bytes(const struct qp *qp);
/* A frame came for a QP that another carrier has, so its peer goes by the wire: note that in qp->soft->met. */
void remote_meet(struct fast *f, struct wire_peer *p, const struct wire_hdr *h);
/* Is the QP's path still to the container and epoch that the QP was connected to? */
bool remote_is_peer(const struct remote_qp *rq);
/* The QP enters ERR (its WRs are flushed, in order), RESET, or goes. */
void remote_abort(struct fast *f, struct qp *qp, bool flush);
void remote_free(struct fast *f, struct qp *qp);
void remote_stall(struct fast *f, struct remote_qp *rq);
extern const struct carrier wire_carrier;
extern const struct wire_ops remote_wire_ops;
/*
 * The directory tells of a change; f is the first thread. See news() in fast/carrier.h, mcast_changed() in
 * fast/backend.h.
 */
void remote_changed(struct fast *f, struct remote *r);
void remote_policy_changed(struct fast *f);
void remote_mcast_changed(struct fast *f, const char *tenant, const union ibv_gid *mgid);
/*
 * Put bytes of `src` from `off` on that no pointer reaches, at most n, into a frame of message msn, which is a job's
 * (is_job) or our own. NEXT_NONE: the bytes are not there yet.
 */
enum next remote_fetch_bytes(struct fast *f, struct remote_qp *rq, const struct side *src,
			     bool is_job, uint32_t msn, uint64_t off, uint64_t n, struct frame *fr,
			     enum ff_vendor_err *why);
/* The bytes of the job, or of our own message, can go out by pointers now: drop what was read ahead of them. */
void remote_fetch_needless(struct fast *f, struct remote_qp *rq, bool is_job);
/* The QP can receive now: tell the peer, who may be waiting for that. */
void remote_announce(struct fast *f, struct qp *qp);
/* Fill in the header of a frame, as far as all frames of the QP have the same. */
void remote_hdr(const struct remote_qp *rq, struct wire_hdr *h, enum wire_type type);

static inline struct sent *remote_sent_wr(const struct remote_qp *rq, uint32_t msn)
{
	return rq->tx.win[msn & (rq->tx.win_size - 1)];
}

/* ---- rate.c --------------------------------------------------------------------------------- */

void remote_rate_init(struct remote_qp *rq);
void remote_rate_forget(struct fast *f, struct remote_qp *rq);
/* How many of `want` bytes the limits let through now. *wait: none; the QP waits for the limits. */
uint64_t remote_rate_ask(struct fast *f, struct remote_qp *rq, enum remote_rate_kind kind,
			 enum rate_dir dir, uint64_t want, bool *wait);
void remote_rate_charge(struct fast *f, struct remote_qp *rq, enum remote_rate_kind kind,
			enum rate_dir dir, uint64_t bytes, uint32_t ops);
/* Charge a datagram for that QP. False: the limits do not allow it, so drop the datagram. */
bool remote_rate_datagram(struct fast *f, struct qp *qp, uint64_t bytes);

/* ---- req.c ---------------------------------------------------------------------------------- */

extern const struct send_ops remote_send;
/* The peer, or the connection to its host, may be there again. */
void remote_resume(struct fast *f, struct remote_qp *rq);
/* A GO came: the peer's QP is there, or has a receive. */
void request_go(struct fast *f, struct remote_qp *rq);
void remote_no_answer(struct fast *f, struct remote_qp *rq);
void remote_mapped(struct fast *f, struct remote_qp *rq);
void request_timer(struct timer *t);
/* The peer's answers. request_data_begin(): false, if the data are not wanted. */
void request_ack(struct fast *f, struct remote_qp *rq, uint32_t msn);
void request_nak(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h);
bool request_data_begin(struct remote_qp *rq, const struct wire_hdr *h);
void request_data_end(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h);
void request_data_bad(struct fast *f, struct remote_qp *rq, uint32_t msn, enum ff_vendor_err why);
/*
 * The program's own memory keeps the fetched data of message msn waiting, of which `off` bytes are there. When the
 * memory has answered, the rest is fetched again.
 */
void request_data_later(struct fast *f, struct remote_qp *rq, uint32_t msn, uint64_t off);
/* Does the program's own memory keep fetched data waiting? */
bool request_settles(const struct remote_qp *rq);
/* True: the program's memory kept fetched data waiting, and has answered; the requester goes on. */
bool request_settled(struct fast *f, struct remote_qp *rq);
/* Data come. False: earlier data are still being written, and these data are dropped. */
bool request_data_settled(struct fast *f, struct remote_qp *rq);
bool request_atomic(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h);
/* Message msn ends with that status; the messages before it are done. */
void remote_fail(struct fast *f, struct remote_qp *rq, uint32_t msn, enum ibv_wc_status st,
		 enum ff_vendor_err why);
/* Complete the WRs that are done, in order. */
void request_advance(struct fast *f, struct remote_qp *rq);
/* Nobody will answer message msn, which is not done: count the bytes of it that went out. */
void request_unanswered(struct remote_qp *rq, uint32_t msn);

/* ---- send.c --------------------------------------------------------------------------------- */

enum next request_next(struct fast *f, struct remote_qp *rq, struct frame *fr);

/* ---- step.c --------------------------------------------------------------------------------- */

/* Begin a step: no message is under way, because all were answered, or are sent again. */
void step_anew(struct remote_qp *rq);
/* End all steps: nobody knows how much the peer, or its successor, can take. */
void step_none(struct remote_qp *rq);
/* Is nothing to be sent before the peer is heard? */
bool step_is_over(struct remote_qp *rq);
/* Make h, an ASK, the one that ends the step. False: the peer was asked already. */
bool step_ask(struct remote_qp *rq, struct wire_hdr *h);
/* A frame goes out that is no READ. */
void step_sent(struct remote_qp *rq);
/* The last request, with that opcode, did not go out after all. */
void step_unsent(struct remote_qp *rq, uint8_t opcode);
/* All messages up to msn are acknowledged. */
void step_acked(struct remote_qp *rq, uint32_t msn);
/* The peer has `off` bytes of message msn, and wants the bytes behind these. Call before going back to them. */
void step_told(struct remote_qp *rq, uint32_t msn, uint64_t off);
/* The READ rq->tx.nxt goes out; `got` of its `len` bytes are there. Returns wire_hdr.req.most. */
uint64_t step_read(struct remote_qp *rq, uint64_t got, uint64_t len);
/* `got` bytes of the READ msn are there. True: that is all that the READ asked for. */
bool step_read_done(struct remote_qp *rq, uint32_t msn, uint64_t got);
/* The data of READ msn behind `off` bytes and one more frame are dropped. Call before going back to them. */
void step_read_threw(struct remote_qp *rq, uint32_t msn, uint64_t off);

/* ---- resp.c --------------------------------------------------------------------------------- */

/* A REQ comes in. Returns where its payload goes. */
enum sink response_begin(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
			 struct wire_qp **wq);
/* An ASK comes in: tell the peer what became of the message. */
void response_asked(struct fast *f, struct wire_peer *p, const struct wire_hdr *h);
bool response_end(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h);
/* The memory that the payload goes to fails. */
void response_bad(struct fast *f, struct remote_qp *rq, enum ff_vendor_err why);
/*
 * Writing the payload takes longer, by a call in rq->rx.x. `off` bytes of the message are there, without that call's;
 * bytes behind both are dropped, and sent again.
 */
void response_wait(struct fast *f, struct remote_qp *rq, uint64_t off);
struct side response_side(struct remote_qp *rq);
void response_abort(struct fast *f, struct remote_qp *rq);
/* Is the responder in a state RX_STALL...? Then call response_stalled() when the call may have ended. */
bool response_stalls(const struct remote_qp *rq);
void response_stalled(struct fast *f, struct remote_qp *rq);
/* The connection has ended. */
void response_down(struct remote_qp *rq);
/* XRC: the message's receive has ended without the message, which is to be sent again and to take another receive. */
void response_recv_gone(struct fast *f, struct remote_qp *rq);

/* Change the state. Nothing else writes rx.state. */
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
/* Drop frames until the message goes on at rx.off. */
void rx_hold(struct remote_qp *rq);
/* Drop frames until the message begins anew. */
void rx_drop(struct remote_qp *rq);

/* ---- answer.c ------------------------------------------------------------------------------- */

enum next response_next(struct fast *f, struct remote_qp *rq, struct frame *fr);
/* The program sends. Note whether that answers the last message. */
void response_spoke(struct fast *f, struct remote_qp *rq);
void response_timer(struct timer *t);
/* Receives were posted. */
void response_recv_posted(struct fast *f, struct remote_qp *rq);
/* A fetch came that was carried out before: answer it again. */
void response_fetch_again(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h);

/* Answer a frame of a QP that no QP of ours is connected with. */
void answer_stranger(struct fast *f, struct wire_peer *p, const struct wire_hdr *h);
/* Message msn is not taken: send the NAK. A UC peer gets no NAK except for NAK_PROBE_OK. */
void answer_nak(struct fast *f, struct remote_qp *rq, uint32_t msn, enum wire_nak code);
/* A fetch was answered. Send a NAK behind the answer, for a requester that has dropped the answer. */
void answer_lost(struct fast *f, struct remote_qp *rq, uint32_t msn);
/* The message at hand is to be sent again from rx.off on: send the NAK. */
void answer_go_on(struct fast *f, struct remote_qp *rq, enum wire_nak code);
/* Message msn breaks the rules. Earlier fetches are answered first. */
void answer_refuse(struct fast *f, struct remote_qp *rq, uint32_t msn, enum answer a);
/* Tell the peer why the connection has ended; the QP is in error already. */
void answer_tell_refusal(struct fast *f, struct remote_qp *rq, uint32_t msn, uint32_t tag,
			 enum answer a);
/* There is no receive for the message: tell the peer now, and tell it again when there is one. */
void answer_rnr(struct fast *f, struct remote_qp *rq);
/* The peer need not be told any more when there is a receive. */
void answer_not_owed(struct remote_qp *rq);
/* Hold the ACK back? True if the program is likely to answer at once, because its answer takes the ACK along. */
bool answer_hold_ack(struct fast *f, struct remote_qp *rq);
/* Acknowledge what was completed here before the QP goes, because the program may have seen the completions. */
void answer_last(struct fast *f, struct remote_qp *rq);
/* Answer the READ of request h, or the part that it asks for. False: the requester has more under way than it may. */
bool answer_read(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h,
		 const struct send_wr *wr);
bool answer_atomic(struct fast *f, struct remote_qp *rq, uint32_t msn, uint64_t orig);

/* Is the answer to fetch msn still to be sent, or being sent? */
bool answer_is_due(const struct remote_qp *rq, uint32_t msn);
static inline bool answer_has_jobs(const struct remote_qp *rq)
{
	return rq->rx.job_head != rq->rx.job_tail;
}

/* ---- ud.c ----------------------------------------------------------------------------------- */

/* Send the datagram under way to that container. Ends the WR, unless it returns POST_MORE or POST_WAIT. */
enum post_result remote_ud_send(struct fast *f, struct qp *qp, struct remote *to);
/* Send the datagram under way to all hosts that have members of its group. POST_DONE: sent; the WR goes on. */
enum post_result remote_ud_mcast(struct fast *f, struct qp *qp, enum ff_vendor_err *why);
/* A datagram for a group has come (mcast.c). False: call again in the next turn. */
bool mcast_from_remote(struct fast *f, const struct remote *from, const struct wire_hdr *h,
		       const uint8_t *data);
bool remote_ud_recv(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
		    const uint8_t *data);
/* Count a datagram for the QP that is not delivered. */
void remote_ud_lost(struct qp *qp);
/*
 * Do so many datagrams of the container wait, some only for a moment, that the next one is to stay on the connection?
 */
bool remote_ud_must_wait(struct fast *f, const struct qp *qp);
/* Deliver a datagram to that QP, whoever sent it. */
void remote_ud_deliver(struct fast *f, struct qp *qp, const struct wire_hdr *h,
		       const uint8_t *data);
/* Drop the datagrams that wait for the QP's memory. */
void remote_ud_forget(struct fast *f, struct qp *qp);
/* The sender of datagrams that are held may be known now: have the next turn deliver them. */
void remote_ud_known(struct fast *f, struct remote *r);
/* In each turn: deliver such datagrams, and go on with those that wait for memory. Number of datagrams. */
uint32_t remote_ud_poll(struct fast *f);
void remote_ud_fini(struct soft_dev *dev);

#endif
