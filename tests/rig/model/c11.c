/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* c11.c - the explorer; what it does is told in c11.h. Threads are coroutines, which leave off before each step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "tests/rig/model/c11.h"

#define MAX_WORDS  16
#define MAX_STORES 24 /* of a word, in a run */
#define MAX_DEPTH  1000
#define STACK	   (128u << 10)
#define MAX_STATES (4u << 20)

struct view {
	uint8_t at[MAX_WORDS];	    /* the latest store that is known, by its place in the list */
	uint8_t clock[C11_THREADS]; /* the last step of each thread that happened before */
};

struct store {
	uint64_t value;
	struct view view; /* what who acquires it knows */
	uint8_t thread, clock;
	bool closed; /* an RMW took it: nothing comes between */
};

struct word {
	const volatile void *p;
	uint8_t n, num;
	struct store list[MAX_STORES]; /* in modification order */
	uint8_t read[C11_THREADS];     /* plain data: when each thread read it last */
};

enum waits { RUNS, WAITS_SET, WAITS_ZERO, ENDED };

struct thread {
	ucontext_t start;
	void *at[5]; /* where it leaves off */
	bool begun;
	struct view cur, acq, rel; /* acq: by an acquire fence; rel: as of the last release fence */
	uint64_t told;		   /* hash of all that it was told */
	enum waits waits;
	unsigned on;
	uint8_t clock;
};

static struct {
	const struct c11_program *program;
	unsigned num;
	struct thread thread[C11_THREADS];
	struct word word[MAX_WORDS];
	unsigned num_words;
	uint8_t fences[MAX_WORDS];
	unsigned self;
	void *explorer[5];
	bool leave;
	const char *wrong;

	uint8_t choice[MAX_DEPTH], choices[MAX_DEPTH];
	unsigned depth, prefix;
	uint64_t *seen;
	uint32_t mask, states;
} m;

static char stacks[C11_THREADS][STACK] __attribute__((aligned(64)));

static unsigned choose(unsigned n)
{
	unsigned at = m.depth;

	if (n == 1)
		return 0;
	if (m.depth == MAX_DEPTH) {
		c11_wrong("the run is too long");
		return 0;
	}
	m.depth++;
	if (at >= m.prefix) {
		m.choice[at] = 0;
		m.choices[at] = (uint8_t)n;
	}
	return m.choice[at];
}

static struct thread *self(void)
{
	return &m.thread[m.self];
}

static const struct c11_mutant *mutant(void)
{
	return &m.program->mutant[m.self];
}

/*
 * setjmp() and longjmp() of the compiler: they keep no signal mask, which would be a system call each. noipa: who calls
 * these has lost all registers that a call may change.
 */
static __attribute__((noipa)) void go(void **to)
{
	__builtin_longjmp(to, 1);
}

static __attribute__((noipa)) void to_explorer(void)
{
	if (!__builtin_setjmp(self()->at))
		go(m.explorer);
}

/* The thread t makes its next step, or comes to its first one. */
static __attribute__((noipa)) void to_thread(unsigned t)
{
	m.self = t;
	if (__builtin_setjmp(m.explorer))
		return;
	if (m.thread[t].begun)
		go(m.thread[t].at);
	m.thread[t].begun = true;
	setcontext(&m.thread[t].start);
}

/* The explorer decides who is next; this thread goes on when it is. */
static void step(void)
{
	do
		to_explorer();
	while (m.leave); /* for ever: the run is over */
	self()->clock++;
	self()->cur.clock[m.self] = self()->clock;
}

static uint64_t tell(uint64_t v)
{
	self()->told = (self()->told ^ v ^ 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
	self()->told ^= self()->told >> 31;
	return v;
}

static void join(struct view *to, const struct view *from)
{
	for (unsigned i = 0; i < MAX_WORDS; i++)
		if (from->at[i] > to->at[i])
			to->at[i] = from->at[i];
	for (unsigned i = 0; i < C11_THREADS; i++)
		if (from->clock[i] > to->clock[i])
			to->clock[i] = from->clock[i];
}

static bool acquires(memory_order o)
{
	return (o == memory_order_acquire || o == memory_order_acq_rel ||
		o == memory_order_seq_cst) &&
	       !mutant()->no_acquire;
}

static bool releases(memory_order o)
{
	return (o == memory_order_release || o == memory_order_acq_rel ||
		o == memory_order_seq_cst) &&
	       !mutant()->no_release;
}

/* ---- words ------------------------------------------------------------------------------------- */

void c11_word(void *p, size_t n)
{
	struct word *w = &m.word[m.num_words++];

	if (m.num_words > MAX_WORDS)
		abort();
	memset(w, 0, sizeof(*w));
	w->p = p;
	w->n = (uint8_t)n;
	w->num = 1;
	memcpy(&w->list[0].value, p, n);
	w->list[0].thread = C11_THREADS; /* nobody's: it happened before all */
}

static int find(const volatile void *p)
{
	for (unsigned i = 0; i < m.num_words; i++)
		if (m.word[i].p == p)
			return (int)i;
	return -1;
}

bool c11_has(const volatile void *p)
{
	return find(p) >= 0;
}

static uint64_t as_it_is(const volatile void *p, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, (const void *)p, n);
	return v;
}

static unsigned must_find(const volatile void *p)
{
	int i = find(p);

	if (i < 0)
		abort();
	return (unsigned)i;
}

static void sees(unsigned i, unsigned at, memory_order o)
{
	const struct store *s = &m.word[i].list[at];

	if (self()->cur.at[i] < at)
		self()->cur.at[i] = (uint8_t)at;
	join(&self()->acq, &s->view);
	if (acquires(o))
		join(&self()->cur, &s->view);
}

/* Stores at `at` and behind it move up. */
static void shift(struct view *v, unsigned i, unsigned at)
{
	if (v->at[i] >= at)
		v->at[i]++;
}

static struct store *insert(unsigned i, unsigned at)
{
	struct word *w = &m.word[i];

	if (w->num == MAX_STORES)
		abort();
	memmove(&w->list[at + 1], &w->list[at], (w->num - at) * sizeof(w->list[0]));
	w->num++;
	for (unsigned t = 0; t < m.num; t++) {
		shift(&m.thread[t].cur, i, at);
		shift(&m.thread[t].acq, i, at);
		shift(&m.thread[t].rel, i, at);
	}
	for (unsigned k = 0; k < m.num_words; k++)
		for (unsigned j = 0; j < m.word[k].num; j++)
			shift(&m.word[k].list[j].view, i, at);
	if (m.fences[i] >= at)
		m.fences[i]++;
	w->list[at] = (struct store){ 0 };
	return &w->list[at];
}

/* The value becomes the word's store number `at`; `read`: of an RMW, what it read. */
static void put(unsigned i, unsigned at, uint64_t v, memory_order o, const struct store *read)
{
	struct view known = { 0 };
	struct store *s;

	if (read)
		known = read->view; /* a release goes on through RMWs */
	s = insert(i, at);
	s->value = m.word[i].n == 8 ? v : v & ((1ull << m.word[i].n * 8) - 1);
	s->thread = (uint8_t)m.self;
	s->clock = self()->clock;
	self()->cur.at[i] = (uint8_t)at;
	s->view = known;
	shift(&s->view, i, at);
	join(&s->view, releases(o) ? &self()->cur : &self()->rel);
	if (s->view.at[i] < at)
		s->view.at[i] = (uint8_t)at;
	if (o == memory_order_seq_cst && m.fences[i] < at)
		m.fences[i] = (uint8_t)at;
}

static unsigned from(unsigned i, memory_order o)
{
	unsigned at = self()->cur.at[i];

	return o == memory_order_seq_cst && m.fences[i] > at ? m.fences[i] : at;
}

uint64_t c11_load(const volatile void *p, size_t n, memory_order o)
{
	int i = find(p);
	unsigned at;
	uint64_t v;

	if (i < 0)
		return as_it_is(p, n);
	step();
	at = from((unsigned)i, o);
	at += choose(m.word[i].num - at);
	v = m.word[i].list[at].value;
	sees((unsigned)i, at, o);
	return tell(v);
}

void c11_store(volatile void *p, size_t n, uint64_t v, memory_order o)
{
	unsigned at, num = 0, places[MAX_STORES];
	int i = find(p);

	if (i < 0) {
		memcpy((void *)p, &v, n);
		return;
	}
	step();
	for (at = from((unsigned)i, o) + 1; at <= m.word[i].num; at++)
		if (!m.word[i].list[at - 1].closed)
			places[num++] = at;
	put((unsigned)i, places[choose(num)], v, o, NULL);
}

static uint64_t after(uint64_t old, enum c11_rmw how, uint64_t v)
{
	switch (how) {
	case C11_XCHG:
		return v;
	case C11_ADD:
		return old + v;
	case C11_SUB:
		return old - v;
	case C11_OR:
		return old | v;
	default:
		return old & v;
	}
}

/* Where an RMW may read: what no other one has. */
static unsigned rmw_from(unsigned i, memory_order o)
{
	unsigned n = 0, places[MAX_STORES];

	for (unsigned at = from(i, o); at < m.word[i].num; at++)
		if (!m.word[i].list[at].closed)
			places[n++] = at;
	return places[choose(n)];
}

static uint64_t rmw_at(unsigned i, unsigned at, enum c11_rmw how, uint64_t v, memory_order o)
{
	struct store read = m.word[i].list[at];

	sees(i, at, o);
	m.word[i].list[at].closed = true;
	put(i, at + 1, after(read.value, how, v), o, &read);
	return tell(read.value);
}

uint64_t c11_rmw(volatile void *p, size_t n, enum c11_rmw how, uint64_t v, memory_order o)
{
	uint64_t old;
	int i = find(p);

	if (i < 0) {
		old = as_it_is(p, n);
		v = after(old, how, v);
		memcpy((void *)p, &v, n);
		return old;
	}
	step();
	return rmw_at((unsigned)i, rmw_from((unsigned)i, o), how, v, o);
}

bool c11_cas(volatile void *p, size_t n, uint64_t *expected, uint64_t v, memory_order o)
{
	unsigned i, at, num = 0, places[MAX_STORES];
	uint64_t old = as_it_is(p, n);

	if (!c11_has(p)) {
		bool same = old == *expected;

		memcpy(same ? (void *)p : (void *)expected, same ? &v : &old, n);
		return same;
	}
	i = must_find(p);
	step();
	/* one that fails is a load, which may see a store that an RMW took */
	for (at = from(i, o); at < m.word[i].num; at++)
		if (!m.word[i].list[at].closed || m.word[i].list[at].value != *expected)
			places[num++] = at;
	at = places[choose(num)];
	if (m.word[i].list[at].value == *expected) {
		rmw_at(i, at, C11_XCHG, v, o);
		return true;
	}
	*expected = m.word[i].list[at].value;
	sees(i, at, o);
	tell(*expected);
	return false;
}

void c11_fence(memory_order o)
{
	step();
	if (mutant()->no_fence)
		return;
	if (acquires(o))
		join(&self()->cur, &self()->acq);
	if (o == memory_order_seq_cst && !mutant()->weak_fence)
		for (unsigned i = 0; i < m.num_words; i++) {
			if (m.fences[i] < self()->cur.at[i])
				m.fences[i] = self()->cur.at[i];
			self()->cur.at[i] = m.fences[i];
		}
	if (releases(o))
		self()->rel = self()->cur;
}

/* ---- what is not atomic ---------------------------------------------------------------------------- */

static bool knows(unsigned thread, uint8_t clock)
{
	return thread == C11_THREADS || self()->cur.clock[thread] >= clock;
}

static struct word *plain(const volatile void *p)
{
	struct word *w = &m.word[must_find(p)];

	step();
	for (unsigned i = 0; i < w->num; i++)
		if (!knows(w->list[i].thread, w->list[i].clock))
			c11_wrong("data race: a write did not happen before");
	return w;
}

uint64_t c11_plain_load(const volatile void *p)
{
	struct word *w = plain(p);

	w->read[m.self] = self()->clock;
	return tell(w->list[w->num - 1].value);
}

void c11_plain_store(volatile void *p, uint64_t v)
{
	struct word *w = plain(p);

	for (unsigned t = 0; t < m.num; t++)
		if (!knows(t, w->read[t]))
			c11_wrong("data race: a read did not happen before");
	w->list[0] =
		(struct store){ .value = v, .thread = (uint8_t)m.self, .clock = self()->clock };
}

/* ---- the kernel's ------------------------------------------------------------------------------------ */

static void wait_for(volatile void *p, enum waits what)
{
	self()->on = must_find(p);
	self()->waits = what;
	step();
	self()->waits = RUNS;
}

uint64_t c11_take(volatile void *p)
{
	unsigned i = must_find(p);

	wait_for(p, WAITS_SET);
	return rmw_at(i, m.word[i].num - 1u, C11_XCHG, 0, memory_order_acq_rel);
}

void c11_wait_zero(volatile void *p)
{
	unsigned i = must_find(p);

	wait_for(p, WAITS_ZERO);
	sees(i, m.word[i].num - 1u, memory_order_relaxed);
}

void c11_give(volatile void *p)
{
	unsigned i = must_find(p);

	step();
	rmw_at(i, m.word[i].num - 1u, C11_ADD, 1, memory_order_acq_rel);
}

/* ---- the explorer -------------------------------------------------------------------------------- */

void c11_leave(void)
{
	m.leave = true;
	step();
}

void c11_wrong(const char *what)
{
	m.wrong = what;
	m.leave = true;
}

bool c11_ended(int thread)
{
	return m.thread[thread].waits == ENDED;
}

uint64_t c11_newest(const volatile void *p)
{
	const struct word *w = &m.word[must_find(p)];

	return w->list[w->num - 1].value;
}

static void thread_main(unsigned t)
{
	m.program->thread[t]();
	m.thread[t].waits = ENDED;
	to_explorer();
}

static bool may_run(const struct thread *t)
{
	const struct word *w = &m.word[t->on];

	switch (t->waits) {
	case RUNS:
		return true;
	case WAITS_SET:
		return w->list[w->num - 1].value != 0;
	case WAITS_ZERO:
		return w->list[w->num - 1].value == 0;
	default:
		return false;
	}
}

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
	const uint8_t *at = p;

	for (uint64_t v; n; n -= n < 8 ? n : 8, at += 8) {
		v = 0;
		memcpy(&v, at, n < 8 ? n : 8);
		h = (h ^ v) * 0xff51afd7ed558ccdull;
		h ^= h >> 32;
	}
	return h;
}

static uint64_t state(void)
{
	uint64_t own = m.program->state ? m.program->state() : 0;
	uint64_t h = mix(mix(1, &own, sizeof(own)), m.fences, sizeof(m.fences));

	for (unsigned i = 0; i < m.num; i++) {
		const struct thread *t = &m.thread[i];

		h = mix(h, &t->cur, sizeof(t->cur));
		h = mix(h, &t->acq, sizeof(t->acq));
		h = mix(h, &t->rel, sizeof(t->rel));
		h = mix(h, &t->told, sizeof(t->told));
		h = mix(h, (uint8_t[]){ t->clock, t->waits }, 2);
	}
	for (unsigned i = 0; i < m.num_words; i++) {
		const struct word *w = &m.word[i];

		h = mix(h, w->read, sizeof(w->read));
		for (unsigned k = 0; k < w->num; k++) {
			h = mix(h, &w->list[k].value, 8);
			h = mix(h, &w->list[k].view, sizeof(struct view));
			h = mix(h,
				(uint8_t[]){ w->list[k].thread, w->list[k].clock,
					     w->list[k].closed },
				3);
		}
	}
	return h ? h : 1;
}

/* Has this state not been seen? */
static bool fresh(void)
{
	uint64_t h = state();
	uint32_t i = (uint32_t)h & m.mask;

	for (; m.seen[i]; i = (i + 1) & m.mask)
		if (m.seen[i] == h)
			return false;
	m.seen[i] = h;
	m.states++;
	return true;
}

static void begin(void)
{
	m.num_words = 0;
	m.leave = false;
	m.depth = 0;
	memset(m.fences, 0, sizeof(m.fences));
	memset(m.thread, 0, sizeof(m.thread));
	m.program->reset();
	for (unsigned t = 0; t < m.num; t++) {
#ifdef __SANITIZE_ADDRESS__
		__asan_unpoison_memory_region(stacks[t], STACK);
#endif
		getcontext(&m.thread[t].start);
		m.thread[t].start.uc_stack.ss_sp = stacks[t];
		m.thread[t].start.uc_stack.ss_size = STACK;
		makecontext(&m.thread[t].start, (void (*)(void))thread_main, 1, t);
		to_thread(t);
	}
}

/* One run: with the choices so far, and the first of all others. */
static void run(struct c11_result *r)
{
	begin();
	r->runs++;
	while (!m.leave) {
		unsigned n = 0, who[C11_THREADS];

		for (unsigned t = 0; t < m.num; t++)
			if (may_run(&m.thread[t]))
				who[n++] = t;
		if (!n) {
			m.wrong = m.program->check();
			return;
		}
		to_thread(who[choose(n)]);
		if (!m.leave && m.depth >= m.prefix && !fresh())
			return;
	}
	r->left += !m.wrong;
}

/* The next choices, depth first. False: that were all. */
static bool next(void)
{
	while (m.depth && m.choice[m.depth - 1] + 1u >= m.choices[m.depth - 1])
		m.depth--;
	if (!m.depth)
		return false;
	m.choice[m.depth - 1]++;
	m.prefix = m.depth;
	return true;
}

struct c11_result c11_explore(const struct c11_program *p)
{
	uint32_t max = p->max_states ? p->max_states : MAX_STATES;
	struct c11_result r = { 0 };

	memset(&m, 0, sizeof(m));
	m.program = p;
	while (m.num < C11_THREADS && p->thread[m.num])
		m.num++;
	for (m.mask = 1; m.mask < max * 2; m.mask *= 2)
		;
	m.seen = calloc(m.mask, sizeof(m.seen[0]));
	m.mask--;
	if (!m.seen)
		abort();
	do
		run(&r);
	while (!m.wrong && m.states < max && next());
	r.wrong = m.wrong;
	r.incomplete = !m.wrong && m.states >= max;
	r.states = m.states;
	free(m.seen);
	return r;
}
