/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_track.c - ffr/mem/track.c: where an MR's memory is said to be when its process, which is this one, does
 * something to its mappings.
 *
 * threads: yes
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/unit/wait.h"
#include "ffr/mem/track.c"

#define PG  ((uint64_t)FF_PAGE)
#define RW  (PROT_READ | PROT_WRITE)
#define LEN (16 * PG)

static struct tenant tenant;
static struct container cont = { .of = &tenant };
static struct session ses;
static bool can; /* there are userfaultfds here */

static int uffd_new(void)
{
	struct uffdio_api api = { .api = UFFD_API,
				  .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP };
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), fd;

	if (dev < 0)
		return -1;
	fd = ioctl(dev, _IO(0xAA, 0x00), O_CLOEXEC | O_NONBLOCK);
	close(dev);
	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		return -1;
	}
	return fd;
}

static uint64_t map(uint64_t at, uint64_t len);
static void unmap(uint64_t va, uint64_t len);

static int setup(void **state)
{
	int fd = uffd_new();

	(void)state;
	memset(&ses, 0, sizeof(ses));
	ses.cont = &cont;
	can = fd >= 0;
	if (!can)
		return 0;
	assert_int_equal(quota_charge(&cont, QUOTA_FD, TRACK_FDS), 0);
	assert_int_equal(track_start(&ses, fd), 0);
	close(fd);
	/* a thread that starts may map memory where a test has just unmapped some: this waits for it */
	unmap(map(0, FF_PAGE), FF_PAGE);
	WAIT_FOR(track_is_settled(&ses));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	track_stop(&ses);
	return cont.quota.use.used[QUOTA_MEMORY] || cont.quota.use.used[QUOTA_FD] ? -1 : 0;
}

static void need_uffd(void)
{
	if (can)
		return;
	print_message("no /dev/userfaultfd here\n");
	skip();
}

static void watch(uint64_t va, uint64_t len)
{
	struct uffdio_register reg = { .range = { va, len }, .mode = UFFDIO_REGISTER_MODE_WP };

	assert_int_equal(ioctl(track_fd(&ses), UFFDIO_REGISTER, &reg), 0);
}

/* Memory of the process at `at`, or anywhere: it is registered with the session's userfaultfd. */
static uint64_t map(uint64_t at, uint64_t len)
{
	void *p = mmap((void *)at, len, RW, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1,
		       0);

	assert_true(p != MAP_FAILED);
	watch((uintptr_t)p, len);
	return (uintptr_t)p;
}

static struct tracked *mr_of(uint64_t va, uint64_t len)
{
	struct mr mr = { .addr = va, .length = len };
	struct tracked *m = NULL;

	WAIT_FOR(track_new(&ses, &mr, &m) != -EAGAIN);
	assert_non_null(m);
	return m;
}

/* A copy of so much begins and ends: `at` is where. The bytes that are in one place. */
static uint64_t copied(struct tracked *m, uint64_t va, uint64_t len, uint64_t *at)
{
	uint64_t n;

	WAIT_FOR((n = track_begin(m, va, len, at)));
	track_end(m);
	return n;
}

/* [va, va + len) of the MR is in one place, which is that one. */
static void expect(struct tracked *m, uint64_t va, uint64_t len, uint64_t at)
{
	uint64_t there = 1;

	assert_int_equal(copied(m, va, len, &there), len);
	assert_int_equal(there, at);
}

static uint64_t move(uint64_t from, uint64_t len, uint64_t new_len, uint64_t to)
{
	void *p = mremap((void *)from, len, new_len, MREMAP_MAYMOVE | (to ? MREMAP_FIXED : 0), to);

	assert_true(p != MAP_FAILED);
	return (uintptr_t)p;
}

/* Address space in which nothing can be read. */
static uint64_t room(uint64_t len)
{
	void *p = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(p != MAP_FAILED);
	return (uintptr_t)p;
}

static void unmap(uint64_t va, uint64_t len)
{
	assert_int_equal(munmap((void *)va, len), 0);
}

static int close_part(uint64_t va, uint64_t len)
{
	return track_pages(&ses, FF_TRACK_CLOSE, va, len);
}

/* ---- what becomes of memory ------------------------------------------------------------------------- */

static void it_is_where_it_was(void **state)
{
	struct tracked *m;
	uint64_t va, at;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	m = mr_of(va + 100, LEN - 200);
	expect(m, va + 100, LEN - 200, va + 100);
	expect(m, va + 5 * PG + 7, 10, va + 5 * PG + 7);
	assert_int_equal(copied(m, va + 100, UINT64_MAX, &at), LEN - 200);
	track_put(m);
	unmap(va, LEN);
}

static void what_is_unmapped_is_gone(void **state)
{
	struct tracked *m;
	uint64_t va, at;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	m = mr_of(va + 100, LEN - 200);
	unmap(va + 4 * PG, 2 * PG);
	assert_int_equal(copied(m, va + 100, LEN - 200, &at), 4 * PG - 100);
	assert_int_equal(at, va + 100);
	expect(m, va + 4 * PG, 2 * PG, TRACK_GONE);
	assert_int_equal(copied(m, va + 5 * PG, LEN - 5 * PG - 100, &at), PG);
	expect(m, va + 6 * PG, LEN - 6 * PG - 100, va + 6 * PG);
	unmap(va, LEN);
	expect(m, va + 100, LEN - 200, TRACK_GONE);
	track_put(m);
}

static void something_else_takes_the_place(void **state)
{
	struct tracked *old, *new;
	uint64_t va;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	old = mr_of(va, LEN);
	map(va, LEN); /* over it */
	new = mr_of(va, LEN);
	expect(old, va, LEN, TRACK_GONE);
	expect(new, va, LEN, va);
	map(va + PG, PG);
	expect(new, va, PG, va);
	expect(new, va + PG, PG, TRACK_GONE);
	expect(new, va + 2 * PG, LEN - 2 * PG, va + 2 * PG);
	expect(old, va, LEN, TRACK_GONE);
	track_put(old);
	track_put(new);
	unmap(va, LEN);
}

static void what_is_moved_is_at_its_new_address(void **state)
{
	uint64_t va, to;
	struct tracked *m;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	to = room(4 * LEN);
	m = mr_of(va + 100, LEN - 200);
	move(va, LEN, LEN, to);
	expect(m, va + 100, LEN - 200, to + 100);
	move(to + 4 * PG, 2 * PG, 2 * PG, to + 2 * LEN);
	expect(m, va + 100, 4 * PG - 100, to + 100);
	expect(m, va + 4 * PG, 2 * PG, to + 2 * LEN);
	expect(m, va + 6 * PG, LEN - 6 * PG - 100, to + 6 * PG);
	map(va, LEN); /* it is nothing to it any more */
	unmap(va, LEN);
	expect(m, va + 100, 4 * PG - 100, to + 100);
	move(to + 2 * LEN, 2 * PG, 2 * PG, to + 4 * PG); /* back */
	expect(m, va + 100, LEN - 200, to + 100);
	unmap(to, 4 * LEN);
	expect(m, va + 100, LEN - 200, TRACK_GONE);
	track_put(m);
}

static void it_grows_and_shrinks(void **state)
{
	struct tracked *m;
	uint64_t va, to;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	to = room(4 * LEN);
	m = mr_of(va, LEN);
	move(va, LEN, 2 * LEN, to);
	expect(m, va, LEN, to);
	move(to, 2 * LEN, LEN, 0);
	expect(m, va, LEN, to);
	move(to, LEN, 3 * PG, 0);
	expect(m, va, 3 * PG, to);
	expect(m, va + 3 * PG, LEN - 3 * PG, TRACK_GONE);
	move(to, 3 * PG, PG, to + 2 * LEN); /* both at once */
	expect(m, va, PG, to + 2 * LEN);
	expect(m, va + PG, LEN - PG, TRACK_GONE);
	track_put(m);
	unmap(to, 4 * LEN);
}

static void one_takes_the_others_place(void **state)
{
	struct tracked *a, *b;
	uint64_t va, vb;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	vb = map(0, LEN);
	a = mr_of(va, LEN);
	b = mr_of(vb, LEN);
	move(va, 8 * PG, 8 * PG, vb + 4 * PG);
	expect(a, va, 8 * PG, vb + 4 * PG);
	expect(a, va + 8 * PG, 8 * PG, va + 8 * PG);
	expect(b, vb, 4 * PG, vb);
	expect(b, vb + 4 * PG, 8 * PG, TRACK_GONE);
	expect(b, vb + 12 * PG, 4 * PG, vb + 12 * PG);
	track_put(a);
	track_put(b);
	unmap(va + 8 * PG, 8 * PG);
	unmap(vb, LEN);
}

/* mremap(MREMAP_DONTUNMAP): what stays behind is empty. */
static void it_leaves_an_empty_mapping(void **state)
{
	struct tracked *m;
	uint64_t va;
	void *to;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	m = mr_of(va, LEN);
	/* libc has no address for MREMAP_DONTUNMAP */
	to = (void *)syscall(SYS_mremap, va, LEN, LEN, MREMAP_MAYMOVE | 4, NULL);
	assert_true(to != MAP_FAILED);
	expect(m, va, LEN, (uintptr_t)to);
	unmap(va, LEN);
	expect(m, va, LEN, (uintptr_t)to);
	unmap((uintptr_t)to, LEN);
	expect(m, va, LEN, TRACK_GONE);
	track_put(m);
}

static void too_many_pieces(void **state)
{
	const uint64_t num = 2 * PIECES_MAX;
	struct tracked *m;
	uint64_t va, at;

	(void)state;
	need_uffd();
	va = map(0, num * PG);
	m = mr_of(va, num * PG);
	for (uint64_t i = 0; i < num; i += 2)
		unmap(va + i * PG, PG);
	for (uint64_t i = 0; i < num; i++) {
		copied(m, va + i * PG, PG, &at);
		if (i % 2 == 0 ||
		    at != va + i * PG) /* one that is there may be lost, but not found elsewhere */
			assert_int_equal(at, TRACK_GONE);
	}
	expect(m, va + PG, PG, va + PG);
	expect(m, va + (num - 1) * PG, PG, TRACK_GONE);
	track_put(m);
	unmap(va, num * PG);
}

/* ---- copies ------------------------------------------------------------------------------------------ */

static uint64_t thread_va;
static _Atomic bool thread_ended;

static void *unmap_it(void *unused)
{
	(void)unused;
	munmap((void *)thread_va, LEN);
	atomic_store(&thread_ended, true);
	return NULL;
}

/* Who unmaps waits for the copy, and no copy begins meanwhile, whichever MR's. */
static void a_copy_is_under_way(void **state)
{
	struct tracked *m, *other;
	uint64_t va, other_va, at;
	pthread_t t;

	(void)state;
	need_uffd();
	thread_va = va = map(0, LEN);
	other_va = map(0, LEN);
	other = mr_of(other_va, LEN);
	m = mr_of(va, LEN);
	atomic_store(&thread_ended, false);
	assert_int_equal(track_begin(m, va, LEN, &at), LEN);
	assert_true(track_is_same(m));
	assert_int_equal(pthread_create(&t, NULL, unmap_it, NULL), 0);
	WAIT_FOR(!track_is_same(m));
	WAIT_FOR(atomic_load(&ses.mem.track->stop));
	assert_int_equal(track_begin(m, va, LEN, &at), 0);
	assert_int_equal(track_begin(other, other_va, PG, &at), 0);
	assert_false(atomic_load(&thread_ended));
	assert_int_equal(m->piece[0].at, va);
	track_end(m);
	pthread_join(t, NULL);
	expect(m, va, LEN, TRACK_GONE);
	expect(other, other_va, LEN, other_va);
	unmap(other_va, LEN);
	track_put(m);
	track_put(other);
}

/* No copy begins from before the change on, although nobody has seen its event. */
static void nobody_has_read_of_it(void **state)
{
	struct track f = { .uffd = uffd_new() };
	struct tracked m = { .f = &f, .num = 1 };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffd_msg msg;
	uint64_t at;
	pthread_t t;

	(void)state;
	need_uffd();
	thread_va = (uintptr_t)mmap(NULL, LEN, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.range.start = thread_va;
	reg.range.len = LEN;
	assert_int_equal(ioctl(f.uffd, UFFDIO_REGISTER, &reg), 0);
	m.piece[0] = (struct piece){ thread_va, LEN, thread_va };
	assert_int_equal(track_begin(&m, thread_va, LEN, &at), LEN);
	track_end(&m);
	assert_int_equal(pthread_create(&t, NULL, unmap_it, NULL), 0);
	WAIT_FOR(uffd_is_changing(f.uffd));
	assert_int_equal(track_begin(&m, thread_va, LEN, &at), 0);
	WAIT_FOR(uffd_next(f.uffd, &msg));
	pthread_join(t, NULL);
	assert_int_equal(atomic_load(&f.copies), 0);
	close(f.uffd);
}

static void no_mr_while_mappings_change(void **state)
{
	struct mr mr = { .length = LEN };
	struct tracked *m, *new;
	uint64_t va, at;
	pthread_t t;

	(void)state;
	need_uffd();
	thread_va = va = map(0, LEN);
	m = mr_of(va, LEN);
	assert_int_equal(track_begin(m, va, LEN, &at), LEN);
	assert_int_equal(pthread_create(&t, NULL, unmap_it, NULL), 0);
	WAIT_FOR(!track_is_same(m));
	mr.addr = va;
	assert_int_equal(track_new(&ses, &mr, &new), -EAGAIN);
	track_end(m);
	pthread_join(t, NULL);
	track_put(m);
}

static void closed_pages(void **state)
{
	struct tracked *m;
	uint64_t va, at;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	m = mr_of(va, LEN);
	assert_int_equal(track_begin(m, va, LEN, &at), LEN);
	assert_int_equal(close_part(va + 4 * PG, 4 * PG), -EAGAIN);
	assert_int_equal(track_begin(m, va, LEN, &at), 0); /* it has to end some time */
	track_end(m);
	assert_int_equal(close_part(va + 4 * PG, 4 * PG), 0);
	assert_int_equal(copied(m, va, LEN, &at), 4 * PG);
	assert_int_equal(track_begin(m, va + 4 * PG, 1, &at), 0);
	assert_int_equal(track_begin(m, va + 8 * PG - 1, PG, &at), 0);
	expect(m, va + 8 * PG, 8 * PG, va + 8 * PG);
	track_open(&ses);
	expect(m, va, LEN, va);
	assert_int_equal(track_begin(m, va, LEN, &at), LEN);
	assert_int_equal(close_part(va, PG), -EAGAIN);
	track_end(m);
	track_open(&ses); /* it is not asked for again */
	expect(m, va, LEN, va);
	track_put(m);
	unmap(va, LEN);
}

static void what_is_at_home(void **state)
{
	struct tracked *m;
	uint64_t va, to;

	(void)state;
	need_uffd();
	assert_true(track_is_home(NULL, PG, PG));
	va = map(0, LEN);
	to = room(LEN);
	m = mr_of(va + 100, LEN - 200);
	assert_true(track_is_home(m, va, LEN));
	move(va + 4 * PG, PG, PG, to);
	WAIT_FOR(track_is_settled(&ses));
	assert_false(track_is_home(m, va, LEN));
	assert_true(track_is_home(m, va, 4 * PG));
	assert_false(track_is_home(m, va, 4 * PG + 1));
	assert_false(track_is_home(m, va + 5 * PG - 1, PG));
	assert_true(track_is_home(m, va + 5 * PG, LEN - 5 * PG));
	/* it comes back while it is closed: who looked at what was there saw something else */
	map(va + 4 * PG, PG);
	WAIT_FOR(close_part(va + 4 * PG, 4 * PG) != -EAGAIN);
	assert_false(track_is_home(m, va + 4 * PG, 4 * PG));
	move(to, PG, PG, va + 4 * PG);
	WAIT_FOR(track_is_settled(&ses));
	assert_false(track_is_home(m, va + 4 * PG, 4 * PG));
	assert_true(track_is_home(m, va, 4 * PG));
	WAIT_FOR(close_part(va + 4 * PG, 4 * PG) != -EAGAIN);
	assert_true(track_is_home(m, va + 4 * PG, 4 * PG));
	map(va + 7 * PG, PG); /* it goes: the rest is not said to have stayed */
	WAIT_FOR(track_is_settled(&ses));
	assert_false(track_is_home(m, va + 4 * PG, PG));
	track_open(&ses);
	assert_true(track_is_home(m, va + 4 * PG, PG));
	assert_int_equal(close_part(va + 7 * PG, PG), -ENOENT); /* nothing there is the MR's */
	track_open(&ses);
	assert_int_equal(close_part(va + 6 * PG, 2 * PG), 0);
	track_open(&ses);
	track_put(m);
	unmap(va, LEN);
	unmap(to + PG, LEN - PG);
}

static void know(uint64_t va, uint64_t len)
{
	WAIT_FOR(track_pages(&ses, FF_TRACK_GET, va, len) != -EAGAIN);
	assert_int_equal(track_pages(&ses, FF_TRACK_ALL, va, len), 0);
}

/* What is registered is known until something happens to it. */
static void what_is_known(void **state)
{
	uint64_t va, to;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	to = room(LEN);
	assert_false(track_is_known(&ses, va, PG));
	assert_int_equal(track_pages(&ses, FF_TRACK_ALL, va, LEN), -ESTALE); /* not asked for */
	know(va, LEN);
	assert_true(track_is_known(&ses, va, LEN));
	assert_true(track_is_known(&ses, va + 7, 1));
	assert_false(track_is_known(&ses, va, LEN + 1));
	assert_false(track_is_known(&ses, va - 1, LEN));
	assert_int_equal(track_pages(&ses, FF_TRACK_ALL, va, LEN + PG), -ESTALE);
	map(va + 4 * PG, PG);
	WAIT_FOR(track_is_settled(&ses));
	assert_false(track_is_known(&ses, va, LEN));
	assert_true(track_is_known(&ses, va, 4 * PG));
	assert_true(track_is_known(&ses, va + 5 * PG, LEN - 5 * PG));
	assert_int_equal(track_pages(&ses, FF_TRACK_ALL, va, LEN), -ESTALE); /* changed since */
	know(va + 4 * PG, PG);
	assert_true(track_is_known(&ses, va, LEN)); /* next to each other */
	move(va + 8 * PG, PG, PG, to);
	WAIT_FOR(track_is_settled(&ses));
	assert_false(track_is_known(&ses, va + 8 * PG, 1));
	assert_false(track_is_known(&ses, to, 1));
	WAIT_FOR(close_part(va, 2 * PG) != -EAGAIN);
	assert_false(track_is_known(&ses, va + PG, PG));
	assert_true(track_is_known(&ses, va + 2 * PG, PG));
	track_open(&ses);
	unmap(va, LEN);
	unmap(to, LEN);
}

static uint32_t num_known(void)
{
	struct track *f = ses.mem.track;
	uint32_t n;

	pthread_mutex_lock(&f->lock);
	n = f->num_known;
	pthread_mutex_unlock(&f->lock);
	return n;
}

/* So much at most; what is forgotten is registered once more. */
static void much_is_known(void **state)
{
	const uint64_t num = 2 * KNOWN_MAX;
	uint64_t va;

	(void)state;
	need_uffd();
	va = map(0, 2 * num * PG);
	for (uint64_t i = 0; i < num; i++)
		know(va + 2 * i * PG, PG);
	assert_false(track_is_known(&ses, va, PG));
	assert_true(track_is_known(&ses, va + 2 * (num - 1) * PG, PG));
	assert_int_equal(num_known(), KNOWN_MAX);
	know(va, 2 * num * PG);
	assert_int_equal(num_known(), 1);
	for (uint64_t i = 0; i < 2 * num; i += 2)
		unmap(va + i * PG, PG);
	WAIT_FOR(track_is_settled(&ses));
	for (uint64_t i = 0; i < 2 * num; i += 2)
		assert_false(track_is_known(&ses, va + i * PG, 1));
	unmap(va, 2 * num * PG);
	WAIT_FOR(track_is_settled(&ses));
	assert_int_equal(num_known(), 0);
}

/* ---- false ones, and the end ------------------------------------------------------------------------- */

static void false_events(void **state)
{
	const uint64_t odd[] = { 0, 1, PG, UINT64_MAX - PG, UINT64_MAX };
	struct uffd_msg msg = { .event = UFFD_EVENT_UNMAP };
	struct tracked *m;
	uint64_t va, at;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	m = mr_of(va, LEN);
	ses.mem.track->events++;
	for (unsigned i = 0; i < 5; i++)
		for (unsigned k = 0; k < 5; k++) {
			msg.event = UFFD_EVENT_UNMAP;
			msg.arg.remove.start = odd[i];
			msg.arg.remove.end = odd[k] == UINT64_MAX ? PG : odd[k];
			on_change(ses.mem.track, &msg);
			msg.event = UFFD_EVENT_REMAP;
			msg.arg.remap.from = va + odd[i];
			msg.arg.remap.to = odd[k];
			msg.arg.remap.len = odd[i];
			on_change(ses.mem.track, &msg);
		}
	for (at = 0; at < LEN;) { /* it has all of its bytes, anywhere */
		uint64_t where, n = copied(m, va + at, LEN - at, &where);

		assert_in_range(n, 1, LEN - at);
		at += n;
	}
	msg.event = UFFD_EVENT_FORK;
	on_change(ses.mem.track, &msg);
	track_put(m);
	unmap(va, LEN);
}

static void what_is_no_userfaultfd(void **state)
{
	struct session other = { .cont = &cont };
	struct mr mr = { .addr = PG, .length = PG };
	struct tracked *m;
	int pair[2];

	(void)state;
	assert_int_equal(pipe2(pair, O_NONBLOCK), 0);
	assert_int_equal(track_start(&other, pair[0]), -EINVAL);
	assert_int_equal(track_start(&other, -1), -EINVAL);
	assert_int_equal(track_fd(&other), -1);
	assert_int_equal(track_new(&other, &mr, &m), -EINVAL);
	for (uint32_t op = 0; op < 5; op++)
		if (op != FF_TRACK_OPEN)
			assert_int_equal(track_pages(&other, op, PG, PG), -EINVAL);
	track_open(&other);
	track_stop(&other);
	close(pair[0]);
	close(pair[1]);
}

/* One that blocks can tell nothing. */
static void it_is_made_to_block(void **state)
{
	struct tracked *m;
	uint64_t va, at;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	m = mr_of(va, LEN);
	assert_int_equal(fcntl(track_fd(&ses), F_SETFL, 0), 0);
	assert_int_equal(eventfd_write(ses.mem.track->wake, 1), 0); /* it looks */
	WAIT_FOR(atomic_load(&ses.mem.track->stop));
	assert_int_equal(track_begin(m, va, LEN, &at), 0);
	track_stop(&ses);
	track_put(m);
	unmap(va, LEN);
}

static void the_session_ends(void **state)
{
	struct tracked *m;
	uint64_t va, at;

	(void)state;
	need_uffd();
	va = map(0, LEN);
	m = mr_of(va, LEN);
	track_stop(&ses);
	assert_int_equal(track_begin(m, va, LEN, &at), 0);
	unmap(va, LEN); /* nobody has to read of it */
	track_put(m);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

	return UNIT_RUN(T(it_is_where_it_was), T(what_is_unmapped_is_gone),
			T(something_else_takes_the_place), T(what_is_moved_is_at_its_new_address),
			T(it_grows_and_shrinks), T(one_takes_the_others_place),
			T(it_leaves_an_empty_mapping), T(too_many_pieces), T(a_copy_is_under_way),
			T(nobody_has_read_of_it), T(no_mr_while_mappings_change), T(closed_pages),
			T(what_is_at_home), T(what_is_known), T(much_is_known), T(false_events),
			T(what_is_no_userfaultfd), T(it_is_made_to_block), T(the_session_ends));
}
