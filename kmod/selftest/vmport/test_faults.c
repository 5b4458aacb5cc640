// SPDX-License-Identifier: GPL-2.0
/*
 * test_faults.c - errors of DMA, a link that is cut, port-writes about it, and resets.
 */
#include "vt.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void port_writes_on(int fd, bool on)
{
	struct rio_pw_filter f = { .mask = 0, .low = 0, .high = 0 };

	CHECK(!ioctl(fd, on ? RIO_ENABLE_PORTWRITE_RANGE : RIO_DISABLE_PORTWRITE_RANGE, &f));
	CHECK(!ioctl(fd, RIO_SET_EVENT_MASK, on ? (unsigned long)RIO_PORTWRITE : 0UL));
}

/* The switch's word to the host that port 1 changed. */
static void expect_port_write(int fd, uint32_t detect)
{
	struct rio_event e;

	do
		CHECK(event_next(fd, &e, 5000));
	while (e.header != RIO_PORTWRITE || !(e.u.portwrite.payload[1] & detect));
	CHECK((e.u.portwrite.payload[2] & 0xff) == 1);
}

static void cut(int a, const struct window *w, uint8_t *p)
{
	long long failed = mport_stat(0, "doorbells_failed");
	uint32_t v;

	port_writes_on(a, true);
	EXPECT(mport_set(1, "link", "0"), 0);
	expect_port_write(a, 0x40000000);
	EXPECT(dma(a, true, mport_id(1), w->address, p, 64, RIO_EXCHANGE_NWRITE_R,
		   RIO_TRANSFER_SYNC),
	       -EIO);
	EXPECT(dma(a, false, mport_id(1), w->address, p, 64, 0, RIO_TRANSFER_SYNC), -EIO);
	EXPECT(dma(a, true, mport_id(1), w->address, p, 64, RIO_EXCHANGE_NWRITE, RIO_TRANSFER_SYNC),
	       0);
	EXPECT(maint(a, false, mport_id(1), 0xff, 0, &v), -EIO);
	EXPECT(maint(a, false, 0xff, 0, 0x158 + 0x20, &v), 0); /* port 1's status: no link */
	CHECK(!(v & 2) && (v & 1));
	EXPECT(doorbell(a, mport_id(1), 0x100), 0);
	AWAIT(mport_stat(0, "doorbells_failed") == failed + 1);
	EXPECT(mport_set(1, "link", "1"), 0);
	expect_port_write(a, 0x10000000);
	/* the kernel has locked the port meanwhile, and lets it in again */
	AWAIT(!dma(a, true, mport_id(1), w->address, p, 64, RIO_EXCHANGE_NWRITE_R,
		   RIO_TRANSFER_SYNC));
	EXPECT(maint(a, false, 0xff, 0, 0x158 + 0x20, &v), 0);
	CHECK(v & 2);
	port_writes_on(a, false);
}

static void resets(int a, int b, uint8_t *p)
{
	uint32_t id, host, v;
	struct window w;
	long number;

	window_open(b, RIO_MAP_ANY_ADDR, 1 << 20, &w);
	/* in the middle of a second's transfer, of the sender */
	EXPECT(mport_set(0, "bandwidth", "1000000"), 0);
	number = dma(a, true, mport_id(1), w.address, p, 1 << 20, RIO_EXCHANGE_NWRITE_R,
		     RIO_TRANSFER_ASYNC);
	CHECK(number > 0);
	EXPECT(mport_set(0, "reset", "soft"), 0);
	EXPECT(dma_wait(a, number), -EIO);
	CHECK(mport_stat(0, "dma_aborted") >= 1);
	EXPECT(mport_set(0, "bandwidth", "0"), 0);
	AWAIT(!dma(a, true, mport_id(1), w.address, p, 64, RIO_EXCHANGE_NWRITE_R,
		   RIO_TRANSFER_SYNC));
	/* the receiver has lost its ID and its windows */
	EXPECT(maint_local(b, false, 0x60, &id), 0);
	EXPECT(maint_local(b, false, 0x68, &host), 0);
	EXPECT(mport_set(1, "reset", "hard"), 0);
	EXPECT(maint_local(b, false, 0x60, &v), 0);
	CHECK(v == 0xff0000 && v != id);
	EXPECT(dma(a, true, mport_id(1), w.address, p, 64, RIO_EXCHANGE_NWRITE_R,
		   RIO_TRANSFER_SYNC),
	       -EIO);
	EXPECT(maint_local(b, true, 0x60, &id), 0);
	AWAIT(!maint(a, false, mport_id(1), 0xff, 0, &v));
	EXPECT(dma(a, true, mport_id(1), w.address, p, 64, RIO_EXCHANGE_NWRITE_R,
		   RIO_TRANSFER_SYNC),
	       -EIO);
	window_close(b, &w);
	window_open(b, RIO_MAP_ANY_ADDR, 4096, &w);
	EXPECT(dma(a, true, mport_id(1), w.address, p, 64, RIO_EXCHANGE_NWRITE_R,
		   RIO_TRANSFER_SYNC),
	       0);
	window_close(b, &w);
	EXPECT(mport_set(1, "reset", "maybe"), -EINVAL);
}

void test_faults(void)
{
	int a = mport_open(0), b = mport_open(1);
	uint8_t *p = malloc(1 << 20);
	struct window w;
	uint32_t v;
	int failed = 0;

	window_open(b, RIO_MAP_ANY_ADDR, 65536, &w);
	EXPECT(mport_set(0, "dma_error_rate", "1000000"), 0);
	EXPECT(dma(a, true, mport_id(1), w.address, p, 64, RIO_EXCHANGE_NWRITE, RIO_TRANSFER_SYNC),
	       -EIO);
	EXPECT(dma(a, false, mport_id(1), w.address, p, 64, 0, RIO_TRANSFER_SYNC), -EIO);
	/* some: those that succeed are right */
	EXPECT(mport_set(0, "dma_error_rate", "300000"), 0);
	for (int i = 0; i < 100; i++) {
		vt_fill(p, 5000, i);
		if (dma(a, true, mport_id(1), w.address, p, 5000, RIO_EXCHANGE_NWRITE_R,
			RIO_TRANSFER_SYNC))
			failed++;
		else
			CHECK(!vt_differ(w.p, 5000, i));
	}
	CHECK(failed > 5 && failed < 80);
	EXPECT(mport_set(0, "dma_error_rate", "0"), 0);
	EXPECT(mport_set(0, "error_rate", "1000000"), 0);
	EXPECT(maint(a, false, mport_id(1), 0xff, 0, &v), -EIO);
	EXPECT(mport_set(0, "error_rate", "0"), 0);
	EXPECT(maint(a, false, mport_id(1), 0xff, 0, &v), 0);
	cut(a, &w, p);
	window_close(b, &w);
	resets(a, b, p);
	free(p);
	close(a);
	close(b);
}
