/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_ctl.c - ffr/ctl/conn.c and call.c: sessions over real SEQPACKET sockets. What ends the session of the client that
 * did it and nobody else's, and what goes with a session.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ctl_calls.h"
#include "ffr/ctl/container.h"
#include "ffr/mem/stall.h"

static struct ctl_rig *const g = &call_rig;

/* ---- hello --------------------------------------------------------------------------------------- */

static void hello_gives_a_session(void **state)
{
	struct ff_hello_req req = { FF_PROTO_VERSION, FF_PROTO_VERSION + 5, "prog", { 0 } };
	struct ff_get_seg_req seg_req = { .seg = 0 };
	struct ff_get_seg_resp seg;
	struct ff_hello_resp resp;
	int sock = rig_connect(g, 0), fds[RIG_MAX_FDS], seg_fd;
	struct ff_ses_hdr *hdr;
	unsigned n;

	(void)state;
	g->unsealed = true;
	assert_int_equal(rig_hello_with(g, sock, &req, &resp, NULL, fds, &n), 0);
	assert_int_equal(resp.version, FF_PROTO_VERSION);
	assert_int_equal(resp.num_ports, 1);
	assert_int_equal(resp.num_devices, 1);
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
	g->unsealed = false;
	munmap(hdr, seg.size);
	close(seg_fd);
	close(fds[0]);
	close(fds[1]);
	close(sock);
}

/* It is printed for operators, and one that fills its field has no end. */
static void a_programs_name_is_printable(void **state)
{
	struct ff_hello_req req = {
		FF_PROTO_VERSION, FF_PROTO_VERSION, "a\033[2J\x7f\xff z", { 0 }
	};
	const struct session *ses;
	struct ff_hello_resp resp;
	int s = rig_connect(g, 0);

	(void)state;
	assert_int_equal(rig_hello_with(g, s, &req, &resp, NULL, NULL, NULL), 0);
	ses = LIST_FIRST(&g->c[0]->sessions);
	assert_string_equal(ses->comm, "a?[2J?? z");
	close(s);
	rig_pump(g);
	memset(req.comm, 'x', sizeof(req.comm));
	s = rig_connect(g, 0);
	assert_int_equal(rig_hello_with(g, s, &req, &resp, NULL, NULL, NULL), 0);
	ses = LIST_FIRST(&g->c[0]->sessions);
	assert_int_equal(strnlen(ses->comm, sizeof(ses->comm)), sizeof(ses->comm) - 1);
	close(s);
}

static void types_end_with_the_table(void **state)
{
	(void)state;
	assert_non_null(ctl_type(FF_MSG_HELLO));
	for (unsigned type = FF_MSG_NUM; type <= UINT16_MAX; type++)
		assert_null(ctl_type((uint16_t)type));
}

/* A container, or a tenant, that is not trusted is not given the device. */
static void userfaultfd_can_be_kept_back(void **state)
{
	struct ff_hello_req req = { FF_PROTO_VERSION, FF_PROTO_VERSION, "uffd", { 0 } };
	struct ff_hello_resp resp;
	int fds[RIG_MAX_FDS];
	unsigned n;

	(void)state;
	g->ctl.uffd_fd = eventfd(0, EFD_CLOEXEC);
	for (int i = 0; i < 4; i++) {
		int sock = rig_connect(g, 0);

		g->c[0]->limits.no_uffd = i & 1;
		g->c[0]->of->limits.no_uffd = i >> 1;
		assert_int_equal(rig_hello_with(g, sock, &req, &resp, NULL, fds, &n), 0);
		assert_int_equal(resp.has_uffd, i ? 0 : FF_UFFD_TRACK);
		assert_int_equal(n, i ? 2 : 3);
		while (n)
			close(fds[--n]);
		close(sock);
	}
	g->c[0]->limits.no_uffd = g->c[0]->of->limits.no_uffd = 0;
	close(g->ctl.uffd_fd);
	g->ctl.uffd_fd = -1;
}

static void versions_are_negotiated(void **state)
{
	struct ff_hello_req req = { FF_PROTO_VERSION + 1, FF_PROTO_VERSION + 2, "new", { 0 } };
	struct ff_hello_resp resp;
	int sock = rig_connect(g, 0);

	(void)state;
	assert_int_equal(rig_hello_with(g, sock, &req, &resp, NULL, NULL, NULL), -EPROTONOSUPPORT);
	req.version_min = 0;
	req.version_max = FF_PROTO_VERSION - 1;
	assert_int_equal(rig_hello_with(g, sock, &req, &resp, NULL, NULL, NULL), -EPROTONOSUPPORT);
	assert_int_equal(rig_hello(g, sock), 0); /* it may try again */
	close(sock);
}

/* ---- segments ------------------------------------------------------------------------------------ */

/* A segment, mapped as by the client, and then sealed; MAP_FAILED: it cannot be mapped any more. */
static void *get_seg(int sock, uint32_t seg, bool seals)
{
	struct ff_get_seg_req req = { .seg = seg };
	struct ff_get_seg_resp resp;
	unsigned n;
	void *map;
	int fd;

	assert_int_equal(rig_call(g, sock, FF_MSG_GET_SEG, &req, sizeof(req), NULL, 0, 0, &resp,
				  sizeof(resp), &fd, &n),
			 0);
	map = mmap(NULL, FF_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (seals)
		(void)fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	close(fd);
	return map;
}

static int resize(int sock, uint32_t cq, uint32_t cqe)
{
	struct ff_resize_cq_req req = { .cq = cq, .cqe = cqe };
	struct ff_resize_cq_resp resp;

	return RIG_CALL(g, sock, RESIZE_CQ, &req, &resp);
}

/* The router touches a segment when its client has sealed it, after which it cannot be mapped again. */
static void what_is_named_is_sealed(void **state)
{
	struct ff_create_cq_resp cq, beside;
	uint32_t pd, other, qp;
	struct session *s;
	int sock;
	void *map;

	(void)state;
	g->unsealed = true;
	sock = call_client(g, 0);
	s = LIST_FIRST(&g->c[0]->sessions);
	map = get_seg(sock, 0, true);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_false(s->mem.segs[0].sealed);
	assert_true(s->bells.are_mute);
	pd = call_pd(g, sock);
	assert_true(s->mem.segs[0].sealed);
	assert_false(s->bells.are_mute);
	assert_ptr_equal(get_seg(sock, 0, false), MAP_FAILED);

	/* a CQ in a segment of its own, by a QP */
	assert_int_equal(call_create_cq(g, sock, 60000, 0, &cq), 0);
	assert_int_equal(cq.ring.seg, 1);
	assert_ptr_not_equal(get_seg(sock, 1, false), MAP_FAILED);
	assert_int_equal(call_one(g, sock, FF_MSG_DESTROY_CQ, cq.cq), -EINVAL);
	assert_false(s->mem.segs[1].sealed);
	assert_ptr_not_equal(get_seg(sock, 1, true), MAP_FAILED);
	qp = call_qp(g, sock, pd, cq.cq);
	assert_true(s->mem.segs[1].sealed);
	assert_ptr_equal(get_seg(sock, 1, false), MAP_FAILED);
	assert_int_equal(call_one(g, sock, FF_MSG_DESTROY_QP, qp), 0);

	/* by its end; another object is not put beside it before */
	assert_int_equal(call_create_cq(g, sock, 60000, 0, &cq), 0);
	assert_int_equal(cq.ring.seg, 2);
	assert_false(s->mem.segs[2].sent);
	assert_int_equal(call_create_cq(g, sock, 20000, 0, &beside), 0);
	assert_int_equal(beside.ring.seg, 2);
	assert_ptr_not_equal(get_seg(sock, 2, false), MAP_FAILED);
	assert_true(s->mem.segs[2].sent);
	assert_int_equal(call_create_cq(g, sock, 30000, 0, &beside), 0);
	assert_int_equal(beside.ring.seg, 3);
	assert_ptr_not_equal(get_seg(sock, 2, true), MAP_FAILED);
	assert_int_equal(call_one(g, sock, FF_MSG_DESTROY_CQ, cq.cq), 0);
	assert_true(s->mem.segs[2].sealed);

	/* a ring that is used at once is only where the client says that it is */
	other = call_cq(g, sock);
	assert_int_equal(resize(sock, other, 240000), -EAGAIN);
	assert_int_equal(resize(sock, other, 240000), -EAGAIN);
	assert_int_equal(s->mem.num_segs, 5);
	assert_ptr_not_equal(get_seg(sock, 4, true), MAP_FAILED);
	assert_int_equal(resize(sock, other, 240000), 0);
	assert_int_equal(s->mem.num_segs, 5);
	munmap(map, FF_PAGE);
	close(sock);
	g->unsealed = false;
}

struct objects {
	uint32_t pd, xrcd, channel;
	uint32_t cq, srq, qp, ud, dm; /* in segments of their own */
	uint32_t other;		      /* a CQ, in segment 0 */
};

#define MAKE(NAME, name, resp, ...)                                                                \
	do {                                                                                       \
		struct ff_##name##_req req_ = { __VA_ARGS__ };                                     \
		assert_int_equal(RIG_CALL(g, sock, NAME, &req_, resp), 0);                         \
	} while (0)

static struct objects make_objects(int sock)
{
	struct ff_create_channel_resp channel;
	struct ff_open_xrcd_resp xrcd;
	struct ff_create_srq_resp srq;
	struct ff_create_qp_resp qp, ud;
	struct ff_create_cq_resp cq;
	struct ff_alloc_dm_resp dm;
	uint32_t pd = call_pd(g, sock), other = call_cq(g, sock);

	MAKE(CREATE_CHANNEL, create_channel, &channel, .reserved = 0);
	MAKE(OPEN_XRCD, open_xrcd, &xrcd, .flags = FF_XRCD_CREATE);
	MAKE(CREATE_CQ, create_cq, &cq, .cqe = 60000, .channel = channel.channel);
	MAKE(CREATE_SRQ, create_srq, &srq, .pd = pd, .max_wr = FF_MAX_WR, .max_sge = FF_MAX_SGE);
	MAKE(CREATE_QP, create_qp, &qp, .pd = pd, .send_cq = other, .recv_cq = other,
	     .qp_type = IBV_QPT_RC, .cap = { FF_MAX_WR, FF_MAX_WR, FF_MAX_SGE, FF_MAX_SGE, 0 });
	MAKE(CREATE_QP, create_qp, &ud, .pd = pd, .send_cq = other, .recv_cq = other,
	     .qp_type = IBV_QPT_UD, .cap = { FF_MAX_WR, FF_MAX_WR, FF_MAX_SGE, FF_MAX_SGE, 0 });
	MAKE(ALLOC_DM, alloc_dm, &dm, .length = FF_PAGE);
	assert_true(cq.ring.seg && srq.ring.seg && qp.sq.seg && ud.sq.seg && dm.seg);
	return (struct objects){ .pd = pd,
				 .xrcd = xrcd.xrcd,
				 .channel = channel.channel,
				 .cq = cq.cq,
				 .srq = srq.srq,
				 .qp = qp.qp,
				 .ud = ud.qp,
				 .dm = dm.dm,
				 .other = other };
}

/*
 * In each call that names an object with rings, one that is not sealed (tests/lint/handles), those calls last that end
 * the object. All are -EINVAL, and none of them when `sealed` tells that the client has sealed the segments.
 */
static void name_each(int sock, const struct objects *o, bool sealed)
{
#define UNSEALED(NAME, name, ...)                                                                  \
	do {                                                                                       \
		struct ff_##name##_req req_ = { __VA_ARGS__ };                                     \
		struct ff_##name##_resp resp_;                                                     \
		int st_ = RIG_CALL(g, sock, NAME, &req_, &resp_);                                  \
                                                                                                   \
		if ((st_ == -EINVAL) == sealed)                                                    \
			fail_msg("%s { %s }: %d", #NAME, #__VA_ARGS__, st_);                       \
	} while (0)
	UNSEALED(RESIZE_CQ, resize_cq, .cq = o->cq, .cqe = 64);
	UNSEALED(MODIFY_CQ, modify_cq, .cq = o->cq);
	UNSEALED(REPEAT_EVENT, repeat_event, .cq = o->cq);
	UNSEALED(CREATE_SRQ, create_srq, .pd = o->pd, .max_wr = 4, .max_sge = 1, .xrcd = o->xrcd,
		 .cq = o->cq);
	UNSEALED(CREATE_QP, create_qp, .pd = o->pd, .send_cq = o->cq, .recv_cq = o->other,
		 .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 });
	UNSEALED(CREATE_QP, create_qp, .pd = o->pd, .send_cq = o->other, .recv_cq = o->cq,
		 .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 });
	UNSEALED(CREATE_QP, create_qp, .pd = o->pd, .send_cq = o->other, .recv_cq = o->other,
		 .srq = o->srq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 });
	UNSEALED(MODIFY_SRQ, modify_srq, .srq = o->srq, .mask = IBV_SRQ_LIMIT);
	UNSEALED(QUERY_SRQ, query_srq, .srq = o->srq);
	UNSEALED(MODIFY_QP, modify_qp, .qp = o->qp, .mask = IBV_QP_STATE,
		 .attr.qp_state = IBV_QPS_RESET);
	UNSEALED(QUERY_QP, query_qp, .qp = o->qp);
	UNSEALED(ATTACH_MCAST, attach_mcast, .qp = o->ud, .gid = { 0xff, 0x0e, [15] = 1 });
	UNSEALED(DETACH_MCAST, detach_mcast, .qp = o->ud, .gid = { 0xff, 0x0e, [15] = 1 });
	UNSEALED(REG_DM_MR, reg_dm_mr, .pd = o->pd, .dm = o->dm, .length = 8);
	UNSEALED(FREE_DM, free_dm, .dm = o->dm);
	UNSEALED(DESTROY_SRQ, destroy_srq, .srq = o->srq);
	UNSEALED(DESTROY_CQ, destroy_cq, .cq = o->cq);
#undef UNSEALED
}

static void each_call_wants_the_seal(void **state)
{
	struct objects o;
	struct session *s;
	int sock;

	(void)state;
	g->unsealed = true;
	g->ctl.dev.max_dm_size = 64 * FF_PAGE;
	sock = call_client(g, 0);
	s = LIST_FIRST(&g->c[0]->sessions);
	assert_ptr_not_equal(get_seg(sock, 0, true), MAP_FAILED);
	o = make_objects(sock);
	name_each(sock, &o, false);
	for (uint32_t i = 1; i < s->mem.num_segs; i++)
		assert_ptr_not_equal(get_seg(sock, i, true), MAP_FAILED);
	name_each(sock, &o, true);
	close(sock);
	g->unsealed = false;
}

/* A client that has not sealed segment 0 makes no calls: that one's connection is closed. */
static void who_does_not_seal_is_closed(void **state)
{
	struct ff_alloc_pd_req req = { 0 };
	int sock, other;

	(void)state;
	other = call_client(g, 0);
	call_pd(g, other);
	g->unsealed = true;
	sock = call_client(g, 0);
	get_seg(sock, 0, false);
	rig_ask(sock, FF_MSG_ALLOC_PD, &req, sizeof(req), NULL, 0, 0);
	assert_true(rig_is_closed(g, sock));
	call_pd(g, other);
	close(sock);
	close(other);
	g->unsealed = false;
}

/* Memory that kept the router waiting is not mapped any more, but copied. */
static void memory_that_stalls(void **state)
{
	struct ff_reg_mr_req req = { .addr = 1ull << 40, .length = FF_PAGE };
	struct ff_mr_run run = { .va = 1ull << 40, .len = FF_PAGE, .kind = FF_RUN_SHADOW };
	struct ff_reg_mr_resp mr;
	int sock = call_client(g, 0), file;
	uint64_t off;

	(void)state;
	req.pd = call_pd(g, sock);
	file = call_watch_pages(g, sock);
	assert_int_equal(call_place_pages(g, sock, FF_PAGE, &run.off), 0);
	assert_int_equal(fallocate(file, 0, (off_t)run.off, FF_PAGE), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rig_call(g, sock, FF_MSG_REG_MR, &req, sizeof(req), &run,
					  sizeof(run), 1, &mr, sizeof(mr), NULL, NULL),
				 0);
		assert_int_equal(mr.zero_copy, i ? 0 : FF_PAGE);
		stall_charge(g->c[0], 900000000);
		assert_int_equal(call_place_pages(g, sock, FF_PAGE, &off), -ENOSPC);
	}
	g->c[0]->stall = (struct cont_stall){ 0 };
	assert_int_equal(call_place_pages(g, sock, FF_PAGE, &off), 0);
	close(file);
	close(sock);
}

/* ---- malformed messages -------------------------------------------------------------------------- */

/* The router closes that client, and serves the other as before. */
static void must_close(int other, const void *bytes, size_t len, int fd, unsigned n_fds, bool hello)
{
	unsigned before = rig_open_fds();
	int sock = rig_connect(g, 0);

	if (hello)
		assert_int_equal(rig_hello(g, sock), 0);
	rig_send(sock, bytes, len, fd, n_fds);
	assert_true(rig_is_closed(g, sock));
	close(sock);
	rig_fds(g, before);
	assert_int_equal(call_one(g, other, FF_MSG_DEALLOC_PD, call_pd(g, other)), 0);
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
		{ .magic = 0x1234, .type = FF_MSG_NUM },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_NUM, .status = -1 },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_NUM, .n_fds = 1 },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD, .status = -1 },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD, .n_fds = 1 },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD, .n_tail = 1 },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_REG_MR, .n_tail = 0 },
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_HELLO }, /* too short */
	};
	int other = call_client(g, 1);

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

/* A newer library's request is answered by its header alone, and its session goes on. */
static void unknown_messages_are_answered(void **state)
{
	static const uint16_t types[] = { 0, 8, FF_MSG_NUM, 0xffff };
	struct {
		struct ff_hdr h;
		uint8_t body[FF_MSG_MAX];
	} m = { 0 };
	int sock = call_client(g, 0), other = call_client(g, 1), pipes[2], fd;
	uint8_t byte;

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		rig_ask(sock, types[i], m.body, i * 4, NULL, 0, 0);
		assert_int_equal(rig_answer(g, sock, types[i], &byte, 0), -EOPNOTSUPP);
		assert_int_equal(call_one(g, sock, FF_MSG_DEALLOC_PD, call_pd(g, sock)), 0);
	}
	/* the longest message that there is; its tail elements may have any size */
	rig_ask(sock, FF_MSG_NUM, m.body, FF_MSG_MAX - sizeof(m.h), NULL, 0, 0xffff);
	assert_int_equal(rig_answer(g, sock, FF_MSG_NUM, &byte, 0), -EOPNOTSUPP);
	/* its descriptors are closed */
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(rig_call_fd(g, sock, FF_MSG_NUM, m.body, 4, &pipes[1], 1, &byte, 0, &fd),
			 -EOPNOTSUPP);
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &byte, 1), 0);
	close(pipes[0]);
	assert_int_equal(call_one(g, sock, FF_MSG_DEALLOC_PD, call_pd(g, sock)), 0);
	close(sock);
	/* before HELLO, beyond the limits, or with other descriptors than it tells of: closed */
	m.h = (struct ff_hdr){ .magic = FF_PROTO_MAGIC, .type = FF_MSG_NUM };
	must_close(other, &m, sizeof(m.h), -1, 0, false);
	must_close(other, &m, FF_MSG_MAX + 1, -1, 0, true);
	must_close(other, &m, sizeof(m.h), 0, 1, true);
	close(other);
}

static void descriptors_close_the_session_and_are_closed(void **state)
{
	struct ff_alloc_pd_req body = { 0 };
	struct {
		struct ff_hdr h;
		struct ff_alloc_pd_req body;
	} m = { { .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD }, body };
	int other = call_client(g, 1), pipes[2];
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

static int fails_halfway(struct ctl_call *c, const void *req, void *resp)
{
	(void)c;
	(void)req;
	memset(resp, 0xee, sizeof(struct ff_cm_query_resp));
	return -EIO;
}

/* What a handler wrote until it failed is nothing to the client. */
static void a_failed_call_answers_with_zeros(void **state)
{
	static const struct ff_cm_query_resp none;
	const struct ctl_cm_ops *was = g->ctl.cm_ops;
	struct ctl_cm_ops ops = *was;
	struct ff_cm_query_req req = { 0 };
	struct ff_cm_query_resp resp;
	int s = call_client(g, 0);

	(void)state;
	ops.serve[FF_MSG_CM_QUERY] = fails_halfway;
	g->ctl.cm_ops = &ops;
	assert_int_equal(RIG_CALL(g, s, CM_QUERY, &req, &resp), -EIO);
	assert_memory_equal(&resp, &none, sizeof(resp));
	g->ctl.cm_ops = was;
	close(s);
}

static unsigned answers(int sock)
{
	uint8_t buf[FF_MSG_MAX];
	unsigned n = 0;

	while (recv(sock, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		n++;
	return n;
}

/* In one turn of the loop a client is not served all that it has asked for. */
static void many_calls_let_others_in(void **state)
{
	struct ff_query_device_req req = { 0 };
	int s = call_client(g, 0), other = call_client(g, 1);
	unsigned n = 0;

	(void)state;
	for (int i = 0; i < 100; i++)
		rig_ask(s, FF_MSG_QUERY_DEVICE, &req, sizeof(req), NULL, 0, 0);
	rig_ask(other, FF_MSG_QUERY_DEVICE, &req, sizeof(req), NULL, 0, 0);
	while (!answers(other)) {
		uv_run(&g->loop, UV_RUN_NOWAIT);
		n += answers(s);
	}
	assert_true(n < 100);
	for (; n < 100; n += answers(s))
		uv_run(&g->loop, UV_RUN_NOWAIT);
	assert_int_equal(n, 100);
	close(s);
	close(other);
}

static void who_does_not_read_is_closed(void **state)
{
	struct {
		struct ff_hdr h;
		struct ff_query_device_req body;
	} m = { { .magic = FF_PROTO_MAGIC, .type = FF_MSG_QUERY_DEVICE }, { 0 } };
	int sock = call_client(g, 0), other = call_client(g, 1), size = 4096;
	bool closed = false;

	(void)state;
	setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	for (int i = 0; i < 100000 && !closed; i++) {
		if (send(sock, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			closed = errno == EPIPE;
		rig_pump(g);
	}
	assert_true(closed);
	assert_int_equal(call_one(g, other, FF_MSG_DEALLOC_PD, call_pd(g, other)), 0);
	close(sock);
	close(other);
}

/* ---- the end of a session ------------------------------------------------------------------------ */

static void a_session_takes_everything_with_it(void **state)
{
	unsigned before = rig_open_fds();
	struct ff_create_channel_req ch_req = { 0 };
	struct ff_create_channel_resp ch;
	static uint8_t buf[4096];
	struct ff_reg_mr_resp mr;
	uint32_t pd, cq, qpn;
	struct session *ses;
	int s = call_client(g, 0);

	(void)state;
	pd = call_pd(g, s);
	cq = call_cq(g, s);
	call_qp(g, s, pd, cq);
	ses = LIST_FIRST(&g->c[0]->sessions);
	qpn = qp_get_unsealed(ses, call_qp(g, s, pd, cq))->qp_num;
	ses->stats.send_ops = 5;
	for (int i = 0; i < 300; i++) /* more than one batch of the teardown */
		assert_int_equal(call_reg_mr(g, s, pd, buf, 100, 0, &mr), 0);
	assert_int_equal(RIG_CALL(g, s, CREATE_CHANNEL, &ch_req, &ch), 0);
	assert_non_null(qp_by_num(&g->ctl.host->qps, 0, qpn));
	close(s);
	while (!LIST_EMPTY(&g->c[0]->sessions)) /* how much is a batch is a matter of time */
		rig_pump(g);
	assert_null(qp_by_num(&g->ctl.host->qps, 0, qpn));
	assert_null(key_lookup(&g->c[0]->keys, mr.rkey));
	assert_int_equal(g->c[0]->stats.send_ops, 5);
	rig_fds(g, before);
}

static void the_fast_thread_can_have_a_session_closed(void **state)
{
	int s = call_client(g, 0), other = call_client(g, 0);
	struct session *ses;

	(void)state;
	LIST_FOREACH(ses, &g->c[0]->sessions, entry)
		if (ses->id == 1)
			break;
	assert_non_null(ses);
	fast_lock(g->ctl.host);
	g->ctl.host->session_bad(ses, "test");
	g->ctl.host->session_bad(ses, "twice");
	fast_unlock(g->ctl.host);
	assert_true(rig_is_closed(g, s));
	assert_int_equal(call_one(g, other, FF_MSG_DEALLOC_PD, call_pd(g, other)), 0);
	close(s);
	close(other);
}

static void a_changed_container_closes_its_sessions(void **state)
{
	struct ffo_container info = { .id = 1, .epoch = 2, .lid = 1, .num_ips = 1 };
	int s = call_client(g, 0), other = call_client(g, 1);

	(void)state;
	info.ip[0].s6_addr[15] = 99;
	container_update(g->c[0], &info);
	assert_true(rig_is_closed(g, s));
	assert_int_equal(g->c[0]->num_gids, 1);
	assert_int_equal(call_one(g, other, FF_MSG_DEALLOC_PD, call_pd(g, other)), 0);
	close(s);
	close(other);
}

/* As on a NIC whose network device gets an address: programs hear of it, and go on. */
static void other_addresses_are_an_event(void **state)
{
	struct ff_hello_req req = { FF_PROTO_VERSION, FF_PROTO_VERSION, "prog", { 0 } };
	struct ffo_container info = {
		.id = g->c[0]->id, .epoch = g->c[0]->epoch, .lid = g->c[0]->lid, .num_ips = 3
	};
	struct ff_query_gid_req query = { .port = 1, .index = 6 };
	struct ff_query_gid_resp gid;
	int s = rig_connect(g, 0), fds[RIG_MAX_FDS];
	struct ff_async_event ev;
	struct ff_hello_resp hi;
	unsigned n;

	(void)state;
	assert_int_equal(rig_hello_with(g, s, &req, &hi, NULL, fds, &n), 0);
	assert_int_not_equal(RIG_CALL(g, s, QUERY_GID, &query, &gid), 0);
	info.mode = (uint8_t)g->c[0]->mode;
	for (uint8_t i = 0; i < 3; i++)
		info.ip[i].s6_addr[15] = (uint8_t)(99 + i);
	container_update(g->c[0], &info);
	assert_int_equal(recv(fds[0], &ev, sizeof(ev), MSG_DONTWAIT), sizeof(ev));
	assert_int_equal(ev.event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(ev.handle, 1);
	assert_int_equal(RIG_CALL(g, s, QUERY_GID, &query, &gid), 0);
	assert_int_equal(gid.gid[15], 101);
	container_update(g->c[0], &info);
	assert_int_equal(recv(fds[0], &ev, sizeof(ev), MSG_DONTWAIT), -1);
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_PD, call_pd(g, s)), 0);
	close(fds[0]);
	close(fds[1]);
	close(s);
}

/* A session with very much goes, until the first part of its end. */
static void end_begins(int s)
{
	struct ff_alloc_null_mr_req req = { .pd = call_pd(g, s) };
	struct ff_alloc_null_mr_resp resp;

	for (int i = 0; i < 60000; i++)
		assert_int_equal(RIG_CALL(g, s, ALLOC_NULL_MR, &req, &resp), 0);
	close(s);
	while (!g->ctl.ends)
		uv_run(&g->loop, UV_RUN_NOWAIT);
}

/* Who had very much ends in parts, and others are served in between. */
static void a_long_end_lets_others_in(void **state)
{
	int s = call_client(g, 0), other = call_client(g, 1);

	(void)state;
	end_begins(s);
	assert_true(LIST_FIRST(&g->c[0]->sessions)->closing); /* others import nothing of it */
	assert_true(g->c[0]->quota.use.used[QUOTA_MR] > 0);   /* it pays until they are gone */
	call_pd(g, other);
	while (g->ctl.ends)
		uv_run(&g->loop, UV_RUN_NOWAIT);
	assert_true(LIST_EMPTY(&g->c[0]->sessions));
	assert_int_equal(g->c[0]->quota.use.used[QUOTA_MR], 0);
	assert_int_equal(rig_conns(g->c[0]->ctl), 0);

	/* a second one, whose container goes meanwhile */
	s = call_client(g, 0);
	end_begins(s);
	close(other);
}

int main(void)
{
	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(
		CALL_TEST(hello_gives_a_session), CALL_TEST(a_programs_name_is_printable),
		cmocka_unit_test(types_end_with_the_table), CALL_TEST(userfaultfd_can_be_kept_back),
		CALL_TEST(versions_are_negotiated), CALL_TEST(what_is_named_is_sealed),
		CALL_TEST(each_call_wants_the_seal), CALL_TEST(who_does_not_seal_is_closed),
		CALL_TEST(memory_that_stalls), CALL_TEST(malformed_messages_close_the_session),
		CALL_TEST(unknown_messages_are_answered),
		CALL_TEST(descriptors_close_the_session_and_are_closed),
		CALL_TEST(who_does_not_read_is_closed), CALL_TEST(a_failed_call_answers_with_zeros),
		CALL_TEST(many_calls_let_others_in), CALL_TEST(a_session_takes_everything_with_it),
		CALL_TEST(the_fast_thread_can_have_a_session_closed),
		CALL_TEST(a_changed_container_closes_its_sessions),
		CALL_TEST(other_addresses_are_an_event), CALL_TEST(a_long_end_lets_others_in));
}
