// SPDX-License-Identifier: GPL-2.0
/*
 * test_memory.c - configuration space, DMA of each kind with checked contents and neighbours, and
 * windows both ways.
 */
#include "vt.h"

#include <linux/types.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SIZE   (1 << 20)
#define GUARD  0xa5
#define HOP_EP 0xff /* as the kernel has it: an endpoint takes it whatever is left */

void test_maint(void)
{
	int a = mport_open(0), b = mport_open(1);
	uint32_t v, w;

	EXPECT(maint_local(a, false, 0x00, &v), 0);
	CHECK(v == 0x0001ff05);
	EXPECT(maint_local(a, false, 0x10, &v), 0);
	CHECK(!(v & 0x10000000));
	/* the switch, one hop away, knows by which of its ports we ask */
	EXPECT(maint(a, false, 0xff, 0, 0x10, &v), 0);
	CHECK(v & 0x10000000);
	EXPECT(maint(a, false, 0xff, 0, 0x14, &v), 0);
	EXPECT(maint(b, false, 0xff, 0, 0x14, &w), 0);
	CHECK(v == (3 << 8 | 0) && w == (3 << 8 | 1));
	/* through it, the endpoints; a tag that we write is read by its owner and by the other */
	for (int i = 0; i < 3; i++) {
		EXPECT(maint(a, false, mport_id(i), HOP_EP, 0x60, &v), 0);
		CHECK(v == (uint32_t)mport_id(i) << 16);
		EXPECT(maint(a, false, mport_id(i), HOP_EP, 0x04, &v), 0);
		CHECK(v == (uint32_t)i);
	}
	EXPECT(maint(a, false, mport_id(1), HOP_EP, 0x6c, &w), 0);
	v = 0x1234;
	EXPECT(maint(a, true, mport_id(1), HOP_EP, 0x6c, &v), 0);
	EXPECT(maint_local(b, false, 0x6c, &v), 0);
	CHECK(v == 0x1234);
	EXPECT(maint(a, true, mport_id(1), HOP_EP, 0x6c, &w), 0);
	/* no such device, and no such register */
	EXPECT(maint(a, false, 0x77, HOP_EP, 0, &v), -EIO);
	EXPECT(maint(a, false, mport_id(1), HOP_EP, 0xfffffc, &v), 0);
	CHECK(v == 0);
	CHECK(mport_stat(0, "maint_errors") > 0);
	close(a);
	close(b);
}

struct pair {
	int from, to;
	uint16_t id;
	struct window w;
	uint8_t *mine, *back;
};

static void one(struct pair *p, size_t at, size_t mine_at, size_t n, int method)
{
	uint32_t seed = at * 31 + n * 7 + method;
	size_t before = at < 64 ? at : 64;
	size_t after = SIZE - at - n < 64 ? SIZE - at - n : 64;

	memset(p->w.p + at - before, GUARD, before + n + after);
	vt_fill(p->mine + mine_at, n, seed);
	EXPECT(dma(p->from, true, p->id, p->w.address + at, p->mine + mine_at, n, method,
		   RIO_TRANSFER_SYNC),
	       0);
	CHECK(!vt_differ(p->w.p + at, n, seed));
	for (size_t i = 1; i <= before; i++)
		CHECK(p->w.p[at - i] == GUARD);
	for (size_t i = 0; i < after; i++)
		CHECK(p->w.p[at + n + i] == GUARD);
	memset(p->back, GUARD, mine_at + n + 64);
	EXPECT(dma(p->from, false, p->id, p->w.address + at, p->back + mine_at, n, method,
		   RIO_TRANSFER_SYNC),
	       0);
	CHECK(!vt_differ(p->back + mine_at, n, seed));
	for (size_t i = 0; i < 64; i++)
		CHECK(p->back[mine_at + n + i] == GUARD);
	CHECK(!mine_at || p->back[mine_at - 1] == GUARD);
}

/* A file of its own has a channel of its own. */
static void *own_channel(void *arg)
{
	struct pair *shared = arg, p = *shared;
	static int next;
	int me = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
	size_t at = 100000 * (me + 1) + me;

	p.from = mport_open(0);
	p.mine = malloc(SIZE);
	for (int i = 0; i < 20; i++) {
		vt_fill(p.mine, 80000, me * 100 + i);
		EXPECT(dma(p.from, true, p.id, p.w.address + at, p.mine, 80000,
			   RIO_EXCHANGE_NWRITE_R, RIO_TRANSFER_SYNC),
		       0);
		CHECK(!vt_differ(p.w.p + at, 80000, me * 100 + i));
	}
	free(p.mine);
	close(p.from);
	return NULL;
}

static void many_at_once(struct pair *p)
{
	long number[8];
	pthread_t t[6];

	for (int i = 0; i < 8; i++) {
		vt_fill(p->mine + i * 5000, 5000, i);
		number[i] = dma(p->from, true, p->id, p->w.address + i * 5000, p->mine + i * 5000,
				5000, RIO_EXCHANGE_NWRITE_R_ALL, RIO_TRANSFER_ASYNC);
		CHECK(number[i] > 0);
	}
	for (int i = 7; i >= 0; i--) {
		EXPECT(dma_wait(p->from, number[i]), 0);
		CHECK(!vt_differ(p->w.p + i * 5000, 5000, i));
	}
	/* fire and forget */
	vt_fill(p->mine, 7777, 99);
	EXPECT(dma(p->from, true, p->id, p->w.address + 5, p->mine, 7777, RIO_EXCHANGE_NWRITE,
		   RIO_TRANSFER_FAF),
	       0);
	AWAIT(!vt_differ(p->w.p + 5, 7777, 99));
	for (int i = 0; i < 6; i++)
		CHECK(!pthread_create(&t[i], NULL, own_channel, p));
	for (int i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
}

static void packet_kinds(struct pair *p)
{
	static const struct {
		const char *swrite, *counter;
		size_t at, n;
		int method;
		long ret;
		int packets;
	} cases[] = {
		{ "auto", "swrite_packets", 0, 1024, RIO_EXCHANGE_NWRITE, 0, 4 },
		{ "auto", "swrite_packets", 8, 256, RIO_EXCHANGE_NWRITE, 0, 2 },
		{ "auto", "nwrite_packets", 4, 1024, RIO_EXCHANGE_NWRITE, 0, 5 },
		{ "never", "nwrite_packets", 0, 1024, RIO_EXCHANGE_NWRITE, 0, 4 },
		{ "only", "swrite_packets", 0, 8, RIO_EXCHANGE_NWRITE, 0, 1 },
		{ "only", "swrite_packets", 0, 12, RIO_EXCHANGE_NWRITE, -EINVAL, 0 },
		{ "only", "swrite_packets", 4, 8, RIO_EXCHANGE_NWRITE, -EINVAL, 0 },
		{ "auto", "nwrite_r_packets", 0, 1024, RIO_EXCHANGE_NWRITE_R_ALL, 0, 4 },
		{ "auto", "nwrite_r_packets", 0, 256, RIO_EXCHANGE_NWRITE_R, 0, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		long long before = mport_stat(0, cases[i].counter);

		EXPECT(mport_set(0, "swrite", cases[i].swrite), 0);
		EXPECT(dma(p->from, true, p->id, p->w.address + cases[i].at, p->mine, cases[i].n,
			   cases[i].method, RIO_TRANSFER_SYNC),
		       cases[i].ret);
		EXPECT(mport_stat(0, cases[i].counter) - before, cases[i].packets);
	}
	EXPECT(mport_set(0, "swrite", "auto"), 0);
	EXPECT(mport_set(0, "swrite", "sometimes"), -EINVAL);
}

void test_dma(void)
{
	static const size_t sizes[] = { 1,   2,	  3,   7,    8,	   9,	 64,	255,
					256, 257, 777, 4095, 4096, 4097, 65541, 300001 };
	static const size_t offsets[] = { 0, 1, 5, 8, 250, 4090 };
	static const int methods[] = { RIO_EXCHANGE_DEFAULT, RIO_EXCHANGE_NWRITE,
				       RIO_EXCHANGE_NWRITE_R, RIO_EXCHANGE_NWRITE_R_ALL };
	struct pair p = { .from = mport_open(0), .to = mport_open(1), .id = mport_id(1) };
	struct rio_dma_mem mem = { .length = SIZE };
	struct window buffer;

	window_open(p.to, RIO_MAP_ANY_ADDR, SIZE, &p.w);
	p.mine = malloc(SIZE + 8192);
	p.back = malloc(SIZE + 8192);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (size_t o = 0; o < sizeof(offsets) / sizeof(offsets[0]); o++)
			one(&p, offsets[o], offsets[(o + s) % 6], sizes[s], methods[(s + o) % 4]);
	one(&p, 0, 3, SIZE, RIO_EXCHANGE_NWRITE);
	one(&p, SIZE - 13, 3, 13, RIO_EXCHANGE_NWRITE_R);
	packet_kinds(&p);
	many_at_once(&p);
	/* beyond the window, partly and all of it */
	EXPECT(dma(p.from, true, p.id, p.w.address + SIZE - 8, p.mine, 9, RIO_EXCHANGE_NWRITE_R,
		   RIO_TRANSFER_SYNC),
	       -EIO);
	EXPECT(dma(p.from, false, p.id, p.w.address + SIZE, p.mine, 8, 0, RIO_TRANSFER_SYNC), -EIO);
	EXPECT(dma(p.from, false, p.id, p.w.address - 1, p.mine, 8, 0, RIO_TRANSFER_SYNC), -EIO);
	EXPECT(dma(p.from, false, p.id, UINT64_MAX - 3, p.mine, 8, 0, RIO_TRANSFER_SYNC), -EINVAL);
	/* no answer, so nobody knows */
	EXPECT(dma(p.from, true, p.id, p.w.address + SIZE, p.mine, 8, RIO_EXCHANGE_NWRITE,
		   RIO_TRANSFER_SYNC),
	       0);
	CHECK(mport_stat(1, "window_misses") >= 4);
	/* from a buffer of the kernel's */
	CHECK(!ioctl(p.from, RIO_ALLOC_DMA, &mem));
	buffer.handle = mem.dma_handle;
	EXPECT(dma_buffer(p.from, false, p.id, p.w.address + 11, buffer.handle, 17, 3001, 0), 0);
	vt_fill(p.w.p + 11, 3001, 5);
	EXPECT(dma_buffer(p.from, false, p.id, p.w.address + 11, buffer.handle, 17, 3001, 0), 0);
	memset(p.w.p, 0, SIZE);
	EXPECT(dma_buffer(p.from, true, p.id, p.w.address + 500, buffer.handle, 17, 3001,
			  RIO_EXCHANGE_NWRITE_R),
	       0);
	CHECK(!vt_differ(p.w.p + 500, 3001, 5));
	CHECK(!ioctl(p.from, RIO_FREE_DMA, &mem.dma_handle));
	window_close(p.to, &p.w);
	EXPECT(dma(p.from, false, p.id, p.w.address, p.mine, 8, 0, RIO_TRANSFER_SYNC), -EIO);
	free(p.mine);
	free(p.back);
	close(p.from);
	close(p.to);
}

static void outbound(int a, int b)
{
	struct window in, out, second;

	window_open(b, RIO_MAP_ANY_ADDR, 65536, &in);
	vt_fill(in.p, 65536, 1);
	EXPECT(outbound_open(a, mport_id(1), in.address, 65536, &out), 0);
	AWAIT(!vt_differ(out.p, 65536, 1));
	/* stores of each size arrive, their neighbours stay */
	*(volatile uint8_t *)(out.p + 3) = 0x11;
	*(volatile uint16_t *)(out.p + 1000) = 0x2222;
	*(volatile uint32_t *)(out.p + 4096) = 0x33333333;
	*(volatile uint64_t *)(out.p + 65528) = 0x4444444444444444;
	AWAIT(*(volatile uint64_t *)(in.p + 65528) == 0x4444444444444444);
	AWAIT(in.p[3] == 0x11 && *(volatile uint16_t *)(in.p + 1000) == 0x2222 &&
	      *(volatile uint32_t *)(in.p + 4096) == 0x33333333);
	*(volatile uint8_t *)(in.p + 3) = 0x55; /* and what the owner writes is seen */
	AWAIT(*(volatile uint8_t *)(out.p + 3) == 0x55);
	CHECK(vt_differ(in.p, 65536, 1) <= 1 + 2 + 4 + 8);
	EXPECT(outbound_open(a, mport_id(1), in.address + 0x100000, 4096, &second), 0);
	outbound_close(a, &second);
	EXPECT(outbound_open(a, mport_id(1), in.address + 0x100000, 1 << 20, &second), -ENOMEM);
	outbound_close(a, &out);
	window_close(b, &in);
}

void test_windows(void)
{
	int a = mport_open(0), b = mport_open(1);
	struct window w, x, y[16];
	uint8_t buffer[64];
	long ret = 0;
	int n;

	/* an address of one's own: a power of two, aligned to it; two windows don't overlap */
	window_open(b, 0x40000000, 65536, &w);
	vt_fill(buffer, 64, 3);
	EXPECT(dma(a, true, mport_id(1), 0x40000000 + 65536 - 64, buffer, 64, RIO_EXCHANGE_NWRITE_R,
		   RIO_TRANSFER_SYNC),
	       0);
	CHECK(!vt_differ(w.p + 65536 - 64, 64, 3));
	EXPECT(window_try(b, 0x50001000, 8192, &x), -EINVAL);
	EXPECT(window_try(b, 0x50000000, 12288, &x), -EINVAL);
	CHECK(window_try(b, 0x40008000, 4096, &x) < 0);
	/* the neighbour: a transfer across both */
	window_open(b, 0x40010000, 4096, &x);
	EXPECT(dma(a, true, mport_id(1), 0x40010000 - 32, buffer, 64, RIO_EXCHANGE_NWRITE_R,
		   RIO_TRANSFER_SYNC),
	       0);
	CHECK(!memcmp(w.p + 65536 - 32, buffer, 32) && !memcmp(x.p, buffer + 32, 32));
	window_close(b, &x);
	window_close(b, &w);
	for (n = 0; n < 16 && !ret; n++)
		ret = window_try(b, 0x60000000 + n * 4096, 4096, &y[n]);
	EXPECT(ret, 0);
	EXPECT(window_try(b, 0x70000000, 4096, &w), -EBUSY);
	while (n--)
		window_close(b, &y[n]);
	outbound(a, b);
	close(a);
	close(b);
}
