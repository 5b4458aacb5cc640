/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: @judge tests/rig/verbs/vt.c tests/rig/verbs/cmt.c tests/rig/verbs/cms.c -lrdmacm -lpthread */
/*
 * judge.c - walks through verbs and rdma_cm case by case and writes down what happened. Run on the
 * kernel's rxe and rdma_cm and on freeflow, the two texts are to be the same: judge.sh compares.
 *
 * `judge [-l] [-p PARTS] [WORD...]`: groups whose name contains one of the words, all without words. Of
 * the parts v (verbs), s (each function in each state of an rdma_cm id), c (other rdma_cm). -l lists.
 * VT_DEVICE, VT_GID and VT_SLOW as in vt.h.
 */
#include "tests/conformance/judge.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART_SECONDS 10

static char line[8192]; /* of the case that runs; empty between two */
static size_t used;

/* ---- the text ---------------------------------------------------------------------------------- */

static void add(const char *fmt, va_list ap)
{
	int n = vsnprintf(line + used, sizeof(line) - used - 16, fmt, ap);

	used += (size_t)n < sizeof(line) - used - 16 ? (size_t)n : sizeof(line) - used - 17;
}

/* Also called by signal handlers. */
static void end_line(void)
{
	size_t at = 0;
	ssize_t n;

	if (!used || line[used - 1] == ':') { /* nothing was said */
		used = 0;
		return;
	}
	line[used++] = '\n';
	for (; at < used; at += (size_t)n) {
		n = write(STDOUT_FILENO, line + at, used - at);
		if (n <= 0)
			_exit(3);
	}
	used = 0;
}

void j_case(const char *fmt, ...)
{
	va_list ap;

	end_line();
	va_start(ap, fmt);
	add(fmt, ap);
	va_end(ap);
	line[used++] = ':';
}

void j_say(const char *fmt, ...)
{
	va_list ap;

	line[used++] = ' ';
	va_start(ap, fmt);
	add(fmt, ap);
	va_end(ap);
}

void j_ret(int ret)
{
	int err = errno;

	if (!ret)
		j_say("ok");
	else if (ret == -1)
		j_say("-1 %s", j_errno(err));
	else if (ret > 0)
		j_say("%s", j_errno(ret));
	else
		j_say("-%s", j_errno(-ret));
}

/* ---- processes --------------------------------------------------------------------------------- */

/*
 * A child says that it is through with a byte in a pipe; its end is not waited for, because closing
 * what it has open can take a kernel minutes (cm_destroy_id() of Linux 6.1, after rdma_accept()).
 */
static int through = -1;

static void end_child(int status)
{
	end_line();
	if (write(through, "", 1) != 1)
		status = 5;
	_exit(status);
}

static void on_end(int sig)
{
	static const char hangs[] = " hangs", crashes[] = " crashes";
	const char *word = sig == SIGALRM ? hangs : crashes;

	if (!used) /* between cases: its parent says so */
		_exit(4);
	memcpy(line + used, word, strlen(word));
	used += strlen(word);
	end_child(0);
}

static void on_child_side(unsigned seconds, int fd)
{
	static const int signals[] = { SIGALRM, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };

	through = fd;
	setpgid(0, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(signals); i++)
		signal(signals[i], on_end);
	alarm(seconds * vt_slow());
}

/* The child's status; 0 too if it was through and does not end. What it left behind goes. */
static int reap(pid_t pid, int fd)
{
	int status = 0, said;
	char byte;

	do
		said = (int)read(fd, &byte, 1);
	while (said < 0 && errno == EINTR);
	close(fd);
	if (said == 1)
		waitpid(pid, &status, WNOHANG);
	else
		waitpid(pid, &status, 0);
	kill(-pid, SIGKILL);
	return status;
}

/* A child process: 0 in it, with the end of the pipe that reap() has the other one of. */
static pid_t split(unsigned seconds, int *fd)
{
	int ends[2];
	pid_t pid;

	if (pipe(ends) || (pid = fork()) < 0)
		FAIL("pipe or fork: %s", strerror(errno));
	close(ends[!pid ? 0 : 1]);
	if (!pid)
		on_child_side(seconds, ends[1]);
	else
		setpgid(pid, pid); /* whoever comes first */
	*fd = ends[0];
	return pid;
}

static void say_status(const char *name, int status)
{
	if (!status)
		return;
	j_case("%s", name);
	j_say("ended with status %d", status);
	end_line();
}

void j_apart(void (*run)(const void *arg), const void *arg, const char *fmt, ...)
{
	char name[256];
	va_list ap;
	pid_t pid;
	int fd;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	end_line();
	alarm(60 * vt_slow()); /* of the group: it makes progress */
	pid = split(APART_SECONDS, &fd);
	if (!pid) {
		j_case("%s", name);
		run(arg);
		end_child(0);
	}
	say_status(name, reap(pid, fd));
}

static void run_group(const struct judge_group *g)
{
	pid_t pid;
	int fd;

	pid = split(g->seconds ? g->seconds : 20, &fd);
	if (!pid) {
		g->run();
		end_child(0);
	}
	say_status(g->name, reap(pid, fd));
}

static const struct judge_group *const verbs[] = { judge_qp, judge_qp_make, judge_wr, judge_queue,
						   judge_cq, judge_mr,	    judge_dev };
static const struct judge_group *const states[] = { judge_cm_state };
static const struct judge_group *const cm[] = { judge_cm_addr, judge_cm_conn, judge_cm_data,
						judge_cm_misc };

static bool selected(const char *name, char **words)
{
	if (!*words)
		return true;
	for (; *words; words++)
		if (strstr(name, *words))
			return true;
	return false;
}

static void run(const struct judge_group *const *tables, size_t num, bool list, char **words)
{
	for (size_t i = 0; i < num; i++)
		for (const struct judge_group *g = tables[i]; g->name; g++)
			if (list)
				puts(g->name);
			else if (selected(g->name, words))
				run_group(g);
}

int main(int argc, char **argv)
{
	const char *parts = "vsc";
	bool list = false;
	int opt;

	while ((opt = getopt(argc, argv, "lp:")) != -1)
		if (opt == 'l')
			list = true;
		else if (opt == 'p')
			parts = optarg;
		else
			return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (strchr(parts, 'v'))
		run(verbs, ARRAY_SIZE(verbs), list, argv + optind);
	if (strchr(parts, 's'))
		run(states, ARRAY_SIZE(states), list, argv + optind);
	if (strchr(parts, 'c'))
		run(cm, ARRAY_SIZE(cm), list, argv + optind);
	return 0;
}
