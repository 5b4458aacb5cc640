/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mcast.c - multicast: which UD QPs are in which group, and a message's way to all of them. [lock]
 * Called by ctl/mcast.c by the ops (attach, detach) and ud.c (a WR for a group).
 *
 * Theory. A group is a tenant and a multicast GID; it exists while a QP is attached to it. Groups
 * are nobody's: who attaches gets what the tenant's containers send there (joining is the
 * connection manager's business and only tells the network; IBTA 10.5.2). An attachment names a
 * LID, too, which means nothing on Ethernet (RoCE annex A16.4.3): a QP may be attached to a group
 * several times by different LIDs and still gets one copy; it leaves with the last of them.
 *
 * A message goes to the attached QPs in the order in which they attached, one after the other. Each
 * is a UD receiver like any other: what it has no receive for, or another Q_Key, is lost for it
 * alone. The sending QP is no exception when it is attached itself, unless it was created with
 * IBV_QP_CREATE_BLOCK_SELF_MCAST_LB.
 *
 * Nobody waits for a receiver. A message may take several turns (memory behind a process), and the group may change
 * from one turn to the next. So the position in the group is a number of an attachment, which only grows, and never a
 * pointer. A receiver whose memory does not answer within STALL_NS loses the message. The call's worker still writes
 * that message, before all later messages to the same client, which is harmless.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/remote/remote.h"

#define STALL_NS  (2 * NS_PER_MS)
#define HOSTS_NS  (200 * NS_PER_MS)
#define MCAST_QPN 0xffffffu /* destination of every multicast packet (IBTA 9.6.1.2) */

struct mcast_key {
	uint64_t salt;
	char tenant[CONTAINER_NAME_MAX];
	union ibv_gid gid;
};

struct mcast_member {
	struct mcast_group *group;
	struct qp *qp;
	uint64_t seq;
	uint16_t lid;
	bool again; /* the QP is in the group by another attachment already */
	TAILQ_ENTRY(mcast_member) in_group;
	LIST_ENTRY(mcast_member) of_qp;
};

struct mcast_group {
	struct mcast_key key;
	TAILQ_HEAD(member_list, mcast_member) members; /* by seq */
	UT_hash_handle hh;
};

static struct mcast_table *table(struct fast *f)
{
	return &((struct soft_dev *)f->be->priv)->mcast;
}

void mcast_init(struct mcast_table *t)
{
	/* without randomness the table is slower for those who choose their groups so, no more */
	if (getrandom(&t->salt, sizeof(t->salt), GRND_NONBLOCK) < 0)
		t->salt = 0;
}

/* ---- groups --------------------------------------------------------------------------------------- */

static void key_of(const struct mcast_table *t, const char *tenant, const union ibv_gid *gid,
		   struct mcast_key *key)
{
	memset(key, 0, sizeof(*key));
	key->salt = t->salt;
	snprintf(key->tenant, sizeof(key->tenant), "%s", tenant);
	key->gid = *gid;
}

static void key_make(const struct mcast_table *t, const struct qp *qp, const union ibv_gid *gid,
		     struct mcast_key *key)
{
	key_of(t, qp->o.ses->cont->tenant, gid, key);
}

static struct mcast_group *group_find(struct mcast_table *t, const struct mcast_key *key)
{
	struct mcast_group *g;

	HASH_FIND(hh, t->groups, key, sizeof(*key), g);
	return g;
}

static struct mcast_group *group_get(struct fast *f, const struct mcast_key *key)
{
	struct mcast_table *t = table(f);
	struct mcast_group *g = group_find(t, key);

	if (g)
		return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->key = *key;
	TAILQ_INIT(&g->members);
	HASH_ADD(hh, t->groups, key, sizeof(g->key), g);
	if (!g->hh.tbl) {
		free(g);
		return NULL;
	}
	dir_mcast_member(f, key->tenant, &key->gid, true);
	return g;
}

static void group_put(struct fast *f, struct mcast_group *g)
{
	if (!TAILQ_EMPTY(&g->members))
		return;
	dir_mcast_member(f, g->key.tenant, &g->key.gid, false);
	HASH_DELETE(hh, table(f)->groups, g);
	free(g);
}

/* ---- attachments ---------------------------------------------------------------------------------- */

static struct mcast_member *member_find(const struct qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct mcast_member *m;

	LIST_FOREACH(m, &qp->soft->mcast.groups, of_qp)
		if (m->lid == lid && !memcmp(&m->group->key.gid, gid, sizeof(*gid)))
			return m;
	return NULL;
}

/* The attachments of a container to that group. */
static uint32_t members_of(const struct mcast_group *g, const struct container *c)
{
	const struct mcast_member *m;
	uint32_t n = 0;

	TAILQ_FOREACH(m, &g->members, in_group)
		n += m->qp->o.ses->cont == c;
	return n;
}

static bool in_group(const struct mcast_group *g, const struct qp *qp)
{
	const struct mcast_member *m;

	LIST_FOREACH(m, &qp->soft->mcast.groups, of_qp)
		if (m->group == g)
			return true;
	return false;
}

int mcast_attach(struct fast *f, struct qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct container *c = qp->o.ses->cont;
	struct mcast_table *t = table(f);
	struct mcast_member *m;
	struct mcast_group *g;
	struct mcast_key key;

	if (member_find(qp, gid, lid))
		return 0;
	if (c->num_mcast >= MCAST_MAX_CONTAINER)
		return -ENOMEM;
	key_make(t, qp, gid, &key);
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	g = group_get(f, &key);
	if (!g || members_of(g, c) >= MCAST_MAX_GROUP)
		goto err; /* a group with members is not a new one */
	m->group = g;
	m->qp = qp;
	m->lid = lid;
	m->seq = ++t->last_seq;
	m->again = in_group(g, qp);
	TAILQ_INSERT_TAIL(&g->members, m, in_group);
	LIST_INSERT_HEAD(&qp->soft->mcast.groups, m, of_qp);
	c->num_mcast++;
	qp->o.refs++; /* the QP is not destroyed while it is attached (as in the kernel) */
	return 0;

err:
	free(m);
	return -ENOMEM;
}

static void member_free(struct fast *f, struct mcast_member *m)
{
	struct mcast_group *g = m->group;
	struct qp *qp = m->qp;

	TAILQ_REMOVE(&g->members, m, in_group);
	LIST_REMOVE(m, of_qp);
	qp->o.ses->cont->num_mcast--;
	qp->o.refs--;
	free(m);
	group_put(f, g);
}

int mcast_detach(struct fast *f, struct qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct mcast_member *m = member_find(qp, gid, lid), *o;

	if (!m)
		return -EINVAL;
	if (!m->again) /* another attachment stands for the QP from now on */
		LIST_FOREACH(o, &qp->soft->mcast.groups, of_qp)
			if (o != m && o->group == m->group) {
				o->again = false;
				break;
			}
	member_free(f, m);
	return 0;
}

/* All go: none need be looked for that stands for the QP, which takes as many steps as it has others. */
void mcast_leave_all(struct fast *f, struct qp *qp)
{
	struct mcast_member *m;

	while ((m = LIST_FIRST(&qp->soft->mcast.groups)))
		member_free(f, m);
}

/* ---- sending -------------------------------------------------------------------------------------- */

/* The first attachment that has not had its turn; `last` had the last one, or NULL: look it up. */
static struct mcast_member *next_member(struct fast *f, const struct qp *qp,
					struct mcast_member *last)
{
	const struct soft_qp *sq = qp->soft;
	struct mcast_member *m;

	if (last) {
		m = TAILQ_NEXT(last, in_group);
	} else {
		struct mcast_table *t = table(f);
		struct mcast_group *g;
		struct mcast_key key;

		key_make(t, qp, &sq->mcast.gid, &key);
		g = group_find(t, &key);
		if (!g)
			return NULL;
		m = TAILQ_FIRST(&g->members);
		while (m && m->seq <= sq->mcast.seq)
			m = TAILQ_NEXT(m, in_group);
	}
	return m && m->seq <= sq->mcast.end ? m : NULL;
}

static void lost(struct qp *peer)
{
	peer->stats.ud_drops++;
}

enum taken { TAKEN, TAKEN_NOT, TAKEN_LATER };

/* Is the message for that QP, and does it have a receive for it? Then it is sq->req.peer. */
static enum taken take(struct fast *f, struct qp *qp, const struct mcast_member *m)
{
	struct qp *peer = m->qp;

	if (m->again || (peer == qp && qp->block_self_lb) || !route_receives(peer))
		return TAKEN_NOT;
	if (responder_soon(peer, qp))
		return TAKEN_LATER;
	if (ud_qkey(qp) != peer->attr.qkey || responder_admit(f, peer, qp->wr) != ANS_OK ||
	    !remote_rate_datagram(f, peer, SOFT_GRH_SZ + qp->wr->length) ||
	    responder_match(f, peer, qp) != ANS_OK) {
		lost(peer);
		return TAKEN_NOT;
	}
	return TAKEN;
}

/* The receiver under way gets nothing; its receive stays for the next message. */
static void give_up(struct fast *f, struct soft_qp *sq)
{
	xfer_reset(f, &sq->req.x);
	if (!sq->req.peer)
		return;
	lost(sq->req.peer);
	sq->req.peer->soft->resp.from = NULL;
	sq->req.peer = NULL;
}

static enum post_result end(struct fast *f, struct qp *qp, enum ibv_wc_status st,
			    enum ff_vendor_err why)
{
	qp->soft->mcast.step = MCAST_NONE;
	timer_cancel(&f->timers, &qp->soft->req.timer);
	return requester_finish(f, qp, st, why);
}

/* Copy to the receiver under way. POST_DONE: it has had its turn, or the WR has ended. */
static enum post_result deliver(struct fast *f, struct qp *qp)
{
	struct side src = side_of_wr(qp, 0), dst;
	enum ff_vendor_err why = FF_VERR_NONE;
	struct soft_qp *sq = qp->soft;
	struct qp *peer = sq->req.peer;

	src.prefix = sq->ud.grh;
	src.prefix_len = SOFT_GRH_SZ;
	dst = side_of_recv(peer);
	switch (xfer_run(f, &sq->req.x, &src, &dst, SOFT_GRH_SZ + qp->wr->length, &why)) {
	case XFER_MORE:
		return POST_MORE;
	case XFER_NEXT:
		return POST_WAIT;
	case XFER_WAIT:
		if (!sq->req.x.call_writes)
			return POST_WAIT; /* for the sender's own memory */
		give_up(f, sq);
		return POST_DONE;
	case XFER_SRC:
		return end(f, qp, IBV_WC_LOC_PROT_ERR, why);
	case XFER_DST:
		lost(peer);
		sq->req.peer = NULL;
		responder_fault(f, peer, why);
		return POST_DONE;
	case XFER_DONE:
		break;
	}
	peer->stats.rx_bytes += qp->wr->length;
	responder_done(f, peer, qp);
	fast_data_to(f, peer->o.ses);
	return POST_DONE;
}

/*
 * Are the group's hosts known and connected? One that does not come is waited for once, for HOSTS_NS,
 * and not for each message again.
 */
static bool hosts_there(struct fast *f, struct qp *qp, uint64_t *until)
{
	struct soft_qp *sq = qp->soft;
	struct wire_peer **peers;
	bool there = true;
	int n = dir_mcast(f, qp->o.ses->cont->tenant, &sq->mcast.gid, &peers);

	*until = sq->mcast.give_up;
	if (n < 0)
		return f->now >= *until;
	for (int i = 0; i < n; i++) {
		struct wire_peer *p = peers[i];

		if (p->tcp || !p->up)
			continue;
		peer_want(p);
		if (!p->mcast_give_up)
			p->mcast_give_up = f->now + HOSTS_NS;
		if (f->now >= p->mcast_give_up)
			continue;
		there = false;
		*until = p->mcast_give_up;
	}
	return there;
}

/*
 * All members here have had the message: now those on other hosts. Who they are may not be known yet
 * of a group that is new here, or they are not connected; that is waited for, for a while.
 */
static enum post_result to_others(struct fast *f, struct qp *qp)
{
	struct soft_qp *sq = qp->soft;
	enum ff_vendor_err why = FF_VERR_NONE;
	enum post_result r;
	uint64_t until;

	if (sq->mcast.step == MCAST_HERE) { /* the first time here */
		xfer_reset(f, &sq->req.x);
		sq->mcast.give_up = f->now + HOSTS_NS;
	}
	if (!hosts_there(f, qp, &until)) {
		sq->mcast.step = MCAST_ASKED;
		timer_arm(&f->timers, &sq->req.timer, until);
		return POST_WAIT;
	}
	sq->mcast.step = MCAST_OTHERS;
	r = remote_ud_mcast(f, qp, &why);
	if (r != POST_DONE)
		return r;
	return end(f, qp, why ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS, why);
}

static bool may_have(struct fast *f, const struct mcast_member *m, const struct remote *from)
{
	return !m->again && dir_allowed(f->host, m->qp->o.ses->cont, from->tenant, from->name);
}

bool mcast_from_remote(struct fast *f, const struct remote *from, const struct wire_hdr *h,
		       const uint8_t *data)
{
	struct mcast_table *t = table(f);
	struct mcast_member *m;
	struct mcast_group *g;
	union ibv_gid gid;
	struct mcast_key key;

	memcpy(&gid, h->ud.mgid, sizeof(gid));
	key_of(t, from->tenant, &gid, &key);
	g = group_find(t, &key);
	if (!g)
		return true;
	TAILQ_FOREACH(m, &g->members, in_group)
		if (may_have(f, m, from) && remote_ud_must_wait(f, m->qp))
			return false;
	TAILQ_FOREACH(m, &g->members, in_group)
		if (may_have(f, m, from))
			remote_ud_deliver(f, m->qp, h, data);
	return true;
}

enum post_result mcast_run(struct fast *f, struct qp *qp)
{
	struct soft_qp *sq = qp->soft;
	struct mcast_member *m = NULL;
	uint64_t moved = 0;

	if (sq->mcast.step == MCAST_PAY) {
		if (!rate_pay(f, qp, SOFT_GRH_SZ + qp->wr->length))
			return POST_WAIT;
		sq->mcast.step = MCAST_HERE;
	}
	if (xfer_is_busy(&sq->req.x) && (sq->mcast.step != MCAST_HERE || !sq->req.x.call_writes))
		return POST_WAIT; /* for the sender's own memory */
	if (sq->mcast.step != MCAST_HERE)
		return to_others(f, qp);
	if (xfer_is_busy(&sq->req.x)) {
		if (f->now < sq->mcast.give_up) {
			timer_arm(&f->timers, &sq->req.timer, sq->mcast.give_up);
			return POST_WAIT;
		}
		give_up(f, sq);
	}
	for (;;) {
		enum post_result r;

		if (!sq->req.peer) {
			enum taken taken;

			m = next_member(f, qp, m);
			if (!m)
				return to_others(f, qp);
			if (moved >= f->conf.quantum)
				return POST_MORE;
			xfer_reset(f, &sq->req.x);
			taken = take(f, qp, m);
			if (taken == TAKEN_LATER)
				return POST_MORE;
			sq->mcast.seq = m->seq;
			if (!qp->busy) /* its own receive has failed it */
				return POST_DONE;
			if (taken == TAKEN_NOT)
				continue;
			moved += SOFT_GRH_SZ + qp->wr->length;
			sq->mcast.give_up = f->now + STALL_NS;
			if (!sq->req.timer.index)
				timer_arm(&f->timers, &sq->req.timer, sq->mcast.give_up);
		}
		r = deliver(f, qp);
		if (r != POST_DONE)
			return r;
		if (!qp->busy || sq->mcast.step == MCAST_NONE)
			return POST_DONE;
	}
}

enum post_result mcast_start(struct fast *f, struct qp *qp)
{
	struct soft_mcast *m = &qp->soft->mcast;

	if (qp->wr->remote_qpn != MCAST_QPN)
		return requester_drop(f, qp);
	m->step = MCAST_PAY;
	m->seq = 0;
	m->end = table(f)->last_seq;
	return mcast_run(f, qp);
}
