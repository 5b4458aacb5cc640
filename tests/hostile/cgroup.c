/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/* timeout: 300 */
/*
 * cgroup.c - processes that reach the socket of a container whose cgroup the router knows, and are not
 * in it, or not always. cgroup.sh starts it in that cgroup, whose folder is in $FF_CGROUP; the victim is
 * in it, too.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/common/hello.h"
#include "tests/rig/verbs/raw.h"

#define FLOOD	 2000
#define DEEP	 20u /* folders within each other, with the longest names: no path is so long */
#define NAME_LEN 255u

static const char *own; /* the container's cgroup */

/* This process is in that cgroup from now on. */
static void move_to(const char *folder)
{
	char path[1024];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		FAIL("%s: %s", path, strerror(errno));
	close(fd);
}

/* One beside the container's, of that name with more behind it: "" is the one above both. */
static void move_beside(const char *more)
{
	char path[512];

	if (*more)
		snprintf(path, sizeof(path), "%s%s", own, more);
	else
		snprintf(path, sizeof(path), "%s/..", own);
	move_to(path);
}

static void victim_in(void)
{
	own = getenv("FF_CGROUP");
	if (!own)
		vt_skip("cgroup.sh runs it, in a cgroup that the router knows");
	victim_start();
}

/* Says HELLO: the status, or RAW_CLOSED. */
static int hello(struct raw *r)
{
	struct {
		struct ff_hdr hdr;
		struct ff_hello_resp resp;
	} a;
	unsigned n_fds = 0;
	int fds[8], st;

	for (int i = 0; i < 2; i++) {
		WAIT_FOR(raw_hello(r) || errno != ETOOMANYREFS);
		if (raw_recv(r, &a, sizeof(a), fds, &n_fds) != sizeof(a))
			return RAW_CLOSED;
		while (n_fds)
			close(fds[--n_fds]);
		if (a.hdr.status == -EAGAIN) { /* before Linux 6.5 */
			struct ff_challenge_resp answer;

			st = RAW_TRY(r, CHALLENGE, &(struct ff_challenge_req){ 0 }, &answer);
			if (st)
				return st;
			memcpy(r->nonce, answer.nonce, sizeof(r->nonce));
			continue;
		}
		return a.hdr.status;
	}
	return -EAGAIN;
}

static int connect_and_say(void)
{
	struct raw r;
	int st;

	raw_connect(&r);
	st = hello(&r);
	raw_close(&r);
	return st;
}

/* Runs f in a process of its own, which must end well. */
static void in_child(void (*f)(void))
{
	pid_t pid = fork();
	int st;

	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		f();
		_exit(0);
	}
	CHECK(waitpid(pid, &st, 0) == pid);
	CHECK(WIFEXITED(st) && WEXITSTATUS(st) == 0);
}

/* ---- others ------------------------------------------------------------------------------------ */

static void is_above(void)
{
	CHECK_EQ(connect_and_say(), 0);
	move_beside("");
	CHECK_EQ(connect_and_say(), -EACCES);
}

static void is_a_sibling(void)
{
	move_beside("x");
	CHECK_EQ(connect_and_say(), -EACCES);
	move_beside("x/inner");
	CHECK_EQ(connect_and_say(), -EACCES);
}

static void is_below(void)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/inner", own);
	move_to(path);
	CHECK_EQ(connect_and_say(), 0);
}

static void others(void)
{
	victim_in();
	in_child(is_above);
	in_child(is_a_sibling);
	in_child(is_below);
	victim_stop();
	raw_router_serves();
}

/* What is promised is about HELLO: who may move into the cgroup gets in, and who leaves it keeps what it has. */
static void moves(void)
{
	struct ff_query_port_resp port;
	struct raw r, second;

	raw_connect(&r);
	move_beside("x");
	CHECK_EQ(hello(&r), -EACCES);
	move_to(own);
	CHECK_EQ(hello(&r), 0);
	raw_at(&r, 0, 0);
	move_beside("x");
	RAW_CALL(&r, QUERY_PORT, (&(struct ff_query_port_req){ .port = 1 }), &port);
	raw_connect(&second);
	CHECK_EQ(hello(&second), -EACCES);
	raw_close(&second);
	raw_close(&r);
}

static void who_moves(void)
{
	victim_in();
	in_child(moves);
	victim_stop();
}

/* ---- sockets of others -------------------------------------------------------------------------- */

/* An outsider connected, and its child, which is an insider, speaks. */
static void outsiders_socket(void)
{
	struct raw r;
	int st;
	pid_t pid;

	move_beside("x");
	raw_connect(&r);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		move_to(own);
		st = hello(&r);
		_exit(st == -EACCES || st == -EPERM || st == RAW_CLOSED ? 0 : 1);
	}
	CHECK(waitpid(pid, &st, 0) == pid);
	CHECK(WIFEXITED(st) && WEXITSTATUS(st) == 0);
	raw_close(&r);
}

/* An insider connected, and its child, which is an outsider, speaks: while the insider lives, and after its end. */
static void insiders_socket(void)
{
	int tell[2], st;
	pid_t pid, child;
	char c;

	CHECK(!pipe(tell));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		struct raw r;

		raw_connect(&r);
		child = fork();
		CHECK(child >= 0);
		if (child)
			_exit(0);
		move_beside("x");
		WAIT_FOR(getppid() != pid); /* whoever is it now */
		st = hello(&r);
		c = st == RAW_CLOSED || st < 0;
		CHECK_EQ(write(tell[1], &c, 1), 1);
		_exit(0);
	}
	close(tell[1]);
	CHECK(waitpid(pid, &st, 0) == pid);
	CHECK_EQ(read(tell[0], &c, 1), 1);
	CHECK(c);
	close(tell[0]);
}

static void sockets_of_others(void)
{
	victim_in();
	in_child(outsiders_socket);
	in_child(insiders_socket);
	victim_stop();
	raw_router_serves();
}

/* ---- long paths, and many ------------------------------------------------------------------------ */

/*
 * So deep that the kernel does not show all of where it is, or nothing: who is in the cgroup may be let in,
 * others are not.
 */
static void is_deep_in(const char *folder, bool may)
{
	char name[NAME_LEN + 1], inner[16];
	int dir = open(folder, O_DIRECTORY | O_CLOEXEC), fd[DEEP + 1], depth = 0, procs, st;

	memset(name, 'x', NAME_LEN);
	name[NAME_LEN] = '\0';
	CHECK(dir >= 0);
	fd[0] = dir;
	while (depth < (int)DEEP && !mkdirat(fd[depth], name, 0755)) {
		fd[depth + 1] = openat(fd[depth], name, O_DIRECTORY | O_CLOEXEC);
		CHECK(fd[depth + 1] >= 0);
		depth++;
	}
	procs = openat(fd[depth], "cgroup.procs", O_WRONLY | O_CLOEXEC);
	snprintf(inner, sizeof(inner), "%d", (int)getpid());
	st = -EACCES;
	if (depth == (int)DEEP && procs >= 0 && write(procs, inner, strlen(inner)) > 0)
		st = connect_and_say();
	else
		printf("no %u cgroups within each other here: %s\n", DEEP, strerror(errno));
	move_to(own);
	for (; depth; depth--)
		WAIT_FOR(!unlinkat(fd[depth - 1], name, AT_REMOVEDIR) || errno == ENOENT);
	CHECK(st == -EACCES || (may && !st));
	CHECK_EQ(connect_and_say(), 0);
}

static void is_deep(void)
{
	char beside[512];

	snprintf(beside, sizeof(beside), "%sx", own);
	is_deep_in(own, true);
	is_deep_in(beside, false);
}

static void is_many(void)
{
	move_beside("x");
	for (int i = 0; i < FLOOD; i++)
		CHECK_EQ(connect_and_say(), -EACCES);
}

static void long_paths(void)
{
	victim_in();
	in_child(is_deep);
	victim_stop();
}

static void flood(void)
{
	victim_in();
	in_child(is_many);
	victim_check();
	victim_stop();
	raw_router_serves();
}

VT_MAIN({ "cgroup_others", others, 0 }, { "cgroup_who_moves", who_moves, 0 },
	{ "cgroup_sockets_of_others", sockets_of_others, 0 },
	{ "cgroup_long_paths", long_paths, 0 }, { "cgroup_flood", flood, 0 })
