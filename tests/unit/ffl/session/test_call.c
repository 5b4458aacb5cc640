/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_call.c - requests and answers over a real socket: every way in which an answer can be
 * wrong, a router that dies or is silent, descriptors, segments, signals.
 *
 * build: tests/rig/fakes/fake_router.c ffl/session/call.c ffl/session/slot.c ffl/session/log.c
 *
 * threads: yes
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffl/session/ffl.h"
#include "tests/rig/fakes/fake_router.h"
#include "tests/rig/common/dir.h"
#include "tests/rig/common/hello.h"

static struct router r;
static struct ffl_context *ctx;
static unsigned int fds_before;

static unsigned int open_fds(void)
{
	return dir_count("/proc/self/fd");
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ull + ts.tv_nsec / 1000000;
}

static int setup(void **state)
{
	(void)state;
	ffl_log_level = 0;
	router_start(&r);
	ctx = calloc(1, sizeof(*ctx));
	ctx->pid = getpid();
	ctx->call_timeout = 10000;
	ctx->async_fd = -1;
	pthread_mutex_init(&ctx->call_lock, NULL);
	ctx->sock = ffl_connect(r.path);
	assert_true(ctx->sock >= 0);
	while (!atomic_load(&r.accepted))
		sched_yield();
	fds_before = open_fds();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ffl_segs_free(ctx);
	close(ctx->sock);
	free(ctx);
	router_stop(&r);
	assert_int_equal(r.malformed, 0);
	return 0;
}

static int alloc_pd(uint32_t *pd)
{
	struct ff_alloc_pd_req req = { 0 };
	struct ff_alloc_pd_resp resp;
	int ret = FFL_CALL(ctx, ALLOC_PD, &req, &resp);

	if (pd)
		*pd = resp.pd;
	return ret;
}

static void test_answer(void **state)
{
	uint32_t a, b;

	(void)state;
	assert_int_equal(alloc_pd(&a), 0);
	assert_int_equal(alloc_pd(&b), 0);
	assert_int_equal(b, a + 1);
	assert_int_equal(r.calls[FF_MSG_ALLOC_PD], 2);
	assert_true(ffl_check_alive(ctx));
}

static void test_tail(void **state)
{
	struct ff_mr_run run[3] = { { .va = 4096, .len = 4096 } };
	struct ff_reg_mr_req req = { 0 };
	struct ff_reg_mr_resp resp;

	(void)state;
	assert_int_equal(ffl_call(ctx, FF_MSG_REG_MR, &req, sizeof(req), run, sizeof(run[0]), 3,
				  &resp, sizeof(resp), NULL, 0, NULL),
			 0);
	assert_int_equal(ffl_call(ctx, FF_MSG_REG_MR, &req, sizeof(req), run, sizeof(run[0]), 2000,
				  &resp, sizeof(resp), NULL, 0, NULL),
			 -EMSGSIZE);
	assert_int_equal(alloc_pd(NULL), 0);
}

static void test_refused(void **state)
{
	(void)state;
	r.fault_type = FF_MSG_ALLOC_PD;
	r.fault = FAULT_STATUS;
	assert_int_equal(alloc_pd(NULL), -EMFILE);
	r.fault = FAULT_UNKNOWN;
	assert_int_equal(alloc_pd(NULL), -EOPNOTSUPP);
	r.fault = FAULT_NONE;
	assert_int_equal(alloc_pd(NULL), 0);
}

/* Each wrong answer loses the session, leaks no descriptor, and no further request is sent. */
static void test_wrong_answers(void **state)
{
	enum fault f;

	for (f = FAULT_SHORT; f <= FAULT_CLOSE; f++) {
		r.fault_type = FF_MSG_ALLOC_PD;
		r.fault = f;
		assert_int_equal(alloc_pd(NULL), -EIO);
		assert_true(atomic_load(&ctx->dead));
		assert_false(ffl_check_alive(ctx));
		assert_int_equal(r.calls[FF_MSG_ALLOC_PD], 1);
		assert_int_equal(alloc_pd(NULL), -EIO);
		router_wait_closed(&r, 1);
		assert_int_equal(r.calls[FF_MSG_ALLOC_PD], 1);
		/* the router closed its end of the connection */
		assert_int_equal(open_fds(), fds_before - 1);
		teardown(state);
		setup(state);
	}
}

/* Whoever waits for events is woken, although the router closes nothing. */
static void test_silent(void **state)
{
	uint64_t start = now_ms();
	int events[2];
	char c;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, events), 0);
	ctx->async_fd = events[0];
	ctx->call_timeout = 100;
	r.fault_type = FF_MSG_ALLOC_PD;
	r.fault = FAULT_SILENT;
	assert_int_equal(alloc_pd(NULL), -EIO);
	assert_true(now_ms() - start >= 100);
	assert_true(atomic_load(&ctx->dead));
	assert_int_equal(recv(events[0], &c, 1, MSG_DONTWAIT), 0);
	close(events[0]);
	close(events[1]);
}

static void test_dead_router(void **state)
{
	(void)state;
	assert_int_equal(alloc_pd(NULL), 0);
	router_stop(&r);
	assert_int_equal(alloc_pd(NULL), -EIO);
	assert_true(atomic_load(&ctx->dead));
}

/* A poller that makes no calls notices too. */
static void test_check_alive(void **state)
{
	(void)state;
	assert_true(ffl_check_alive(ctx));
	router_stop(&r);
	while (ffl_check_alive(ctx))
		;
	assert_true(atomic_load(&ctx->dead));
}

static void test_dies_while_waited_for(void **state)
{
	(void)state;
	r.fault_type = FF_MSG_ALLOC_PD;
	r.fault = FAULT_CLOSE;
	assert_int_equal(alloc_pd(NULL), -EIO);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void test_signals(void **state)
{
	struct sigaction sa = { .sa_handler = on_alarm }; /* no SA_RESTART */
	struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { 0 };
	struct ff_hello_req req = { .version_min = 1, .version_max = 1 };
	struct ff_hello_resp resp;
	int fd[2], i, memory[2], ret;
	unsigned int n;

	(void)state;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (i = 0; i < 2000; i++)
		if (alloc_pd(NULL))
			break;
	/* and one that sleeps while it waits */
	r.hello_ms = 20;
	hello_memory(memory);
	ret = ffl_call_fds(ctx, FF_MSG_HELLO, &req, sizeof(req), memory, 2, &resp, sizeof(resp), fd,
			   2, &n);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_int_equal(i, 2000);
	assert_int_equal(ret, 0);
	for (i = 0; i < 2; i++) {
		close(memory[i]);
		close(fd[i]);
	}
}

static void *many_calls(void *arg)
{
	int i;

	for (i = 0; i < 500; i++)
		if (alloc_pd(NULL))
			*(int *)arg = 1;
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t t[4];
	int i, failed = 0;

	(void)state;
	for (i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, many_calls, &failed);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(failed, 0);
	assert_int_equal(r.calls[FF_MSG_ALLOC_PD], 2000);
}

static void test_descriptors(void **state)
{
	struct ff_hello_req req = { .version_min = 1, .version_max = 1 };
	struct ff_hello_resp resp;
	unsigned int n;
	int fd[3], i, memory[2];

	(void)state;
	hello_memory(memory);
	assert_int_equal(ffl_call_fds(ctx, FF_MSG_HELLO, &req, sizeof(req), memory, 2, &resp,
				      sizeof(resp), fd, 3, &n),
			 0);
	assert_int_equal(n, 2);
	for (i = 0; i < 2; i++) {
		assert_int_equal(fcntl(fd[i], F_GETFD), FD_CLOEXEC);
		close(fd[i]);
	}
	/* more than the caller takes */
	assert_int_equal(ffl_call_fds(ctx, FF_MSG_HELLO, &req, sizeof(req), memory, 2, &resp,
				      sizeof(resp), fd, 1, &n),
			 -EIO);
	assert_int_equal(n, 0);
	close(memory[0]);
	close(memory[1]);
}

static void test_segment(void **state)
{
	uint8_t *p, *q, c = 0;

	(void)state;
	p = ffl_seg_at(ctx, 9, 4096);
	assert_non_null(p);
	q = ffl_seg_at(ctx, 9, 0);
	assert_ptr_equal(p, q + 4096);
	assert_int_equal(r.calls[FF_MSG_GET_SEG], 1);
	assert_true(fcntl(r.seg_fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE);
	*p = 0xa5;
	assert_int_equal(pread(r.seg_fd, &c, 1, 4096), 1);
	assert_int_equal(c, 0xa5);
	assert_null(ffl_seg_at(ctx, 9, 1u << 16));
	assert_null(ffl_seg_at(ctx, UINT32_MAX, 0));
	r.fault_type = FF_MSG_GET_SEG;
	r.fault = FAULT_STATUS;
	assert_null(ffl_seg_at(ctx, 10, 0));
	assert_int_equal(errno, EMFILE);
	/* that there is no such segment is what the end of all of them looks like, and nothing else is */
	assert_int_equal(ffl_segs_map(ctx), -EMFILE);
	r.fault = FAULT_NONE;
	/* a segment that cannot be sealed is none that the router would touch */
	r.seg_flags = 0;
	assert_null(ffl_seg_at(ctx, 10, 0));
	assert_int_equal(errno, EPERM);
	r.seg_flags = MFD_ALLOW_SEALING;
	assert_non_null(ffl_seg_at(ctx, 10, 0));
}

/* A child shares no ring with its parent, and its calls do not reach the parent's session. */
static void test_child(void **state)
{
	uint8_t *p = ffl_seg_at(ctx, 0, 0);
	int status;
	pid_t pid;

	(void)state;
	assert_non_null(p);
	pid = fork();
	if (!pid)
		_exit(alloc_pd(NULL) == -EIO ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(r.calls[FF_MSG_ALLOC_PD], 0);
	assert_int_equal(alloc_pd(NULL), 0);
	pid = fork();
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile uint8_t *)p = 1; /* not mapped: context.c's handler did not run here */
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_not_equal(status, 0);
	assert_int_equal(*p, 0);
}

static void test_fd_high(void **state)
{
	int fd = ffl_fd_high(open("/dev/null", O_RDONLY));

	(void)state;
	assert_true(fd >= 512);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	assert_true(ctx->sock >= 512);
	assert_int_equal(ffl_fd_high(-1), -1);
}

static void test_connect(void **state)
{
	char path[200];

	(void)state;
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	assert_int_equal(ffl_connect(path), -ENAMETOOLONG);
	assert_int_equal(ffl_connect("/nonexistent/sock"), -ENOENT);
	assert_int_equal(ffl_connect("/dev/null"), -ECONNREFUSED);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

	signal(SIGPIPE, SIG_DFL);
	return UNIT_RUN(TEST(test_answer), TEST(test_tail), TEST(test_refused),
			TEST(test_wrong_answers), TEST(test_silent), TEST(test_dead_router),
			TEST(test_check_alive), TEST(test_dies_while_waited_for),
			TEST(test_signals), TEST(test_threads), TEST(test_descriptors),
			TEST(test_segment), TEST(test_child), TEST(test_fd_high),
			TEST(test_connect));
}
