/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 600 */
/*
 * verbs_remap.c - an MR goes on meaning the pages that it was registered with, whatever the program
 * maps there later: they are unmapped, moved, cut off, or something else takes their place; a part
 * of them or all; by libc or by a bare system call; before they are used, between two uses, and
 * while RDMA writes to them.
 *
 * Memory of 1 MB and more is not replaced at first, smaller memory is at once: each case does both.
 * What an MR's pages have when the program has unmapped them is not looked at: a NIC has them still.
 */
#include "tests/rig/verbs/vt.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KB ((size_t)1024)
#define MB (1024 * KB)
#define RW (PROT_READ | PROT_WRITE)

static struct vt_end a, b;
static _Atomic uint64_t num; /* of the last request */

static void open_pair(void)
{
	struct vt_param par = VT_PARAM;

	par.len = 8 * MB;
	vt_pair(&a, &b, &par);
}

/* [p, p + len) of the MR gets that byte. */
static void put(const struct ibv_mr *mr, const uint8_t *p, size_t len, uint8_t byte)
{
	memset(a.buf, byte, len);
	vt_aim(&a, p, mr);
	vt_rdma(&a, IBV_WR_RDMA_WRITE, ++num, 0, len, 0, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, num);
}

/* It has that byte. */
static void expect(const struct ibv_mr *mr, const uint8_t *p, size_t len, uint8_t byte)
{
	memset(a.buf, ~byte, len);
	vt_aim(&a, p, mr);
	vt_rdma(&a, IBV_WR_RDMA_READ, ++num, 0, len, 0, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, num);
	CHECK(vt_all(a.buf, len, byte));
}

static uint8_t *filled(size_t len, uint8_t byte)
{
	uint8_t *p = vt_map(len);

	memset(p, byte, len);
	return p;
}

static uint8_t *over(uint8_t *p, size_t len, bool bare)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	void *q = bare ? (void *)syscall(SYS_mmap, p, len, RW, flags, -1, 0) :
			 mmap(p, len, RW, flags, -1, 0);

	CHECK(q == p);
	return q;
}

static void drop(uint8_t *p, size_t len, bool bare)
{
	CHECK(bare ? !syscall(SYS_munmap, p, len) : !munmap(p, len));
}

static uint8_t *move(uint8_t *p, size_t len, size_t new_len, int flags, uint8_t *to, bool bare)
{
	void *q = bare ? (void *)syscall(SYS_mremap, p, len, new_len, flags, to) :
			 mremap(p, len, new_len, flags, to);

	CHECK(q != MAP_FAILED);
	return q;
}

/* Before: after 16 times it is replaced, if it was not at first, or is just being replaced. */
static void use(const struct ibv_mr *mr, uint8_t *p, size_t len, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		put(mr, p, len, p[0]);
}

struct shape {
	size_t len, off, part; /* [off, + part) of it changes */
	unsigned uses;
	bool bare;
};

static const struct shape shapes[] = {
	{ 512 * KB, 0, 512 * KB, 0, false },	{ 512 * KB, 64 * KB, 64 * KB, 0, true },
	{ 4 * MB, 0, 4 * MB, 0, false },	{ 4 * MB, 0, 4 * MB, 0, true },
	{ 4 * MB, 0, 4 * MB, 1, false },	{ 4 * MB, 1 * MB, 2 * MB, 0, false },
	{ 4 * MB, 2 * MB, 2 * MB, 1, true },	{ 4 * MB, 4 * KB, 4 * KB, 0, false },
	{ 4 * MB, 1 * MB, 2 * MB, 40, false },	{ 4 * MB, 0, 4 * MB, 40, true },
	{ 4 * MB, 128 * KB, 4 * KB, 40, true },
};

#define EACH(s) for (const struct shape *s = shapes; s < shapes + ARRAY_SIZE(shapes); s++)

/* What is around the part that changes is as it was, and the MR's. */
static void check_rest(const struct shape *s, const struct ibv_mr *mr, uint8_t *p, uint8_t byte)
{
	size_t end = s->off + s->part;

	if (s->off) {
		expect(mr, p, s->off, byte);
		put(mr, p, s->off, (uint8_t)(byte + 1));
		CHECK(vt_all(p, s->off, (uint8_t)(byte + 1)));
	}
	if (end < s->len) {
		expect(mr, p + end, s->len - end, byte);
		put(mr, p + end, s->len - end, (uint8_t)(byte + 1));
		CHECK(vt_all(p + end, s->len - end, (uint8_t)(byte + 1)));
	}
}

static void unmapped(void)
{
	open_pair();
	EACH(s)
	{
		uint8_t *p = filled(s->len, 3), *part = p + s->off;
		struct ibv_mr *mr =
			vt_reg(&b, p, s->len, VT_ACCESS_ALL & ~IBV_ACCESS_REMOTE_ATOMIC);

		use(mr, p, s->len, s->uses);
		drop(part, s->part, s->bare);
		put(mr, part, s->part, 9); /* it goes nowhere, and is no error */
		over(part, s->part, s->bare);
		memset(part, 5, s->part);
		put(mr, part, s->part, 9);
		CHECK(vt_all(part, s->part, 5));
		check_rest(s, mr, p, 3);
		CHECK(vt_all(part, s->part, 5));
		CHECK_OK(ibv_dereg_mr(mr));
		CHECK(vt_all(part, s->part, 5));
		drop(p, s->len, s->bare);
	}
	vt_pair_close(&a, &b);
}

static void replaced_by_another_mapping(void)
{
	open_pair();
	EACH(s)
	{
		uint8_t *p = filled(s->len, 3), *part = p + s->off;
		const int access = VT_ACCESS_ALL & ~IBV_ACCESS_REMOTE_ATOMIC;
		struct ibv_mr *mr = vt_reg(&b, p, s->len, access), *new;

		use(mr, p, s->len, s->uses);
		over(part, s->part, s->bare);
		CHECK(vt_all(part, s->part, 0));
		memset(part, 5, s->part);
		put(mr, part, s->part, 9);
		CHECK(vt_all(part, s->part, 5));
		/* what is there now can be another MR, while the old one is there */
		new = vt_reg(&b, part, s->part, access);
		expect(new, part, s->part, 5);
		put(mr, part, s->part, 9);
		put(new, part, s->part, 6);
		CHECK(vt_all(part, s->part, 6));
		use(new, part, s->part, s->uses);
		put(mr, part, s->part, 9);
		CHECK(vt_all(part, s->part, 6));
		check_rest(s, mr, p, 3);
		CHECK_OK(ibv_dereg_mr(mr));
		expect(new, part, s->part, 6);
		CHECK_OK(ibv_dereg_mr(new));
		drop(p, s->len, s->bare);
	}
	vt_pair_close(&a, &b);
}

static void moved(void)
{
	open_pair();
	EACH(s)
	{
		if (s->uses > 1) /* mremap() does not move what is replaced in part */
			continue;
		uint8_t *p = filled(s->len, 3), *part = p + s->off, *to = vt_map(s->part);
		struct ibv_mr *mr =
			vt_reg(&b, p, s->len, VT_ACCESS_ALL & ~IBV_ACCESS_REMOTE_ATOMIC);

		use(mr, p, s->len, s->uses);
		to = move(part, s->part, s->part, MREMAP_MAYMOVE | MREMAP_FIXED, to, s->bare);
		over(part, s->part, s->bare);
		memset(part, 5, s->part);
		expect(mr, part, s->part, 3);
		put(mr, part, s->part, 9);
		CHECK(vt_all(to, s->part, 9));
		CHECK(vt_all(part, s->part, 5));
		memset(to, 8, s->part);
		expect(mr, part, s->part, 8);
		use(mr, part, s->part, 20); /* it is not replaced at the old address */
		CHECK(vt_all(part, s->part, 5));
		check_rest(s, mr, p, 3);
		/* and back */
		to = move(to, s->part, s->part, MREMAP_MAYMOVE | MREMAP_FIXED, part, s->bare);
		CHECK(to == part);
		put(mr, p, s->len, 7);
		CHECK(vt_all(p, s->len, 7));
		CHECK_OK(ibv_dereg_mr(mr));
		drop(p, s->len, s->bare);
	}
	vt_pair_close(&a, &b);
}

static void shrunk_and_grown(void)
{
	open_pair();
	for (unsigned i = 0; i < 3; i++) {
		size_t len = i & 1 ? 4 * MB : 512 * KB;
		uint8_t *p = filled(len, 3), *old;
		struct ibv_mr *mr = vt_reg(&b, p, len, VT_ACCESS_ALL & ~IBV_ACCESS_REMOTE_ATOMIC);

		use(mr, p, len, i & 2 ? 30 : 0);
		p = move(p, len, len / 2, 0, NULL, i & 1);
		over(p + len / 2, len / 2, i & 1);
		memset(p + len / 2, 5, len / 2);
		put(mr, mr->addr, len, 9);
		CHECK(vt_all(p, len / 2, 9));
		CHECK(vt_all(p + len / 2, len / 2, 5));
		/* it has to move in order to grow */
		p = move(p, len / 2, len, MREMAP_MAYMOVE, NULL, i & 1);
		CHECK(p != mr->addr);
		put(mr, mr->addr, len / 2, 4);
		CHECK(vt_all(p, len / 2, 4));
		if (i ==
		    1) /* else some of it is a file's mapping, which grows into pages of the MR */
			CHECK(vt_all(p + len / 2, len / 2, 0));
		old = (uint8_t *)mr->addr + len / 2;
		CHECK_OK(ibv_dereg_mr(mr));
		drop(p, len, false);
		drop(old, len / 2, false);
	}
	vt_pair_close(&a, &b);
}

/* ---- while RDMA writes to it ------------------------------------------------------------------------- */

static _Atomic bool stop;
static uint8_t *at, *places[2];
static size_t flying_len;

/* Once while each WRITE is under way, or about then. */
static void *move_about(void *unused)
{
	uint64_t last = 0;

	(void)unused;
	for (unsigned i = 1; !atomic_load(&stop); i++) {
		while (atomic_load(&num) == last && !atomic_load(&stop))
			sched_yield();
		last = atomic_load(&num);
		at = move(at, flying_len, flying_len, MREMAP_MAYMOVE | MREMAP_FIXED, places[i & 1],
			  i & 2);
		CHECK(at == places[i & 1]);
	}
	return NULL;
}

/*
 * Each WRITE is found where the memory is in the end; none fails. No part of it is used so often
 * that it is replaced: mremap() does not move what is replaced in part.
 */
static void moved_in_flight(void)
{
	const size_t len = 16 * KB;

	open_pair();
	for (flying_len = 512 * KB; flying_len <= 16 * MB; flying_len *= 32) {
		const size_t step = flying_len / 16;
		struct ibv_mr *mr;
		pthread_t t;

		places[0] = at = filled(flying_len, 3);
		places[1] = vt_map(flying_len);
		mr = vt_reg(&b, at, flying_len, VT_ACCESS_ALL & ~IBV_ACCESS_REMOTE_ATOMIC);
		atomic_store(&stop, false);
		CHECK(!pthread_create(&t, NULL, move_about, NULL));
		for (unsigned i = 0; i < 15 * 16; i++)
			put(mr, (uint8_t *)mr->addr + i % 16 * step, len, (uint8_t)(i + 10));
		atomic_store(&stop, true);
		CHECK(!pthread_join(t, NULL));
		for (unsigned i = 14 * 16; i < 15 * 16; i++)
			CHECK(vt_all(at + i % 16 * step, len, (uint8_t)(i + 10)));
		CHECK(vt_all(at + len, step - len, 3));
		CHECK_OK(ibv_dereg_mr(mr));
		drop(at, flying_len, false);
	}
	vt_pair_close(&a, &b);
}

static uint8_t *part;
static size_t part_len;

static void *remap_a_part(void *unused)
{
	(void)unused;
	for (unsigned i = 0; !atomic_load(&stop); i++)
		over(part, part_len, i & 1);
	return NULL;
}

/* The other parts get all that is written to them, and no WRITE fails. */
static void remapped_in_flight(void)
{
	const size_t len = 4 * MB;

	open_pair();
	for (unsigned round = 0; round < 6; round++) {
		uint8_t *p = filled(len, 3);
		struct ibv_mr *mr = vt_reg(&b, p, len, VT_ACCESS_ALL & ~IBV_ACCESS_REMOTE_ATOMIC);
		pthread_t t;

		part = p + (round % 3) * MB;
		part_len = MB;
		atomic_store(&stop, false);
		CHECK(!pthread_create(&t, NULL, remap_a_part, NULL));
		for (uint8_t i = 0; i < 30; i++)
			put(mr, p, len, i);
		atomic_store(&stop, true);
		CHECK(!pthread_join(t, NULL));
		CHECK(vt_all(p, (size_t)(part - p), 29));
		CHECK(vt_all(part + MB, (size_t)(p + len - part - MB), 29));
		memset(part, 5, MB);
		put(mr, p, len, 30);
		CHECK(vt_all(part, MB, 5));
		CHECK_OK(ibv_dereg_mr(mr));
		drop(p, len, false);
	}
	vt_pair_close(&a, &b);
}

VT_MAIN({ "remap_unmapped", unmapped, 0 },
	{ "remap_replaced_by_another_mapping", replaced_by_another_mapping, 0 },
	{ "remap_moved", moved, 0 }, { "remap_shrunk_and_grown", shrunk_and_grown, 0 },
	{ "remap_moved_in_flight", moved_in_flight, 0 },
	{ "remap_remapped_in_flight", remapped_in_flight, 0 })
