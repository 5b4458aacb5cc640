/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * loop.c - one turn of the fast thread: bells, dirty sets, active QPs, timers, notifications.
 * Runs with the fast lock held, on a runner (sched.c) or in a test. What the ring and
 * doorbell protocols are is told in abi/ff_ring.h.
 *
 * Three rings of watchfulness, so that work grows with active queues:
 *	an active QP      its next SQE is looked at when its container has its turn (turns.c)
 *	an active session its dirty set is looked at in every turn (one cache line)
 *	other sessions    write their eventfd, which epoll tells
 * A QP leaves the inner ring when it has been idle for QP_IDLE_NS, a session when it has no active
 * QP and has posted nothing for SES_IDLE_NS. Leaving is arm, fence, look again.
 */
#include "ffr/fast/fast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ffr/fast/internal.h"
#include "ffr/fast/pvm.h"
#include "ffr/fast/mw.h"

#define SES_IDLE_NS (2 * NS_PER_MS)
/* of a turn: who has a thousand that end at once has others served in between */
#define TURN_TIMERS 32
/* QPs and SRQs of a container that are looked at in a turn because it says that they have news */
#define TURN_NEWS 256u

/* ---- arming ---------------------------------------------------------------------------------- */

/* Ask for a doorbell with the posting that is `coal` behind the next one. A fence must follow. */
void fast_arm_qp(struct qp *qp, uint32_t coal)
{
	atomic_store_explicit(&qp->hdr->evt, qp->sq.head + coal, memory_order_relaxed);
	/* evt before need: the client reads need first */
	atomic_store_explicit(&qp->hdr->need, 1, memory_order_release);
}

/* The same for all that the QP's turn looks for: in error that is receives too, to be flushed. */
static void arm_qp(struct qp *qp, uint32_t coal)
{
	fast_arm_qp(qp, coal);
	if (qp->state == IBV_QPS_ERR)
		atomic_store_explicit(&qp->hdr->rq_need, 1, memory_order_relaxed);
}

/* How many postings may wait for the announced one: no more than the ring holds besides it. */
static uint32_t qp_coal(const struct qp *qp)
{
	uint32_t coal = qp->state == IBV_QPS_RTS ? qp->o.ses->sched.coal : 0;

	return coal < qp->sq.depth ? coal : qp->sq.depth - 1;
}

static void disarm_qp(struct qp *qp)
{
	if (atomic_load_explicit(&qp->hdr->need, memory_order_relaxed))
		atomic_store_explicit(&qp->hdr->need, 0, memory_order_relaxed);
}

void ses_activate(struct fast *f, struct session *s)
{
	if (s->bells.is_active || s->closing)
		return;
	atomic_store_explicit(&s->hdr->need_wakeup, 0, memory_order_relaxed);
	if (s->cont->cpu.parked)
		return;
	s->bells.is_active = true;
	s->last_post = f->now;
	TAILQ_INSERT_TAIL(&f->active_sessions, s, bells.entry);
}

void ses_deactivate(struct fast *f, struct session *s)
{
	if (s->bells.is_active)
		TAILQ_REMOVE(&f->active_sessions, s, bells.entry);
	s->bells.is_active = false;
	/* the tick that serves what is coalesced is for active sessions */
	s->sched.coal = s->sched.burst = s->sched.at_once = 0;
}

void fast_qp_activate(struct fast *f, struct qp *qp)
{
	/* also for a QP that is active: the runner may sleep on it, or be about to */
	qp->more = true;
	fast_kick(f);
	if (qp->is_active || qp->wait.on || qp->state == IBV_QPS_RESET)
		return;
	qp->last_work = f->now;
	disarm_qp(qp);
	turns_add(f, qp);
	ses_activate(f, qp->o.ses);
}

/* Is there anything that this QP's turn would find? */
static bool qp_has_work(const struct qp *qp)
{
	switch (qp->state) {
	case IBV_QPS_RTS:
		return !qp->busy && qp_sqe_ready(qp, qp->sq.head);
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
		return qp_sqe_ready(qp, qp->sq.head) || fast_rq_ready(qp);
	default:
		return false;
	}
}

bool fast_rq_ready(const struct qp *qp)
{
	const struct ff_rqe *e;

	if (qp->state != IBV_QPS_ERR || qp->srq || !qp->rq.depth)
		return false;
	e = (const struct ff_rqe *)(qp->rq.ring +
				    (size_t)(qp->rq.head & (qp->rq.depth - 1)) * qp->rq.stride);
	return atomic_load_explicit(&e->seq, memory_order_acquire) == ff_seq(qp->rq.head);
}

void fast_qp_rest(struct fast *f, struct qp *qp)
{
	arm_qp(qp, 0);
	/* arming before the look: pairs with the fence of ffl_doorbell */
	atomic_thread_fence(memory_order_seq_cst);
	if (qp_has_work(qp)) {
		disarm_qp(qp);
		return;
	}
	fast_qp_deactivate(f, qp);
}

static bool ses_dirty(const struct session *s)
{
	for (unsigned w = 0; w < ARRAY_SIZE(s->hdr->dirty_sum); w++)
		if (atomic_load_explicit(&s->hdr->dirty_sum[w], memory_order_relaxed))
			return true;
	return s->bells.srqs_left ||
	       atomic_load_explicit(&s->hdr->srq_kick, memory_order_relaxed) !=
		       s->bells.srq_kick_seen;
}

static void ses_rest(struct fast *f, struct session *s)
{
	atomic_store_explicit(&s->hdr->need_wakeup, 1, memory_order_relaxed);
	/* arming before the look: pairs with the client's dirty bit before its read of need_wakeup */
	atomic_thread_fence(memory_order_seq_cst);
	if (ses_dirty(s))
		atomic_store_explicit(&s->hdr->need_wakeup, 0, memory_order_relaxed);
	else
		ses_deactivate(f, s);
}

/* ---- a turn ----------------------------------------------------------------------------------- */

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

uint32_t fast_turn(struct fast *f)
{
	struct session *s, *next;
	uint32_t work;

	lat_settle(f);
	f->turn++;
	work = timer_run(&f->timers, f->now, TURN_TIMERS);

	if (f->be->ops->poll)
		work += f->be->ops->poll(f);
	TAILQ_FOREACH_SAFE(s, &f->active_sessions, bells.entry, next) {
		uint32_t n = scan_session(f, s);

		work += n;
		if (n)
			s->last_post = f->now;
		else if (f->now - s->last_post > SES_IDLE_NS)
			ses_rest(f, s);
	}
	work += turns_serve(f);
	if (f->be->ops->flush)
		work += f->be->ops->flush(f);
	comp_notify(f);
	return work;
}

uint32_t fast_bells(struct fast *f, const struct epoll_event *ev, int n)
{
	uint32_t work = 0;

	for (int i = 0; i < n; i++) {
		uint64_t what = ev[i].data.u64;
		struct session *s = (struct session *)(uintptr_t)what;

		if (!s)
			continue; /* stop_fd: only wakes */
		if (what & FAST_EPOLL_BACKEND) {
			f->be->ops->ready(f, (void *)(uintptr_t)(what & ~FAST_EPOLL_BACKEND),
					  ev[i].events);
			work++;
			continue;
		}
		s->stats.bells++;
		ses_activate(f, s);
		cpu_woken_by(f, s->cont);
		work += !cpu_ignores_bell(s);
	}
	return work;
}

/*
 * Arm everything that is active, for sleep. True: nothing has come in meanwhile. Coalesced
 * postings count as nothing until the announced one is there (see sched.c).
 */
bool fast_arm_all(struct fast *f)
{
	struct container *c;
	struct session *s;
	struct qp *qp;
	bool idle = true;
	int k;

	f->coalesces = false;
	FOREACH_ACTIVE_QP(f, k, c, qp) {
		uint32_t coal = qp_coal(qp);

		arm_qp(qp, coal);
		f->coalesces |= coal > 0;
	}
	TAILQ_FOREACH(s, &f->active_sessions, bells.entry)
		atomic_store_explicit(&s->hdr->need_wakeup, 1, memory_order_relaxed);
	/* arming before the look: pairs with the fences of ffl_doorbell */
	atomic_thread_fence(memory_order_seq_cst);
	FOREACH_ACTIVE_QP(f, k, c, qp) {
		if (qp->busy		     ? qp->more :
		    qp->state != IBV_QPS_RTS ? qp_has_work(qp) :
					       qp_sqe_ready(qp, qp->sq.head + qp_coal(qp)))
			idle = false;
	}
	TAILQ_FOREACH(s, &f->active_sessions, bells.entry)
		if (ses_dirty(s))
			idle = false;
	return idle;
}

bool fast_was_coalesced(const struct qp *qp)
{
	return qp_coal(qp) && !qp->busy && qp_sqe_ready(qp, qp->sq.head);
}

void fast_disarm_all(struct fast *f)
{
	struct container *c;
	struct session *s;
	struct qp *qp;
	int k;

	FOREACH_ACTIVE_QP(f, k, c, qp)
		disarm_qp(qp);
	TAILQ_FOREACH(s, &f->active_sessions, bells.entry)
		if (atomic_load_explicit(&s->hdr->need_wakeup, memory_order_relaxed))
			atomic_store_explicit(&s->hdr->need_wakeup, 0, memory_order_relaxed);
}

/* ---- for the control thread -------------------------------------------------------------------- */

/* The runner sleeps and the control thread has made work for it. [lock] */
void fast_kick(struct fast *f)
{
	uint64_t one = 1;

	if (f->sleeping && write(f->stop_fd, &one, sizeof(one)) < 0)
		return; /* EAGAIN: it is being woken already */
}

int fast_container_add(struct fast *first, struct container *c)
{
	int err = rate_container_add(first, c);

	if (err)
		return err;
	TAILQ_INIT(&c->turns.active);
	LIST_INSERT_HEAD(&first->containers, c, entry);
	sched_choose(c->fast);
	for (uint32_t i = 0; first->be->ops->container_come && i < first->num_threads; i++)
		first->be->ops->container_come(first->threads[i]);
	return 0;
}

void fast_container_del(struct fast *first, struct container *c)
{
	struct fast *f = c->fast;

	LIST_REMOVE(c, entry);
	cpu_forget(c);
	pvm_container_del(c);
	threads_forget(first, c);
	c->place.near = NULL;
	c->place.near_first = c->place.at_first = false;
	sched_choose(f);
	f->be->ops->container_gone(f, c);
	rate_container_del(c);
}

int fast_bell_add(struct fast *f, struct session *s)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = s };

	return epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, s->bell_fd, &ev) ? -errno : 0;
}

int fast_session_add(struct fast *f, struct session *s)
{
	int err;

	s->fast = f;
	s->mem.node = f->conf.node;
	s->sched.cpu = 0xffff;
	atomic_store(&s->hdr->need_wakeup, 1);
	atomic_store(&s->hdr->yield_polls, f->conf.yield_polls);
	err = fast_bell_add(f, s);
	if (err)
		return err;
	LIST_INSERT_HEAD(&s->cont->sessions, s, entry);
	if (s->cont->mode == FF_MODE_SPIN)
		f->num_spin++;
	fast_kick(f);
	return 0;
}

void fast_session_del(struct fast *f, struct session *s)
{
	epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, s->bell_fd, NULL);
	LIST_REMOVE(s, entry);
	if (s->cont->mode == FF_MODE_SPIN)
		f->num_spin--;
	ses_deactivate(f, s);
	if (s->sched.is_touched)
		SLIST_REMOVE(&f->touched, s, session, sched.entry);
	s->sched.is_touched = false;
	if (LIST_EMPTY(&s->cont->sessions))
		s->cont->place.at_first = s->cont->place.near_first = false;
	pvm_session_del(f, s);
}

void fast_mr_del(struct fast *f, struct mr *mr)
{
	key_remove(&mr->o.ses->cont->keys, mr);
	f->be->ops->mr_dereg(f, mr);
}

void fast_mw_del(struct fast *f, struct mw *mw)
{
	mw_unbind(mw);
	mw_forget(f, mw);
	mw_key_del(mw->o.ses->cont, mw);
}

void fast_cq_del(struct fast *f, struct cq *cq)
{
	comp_forget_cq(f, cq);
	f->be->ops->cq_destroy(f, cq);
}

/* ---- life ------------------------------------------------------------------------------------------ */

static void thread_free(struct fast *f)
{
	if (f->be->priv)
		f->be->ops->close(f->be);
	pvm_free(f->pvm);
	sched_free(f->sched);
	timer_heap_free(&f->timers);
	if (f->epoll_fd >= 0)
		close(f->epoll_fd);
	if (f->stop_fd >= 0)
		close(f->stop_fd);
	free(f->qps.slot);
	free(f);
}

struct fast *fast_create(const struct fast_conf *conf, struct backend *be)
{
	struct fast *f = calloc(1, sizeof(*f));
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };

	if (!f)
		return NULL;
	f->first = f->threads[0] = f;
	f->num_threads = 1;
	f->conf = *conf;
	f->be = be;
	be->f = f;
	f->now = fast_clock();
	for (int i = 0; i < TURN_NUM; i++)
		TAILQ_INIT(&f->turns[i]);
	f->quantum = conf->quantum;
	f->round = 1; /* no container has had one */
	TAILQ_INIT(&f->active_sessions);
	TAILQ_INIT(&f->mw_turns);
	f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	f->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (f->epoll_fd < 0 || f->stop_fd < 0 ||
	    epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, f->stop_fd, &ev) < 0 || lock_init(f))
		goto err;
	f->sched = sched_create(f);
	f->pvm = pvm_create(f);
	if (!f->sched || !f->pvm || be->ops->open(be))
		goto err;
	return f;
err:
	thread_free(f);
	return NULL;
}

int fast_add_thread(struct fast *first, const struct fast_conf *conf)
{
	struct backend *be;
	struct fast *f;

	if (first->num_threads == FAST_THREADS_MAX)
		return -ENOSPC;
	be = calloc(1, sizeof(*be));
	if (!be)
		return -ENOMEM;
	be->ops = first->be->ops;
	f = fast_create(conf, be);
	if (!f) {
		free(be);
		return -ENOMEM;
	}
	f->first = first;
	f->index = first->num_threads;
	first->threads[first->num_threads++] = f;
	return 0;
}

int fast_start(struct fast *first)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < first->num_threads; i++)
		err = pvm_start(first->threads[i]->pvm);
	return err;
}

void fast_stop(struct fast *first)
{
	uint64_t one = 1;

	for (uint32_t i = 0; i < first->num_threads; i++) {
		struct fast *f = first->threads[i];

		atomic_store(&f->stop, 1);
		while (write(f->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	for (uint32_t i = 0; i < first->num_threads; i++)
		pvm_stop(first->threads[i]->pvm);
}

void fast_free(struct fast *first)
{
	if (!first)
		return;
	rate_free(first);
	for (uint32_t i = first->num_threads; i-- > 1;) {
		struct backend *be = first->threads[i]->be;

		thread_free(first->threads[i]);
		free(be);
	}
	thread_free(first);
}
