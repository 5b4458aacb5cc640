/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/halves.c tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_peer.c - two processes, by halves.h: checked transfers between them, memory windows and device
 * memory.
 */
#include "tests/rig/verbs/halves.h"

#include <stdatomic.h>
#include <sys/wait.h>

#define MB (1024u * 1024u)

/* ---- transfers ------------------------------------------------------------------------------ */

static const size_t sizes[] = { 1, 8, 63, 64, 65, 4095, 4096, 4097, 100001, MB, 8 * MB + 3 };

static void open_large(struct vt_end *e)
{
	struct vt_param par = VT_PARAM;

	par.len = 9 * MB;
	halves_open(e, &par);
}

static void sends_client(void)
{
	struct vt_end e;

	open_large(&e);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (unsigned k = 0; k < 5; k++) {
			vt_pattern(e.buf, sizes[i], i * 10 + k);
			vt_send(&e, k, 0, sizes[i], IBV_SEND_SIGNALED);
			WANT_OK(e.scq, k);
			/* and back again, changed */
			memset(e.buf, 0, sizes[i]);
			vt_recv(&e, k, 0, sizes[i]);
			halves_meet('r');
			CHECK_EQ(WANT_OK(e.rcq, k).byte_len, sizes[i]);
			CHECK_PATTERN(e.buf, sizes[i], 5000 + i * 10 + k);
		}
	}
	vt_end_close(&e);
}

static void sends_server(void)
{
	struct vt_end e;

	open_large(&e);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (unsigned k = 0; k < 5; k++) {
			memset(e.buf, 0, sizes[i]);
			vt_recv(&e, k, 0, sizes[i]);
			CHECK_EQ(WANT_OK(e.rcq, k).byte_len, sizes[i]);
			CHECK_PATTERN(e.buf, sizes[i], i * 10 + k);
			vt_pattern(e.buf, sizes[i], 5000 + i * 10 + k);
			halves_meet('r');
			vt_send(&e, k, 0, sizes[i], IBV_SEND_SIGNALED);
			WANT_OK(e.scq, k);
		}
	}
	vt_end_close(&e);
}

/* One-sided: the serving half only looks at its memory. */
static void one_sided_client(void)
{
	struct vt_end e;

	open_large(&e);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		vt_pattern(e.buf, sizes[i], i);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, i, 0, sizes[i], 0, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, i);
		halves_meet('w');
		halves_meet('p'); /* the server has put a pattern there */
		vt_rdma(&e, IBV_WR_RDMA_READ, i, 0, sizes[i], 0, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, i);
		CHECK_PATTERN(e.buf, sizes[i], 700 + i);
	}
	for (unsigned i = 0; i < 100; i++) {
		uint64_t old;

		vt_atomic(&e, IBV_WR_ATOMIC_FETCH_AND_ADD, i, 0, 8 * MB + 64, 3, 0);
		WANT_OK(e.scq, i);
		memcpy(&old, e.buf, 8);
		CHECK_EQ(old, 3 * i);
	}
	halves_meet('a');
	vt_end_close(&e);
}

static void one_sided_server(void)
{
	struct vt_end e;
	uint64_t v;

	open_large(&e);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		halves_meet('w');
		CHECK_PATTERN(e.buf, sizes[i], i);
		vt_pattern(e.buf, sizes[i], 700 + i);
		halves_meet('p');
		CHECK_EQ(ibv_poll_cq(e.rcq, 1, &(struct ibv_wc){ 0 }), 0);
	}
	halves_meet('a');
	memcpy(&v, e.buf + 8 * MB + 64, 8);
	CHECK_EQ(v, 300);
	vt_end_close(&e);
}

/* Both write a counter to the other and wait for the other's, as latency tests do. */
static void ping_pong(bool first)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	halves_open(&e, &par);
	for (uint64_t i = 1; i <= 20000 / vt_slow(); i++) {
		if (!first)
			WAIT_FOR(*(volatile uint64_t *)(e.buf + 64) == i);
		memcpy(e.buf, &i, 8);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, i, 0, 8, 64, IBV_SEND_SIGNALED);
		if (first)
			WAIT_FOR(*(volatile uint64_t *)(e.buf + 64) == i);
		WANT_OK(e.scq, i);
	}
	halves_meet('e');
	vt_end_close(&e);
}

static void ping_pong_client(void)
{
	ping_pong(true);
}
static void ping_pong_server(void)
{
	ping_pong(false);
}

/* UD and UC between the processes, blocking in ibv_get_cq_event. */
static void datagrams(bool first)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	par.type = IBV_QPT_UD;
	par.channel = true;
	halves_open(&e, &par);
	vt_recv(&e, 0, 0, 2048);
	CHECK_OK(ibv_req_notify_cq(e.rcq, 0));
	halves_meet('r');
	for (unsigned i = 0; i < 500; i++) {
		if (first) {
			vt_pattern(e.buf + 4096, 800, i);
			vt_send(&e, i, 4096, 800, IBV_SEND_SIGNALED);
			WANT_OK(e.scq, i);
		}
		WANT_COMP_EVENT(e.channel, e.rcq);
		CHECK_OK(ibv_req_notify_cq(e.rcq, 0));
		CHECK_EQ(WANT_OK(e.rcq, i).byte_len, 840);
		CHECK_PATTERN(e.buf + VT_GRH, 800, first ? 10000 + i : i);
		vt_recv(&e, i + 1, 0, 2048);
		if (!first) {
			vt_pattern(e.buf + 4096, 800, 10000 + i);
			vt_send(&e, i, 4096, 800, IBV_SEND_SIGNALED);
			WANT_OK(e.scq, i);
		}
	}
	ibv_ack_cq_events(e.rcq, 500);
	halves_meet('e');
	vt_end_close(&e);
}

static void datagrams_client(void)
{
	datagrams(true);
}
static void datagrams_server(void)
{
	datagrams(false);
}

/* ---- memory windows and device memory ------------------------------------------------------- */

#define WINDOW_OFF 4096u
#define WINDOW_LEN (MB + 5)

static void give(uint32_t v)
{
	halves_put(halves_sock, &v, sizeof(v));
}

static uint32_t take(void)
{
	uint32_t v = 0;

	CHECK(halves_get(halves_sock, &v, sizeof(v)));
	return v;
}

/* The serving half lets the other one at a part of its memory, for one round at a time. */
static void windows_server(void)
{
	const unsigned access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	struct vt_param par = VT_PARAM;
	struct vt_end e;
	struct ibv_mw *mw;
	struct ibv_wc wc;

	par.len = 2 * MB;
	par.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
	halves_open(&e, &par);
	mw = CHECK_PTR(ibv_alloc_mw(e.pd, IBV_MW_TYPE_2));
	for (uint32_t i = 0; i < 20; i++) {
		uint32_t rkey = ibv_inc_rkey((mw->rkey & ~0xffu) | i);
		struct ibv_send_wr wr = {
			.wr_id = 1,
			.opcode = IBV_WR_BIND_MW,
			.send_flags = IBV_SEND_SIGNALED,
			.bind_mw = { mw,
				     rkey,
				     { e.mr, e.self.addr + WINDOW_OFF, WINDOW_LEN, access } },
		};

		memset(e.buf, 0x55, e.len);
		vt_recv(&e, 2, e.len - 64, 64);
		CHECK_OK(vt_post(&e, &wr));
		CHECK_EQ(WANT_OK(e.scq, 1).opcode, IBV_WC_BIND_MW);
		give(rkey);
		/* the other half has written to it, and gives it back with a message */
		wc = WANT_OK(e.rcq, 2);
		CHECK_EQ(wc.wc_flags, IBV_WC_WITH_INV);
		CHECK_EQ(wc.invalidated_rkey, rkey);
		CHECK_PATTERN(e.buf + WINDOW_OFF, WINDOW_LEN, i);
		CHECK(vt_all(e.buf, WINDOW_OFF, 0x55));
		CHECK_OK(ibv_dereg_mr(e.mr)); /* nothing is bound to it */
		e.mr = vt_reg(&e, e.buf, e.len, par.access);
	}
	halves_meet('o'); /* the other one tries the last rkey once more */
	WANT_QP_EVENT(&e, IBV_EVENT_QP_ACCESS_ERR);
	CHECK_PATTERN(e.buf + WINDOW_OFF, WINDOW_LEN, 19);
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_end_close(&e);
}

static void windows_client(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_send_wr wr = { .wr_id = 3,
				  .opcode = IBV_WR_SEND_WITH_INV,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge sge;
	struct vt_end e;

	par.len = 2 * MB;
	halves_open(&e, &par);
	for (uint32_t i = 0; i < 20; i++) {
		e.peer.rkey = take();
		vt_pattern(e.buf, WINDOW_LEN, i);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, WINDOW_LEN, WINDOW_OFF, 0);
		vt_rdma(&e, IBV_WR_RDMA_READ, 2, 0, WINDOW_LEN, WINDOW_OFF, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, 2);
		CHECK_PATTERN(e.buf, WINDOW_LEN, i);
		sge = vt_sge(&e, 0, 64);
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.invalidate_rkey = e.peer.rkey;
		CHECK_OK(vt_post(&e, &wr));
		WANT_OK(e.scq, 3);
	}
	halves_meet('o');
	vt_rdma(&e, IBV_WR_RDMA_WRITE, 4, 0, 64, WINDOW_OFF, IBV_SEND_SIGNALED);
	WANT(e.scq, 4, IBV_WC_REM_ACCESS_ERR);
	vt_end_close(&e);
}

#define DM_LEN 100000u

static void device_memory_server(void)
{
	static uint8_t host[DM_LEN];
	struct vt_param par = VT_PARAM;
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	struct vt_end e;

	halves_open(&e, &par);
	dm = CHECK_PTR(ibv_alloc_dm(e.ctx, &(struct ibv_alloc_dm_attr){ .length = DM_LEN }));
	mr = CHECK_PTR(ibv_reg_dm_mr(e.pd, dm, 0, DM_LEN, VT_ACCESS_ALL | IBV_ACCESS_ZERO_BASED));
	give(mr->rkey);
	halves_meet('w');
	CHECK_OK(ibv_memcpy_from_dm(host, dm, 0, DM_LEN));
	CHECK_PATTERN(host, DM_LEN, 1);
	vt_pattern(host, DM_LEN, 2);
	CHECK_OK(ibv_memcpy_to_dm(dm, 0, host, DM_LEN));
	halves_meet('r');
	halves_meet('d');
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_OK(ibv_free_dm(dm));
	vt_end_close(&e);
}

static void device_memory_client(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	par.len = DM_LEN;
	halves_open(&e, &par);
	e.peer.rkey = take();
	e.peer.addr = 0;
	vt_pattern(e.buf, DM_LEN, 1);
	vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, DM_LEN, 0, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1);
	halves_meet('w');
	halves_meet('r');
	vt_rdma(&e, IBV_WR_RDMA_READ, 2, 0, DM_LEN, 0, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 2);
	CHECK_PATTERN(e.buf, DM_LEN, 2);
	halves_meet('d');
	vt_end_close(&e);
}

/* ---- the last message ------------------------------------------------------------------------- */

/*
 * Programs post a last SEND that they ask for no completion of, and disconnect at once: the QP goes to ERR, or
 * goes. A NIC has begun with it by then. From memory that the router maps, from some that it copies, inline.
 */
#define FAREWELLS 60u

static void farewell_client(void)
{
	static uint8_t odd[1000];
	struct vt_param par = VT_PARAM;
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .num_sge = 1 };

	par.inline_data = 64;
	for (unsigned i = 0; i < FAREWELLS; i++) {
		struct ibv_sge sge;
		struct ibv_mr *mr;
		struct vt_end e;

		halves_open(&e, &par);
		mr = vt_reg(&e, odd, sizeof(odd), 0);
		vt_pattern(e.buf, 64, i);
		vt_pattern(odd + 1, 64, i);
		sge = i % 3 ? (struct ibv_sge){ (uintptr_t)odd + 1, 64, mr->lkey } :
			      vt_sge(&e, 0, 64);
		wr.sg_list = &sge;
		wr.send_flags = i % 3 == 2 ? IBV_SEND_INLINE : 0;
		halves_meet('r');
		CHECK_OK(vt_post(&e, &wr));
		if (i % 2) {
			CHECK_OK(vt_to_state(e.qp, IBV_QPS_ERR));
		} else {
			CHECK_OK(ibv_destroy_qp(e.qp));
			e.qp = NULL;
		}
		halves_meet('g');
		CHECK_OK(ibv_dereg_mr(mr));
		vt_end_close(&e);
	}
}

static void farewell_server(void)
{
	struct vt_param par = VT_PARAM;

	for (unsigned i = 0; i < FAREWELLS; i++) {
		struct vt_end e;

		halves_open(&e, &par);
		vt_recv(&e, 1, 0, 64);
		halves_meet('r');
		CHECK_EQ(WANT_OK(e.rcq, 1).byte_len, 64);
		CHECK_PATTERN(e.buf, 64, i);
		halves_meet('g');
		vt_end_close(&e);
	}
}

HALVES_MAIN({ "peer_sends", sends_client, sends_server },
	    { "peer_one_sided", one_sided_client, one_sided_server },
	    { "peer_ping_pong", ping_pong_client, ping_pong_server },
	    { "peer_datagrams", datagrams_client, datagrams_server },
	    { "peer_windows", windows_client, windows_server },
	    { "peer_device_memory", device_memory_client, device_memory_server },
	    { "peer_farewell", farewell_client, farewell_server })
