/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rate.h - rate limits: who may move how many bytes, and carry out how many requests. [lock]
 *
 * A meter has a bucket (bucket.h) of bytes and one of requests; a container has one for each
 * direction, and so has its tenant. A bucket may be ahead by RATE_SLACK_NS, so that a limited container
 * works for a while and sleeps for a while. What is ahead farther closes the meter until all is paid for.
 *
 * An operation asks the meters of both its ends before a byte moves. If one is closed, it waits there,
 * and goes on in its turn when the meter opens: a transfer in the middle, too. What it is allowed is
 * charged at once. Nobody else waits. Those who wait for the same meter take turns, by bytes: who has
 * had SHARE_NS worth of it stands behind the others.
 *
 * Containers that share their tenant's meter get parts of it by their weights, also those that post
 * little at a time, and so are found without work when it would be their turn. What each has had is
 * held against what it would have had if all that were active lately had been served all the time
 * (rate_share). Who is ahead of that leaves RESERVE_NS worth of the limit to the others, which is
 * there for them when they post; as a bucket may lie behind by its burst, it is not lost.
 */
#ifndef FFR_OBJ_RATE_H
#define FFR_OBJ_RATE_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stdint.h>

#include "ffr/lib/timer.h"
#include "ffr/obj/bucket.h"

struct container;
struct fast;
struct qp;

#define RATE_SLACK_NS 1000000ull /* a limited container is served once in this time */
/* At the rate; where no burst is set. What a late timer costs is made up. */
#define RATE_BURST_NS 4000000ull

enum rate_dir { RATE_TX, RATE_RX, RATE_SERVE, RATE_DIRS };

/* A container's part of its tenant's meter. */
struct rate_share {
	uint64_t had;	   /* 2^-8 units that were charged, for a weight of FFO_WEIGHT_DEFAULT */
	uint32_t interval; /* of the meter, in which it was charged last */
};

/* Who waits for a meter. */
struct rate_wait {
	struct rate_meter *on; /* NULL: for none */
	TAILQ_ENTRY(rate_wait) entry;
	uint64_t since;		  /* ns */
	struct rate_meter *first; /* let it go in its `opening`, and it has got nothing since */
	uint32_t opening;
	uint64_t used; /* bytes that it got since it was let go, while others waited */
	bool ahead;    /* the rest is others': it is not let go before the timer */
	/* It opens; the wait has ended. */
	void (*go)(struct fast *f, struct rate_wait *w);
};

struct rate_meter {
	struct bucket bytes, ops;
	bool closed;
	/* ns: a backlog that is not the containers' doing, but of a runner that did not run, beyond the
	 * burst; of fast->stolen so much is in it; the last charge */
	uint64_t extra, stolen, last;
	TAILQ_HEAD(rate_waiters, rate_wait) waiters, ahead;
	uint32_t opening;   /* grows: who was let go before and got nothing is not waited for */
	uint32_t num_first; /* whose `first` it is, of this opening */
	struct rate_wait *front; /* the last of those that stand before all others again */
	struct timer timer;
	struct fast *f;
	/* A tenant's: what an active container has had that gets its part, as rate_share.had; the
	 * weights of those that were charged in this interval, and in the one before. */
	uint64_t had;
	uint32_t interval, weight, weight_before;
	uint64_t interval_from; /* ns */
};

/* A container's part. fast/rate.c */
struct cont_rate {
	bool own; /* one of these may close */
	struct rate_meter meter[RATE_DIRS];
	struct rate_share share[RATE_DIRS]; /* of its tenant's */
};

/* What an operation is charged to. */
struct rate_path {
	struct container *own, *peer; /* peer NULL: on another host, or many */
	uint8_t dir, peer_dir;	      /* enum rate_dir */
};

/* Does any limit hold on that path? */
bool rate_limited(const struct rate_path *p);
/*
 * May it go on? Then *want is reduced to the bytes that it may move now, not less than one if it was
 * not 0; else a meter that is closed, or where it is others' turn. w NULL: it will not wait.
 */
struct rate_meter *rate_ask(struct fast *f, const struct rate_path *p, struct rate_wait *w,
			    uint64_t *want);
/* It goes on; w: its place in the line, should it have to wait again, is behind others. NULL: none. */
void rate_charge(struct fast *f, const struct rate_path *p, struct rate_wait *w, uint64_t bytes,
		 uint32_t ops);
/*
 * The WR under way of a QP pays for bytes before they move. True: the bytes are charged. False: nothing is charged.
 * Tell whether the QP waits for the limits then:
 * rate_pay(): does. All bytes go out at once, as soon as any byte may: to another host, or to many receivers.
 * rate_pay_part(): does. *want becomes the number of bytes that may move now. ops: 1 for the WR's first part, then 0.
 * rate_pay_now(): does not. The limits must let all bytes through.
 */
bool rate_pay(struct fast *f, struct qp *qp, uint64_t bytes);
bool rate_pay_part(struct fast *f, struct qp *qp, const struct rate_path *p, uint64_t *want,
		   uint32_t ops);
bool rate_pay_now(struct fast *f, struct qp *qp, const struct qp *peer, uint64_t bytes);
/* Wait for it; w->go is set. */
void rate_wait(struct fast *f, struct rate_meter *m, struct rate_wait *w);
/* It waits no more, if it did: the time that it has waited for, ns. */
uint64_t rate_forget(struct fast *f, struct rate_wait *w);

#endif
