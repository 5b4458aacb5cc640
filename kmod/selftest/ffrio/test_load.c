// SPDX-License-Identifier: GPL-2.0
/*
 * test_load.c - many senders to one receiver, first without faults and with few buffers, then with lost and
 * repeated doorbells, failing DMA, cut links and resets. Half of the messages go from the senders' pages. What
 * was reported as arrived was received, and nothing that was received is wrong.
 */
#include "rt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define SENDERS	 16
#define NUMBERS	 4096
#define MOST	 150000
#define ENDPOINT 20

struct head {
	uint32_t sender, number, length;
};

static struct {
	int to;			  /* port of the receiver */
	atomic_bool stop, faults; /* faults: errors are none of the senders' */
	int messages;
	bool arrived[SENDERS][NUMBERS]; /* reported */
	atomic_bool got[SENDERS][NUMBERS];
	atomic_long errors, received, broken;
} load;

struct sender {
	pthread_t thread;
	unsigned int index;
};

static size_t length_of(uint32_t sender, uint32_t number)
{
	uint32_t x = sender * 7919 + number * 104729;

	return sizeof(struct head) + (number % 3 ? x % 3000 : x % MOST);
}

static void *send_all(void *arg)
{
	struct sender *s = arg;
	int fd = rt_open((load.to + 1 + s->index % 2) % PORTS, -1, 0);
	uint8_t *p = malloc(MOST + sizeof(struct head));

	for (int i = 0; i < load.messages && !load.stop; i++) {
		size_t n = length_of(s->index, i);
		struct head h = { s->index, i, n };
		long ret;

		memcpy(p, &h, sizeof(h));
		vt_fill(p + sizeof(h), n - sizeof(h), s->index << 16 | i);
		ret = rio_send(fd, mport_id(load.to), ENDPOINT, p, n,
			       FFRIO_SYNC | (i % 2 ? FFRIO_PINNED : FFRIO_COPY));
		if (ret == (long)n) {
			load.arrived[s->index][i] = true;
			continue;
		}
		if (!load.faults)
			check_fail("sender %u, message %d: %s", s->index, i, strerror(-ret));
		load.errors++;
	}
	free(p);
	close(fd);
	return NULL;
}

/* One message, in as many parts as come; false: it was broken off. */
static bool one_message(int fd, uint8_t *p, size_t *n)
{
	struct rio_from from = { 0 };

	*n = 0;
	while (!from.last) {
		ssize_t k = rio_recv(fd, p + *n, MOST + 64 - *n, &from);

		if (k == -ECONNRESET) {
			load.broken++;
			return false;
		}
		if (k < 0)
			check_fail("receive: %s", strerror(-k));
		CHECK(from.first == !*n);
		*n += k;
	}
	return true;
}

static void *receive_all(void *arg)
{
	int fd = *(int *)arg;
	uint8_t *p = malloc(MOST + 64);
	struct head h;
	size_t n;

	for (;;) {
		if (!one_message(fd, p, &n))
			continue;
		CHECK(n >= sizeof(h));
		memcpy(&h, p, sizeof(h));
		if (h.sender == SENDERS)
			break;
		CHECK(h.sender < SENDERS && h.number < NUMBERS && h.length == n);
		CHECK(!vt_differ(p + sizeof(h), n - sizeof(h), h.sender << 16 | h.number));
		/* it is sent once: none comes twice */
		CHECK(!atomic_exchange(&load.got[h.sender][h.number], true));
		load.received++;
	}
	free(p);
	return NULL;
}

static void run(int messages, void (*meanwhile)(void))
{
	struct head end = { SENDERS, 0, sizeof(end) };
	struct sender senders[SENDERS];
	int fd = rt_open(load.to, ENDPOINT, 0), own = rt_open((load.to + 1) % PORTS, -1, 0);
	pthread_t receiver;

	memset(load.arrived, 0, sizeof(load.arrived));
	memset(load.got, 0, sizeof(load.got));
	load.errors = load.received = load.broken = 0;
	load.messages = messages;
	load.stop = false;
	load.faults = meanwhile;
	CHECK(!pthread_create(&receiver, NULL, receive_all, &fd));
	for (unsigned int i = 0; i < SENDERS; i++) {
		senders[i].index = i;
		CHECK(!pthread_create(&senders[i].thread, NULL, send_all, &senders[i]));
	}
	if (meanwhile)
		meanwhile();
	for (int i = 0; i < SENDERS; i++)
		pthread_join(senders[i].thread, NULL);
	rt_quiet();
	AWAIT(rio_send(own, mport_id(load.to), ENDPOINT, &end, sizeof(end), FFRIO_SYNC) ==
	      sizeof(end));
	pthread_join(receiver, NULL);
	close(fd);
	for (int i = 0; i < SENDERS; i++)
		for (int k = 0; k < messages; k++)
			if (load.arrived[i][k] && !load.got[i][k])
				check_fail("message %d of sender %d was reported, not received", k,
					   i);
	printf("  %ld received, %ld broken off, %ld errors\n", load.received, load.broken,
	       load.errors);
	rt_all_free(own);
	close(own);
}

void test_sixteen(void)
{
	load.to = 1;
	run(12, NULL);
	CHECK(load.received == 12 * SENDERS);
}

static void lose(void)
{
	for (int i = 0; i < PORTS; i++) {
		EXPECT(mport_set(i, "doorbell_loss", "20000"), 0);
		EXPECT(mport_set(i, "doorbell_duplicate", "50000"), 0);
		EXPECT(mport_set(i, "dma_error_rate", "20000"), 0);
	}
}

/* Writes without a response are lost silently: the checksum finds it. */
static void corrupt(void)
{
	for (int i = 0; i < PORTS; i++)
		EXPECT(mport_set(i, "error_rate", "20000"), 0);
}

void test_losses(void)
{
	int fd = rt_open(0, -1, 0);
	long long again = rio_stat(fd, load.to, "doorbells_again"), bad;

	load.to = 1;
	run(12, lose);
	/* all of it is made good */
	CHECK(!load.errors && load.received == 12 * SENDERS);
	CHECK(rio_stat(fd, 0, "doorbells_again") + rio_stat(fd, 2, "doorbells_again") > again);
	bad = rio_stat(fd, 1, "bad_blocks");
	run(8, corrupt);
	CHECK(rio_stat(fd, 1, "bad_blocks") > bad);
	close(fd);
}

/* Longer than dead_ms: senders hear of it, and all goes on after. */
static void cut(void)
{
	usleep(300000);
	EXPECT(mport_set(1, "link", "0"), 0);
	AWAIT(load.errors >= 8);
	EXPECT(mport_set(1, "link", "1"), 0);
	usleep(300000);
	load.stop = true;
}

static void reset_sender(void)
{
	for (int i = 0; i < 5; i++) {
		usleep(100000);
		EXPECT(mport_set(2, "reset", "soft"), 0);
		EXPECT(mport_set(1, "reset", "soft"), 0);
	}
	load.stop = true;
}

void test_cut(void)
{
	load.to = 1;
	/* as many as there is time for, however fast the machine is */
	run(NUMBERS, cut);
	run(NUMBERS, reset_sender);
}
