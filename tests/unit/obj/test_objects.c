/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_objects.c - handle tables, QP numbers, addresses. build: ffr/obj/objects.c */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffr/obj/objects.h"

static void handles_are_found_and_never_zero(void **state)
{
	struct obj_table t = { .max = 100 };
	struct obj o[100] = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(obj_insert(&t, &o[i]), 0);
		assert_int_not_equal(o[i].handle, 0);
		assert_int_equal(FF_HANDLE_INDEX(o[i].handle), i);
	}
	for (int i = 0; i < 100; i++)
		assert_ptr_equal(obj_get(&t, o[i].handle), &o[i]);
	assert_null(obj_get(&t, 0));
	assert_null(obj_get(&t, o[3].handle + 0x10000));
	assert_null(obj_get(&t, 0xffffffff));
	obj_table_free(&t);
	assert_null(obj_get(&t, o[3].handle));
}

static void a_full_table_refuses(void **state)
{
	struct obj_table t = { .max = 17 };
	struct obj o[18] = { 0 };

	(void)state;
	for (int i = 0; i < 17; i++)
		assert_int_equal(obj_insert(&t, &o[i]), 0);
	assert_int_equal(obj_insert(&t, &o[17]), -ENOMEM);
	obj_remove(&t, &o[5]);
	assert_int_equal(obj_insert(&t, &o[17]), 0);
	assert_int_equal(FF_HANDLE_INDEX(o[17].handle), 5);
	obj_table_free(&t);
}

static void a_stale_handle_names_nothing(void **state)
{
	struct obj_table t = { .max = 4 };
	struct obj a = { 0 }, b = { 0 };
	uint32_t stale;

	(void)state;
	/* Once around the generations of one slot, past their wrap. */
	for (int i = 0; i < 70000; i++) {
		assert_int_equal(obj_insert(&t, &a), 0);
		stale = a.handle;
		obj_remove(&t, &a);
		assert_null(obj_get(&t, stale));
		assert_int_equal(obj_insert(&t, &b), 0);
		assert_int_not_equal(b.handle, stale);
		assert_int_not_equal(b.handle, 0);
		assert_null(obj_get(&t, stale));
		obj_remove(&t, &a); /* not in the table any more: nothing happens */
		assert_ptr_equal(obj_get(&t, b.handle), &b);
		obj_remove(&t, &b);
	}
	obj_table_free(&t);
}

/* A random walk against a plain list of what is there. */
static void tables_agree_with_a_list(void **state)
{
	enum { N = 500 };
	static struct obj o[N];
	bool in[N] = { false };
	struct obj_table t = { .max = 400 };
	uint32_t used = 0;

	(void)state;
	srandom(1);
	for (int step = 0; step < 50000; step++) {
		int i = (int)(random() % N);

		if (in[i]) {
			obj_remove(&t, &o[i]);
			assert_null(obj_get(&t, o[i].handle));
			used--;
		} else if (obj_insert(&t, &o[i])) {
			assert_int_equal(used, 400);
			continue;
		} else {
			used++;
		}
		in[i] = !in[i];
		assert_int_equal(t.used, used);
	}
	for (int i = 0; i < N; i++)
		if (in[i])
			assert_ptr_equal(obj_get(&t, o[i].handle), &o[i]);
	obj_table_free(&t);
}

static void qp_numbers_are_unique_and_not_reused(void **state)
{
	enum { N = 3000 };
	struct qp_table t = { 0 };
	struct qp *qp = calloc(N, sizeof(*qp));
	struct qp extra = { 0 };
	uint32_t old;

	(void)state;
	for (int i = 0; i < N; i++) {
		assert_int_equal(qpn_alloc(&t, &qp[i]), 0);
		assert_in_range(qp[i].qp_num, 2, 0xffffff);
	}
	for (int i = 0; i < N; i++)
		assert_ptr_equal(qp_by_num(&t, 0, qp[i].qp_num), &qp[i]);
	assert_null(qp_by_num(&t, 0, 0));
	assert_null(qp_by_num(&t, 0, 1));
	assert_null(qp_by_num(&t, 0, qp[0].qp_num + 0x1000000));

	old = qp[7].qp_num;
	qpn_free(&t, &qp[7]);
	assert_null(qp_by_num(&t, 0, old));
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(qpn_alloc(&t, &extra), 0);
		assert_int_not_equal(extra.qp_num, old);
		qpn_free(&t, &extra);
	}
	qpn_free(&t, &extra); /* twice: nothing happens */
	qpn_free(&t, &qp[7]);
	for (int i = 0; i < N; i++)
		qpn_free(&t, &qp[i]);
	assert_int_equal(t.used, 0);
	assert_null(qp_by_num(&t, 0, qp[0].qp_num));
	free(t.slot);
	free(qp);
}

static void qp_numbers_wrap_past_the_reserved(void **state)
{
	static const uint32_t reserved[] = { 0, 1, 0xffffff }; /* the last one is multicast's */

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct qp_table t = { .next = reserved[i] };
		struct qp qp[2] = { 0 };

		for (unsigned k = 0; k < 2; k++) {
			assert_int_equal(qpn_alloc(&t, &qp[k]), 0);
			assert_in_range(qp[k].qp_num, 2, 0xfffffe);
		}
		assert_int_not_equal(qp[0].qp_num, qp[1].qp_num);
		for (unsigned k = 0; k < 2; k++)
			qpn_free(&t, &qp[k]);
		free(t.slot);
	}
}

/* A NIC gives numbers in a row: some of them fit, whatever the router's own have taken. */
static void qp_numbers_are_not_in_a_row(void **state)
{
	enum { N = 1000 };
	struct qp_table t = { .next = 0x1000 };
	struct qp *qp = calloc(N, sizeof(*qp));
	unsigned taken = 0, longest = 0;

	(void)state;
	for (int i = 0; i < N; i++)
		assert_int_equal(qpn_alloc(&t, &qp[i]), 0);
	for (uint32_t n = 2; n < 2 + 2 * t.size; n++) {
		taken = qpn_fits(&t, 0, n) ? 0 : taken + 1;
		longest = taken > longest ? taken : longest;
	}
	assert_in_range(longest, 1, 8);
	for (int i = 0; i < N; i++)
		qpn_free(&t, &qp[i]);
	free(t.slot);
	free(qp);
}

static void containers_are_found_within_their_tenant(void **state)
{
	struct container_list l = LIST_HEAD_INITIALIZER(l);
	struct container a = { .tenant = "red", .lid = 5, .num_gids = 2 };
	struct container b = { .tenant = "blue", .lid = 5, .num_gids = 1 };
	union ibv_gid gid = { .raw = { [10] = 0xff, 0xff, 10, 77, 0, 2 } };

	(void)state;
	a.gid[1] = b.gid[0] = gid;
	LIST_INSERT_HEAD(&l, &a, entry);
	LIST_INSERT_HEAD(&l, &b, entry);
	assert_ptr_equal(container_by_gid(&l, "red", &gid), &a);
	assert_ptr_equal(container_by_gid(&l, "blue", &gid), &b);
	assert_null(container_by_gid(&l, "green", &gid));
	assert_ptr_equal(container_by_lid(&l, "red", 5), &a);
	assert_null(container_by_lid(&l, "red", 6));
	gid.raw[15]++;
	assert_null(container_by_gid(&l, "red", &gid));
	/* a link-local GID has the LID */
	gid = (union ibv_gid){ .raw = { GID_LOCAL_PREFIX, 0, 5 } };
	assert_ptr_equal(container_by_gid(&l, "red", &gid), &a);
	assert_ptr_equal(container_by_gid(&l, "blue", &gid), &b);
	assert_null(container_by_gid(&l, "green", &gid));
	a.gid[1] = gid; /* and nothing else leads there */
	a.lid = 6;
	assert_null(container_by_gid(&l, "red", &gid));
}

/* One that a NIC has given: it is that or nothing, and stays found while the table grows. */
static void a_wanted_qp_number(void **state)
{
	enum { N = 300 };
	struct qp_table t = { 0 };
	struct qp *qp = calloc(N, sizeof(*qp)), wanted = { .qp_num = 0x123456 };
	struct qp near = { 0 }, same_place = { .qp_num = 0x223456 },
		  bad[3] = { { .qp_num = 1 }, { .qp_num = 0xffffff }, { .qp_num = 0x1000002 } };

	(void)state;
	assert_true(qpn_fits(&t, 0, 0x123456));
	assert_int_equal(qpn_alloc(&t, &wanted), 0);
	assert_int_equal(wanted.qp_num, 0x123456);
	assert_false(qpn_fits(&t, 0, 0x223456));
	assert_int_equal(qpn_alloc(&t, &same_place), -EEXIST);
	qpn_make_room(&t, 0, wanted.qp_num); /* it is taken itself */
	assert_int_equal(t.size, 256);
	near.qp_num = 0x123456 + 256;
	assert_int_equal(qpn_alloc(&t, &near), -EEXIST);
	qpn_make_room(&t, 0, near.qp_num);
	assert_int_equal(qpn_alloc(&t, &near), 0);
	assert_ptr_equal(qp_by_num(&t, 0, 0x123456), &wanted);
	qpn_free(&t, &near);
	for (int i = 0; i < 3; i++) {
		assert_false(qpn_fits(&t, 0, bad[i].qp_num));
		assert_int_equal(qpn_alloc(&t, &bad[i]), -EEXIST);
	}
	assert_int_equal(t.used, 1);
	for (int i = 0; i < N; i++)
		assert_int_equal(qpn_alloc(&t, &qp[i]), 0);
	assert_ptr_equal(qp_by_num(&t, 0, 0x123456), &wanted);
	qpn_free(&t, &wanted);
	assert_int_equal(qpn_alloc(&t, &same_place), 0);
	assert_ptr_equal(qp_by_num(&t, 0, 0x223456), &same_place);
	free(t.slot);
	free(qp);
}

/* NICs that count from the same number on are not in each other's way, however many of them there are. */
static void each_nic_has_numbers_of_its_own(void **state)
{
	enum { NICS = 8, N = 500 };
	struct qp_table t = { 0 };
	struct qp *qp = calloc(NICS * N, sizeof(*qp));
	unsigned again = 0;

	(void)state;
	for (unsigned nics = 2; nics <= NICS; nics *= 2) {
		for (unsigned i = 0; i < nics * N; i++) {
			qp[i].num_of = (uint8_t)(i % nics);
			qp[i].qp_num = 0x800 + i / nics;
			again += !qpn_fits(&t, qp[i].num_of, qp[i].qp_num);
			assert_int_equal(qpn_alloc(&t, &qp[i]), 0);
		}
		for (unsigned i = 0; i < nics * N; i++)
			assert_ptr_equal(qp_by_num(&t, qp[i].num_of, qp[i].qp_num), &qp[i]);
		assert_null(qp_by_num(&t, (uint8_t)nics, 0x800));
		for (unsigned i = 0; i < nics * N; i++)
			qpn_free(&t, &qp[i]);
		assert_int_equal(t.used, 0);
	}
	assert_int_equal(again, 0);
	free(t.slot);
	free(qp);
}

/* The handle of an object of a former router is there again, and no other object gets it. */
static void handles_come_again(void **state)
{
	struct obj_table t = { .max = 100, .first_gen = 0x100 };
	struct obj old = { .handle = 7u << 16 | 33 }, twice = old, new = { 0 }, far = old;

	(void)state;
	assert_int_equal(obj_insert_at(&t, &old), 0);
	assert_ptr_equal(obj_get(&t, 7u << 16 | 33), &old);
	assert_int_equal(obj_insert_at(&t, &twice), -EEXIST);
	far.handle = 7u << 16 | 100;
	assert_int_equal(obj_insert_at(&t, &far), -EEXIST);
	far.handle = 5; /* no generation */
	assert_int_equal(obj_insert_at(&t, &far), -EEXIST);
	assert_int_equal(obj_insert(&t, &new), 0);
	assert_int_equal(new.handle, 0x101u << 16);
	obj_remove(&t, &old);
	assert_null(obj_get(&t, 7u << 16 | 33));
	assert_int_equal(t.gen[33], 8);
	obj_table_free(&t);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(each_nic_has_numbers_of_its_own),
			cmocka_unit_test(a_wanted_qp_number),
			cmocka_unit_test(handles_are_found_and_never_zero),
			cmocka_unit_test(a_full_table_refuses),
			cmocka_unit_test(a_stale_handle_names_nothing),
			cmocka_unit_test(tables_agree_with_a_list),
			cmocka_unit_test(qp_numbers_are_unique_and_not_reused),
			cmocka_unit_test(qp_numbers_wrap_past_the_reserved),
			cmocka_unit_test(qp_numbers_are_not_in_a_row),
			cmocka_unit_test(containers_are_found_within_their_tenant),
			cmocka_unit_test(handles_come_again));
}
