/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: @memory tests/rig/verbs/vt.c -lpthread */
/*
 * memory.c - what registered memory is to the program that registers it. Walks through kinds of
 * mappings, operations on them, and times at which the operation comes, and writes one line for
 * each case: what the program sees. memory.sh runs it without a device and on freeflow; the texts
 * are to be the same.
 *
 *	memory [-l] [-f] -m none|pin|dev [-c CASE]...
 *
 *	-m none	nothing is registered
 *	-m pin	registering pins the pages, as a NIC does, by io_uring (memory_pin.c)
 *	-m dev	a verbs device: VT_DEVICE, or the first one. VT_GID and VT_SLOW as in vt.h
 *	-c	cases whose names match, as the shell's patterns do; * matches slashes
 *	-f	the full product; else every operation on every kind once, and on the first
 *		kind at every time
 *	-l	lists the cases
 *
 * A line NAME/rdma, which `none` has not, tells what RDMA reaches: `mr` what it reads from the
 * registered pages, `seen` whether the program sees what is written to them, `back` what it reads
 * then.
 *
 * Each case runs in a process of its own, which opens the device itself. The words are in memory
 * that it shares with its parent, so that a signal or a hang is one more word.
 */
#include "tests/conformance/memory.h"

#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define CASE_MS 15000 /* after which a case hangs, before VT_SLOW */

static const char *const when_names[NUM_WHEN] = { "before", "during",  "after",
						  "flight", "threads", "race" };

struct words *words;
const struct device *dev;
const char *case_dir;
bool bare;

/* ---- words ----------------------------------------------------------------------------------- */

static void add(char *to, const char *fmt, va_list ap)
{
	size_t used = strlen(to);

	vsnprintf(to + used, WORDS_MAX - used, fmt, ap);
}

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(words->program, fmt, ap);
	va_end(ap);
}

void say_rdma(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(words->rdma, fmt, ap);
	va_end(ap);
}

const char *err_name(int err)
{
	const char *name = err ? strerrorname_np(err) : "ok";

	return name ? name : "E?";
}

bool say_ret(const char *what, intptr_t ret)
{
	int err = errno;

	say(" %s=%s", what, ret == -1 ? err_name(err) : "ok");
	return ret != -1;
}

void say_four(void (*to)(const char *fmt, ...), const char *what, const char *const word[4])
{
	bool same = true;

	for (unsigned i = 1; i < 4; i++)
		same = same && !strcmp(word[0], word[i]);
	if (same)
		to(" %s=%s", what, word[0]);
	else
		to(" %s=%s,%s,%s,%s", what, word[0], word[1], word[2], word[3]);
}

void say_end(const char *what, pid_t pid)
{
	int status;

	if (pid < 0) {
		say(" %s=%s", what, err_name(errno));
		return;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		say(" %s=SIG%s", what, sigabbrev_np(WTERMSIG(status)));
	else if (status)
		say(" %s=exit-%d", what, WEXITSTATUS(status));
}

static __attribute__((noinline)) void run_on_stack(const struct one *c)
{
	uint8_t room[STACK_ROOM + 4 * PAGE];

	run_body(c, room);
	__asm__ volatile("" : : "r"(room) : "memory");
}

static void run_child(const struct one *c)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	catch_signals();
	if (!strcmp(c->kind->name, "stack"))
		run_on_stack(c);
	else
		run_body(c, NULL);
	_exit(0);
}

static unsigned slow(void)
{
	const char *s = getenv("VT_SLOW");

	return s && atoi(s) > 0 ? (unsigned)atoi(s) : 1;
}

static void run_case(const struct one *c)
{
	struct pollfd fd = { .events = POLLIN };
	int status = 0;
	pid_t pid;

	memset(words, 0, sizeof(*words));
	pid = fork();
	if (!pid)
		run_child(c);
	setpgid(pid, pid); /* whoever comes first */
	fd.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (poll(&fd, 1, (int)(CASE_MS * slow())) == 0)
		say(" hangs");
	kill(-pid, SIGKILL);
	close(fd.fd);
	waitpid(pid, &status, 0);
	if (words->wants_core)
		say_core();
	else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		say(" SIG%s", sigabbrev_np(WTERMSIG(status)));
	else if (WIFEXITED(status) && WEXITSTATUS(status))
		say(" exit-%d", WEXITSTATUS(status));
	printf("%s:%s\n", c->name, words->program);
	if (words->rdma[0])
		printf("%s/rdma:%s\n", c->name, words->rdma);
}

/* ---- all cases ------------------------------------------------------------------------------- */

static const char *patterns[64];
static unsigned num_patterns;
static bool full, list;

/* Kinds of which the brief selection has one or the other, operation by operation. */
static const char *const either[][2] = { { "bss", "heap" },
					 { "file", "large" },
					 { "stack", "odd" },
					 { "shared", "sysv" },
					 { "thp", "mixed" } };
/* Kinds that are slow, or of a file system that is not everywhere. */
static const char *const full_only[] = { "hugetlb", "used", "disk" };

static bool in_brief(const struct one *c, unsigned number)
{
	const char *kind = c->kind->name;

	for (unsigned i = 0; i < ARRAY_SIZE(full_only); i++)
		if (!strcmp(kind, full_only[i]))
			return false;
	if (c->kind == &kinds[0])
		return (!bare && !(c->op->flags & ONE_KIND)) || c->when == DURING;
	for (unsigned i = 0; i < ARRAY_SIZE(either); i++)
		if (!strcmp(kind, either[i][number % 2]))
			return false;
	return c->when == DURING && !bare && !(c->op->flags & ONE_KIND);
}

/* Operations that memory.h has both ways. */
static bool has_bare(const struct op *op)
{
	static const char *const calls[] = { "madvise",	 "mremap", "munmap",	      "mmap",
					     "mprotect", "shmat",  "remap-file-pages" };

	for (unsigned i = 0; i < ARRAY_SIZE(calls); i++)
		if (!strncmp(op->name, calls[i], strlen(calls[i])))
			return true;
	return false;
}

static bool wanted(const struct one *c, unsigned number)
{
	if (bare && !has_bare(c->op))
		return false;
	if (c->op->flags & NEEDS_FD && !c->kind->has_fd)
		return false;
	if (c->when == RACE && !(c->op->flags & AGAIN))
		return false;
	if (c->op->flags & FINAL && c->when > AFTER)
		return false;
	if (c->kind->used && (c->when != DURING || bare)) /* each takes a second */
		return false;
	if (!num_patterns && c->op->flags & IF_NAMED)
		return false;
	if (!num_patterns)
		return full || in_brief(c, number);
	for (unsigned i = 0; i < num_patterns; i++)
		if (!fnmatch(patterns[i], c->name, 0))
			return true;
	return false;
}

static void each_op(struct one *c, const struct op *table)
{
	for (c->op = table; c->op->name; c->op++)
		for (unsigned w = 0; w < NUM_WHEN; w++)
			for (unsigned b = 0; b < 2; b++) {
				c->when = (enum when)w;
				bare = b;
				snprintf(c->name, sizeof(c->name), "%s/%s/%s%s", c->kind->name,
					 c->op->name, when_names[w], b ? "/bare" : "");
				if (!wanted(c, (unsigned)(c->op - table)))
					continue;
				if (list)
					puts(c->name);
				else
					run_case(c);
			}
}

static void remove_dir(void)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", case_dir);
	(void)!system(cmd);
}

static int usage(void)
{
	fputs("usage: memory [-l] [-f] -m none|pin|dev [-c CASE]...\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct op *const tables[] = { ops_map, ops_proc, ops_io, ops_uffd };
	static char dir[256];
	struct one c = { 0 };
	bool mode = false;
	int opt;

	while ((opt = getopt(argc, argv, "lfm:c:")) != -1)
		if (opt == 'l')
			list = true;
		else if (opt == 'f')
			full = true;
		else if (opt == 'c' && num_patterns < ARRAY_SIZE(patterns))
			patterns[num_patterns++] = optarg;
		else if (opt == 'm' && (mode = !strcmp(optarg, "none") || !strcmp(optarg, "pin") ||
					       !strcmp(optarg, "dev")))
			dev = *optarg == 'p' ? &dev_pin : *optarg == 'd' ? &dev_verbs : NULL;
		else
			return usage();
	if (optind < argc || (!mode && !list))
		return usage();
	setvbuf(stdout, NULL, _IOLBF, 0);
	words = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	snprintf(dir, sizeof(dir), "%s/memory.XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	case_dir = list ? dir : mkdtemp(dir);
	if (words == MAP_FAILED || !case_dir) {
		perror("memory");
		return 1;
	}
	for (unsigned k = 0; k < num_kinds; k++)
		for (unsigned t = 0; t < ARRAY_SIZE(tables); t++) {
			c.kind = &kinds[k];
			each_op(&c, tables[t]);
		}
	if (!list)
		remove_dir();
	return 0;
}
