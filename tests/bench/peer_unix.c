/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * peer_unix.c - round trip of a message between two processes over a Unix stream socket, both
 * asleep while they wait. The peer of verbs_rtt.c and of the `socket` mode.
 *
 * Two processes; -a and -b give each a CPU, the default leaves them to the scheduler.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static char msg[65536];

/* One whole message; false at the end of the stream. */
static int receive(int fd, size_t size)
{
	for (size_t have = 0; have < size;) {
		ssize_t n = read(fd, msg + have, size - have);

		if (n < 0)
			bench_die("read");
		if (n == 0)
			return 0;
		have += (size_t)n;
	}
	return 1;
}

static void transmit(int fd, size_t size)
{
	errno = 0;
	if (write(fd, msg, size) != (ssize_t)size)
		bench_die("write");
}

int main(int argc, char **argv)
{
	int a = -1, b = -1, fd;
	uint64_t n = 100000, *ns, t;
	size_t size = 64;
	pid_t pid;
	const struct bench_opt options[] = {
		BENCH_NUM('a', a, -1, 4095),
		BENCH_NUM('b', b, -1, 4095),
		BENCH_NUM('n', n, 100, 100000000),
		BENCH_NUM('s', size, 1, sizeof(msg)),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr, "usage: peer_unix [-a CPU] [-b CPU] [-n ROUNDS] [-s BYTES]\n");
		return 2;
	}
	pid = bench_fork(a, b, &fd);
	if (!pid) {
		while (receive(fd, size))
			transmit(fd, size);
		_exit(0);
	}
	ns = bench_alloc(n * sizeof(*ns));
	for (uint64_t i = 0; i < n; i++) {
		t = bench_now();
		transmit(fd, size);
		errno = 0;
		if (!receive(fd, size))
			bench_die("the other process has gone");
		ns[i] = bench_now() - t;
	}
	close(fd);
	waitpid(pid, NULL, 0);

	bench_sort(ns, n);
	printf("{\"rounds\": %lu, \"median_ns\": %lu, \"p99_ns\": %lu, \"min_ns\": %lu}\n", n,
	       bench_pct(ns, n, 0.5), bench_pct(ns, n, 0.99), ns[0]);
	free(ns);
	return 0;
}
