/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_hello.c - ffr/ctl/hello.c: HELLO, while the keeper takes its time to look at who says it. The keeper is this test:
 * it answers when the test says so.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/common/hello.h"
#include "tests/rig/unit/ctl_calls.h"
#include "tests/rig/unit/unit.h"
#include "ffr/keeper/keeper.h"
#include "ffr/lib/fds.h"

#define ID     4711
#define CPU_NS 3000000000 /* that the keeper says it took */

static struct {
	int sock; /* the keeper's end; -1: nobody asks */
	int err;
	bool many; /* more than one question at a time */
	int known; /* clients that the keeper knows */
	char cgroup[CGROUP_MAX];
} asked;

static int slow_add(const struct ctl_peer *peer, int mem, int maps, const char *cgroup,
		    uint32_t *id)
{
	int pair[2];

	assert_int_equal(peer->pid, getpid());
	assert_true(fcntl(mem, F_GETFD) >= 0 && fcntl(maps, F_GETFD) >= 0);
	if (asked.err)
		return asked.err;
	if (asked.many)
		asked.sock = -1; /* the test has it */
	assert_int_equal(asked.sock, -1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	asked.sock = pair[1];
	asked.known++;
	snprintf(asked.cgroup, sizeof(asked.cgroup), "%s", cgroup);
	*id = ID;
	return pair[0];
}

static void slow_del(uint32_t id)
{
	assert_int_equal(id, ID);
	asked.known--;
}

#define keeper_client_add slow_add
#define keeper_client_del slow_del
#include "ffr/ctl/hello.c"
#undef keeper_client_add
#undef keeper_client_del

static struct ctl_rig *const g = &call_rig;
static int sock;
static unsigned fds_before;

static int setup(void **state)
{
	call_setup(state);
	asked.sock = -1;
	asked.err = asked.known = 0;
	asked.many = false;
	rig_pump(g);
	fds_before = rig_open_fds();
	sock = rig_connect(g, 0);
	return 0;
}

static int teardown(void **state)
{
	if (sock >= 0)
		close(sock);
	if (asked.sock >= 0)
		close(asked.sock);
	rig_fds(g, fds_before);
	return call_teardown(state);
}

static struct container_ctl *ct(void)
{
	return g->c[0]->ctl;
}

static const struct session *ses(void)
{
	return LIST_FIRST(&g->c[0]->sessions);
}

static void say_hello_by(int by)
{
	struct {
		struct ff_hdr h;
		struct ff_hello_req req;
	} m = { { FF_PROTO_MAGIC, FF_MSG_HELLO, 7, 0, 0, 2 },
		{ FF_PROTO_VERSION, FF_PROTO_VERSION, "test", { 0 } } };
	struct ctl_conn *conn;

	TAILQ_FOREACH(conn, &g->ctl.conns, entry)
		conn->peer.proven = true; /* by the kernel, from Linux 6.5 on */
	assert_int_equal(hello_send(by, &m, sizeof(m)), sizeof(m));
	rig_pump(g);
}

static void say_hello(void)
{
	say_hello_by(sock);
}

/* The status of HELLO, or -EAGAIN: there is none yet. What comes with it is closed. */
static int answered(void)
{
	struct {
		struct ff_hdr h;
		struct ff_hello_resp resp;
	} m;
	int fds[RIG_MAX_FDS];
	unsigned n;
	ssize_t len;

	rig_pump(g);
	len = fds_recv(sock, &m, sizeof(m), fds, RIG_MAX_FDS, &n, MSG_DONTWAIT);
	if (len < 0)
		return -errno;
	assert_int_equal(len, sizeof(m));
	assert_int_equal(m.h.type, FF_MSG_HELLO);
	assert_int_equal(m.h.seq, 7);
	assert_int_equal(m.h.n_fds, n);
	while (n)
		close(fds[--n]);
	return m.h.status;
}

static void keeper_says(int err, bool outside, const char *why)
{
	struct keeper_added a = { .err = err, .outside = outside, .cpu_ns = CPU_NS };

	snprintf(a.why, sizeof(a.why), "%s", why);
	assert_true(asked.sock >= 0);
	assert_int_equal(send(asked.sock, &a, sizeof(a), 0), sizeof(a));
	close(asked.sock);
	asked.sock = -1;
}

static void only_who_says_it_waits(void **state)
{
	(void)state;
	say_hello();
	assert_int_equal(answered(), -EAGAIN);
	assert_null(ses());
	assert_string_equal(asked.cgroup, "");
	keeper_says(0, false, "");
	assert_int_equal(answered(), 0);
	assert_non_null(ses());
	assert_int_equal(ses()->mem.keeper_id, ID);
	assert_int_equal(ct()->num_silent, 0);
	assert_int_equal(ct()->num_hellos, 0);
	assert_true(g->c[0]->cpu.ctl_ns >= CPU_NS);
	assert_int_equal(ct()->heard.opened, 1);
	call_pd(g, sock);
}

static void who_is_refused_may_try_again(void **state)
{
	(void)state;
	say_hello();
	keeper_says(-EPERM, false, "its descriptors are not of procfs");
	assert_int_equal(answered(), -EPERM);
	assert_int_equal(ct()->heard.refused, 1);
	assert_int_equal(asked.known, 0);
	assert_int_equal(ct()->num_silent, 1);
	/* the keeper has ended */
	say_hello();
	close(asked.sock);
	asked.sock = -1;
	assert_int_equal(answered(), -EPIPE);
	assert_int_equal(asked.known, 0);
	/* or has too many to look at: that is not what a client without a proof is told */
	asked.err = -EAGAIN;
	say_hello();
	assert_int_equal(answered(), -EBUSY);
	asked.err = 0;
	say_hello();
	keeper_says(0, false, "");
	assert_int_equal(answered(), 0);
}

/* A host that is cut off tells programs so: that is no fault of theirs. */
static void a_fence_is_told(void **state)
{
	(void)state;
	containers_fence(&g->ctl, true);
	assert_true(rig_is_closed(g, sock)); /* it was there before */
	close(sock);
	sock = rig_connect(g, 0);
	say_hello();
	assert_int_equal(answered(), -ENETDOWN);
	assert_int_equal(asked.known, 0);
	assert_int_equal(ct()->heard.refused, 0);
	containers_fence(&g->ctl, false);
	say_hello();
	keeper_says(0, false, "");
	assert_int_equal(answered(), 0);
}

/* It counts as a connection until the keeper is done with it. */
static void who_goes_meanwhile_counts(void **state)
{
	(void)state;
	say_hello();
	close(sock);
	sock = -1;
	rig_pump(g);
	assert_int_equal(rig_conns(ct()), 1);
	assert_int_equal(ct()->num_silent, 1);
	assert_int_equal(asked.known, 1);
	keeper_says(0, false, "");
	rig_pump(g);
	assert_null(ses());
	assert_int_equal(rig_conns(ct()), 0);
	assert_int_equal(ct()->num_silent, 0);
	assert_int_equal(ct()->heard.opened + ct()->heard.refused, 0);
	assert_int_equal(asked.known, 0);
	rig_fds(g, fds_before);
}

static void a_container_that_goes_waits_for_nobody(void **state)
{
	struct keeper_added a = { 0 };

	(void)state;
	say_hello();
	close(sock);
	sock = -1;
	rig_pump(g);
	container_detach(g->c[0]);
	g->c[0] = NULL;
	assert_true(TAILQ_EMPTY(&g->ctl.conns));
	assert_int_equal(asked.known, 0);
	rig_pump(g);
	assert_true(send(asked.sock, &a, sizeof(a), MSG_NOSIGNAL) < 0); /* nobody is there */
}

/* Who is said to be in the container's cgroup was looked for in the one that it has now. */
static void a_cgroup_that_was_told_meanwhile_is_asked_about(void **state)
{
	(void)state;
	assert_int_equal(container_cgroup_tell(g->c[0], "/docker/old"), 0);
	say_hello();
	assert_string_equal(asked.cgroup, "/docker/old");
	assert_int_equal(container_cgroup_tell(g->c[0], "/docker/new"), 0);
	keeper_says(0, false, "");
	assert_int_equal(answered(), -EAGAIN);
	assert_null(ses());
	assert_string_equal(asked.cgroup, "/docker/new");
	assert_int_equal(asked.known, 1);
	keeper_says(-EACCES, true, "");
	assert_int_equal(answered(), -EACCES);
	assert_int_equal(g->c[0]->stats.cgroup_refused, 1);
	assert_int_equal(asked.known, 0);
	say_hello();
	keeper_says(0, false, "");
	assert_int_equal(answered(), 0);
	assert_int_equal(container_cgroup_tell(g->c[0], NULL), 0);
}

/* The time in which HELLO must have come is over when it has come. */
static void who_waits_for_the_keeper_is_not_silent(void **state)
{
	const struct ctl_conn *conn = TAILQ_FIRST(&g->ctl.conns);
	uint64_t patience = ctl_hello_patience;

	(void)state;
	assert_true(uv_is_active((const uv_handle_t *)&conn->hello));
	say_hello();
	assert_false(uv_is_active((const uv_handle_t *)&conn->hello));
	ctl_hello_patience = 1;
	keeper_says(-EPERM, false, "it is another one");
	assert_int_equal(answered(), -EPERM);
	while (!rig_is_closed(g, sock)) /* it had its time once more */
		usleep(1000);
	ctl_hello_patience = patience;
}

/* However many a container has, the keeper looks at so many at a time; others have their own. */
static void the_keeper_is_asked_for_some_at_a_time(void **state)
{
	enum { MANY = CTL_HELLOS + 2 };
	int s[MANY], keeper[MANY], n = 0;

	(void)state;
	asked.many = true;
	for (int i = 0; i < MANY; i++) {
		s[i] = rig_connect(g, 0);
		asked.sock = -1;
		say_hello_by(s[i]);
		while (i < (int)CTL_HELLOS && asked.sock < 0) /* in the container's next turn */
			rig_pump(g);
		if (asked.sock >= 0)
			keeper[n++] = asked.sock;
	}
	assert_int_equal(n, CTL_HELLOS);
	assert_int_equal(ct()->num_hellos, CTL_HELLOS);
	asked.sock = -1;
	say_hello_by(sock); /* they are one container */
	assert_int_equal(asked.sock, -1);
	close(sock);
	sock = rig_connect(g, 1);
	say_hello_by(sock);
	while (asked.sock < 0)
		rig_pump(g);
	close(asked.sock);
	asked.sock = -1;
	close(keeper[0]);
	while (asked.sock < 0) /* there is room for the next one */
		uv_run(&g->loop, UV_RUN_ONCE);
	close(asked.sock);
	asked.sock = -1;
	for (int i = 0; i < MANY; i++)
		close(s[i]);
	for (int i = 1; i < n; i++)
		close(keeper[i]);
	asked.many = false;
	asked.err = -EBUSY; /* for the one that waits still */
	rig_pump(g);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

	return UNIT_RUN(T(only_who_says_it_waits), T(who_is_refused_may_try_again),
			T(a_fence_is_told), T(who_goes_meanwhile_counts),
			T(a_container_that_goes_waits_for_nobody),
			T(a_cgroup_that_was_told_meanwhile_is_asked_about),
			T(who_waits_for_the_keeper_is_not_silent),
			T(the_keeper_is_asked_for_some_at_a_time));
}
