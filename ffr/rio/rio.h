/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rio.h - RapidIO: frames of two routers by blocks of ffrio (kmod/ffrio.h) instead of TCP.
 * docs/carriers/rapidio.md has the protocol.
 *
 * Job: for each connected router an endpoint of /dev/ffrio, with a stream in either direction (struct wire_by). The
 * software device does the verbs, and sends and receives frames as with TCP. Neighbours: wire/tcp.c, which calls
 * stream.c and link.c; keeper/, which opens the device. Threads: dev.c opens endpoints on the control thread;
 * everything else is [lock], on the runner of the first thread, except when a connection begins or ends.
 *
 *	carrier.c  the entry in the list of carriers
 *	dev.c      the device, its endpoints, what the log is told
 *	link.c     where a peer is, whether it is reached, how it begins and ends
 *	stream.c   bytes to blocks and back
 *
 * The room ffr/rio/ may use wire/, soft/ and all that soft/ may, keeper/, and kmod/'s header.
 */
#ifndef FFR_RIO_RIO_H
#define FFR_RIO_RIO_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "ffr/fast/backend.h"
#include "ffr/lib/timer.h"
#include "ffr/soft/soft.h"
#include "kmod/ffrio.h"

/* What rio_carrier's open() is given. */
struct rio_conf {
	uint32_t port; /* the kernel's number of the master port */
};

/* The device, and in tests something else: each call returns 0 (or what it says) or -errno. */
struct rio_calls {
	int (*open)(void); /* a descriptor, non-blocking */
	int (*call)(int fd, unsigned long request, void *arg);
	void *(*map)(int fd, uint64_t offset, uint64_t length, bool writes); /* NULL: errno */
	void (*unmap)(const void *p, uint64_t length);
	void (*close)(int fd);
};
extern const struct rio_calls rio_kernel; /* dev.c */
extern const struct rio_calls *rio_calls;

#define RIO_RETRY_NS  (10000 * NS_PER_MS) /* time until a failed step of a link is tried again */
#define RIO_AGAIN_NS  (1 * NS_PER_MS)	  /* time until a send is tried again that found no room */
#define RIO_IDLE_NS   (10 * NS_PER_MS)	  /* time until an unused send buffer is given back */
#define RIO_BLOCK_MIN 256u		  /* bytes of the smallest block that is of use */
#define RIO_SMBS      (FFRIO_BUFFERS / 4) /* send buffers that one endpoint has at most */

/* In front of the bytes of each block; little-endian, as wire_hdr. */
struct rio_head {
	uint64_t token;	 /* that the receiver has told the sender */
	uint32_t number; /* of the block; block 0 has no bytes, and shows that blocks arrive */
	uint32_t zero;
};
_Static_assert(sizeof(struct rio_head) == 16, "protocol");

/* An endpoint of the device. */
struct rio_end {
	int fd; /* -1: none */
	struct ffrio_bind bound;
	uint8_t *smb;
	const uint8_t *rmb;
};

/* The state of the path to a peer. Receiving from the peer does not depend on this state. */
enum rio_state {
	RIO_CLOSED,  /* no endpoint; the timer, then the control thread, go on */
	RIO_OPENING, /* the control thread opens an endpoint */
	RIO_OPEN,    /* the peer was told of our endpoint, but has not told of its own */
	RIO_ASKED,   /* block 0 is on its way */
	RIO_FAILED,  /* block 0 has not arrived; the timer goes on */
	RIO_UP,	     /* block 0 has arrived: frames are sent by RapidIO */
	RIO_STATES
};
const char *rio_state_str(enum rio_state state);

/* The link to a connected peer, which p->by points to. [lock] */
struct rio_link {
	LIST_ENTRY(rio_link) entry;
	struct rio_dev *dev;
	struct wire_peer *peer;
	uint64_t id; /* no other link has or had this number */
	enum rio_state state;
	struct rio_end end;
	uint64_t token; /* of blocks that come to us */
	bool untold;	/* the peer is still to be told of our endpoint */
	bool moved;	/* the peer's endpoint is no longer where block 0 was sent to */
	bool known;	/* `to` is set: the peer has told of its endpoint */
	struct {
		uint64_t token;
		uint16_t node;
		uint8_t endpoint;
		uint32_t block; /* bytes */
	} to;
	int err; /* -errno: why the link has ended */
	bool logged;
	struct timer timer;
	/* sending; buffers by their numbers */
	uint16_t idle[RIO_SMBS];
	uint32_t num_idle, held; /* held: buffers that are idle, under way or being filled */
	uint32_t under_way;	 /* buffers that are being sent */
	int fills;		 /* the buffer being filled, -1: none */
	uint32_t fill;
	uint32_t number_out;
	/* receiving */
	bool begun; /* OVER has come */
	bool more;  /* blocks wait that nobody has looked at */
	int reads;  /* the buffer being read, -1: none */
	const uint8_t *rest;
	uint32_t rest_len;
	uint32_t number_in;
};

/* X(name, help): events since the start, which metrics have. */
#define RIO_STATS(X)                                                                               \
	X(blocks_out, "Blocks sent by RapidIO.")                                                   \
	X(blocks_in, "Blocks received by RapidIO.")                                                \
	X(strangers, "Blocks that nobody was asked to send.")                                      \
	X(starved, "Times that there was no send buffer, and none under way.")

struct rio_stats {
#define X(name, help) uint64_t name;
	RIO_STATS(X)
#undef X
};

struct rio_dev {
	struct fast *f;
	struct rio_conf conf;
	/* [lock] */
	LIST_HEAD(, rio_link) links;
	uint32_t num_ends; /* links that have an endpoint */
	uint64_t last_id;
	struct rio_stats stats;
	_Atomic bool wanted; /* rio_work() has something to do */
	/* [ctl] */
	bool is_new; /* rio_work() has not looked for the port yet */
	int said;    /* -errno: why the last one could not be opened, as the log knows */
};

/* NULL: not on this thread */
static inline struct rio_dev *rio_dev_of(const struct fast *f)
{
	return wire_dev(f)->by_dev;
}

/* ---- carrier.c -------------------------------------------------------------------------------------- */

extern const struct carrier rio_carrier;

/* ---- dev.c; control thread -------------------------------------------------------------------------- */

/* An endpoint of that port, without the lock. 0 or -errno. */
int rio_end_open(struct rio_end *e, uint32_t port);
/* Any thread: with it ends all that it has of the kernel's. */
void rio_end_close(struct rio_end *e);
/*
 * The op of this name: opens what links ask for, and tells the log what has become of them. Its first call looks for
 * the port, because open() comes before there is a keeper, which has the right to the device.
 */
void rio_work(struct fast *f, bool all);

/* ---- link.c; [lock] --------------------------------------------------------------------------------- */

extern const struct wire_by rio_by;
/* The control thread has tried to open an endpoint for it; *e is the link's, or err says why there is none. */
void rio_link_opened(struct rio_link *l, struct rio_end *e, int err);
/* The device tells. */
void rio_link_ready(struct rio_link *l, uint32_t events);
/* Block 0 has arrived, or has not. */
void rio_link_answered(struct rio_link *l, int result);

/* ---- stream.c; [lock] ------------------------------------------------------------------------------- */

/* As the ops of these names in struct wire_by. */
ssize_t rio_readv(struct fast *f, struct wire_peer *p, const struct iovec *iov, int n);
ssize_t rio_writev(struct fast *f, struct wire_peer *p, const struct iovec *iov, int n);
int rio_flush(struct fast *f, struct wire_peer *p);
bool rio_pending(const struct wire_peer *p);
/* Send block 0. 0, -EAGAIN or -errno. */
int rio_ask(struct rio_link *l);
/* See what has become of blocks that are under way. */
void rio_reap(struct rio_link *l);
/* Nothing is under way: buffers are others'. */
void rio_rest(struct rio_link *l);

#endif
