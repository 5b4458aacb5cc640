// SPDX-License-Identifier: GPL-2.0
/*
 * test_doorbells.c - doorbells in order, a full queue and its retries, loss and duplication; and how
 * long transfers and doorbells take by the settings. rio_mport_cdev keeps 10 events for a file.
 */
#include "vt.h"

#include <string.h>
#include <unistd.h>

static void expect_doorbell(int fd, uint16_t from, uint16_t info)
{
	struct rio_event e;

	CHECK(event_next(fd, &e, 5000));
	CHECK(e.header == RIO_DOORBELL);
	if (e.u.doorbell.rioid != from || e.u.doorbell.payload != info)
		check_fail("doorbell %#x from %u, not %#x from %u", e.u.doorbell.payload,
			   e.u.doorbell.rioid, info, from);
}

static void full_queue(int a, int b)
{
	long long retried = mport_stat(0, "doorbells_retried");
	int sent = 0;

	EXPECT(mport_set(1, "doorbell_limit", "4"), 0);
	EXPECT(mport_set(1, "doorbell_hold", "1"), 0);
	for (int i = 0; i < 10; i++)
		EXPECT(doorbell(a, mport_id(1), 0x100 + i), 0);
	AWAIT(mport_stat(0, "doorbells_retried") > retried + 10);
	/* what waits for one receiver holds up no other */
	EXPECT(doorbell(a, mport_id(2), 0x1ff), 0);
	AWAIT(mport_stat(2, "doorbells_received") > 0);
	EXPECT(mport_set(1, "doorbell_hold", "0"), 0);
	for (int i = 0; i < 10; i++)
		expect_doorbell(b, mport_id(0), 0x100 + i);
	/* as many as the port can hold, and no more; a reset forgets them */
	EXPECT(mport_set(1, "doorbell_hold", "1"), 0);
	while (sent < 10000 && doorbell(a, mport_id(1), 0x180) == 0)
		sent++;
	EXPECT(sent, 4 + 256);
	EXPECT(doorbell(a, mport_id(1), 0x180), -EBUSY);
	CHECK(mport_stat(0, "doorbells_refused") >= 2);
	EXPECT(mport_set(0, "reset", "soft"), 0);
	EXPECT(mport_set(1, "reset", "soft"), 0);
	EXPECT(mport_set(1, "doorbell_hold", "0"), 0);
	EXPECT(mport_set(1, "doorbell_limit", "512"), 0);
	EXPECT(doorbell(a, mport_id(1), 0x1aa), 0);
	expect_doorbell(b, mport_id(0), 0x1aa);
}

void test_doorbells(void)
{
	int a = mport_open(0), b = mport_open(1), c = mport_open(2);
	long long before;
	struct rio_event e;

	doorbells_on(b, 0x100, 0x1ff);
	for (int i = 0; i < 300; i++) {
		EXPECT(doorbell(a, mport_id(1), 0x100 + i % 256), 0);
		expect_doorbell(b, mport_id(0), 0x100 + i % 256);
	}
	EXPECT(doorbell(c, mport_id(1), 0x101), 0);
	expect_doorbell(b, mport_id(2), 0x101);
	/* in no range that anyone asked for */
	before = mport_stat(1, "doorbells_unclaimed");
	EXPECT(doorbell(a, mport_id(1), 0x800), 0);
	AWAIT(mport_stat(1, "doorbells_unclaimed") == before + 1);
	/* to nobody */
	before = mport_stat(0, "doorbells_failed");
	EXPECT(doorbell(a, 0x77, 0x100), 0);
	AWAIT(mport_stat(0, "doorbells_failed") == before + 1);
	full_queue(a, b);
	/* all lost, then all doubled */
	EXPECT(mport_set(1, "doorbell_loss", "1000000"), 0);
	EXPECT(doorbell(a, mport_id(1), 0x150), 0);
	AWAIT(mport_stat(1, "doorbells_lost_injected") == 1);
	EXPECT(mport_set(1, "doorbell_loss", "0"), 0);
	EXPECT(mport_set(1, "doorbell_duplicate", "1000000"), 0);
	EXPECT(doorbell(a, mport_id(1), 0x151), 0);
	expect_doorbell(b, mport_id(0), 0x151);
	expect_doorbell(b, mport_id(0), 0x151);
	EXPECT(mport_set(1, "doorbell_duplicate", "0"), 0);
	CHECK(!event_next(b, &e, 0));
	doorbells_off(b, 0x100, 0x1ff);
	close(a);
	close(b);
	close(c);
}

/* Seconds of a transfer that must succeed. */
static double lasts(int fd, bool write, uint64_t address, void *p, size_t n, int method)
{
	double t = check_now();

	EXPECT(dma(fd, write, mport_id(1), address, p, n, method, RIO_TRANSFER_SYNC), 0);
	return check_now() - t;
}

/* Lower bounds are exact; how much longer it takes is the machine's affair. */
void test_time(void)
{
	int a = mport_open(0), b = mport_open(1), c = mport_open(0);
	uint8_t *p = malloc(1 << 20);
	struct window w;
	long number;
	double t;

	window_open(b, RIO_MAP_ANY_ADDR, 1 << 20, &w);
	doorbells_on(b, 0x100, 0x1ff);
	EXPECT(mport_set(0, "latency", "20000000"), 0);
	t = check_now();
	EXPECT(doorbell(a, mport_id(1), 0x100), 0);
	expect_doorbell(b, mport_id(0), 0x100);
	CHECK(check_now() - t >= 0.020);
	CHECK(lasts(a, true, w.address, p, 64, RIO_EXCHANGE_NWRITE) >= 0.020);
	CHECK(lasts(a, true, w.address, p, 64, RIO_EXCHANGE_NWRITE_R) >= 0.040);
	CHECK(lasts(a, false, w.address, p, 64, 0) >= 0.040);
	EXPECT(mport_set(0, "latency", "0"), 0);
	/* 10 MB/s, for the sender; two channels share it */
	EXPECT(mport_set(0, "bandwidth", "10000000"), 0);
	t = lasts(a, true, w.address, p, 1 << 20, RIO_EXCHANGE_NWRITE);
	CHECK(t >= 0.104 && t < 0.5);
	t = check_now();
	number = dma(a, true, mport_id(1), w.address, p, 500000, RIO_EXCHANGE_NWRITE,
		     RIO_TRANSFER_ASYNC);
	CHECK(number > 0);
	lasts(c, true, w.address + 500000, p, 500000, RIO_EXCHANGE_NWRITE);
	EXPECT(dma_wait(a, number), 0);
	CHECK(check_now() - t >= 0.100);
	EXPECT(mport_set(0, "bandwidth", "0"), 0);
	/* of the receiver */
	EXPECT(mport_set(1, "bandwidth", "10000000"), 0);
	CHECK(lasts(a, true, w.address, p, 500000, RIO_EXCHANGE_NWRITE) >= 0.050);
	CHECK(lasts(a, false, w.address, p, 500000, 0) >= 0.050);
	EXPECT(mport_set(1, "bandwidth", "0"), 0);
	CHECK(lasts(a, true, w.address, p, 500000, RIO_EXCHANGE_NWRITE) < 0.5);
	doorbells_off(b, 0x100, 0x1ff);
	window_close(b, &w);
	free(p);
	close(a);
	close(b);
	close(c);
}
