/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_ctl.c - sessions over real SEQPACKET sockets: what is served, what is refused, and what
 * ends the session of the client that did it and nobody else's.
 * build: tests/lib/ctl_rig.c ffo/proto.c
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/ctl_rig.h"

static struct ctl_rig rig, *g = &rig;

/* ---- shorthand ----------------------------------------------------------------------------- */

static int client(int container)
{
	int sock = rig_connect(g, container);

	assert_int_equal(rig_hello(g, sock), 0);
	return sock;
}

static uint32_t new_pd(int sock)
{
	struct ff_alloc_pd_req req = { 0 };
	struct ff_alloc_pd_resp resp;

	assert_int_equal(RIG_CALL(g, sock, ALLOC_PD, &req, &resp), 0);
	assert_int_not_equal(resp.pd, 0);
	return resp.pd;
}

static int make_cq(int sock, uint32_t cqe, uint32_t channel, struct ff_create_cq_resp *resp)
{
	struct ff_create_cq_req req = { .cqe = cqe, .channel = channel };

	return RIG_CALL(g, sock, CREATE_CQ, &req, resp);
}

static uint32_t new_cq(int sock)
{
	struct ff_create_cq_resp resp;

	assert_int_equal(make_cq(sock, 10, 0, &resp), 0);
	return resp.cq;
}

static struct ff_create_qp_req qp_req(uint32_t pd, uint32_t cq, uint32_t type)
{
	return (struct ff_create_qp_req){
		.pd = pd,
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.cap = { 100, 10, 3, 1, 100 },
	};
}

static uint32_t new_qp(int sock, uint32_t pd, uint32_t cq)
{
	struct ff_create_qp_req req = qp_req(pd, cq, IBV_QPT_RC);
	struct ff_create_qp_resp resp;

	assert_int_equal(RIG_CALL(g, sock, CREATE_QP, &req, &resp), 0);
	return resp.qp;
}

static int reg_mr(int sock, uint32_t pd, void *addr, uint64_t len, uint32_t access,
		  struct ff_reg_mr_resp *resp)
{
	struct ff_reg_mr_req req = { (uintptr_t)addr, len, (uintptr_t)addr, pd, access };

	return RIG_CALL(g, sock, REG_MR, &req, resp);
}

/* Calls whose request is one handle. */
static int one(int sock, uint16_t type, uint32_t handle)
{
	uint32_t resp;

	return rig_call(g, sock, type, &handle, sizeof(handle), NULL, 0, 0, &resp, sizeof(resp),
			NULL, NULL);
}

static int setup(void **state)
{
	(void)state;
	rig_open(g);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(g);
	return 0;
}

/* ---- hello --------------------------------------------------------------------------------- */

static void hello_gives_a_session(void **state)
{
	struct ff_hello_req req = { FF_PROTO_VERSION, FF_PROTO_VERSION + 5, "prog" };
	struct ff_get_seg_req seg_req = { .seg = 0 };
	struct ff_get_seg_resp seg;
	struct ff_hello_resp resp;
	int sock = rig_connect(g, 0), fds[RIG_MAX_FDS], seg_fd;
	struct ff_ses_hdr *hdr;
	unsigned n;

	(void)state;
	assert_int_equal(rig_call(g, sock, FF_MSG_HELLO, &req, sizeof(req), NULL, 0, 0, &resp,
				  sizeof(resp), fds, &n),
			 0);
	assert_int_equal(resp.version, FF_PROTO_VERSION);
	assert_int_equal(resp.num_ports, 1);
	assert_int_equal(resp.mode, FF_MODE_ADAPTIVE);
	assert_int_equal(n, 2);
	/* a program waits for events on its end */
	assert_false(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(rig_call(g, sock, FF_MSG_GET_SEG, &seg_req, sizeof(seg_req), NULL, 0, 0,
				  &seg, sizeof(seg), &seg_fd, &n),
			 0);
	assert_int_equal(n, 1);
	assert_int_equal(seg.size, resp.seg0_size);
	hdr = mmap(NULL, seg.size, PROT_READ | PROT_WRITE, MAP_SHARED, seg_fd, 0);
	assert_ptr_not_equal(hdr, MAP_FAILED);
	assert_int_equal(hdr->need_wakeup, 1);
	assert_int_not_equal(ftruncate(seg_fd, 0), 0); /* sealed */
	munmap(hdr, seg.size);
	close(seg_fd);
	close(fds[0]);
	close(fds[1]);
	close(sock);
}

static void versions_are_negotiated(void **state)
{
	struct ff_hello_req req = { FF_PROTO_VERSION + 1, FF_PROTO_VERSION + 2, "new" };
	struct ff_hello_resp resp;
	int sock = rig_connect(g, 0);

	(void)state;
	assert_int_equal(RIG_CALL(g, sock, HELLO, &req, &resp), -EPROTONOSUPPORT);
	req.version_min = 0;
	req.version_max = FF_PROTO_VERSION - 1;
	assert_int_equal(RIG_CALL(g, sock, HELLO, &req, &resp), -EPROTONOSUPPORT);
	assert_int_equal(rig_hello(g, sock), 0); /* it may try again */
	close(sock);
}

/* ---- malformed messages -------------------------------------------------------------------- */

/* The router closes that client, and serves the other as before. */
static void must_close(int other, const void *bytes, size_t len, int fd, unsigned n_fds, bool hello)
{
	int sock = rig_connect(g, 0);
	unsigned before;

	if (hello)
		assert_int_equal(rig_hello(g, sock), 0);
	before = rig_open_fds();
	rig_send(sock, bytes, len, fd, n_fds);
	assert_true(rig_is_closed(g, sock));
	close(sock);
	assert_true(rig_open_fds() < before);
	assert_int_equal(one(other, FF_MSG_DEALLOC_PD, new_pd(other)), 0);
}

static void malformed_messages_close_the_session(void **state)
{
	struct {
		struct ff_hdr h;
		uint8_t body[FF_MSG_MAX];
	} m = { 0 };
	const struct ff_hdr good = { .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD, .seq = 1 };
	const size_t len = sizeof(m.h) + sizeof(struct ff_alloc_pd_req);
	const struct ff_hdr bad[] = {
		{ .magic = 0x1234, .type = FF_MSG_ALLOC_PD },
		{ .magic = FF_PROTO_MAGIC, .type = 0 },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_NUM },
		{ .magic = FF_PROTO_MAGIC, .type = 0xffff },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD, .status = -1 },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD, .n_fds = 1 },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD, .n_tail = 1 },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_REG_MR, .n_tail = 0 },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_HELLO }, /* too short */
	};
	int other = client(1);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		m.h = bad[i];
		must_close(other, &m, len, -1, 0, true);
	}
	m.h = good;
	for (size_t n = 1; n < 64; n++)
		if (n != len)
			must_close(other, &m, n, -1, 0, true);
	must_close(other, &m, 0, -1, 0, true);
	must_close(other, &m, FF_MSG_MAX, -1, 0, true);
	must_close(other, &m, FF_MSG_MAX + 1, -1, 0, true);
	must_close(other, &m, sizeof(m), -1, 0, true);
	/* fewer and more tail elements than the header says */
	m.h.type = FF_MSG_REG_MR;
	m.h.n_tail = 2;
	must_close(other, &m, sizeof(m.h) + sizeof(struct ff_reg_mr_req) + sizeof(struct ff_mr_run),
		   -1, 0, true);
	m.h.n_tail = 0xffff;
	must_close(other, &m, FF_MSG_MAX, -1, 0, true);
	/* out of order */
	m.h = good;
	must_close(other, &m, len, -1, 0, false);
	m.h.type = FF_MSG_HELLO;
	must_close(other, &m, sizeof(m.h) + sizeof(struct ff_hello_req), -1, 0, true);
	close(other);
}

static void descriptors_close_the_session_and_are_closed(void **state)
{
	struct ff_alloc_pd_req body = { 0 };
	struct {
		struct ff_hdr h;
		struct ff_alloc_pd_req body;
	} m = { { .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD }, body };
	int other = client(1), pipes[2];
	uint8_t byte;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	must_close(other, &m, sizeof(m), pipes[1], 1, true);
	must_close(other, &m, sizeof(m), pipes[1], 253, true);
	must_close(other, &m, sizeof(m), pipes[1], 253, false);
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &byte, 1), 0); /* no copy is left */
	close(pipes[0]);
	close(other);
}

static void who_does_not_read_is_closed(void **state)
{
	struct {
		struct ff_hdr h;
		struct ff_query_device_req body;
	} m = { { .magic = FF_PROTO_MAGIC, .type = FF_MSG_QUERY_DEVICE }, { 0 } };
	int sock = client(0), other = client(1), size = 4096;
	bool closed = false;

	(void)state;
	setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	for (int i = 0; i < 100000 && !closed; i++) {
		if (send(sock, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			closed = errno == EPIPE;
		rig_pump(g);
	}
	assert_true(closed);
	assert_int_equal(one(other, FF_MSG_DEALLOC_PD, new_pd(other)), 0);
	close(sock);
	close(other);
}

/* ---- handles ------------------------------------------------------------------------------- */

static void foreign_and_unknown_handles_are_refused(void **state)
{
	static const uint16_t types[] = {
		FF_MSG_DEALLOC_PD,  FF_MSG_DEREG_MR,   FF_MSG_DESTROY_CHANNEL, FF_MSG_DESTROY_CQ,
		FF_MSG_DESTROY_SRQ, FF_MSG_DESTROY_QP, FF_MSG_DESTROY_AH,
	};
	/* A's are the second of their kind, so that their numbers are none of B's. */
	int a = client(0), b = client(0);
	uint32_t pd0 = new_pd(a), pd = new_pd(a), cq0 = new_cq(a), cq = new_cq(a);
	uint32_t qp0 = new_qp(a, pd0, cq0), qp = new_qp(a, pd, cq);
	struct ff_create_qp_req req;
	struct ff_create_qp_resp resp;
	struct ff_reg_mr_resp mr;

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		assert_int_equal(one(b, types[i], 0), -EINVAL);
		assert_int_equal(one(b, types[i], 0xffffffff), -EINVAL);
		assert_int_equal(one(b, types[i], pd), -EINVAL);
		assert_int_equal(one(b, types[i], cq), -EINVAL);
		assert_int_equal(one(b, types[i], qp), -EINVAL);
	}
	/* Handles of one session and tables of another, and the wrong kinds of one's own. */
	req = qp_req(pd, cq, IBV_QPT_RC);
	assert_int_equal(RIG_CALL(g, b, CREATE_QP, &req, &resp), -EINVAL);
	req.pd = new_pd(b);
	assert_int_equal(RIG_CALL(g, b, CREATE_QP, &req, &resp), -EINVAL);
	req.send_cq = new_cq(b);
	assert_int_equal(RIG_CALL(g, b, CREATE_QP, &req, &resp), -EINVAL);
	req.recv_cq = req.send_cq;
	req.srq = 77;
	assert_int_equal(RIG_CALL(g, b, CREATE_QP, &req, &resp), -EINVAL);
	req.srq = 0;
	assert_int_equal(RIG_CALL(g, b, CREATE_QP, &req, &resp), 0);
	assert_int_equal(reg_mr(b, 0, &mr, sizeof(mr), 0, &mr), -EINVAL);
	/* A's are as they were. */
	assert_int_equal(one(a, FF_MSG_DESTROY_QP, qp0), 0);
	assert_int_equal(one(a, FF_MSG_DESTROY_QP, qp), 0);
	assert_int_equal(one(a, FF_MSG_DESTROY_QP, qp), -EINVAL);
	assert_int_equal(one(a, FF_MSG_DESTROY_CQ, cq), 0);
	assert_int_equal(one(a, FF_MSG_DEALLOC_PD, pd), 0);
	close(a);
	close(b);
}

static void what_is_used_cannot_go(void **state)
{
	int s = client(0);
	uint32_t pd = new_pd(s), cq, qp, ah, srq, channel;
	struct ff_create_channel_req ch_req = { 0 };
	struct ff_create_channel_resp ch;
	struct ff_create_cq_resp cq_resp;
	struct ff_create_srq_req srq_req = { .pd = pd, .max_wr = 5, .max_sge = 2 };
	struct ff_create_srq_resp srq_resp;
	struct ff_create_ah_req ah_req = { .pd = pd, .attr = { .dlid = 2, .port_num = 1 } };
	struct ff_create_ah_resp ah_resp;
	struct ff_create_qp_req req;
	struct ff_create_qp_resp resp;
	struct ff_reg_mr_resp mr;

	(void)state;
	assert_int_equal(RIG_CALL(g, s, CREATE_CHANNEL, &ch_req, &ch), 0);
	channel = ch.channel;
	assert_int_equal(make_cq(s, 1, channel, &cq_resp), 0);
	cq = cq_resp.cq;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &srq_req, &srq_resp), 0);
	srq = srq_resp.srq;
	assert_int_equal(srq_resp.max_wr, 8);
	assert_int_equal(RIG_CALL(g, s, CREATE_AH, &ah_req, &ah_resp), 0);
	ah = ah_resp.ah;
	req = qp_req(pd, cq, IBV_QPT_UD);
	req.srq = srq;
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), 0);
	qp = resp.qp;
	assert_int_equal(resp.rq.depth, 0);
	assert_int_equal(reg_mr(s, pd, &mr, sizeof(mr), 0, &mr), 0);

	assert_int_equal(one(s, FF_MSG_DEALLOC_PD, pd), -EBUSY);
	assert_int_equal(one(s, FF_MSG_DESTROY_CQ, cq), -EBUSY);
	assert_int_equal(one(s, FF_MSG_DESTROY_SRQ, srq), -EBUSY);
	assert_int_equal(one(s, FF_MSG_DESTROY_CHANNEL, channel), -EBUSY);
	assert_int_equal(one(s, FF_MSG_DESTROY_QP, qp), 0);
	assert_int_equal(one(s, FF_MSG_DESTROY_SRQ, srq), 0);
	assert_int_equal(one(s, FF_MSG_DESTROY_CHANNEL, channel), -EBUSY);
	assert_int_equal(one(s, FF_MSG_DESTROY_CQ, cq), 0);
	assert_int_equal(one(s, FF_MSG_DESTROY_CHANNEL, channel), 0);
	assert_int_equal(one(s, FF_MSG_DEALLOC_PD, pd), -EBUSY);
	assert_int_equal(one(s, FF_MSG_DESTROY_AH, ah), 0);
	assert_int_equal(one(s, FF_MSG_DEALLOC_PD, pd), -EBUSY);
	assert_int_equal(one(s, FF_MSG_DEREG_MR, mr.mr), 0);
	assert_int_equal(one(s, FF_MSG_DEALLOC_PD, pd), 0);
	close(s);
}

/* ---- limits and capabilities --------------------------------------------------------------- */

static void capabilities_are_rounded_up_and_bounded(void **state)
{
	int s = client(0);
	uint32_t pd = new_pd(s);
	const struct ff_query_device_resp *dev = &g->r.dev;
	struct ff_create_cq_resp cq;
	struct ff_create_qp_req req;
	struct ff_create_qp_resp resp;
	uint32_t *cap;

	(void)state;
	assert_int_equal(make_cq(s, 0, 0, &cq), -EINVAL);
	assert_int_equal(make_cq(s, dev->max_cqe + 1, 0, &cq), -EINVAL);
	assert_int_equal(make_cq(s, 10, 12345, &cq), -EINVAL);
	assert_int_equal(make_cq(s, 10, 0, &cq), 0);
	assert_int_equal(cq.cqe, 16);
	assert_int_equal(cq.ring.depth, 16);
	assert_int_equal(cq.ring.off % 4096, 0);

	req = qp_req(pd, cq.cq, IBV_QPT_RC);
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), 0);
	assert_int_equal(resp.cap.max_send_wr, 128);
	assert_int_equal(resp.cap.max_recv_wr, 16);
	assert_int_equal(resp.cap.max_send_sge, 3);
	assert_true(resp.cap.max_inline >= 100);
	assert_int_equal(resp.sq.depth, 128);
	assert_int_equal(resp.sq.stride, ff_sqe_stride(3, resp.cap.max_inline));
	assert_true(resp.rq.ring_off >= resp.sq.ring_off + resp.sq.depth * resp.sq.stride);

	for (size_t i = 0; i < sizeof(req.cap) / sizeof(*cap); i++) {
		req = qp_req(pd, cq.cq, IBV_QPT_RC);
		cap = (uint32_t *)&req.cap + i;
		*cap = 0xffffffff;
		assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -EINVAL);
		*cap = FF_MAX_WR + 1;
		assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -EINVAL);
		*cap = 0;
		assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), 0);
	}
	req = qp_req(pd, cq.cq, IBV_QPT_RAW_PACKET);
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -EOPNOTSUPP);
	req = qp_req(pd, cq.cq, IBV_QPT_RC);
	req.create_flags = 1;
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -EOPNOTSUPP);
	close(s);
}

static void limits_hold(void **state)
{
	struct ff_alloc_pd_req pd_req = { 0 };
	struct ff_alloc_pd_resp pd_resp;
	struct ff_shadow_grow_req grow = { .size = 1 << 20 };
	struct ff_shadow_grow_resp grown;
	struct ff_create_cq_resp cq;
	int s;

	(void)state;
	g->r.conf.limits.max_pd = 3;
	g->r.conf.limits.max_ring_mb = 4;
	g->r.conf.limits.max_shadow_mb = 2;
	s = client(0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(RIG_CALL(g, s, ALLOC_PD, &pd_req, &pd_resp), 0);
	assert_int_equal(RIG_CALL(g, s, ALLOC_PD, &pd_req, &pd_resp), -ENOMEM);
	assert_int_equal(pd_resp.pd, 0); /* nothing but the status */
	assert_int_equal(make_cq(s, 1 << 17, 0, &cq), -ENOMEM);
	assert_int_equal(make_cq(s, 100, 0, &cq), 0);
	assert_int_equal(RIG_CALL(g, s, SHADOW_GROW, &grow, &grown), 0);
	assert_int_equal(RIG_CALL(g, s, SHADOW_GROW, &grow, &grown), 0);
	assert_int_equal(RIG_CALL(g, s, SHADOW_GROW, &grow, &grown), -ENOMEM);
	grow.size = 100;
	assert_int_equal(RIG_CALL(g, s, SHADOW_GROW, &grow, &grown), -EINVAL);
	grow.size = 0;
	assert_int_equal(RIG_CALL(g, s, SHADOW_GROW, &grow, &grown), -EINVAL);
	grow.size = UINT64_MAX & ~4095ull;
	assert_int_equal(RIG_CALL(g, s, SHADOW_GROW, &grow, &grown), -EINVAL);
	close(s);
}

/* ---- queries ------------------------------------------------------------------------------- */

static void the_port_is_the_containers(void **state)
{
	struct ff_query_port_req port_req = { .port = 1 };
	struct ff_query_port_resp port;
	struct ff_query_gid_req gid_req = { .port = 1 };
	struct ff_query_gid_resp gid;
	struct ff_query_device_req dev_req = { 0 };
	struct ff_query_device_resp dev_a, dev_b;
	int a = client(0), b = client(1);

	(void)state;
	assert_int_equal(RIG_CALL(g, b, QUERY_PORT, &port_req, &port), 0);
	assert_int_equal(port.lid, 2);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(port.gid_tbl_len, 2);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	port_req.port = 0;
	assert_int_equal(RIG_CALL(g, b, QUERY_PORT, &port_req, &port), -EINVAL);
	port_req.port = 2;
	assert_int_equal(RIG_CALL(g, b, QUERY_PORT, &port_req, &port), -EINVAL);
	assert_int_equal(RIG_CALL(g, b, QUERY_GID, &gid_req, &gid), 0);
	assert_memory_equal(gid.gid, &g->c[1]->gid[0], 16);
	assert_int_equal(gid.gid_type, IBV_GID_TYPE_ROCE_V2);
	gid_req.index = 2;
	assert_int_equal(RIG_CALL(g, b, QUERY_GID, &gid_req, &gid), -EINVAL);
	assert_int_equal(RIG_CALL(g, a, QUERY_DEVICE, &dev_req, &dev_a), 0);
	assert_int_equal(RIG_CALL(g, b, QUERY_DEVICE, &dev_req, &dev_b), 0);
	assert_true(dev_a.node_guid != dev_b.node_guid);
	assert_int_equal(dev_a.phys_port_cnt, 1);
	close(a);
	close(b);
}

/* ---- memory regions ------------------------------------------------------------------------ */

static void mr_arguments_are_checked(void **state)
{
	static uint8_t buf[8192];
	int s = client(0);
	uint32_t pd = new_pd(s);
	struct ff_mr_run run[2] = {
		{ .kind = FF_RUN_SHADOW, .seg = 99, .va = (uintptr_t)buf & ~4095ull, .len = 4096 }
	};
	struct ff_reg_mr_req req = { (uintptr_t)buf, sizeof(buf), (uintptr_t)buf, pd, 0 };
	struct ff_reg_mr_resp mr;

	(void)state;
	assert_int_equal(reg_mr(s, pd, buf, 0, 0, &mr), -EINVAL);
	assert_int_equal(reg_mr(s, pd, (void *)-4096, 8192, 0, &mr), -EINVAL);
	assert_int_equal(reg_mr(s, pd, buf, UINT64_MAX, 0, &mr), -EINVAL);
	assert_int_equal(reg_mr(s, pd, buf, 10, IBV_ACCESS_REMOTE_WRITE, &mr), -EINVAL);
	assert_int_equal(reg_mr(s, pd, buf, 10, IBV_ACCESS_REMOTE_ATOMIC, &mr), -EINVAL);
	assert_int_equal(reg_mr(s, pd, buf, 10, 1u << 31, &mr), -EINVAL);
	assert_int_equal(reg_mr(s, pd, buf, 10, IBV_ACCESS_ON_DEMAND, &mr), -EOPNOTSUPP);
	assert_int_equal(rig_call(g, s, FF_MSG_REG_MR, &req, sizeof(req), run, sizeof(run[0]), 1,
				  &mr, sizeof(mr), NULL, NULL),
			 -EINVAL);
	assert_int_equal(reg_mr(s, pd, buf, sizeof(buf), IBV_ACCESS_REMOTE_READ, &mr), 0);
	assert_int_equal(mr.lkey, mr.rkey);
	assert_ptr_equal(key_lookup(&g->c[0]->keys, mr.rkey)->addr, (uintptr_t)buf);
	assert_int_equal(one(s, FF_MSG_DEREG_MR, mr.mr), 0);
	assert_null(key_lookup(&g->c[0]->keys, mr.rkey));
	close(s);
}

static void rereg_changes_what_it_names(void **state)
{
	static uint8_t buf[8192];
	int s = client(0);
	uint32_t pd = new_pd(s), pd2 = new_pd(s);
	struct ff_rereg_mr_req req = { .addr = 1, .length = 0, .pd = 77, .access = 1u << 31 };
	struct ff_rereg_mr_resp resp;
	struct ff_reg_mr_resp mr;
	struct mr *m;

	(void)state;
	assert_int_equal(reg_mr(s, pd, buf, 100, IBV_ACCESS_LOCAL_WRITE, &mr), 0);
	req.mr = mr.mr;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &req, &resp), -EINVAL); /* no flags */
	for (req.flags = 1; req.flags < 16; req.flags++) /* each names something that is wrong */
		assert_int_equal(RIG_CALL(g, s, REREG_MR, &req, &resp), -EINVAL);
	assert_non_null(key_lookup(&g->c[0]->keys, mr.rkey)); /* and nothing has changed */

	req.flags = IBV_REREG_MR_CHANGE_PD;
	req.pd = pd2;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &req, &resp), 0);
	assert_null(key_lookup(&g->c[0]->keys, mr.rkey));
	m = key_lookup(&g->c[0]->keys, resp.rkey);
	assert_non_null(m);
	assert_int_equal(m->access, IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(m->length, 100);
	assert_int_equal(one(s, FF_MSG_DEALLOC_PD, pd), 0); /* not used any more */
	assert_int_equal(one(s, FF_MSG_DEALLOC_PD, pd2), -EBUSY);

	req.flags = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS;
	req.addr = req.iova = (uintptr_t)buf + 50;
	req.length = 7;
	req.access = 0;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &req, &resp), 0);
	m = key_lookup(&g->c[0]->keys, resp.rkey);
	assert_int_equal(m->addr, (uintptr_t)buf + 50);
	assert_int_equal(m->length, 7);
	assert_int_equal(m->access, 0);
	assert_int_equal(one(s, FF_MSG_DEREG_MR, mr.mr), 0);
	assert_int_equal(one(s, FF_MSG_DEALLOC_PD, pd2), 0);
	close(s);
}

/* ---- QPs ----------------------------------------------------------------------------------- */

static void a_qp_goes_through_its_states(void **state)
{
	int s = client(0);
	uint32_t pd = new_pd(s), cq = new_cq(s);
	struct ff_query_qp_req query = { .qp = new_qp(s, pd, cq) };
	struct ff_modify_qp_req mod = { .qp = query.qp };
	struct ff_modify_qp_resp modded;
	struct ff_query_qp_resp attr;

	(void)state;
	mod.attr = (struct ff_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 };
	mod.mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), -EINVAL);
	mod.mask |= IBV_QP_ACCESS_FLAGS;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), 0);
	assert_int_equal(modded.qp_state, IBV_QPS_INIT);

	mod.attr = (struct ff_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 17,
		.rq_psn = 5,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah = { .dlid = 2, .port_num = 1 },
		.timeout = 31, /* not named */
	};
	mod.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), 0);
	assert_int_equal(RIG_CALL(g, s, QUERY_QP, &query, &attr), 0);
	assert_int_equal(attr.attr.qp_state, IBV_QPS_RTR);
	assert_int_equal(attr.attr.cur_qp_state, IBV_QPS_RTR);
	assert_int_equal(attr.attr.dest_qp_num, 17);
	assert_int_equal(attr.attr.rq_psn, 5);
	assert_int_equal(attr.attr.port_num, 1);
	assert_int_equal(attr.attr.timeout, 0);
	assert_int_equal(attr.attr.ah.dlid, 2);
	assert_int_equal(attr.attr.cap.max_send_wr, 128);

	mod.mask = IBV_QP_STATE;
	mod.attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), 0);
	mod.attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), -EINVAL);
	mod.attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), 0);
	assert_int_equal(RIG_CALL(g, s, QUERY_QP, &query, &attr), 0);
	assert_int_equal(attr.attr.qp_state, IBV_QPS_RESET);
	assert_int_equal(attr.attr.dest_qp_num, 0);
	assert_int_equal(attr.attr.cap.max_send_wr, 128);
	close(s);
}

static void a_cq_is_resized_while_it_holds_completions(void **state)
{
	int s = client(0);
	struct ff_create_cq_resp resp;
	struct ff_resize_cq_req req;
	struct ff_resize_cq_resp resized;
	struct cq *cq;

	(void)state;
	assert_int_equal(make_cq(s, 64, 0, &resp), 0);
	cq = cq_get(LIST_FIRST(&g->c[0]->sessions), resp.cq);
	cq->pi = 20; /* as if 20 had been written and 3 consumed */
	atomic_store(&cq->hdr->ci, 3);
	for (uint32_t i = 0; i < 20; i++)
		cq->ring[i].wr_id = i;
	req = (struct ff_resize_cq_req){ .cq = resp.cq, .cqe = 16 };
	assert_int_equal(RIG_CALL(g, s, RESIZE_CQ, &req, &resized), -EINVAL);
	assert_int_equal(cq->depth, 64);
	req.cqe = 17;
	assert_int_equal(RIG_CALL(g, s, RESIZE_CQ, &req, &resized), 0);
	assert_int_equal(resized.cqe, 32);
	assert_int_equal(resized.ring.depth, 32);
	assert_int_equal(cq->pi, 17);
	for (uint32_t i = 0; i < 17; i++)
		assert_int_equal(cq->ring[i].wr_id, i + 3);
	req.cqe = 0;
	assert_int_equal(RIG_CALL(g, s, RESIZE_CQ, &req, &resized), -EINVAL);
	close(s);
}

static void srqs_have_limits(void **state)
{
	int s = client(0);
	struct ff_create_srq_req req = { .pd = new_pd(s), .max_wr = 0, .max_sge = 1 };
	struct ff_create_srq_resp resp;
	struct ff_modify_srq_req mod = { .mask = IBV_SRQ_LIMIT, .srq_limit = 3 };
	struct ff_modify_srq_resp modded;
	struct ff_query_srq_req query;
	struct ff_query_srq_resp attr;

	(void)state;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), -EINVAL);
	req.max_wr = FF_MAX_WR + 1;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), -EINVAL);
	req.max_wr = 4;
	req.max_sge = FF_MAX_SGE + 1;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), -EINVAL);
	req.max_sge = 2;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), 0);
	query.srq = mod.srq = resp.srq;
	mod.srq_limit = 5;
	assert_int_equal(RIG_CALL(g, s, MODIFY_SRQ, &mod, &modded), -EINVAL);
	mod.mask = IBV_SRQ_MAX_WR;
	assert_int_equal(RIG_CALL(g, s, MODIFY_SRQ, &mod, &modded), -EOPNOTSUPP);
	mod.mask = 8;
	assert_int_equal(RIG_CALL(g, s, MODIFY_SRQ, &mod, &modded), -EINVAL);
	assert_int_equal(RIG_CALL(g, s, QUERY_SRQ, &query, &attr), 0);
	assert_int_equal(attr.max_wr, 4);
	assert_int_equal(attr.max_sge, 2);
	close(s);
}

/* ---- the end of a session ------------------------------------------------------------------ */

static void a_session_takes_everything_with_it(void **state)
{
	unsigned before = rig_open_fds();
	struct ff_create_channel_req ch_req = { 0 };
	struct ff_create_channel_resp ch;
	static uint8_t buf[4096];
	struct ff_reg_mr_resp mr;
	uint32_t pd, cq, qpn;
	struct session *ses;
	int s = client(0);

	(void)state;
	pd = new_pd(s);
	cq = new_cq(s);
	new_qp(s, pd, cq);
	ses = LIST_FIRST(&g->c[0]->sessions);
	qpn = qp_get(ses, new_qp(s, pd, cq))->qp_num;
	ses->stats.send_ops = 5;
	for (int i = 0; i < 300; i++) /* more than one batch of the teardown */
		assert_int_equal(reg_mr(s, pd, buf, 100, 0, &mr), 0);
	assert_int_equal(RIG_CALL(g, s, CREATE_CHANNEL, &ch_req, &ch), 0);
	assert_non_null(qp_by_num(g->r.fast, qpn));
	close(s);
	rig_pump(g);
	assert_null(qp_by_num(g->r.fast, qpn));
	assert_null(key_lookup(&g->c[0]->keys, mr.rkey));
	assert_true(LIST_EMPTY(&g->c[0]->sessions));
	assert_int_equal(g->c[0]->stats.send_ops, 5);
	assert_int_equal(rig_open_fds(), before);
}

static void the_fast_thread_can_have_a_session_closed(void **state)
{
	int s = client(0), other = client(0);
	struct session *ses;

	(void)state;
	LIST_FOREACH(ses, &g->c[0]->sessions, entry)
		if (ses->id == 1)
			break;
	assert_non_null(ses);
	fast_lock(g->r.fast);
	g->r.fast->session_bad(ses, "test");
	g->r.fast->session_bad(ses, "twice");
	fast_unlock(g->r.fast);
	assert_true(rig_is_closed(g, s));
	assert_int_equal(one(other, FF_MSG_DEALLOC_PD, new_pd(other)), 0);
	close(s);
	close(other);
}

static void a_changed_container_closes_its_sessions(void **state)
{
	struct ffo_container info = { .id = 1, .epoch = 2, .lid = 1, .num_ips = 1 };
	int s = client(0), other = client(1);

	(void)state;
	info.ip[0].s6_addr[15] = 99;
	container_update(g->c[0], &info);
	assert_true(rig_is_closed(g, s));
	assert_int_equal(g->c[0]->num_gids, 1);
	assert_int_equal(one(other, FF_MSG_DEALLOC_PD, new_pd(other)), 0);
	close(s);
	close(other);
}

/* ---- the listening socket ------------------------------------------------------------------ */

static int dial(int container)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/containers/%c/ffr.sock", g->dir,
		 'a' + container);
	return connect(s, (struct sockaddr *)&sa, sizeof(sa)) ? -1 : s;
}

static void sockets_are_for_any_user(void **state)
{
	char path[96];
	struct stat st;
	int s;

	(void)state;
	snprintf(path, sizeof(path), "%s/containers/a/ffr.sock", g->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	snprintf(path, sizeof(path), "%s/containers/a", g->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	s = dial(1);
	assert_true(s >= 0);
	rig_pump(g);
	assert_int_equal(rig_hello(g, s), 0);
	assert_false(LIST_EMPTY(&g->c[1]->sessions));
	assert_true(LIST_EMPTY(&g->c[0]->sessions));
	assert_int_equal(LIST_FIRST(&g->c[1]->sessions)->pid, getpid());
	close(s);
}

static void a_container_has_so_many_sessions(void **state)
{
	int s[3];

	(void)state;
	g->r.conf.limits.max_sessions = 2;
	for (int i = 0; i < 3; i++) {
		s[i] = dial(0);
		assert_true(s[i] >= 0);
	}
	assert_true(rig_is_closed(g, s[2]));
	assert_int_equal(rig_hello(g, s[0]), 0);
	assert_int_equal(rig_hello(g, s[1]), 0);
	close(s[2]);
	close(s[0]);
	rig_pump(g);
	s[0] = dial(0);
	rig_pump(g);
	assert_int_equal(rig_hello(g, s[0]), 0);
	close(s[0]);
	close(s[1]);
}

static void on_late(uv_timer_t *t)
{
	(void)t;
	abort();
}

/* The process dies; its child keeps the socket. */
static void a_dead_process_ends_its_session(void **state)
{
	struct container_ctl *ct = g->c[0]->ctl;
	uv_timer_t watchdog;
	int pipes[2];
	pid_t child, grandchild;
	bool seen = false;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (!child) {
		dial(0);
		grandchild = fork();
		if (!grandchild) {
			pause();
			_exit(0);
		}
		_exit(write(pipes[1], &grandchild, sizeof(grandchild)) < 0);
	}
	assert_true(child > 0);
	uv_timer_init(&g->r.loop, &watchdog);
	uv_timer_start(&watchdog, on_late, 10000, 0);
	while (!seen || ct->num_conns) {
		uv_run(&g->r.loop, UV_RUN_ONCE);
		seen = seen || ct->num_conns;
	}
	uv_close((uv_handle_t *)&watchdog, NULL);
	rig_pump(g); /* closed before this function's frame goes */
	assert_int_equal(read(pipes[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	assert_int_equal(kill(grandchild, 0), 0); /* it still lives, with the socket */
	kill(grandchild, SIGKILL);
	waitpid(child, NULL, 0);
	close(pipes[0]);
	close(pipes[1]);
}

static void leftovers_are_removed(void **state)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char path[128];
	struct stat st;
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)state;
	snprintf(path, sizeof(path), "%s/containers/old", g->dir);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/containers/old/ffr.sock", g->dir);
	assert_int_equal(bind(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
	containers_sweep(&g->r);
	assert_int_not_equal(stat(path, &st), 0);
	snprintf(path, sizeof(path), "%s/containers/a/ffr.sock", g->dir);
	assert_int_equal(stat(path, &st), 0);
	close(s);
}

static void names_are_checked(void **state)
{
	static const char *const good[] = { "a", "web-1", "A.b_c-9" };
	static const char *const bad[] = { "", ".", "..", "-a", "_a", "a/b", "a b", "ä", "a\n" };
	char name[CONTAINER_NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(container_name_ok(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(container_name_ok(bad[i]));
	memset(name, 'x', sizeof(name));
	name[63] = '\0';
	assert_true(container_name_ok(name));
	name[63] = 'x';
	name[64] = '\0';
	assert_false(container_name_ok(name));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(hello_gives_a_session),
		T(versions_are_negotiated),
		T(malformed_messages_close_the_session),
		T(descriptors_close_the_session_and_are_closed),
		T(who_does_not_read_is_closed),
		T(foreign_and_unknown_handles_are_refused),
		T(what_is_used_cannot_go),
		T(capabilities_are_rounded_up_and_bounded),
		T(limits_hold),
		T(the_port_is_the_containers),
		T(mr_arguments_are_checked),
		T(rereg_changes_what_it_names),
		T(a_qp_goes_through_its_states),
		T(a_cq_is_resized_while_it_holds_completions),
		T(srqs_have_limits),
		T(a_session_takes_everything_with_it),
		T(the_fast_thread_can_have_a_session_closed),
		T(a_changed_container_closes_its_sessions),
		T(sockets_are_for_any_user),
		T(a_container_has_so_many_sessions),
		T(a_dead_process_ends_its_session),
		T(leftovers_are_removed),
		T(names_are_checked),
	};

	log_level = LOG_LEVEL_ERR;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
