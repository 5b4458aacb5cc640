/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* brief: netns system-san */
/* build: tests/lib/raw.c tests/lib/vt.c -lpthread */
/* timeout: 300 */
/*
 * raw_proto.c - a hostile client on the control socket: packets that break the protocol, requests
 * that cannot be served, handles of others, sockets that are never read. Each must hurt that client
 * alone: a victim beside it moves checked data all the while, and new sessions are served after it.
 */
#include "tests/lib/hello.h"
#include "tests/lib/raw.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
	const char *name;
	uint16_t type;
	size_t req, resp;
	bool has_tail;
} msgs[] = {
#define X(num, NAME, name, tail, fds)                                                              \
	{ #NAME, num, sizeof(struct ff_##name##_req), sizeof(struct ff_##name##_resp),             \
	  sizeof(struct tail) != sizeof(struct ff_none) },
	FF_MSG_TABLE(X)
#undef X
};

static struct ff_hdr header(uint16_t type)
{
	return (struct ff_hdr){ .magic = FF_PROTO_MAGIC, .type = type, .seq = 7 };
}

/* In a session of its own: that packet ends it. */
static void closes(const void *packet, size_t len, int fd)
{
	struct raw r;

	raw_open(&r);
	if (raw_send(&r, packet, len, fd))
		raw_want_closed(&r);
	raw_close(&r);
}

/* ---- packets -------------------------------------------------------------------------------- */

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
		m.hdr = header(FF_MSG_ALLOC_PD);                                                   \
		m.hdr.field = (value);                                                             \
		closes(&m, sizeof(m), -1);                                                         \
	} while (0)
	BAD(magic, 0);
	BAD(magic, 0xffff);
	BAD(magic, FF_PROTO_MAGIC << 8 & 0xffff);
	BAD(type, 0);
	BAD(type, FF_MSG_NUM);
	BAD(type, 255);
	BAD(type, 0xffff);
	BAD(status, 1);
	BAD(status, -1);
	BAD(n_tail, 1);
	BAD(n_tail, 0xffff);
	BAD(n_fds, 1);
	BAD(n_fds, 0xffff);
#undef BAD
	h = header(FF_MSG_ALLOC_PD);
	for (size_t len = 1; len <= sizeof(h); len++)
		closes(&h, len, -1);
	memcpy(big, &h, sizeof(h));
	closes(big, FF_MSG_MAX, -1);
	closes(big, FF_MSG_MAX + 1, -1);
	closes(big, sizeof(big), -1);
	victim_stop();
	raw_router_serves();
}

/* Every message with every length around the right one. */
static void bad_lengths(void)
{
	victim_start();
	for (unsigned i = 0; i < ARRAY_SIZE(msgs); i++) {
		uint8_t packet[4096] = { 0 };
		struct ff_hdr h = header(msgs[i].type);
		size_t right = sizeof(h) + msgs[i].req;

		memcpy(packet, &h, sizeof(h));
		for (int delta = -4; delta <= 5; delta++)
			if (delta && right + (size_t)delta >= sizeof(h))
				closes(packet, right + (size_t)delta, -1);
		if (!msgs[i].has_tail)
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
	} m = { .hdr = header(FF_MSG_ALLOC_PD) };
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
	for (unsigned i = 0; i < ARRAY_SIZE(msgs); i++) {
		for (unsigned k = 0; k < 4 * ARRAY_SIZE(counts); k++) {
			unsigned n = counts[k / 4];
			uint8_t packet[4096] = { 0 };
			struct ff_hdr h = header(msgs[i].type);
			struct raw r;

			if (msgs[i].type == FF_MSG_REG_DMABUF_MR && n == 1)
				continue; /* has one */
			h.n_fds = k & 1 ? (uint16_t)n : 0;
			memcpy(packet, &h, sizeof(h));
			if (k & 2)
				raw_open(&r);
			else
				raw_connect(&r);
			if (raw_send_fds(&r, packet, sizeof(h) + msgs[i].req, c.fd, n))
				raw_want_closed(&r);
			raw_close(&r);
		}
	}
	/* one more than a packet carries is the kernel's to refuse: the session has not seen it */
	struct raw r;
	struct ff_query_device_resp dev;
	struct ff_hdr h = header(FF_MSG_ALLOC_PD);
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
	} m = { .hdr = header(FF_MSG_ALLOC_PD) };
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
	struct ff_hdr h = header(FF_MSG_ALLOC_PD);
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
	} m = { .hdr = header(FF_MSG_HELLO) };
	struct ff_hello_resp resp;
	uint8_t answer[256];
	struct ff_hdr h;
	struct raw r;
	int fds[8];
	unsigned n;

	m.hdr.n_fds = 2;
	victim_start();
	/* anything else first */
	for (unsigned i = 0; i < ARRAY_SIZE(msgs); i++) {
		uint8_t packet[4096] = { 0 };
		struct ff_hdr h = header(msgs[i].type);

		if (msgs[i].type == FF_MSG_HELLO || msgs[i].type == FF_MSG_CHALLENGE)
			continue;
		memcpy(packet, &h, sizeof(h));
		raw_connect(&r);
		if (raw_send(&r, packet, sizeof(h) + msgs[i].req, -1))
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
			unsigned i = vt_rand(&rnd) % ARRAY_SIZE(msgs);
			uint8_t packet[4096];
			size_t len = sizeof(struct ff_hdr) + msgs[i].req;
			struct ff_hdr h = header(msgs[i].type);

			for (size_t b = 0; b < sizeof(packet);
			     b++) /* small numbers are likely hits */
				packet[b] = vt_rand(&rnd) % 3 ? 0 : (uint8_t)vt_rand(&rnd);
			memcpy(packet, &h, sizeof(h));
			if (k == 19)
				len = vt_rand(&rnd) % sizeof(packet);
			if (!raw_send(&r, packet, len, -1))
				break;
			if (len == sizeof(h) + msgs[i].req) {
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

/* ---- handles -------------------------------------------------------------------------------- */

/*
 * Requests whose only flaw is a handle. `bad` goes where the handle belongs; 0 means that none of
 * them was served.
 */
static void handles_refused(struct raw *r, uint32_t bad, const struct raw_qp *own)
{
	union {
#define X(num, NAME, name, tail, fds) struct ff_##name##_resp name;
		FF_MSG_TABLE(X)
#undef X
	} a;
	int st;

	if (bad == own->pd || bad == own->cq || bad == own->mr || bad == own->qp)
		return; /* by chance a good one */
#define REFUSED(NAME, name, ...)                                                                   \
	do {                                                                                       \
		struct ff_##name##_req req_ = { __VA_ARGS__ };                                     \
		st = RAW_TRY(r, NAME, &req_, &a.name);                                             \
		if (st >= 0)                                                                       \
			FAIL("%s with handle 0x%x: %s", #NAME, bad, st ? "closed" : "served");     \
	} while (0)
	REFUSED(DEALLOC_PD, dealloc_pd, .pd = bad);
	REFUSED(REG_MR, reg_mr, .pd = bad, .addr = (uintptr_t)own->buf, .length = 8);
	REFUSED(DEREG_MR, dereg_mr, .mr = bad);
	REFUSED(REREG_MR, rereg_mr, .mr = bad, .flags = IBV_REREG_MR_CHANGE_ACCESS);
	REFUSED(DESTROY_CHANNEL, destroy_channel, .channel = bad);
	REFUSED(RESIZE_CQ, resize_cq, .cq = bad, .cqe = 64);
	REFUSED(DESTROY_CQ, destroy_cq, .cq = bad);
	REFUSED(CREATE_SRQ, create_srq, .pd = bad, .max_wr = 4, .max_sge = 1);
	REFUSED(MODIFY_SRQ, modify_srq, .srq = bad, .mask = IBV_SRQ_LIMIT, .srq_limit = 1);
	REFUSED(QUERY_SRQ, query_srq, .srq = bad);
	REFUSED(DESTROY_SRQ, destroy_srq, .srq = bad);
	REFUSED(MODIFY_QP, modify_qp, .qp = bad, .mask = IBV_QP_STATE,
		.attr.qp_state = IBV_QPS_ERR);
	REFUSED(QUERY_QP, query_qp, .qp = bad);
	REFUSED(DESTROY_QP, destroy_qp, .qp = bad);
	REFUSED(CREATE_AH, create_ah, .pd = bad, .attr.port_num = 1);
	REFUSED(DESTROY_AH, destroy_ah, .ah = bad);
	REFUSED(CLOSE_XRCD, close_xrcd, .xrcd = bad);
	REFUSED(OPEN_QP, open_qp, .xrcd = bad, .qp_num = 2, .qp_type = IBV_QPT_XRC_RECV);
	REFUSED(CREATE_QP, create_qp, .xrcd = bad, .qp_type = IBV_QPT_XRC_RECV);
	REFUSED(IMPORT_PD, import_pd, .pd = bad);
	REFUSED(IMPORT_MR, import_mr, .pd = own->pd, .mr = bad);
	if (bad)
		REFUSED(CREATE_SRQ, create_srq, .pd = own->pd, .cq = own->cq, .xrcd = bad,
			.max_wr = 4, .max_sge = 1);
	if (bad)
		REFUSED(CREATE_CQ, create_cq, .cqe = 4, .channel = bad);
	REFUSED(CREATE_QP, create_qp, .pd = bad, .send_cq = own->cq, .recv_cq = own->cq,
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 });
	REFUSED(CREATE_QP, create_qp, .pd = own->pd, .send_cq = bad, .recv_cq = own->cq,
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 });
	REFUSED(CREATE_QP, create_qp, .pd = own->pd, .send_cq = own->cq, .recv_cq = bad,
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 });
	if (bad)
		REFUSED(CREATE_QP, create_qp, .pd = own->pd, .send_cq = own->cq, .recv_cq = own->cq,
			.srq = bad, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 });
#undef REFUSED
}

static void unknown_handles(void)
{
	static const uint32_t bad[] = { 0,	    0xffffffff, 0xffff,	    0x10000, 0x7fffffff,
					0x80000000, 0x12345678, 0xffff0000, 999 };
	struct raw_qp q;
	struct raw r;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		handles_refused(&r, bad[i], &q);
	/* right index, wrong generation */
	handles_refused(&r, q.cq ^ 0x10000, &q);
	handles_refused(&r, q.qp ^ 0x80000000, &q);
	raw_qp_connect(&r, &q); /* the session is as good as before */
	raw_close(&r);
	victim_stop();
}

/* The handles of another session mean nothing in this one. */
static void foreign_handles(void)
{
	struct raw_qp q[4], mine;
	struct raw a, b;

	victim_start();
	raw_open(&a);
	raw_open(&b);
	for (unsigned i = 0; i < ARRAY_SIZE(q); i++)
		raw_qp_make(&a, &q[i], IBV_QPT_RC, 8192);
	raw_qp_make(&b, &mine, IBV_QPT_RC, 8192);
	for (unsigned i = 1; i < ARRAY_SIZE(q); i++) {
		const uint32_t theirs[] = { q[i].pd, q[i].cq, q[i].mr, q[i].qp };

		for (unsigned k = 0; k < ARRAY_SIZE(theirs); k++)
			handles_refused(&b, theirs[k], &mine);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(q); i++)
		raw_qp_connect(&a, &q[i]);
	raw_qp_connect(&b, &mine);
	raw_close(&a);
	raw_close(&b);
	victim_stop();
}

/* Destroyed twice, used after destruction, destroyed while in use. */
static void stale_handles(void)
{
	struct ff_alloc_pd_resp pd, pd2;
	struct ff_dealloc_pd_resp none;
	struct ff_destroy_cq_resp none_cq;
	struct raw_qp q;
	struct raw r;

	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	CHECK_EQ(RAW_TRY(&r, DEALLOC_PD, (&(struct ff_dealloc_pd_req){ .pd = q.pd }), &none),
		 -EBUSY);
	CHECK_EQ(RAW_TRY(&r, DESTROY_CQ, (&(struct ff_destroy_cq_req){ q.cq }), &none_cq), -EBUSY);
	for (unsigned i = 0; i < 1000; i++) {
		RAW_CALL(&r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd);
		RAW_CALL(&r, DEALLOC_PD, (&(struct ff_dealloc_pd_req){ .pd = pd.pd }), &none);
		CHECK(RAW_TRY(&r, DEALLOC_PD, (&(struct ff_dealloc_pd_req){ .pd = pd.pd }), &none) <
		      0);
		RAW_CALL(&r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd2);
		CHECK(pd2.pd != pd.pd);
		CHECK(RAW_TRY(&r, DEALLOC_PD, (&(struct ff_dealloc_pd_req){ .pd = pd.pd }), &none) <
		      0);
		RAW_CALL(&r, DEALLOC_PD, (&(struct ff_dealloc_pd_req){ .pd = pd2.pd }), &none);
	}
	raw_close(&r);
	raw_router_serves();
}

/* ---- numbers -------------------------------------------------------------------------------- */

#define BAD_CALL(NAME, name, ...)                                                                  \
	do {                                                                                       \
		struct ff_##name##_req req_ = { __VA_ARGS__ };                                     \
		struct ff_##name##_resp resp_;                                                     \
		int st_ = RAW_TRY(&r, NAME, &req_, &resp_);                                        \
		if (st_ >= 0)                                                                      \
			FAIL("%s { %s }: %s", #NAME, #__VA_ARGS__, st_ ? "closed" : "served");     \
	} while (0)

static void absurd_counts(void)
{
	static const uint32_t huge[] = { 1u << 31, 0xffffffff, 0x7fffffff, 0x10000001, 1u << 24 };
	struct raw_qp q;
	struct raw r;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	BAD_CALL(CREATE_CQ, create_cq, .cqe = 0);
	BAD_CALL(CREATE_CQ, create_cq, .cqe = 4, .comp_vector = 0xffffffff);
	BAD_CALL(CREATE_CQ, create_cq, .cqe = 4, .flags = 0xffffffff);
	BAD_CALL(RESIZE_CQ, resize_cq, .cq = q.cq, .cqe = 0);
	BAD_CALL(CREATE_SRQ, create_srq, .pd = q.pd, .max_wr = 0, .max_sge = 1);
	BAD_CALL(CREATE_QP, create_qp, .pd = q.pd, .send_cq = q.cq, .recv_cq = q.cq, .qp_type = 0);
	BAD_CALL(CREATE_QP, create_qp, .pd = q.pd, .send_cq = q.cq, .recv_cq = q.cq,
		 .qp_type = 999);
	BAD_CALL(QUERY_PORT, query_port, .port = 0);
	BAD_CALL(QUERY_PORT, query_port, .port = 2);
	BAD_CALL(QUERY_GID, query_gid, .port = 0);
	BAD_CALL(QUERY_GID, query_gid, .port = 1, .index = 0xffffffff);
	BAD_CALL(SHADOW_GROW, shadow_grow, .size = 0);
	BAD_CALL(SHADOW_GROW, shadow_grow, .size = 4097);
	BAD_CALL(SHADOW_GROW, shadow_grow, .size = UINT64_MAX);
	BAD_CALL(SHADOW_GROW, shadow_grow, .size = UINT64_MAX - 4095);
	BAD_CALL(SHADOW_GROW, shadow_grow, .size = 1ull << 62);
	BAD_CALL(GET_SEG, get_seg, .seg = 0xffffffff);
	BAD_CALL(GET_SEG, get_seg, .seg = 1000);
	for (unsigned i = 0; i < ARRAY_SIZE(huge); i++) {
		BAD_CALL(CREATE_CQ, create_cq, .cqe = huge[i]);
		BAD_CALL(RESIZE_CQ, resize_cq, .cq = q.cq, .cqe = huge[i]);
		BAD_CALL(CREATE_SRQ, create_srq, .pd = q.pd, .max_wr = huge[i], .max_sge = 1);
		BAD_CALL(CREATE_SRQ, create_srq, .pd = q.pd, .max_wr = 4, .max_sge = huge[i]);
		for (unsigned k = 0; k < 5; k++) {
			uint32_t cap[5] = { 4, 4, 1, 1, 0 };

			cap[k] = huge[i];
			BAD_CALL(CREATE_QP, create_qp, .pd = q.pd, .send_cq = q.cq, .recv_cq = q.cq,
				 .qp_type = IBV_QPT_RC,
				 .cap = { cap[0], cap[1], cap[2], cap[3], cap[4] });
		}
		BAD_CALL(QUERY_PORT, query_port, .port = huge[i]);
		BAD_CALL(QUERY_GID, query_gid, .port = 1, .index = huge[i]);
		BAD_CALL(GET_SEG, get_seg, .seg = huge[i]);
	}
	raw_qp_connect(&r, &q);
	raw_close(&r);
	victim_stop();
}

static void absurd_attributes(void)
{
	struct ff_modify_qp_resp resp;
	struct ff_modify_qp_req req;
	struct raw_qp q;
	uint32_t rnd = 3;
	struct raw r;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	for (unsigned i = 0; i < 5000; i++) {
		uint8_t *p = (uint8_t *)&req;
		int st;

		for (size_t b = 0; b < sizeof(req); b++)
			p[b] = vt_rand(&rnd) % 2 ? 0 : (uint8_t)vt_rand(&rnd);
		req.qp = q.qp;
		req.mask = i % 2 ? vt_rand(&rnd) : 1u << vt_rand(&rnd) % 32;
		if (i % 4 == 3)
			req.attr.qp_state = vt_rand(&rnd) % 8;
		st = RAW_TRY(&r, MODIFY_QP, &req, &resp);
		CHECK(st <= 0); /* served or refused, no reason to close */
	}
	raw_qp_connect(&r, &q);
	raw_close(&r);
	victim_stop();
}

static int reg(struct raw *r, uint32_t pd, uint64_t addr, uint64_t len, const struct ff_mr_run *run,
	       uint16_t n)
{
	struct ff_reg_mr_req req = {
		.addr = addr, .length = len, .iova = addr, .pd = pd, .access = VT_ACCESS_ALL
	};
	struct ff_reg_mr_resp resp;

	return raw_call_tail(r, FF_MSG_REG_MR, &req, sizeof(req), run, sizeof(*run), n, &resp,
			     sizeof(resp));
}

/* What a registration claims about shadow memory is checked before it is believed. */
static void false_shadow_claims(void)
{
	static struct ff_mr_run many[FF_MR_MAX_RUNS + 1];
	struct ff_shadow_grow_resp grow;
	struct ff_dereg_mr_resp none;
	uint8_t *p = vt_map(64 * FF_PAGE);
	uint64_t va = (uintptr_t)p;
	struct raw_qp q;
	struct raw r;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	RAW_CALL(&r, SHADOW_GROW, (&(struct ff_shadow_grow_req){ .size = 16 * FF_PAGE }), &grow);
	close(r.last_fd);
	/* each is wrong in one field: { va, len, off, seg, kind } */
	const struct ff_mr_run bad[] = {
		{ va, FF_PAGE, grow.size, grow.seg, FF_RUN_SHADOW },
		{ va, FF_PAGE, UINT64_MAX - FF_PAGE + 1, grow.seg, FF_RUN_SHADOW },
		{ va, FF_PAGE, 1, grow.seg, FF_RUN_SHADOW },
		{ va, grow.size + FF_PAGE, 0, grow.seg, FF_RUN_SHADOW },
		{ va, FF_PAGE, 0, 0, FF_RUN_SHADOW },	       /* the session's own page */
		{ va, FF_PAGE, 0, q.q.sq.seg, FF_RUN_SHADOW }, /* rings */
		{ va, FF_PAGE, 0, 0xffffffff, FF_RUN_SHADOW },
		{ va, FF_PAGE, 0, grow.seg + 1, FF_RUN_SHADOW },
		{ va, FF_PAGE, 0, grow.seg, 0 },
		{ va, FF_PAGE, 0, grow.seg, 99 },
		{ va, 0, 0, grow.seg, FF_RUN_SHADOW },
		{ va, 100, 0, grow.seg, FF_RUN_SHADOW },
		{ va + 1, FF_PAGE, 0, grow.seg, FF_RUN_SHADOW },
		{ va - FF_PAGE, FF_PAGE, 0, grow.seg, FF_RUN_SHADOW },	    /* before the MR */
		{ va + 63 * FF_PAGE, FF_PAGE, 0, grow.seg, FF_RUN_SHADOW }, /* behind the MR */
		{ va, UINT64_MAX - FF_PAGE + 1, 0, grow.seg, FF_RUN_SHADOW },
		{ UINT64_MAX - FF_PAGE + 1, FF_PAGE, 0, grow.seg, FF_RUN_SHADOW },
	};
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		int st = reg(&r, q.pd, va, 32 * FF_PAGE, &bad[i], 1);

		if (st >= 0)
			FAIL("claim %u: %s", i, st ? "closed" : "believed");
	}
	const struct ff_mr_run overlap[] = { { va, 2 * FF_PAGE, 0, grow.seg, FF_RUN_SHADOW },
					     { va + FF_PAGE, FF_PAGE, 0, grow.seg,
					       FF_RUN_SHADOW } };
	const struct ff_mr_run order[] = { { va + FF_PAGE, FF_PAGE, 0, grow.seg, FF_RUN_SHADOW },
					   { va, FF_PAGE, FF_PAGE, grow.seg, FF_RUN_SHADOW } };
	CHECK(reg(&r, q.pd, va, 32 * FF_PAGE, overlap, 2) < 0);
	CHECK(reg(&r, q.pd, va, 32 * FF_PAGE, order, 2) < 0);
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct ff_mr_run){ va, FF_PAGE, 0, grow.seg, FF_RUN_SHADOW };
	CHECK(reg(&r, q.pd, va, 32 * FF_PAGE, many, FF_MR_MAX_RUNS) < 0);
	/* "shared": private memory, nothing at all, somebody else's address */
	const struct ff_mr_run shared[] = { { va, FF_PAGE, 0, 0, FF_RUN_SHARED } };
	int st = reg(&r, q.pd, va, 32 * FF_PAGE, shared, 1);
	CHECK(st <= 0);
	/* ranges that cannot be */
	CHECK(reg(&r, q.pd, va, 0, NULL, 0) < 0);
	CHECK(reg(&r, q.pd, UINT64_MAX - 10, 100, NULL, 0) < 0);
	CHECK(reg(&r, q.pd, va, UINT64_MAX - va + 1, NULL, 0) < 0);
	CHECK(reg(&r, q.pd, 0, UINT64_MAX, NULL, 0) < 0);
	/* the first one of the list, with nothing wrong, is believed */
	const struct ff_mr_run good = { va, FF_PAGE, 0, grow.seg, FF_RUN_SHADOW };
	CHECK_EQ(reg(&r, q.pd, va, 32 * FF_PAGE, &good, 1),
		 -EFAULT); /* a page that nobody has touched */
	*(volatile char *)raw_at(&r, grow.seg, 0) = 1;
	CHECK_EQ(reg(&r, q.pd, va, 32 * FF_PAGE, &good, 1), 0);
	CHECK(RAW_TRY(&r, DEREG_MR, (&(struct ff_dereg_mr_req){ 0 }), &none) < 0);
	/* more runs than a message may name */
	st = reg(&r, q.pd, va, 32 * FF_PAGE, many, FF_MR_MAX_RUNS + 1);
	CHECK(st);
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* ---- not reading, not ending ---------------------------------------------------------------- */

/* Requests without end, and no answer is ever read. */
static void never_reads_answers(void)
{
	struct {
		struct ff_hdr hdr;
		struct ff_query_device_req req;
	} m = { .hdr = header(FF_MSG_QUERY_DEVICE) };
	struct raw r[8];

	victim_start();
	for (unsigned i = 0; i < ARRAY_SIZE(r); i++) {
		raw_open(&r[i]);
		CHECK_EQ(fcntl(r[i].sock, F_SETFL, O_NONBLOCK), 0);
		for (unsigned k = 0; k < 20000; k++)
			if (send(r[i].sock, &m, sizeof(m), MSG_NOSIGNAL) < 0)
				break;
		victim_check();
	}
	for (unsigned i = 0; i < ARRAY_SIZE(r); i++)
		raw_close(&r[i]);
	victim_stop();
	raw_router_serves();
}

/* Async events without end that nobody reads: the oldest or the newest are lost, nothing else. */
static void never_reads_events(void)
{
	struct ff_qp_attr attr = { .en_sqd_async_notify = 1 };
	struct raw_qp q;
	struct raw r;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	raw_qp_connect(&r, &q);
	for (unsigned i = 0; i < 5000; i++) {
		int st = raw_qp_state(&r, &q, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY, &attr);

		if (st == RAW_CLOSED) /* the router may end it, with a line in its log */
			break;
		CHECK_EQ(st, 0);
		st = raw_qp_state(&r, &q, IBV_QPS_RTS, 0, NULL);
		if (st == RAW_CLOSED)
			break;
		CHECK_EQ(st, 0);
	}
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* Completion events that nobody reads. */
static void never_reads_channel(void)
{
	struct ff_create_channel_resp ch;
	struct ff_create_cq_resp cq;
	struct ff_create_qp_resp qp;
	struct ff_cq_hdr *hdr;
	struct raw_qp q;
	struct raw r;
	int fd;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	RAW_CALL(&r, CREATE_CHANNEL, &(struct ff_create_channel_req){ 0 }, &ch);
	fd = r.last_fd;
	RAW_CALL(&r, CREATE_CQ, (&(struct ff_create_cq_req){ .cqe = 256, .channel = ch.channel }),
		 &cq);
	RAW_CALL(&r, CREATE_QP,
		 (&(struct ff_create_qp_req){ .pd = q.pd,
					      .send_cq = cq.cq,
					      .recv_cq = cq.cq,
					      .qp_type = IBV_QPT_RC,
					      .cap = { 64, 64, 4, 4, 64 } }),
		 &qp);
	q.q = qp;
	q.qp = qp.qp;
	q.qp_num = qp.qp_num;
	q.cq = cq.cq;
	q.c = cq;
	q.hdr = raw_at(&r, qp.sq.seg, qp.sq.off);
	q.sq = raw_at(&r, qp.sq.seg, qp.sq.ring_off);
	q.cq_hdr = hdr = raw_at(&r, cq.ring.seg, cq.ring.off);
	q.cqe = raw_at(&r, cq.ring.seg, cq.ring.ring_off);
	raw_qp_connect(&r, &q);
	for (unsigned i = 0; i < 20000; i++) {
		struct ff_sqe *e = raw_sqe(&q);
		struct ff_cqe *c;

		atomic_store(&hdr->arm, FF_CQ_ARM_ANY);
		raw_write_wr(&q, e, i);
		raw_publish(&r, &q);
		WAIT_FOR((c = raw_cqe(&q)));
		CHECK_EQ(c->status, IBV_WC_SUCCESS);
	}
	close(fd);
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* Connections that never say anything. */
static void silent_connections(void)
{
	static struct raw r[100];
	unsigned n = 0;

	victim_start();
	for (; n < ARRAY_SIZE(r); n++)
		raw_connect(&r[n]);
	victim_check();
	raw_router_serves();
	for (unsigned i = 0; i < n; i++)
		raw_close(&r[i]);
	victim_stop();
}

/* Sessions that are killed with everything open, many times over. */
static void killed_sessions(void)
{
	victim_start();
	for (unsigned i = 0; i < 100; i++) {
		int status, p[2];
		char c;
		pid_t pid;

		CHECK_EQ(pipe(p), 0);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			struct raw_qp q[3];
			struct raw r;

			raw_open(&r);
			for (unsigned k = 0; k < 3; k++) {
				raw_qp_make(&r, &q[k], IBV_QPT_RC, 1 << 20);
				raw_qp_connect(&r, &q[k]);
			}
			CHECK(write(p[1], "x", 1) == 1);
			for (unsigned k = 0;; k++) {
				struct ff_sqe *e = raw_sqe(&q[k % 3]);

				raw_write_wr(&q[k % 3], e, k);
				e->sge[0].length = 500000;
				raw_publish(&r, &q[k % 3]);
				while (raw_cqe(&q[k % 3]))
					;
			}
		}
		close(p[1]);
		CHECK(read(p[0], &c, 1) == 1);
		close(p[0]);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid);
	}
	victim_stop();
	raw_router_serves();
}

static const struct vt_case cases[] = {
	{ "proto_bad_headers", bad_headers, 0 },
	{ "proto_bad_lengths", bad_lengths, 0 },
	{ "proto_unexpected_descriptors", unexpected_descriptors, 0 },
	{ "proto_descriptors_everywhere", descriptors_everywhere, 0 },
	{ "proto_descriptors_and_gone", descriptors_and_gone, 0 },
	{ "proto_descriptors_in_flight", descriptors_in_flight, 0 },
	{ "proto_parts_of_requests", parts_of_requests, 0 },
	{ "proto_hello_rules", hello_rules, 0 },
	{ "proto_random_packets", random_packets, 0 },
	{ "proto_unknown_handles", unknown_handles, 0 },
	{ "proto_foreign_handles", foreign_handles, 0 },
	{ "proto_stale_handles", stale_handles, 0 },
	{ "proto_absurd_counts", absurd_counts, 0 },
	{ "proto_absurd_attributes", absurd_attributes, 0 },
	{ "proto_false_shadow_claims", false_shadow_claims, 0 },
	{ "proto_never_reads_answers", never_reads_answers, 0 },
	{ "proto_never_reads_events", never_reads_events, 0 },
	{ "proto_never_reads_channel", never_reads_channel, 0 },
	{ "proto_silent_connections", silent_connections, 0 },
	{ "proto_killed_sessions", killed_sessions, 0 },
};

int main(int argc, char **argv)
{
	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}
