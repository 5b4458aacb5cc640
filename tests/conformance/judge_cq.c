/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* judge_cq.c - CQs: how big, too full, resized; completion channels, arming and acknowledging. */
#include "tests/conformance/judge.h"

#include <fcntl.h>
#include <unistd.h>

static void create(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_device_attr dev;
	struct ibv_cq *cq;

	CHECK_OK(ibv_query_device(ctx, &dev));
	{
		const struct {
			const char *name;
			int cqe, vector;
		} tries[] = {
			{ "1", 1, 0 },
			{ "0", 0, 0 },
			{ "-1", -1, 0 },
			{ "min", INT32_MIN, 0 },
			{ "max", dev.max_cqe, 0 },
			{ "max+1", dev.max_cqe + 1, 0 },
			{ "int-max", INT32_MAX, 0 },
			{ "vector-1", 1, -1 },
			{ "vector-last", 1, ctx->num_comp_vectors - 1 },
			{ "vector-beyond", 1, ctx->num_comp_vectors },
			{ "vector-int-max", 1, INT32_MAX },
		};

		for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
			j_case("create-cq/%s", tries[i].name);
			cq = J_PTR(ibv_create_cq(ctx, tries[i].cqe, &cq, NULL, tries[i].vector));
			if (!cq)
				continue;
			j_say("%s context=%d", cq->cqe < tries[i].cqe ? "less" : "enough",
			      cq->cq_context == &cq);
			J(ibv_destroy_cq(cq));
		}
	}
	CHECK_OK(ibv_close_device(ctx));
}

static void create_ex(void)
{
	struct ibv_context *ctx = vt_open_device();

	for (int bit = -1; bit < 16; bit++) {
		struct ibv_cq_init_attr_ex attr = { .cqe = 4,
						    .wc_flags = bit < 0 ? 0 : 1ull << bit };
		struct ibv_cq_ex *cq;

		j_case("create-cq-ex/wc-flag-%d", bit);
		cq = J_PTR(ibv_create_cq_ex(ctx, &attr));
		if (cq)
			CHECK_OK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	}
	for (unsigned bit = 0; bit < 4; bit++) {
		struct ibv_cq_init_attr_ex attr = { .cqe = 4,
						    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
						    .flags = 1u << bit };
		struct ibv_cq_ex *cq;

		j_case("create-cq-ex/flag-%u", bit);
		cq = J_PTR(ibv_create_cq_ex(ctx, &attr));
		if (cq)
			CHECK_OK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	}
	CHECK_OK(ibv_close_device(ctx));
}

static void resize(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_device_attr dev;
	struct vt_end x, y;

	par.cqe = 8;
	vt_pair(&x, &y, &par);
	CHECK_OK(ibv_query_device(x.ctx, &dev));
	for (unsigned i = 0; i < 4; i++)
		vt_rdma(&x, IBV_WR_RDMA_WRITE, i, 0, 8, 0, IBV_SEND_SIGNALED);
	usleep(100000 * vt_slow());
	{
		const struct {
			const char *name;
			int cqe;
		} tries[] = { { "64", 64 },
			      { "4", 4 },
			      { "3", 3 },
			      { "1", 1 },
			      { "0", 0 },
			      { "-1", -1 },
			      { "max", dev.max_cqe },
			      { "max+1", dev.max_cqe + 1 } };

		for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
			j_case("resize-cq/%s", tries[i].name);
			if (!J(ibv_resize_cq(x.scq, tries[i].cqe)))
				j_say("%s", x.scq->cqe < tries[i].cqe ? "less" : "enough");
		}
	}
	j_case("resize-cq/what-is-there");
	j_wcs(x.scq, 4, 500);
	vt_pair_close(&x, &y);
}

static void overflow(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end x, y;
	unsigned num;

	par.cqe = 1;
	par.send_wr = 512;
	vt_pair(&x, &y, &par);
	num = (unsigned)x.scq->cqe + 2;
	for (unsigned i = 0; i < num && i < 512; i++)
		vt_rdma(&x, IBV_WR_RDMA_WRITE, i, 0, 8, 0, IBV_SEND_SIGNALED);
	j_case("cq-overflow/event");
	j_async(x.ctx, true);
	j_case("cq-overflow/qp");
	j_say("%s", j_qp_state(vt_state(x.qp)));
	j_case("cq-overflow/post");
	{
		struct ibv_sge sge = vt_sge(&x, 0, 8);
		struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND },
				   *bad;

		J(ibv_post_send(x.qp, &wr, &bad));
	}
	j_case("cq-overflow/destroy");
	J(ibv_destroy_qp(x.qp));
	x.qp = NULL;
	vt_pair_close(&x, &y);
}

static void poll_numbers(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_wc wc[8];
	struct vt_end x, y;

	vt_pair(&x, &y, &par);
	for (unsigned i = 0; i < 4; i++)
		vt_rdma(&x, IBV_WR_RDMA_WRITE, i, 0, 8, 0, IBV_SEND_SIGNALED);
	usleep(100000 * vt_slow());
	j_case("poll/0");
	j_say("%d", ibv_poll_cq(x.scq, 0, wc));
	j_case("poll/-1");
	j_say("%d", ibv_poll_cq(x.scq, -1, wc));
	j_case("poll/1");
	j_say("%d", ibv_poll_cq(x.scq, 1, wc));
	j_case("poll/8");
	j_say("%d", ibv_poll_cq(x.scq, 8, wc));
	j_case("poll/none");
	j_say("%d", ibv_poll_cq(x.scq, 8, wc));
	vt_pair_close(&x, &y);
}

/* ---- events ------------------------------------------------------------------------------------ */

static void say_event(struct vt_end *e, unsigned ms)
{
	struct ibv_cq *cq;
	void *context;

	if (!vt_readable(e->channel->fd, (int)(ms * vt_slow()))) {
		j_say("none");
		return;
	}
	if (ibv_get_cq_event(e->channel, &cq, &context)) {
		j_say("%s", j_errno(errno));
		return;
	}
	j_say("%s", cq == e->rcq ? "rcq" : cq == e->scq ? "scq" : "?");
	ibv_ack_cq_events(cq, 1);
}

/* One message: solicited or not, good or not, on a CQ that was armed for all or for solicited. */
static void arming(void)
{
	for (int armed = -1; armed < 2; armed++)
		for (unsigned how = 0; how < 4; how++) {
			static const char *const names[] = { "plain", "solicited", "error",
							     "two-armed-once" };
			struct vt_param par = VT_PARAM;
			struct vt_end x, y;

			par.channel = true;
			vt_pair(&x, &y, &par);
			j_case("arm/%s/%s",
			       armed < 0 ? "not" :
			       armed	 ? "solicited" :
					   "all",
			       names[how]);
			if (armed >= 0)
				J(ibv_req_notify_cq(y.rcq, armed));
			vt_recv(&y, 1, 0, how == 2 ? 4 : 64);
			vt_recv(&y, 2, 0, 64);
			vt_send(&x, 1, 0, 8, how == 1 ? IBV_SEND_SOLICITED : 0);
			if (how == 3)
				vt_send(&x, 2, 0, 8, 0);
			say_event(&y, 50);
			say_event(&y, 20);
			j_say("then");
			j_wcs(y.rcq, how > 1 ? 2 : 1, 50);
			vt_pair_close(&x, &y);
		}
}

/* Arming a CQ that has something, arming twice, one sort after the other. */
static void rearming(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end x, y;

	par.channel = true;
	vt_pair(&x, &y, &par);
	for (unsigned i = 0; i < 16; i++)
		vt_recv(&y, i, 0, 64);
	vt_send(&x, 1, 0, 8, 0);
	usleep(50000 * vt_slow());
	j_case("rearm/with-one-there");
	J(ibv_req_notify_cq(y.rcq, 0));
	say_event(&y, 50);
	vt_send(&x, 1, 0, 8, 0);
	j_case("rearm/one-more");
	say_event(&y, 50);
	j_case("rearm/twice");
	J(ibv_req_notify_cq(y.rcq, 0));
	J(ibv_req_notify_cq(y.rcq, 0));
	vt_send(&x, 1, 0, 8, 0);
	say_event(&y, 50);
	say_event(&y, 20);
	j_case("rearm/all-then-solicited");
	J(ibv_req_notify_cq(y.rcq, 0));
	J(ibv_req_notify_cq(y.rcq, 1));
	vt_send(&x, 1, 0, 8, 0);
	say_event(&y, 50);
	j_case("rearm/then-solicited-message");
	vt_send(&x, 1, 0, 8, IBV_SEND_SOLICITED);
	say_event(&y, 50);
	j_case("rearm/nonblocking");
	CHECK_OK(fcntl(y.channel->fd, F_SETFL, O_NONBLOCK));
	{
		struct ibv_cq *cq;
		void *context;

		J(ibv_get_cq_event(y.channel, &cq, &context));
	}
	j_case("rearm/without-channel");
	{
		struct ibv_cq *cq = CHECK_PTR(ibv_create_cq(y.ctx, 1, NULL, NULL, 0));

		J(ibv_req_notify_cq(cq, 0));
		CHECK_OK(ibv_destroy_cq(cq));
	}
	vt_pair_close(&x, &y);
}

/* Events that nobody has read go with their CQ. */
static void unread(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end x, y;

	par.channel = true;
	vt_pair(&x, &y, &par);
	vt_recv(&y, 1, 0, 64);
	CHECK_OK(ibv_req_notify_cq(y.rcq, 0));
	vt_send(&x, 1, 0, 8, 0);
	CHECK(vt_readable(y.channel->fd, 1000));
	CHECK_OK(ibv_destroy_qp(y.qp));
	y.qp = NULL;
	j_case("unread/destroy-cq");
	J(ibv_destroy_cq(y.rcq));
	y.rcq = y.scq;
	j_say("%s", vt_readable(y.channel->fd, 20) ? "readable" : "empty");
	vt_pair_close(&x, &y);
}

/* A CQ whose event is not acknowledged cannot go: ibv_destroy_cq waits. */
static void unacknowledged(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_cq *cq;
	void *context;
	struct vt_end x, y;

	par.channel = true;
	vt_pair(&x, &y, &par);
	vt_recv(&y, 1, 0, 64);
	CHECK_OK(ibv_req_notify_cq(y.rcq, 0));
	vt_send(&x, 1, 0, 8, 0);
	CHECK_OK(ibv_get_cq_event(y.channel, &cq, &context));
	CHECK_OK(ibv_destroy_qp(y.qp));
	j_case("unacknowledged/destroy-cq");
	J(ibv_destroy_cq(y.rcq));
}

JUDGE_GROUPS(judge_cq, { "create-cq", create, 0 }, { "create-cq-ex", create_ex, 0 },
	     { "resize-cq", resize, 0 }, { "cq-overflow", overflow, 0 },
	     { "poll", poll_numbers, 0 }, { "arm", arming, 0 }, { "rearm", rearming, 0 },
	     { "unread", unread, 0 }, { "unacknowledged", unacknowledged, 1 })
