/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shmem_ring.c - an OpenSHMEM program for the matrix: in each round every PE puts 1 MB to the next one and gets 1 MB
 * of it, and all add to one counter. Each byte is looked at. PE 0 says "shmem_ring: N PEs, M bytes of each".
 */
#include <shmem.h>
#include <stdio.h>
#include <string.h>

#define LEN    (1u << 20)
#define ROUNDS 20u

/* What PE `pe` has in byte i in that round. */
static unsigned char byte_of(int pe, unsigned int round, size_t i)
{
	return (unsigned char)(i * 7 + i / 251 + (size_t)pe * 31 + round * 13);
}

static long wrong(const unsigned char *buf, int pe, unsigned int round)
{
	long n = 0;

	for (size_t i = 0; i < LEN; i++)
		n += buf[i] != byte_of(pe, round, i);
	return n;
}

int main(void)
{
	unsigned char *mine, *put, *got;
	int me, num, next, prev;
	long *count, bad = 0;

	shmem_init();
	me = shmem_my_pe();
	num = shmem_n_pes();
	next = (me + 1) % num;
	prev = (me + num - 1) % num;
	mine = shmem_malloc(LEN);
	put = shmem_calloc(LEN, 1);
	got = shmem_calloc(LEN, 1);
	count = shmem_calloc(1, sizeof(*count));
	for (unsigned int r = 0; r < ROUNDS; r++) {
		for (size_t i = 0; i < LEN; i++)
			mine[i] = byte_of(me, r, i);
		shmem_barrier_all();
		shmem_putmem(put, mine, LEN, next);
		shmem_getmem(got, mine, LEN, next);
		shmem_long_atomic_add(count, 1, 0);
		shmem_barrier_all();
		bad += wrong(put, prev, r) + wrong(got, next, r);
	}
	if (!me && *count != (long)num * ROUNDS)
		bad++;
	if (bad)
		printf("PE %d: %ld bytes are wrong\n", me, bad);
	else if (!me)
		printf("shmem_ring: %d PEs, %u bytes of each\n", num, 2 * ROUNDS * LEN);
	shmem_finalize();
	return bad != 0;
}
