/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_shadow.c - ffr/mem/shadow.c: hostile claims, shared mappings of another process, translation.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/keeper_add.h"
#include "tests/rig/unit/unit.h"
#include "ffr/keeper/opener.h"
#include "ffr/abi/ff_vma.h"
#include "ffr/mem/watch.h"

#define PG     ((uint64_t)FF_PAGE)
#define RW     (PROT_READ | PROT_WRITE)
#define WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define READS  IBV_ACCESS_REMOTE_READ
#define VA                                                                                         \
	0x7f0000010000ull /* of claims that no process needs to have; a page of any size begins there */

/*
 * The application swaps a file that it may write to and one that it may not: to the latter at one
 * moment of the keeper's looking, and back at another. The moments are before and after each open().
 */
static uint8_t *swapped;
static int swap_fd[2];
static int swap_moment, swap_there, swap_back;

static void on_moment(void)
{
	if (swap_moment == swap_there)
		mmap(swapped, PG, PROT_READ, MAP_SHARED | MAP_FIXED, swap_fd[1], 0);
	if (swap_moment == swap_back)
		mmap(swapped, PG, RW, MAP_SHARED | MAP_FIXED, swap_fd[0], 0);
	swap_moment++;
}

static int hooked_open(const char *path, int flags)
{
	int fd;

	if (!swapped)
		return open(path, flags);
	on_moment();
	fd = open(path, flags);
	on_moment();
	return fd;
}

static int hooked_shm(int handle, bool writes)
{
	int fd;

	if (!swapped)
		return opener_shm(handle, writes);
	on_moment();
	fd = opener_shm(handle, writes);
	on_moment();
	return fd;
}

#include "ffr/mem/shadow.c"
#define open	   hooked_open
#define opener_shm hooked_shm
#include "ffr/keeper/map_file.c"
#undef opener_shm
#undef open

static struct tenant tenant;
static struct container cont = { .of = &tenant };
static struct session ses;
static pid_t child; /* has what the test has mapped when it calls child_start() */

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static unsigned fds_before;

static int setup(void **state)
{
	(void)state;
	fds_before = open_fds();
	memset(&ses, 0, sizeof(ses));
	ses.mem.node = -1;
	ses.cont = &cont;
	ses.mem.maps_fd = -1;
	return 0;
}

static void child_stop(void)
{
	if (!child)
		return;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	child = 0;
}

static int teardown(void **state)
{
	(void)state;
	child_stop();
	seg_free_all(&ses);
	if (ses.mem.maps_fd >= 0) {
		close(ses.mem.maps_fd);
		keeper_client_del(ses.mem.keeper_id);
		look_settle();
		clients_settle();
		if (open_fds() != fds_before) {
			print_message("descriptors are left open\n");
			return -1;
		}
	}
	return ses.mem.num_foreign ? -1 : 0;
}

/* What the application hands over in HELLO. */
static void says_hello(pid_t pid)
{
	struct ctl_peer peer = { .pid = pid };
	struct keeper_added added;
	char path[32];
	int mem;

	ses.pid = pid;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	mem = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	ses.mem.maps_fd = open(path, O_RDONLY | O_CLOEXEC);
	peer.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	assert_int_equal(keeper_add(&peer, (const int[]){ mem, ses.mem.maps_fd }, NULL,
				    &ses.mem.keeper_id, &added),
			 0);
	close(mem);
	close(peer.pidfd);
}

/* The application: a copy of this process, which does nothing. */
static void child_start(void)
{
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		alarm(60);
		for (;;)
			pause();
	}
	says_hello(child);
}

static void need_map_files(void)
{
	char path[64];
	struct ff_vma v = { 0 };
	int fd, err;

	err = ff_vma_ask(ses.mem.maps_fd, (uintptr_t)need_map_files, &v);
	if (err == -ENOTTY) {
		print_message("no PROCMAP_QUERY here\n");
		skip();
	}
	if (err)
		fail_msg("cannot look into a child");
	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", ses.pid, v.start, v.end);
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0) {
		print_message("no right to open /proc/PID/map_files here\n");
		skip();
	}
	close(fd);
}

static struct mr mr_of(uint64_t addr, uint64_t length, uint32_t access)
{
	return (struct mr){ .o.ses = &ses, .addr = addr, .length = length, .access = access };
}

static struct ff_mr_run shadow_run(uint64_t va, uint64_t len, uint64_t off)
{
	return (struct ff_mr_run){ va, len, off, 0, FF_RUN_SHADOW };
}

static struct ff_mr_run shared_run(const void *va, uint64_t len)
{
	return (struct ff_mr_run){ (uintptr_t)va, len, 0, 0, FF_RUN_SHARED };
}

/* As REG_MR does it: the keeper's part, and then shadow_map(). */
static int map_mr(struct mr *mr, const struct ff_mr_run *claim, uint32_t n)
{
	struct keeper_range range[2];
	uint32_t num = 0;
	int sock, err;

	for (uint32_t i = 0; i < n; i++)
		if (claim[i].kind == FF_RUN_SHARED)
			range[num++] =
				(struct keeper_range){ claim[i].va, claim[i].va + claim[i].len };
	if (!num || ses.mem.maps_fd < 0)
		return shadow_map(mr, claim, n, NULL);
	sock = keeper_look(ses.mem.keeper_id, range, num, mr->access & WRITES);
	assert_true(sock >= 0);
	err = shadow_map(mr, claim, n, &sock);
	close(sock);
	return err;
}

static struct ff_vma own_vma(const void *p)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct ff_vma v = { 0 };

	assert_int_equal(ff_vma_query(maps, (uintptr_t)p, &v), 0);
	close(maps);
	return v;
}

static bool is_mapped(const void *p)
{
	return own_vma(p).start <= (uintptr_t)p;
}

/* ---- shadow pages --------------------------------------------------------------------------------- */

static int pages_file = -1;

/* A region of shadow pages, of a session that watches nobody's: where it is in pages_file. */
static uint64_t region(uint64_t span)
{
	struct ff_place_pages_req req = { .len = span, .span = span };
	struct uffdio_api api = { .api = UFFD_API };
	uint64_t off;
	int uffd, mem;

	if (!ses.mem.pages) {
		uffd = (int)syscall(SYS_userfaultfd,
				    O_CLOEXEC | O_NONBLOCK | 1 /* USER_MODE_ONLY */);
		mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
		if (pages_file >= 0)
			close(pages_file);
		pages_file = sealed_memfd("test", REGIONS_MAX * FF_PAGES_STRIDE);
		ses.mem.maps_fd = mem; /* it is of no use to the thread, which hears nothing */
		assert_int_equal(ioctl(uffd, UFFDIO_API, &api), 0);
		assert_int_equal(quota_charge(&cont, QUOTA_FD, PAGES_FDS), 0);
		assert_int_equal(pages_watch(&ses, uffd, mem, mem, pages_file), 0);
		ses.mem.maps_fd = -1;
		close(mem);
		close(uffd);
	}
	assert_int_equal(pages_place(&ses, &req, UINT64_MAX, &off, &uffd), 0);
	return off;
}

/* The same, and the application has touched all of it. */
static uint64_t touched(uint64_t span)
{
	uint64_t off = region(span);

	assert_int_equal(fallocate(pages_file, 0, (off_t)off, (off_t)span), 0);
	return off;
}

/* Where the router has byte `off` of the file. */
static uint8_t *host_at(uint64_t off)
{
	struct region *r;
	uint8_t *host;

	r = pages_get(&ses, off, 1, &host);
	assert_non_null(r);
	pages_put(&ses, r);
	return host;
}

static void own_pages_are_reached(void **state)
{
	struct mr mr = mr_of(VA + 100, 5 * PG, WRITES);
	const uint64_t one = touched(8 * PG), two = touched(2 * PG);
	struct ff_mr_run claim[] = { shadow_run(VA + PG, 2 * PG, one + 3 * PG),
				     shadow_run(VA + 4 * PG, 2 * PG, two) };
	uint8_t *host;

	(void)state;
	assert_int_equal(map_mr(&mr, claim, 2), 0);
	assert_int_equal(mr.num_runs, 2);
	assert_int_equal(mr.zero_copy, 3 * PG + 100); /* not what lies behind the MR's end */
	assert_int_equal(shadow_translate(&mr, VA + 100, 5 * PG, &host), PG - 100);
	assert_null(host);
	assert_int_equal(shadow_translate(&mr, VA + 100, 8, &host), 8);
	assert_null(host);
	assert_int_equal(shadow_translate(&mr, VA + PG, 5 * PG, &host), 2 * PG);
	assert_ptr_equal(host, host_at(one + 3 * PG));
	assert_int_equal(shadow_translate(&mr, VA + 3 * PG - 1, 9, &host), 1);
	assert_ptr_equal(host, host_at(one + 5 * PG - 1));
	assert_int_equal(shadow_translate(&mr, VA + 3 * PG, 2 * PG, &host), PG);
	assert_null(host);
	assert_int_equal(shadow_translate(&mr, VA + 5 * PG, 10, &host), 10);
	assert_ptr_equal(host, host_at(two + PG));
	shadow_unmap(&mr);
	assert_int_equal(mr.num_runs, 0);
	assert_null(mr.run);
	assert_int_equal(shadow_translate(&mr, VA + PG, 77, &host), 77);
	assert_null(host);
}

static void bytes_behind_the_last_run(void **state)
{
	struct mr mr = mr_of(VA, 4 * PG, WRITES);
	struct ff_mr_run claim = shadow_run(VA + PG, PG, touched(PG));
	uint8_t *host;

	(void)state;
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(shadow_translate(&mr, VA + 2 * PG, 2 * PG, &host), 2 * PG);
	assert_null(host);
	shadow_unmap(&mr);
}

static void hostile_claims_are_refused(void **state)
{
	const struct {
		struct ff_mr_run run[2];
		uint32_t n;
	} bad[] = {
		{ { { VA, 0, 0, 0, FF_RUN_SHADOW } }, 1 },	/* empty */
		{ { { VA + 1, PG, 0, 0, FF_RUN_SHADOW } }, 1 }, /* not aligned */
		{ { { VA, PG + 1, 0, 0, FF_RUN_SHADOW } }, 1 },
		{ { { VA, PG, 8, 0, FF_RUN_SHADOW } }, 1 },
		{ { { VA - PG, PG, 0, 0, FF_RUN_SHADOW } }, 1 }, /* outside the MR */
		{ { { VA + 4 * PG, PG, 0, 0, FF_RUN_SHADOW } }, 1 },
		{ { { VA, 5 * PG, 0, 0, FF_RUN_SHADOW } }, 1 },
		{ { { VA, -PG, 0, 0, FF_RUN_SHADOW } }, 1 }, /* wraps */
		{ { { -PG, 2 * PG, 0, 0, FF_RUN_SHADOW } }, 1 },
		{ { { -PG, PG, 0, 0, FF_RUN_SHADOW } }, 1 },
		{ { { VA, PG, 0, 0, 0 } }, 1 }, /* no kind */
		{ { { VA, PG, 0, 0, 3 } }, 1 },
		{ { { VA + PG, PG, 0, 0, FF_RUN_SHADOW }, /* not sorted */
		    { VA, PG, PG, 0, FF_RUN_SHADOW } },
		  2 },
		{ { { VA, 2 * PG, 0, 0, FF_RUN_SHADOW }, /* not disjoint */
		    { VA + PG, PG, 2 * PG, 0, FF_RUN_SHADOW } },
		  2 },
		{ { { VA, PG, 0, 0, FF_RUN_SHADOW }, { VA, PG, 0, 0, FF_RUN_SHARED } }, 2 },
	};
	/* pages that the session does not have: they are copied, like all that has no run */
	const struct ff_mr_run none[] = {
		{ VA, PG, 4 * PG, 0, FF_RUN_SHADOW }, /* behind the region */
		{ VA, 2 * PG, 3 * PG, 0, FF_RUN_SHADOW },
		{ VA, PG, -PG, 0, FF_RUN_SHADOW },
		{ VA, 2 * PG, -PG, 0, FF_RUN_SHADOW },
		{ VA, PG, FF_PAGES_STRIDE, 0, FF_RUN_SHADOW }, /* no region */
	};
	struct ff_mr_run good = shadow_run(VA, 4 * PG, touched(4 * PG));
	struct mr mr;

	(void)state;
	assert_int_equal(good.off, 0);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		mr = mr_of(VA, 4 * PG, WRITES);
		assert_int_equal(map_mr(&mr, &none[i], 1), 0);
		assert_int_equal(mr.num_runs, 0);
		assert_int_equal(mr.zero_copy, 0);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		mr = mr_of(VA, 4 * PG, WRITES);
		if (map_mr(&mr, bad[i].run, bad[i].n) != -EINVAL)
			fail_msg("claim %zu was accepted", i);
		assert_null(mr.run);
		assert_int_equal(mr.num_runs, 0);
	}
	/* MRs that reach the end of the address space */
	mr = mr_of(UINT64_MAX - 10, 5, WRITES);
	assert_int_equal(shadow_map(&mr, NULL, 0, NULL), -EINVAL);
	mr = mr_of(UINT64_MAX - PG, 3 * PG, WRITES);
	assert_int_equal(shadow_map(&mr, NULL, 0, NULL), -EINVAL);
	mr = mr_of(VA, 0, WRITES);
	assert_int_equal(shadow_map(&mr, NULL, 0, NULL), -EINVAL);
	mr = mr_of(VA, 4 * PG, WRITES);
	assert_int_equal(map_mr(&mr, &good, 1), 0);
	shadow_unmap(&mr);
}

/* Pages that nobody touched are not the router's to make. */
static void untouched_pages_are_not_made(void **state)
{
	struct mr mr = mr_of(VA, 4 * PG, WRITES);
	struct ff_mr_run claim = shadow_run(VA, 4 * PG, region(4 * PG));
	struct stat st;

	(void)state;
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 0);
	assert_int_equal(fstat(pages_file, &st), 0);
	assert_int_equal(st.st_blocks, 0);
}

/* ---- shared mappings ------------------------------------------------------------------------------ */

/* The application's shared memory at p is reached, both ways, page by page. */
static void check_reached(uint8_t *p, uint64_t len)
{
	struct ff_mr_run claim = shared_run(p, len);
	struct mr mr = mr_of((uintptr_t)p + 10, len - 20, WRITES);
	uint8_t *host;

	memset(p, 1, len); /* the application's, too: the mapping is shared */
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 1);
	assert_int_equal(mr.zero_copy, len - 20);
	assert_int_equal(ses.mem.num_foreign, 1);
	for (uint64_t off = 10; off < len - 10; off += PG) {
		assert_true(shadow_translate(&mr, (uintptr_t)p + off, 1, &host) == 1);
		assert_non_null(host);
		assert_int_equal(*host, 1);
		*host = 2;
		assert_int_equal(p[off], 2);
	}
	shadow_unmap(&mr);
	assert_int_equal(ses.mem.num_foreign, 0);
}

static void memfd_sysv_anonymous_and_dev_shm(void **state)
{
	char name[] = "/dev/shm/freeflow-test-XXXXXX";
	int mem = memfd_create("app", 0), file = mkstemp(name);
	int id = shmget(IPC_PRIVATE, 3 * PG, IPC_CREAT | 0600);
	uint8_t *p[4];

	(void)state;
	unlink(name);
	assert_int_equal(ftruncate(mem, 8 * PG), 0);
	assert_int_equal(ftruncate(file, 4 * PG), 0);
	p[0] = mmap(NULL, 4 * PG, RW, MAP_SHARED, mem, 2 * PG);
	p[1] = shmat(id, NULL, 0);
	p[2] = mmap(NULL, 4 * PG, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	p[3] = mmap(NULL, 4 * PG, RW, MAP_SHARED, file, 0);
	shmctl(id, IPC_RMID, NULL);
	child_start();
	need_map_files();
	check_reached(p[0], 4 * PG);
	check_reached(p[1], 3 * PG);
	check_reached(p[2], 4 * PG);
	if (file >= 0)
		check_reached(p[3], 4 * PG);
	shmdt(p[1]);
	munmap(p[0], 4 * PG);
	munmap(p[2], 4 * PG);
	munmap(p[3], 4 * PG);
	close(mem);
	close(file);
}

static void one_claim_over_several_mappings(void **state)
{
	int mem = memfd_create("app", 0);
	uint8_t *p = mmap(NULL, 6 * PG, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *host;
	struct ff_mr_run claim = shared_run(p, 6 * PG);
	struct mr mr = mr_of((uintptr_t)p, 6 * PG, WRITES);

	(void)state;
	assert_int_equal(ftruncate(mem, 8 * PG), 0);
	mmap(p, 2 * PG, RW, MAP_SHARED | MAP_FIXED, mem, 4 * PG);
	mmap(p + 2 * PG, PG, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	mmap(p + 3 * PG, PG, PROT_READ, MAP_SHARED | MAP_FIXED, mem, 0);
	mmap(p + 4 * PG, PG, RW, MAP_SHARED | MAP_FIXED, mem, 2 * PG); /* never touched: a hole */
	munmap(p + 5 * PG, PG);
	memset(p, 7, 2 * PG);
	child_start();
	need_map_files();
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 1); /* not: private, read-only, a hole, nothing */
	assert_int_equal(mr.zero_copy, 2 * PG);
	assert_int_equal(shadow_translate(&mr, (uintptr_t)p + PG, 5 * PG, &host), PG);
	assert_int_equal(*host, 7);
	shadow_unmap(&mr);
	munmap(p, 6 * PG);
	close(mem);
}

static void mappings_are_shared_between_mrs(void **state)
{
	int mem = memfd_create("app", 0);
	uint8_t *p, *host[2];
	struct ff_mr_run claim;
	struct mr a, b;

	(void)state;
	assert_int_equal(ftruncate(mem, 4 * PG), 0);
	p = mmap(NULL, 4 * PG, RW, MAP_SHARED, mem, 0);
	memset(p, 0, 4 * PG);
	child_start();
	need_map_files();
	claim = shared_run(p, 4 * PG);
	a = mr_of((uintptr_t)p, 4 * PG, WRITES);
	b = mr_of((uintptr_t)p, 4 * PG, WRITES);
	assert_int_equal(map_mr(&a, &claim, 1), 0);
	assert_int_equal(map_mr(&b, &claim, 1), 0);
	assert_int_equal(ses.mem.num_foreign, 1);
	shadow_translate(&a, (uintptr_t)p, 1, &host[0]);
	shadow_translate(&b, (uintptr_t)p, 1, &host[1]);
	assert_ptr_equal(host[0], host[1]);
	shadow_unmap(&a);
	assert_true(is_mapped(host[0]));
	shadow_unmap(&b);
	assert_false(is_mapped(host[0]));
	munmap(p, 4 * PG);
	close(mem);
}

static void read_only_stays_read_only(void **state)
{
	char name[] = "/dev/shm/freeflow-test-XXXXXX";
	int file = mkstemp(name), ro;
	struct ff_mr_run claim;
	struct mr mr;
	uint8_t *p;

	(void)state;
	if (file < 0)
		skip();
	assert_int_equal(pwrite(file, "secret", 7, 0), 7);
	assert_int_equal(ftruncate(file, PG), 0);
	ro = open(name, O_RDONLY | O_CLOEXEC);
	unlink(name);
	p = mmap(NULL, PG, PROT_READ, MAP_SHARED, ro, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	child_start();
	need_map_files();
	claim = shared_run(p, PG);
	mr = mr_of((uintptr_t)p, PG, WRITES);
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 0);
	assert_int_equal(mr.zero_copy, 0);
	shadow_unmap(&mr);
	mr = mr_of((uintptr_t)p, PG, READS); /* left to pvm.c: such a mapping cannot be guarded */
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 0);
	shadow_unmap(&mr);
	munmap(p, PG);
	close(ro);
	close(file);
}

/* Of memory that the application may write to, for an MR that may not. */
static void an_mr_that_reads_gets_no_more(void **state)
{
	int mem = memfd_create("app", 0);
	struct ff_mr_run claim;
	uint8_t *p, *host;
	struct mr mr;

	(void)state;
	assert_int_equal(ftruncate(mem, PG), 0);
	p = mmap(NULL, PG, RW, MAP_SHARED, mem, 0);
	memcpy(p, "secret", 7);
	child_start();
	need_map_files();
	claim = shared_run(p, PG);
	mr = mr_of((uintptr_t)p, PG, READS);
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 1);
	assert_int_equal(shadow_translate(&mr, (uintptr_t)p, PG, &host), PG);
	assert_string_equal((char *)host, "secret");
	assert_false(own_vma(host).flags & FF_VMA_WRITE);
	assert_true(shadow_access_ok(&mr, READS));
	assert_false(shadow_access_ok(&mr, WRITES));
	shadow_unmap(&mr);
	munmap(p, PG);
	close(mem);
}

static void files_on_disk_are_not_opened(void **state)
{
	FILE *f = tmpfile();
	struct ff_mr_run claim;
	struct mr mr;
	uint8_t *p;

	(void)state;
	assert_int_equal(ftruncate(fileno(f), PG), 0);
	p = mmap(NULL, PG, RW, MAP_SHARED, fileno(f), 0);
	p[0] = 1;
	if (own_vma(p).dev_major == 0) {
		print_message("temporary files are not on a disk here\n");
		skip();
	}
	child_start();
	claim = shared_run(p, PG);
	mr = mr_of((uintptr_t)p, PG, WRITES);
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 0);
	shadow_unmap(&mr);
	munmap(p, PG);
	fclose(f);
}

static void of_a_dead_process_nothing_is_mapped(void **state)
{
	uint8_t *p = mmap(NULL, PG, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ff_mr_run claim = shared_run(p, PG);
	struct mr mr = mr_of((uintptr_t)p, PG, WRITES);

	(void)state;
	p[0] = 1;
	child_start();
	child_stop();
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 0);
	/* the number lives on, in another process: this one */
	ses.pid = getpid();
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 0);
	shadow_unmap(&mr);
	munmap(p, PG);
}

static void swapping_mappings_wins_nothing(void **state)
{
	char name[] = "/dev/shm/freeflow-test-XXXXXX";
	int victim = mkstemp(name), mapped = 0, moments = 0;
	struct ff_mr_run claim;
	struct ff_vma own;

	(void)state;
	if (victim < 0)
		skip();
	assert_int_equal(pwrite(victim, "secret", 7, 0), 7);
	assert_int_equal(ftruncate(victim, PG), 0);
	swap_fd[0] = memfd_create("mine", 0);
	assert_int_equal(ftruncate(swap_fd[0], PG), 0);
	swap_fd[1] = open(name, O_RDONLY | O_CLOEXEC);
	unlink(name);
	says_hello(getpid()); /* this process is the application, too */
	need_map_files();
	swapped = mmap(NULL, PG, RW, MAP_SHARED, swap_fd[0], 0);
	swapped[0] = 1;
	own = own_vma(swapped);
	claim = shared_run(swapped, PG);
	for (int there = 0; there < 8; there++) {
		for (int back = there; back < 8; back++) {
			struct mr mr = mr_of((uintptr_t)swapped, PG, WRITES);
			uint8_t *host;

			mmap(swapped, PG, RW, MAP_SHARED | MAP_FIXED, swap_fd[0], 0);
			swap_moment = 0;
			swap_there = there;
			swap_back = back;
			assert_int_equal(map_mr(&mr, &claim, 1), 0);
			if (swap_moment > moments)
				moments = swap_moment;
			if (mr.num_runs) {
				shadow_translate(&mr, (uintptr_t)swapped, PG, &host);
				assert_int_equal(own_vma(host).inode, own.inode);
				assert_int_equal(own_vma(host).dev_minor, own.dev_minor);
				mapped++;
			}
			shadow_unmap(&mr);
		}
	}
	assert_int_equal(moments, 4); /* two files are opened */
	assert_in_range(mapped, 8, 35);
	munmap(swapped, PG);
	swapped = NULL;
	close(swap_fd[0]);
	close(swap_fd[1]);
	close(victim);
}

/* Whatever is said of a mapping: its file is opened only if it is mapped so. */
static void what_is_not_mapped_so_is_not_opened(void **state)
{
	int mem = memfd_create("app", 0), pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0), fd;
	uint8_t *shared = mmap(NULL, 2 * PG, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint8_t *private = mmap(NULL, PG, RW, MAP_PRIVATE, mem, 0);
	struct ff_vma v = own_vma(shared), p = own_vma(private),
		      exe = own_vma((void *)(uintptr_t)setup);

	(void)state;
	says_hello(getpid());
	need_map_files();
	fd = map_file_open(getpid(), pidfd, ses.mem.maps_fd, &v, true);
	assert_true(fd >= 0);
	close(fd);
	assert_true(map_file_open(getpid(), pidfd, ses.mem.maps_fd, &p, false) < 0);
	p.flags |= FF_VMA_SHARED; /* a lie */
	assert_true(map_file_open(getpid(), pidfd, ses.mem.maps_fd, &p, true) < 0);
	exe.flags |= FF_VMA_SHARED | FF_VMA_WRITE;
	assert_true(map_file_open(getpid(), pidfd, ses.mem.maps_fd, &exe, true) < 0);
	v.inode++;
	assert_true(map_file_open(getpid(), pidfd, ses.mem.maps_fd, &v, true) < 0);
	v.inode--;
	v.end += PG;
	assert_true(map_file_open(getpid(), pidfd, ses.mem.maps_fd, &v, true) < 0);
	v.end -= PG;
	assert_int_equal(mprotect(shared, 2 * PG, PROT_READ), 0);
	assert_true(map_file_open(getpid(), pidfd, ses.mem.maps_fd, &v, true) < 0);
	munmap(shared, 2 * PG);
	munmap(private, PG);
	close(mem);
	close(pidfd);
}

static bool mem_gone(void)
{
	return ses.mem.gone;
}

static void truncated_file_is_survived(void **state)
{
	struct sigaction bus, segv;
	int mem = memfd_create("app", 0);
	struct ff_mr_run claim;
	uint8_t *p, *host, copy[64];
	struct mr mr;

	(void)state;
	assert_int_equal(ftruncate(mem, 4 * PG), 0);
	p = mmap(NULL, 4 * PG, RW, MAP_SHARED, mem, 0);
	memset(p, 9, 4 * PG);
	child_start();
	need_map_files();
	sigaction(SIGBUS, NULL, &bus);
	sigaction(SIGSEGV, NULL, &segv);
	assert_int_equal(sigbus_install(), 0);
	claim = shared_run(p, 4 * PG);
	mr = mr_of((uintptr_t)p, 4 * PG, WRITES);
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(shadow_translate(&mr, (uintptr_t)p + 3 * PG, 64, &host), 64);
	assert_int_equal(ftruncate(mem, PG), 0);
	memset(copy, 1, sizeof(copy));
	memcpy(copy, host, sizeof(copy));
	for (size_t i = 0; i < sizeof(copy); i++)
		assert_int_equal(copy[i], 0);
	assert_true(mem_gone());
	sigbus_forget(&ses);
	shadow_unmap(&mr);
	assert_false(is_mapped(host));
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segv, NULL);
	munmap(p, 4 * PG);
	close(mem);
}

/* Of two clients each is asked for its own mappings. */
static void of_another_client_nothing_is_found(void **state)
{
	uint8_t *p = mmap(NULL, PG, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ff_mr_run claim = shared_run(p, PG);
	struct mr mr = mr_of((uintptr_t)p, PG, WRITES);
	uint32_t first;
	int first_maps;

	(void)state;
	p[0] = 1;
	says_hello(getpid());
	need_map_files();
	first = ses.mem.keeper_id;
	first_maps = ses.mem.maps_fd;
	madvise(p, PG, MADV_DONTFORK);
	child_start();
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 0);
	keeper_client_del(first);
	close(first_maps);
	munmap(p, PG);
}

/* However many mappings a claim is of, and whatever they are: the rest is left to pvm.c. */
static void one_call_looks_at_so_many(void **state)
{
	enum { N = 3000 };
	int mem = memfd_create("app", 0);
	uint8_t *p = mmap(NULL, N * PG, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ff_mr_run claim = shared_run(p, N * PG);
	struct mr mr = mr_of((uintptr_t)p, N * PG, WRITES);

	(void)state;
	assert_int_equal(ftruncate(mem, N * PG), 0);
	/* in the other order, so that no two become one; the first thirty have no pages */
	for (uint64_t i = 0; i < N; i++)
		mmap(p + i * PG, PG, RW, MAP_SHARED | MAP_FIXED, mem, (off_t)((N - 1 - i) * PG));
	memset(p + 30 * PG, 1, (N - 30) * PG);
	child_start();
	need_map_files();
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 32 - 30); /* what failed counts */
	shadow_unmap(&mr);

	/* those of which nothing can be made cost less, and count, too */
	for (uint64_t i = 0; i < 512; i++)
		mprotect(p + i * PG, PG, i % 2 ? PROT_READ : PROT_NONE);
	child_stop();
	keeper_client_del(ses.mem.keeper_id);
	close(ses.mem.maps_fd);
	child_start();
	assert_int_equal(map_mr(&mr, &claim, 1), 0);
	assert_int_equal(mr.num_runs, 0);
	munmap(p, N * PG);
	close(mem);
}

static void number_of_mappings_is_bounded(void **state)
{
	enum { N = 1100 };
	static struct mr mr[N];
	int mem = memfd_create("app", 0), mapped = 0;
	uint8_t *p;

	(void)state;
	assert_int_equal(ftruncate(mem, N * PG), 0);
	p = mmap(NULL, N * PG, RW, MAP_SHARED, mem, 0);
	memset(p, 1, N * PG);
	child_start();
	need_map_files();
	for (int i = 0; i < N; i++) {
		struct ff_mr_run claim = shared_run(p + (size_t)i * PG, PG);

		mr[i] = mr_of((uintptr_t)p + (uint64_t)i * PG, PG, WRITES);
		assert_int_equal(map_mr(&mr[i], &claim, 1), 0);
		mapped += (int)mr[i].num_runs;
	}
	assert_int_equal(mapped, 1024);
	for (int i = 0; i < N; i++)
		shadow_unmap(&mr[i]);
	munmap(p, N * PG);
	close(mem);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

	return UNIT_RUN(T(own_pages_are_reached), T(bytes_behind_the_last_run),
			T(hostile_claims_are_refused), T(untouched_pages_are_not_made),
			T(memfd_sysv_anonymous_and_dev_shm), T(one_claim_over_several_mappings),
			T(mappings_are_shared_between_mrs), T(read_only_stays_read_only),
			T(an_mr_that_reads_gets_no_more), T(files_on_disk_are_not_opened),
			T(of_a_dead_process_nothing_is_mapped), T(swapping_mappings_wins_nothing),
			T(what_is_not_mapped_so_is_not_opened), T(truncated_file_is_survived),
			T(one_call_looks_at_so_many), T(of_another_client_nothing_is_found),
			T(number_of_mappings_is_bounded));
}
