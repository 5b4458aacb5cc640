// SPDX-License-Identifier: GPL-2.0
/*
 * test_gone.c - a port that is taken from the kernel, as a board that is pulled, while programs of it send from their
 * pages and by copy, receive, poll and have buffers and a window mapped; or while it is the receiver. Each call ends
 * with an error, no page stays pinned, what was reported had arrived, and other ports go on. The port goes when its
 * last file is closed, and is used again when it is back.
 */
#include "rt.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SENDERS	 6 /* every other one from its pages */
#define ENDPOINT 30
#define BYTES	 200000

static struct {
	unsigned int id; /* of the receivers' node */
	int receiver[SENDERS];
	int from, to;		  /* ports */
	atomic_int sent[SENDERS]; /* messages that were reported */
	atomic_int got[SENDERS];  /* that were received whole */
	atomic_bool gone;	  /* the kernel has let go of the port */
} test;

/*
 * By another process: unbind waits until files of the port are closed, and a process whose thread waits there could not
 * end, as a test does that fails.
 */
static void driver(const char *file, int port)
{
	char command[128];

	snprintf(command, sizeof(command), "echo vmport.%d >/sys/bus/platform/drivers/vmport/%s",
		 port, file);
	EXPECT(system(command), 0);
}

static void *unbind(void *arg)
{
	driver("unbind", *(int *)arg);
	test.gone = true;
	return NULL;
}

/* Ends with the first error, which it returns. */
static void *send_until(void *arg)
{
	unsigned int index = (uintptr_t)arg;
	int fd = rt_open(test.from, -1, 0);
	uint8_t *p = malloc(BYTES);
	long ret;

	vt_fill(p, BYTES, index);
	do {
		ret = rio_send(fd, test.id, ENDPOINT + index, p, BYTES,
			       FFRIO_SYNC | (index % 2 ? FFRIO_PINNED : FFRIO_COPY));
		if (ret == BYTES)
			test.sent[index]++;
	} while (ret == BYTES);
	free(p);
	/* each further call as well, whatever it was that ended */
	if (ret == -ESHUTDOWN || ret == -ENODEV)
		EXPECT(rio_send(fd, 0, ENDPOINT, "", 1, FFRIO_PINNED), -ENODEV);
	close(fd);
	return (void *)ret;
}

/* Until its port is gone; or, if that is the senders', until the message of a byte that ends it. */
static void *receive_until(void *arg)
{
	unsigned int index = (uintptr_t)arg;
	int fd = test.receiver[index];
	uint8_t *p = malloc(BYTES);
	struct rio_from from;
	size_t have = 0;
	ssize_t n;

	for (;;) {
		n = rio_recv(fd, p + have, BYTES - have, &from);
		if (n == -ENODEV || (n == 1 && from.first && from.last))
			break;
		if (n == -ECONNRESET) {
			have = 0;
			continue;
		}
		CHECK(n > 0 && from.first == !have);
		have += n;
		if (from.last) {
			CHECK(have == BYTES && !vt_differ(p, BYTES, index));
			test.got[index]++;
			have = 0;
		}
	}
	free(p);
	close(fd);
	return NULL;
}

/* Of the port that goes: what else a program may have of it. */
struct holder {
	int fd;
	struct ffrio_bind bound;
	uint8_t *smb;
	const uint8_t *rmb;
	struct rio_window window;
	int buffer;
};

static void hold(struct holder *h, int port)
{
	h->fd = rio_open(port, -1, O_NONBLOCK, &h->bound);
	CHECK(h->fd >= 0);
	h->smb = rio_map_smb(h->fd, &h->bound);
	h->rmb = rio_map_rmb(h->fd, &h->bound);
	h->buffer = rio_alloc(h->fd);
	CHECK(h->smb && h->rmb && h->buffer >= 0);
	EXPECT(rio_window(h->fd, 65536, &h->window), 0);
}

/* The port is gone for calls, and its memory stays where the program has it. */
static void let_go(struct holder *h)
{
	struct pollfd p = { .fd = h->fd, .events = POLLIN };
	struct rio_window w;
	struct ffrio_reap r;
	char byte;

	CHECK(poll(&p, 1, 10000) == 1 && p.revents & POLLHUP);
	EXPECT(rio_send(h->fd, 0, ENDPOINT, "", 1, 0), -ENODEV);
	EXPECT(rio_recv(h->fd, &byte, 1, NULL), -ENODEV);
	EXPECT(rio_alloc(h->fd), -ENODEV);
	EXPECT(rio_window(h->fd, PAGE, &w), -ENODEV);
	EXPECT(rio_read(h->fd, 0, 0, &byte, 1), -ENODEV);
	EXPECT(rio_post(h->fd, 0, ENDPOINT, h->buffer, 8, FFRIO_FIRST | FFRIO_LAST, 0), -ENODEV);
	EXPECT(rio_reap(h->fd, &r), -ENODATA);
	memset(h->smb, 0x5a, h->bound.smb_length);
	memset(h->window.memory, 0x5a, h->window.length);
	(void)*(const volatile uint8_t *)h->rmb;
	/* until here the kernel waits with it */
	CHECK(!test.gone);
	close(h->fd);
	CHECK(!test.gone); /* the mappings are the file's, too */
	munmap(h->smb, h->bound.smb_length);
	munmap((void *)h->rmb, h->bound.rmb_length);
	munmap(h->window.memory, h->window.length);
}

static void one(int from, int to, int goes)
{
	pthread_t senders[SENDERS], receivers[SENDERS], unbinder;
	struct holder h;
	int own = rt_open(to == goes ? 2 : to, -1, 0);

	test.from = from;
	test.to = to;
	test.gone = false;
	test.id = mport_id(to); /* which cannot be asked when it is gone */
	memset(test.sent, 0, sizeof(test.sent));
	memset(test.got, 0, sizeof(test.got));
	hold(&h, goes);
	for (int i = 0; i < SENDERS; i++)
		test.receiver[i] = rt_open(to, ENDPOINT + i, 0);
	for (uintptr_t i = 0; i < SENDERS; i++)
		CHECK(!pthread_create(&receivers[i], NULL, receive_until, (void *)i));
	for (uintptr_t i = 0; i < SENDERS; i++)
		CHECK(!pthread_create(&senders[i], NULL, send_until, (void *)i));
	for (int i = 0; i < SENDERS; i++)
		AWAIT(test.sent[i]);
	CHECK(!pthread_create(&unbinder, NULL, unbind, &goes));
	for (int i = 0; i < SENDERS; i++) {
		void *ret;
		long error;

		pthread_join(senders[i], &ret);
		error = (long)ret;
		if (goes == from ? error != -ESHUTDOWN && error != -ENODEV :
				   error != -ECONNRESET && error != -EHOSTUNREACH &&
					   error != -ECONNREFUSED && error != -ECONNABORTED)
			check_fail("sender %d ended with %s", i, strerror(-error));
	}
	rt_none_pinned();
	for (int i = 0; i < SENDERS && goes != to; i++)
		AWAIT(rio_send(own, test.id, ENDPOINT + i, "", 1, FFRIO_SYNC) == 1);
	for (int i = 0; i < SENDERS; i++) {
		pthread_join(receivers[i], NULL);
		/* of the receiver's own port, what is in its buffers is lost with it */
		CHECK(goes == to ? test.got[i] <= test.sent[i] + 1 : test.got[i] >= test.sent[i]);
	}
	let_go(&h);
	pthread_join(unbinder, NULL);
	EXPECT(rio_open(goes, -1, 0, NULL), -ENODEV);
	close(own);
}

/*
 * Until they know each other, which on a busy machine takes longer than dead_ms now and then. What the fuzzing has
 * said in a port's name may have to be found out, too.
 */
static void reach(int a, int y, int b)
{
	char byte;

	AWAIT(rio_send(a, mport_id(y), ENDPOINT, "", 1, FFRIO_SYNC) == 1);
	CHECK(!fcntl(b, F_SETFL, O_NONBLOCK));
	while (rio_recv(b, &byte, 1, NULL) != -EAGAIN)
		;
	CHECK(!fcntl(b, F_SETFL, 0));
}

/* Two ports send each other something. */
static void both_ways(int x, int y)
{
	int a = rt_open(x, ENDPOINT, 0), b = rt_open(y, ENDPOINT, 0);

	reach(a, y, b);
	reach(b, x, a);
	rt_send(a, mport_id(y), ENDPOINT, 70000, 1, FFRIO_PINNED);
	rt_expect(b, 70000, 1);
	rt_send(b, mport_id(x), ENDPOINT, 70000, 2, FFRIO_COPY);
	rt_expect(a, 70000, 2);
	close(a);
	close(b);
}

void test_gone(void)
{
	int fd;

	for (int i = 0; i < RT_MODES; i++) {
		rt_mode(i);
		one(1, 0, 1);
		both_ways(0, 2);
		driver("bind", 1);
		both_ways(0, 1);
		one(0, 1, 1);
		driver("bind", 1);
		both_ways(0, 1);
	}
	rt_mode(0);
	fd = rt_open(0, -1, 0);
	rt_all_free(fd);
	close(fd);
}
