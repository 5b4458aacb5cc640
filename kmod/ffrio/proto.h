/* SPDX-License-Identifier: GPL-2.0 */
/*
 * proto.h - ffrio's doorbell protocol as a state machine: no locks, no clock, no device of its own. The
 * module calls it with its port's lock held and is called back by struct ffrio_ops, under that lock;
 * the unit tests (tests/unit/kmod) call it with virtual time and join two of them by a wire that loses
 * and repeats. docs/internals/ffrio.md has the protocol: layout of doorbells, states, timers, what each end does
 * on loss.
 *
 *	proto.c	peers: hello, loss, death; what came in; timers
 *	tx.c	blocks on their way out: flows to endpoints, the lane of 16 sequence numbers
 *	rx.c	blocks on their way in: endpoints, receive buffers, who may send next
 */
#ifndef FFRIO_PROTO_H
#define FFRIO_PROTO_H

#include <linux/errno.h>
#include <linux/string.h>
#include <linux/types.h>

#ifdef __KERNEL__
#include "../ffrio.h"
#else
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
#include "../ffrio.h"
#endif

#define FFRIO_PEERS 64
#define FFRIO_SEQS  16 /* sequence numbers of a lane */
#define FFRIO_LANE  8  /* of them under way at once, so that old and new are told apart */
#define FFRIO_NONE  0xffff

/* ---- doorbells ----------------------------------------------------------------------------------- */

/* All are 0x8000 | type << 12 | 12 bits. */
#define FFRIO_DB_FIRST 0x8000
#define FFRIO_DB_LAST  0xffff

enum ffrio_db {
	FFRIO_DB_CONTROL, /* which:4 byte:8 */
	FFRIO_DB_REQUEST, /* seq:4 first:1 last:1 endpoint:6 */
	FFRIO_DB_GRANT,	  /* seq:4 buffer:8 */
	FFRIO_DB_DONE,	  /* seq:4 buffer:8 */
	FFRIO_DB_ACK,	  /* seq:4 enum ffrio_ack */
	FFRIO_DB_REJECT,  /* seq:4 enum ffrio_reject */
	FFRIO_DB_CANCEL,  /* seq:4 */
	FFRIO_DB_READY,	  /* abandoned:1 endpoint:6 */
};

#define FFRIO_REQUEST_FIRST 0x80
#define FFRIO_REQUEST_LAST  0x40
/* READY the other way: the sender's open message will not go on. */
#define FFRIO_READY_ABANDONED 0x80

enum ffrio_ack {
	FFRIO_ACK_OK,
	FFRIO_ACK_BAD,	 /* the block's header or checksum is wrong: send it again */
	FFRIO_ACK_STALE, /* no such grant, or no longer */
};

enum ffrio_reject {
	FFRIO_REJECT_PARK,    /* no buffer now: READY will say when to ask again */
	FFRIO_REJECT_NONE,    /* no such endpoint */
	FFRIO_REJECT_ABORTED, /* the message that this continues was given up */
};

/* FFRIO_DB_CONTROL: the bytes of a hello by their number, and what is told apart. */
enum ffrio_control {
	FFRIO_HELLO_ADDRESS,	 /* 8 bytes, the lowest first: RapidIO address of the buffers */
	FFRIO_HELLO_BLOCK = 8,	 /* log2 of a block's bytes */
	FFRIO_HELLO_BUFFERS,	 /* their number, less one */
	FFRIO_HELLO_INCARNATION, /* 1 to 255; a new one says that all before is void */
	FFRIO_HELLO_KNOWN,	 /* the receiver's incarnation as the sender knows it, 0: not */
	FFRIO_HELLO_VERSION,	 /* and FFRIO_HELLO_UP if the sender needs no answer */
	FFRIO_HELLO_SUM,	 /* the sum of all before it; ends a hello */
	FFRIO_HELLO_BYTES,
	FFRIO_CONTROL_PING = 14, /* byte 0 asks, 1 answers */
	FFRIO_CONTROL_CLOSE,	 /* all between the two is void: byte 0 unload, 1 "who are you?" */
};

#define FFRIO_PROTO_VERSION 1
#define FFRIO_HELLO_UP	    0x80

/* ---- blocks -------------------------------------------------------------------------------------- */

/*
 * What is before the data in each buffer, little endian. Data and header are one transfer; its length
 * is a multiple of 8. The receiver takes it for hostile.
 */
struct ffrio_header {
	__le32 magic;  /* FFRIO_MAGIC */
	__le32 length; /* of the data, bytes */
	__le32 number; /* counts the blocks of a lane */
	__le32 crc;    /* CRC-32C of header (with 0 here) and data; 0: not computed */
	__le16 destid; /* the sender's; with incarnation and number it names this block only */
	u8 incarnation;
	u8 source; /* endpoint */
	u8 target;
	u8 flags; /* FFRIO_FIRST, FFRIO_LAST */
	u8 reserved[42];
};

#define FFRIO_MAGIC	  0x4f495246
#define FFRIO_HEADER_SIZE 64

enum ffrio_tx_state {
	FFRIO_TX_QUEUED,    /* in its flow: nothing was sent */
	FFRIO_TX_REQUESTED, /* REQUEST was sent; again: ffrio_again() */
	FFRIO_TX_GRANTED,   /* has a buffer; waits for its data */
	FFRIO_TX_MOVING,    /* DMA */
	FFRIO_TX_DONE,	    /* DONE was sent; again */
	FFRIO_TX_CANCELLED, /* CANCEL was sent; again */
	FFRIO_TX_OVER,
	FFRIO_TX_STATES,
};

struct ffrio_peer;

/* One block on its way out. The caller's, from ffrio_tx_add() until ops->sent(). */
struct ffrio_tx {
	struct ffrio_tx *next; /* in its flow */
	struct ffrio_peer *peer;
	enum ffrio_tx_state state;
	u8 endpoint; /* at the peer */
	u8 seq;
	u8 first, last; /* of a message */
	u8 ready;	/* its data is there: DMA starts with the grant */
	u8 cancel;	/* ends as soon as DMA does */
	u8 tries;	/* transfers that failed */
	u8 incarnation; /* of this side, for the header */
	u16 buffer;	/* granted, of the peer's */
	u32 number;	/* of the lane */
	u32 length;	/* bytes of data */
	int result;
	u64 since, due; /* ms: of the state; when to say it again */
	u64 granted;	/* ms */
};

enum ffrio_flow_state {
	FFRIO_FLOW_IDLE,
	FFRIO_FLOW_WAITING, /* its first block waits for a sequence number */
	FFRIO_FLOW_ASKED,   /* its first block is REQUESTED */
	FFRIO_FLOW_PARKED,  /* the receiver has no buffer for it */
};

/* Blocks to one endpoint of a peer, in order; at most one of them without a grant is asked for. */
struct ffrio_flow {
	struct ffrio_tx *head, *tail;
	enum ffrio_flow_state state;
	u64 due; /* PARKED: when to ask again, whatever READY says */
};

enum ffrio_rx_state {
	FFRIO_RX_UNSEEN,
	FFRIO_RX_GRANTED, /* has a buffer */
	FFRIO_RX_ORPHANED, /* its message was given up; the buffer waits for the sender's last word */
	FFRIO_RX_FILLED,   /* acknowledged; the buffer is the endpoint's */
	FFRIO_RX_REJECTED,
	FFRIO_RX_CANCELLED,
	FFRIO_RX_REVOKED, /* granted for too long */
};

struct ffrio_rx {
	enum ffrio_rx_state state;
	u8 reason; /* REJECTED */
	u16 buffer;
	u32 number;
	u64 since; /* ms */
};

enum ffrio_peer_state {
	FFRIO_PEER_NONE,
	FFRIO_PEER_HELLO, /* ours is on its way; again: ffrio_again() */
	FFRIO_PEER_UP,
};

struct ffrio_peer {
	u8 used;
	u8 index;
	u8 incarnation, known; /* ours to it; its, 0: not known */
	u16 destid;
	enum ffrio_peer_state state;

	u8 hello[FFRIO_HELLO_BYTES]; /* as far as it came */
	u16 hello_have;
	u64 address; /* of its buffers */
	u32 block;   /* bytes of data in each */
	u16 buffers;

	u64 hello_due, ping_due;
	u64 asked;  /* ms, since when something is unanswered; 0: nothing is */
	u16 moving; /* transfers under way, also of incarnations before */

	struct ffrio_tx *tx[FFRIO_SEQS];
	u32 tx_oldest, tx_next; /* count up; a sequence number is the low 4 bits */
	u8 turn;		/* the flow whose turn it is */
	struct ffrio_flow flows[FFRIO_ENDPOINTS];

	struct ffrio_rx rx[FFRIO_SEQS];
	u32 rx_newest; /* the last number seen; UNSEEN are those that it skipped */
};

/* ---- what came in -------------------------------------------------------------------------------- */

enum ffrio_buffer_state {
	FFRIO_BUFFER_FREE,
	FFRIO_BUFFER_GRANTED,
	FFRIO_BUFFER_FILLED,	  /* in its endpoint's queue */
	FFRIO_BUFFER_TAKEN,	  /* being read */
	FFRIO_BUFFER_QUARANTINED, /* its sender is gone, and may write yet */
};

struct ffrio_buffer {
	enum ffrio_buffer_state state;
	u8 peer, seq, endpoint;
	u8 flags; /* FFRIO_FIRST, FFRIO_LAST */
	u8 source;
	u8 queued;
	u16 next; /* in the queue */
	u16 destid;
	u32 length;
	u64 until; /* QUARANTINED, ms */
};

struct ffrio_endpoint {
	u8 bound;
	u8 middle; /* the reader has taken a part of a message */
	u8 broken; /* and the rest will not come */
	u16 broken_destid;
	u16 held;	/* buffers */
	u16 head, tail; /* granted buffers in order */
	u16 token;	/* the peer whose message is under way, or FFRIO_NONE */
	u8 token_waits; /* it was told PARK */
	u8 told;	/* the first of those that wait was told READY */
	u64 told_at;
	u64 token_at;		 /* ms: the holder's last word */
	u8 waiting[FFRIO_PEERS]; /* peers, in order */
	u8 waiting_count;
};

struct ffrio_proto;

struct ffrio_ops {
	/* Sends a doorbell. What can't be sent now is lost; it is said again. */
	int (*doorbell)(struct ffrio_proto *p, u16 destid, u16 info);
	/* A block has a buffer, and is not ready: let its data be copied. */
	void (*granted)(struct ffrio_proto *p, struct ffrio_tx *tx);
	/* Moves a block's data to its buffer; ffrio_tx_moved() tells of the end, later. */
	void (*move)(struct ffrio_proto *p, struct ffrio_tx *tx);
	/* The end of a block: 0 when the receiver has it. */
	void (*sent)(struct ffrio_proto *p, struct ffrio_tx *tx, int result);
	/* Whether that buffer holds this block. Fills in length and source; 0 or -EBADMSG. */
	int (*check)(struct ffrio_proto *p, u16 buffer, u32 number);
	/* A peer breaks the protocol, for the log. */
	void (*broke)(struct ffrio_proto *p, u16 destid, const char *what);
	/* There is something to be read at an endpoint. */
	void (*arrived)(struct ffrio_proto *p, u8 endpoint);
	/* A peer is up, or is no longer. */
	void (*changed)(struct ffrio_proto *p, struct ffrio_peer *peer);
};

struct ffrio_proto {
	const struct ffrio_ops *ops;
	u64 now;     /* ms, not 0; the caller's */
	u64 address; /* RapidIO address of our buffers */
	u32 block;   /* bytes, a power of two */
	u16 buffers;
	u16 quota; /* buffers that an endpoint may hold */
	u16 free;
	u16 bound_without; /* endpoints that are bound and hold none: each is sure of one */
	u32 retry_ms, dead_ms;
	u8 turn; /* the endpoint whose turn it is for a free buffer */
	u8 incarnation;
	u64 stats[FFRIO_STAT_COUNT];
	struct ffrio_buffer buffer[FFRIO_BUFFERS];
	struct ffrio_endpoint endpoint[FFRIO_ENDPOINTS];
	struct ffrio_peer peer[FFRIO_PEERS];
};

#define ffrio_stat(p, name) ((p)->stats[FFRIO_STAT_##name]++)

/* proto.c */
void ffrio_proto_init(struct ffrio_proto *p, const struct ffrio_ops *ops, u8 incarnation);
struct ffrio_peer *ffrio_peer_find(struct ffrio_proto *p, u16 destid);
struct ffrio_peer *ffrio_peer_get(struct ffrio_proto *p, u16 destid);
void ffrio_peer_hello(struct ffrio_proto *p, struct ffrio_peer *peer);
void ffrio_peer_down(struct ffrio_proto *p, struct ffrio_peer *peer, int error);
void ffrio_peer_broke(struct ffrio_proto *p, struct ffrio_peer *peer, const char *what);
void ffrio_doorbell(struct ffrio_proto *p, u16 destid, u16 info);
bool ffrio_tick(struct ffrio_proto *p); /* whether to come back, retry_ms / 2 later */
void ffrio_close(struct ffrio_proto *p);
void ffrio_say(struct ffrio_proto *p, struct ffrio_peer *peer, enum ffrio_db type, u8 seq, u8 arg);
void ffrio_ask(struct ffrio_proto *p, struct ffrio_peer *peer, enum ffrio_db type, u8 seq, u8 arg);
/*
 * When something unanswered since then is said again: what has waited for long waits as long again, or a slow link
 * would carry nothing but repetitions.
 */
static inline u64 ffrio_again(const struct ffrio_proto *p, u64 since)
{
	u64 waited = p->now - since;

	if (waited < p->retry_ms)
		waited = p->retry_ms;
	return p->now + (waited < 4 * p->retry_ms ? waited : 4 * p->retry_ms);
}
static inline u32 ffrio_stride(u32 block)
{
	return FFRIO_HEADER_SIZE + ((block + FFRIO_HEADER_SIZE - 1) & ~(FFRIO_HEADER_SIZE - 1));
}

/* tx.c */
int ffrio_tx_add(struct ffrio_proto *p, struct ffrio_peer *peer, struct ffrio_tx *tx);
void ffrio_tx_ready(struct ffrio_proto *p, struct ffrio_tx *tx);
void ffrio_tx_moved(struct ffrio_proto *p, struct ffrio_tx *tx, int error);
void ffrio_tx_cancel(struct ffrio_proto *p, struct ffrio_tx *tx, int error);
void ffrio_tx_abandon(struct ffrio_proto *p, struct ffrio_peer *peer, u8 endpoint);
void ffrio_tx_up(struct ffrio_proto *p, struct ffrio_peer *peer);
void ffrio_tx_down(struct ffrio_proto *p, struct ffrio_peer *peer, int error);
void ffrio_tx_grant(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq, u8 buffer);
void ffrio_tx_reject(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq, u8 reason);
void ffrio_tx_ack(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq, u8 code);
void ffrio_tx_proceed(struct ffrio_proto *p, struct ffrio_peer *peer, u8 endpoint);
bool ffrio_tx_tick(struct ffrio_proto *p, struct ffrio_peer *peer);

/* rx.c */
int ffrio_rx_bind(struct ffrio_proto *p, int endpoint); /* -1: any; its number, or -errno */
void ffrio_rx_unbind(struct ffrio_proto *p, u8 endpoint);
int ffrio_rx_take(struct ffrio_proto *p, u8 endpoint, u16 *broken_destid);
bool ffrio_rx_pending(const struct ffrio_proto *p, u8 endpoint);
void ffrio_rx_give_back(struct ffrio_proto *p, u16 buffer);
void ffrio_rx_request(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq, u8 arg);
void ffrio_rx_done(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq, u8 buffer);
void ffrio_rx_cancel(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq);
void ffrio_rx_abandoned(struct ffrio_proto *p, struct ffrio_peer *peer, u8 endpoint);
void ffrio_rx_begin(struct ffrio_peer *peer);
void ffrio_rx_down(struct ffrio_proto *p, struct ffrio_peer *peer);
void ffrio_rx_returned(struct ffrio_proto *p, struct ffrio_peer *peer);
bool ffrio_rx_tick(struct ffrio_proto *p, struct ffrio_peer *peer);
bool ffrio_rx_tick_all(struct ffrio_proto *p);

#endif
