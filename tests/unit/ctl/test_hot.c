/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_hot.c - ffr/ctl/hot.c: when a client is told of a part that is used, and when it is not: by the filters of its
 * process, and by its answers, which may be false.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ctl_calls.h"
#include "ffr/ctl/hot.c"
#include "ffr/obj/stats.h"

#define EVENT  FF_HEAT_SLICE /* bytes of one */
#define VA     (1ull << 40)
#define LEN    (2047 * EVENT) /* parts of two events */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct ctl_rig *const g = &call_rig;
static int sock, heat, text_fd;
static uint32_t pd;
static struct ff_reg_mr_resp reg;

static int watch(int s, int *fd)
{
	struct ff_watch_heat_req req = { 0 };
	struct ff_watch_heat_resp resp;
	unsigned n = 0;

	return rig_call(g, s, FF_MSG_WATCH_HEAT, &req, sizeof(req), NULL, 0, 0, &resp, sizeof(resp),
			fd, &n);
}

static int done_why(bool busy, uint32_t why)
{
	struct ff_heat_done_req req = { .busy = busy, .why = why };
	struct ff_heat_done_resp resp;

	return RIG_CALL(g, sock, HEAT_DONE, &req, &resp);
}

static int done(bool busy)
{
	return done_why(busy, FF_WHY_UNUSED);
}

static struct session *ses(void)
{
	return LIST_FIRST(&g->c[0]->sessions);
}

/* What the process's status is from now on. */
static void status_is(const char *text)
{
	assert_int_equal(ftruncate(text_fd, 0), 0);
	assert_int_equal(pwrite(text_fd, text, strlen(text), 0), strlen(text));
}

static void status_of(char state, unsigned threads, unsigned mode, unsigned filters)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "Name:\tx\nState:\t%c (x)\nThreads:\t%u\nNoNewPrivs:\t1\nSeccomp:\t%u\n"
		 "Seccomp_filters:\t%u\nCpus_allowed:\t3\n",
		 state, threads, mode, filters);
	status_is(text);
}

/* A client in a container of Docker's, which has a filter from the start, with LEN bytes registered. */
static int setup(void **state)
{
	call_setup(state);
	hot_delay = 0;
	sock = call_client(g, 0);
	pd = call_pd(g, sock);
	assert_true(ses()->mem.status_fd >= 0);
	assert_int_equal(ses()->mem.filters, hot_filters(ses()->mem.status_fd));
	text_fd = memfd_create("status", MFD_CLOEXEC);
	close(ses()->mem.status_fd);
	ses()->mem.status_fd = dup(text_fd);
	ses()->mem.filters = 1;
	status_of('S', 4, 2, 1);
	assert_int_equal(watch(sock, &heat), 0);
	assert_int_equal(call_reg_mr(g, sock, pd, (void *)VA, LEN, ACCESS, &reg), 0);
	return 0;
}

static int teardown(void **state)
{
	close(heat);
	close(text_fd);
	close(sock);
	return call_teardown(state);
}

/* A runner copies to that part, often. */
static void use(uint64_t part)
{
	struct mr *mr = mr_get(ses(), reg.mr);

	fast_lock(g->ctl.host);
	for (unsigned i = 0; i <= HEAT_TIMES * 2 * EVENT / HEAT_USE; i++)
		heat_used(mr, VA + part * 2 * EVENT, 8);
	fast_unlock(g->ctl.host);
}

/* True: *e came out of the socket. */
static bool told(struct ff_heat_event *e)
{
	ssize_t n;

	rig_pump(g);
	n = recv(heat, e, sizeof(*e), MSG_DONTWAIT);
	assert_true(n == sizeof(*e) || (n < 0 && errno == EAGAIN));
	return n > 0;
}

static void want(uint64_t va)
{
	struct ff_heat_event e;

	assert_true(told(&e));
	assert_int_equal(e.mr, reg.mr);
	assert_int_equal(e.va, va);
	assert_int_equal(e.len, FF_HEAT_SLICE);
}

static void want_none(void)
{
	struct ff_heat_event e;

	assert_false(told(&e));
}

static void one_after_the_other(void **state)
{
	(void)state;
	want_none();
	use(0);
	use(5);
	want(VA);
	want_none();
	assert_int_equal(done(false), 0);
	want(VA + EVENT);
	want_none();
	assert_int_equal(done(false), 0);
	want(VA + 10 * EVENT);
	assert_int_equal(done(false), 0);
	want(VA + 11 * EVENT);
	assert_int_equal(done(false), 0);
	want_none();
}

/* What was not asked for is not answered; and MRs may go. */
static void false_answers(void **state)
{
	(void)state;
	assert_int_equal(done(false), -EINVAL);
	use(0);
	want(VA);
	assert_int_equal(done(true), 0);
	want(VA);
	assert_int_equal(done(false), 0);
	want(VA + EVENT);
	assert_int_equal(done(false), 0);
	assert_int_equal(done(false), -EINVAL);
	use(1);
	want(VA + 2 * EVENT);
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, reg.mr), 0);
	assert_int_equal(done(false), 0);
	want(VA + 3 * EVENT); /* the library knows that it is gone */
	assert_int_equal(done(false), 0);
	want_none();
}

/* Pages that are pinned are asked for some times. */
static void busy_parts(void **state)
{
	(void)state;
	use(0);
	for (unsigned i = 0; i < BUSY_TRIES; i++) {
		want(VA);
		assert_int_equal(done(true), 0);
	}
	want(VA + EVENT);
}

static uint64_t copied_for(enum ff_why why)
{
	struct ff_counts n = { 0 };

	counts_add_session(&n, ses());
	return n.copied[why];
}

/* What is copied is shown with a reason, which is the client's word as far as it is one. */
static void reasons(void **state)
{
	struct ff_reg_mr_req req = { .addr = 1ull << 41, .length = EVENT, .pd = pd };
	struct ff_reg_mr_resp resp;

	(void)state;
	assert_int_equal(copied_for(FF_WHY_OTHER), LEN); /* a library that does not say */
	use(0);
	want(VA);
	assert_int_equal(done_why(false, UINT32_MAX), 0);
	assert_int_equal(copied_for(FF_WHY_OTHER), LEN);
	want(VA + EVENT);
	assert_int_equal(done_why(false, FF_WHY_PINNED), 0);
	assert_int_equal(copied_for(FF_WHY_PINNED), LEN);
	req.access = ACCESS | FF_ACCESS_WHY(FF_WHY_UNUSED);
	assert_int_equal(RIG_CALL(g, sock, REG_MR, &req, &resp), 0);
	assert_int_equal(mr_get(ses(), resp.mr)->access, ACCESS);
	assert_int_equal(copied_for(FF_WHY_UNUSED), EVENT);
	req.access = ACCESS | FF_ACCESS_WHY_MASK;
	assert_int_equal(RIG_CALL(g, sock, REG_MR, &req, &resp), 0);
	assert_int_equal(mr_get(ses(), resp.mr)->access, ACCESS);
	assert_int_equal(copied_for(FF_WHY_OTHER), EVENT);
	/* from now on it will not be shared any more */
	status_of('S', 4, 2, 2);
	use(1);
	want_none();
	assert_int_equal(copied_for(FF_WHY_UNUSED), 0);
	assert_int_equal(copied_for(FF_WHY_SECCOMP), EVENT);
}

static void parts_wait(void **state)
{
	(void)state;
	hot_delay = UINT64_MAX;
	use(0);
	want_none();
	assert_true(uv_is_active((uv_handle_t *)&g->ctl.hot_due));
	hot_delay = 0;
	uv_timer_start(&g->ctl.hot_due, on_due, 0, 0);
	want(VA);
}

/* No shadow pages are placed for a container that owes time; its part is told of when the debt is paid. */
static void parts_wait_for_a_debt(void **state)
{
	(void)state;
	use(0);
	want(VA);
	stall_charge(g->c[0], 60000 * NS_PER_MS);
	assert_int_equal(done(false), 0);
	use(1);
	want_none();
	assert_true(uv_is_active((uv_handle_t *)&g->ctl.hot_due));
	assert_true(uv_timer_get_due_in(&g->ctl.hot_due) > 1000);
	g->c[0]->stall.debt = 0;
	g->c[0]->stall.unmaps = 1; /* its old mappings wait to be unmapped */
	uv_timer_start(&g->ctl.hot_due, on_due, 0, 0);
	want_none();
	g->c[0]->stall.unmaps = 0;
	uv_timer_start(&g->ctl.hot_due, on_due, 0, 0);
	want(VA + EVENT);
	assert_int_equal(done(false), 0);
	want(VA + 2 * EVENT);
}

static void a_filter_ends_it(void **state)
{
	(void)state;
	use(0);
	want(VA);
	status_of('S', 4, 2, 2);
	assert_int_equal(done(false), 0);
	want_none();
	use(1);
	want_none();
	status_of('S', 4, 2, 1); /* it cannot be; and nobody asks any more */
	use(2);
	want_none();
	assert_int_equal(done(false), -EINVAL);
}

static int watch_when(const char *text)
{
	int other = call_client(g, 0), fd = -1, err;

	close(ses()->mem.status_fd);
	ses()->mem.status_fd = dup(text_fd);
	ses()->mem.filters = 0;
	status_is(text);
	err = watch(other, &fd);
	if (!err)
		close(fd);
	close(other);
	rig_pump(g);
	return err;
}

/* Filters since HELLO, strict mode, a first thread that has ended, and texts that cannot be understood. */
static void not_with_filters(void **state)
{
	static char groups[2 * STATUS_MAX];

	(void)state;
	assert_int_equal(watch_when("\nState:\tS\nSeccomp:\t0\nSeccomp_filters:\t0\n"), 0);
	assert_int_equal(watch_when("\nState:\tS\nSeccomp:\t0\n"), 0);
	assert_int_equal(watch_when("\nState:\tS\nSeccomp:\t2\nSeccomp_filters:\t1\n"), -EPERM);
	assert_int_equal(watch_when("\nState:\tS\nSeccomp:\t2\n"), -EPERM); /* before Linux 5.10 */
	assert_int_equal(watch_when("\nState:\tS\nSeccomp:\t1\nSeccomp_filters:\t0\n"), -EPERM);
	assert_int_equal(watch_when("\nState:\tZ\nSeccomp:\t0\nSeccomp_filters:\t0\n"), -EPERM);
	assert_int_equal(watch_when(""), -EPERM);
	assert_int_equal(watch_when("\nSeccomp:\t"), -EPERM);
	memset(groups, '7', sizeof(groups) - 64);
	strcat(groups, "\nState:\tS\nSeccomp:\t0\n");
	assert_int_equal(watch_when(groups), -EPERM);
}

/* Has the router hung up? */
static bool is_over(void)
{
	char c;

	on_look(&g->ctl.hot_look);
	return recv(heat, &c, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

/* The process has two sessions, and so two threads of the library's, beside the first one, which is a zombie. */
static void the_last_thread_goes(void **state)
{
	int other = call_client(g, 0), fd;

	(void)state;
	assert_int_equal(watch(other, &fd), 0);
	assert_true(uv_is_active((uv_handle_t *)&g->ctl.hot_look));
	status_of('S', 3, 2, 1);
	assert_false(is_over());
	status_of('Z', 4, 2, 1);
	assert_false(is_over());
	status_is("");
	assert_false(is_over());
	status_of('Z', 3, 2, 1);
	assert_true(is_over());
	close(fd);
	close(other);
	rig_pump(g);
}

static void one_socket_for_a_session(void **state)
{
	int other = call_client(g, 1), fd = -1;
	uint64_t fds = g->c[0]->quota.use.used[QUOTA_FD];

	(void)state;
	assert_non_null(mr_get(ses(), reg.mr)->heat);
	assert_int_equal(watch(sock, &fd), -EBUSY);
	assert_int_equal(g->c[0]->quota.use.used[QUOTA_FD], fds);
	/* it counts as a descriptor, until the session's end */
	fds = g->c[1]->quota.use.used[QUOTA_FD];
	g->c[1]->limits.max_fd = fds;
	assert_int_equal(watch(other, &fd), -ENOMEM);
	g->c[1]->limits.max_fd = fds + 1;
	assert_int_equal(watch(other, &fd), 0);
	assert_int_equal(g->c[1]->quota.use.used[QUOTA_FD], fds + 1);
	close(fd);
	close(other);
	rig_pump(g);
	assert_int_equal(g->c[1]->quota.use.used[QUOTA_FD], 0);
}

/* QEMU's migration between hosts failed with it: there all is replaced when it is registered. */
static void not_with_other_hosts(void **state)
{
	int other = call_client(g, 0), fd = -1;

	(void)state;
	g->ctl.host->wired = true;
	assert_int_equal(watch(other, &fd), -EOPNOTSUPP);
	g->ctl.host->wired = false;
	close(other);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	return UNIT_RUN(T(one_after_the_other), T(false_answers), T(busy_parts), T(reasons),
			T(parts_wait), T(parts_wait_for_a_debt), T(a_filter_ends_it),
			T(not_with_filters), T(the_last_thread_goes), T(one_socket_for_a_session),
			T(not_with_other_hosts));
}
