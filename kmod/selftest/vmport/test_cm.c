// SPDX-License-Identifier: GPL-2.0
/*
 * test_cm.c - messages, by the kernel's rio_cm: a channel between two ports, with an echo.
 */
#include "vt.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/rio_cm_cdev.h>

#define SERVICE 77
#define HEADER	20 /* rio_cm's own, at the head of each message */

static bool listening;

static int cm_open(void)
{
	int fd = open("/dev/rio_cm", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static uint16_t channel(int fd, uint16_t wanted)
{
	uint16_t ch = wanted;

	CHECK(!ioctl(fd, RIO_CM_CHAN_CREATE, &ch));
	return ch;
}

static long message(int fd, bool send, uint16_t ch, void *p, size_t n)
{
	struct rio_cm_msg m = { .ch_num = ch, .size = n, .rxto = 10000, .msg = (uintptr_t)p };

	return ioctl(fd, send ? RIO_CM_CHAN_SEND : RIO_CM_CHAN_RECEIVE, &m) ? -errno : 0;
}

static void send_all(int fd, uint16_t ch, void *p, size_t n)
{
	long ret;

	/* EBUSY: all slots are on their way */
	while ((ret = message(fd, true, ch, p, n)) == -EBUSY)
		vt_pause();
	EXPECT(ret, 0);
}

void cm_serve(int mport)
{
	struct rio_cm_channel bind = { .id = SERVICE, .mport_id = mport };
	struct rio_cm_accept accept = { .ch_num = SERVICE, .wait_to = 30000 };
	uint16_t listener = SERVICE, length;
	uint8_t buffer[4096];
	int fd = cm_open();
	long ret;

	channel(fd, SERVICE);
	CHECK(!ioctl(fd, RIO_CM_CHAN_BIND, &bind));
	CHECK(!ioctl(fd, RIO_CM_CHAN_LISTEN, &listener));
	__atomic_store_n(&listening, true, __ATOMIC_RELEASE);
	CHECK(!ioctl(fd, RIO_CM_CHAN_ACCEPT, &accept));
	/* its length is in the message; that the channel is closed ends it */
	while (!(ret = message(fd, false, accept.ch_num, buffer, sizeof(buffer)))) {
		memcpy(&length, buffer + HEADER, 2);
		CHECK(length <= sizeof(buffer));
		send_all(fd, accept.ch_num, buffer, length);
	}
	if (ret != -ECONNRESET && ret != -ENODEV) /* by when the close is seen */
		check_fail("receive: %ld", ret);
	ioctl(fd, RIO_CM_CHAN_CLOSE, &accept.ch_num);
	CHECK(!ioctl(fd, RIO_CM_CHAN_CLOSE, &listener));
	close(fd);
}

static void *server(void *arg)
{
	cm_serve(*(int *)arg);
	return NULL;
}

static void fill(uint8_t *p, uint16_t length, int seed)
{
	vt_fill(p + HEADER, length - HEADER, seed);
	memcpy(p + HEADER, &length, 2);
}

void cm_client(int mport, uint16_t id, int count)
{
	struct rio_cm_channel to = { .remote_channel = SERVICE,
				     .remote_destid = id,
				     .mport_id = mport };
	uint8_t out[4096], in[4096];
	int fd = cm_open();
	double end = check_now() + 20;
	long ret;

	/* The other side may not listen yet; a channel that once failed is of no more use. */
	for (;;) {
		to.id = channel(fd, 0);
		ret = ioctl(fd, RIO_CM_CHAN_CONNECT, &to) ? -errno : 0;
		if (!ret || check_now() > end)
			break;
		CHECK(!ioctl(fd, RIO_CM_CHAN_CLOSE, &to.id));
	}
	EXPECT(ret, 0);
	for (int i = 0; i < count; i += 8) {
		/* eight on their way, of odd lengths up to the largest */
		for (int j = i; j < i + 8; j++) {
			uint16_t n = j % 16 == 5 ? 4096 : HEADER + 2 + (j * 509) % 3000;

			fill(out, n, j);
			send_all(fd, to.id, out, n);
		}
		for (int j = i; j < i + 8; j++) {
			uint16_t n = j % 16 == 5 ? 4096 : HEADER + 2 + (j * 509) % 3000;

			fill(out, n, j);
			EXPECT(message(fd, false, to.id, in, sizeof(in)), 0);
			CHECK(!memcmp(in + HEADER, out + HEADER, n - HEADER));
		}
	}
	CHECK(!ioctl(fd, RIO_CM_CHAN_CLOSE, &to.id));
	close(fd);
}

void test_cm(void)
{
	long long sent = mport_stat(0, "messages_sent");
	int mport = 1;
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, server, &mport));
	AWAIT(__atomic_load_n(&listening, __ATOMIC_ACQUIRE));
	cm_client(0, mport_id(1), 400);
	pthread_join(t, NULL);
	CHECK(mport_stat(0, "messages_sent") >= sent + 400);
}
