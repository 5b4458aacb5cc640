/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/*
 * verbs_router.c - what a program sees when the device dies under it. verbs_router.sh, which starts
 * it, kills the router when this has printed "ready".
 */
#include "tests/rig/verbs/vt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECOND 1000000000ull

static _Atomic uint64_t died; /* when the first thread noticed; 0: not yet */
static atomic_uint set_up;    /* threads that have their device: the router may die */

static void noticed(void)
{
	uint64_t none = 0, now = vt_now();

	atomic_compare_exchange_strong(&died, &none, now);
	if (now - died > SECOND * vt_slow())
		FAIL("noticed %llu ms after the first one",
		     (unsigned long long)(now - died) / 1000000);
}

/* Traffic until it fails: by a verb's error or an error completion, never by hanging. */
static void *sends(void *arg)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	(void)arg;
	vt_pair(&a, &b, &par);
	set_up++;
	for (;;) {
		struct ibv_sge sge = vt_sge(&a, 0, 1000);
		struct ibv_send_wr *bad, wr = { .sg_list = &sge,
						.num_sge = 1,
						.opcode = IBV_WR_RDMA_WRITE,
						.send_flags = IBV_SEND_SIGNALED };
		struct ibv_wc wc = { 0 };
		int n;

		wr.wr.rdma.remote_addr = a.peer.addr;
		wr.wr.rdma.rkey = a.peer.rkey;
		if (ibv_post_send(a.qp, &wr, &bad))
			break;
		while (!(n = ibv_poll_cq(a.scq, 1, &wc)))
			;
		if (n < 0 || wc.status != IBV_WC_SUCCESS)
			break;
	}
	noticed();
	return NULL;
}

/* Nothing but polls of a CQ, for which receives are posted; they come back, each once. */
static void *polls(void *arg)
{
	struct vt_param par = VT_PARAM;
	struct ibv_wc wc;
	struct vt_end e, peer;
	int n;

	vt_pair(&e, &peer, &par);
	for (unsigned i = 0; i < 3; i++)
		vt_recv(&e, i, 0, 64);
	set_up++;
	for (unsigned i = 0; i < 3; i++) {
		while (!(n = ibv_poll_cq(e.rcq, 1, &wc)))
			vt_pause();
		CHECK_EQ(n, 1);
		CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.qp_num, e.qp->qp_num);
		noticed();
	}
	CHECK_EQ(ibv_poll_cq(e.rcq, 1, &wc), 0);
	CHECK_EQ(ibv_poll_cq(e.scq, 1, &wc), 0);
	return arg;
}

static void *waits_for_completion(void *arg)
{
	struct vt_param par = VT_PARAM;
	struct ibv_cq *cq;
	struct vt_end e;
	void *context;

	par.channel = true;
	vt_end_open(&e, &par);
	CHECK_OK(ibv_req_notify_cq(e.scq, 0));
	set_up++;
	CHECK(ibv_get_cq_event(e.channel, &cq, &context) == -1);
	CHECK(errno != 0);
	noticed();
	return arg;
}

static void *waits_for_event(void *arg)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_async_event ev;

	set_up++;
	CHECK_OK(ibv_get_async_event(ctx, &ev));
	CHECK_EQ(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&ev);
	noticed();
	return arg;
}

static void *calls(void *arg)
{
	struct ibv_context *ctx = vt_open_device();

	set_up++;
	for (;;) {
		struct ibv_pd *pd = ibv_alloc_pd(ctx);

		if (!pd)
			break;
		ibv_dealloc_pd(pd);
		vt_pause();
	}
	CHECK_EQ(errno, EIO);
	noticed();
	return arg;
}

/* After it: every verb fails with an errno, and everything can be taken apart. */
static void dead_device(struct vt_end *e)
{
	struct ibv_sge sge = vt_sge(e, 0, 8);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_recv_wr rr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_qp_init_attr init = { .send_cq = e->scq,
					 .recv_cq = e->rcq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_async_event ev;
	struct ibv_qp_attr attr;
	uint8_t *more = vt_map(100000);
	struct ibv_wc wc;

	CHECK(vt_readable(e->ctx->async_fd, 1000 * (int)vt_slow()));
	CHECK_OK(ibv_get_async_event(e->ctx, &ev));
	CHECK_EQ(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&ev);
	CHECK_NULL(ibv_alloc_pd(e->ctx), EIO);
	CHECK_NULL(ibv_create_cq(e->ctx, 8, NULL, NULL, 0), EIO);
	CHECK_NULL(ibv_create_comp_channel(e->ctx), EIO);
	CHECK_NULL(ibv_create_qp(e->pd, &init), EIO);
	CHECK_NULL(ibv_reg_mr(e->pd, more, 100000, VT_ACCESS_ALL), EIO);
	CHECK_ERR(ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init), EIO);
	CHECK_ERR(vt_to_state(e->qp, IBV_QPS_ERR), EIO);
	/* what is posted now is flushed as well */
	for (int i = 0; i < 2; i++) {
		struct ibv_cq *cq = i ? e->rcq : e->scq;

		wr.wr_id = rr.wr_id = 77;
		CHECK_OK(i ? vt_post_recv(e, &rr) : vt_post(e, &wr));
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 1);
		CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		CHECK_EQ(wc.wr_id, 77);
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	}
	CHECK_PATTERN(e->buf, e->len, 3); /* the memory is the program's own */
	if (ibv_dereg_mr(e->mr) == 0)
		CHECK_PATTERN(e->buf, e->len, 3);
	vt_pattern(e->buf, e->len, 4);
	CHECK_PATTERN(e->buf, e->len, 4);
	/* whether these report the dead device or not, they must come back */
	ibv_destroy_qp(e->qp);
	ibv_destroy_cq(e->scq);
	ibv_destroy_cq(e->rcq);
	ibv_dealloc_pd(e->pd);
	ibv_close_device(e->ctx);
	munmap(e->buf, e->len);
	munmap(more, 100000);
}

static void router_dies(void)
{
	static void *(*const fn[])(void *) = { sends, polls, waits_for_completion, waits_for_event,
					       calls };
	struct vt_param par = VT_PARAM;
	pthread_t t[ARRAY_SIZE(fn)];
	struct ibv_device **list;
	struct vt_end e;
	int num = -1;
	pid_t pid;

	vt_end_open(&e, &par);
	vt_connect(&e, &e.self);
	vt_pattern(e.buf, e.len, 3);
	for (unsigned i = 0; i < ARRAY_SIZE(fn); i++)
		CHECK_EQ(pthread_create(&t[i], NULL, fn[i], NULL), 0);
	WAIT_FOR(set_up == ARRAY_SIZE(fn));
	puts("ready");
	fflush(stdout);
	while (!died)
		vt_pause();
	for (unsigned i = 0; i < ARRAY_SIZE(fn); i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	dead_device(&e);
	list = ibv_get_device_list(&num);
	CHECK(list && num == 0);
	ibv_free_device_list(list);
	pid = fork(); /* handlers for it are still installed */
	CHECK(pid >= 0);
	if (!pid)
		_exit(0);
	CHECK_EQ(vt_child_status(pid), 0);
}

VT_MAIN({ "router_dies", router_dies, 60 })
