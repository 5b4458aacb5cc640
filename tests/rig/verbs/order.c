/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* order.c - see order.h. */
#include "tests/rig/verbs/order.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/verbs/vt.h"

/* The state of a task by its /proc/.../stat, '\0' when it is gone. It stands behind the name, which is in parentheses. */
static char task_state(const char *path)
{
	char line[512], *end;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return '\0';
	n = read(fd, line, sizeof(line) - 1);
	close(fd);
	line[n > 0 ? n : 0] = '\0';
	end = strrchr(line, ')');
	return end && end[1] ? end[2] : '\0';
}

/* ---- the order of answers --------------------------------------------------------------------------- */

static pid_t router(void)
{
	const char *pid = getenv("FF_ROUTER");

	CHECK(pid && atoi(pid) > 1);
	return (pid_t)atoi(pid);
}

static bool is_stopped(void)
{
	char path[64 + sizeof(((struct dirent *)0)->d_name)];
	bool stopped = true;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)router());
	d = opendir(path);
	CHECK(d);
	while (stopped && (e = readdir(d))) {
		char state;

		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)router(), e->d_name);
		state = *e->d_name == '.' ? 'T' : task_state(path);
		stopped = state == 'T' || !state;
	}
	closedir(d);
	return stopped;
}

/* A test that fails leaves the router running. */
static void go(void)
{
	kill(router(), SIGCONT);
}

void order_begin(struct order *o)
{
	static bool is_set;

	if (!is_set)
		CHECK(!atexit(go));
	is_set = true;
	o->num = 0;
	o->ep = epoll_create1(EPOLL_CLOEXEC);
	CHECK(o->ep >= 0);
	CHECK(!kill(router(), SIGSTOP));
	WAIT_FOR(is_stopped());
}

static unsigned add(struct order *o, int fd, bool is_taken)
{
	/* a descriptor of its own, so that a socket can be watched for both */
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct epoll_event e = { .events = EPOLLET | (is_taken ? EPOLLOUT : EPOLLIN),
				 .data.u32 = o->num };

	CHECK(own >= 0 && o->num < ORDER_MAX);
	o->thing[o->num].fd = own;
	o->thing[o->num].is_taken = is_taken;
	CHECK(!epoll_ctl(o->ep, EPOLL_CTL_ADD, own, &e));
	return o->num++;
}

unsigned order_answer(struct order *o, int fd)
{
	return add(o, fd, false);
}

unsigned order_taken(struct order *o, int fd)
{
	const int least = 1; /* the kernel makes it as small as it can: room for one request */

	CHECK(!setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)));
	return add(o, fd, true);
}

static bool is_done(const struct order *o, unsigned i)
{
	struct pollfd p = { .fd = o->thing[i].fd, .events = POLLIN };
	int unread = 0;

	if (!o->thing[i].is_taken)
		return poll(&p, 1, 0) == 1;
	CHECK(!ioctl(p.fd, SIOCOUTQ, &unread));
	return !unread;
}

void order_end(struct order *o, unsigned place[ORDER_MAX])
{
	struct epoll_event e[ORDER_MAX];

	(void)epoll_wait(o->ep, e, ORDER_MAX,
			 0); /* that there is room for more requests is no news */
	CHECK(is_stopped());
	go();
	for (unsigned i = 0; i < o->num; i++)
		WAIT_FOR(is_done(o, i));
	CHECK_EQ(epoll_wait(o->ep, e, ORDER_MAX, 0), o->num);
	for (unsigned i = 0; i < o->num; i++) {
		place[e[i].data.u32] = i;
		close(o->thing[i].fd);
	}
	close(o->ep);
}

/* ---- probes --------------------------------------------------------------------------------------------- */

void probe_start(struct probe *p, void (*step)(void *arg, uint64_t i), void *arg)
{
	pid_t pid;

	p->pid = 0;
	p->calls = 0;
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (uint64_t i = 0;; i++) {
			step(arg, i);
			p->calls++;
		}
	}
	p->pid = pid;
}

uint64_t probe_stuck(const struct probe *p)
{
	uint64_t calls = p->calls;
	char path[32];

	if (!p->pid)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)p->pid);
	return task_state(path) == 'D' && p->calls == calls ? calls + 1 : 0;
}

#define HOLDS_NS 200000u /* the kernel lets a writer spin for 25 us before it has the semaphore */

static uint64_t cpu_ns(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	CHECK(!clock_getcpuclockid(pid, &clock) && !clock_gettime(clock, &t));
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t probe_held(const struct probe *p, pid_t holder)
{
	uint64_t stuck = probe_stuck(p), from = cpu_ns(holder);

	while (stuck && probe_stuck(p) == stuck) {
		if (cpu_ns(holder) - from > HOLDS_NS)
			return probe_stuck(p) == stuck ? stuck : 0;
		vt_pause();
	}
	return 0;
}
