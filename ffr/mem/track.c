/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * track.c - where the memory of MRs is that the router copies through the process. A thread for
 * each session that has such MRs; track_begin() and track_end(): whoever copies (fast/pvm.c,
 * soft/xfer.c); the rest: control thread.
 *
 * Theory of operation
 * -------------------
 * Large memory is registered as it is, and the router copies it by its address at first (heat.c).
 * But an MR means the pages that it was registered with, and a program may unmap them, move them,
 * or map something else at their address. The kernel tells: the library registers such memory with
 * a userfaultfd in write-protect mode, in which nobody ever has to wait for a fault, and hands it
 * over. Whoever unmaps or moves such memory sleeps until the event was read.
 *
 *	EVENT_UNMAP	munmap(), mappings that take the place, mremap() that makes it smaller: what was
 *			there is nobody's. It reads as zeros, and what is written to it goes nowhere.
 *	EVENT_REMAP	mremap(): it is at the new address
 *
 * So an MR has pieces, each with an address of the process, or none. A copy asks for the address
 * at the last moment, when its call is made.
 *
 * Both events come when the mapping has changed already, and only their caller sleeps. So a copy
 * has to be kept from what is there then, from the change until the pieces are right. The kernel
 * tells of the first part of that time: from before the change until the caller goes on after its
 * event was read, calls of the userfaultfd fail with EAGAIN. For the rest there is `stop`:
 *
 *	the thread		sets a bit of stop; waits until there are no copies; reads an event; changes
 *				the pieces; clears the bit
 *	a copy			counts itself in copies; looks at stop, and then at EAGAIN; uses the pieces
 *				and copies; counts itself off
 *
 * Both first write and then read the other's word, in an order that all threads agree upon
 * (memory_order_seq_cst). So either the copy sees the bit, or the thread sees the copy, which is
 * over before the event is read and its caller goes on. A copy that begins before the bit is set
 * sees EAGAIN from the change on. What remains is a copy that began before the change and ends
 * after it. One that reads looks for EAGAIN once more at its end, for no event is read before,
 * and is made anew. One that writes may have written to the new mapping, in the microsecond or so
 * that it takes.
 *
 * The pieces change only while a bit of stop is set, there are no copies, and `lock` is held; so
 * copies look at them without it.
 *
 * Events come in any order where several threads change mappings, and an address may be
 * registered anew before the event of its last mapping is read. So no MR is tracked while the
 * kernel says EAGAIN, and an event concerns only MRs that were there before it was read.
 *
 * To register memory takes longer than all else of a registration. So it stays registered for some
 * time when its last MR has gone, and the router tells the library of an MR whose pages are all
 * registered and have had no event since the library said so.
 *
 * The library replaces such memory by shadow pages later, a part at a time, with a userfaultfd of
 * its own, and a page can be registered with one only. So a part is closed before, which means
 * that it is not copied, and opened when the router has a pointer to it, or the page is registered
 * here again. The router takes no pointer to what is not at its address any more, or was not all
 * the time since it was closed.
 *
 * What comes from there is hostile. The descriptor may be anything, and its events may be false:
 * then only that session's MRs are somewhere else, in the memory of its own process, or are not
 * copied any more. All the time that it takes is the thread's.
 *
 * Tests: test_track.c
 */
#include "ffr/mem/track.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "ffr/lib/sandbox.h"
#include "ffr/obj/ledger.h"
#include "ffr/mem/uffd.h"

#define PIECES_MAX   64u /* of an MR; what would be more is gone */
#define KNOWN_MAX    64u /* ranges of a session */
#define STOP_EVENT   1u	 /* the thread reads an event */
#define STOP_CLOSE   2u	 /* the control thread closes a part */
#define STOP_END     4u	 /* for good */
#define YIELDS	     100u
#define PAUSE_NS     100000 /* between two looks whether there are copies, after these; then longer */
#define PAUSE_MAX_NS 10000000
#define STACK	     ((size_t)256 << 10)
#define MEMORY	     (sizeof(struct track) + STACK / 4) /* what is used of the stack */

/* [va, va + len) of an MR is at `at`, or TRACK_GONE. */
struct piece {
	uint64_t va, len, at;
};

struct tracked {
	_Atomic uint32_t refs;	   /* the MR, and copies that are to be made, or under way */
	LIST_ENTRY(tracked) entry; /* [lock] f->mrs */
	struct track *f;	   /* with a reference */
	uint64_t since;		   /* f->events when it came */
	uint32_t num; /* of the pieces, which are sorted and have all bytes of the MR */
	struct piece piece[PIECES_MAX];
};

struct range {
	uint64_t from, to;
};

struct track {
	_Atomic uint32_t refs; /* the session, the thread, MRs */
	pthread_mutex_t lock;  /* its holder waits for nothing */
	LIST_HEAD(, tracked) mrs;
	uint64_t events; /* [lock] how often one was about to be read */
	int uffd, wake;
	_Atomic bool ended;
	_Atomic uint32_t stop;			 /* STOP_*: no copy begins */
	_Atomic uint32_t copies;		 /* under way */
	_Atomic uint64_t closed_from, closed_to; /* addresses of the process */
	bool has_thread;			 /* the control thread's */
	struct ledger *ledger; /* [lock] NULL: there is none, or the session has ended */
	/* [lock] */
	bool is_spoilt;	    /* mappings there have changed since they were closed */
	struct range asked; /* for FF_TRACK_GET, since when nothing has changed there; 0: it has */
	struct range known[KNOWN_MAX]; /* registered, and unchanged */
	uint32_t num_known;
};

static void track_unref(struct track *f)
{
	if (atomic_fetch_sub(&f->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&f->lock);
	close(f->wake);
	free(f);
}

/* ---- pieces -------------------------------------------------------------------------------- */

/* One more piece, behind those that m has. Of too many, the rest is gone. */
static void piece_add(struct tracked *m, uint64_t va, uint64_t len, uint64_t at)
{
	struct piece *last = m->num ? &m->piece[m->num - 1] : NULL;

	if (!len)
		return;
	if (last && (at == TRACK_GONE ? last->at == TRACK_GONE :
					last->at != TRACK_GONE && last->at + last->len == at)) {
		last->len += len;
	} else if (m->num < PIECES_MAX) {
		m->piece[m->num++] = (struct piece){ va, len, at };
	} else {
		last->at = TRACK_GONE;
		last->len += len;
	}
}

/* What is at [from, from + len) of the process is at `to` from now on, or TRACK_GONE. */
static void pieces_move(struct tracked *m, uint64_t from, uint64_t len, uint64_t to)
{
	struct piece old[PIECES_MAX];
	uint32_t n = m->num;

	memcpy(old, m->piece, n * sizeof(old[0]));
	m->num = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct piece *p = &old[i];
		uint64_t lo = from > p->at ? from : p->at, hi = p->at + p->len;

		if (from + len < hi)
			hi = from + len;
		if (p->at == TRACK_GONE || lo >= hi) {
			piece_add(m, p->va, p->len, p->at);
			continue;
		}
		piece_add(m, p->va, lo - p->at, p->at);
		piece_add(m, p->va + (lo - p->at), hi - lo,
			  to == TRACK_GONE ? to : to + (lo - from));
		piece_add(m, p->va + (hi - p->at), p->at + p->len - hi, hi);
	}
}

/* Nobody's event wraps around, or is of all of the address space. */
static bool is_range(uint64_t at, uint64_t len)
{
	return len && at < TRACK_GONE - len;
}

/* ---- what is registered: [lock] -------------------------------------------------------------- */

static void known_add(struct track *f, uint64_t from, uint64_t to)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->num_known; i++) {
		const struct range *k = &f->known[i];

		if (k->from > to || k->to < from) {
			f->known[n++] = *k;
			continue;
		}
		from = k->from < from ? k->from : from;
		to = k->to > to ? k->to : to;
	}
	if (n == KNOWN_MAX) /* the oldest one is registered once more, if need be */
		memmove(f->known, f->known + 1, --n * sizeof(f->known[0]));
	f->known[n++] = (struct range){ from, to };
	f->num_known = n;
}

static void known_cut(struct track *f, uint64_t from, uint64_t to)
{
	struct range rest[2];

	for (uint32_t i = f->num_known; i-- > 0;) {
		const struct range k = f->known[i];

		if (k.from >= to || k.to <= from)
			continue;
		f->known[i] = f->known[--f->num_known];
		rest[0] = (struct range){ k.from, from };
		rest[1] = (struct range){ to, k.to };
		for (unsigned n = 0; n < 2; n++)
			if (rest[n].from < rest[n].to && f->num_known < KNOWN_MAX)
				f->known[f->num_known++] = rest[n];
	}
	if (f->asked.from < to && f->asked.to > from)
		f->asked = (struct range){ 0 };
}

/* ---- events: the thread ---------------------------------------------------------------------- */

/* Is some of it closed? */
static bool is_closed(const struct track *f, uint64_t at, uint64_t len)
{
	return at < atomic_load(&f->closed_to) && at + len > atomic_load(&f->closed_from);
}

/* [lock], while no copy is under way. */
static void on_change(struct track *f, const struct uffd_msg *msg)
{
	uint64_t from, len, to;
	struct tracked *m;

	if (msg->event == UFFD_EVENT_UNMAP) {
		from = msg->arg.remove.start;
		len = msg->arg.remove.end - from;
		to = TRACK_GONE;
	} else if (msg->event == UFFD_EVENT_REMAP) {
		from = msg->arg.remap.from;
		len = msg->arg.remap.len;
		to = msg->arg.remap.to;
		if (!is_range(to, len))
			return;
	} else {
		return;
	}
	if (!is_range(from, len))
		return;
	known_cut(f, from, from + len);
	if (to != TRACK_GONE)
		known_cut(f, to, to + len);
	f->is_spoilt |= is_closed(f, from, len) || (to != TRACK_GONE && is_closed(f, to, len));
	LIST_FOREACH(m, &f->mrs, entry)
		if (m->since < f->events) {
			pieces_move(m, from, len, to);
			/* the next router takes the memory of MRs to be where it was registered */
			if (m->num != 1 || m->piece[0].at != m->piece[0].va)
				ledger_bar(f->ledger, LEDGER_BAR_MEMORY);
		}
}

/* Until none is under way: some microseconds, but for memory that does not answer. */
static void wait_for_copies(const struct track *f)
{
	struct timespec pause = { .tv_nsec = PAUSE_NS };

	for (uint32_t i = 0; atomic_load(&f->copies); i++) {
		if (i < YIELDS) {
			sched_yield();
			continue;
		}
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < PAUSE_MAX_NS)
			pause.tv_nsec *= 2;
	}
}

static void serve(struct track *f)
{
	struct uffd_msg msg;
	bool more = true;

	atomic_fetch_or(&f->stop, STOP_EVENT);
	wait_for_copies(f);
	while (more && !atomic_load(&f->ended)) {
		pthread_mutex_lock(&f->lock);
		f->events++;
		ledger_event(f->ledger, true);
		pthread_mutex_unlock(&f->lock);
		more = uffd_next(f->uffd, &msg);
		pthread_mutex_lock(&f->lock);
		if (more)
			on_change(f, &msg);
		ledger_event(f->ledger, false);
		pthread_mutex_unlock(&f->lock);
	}
	atomic_fetch_and(&f->stop, ~STOP_EVENT);
}

static void *track_thread(void *arg)
{
	struct track *f = arg;
	struct pollfd p[2] = { { .fd = f->uffd, .events = POLLIN },
			       { .fd = f->wake, .events = POLLIN } };

	(void)sandbox_enter(SANDBOX_PAGES); /* the control thread's holds in any case */
	while (!atomic_load(&f->ended)) {
		poll(p, 2, -1);
		if (p[0].revents & POLLIN) {
			serve(f);
		} else if (p[0].revents) { /* it can tell nothing any more: nothing is copied */
			atomic_fetch_or(&f->stop, STOP_END);
			p[0].fd = -1;
		}
	}
	/* whoever sleeps for an event goes on when nobody has the descriptor */
	wait_for_copies(f);
	close(f->uffd);
	track_unref(f);
	return NULL;
}

/* ---- the control thread -------------------------------------------------------------------- */

static int thread_start(struct track *f)
{
	pthread_attr_t attr;
	pthread_t t;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&t, &attr, track_thread, f);
	pthread_attr_destroy(&attr);
	return -err;
}

int track_prepare(struct session *s, int uffd)
{
	struct track *f;
	int err;

	if (!uffd_is_one(uffd))
		return -EINVAL;
	err = quota_charge(s->cont, QUOTA_MEMORY, MEMORY);
	if (err)
		return err;
	err = -ENOMEM;
	f = calloc(1, sizeof(*f));
	if (!f)
		goto err_quota;
	err = -EMFILE;
	f->uffd = fcntl(uffd, F_DUPFD_CLOEXEC, 0);
	if (f->uffd < 0)
		goto err_free;
	f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (f->wake < 0)
		goto err_uffd;
	pthread_mutex_init(&f->lock, NULL);
	LIST_INIT(&f->mrs);
	atomic_init(&f->refs, 1);
	f->ledger = s->ledger;
	s->mem.track = f;
	return 0;

err_uffd:
	close(f->uffd);
err_free:
	free(f);
err_quota:
	quota_return(s->cont, QUOTA_MEMORY, MEMORY);
	return err;
}

int track_go(struct session *s)
{
	struct track *f = s->mem.track;
	int err;

	atomic_fetch_add(&f->refs, 1);
	err = thread_start(f);
	if (err)
		atomic_fetch_sub(&f->refs, 1);
	else
		f->has_thread = true;
	return err;
}

int track_start(struct session *s, int uffd)
{
	int err = track_prepare(s, uffd);

	if (err)
		return err;
	err = track_go(s);
	if (!err)
		return 0;
	quota_return(s->cont, QUOTA_MEMORY, MEMORY);
	close(s->mem.track->uffd);
	track_unref(s->mem.track);
	s->mem.track = NULL;
	return err;
}

void track_stop(struct session *s)
{
	struct track *f = s->mem.track;

	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->ledger = NULL;
	pthread_mutex_unlock(&f->lock);
	atomic_fetch_or(&f->stop, STOP_END);
	atomic_store(&f->ended, true);
	/* the last close waits for the lock of the client's address space, so it is a thread's */
	if (!f->has_thread && track_go(s))
		close(f->uffd);
	s->mem.track = NULL;
	eventfd_write(f->wake, 1);
	track_unref(f);
	quota_return(s->cont, QUOTA_MEMORY, MEMORY);
	quota_return(s->cont, QUOTA_FD, TRACK_FDS);
}

int track_fd(const struct session *s)
{
	return s->mem.track ? s->mem.track->uffd : -1;
}

/* events: those that are read after so many are the MR's, too. */
static int tracked_new(struct track *f, const struct mr *mr, const uint64_t *events,
		       struct tracked **out)
{
	struct tracked *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	atomic_init(&m->refs, 1);
	atomic_fetch_add(&f->refs, 1);
	m->f = f;
	piece_add(m, mr->addr, mr->length, mr->addr);
	pthread_mutex_lock(&f->lock);
	m->since = *events;
	LIST_INSERT_HEAD(&f->mrs, m, entry);
	pthread_mutex_unlock(&f->lock);
	*out = m;
	return 0;
}

int track_new(struct session *s, const struct mr *mr, struct tracked **out)
{
	struct track *f = s->mem.track;

	if (!f)
		return -EINVAL;
	if (!track_is_settled(s))
		return -EAGAIN;
	return tracked_new(f, mr, &f->events, out);
}

int track_again(struct session *s, const struct mr *mr, struct tracked **out)
{
	static const uint64_t none;

	return s->mem.track ? tracked_new(s->mem.track, mr, &none, out) : -EINVAL;
}

bool track_is_closed(const struct session *s)
{
	return s->mem.track && atomic_load(&s->mem.track->closed_to);
}

void track_hold(struct tracked *m)
{
	if (m)
		atomic_fetch_add(&m->refs, 1);
}

void track_put(struct tracked *m)
{
	if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
		return;
	pthread_mutex_lock(&m->f->lock);
	LIST_REMOVE(m, entry);
	pthread_mutex_unlock(&m->f->lock);
	track_unref(m->f);
	free(m);
}

/* The bit is set before an event is read, and EAGAIN ends after that: in this order. */
bool track_is_settled(const struct session *s)
{
	struct track *f = s->mem.track;

	return !f || (!uffd_is_changing(f->uffd) && !(atomic_load(&f->stop) & STOP_EVENT));
}

bool track_is_home(struct tracked *m, uint64_t va, uint64_t len)
{
	bool is;

	if (!m)
		return true;
	pthread_mutex_lock(&m->f->lock);
	is = !m->f->is_spoilt || !is_closed(m->f, va, len);
	for (uint32_t i = 0; i < m->num && is; i++) {
		const struct piece *p = &m->piece[i];

		is = p->at == p->va || p->va >= va + len || p->va + p->len <= va;
	}
	pthread_mutex_unlock(&m->f->lock);
	return is;
}

/* [lock] Had MRs memory there, and none has it there any more? Then it is not for them to be replaced. */
static bool is_left(const struct track *f, uint64_t va, uint64_t len)
{
	const struct tracked *m;
	bool had = false;

	LIST_FOREACH(m, &f->mrs, entry)
		for (uint32_t i = 0; i < m->num; i++) {
			const struct piece *p = &m->piece[i];

			if (p->va >= va + len || p->va + p->len <= va)
				continue;
			if (p->at == p->va)
				return false;
			had = true;
		}
	return had;
}

static int close_pages(struct session *s, uint64_t va, uint64_t len)
{
	struct track *f = s->mem.track;
	int err = 0;

	atomic_fetch_or(&f->stop, STOP_CLOSE);
	if (atomic_load(&f->copies) || !track_is_settled(s))
		return -EAGAIN;
	pthread_mutex_lock(&f->lock);
	if (is_left(f, va, len)) {
		err = -ENOENT;
	} else {
		f->is_spoilt = false;
		atomic_store(&f->closed_from, va);
		atomic_store(&f->closed_to, va + len);
		known_cut(f, va, va + len);
	}
	pthread_mutex_unlock(&f->lock);
	atomic_fetch_and(&f->stop, ~STOP_CLOSE);
	return err;
}

static int know_all(struct track *f, uint64_t va, uint64_t len)
{
	int err = -ESTALE;

	pthread_mutex_lock(&f->lock);
	if (f->asked.to && f->asked.from <= va && f->asked.to >= va + len) {
		known_add(f, va, va + len);
		err = 0;
	}
	pthread_mutex_unlock(&f->lock);
	return err;
}

int track_pages(struct session *s, uint32_t op, uint64_t va, uint64_t len)
{
	struct track *f = s->mem.track;

	if (op == FF_TRACK_OPEN) {
		track_open(s);
		return 0;
	}
	if (!f || !is_range(va, len))
		return -EINVAL;
	if (op == FF_TRACK_CLOSE)
		return close_pages(s, va, len);
	if (!track_is_settled(s))
		return -EAGAIN;
	if (op == FF_TRACK_ALL)
		return know_all(f, va, len);
	if (op != FF_TRACK_GET)
		return -EINVAL;
	pthread_mutex_lock(&f->lock);
	f->asked = (struct range){ va, va + len };
	pthread_mutex_unlock(&f->lock);
	return 0;
}

bool track_is_known(const struct session *s, uint64_t va, uint64_t len)
{
	struct track *f = s->mem.track;
	bool is = false;

	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < f->num_known && !is; i++)
		is = f->known[i].from <= va && f->known[i].to >= va + len;
	pthread_mutex_unlock(&f->lock);
	return is;
}

void track_open(struct session *s)
{
	struct track *f = s->mem.track;

	if (!f)
		return;
	atomic_store(&f->closed_to, 0);
	atomic_fetch_and(&f->stop, ~STOP_CLOSE); /* one that was given up */
}

/* ---- copies -------------------------------------------------------------------------------- */

static const struct piece *piece_of(const struct tracked *m, uint64_t va)
{
	uint32_t i = 0;

	while (i + 1 < m->num && m->piece[i + 1].va <= va)
		i++;
	return &m->piece[i];
}

uint64_t track_begin(struct tracked *m, uint64_t va, uint64_t len, uint64_t *at)
{
	struct track *f = m->f;
	const struct piece *p;
	uint64_t n, from, to;

	atomic_fetch_add(&f->copies, 1);
	if (atomic_load(&f->stop) || uffd_is_changing(f->uffd))
		goto not_now;
	p = piece_of(m, va);
	n = p->len - (va - p->va);
	if (n > len)
		n = len;
	*at = p->at == TRACK_GONE ? TRACK_GONE : p->at + (va - p->va);
	from = atomic_load(&f->closed_from);
	to = atomic_load(&f->closed_to);
	if (*at == TRACK_GONE || *at >= to || *at + n <= from)
		return n;
	if (*at < from)
		return from - *at;
not_now:
	atomic_fetch_sub(&f->copies, 1);
	return 0;
}

bool track_is_same(const struct tracked *m)
{
	return !uffd_is_changing(m->f->uffd);
}

void track_end(struct tracked *m)
{
	atomic_fetch_sub(&m->f->copies, 1);
}
