/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rate.c - rate limits of containers and tenants; rate.h has the theory. [lock], all of it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/fast/internal.h"

#define COST_SHIFT   20
#define MIN_BYTES    256u /* moved at once, however low the rate is */
#define SHARE_NS     (RATE_SLACK_NS / 4)
#define EXTRA_MAX_NS 100000000ull
#define RESERVE_NS   1000000ull
#define LAG_NS	     4000000ull /* the least and the most that a container is thought to have had */
#define INTERVAL_NS  10000000ull /* a container that was charged in it, or in the last, is active */
#define HAD_SHIFT    8
/* Waiters that an opening meter lets go; one more with each that is served. */
#define RELEASE_ONCE 16u

/* ---- buckets --------------------------------------------------------------------------------- */

/* burst: units, 0: the default. What is owed is owed at the new rate. */
static void bucket_set(struct rate_bucket *b, uint64_t now, uint64_t rate, uint64_t burst)
{
	uint64_t cost = rate ? (1000000000ull << COST_SHIFT) / rate : 0;

	if (rate && !cost)
		cost = 1;
	if (cost && b->cost && b->paid > now)
		b->paid = now + (uint64_t)((unsigned __int128)(b->paid - now) * cost / b->cost);
	else
		b->paid = now;
	b->cost = cost;
	b->burst = burst ? (uint64_t)((unsigned __int128)burst * cost >> COST_SHIFT) :
			   RATE_BURST_NS;
}

/* extra: ns that it may lie behind beside the burst */
static void bucket_charge(struct rate_bucket *b, uint64_t now, uint64_t extra, uint64_t n)
{
	unsigned __int128 t;

	if (!b->cost)
		return;
	if (b->paid + b->burst + extra < now)
		b->paid = now - b->burst - extra;
	t = (unsigned __int128)n * b->cost + b->frac;
	b->paid += (uint64_t)(t >> COST_SHIFT);
	b->frac = (uint32_t)t & ((1u << COST_SHIFT) - 1);
}

/* Units that may be charged until it is paid for up to `end`. */
static uint64_t bucket_room_until(const struct rate_bucket *b, uint64_t end, uint64_t now,
				  uint64_t extra)
{
	uint64_t from = b->paid;

	if (!b->cost)
		return UINT64_MAX;
	if (from >= end)
		return 0;
	if (from + b->burst + extra < now)
		from = now - b->burst - extra;
	return (uint64_t)(((unsigned __int128)(end - from) << COST_SHIFT) / b->cost);
}

/* Units that may be charged now; one, however low the rate is, when all is paid for. */
static uint64_t bucket_room(const struct rate_bucket *b, uint64_t now, uint64_t extra)
{
	uint64_t end = now + RATE_SLACK_NS, room = bucket_room_until(b, end, now, extra);

	return room || b->paid >= end ? room : 1;
}

/* The same for who leaves RESERVE_NS worth of it to others; 0 if there is no more. */
static uint64_t bucket_room_beyond(const struct rate_bucket *b, uint64_t now, uint64_t extra)
{
	uint64_t reserve = b->burst / 2 < RESERVE_NS ? b->burst / 2 : RESERVE_NS;

	return bucket_room_until(b, now - reserve, now, extra);
}

/* ns that it lies behind, beside the burst */
static uint64_t bucket_lag(const struct rate_bucket *b, uint64_t now)
{
	return b->cost && b->paid + b->burst < now ? now - b->paid - b->burst : 0;
}

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

static uint64_t paid_at(const struct rate_meter *m)
{
	uint64_t bytes = m->bytes.cost ? m->bytes.paid : 0, ops = m->ops.cost ? m->ops.paid : 0;

	return bytes > ops ? bytes : ops;
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
	uint64_t room;

	if (m->closed && paid_at(m) <= f->now)
		m->closed = false;
	if (m->closed)
		return 0;
	meter_late(f, m);
	room = bucket_room(&m->bytes, f->now, m->extra);
	if (!room || !bucket_room(&m->ops, f->now, m->extra)) {
		m->closed = true;
		return 0;
	}
	return room < MIN_BYTES ? MIN_BYTES : room;
}

static void meter_charge(struct fast *f, struct rate_meter *m, uint64_t bytes, uint32_t ops)
{
	uint64_t bytes_lag, ops_lag;

	meter_late(f, m);
	bucket_charge(&m->bytes, f->now, m->extra, bytes);
	bucket_charge(&m->ops, f->now, m->extra, ops);
	bytes_lag = bucket_lag(&m->bytes, f->now);
	ops_lag = bucket_lag(&m->ops, f->now);
	m->extra = bytes_lag > ops_lag ? bytes_lag : ops_lag;
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
		bucket_set(&m[d].bytes, now, rate[d], l->burst);
		bucket_set(&m[d].ops, now, ops[d], 0);
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

/* The meters of the path, at most four, and whose share of which is to be counted; their number. */
struct path_meter {
	struct rate_meter *m;
	struct container *c; /* NULL: the container's own meter */
	uint8_t dir;
};

static int path_meters(const struct rate_path *p, struct path_meter *m)
{
	int n = 0;

	if (p->own->limited) {
		m[n++] = (struct path_meter){ &p->own->rate.meter[p->dir], NULL, 0 };
		m[n++] = (struct path_meter){ &p->own->of->meter[p->dir], p->own, p->dir };
	}
	if (p->peer && p->peer->limited) {
		m[n++] = (struct path_meter){ &p->peer->rate.meter[p->peer_dir], NULL, 0 };
		m[n++] = (struct path_meter){ &p->peer->of->meter[p->peer_dir], p->peer,
					      p->peer_dir };
	}
	return n;
}

/* Bytes after which it is the turn of those who wait; UINT64_MAX: nobody does. */
static uint64_t meter_share(const struct rate_meter *m, const struct rate_wait *w)
{
	uint64_t n;

	if ((TAILQ_EMPTY(&m->waiters) && m->num_first <= is_first(m, w)) || !m->bytes.cost)
		return UINT64_MAX;
	n = (SHARE_NS << COST_SHIFT) / m->bytes.cost;
	return n < MIN_BYTES ? MIN_BYTES : n;
}

/* ---- shares of a tenant's meter ----------------------------------------------------------------- */

/* What the bucket lets through in so many ns, as rate_share.had. */
static uint64_t had_in(const struct rate_bucket *b, uint64_t ns)
{
	return (uint64_t)(((unsigned __int128)ns << (COST_SHIFT + HAD_SHIFT)) / b->cost);
}

static const struct rate_bucket *shared_bucket(const struct rate_meter *m)
{
	return m->bytes.cost ? &m->bytes : &m->ops;
}

static bool is_set(const struct rate_meter *m)
{
	return m->bytes.cost || m->ops.cost;
}

/*
 * What it has had more than its part. Nobody is owed, or owes, more than LAG_NS worth: neither who was
 * idle, nor who was alone.
 */
static int64_t surplus(const struct rate_meter *m, const struct rate_share *s)
{
	int64_t lag = (int64_t)had_in(shared_bucket(m), LAG_NS), n = (int64_t)(s->had - m->had);

	if (n < -lag)
		return -lag;
	return n > lag ? lag : n;
}

static bool is_ahead(const struct path_meter *p)
{
	const struct rate_meter *m = p->m;

	return surplus(m, &p->c->rate.share[p->dir]) > (int64_t)had_in(shared_bucket(m), SHARE_NS);
}

static void share_charge(const struct path_meter *p, uint64_t now, uint64_t bytes, uint32_t ops)
{
	struct rate_meter *m = p->m;
	struct rate_share *s = &p->c->rate.share[p->dir];
	uint64_t n = (m->bytes.cost ? bytes : ops) * FFO_WEIGHT_DEFAULT << HAD_SHIFT;
	uint32_t weight = container_weight(p->c), all;

	if (!is_set(m))
		return;
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
		if (w && pm[i].c && is_set(m) && is_ahead(&pm[i])) {
			uint64_t beyond = bucket_room_beyond(&m->bytes, f->now, m->extra);

			if (!beyond || !bucket_room_beyond(&m->ops, f->now, m->extra)) {
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
	struct fast *first = m->f->first;

	for (int d = 0; d < RATE_DIRS; d++)
		meter_open(&m[d]);
	for (uint32_t i = 0; i < first->qps.size; i++) {
		struct qp *qp = first->qps.slot[i];

		if (qp && qp->wait.first >= m && qp->wait.first < m + RATE_DIRS)
			not_first(&qp->wait);
	}
}

/* ---- tenants --------------------------------------------------------------------------------- */

static struct tenant *tenant_find(struct fast *f, const char *name)
{
	struct tenant *t;

	LIST_FOREACH(t, &f->first->tenants, entry)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}

static struct tenant *tenant_get(struct fast *f, const char *name)
{
	struct tenant *t = tenant_find(f, name);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	snprintf(t->name, sizeof(t->name), "%s", name);
	for (int d = 0; d < RATE_DIRS; d++)
		meter_init(&t->meter[d], f);
	LIST_INSERT_HEAD(&f->first->tenants, t, entry);
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

int fast_tenant_limits(struct fast *first, const char *name, const struct ffo_limits *l)
{
	struct tenant *t = tenant_get(first, name);
	struct container *c;

	if (!t)
		return -ENOMEM;
	t->limits = *l;
	t->limited = meters_set(t->meter, first->now, l);
	cpu_reset(&t->cpu);
	LIST_FOREACH(c, &first->containers, entry)
		if (c->of == t)
			cpu_unpark(c);
	t->gather_since = 0;
	rate_tenant_enforce(first, t);
	tenant_put(t);
	return 0;
}

void rate_tenant_enforce(struct fast *first, struct tenant *t)
{
	bool any = t->limited || t->gather_since;
	struct container *c;

	t->limited = false; /* until then they are no group */
	t->limited = any && threads_gather(first, t);
	if (any && !t->limited && !t->gather_since) {
		t->gather_since = first->now;
		if (first->want_near)
			first->want_near(first);
	} else if (t->limited) {
		t->gather_since = 0;
	}
	LIST_FOREACH(c, &first->containers, entry) {
		if (c->of != t)
			continue;
		c->limited = c->rate.own || t->limited;
		if (t->limited)
			meters_move(t->meter, c->fast);
	}
}

void rate_free(struct fast *f)
{
	struct tenant *t;

	while ((t = LIST_FIRST(&f->tenants))) {
		LIST_REMOVE(t, entry);
		free(t);
	}
}

/* ---- containers ------------------------------------------------------------------------------ */

int rate_container_add(struct fast *first, struct container *c)
{
	struct tenant *t = tenant_get(first, c->tenant);

	if (!t)
		return -ENOMEM;
	c->of = t;
	c->fast = threads_place(first, c);
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
}

void rate_container_move(struct container *c, struct fast *to)
{
	meters_move(c->rate.meter, to);
	if (c->of->limited)
		meters_move(c->of->meter, to);
}
