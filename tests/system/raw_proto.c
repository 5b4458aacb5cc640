/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * raw_proto.c - a hostile client on the control socket: packets that break the protocol, and
 * descriptors that nobody asked for. Each must hurt that client alone: a victim beside it moves checked data
 * all the while, and new sessions are served after it.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/common/hello.h"
#include "tests/rig/verbs/raw.h"

/* In a session of its own: that packet ends it. */
static void closes(const void *packet, size_t len, int fd)
{
	struct raw r;

	raw_open(&r);
	if (raw_send(&r, packet, len, fd))
		raw_want_closed(&r);
	raw_close(&r);
}

static void bad_headers(void)
{
	struct {
		struct ff_hdr hdr;
		struct ff_alloc_pd_req req;
	} m;
	uint8_t big[60000] = { 0 };
	struct ff_hdr h;

	victim_start();
#define BAD(field, value)                                                                          \
	do {                                                                                       \
		memset(&m, 0, sizeof(m));                                                          \
		m.hdr = raw_header(FF_MSG_ALLOC_PD);                                               \
		m.hdr.field = (value);                                                             \
		closes(&m, sizeof(m), -1);                                                         \
	} while (0)
	BAD(magic, 0);
	BAD(magic, 0xffff);
	BAD(magic, FF_PROTO_MAGIC << 8 & 0xffff);
	BAD(status, 1);
	BAD(status, -1);
	BAD(n_tail, 1);
	BAD(n_tail, 0xffff);
	BAD(n_fds, 1);
	BAD(n_fds, 0xffff);
#undef BAD
	h = raw_header(FF_MSG_ALLOC_PD);
	for (size_t len = 1; len <= sizeof(h); len++)
		closes(&h, len, -1);
	memcpy(big, &h, sizeof(h));
	closes(big, FF_MSG_MAX, -1);
	closes(big, FF_MSG_MAX + 1, -1);
	closes(big, sizeof(big), -1);
	victim_stop();
	raw_router_serves();
}

/* Each unknown message is answered by its header alone, and the session goes on; before HELLO it ends. */
static void unknown_messages(void)
{
	static const uint16_t types[] = { 0, FF_MSG_NUM, 255, 0xffff };
	uint8_t packet[FF_MSG_MAX + 1] = { 0 };
	struct ff_alloc_pd_req req = { 0 };
	struct ff_alloc_pd_resp pd;
	struct raw r;
	char none;

	victim_start();
	raw_open(&r);
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++)
		for (size_t len = 0; len <= sizeof(packet) - 1 - sizeof(struct ff_hdr); len += 1009)
			CHECK_EQ(raw_call_tail(&r, types[i], packet, len, NULL, 0, 0, &none, 0),
				 -EOPNOTSUPP);
	RAW_CALL(&r, ALLOC_PD, &req, &pd);
	raw_close(&r);
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		struct ff_hdr h = raw_header(types[i]);

		memcpy(packet, &h, sizeof(h));
		closes(packet, sizeof(packet), -1);
		raw_connect(&r);
		if (raw_send(&r, packet, sizeof(h), -1))
			raw_want_closed(&r);
		raw_close(&r);
	}
	victim_stop();
	raw_router_serves();
}

/* Every message with every length around the right one. */
static void bad_lengths(void)
{
	victim_start();
	for (unsigned i = 0; i < raw_num_msgs; i++) {
		uint8_t packet[4096] = { 0 };
		struct ff_hdr h = raw_header(raw_msgs[i].type);
		size_t right = sizeof(h) + raw_msgs[i].req;

		memcpy(packet, &h, sizeof(h));
		for (int delta = -4; delta <= 5; delta++)
			if (delta && right + (size_t)delta >= sizeof(h))
				closes(packet, right + (size_t)delta, -1);
		if (!raw_msgs[i].has_tail)
			continue;
		h.n_tail = 2;
		memcpy(packet, &h, sizeof(h));
		closes(packet, right, -1);
		closes(packet, right + sizeof(struct ff_mr_run), -1);
		closes(packet, right + 2 * sizeof(struct ff_mr_run) + 1, -1);
		closes(packet, right + 3 * sizeof(struct ff_mr_run), -1);
		h.n_tail = 0xffff;
		memcpy(packet, &h, sizeof(h));
		closes(packet, sizeof(packet), -1);
	}
	victim_stop();
	raw_router_serves();
}

static int dev_null(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

/* Descriptors that nobody asked for: the session ends, and they are closed at the router. */
static void unexpected_descriptors(void)
{
	int fd = dev_null(), p[2];
	struct {
		struct ff_hdr hdr;
		struct ff_alloc_pd_req req;
	} m = { .hdr = raw_header(FF_MSG_ALLOC_PD) };
	char c;

	victim_start();
	for (unsigned i = 0; i < 50; i++)
		closes(&m, sizeof(m), fd);
	m.hdr.n_fds = 1;
	closes(&m, sizeof(m), fd);
	/* the write end of a pipe: its reader sees the end when the last copy is closed */
	CHECK_EQ(pipe(p), 0);
	m.hdr.n_fds = 0;
	closes(&m, sizeof(m), p[1]);
	close(p[1]);
	CHECK_EQ(read(p[0], &c, 1), 0);
	close(fd);
	victim_stop();
}

/* The write end of a pipe that is passed on in many copies; its reader sees when the last is closed. */
struct copies {
	int reader, fd[RAW_MAX_FDS];
};

static void copies_make(struct copies *c)
{
	int p[2];

	CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
	c->reader = p[0];
	for (unsigned i = 0; i < RAW_MAX_FDS; i++)
		c->fd[i] = p[1];
}

static void copies_all_closed(struct copies *c)
{
	struct pollfd p = { .fd = c->reader };

	close(c->fd[0]);
	WAIT_FOR(poll(&p, 1, 0) == 1 && p.revents & POLLHUP);
	close(c->reader);
}

/* With every message, before HELLO and after it: too few, too many, as many as go. */
static void descriptors_everywhere(void)
{
	static const unsigned counts[] = { 1, 2, 3, RAW_MAX_FDS };
	struct copies c;

	victim_start();
	copies_make(&c);
	for (unsigned i = 0; i < raw_num_msgs; i++) {
		for (unsigned k = 0; k < 4 * ARRAY_SIZE(counts); k++) {
			unsigned n = counts[k / 4];
			uint8_t packet[4096] = { 0 };
			struct ff_hdr h = raw_header(raw_msgs[i].type);
			struct raw r;

			if ((raw_msgs[i].type == FF_MSG_REG_DMABUF_MR && n == 1) ||
			    (raw_msgs[i].type == FF_MSG_TRACK && n == 1) ||
			    (raw_msgs[i].type == FF_MSG_WATCH_PAGES && n == 2))
				continue; /* they have so many */
			h.n_fds = k & 1 ? (uint16_t)n : 0;
			memcpy(packet, &h, sizeof(h));
			if (k & 2)
				raw_open(&r);
			else
				raw_connect(&r);
			if (raw_send_fds(&r, packet, sizeof(h) + raw_msgs[i].req, c.fd, n))
				raw_want_closed(&r);
			raw_close(&r);
		}
	}
	/* one more than a packet carries is the kernel's to refuse: the session has not seen it */
	struct raw r;
	struct ff_query_device_resp dev;
	struct ff_hdr h = raw_header(FF_MSG_ALLOC_PD);
	union {
		char room[CMSG_SPACE((RAW_MAX_FDS + 1) * sizeof(int))];
		struct cmsghdr c;
	} control = { .c = { .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS,
			     .cmsg_len = CMSG_LEN((RAW_MAX_FDS + 1) * sizeof(int)) } };
	struct iovec iov = { &h, sizeof(h) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control.room) };

	for (unsigned i = 0; i <= RAW_MAX_FDS; i++)
		memcpy(CMSG_DATA(&control.c) + i * sizeof(int), &c.fd[0], sizeof(int));
	raw_open(&r);
	CHECK(sendmsg(r.sock, &msg, MSG_NOSIGNAL) < 0);
	CHECK_EQ(errno, EINVAL);
	RAW_CALL(&r, QUERY_DEVICE, &(struct ff_query_device_req){ 0 }, &dev);
	raw_close(&r);
	copies_all_closed(&c);
	victim_stop();
	raw_router_serves();
}

/* Connections that are closed with descriptors on their way, accepted or still in the queue. */
static void descriptors_and_gone(void)
{
	enum { CONNS = 200 };
	struct {
		struct ff_hdr hdr;
		struct ff_alloc_pd_req req;
	} m = { .hdr = raw_header(FF_MSG_ALLOC_PD) };
	static struct raw r[CONNS];
	struct copies c;

	victim_start();
	for (unsigned round = 0; round < 10; round++) {
		copies_make(&c);
		for (unsigned i = 0; i < CONNS; i++) {
			raw_connect(&r[i]);
			if (round % 2)
				raw_hello(&r[i]);
			for (unsigned k = 0; k < 3; k++)
				raw_send_fds(&r[i], &m, sizeof(m), c.fd, RAW_MAX_FDS);
			if (i % 2)
				raw_close(&r[i]);
		}
		for (unsigned i = 0; i < CONNS; i += 2)
			raw_close(&r[i]);
		copies_all_closed(&c);
		victim_check();
	}
	victim_stop();
	raw_router_serves();
}

/*
 * As many descriptors on their way, within this program, as make the kernel refuse more to others of the
 * same user that have no CAP_SYS_RESOURCE. The router, which is root too, serves new sessions all the same;
 * where it could not have that, which the bounding set of this process stands for, it may end them, but at
 * once. Those who have their descriptors feel nothing, and afterwards all is well.
 */
static void descriptors_in_flight(void)
{
	enum { PAIRS = 10, PACKETS = 50 };
	int pair[PAIRS][2];
	struct copies c;

	victim_start();
	copies_make(&c);
	for (unsigned i = 0; i < PAIRS; i++) {
		struct raw out = { 0 };

		CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair[i]), 0);
		out.sock = pair[i][0];
		for (unsigned k = 0; k < PACKETS; k++)
			if (!raw_send_fds(&out, &k, sizeof(k), c.fd, RAW_MAX_FDS))
				break;
	}
	for (unsigned i = 0; i < 20; i++) {
		uint8_t answer[sizeof(struct ff_hdr) + sizeof(struct ff_hello_resp)];
		struct raw r;
		int fds[8];
		unsigned n;

		raw_connect(&r);
		/* who has too many on their way cannot say it, which is the kernel's rule, not ours */
		if (!raw_hello(&r)) {
			CHECK_EQ(prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE), 0);
			raw_close(&r);
			continue;
		}
		if (raw_recv(&r, answer, sizeof(answer), fds, &n) != sizeof(answer))
			CHECK_EQ(prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE), 0);
		while (n)
			close(fds[--n]);
		raw_close(&r);
	}
	victim_check();
	for (unsigned i = 0; i < PAIRS; i++) {
		close(pair[i][0]);
		close(pair[i][1]);
	}
	copies_all_closed(&c);
	victim_stop();
	raw_router_serves();
}

/* Many sessions at once that say a part of a request, byte by byte: all end, and nobody else. */
static void parts_of_requests(void)
{
	enum { SESSIONS = 100 };
	struct ff_hdr h = raw_header(FF_MSG_ALLOC_PD);
	static struct raw r[SESSIONS], quiet[60];
	struct ff_query_device_resp dev;
	struct raw good;

	victim_start();
	raw_open(&good);
	for (unsigned round = 0; round < sizeof(h); round++) {
		for (unsigned i = 0; i < SESSIONS; i++)
			raw_open(&r[i]);
		for (unsigned i = 0; i < ARRAY_SIZE(quiet); i++)
			raw_connect(&quiet[i]);
		for (unsigned i = 0; i < SESSIONS; i++)
			raw_send(&r[i], (uint8_t *)&h + round, 1, -1);
		for (unsigned i = 0; i < ARRAY_SIZE(quiet); i++)
			raw_send(&quiet[i], &h, round + 1, -1);
		RAW_CALL(&good, QUERY_DEVICE, &(struct ff_query_device_req){ 0 }, &dev);
		for (unsigned i = 0; i < SESSIONS; i++) {
			raw_want_closed(&r[i]);
			raw_close(&r[i]);
		}
		for (unsigned i = 0; i < ARRAY_SIZE(quiet); i++) {
			raw_want_closed(&quiet[i]);
			raw_close(&quiet[i]);
		}
	}
	raw_close(&good);
	victim_stop();
	raw_router_serves();
}

static void hello_rules(void)
{
	struct {
		struct ff_hdr hdr;
		struct ff_hello_req req;
	} m = { .hdr = raw_header(FF_MSG_HELLO) };
	struct ff_hello_resp resp;
	uint8_t answer[256];
	struct ff_hdr h;
	struct raw r;
	int fds[8];
	unsigned n;

	m.hdr.n_fds = 2;
	victim_start();
	/* anything else first */
	for (unsigned i = 0; i < raw_num_msgs; i++) {
		uint8_t packet[4096] = { 0 };
		struct ff_hdr h = raw_header(raw_msgs[i].type);

		if (raw_msgs[i].type == FF_MSG_HELLO || raw_msgs[i].type == FF_MSG_CHALLENGE)
			continue;
		memcpy(packet, &h, sizeof(h));
		raw_connect(&r);
		if (raw_send(&r, packet, sizeof(h) + raw_msgs[i].req, -1))
			raw_want_closed(&r);
		raw_close(&r);
	}
	/* versions that cannot be: refused with an errno, or closed */
	for (unsigned i = 0; i < 4; i++) {
		m.req.version_min = i == 0 ? FF_PROTO_VERSION + 1 : i == 1 ? 0 : i == 2 ? 5 : ~0u;
		m.req.version_max = i == 0 ? ~0u : i == 1 ? 0 : i == 2 ? 1 : 0;
		raw_connect(&r);
		CHECK(hello_send(r.sock, &m, sizeof(m)) == sizeof(m));
		CHECK(raw_recv(&r, answer, sizeof(answer), fds, &n) ==
		      sizeof(m.hdr) + sizeof(resp));
		memcpy(&h, answer, sizeof(h));
		CHECK(h.status && !n);
		raw_close(&r);
	}
	/* without its memory, as before there was that */
	raw_connect(&r);
	m.hdr.n_fds = 0;
	if (raw_send(&r, &m, sizeof(m), -1))
		raw_want_closed(&r);
	raw_close(&r);
	m.hdr.n_fds = 2;
	/* a wide range that contains ours is served */
	m.req = (struct ff_hello_req){ .version_min = 1, .version_max = 1000 };
	memset(m.req.comm, 0xff, sizeof(m.req.comm)); /* not terminated, not text */
	raw_connect(&r);
	CHECK(hello_send(r.sock, &m, sizeof(m)) == sizeof(m));
	CHECK_EQ(raw_recv(&r, answer, sizeof(answer), fds, &n), sizeof(m.hdr) + sizeof(resp));
	while (n)
		close(fds[--n]);
	/* twice */
	if (hello_send(r.sock, &m, sizeof(m)) > 0)
		raw_want_closed(&r);
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* Random packets: valid headers with random bodies, and noise. */
static void random_packets(void)
{
	uint32_t rnd = 42;

	victim_start();
	for (unsigned round = 0; round < 300; round++) {
		struct raw r;

		raw_open(&r);
		for (unsigned k = 0; k < 20; k++) {
			unsigned i = vt_rand(&rnd) % raw_num_msgs;
			uint8_t packet[4096];
			size_t len = sizeof(struct ff_hdr) + raw_msgs[i].req;
			struct ff_hdr h = raw_header(raw_msgs[i].type);

			for (size_t b = 0; b < sizeof(packet);
			     b++) /* small numbers are likely hits */
				packet[b] = vt_rand(&rnd) % 3 ? 0 : (uint8_t)vt_rand(&rnd);
			memcpy(packet, &h, sizeof(h));
			if (k == 19)
				len = vt_rand(&rnd) % sizeof(packet);
			if (!raw_send(&r, packet, len, -1))
				break;
			if (len == sizeof(h) + raw_msgs[i].req) {
				int fds[8];
				unsigned n;

				if (!raw_recv(&r, packet, sizeof(packet), fds, &n))
					break;
				while (n)
					close(fds[--n]);
			}
		}
		raw_close(&r);
	}
	victim_stop();
	raw_router_serves();
}

VT_MAIN({ "proto_bad_headers", bad_headers, 0 }, { "proto_unknown_messages", unknown_messages, 0 },
	{ "proto_bad_lengths", bad_lengths, 0 },
	{ "proto_unexpected_descriptors", unexpected_descriptors, 0 },
	{ "proto_descriptors_everywhere", descriptors_everywhere, 0 },
	{ "proto_descriptors_and_gone", descriptors_and_gone, 0 },
	{ "proto_descriptors_in_flight", descriptors_in_flight, 0 },
	{ "proto_parts_of_requests", parts_of_requests, 0 },
	{ "proto_hello_rules", hello_rules, 0 }, { "proto_random_packets", random_packets, 0 })
