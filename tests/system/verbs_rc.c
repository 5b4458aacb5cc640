/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 600 */
/*
 * verbs_rc.c - RC data transfer through ibv_post_send: every opcode, its contents, its completions,
 * and their order. The queues are in verbs_queues.c, the errors in verbs_errors.c, ibv_wr_* in verbs_wr.c.
 */
#include "tests/rig/verbs/vt.h"

#include <stdlib.h>

#define MB	(1024u * 1024u)
#define MAX_LEN (8 * MB + 3)
#define GUARD	64u /* bytes on both sides of a destination that must not change */

static const size_t sizes[] = { 0, 1, 7, 8, 63, 64, 65, 4095, 4096, 4097, 8191, 1 * MB, MAX_LEN };

/* Receives for the opcodes that need one; len is the message's. */
static void recv_for(struct vt_end *b, enum ibv_wr_opcode op, uint64_t id, size_t off, size_t len)
{
	if (op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM)
		vt_recv(b, id, off, len);
	if (op == IBV_WR_RDMA_WRITE_WITH_IMM)
		vt_recv(b, id, 0, 0);
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return IBV_WC_SEND;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	default:
		return IBV_WC_RDMA_WRITE;
	}
}

static void check_recv(struct vt_end *b, enum ibv_wr_opcode op, uint64_t id, size_t len,
		       uint32_t imm)
{
	struct ibv_wc wc;

	if (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_READ)
		return;
	wc = WANT_OK(b->rcq, id);
	CHECK_EQ(wc.byte_len, len);
	CHECK_EQ(wc.qp_num, b->qp->qp_num);
	CHECK_EQ(wc.opcode,
		 op == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	if (op == IBV_WR_SEND) {
		CHECK_EQ(wc.wc_flags & IBV_WC_WITH_IMM, 0);
	} else {
		CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
		CHECK_EQ(wc.imm_data, imm);
	}
}

/* One message of each size from a to b (READ: from b to a), with guards around the destination. */
static void all_sizes(enum ibv_wr_opcode op)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.len = MAX_LEN + 4096;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct vt_end *src = op == IBV_WR_RDMA_READ ? &b : &a;
		struct vt_end *dst = op == IBV_WR_RDMA_READ ? &a : &b;
		size_t len = sizes[i], src_off = 1 + i * 3, dst_off = GUARD + 13 * i;
		struct ibv_sge sge = vt_sge(&a, src == &a ? src_off : dst_off, len);
		struct ibv_send_wr wr = {
			.wr_id = 1000 + i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = op,
			.send_flags = IBV_SEND_SIGNALED,
			.imm_data = 0x12345600u + i,
		};
		struct ibv_wc wc;

		wr.wr.rdma.remote_addr = a.peer.addr + (src == &a ? dst_off : src_off);
		wr.wr.rdma.rkey = a.peer.rkey;
		vt_pattern(src->buf + src_off, len, i + 1);
		memset(dst->buf, 0xa5, dst_off + len + GUARD);
		recv_for(&b, op, 2000 + i, dst_off, len);
		CHECK_OK(vt_post(&a, &wr));
		wc = WANT_OK(a.scq, 1000 + i);
		CHECK_EQ(wc.opcode, wc_opcode(op));
		CHECK_EQ(wc.qp_num, a.qp->qp_num);
		check_recv(&b, op, 2000 + i, len, 0x12345600u + i);
		CHECK_PATTERN(dst->buf + dst_off, len, i + 1);
		CHECK(vt_all(dst->buf, dst_off, 0xa5));
		CHECK(vt_all(dst->buf + dst_off + len, GUARD, 0xa5));
	}
	CHECK_EMPTY(a.scq);
	CHECK_EMPTY(a.rcq);
	CHECK_EMPTY(b.scq);
	CHECK_EMPTY(b.rcq);
	vt_pair_close(&a, &b);
}

static void send_sizes(void)
{
	all_sizes(IBV_WR_SEND);
}
static void send_imm_sizes(void)
{
	all_sizes(IBV_WR_SEND_WITH_IMM);
}
static void write_sizes(void)
{
	all_sizes(IBV_WR_RDMA_WRITE);
}
static void write_imm_sizes(void)
{
	all_sizes(IBV_WR_RDMA_WRITE_WITH_IMM);
}
static void read_sizes(void)
{
	all_sizes(IBV_WR_RDMA_READ);
}

/*
 * Cut [off, off + len) into n entries of uneven lengths, some of them empty, with gaps of one byte
 * between them. pos[i] is where piece i begins.
 */
static void cut(struct vt_end *e, struct ibv_sge *sge, size_t *pos, unsigned n, size_t off,
		size_t len, uint32_t *rnd)
{
	for (unsigned i = 0; i < n; i++) {
		size_t piece = i + 1 == n ? len : len ? vt_rand(rnd) % (2 * len / (n - i) + 1) : 0;

		if (piece > len)
			piece = len;
		sge[i] = vt_sge(e, off, piece);
		pos[i] = off;
		off += piece + 1;
		len -= piece;
	}
}

/* Gather and scatter with differently cut lists, up to the limits that the device reports. */
static void sge_lists(enum ibv_wr_opcode op)
{
	static uint8_t flat[64 * 1024];
	struct vt_param par = VT_PARAM;
	struct ibv_device_attr dev;
	struct ibv_context *ctx = vt_open_device();
	uint32_t rnd = 4711, max;
	struct vt_end a, b;

	CHECK_OK(ibv_query_device(ctx, &dev));
	CHECK_OK(ibv_close_device(ctx));
	CHECK(dev.max_sge >= 2);
	max = dev.max_sge > 32 ? 32 : (uint32_t)dev.max_sge;
	par.send_sge = par.recv_sge = max;
	par.len = 256 * 1024;
	vt_pair(&a, &b, &par);
	CHECK(a.par.send_sge >= max);
	for (unsigned round = 0; round < 2 * max; round++) {
		struct ibv_sge from[32], to[32];
		size_t from_pos[32], to_pos[32], len = vt_rand(&rnd) % sizeof(flat), done = 0;
		unsigned n = 1 + round % max, m = op == IBV_WR_SEND ? 1 + vt_rand(&rnd) % max : 1;
		struct ibv_send_wr wr = {
			.wr_id = round,
			.opcode = op,
			.send_flags = IBV_SEND_SIGNALED,
		};
		struct ibv_recv_wr rr = { .wr_id = round, .sg_list = to, .num_sge = (int)m };

		cut(&a, from, from_pos, n, 1 + round, len, &rnd);
		cut(&b, to, to_pos, m, 5 + round, len, &rnd);
		vt_pattern(flat, len, round);
		memset(a.buf, 0x5a, a.len);
		memset(b.buf, 0x5a, b.len);
		wr.sg_list = from;
		wr.num_sge = (int)n;
		wr.wr.rdma.remote_addr = a.peer.addr + to_pos[0];
		wr.wr.rdma.rkey = a.peer.rkey;
		if (op == IBV_WR_RDMA_READ) {
			memcpy(b.buf + to_pos[0], flat, len);
		} else {
			for (unsigned i = 0; i < n; done += from[i++].length)
				memcpy(a.buf + from_pos[i], flat + done, from[i].length);
		}
		if (op == IBV_WR_SEND)
			CHECK_OK(vt_post_recv(&b, &rr));
		CHECK_OK(vt_post(&a, &wr));
		WANT_OK(a.scq, round);
		if (op == IBV_WR_SEND)
			CHECK_EQ(WANT_OK(b.rcq, round).byte_len, len);
		if (op == IBV_WR_RDMA_READ) {
			for (unsigned i = 0; i < n; done += from[i++].length) {
				CHECK(!memcmp(a.buf + from_pos[i], flat + done, from[i].length));
				CHECK_EQ(a.buf[from_pos[i] + from[i].length], 0x5a);
			}
			continue;
		}
		done = 0;
		for (unsigned i = 0; i < m; done += to[i++].length) {
			CHECK(!memcmp(b.buf + to_pos[i], flat + done, to[i].length));
			CHECK_EQ(b.buf[to_pos[i] + to[i].length], 0x5a);
		}
	}
	vt_pair_close(&a, &b);
}

static void send_sge(void)
{
	sge_lists(IBV_WR_SEND);
}
static void write_sge(void)
{
	sge_lists(IBV_WR_RDMA_WRITE);
}
static void read_sge(void)
{
	sge_lists(IBV_WR_RDMA_READ);
}

/* A message shorter than the receive: only its bytes are written. */
static void short_message(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	vt_pattern(a.buf, 100, 3);
	memset(b.buf, 0xa5, 8192);
	vt_recv(&b, 1, 10, 8000);
	vt_send(&a, 2, 0, 100, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 2);
	CHECK_EQ(WANT_OK(b.rcq, 1).byte_len, 100);
	CHECK_PATTERN(b.buf + 10, 100, 3);
	CHECK(vt_all(b.buf + 110, 8000, 0xa5));
	vt_pair_close(&a, &b);
}

/* No entries at all: an empty message, with and without a receive that has room. */
static void no_sge(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = 99,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr rr = { .wr_id = 2 };
	struct ibv_wc wc;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	CHECK_OK(vt_post_recv(&b, &rr));
	CHECK_OK(vt_post(&a, &wr));
	WANT_OK(a.scq, 1);
	wc = WANT_OK(b.rcq, 2);
	CHECK_EQ(wc.byte_len, 0);
	CHECK_EQ(wc.imm_data, 99);
	vt_pair_close(&a, &b);
}

/* Inline data is taken when ibv_post_send returns; no lkey is looked at. */
static void inline_data(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct vt_end a, b;
	uint8_t data[1024];
	uint32_t max;

	par.inline_data = 64;
	vt_pair(&a, &b, &par);
	CHECK_OK(ibv_query_qp(a.qp, &attr, IBV_QP_CAP, &init));
	max = init.cap.max_inline_data;
	CHECK(max >= 64);
	if (max > sizeof(data))
		max = sizeof(data);
	for (uint32_t len = 0; len <= max; len++) {
		struct ibv_sge sge[2] = {
			{ .addr = (uintptr_t)data, .length = len / 3, .lkey = 0xbad },
			{ .addr = (uintptr_t)data + len / 3, .length = len - len / 3 },
		};
		struct ibv_send_wr wr = {
			.wr_id = len,
			.sg_list = sge,
			.num_sge = 2,
			.opcode = len & 1 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		};

		wr.wr.rdma.remote_addr = a.peer.addr + GUARD;
		wr.wr.rdma.rkey = a.peer.rkey;
		memset(b.buf, 0xa5, 2048);
		vt_pattern(data, len, len);
		if (wr.opcode == IBV_WR_SEND)
			vt_recv(&b, len, GUARD, 1024);
		CHECK_OK(vt_post(&a, &wr));
		memset(data, 0xdd, sizeof(data));
		memset(sge, 0xdd, sizeof(sge));
		WANT_OK(a.scq, len);
		if (wr.opcode == IBV_WR_SEND)
			CHECK_EQ(WANT_OK(b.rcq, len).byte_len, len);
		CHECK_PATTERN(b.buf + GUARD, len, len);
		CHECK(vt_all(b.buf, GUARD, 0xa5) && vt_all(b.buf + GUARD + len, GUARD, 0xa5));
	}
	vt_pair_close(&a, &b);
}

/* More inline data than the QP was made for is refused. */
static void inline_too_long(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE };
	struct ibv_sge sge;
	struct vt_end a, b;

	par.inline_data = 32;
	vt_pair(&a, &b, &par);
	CHECK_OK(ibv_query_qp(a.qp, &attr, IBV_QP_CAP, &init));
	sge = vt_sge(&a, 0, init.cap.max_inline_data + 1);
	wr.sg_list = &sge;
	CHECK(vt_post(&a, &wr) != 0);
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* A fenced SEND waits for the READ before it, so it carries what the READ brought. */
static void fence(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	size_t n = 2 * MB;

	par.len = 3 * n;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 10; i++) {
		vt_pattern(b.buf, n, i);
		memset(a.buf, 0, n);
		memset(b.buf + n, 0, n);
		vt_recv(&b, i, n, n);
		vt_rdma(&a, IBV_WR_RDMA_READ, 100 + i, 0, n, 0, IBV_SEND_SIGNALED);
		vt_send(&a, 200 + i, 0, n, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
		WANT_OK(a.scq, 100 + i);
		WANT_OK(a.scq, 200 + i);
		WANT_OK(b.rcq, i);
		CHECK_PATTERN(b.buf + n, n, i);
	}
	vt_pair_close(&a, &b);
}

/* Unsignalled WRs complete silently; the next signalled one tells that they are done. */
static void unsignalled(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 300; i++) {
		unsigned sig = i % 30 == 29 ? IBV_SEND_SIGNALED : 0;

		vt_pattern(a.buf + 64 * (i % 30), 64, i);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 64 * (i % 30), 64, 64 * (i % 30), sig);
		if (!sig)
			continue;
		WANT_OK(a.scq, i);
		for (unsigned k = 0; k < 30; k++)
			CHECK_PATTERN(b.buf + 64 * k, 64, i - 29 + k);
	}
	CHECK_EMPTY(a.scq);
	vt_pair_close(&a, &b);
}

static void sq_sig_all(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.sig_all = true;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 50; i++)
		vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, 8, 0, 0);
	for (unsigned i = 0; i < 50; i++)
		WANT_OK(a.scq, i);
	vt_pair_close(&a, &b);
}

/* Messages of mixed sizes and opcodes arrive and complete in the order of their posting. */
static void order(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	uint32_t rnd = 99;

	par.len = 1 * MB;
	vt_pair(&a, &b, &par);
	for (unsigned round = 0; round < 100; round++) {
		unsigned n = 1 + vt_rand(&rnd) % 60;

		for (unsigned i = 0; i < n; i++) {
			size_t len = vt_rand(&rnd) % 4 ? 4 + vt_rand(&rnd) % 100 :
							 4 + vt_rand(&rnd) % 16000;

			memcpy(a.buf + i * 16384, &i, 4);
			vt_recv(&b, i, i * 16384, 16384);
			vt_send(&a, i, i * 16384, len, IBV_SEND_SIGNALED);
		}
		for (unsigned i = 0; i < n; i++) {
			uint32_t got;

			WANT_OK(b.rcq, i);
			memcpy(&got, b.buf + i * 16384, 4);
			CHECK_EQ(got, i);
			WANT_OK(a.scq, i);
		}
	}
	vt_pair_close(&a, &b);
}

/* What was written before a SEND is there when the SEND arrives. */
static void write_before_send(void)
{
	struct vt_param par = VT_PARAM;
	size_t n = 300000;
	struct vt_end a, b;

	par.len = 1 * MB;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 50; i++) {
		vt_pattern(a.buf, n, i);
		memset(b.buf, 0, n);
		vt_recv(&b, i, n, 64);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, 0, 0, n, 0, 0);
		vt_send(&a, i, 0, 64, IBV_SEND_SIGNALED);
		WANT_OK(b.rcq, i);
		CHECK_PATTERN(b.buf, n, i);
		WANT_OK(a.scq, i);
	}
	vt_pair_close(&a, &b);
}

/* A one-sided write is seen by a peer that only looks at its memory. */
static void one_sided_visible(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (uint64_t i = 1; i <= 2000; i++) {
		memcpy(a.buf, &i, 8);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, 8, 64, IBV_SEND_SIGNALED);
		WAIT_FOR(*(volatile uint64_t *)(b.buf + 64) == i);
		WANT_OK(a.scq, i);
	}
	vt_pair_close(&a, &b);
}

static void both_directions(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	size_t n = 100000;

	par.len = 4 * n;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 50; i++) {
		vt_pattern(a.buf, n, 2 * i);
		vt_pattern(b.buf, n, 2 * i + 1);
		vt_recv(&a, 1, n, n);
		vt_recv(&b, 1, n, n);
		vt_send(&a, 2, 0, n, IBV_SEND_SIGNALED);
		vt_send(&b, 2, 0, n, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 2);
		WANT_OK(b.scq, 2);
		WANT_OK(a.rcq, 1);
		WANT_OK(b.rcq, 1);
		CHECK_PATTERN(b.buf + n, n, 2 * i);
		CHECK_PATTERN(a.buf + n, n, 2 * i + 1);
	}
	vt_pair_close(&a, &b);
}

/* A QP whose peer is itself. */
static void to_itself(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a;

	vt_end_open(&a, &par);
	vt_connect(&a, &a.self);
	vt_pattern(a.buf, 1000, 5);
	vt_recv(&a, 1, 2000, 1000);
	vt_send(&a, 2, 0, 1000, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 2);
	WANT_OK(a.rcq, 1);
	CHECK_PATTERN(a.buf + 2000, 1000, 5);
	vt_rdma(&a, IBV_WR_RDMA_WRITE, 3, 0, 1000, 4000, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 3);
	CHECK_PATTERN(a.buf + 4000, 1000, 5);
	vt_end_close(&a);
}

VT_MAIN({ "rc_send_sizes", send_sizes, 0 }, { "rc_send_imm_sizes", send_imm_sizes, 0 },
	{ "rc_write_sizes", write_sizes, 0 }, { "rc_write_imm_sizes", write_imm_sizes, 0 },
	{ "rc_read_sizes", read_sizes, 0 }, { "rc_send_sge", send_sge, 0 },
	{ "rc_write_sge", write_sge, 0 }, { "rc_read_sge", read_sge, 0 },
	{ "rc_short_message", short_message, 0 }, { "rc_no_sge", no_sge, 0 },
	{ "rc_inline_data", inline_data, 0 }, { "rc_inline_too_long", inline_too_long, 0 },
	{ "rc_fence", fence, 0 }, { "rc_unsignalled", unsignalled, 0 },
	{ "rc_sq_sig_all", sq_sig_all, 0 }, { "rc_order", order, 0 },
	{ "rc_write_before_send", write_before_send, 0 },
	{ "rc_one_sided_visible", one_sided_visible, 0 },
	{ "rc_both_directions", both_directions, 0 }, { "rc_to_itself", to_itself, 0 })
