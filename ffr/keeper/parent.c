/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * parent.c - the first process of a router: starts the keeper, and the router, and the router once more
 * when it has died. Called by main.c; one thread.
 *
 * It has all rights that ffr was started with, since each router gives up its own ones for good; so it
 * listens to nobody. It knows of the two others what wait() tells, and has two signals for them. The
 * keeper goes on while a router is started again, with the sockets that containers connect to: who
 * comes meanwhile waits there. Each router is a program run anew, in an address space of its own: what
 * an attacker has learnt from one that died is of no use with the next.
 *
 * Tests: system/sandbox.sh, system/stuck.sh
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"
#include "ffr/keeper/keeper.h"

#define KEEPER_ENV "FFR_KEEPER" /* the number of the router's end of the socket */
/* One that did not live so long will not do so the next time either: that is the service manager's. */
#define TOO_SOON_S 2

struct children {
	pid_t keeper, router; /* 0: not there */
	time_t since;	      /* s: when the router was started */
	int status;	      /* of the last router, as wait() tells */
	bool stopping;
};

static time_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

int keeper_of_parent(void)
{
	const char *s = getenv(KEEPER_ENV);
	int fd = s ? atoi(s) : -1;

	unsetenv(KEEPER_ENV);
	return fd > STDERR_FILENO && !fcntl(fd, F_SETFD, FD_CLOEXEC) ? fd : -1;
}

/* In the child. What a service manager passes on is meant for the process of that number. */
static void router_exec(char **argv, int sock, const sigset_t *mask)
{
	static const char *const names[] = { "LISTEN_PID", "WATCHDOG_PID" };
	char number[16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *pid = getenv(names[i]);

		if (!pid || atoi(pid) != getppid())
			continue;
		snprintf(number, sizeof(number), "%d", getpid());
		setenv(names[i], number, 1);
	}
	snprintf(number, sizeof(number), "%d", sock);
	setenv(KEEPER_ENV, number, 1);
	fcntl(sock, F_SETFD, 0);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execv("/proc/self/exe", argv);
	log_err("the router cannot be started: %m");
	_exit(EXIT_FAILURE);
}

static int router_start(struct children *c, char **argv, int sock, const sigset_t *mask)
{
	c->since = seconds();
	c->router = fork();
	if (!c->router)
		router_exec(argv, sock, mask);
	if (c->router > 0)
		return 0;
	c->router = 0;
	log_err("the router cannot be started: %m");
	return -errno;
}

static void router_stop(struct children *c)
{
	c->stopping = true;
	if (c->router)
		kill(c->router, SIGTERM);
}

/* All that have ended by now. */
static void reap(struct children *c)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == c->router) {
			c->router = 0;
			c->status = status;
		} else if (pid == c->keeper) {
			c->keeper = 0;
			router_stop(c); /* which sees it, too, and tells the log */
		}
	}
}

/* The router has ended: is there to be another one? The log tells why, or why not. */
static bool is_to_live(const struct children *c)
{
	bool signaled = WIFSIGNALED(c->status);
	bool soon = seconds() - c->since < TOO_SOON_S;
	const char *next = soon ? "so soon after its start that it is not started again" :
				  "starting it again";

	if (c->stopping || (!signaled && (WEXITSTATUS(c->status) == EXIT_SUCCESS ||
					  WEXITSTATUS(c->status) == SANDBOX_EXIT)))
		return false;
	if (signaled)
		log_err("the router was ended by signal %d (%s): %s", WTERMSIG(c->status),
			strsignal(WTERMSIG(c->status)), next);
	else
		log_err("the router has ended with status %d: %s", WEXITSTATUS(c->status), next);
	return !soon;
}

int parent_run(const struct sandbox_conf *conf, char **argv)
{
	struct children c = { 0 };
	sigset_t mine, before;
	int sock;

	sigemptyset(&mine);
	sigaddset(&mine, SIGTERM);
	sigaddset(&mine, SIGINT);
	sigaddset(&mine, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mine, &before);
	c.keeper = keeper_start(conf, &sock);
	if (c.keeper < 0 || router_start(&c, argv, sock, &before))
		return EXIT_FAILURE;
	for (;;) {
		int sig = sigwaitinfo(&mine, NULL);

		if (sig == SIGTERM || sig == SIGINT)
			router_stop(&c);
		if (sig == SIGCHLD)
			reap(&c);
		if (c.router)
			continue;
		if (!is_to_live(&c))
			break;
		if (router_start(&c, argv, sock, &before))
			break;
	}
	/* the keeper ends with the sockets' last holder, this process */
	return WIFSIGNALED(c.status) ? 128 + WTERMSIG(c.status) : WEXITSTATUS(c.status);
}
