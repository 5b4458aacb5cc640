/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 300 */
/*
 * verbs_arguments.c - bad arguments: what rdma-core and the kernel's ib_core refuse is refused with
 * the same errno, in the verb's own way of failing, and what they let pass is let pass. After each
 * case the device works on.
 *
 * What crashes the real library (a NULL context, an object that was destroyed) is not tried; states
 * of QPs are verbs_qp_state.c's, memory is verbs_mr.c's, keys are verbs_errors.c's.
 */
#include "tests/rig/verbs/vt.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>

static struct vt_end e;
static struct ibv_context *other; /* another session, with objects of its own */
static struct ibv_pd *other_pd;
static struct ibv_cq *other_cq;
static struct ibv_comp_channel *other_channel;
static struct ibv_srq *other_srq;

static void open_end(enum ibv_qp_type type)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct vt_param par = VT_PARAM;

	par.type = type;
	par.channel = true;
	vt_end_open(&e, &par);
	vt_connect(&e, &e.self);
	other = vt_open_device();
	other_pd = CHECK_PTR(ibv_alloc_pd(other));
	other_channel = CHECK_PTR(ibv_create_comp_channel(other));
	other_cq = CHECK_PTR(ibv_create_cq(other, 4, NULL, NULL, 0));
	other_srq = CHECK_PTR(ibv_create_srq(other_pd, &srq));
}

static void close_end(void)
{
	size_t grh = e.par.type == IBV_QPT_UD ? VT_GRH : 0;

	vt_recv(&e, 1001, 2048, 1000);
	vt_send(&e, 1000, 0, 100, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1000);
	CHECK_EQ(WANT_OK(e.rcq, 1001).byte_len, 100 + grh);
	CHECK_OK(ibv_destroy_srq(other_srq));
	CHECK_OK(ibv_destroy_cq(other_cq));
	CHECK_OK(ibv_destroy_comp_channel(other_channel));
	CHECK_OK(ibv_dealloc_pd(other_pd));
	CHECK_OK(ibv_close_device(other));
	vt_end_close(&e);
}

/* An int verb that returns the errno itself. */
#define CHECK_RESULT(expr, err) CHECK_EQ(expr, err)
/* One that returns -1 and leaves the reason in errno. */
#define CHECK_MINUS(expr, err)                                                                     \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK_EQ(expr, -1);                                                                \
		CHECK_EQ(errno, err);                                                              \
	} while (0)

static void queries(void)
{
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr_ex dev;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	__be16 pkey;

	open_end(IBV_QPT_RC);
	CHECK_RESULT(ibv_query_device_ex(e.ctx, &input, &dev), EINVAL);
	input.comp_mask = 0;
	CHECK_RESULT(ibv_query_device_ex(e.ctx, &input, &dev), 0);
	CHECK_RESULT(ibv_query_device_ex(e.ctx, NULL, &dev), 0);
	CHECK_RESULT(ibv_query_port(e.ctx, 0, &port), EINVAL);
	CHECK_RESULT(ibv_query_port(e.ctx, 2, &port), EINVAL);
	CHECK_EQ(ibv_query_gid(e.ctx, 1, -1, &gid), -1);
	CHECK_EQ(ibv_query_gid(e.ctx, 1, 100000, &gid), -1);
	CHECK_EQ(ibv_query_gid(e.ctx, 0, 0, &gid), -1);
	CHECK(ibv_query_gid_ex(e.ctx, 1, 100000, &entry, 0) > 0);
	CHECK_RESULT(ibv_query_gid_ex(e.ctx, 1, 0, &entry, 1), EINVAL);
	CHECK_EQ(ibv_query_gid_table(e.ctx, &entry, 1, 1), -EINVAL);
	CHECK_EQ(ibv_query_pkey(e.ctx, 1, -1, &pkey), -1);
	CHECK_EQ(ibv_query_pkey(e.ctx, 9, 0, &pkey), -1);
	CHECK_EQ(ibv_get_pkey_index(e.ctx, 1, htons(0x1234)), -1);
	CHECK_EQ(ibv_get_pkey_index(e.ctx, 9, htons(0xffff)), -1);
	close_end();
}

static void registration(void)
{
	const int rw = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr;

	open_end(IBV_QPT_RC);
	CHECK_NULL(ibv_reg_mr(e.pd, e.buf, 64, 1 << 19), EINVAL); /* no such right */
	CHECK_NULL(ibv_reg_mr(e.pd, e.buf, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	CHECK_NULL(ibv_reg_mr(e.pd, e.buf, 64, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	CHECK_NULL(ibv_reg_mr(e.pd, (void *)4096, 4096, rw), EFAULT);
	CHECK(!ibv_reg_mr(e.pd, (void *)(uintptr_t)-4096, 8192, rw)); /* beyond the end */
	/* rights that a device may ignore are no mistake */
	mr = CHECK_PTR(ibv_reg_mr(e.pd, e.buf, 64, rw | IBV_ACCESS_RELAXED_ORDERING));
#define REREG(flags, pd, addr, len, acc)                                                           \
	CHECK_MINUS(ibv_rereg_mr(mr, flags, pd, addr, len, acc), EINVAL)
	REREG(1 << 3, NULL, NULL, 0, 0);
	REREG(-1, NULL, NULL, 0, 0);
	REREG(IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 64, 0);
	REREG(IBV_REREG_MR_CHANGE_TRANSLATION, NULL, e.buf, 0, 0);
	REREG(IBV_REREG_MR_CHANGE_TRANSLATION, NULL, e.buf, 64, rw); /* rights, but no flag */
	REREG(IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE);
#undef REREG
	errno = 0;
	CHECK(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0) < 0);
	CHECK_EQ(errno, EINVAL);
	errno = 0;
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other_pd, NULL, 0, 0) < 0);
	CHECK_EQ(errno, EINVAL);
	CHECK_OK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, e.buf, 128, 0));
	CHECK_OK(ibv_dereg_mr(mr));
	close_end();
}

static void completion_queues(void)
{
	struct ibv_cq_init_attr_ex ex = { .cqe = 4 };
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *cq_context;
	int flags;

	open_end(IBV_QPT_RC);
	CHECK_NULL(ibv_create_cq(e.ctx, 0, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(e.ctx, -1, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(e.ctx, 4, NULL, NULL, -1), EINVAL);
	CHECK_NULL(ibv_create_cq(e.ctx, 4, NULL, NULL, e.ctx->num_comp_vectors), EINVAL);
	CHECK_NULL(ibv_create_cq(e.ctx, 4, NULL, other_channel, 0), EINVAL);
	ex.comp_mask = 1u << 10;
	CHECK_NULL(ibv_create_cq_ex(e.ctx, &ex), EINVAL);
	ex.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	ex.flags = 1u << 10;
	CHECK_NULL(ibv_create_cq_ex(e.ctx, &ex), EINVAL);
	ex = (struct ibv_cq_init_attr_ex){ .cqe = 4, .wc_flags = 1ull << 40 };
	CHECK_NULL(ibv_create_cq_ex(e.ctx, &ex), EINVAL);
	CHECK_RESULT(ibv_resize_cq(e.rcq, 0), EINVAL);
	CHECK_RESULT(ibv_resize_cq(e.rcq, -1), EINVAL);
	CHECK_RESULT(ibv_destroy_cq(e.rcq), EBUSY);
	CHECK_RESULT(ibv_destroy_comp_channel(e.channel), EBUSY);
	CHECK_EQ(ibv_poll_cq(e.rcq, 0, NULL), 0);
	CHECK_EQ(ibv_poll_cq(e.rcq, 1, &wc), 0);
	/* armed with no channel: nobody hears of it */
	cq = CHECK_PTR(ibv_create_cq(e.ctx, 4, NULL, NULL, 0));
	CHECK_RESULT(ibv_req_notify_cq(cq, 0), 0);
	CHECK_RESULT(ibv_req_notify_cq(cq, 77), 0);
	ibv_ack_cq_events(cq, 0);
	CHECK_OK(ibv_destroy_cq(cq));
	flags = fcntl(e.channel->fd, F_GETFL);
	CHECK_OK(fcntl(e.channel->fd, F_SETFL, flags | O_NONBLOCK));
	CHECK_MINUS(ibv_get_cq_event(e.channel, &cq, &cq_context), EAGAIN);
	CHECK_OK(fcntl(e.channel->fd, F_SETFL, flags));
	close_end();
}

static void async_events(void)
{
	struct ibv_async_event ev;
	int flags;

	open_end(IBV_QPT_RC);
	flags = fcntl(other->async_fd, F_GETFL);
	CHECK_OK(fcntl(other->async_fd, F_SETFL, flags | O_NONBLOCK));
	CHECK_MINUS(ibv_get_async_event(other, &ev), EAGAIN);
	close_end();
}

static void shared_receive_queues(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } }, bad;
	struct ibv_srq_init_attr_ex ex;
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct ibv_recv_wr rr = { .num_sge = 2 }, *bad_rr = NULL;
	struct ibv_sge sge[2];
	struct ibv_srq *srq;

	open_end(IBV_QPT_RC);
	bad = init;
	bad.attr.max_wr = 0;
	CHECK_NULL(ibv_create_srq(e.pd, &bad), EINVAL);
	bad = init;
	bad.attr.max_wr = UINT32_MAX;
	CHECK_NULL(ibv_create_srq(e.pd, &bad), EINVAL);
	bad = init;
	bad.attr.max_sge = UINT32_MAX;
	CHECK_NULL(ibv_create_srq(e.pd, &bad), EINVAL);
	ex = (struct ibv_srq_init_attr_ex){ .attr = init.attr, .comp_mask = 1u << 20 };
	CHECK_NULL(ibv_create_srq_ex(e.ctx, &ex), EINVAL);
	ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	ex.pd = e.pd;
	ex.srq_type = (enum ibv_srq_type)77;
	CHECK_NULL(ibv_create_srq_ex(e.ctx, &ex), EINVAL);
	srq = CHECK_PTR(ibv_create_srq(e.pd, &init));
	CHECK_RESULT(ibv_modify_srq(srq, &attr, 0), 0);
	CHECK_RESULT(ibv_modify_srq(srq, &attr, 1 << 5), EINVAL);
	attr.srq_limit = init.attr.max_wr + 1;
	CHECK_RESULT(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	/* postings: nothing at all is allowed, too many SGEs are not */
	CHECK_RESULT(ibv_post_srq_recv(srq, NULL, &bad_rr), 0);
	sge[0] = sge[1] = vt_sge(&e, 0, 8);
	rr.sg_list = sge;
	CHECK_RESULT(ibv_post_srq_recv(srq, &rr, &bad_rr), EINVAL);
	CHECK(bad_rr == &rr);
	CHECK_OK(ibv_destroy_srq(srq));
	CHECK_RESULT(ibv_dealloc_pd(e.pd), EBUSY);
	close_end();
}

static void queue_pairs(void)
{
	static const int unknown[] = { 0, 1, 5, 7, 77, 254 };
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr init, ok;
	struct ibv_qp_init_attr_ex ex;
	struct ibv_qp_attr attr = { 0 };
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	open_end(IBV_QPT_RC);
	ok = (struct ibv_qp_init_attr){
		.send_cq = e.scq, .recv_cq = e.rcq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};
	for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++) {
		init = ok;
		init.qp_type = (enum ibv_qp_type)unknown[i];
		CHECK_NULL(ibv_create_qp(e.pd, &init), EINVAL);
	}
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		init = ok;                                                                         \
		change;                                                                            \
		CHECK_NULL(ibv_create_qp(e.pd, &init), EINVAL);                                    \
	} while (0)
	REFUSED(init.send_cq = NULL);
	REFUSED(init.recv_cq = NULL);
	REFUSED(init.send_cq = other_cq);
	REFUSED(init.recv_cq = other_cq);
	REFUSED(init.srq = other_srq);
	REFUSED(init.cap.max_send_wr = UINT32_MAX);
	REFUSED(init.cap.max_recv_sge = UINT32_MAX);
#undef REFUSED
	ex = (struct ibv_qp_init_attr_ex){ .send_cq = e.scq,
					   .recv_cq = e.rcq,
					   .cap = ok.cap,
					   .qp_type = IBV_QPT_RC,
					   .comp_mask = IBV_QP_INIT_ATTR_PD | 1u << 25,
					   .pd = e.pd };
	CHECK_NULL(ibv_create_qp_ex(e.ctx, &ex), EINVAL);
	ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	ex.pd = other_pd;
	CHECK_NULL(ibv_create_qp_ex(e.ctx, &ex), EINVAL);
	CHECK(!ibv_qp_to_qp_ex(e.qp)); /* created without send_ops_flags */
	CHECK_RESULT(ibv_modify_qp(e.qp, &attr, 1 << 30), EOPNOTSUPP);
	CHECK_RESULT(ibv_modify_qp(e.qp, &attr, IBV_QP_CAP), EINVAL);
	attr.qp_state = (enum ibv_qp_state)99;
	CHECK_RESULT(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = (enum ibv_qp_state) - 1;
	CHECK_RESULT(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE), EINVAL);
	/* an SRQ is busy while a QP uses it */
	srq = CHECK_PTR(ibv_create_srq(e.pd, &srq_init));
	init = ok;
	init.srq = srq;
	qp = CHECK_PTR(ibv_create_qp(e.pd, &init));
	CHECK_RESULT(ibv_destroy_srq(srq), EBUSY);
	CHECK_OK(ibv_destroy_qp(qp));
	CHECK_OK(ibv_destroy_srq(srq));
	close_end();
}

static void send_requests(void)
{
	struct ibv_send_wr wr[3], *bad = NULL;
	struct ibv_sge sge[8];
	struct ibv_qp *qp;

	open_end(IBV_QPT_RC);
	for (unsigned i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = vt_sge(&e, 0, 8);
	CHECK_RESULT(ibv_post_send(e.qp, NULL, &bad), 0);
	for (unsigned i = 0; i < 3; i++)
		wr[i] = (struct ibv_send_wr){ .wr_id = i,
					      .next = i < 2 ? &wr[i + 1] : NULL,
					      .sg_list = sge,
					      .num_sge = 1,
					      .opcode = IBV_WR_RDMA_WRITE,
					      .send_flags = IBV_SEND_SIGNALED,
					      .wr.rdma = { e.self.addr + 4096, e.self.rkey } };
		/* the first good ones are posted, the bad one is named */
#define REFUSED(change, err)                                                                       \
	do {                                                                                       \
		struct ibv_send_wr keep = wr[1];                                                   \
		change;                                                                            \
		CHECK_RESULT(ibv_post_send(e.qp, wr, &bad), err);                                  \
		CHECK(bad == &wr[1]);                                                              \
		WANT_OK(e.scq, 0);                                                                 \
		CHECK_EMPTY(e.scq);                                                                \
		wr[1] = keep;                                                                      \
	} while (0)
	REFUSED(wr[1].num_sge = 5, EINVAL);
	REFUSED(wr[1].num_sge = -1, EINVAL);
	REFUSED(wr[1].opcode = (enum ibv_wr_opcode)99, EINVAL);
	REFUSED(wr[1].opcode = (enum ibv_wr_opcode) - 1, EINVAL);
	REFUSED(wr[1].send_flags = 1u << 20, EINVAL);
	sge[7].length = 100000; /* more than the QP takes inline */
	REFUSED((wr[1].sg_list = &sge[7], wr[1].send_flags |= IBV_SEND_INLINE), EINVAL);
#undef REFUSED
	/* not in a state in which sends are taken */
	qp = vt_make_qp(&e);
	wr[0].next = NULL;
	CHECK_RESULT(ibv_post_send(qp, wr, &bad), EINVAL);
	CHECK(bad == &wr[0]);
	CHECK_OK(ibv_destroy_qp(qp));
	close_end();
}

static void receive_requests(void)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_recv_wr rr[2], *bad = NULL;
	struct ibv_qp_init_attr init;
	struct ibv_sge sge[8];
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	open_end(IBV_QPT_RC);
	for (unsigned i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = vt_sge(&e, 0, 64);
	CHECK_RESULT(ibv_post_recv(e.qp, NULL, &bad), 0);
	rr[0] = (struct ibv_recv_wr){ .wr_id = 1, .next = &rr[1], .sg_list = sge, .num_sge = 1 };
	rr[1] = (struct ibv_recv_wr){ .wr_id = 2, .sg_list = sge, .num_sge = 5 };
	CHECK_RESULT(ibv_post_recv(e.qp, rr, &bad), EINVAL);
	CHECK(bad == &rr[1]);
	vt_send(&e, 3, 0, 8, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 3);
	WANT_OK(e.rcq, 1); /* which was posted */
	qp = vt_make_qp(&e);
	rr[0].next = NULL;
	CHECK_RESULT(ibv_post_recv(qp, rr, &bad), EINVAL); /* RESET */
	CHECK_OK(ibv_destroy_qp(qp));
	srq = CHECK_PTR(ibv_create_srq(e.pd, &srq_init));
	init = (struct ibv_qp_init_attr){ .send_cq = e.scq,
					  .recv_cq = e.rcq,
					  .srq = srq,
					  .cap = { 4, 0, 1, 0, 0 },
					  .qp_type = IBV_QPT_RC };
	qp = CHECK_PTR(ibv_create_qp(e.pd, &init));
	CHECK_OK(vt_to_init(qp, &e.par));
	CHECK_RESULT(ibv_post_recv(qp, rr, &bad), EINVAL); /* it has no receive queue */
	CHECK_OK(ibv_destroy_qp(qp));
	CHECK_OK(ibv_destroy_srq(srq));
	close_end();
}

static void address_handles(void)
{
	struct ibv_ah_attr ok = { .port_num = 1, .is_global = 1 }, attr;
	struct ibv_send_wr wr = { .num_sge = 0, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_grh grh;
	struct ibv_ah *ah;

	open_end(IBV_QPT_UD);
	ok.grh.dgid = e.self.gid;
	ok.grh.sgid_index = (uint8_t)vt_gid_index();
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		attr = ok;                                                                         \
		change;                                                                            \
		CHECK_NULL(ibv_create_ah(e.pd, &attr), EINVAL);                                    \
	} while (0)
	REFUSED(attr.port_num = 0);
	REFUSED(attr.port_num = 2);
	REFUSED(attr.grh.sgid_index = 255);
	REFUSED(memset(&attr.grh.dgid, 0, 16));
	REFUSED(attr.is_global = 0); /* no LID either */
	REFUSED((attr.is_global = 0, attr.dlid = 0xc000));
#undef REFUSED
	ah = CHECK_PTR(ibv_create_ah(e.pd, &ok));
	CHECK_OK(ibv_destroy_ah(ah));
	/* a datagram to nowhere */
	CHECK_RESULT(ibv_post_send(e.qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	/* headers that tell of no sender, of another protocol, of a GID that is not ours */
	memset(&grh, 0, sizeof(grh));
	CHECK_EQ(ibv_init_ah_from_wc(e.ctx, 1, &wc, &grh, &attr), -1);
	CHECK(!ibv_create_ah_from_wc(e.pd, &wc, &grh, 1));
	grh.version_tclass_flow = htonl(6u << 28);
	grh.next_hdr = 99;
	CHECK_MINUS(ibv_init_ah_from_wc(e.ctx, 1, &wc, &grh, &attr), EPROTONOSUPPORT);
	grh.next_hdr = 17;
	grh.sgid = e.self.gid;
	grh.dgid.raw[0] = 0xff;
	CHECK_MINUS(ibv_init_ah_from_wc(e.ctx, 1, &wc, &grh, &attr), EINVAL);
	grh.dgid = e.self.gid;
	grh.dgid.raw[15] ^= 1;
	CHECK_EQ(ibv_init_ah_from_wc(e.ctx, 1, &wc, &grh, &attr), -1);
	grh.dgid = e.self.gid;
	CHECK_EQ(ibv_init_ah_from_wc(e.ctx, 2, &wc, &grh, &attr), -1);
	CHECK_EQ(ibv_init_ah_from_wc(e.ctx, 1, &wc, &grh, &attr), 0);
	CHECK(!memcmp(&attr.grh.dgid, &e.self.gid, 16));
	/* without a header the LID is all there is */
	wc = (struct ibv_wc){ .slid = 7, .sl = 3, .dlid_path_bits = 1 };
	CHECK_EQ(ibv_init_ah_from_wc(e.ctx, 1, &wc, NULL, &attr), 0);
	CHECK(!attr.is_global && attr.dlid == 7 && attr.sl == 3 && attr.src_path_bits == 1);
	close_end();
}

/* The list of devices asks for no number, and nothing else but itself. */
static void devices(void)
{
	struct ibv_device **list = CHECK_PTR(ibv_get_device_list(NULL));

	CHECK(list[0]);
	ibv_free_device_list(list);
	open_end(IBV_QPT_UC);
	close_end();
}

VT_MAIN({ "devices", devices, 0 }, { "queries", queries, 0 }, { "registration", registration, 0 },
	{ "completion_queues", completion_queues, 0 }, { "async_events", async_events, 0 },
	{ "shared_receive_queues", shared_receive_queues, 0 }, { "queue_pairs", queue_pairs, 0 },
	{ "send_requests", send_requests, 0 }, { "receive_requests", receive_requests, 0 },
	{ "address_handles", address_handles, 0 })
