/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * loop.c - what a runner does: a turn (timers, carriers' events, sessions' news, QPs with work, notifications), then
 * the calls on clients' memory that the turn submitted, then the step until the next turn, which decide.h decides and
 * sched.c carries out. [lock], which is kept through a turn, and given up between two turns for such a call
 * (pvm_make()) or lent to a thread that wants it. fast_run() is the body of a runner's thread; roles.c starts and
 * replaces runners. Tests call fast_turn().
 */
#include "ffr/fast/internal.h"
#include "ffr/fast/pvm.h"

#define SES_IDLE_NS (2 * NS_PER_MS)
/* of a turn: who has a thousand that end at once has others served in between */
#define TURN_TIMERS 32
/* QPs and SRQs of a container that are looked at in a turn because it says that they have news */
#define TURN_NEWS 256u

/* ---- news: what sessions say has been posted to ------------------------------------------------- */

static void dirty_qp(struct fast *f, struct session *s, uint32_t index)
{
	struct obj_table *t = &s->tab[OBJ_QP];
	struct qp *qp = index < t->size ? obj_of(t->slot[index], qp) : NULL;

	if (!qp || qp->xrc.target) /* an XRC_RECV QP has no queues */
		return;
	/* also the hint that receives were posted for a waiting sender */
	f->be->ops->recv_posted(f, qp, NULL);
	fast_qp_activate(f, qp);
}

/* How many more of the container's are looked at in this turn. */
static uint32_t *news_left(struct fast *f, struct container *c)
{
	if (c->news.turn != f->turn) {
		c->news.turn = f->turn;
		c->news.left = TURN_NEWS;
	}
	return &c->news.left;
}

/* The QPs of a summary word that was not 0. What there is no time for is written back. */
static uint32_t scan_word(struct fast *f, struct session *s, unsigned w)
{
	struct ff_ses_hdr *h = s->hdr;
	uint32_t n = 0, *left = news_left(f, s->cont);
	uint64_t sum = *left ? atomic_exchange(&h->dirty_sum[w], 0) : 0;

	while (sum && *left) {
		unsigned i = w * 64 + (unsigned)__builtin_ctzll(sum);
		uint64_t bits = atomic_exchange(&h->dirty[i], 0);

		for (; bits && *left; bits &= bits - 1, n++, --*left)
			dirty_qp(f, s, i * 64 + (unsigned)__builtin_ctzll(bits));
		if (bits)
			atomic_fetch_or(&h->dirty[i], bits);
		else
			sum &= sum - 1;
	}
	if (sum)
		atomic_fetch_or(&h->dirty_sum[w], sum);
	return n;
}

/* The SRQs from where the last turn stopped; all of the table, since it was last asked for. */
static void scan_srqs(struct fast *f, struct session *s)
{
	struct obj_table *t = &s->tab[OBJ_SRQ];
	uint32_t *left = news_left(f, s->cont);

	for (; s->bells.srqs_left && *left; s->bells.srqs_left--, s->bells.srq_at++) {
		struct obj *o = t->slot[s->bells.srq_at % t->size];

		if (!o)
			continue;
		--*left;
		if (f->be->ops->recv_posted(f, NULL, obj_of(o, srq)))
			return;
	}
}

static uint32_t scan_dirty(struct fast *f, struct session *s)
{
	struct ff_ses_hdr *h = s->hdr;
	uint32_t n = 0, kick;

	for (unsigned w = 0; w < ARRAY_SIZE(h->dirty_sum); w++)
		if (atomic_load_explicit(&h->dirty_sum[w], memory_order_relaxed))
			n += scan_word(f, s, w);
	kick = atomic_load_explicit(&h->srq_kick, memory_order_acquire);
	if (kick != s->bells.srq_kick_seen) {
		s->bells.srq_kick_seen = kick;
		s->bells.srqs_left = s->tab[OBJ_SRQ].size;
		n++;
	}
	if (s->bells.srqs_left) {
		scan_srqs(f, s);
		n++;
	}
	return n;
}

/* Is there no time for more of the container's in this turn? */
static bool news_over(const struct fast *f, const struct container *c)
{
	return c->news.turn == f->turn && !c->news.left;
}

/* Another session of its container comes first in the next turn if this one took all of the time. */
static uint32_t scan_session(struct fast *f, struct session *s)
{
	bool was_over = news_over(f, s->cont);
	uint32_t n = scan_dirty(f, s);

	if (!was_over && news_over(f, s->cont) && s->bells.is_active) {
		TAILQ_REMOVE(&f->active_sessions, s, bells.entry);
		TAILQ_INSERT_TAIL(&f->active_sessions, s, bells.entry);
	}
	return n;
}

/* ---- turns ------------------------------------------------------------------------------------- */

uint32_t fast_turn(struct fast *f)
{
	struct session *s, *next;
	uint32_t work, made;

	lat_settle(f);
	f->turn++;
	f->again = false;
	work = timer_run(&f->timers, f->now, TURN_TIMERS);

	work += CARRIERS_SUM(poll, f);
	TAILQ_FOREACH_SAFE(s, &f->active_sessions, bells.entry, next) {
		uint32_t n = scan_session(f, s);

		work += n;
		if (n)
			s->last_post = f->now;
		else if (f->now - s->last_post > SES_IDLE_NS)
			ses_rest(f, s);
	}
	work += turns_serve(f);
	work += CARRIERS_SUM(flush, f);
	comp_notify(f);
	made = pvm_make(f);
	if (made)
		comp_notify(f);
	f->again |= made > 0;
	return work + made;
}

/* Who wants the lock gets it: the control thread, or a worker. True: look again, there may be work now. */
static bool lend(struct fast *f, uint32_t work)
{
	if (!atomic_load_explicit(&f->lock_wanted, memory_order_relaxed))
		return false;
	lat_settle_now(f);
	/*
	 * Before it sleeps: frames may be there to send. But not if it was not taken: who wants it may be
	 * waiting for this CPU.
	 */
	if (!lock_lend(f))
		return false;
	f->again = true;
	return !work;
}

void fast_run(struct fast *f)
{
	sched_enter(f);
	while (!atomic_load_explicit(&f->stop, memory_order_relaxed)) {
		uint32_t work;

		sched_turn_begins(f);
		work = fast_turn(f);
		sched_turn_ends(f, work);
		if (pvm_lost(f)) /* another thread is the runner */
			return;
		if (!lend(f, work))
			sched_next(f);
	}
}
