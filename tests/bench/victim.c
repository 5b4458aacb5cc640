/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * victim.c - what an attack beside it costs a container: reads lines, and tells of so many ms after each: 8-byte WRITEs a
 * second and their p99, us; and of its small control calls the p50, the p90 and the longest, us. The attackers are those
 * of tests/hostile, which check that the victim is served at all.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/rig/verbs/raw.h"

#define PAGE 4096u

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static _Atomic bool calls_stop;
static uint64_t call_took[100000], num_calls;

static void *make_calls(void *arg)
{
	struct ff_query_port_resp resp;
	struct raw *r = arg;

	for (num_calls = 0; !calls_stop && num_calls < ARRAY_SIZE(call_took);) {
		uint64_t from = vt_now();

		RAW_CALL(r, QUERY_PORT, (&(struct ff_query_port_req){ .port = 1 }), &resp);
		call_took[num_calls++] = vt_now() - from;
		usleep(500);
	}
	return NULL;
}

static void measure(struct vt_end *a, struct raw *r, uint64_t ms)
{
	static uint64_t took[4000000];
	uint64_t from, now, n = 0;
	pthread_t thread;

	calls_stop = false;
	CHECK_EQ(pthread_create(&thread, NULL, make_calls, r), 0);
	from = now = vt_now();

	while (now - from < ms * 1000000 && n < ARRAY_SIZE(took)) {
		uint64_t end;

		vt_rdma(a, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, IBV_SEND_SIGNALED);
		WANT_OK(a->scq, 1);
		end = vt_now();
		took[n++] = end - now;
		now = end;
	}
	calls_stop = true;
	CHECK_EQ(pthread_join(thread, NULL), 0);
	qsort(took, n, sizeof(took[0]), by_value);
	qsort(call_took, num_calls, sizeof(call_took[0]), by_value);
	printf("%lu %lu %lu %lu %lu\n", (unsigned long)(n * 1000000000 / (now - from)),
	       (unsigned long)took[n - 1 - n / 100] / 1000,
	       (unsigned long)call_took[num_calls / 2] / 1000,
	       (unsigned long)call_took[num_calls - 1 - num_calls / 10] / 1000,
	       (unsigned long)call_took[num_calls - 1] / 1000);
	fflush(stdout);
}

int main(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	char line[32];
	struct raw r;

	par.len = 2 * PAGE;
	vt_pair(&a, &b, &par);
	raw_open(&r);
	while (fgets(line, sizeof(line), stdin))
		measure(&a, &r, strtoul(line, NULL, 10));
	raw_close(&r);
	vt_pair_close(&a, &b);
	return 0;
}
