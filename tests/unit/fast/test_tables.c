/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/deep_rig.c tests/rig/unit/rig.c */
/*
 * test_tables.c - tables that have become too small are filled apart from the lock.
 */
#include <stdlib.h>

#include "tests/rig/unit/deep_rig.h"
#include "tests/rig/unit/unit.h"

/* A large table is made while others have the lock; its keys are all found. */
static void keys_grow_apart(void **state)
{
	enum { N = 8192 };
	struct rig_one *f = *state;
	struct key_table t = { 0 };
	struct mr *mr = calloc(N + 1, sizeof(*mr));
	uint64_t taken = f->r.f->taken;

	for (int i = 0; i < N; i++) {
		assert_int_equal(fast_keys_room(f->r.f, &t), 0);
		assert_int_equal(key_insert(&t, &mr[i]), 0);
	}
	assert_int_equal(t.size, 2 * N);
	assert_int_equal(f->r.f->taken - taken, 2); /* 4096 to 8192 to 16384 */
	taken = f->r.f->taken;
	assert_int_equal(fast_keys_room(f->r.f, &t), 0);
	assert_int_equal(t.size, 4 * N);
	assert_int_equal(f->r.f->taken, taken + 1);
	assert_int_equal(key_insert(&t, &mr[N]), 0);
	for (int i = 0; i <= N; i++)
		assert_ptr_equal(key_lookup(&t, mr[i].lkey), &mr[i]);
	free(t.slot);
	free(mr);
}

static void qp_numbers_grow_apart(void **state)
{
	enum { N = 4096 };
	struct rig_one *f = *state;
	struct fast_host *host = f->r.f->host;
	struct qp *qp = calloc(N, sizeof(*qp));

	for (int i = 0; i < N; i++) {
		uint32_t size = host->qps.size;

		assert_int_equal(fast_qpns_room(host), 0);
		if (size >= 4096)
			size = host->qps.size;
		assert_int_equal(qpn_alloc(&host->qps, &qp[i]), 0);
		assert_true(size < 4096 || host->qps.size == size);
	}
	assert_true(host->qps.size > N);
	for (int i = 0; i < N; i++)
		assert_ptr_equal(qp_by_num(&host->qps, 0, qp[i].qp_num), &qp[i]);
	for (int i = 0; i < N; i++)
		qpn_free(&host->qps, &qp[i]);
	free(qp);
}

int main(void)
{
	return UNIT_RUN(DEEP_TEST(keys_grow_apart), DEEP_TEST(qp_numbers_grow_apart));
}
