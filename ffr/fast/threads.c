/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * threads.c - several fast threads: which container is on which one. Control thread, with the
 * locks of all threads; fast_want_near() alone is a runner's.
 *
 * A container is on one thread, and so are all that it talks to on this host: what a runner touches is
 * its own, so that no operation takes a second lock and none waits for another thread. Containers that
 * talk to each other are a group. A group grows when a path is made (dir_meet(): a QP is connected, an
 * AH is created), and falls apart when QPs and AHs go; it moves as a whole. Containers of a tenant with
 * limits are a group too, for they share its meters.
 *
 * The wire to other hosts and multicast groups are the first thread's, and who needs them is there.
 *
 * A move is a change of lists, at a moment at which no runner is in a turn: rings, requests under way,
 * receives, timers, waits for a receive or a limit stay as they are, so order is kept. What cannot move
 * is a session whose memory a call is reaching for (pvm.c). Such a call is short, and until it ends the
 * group is on hold, so that no other begins; one that a client stalls keeps its group where it is, and
 * only those who wanted to come together with it wait.
 */
#include <errno.h>
#include <time.h>

#include "ffr/fast/internal.h"
#include "ffr/fast/pvm.h"

#define HOLD_TRIES 100
#define HOLD_NS                                                                                    \
	(100 * NS_PER_US) /* between two tries; all are longer than roles.c takes to notice */
#define STUCK_NS (1000 * NS_PER_MS) /* a tenant's limits wait for so long */
#define LOAD_MIN (64ull << 20)	    /* of a thread, in FAST_BALANCE_MS; below, all is well */

/* ---- groups ---------------------------------------------------------------------------------- */

static struct container *root(struct container *c)
{
	while (c->place.group != c)
		c = c->place.group = c->place.group->place.group;
	return c;
}

static void unite(struct container *a, struct container *b)
{
	if (b)
		root(a)->place.group = root(b);
}

static void unite_session(struct session *s)
{
	struct obj_table *q = &s->tab[OBJ_QP], *a = &s->tab[OBJ_AH];

	for (uint32_t i = 0; i < q->size; i++)
		if (q->slot[i])
			unite(s->cont, obj_of(q->slot[i], qp)->dest);
	for (uint32_t i = 0; i < a->size; i++)
		if (a->slot[i])
			unite(s->cont, obj_of(a->slot[i], ah)->cont);
}

static void unite_xrc(struct container *c)
{
	struct xrcd *x;
	struct qp *t;

	LIST_FOREACH(x, &c->xrcds, entry)
		LIST_FOREACH(t, &x->targets, xrc.same_xrcd)
			unite(c, t->dest);
}

/* c->group of all: who has the same root is in the same group. */
static void find_groups(struct fast_host *h)
{
	struct container *c;
	struct session *s;
	struct tenant *t;

	LIST_FOREACH(t, &h->tenants, entry)
		t->any = NULL;
	LIST_FOREACH(c, &h->containers, entry)
		c->place.group = c;
	LIST_FOREACH(c, &h->containers, entry) {
		if (c->of->limited) {
			unite(c, c->of->any);
			c->of->any = c;
		}
		LIST_FOREACH(s, &c->sessions, entry)
			unite_session(s);
		unite_xrc(c);
	}
}

#define FOREACH_IN_GROUP(c, g, h)                                                                  \
	LIST_FOREACH(c, &(h)->containers, entry)                                                   \
		if (root(c) == (g))

static uint64_t group_load(struct fast_host *h, struct container *g)
{
	struct container *c;
	uint64_t load = 0;

	FOREACH_IN_GROUP(c, g, h)
		load += c->place.load_rate;
	return load;
}

static bool group_stays(struct fast_host *h, struct container *g)
{
	struct container *c;

	FOREACH_IN_GROUP(c, g, h)
		if (c->place.at_first)
			return true;
	return false;
}

static enum pvm_state group_state(struct fast_host *h, struct container *g)
{
	enum pvm_state state = PVM_IDLE;
	struct container *c;
	struct session *s;

	FOREACH_IN_GROUP(c, g, h)
		LIST_FOREACH(s, &c->sessions, entry)
			if (pvm_state(s) > state)
				state = pvm_state(s);
	return state;
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* The bells of the group ring there too; or there alone, or here. 0 or -errno. */
static int bells_add(struct fast_host *h, struct container *g, struct fast *to)
{
	struct container *c;
	struct session *s;
	int err;

	FOREACH_IN_GROUP(c, g, h)
		LIST_FOREACH(s, &c->sessions, entry) {
			err = fast_bell_add(to, s);
			if (err)
				return err;
		}
	return 0;
}

static void bells_del(struct fast_host *h, struct container *g, struct fast *from)
{
	struct container *c;
	struct session *s;

	FOREACH_IN_GROUP(c, g, h)
		LIST_FOREACH(s, &c->sessions, entry)
			epoll_ctl(from->epoll_fd, EPOLL_CTL_DEL, s->bell_fd, NULL);
}

static void cq_move(struct fast *from, struct fast *to, struct cq *cq)
{
	bool armed = cq->mod_timer.index;

	if (cq->notify_pending) {
		STAILQ_REMOVE(&from->notify, cq, cq, notify);
		STAILQ_INSERT_TAIL(&to->notify, cq, notify);
	}
	timer_cancel(&from->timers, &cq->mod_timer);
	if (armed && timer_arm(&to->timers, &cq->mod_timer, cq->mod_timer.at))
		cq->mod_held = false; /* no memory: the next completion tells */
}

static void session_move(struct fast *from, struct fast *to, struct session *s)
{
	struct obj_table *t = &s->tab[OBJ_CQ];

	s->fast = to;
	s->mem.node = to->conf.node;
	if (s->bells.is_active) {
		TAILQ_REMOVE(&from->active_sessions, s, bells.entry);
		TAILQ_INSERT_TAIL(&to->active_sessions, s, bells.entry);
	}
	if (s->sched.is_touched)
		SLIST_REMOVE(&from->touched, s, session, sched.entry);
	s->sched.is_touched = false;
	if (s->cont->mode == FF_MODE_SPIN) {
		from->num_spin--;
		to->num_spin++;
	}
	for (uint32_t i = 0; i < t->size; i++)
		if (t->slot[i])
			cq_move(from, to, obj_of(t->slot[i], cq));
}

static void qps_move(struct fast *from, struct fast *to, struct container *c)
{
	const struct backend_ops *ops = to->be->ops;
	struct session *s;
	struct xrcd *x;
	struct qp *t;

	LIST_FOREACH(s, &c->sessions, entry)
		for (uint32_t i = 0; i < s->tab[OBJ_QP].size; i++)
			if (s->tab[OBJ_QP].slot[i])
				ops->qp_move(from, to, obj_of(s->tab[OBJ_QP].slot[i], qp));
	LIST_FOREACH(x, &c->xrcds, entry)
		LIST_FOREACH(t, &x->targets, xrc.same_xrcd)
			ops->qp_move(from, to, t);
}

static void container_move(struct fast *from, struct fast *to, struct container *c)
{
	struct session *s;

	c->fast = to;
	LIST_FOREACH(s, &c->sessions, entry)
		session_move(from, to, s);
	if (c->turns.num_active) {
		TAILQ_REMOVE(&from->turns[c->turns.kind], c, turns.entry);
		from->num_turns[c->turns.kind]--;
		TAILQ_INSERT_TAIL(&to->turns[c->turns.kind], c, turns.entry);
		to->num_turns[c->turns.kind]++;
	}
	c->turns.round = to->round;
	c->turns.credit = c->turns.credit < 0 ? c->turns.credit : 0;
	if (!TAILQ_EMPTY(&c->mw.changed)) {
		TAILQ_REMOVE(&from->mw_turns, c, mw.entry);
		TAILQ_INSERT_TAIL(&to->mw_turns, c, mw.entry);
	}
	rate_container_move(c, to);
	from->load_rate -= c->place.load_rate;
	to->load_rate += c->place.load_rate;
}

/* 0; -EAGAIN: it is on hold, try again soon; -EBUSY: a client stalls it; -errno. */
static int group_move(struct fast_host *h, struct container *g, struct fast *to)
{
	enum pvm_state state = group_state(h, g);
	struct fast *from = g->fast;
	struct container *c;
	int err = 0;

	if (from == to)
		return 0;
	FOREACH_IN_GROUP(c, g, h)
		c->place.hold = state == PVM_CALL;
	if (state != PVM_IDLE)
		return state == PVM_CALL ? -EAGAIN : -EBUSY;
	FOREACH_IN_GROUP(c, g, h)
		cpu_forget(c);
	err = bells_add(h, g, to);
	bells_del(h, g, err ? to : from);
	if (err)
		return err;
	lat_settle(from);
	FOREACH_IN_GROUP(c, g, h)
		pvm_container_leaves(c);
	FOREACH_IN_GROUP(c, g, h)
		container_move(from, to, c);
	FOREACH_IN_GROUP(c, g, h)
		qps_move(from, to, c);
	if (to->trace_seq < from->trace_seq)
		to->trace_seq = from->trace_seq;
	to->be->ops->container_come(to);
	sched_choose(from);
	sched_choose(to);
	h->num_moves++;
	fast_kick(from);
	fast_kick(to);
	return 0;
}

static void release(struct fast_host *h)
{
	struct container *c;

	LIST_FOREACH(c, &h->containers, entry)
		c->place.hold = false;
}

/* ---- who has to be where --------------------------------------------------------------------- */

/* Have the two on one thread; b NULL: a on the first. As group_move(). */
static int bring(struct container *a, struct container *b)
{
	struct fast_host *h = a->fast->host;
	struct container *ga, *gb, *stays;
	int err = 0;

	if (a->fast != (b ? b->fast : h->threads[0])) {
		find_groups(h);
		if (!b)
			err = group_move(h, root(a), h->threads[0]);
	}
	if (!b) {
		a->place.at_first |= !err;
		return err;
	}
	if (a->fast == b->fast)
		return 0;
	ga = root(a);
	gb = root(b);
	stays = group_load(h, ga) >= group_load(h, gb) ? ga : gb;
	if (group_stays(h, ga) || group_stays(h, gb))
		return group_move(h, group_stays(h, ga) ? gb : ga, h->threads[0]);
	err = group_move(h, stays == ga ? gb : ga, stays->fast);
	return err == -EBUSY ? group_move(h, stays, stays == ga ? gb->fast : ga->fast) : err;
}

/* Calls on the memory of those on hold end meanwhile. */
static void give_way(struct fast_host *h)
{
	const struct timespec pause = { .tv_nsec = HOLD_NS };

	fast_unlock(h);
	nanosleep(&pause, NULL);
	fast_lock(h);
}

/* [lock], which is given up on the way */
static int bring_soon(struct container *a, struct container *b)
{
	struct fast_host *h = a->fast->host;
	int err = bring(a, b);

	for (int i = 0; err == -EAGAIN && i < HOLD_TRIES; i++) {
		give_way(h);
		err = bring(a, b);
	}
	release(h); /* also those who have left the group meanwhile */
	return err;
}

int threads_move(struct container *c, struct fast *to)
{
	struct fast_host *h = to->host;
	int err;

	if (c->fast == to)
		return 0;
	find_groups(h);
	err = group_stays(h, root(c)) ? -EPERM : group_move(h, root(c), to);
	for (int i = 0; err == -EAGAIN && i < HOLD_TRIES; i++) {
		give_way(h);
		find_groups(h);
		err = group_stays(h, root(c)) ? -EPERM : group_move(h, root(c), to);
	}
	release(h);
	return err;
}

void fast_want_near(struct container *c, struct container *to)
{
	struct fast_host *h = c->fast->host;

	if (to ? c->place.near == to : c->place.near_first)
		return;
	if (to)
		c->place.near = to;
	else
		c->place.near_first = true;
	if (h->want_near)
		h->want_near(h);
}

void fast_bring(struct container *c, struct container *to)
{
	int err = bring_soon(c, to);

	if (!err)
		return;
	if (to)
		c->place.near = NULL; /* told anew */
	else
		c->place.near_first = false;
	fast_want_near(c, to);
}

int fast_need_first(struct container *c)
{
	struct fast_host *h = c->fast->host;
	int err;

	if (h->num_threads == 1)
		return 0;
	fast_lock(h);
	err = bring_soon(c, NULL);
	fast_unlock(h);
	return err ? -EAGAIN : 0;
}

int fast_move(struct container *c, uint32_t thread)
{
	struct fast_host *h = c->fast->host;
	int err;

	fast_lock(h);
	err = thread < h->num_threads ? threads_move(c, h->threads[thread]) : -EINVAL;
	fast_unlock(h);
	return err;
}

bool threads_gather(struct fast_host *h, const struct tenant *t)
{
	struct container *c, *one = NULL;
	int err = 0;

	LIST_FOREACH(c, &h->containers, entry) {
		if (c->of != t)
			continue;
		if (one && one->fast != c->fast)
			err = bring_soon(one, c);
		if (err)
			break;
		one = c;
	}
	return !err;
}

/* Those whose memory does not answer keep their tenant from its limits. */
static void end_stuck(struct fast_host *h, const struct tenant *t)
{
	struct container *c;
	struct session *s;

	LIST_FOREACH(c, &h->containers, entry) {
		if (c->of != t)
			continue;
		LIST_FOREACH(s, &c->sessions, entry)
			if (pvm_state(s) == PVM_STALLED && !s->closing && h->session_bad)
				h->session_bad(s, "its memory does not answer");
	}
}

static bool settle_tenants(struct fast_host *h)
{
	struct tenant *t, *next;
	bool more = false;

	for (t = LIST_FIRST(&h->tenants); t; t = next) {
		next = LIST_NEXT(t, entry);
		if (!t->gather_since)
			continue;
		rate_tenant_enforce(h, t);
		if (t->gather_since && host_now(h) - t->gather_since > STUCK_NS)
			end_stuck(h, t);
		more |= t->gather_since;
	}
	return more;
}

bool fast_settle(struct fast_host *h)
{
	struct container *c;
	bool more = false;

	fast_lock(h);
	LIST_FOREACH(c, &h->containers, entry) {
		if (c->place.near_first)
			c->place.near_first = bring_soon(c, NULL) != 0;
		if (c->place.near && !bring_soon(c, c->place.near))
			c->place.near = NULL;
		more |= c->place.near_first || c->place.near;
	}
	more |= settle_tenants(h);
	fast_unlock(h);
	return more;
}

void threads_forget(struct fast_host *h, const struct container *c)
{
	struct container *o;

	LIST_FOREACH(o, &h->containers, entry)
		if (o->place.near == c)
			o->place.near = NULL;
}

/* ---- loads ----------------------------------------------------------------------------------- */

struct fast *threads_place(struct fast_host *h, const struct container *c)
{
	uint32_t num[FAST_THREADS_MAX] = { 0 };
	struct fast *best = h->threads[0];
	struct container *o;

	LIST_FOREACH(o, &h->containers, entry) {
		if (o->of == c->of && (c->of->limited || c->of->gather_since))
			return o->fast;
		num[o->fast->index]++;
	}
	for (uint32_t i = 1; i < h->num_threads; i++) {
		struct fast *f = h->threads[i];
		uint64_t load = f->load_rate / LOAD_MIN, least = best->load_rate / LOAD_MIN;

		if (load < least || (load == least && num[i] < num[best->index]))
			best = f;
	}
	return best;
}

static void loads_look(struct fast_host *h)
{
	struct container *c;

	for (uint32_t i = 0; i < h->num_threads; i++)
		h->threads[i]->load_rate = 0;
	LIST_FOREACH(c, &h->containers, entry) {
		c->place.load_rate = (c->place.load_rate + c->turns.load - c->place.load_seen) / 2;
		c->place.load_seen = c->turns.load;
		c->fast->load_rate += c->place.load_rate;
	}
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The group of `hot` that brings the two closest together, if by a quarter at least; or NULL. */
static struct container *choose(struct fast_host *h, const struct fast *hot,
				const struct fast *cool)
{
	uint64_t least = (hot->load_rate - cool->load_rate) / 4 * 3, load, left;
	struct container *c, *best = NULL;

	LIST_FOREACH(c, &h->containers, entry) {
		if (c->fast != hot || root(c) != c || group_stays(h, c))
			continue;
		load = group_load(h, c);
		left = apart(hot->load_rate - load, cool->load_rate + load);
		if (left >= least)
			continue;
		least = left;
		best = c;
	}
	return best;
}

void fast_balance(struct fast_host *h)
{
	struct fast *hot = h->threads[0], *cool = hot;
	struct container *g;

	if (h->num_threads == 1)
		return;
	fast_lock(h);
	loads_look(h);
	for (uint32_t i = 1; i < h->num_threads; i++) {
		struct fast *f = h->threads[i];

		if (f->load_rate > hot->load_rate)
			hot = f;
		if (f->load_rate < cool->load_rate)
			cool = f;
	}
	if (hot->load_rate - cool->load_rate > LOAD_MIN) {
		find_groups(h);
		g = choose(h, hot, cool);
		if (g)
			threads_move(g, cool);
	}
	fast_unlock(h);
}
