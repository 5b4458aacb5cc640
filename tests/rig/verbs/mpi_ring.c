/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mpi_ring.c - an MPI program that checks each byte that it gets: a ring of messages of all sizes, small
 * ones received in another order than they were sent in, all ranks to all, collectives and one-sided
 * operations. Built with mpicc and run by tests/system/mpi.sh and mpich.sh. One thread a rank.
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
#define SMALL 500	 /* messages of the burst */
#define SHARE (1u << 20) /* bytes of the largest part of all-to-all */

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

/* Each rank sends a burst of short messages of its own lengths to the next one, which asks for the last
 * tag first: most of them arrive before they are expected. */
static void burst(uint8_t *out, uint8_t *in)
{
	enum { LEN = 97 };
	int next = (rank + 1) % size, last = (rank + size - 1) % size;
	MPI_Request reqs[2 * SMALL];
	MPI_Status sts[2 * SMALL];

	for (int m = 0; m < SMALL; m++) {
		size_t len = (size_t)m % LEN + 1;

		for (size_t i = 0; i < len; i++)
			out[m * LEN + i] = pattern(rank, (size_t)m, i);
		MPI_Isend(out + m * LEN, (int)len, MPI_BYTE, next, m, MPI_COMM_WORLD, &reqs[m]);
	}
	memset(in, 0, (size_t)SMALL * LEN);
	for (int m = SMALL - 1; m >= 0; m--)
		MPI_Irecv(in + m * LEN, LEN, MPI_BYTE, last, m, MPI_COMM_WORLD, &reqs[SMALL + m]);
	MPI_Waitall(2 * SMALL, reqs, sts);
	for (int m = 0; m < SMALL; m++) {
		size_t len = (size_t)m % LEN + 1;

		for (size_t i = 0; i < LEN; i++)
			check(in[m * LEN + i] == (i < len ? pattern(last, (size_t)m, i) : 0),
			      "byte of the burst");
		checked += len;
	}
}

/* A part for each rank, all of one size, from a byte each to SHARE. */
static void all_to_all(void)
{
	uint8_t *out = malloc((size_t)size * SHARE), *in = malloc((size_t)size * SHARE);

	check(out && in, "memory");
	for (size_t len = 1; len <= SHARE; len *= 32) {
		for (int to = 0; to < size; to++)
			for (size_t i = 0; i < len; i++)
				out[to * len + i] = pattern(rank * size + to, len, i);
		memset(in, 0, (size_t)size * len);
		MPI_Alltoall(out, (int)len, MPI_BYTE, in, (int)len, MPI_BYTE, MPI_COMM_WORLD);
		for (int from = 0; from < size; from++)
			for (size_t i = 0; i < len; i++)
				check(in[from * len + i] == pattern(from * size + rank, len, i),
				      "byte of all-to-all");
		checked += ((size_t)size - 1) * len;
	}
	free(out);
	free(in);
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

/* Every rank puts into the next one's window and gets it back, and adds to a counter of rank 0. */
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
	MPI_Win_fence(0, win);
	memset(src, 0, LEN);
	MPI_Get(src, LEN, MPI_BYTE, next, 0, LEN, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	for (size_t i = 0; i < LEN; i++)
		check(src[i] == pattern(rank, LEN, i), "byte got");
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < 100; i++) {
		MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, 0, LEN, MPI_SUM, win);
		MPI_Win_flush(0, win);
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_fence(0, win);
	check(rank || *counter == 100u * (unsigned)size, "counter");
	checked += 2 * LEN;
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
	burst(out, in);
	all_to_all();
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
