/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_heat.c - ffl/mem/heat.c: what events of the router lead to, true ones and others.
 *
 * threads: yes
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c
 */
#include "tests/rig/unit/region_rig.h"
#include "ffl/mem/window.h"
#include "ffl/mem/region.h"

#include <stdlib.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

static int setup(void **state)
{
	rg_setup(state);
	fake_shadow.has_heat = true;
	return 0;
}

static void tell(uint32_t mr, const void *va, uint64_t len)
{
	struct ff_heat_event e = { .mr = mr, .va = (uintptr_t)va, .len = len };

	assert_int_equal(send(fake_shadow.heat_fd, &e, sizeof(e), 0), sizeof(e));
}

/* With the region lock, so that no window is open, and the router was told. */
static bool is_shared(const char *p)
{
	bool is;

	ffl_regions_lock();
	is = rg_is_shared(p);
	ffl_regions_unlock();
	return is;
}

static uint64_t shadow_bytes(void)
{
	uint64_t n;

	ffl_regions_lock();
	n = fake_shadow_bytes(FF_RUN_SHADOW);
	ffl_regions_unlock();
	return n;
}

/* Events are served in order: when this one has been, those before it have. */
static void tell_and_wait(struct ibv_mr *mr, char *va, uint64_t len)
{
	tell(mr->handle, va, len);
	while (!is_shared(va))
		sched_yield();
}

/* What is large is replaced at once where the kernel does not tell of pins (UFFDIO_MOVE, Linux 6.8). */
static void need_pins(void)
{
	rg_need_uffd();
	if (!ffl_window_knows_pins()) {
		print_message("no UFFDIO_MOVE here\n");
		skip();
	}
}

static void parts_are_replaced(void **state)
{
	char *p = rg_map(4 * MB);
	struct ibv_mr *mr;

	(void)state;
	need_pins();
	mr = rg_filled(p, 4 * MB, 3);
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_int_equal(fake_shadow.why, FF_WHY_UNUSED);
	assert_false(is_shared(p));
	tell_and_wait(mr, p + 2 * MB, MB);
	assert_int_equal(fake_shadow.maps, 1);
	assert_int_equal(shadow_bytes(), MB);
	assert_false(is_shared(p + MB));
	assert_false(is_shared(p + 3 * MB));
	assert_int_equal(fake_shadow_at((uintptr_t)p + 2 * MB + 77)[0], p[2 * MB + 77]);
	fake_shadow_at((uintptr_t)p + 2 * MB + 77)[0] ^= 1; /* the same page */
	assert_int_equal(fake_shadow_at((uintptr_t)p + 2 * MB + 77)[0], p[2 * MB + 77]);
	p[2 * MB + 77] ^= 1;
	/* what is told twice is replaced once; then all of it, in one place */
	tell(mr->handle, p + 2 * MB, MB);
	tell_and_wait(mr, p, 4 * MB);
	tell_and_wait(mr, p + 3 * MB, MB);
	while (shadow_bytes() != 4 * MB)
		sched_yield();
	assert_int_equal((uint8_t *)fake_shadow_at((uintptr_t)p + 4 * MB - 1) -
				 fake_shadow_at((uintptr_t)p),
			 4 * MB - 1);
	rg_check(p, 4 * MB, 3);
	rg_gone(mr, p, 4 * MB, 3);
}

/* Of MRs that are not there, of addresses that are not theirs, cut off. */
static void events_of_nothing(void **state)
{
	char *p = rg_map(6 * MB), *q = p + 4 * MB; /* right behind p */
	struct ibv_mr *mr, *gone;
	uint32_t handle;

	(void)state;
	need_pins();
	rg_fill(p, 4 * MB, 5);
	memset(q, 6, 2 * MB);
	gone = rg_reg(q, 2 * MB);
	mr = rg_reg(p, 4 * MB);
	handle = gone->handle;
	rg_dereg(gone);
	tell(handle, q, MB);
	tell(mr->handle + 1000, p, MB);
	tell(mr->handle, q, 2 * MB);
	tell(mr->handle, NULL, UINT64_MAX);
	tell(mr->handle, p - MB, MB);
	tell(mr->handle, p + 4 * MB, MB);
	tell(mr->handle, p, 0);
	tell(mr->handle, (void *)UINTPTR_MAX, 2);
	tell(mr->handle, p, MB);
	tell_and_wait(mr, p + 3 * MB, 100 * MB);
	assert_true(is_shared(p));
	assert_true(is_shared(p + MB)); /* "all that there is" is all of the MR */
	assert_false(is_shared(q));
	rg_check(p, 4 * MB, 5);
	rg_gone(mr, p, 4 * MB, 5);
	munmap(q, 2 * MB);
}

/* A session's MR is not named by another session's event. */
static void an_event_of_another_session(void **state)
{
	struct ffl_context *other = fake_shadow_open(true);
	struct ibv_pd *pd = fake_shadow_pd(other);
	char *p = rg_map(2 * MB), *q = rg_map(2 * MB);
	struct ibv_mr *mr, *theirs;
	int fd;

	(void)state;
	need_pins();
	mr = rg_filled(p, 2 * MB, 5);
	fd = fake_shadow.heat_fd;
	theirs = ibv_reg_mr(pd, q, 2 * MB, ACCESS);
	assert_non_null(theirs);
	fake_shadow.heat_fd = fd;
	tell(theirs->handle, q, MB);
	tell_and_wait(mr, p, MB);
	assert_false(is_shared(q));
	rg_dereg(theirs);
	munmap(q, 2 * MB);
	free(pd);
	fake_shadow_close(other);
	rg_gone(mr, p, 2 * MB, 5);
}

/* A router that does not take the runs: it goes on copying, from the pages that are there. */
static void refused(void **state)
{
	char *p = rg_map(2 * MB);
	struct ibv_mr *mr;

	(void)state;
	need_pins();
	mr = rg_filled(p, 2 * MB, 9);
	fake_shadow.fail[FF_MSG_MAP_MR] = -ENOSPC;
	tell_and_wait(mr, p, MB);
	assert_int_equal(fake_shadow.num_runs, 0);
	rg_check(p, 2 * MB, 9);
	fake_shadow.fail[FF_MSG_MAP_MR] = 0;
	rg_gone(mr, p, 2 * MB, 9);
}

/* No shadow memory for all of it: nothing is replaced, and the router goes on copying. */
static void little_shadow_memory(void **state)
{
	char *p = rg_map(16 * MB), *q = rg_map(2 * MB);
	struct ibv_mr *mr, *small;

	(void)state;
	need_pins();
	fake_shadow.max_shadow = 8 * MB;
	mr = rg_filled(p, 16 * MB, 4);
	small = rg_filled(q, 2 * MB, 5);
	for (size_t i = 0; i < 16; i++)
		tell(mr->handle, p + i * MB, MB);
	/* there is room for the other one, whose events are served after those */
	tell_and_wait(small, q + MB, MB);
	for (size_t i = 0; i < 16; i++)
		assert_false(is_shared(p + i * MB));
	rg_check(p, 16 * MB, 4);
	rg_gone(mr, p, 16 * MB, 4);
	rg_gone(small, q, 2 * MB, 5);
}

static void small_memory_and_atomics_are_replaced_at_once(void **state)
{
	char *p = rg_map(2 * MB);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_reg(p, MB - PG);
	assert_int_equal(shadow_bytes(), MB - PG);
	rg_dereg(mr);
	mr = ibv_reg_mr(rg_pd, p, 2 * MB, ACCESS | IBV_ACCESS_REMOTE_ATOMIC);
	assert_non_null(mr);
	assert_int_equal(shadow_bytes(), 2 * MB);
	rg_dereg(mr);
	munmap(p, 2 * MB);
}

/* What the kernel has by its number, as for reads from a disk, is not replaced, and the router is told; afterwards it is. */
static void pinned_pages_wait(void **state)
{
	struct io_uring_params par = { 0 };
	char *p = rg_map(2 * MB);
	struct iovec iov = { p + 7 * PG, PG };
	struct ibv_mr *mr;
	int ring;

	(void)state;
	need_pins();
	mr = rg_filled(p, 2 * MB, 9);
	ring = (int)syscall(SYS_io_uring_setup, 4, &par);
	if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &iov, 1)) {
		print_message("no io_uring here\n");
		rg_dereg(mr);
		skip();
	}
	tell(mr->handle, p, MB);
	while (!fake_shadow.dones)
		sched_yield();
	assert_int_equal(fake_shadow.busy, 1);
	assert_int_equal(fake_shadow.why, FF_WHY_PINNED);
	assert_false(is_shared(p));
	assert_int_equal(shadow_bytes(), 0);
	syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0);
	close(ring);
	tell_and_wait(mr, p, MB);
	assert_int_equal(shadow_bytes(), MB);
	rg_check(p, 2 * MB, 9);
	rg_gone(mr, p, 2 * MB, 9);
}

/* Each event is answered when it was served, whatever it was about. */
static void events_are_answered(void **state)
{
	char *p = rg_map(2 * MB);
	struct ibv_mr *mr;

	(void)state;
	need_pins();
	mr = rg_filled(p, 2 * MB, 6);
	assert_int_equal(fake_shadow.dones, 0);
	tell(mr->handle + 1000, p, MB);
	while (fake_shadow.dones != 1)
		sched_yield();
	tell(mr->handle, p, MB);
	while (fake_shadow.dones != 2)
		sched_yield();
	assert_true(is_shared(p));
	assert_int_equal(fake_shadow.busy, 0);
	rg_gone(mr, p, 2 * MB, 6);
}

/*
 * The signal mask of the library's thread: signal n is bit n - 1. 0 if there is no such thread. It is the newest one of
 * that name, which the fake's threads have, too, that it started.
 */
static uint64_t blocked_by_thread(void)
{
	unsigned long long blocked = 0;
	char path[64], line[128];
	bool is_ours = false;
	struct dirent *e;
	DIR *d = opendir("/proc/self/task");
	FILE *f;

	assert_non_null(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", e->d_name);
		f = fopen(path, "re");
		is_ours = false;
		while (f && fgets(line, sizeof(line), f)) {
			is_ours |= !strcmp(line, "Name:\tffl-heat\n");
			if (is_ours && sscanf(line, "SigBlk: %llx", &blocked) == 1)
				break;
		}
		if (f)
			fclose(f);
	}
	closedir(d);
	return blocked;
}

/* The program's signals are for its own threads. */
static void signals_are_blocked(void **state)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGALRM, SIGUSR1, SIGCHLD, SIGPROF };
	char *p = rg_map(2 * MB), *q = rg_map(PG);
	struct ibv_mr *mr, *small;

	(void)state;
	need_pins();
	small = rg_reg(
		q, PG); /* the fake's thread, which gets its name from who starts it, is there */
	mr = rg_filled(p, 2 * MB, 7);
	tell_and_wait(mr, p, MB);
	usleep(50000); /* until the thread has left the lock, which blocks signals, too */
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		assert_true(blocked_by_thread() & 1ull << (signals[i] - 1));
	rg_dereg(small);
	munmap(q, PG);
	rg_gone(mr, p, 2 * MB, 7);
}

/* ---- what the program does to such memory ------------------------------------------------ */

static uint64_t where(struct ibv_mr *mr, const char *va)
{
	uint64_t at;

	WAIT_FOR((at = fake_shadow_where(mr, (uintptr_t)va)) != UINT64_MAX);
	return at;
}

/* A page of it can be registered with a userfaultfd of the program's own. */
static bool is_free(void *p)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .range = { (uintptr_t)p, PG },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = ioctl(rg_ctx->uffd_dev, _IO(0xAA, 0x00), O_CLOEXEC | O_NONBLOCK);
	bool is;

	assert_true(fd >= 0 && !ioctl(fd, UFFDIO_API, &api));
	is = !ioctl(fd, UFFDIO_REGISTER, &reg);
	assert_true(is || errno == EBUSY);
	close(fd);
	return is;
}

/* The same, after some registering, which unregisters what was left. */
static bool is_freed(char *p)
{
	static char *other;

	if (!other)
		other = rg_map(MB);
	rg_dereg(rg_reg(other, MB));
	return is_free(p);
}

static void an_mr_is_tracked(void **state)
{
	char *p = rg_map(4 * MB), *to;
	struct ibv_mr *mr;

	(void)state;
	need_pins();
	mr = rg_filled(p, 4 * MB, 3);
	assert_false(is_free(p));
	assert_int_equal(where(mr, p + MB), (uintptr_t)p + MB);
	assert_int_equal(munmap(p + 3 * MB, MB), 0);
	assert_int_equal(where(mr, p + 3 * MB), 0);
	to = mremap(p, 3 * MB, 3 * MB, MREMAP_MAYMOVE | MREMAP_FIXED, rg_map(3 * MB));
	assert_true(to != MAP_FAILED);
	assert_int_equal(where(mr, p + MB), (uintptr_t)to + MB);
	rg_dereg(mr);
	munmap(to, 3 * MB);
}

/* Some time later what no MR has is not tracked any more. */
static void a_tracked_mr_that_ends(void **state)
{
	char *p = rg_map(6 * MB);
	struct ibv_mr *a, *b, *c;

	(void)state;
	need_pins();
	a = rg_reg(p, 6 * MB);
	b = rg_reg(p + MB, MB);
	c = rg_reg(p + 3 * MB, 2 * MB);
	rg_dereg(a);
	assert_false(is_free(p));
	WAIT_FOR(is_freed(p));
	assert_false(is_free(p + MB));
	assert_false(is_free(p + 2 * MB - PG));
	assert_true(is_free(p + 2 * MB));
	assert_false(is_free(p + 3 * MB));
	assert_true(is_free(p + 5 * MB));
	rg_dereg(c);
	WAIT_FOR(is_freed(p + 3 * MB));
	/* another range, of which nothing is tracked where the old one was */
	assert_int_equal(ibv_rereg_mr(b, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p + 4 * MB, MB, 0),
			 0);
	assert_false(is_free(p + 4 * MB));
	assert_int_equal(where(b, p + 4 * MB), (uintptr_t)p + 4 * MB);
	WAIT_FOR(is_freed(p + MB));
	rg_dereg(b);
	WAIT_FOR(is_freed(p + 4 * MB));
	munmap(p, 6 * MB);
}

/* The same memory again takes no descriptor, unless it has changed. */
static void it_is_registered_again(void **state)
{
	char *p = rg_map(4 * MB);
	struct ibv_mr *mr;
	uint32_t num;

	(void)state;
	need_pins();
	rg_dereg(rg_reg(p, 4 * MB));
	num = fake_shadow.uffds;
	for (unsigned i = 0; i < 100; i++) {
		mr = rg_reg(p + i % 2 * MB, 2 * MB);
		assert_int_equal(where(mr, p + MB), (uintptr_t)p + MB);
		rg_dereg(mr);
	}
	assert_int_equal(fake_shadow.uffds, num);
	/* something else is there */
	assert_ptr_equal(mmap(p + MB, PG, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p + MB);
	mr = rg_reg(p, 4 * MB);
	assert_int_equal(fake_shadow.uffds, num + 1);
	assert_false(is_free(p + MB));
	assert_int_equal(munmap(p + MB, PG), 0);
	assert_int_equal(where(mr, p + MB), 0);
	assert_int_equal(where(mr, p + MB + PG), (uintptr_t)p + MB + PG);
	rg_dereg(mr);
	munmap(p, 4 * MB);
}

/* Memory that is tracked still, or was moved while it was, can be replaced. */
static void it_is_replaced_after_its_end(void **state)
{
	const int access = ACCESS | IBV_ACCESS_REMOTE_ATOMIC;
	char *p = rg_map(2 * MB), *to = rg_map(2 * MB);
	struct ibv_mr *mr;

	(void)state;
	need_pins();
	rg_fill(p, 2 * MB, 3);
	rg_dereg(rg_reg(p, 2 * MB));
	mr = ibv_reg_mr(rg_pd, p, MB, access);
	assert_non_null(mr);
	assert_int_equal(shadow_bytes(), MB);
	rg_dereg(mr);
	rg_check(p, 2 * MB, 3);
	munmap(p, 2 * MB);

	p = rg_map(2 * MB);
	rg_fill(p, 2 * MB, 4);
	mr = rg_reg(p, 2 * MB);
	assert_ptr_equal(mremap(p, 2 * MB, 2 * MB, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	rg_dereg(mr);
	mr = ibv_reg_mr(rg_pd, to, 2 * MB, access);
	assert_non_null(mr);
	assert_int_equal(shadow_bytes(), 2 * MB);
	rg_gone(mr, to, 2 * MB, 4);
}

/* More of it than is remembered: it is ordinary memory at once. */
static void many_that_end(void **state)
{
	char *p = rg_map(100 * MB);

	(void)state;
	need_pins();
	for (unsigned i = 0; i < 100; i++)
		rg_dereg(rg_reg(p + i * MB, MB));
	assert_true(is_free(p));
	assert_true(is_free(p + 20 * MB));
	WAIT_FOR(is_freed(p + 99 * MB));
	munmap(p, 100 * MB);
}

static struct {
	pthread_t thread;
	_Atomic bool locked, let_go;
} holder;

static void *hold_lock(void *arg)
{
	ffl_regions_lock();
	atomic_store(&holder.locked, true);
	while (!atomic_load(&holder.let_go))
		sched_yield();
	ffl_regions_unlock();
	return arg;
}

/* From then on another thread has the region lock. */
static void lock_elsewhere(void)
{
	fake_shadow.on_dereg = NULL;
	assert_int_equal(pthread_create(&holder.thread, NULL, hold_lock, NULL), 0);
	while (!atomic_load(&holder.locked))
		sched_yield();
}

/* When the router has ended the MR, ibv_dereg_mr() waits for no window: its pages are left to the next thread. */
static void the_end_waits_for_nobody(void **state)
{
	char *p = rg_map(100 * MB);
	struct ibv_mr *mr = NULL;

	(void)state;
	need_pins();
	mr = rg_reg(p, MB);
	fake_shadow.on_dereg = lock_elsewhere;
	rg_dereg(mr);
	assert_true(atomic_load(&holder.locked));
	assert_false(is_free(p));
	atomic_store(&holder.let_go, true);
	pthread_join(holder.thread, NULL);
	for (unsigned i = 1; i < 100; i++)
		rg_dereg(rg_reg(p + i * MB, MB));
	assert_true(is_free(p));
	munmap(p, 100 * MB);
}

/* What is replaced is not tracked; the rest is. */
static void a_tracked_mr_is_replaced(void **state)
{
	char *p = rg_map(4 * MB);
	struct ibv_mr *mr;

	(void)state;
	need_pins();
	mr = rg_filled(p, 4 * MB, 3);
	tell_and_wait(mr, p + MB, MB);
	assert_false(is_free(p));
	assert_int_equal(where(mr, p), (uintptr_t)p);
	assert_int_equal(munmap(p + 2 * MB, MB), 0);
	assert_int_equal(where(mr, p + 2 * MB), 0);
	assert_int_equal(where(mr, p + 3 * MB), (uintptr_t)p + 3 * MB);
	assert_int_equal(fake_shadow_mr_at(mr, (uintptr_t)p + MB)[5], (uint8_t)p[MB + 5]);
	tell_and_wait(mr, p + 3 * MB, MB);
	tell_and_wait(mr, p, MB);
	rg_dereg(mr);
	munmap(p, 4 * MB);
}

/* Of an overlapping MR that is replaced at once, the lazy one gets the pages, too. */
static void two_mrs_have_them(void **state)
{
	char *p = rg_map(4 * MB);
	struct ibv_mr *lazy, *small, *other;

	(void)state;
	need_pins();
	rg_fill(p, 4 * MB, 7);
	lazy = rg_reg(p, 4 * MB);
	other = rg_reg(p + MB, 3 * MB);
	small = rg_reg(p + 2 * MB, 16 * PG);
	assert_true(is_shared(p + 2 * MB));
	assert_int_equal(shadow_bytes(), 16 * PG);
	assert_ptr_equal(fake_shadow_mr_at(lazy, (uintptr_t)p + 2 * MB),
			 fake_shadow_mr_at(small, (uintptr_t)p + 2 * MB));
	assert_ptr_equal(fake_shadow_mr_at(other, (uintptr_t)p + 2 * MB),
			 fake_shadow_mr_at(small, (uintptr_t)p + 2 * MB));
	assert_int_equal(where(lazy, p + 2 * MB - 1), (uintptr_t)p + 2 * MB - 1);
	assert_false(is_free(p + 2 * MB + 16 * PG));
	tell_and_wait(other, p + 3 * MB, MB);
	assert_ptr_equal(fake_shadow_mr_at(lazy, (uintptr_t)p + 3 * MB),
			 fake_shadow_mr_at(other, (uintptr_t)p + 3 * MB));
	rg_check(p, 4 * MB, 7);
	rg_dereg(small);
	rg_dereg(other);
	rg_gone(lazy, p, 4 * MB, 7);
}

/* Pages that cannot be replaced are tracked again. */
static void what_is_not_replaced_is_tracked(void **state)
{
	char *p = rg_map(2 * MB);
	struct ibv_mr *mr, *end;
	char *q = rg_map(2 * MB);

	(void)state;
	need_pins();
	mr = rg_filled(p, 2 * MB, 3);
	end = rg_filled(q, 2 * MB, 3);
	assert_int_equal(madvise(p, 2 * MB, MADV_DONTFORK), 0);
	tell(mr->handle, p, MB);
	tell_and_wait(end, q, MB);
	assert_false(is_shared(p));
	assert_int_equal(where(mr, p), (uintptr_t)p);
	assert_int_equal(munmap(p, PG), 0);
	assert_int_equal(where(mr, p), 0);
	rg_dereg(mr);
	rg_gone(end, q, 2 * MB, 3);
	munmap(p, 2 * MB);
}

/* Another userfaultfd's memory is left alone: the MR is, and ends, as it is. */
static void somebody_else_watches(void **state)
{
	struct uffdio_api api = { .api = UFFD_API };
	char *p = rg_map(2 * MB);
	struct uffdio_register reg = { .range = { (uintptr_t)p, 2 * MB },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct ibv_mr *mr;
	int fd;

	(void)state;
	need_pins();
	rg_fill(p, 2 * MB, 3);
	fd = ioctl(rg_ctx->uffd_dev, _IO(0xAA, 0x00), O_CLOEXEC | O_NONBLOCK);
	assert_true(fd >= 0 && !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &reg));
	mr = rg_reg(p, 2 * MB);
	assert_int_equal(where(mr, p), (uintptr_t)p);
	rg_dereg(mr);
	usleep(3000000); /* until it would be unregistered */
	assert_false(is_free(p));
	close(fd);
	assert_true(is_free(p));
	munmap(p, 2 * MB);
}

/* A router that does not track: all is replaced at once. */
static void it_cannot_be_tracked(void **state)
{
	char *p = rg_map(2 * MB);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	fake_shadow.fail[FF_MSG_TRACK] = -EOPNOTSUPP;
	mr = rg_filled(p, 2 * MB, 3);
	fake_shadow.fail[FF_MSG_TRACK] = 0;
	assert_int_equal(shadow_bytes(), 2 * MB);
	rg_gone(mr, p, 2 * MB, 3);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, rg_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(parts_are_replaced),
		T(events_of_nothing),
		T(an_event_of_another_session),
		T(refused),
		T(little_shadow_memory),
		T(pinned_pages_wait),
		T(events_are_answered),
		T(signals_are_blocked),
		T(small_memory_and_atomics_are_replaced_at_once),
		T(an_mr_is_tracked),
		T(a_tracked_mr_that_ends),
		T(it_is_registered_again),
		T(it_is_replaced_after_its_end),
		T(many_that_end),
		T(the_end_waits_for_nobody),
		T(a_tracked_mr_is_replaced),
		T(two_mrs_have_them),
		T(what_is_not_replaced_is_tracked),
		T(somebody_else_watches),
		T(it_cannot_be_tracked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
