/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * judge_queue.c - queues of WRs: full ones, lists with a bad WR in the middle, inline data, RNR and
 * retries, what is flushed in which order, unsignalled WRs, fences.
 */
#include "tests/conformance/judge.h"

#include <unistd.h>

static struct ibv_send_wr send_wr(uint64_t id, struct ibv_sge *sge, int num_sge)
{
	return (struct ibv_send_wr){ .wr_id = id,
				     .sg_list = sge,
				     .num_sge = num_sge,
				     .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_SIGNALED };
}

/* ---- how many fit ------------------------------------------------------------------------------ */

static struct ibv_qp_cap caps(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_OK(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	return init.cap;
}

/* A ring takes as many as ibv_query_qp said at least, and says ENOMEM then. */
static void full(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_send_wr *bad;
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = 1 };
	struct ibv_srq_attr srq;
	struct ibv_sge sge;
	struct vt_end x, y;
	uint32_t n;
	int err;

	par.send_wr = par.recv_wr = 8;
	par.rnr_retry = 7;
	vt_pair(&x, &y, &par);
	j_case("full/recv");
	for (n = 0; !(err = ibv_post_recv(x.qp, &recv, &bad_recv)) && n < 100000; n++)
		;
	j_ret(err);
	j_say("%s %s", n < caps(x.qp).max_recv_wr ? "early" : "in time",
	      bad_recv == &recv ? "bad" : "bad?");
	j_case("full/send"); /* without a receive there */
	sge = vt_sge(&x, 0, 8);
	for (n = 0; n < 100000; n++) {
		struct ibv_send_wr wr = send_wr(n, &sge, 1);

		err = ibv_post_send(x.qp, &wr, &bad);
		if (err) {
			j_ret(err);
			j_say("%s %s", n < caps(x.qp).max_send_wr ? "early" : "in time",
			      bad == &wr ? "bad" : "bad?");
			break;
		}
	}
	vt_pair_close(&x, &y);

	par.srq = true;
	vt_pair(&x, &y, &par);
	CHECK_OK(ibv_query_srq(x.srq, &srq));
	j_case("full/srq");
	for (n = 0; !(err = ibv_post_srq_recv(x.srq, &recv, &bad_recv)) && n < 100000; n++)
		;
	j_ret(err);
	j_say("%s %s", n < srq.max_wr ? "early" : "in time", bad_recv == &recv ? "bad" : "bad?");
	j_case("full/recv-of-srq-qp");
	J(ibv_post_recv(x.qp, &recv, &bad_recv));
	vt_pair_close(&x, &y);
}

/* ---- lists ------------------------------------------------------------------------------------- */

static void too_many_sges(enum ibv_qp_type type)
{
	struct vt_param par = VT_PARAM;
	struct ibv_sge sge[64];
	struct ibv_send_wr wr, *bad;
	struct ibv_recv_wr recv, *bad_recv;
	struct vt_end x, y;
	int most;

	par.type = type;
	vt_pair(&x, &y, &par);
	most = (int)caps(x.qp).max_send_sge;
	for (unsigned i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = vt_sge(&x, 64 * i, 4);
	for (int add = -1; add < 2; add++) {
		wr = send_wr(1, sge, add < 0 ? -1 : most + add);
		if (type == IBV_QPT_UD) {
			wr.wr.ud.ah = x.ah;
			wr.wr.ud.remote_qpn = y.qp->qp_num;
			wr.wr.ud.remote_qkey = VT_QKEY;
		}
		vt_recv(&y, 5, 0, 8192);
		j_case("sges/%s/send/%s", j_qp_type(type),
		       add < 0	? "-1" :
		       add == 0 ? "max" :
				  "max+1");
		bad = NULL;
		if (J(ibv_post_send(x.qp, &wr, &bad)))
			j_say("%s", bad == &wr ? "bad" : "bad?");
		else
			j_wcs(x.scq, 1, 500);
		j_say("%s", j_qp_state(vt_state(x.qp)));
	}
	most = (int)caps(x.qp).max_recv_sge;
	for (int add = -1; add < 2; add++) {
		recv = (struct ibv_recv_wr){ .sg_list = sge, .num_sge = add < 0 ? -1 : most + add };
		j_case("sges/%s/recv/%s", j_qp_type(type),
		       add < 0	? "-1" :
		       add == 0 ? "max" :
				  "max+1");
		bad_recv = NULL;
		if (J(ibv_post_recv(x.qp, &recv, &bad_recv)))
			j_say("%s", bad_recv == &recv ? "bad" : "bad?");
	}
	vt_pair_close(&x, &y);
}

/* The third of five is bad: what is before it is done, what is behind it is not. */
static void bad_in_list(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_sge sge[64], good;
	struct ibv_send_wr wr[5], *bad;
	struct ibv_recv_wr recv[5], *bad_recv;
	struct vt_end x, y;

	vt_pair(&x, &y, &par);
	good = vt_sge(&x, 0, 8);
	for (unsigned i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = good;
	for (unsigned i = 0; i < 5; i++) {
		wr[i] = send_wr(i, &good, 1);
		wr[i].next = i < 4 ? &wr[i + 1] : NULL;
		recv[i] = (struct ibv_recv_wr){ .wr_id = i,
						.sg_list = &good,
						.num_sge = 1,
						.next = i < 4 ? &recv[i + 1] : NULL };
		vt_recv(&y, 10 + i, 64 * i, 64);
	}
	wr[2].sg_list = sge;
	wr[2].num_sge = 64;
	bad = NULL;
	j_case("list/send");
	J(ibv_post_send(x.qp, wr, &bad));
	j_say("bad=%d", bad ? (int)(bad - wr) : -1);
	j_wcs(x.scq, 2, 500);
	j_say("then");
	j_wcs(x.scq, 1, 50);
	recv[2].sg_list = sge;
	recv[2].num_sge = 64;
	bad_recv = NULL;
	j_case("list/recv");
	J(ibv_post_recv(x.qp, recv, &bad_recv));
	j_say("bad=%d", bad_recv ? (int)(bad_recv - recv) : -1);
	CHECK_OK(vt_to_state(x.qp, IBV_QPS_ERR));
	j_wcs(x.rcq, 3, 200);
	vt_pair_close(&x, &y);
}

static void lists(void)
{
	for (unsigned t = 0; t < ARRAY_SIZE(j_types); t++)
		too_many_sges(j_types[t]);
	bad_in_list();
}

/* ---- inline ------------------------------------------------------------------------------------ */

static void inline_data(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };

	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++)
		for (int add = -1; add < 2; add++) {
			struct vt_param par = VT_PARAM;
			static uint8_t data[65536]; /* of no MR */
			struct ibv_sge sge = { .addr = (uintptr_t)data };
			struct ibv_send_wr wr = send_wr(1, &sge, 1), *bad = NULL;
			struct vt_end x, y;

			par.inline_data = 64;
			vt_pair(&x, &y, &par);
			vt_recv(&y, 2, 0, 8192);
			sge.length = add < 0 ? 8 : caps(x.qp).max_inline_data + (unsigned)add;
			wr.opcode = ops[i];
			wr.send_flags |= IBV_SEND_INLINE;
			wr.wr.rdma.remote_addr = y.self.addr;
			wr.wr.rdma.rkey = y.self.rkey;
			if (ops[i] == IBV_WR_ATOMIC_FETCH_AND_ADD) {
				wr.wr.atomic.remote_addr = y.self.addr;
				wr.wr.atomic.rkey = y.self.rkey;
			}
			j_case("inline/%s/%s", j_wr_opcode(ops[i]),
			       add < 0	? "8" :
			       add == 0 ? "max" :
					  "max+1");
			if (J(ibv_post_send(x.qp, &wr, &bad)))
				j_say("%s", bad == &wr ? "bad" : "bad?");
			else
				j_wcs(x.scq, 1, 500);
			vt_pair_close(&x, &y);
		}
}

/* ---- peers that do not answer ------------------------------------------------------------------ */

static void after_error(struct vt_end *x)
{
	j_say("%s", j_qp_state(vt_state(x->qp)));
	vt_send(x, 20, 0, 8, IBV_SEND_SIGNALED);
	j_say("then");
	j_wcs(x->scq, 1, 500);
}

static void silent(void)
{
	static const struct {
		const char *name;
		unsigned rnr, retry;
	} tries[] = { { "rnr-0", 0, 7 }, { "rnr-1", 1, 7 }, { "rnr-6", 6, 7 } };
	struct vt_param par = VT_PARAM;
	struct vt_end x, y;

	par.rnr_timer = 1;
	par.timeout = 10;
	for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
		par.rnr_retry = (uint8_t)tries[i].rnr;
		par.retry_cnt = (uint8_t)tries[i].retry;
		vt_pair(&x, &y, &par);
		j_case("silent/%s", tries[i].name);
		for (unsigned k = 0; k < 3; k++)
			vt_send(&x, k, 0, 8, k == 1 ? 0 : IBV_SEND_SIGNALED);
		j_wcs(x.scq, 3, 3000);
		after_error(&x);
		j_say("peer %s", j_qp_state(vt_state(y.qp)));
		vt_pair_close(&x, &y);
	}
	par.rnr_retry = 7; /* for ever, until there is a receive */
	vt_pair(&x, &y, &par);
	j_case("silent/rnr-7");
	vt_send(&x, 1, 0, 8, IBV_SEND_SIGNALED);
	j_wcs(x.scq, 1, 100);
	vt_recv(&y, 2, 0, 64);
	j_wcs(x.scq, 1, 2000);
	vt_pair_close(&x, &y);
	for (unsigned r = 0; r < 3; r++) {
		par.retry_cnt = (uint8_t)r;
		for (enum ibv_qp_state s = IBV_QPS_RESET; s <= IBV_QPS_ERR; s++) {
			if (s == IBV_QPS_RTR || s == IBV_QPS_RTS || s == IBV_QPS_SQD || s == 5)
				continue;
			vt_pair(&x, &y, &par);
			CHECK_OK(vt_to_state(y.qp, IBV_QPS_RESET));
			if (s != IBV_QPS_RESET)
				j_bring(&y, s);
			j_case("silent/retry-%u/peer-%s", r, j_qp_state(s));
			for (unsigned k = 0; k < 3; k++)
				vt_send(&x, k, 0, 8, k == 1 ? 0 : IBV_SEND_SIGNALED);
			j_wcs(x.scq, 3, 3000);
			after_error(&x);
			j_async(x.ctx, false);
			vt_pair_close(&x, &y);
		}
		vt_pair(&x, &y, &par);
		CHECK_OK(ibv_destroy_qp(y.qp));
		y.qp = NULL;
		j_case("silent/retry-%u/peer-gone", r);
		vt_rdma(&x, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, IBV_SEND_SIGNALED);
		j_wcs(x.scq, 1, 3000);
		after_error(&x);
		vt_pair_close(&x, &y);
	}
}

/* ---- order and signals ------------------------------------------------------------------------- */

/* An error in the middle: those before are done, those after flushed, signalled or not. */
static void flush(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;
	struct vt_end x, y;

	for (unsigned all = 0; all < 2; all++) {
		par.sig_all = all;
		vt_pair(&x, &y, &par);
		for (unsigned i = 0; i < 4; i++)
			vt_recv(&x, 30 + i, 0, 8);
		j_case("flush/sig-all-%u", all);
		vt_rdma(&x, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, IBV_SEND_SIGNALED);
		vt_rdma(&x, IBV_WR_RDMA_WRITE, 2, 0, 8, 0, 0);
		sge = vt_sge(&x, 0, 8);
		wr = send_wr(3, &sge, 1);
		wr.opcode = IBV_WR_RDMA_READ;
		wr.send_flags = 0;
		wr.wr.rdma.remote_addr = y.self.addr;
		wr.wr.rdma.rkey = y.self.rkey ^ 0xff00;
		CHECK_OK(ibv_post_send(x.qp, &wr, &bad));
		vt_rdma(&x, IBV_WR_RDMA_WRITE, 4, 0, 8, 0, 0);
		vt_rdma(&x, IBV_WR_RDMA_READ, 5, 0, 8, 0, IBV_SEND_SIGNALED);
		vt_send(&x, 6, 0, 8, 0);
		j_wcs(x.scq, all ? 6 : 5, 500);
		j_case("flush/sig-all-%u/recvs", all);
		j_wcs(x.rcq, 4, 500);
		j_case("flush/sig-all-%u/reset", all);
		J(vt_to_state(x.qp, IBV_QPS_RESET));
		j_wcs(x.scq, 1, 50);
		vt_pair_close(&x, &y);
	}
}

/* Completions that are in the CQ when the QP goes, or is reset, stay or do not. */
static void leftovers(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end x, y;

	vt_pair(&x, &y, &par);
	vt_rdma(&x, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, IBV_SEND_SIGNALED);
	usleep(50000 * vt_slow());
	CHECK_OK(vt_to_state(x.qp, IBV_QPS_RESET));
	j_case("leftovers/reset");
	j_wcs(x.scq, 1, 50);
	vt_pair_reset(&x, &y);
	vt_rdma(&x, IBV_WR_RDMA_WRITE, 2, 0, 8, 0, IBV_SEND_SIGNALED);
	usleep(50000 * vt_slow());
	CHECK_OK(ibv_destroy_qp(x.qp));
	x.qp = NULL;
	j_case("leftovers/destroy");
	j_wcs(x.scq, 1, 50);
	vt_pair_close(&x, &y);
}

/* What may be in send_flags. */
static void flags(void)
{
	static const struct {
		const char *name;
		unsigned flags;
	} tries[] = { { "fence", IBV_SEND_FENCE },
		      { "solicited", IBV_SEND_SOLICITED },
		      { "ip-csum", IBV_SEND_IP_CSUM },
		      { "unknown", 1u << 20 } };

	for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
		struct vt_param par = VT_PARAM;
		struct ibv_sge sge;
		struct ibv_send_wr wr, *bad;
		struct vt_end x, y;

		vt_pair(&x, &y, &par);
		vt_recv(&y, 2, 0, 64);
		sge = vt_sge(&x, 0, 8);
		wr = send_wr(1, &sge, 1);
		wr.send_flags |= tries[i].flags;
		j_case("flags/%s", tries[i].name);
		if (!J(ibv_post_send(x.qp, &wr, &bad)))
			j_wcs(x.scq, 1, 500);
		vt_pair_close(&x, &y);
	}
}

/* ---- UD ---------------------------------------------------------------------------------------- */

/* Who gets a datagram; its sender's completion is good in any case. */
static void datagrams(void)
{
	static const struct {
		const char *name;
		uint32_t qkey, qpn_xor;
		size_t len;
		bool small;
	} tries[] = { { "good", VT_QKEY, 0, 64, false },
		      { "qkey-wrong", VT_QKEY + 1, 0, 64, false },
		      { "qkey-of-the-qp", 0x80000000, 0, 64, false },
		      { "qpn-unknown", VT_QKEY, 0x5500, 64, false },
		      { "len-0", VT_QKEY, 0, 0, false },
		      { "len-mtu", VT_QKEY, 0, 1024, false },
		      { "len-beyond-4096", VT_QKEY, 0, 4097, false },
		      { "recv-too-small", VT_QKEY, 0, 64, true } };

	for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
		struct vt_param par = VT_PARAM;
		struct ibv_send_wr wr, *bad;
		struct vt_end x, y;
		struct ibv_sge sge;

		par.type = IBV_QPT_UD;
		vt_pair(&x, &y, &par);
		vt_recv(&y, 2, 0, tries[i].small ? 63 : 8192);
		wr = vt_ud_wr(&x, &sge, 1, 0, tries[i].len, x.ah, y.qp->qp_num ^ tries[i].qpn_xor);
		wr.wr.ud.remote_qkey = tries[i].qkey;
		j_case("datagram/%s", tries[i].name);
		if (!J(ibv_post_send(x.qp, &wr, &bad)))
			j_wcs(x.scq, 1, 500);
		j_say("recv");
		j_wcs(y.rcq, 1, i ? 50 : 500);
		j_say("%s %s", j_qp_state(vt_state(x.qp)), j_qp_state(vt_state(y.qp)));
		vt_pair_close(&x, &y);
	}
}

const struct judge_group judge_queue[] = {
	{ "full", full, 0 },	  { "list", lists, 0 },		{ "inline", inline_data, 0 },
	{ "silent", silent, 60 }, { "flush", flush, 0 },	{ "leftovers", leftovers, 0 },
	{ "flags", flags, 0 },	  { "datagram", datagrams, 0 }, { 0 },
};
