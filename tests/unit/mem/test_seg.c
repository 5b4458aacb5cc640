/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_seg.c - ffr/mem/seg.c and ffr/mem/sigbus.c: segments, the rings' page allocator, lost memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/common/dir.h"
#include "tests/rig/unit/seal.h"
#include "tests/rig/unit/unit.h"
#include "ffr/mem/shadow.h"

static struct tenant tenant;
static struct container cont = { .of = &tenant };
static struct session ses;

static int setup(void **state)
{
	(void)state;
	memset(&ses, 0, sizeof(ses));
	ses.mem.node = -1;
	ses.cont = &cont;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	seg_free_all(&ses);
	return 0;
}

static uint64_t memory(void)
{
	return cont.quota.use.used[QUOTA_MEMORY];
}

static void segments_are_sealed(void **state)
{
	int id = seg_create(&ses, SEG_RINGS, 3 * FF_PAGE - 5);
	unsigned fds;
	struct seg *seg;
	uint8_t *client;

	(void)state;
	assert_int_equal(id, 0);
	seg = seg_get(&ses, 0);
	assert_int_equal(seg->size, 3 * FF_PAGE);
	assert_int_equal(seg->kind, SEG_RINGS);
	assert_int_equal(fcntl(seg->fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW),
			 F_SEAL_SHRINK | F_SEAL_GROW);
	assert_int_equal(ftruncate(seg->fd, 0), -1);
	assert_int_equal(ftruncate(seg->fd, 100 * FF_PAGE), -1);
	client = mmap(NULL, seg->size, PROT_READ | PROT_WRITE, MAP_SHARED, seg->fd, 0);
	assert_ptr_not_equal(client, MAP_FAILED);
	client[5] = 7;
	assert_int_equal(seg->map[5], 7);
	munmap(client, seg->size);
	assert_null(seg_get(&ses, 1));
	assert_null(seg_get(&ses, UINT32_MAX));
	assert_true(seg_create(&ses, SEG_RINGS, 0) < 0);
	assert_true(seg_create(&ses, SEG_RINGS, UINT64_MAX) < 0);
	/* more than there are addresses: nothing of it is left open */
	fds = dir_count("/proc/self/fd");
	assert_int_equal(seg_create(&ses, SEG_RINGS, 1ull << 60), -ENOMEM);
	assert_int_equal(dir_count("/proc/self/fd"), fds);
	assert_int_equal(ses.mem.num_segs, 1);
}

/* Pages of the file, whosever they are. */
static uint64_t pages_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512 / FF_PAGE;
}

static bool mem_gone(void)
{
	return ses.mem.gone;
}

/* Mapped as a region of shadow pages is (watch.c). */
static struct seg *guarded(uint64_t size)
{
	static struct seg seg;

	seg.fd = sealed_memfd("shadow", size);
	assert_true(seg.fd >= 0);
	seg.map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, seg.fd, 0);
	assert_ptr_not_equal(seg.map, MAP_FAILED);
	assert_int_equal(guard_map(seg.map, size), 0);
	seg.watch = sigbus_watch(seg.map, size, FF_PAGE, &ses);
	assert_true(seg.watch >= 0);
	return &seg;
}

/*
 * A client can punch holes. Those of rings and of device memory read as zero pages, which are the router's
 * as all of them were; of shadow memory the router makes no page, however it comes to touch it.
 */
static void holes(void **state)
{
	struct sigaction bus, segv;
	struct iovec iov[2];
	uint32_t id, off;
	struct seg *seg;
	int pair[2];

	(void)state;
	sigaction(SIGBUS, NULL, &bus);
	sigaction(SIGSEGV, NULL, &segv);
	assert_int_equal(sigbus_install(), 0);
	assert_int_equal(ring_alloc(&ses, FF_PAGE, &id, &off), 0);
	seg = seg_get(&ses, id);
	seg->map[5] = 7;
	fallocate(seg->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, FF_PAGE);
	assert_int_equal(seg->map[5], 0);
	assert_false(mem_gone());

	seg = guarded(64 << 20);
	assert_int_equal(pipe(pair), 0);
	assert_int_equal(write(pair[1], seg->map, 8), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(madvise(seg->map, 4 << 20, 23 /* MADV_POPULATE_WRITE */), -1);
	assert_false(mem_gone());
	assert_int_equal(pages_of(seg->fd), 0);

	iov[0] = (struct iovec){ seg_get(&ses, id)->map, FF_PAGE };
	iov[1] = (struct iovec){ seg->map, 8 };
	assert_false(sigbus_touch(iov, 1, 0));
	assert_false(mem_gone());
	assert_true(sigbus_touch(iov, 2, FF_PAGE));
	assert_true(mem_gone());
	assert_int_equal(sigbus_gone, 1);
	assert_int_equal(write(pair[1], seg->map, 8), 8);
	seg->map[FF_PAGE] = 1; /* and on it goes */
	seg->map[(64 << 20) - 1] = 1;
	assert_int_equal(pages_of(seg->fd), 0);
	sigbus_forget(&ses);
	assert_int_equal(sigbus_gone, 0);

	/* what the client has touched is there, until it punches a hole */
	assert_int_equal(fallocate(seg->fd, 0, 32 << 20, FF_PAGE), 0);
	assert_int_equal(seg->map[32 << 20], 0);
	assert_false(mem_gone());
	fallocate(seg->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 32 << 20, FF_PAGE);
	seg->map[32 << 20] = 1;
	assert_true(mem_gone());
	assert_int_equal(pages_of(seg->fd), 0);
	sigbus_forget(&ses);
	sigbus_unwatch(seg->watch);
	munmap(seg->map, 64 << 20);
	close(seg->fd);
	close(pair[0]);
	close(pair[1]);
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segv, NULL);
}

/* One that is refused by the last of its limits is charged to none. */
static void what_is_refused_is_not_charged(void **state)
{
	uint64_t pinned = cont.quota.use.used[QUOTA_PINNED], fds = cont.quota.use.used[QUOTA_FD];

	(void)state;
	cont.limits.max_rings = FF_PAGE;
	assert_true(seg_create(&ses, SEG_RINGS, 2 * (uint64_t)FF_PAGE) < 0);
	cont.limits.max_rings = 0;
	assert_int_equal(cont.quota.use.used[QUOTA_PINNED], pinned);
	assert_int_equal(cont.quota.use.used[QUOTA_FD], fds);
}

static void number_of_segments_is_bounded(void **state)
{
	int n = 0;

	(void)state;
	while (seg_create(&ses, SEG_RINGS, FF_PAGE) >= 0)
		assert_true(++n <= 256);
	assert_int_equal(ses.mem.num_segs, n);
}

static void rings_start_at_the_header(void **state)
{
	uint32_t seg = 9, off = 9;

	(void)state;
	assert_int_equal(ring_alloc(&ses, sizeof(struct ff_ses_hdr), &seg, &off), 0);
	assert_int_equal(seg, 0);
	assert_int_equal(off, 0);
	assert_int_equal(ring_alloc(&ses, 0, &seg, &off), -EINVAL);
}

static void rings_are_zeroed_disjoint_and_reused(void **state)
{
	enum { N = 200 };
	struct {
		uint32_t seg, off, size;
	} ring[N];
	unsigned seed = 3;

	(void)state;
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < N; i++) {
			uint8_t *p;

			ring[i].size = (uint32_t)rand_r(&seed) % (i % 20 ? 20000 : 3000000) + 1;
			assert_int_equal(ring_alloc(&ses, ring[i].size, &ring[i].seg, &ring[i].off),
					 0);
			assert_int_equal(ring[i].off % FF_PAGE, 0);
			p = seg_get(&ses, ring[i].seg)->map + ring[i].off;
			assert_true(ring[i].off + ring[i].size <= seg_get(&ses, ring[i].seg)->size);
			for (uint32_t k = 0; k < ring[i].size; k++)
				if (p[k])
					fail_msg("round %d, ring %d is not zeroed", round, i);
			memset(p, i + 1, ring[i].size);
		}
		for (int i = 0; i < N; i++) {
			uint8_t *p = seg_get(&ses, ring[i].seg)->map + ring[i].off;

			assert_int_equal(p[0], (uint8_t)(i + 1));
			assert_int_equal(p[ring[i].size - 1], (uint8_t)(i + 1));
		}
		for (int i = 0; i < N; i++)
			ring_free(&ses, ring[i * 7 % N].seg, ring[i * 7 % N].off,
				  ring[i * 7 % N].size);
	}
	assert_true(ses.mem.num_segs < 10);
}

/* Pages are charged to who touches them first, and the router touches none that its client left alone. */
static void rings_that_nobody_touched_have_no_pages(void **state)
{
	uint32_t seg, off, had;
	struct seg *g;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++) {
			assert_int_equal(ring_alloc(&ses, 512 << 10, &seg, &off), 0);
			assert_int_equal(seg, 0);
			assert_int_equal(pages_of(seg_get(&ses, 0)->fd), 0);
		}
		for (uint32_t i = 0; i < 3; i++)
			ring_free(&ses, 0, i * (512 << 10), 512 << 10);
	}

	/* A client uses one page between others that it does not use. */
	g = seg_get(&ses, 0);
	g->map[5 * FF_PAGE + 7] = 1;
	had = (uint32_t)pages_of(g->fd);
	assert_int_equal(had, 1);
	assert_int_equal(ring_alloc(&ses, 4 * FF_PAGE, &seg, &off), 0);
	assert_int_equal(off, 0);
	assert_int_equal(pages_of(g->fd), had);
	assert_int_equal(ring_alloc(&ses, 4 * FF_PAGE, &seg, &off), 0);
	assert_int_equal(off, 4 * FF_PAGE);
	assert_int_equal(pages_of(g->fd), had);
	assert_int_equal(g->map[5 * FF_PAGE + 7], 0);
}

/* A client that has sealed a segment can neither punch holes in it, nor map it anew, nor change its size. */
static void nobody_punches_what_is_sealed(void **state)
{
	uint32_t id, off;
	struct seg *seg;
	uint8_t *client;
	char path[32];
	int again;

	(void)state;
	assert_int_equal(ring_alloc(&ses, 2 * FF_PAGE, &id, &off), 0);
	seg = seg_get(&ses, id);
	client = mmap(NULL, seg->size, PROT_READ | PROT_WRITE, MAP_SHARED, seg->fd, 0);
	assert_ptr_not_equal(client, MAP_FAILED);
	client[0] = 1;
	client_seals(seg);
	assert_int_equal(seg_check(&ses, id), 0);
	assert_int_equal(seg_check(&ses, id), 0);
	assert_int_equal(fallocate(seg->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, FF_PAGE),
			 -1);
	assert_int_equal(madvise(client, FF_PAGE, MADV_REMOVE), -1);
	assert_ptr_equal(mmap(NULL, FF_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, seg->fd, 0),
			 MAP_FAILED);
	assert_int_equal(write(seg->fd, "x", 1), -1);
	assert_int_equal(ftruncate(seg->fd, 0), -1);
	assert_int_equal(fallocate(seg->fd, 0, (off_t)seg->size, FF_PAGE), -1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", seg->fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	assert_true(again >= 0); /* another open file: the seals are the inode's */
	assert_int_equal(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, FF_PAGE),
			 -1);
	close(again);
	client[1] = 2; /* what is mapped goes on */
	assert_int_equal(seg->map[0], 1);
	assert_int_equal(seg->map[1], 2);
	seg->map[FF_PAGE] = 3;
	assert_int_equal(client[FF_PAGE], 3);
	munmap(client, seg->size);

	assert_int_equal(seg_check(&ses, 9), 0); /* there is none */
}

/* While the client has a segment that it has not sealed, the router hands out nothing of it. */
static void what_is_not_sealed_is_not_touched(void **state)
{
	static const int others[2] = { F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_SEAL };
	uint32_t first, second, off, other;
	struct seg *seg;

	(void)state;
	assert_int_equal(ring_alloc(&ses, 4 * FF_PAGE, &first, &off), 0);
	seg = seg_get(&ses, first);
	seg->sent = true;
	seg->map[off] = 1;
	assert_int_equal(seg_check(&ses, first), -EACCES);
	/* F_SEAL_WRITE cannot be set: the router has the segment mapped */
	assert_int_equal(fcntl(seg->fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fcntl(seg->fd, F_ADD_SEALS, others[i]), 0);
		assert_int_equal(seg_check(&ses, first), -EACCES);
	}
	ring_free(&ses, first, off, 4 * FF_PAGE);
	assert_int_equal(ring_alloc(&ses, FF_PAGE, &second, &other), 0);
	assert_int_not_equal(second, first);
	assert_int_equal(seg_get(&ses, first)->map[off], 1);
	assert_int_equal(dm_pages_alloc(&ses, FF_PAGE, 1 << 20, &second, &other), 0);
	seg_get(&ses, second)->sent = true;
	assert_int_equal(dm_pages_alloc(&ses, FF_PAGE, 1 << 20, &second, &other), -ENOMEM);
	client_seals(seg_get(&ses, second));
	assert_int_equal(dm_pages_alloc(&ses, FF_PAGE, 1 << 20, &second, &other), 0);
}

/*
 * Pages of rings and of device memory are charged when they are handed out for the first time, until the segment goes:
 * they may stay in the file.
 */
static void what_was_handed_out_is_charged(void **state)
{
	uint32_t seg, off, dm, dm_off;
	struct seg *g;

	(void)state;
	assert_int_equal(memory(), 0);
	assert_int_equal(ring_alloc(&ses, 3 * FF_PAGE - 5, &seg, &off), 0);
	assert_int_equal(memory(), 3 * FF_PAGE);
	assert_int_equal(dm_pages_alloc(&ses, FF_PAGE + 1, 1 << 20, &dm, &dm_off), 0);
	assert_int_equal(memory(), 5 * FF_PAGE);
	assert_int_equal(dm_pages_alloc(&ses, 1 << 20, 1 << 20, &dm, &dm_off), -ENOMEM);
	assert_int_equal(memory(), 5 * FF_PAGE);
	g = seg_get(&ses, seg);
	memset(g->map + off, 1, 3 * FF_PAGE);
	for (int i = 0; i < 3; i++) {
		ring_free(&ses, seg, off, 3 * FF_PAGE - 5);
		assert_int_equal(memory(), (i ? 7 : 5) * FF_PAGE);
		assert_int_equal(ring_alloc(&ses, 5 * FF_PAGE, &seg, &off), 0);
		assert_int_equal(off, 0);
		assert_int_equal(memory(), 7 * FF_PAGE); /* two more, once */
		assert_int_equal(g->map[2 * FF_PAGE], 0);
		ring_free(&ses, seg, off, 5 * FF_PAGE);
		assert_int_equal(ring_alloc(&ses, 3 * FF_PAGE - 5, &seg, &off), 0);
	}
	ring_free(&ses, seg, off, 3 * FF_PAGE - 5);
	/* what is charged already needs no room */
	quota_memory_bound(memory() * 2);
	assert_int_equal(ring_alloc(&ses, 6 * FF_PAGE, &seg, &off), -ENOMEM);
	assert_int_equal(ring_alloc(&ses, 5 * FF_PAGE, &seg, &off), 0);
	quota_memory_bound(0);
	seg_free_all(&ses);
	assert_int_equal(memory(), 0);

	quota_memory_bound(8 << 20); /* and one may have half of it */
	assert_int_equal(ring_alloc(&ses, 5 << 20, &seg, &off), -ENOMEM);
	assert_int_equal(memory(), 0);
	assert_int_equal(ring_alloc(&ses, 3 << 20, &seg, &off), 0);
	seg_free_all(&ses); /* the end of a session */
	assert_int_equal(memory(), 0);
	quota_memory_bound(0);
}

static void large_rings_get_a_segment(void **state)
{
	uint32_t seg, off;

	(void)state;
	assert_int_equal(ring_alloc(&ses, FF_PAGE, &seg, &off), 0);
	assert_int_equal(ring_alloc(&ses, 100u << 20, &seg, &off), 0);
	assert_int_equal(seg, 1);
	assert_int_equal(off, 0);
	assert_int_equal(seg_get(&ses, 1)->size, 100u << 20);
}

/* ---- sigbus.c -------------------------------------------------------------------------------------- */

static void lost_memory_reads_zero_and_marks_the_session(void **state)
{
	struct sigaction bus, segv;
	int fd = memfd_create("lost", 0);
	volatile uint8_t *p, *ro;
	int watch[2];

	(void)state;
	sigaction(SIGBUS, NULL, &bus);
	sigaction(SIGSEGV, NULL, &segv);
	assert_int_equal(sigbus_install(), 0);
	assert_int_equal(ftruncate(fd, 4 * FF_PAGE), 0);
	p = mmap(NULL, 4 * FF_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ro = mmap(NULL, FF_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	watch[0] = sigbus_watch((void *)p, 4 * FF_PAGE, FF_PAGE, &ses);
	watch[1] = sigbus_watch((void *)ro, FF_PAGE, FF_PAGE, &ses);
	assert_true(watch[0] >= 0 && watch[1] >= 0);
	p[2 * FF_PAGE] = 1;
	assert_false(mem_gone());
	assert_int_equal(ftruncate(fd, FF_PAGE), 0);
	assert_int_equal(p[2 * FF_PAGE], 0);
	assert_true(mem_gone());
	p[3 * FF_PAGE] = 5; /* and on it goes */
	assert_int_equal(p[3 * FF_PAGE], 5);

	sigbus_forget(&ses);
	*ro = 1;
	assert_true(mem_gone());
	sigbus_forget(&ses);
	sigbus_unwatch(watch[0]);
	sigbus_unwatch(watch[1]);
	munmap((void *)p, 4 * FF_PAGE);
	munmap((void *)ro, FF_PAGE);
	close(fd);
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segv, NULL);
}

static void other_faults_are_fatal(void **state)
{
	int status, fd = memfd_create("other", 0);
	pid_t pid;

	(void)state;
	assert_int_equal(ftruncate(fd, FF_PAGE), 0);
	pid = fork();
	if (!pid) {
		volatile uint8_t *p = mmap(NULL, FF_PAGE, PROT_READ, MAP_SHARED, fd, 0);

		int watch;

		signal(SIGBUS, SIG_DFL); /* not the sanitizer's */
		watch = sigbus_watch((void *)p, FF_PAGE, FF_PAGE, &ses);
		if (sigbus_install() || watch < 0)
			_exit(1);
		sigbus_unwatch(watch);
		if (ftruncate(fd, 0))
			_exit(2);
		alarm(10);
		_exit(*p ? 3 : 4);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGBUS);
	close(fd);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

	return UNIT_RUN(T(segments_are_sealed), T(holes), T(what_is_refused_is_not_charged),
			T(number_of_segments_is_bounded), T(rings_start_at_the_header),
			T(rings_are_zeroed_disjoint_and_reused),
			T(rings_that_nobody_touched_have_no_pages),
			T(what_was_handed_out_is_charged), T(nobody_punches_what_is_sealed),
			T(what_is_not_sealed_is_not_touched), T(large_rings_get_a_segment),
			T(lost_memory_reads_zero_and_marks_the_session), T(other_faults_are_fatal));
}
