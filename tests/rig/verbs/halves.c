/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* halves.c - see halves.h. */
#include "tests/rig/verbs/halves.h"

#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT_DEFAULT "18600"
#define NAME_MAX_LEN 64

int halves_sock = -1;

static const char *program;
static const struct half *halves;
static unsigned num_halves;
static const char *host, *port = PORT_DEFAULT;

/* ---- for the halves --------------------------------------------------------------------------- */

void halves_put(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			FAIL("the other half is gone: %s", strerror(errno));
		p += n;
		len -= (size_t)n;
	}
}

bool halves_get(int fd, void *data, size_t len)
{
	char *p = data;

	while (len) {
		ssize_t n = recv(fd, p, len, 0);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

void halves_exchange(const struct vt_addr *mine, struct vt_addr *theirs)
{
	halves_put(halves_sock, mine, sizeof(*mine));
	if (!halves_get(halves_sock, theirs, sizeof(*theirs)))
		FAIL("the other half is gone");
}

void halves_meet(char mark)
{
	char c = 0;

	halves_put(halves_sock, &mark, 1);
	if (!halves_get(halves_sock, &c, 1))
		FAIL("the other half is gone at '%c'", mark);
	CHECK_EQ(c, mark);
}

void halves_open(struct vt_end *e, const struct vt_param *par)
{
	struct vt_addr peer;

	vt_end_open(e, par);
	halves_exchange(&e->self, &peer);
	vt_connect(e, &peer);
	halves_meet('c');
}

/* ---- running them ---------------------------------------------------------------------------- */

static int dial(void)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;
	uint64_t until = vt_deadline();
	int err = getaddrinfo(host, port, &hints, &ai), fd;

	if (err)
		FAIL("%s: %s", host, gai_strerror(err));
	for (;;) { /* the server may be about to start */
		fd = socket(ai->ai_family, ai->ai_socktype, 0);
		CHECK(fd >= 0);
		if (!connect(fd, ai->ai_addr, ai->ai_addrlen))
			break;
		if (vt_now() > until)
			FAIL("connect to %s: %s", host, strerror(errno));
		close(fd);
		vt_pause();
	}
	freeaddrinfo(ai);
	return fd;
}

static void say_name(int fd, const char *name)
{
	char buf[NAME_MAX_LEN] = { 0 };

	strncpy(buf, name, sizeof(buf) - 1);
	halves_put(fd, buf, sizeof(buf));
}

static const struct half *half_of(const char *name)
{
	for (unsigned i = 0; i < num_halves; i++)
		if (!strcmp(name, halves[i].name))
			return &halves[i];
	return NULL;
}

/* The client's half of the case that runs, and, without a host, the server's beside it. */
static void run_client(void)
{
	const struct half *half = CHECK_PTR(half_of(vt_case_name()));
	int fds[2], status = 0;
	pid_t pid;

	if (host) {
		halves_sock = dial();
		say_name(halves_sock, half->name);
		half->client();
		return;
	}
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(fds[0]);
		halves_sock = fds[1];
		half->server();
		_exit(0);
	}
	close(fds[1]);
	halves_sock = fds[0];
	half->client();
	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status))
		CHECK_EQ(WEXITSTATUS(status), 0);
	else
		CHECK_EQ(WTERMSIG(status), SIGKILL); /* as asked for */
}

/* Serve one connection in a process of its own. False when the client is done. */
static bool serve_one(int fd)
{
	const struct half *half;
	char name[NAME_MAX_LEN];

	if (!halves_get(fd, name, sizeof(name)))
		return true;
	name[sizeof(name) - 1] = 0;
	if (!strcmp(name, "done"))
		return false;
	half = half_of(name);
	if (!half)
		return true;
	fflush(stdout);
	if (!fork()) {
		halves_sock = fd;
		alarm(60 * vt_slow());
		half->server();
		_exit(0);
	}
	return true;
}

static int serve(void)
{
	struct addrinfo hints = { .ai_family = AF_INET,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE },
			*ai;
	int one = 1, fd, status, bad = 0;
	bool more = true;

	if (getaddrinfo(NULL, port, &hints, &ai)) {
		fprintf(stderr, "%s: bad port %s\n", program, port);
		return 2;
	}
	fd = socket(ai->ai_family, ai->ai_socktype, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 8)) {
		perror(program);
		return 1;
	}
	freeaddrinfo(ai);
	while (more) {
		int conn = accept(fd, NULL, NULL);

		if (conn < 0)
			continue;
		more = serve_one(conn);
		close(conn);
	}
	while (wait(&status) > 0)
		if (WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) != SIGKILL)
			bad = 1;
	return bad;
}

int halves_main(int argc, char **argv, const struct half *list, unsigned num)
{
	struct vt_case *cases = calloc(num, sizeof(*cases));
	int ret, first = 1;

	CHECK(cases != NULL);
	for (unsigned i = 0; i < num; i++)
		cases[i] = (struct vt_case){ list[i].name, run_client, 0 };
	halves = list;
	num_halves = num;
	program = argv[0];
	if (argc >= 2 && !strcmp(argv[1], "--server")) {
		port = argc > 2 ? argv[2] : PORT_DEFAULT;
		return serve();
	}
	if (argc >= 3 && !strcmp(argv[1], "--client")) {
		host = argv[2];
		first = 3;
		if (argc >= 5 && !strcmp(argv[3], "--port")) {
			port = argv[4];
			first = 5;
		}
	}
	argv[first - 1] = argv[0];
	ret = vt_main(argc - first + 1, argv + first - 1, cases, num);
	if (host) {
		int fd = dial();

		say_name(fd, "done");
		close(fd);
	}
	free(cases);
	return ret;
}
