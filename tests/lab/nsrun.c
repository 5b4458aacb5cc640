/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * nsrun.c - `nsrun PID CMD ARG...`: runs a program in all namespaces of a process. Single thread.
 *
 * nsenter(1) does that too, but passes no signals on and leaves the program behind when it is
 * killed. Here the program gets the signals that end or steer a program, dies with nsrun, and
 * nsrun ends as the program did: with its exit status, or 128 + the signal's number.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* mnt last: it changes what /proc is; pid holds for children only. */
static const char *const ns_names[] = { "ipc", "uts", "net", "pid", "mnt" };
#define NUM_NS (sizeof(ns_names) / sizeof(ns_names[0]))

static const int forwarded[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT };

static void die(const char *what)
{
	fprintf(stderr, "nsrun: %s: %s\n", what, strerror(errno));
	exit(125);
}

static void enter(const char *pid)
{
	char path[64];
	int fd[NUM_NS];

	for (size_t i = 0; i < NUM_NS; i++) {
		snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, ns_names[i]);
		fd[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (fd[i] < 0)
			die(path);
	}
	for (size_t i = 0; i < NUM_NS; i++) {
		if (setns(fd[i], 0))
			die(ns_names[i]);
		close(fd[i]);
	}
}

/* The working folder stays if the namespace has it (setns moved us to its root). */
static void keep_cwd(const char *cwd)
{
	if (!cwd || chdir(cwd))
		(void)!chdir("/");
}

int main(int argc, char **argv)
{
	char *cwd = getcwd(NULL, 0);
	sigset_t set, old;
	pid_t child;

	if (argc < 3) {
		fprintf(stderr, "usage: nsrun PID CMD ARG...\n");
		return 125;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
		sigaddset(&set, forwarded[i]);
	sigprocmask(SIG_BLOCK, &set, &old);

	enter(argv[1]);
	keep_cwd(cwd);
	free(cwd);

	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigprocmask(SIG_SETMASK, &old, NULL);
		execvp(argv[2], argv + 2);
		fprintf(stderr, "nsrun: %s: %s\n", argv[2], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	for (;;) {
		int sig = sigwaitinfo(&set, NULL), status;

		if (sig < 0)
			continue;
		if (sig != SIGCHLD) {
			kill(child, sig);
			continue;
		}
		if (waitpid(child, &status, WNOHANG) != child)
			continue;
		return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
}
