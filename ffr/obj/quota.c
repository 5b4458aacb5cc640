/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * quota.c - see quota.h. Called by whoever makes things for clients: ctl/, session.c, seg.c.
 * Control thread.
 */
#include "ffr/obj/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include "ffr/lib/log.h"
#include "ffr/obj/events.h"
#include "ffr/obj/mr_counts.h"
#include "ffr/obj/objects.h"

#define FDS_OWN                                                                                    \
	1024u /* descriptors that are left for the router itself, or a quarter, if that is less */

const char *const quota_name[] = {
#define X(NAME, field) #field,
	FFR_QUOTAS(X)
#undef X
		"memory",
};

/*
 * Bytes of heap that go with one, beside what is charged as QUOTA_MEMORY; ffr.conf(5) tells them. A
 * session's socket for asynchronous events is among them: what its client does not read there is the router's memory.
 */
static const uint64_t heap[QUOTA_NUM] = {
	[QUOTA_QP] = 4096, [QUOTA_CQ] = 1024,	 [QUOTA_SRQ] = 1024,
	[QUOTA_MR] = 512,  [QUOTA_OBJECT] = 640, [QUOTA_SESSION] = 49152 + QUOTA_SOCKET,
};

uint64_t quota_limit(const struct ffo_limits *l, enum quota q)
{
	switch (q) {
#define X(NAME, field)                                                                             \
	case QUOTA_##NAME:                                                                         \
		return l->field;
		FFR_QUOTAS(X)
#undef X
	default:
		return 0;
	}
}

static bool fits(const struct ffo_limits *l, const struct quota_use *u, enum quota q, uint64_t n)
{
	uint64_t limit = quota_limit(l, q);

	return !limit || (u->used[q] <= limit && n <= limit - u->used[q]);
}

const struct ffo_limits *quota_used_up(const struct container *c, enum quota q)
{
	if (!fits(&c->limits, &c->quota.use, q, 1))
		return &c->limits;
	return fits(&c->of->limits, &c->of->use, q, 1) ? NULL : &c->of->limits;
}

static void refuse(struct container *c, enum quota q, uint64_t n)
{
	bool own = !fits(&c->limits, &c->quota.use, q, n);

	c->quota.refusal = (struct quota_refusal){
		.untold = true,
		.own = own,
		.q = q,
		.n = n,
		.used = own ? c->quota.use.used[q] : c->of->use.used[q],
		.limit = quota_limit(own ? &c->limits : &c->of->limits, q),
	};
}

void quota_reached(struct container *c, unsigned bit, const char *text)
{
	static_assert(REACHED_NUM <= 32, "bits of cont_quota.reached");
	if (c->quota.reached & 1u << bit)
		return;
	c->quota.reached |= 1u << bit;
	event_add(EVENT_LIMIT, c, "%s", text);
}

void quota_tell(struct container *c)
{
	struct quota_refusal *r = &c->quota.refusal;
	const char *tenant = r->own ? "" : c->tenant;
	char text[256];

	if (!r->untold)
		return;
	r->untold = false;
	if (r->share)
		snprintf(text, sizeof(text),
			 "%s%s has %" PRIu64 " of the %" PRIu64
			 " %s that the router can have, and must leave the rest to others",
			 r->own ? "it" : "tenant ", tenant, r->used, r->limit, r->share);
	else
		snprintf(text, sizeof(text),
			 "%s of %s%s is used up: %" PRIu64 " of %" PRIu64 ", and %" PRIu64
			 " more were asked for",
			 quota_name[r->q], r->own ? "the container" : "tenant ", tenant, r->used,
			 r->limit, r->n);
	log_client(&c->log, LOG_LEVEL_WARN, "container %s: %s", c->name, text);
	quota_reached(c, r->share ? REACHED_SHARE : (unsigned)r->q, text);
}

/* ---- shared tables ----------------------------------------------------------------------------- */

static const struct {
	uint32_t max;
	const char *what;
} share[] = {
#define X(NAME, max, what) { max, what },
	FFR_SHARES(X)
#undef X
};

static uint32_t share_used[SHARE_NUM];

/* May the container, which has `own`, and its tenant, which has `all`, have n more of a table? If not, why. */
static bool share_left(struct container *c, uint64_t own, uint64_t all, uint64_t used, uint64_t max,
		       uint64_t n, const char *what)
{
	bool full = share_full(own + n - 1, used + n - 1, max);

	if (!full && (own + n <= SHARE_SMALL || !share_full(all + n - 1, used + n - 1, max)))
		return true;
	c->quota.refusal = (struct quota_refusal){
		.untold = true,
		.own = full,
		.used = full ? own : all,
		.limit = max,
		.share = what,
	};
	return false;
}

int quota_share_take(struct container *c, enum share s, uint32_t n)
{
	if (!share_left(c, c->quota.use.shares[s], c->of->use.shares[s], share_used[s],
			share[s].max, n, share[s].what))
		return -ENOSPC;
	c->quota.use.shares[s] += n;
	c->of->use.shares[s] += n;
	share_used[s] += n;
	return 0;
}

void quota_share_return(struct container *c, enum share s, uint32_t n)
{
	c->quota.use.shares[s] -= n;
	c->of->use.shares[s] -= n;
	share_used[s] -= n;
}

/* Descriptors of all containers. The limit may be changed at run time (prlimit(1)). */
static uint64_t fds_used;

static bool fds_left(struct container *c, uint64_t n)
{
	struct rlimit l;
	uint64_t own;

	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur == RLIM_INFINITY)
		return true;
	own = l.rlim_cur / 4 < FDS_OWN ? l.rlim_cur / 4 : FDS_OWN;
	return share_left(c, c->quota.use.used[QUOTA_FD], c->of->use.used[QUOTA_FD], fds_used,
			  l.rlim_cur - own, n, "descriptors");
}

/* ---- memory ------------------------------------------------------------------------------------ */

static uint64_t memory_used, memory_max;

void quota_memory_bound(uint64_t bytes)
{
	memory_max = bytes;
}

static uint64_t memory_of(enum quota q, uint64_t n)
{
	return q == QUOTA_MEMORY ? n : n * heap[q];
}

static bool memory_left(struct container *c, uint64_t bytes)
{
	const uint64_t unit = QUOTA_MEMORY_UNIT;

	if (!memory_max || !bytes ||
	    share_left(c, c->quota.use.used[QUOTA_MEMORY] / unit,
		       c->of->use.used[QUOTA_MEMORY] / unit, memory_used / unit, memory_max / unit,
		       bytes / unit + (bytes % unit > 0), "kB of memory"))
		return true;
	c->quota.refusal.used *= unit / 1024;
	c->quota.refusal.limit *= unit / 1024;
	return false;
}

/* ---- quotas ------------------------------------------------------------------------------------ */

static void count(struct container *c, enum quota q, uint64_t n)
{
	c->quota.use.used[q] += n;
	c->of->use.used[q] += n;
}

int quota_charge(struct container *c, enum quota q, uint64_t n)
{
	uint64_t bytes = memory_of(q, n);

	if (!fits(&c->limits, &c->quota.use, q, n) || !fits(&c->of->limits, &c->of->use, q, n)) {
		refuse(c, q, n);
		return -ENOMEM;
	}
	if ((q == QUOTA_FD && !fds_left(c, n)) || !memory_left(c, bytes))
		return -ENOMEM;
	if (q == QUOTA_FD)
		fds_used += n;
	if (q != QUOTA_MEMORY)
		count(c, q, n);
	count(c, QUOTA_MEMORY, bytes);
	memory_used += bytes;
	return 0;
}

void quota_return(struct container *c, enum quota q, uint64_t n)
{
	uint64_t bytes = memory_of(q, n);

	if (q == QUOTA_FD)
		fds_used -= n;
	if (q != QUOTA_MEMORY)
		count(c, q, -n);
	count(c, QUOTA_MEMORY, -bytes);
	memory_used -= bytes;
}

/* ---- objects --------------------------------------------------------------------------------- */

struct takes {
	unsigned int num;
	struct {
		enum quota q;
		uint64_t n;
	} of[2];
};

static struct takes takes(const struct obj *o)
{
	const struct mr *mr;
	const struct qp *qp;

	switch (o->kind) {
	case OBJ_QP:
		qp = obj_of(o, qp);
		return (struct takes){
			2, { { QUOTA_QP, 1 }, { QUOTA_WR, (uint64_t)qp->sq.depth + qp->rq.depth } }
		};
	case OBJ_SRQ:
		return (struct takes){ 2,
				       { { QUOTA_SRQ, 1 }, { QUOTA_WR, obj_of(o, srq)->depth } } };
	case OBJ_CQ:
		return (struct takes){ 1, { { QUOTA_CQ, 1 } } };
	case OBJ_MR:
		mr = obj_of(o, mr);
		return (struct takes){
			2, { { QUOTA_MR, mr_counts(mr) }, { QUOTA_REGISTERED, mr_pinned(mr) } }
		};
	case OBJ_CHANNEL:
		return (struct takes){ 2, { { QUOTA_FD, 1 }, { QUOTA_MEMORY, QUOTA_SOCKET } } };
	case OBJ_CM_ID:
		return (struct takes){ 1, { { QUOTA_OBJECT, CM_ID_OBJECTS } } };
	default:
		return (struct takes){ 1, { { QUOTA_OBJECT, 1 } } };
	}
}

int quota_charge_obj(struct container *c, const struct obj *o)
{
	const struct takes t = takes(o);
	int err = 0;

	for (unsigned int i = 0; !err && i < t.num; i++) {
		err = quota_charge(c, t.of[i].q, t.of[i].n);
		if (err && i)
			quota_return(c, t.of[0].q, t.of[0].n);
	}
	return err;
}

void quota_return_obj(struct container *c, const struct obj *o)
{
	const struct takes t = takes(o);

	for (unsigned int i = 0; i < t.num; i++)
		quota_return(c, t.of[i].q, t.of[i].n);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* At the limit in force. When that has changed, as much of a second's calls is left as before. */
static struct bucket *calls(const struct ffo_limits *l, struct quota_use *u)
{
	if (u->calls.rate != l->max_calls)
		u->calls = (struct bucket){ .rate = l->max_calls,
					    .burst = BUCKET_SECOND,
					    .paid = u->calls.paid };
	return &u->calls;
}

bool quota_calls_limited(const struct container *c)
{
	return c->limits.max_calls || c->of->limits.max_calls;
}

uint64_t quota_call_wait(struct container *c, uint64_t now)
{
	uint64_t own = bucket_wait(calls(&c->limits, &c->quota.use), now);
	uint64_t all = bucket_wait(calls(&c->of->limits, &c->of->use), now);

	return own > all ? own : all;
}

void quota_call_charge(struct container *c, uint64_t now)
{
	bucket_charge(calls(&c->limits, &c->quota.use), now, 1);
	bucket_charge(calls(&c->of->limits, &c->of->use), now, 1);
}
