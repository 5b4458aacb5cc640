/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * turns.c - whose turn it is: containers with work, and their QPs. [lock], the runner.
 *
 * One container that is alone has all its QPs served in each turn of the runner. Several take turns,
 * each with a small step (SLICE bytes, STEP_WRS requests), and each step serves some of its QPs, in
 * order. For how much in all is a deficit round robin: with a round a container gets credit, its weight
 * times the quantum, and what it moves is taken from that, a request at least REQUEST_COST. Who has
 * none left waits until no container with work has any; then the next round begins. So small messages
 * and large ones get the same bytes, and nobody waits for more than a step of each other container.
 *
 * Latency-sensitive containers have a turn between any two steps of others, whatever their credit, as
 * long as they take no more than conf.urgent per cent of the time. Beyond, they wait for the rest of
 * the WINDOW.
 */
#include "ffr/obj/cpu.h"
#include "ffr/fast/internal.h"

#define QP_IDLE_NS   (200 * NS_PER_US)
#define MANY_QPS     16u
#define LOOKS	     1024u /* at QPs of a container, in a step */
#define STEP_WRS     128u  /* small ones take as long as copying a SLICE */
#define SLICE	     (64 * 1024)
#define REQUEST_COST 64
#define WINDOW_NS    NS_PER_MS
#define REQUEST_LOAD 4096 /* a request takes as long as copying so many bytes */

static void join(struct fast *f, struct container *c)
{
	c->turns.kind = c->limits.latency ? TURN_URGENT : TURN_NORMAL;
	TAILQ_INSERT_TAIL(&f->turns[c->turns.kind], c, turns.entry);
	f->num_turns[c->turns.kind]++;
}

static void leave(struct fast *f, struct container *c)
{
	TAILQ_REMOVE(&f->turns[c->turns.kind], c, turns.entry);
	f->num_turns[c->turns.kind]--;
}

void turns_add(struct fast *f, struct qp *qp)
{
	struct container *c = qp->o.ses->cont;

	if (!c->turns.num_active++ && !c->cpu.parked)
		join(f, c);
	TAILQ_INSERT_TAIL(&c->turns.active, qp, active);
	qp->is_active = true;
}

void turns_del(struct fast *f, struct qp *qp)
{
	struct container *c = qp->o.ses->cont;

	TAILQ_REMOVE(&c->turns.active, qp, active);
	qp->is_active = false;
	if (!--c->turns.num_active && !c->cpu.parked)
		leave(f, c);
}

void turns_park(struct fast *f, struct container *c)
{
	if (c->turns.num_active)
		leave(f, c);
}

void turns_unpark(struct fast *f, struct container *c)
{
	if (c->turns.num_active)
		join(f, c);
}

/*
 * How long a QP without work is looked at. A look at each of many takes longer than what a doorbell
 * costs, and others wait meanwhile.
 */
static uint64_t idle_ns(const struct container *c)
{
	return QP_IDLE_NS / (1 + c->turns.num_active / MANY_QPS);
}

/* One QP. 0: it has no work. */
static uint32_t serve_qp(struct fast *f, struct container *c, struct qp *qp)
{
	uint32_t n = send_service(f, qp);

	if (n)
		qp->last_work = f->now;
	if (!qp->is_active)
		return n;
	if (TAILQ_NEXT(qp, active)) {
		TAILQ_REMOVE(&c->turns.active, qp, active);
		TAILQ_INSERT_TAIL(&c->turns.active, qp, active);
	}
	if (!n && f->now - qp->last_work > idle_ns(c))
		fast_qp_rest(f, qp);
	return n;
}

/* What it has moved since f->bytes_moved was 0, and its requests. */
static void charge(const struct fast *f, struct container *c, uint32_t work)
{
	uint64_t cost = (uint64_t)work * REQUEST_COST;

	c->turns.load += f->bytes_moved + (uint64_t)work * REQUEST_LOAD;
	c->turns.credit -= (int64_t)(f->bytes_moved > cost ? f->bytes_moved : cost);
}

/*
 * Each QP at most once, and of very many some: the first ones of the list are another time's last.
 * The list may change under our hands. `alone`: however much they do.
 */
static uint32_t serve(struct fast *f, struct container *c, bool alone)
{
	uint32_t left = c->turns.num_active < LOOKS ? c->turns.num_active : LOOKS, work = 0;
	struct qp *qp;

	if (c->place.hold)
		return 0;
	f->bytes_moved = 0;
	f->calls = 0;
	while (left-- && (qp = TAILQ_FIRST(&c->turns.active))) {
		work += serve_qp(f, c, qp);
		if (!alone && (work + f->calls * CALL_WRS >= STEP_WRS || f->bytes_moved >= SLICE))
			break;
	}
	charge(f, c, work);
	return work;
}

uint32_t turns_go_on(struct fast *f, struct qp *qp)
{
	struct container *c = qp->o.ses->cont;
	uint32_t work;

	if (!qp->busy || !qp->is_active || c->cpu.parked || c->place.hold)
		return 0;
	if (c->turns.kind == TURN_NORMAL && c->turns.credit <= 0 &&
	    f->num_turns[TURN_NORMAL] + f->num_turns[TURN_URGENT] > 1)
		return 0;
	f->bytes_moved = 0;
	f->calls = 0;
	work = serve_qp(f, c, qp);
	charge(f, c, work);
	return work;
}

/* The next container of that kind; its turn after this one is behind all others'. */
static struct container *next_turn(struct fast *f, enum turn kind)
{
	struct container *c = TAILQ_FIRST(&f->turns[kind]);

	if (c && TAILQ_NEXT(c, turns.entry)) {
		TAILQ_REMOVE(&f->turns[kind], c, turns.entry);
		TAILQ_INSERT_TAIL(&f->turns[kind], c, turns.entry);
	}
	return c;
}

/* It had a step just now, with so much work; what the others had was told before. */
static void spent(struct fast *f, struct container *c, uint32_t work)
{
	uint64_t from = f->now;

	/* retries for receives that are not there are no work, and yet take time */
	if (!work && !cpu_limited(c))
		return;
	fast_tick(f);
	cpu_served(f, c, f->now - from);
}

/* The latency-sensitive ones, a step each. */
static uint32_t serve_urgent(struct fast *f)
{
	uint32_t left = f->num_turns[TURN_URGENT], work = 0, n;
	uint64_t from;
	struct container *c;

	if (!left)
		return 0;
	fast_tick(f);
	from = f->now;
	if (from - f->urgent_from > WINDOW_NS) {
		f->urgent_from = from;
		f->urgent_ns = 0;
	}
	if (f->num_turns[TURN_NORMAL] && f->urgent_ns > WINDOW_NS / 100 * f->conf.urgent)
		return 0;
	while (left-- && (c = next_turn(f, TURN_URGENT))) {
		n = serve(f, c, false);
		work += n;
		spent(f, c, n);
	}
	f->urgent_ns += f->now - from;
	return work;
}

/* Has it credit left in this round? */
static bool has_credit(struct fast *f, struct container *c)
{
	if (c->turns.round != f->round) {
		c->turns.round = f->round;
		c->turns.credit = (c->turns.credit < 0 ? c->turns.credit : 0) +
				  (int64_t)((uint64_t)f->conf.quantum * container_weight(c) /
					    FFO_WEIGHT_DEFAULT);
	}
	return c->turns.credit > 0;
}

uint32_t turns_serve(struct fast *f)
{
	uint32_t left = f->num_turns[TURN_NORMAL], work = serve_urgent(f), n;
	bool alone = left == 1 && !f->num_turns[TURN_URGENT];
	bool waiting = false, going = false;
	struct container *c;

	f->quantum = alone || f->conf.quantum < SLICE ? f->conf.quantum : SLICE;
	while (left-- && (c = next_turn(f, TURN_NORMAL))) {
		if (!alone && !has_credit(f, c)) {
			waiting = true;
			continue;
		}
		n = serve(f, c, alone);
		work += n;
		if (alone) {
			c->turns.credit = 0;
			f->turn_of = c;
			break;
		}
		going |= n && c->turns.credit > 0;
		spent(f, c, n);
		work += serve_urgent(f);
	}
	if (waiting && !going) {
		f->round++;
		work++; /* those that waited have not been asked */
	}
	return work;
}
