/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rate.c - rate limits of containers and tenants; rate.h has the theory. [lock], all of it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/fast/internal.h"

#define MIN_BYTES    256u /* moved at once, however low the rate is */
#define SHARE_NS     (RATE_SLACK_NS / 4)
#define EXTRA_MAX_NS 100000000ull
#define RESERVE_NS   1000000ull
#define LAG_NS	     4000000ull /* the least and the most that a container is thought to have had */
#define INTERVAL_NS  10000000ull /* a container that was charged in it, or in the last, is active */
#define HAD_SHIFT    8
/* Waiters that an opening meter lets go; one more with each that is served. */
#define RELEASE_ONCE 16u

/* ---- meters ---------------------------------------------------------------------------------- */

/*
 * A backlogged container gets what a late runner owes it, one that was idle does not: only what was
 * charged shortly before can have been held up.
 */
static void meter_late(struct fast *f, struct rate_meter *m)
{
	uint64_t late = f->stolen - m->stolen;

	m->stolen = f->stolen;
	if (late && f->now - m->last <= late + 2 * RATE_SLACK_NS)
		m->extra += late;
	if (m->extra > EXTRA_MAX_NS)
		m->extra = EXTRA_MAX_NS;
}

/* For the buckets: a time in which the runner was late was not idle. */
static uint64_t idle_until(const struct fast *f, const struct rate_meter *m)
{
	return f->now - m->extra;
}

static uint64_t paid_at(const struct rate_meter *m)
{
	return m->bytes.paid > m->ops.paid ? m->bytes.paid : m->ops.paid;
}

static bool has_waiters(const struct rate_meter *m)
{
	return !TAILQ_EMPTY(&m->waiters) || !TAILQ_EMPTY(&m->ahead);
}

static struct rate_wait *take_first(struct rate_meter *m)
{
	struct rate_wait *w = TAILQ_FIRST(&m->waiters);

	if (!w)
		w = TAILQ_FIRST(&m->ahead);
	if (w)
		rate_forget(m->f, w);
	return w;
}

static bool is_first(const struct rate_meter *m, const struct rate_wait *w)
{
	return w->first == m && w->opening == m->opening;
}

/* It has had its turn, or gives it up. */
static void not_first(struct rate_wait *w)
{
	if (w->first && is_first(w->first, w))
		w->first->num_first--;
	w->first = NULL;
}

/* Who is ahead goes when nobody else waits: callers but the timer and meter_open() see to it that one does. */
static void let_go(struct rate_meter *m, uint32_t n)
{
	struct rate_wait *w;

	while (n-- && (w = take_first(m))) {
		w->first = m;
		w->opening = m->opening;
		m->num_first++;
		w->used = 0;
		w->go(m->f, w);
	}
}

static void meter_open(struct rate_meter *m);

static void on_paid(struct timer *t)
{
	struct rate_meter *m =
		(struct rate_meter *)((char *)t - offsetof(struct rate_meter, timer));
	uint64_t at = paid_at(m), now = m->f->now;

	if (!m->closed || at <= now) {
		if (m->closed && has_waiters(m)) {
			m->extra += now - at;
			m->stolen = m->f->stolen;
			m->last = now;
		}
		m->closed = false;
		m->front = NULL;
		m->opening++;
		m->num_first = 0;
		let_go(m, RELEASE_ONCE);
		/* those behind them, if these get nothing for another reason */
		at = now + RATE_SLACK_NS;
	}
	if (has_waiters(m) && timer_arm(&m->f->timers, &m->timer, at))
		meter_open(m);
}

static void meter_init(struct rate_meter *m, struct fast *f)
{
	TAILQ_INIT(&m->waiters);
	TAILQ_INIT(&m->ahead);
	m->f = f;
	m->stolen = f->stolen;
	m->interval = 1; /* nobody was charged in it */
	m->timer.fn = on_paid;
}

/* Nobody waits here any more. */
static void meter_open(struct rate_meter *m)
{
	timer_cancel(&m->f->timers, &m->timer);
	m->closed = false;
	m->front = NULL;
	let_go(m, UINT32_MAX);
}

/* Bytes that it lets through now; 0: it is closed. */
static uint64_t meter_room(struct fast *f, struct rate_meter *m)
{
	uint64_t room, end;

	if (m->closed && paid_at(m) <= f->now)
		m->closed = false;
	if (m->closed)
		return 0;
	meter_late(f, m);
	end = f->now + RATE_SLACK_NS;
	m->closed = paid_at(m) >= end;
	if (m->closed)
		return 0;
	room = bucket_room(&m->bytes, idle_until(f, m), end);
	return room < MIN_BYTES ? MIN_BYTES : room;
}

/* What of a bucket's room is not left to others; 0 if there is no more. */
static uint64_t room_beyond(const struct fast *f, const struct rate_meter *m,
			    const struct bucket *b)
{
	uint64_t reserve = b->burst / 2 < RESERVE_NS ? b->burst / 2 : RESERVE_NS;

	return bucket_room(b, idle_until(f, m), f->now - reserve);
}

/* What of `extra` is not used up. */
static uint64_t extra_left(const struct fast *f, const struct rate_meter *m)
{
	uint64_t bytes = bucket_lost(&m->bytes, f->now), ops = bucket_lost(&m->ops, f->now);

	return bytes > ops ? bytes : ops;
}

static void meter_charge(struct fast *f, struct rate_meter *m, uint64_t bytes, uint32_t ops)
{
	meter_late(f, m);
	bucket_charge(&m->bytes, idle_until(f, m), bytes);
	bucket_charge(&m->ops, idle_until(f, m), ops);
	if (m->extra)
		m->extra = extra_left(f, m);
	m->last = f->now;
	if (!TAILQ_EMPTY(&m->waiters) && !m->closed)
		let_go(m, 1);
}

static bool meters_set(struct rate_meter *m, uint64_t now, const struct ffo_limits *l)
{
	const uint64_t rate[RATE_DIRS] = { l->tx_rate, l->rx_rate, l->serve_rate };
	const uint64_t ops[RATE_DIRS] = { l->tx_ops, l->rx_ops, l->serve_ops };
	bool limited = false;

	for (int d = 0; d < RATE_DIRS; d++) {
		bucket_set(&m[d].bytes, now, rate[d],
			   l->burst ? bucket_ns(rate[d], l->burst) : RATE_BURST_NS);
		bucket_set(&m[d].ops, now, ops[d], RATE_BURST_NS);
		limited |= rate[d] || ops[d];
		meter_open(&m[d]);
	}
	return limited;
}

/* ---- asking ---------------------------------------------------------------------------------- */

bool rate_limited(const struct rate_path *p)
{
	return p->own->limited || (p->peer && p->peer->limited);
}

/* One of the path's meters, at most four, and whose share of it is to be counted. */
struct path_meter {
	struct rate_meter *m;
	struct container *c; /* NULL: the container's own meter */
	uint8_t dir;
};

static bool is_set(const struct rate_meter *m)
{
	return m->bytes.rate || m->ops.rate;
}

/* Those with a limit; a tenant's may be another thread's until its limits hold. */
static int add_meters(struct path_meter *pm, struct container *c, uint8_t dir)
{
	int n = 0;

	if (is_set(&c->rate.meter[dir]))
		pm[n++] = (struct path_meter){ &c->rate.meter[dir], NULL, 0 };
	if (c->of->limited && is_set(&c->of->meter[dir]))
		pm[n++] = (struct path_meter){ &c->of->meter[dir], c, dir };
	return n;
}

static int path_meters(const struct rate_path *p, struct path_meter *pm)
{
	int n = add_meters(pm, p->own, p->dir);

	return p->peer ? n + add_meters(pm + n, p->peer, p->peer_dir) : n;
}

/* Bytes after which it is the turn of those who wait; UINT64_MAX: nobody does. */
static uint64_t meter_share(const struct rate_meter *m, const struct rate_wait *w)
{
	uint64_t n;

	if ((TAILQ_EMPTY(&m->waiters) && m->num_first <= is_first(m, w)) || !m->bytes.rate)
		return UINT64_MAX;
	n = bucket_units(m->bytes.rate, SHARE_NS);
	return n < MIN_BYTES ? MIN_BYTES : n;
}

/* ---- shares of a tenant's meter ----------------------------------------------------------------- */

/* What the meter lets through in so many ns, as rate_share.had. */
static int64_t had_in(const struct rate_meter *m, uint64_t ns)
{
	return (int64_t)bucket_units(m->bytes.rate ? m->bytes.rate : m->ops.rate, ns << HAD_SHIFT);
}

/*
 * What it has had more than its part. Nobody is owed, or owes, more than LAG_NS worth: neither who was
 * idle, nor who was alone.
 */
static int64_t surplus(const struct rate_meter *m, const struct rate_share *s)
{
	int64_t lag = had_in(m, LAG_NS), n = (int64_t)(s->had - m->had);

	if (n < -lag)
		return -lag;
	return n > lag ? lag : n;
}

static bool is_ahead(const struct path_meter *p)
{
	const struct rate_meter *m = p->m;

	return surplus(m, &p->c->rate.share[p->dir]) > had_in(m, SHARE_NS);
}

static void share_charge(const struct path_meter *p, uint64_t now, uint64_t bytes, uint32_t ops)
{
	struct rate_meter *m = p->m;
	struct rate_share *s = &p->c->rate.share[p->dir];
	uint64_t n = (m->bytes.rate ? bytes : ops) * FFO_WEIGHT_DEFAULT << HAD_SHIFT;
	uint32_t weight = container_weight(p->c), all;

	if (now - m->interval_from >= INTERVAL_NS) {
		m->weight_before = now - m->interval_from < 2 * INTERVAL_NS ? m->weight : 0;
		m->weight = 0;
		m->interval++;
		m->interval_from = now;
	}
	if (s->interval != m->interval) {
		s->interval = m->interval;
		m->weight += weight;
	}
	all = m->weight > m->weight_before ? m->weight : m->weight_before;
	s->had = m->had + (uint64_t)surplus(m, s) + n / weight;
	m->had += n / (all > weight ? all : weight);
}

/* ---- the way through all of them ----------------------------------------------------------------- */

struct rate_meter *rate_ask(struct fast *f, const struct rate_path *p, struct rate_wait *w,
			    uint64_t *want)
{
	struct path_meter pm[4];
	int n = path_meters(p, pm);

	for (int i = 0; i < n; i++) {
		struct rate_meter *m = pm[i].m;
		uint64_t room = meter_room(f, m);
		uint64_t share = w ? meter_share(m, w) : UINT64_MAX;

		if (!room || (w && w->used >= share))
			return m;
		if (w && pm[i].c && is_ahead(&pm[i])) {
			uint64_t beyond = room_beyond(f, m, &m->bytes);

			if (!beyond || !room_beyond(f, m, &m->ops)) {
				w->ahead = true;
				return m;
			}
			if (room > beyond)
				room = beyond;
		}
		if (share != UINT64_MAX && room > share - w->used)
			room = share - w->used;
		if (*want > room)
			*want = room;
	}
	return NULL;
}

void rate_charge(struct fast *f, const struct rate_path *p, struct rate_wait *w, uint64_t bytes,
		 uint32_t ops)
{
	struct path_meter pm[4];
	int n = path_meters(p, pm);

	if (w) {
		not_first(w);
		w->used += bytes;
	}
	for (int i = 0; i < n; i++) {
		if (pm[i].c)
			share_charge(&pm[i], f->now, bytes, ops);
		meter_charge(f, pm[i].m, bytes, ops);
	}
}

void rate_wait(struct fast *f, struct rate_meter *m, struct rate_wait *w)
{
	uint64_t at = paid_at(m);
	bool was_first = is_first(m, w);

	not_first(w);
	w->on = m;
	w->since = f->now;
	f->num_throttled++;
	if (w->ahead)
		TAILQ_INSERT_TAIL(&m->ahead, w, entry);
	else if (was_first && m->front)
		TAILQ_INSERT_AFTER(&m->waiters, m->front, w, entry);
	else if (was_first)
		TAILQ_INSERT_HEAD(&m->waiters, w, entry);
	else
		TAILQ_INSERT_TAIL(&m->waiters, w, entry);
	if (was_first && !w->ahead)
		m->front = w;
	w->used = 0;
	if (!m->closed) { /* it is others' turn: of those that were let go, or else the next */
		at = f->now + SHARE_NS;
		if (!m->num_first && !TAILQ_EMPTY(&m->waiters))
			let_go(m, 1);
	}
	if (!m->timer.index && timer_arm(&f->timers, &m->timer, at > f->now ? at : f->now + 1))
		meter_open(m); /* no memory: better too fast than never */
}

bool rate_pay_part(struct fast *f, struct qp *qp, const struct rate_path *p, uint64_t *want,
		   uint32_t ops)
{
	struct rate_meter *m = rate_ask(f, p, &qp->wait, want);

	if (m) {
		fast_qp_throttle(f, qp, m);
		return false;
	}
	rate_charge(f, p, &qp->wait, *want, ops);
	return true;
}

bool rate_pay(struct fast *f, struct qp *qp, uint64_t bytes)
{
	struct rate_path path = rate_path_of(qp, NULL);
	struct rate_meter *m;
	uint64_t want = 1;

	if (!rate_limited(&path))
		return true;
	m = rate_ask(f, &path, &qp->wait, &want);
	if (m) {
		fast_qp_throttle(f, qp, m);
		return false;
	}
	rate_charge(f, &path, &qp->wait, bytes, 1);
	return true;
}

bool rate_pay_now(struct fast *f, struct qp *qp, const struct qp *peer, uint64_t bytes)
{
	struct rate_path path = rate_path_of(qp, peer);
	uint64_t want = bytes;

	if (rate_ask(f, &path, &qp->wait, &want) || want < bytes)
		return false;
	rate_charge(f, &path, &qp->wait, bytes, 1);
	return true;
}

uint64_t rate_forget(struct fast *f, struct rate_wait *w)
{
	struct rate_meter *m = w->on;

	not_first(w);
	if (!m)
		return 0;
	if (m->front == w)
		m->front = TAILQ_PREV(w, rate_waiters, entry);
	if (w->ahead)
		TAILQ_REMOVE(&m->ahead, w, entry);
	else
		TAILQ_REMOVE(&m->waiters, w, entry);
	w->on = NULL;
	w->ahead = false;
	f->num_throttled--;
	return f->now - w->since;
}

/* They are another thread's, and so are those who wait there. */
static void meters_move(struct rate_meter *m, struct fast *to)
{
	struct fast *from = m->f;
	struct rate_wait *w;

	for (struct rate_meter *end = m + RATE_DIRS; from != to && m < end; m++) {
		bool armed = m->timer.index;
		uint32_t n = 0;

		TAILQ_FOREACH(w, &m->waiters, entry)
			n++;
		TAILQ_FOREACH(w, &m->ahead, entry)
			n++;
		from->num_throttled -= n;
		to->num_throttled += n;
		timer_cancel(&from->timers, &m->timer);
		m->f = to;
		m->stolen = to->stolen;
		if (armed && timer_arm(&to->timers, &m->timer, m->timer.at))
			meter_open(m);
	}
}

/* These meters go: nobody refers to them any more. */
static void meters_gone(struct rate_meter *m)
{
	struct fast_host *h = m->f->host;

	for (int d = 0; d < RATE_DIRS; d++)
		meter_open(&m[d]);
	for (uint32_t i = 0; i < h->qps.size; i++) {
		struct qp *qp = h->qps.slot[i];

		if (qp && qp->wait.first >= m && qp->wait.first < m + RATE_DIRS)
			not_first(&qp->wait);
	}
}

/* ---- tenants --------------------------------------------------------------------------------- */

static struct tenant *tenant_find(const struct fast_host *h, const char *name)
{
	struct tenant *t;

	LIST_FOREACH(t, &h->tenants, entry)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}

static struct tenant *tenant_get(struct fast_host *h, const char *name)
{
	struct tenant *t = tenant_find(h, name);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	snprintf(t->name, sizeof(t->name), "%s", name);
	for (int d = 0; d < RATE_DIRS; d++)
		meter_init(&t->meter[d], h->threads[0]);
	LIST_INSERT_HEAD(&h->tenants, t, entry);
	return t;
}

/* Forget one that has neither containers nor limits. */
static void tenant_put(struct tenant *t)
{
	static const struct ffo_limits none;

	if (t->num_containers || memcmp(&t->limits, &none, sizeof(none)))
		return;
	meters_gone(t->meter);
	LIST_REMOVE(t, entry);
	free(t);
}

/* Carriers look at this count, because a NIC may enforce limits, too. */
static void limits_changed(struct fast_host *h)
{
	h->limits_changed++;
	fast_want_work(h);
}

int fast_tenant_limits(struct fast_host *h, const char *name, const struct ffo_limits *l)
{
	struct tenant *t = tenant_get(h, name);
	struct container *c;

	if (!t)
		return -ENOMEM;
	t->limits = *l;
	t->limited = meters_set(t->meter, host_now(h), l);
	cpu_reset(&t->cpu);
	LIST_FOREACH(c, &h->containers, entry)
		if (c->of == t)
			cpu_unpark(c);
	t->gather_since = 0;
	rate_tenant_enforce(h, t);
	tenant_put(t);
	limits_changed(h);
	return 0;
}

struct ffo_limits fast_limits_of_tenant(const struct fast_host *h, const char *name)
{
	const struct tenant *t = tenant_find(h, name);

	return t ? t->limits : (struct ffo_limits){ 0 };
}

void rate_tenant_enforce(struct fast_host *h, struct tenant *t)
{
	bool any = t->limited || t->gather_since;
	struct container *c;

	t->limited = false; /* until then they are no group */
	t->limited = any && threads_gather(h, t);
	if (any && !t->limited && !t->gather_since) {
		t->gather_since = host_now(h);
		if (h->want_near)
			h->want_near(h);
	} else if (t->limited) {
		t->gather_since = 0;
	}
	LIST_FOREACH(c, &h->containers, entry) {
		if (c->of != t)
			continue;
		c->limited = c->rate.own || t->limited;
		if (t->limited)
			meters_move(t->meter, c->fast);
	}
}

void rate_free(struct fast_host *h)
{
	struct tenant *t;

	while ((t = LIST_FIRST(&h->tenants))) {
		LIST_REMOVE(t, entry);
		free(t);
	}
}

/* ---- containers ------------------------------------------------------------------------------ */

int rate_container_add(struct fast_host *h, struct container *c)
{
	struct tenant *t = tenant_get(h, c->tenant);

	if (!t)
		return -ENOMEM;
	c->of = t;
	c->fast = threads_place(h, c);
	for (int d = 0; d < RATE_DIRS; d++)
		meter_init(&c->rate.meter[d], c->fast);
	if (!t->num_containers++)
		meters_move(t->meter, c->fast);
	fast_container_limits(c, &c->limits);
	return 0;
}

void rate_container_del(struct container *c)
{
	struct tenant *t = c->of;

	meters_gone(c->rate.meter);
	c->of = NULL;
	t->num_containers--;
	tenant_put(t);
}

void fast_container_limits(struct container *c, const struct ffo_limits *l)
{
	c->limits = *l;
	cpu_reset(&c->cpu.meter);
	cpu_unpark(c);
	c->rate.own = meters_set(c->rate.meter, c->fast->now, l);
	c->limited = c->rate.own || c->of->limited;
	sched_choose(c->fast);
	limits_changed(c->fast->host);
}

void rate_container_move(struct container *c, struct fast *to)
{
	meters_move(c->rate.meter, to);
	if (c->of->limited)
		meters_move(c->of->meter, to);
}
