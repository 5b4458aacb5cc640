/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * peer_stream.c - what the copies of a byte stream between two cores cost, with nothing around them:
 * no router, no system call. The peer of rstream, which it does as: 10 messages of 64 KB one way, then
 * as many back, through rings of 1 MB, where the receiver copies while the sender does.
 *
 * Three copies (-k 3): from the program to a ring and from there to the peer's ring, both by the
 * sending thread, in the router's place as well; from there to the program by the receiving one.
 * Two (-k 2): through one ring that both share. A thread for each CPU (-a, -b).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "bench.h"
#include "ffr/abi/ff_ring.h"

#define MSG	   (64u << 10) /* bytes */
#define MSGS	   10u	       /* one way */
#define RING	   (1u << 20)  /* bytes */
#define ENDS	   2
#define MAX_COPIES 3

static struct end {
	int cpu;
	uint8_t *user;	       /* one message */
	uint8_t *out, *in;     /* rings: of what it sends, of what arrives at the other end */
	uint64_t sent, gotten; /* bytes */
	_Alignas(256) _Atomic uint64_t there; /* bytes that arrived at the other end */
} ends[ENDS] = { { .cpu = 0 }, { .cpu = 1 } };

static uint64_t rounds = 2000;
static long copies = MAX_COPIES;

static void send_all(struct end *me)
{
	for (unsigned i = 0; i < MSGS; i++) {
		size_t at = me->sent % RING;

		memcpy(me->out + at, me->user, MSG);
		if (copies == MAX_COPIES)
			memcpy(me->in + at, me->out + at, MSG);
		me->sent += MSG;
		atomic_store_explicit(&me->there, me->sent, memory_order_release);
	}
}

static void receive_all(struct end *me, struct end *from)
{
	for (unsigned i = 0; i < MSGS; i++) {
		size_t at = me->gotten % RING;

		while (atomic_load_explicit(&from->there, memory_order_acquire) == me->gotten)
			ff_relax();
		memcpy(me->user, (copies == MAX_COPIES ? from->in : from->out) + at, MSG);
		me->gotten += MSG;
	}
}

static void *echo(void *arg)
{
	bench_pin(ends[1].cpu);
	for (uint64_t i = 0; i < rounds; i++) {
		receive_all(&ends[1], &ends[0]);
		send_all(&ends[1]);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	uint64_t ns;
	const struct bench_opt options[] = {
		BENCH_NUM('a', ends[0].cpu, -1, 4095),
		BENCH_NUM('b', ends[1].cpu, -1, 4095),
		BENCH_NUM('k', copies, 2, MAX_COPIES),
		BENCH_NUM('n', rounds, 1, 1000000),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr, "usage: peer_stream [-a CPU] [-b CPU] [-k 2|3] [-n ROUNDS]\n");
		return 2;
	}
	for (int i = 0; i < ENDS; i++) {
		ends[i].user = bench_alloc(MSG);
		ends[i].out = bench_alloc(RING);
		ends[i].in = bench_alloc(RING);
	}
	bench_pin(ends[0].cpu);
	ns = bench_now();
	errno = pthread_create(&thread, NULL, echo, NULL);
	if (errno)
		bench_die("pthread_create");
	for (uint64_t i = 0; i < rounds; i++) {
		send_all(&ends[0]);
		receive_all(&ends[0], &ends[1]);
	}
	pthread_join(thread, NULL);
	ns = bench_now() - ns;
	printf("{\"copies\": %ld, \"bytes_per_s\": %.0f}\n", copies,
	       (double)rounds * ENDS * MSGS * MSG / (double)ns * 1e9);
	return 0;
}
