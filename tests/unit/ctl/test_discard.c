/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c @lib @keeper @obj @mem @fast ffr/fast/pvm.c ffr/fast/roles.c @peer @dir @wire @soft @remote @ctl @cm ffr/conf.c @ffo_tls ffo/base/limits.c ffo/base/limits_text.c ffo/base/proto.c */
/*
 * test_discard.c - ffr/ctl/discard.c: a client sends TCP sockets that linger, whose last descriptor takes
 * as long to close as their peer likes; the control thread must not be the one that waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffr/ctl/discard.h"
#include "tests/rig/common/slow.h"
#include "tests/rig/unit/ctl_calls.h"

#define LINGER_S 600 /* far beyond what any case may take */
#define LIMIT_S	 20

static struct ctl_rig *const g = &call_rig;

static struct slow slow_new(void)
{
	struct slow s;

	assert_int_equal(slow_open(&s, LINGER_S), 0);
	assert_int_equal(fcntl(s.far, F_SETFL, O_NONBLOCK), 0);
	return s;
}

/* The far end goes: whoever waits for it does no longer. */
static void slow_end(struct slow *s)
{
	close(s->far);
}

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static struct container_ctl *ctl(void)
{
	return g->c[0]->ctl;
}

/* len bytes with the socket, which is the client's no more. */
static void give(int sock, struct slow *s, const void *bytes, size_t len, unsigned copies)
{
	rig_send(sock, bytes, len, s->near, copies);
	close(s->near);
}

static const struct ff_hdr bad = { .magic = 0x1234 };
static const struct {
	struct ff_hdr h;
	struct ff_alloc_pd_req req;
} good = { { .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD }, { 0 } };

/* With a message that has none, one too long, one without bytes; one and as many as go. */
static void with_a_message(void **state)
{
	static const uint8_t big[FF_MSG_MAX + 1];
	const struct {
		const void *bytes;
		size_t len;
	} m[] = { { &good, sizeof(good) }, { &bad, sizeof(bad) }, { big, sizeof(big) }, { big, 0 } };
	int other = call_client(g, 1);
	unsigned before = rig_open_fds();
	time_t from = now();

	(void)state;
	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++)
		for (unsigned copies = 1; copies <= 253; copies += 252) {
			struct slow s = slow_new();
			int sock = call_client(g, 0);

			give(sock, &s, m[i].bytes, m[i].len, copies);
			assert_true(rig_is_closed(g, sock));
			close(sock);
			assert_int_equal(call_one(g, other, FF_MSG_DEALLOC_PD, call_pd(g, other)),
					 0);
			slow_end(&s);
			rig_fds(g, before);
		}
	assert_true(now() - from < LIMIT_S);
	close(other);
}

/* In messages that are never read, since the one before them ends the connection, or the client goes. */
static void behind_a_message(void **state)
{
	unsigned before = rig_open_fds();
	time_t from = now();

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct slow s = slow_new();
		int sock = call_client(g, 0);

		if (i < 2)
			rig_send(sock, &bad, sizeof(bad), -1, 0);
		give(sock, &s, &good, i & 1 ? 0 : sizeof(good), 1);
		if (i >= 2)
			ctl_conn_close(TAILQ_FIRST(&g->ctl.conns), "a test");
		rig_pump(g);
		assert_int_equal(rig_conns(ctl()), 0);
		slow_end(&s);
		close(sock);
		rig_fds(g, before);
	}
	assert_true(now() - from < LIMIT_S);
}

/* Before it is accepted: the container goes. */
static void behind_a_connection(void **state)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct slow s = slow_new();
	time_t from = now();
	int sock;

	(void)state;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/containers/a/ffr.sock", g->dir);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(sock, (struct sockaddr *)&sun, sizeof(sun)), 0);
	give(sock, &s, &good, sizeof(good), 1);
	container_detach(g->c[0]);
	rig_pump(g);
	close(sock);
	slow_end(&s);
	assert_true(now() - from < LIMIT_S);
}

/* Into the socket of events, which nobody reads: nothing can be sent. */
static void events_are_one_way(void **state)
{
	struct ff_hello_req req = { FF_PROTO_VERSION, FF_PROTO_VERSION, "test", { 0 } };
	struct ff_create_channel_req ch = { 0 };
	struct ff_create_channel_resp chr;
	struct ff_hello_resp resp;
	int sock = rig_connect(g, 0), fds[RIG_MAX_FDS], ch_fd;
	unsigned n;

	(void)state;
	assert_int_equal(rig_hello_with(g, sock, &req, &resp, NULL, fds, &n), 0);
	assert_int_equal(send(fds[0], "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(rig_call(g, sock, FF_MSG_CREATE_CHANNEL, &ch, sizeof(ch), NULL, 0, 0, &chr,
				  sizeof(chr), &ch_fd, &n),
			 0);
	assert_int_equal(n, 1);
	assert_int_equal(send(ch_fd, "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	close(ch_fd);
	close(fds[0]);
	close(fds[1]);
	close(sock);
}

/* The status of a registration of what is no dma-buf. */
static int send_dmabuf(int sock, int fd)
{
	struct {
		struct ff_hdr h;
		struct ff_reg_dmabuf_mr_req req;
	} m = { { .magic = FF_PROTO_MAGIC, .type = FF_MSG_REG_DMABUF_MR, .n_fds = 1 }, { 0 } };
	struct {
		struct ff_hdr h;
		struct ff_reg_dmabuf_mr_resp resp;
	} a;
	ssize_t n;

	rig_send(sock, &m, sizeof(m), fd, 1);
	do {
		rig_pump(g);
		n = recv(sock, &a, sizeof(a), MSG_DONTWAIT);
	} while (n < 0 && errno == EAGAIN);
	return n == sizeof(a) ? a.h.status : RIG_CLOSED;
}

/* Nobody is let in whose container has too many of them waiting; the other container is. */
static void a_full_container_waits(void **state)
{
	struct slow s[2];
	unsigned before = rig_open_fds();
	int other, sock, client[2];

	(void)state;
	/* both first: before Linux 6.5 each HELLO leaves two files to be closed as well */
	for (unsigned i = 0; i < 2; i++)
		client[i] = call_client(g, 0);
	/* behind the first one, which is waited for */
	for (unsigned i = 0; i < 2; i++) {
		assert_false(discard_full(ctl()->discard, false));
		s[i] = slow_new();
		give(client[i], &s[i], &bad, sizeof(bad), i ? DISCARD_MAX : 1);
		assert_true(rig_is_closed(g, client[i]));
		close(client[i]);
	}
	assert_true(discard_full(ctl()->discard, false));
	other = call_client(g, 1);
	assert_int_equal(call_one(g, other, FF_MSG_DEALLOC_PD, call_pd(g, other)), 0);
	close(other);
	for (unsigned i = 0; i < 2; i++)
		slow_end(&s[i]);
	rig_fds(g, before);
	assert_false(discard_full(ctl()->discard, false));
	sock = call_client(g, 0);
	close(sock);
}

/* A process that dies leaves many at once: others of its container that have a connection go on. */
static void connections_that_ended_close_no_other(void **state)
{
	unsigned before = rig_open_fds();
	int other, client[DISCARD_MAX + 2];
	struct slow s = slow_new();
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	other = call_client(g, 0);
	for (unsigned i = 0; i < DISCARD_MAX + 2; i++)
		client[i] = call_client(g, 0);
	give(client[0], &s, &bad, sizeof(bad), 1); /* what is behind it is not closed before */
	for (unsigned i = 1; i < DISCARD_MAX + 2; i++) {
		rig_send(client[i], &bad, sizeof(bad), -1, 0);
		rig_send(client[i], &good, sizeof(good), -1, 0);
	}
	while (rig_conns(ctl()) > 1) /* a container has 1 ms of each turn */
		rig_pump(g);
	assert_true(discard_full(ctl()->discard, false));
	assert_false(discard_full(ctl()->discard, true));
	assert_int_equal(call_one(g, other, FF_MSG_DEALLOC_PD, call_pd(g, other)), 0);
	/* nor do descriptors, unless there are too many of them */
	assert_int_equal(send_dmabuf(other, fd), -EINVAL);
	assert_int_equal(call_one(g, other, FF_MSG_DEALLOC_PD, call_pd(g, other)), 0);
	for (unsigned i = 0; i < DISCARD_MAX; i++)
		(void)send_dmabuf(other, fd);
	assert_int_equal(send_dmabuf(other, fd), RIG_CLOSED);
	close(fd);
	close(other);
	for (unsigned i = 0; i < DISCARD_MAX + 2; i++)
		close(client[i]);
	slow_end(&s);
	rig_fds(g, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CALL_TEST(with_a_message),	   CALL_TEST(behind_a_message),
		CALL_TEST(behind_a_connection),	   CALL_TEST(events_are_one_way),
		CALL_TEST(a_full_container_waits), CALL_TEST(connections_that_ended_close_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
