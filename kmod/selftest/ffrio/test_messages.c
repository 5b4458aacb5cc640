// SPDX-License-Identifier: GPL-2.0
/*
 * test_messages.c - what the calls promise, without faults: messages of any size and alignment in each
 * mode of the module, without a copy, and access to windows.
 */
#include "rt.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static bool ready(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, ms) == 1 && p.revents & events;
}

void test_calls(void)
{
	int unbound = open("/dev/ffrio", O_RDWR), a, b;
	struct ffrio_bind bound = { .version = FFRIO_VERSION + 1 };
	char byte = 0;

	CHECK(unbound >= 0);
	EXPECT(rio_send(unbound, 1, 1, &byte, 1, 0), -ENOTCONN);
	EXPECT(rio_recv(unbound, &byte, 1, NULL), -ENOTCONN);
	CHECK(ioctl(unbound, FFRIO_BIND, &bound) < 0 && errno == EPROTO);
	CHECK(bound.version == FFRIO_VERSION);
	close(unbound);
	EXPECT(rio_open(7, -1, 0, NULL), -ENODEV);
	EXPECT(rio_open(0, FFRIO_ENDPOINTS, 0, NULL), -EINVAL);
	a = rt_open(0, 5, 0);
	EXPECT(rio_open(0, 5, 0, NULL), -EADDRINUSE);
	EXPECT(rio_send(a, mport_id(1), FFRIO_ENDPOINTS, &byte, 1, 0), -EINVAL);
	EXPECT(rio_send(a, mport_id(1), 5, &byte, 1, FFRIO_SYNC), -ECONNREFUSED);
	/* nobody has that ID */
	EXPECT(rio_send(a, 0xee, 5, &byte, 1, FFRIO_SYNC), -EHOSTUNREACH);
	b = rt_open(1, 5, O_NONBLOCK);
	EXPECT(rio_recv(b, &byte, 1, NULL), -EAGAIN);
	CHECK(!ready(b, POLLIN, 0) && ready(b, POLLOUT, 0));
	EXPECT(rio_send(a, mport_id(1), 5, NULL, 1, 0), -EFAULT);
	EXPECT(rio_send(a, mport_id(1), 5, &byte, 1, FFRIO_SYNC), 1);
	CHECK(ready(b, POLLIN, 5000));
	EXPECT(rio_recv(b, NULL, 1, NULL), -EFAULT);
	EXPECT(rio_recv(b, &byte, 1, NULL), 1);
	EXPECT(rio_reap(a, &(struct ffrio_reap){ 0 }), -ENODATA);
	EXPECT(rio_give_back(a, 0), -EINVAL);
	EXPECT(rio_post(a, mport_id(1), 5, 0, 1, FFRIO_FIRST | FFRIO_LAST, 0), -EINVAL);
	close(a);
	close(b);
	a = rt_open(0, -1, 0);
	rt_all_free(a);
	close(a);
}

static const size_t sizes[] = { 0,    1,     2,	    7,	   8,	  9,	 63,	64,	65,
				4095, 32767, 32768, 32769, 98304, 98311, 65536, 262145, 1000003 };

static void *receive(void *arg)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		rt_expect(*(int *)arg, sizes[i], i);
	return NULL;
}

void rt_all_sizes(int a, int b, unsigned int to, unsigned int endpoint, unsigned int flags)
{
	pthread_t receiver;

	CHECK(!pthread_create(&receiver, NULL, receive, &b));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		rt_send(a, to, endpoint, sizes[i], i, flags);
	EXPECT(rio_flush(a), 0);
	pthread_join(receiver, NULL);
}

void rt_mode(unsigned int i)
{
	static const char *const modes[][3] = {
		{ "Y", "Y", "N" }, { "N", "N", "Y" }, { "N", "Y", "N" }, { "Y", "N", "N" }
	};

	rt_parameter("early_request", modes[i % 4][0]);
	rt_parameter("top_half", modes[i % 4][1]);
	rt_parameter("semaphore", modes[i % 4][2]);
	rt_parameter("checksum", i & 1 ? "N" : "Y");
}

/* What a call that can't wait leaves goes with the next; each direction by poll(). */
static void non_blocking(int to)
{
	int a = rt_open(0, 9, O_NONBLOCK), b = rt_open(to, 9, O_NONBLOCK);
	const size_t n = 700001;
	uint8_t *out = malloc(n), *in = malloc(n + 1);
	size_t sent = 0, got = 0;
	struct rio_from from = { 0 };

	vt_fill(out, n, 77);
	while (!from.last) {
		ssize_t k;

		if (sent < n) {
			k = rio_send(a, mport_id(to), 9, out + sent, n - sent, 0);
			CHECK(k > 0 || k == -EAGAIN);
			sent += k > 0 ? k : 0;
		}
		k = rio_recv(b, in + got, n + 1 - got, &from);
		CHECK(k >= 0 || k == -EAGAIN);
		if (k < 0)
			from.last = false;
		got += k > 0 ? k : 0;
		if (k < 0)
			ready(b, POLLIN, 10);
	}
	CHECK(got == n && !vt_differ(in, n, 77));
	AWAIT(rio_flush(a) != -EAGAIN);
	EXPECT(rio_flush(a), 0);
	free(out);
	free(in);
	close(a);
	close(b);
}

/* A message in parts, read in parts, beside another that has to wait for its end. */
static void parts(int to)
{
	int a = rt_open(0, 10, 0), c = rt_open(0, 11, O_NONBLOCK), b = rt_open(to, 10, 0);
	uint8_t p[100];
	struct rio_from from;

	vt_fill(p, 100, 3);
	EXPECT(rio_send(a, mport_id(to), 10, p, 40, FFRIO_MORE), 40);
	EXPECT(rio_send(a, mport_id(to), 11, p, 1, 0), -EINVAL);
	EXPECT(rio_send(c, mport_id(to), 10, p, 1, 0), -EAGAIN);
	EXPECT(rio_recv(b, p, 15, &from), 15);
	CHECK(from.first && !from.last && from.endpoint == 10 && from.destid == mport_id(0));
	EXPECT(rio_send(a, mport_id(to), 10, p + 40, 60, 0), 60);
	EXPECT(rio_recv(b, p + 15, 85, &from), 85);
	CHECK(!from.first && from.last && !vt_differ(p, 100, 3));
	/* a sender that closes in the middle */
	EXPECT(rio_send(a, mport_id(to), 10, p, 40, FFRIO_MORE), 40);
	EXPECT(rio_recv(b, p, 40, &from), 40);
	close(a);
	EXPECT(rio_recv(b, p, 40, &from), -ECONNRESET);
	CHECK(from.destid == mport_id(0));
	AWAIT(rio_send(c, mport_id(to), 10, p, 5, 0) == 5);
	EXPECT(rio_recv(b, p, 40, &from), 5);
	close(b);
	close(c);
}

void test_messages(void)
{
	int a = rt_open(0, 8, 0), b = rt_open(1, 8, 0);

	for (unsigned int i = 0; i < RT_MODES; i++) {
		rt_mode(i);
		rt_all_sizes(a, b, mport_id(1), 8, FFRIO_COPY);
	}
	rt_mode(0);
	/* to another endpoint of this node */
	close(b);
	b = rt_open(0, 12, 0);
	rt_all_sizes(a, b, mport_id(0), 12, FFRIO_COPY);
	close(b);
	non_blocking(2);
	parts(1);
	rt_all_free(a);
	close(a);
}

void test_in_place(void)
{
	struct ffrio_bind ab, bb;
	int a = rio_open(0, 13, 0, &ab), b = rio_open(2, 13, 0, &bb);
	const uint8_t *rmb = rio_map_rmb(b, &bb);
	uint8_t *smb = rio_map_smb(a, &ab);
	struct ffrio_reap r;
	struct ffrio_take t;
	int buffer[4];

	CHECK(rmb && smb);
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, b, bb.rmb_offset) == MAP_FAILED);
	CHECK(mmap(NULL, bb.rmb_length + 4096, PROT_READ, MAP_SHARED, b, bb.rmb_offset) ==
	      MAP_FAILED);
	CHECK(mprotect((void *)rmb, 4096, PROT_READ | PROT_WRITE) < 0);
	for (int i = 0; i < 4; i++) {
		buffer[i] = rio_alloc(a);
		CHECK(buffer[i] >= 0);
	}
	for (uint32_t i = 0; i < 40; i++) {
		size_t n = i % 2 ? ab.block : i * 37;
		int flags = (i % 4 ? 0 : FFRIO_FIRST) | (i % 4 == 3 ? FFRIO_LAST : 0);

		vt_fill(smb + rio_data(&ab, buffer[i % 4]), n, i);
		EXPECT(rio_post(a, mport_id(2), 13, buffer[i % 4], n, flags, i), 0);
		EXPECT(rio_post(a, mport_id(2), 13, buffer[i % 4], n, flags, i), -EINVAL);
		EXPECT(rio_free(a, buffer[i % 4]), -EINVAL);
		EXPECT(rio_take(b, &t), 0);
		CHECK(t.length == n && t.flags == (unsigned int)flags && t.endpoint == 13);
		CHECK(!vt_differ(rmb + rio_data(&bb, t.buffer), n, i));
		EXPECT(rio_give_back(b, t.buffer), 0);
		EXPECT(rio_reap(a, &r), 0);
		CHECK(r.cookie == i && r.result == 0 && r.buffer == (unsigned int)buffer[i % 4]);
	}
	EXPECT(rio_free(a, buffer[0]), 0);
	EXPECT(rio_post(a, mport_id(2), 14, buffer[1], 8, FFRIO_FIRST | FFRIO_LAST, 7), 0);
	EXPECT(rio_reap(a, &r), 0);
	CHECK(r.cookie == 7 && r.result == -ECONNREFUSED);
	/* closed with buffers in each state */
	for (int i = 1; i < 4; i++)
		EXPECT(rio_post(a, mport_id(2), 13, buffer[i], 8, FFRIO_FIRST | FFRIO_LAST, i), 0);
	EXPECT(rio_take(b, &t), 0);
	munmap(smb, ab.smb_length);
	munmap((void *)rmb, bb.rmb_length);
	close(a);
	close(b);
	a = rt_open(0, -1, 0);
	rt_all_free(a);
	close(a);
}

void test_windows_of_others(void)
{
	int a = rt_open(0, -1, 0), b = rt_open(1, -1, 0);
	const size_t n = 1 << 18;
	uint8_t *p = malloc(n), *q = malloc(n);
	struct rio_window w, v;

	EXPECT(rio_window(b, 5000, &w), -EINVAL);
	EXPECT(rio_window(b, n, &w), 0);
	EXPECT(rio_window(b, PAGE, &v), 0);
	for (uint32_t i = 0; i < 24; i++) {
		size_t length = i % 3 ? 1 + i * 1001 : 100000 + i, at = i * 77 % 1000;

		memset(w.memory, 0, n);
		vt_fill(p + i % 5, length, i);
		EXPECT(rio_write(a, mport_id(1), w.rio + at, p + i % 5, length,
				 i % 3 == 1 ? FFRIO_RESPONSE : 0),
		       0);
		CHECK(!vt_differ((uint8_t *)w.memory + at, length, i));
		CHECK(!((uint8_t *)w.memory)[at + length] &&
		      (!at || !((uint8_t *)w.memory)[at - 1]));
		EXPECT(rio_read(a, mport_id(1), w.rio + at, q, length), 0);
		CHECK(!vt_differ(q, length, i));
	}
	EXPECT(rio_read(a, mport_id(1), w.rio + n - 4, NULL, 4), -EFAULT);
	EXPECT(rio_write(a, mport_id(1), 1ULL << 45, p, 8, 0), -EIO);
	EXPECT(rio_read(a, 0xee, w.rio, q, 8), -EIO);
	EXPECT(rio_window_end(b, &v), 0);
	EXPECT(rio_window_end(b, &w), 0);
	EXPECT(rio_read(a, mport_id(1), w.rio, q, 8), -EIO);
	free(p);
	free(q);
	rt_all_free(a);
	close(a);
	close(b);
}
