/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* stall_rig.c - see stall_rig.h. */
#include "tests/rig/unit/stall_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/common/dir.h"

/* ---- a page that nobody fills in --------------------------------------------------------------------- */

static int open_uffd(void)
{
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	int fd;

	if (dev < 0)
		return -1;
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);
	close(dev);
	return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 ? fd : -1;
}

static void child_main(int uffd, uint8_t *page, _Atomic uint32_t *go)
{
	struct uffdio_register reg = { .range = { (uintptr_t)page, FF_PAGE },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage zero = { .range = { (uintptr_t)page, FF_PAGE } };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ioctl(uffd, UFFDIO_REGISTER, &reg))
		_exit(1);
	atomic_store(go, 1); /* ready */
	while (atomic_load(go) != 2)
		sched_yield();
	if (ioctl(uffd, UFFDIO_ZEROPAGE, &zero))
		_exit(2);
	while (atomic_load(go) != 3)
		sched_yield();
	_exit(memcmp(page, "stalled!", 8) ? 3 : 0);
}

bool child_start(struct child *c)
{
	uint64_t end = fast_clock() + DEADLINE;

	c->go = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	c->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	c->pid = fork();
	if (!c->pid) {
		int uffd = open_uffd();

		if (uffd < 0)
			_exit(4);
		child_main(uffd, c->page, c->go);
	}
	while (atomic_load(c->go) != 1 && fast_clock() < end && waitpid(c->pid, NULL, WNOHANG) == 0)
		sched_yield();
	return atomic_load(c->go) == 1;
}

void child_memory(const struct child *c, struct session *s)
{
	char path[32];
	int mem, maps;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)c->pid);
	mem = open(path, O_RDWR | O_CLOEXEC);
	assert_true(mem >= 0);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)c->pid);
	maps = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(maps >= 0);
	assert_int_equal(pvm_session_add(s, mem, maps), 0);
	close(maps);
	close(mem);
}

/* ---- writes -------------------------------------------------------------------------------------------- */

uint8_t blocked[4096] __attribute__((aligned(4096)));
_Atomic bool blocks, no_threads;
_Atomic uint32_t in_blocked, writes, refusals;
_Atomic pid_t writer;

ssize_t __real_pwrite(int fd, const void *buf, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at)
{
	const struct timespec pause = { .tv_nsec = 100 * NS_PER_US };

	writes++;
	writer = (pid_t)syscall(SYS_gettid);
	if ((uintptr_t)at >= (uintptr_t)blocked && (uintptr_t)at < (uintptr_t)blocked + 4096) {
		in_blocked++;
		while (blocks)
			nanosleep(&pause, NULL);
		in_blocked--;
	}
	return __real_pwrite(fd, buf, n, at);
}

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	if (no_threads) {
		refusals++;
		return EAGAIN;
	}
	return __real_pthread_create(t, a, fn, arg);
}

bool wait_cqe(struct rig_cq *cq, struct ff_cqe *e)
{
	uint64_t end = fast_clock() + DEADLINE;

	while (fast_clock() < end) {
		if (rig_poll(cq, e))
			return true;
		sched_yield();
	}
	return false;
}

void write_to(struct rig *r, struct rig_qp *q, struct mr *from, struct mr *to, uint64_t id)
{
	struct ff_sqe *e = rig_sqe(q, FF_OP_WRITE, id);

	rig_sge(e, from, from->addr, 8);
	e->remote_addr = to->addr;
	e->rkey = to->rkey;
	fast_lock(r->f->host);
	rig_post(r, q);
	fast_unlock(r->f->host);
}

struct rig_qp *connected(struct rig *r, struct rig_ses *a, struct rig_cq *cqa, struct rig_ses *b,
			 struct rig_cq *cqb, struct rig_qp **other)
{
	struct rig_qp *q = rig_qp(r, a, IBV_QPT_RC, cqa, cqa, NULL);

	*other = rig_qp(r, b, IBV_QPT_RC, cqb, cqb, NULL);
	rig_connect(r, q, *other);
	rig_connect(r, *other, q);
	return q;
}

/* ---- the world ----------------------------------------------------------------------------------------- */

static uint8_t world_src[4096] = "source";
uint8_t world_dst[4096];

void world_make(struct world *w, void *bad_page)
{
	struct rig *r = &w->r;

	rig_init(r, &soft_ops);
	r->f->conf.realtime = false;
	pvm_patience = DEADLINE;
	writes = refusals = 0;
	w->me = rig_session(r, 0);
	w->good = rig_session(r, 2);
	w->cq = rig_cq(r, w->me, 64, false);
	w->cq_good = rig_cq(r, w->good, 64, false);
	w->to_good = connected(r, w->me, w->cq, w->good, w->cq_good, &w->good_qp);
	w->from = rig_mr(r, w->me, world_src, sizeof(world_src), ALL_ACCESS);
	w->at_good = rig_mr_pvm(r, w->good, world_dst, sizeof(world_dst), ALL_ACCESS);
	for (int i = 0; i < BAD_SES; i++) {
		w->bad[i] = rig_session(r, 1);
		w->cq_bad[i] = rig_cq(r, w->bad[i], 64, false);
		w->at_bad[i] = rig_mr_pvm(r, w->bad[i], bad_page, 4096, ALL_ACCESS);
		for (int k = 0; k < BAD_QPS; k++)
			w->to_bad[i][k] = connected(r, w->me, w->cq, w->bad[i], w->cq_bad[i],
						    &w->bad_qp[i][k]);
	}
}

void world_end(struct world *w)
{
	struct rig *r = &w->r;

	fast_stop(r->f->host);
	for (int i = 0; i < BAD_SES; i++) {
		for (int k = 0; k < BAD_QPS; k++) {
			rig_qp_free(r, w->to_bad[i][k]);
			rig_qp_free(r, w->bad_qp[i][k]);
		}
		rig_mr_free(r, w->at_bad[i]);
		rig_cq_free(r, w->cq_bad[i]);
		rig_session_free(r, w->bad[i]);
	}
	rig_qp_free(r, w->to_good);
	rig_qp_free(r, w->good_qp);
	rig_mr_free(r, w->from);
	rig_mr_free(r, w->at_good);
	rig_cq_free(r, w->cq);
	rig_cq_free(r, w->cq_good);
	rig_session_free(r, w->me);
	rig_session_free(r, w->good);
	rig_fini(r);
}

pid_t write_good(struct world *w, uint64_t id)
{
	struct ff_cqe e;

	write_to(&w->r, w->to_good, w->from, w->at_good, id);
	assert_true(wait_cqe(w->cq, &e));
	assert_int_equal(e.wr_id, id);
	assert_int_equal(e.status, IBV_WC_SUCCESS);
	return writer;
}

/* ---- threads ------------------------------------------------------------------------------------------- */

static uint32_t own_threads; /* at the start: a sanitizer may have one of its own */

uint32_t num_threads(void)
{
	return dir_count("/proc/self/task");
}

uint32_t threads_before(void)
{
	WAIT_FOR(num_threads() == own_threads);
	return own_threads;
}

static void *ends_at_once(void *number)
{
	*(pid_t *)number = gettid();
	return NULL;
}

int stall_rig_setup(void **state)
{
	pthread_t t; /* with the first one a sanitizer starts its own */
	char task[64];
	pid_t number;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, ends_at_once, &number), 0);
	pthread_join(t, NULL);
	/* the kernel's part of it ends a little later */
	snprintf(task, sizeof(task), "/proc/self/task/%d", number);
	WAIT_FOR(access(task, F_OK));
	own_threads = num_threads();
	return 0;
}
