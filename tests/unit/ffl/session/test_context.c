/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/device_rig.c tests/rig/fakes/fake_router.c ffl/verbs/ah.c ffl/verbs/async.c ffl/session/call.c ffl/session/slot.c ffl/session/context.c ffl/entry/context.c ffl/entry/device.c ffl/verbs/domain.c ffl/entry/enum.c ffl/entry/ops.c ffl/session/log.c ffl/verbs/pd.c ffl/verbs/query.c ffl/session/table.c ffl/entry/import.c ffl/verbs/xrc.c */
/*
 * test_context.c - a context in a child: it has a session of its own when it asks for something,
 * however it was made.
 */
#include <fcntl.h>
#include <netinet/ip.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/asleep.h"
#include "tests/rig/unit/device_rig.h"
#include "tests/rig/unit/unit.h"

/* What the child, which has asked nothing of the device yet, has of its parent. */
static struct ibv_pd *parents_pd;
static struct ibv_ah *parents_ah;

/* What is of the parent's session ends in EIO, before and after the child has one of its own. */
static int parents_objects(void)
{
	struct ibv_ah_attr attr = { .port_num = 1 };

	errno = 0;
	if (ibv_create_ah(parents_pd, &attr) || errno != EIO)
		return 1;
	return 0;
}

/* The context serves the child, with what the program knows of it unchanged. */
static int childs_context(void)
{
	struct ffl_context *old = to_ctx(device_ctx), *s;
	int async_fd = device_ctx->async_fd, cmd_fd = device_ctx->cmd_fd;
	struct stat was_async, was_cmd, st;
	struct ibv_device_attr attr;
	struct ibv_async_event ev;
	struct ibv_pd *pd;

	if (fstat(async_fd, &was_async) || fstat(cmd_fd, &was_cmd))
		return 11;
	/* no router: as if there were no device, and the next call tries again */
	setenv("FFL_SOCKET", "/nonexistent", 1);
	if (ibv_query_device(device_ctx, &attr) != EIO || ibv_alloc_pd(device_ctx) ||
	    errno != EIO || ibv_get_async_event(device_ctx, &ev) != -1 || errno != EIO)
		return 12;
	setenv("FFL_SOCKET", device_router.path, 1);
	if (fcntl(async_fd, F_SETFL, O_NONBLOCK))
		return 13;
	if (ibv_query_device(device_ctx, &attr))
		return 14;
	s = ffl_session_of(device_ctx);
	if (s == old || s->pid != getpid() || atomic_load(&s->dead) || !atomic_load(&old->dead))
		return 15;
	if (device_ctx->async_fd != async_fd || device_ctx->cmd_fd != cmd_fd ||
	    s->async_fd != async_fd || old->async_fd != -1)
		return 16;
	if (fstat(async_fd, &st) || st.st_ino == was_async.st_ino ||
	    fcntl(async_fd, F_GETFD) != FD_CLOEXEC || !(fcntl(async_fd, F_GETFL) & O_NONBLOCK))
		return 17;
	if (fstat(cmd_fd, &st) || st.st_ino == was_cmd.st_ino ||
	    fcntl(cmd_fd, F_GETFD) != FD_CLOEXEC)
		return 18;
	errno = 0;
	if (ibv_get_async_event(device_ctx, &ev) != -1 || errno != EAGAIN)
		return 19;
	pd = ibv_alloc_pd(device_ctx);
	if (!pd || pd->context != device_ctx || to_pd(pd)->ctx != s || ibv_dealloc_pd(pd))
		return 20;
	/* the old one's ring is still there, and nobody's */
	old->hdr->srq_kick = 100;
	return 0;
}

/* A child that forks again. */
static int grandchild(void)
{
	struct ffl_context *parents = atomic_load(&to_ctx(device_ctx)->current), *s;
	struct ibv_device_attr attr;

	if (parents->pid == getpid() || parents->sock != -1 || ibv_query_device(device_ctx, &attr))
		return 1;
	s = ffl_session_of(device_ctx);
	if (s == parents || s->older != parents || parents->older != to_ctx(device_ctx))
		return 2;
	return ibv_close_device(device_ctx);
}

static int child(void)
{
	struct ibv_device **list;
	struct ibv_context *own;
	struct ibv_device_attr attr;
	int n, err, status, sock;
	pid_t pid;

	/* the ring is there, but it is not the parent's */
	to_ctx(device_ctx)->hdr->srq_kick = 99;
	if (!atomic_load(&to_ctx(device_ctx)->dead) || to_ctx(device_ctx)->sock != -1)
		return 1;
	if (parents_objects())
		return 2;
	err = childs_context();
	if (err)
		return err;
	if (parents_objects())
		return 3;
	pid = fork();
	if (!pid)
		_exit(grandchild());
	if (waitpid(pid, &status, 0) != pid || status)
		return 4;
	if (ibv_query_device(device_ctx, &attr))
		return 5;
	/* what it has of the parent's objects goes without a word to the router */
	if (ibv_destroy_ah(parents_ah) || ibv_dealloc_pd(parents_pd))
		return 6;
	sock = ffl_session_of(device_ctx)->sock;
	if (ibv_close_device(device_ctx) || fcntl(sock, F_GETFD) >= 0)
		return 7;
	list = ibv_get_device_list(&n);
	if (n != 1)
		return 8;
	own = ibv_open_device(list[0]);
	if (!own || ibv_query_device(own, &attr) || ibv_close_device(own))
		return 9;
	ibv_free_device_list(list);
	return 0;
}

static void expect_fork(int (*fn)(void))
{
	int status;
	pid_t pid;

	pid = fork();
	if (!pid)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int child_closes_unused(void)
{
	return ibv_close_device(device_ctx);
}

/*
 * Daemons close all descriptors, and open others: what has the number now stays what it is, also
 * where it is a socket in the place of one.
 */
static int child_reused_numbers(void)
{
	int async_fd = device_ctx->async_fd, cmd_fd = device_ctx->cmd_fd, fds[2];
	struct ibv_device_attr attr;
	char c = 'x';

	close(async_fd);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || dup2(fds[1], cmd_fd) != cmd_fd)
		return 1;
	if (fds[0] != async_fd && dup2(fds[0], async_fd) != async_fd)
		return 1;
	if (ibv_query_device(device_ctx, &attr) || device_ctx->async_fd == async_fd ||
	    device_ctx->cmd_fd == cmd_fd)
		return 2;
	if (fcntl(device_ctx->async_fd, F_GETFD) < 0 || fcntl(device_ctx->cmd_fd, F_GETFD) < 0)
		return 3;
	if (ibv_close_device(device_ctx))
		return 4;
	return write(cmd_fd, &c, 1) == 1 && read(async_fd, &c, 1) == 1 ? 0 : 5;
}

enum { RACERS = 8 };
static pthread_barrier_t start;

static void *race(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&start);
	return ibv_alloc_pd(device_ctx);
}

/* One session, whoever comes first; all wait for it. */
static int child_races(void)
{
	pthread_t t[RACERS];
	void *pd;

	pthread_barrier_init(&start, NULL, RACERS);
	for (int i = 0; i < RACERS; i++)
		pthread_create(&t[i], NULL, race, NULL);
	for (int i = 0; i < RACERS; i++) {
		pthread_join(t[i], &pd);
		if (!pd || to_pd(pd)->ctx != ffl_session_of(device_ctx) || ibv_dealloc_pd(pd))
			return 1;
	}
	if (ffl_session_of(device_ctx)->older != to_ctx(device_ctx))
		return 2;
	return ibv_close_device(device_ctx);
}

static void test_fork_kinds(void **state)
{
	struct ibv_pd *pd;

	(void)state;
	expect_fork(child_closes_unused);
	expect_fork(child_reused_numbers);
	expect_fork(child_races);
	pd = ibv_alloc_pd(device_ctx);
	assert_non_null(pd);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* A child that never ran the handlers shares the parent's memory, or may: nothing is renewed. */
static void test_vfork(void **state)
{
	struct ibv_device_attr attr;
	volatile int err = -1;
	int status;
	pid_t pid;

	(void)state;
	pid = vfork();
	if (!pid) {
		err = ibv_query_device(device_ctx, &attr);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(err, EIO);
	assert_ptr_equal(ffl_session_of(device_ctx), to_ctx(device_ctx));
	assert_int_equal(ibv_query_device(device_ctx, &attr), 0);
}

static void test_fork(void **state)
{
	struct ibv_ah_attr attr = { .port_num = 1 };
	struct ibv_async_event ev;
	struct ibv_pd *pd;

	(void)state;
	parents_pd = ibv_alloc_pd(device_ctx);
	assert_non_null(parents_pd);
	parents_ah = ibv_create_ah(parents_pd, &attr);
	assert_non_null(parents_ah);
	to_ctx(device_ctx)->hdr->srq_kick = 7;
	expect_fork(child);
	/* of all this the parent's session has felt nothing */
	assert_int_equal(to_ctx(device_ctx)->hdr->srq_kick, 7);
	pd = ibv_alloc_pd(device_ctx);
	assert_non_null(pd);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_destroy_ah(parents_ah), 0);
	assert_int_equal(ibv_dealloc_pd(parents_pd), 0);
	router_event(&device_router, IBV_EVENT_PORT_ACTIVE, FF_ASYNC_PORT, 1);
	assert_int_equal(ibv_get_async_event(device_ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_PORT_ACTIVE);
}

static struct ffl_qp taken_qp;
static struct ffl_cq taken_cq;
static struct ffl_srq taken_srq;

static int childs_locks(void)
{
	return atomic_load(&taken_qp.sq_lock.v) | atomic_load(&taken_qp.rq_lock.v) |
	       atomic_load(&taken_cq.lock.v) | atomic_load(&taken_srq.lock.v);
}

/* Threads that were posting or polling at fork are not in the child: their locks are free there. */
static void test_fork_frees_locks(void **state)
{
	struct ffl_context *c = to_ctx(device_ctx);

	(void)state;
	taken_qp.ctx = taken_cq.ctx = taken_srq.ctx = c;
	assert_int_equal(ffl_table_put(c, FFL_QP, 0x10001, &taken_qp), 0);
	assert_int_equal(ffl_table_put(c, FFL_CQ, 0x10002, &taken_cq), 0);
	assert_int_equal(ffl_table_put(c, FFL_SRQ, 0x10003, &taken_srq), 0);
	atomic_store(&taken_qp.sq_lock.v, 1);
	atomic_store(&taken_qp.rq_lock.v, 1);
	atomic_store(&taken_cq.lock.v, 1);
	atomic_store(&taken_srq.lock.v, 1);
	expect_fork(childs_locks);
	assert_int_equal(childs_locks(), 1); /* the parent's are as they were */
	ffl_table_del(c, FFL_QP, 0x10001);
	ffl_table_del(c, FFL_CQ, 0x10002);
	ffl_table_del(c, FFL_SRQ, 0x10003);
}

static int childs_sq_lock(void)
{
	return atomic_load(&taken_qp.sq_lock.v);
}

static _Atomic bool held, forked;

static void *hold_tables(void *tid)
{
	struct ffl_context *c = to_ctx(device_ctx);

	pthread_mutex_lock(&c->table_lock);
	held = true;
	while (!forked && !is_asleep(*(int *)tid))
		;
	pthread_mutex_unlock(&c->table_lock);
	return NULL;
}

/* fork() waits for a thread that changes the tables, so that the child can go through them. */
static void test_fork_waits_for_tables(void **state)
{
	struct ffl_context *c = to_ctx(device_ctx);
	int tid = gettid();
	pthread_t t;

	(void)state;
	taken_qp.ctx = c;
	assert_int_equal(ffl_table_put(c, FFL_QP, 0x10001, &taken_qp), 0);
	atomic_store(&taken_qp.sq_lock.v, 1);
	held = forked = false;
	assert_int_equal(pthread_create(&t, NULL, hold_tables, &tid), 0);
	while (!held)
		;
	expect_fork(childs_sq_lock);
	forked = true;
	pthread_join(t, NULL);
	atomic_store(&taken_qp.sq_lock.v, 0);
	ffl_table_del(c, FFL_QP, 0x10001);
}

/* A child that lives on does not keep the session alive when its parent has died. */
static void test_fork_outlives(void **state)
{
	int hold[2], status;
	uint32_t closed = device_router.closed;
	char c;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(hold), 0);
	pid = fork();
	if (!pid) {
		close(hold[1]);
		_exit(read(hold[0], &c, 1));
	}
	close(hold[0]);
	assert_int_equal(ibv_close_device(device_ctx), 0);
	router_wait_closed(&device_router, closed + 1);
	close(hold[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	signal(SIGPIPE, SIG_DFL);
	return UNIT_RUN(DEVICE_TEST(test_fork), DEVICE_TEST(test_fork_kinds),
			DEVICE_TEST(test_vfork), DEVICE_TEST(test_fork_frees_locks),
			DEVICE_TEST(test_fork_waits_for_tables),
			cmocka_unit_test_setup_teardown(test_fork_outlives, device_setup,
							device_teardown_router));
}
