/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * wire.h - frames between routers. tcp.c, tx.c and rx.c move frames; nics.c, runs.c and cm.c have the frames that
 * concern no QP; remote/ knows what the frames of QPs mean. Everything [lock].
 *
 * The room ffr/wire/ may use fast/, mem/, peer/ and dir/. It asks the QPs above it by struct wire_ops. Runner of the
 * first thread.
 *
 * A frame is a header and hdr.len bytes. All QPs of two hosts share one connection, so no QP may
 * hold it up: a frame's payload goes straight to its memory or is thrown away, now, and who has more
 * to send than a frame waits for its next turn. What a connection loses with its end is sent again
 * on the next one; see remote.h for how nothing is done twice.
 */
#ifndef FFR_WIRE_WIRE_H
#define FFR_WIRE_WIRE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <bsd/sys/queue.h>
#include <stddef.h>

#include "ffr/fast/carrier.h"
#include "ffr/wire/runs.h"

struct remote;
struct wire_peer;
struct wire_io;
struct wire_hello;
struct wire_tcp;
struct wire_ops;

#define WIRE_PAYLOAD_MAX 65536u /* bytes of a REQ or a READ_DATA */
#define WIRE_BATCH	 64u	/* frames that are offered to the socket at once */
#define WIRE_SMALL_MAX	 8192u	/* bytes of any other frame */
#define RUNS_FRAMES	 64u

/* X(NAME, which payload it may have) */
#define WIRE_TYPES(X)                                                                              \
	X(NONE, 0)                                                                                 \
	X(REQ, WIRE_PAYLOAD_MAX)       /* a part of a SEND or WRITE; any other request */          \
	X(READ_DATA, WIRE_PAYLOAD_MAX) /* a part of what a READ asked for */                       \
	X(ATOMIC_DATA, 0)	       /* what an atomic found */                                  \
	X(ACK, 0)		       /* all messages up to msn are done, but those that fetch */ \
	X(NAK, 0)		       /* all before msn are; msn is not: code tells why */        \
	X(ASK, 0)		       /* what became of msn? */                                   \
	X(GO, 0)		       /* there is a receive, or a QP, now: try again */           \
	X(UD, WIRE_SMALL_MAX)	       /* a datagram, GRH first */                                 \
	X(CM, WIRE_SMALL_MAX)	       /* a message of the connection manager */                   \
	X(PING, 0)                                                                                 \
	X(PONG, 0)                                                                                 \
	X(NIC, 0)      /* the first frame of either side: its NIC; nics.c */                       \
	X(BY, 0)       /* where its sender receives beside the stream; struct wire_by */           \
	X(OVER, 0)     /* all that its sender sends from here on comes there */                    \
	X(NIC_ASK, 0)  /* by which NIC does dst_cont go? */                                        \
	X(NIC_OF, 0)   /* src_cont by msn, of its host's */                                        \
	X(RUNS_ASK, 0) /* does dst_cont run, in dst_epoch? msn: of the question */                 \
	X(RUNS, 0)     /* the answer about src_cont; code: enum wire_runs of wire/runs.h */

enum wire_type {
#define X(name, max) WIRE_##name,
	WIRE_TYPES(X)
#undef X
		WIRE_TYPES_NUM
};
static_assert(WIRE_TYPES_NUM <= 64, "wire_by.frames");

/* wire_hdr.flags */
#define WIRE_LAST      0x01 /* the message ends with this frame */
#define WIRE_SOLICITED 0x02
#define WIRE_PROBE     0x04 /* a request without its payload: would it be carried out? */
#define WIRE_MCAST     0x08 /* UD: for the group in ud.mgid */
#define WIRE_STEP      0x10 /* ASK: nothing more is sent until it is answered */

/* wire_hdr.code of a NAK */
enum wire_nak {
	NAK_RNR = 1,	/* no receive is posted: nak.rnr_timer */
	NAK_INV_REQ,	/* IBV_WC_REM_INV_REQ_ERR; the responder's QP is in error */
	NAK_REM_ACCESS, /* IBV_WC_REM_ACCESS_ERR; the responder's QP is in error */
	NAK_REM_OP,	/* IBV_WC_REM_OP_ERR; the responder's QP is in error */
	NAK_NO_QP,	/* no QP there answers */
	NAK_SEQ,	/* the responder expects message msn, from byte hdr.offset on */
	NAK_RETRY, /* the responder cannot take message msn now: send it again, from byte hdr.offset on */
	NAK_PROBE_OK, /* answer to a PROBE */
	NAK_BUSY,     /* message msn has to wait for a GO, because of the receiver's limits */
};

/* Little-endian, like the machines that this runs on. */
struct wire_hdr {
	uint8_t type;	/* enum wire_type */
	uint8_t opcode; /* REQ, UD: enum ff_opcode */
	uint8_t flags;	/* WIRE_* */
	uint8_t code;	/* NAK: enum wire_nak */
	uint32_t len;	/* bytes that follow */
	uint32_t dst_qpn, src_qpn;
	uint32_t dst_cont, dst_epoch; /* the orchestrator's ids */
	uint32_t src_cont, src_epoch;
	uint32_t tag;	 /* of the requester's QP, since it came to RTS: old frames have another */
	uint32_t msn;	 /* number of the requester's message */
	uint64_t offset; /* bytes of the message before this frame's; of a READ: that came */
	union {
		struct {
			uint64_t addr, length; /* of the message */
			uint32_t rkey, imm;    /* imm: what the WR has there */
			uint32_t srqn;
			uint32_t most; /* READ: bytes that are to come for now; 0: all */
		} req;
		struct {
			uint64_t addr, compare_add, swap;
			uint32_t rkey, srqn;
		} atomic;
		struct {
			uint64_t addr, length; /* of what is flushed */
			uint32_t rkey, srqn;
			uint8_t types, level; /* FF_FLUSH_* */
			uint8_t zero[6];
		} flush;
		struct {
			uint64_t orig;
		} atomic_data;
		struct {
			uint32_t rnr_timer; /* the field as of IBTA table 45 */
		} nak;
		struct {
			uint8_t gid[16];
			char net[16]; /* its network's name, "": it has none */
		} nic;
		struct {
			uint64_t token; /* what is sent there is to have it */
			uint32_t node, endpoint;
			uint32_t block; /* bytes */
		} by;
		struct {
			uint32_t qkey, imm;
			uint16_t lid;
			uint8_t sl, zero[5];
			uint8_t mgid[16];
		} ud;
	};
};
static_assert(sizeof(struct wire_hdr) == 80 && offsetof(struct wire_hdr, req) == 48, "protocol");

/* ---- tcp.c --------------------------------------------------------------------------------- */

struct pvm_call;

/*
 * The operations of a carrier that takes a connection's frames beside its TCP stream (ffr/rio/). Each direction changes
 * to the carrier for itself, between two frames: ours by wire_over(), the peer's when OVER comes in. The carrier's
 * bytes are a stream, too, which p->by names; when that stream ends, the connection ends. No operation may be NULL. The
 * control thread calls up(), and both the control thread and the runner call down(); the others are the runner's.
 */
struct wire_by {
	const char *name; /* for operators */
	uint64_t frames; /* that told() gets: a bit for each enum wire_type, all of them from PING on */
	/* The connection is attached. p->by may be set now, and only now; NULL: the connection stays with TCP. */
	void (*up)(struct fast *f, struct wire_peer *p);
	/* p->by is there, and NULL afterwards. failed: the connection was not ended in order. */
	void (*down)(struct fast *f, struct wire_peer *p, bool failed);
	/* One of `frames` has come. */
	void (*told)(struct fast *f, struct wire_peer *p, const struct wire_hdr *h);
	/* OVER has come. False: that cannot be. */
	bool (*begin)(struct wire_peer *p);
	/*
	 * As wire_io_readv() and the others, but that the end is always an error. flush() follows each writev(), also
	 * one that takes only a part, or nothing.
	 */
	ssize_t (*readv)(struct fast *f, struct wire_peer *p, const struct iovec *iov, int n);
	ssize_t (*writev)(struct fast *f, struct wire_peer *p, const struct iovec *iov, int n);
	int (*flush)(struct fast *f, struct wire_peer *p);
	bool (*pending)(const struct wire_peer *p);
	const char *(*why)(int err); /* a text that stays */
};

/* Messages of the connection manager that wait; cm.h */
struct cm_queue {
	STAILQ_HEAD(, cm_frame) list;
	uint32_t num;
};

struct wire_dev { /* f->be->wire; the software device has it */
	LIST_HEAD(, wire_tcp) conns;
	const struct wire_ops *ops;
	const struct wire_by *by; /* NULL: there is none */
	void *by_dev;		  /* its own */
	/* Frames are being collected, and may have pointers to buffers of calls: these stay until the
	 * socket has had its turn. Grows with each batch. */
	uint64_t batch;
	bool collecting;
	struct pvm_call *kept[WIRE_BATCH];
	unsigned num_kept;
	struct cm_queue cm_in; /* cm.c: messages that wait for the control thread */
	uint32_t changes;      /* wire_changes() */
	/* runs.c: frames that wait for the control thread, oldest first */
	struct runs_frame runs[RUNS_FRAMES];
	uint32_t num_runs;
};

static inline struct wire_dev *wire_dev(const struct fast *f)
{
	return f->be->wire;
}

void wire_init(struct wire_dev *d, const struct wire_ops *ops);
/* The backend's ops of these names (fast/backend.h). */
int wire_attach(struct fast *f, struct wire_peer *p, struct wire_io *io,
		const struct wire_hello *theirs);
void wire_detach(struct fast *f, struct wire_peer *p, const char *why);
/*
 * A QP as the wire knows it: what has frames to send to a host, and takes frames of that host. remote/ has it in its
 * struct remote_qp.
 */
struct wire_qp {
	struct wire_peer *peer;	     /* NULL: not known */
	TAILQ_ENTRY(wire_qp) queued; /* on the connection's queue: the QP has something to send */
	bool is_queued;
};
/* The QP has something to send to its peer; it is asked for it when there is room. */
void wire_tx(struct fast *f, struct wire_qp *wq);
/* The QP has nothing to send any more: take it out of the line. */
void wire_tx_forget(struct wire_qp *wq);
/* Has the batch that is being collected frames of the QP? What would end the QP waits for the next batch. */
bool wire_batch_has(const struct wire_qp *wq);
/* Forget the QP's frames in the batch: they are not given back to the QP. */
void wire_batch_forget(struct wire_qp *wq);
/*
 * The frame that is coming in is not for the QP any more: the rest is thrown away, and what part of it waits for is now
 * waited for as with PUT_WAIT.
 */
void wire_rx_forget(struct wire_qp *wq);
/* A small frame, copied; any thread. 0, -ENOTCONN, or -ENOBUFS: too much of that waits already. */
int wire_send(struct fast *f, struct wire_peer *p, const struct wire_hdr *h, const void *payload);
/* The number of the connection with that host, never the same again; 0: there is none. */
uint32_t wire_conn(const struct wire_peer *p);
/* Would wire_send() find room? False without a connection, and on a full one until the frames that wait have gone. */
bool wire_has_room(const struct wire_peer *p);
/*
 * How many times a connection to any host has ended, has begun, or has got room for small frames again.
 * host->cm_wake() tells when it grows.
 */
uint32_t wire_changes(const struct fast *f);
/* The connected peer that was told that number (nic_ud_in), which is not 0. NULL: there is none. */
struct wire_peer *wire_peer_by_number(struct fast *f, uint64_t number);
/* ns: when something was last received from the peer; 0: not connected. */
uint64_t wire_heard(const struct wire_peer *p);
/* All attached peers are told of this host's NICs once more; that the container goes by another one of them now. */
void wire_tell_nic(struct fast *f);
void wire_tell_nic_of(struct fast *f, const struct container *c);
/* See whether it is alive. */
void wire_ping(struct fast *f, struct wire_peer *p);

/* For a carrier with a struct wire_by, while p->by is there. */
/*
 * From the next frame on, the wire sends by the carrier's stream. The peer's begin() must succeed from now on, so the
 * peer has been told what it needs for that by frames of the TCP stream, which it reads before OVER.
 */
void wire_over(struct fast *f, struct wire_peer *p);
/* There may be something to read; or room to write. Not from writev() or flush(). */
void wire_by_ready(struct fast *f, struct wire_peer *p);
/* It does not go on: the connection ends. `why` stays. */
void wire_by_failed(struct wire_peer *p, const char *why);
/* Control thread, no lock: what carries frames to that peer now; "wire": the stream, or nothing. p may be NULL. */
const char *wire_carried_by(const struct wire_peer *p);

/* The start and the end of a turn. Number of events handled. */
uint32_t wire_poll(struct fast *f);
uint32_t wire_flush(struct fast *f);
/* epoll tells of a connection (f->epoll_fd). */
bool wire_ready(struct fast *f, void *what, uint32_t events); /* false: what is none of its */

/* ---- frames of the routers themselves ---------------------------------------------------------- */

/* nics.c: the connection is attached; tell the peer of each NIC; tell it which of them the container has. */
void wire_nics_begin(struct fast *f, struct wire_peer *p);
void wire_nics_tell(struct fast *f, struct wire_peer *p);
void wire_nics_tell_of(struct fast *f, struct wire_peer *p, const struct container *c);
/* A NIC, NIC_ASK or NIC_OF has come. */
void wire_nics_came(struct fast *f, struct wire_peer *p, const struct wire_hdr *h);
/*
 * The index, among its host's NICs, of the container's NIC; -EAGAIN: not known yet, and the carriers' work() follows.
 */
int wire_nic_of(struct fast *f, struct remote *there);
/*
 * cm.c: a message has come. wire_cm_changed(): wire_changes() grows. wire_cm_known(): the sender of a message may be
 * known now.
 */
void wire_cm_came(struct fast *f, struct wire_peer *p, const struct wire_hdr *h, const void *msg);
void wire_cm_changed(struct fast *f);
void wire_cm_known(struct fast *f);
/* runs.c: a RUNS_ASK or RUNS has come. */
void wire_runs_came(struct fast *f, struct wire_peer *p, const struct wire_hdr *h);

/* ---- what the wire asks of QPs ----------------------------------------------------------------- */

#define FRAME_IOVS 40u

/* A frame to be sent: header, payload by pointers, and what its QP was like before. */
struct frame {
	struct wire_hdr h;
	struct iovec iov[FRAME_IOVS];
	unsigned num_iov;
	uint8_t kind;	      /* remote.h's */
	uint32_t incarnation; /* of the QP's window */
	uint32_t old_nxt;
	uint64_t old_off;
};

/* What becomes of a QP's next frame. */
enum next {
	NEXT_NONE,  /* there is nothing to send now; wire_tx() tells when there is */
	NEXT_FRAME, /* it is filled in, and the QP counts it as sent */
	NEXT_BATCH, /* it is not for this batch, but for the next one */
	NEXT_FAULT, /* remote_fetch_bytes() only: the memory is at fault, *why */
};

/* Where a frame's payload goes. */
enum sink {
	SINK_DISCARD,
	SINK_BUFFER, /* keep it until it is complete: at most WIRE_SMALL_MAX bytes */
	SINK_QP,     /* the QP knows where it goes */
};

/* What became of bytes that were to be put where they belong. */
enum wire_put {
	PUT_DONE,
	PUT_LATER, /* again in the next turn, with the rest */
	PUT_WAIT,  /* memory behind a process keeps them waiting for a worker */
	PUT_FAULT, /* the memory is at fault */
};

/* What the wire asks of the protocol above it (remote/remote.c), on the runner. */
struct wire_ops {
	/* Fill in the next frame of the QP. */
	enum next (*next)(struct fast *f, struct wire_qp *wq, struct frame *fr);
	/*
	 * The socket took the frame; or did not, and the QP is to forget that the frame was sent. In the reverse order
	 * of next().
	 */
	void (*sent)(struct fast *f, struct wire_qp *wq, const struct frame *fr);
	void (*unsent)(struct wire_qp *wq, const struct frame *fr);
	/* A header has come in. *wq: of SINK_QP. */
	enum sink (*begin)(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
			   struct wire_qp **wq);
	/*
	 * Where bytes [off, off + len) of the frame's payload go to: iovs, and their bytes in *bytes. 0: no pointer
	 * reaches the first *bytes bytes: see put(). -1: nowhere any more.
	 */
	int (*spot)(struct fast *f, struct wire_qp *wq, const struct wire_hdr *h, uint32_t off,
		    uint32_t len, struct iovec *iov, int max, uint32_t *bytes);
	/*
	 * Put *len bytes of the payload where they belong; *len becomes the number that is there. put_failed() follows
	 * PUT_WAIT and PUT_FAULT; off: bytes that are where they belong.
	 */
	enum wire_put (*put)(struct fast *f, struct wire_qp *wq, const struct wire_hdr *h,
			     uint32_t off, const uint8_t *buf, uint64_t *len,
			     enum ff_vendor_err *why);
	void (*put_failed)(struct fast *f, struct wire_qp *wq, const struct wire_hdr *h,
			   uint32_t off, enum wire_put r, enum ff_vendor_err why);
	/*
	 * The frame is complete; payload: of SINK_BUFFER. wq: of SINK_QP, if the QP is still there. False: memory
	 * behind a process keeps the frame; again in the next turn.
	 */
	bool (*end)(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
		    struct wire_qp *wq, const uint8_t *payload);
	/* The connection is there; is not. The control thread may call both. */
	void (*up)(struct fast *f, struct wire_peer *p);
	void (*down)(struct fast *f, struct wire_peer *p);
	/* There is room for small frames again. */
	void (*drained)(struct fast *f, struct wire_peer *p);
};

#endif
