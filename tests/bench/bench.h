/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * bench.h - what the benchmark programs share: clock, pinning, percentiles, failing.
 *
 * Every program prints one JSON object on stdout, which tests/bench/run reads, and says on stderr
 * why it failed.
 */
#ifndef BENCH_H
#define BENCH_H

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BENCH_LINE 64 /* bytes of a cache line */

static inline uint64_t bench_now(void) /* ns */
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t bench_cpu_time(void) /* ns, of the process */
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

__attribute__((noreturn, format(printf, 1, 2))) static inline void bench_die(const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (err)
		fprintf(stderr, ": %s", strerror(err));
	fputc('\n', stderr);
	exit(1);
}

/* Put the calling thread on that CPU; a negative number leaves it to the scheduler. */
static inline void bench_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((unsigned int)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		bench_die("pin to CPU %d", cpu);
}

/*
 * A child on CPU b, which ends with this process, and this process on CPU a; *sock is each one's way to the
 * other. The child's PID, 0 in the child.
 */
static inline pid_t bench_fork(int a, int b, int *sock)
{
	int fd[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		bench_die("socketpair");
	pid = fork();
	if (pid < 0)
		bench_die("fork");
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_pin(pid ? a : b);
	*sock = fd[!pid];
	close(fd[!!pid]);
	return pid;
}

/* A number from the command line, in [min, max]. */
static inline long bench_num(const char *arg, long min, long max)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(arg, &end, 0);
	if (errno || end == arg || *end || v < min || v > max) {
		errno = 0;
		bench_die("'%s' is not a number from %ld to %ld", arg, min, max);
	}
	return v;
}

/* An option of one letter: a number, a text, or (max 0) one that is set to true by being there. */
struct bench_opt {
	char letter;
	void *to;
	size_t size; /* of the number; 0: a text */
	long min, max;
};
#define BENCH_NUM(letter, var, min, max)                                                           \
	{                                                                                          \
		letter, &(var), sizeof(var), min, max                                              \
	}
#define BENCH_TEXT(letter, var)                                                                    \
	{                                                                                          \
		letter, &(var), 0, 0, 0                                                            \
	}
#define BENCH_FLAG(letter, var)                                                                    \
	{                                                                                          \
		letter, &(var), sizeof(var), 0, 0                                                  \
	}

static inline void bench_set(const struct bench_opt *o, const char *arg)
{
	uint64_t v = o->max ? (uint64_t)bench_num(arg, o->min, o->max) : 1;

	if (!o->size)
		*(const char **)o->to = arg;
	else /* the low bytes of a number */
		memcpy(o->to, &v, o->size);
}

/* Takes the options, which end with a letter 0; false: there was another one. */
static inline int bench_opts(int argc, char **argv, const struct bench_opt *opts)
{
	char letters[64], *p = letters;
	int c;

	for (const struct bench_opt *o = opts; o->letter; o++) {
		*p++ = o->letter;
		if (!o->size || o->max)
			*p++ = ':';
	}
	*p = '\0';
	while ((c = getopt(argc, argv, letters)) != -1) {
		const struct bench_opt *o = opts;

		while (o->letter && o->letter != c)
			o++;
		if (!o->letter)
			return 0;
		bench_set(o, optarg);
	}
	return 1;
}

static inline int bench_cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static inline void bench_sort(uint64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), bench_cmp_u64);
}

/* The value below which a share of the sorted samples lies; share is 0 to 1. */
static inline uint64_t bench_pct(const uint64_t *sorted, size_t n, double share)
{
	size_t i = (size_t)(share * (double)n);

	return sorted[i < n ? i : n - 1];
}

static inline void *bench_alloc(size_t size)
{
	void *p = NULL;

	errno = posix_memalign(&p, 4096, size);
	if (errno)
		bench_die("%zu bytes", size);
	memset(p, 1, size);
	return p;
}

/* Pages of that kind, MAP_PRIVATE or MAP_SHARED, all there and full of that byte. */
static inline void *bench_map(size_t size, int kind, int byte)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bench_die("mmap of %zu bytes", size);
	memset(p, byte, size);
	return p;
}

#endif
