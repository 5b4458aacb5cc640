/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * frame_world.h - the world of fuzz_frame.c: a fast path with QPs of each kind that are connected with a
 * host that lies, one QP that is connected with a host that does not, memory of which is known who may
 * change and see it, and what must hold of all that at any time (a violation ends the program).
 */
#ifndef FRAME_WORLD_H
#define FRAME_WORLD_H

#include <stdlib.h>

#include "ffr/remote/remote.h"
#include "tests/rig/unit/others.h"
#include "tests/rig/unit/rig.h"

#define REMOTE_ALL                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | FF_ACCESS_FLUSH_GLOBAL)
#define PEER_QPN  1000u /* of the first of the other side's QPs */
#define LIAR_ID	  20u	/* containers of the two other hosts */
#define HONEST_ID 30u
#define GAP	  256u	/* bytes: around each area */
#define NUM_SLOTS 8u	/* of an area */
#define SLOT	  2048u /* bytes */
#define SLOT_MAX  2000u /* bytes of a slot that are used */
#define SECRET	  0x5c	/* what memory holds that nobody may see */
#define PUBLIC	  0x11	/* what it holds that the other side may read */
#define EMPTY	  0xee	/* a slot that waits for bytes: never part of a payload */

/* Memory, each part with an MR of its own; OPEN ones are the other side's to write. */
enum area {
	OPEN,
	OPEN_PVM, /* behind a process, as the other _PVM */
	RECV,	  /* slots for receives and for what READs and atomics bring */
	RECV_PVM,
	READ_ONLY,
	OTHER_PD,
	OTHER_CONT,
	HONEST,
	NUM_AREAS
};
enum slot_use { FREE, FOR_RECV, FOR_READ, FOR_ATOMIC };
struct slot {
	enum slot_use use;
	uint32_t len;
	unsigned line; /* whose WR or receive it is in */
};

/* A QP that is connected with the liar, and what the liar has sent it. */
enum { RC, RC_SRQ, UC, UD, XRC_IN, XRC_OUT, NUM_LINES };
struct line {
	struct rig_qp *rq; /* NULL: XRC_IN */
	struct qp *qp;
	/* the message under way, as its frames were made */
	uint32_t tag, msn, rkey;
	uint64_t addr, off, length;
	uint8_t opcode;
	/* the READ that is being answered */
	uint32_t read_msn;
	uint64_t read_off;
};

/* A stream to another host. */
struct stream {
	struct wire_peer peer;
	struct remote remote;
	int fd; /* its end; -1 */
	/* what came out of it, as far as the next frame */
	struct wire_hdr h;
	uint32_t got;  /* of header and payload */
	uint32_t same; /* secret bytes in a row */
};

struct world {
	const uint8_t *in; /* the program, and how much of it is left */
	size_t left;
	struct rig r;
	struct others o;
	struct rig_ses *s, *good;
	struct rig_cq *cq, *good_cq;
	struct rig_srq *srq, *xsrq[2];
	uint32_t last_srqn;
	struct xrcd xrcd;
	struct xrcd_ref xref;
	struct qp user; /* our handle of XRC_IN */
	struct rig_qp *honest;
	uint32_t honest_msn; /* the next one */
	struct pd pd;	     /* OTHER_PD's */
	struct ah ah, group_ah;
	struct line line[NUM_LINES];
	unsigned now;		/* the line that most is about */
	uint32_t at[NUM_AREAS]; /* where each area begins in the memory */
	struct mr *mr[NUM_AREAS];
	struct slot slot[2 * NUM_SLOTS];
	uint32_t fates; /* of the next copies behind a process */
	struct stream liar, friend;
	uint32_t out_at, out_len; /* the liar's frames that are not in the socket yet */
};

extern struct world *w;
extern const union ibv_gid world_group; /* the UD QP is in it */

static inline void must(bool ok)
{
	if (!ok)
		abort();
}

static inline struct fast *fast(void)
{
	return w->r.f;
}

static inline struct remote_qp *rem(const struct line *l)
{
	return l->qp->soft ? l->qp->soft->rem : NULL;
}

/* *w is zeroed. */
void world_build(void);
void world_tear_down(void);
/* A turn of the fast path, and what completed in it. */
void world_turn(void);
void world_poll(void);
/* What is not open to anybody has not changed. */
void world_check(void);

uint64_t addr_of(enum area a);
/* Is that part of an area that is behind a process? */
bool world_reaches(uint64_t va, uint32_t len);
/* Register an area's MR, again. */
void mr_again(enum area a);
uint8_t *slot_at(unsigned i);
struct mr *slot_mr(unsigned i);
/* A slot is the program's again: from now on it does not change. */
void slot_free(unsigned i);
void connect_line(unsigned i);

void stream_open(struct stream *s);
void stream_cut(struct stream *s);
/* Take up to `most` bytes of what the router has sent, and look whether they are frames. */
void stream_drain(struct stream *s, uint32_t most);
/* A WRITE of the honest host's, which comes whole and is acknowledged. */
void honest_write(void);

#endif
