// SPDX-License-Identifier: GPL-2.0
/*
 * test_peer.c - between two VMs: `serve` has a window at a fixed address and echoes doorbells and
 * messages until it is told to end; `peer` does the rest.
 */
#include "vt.h"

#include <string.h>
#include <unistd.h>

#define ADDRESS 0x40000000
#define SIZE	(256 * 1024)
#define END	0x1ff

void serve(void)
{
	int fd = mport_open(0);
	struct window w;
	struct rio_event e;

	window_open(fd, ADDRESS, SIZE, &w);
	vt_fill(w.p, SIZE, 4711);
	doorbells_on(fd, 0x100, END);
	EXPECT(mport_set(0, "doorbell_limit", "2"), 0);
	puts("serving");
	cm_serve(0);
	do {
		if (!event_next(fd, &e, 60000))
			check_fail("no doorbell");
		CHECK(!doorbell(fd, e.u.doorbell.rioid, e.u.doorbell.payload + 0x100));
	} while (e.u.doorbell.payload != END);
	AWAIT(mport_stat(0, "doorbells_sent") > 0);
	doorbells_off(fd, 0x100, END);
	window_close(fd, &w);
	close(fd);
}

static void memory(int fd, uint16_t id)
{
	static const size_t sizes[] = { 1, 7, 8, 255, 1023, 1024, 1025, 4097, 65537, SIZE - 9 };
	static const int methods[] = { RIO_EXCHANGE_DEFAULT, RIO_EXCHANGE_NWRITE,
				       RIO_EXCHANGE_NWRITE_R, RIO_EXCHANGE_NWRITE_R_ALL };
	uint8_t *p = malloc(SIZE + 64), *back = malloc(SIZE + 64);
	long number[4];

	EXPECT(dma(fd, false, id, ADDRESS, p, SIZE, 0, RIO_TRANSFER_SYNC), 0);
	CHECK(!vt_differ(p, SIZE, 4711));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t at = i * 3 % 9;

		vt_fill(p + i, sizes[i], i);
		memset(back, 0, sizes[i] + i);
		EXPECT(dma(fd, true, id, ADDRESS + at, p + i, sizes[i], methods[i % 4],
			   RIO_TRANSFER_SYNC),
		       0);
		EXPECT(dma(fd, false, id, ADDRESS + at, back + i, sizes[i], 0, RIO_TRANSFER_SYNC),
		       0);
		CHECK(!vt_differ(back + i, sizes[i], i));
	}
	for (int i = 0; i < 4; i++) {
		vt_fill(p + i * 9999, 9999, 50 + i);
		number[i] = dma(fd, true, id, ADDRESS + i * 9999, p + i * 9999, 9999,
				RIO_EXCHANGE_NWRITE_R, RIO_TRANSFER_ASYNC);
		CHECK(number[i] > 0);
	}
	for (int i = 0; i < 4; i++) {
		EXPECT(dma_wait(fd, number[i]), 0);
		EXPECT(dma(fd, false, id, ADDRESS + i * 9999, back, 9999, 0, RIO_TRANSFER_SYNC), 0);
		CHECK(!vt_differ(back, 9999, 50 + i));
	}
	EXPECT(dma(fd, true, id, ADDRESS + SIZE - 4, p, 8, RIO_EXCHANGE_NWRITE_R,
		   RIO_TRANSFER_SYNC),
	       -EIO);
	EXPECT(dma(fd, false, id, ADDRESS + SIZE, p, 8, 0, RIO_TRANSFER_SYNC), -EIO);
	free(p);
	free(back);
}

/* n doorbells at once, from `info` on: their echoes come in the same order. */
static void echoed(int fd, uint16_t id, uint16_t info, int n)
{
	struct rio_event e;

	for (int i = 0; i < n; i++)
		EXPECT(doorbell(fd, id, info + i), 0);
	for (int i = 0; i < n; i++) {
		CHECK(event_next(fd, &e, 10000));
		if (e.u.doorbell.rioid != id || e.u.doorbell.payload != info + i + 0x100)
			check_fail("%d of %d: doorbell %#x from %u, not %#x from %u", i, n,
				   e.u.doorbell.payload, e.u.doorbell.rioid, info + i + 0x100, id);
	}
}

void test_peer(uint16_t id)
{
	int fd = mport_open(0);
	double t = check_now();
	struct window out;
	uint32_t v;

	/* two switches away */
	EXPECT(maint(fd, false, id, 0xff, 0x60, &v), 0);
	CHECK(v == (uint32_t)id << 16);
	EXPECT(maint(fd, false, id, 1, 0x10, &v), 0);
	CHECK(v & 0x10000000);
	EXPECT(maint(fd, false, 0x77, 0xff, 0, &v), -EIO);
	cm_client(0, id, 64);
	printf("messages: ok, %.1f s\n", check_now() - t);
	t = check_now();
	memory(fd, id);
	printf("memory: ok, %.1f s\n", check_now() - t);
	t = check_now();
	EXPECT(outbound_open(fd, id, ADDRESS, 4096, &out), 0);
	*(volatile uint32_t *)(out.p + 64) = 0x12345678;
	AWAIT(!dma(fd, false, id, ADDRESS + 64, &v, 4, 0, RIO_TRANSFER_SYNC) && v == 0x12345678);
	outbound_close(fd, &out);
	t = check_now();
	doorbells_on(fd, 0x200, 0x2ff);
	EXPECT(mport_set(0, "doorbell_limit", "2"), 0);
	for (int i = 0; i < 100; i++)
		echoed(fd, id, 0x100 + i, 1);
	/* in order, though there is room for two at either end, and more are on their way */
	for (int i = 0; i < 30; i++)
		echoed(fd, id, 0x100 + 8 * i, 8);
	echoed(fd, id, END, 1);
	doorbells_off(fd, 0x200, 0x2ff);
	printf("doorbells: ok, %.1f s, %lld retried\n", check_now() - t,
	       mport_stat(0, "doorbells_retried"));
	close(fd);
}
