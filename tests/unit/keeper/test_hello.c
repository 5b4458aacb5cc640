/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c @lib @keeper @obj @mem @fast ffr/fast/pvm.c ffr/fast/roles.c @peer @dir @wire @soft @remote @ctl @cm ffr/conf.c @ffo_tls ffo/base/limits.c ffo/base/limits_text.c ffo/base/proto.c -Wl,--wrap=getsockopt */
/*
 * test_hello.c - ffr/keeper/hello.c: who may say HELLO, with what for its memory. Clients here are
 * processes of their own; with and without SO_PEERPIDFD.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/rig/common/hello.h"
#include "tests/rig/unit/ctl_calls.h"

#define SO_PEERPIDFD 77

static struct ctl_rig *const g = &call_rig;
static bool old_kernel; /* it gives no pidfd of a socket's peer */

int __real_getsockopt(int s, int level, int name, void *v, socklen_t *len);
int __wrap_getsockopt(int s, int level, int name, void *v, socklen_t *len);
int __wrap_getsockopt(int s, int level, int name, void *v, socklen_t *len)
{
	if (old_kernel && level == SOL_SOCKET && name == SO_PEERPIDFD) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return __real_getsockopt(s, level, name, v, len);
}

static struct container_ctl *ctl(void)
{
	return g->c[0]->ctl;
}

static int dial(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/containers/a/ffr.sock", g->dir);
	if (s < 0 || connect(s, (struct sockaddr *)&sun, sizeof(sun)))
		abort();
	return s;
}

static ssize_t say_hello(int s, const uint8_t nonce[FF_NONCE_SZ], const int fd[2])
{
	struct {
		struct ff_hdr h;
		struct ff_hello_req req;
	} m = { { .magic = FF_PROTO_MAGIC, .type = FF_MSG_HELLO, .n_fds = 2 },
		{ FF_PROTO_VERSION, FF_PROTO_VERSION, "peer", { 0 } } };

	if (nonce)
		memcpy(m.req.nonce, nonce, FF_NONCE_SZ);
	return fd ? hello_send_fds(s, &m, sizeof(m), fd) : hello_send(s, &m, sizeof(m));
}

/* Status of the next answer that comes to s, in a process that only waits for it. */
static int answer(int s, void *body, size_t size)
{
	struct {
		struct ff_hdr h;
		uint8_t body[CTL_RESP_MAX];
	} a;
	ssize_t n = recv(s, &a, sizeof(a), 0);

	if (n < (ssize_t)sizeof(a.h))
		return RIG_CLOSED;
	if (body)
		memcpy(body, a.body, size);
	return a.h.status;
}

static int ask_nonce(int s, uint8_t nonce[FF_NONCE_SZ])
{
	struct {
		struct ff_hdr h;
		struct ff_challenge_req req;
	} m = { { .magic = FF_PROTO_MAGIC, .type = FF_MSG_CHALLENGE }, { 0 } };

	if (send(s, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m))
		return RIG_CLOSED;
	return answer(s, nonce, FF_NONCE_SZ);
}

/* As a library says it; fd NULL: with its own memory. */
static int greet_with(int s, const int fd[2])
{
	uint8_t nonce[FF_NONCE_SZ];
	int st;

	say_hello(s, NULL, fd);
	st = answer(s, NULL, 0);
	if (st != -EAGAIN)
		return st;
	st = ask_nonce(s, nonce);
	if (st)
		return st;
	say_hello(s, nonce, fd);
	return answer(s, NULL, 0);
}

static int greet(int s)
{
	return greet_with(s, NULL);
}

/* What a case's process finds out, and when it may go on. */
static struct shared {
	_Atomic int status, step;
} * sh;

static int setup(void **state)
{
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return sh == MAP_FAILED ? -1 : call_setup(state);
}

static int teardown(void **state)
{
	old_kernel = false;
	munmap(sh, sizeof(*sh));
	return call_teardown(state);
}

/* The control thread works until the process has ended; its exit status. */
static int until_end(pid_t pid)
{
	int st;

	while (!waitpid(pid, &st, WNOHANG))
		uv_run(&g->loop, UV_RUN_NOWAIT);
	rig_pump(g);
	return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + st;
}

static pid_t client(int (*main)(void *), void *arg)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(60);
	_exit(main(arg));
}

/* ---- who --------------------------------------------------------------------------------------- */

static int greets(void *arg)
{
	int want = *(int *)arg, st = greet(dial());

	if (st != want)
		fprintf(stderr, "HELLO: %d, not %d\n", st, want);
	return st != want;
}

static void a_process_is_known_by_its_socket(void **state)
{
	int want = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		old_kernel = i;
		assert_int_equal(until_end(client(greets, &want)), 0);
		assert_int_equal(rig_conns(ctl()), 0);
	}
}

/* One connects and ends, its child has the socket: who says HELLO is not who connected. */
static int hands_its_socket_on(void *arg)
{
	int s = dial();

	(void)arg;
	if (fork())
		return 0;
	while (sh->step < 1)
		usleep(1000);
	sh->status = greet(s);
	sh->step = 2;
	return 0;
}

static void an_heir_of_a_socket_is_nobody(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		pid_t pid;
		int st;

		old_kernel = i;
		sh->step = 0;
		pid = client(hands_its_socket_on, NULL);
		assert_int_equal(waitpid(pid, &st, 0),
				 pid); /* it is gone before the router looks */
		sh->step = 1;
		while (sh->step < 2)
			uv_run(&g->loop, UV_RUN_NOWAIT);
		assert_true(sh->status == RIG_CLOSED || sh->status == -ESRCH);
		rig_pump(g);
		assert_int_equal(rig_conns(ctl()), 0);
	}
}

/* The one who connected lives, but its child speaks. */
static int lets_its_child_speak(void *arg)
{
	int s = dial(), st;
	pid_t pid = fork();

	(void)arg;
	if (!pid)
		_exit(greet(s) != -EPERM);
	if (waitpid(pid, &st, 0) != pid || st)
		return 1;
	return greet(s) != 0; /* and itself afterwards */
}

static void who_connected_must_speak(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		old_kernel = i;
		assert_int_equal(until_end(client(lets_its_child_speak, NULL)), 0);
	}
}

/* Without a pidfd of the socket's: no nonce, an invented one, one of another connection. */
static int guesses(void *arg)
{
	uint8_t none[FF_NONCE_SZ] = { 0 }, other[FF_NONCE_SZ], own[FF_NONCE_SZ];
	int s = dial(), t = dial();

	(void)arg;
	for (int i = 0; i < 2; i++) {
		say_hello(s, none, NULL);
		if (answer(s, NULL, 0) != -EAGAIN)
			return 1;
	}
	if (ask_nonce(t, other) || ask_nonce(s, own) || !memcmp(own, other, sizeof(own)))
		return 2;
	say_hello(s, none, NULL);
	if (answer(s, NULL, 0) != -EAGAIN)
		return 3;
	say_hello(s, other, NULL);
	if (answer(s, NULL, 0) != -EAGAIN)
		return 4;
	say_hello(s, own, NULL);
	return answer(s, NULL, 0) ? 5 : 0;
}

/* The kernel's word who has sent it, whatever memory comes along. */
static void who_shows_the_nonce_must_be_the_peer(void **state)
{
	struct ctl_peer peer = { .pid = getpid(),
				 .pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0) };
	uint8_t none[FF_NONCE_SZ] = { 0 };

	(void)state;
	assert_int_equal(ctl_peer_prove(&peer, none, getpid()), -EAGAIN);
	assert_int_equal(ctl_peer_ask(&peer), 0);
	assert_int_equal(ctl_peer_prove(&peer, none, getpid()), -EAGAIN);
	assert_int_equal(ctl_peer_prove(&peer, peer.nonce, getppid()), -EPERM);
	assert_int_equal(ctl_peer_prove(&peer, peer.nonce, 0), -EPERM);
	assert_false(peer.proven);
	assert_int_equal(ctl_peer_prove(&peer, peer.nonce, getpid()), 0);
	assert_true(peer.proven);
	close(peer.pidfd);
	assert_int_equal(ctl_peer_prove(&peer, none, 0), -ESRCH);
}

static void a_nonce_must_be_shown(void **state)
{
	(void)state;
	old_kernel = true;
	assert_int_equal(until_end(client(guesses, NULL)), 0);
}

/* ---- its memory ----------------------------------------------------------------------------------- */

enum { MEM, MAPS };
struct offer {
	const char *path[2];
	int flags[2];
	int status; /* that HELLO is to be answered with */
};

static int offers(void *arg)
{
	const struct offer *o = arg;
	int s = dial(), fd[2], st;

	for (int i = 0; i < 2; i++) {
		fd[i] = open(o->path[i], o->flags[i] | O_CLOEXEC);
		if (fd[i] < 0)
			return 2;
	}
	st = greet_with(s, fd);
	if (st != o->status)
		fprintf(stderr, "%s, %s: %d\n", o->path[0], o->path[1], st);
	return st != o->status;
}

static void memory_is_looked_at(void **state)
{
	char name[64], mem[80], maps[80], of_parent[64], maps_of_parent[64];
	const struct offer all[] = {
		{ { "/proc/self/mem", "/proc/self/maps" }, { O_RDWR, O_RDONLY }, 0 },
		/* not as they must be open */
		{ { "/proc/self/mem", "/proc/self/maps" }, { O_RDONLY, O_RDONLY }, -EPERM },
		{ { "/proc/self/mem", "/proc/self/maps" }, { O_WRONLY, O_RDONLY }, -EPERM },
		{ { "/proc/self/mem", "/proc/self/maps" }, { O_PATH, O_RDONLY }, -EPERM },
		{ { "/proc/self/mem", "/proc/self/maps" }, { O_RDWR, O_PATH }, -EPERM },
		/* other files, of procfs and elsewhere, of the same names and not */
		{ { "/proc/self/maps", "/proc/self/maps" }, { O_RDONLY, O_RDONLY }, -EPERM },
		{ { "/proc/self/mem", "/proc/self/mem" }, { O_RDWR, O_RDONLY }, -EPERM },
		{ { "/proc/self/mem", "/proc/self/smaps" }, { O_RDWR, O_RDONLY }, -EPERM },
		{ { "/proc/self/oom_score_adj", "/proc/self/maps" }, { O_RDWR, O_RDONLY }, -EPERM },
		{ { "/proc/self/comm", "/proc/self/maps" }, { O_RDWR, O_RDONLY }, -EPERM },
		{ { "/dev/null", "/proc/self/maps" }, { O_RDWR, O_RDONLY }, -EPERM },
		{ { "/dev/null", "/dev/null" }, { O_RDWR, O_RDONLY }, -EPERM },
		{ { mem, maps }, { O_RDWR, O_RDONLY }, -EPERM },
		{ { mem, "/proc/self/maps" }, { O_RDWR, O_RDONLY }, -EPERM },
		/* another process's, which it could open */
		{ { of_parent, "/proc/self/maps" }, { O_RDWR, O_RDONLY }, -EPERM },
		{ { "/proc/self/mem", maps_of_parent }, { O_RDWR, O_RDONLY }, -EPERM },
		{ { of_parent, maps_of_parent }, { O_RDWR, O_RDONLY }, -EPERM },
	};

	(void)state;
	/* a path that ends as it should, on another file system */
	snprintf(of_parent, sizeof(of_parent), "/proc/%d/mem", (int)getpid());
	snprintf(maps_of_parent, sizeof(maps_of_parent), "/proc/%d/maps", (int)getpid());
	snprintf(name, sizeof(name), "%s/4711", g->dir);
	snprintf(mem, sizeof(mem), "%s/mem", name);
	snprintf(maps, sizeof(maps), "%s/maps", name);
	assert_int_equal(mkdir(name, 0700), 0);
	close(open(mem, O_CREAT | O_RDWR, 0600));
	close(open(maps, O_CREAT | O_RDWR, 0600));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		assert_int_equal(until_end(client(offers, (void *)&all[i])), 0);
	unlink(mem);
	unlink(maps);
	rmdir(name);
}

/* Empty files of the right names, in a folder that has the client's own number. */
static int offers_files_of_its_own(void *arg)
{
	char dir[64], mem[80], maps[80];
	int s = dial(), fd[2], st;

	(void)arg;
	snprintf(dir, sizeof(dir), "%s/%d", g->dir, (int)getpid());
	snprintf(mem, sizeof(mem), "%s/mem", dir);
	snprintf(maps, sizeof(maps), "%s/maps", dir);
	if (mkdir(dir, 0700))
		return 2;
	close(open(maps, O_CREAT | O_RDWR, 0600));
	fd[MEM] = open(mem, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	fd[MAPS] = open(maps, O_RDONLY | O_CLOEXEC);
	st = greet_with(s, fd);
	unlink(mem);
	unlink(maps);
	rmdir(dir);
	return st != -EPERM;
}

static void only_procfs_has_memory(void **state)
{
	(void)state;
	assert_int_equal(until_end(client(offers_files_of_its_own, NULL)), 0);
}

/* A pipe, a socket, an eventfd, a memfd and the connection itself, in either place. */
static int offers_anything(void *arg)
{
	int s = dial(), other[6], p[2], own[2];

	(void)arg;
	hello_memory(own);
	if (pipe(p))
		return 2;
	other[0] = p[0];
	other[1] = p[1];
	other[2] = eventfd(0, 0);
	other[3] = memfd_create("mem", 0);
	other[4] = s;
	other[5] = socket(AF_UNIX, SOCK_STREAM, 0);
	for (int i = 0; i < 6; i++)
		for (int at = 0; at < 2; at++) {
			int fd[2] = { own[0], own[1] };

			fd[at] = other[i];
			if (greet_with(s, fd) != -EPERM)
				return 3;
		}
	return greet_with(s, own) ? 4 : 0;
}

static void descriptors_of_any_kind(void **state)
{
	(void)state;
	assert_int_equal(until_end(client(offers_anything, NULL)), 0);
}

/* Nothing can be reached through it then, whoever has the number. */
static void memory_ends_with_its_process(void **state)
{
	char path[32];
	uint8_t byte;
	pid_t pid;
	int mem, st;

	(void)state;
	pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	mem = open(path, O_RDWR | O_CLOEXEC);
	assert_true(mem >= 0);
	assert_int_equal(pread(mem, &byte, 1, (off_t)(uintptr_t)&call_rig), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(pread(mem, &byte, 1, (off_t)(uintptr_t)&call_rig), 0);
	close(mem);
}

#define PEER_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PEER_TEST(a_process_is_known_by_its_socket),
		PEER_TEST(an_heir_of_a_socket_is_nobody),
		PEER_TEST(who_connected_must_speak),
		PEER_TEST(who_shows_the_nonce_must_be_the_peer),
		PEER_TEST(a_nonce_must_be_shown),
		PEER_TEST(memory_is_looked_at),
		PEER_TEST(only_procfs_has_memory),
		PEER_TEST(descriptors_of_any_kind),
		PEER_TEST(memory_ends_with_its_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
