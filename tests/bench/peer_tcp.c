/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * peer_tcp.c - ping-pong of a small message over TCP between two hosts: the peer of ib_send_lat.
 * Both sleep in recv() while they wait, as programs do; -b has them poll instead.
 *
 *	peer_tcp -l PORT [-a CPU] [-b] [-s BYTES]
 *	peer_tcp -c HOST -p PORT [-a CPU] [-b] [-s BYTES] [-n ROUNDS]
 *
 * Prints half of a round trip, and the CPU time that both take for a whole one.
 */
#include "oob.h"

#define WARM_UP 1000u

static char msg[65536];

/* One whole message; 0 at the end of the stream. */
static int receive(int fd, size_t size, int busy)
{
	size_t have = 0;

	while (have < size) {
		ssize_t n = recv(fd, msg + have, size - have, busy ? MSG_DONTWAIT : 0);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n < 0)
			bench_die("recv");
		if (!n)
			return 0;
		have += (size_t)n;
	}
	return 1;
}

static void client(int fd, size_t size, uint64_t n, int busy)
{
	uint64_t *ns = bench_alloc(n * sizeof(*ns)), t, cpu = bench_cpu_time(), cpu_there;

	for (uint64_t i = 0; i < n + WARM_UP; i++) {
		t = bench_now();
		oob_send(fd, msg, size);
		errno = 0;
		if (!receive(fd, size, busy))
			bench_die("the other half has gone");
		if (i >= WARM_UP)
			ns[i - WARM_UP] = (bench_now() - t) / 2;
	}
	cpu = bench_cpu_time() - cpu;
	shutdown(fd, SHUT_WR);
	errno = 0;
	if (!oob_recv(fd, &cpu_there, sizeof(cpu_there)))
		bench_die("the other half has gone");
	bench_sort(ns, n);
	printf("{\"rounds\": %lu, \"median_ns\": %lu, \"p99_ns\": %lu, \"min_ns\": %lu, \"cpu_ns\": %.1f}\n",
	       n, bench_pct(ns, n, 0.5), bench_pct(ns, n, 0.99), ns[0],
	       (double)(cpu + cpu_there) / (double)(n + WARM_UP));
	free(ns);
}

/* Until the other half has no more; it gets our CPU time for that. */
static void server(int fd, size_t size, int busy)
{
	uint64_t cpu = bench_cpu_time();

	while (receive(fd, size, busy))
		oob_send(fd, msg, size);
	cpu = bench_cpu_time() - cpu;
	oob_send(fd, &cpu, sizeof(cpu));
}

int main(int argc, char **argv)
{
	struct oob_end end = { 0 };
	uint64_t n = 100000;
	size_t size = 8;
	int busy = 0, cpu = -1, fd;
	const struct bench_opt options[] = {
		OOB_OPTS(end),
		BENCH_NUM('a', cpu, -1, 4095),
		BENCH_NUM('n', n, 100, 100000000),
		BENCH_NUM('s', size, 1, sizeof(msg)),
		BENCH_FLAG('b', busy),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options) || !oob_is_told(&end)) {
		fprintf(stderr,
			"usage: peer_tcp -l PORT | -c HOST -p PORT  [-a CPU] [-b] [-s BYTES] [-n N]\n");
		return 2;
	}
	bench_pin(cpu);
	fd = oob_open(&end);
	if (end.listen)
		server(fd, size, busy);
	else
		client(fd, size, n, busy);
	close(fd);
	return 0;
}
