/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * parent.c - the first process of a router: starts the keeper and the router, and the router again when it has died.
 * Called by main.c, which has started the process for orphans (mem/orphans.c). One thread.
 *
 * The parent keeps all rights that ffr was started with, because each router gives its rights up for good. Therefore
 * the parent listens to nobody: it knows of keeper and router what wait() tells, and sends them two signals. The keeper
 * goes on while a router is started again, and holds the sockets that containers connect to, so that clients wait
 * there. Routers are forks of the nursery (nursery.c), a program run anew. After a crash the parent starts another
 * nursery: what an attacker has learnt from a router that he made crash is of no use against the next one.
 *
 * On SIGUSR2 the parent has the router end, and starts the next one: docs/internals/restart.md.
 *
 * The router cannot open the configuration once it is another user. So the parent reads the file, at the start and
 * after each SIGHUP. If the text has no mistake, the parent sends it, as one packet through a socket, to the running
 * router and to each later one. The parent never reads what the router sends.
 *
 * Tests: system/sandbox.sh, system/reload.sh, system/stuck.sh
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"
#include "ffr/keeper/keeper.h"

#define KEEPER_ENV "FFR_KEEPER" /* the number of the router's end of the socket to the keeper */
#define CONF_ENV   "FFR_CONF" /* the number of the router's end of the socket for configurations */
#define ORPHANS_ENV                                                                                \
	"FFR_ORPHANS" /* the number of the router's end of the socket to the process for orphans */
#define NURSERY_ENV "FFR_NURSERY" /* the number of the nursery's end of the socket to the parent */
/* A router that lived shorter would die again as soon. The parent ends, and the service manager decides. */
#define TOO_SOON_S 2

struct children {
	pid_t keeper, router; /* 0: not running */
	pid_t nursery;	      /* 0: not running */
	int births;	      /* the socket to the nursery, -1: none */
	bool again;	      /* the router was told to end, to be started again */
	time_t since;	      /* s: when the router was started */
	int status;	      /* of the last router, as wait() tells */
	bool stopping;
	int conf;   /* our end of the router's socket for configurations, -1: none */
	char *text; /* the configuration that the next router is started with */
};

static time_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static int passed(const char *name)
{
	const char *s = getenv(name);
	int fd = s ? atoi(s) : -1;

	unsetenv(name);
	return fd > STDERR_FILENO && !fcntl(fd, F_SETFD, FD_CLOEXEC) ? fd : -1;
}

int keeper_of_parent(int *conf, int *orphans)
{
	*conf = passed(CONF_ENV);
	*orphans = passed(ORPHANS_ENV);
	return passed(KEEPER_ENV);
}

char *parent_text(int sock, int *err)
{
	char *text = NULL, *newer;
	ssize_t n;

	/* the length first, so that a short text does not take the memory of the longest */
	while ((n = recv(sock, NULL, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT)) > 0) {
		newer = malloc((size_t)n);
		if (!newer)
			break;
		n = recv(sock, newer, (size_t)n, MSG_DONTWAIT);
		if (n <= 0 || newer[n - 1]) {
			free(newer);
			continue;
		}
		free(text);
		text = newer;
	}
	*err = n < 0 && errno == EAGAIN ? 0 : n < 0 ? -errno : n ? -ENOMEM : -EPIPE;
	return text;
}

static void pass(const char *name, int fd)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", fd);
	setenv(name, number, 1);
	fcntl(fd, F_SETFD, 0);
}

/* In the child: become the nursery. */
static void nursery_exec(const struct parent_conf *p, int keeper, int sock, const sigset_t *mask)
{
	pass(KEEPER_ENV, keeper);
	pass(ORPHANS_ENV, p->orphans_sock);
	pass(NURSERY_ENV, sock);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execv("/proc/self/exe", p->argv);
	log_err("the router cannot be started: %m");
	_exit(EXIT_FAILURE);
}

/* Variables of a service manager name a process, which from now on is the router. */
static void take_over(void)
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
}

void parent_nursery(void)
{
	int sock = passed(NURSERY_ENV), conf;

	if (sock < 0)
		return;
	conf = nursery_run(sock);
	pass(CONF_ENV, conf);
	take_over();
}

/* Send the text to the router with its terminating 0, because a packet must not be empty. */
static int text_send(const struct children *c)
{
	return send(c->conf, c->text, strlen(c->text) + 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ?
		       -errno :
		       0;
}

/* A nursery whose routers have crashed is not to have another one. */
static void nursery_end(struct children *c)
{
	if (c->births >= 0)
		close(c->births);
	c->births = -1;
	if (c->nursery > 0)
		kill(c->nursery, SIGKILL);
	c->nursery = 0;
}

static int nursery_start(struct children *c, const struct parent_conf *conf, int keeper,
			 const sigset_t *mask)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	c->nursery = fork();
	if (!c->nursery)
		nursery_exec(conf, keeper, pair[1], mask);
	close(pair[1]);
	if (c->nursery > 0) {
		c->births = pair[0];
		return 0;
	}
	c->nursery = 0;
	close(pair[0]);
	return -EAGAIN;
}

static int router_start(struct children *c, const struct parent_conf *conf, int sock,
			const sigset_t *mask)
{
	int pair[2], err;

	if (c->conf >= 0)
		close(c->conf); /* of a former router, with the texts that it has not read */
	c->conf = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		log_err("the router cannot be started: %m");
		return -errno;
	}
	c->conf = pair[0];
	/* nothing comes in here: closing what a router had sent could take as long as a client likes */
	shutdown(c->conf, SHUT_RD);
	err = text_send(c);
	c->since = seconds();
	if (!err && !c->nursery)
		err = nursery_start(c, conf, sock, mask);
	if (!err) {
		c->router = nursery_router(c->births, pair[1]);
		err = c->router < 0 ? c->router : 0;
	}
	close(pair[1]);
	if (!err)
		return 0;
	c->router = 0;
	log_err("the router cannot be started: %s", strerror(-err));
	return -EAGAIN;
}

/* A router that has just died and is to be started again gets the text then. */
static void reload(struct children *c, const struct parent_conf *conf)
{
	char *text = c->stopping ? NULL : conf->reread(conf->arg);
	int err;

	if (!text)
		return;
	free(c->text);
	c->text = text;
	err = text_send(c);
	if (err == -EAGAIN)
		log_err("the router does not take its configuration: it is stuck, and will not know of this one");
	else if (err && err != -EPIPE && err != -ECONNRESET)
		log_err("the router is not given its configuration: %s", strerror(-err));
}

/* The next router goes on with what this one leaves. */
static void router_again(struct children *c)
{
	if (c->stopping || !c->router)
		return;
	c->again = true;
	kill(c->router, SIGUSR2);
}

static void router_stop(struct children *c)
{
	c->stopping = true;
	if (c->router)
		kill(c->router, SIGTERM);
}

/* All that have ended by now. */
static void reap(struct children *c, const struct parent_conf *conf)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == c->router) {
			c->router = 0;
			c->status = status;
		} else if (pid == c->nursery) {
			c->nursery = 0;
			nursery_end(c);
		} else if (pid == c->keeper) {
			c->keeper = 0;
			router_stop(c); /* which sees it, too, and tells the log */
		} else if (pid == conf->orphans) {
			log_err("the process for orphans has ended: programs that register memory from now on "
				"have it copied. Restart the router");
		}
	}
}

/* The router has ended as it was told to, to be started again. */
static bool ended_in_order(const struct children *c)
{
	return c->again && WIFEXITED(c->status) && WEXITSTATUS(c->status) == ROUTER_AGAIN;
}

/*
 * The router has ended by itself, which may have been an attack. Only root, the kernel without memory, and the router's
 * own user send SIGKILL.
 */
static bool has_crashed(const struct children *c)
{
	return !ended_in_order(c) && !(WIFSIGNALED(c->status) && WTERMSIG(c->status) == SIGKILL);
}

/* The router has ended: is there to be another one? The log tells why, or why not. */
static bool is_to_live(const struct children *c)
{
	bool signaled = WIFSIGNALED(c->status);
	bool soon = seconds() - c->since < TOO_SOON_S;
	const char *next = soon ? "so soon after its start that it is not started again" :
				  "starting it again";

	if (ended_in_order(c) && !c->stopping) {
		log_info("the router is started again");
		return true;
	}
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

int parent_run(const struct parent_conf *conf, char *text)
{
	struct children c = { .conf = -1, .births = -1, .text = text };
	sigset_t mine, before;
	int sock;

	sigemptyset(&mine);
	sigaddset(&mine, SIGTERM);
	sigaddset(&mine, SIGINT);
	sigaddset(&mine, SIGCHLD);
	sigaddset(&mine, SIGHUP);
	sigaddset(&mine, SIGUSR2);
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* nursery.c */
	sigprocmask(SIG_BLOCK, &mine, &before);
	sigaddset(&before,
		  SIGHUP); /* of one that is sent to all processes the others hear nothing */
	c.keeper = keeper_start(conf->box, &sock);
	if (c.keeper < 0 || router_start(&c, conf, sock, &before)) {
		free(c.text);
		return EXIT_FAILURE;
	}
	for (;;) {
		int sig = sigwaitinfo(&mine, NULL);

		if (sig == SIGTERM || sig == SIGINT)
			router_stop(&c);
		if (sig == SIGCHLD)
			reap(&c, conf);
		if (sig == SIGHUP)
			reload(&c, conf);
		if (sig == SIGUSR2)
			router_again(&c);
		if (c.router)
			continue;
		if (!is_to_live(&c))
			break;
		if (has_crashed(&c))
			nursery_end(&c);
		c.again = false;
		if (router_start(&c, conf, sock, &before))
			break;
	}
	free(c.text);
	/* the keeper ends with the sockets' last holder, this process */
	return WIFSIGNALED(c.status) ? 128 + WTERMSIG(c.status) : WEXITSTATUS(c.status);
}
