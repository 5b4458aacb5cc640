/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mpi_ring.c - an MPI program that checks what it gets: a ring of messages of all sizes, collectives
 * and one-sided operations. Built with mpicc and run by tests/system/mpi.sh. One thread a rank.
 *
 * Rank 0 prints `mpi_ring: R ranks on H hosts, N bytes of each rank checked`.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX   (4u << 20) /* bytes of the largest message */
#define COUNT 100000	 /* elements of the reduction */

static int rank, size;
static uint64_t checked; /* bytes */

static void check(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "mpi_ring: rank %d: wrong %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static uint8_t pattern(int from, size_t len, size_t i)
{
	return (uint8_t)((unsigned)from * 31 + len + i * 7 + (i >> 8));
}

/* Every rank sends to the next one, eager and rendezvous sizes, aligned and not. */
static void ring(uint8_t *out, uint8_t *in)
{
	int next = (rank + 1) % size, last = (rank + size - 1) % size;

	for (size_t len = 1; len <= MAX; len = len * 5 / 2 + 1) {
		size_t shift = len % 13;
		MPI_Status st;
		int n;

		for (size_t i = 0; i < len; i++)
			out[shift + i] = pattern(rank, len, i);
		memset(in, 0, len + shift);
		MPI_Sendrecv(out + shift, (int)len, MPI_BYTE, next, 7, in + shift, (int)len,
			     MPI_BYTE, last, 7, MPI_COMM_WORLD, &st);
		MPI_Get_count(&st, MPI_BYTE, &n);
		check((size_t)n == len, "length in the ring");
		for (size_t i = 0; i < len; i++)
			check(in[shift + i] == pattern(last, len, i), "byte in the ring");
		checked += len;
	}
}

static void collectives(void)
{
	double *mine = malloc(COUNT * sizeof(*mine)), *sum = malloc(COUNT * sizeof(*sum));
	int *all = malloc((size_t)size * sizeof(*all));

	check(mine && sum && all, "memory");
	for (int i = 0; i < COUNT; i++)
		mine[i] = rank + i * 0.5;
	MPI_Allreduce(mine, sum, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < COUNT; i++)
		check(sum[i] == size * (size - 1) / 2 + size * (i * 0.5), "sum");
	MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < size; i++)
		check(all[i] == i, "rank gathered");
	checked += COUNT * sizeof(*sum) + (size_t)size * sizeof(*all);
	free(mine);
	free(sum);
	free(all);
}

/* Every rank puts into the next one's window, and adds to a counter of rank 0. */
static void one_sided(void)
{
	enum { LEN = 65536 };
	int next = (rank + 1) % size, last = (rank + size - 1) % size;
	uint8_t *win_mem, *src = malloc(LEN);
	uint64_t *counter, one = 1, before;
	MPI_Win win;

	check(!!src, "memory");
	MPI_Win_allocate(LEN + sizeof(*counter), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win_mem, &win);
	counter = (uint64_t *)(win_mem + LEN);
	*counter = 0;
	memset(win_mem, 0, LEN);
	for (size_t i = 0; i < LEN; i++)
		src[i] = pattern(rank, LEN, i);
	MPI_Win_fence(0, win);
	MPI_Put(src, LEN, MPI_BYTE, next, 0, LEN, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	for (size_t i = 0; i < LEN; i++)
		check(win_mem[i] == pattern(last, LEN, i), "byte put");
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < 100; i++) {
		MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, 0, LEN, MPI_SUM, win);
		MPI_Win_flush(0, win);
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_fence(0, win);
	check(rank || *counter == 100u * (unsigned)size, "counter");
	checked += LEN;
	MPI_Win_free(&win);
	free(src);
}

static int count_hosts(void)
{
	char mine[MPI_MAX_PROCESSOR_NAME] = "", *all = malloc((size_t)size * sizeof(mine));
	int n = 0, len;

	check(!!all, "memory");
	MPI_Get_processor_name(mine, &len);
	MPI_Allgather(mine, sizeof(mine), MPI_CHAR, all, sizeof(mine), MPI_CHAR, MPI_COMM_WORLD);
	for (int i = 0; i < size; i++) {
		int seen = 0;

		for (int j = 0; j < i; j++)
			seen |= !strcmp(all + i * (int)sizeof(mine), all + j * (int)sizeof(mine));
		n += !seen;
	}
	free(all);
	return n;
}

int main(int argc, char **argv)
{
	uint8_t *out = malloc(MAX + 64), *in = malloc(MAX + 64);
	int hosts;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	check(out && in, "memory");
	hosts = count_hosts();
	ring(out, in);
	collectives();
	one_sided();
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("mpi_ring: %d ranks on %d hosts, %llu bytes of each rank checked\n", size,
		       hosts, (unsigned long long)checked);
	MPI_Finalize();
	free(out);
	free(in);
	return 0;
}
