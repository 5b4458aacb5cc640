/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * judge_wr.c - each operation of RC, UC and UD, as it should be and with each fault that a WR, its
 * buffer, its target or the receive there can have: what post_send says, both ends' completions, states
 * and events.
 */
#include "tests/conformance/judge.h"

#include <sys/mman.h>

#define LEN 64

enum fault {
	NONE,
	/* of the sender's buffer */
	LKEY_UNKNOWN,
	LKEY_0,
	LKEY_OTHER_PD,
	LKEY_GONE,
	LKEY_READONLY, /* no LOCAL_WRITE */
	ADDR_BEFORE,
	ADDR_BEHIND,
	LEN_BEYOND,
	LEN_WRAPS,
	LEN_0,
	NO_SGE,
	SECOND_SGE_BAD,
	FIRST_FAULT_REMOTE, /* of the target */
	RKEY_UNKNOWN = FIRST_FAULT_REMOTE,
	RKEY_0,
	RKEY_OTHER_PD,
	RKEY_GONE,
	RKEY_NO_ACCESS,
	QP_NO_ACCESS,
	RADDR_BEFORE,
	RADDR_BEHIND,
	RLEN_BEYOND,
	RADDR_ODD,
	RKEY_UNKNOWN_LEN_0,
	FIRST_FAULT_RECV, /* of the receive */
	RECV_SHORT = FIRST_FAULT_RECV,
	RECV_SHORT_2_SGE,
	RECV_NO_SGE,
	RECV_LKEY_UNKNOWN,
	RECV_LKEY_OTHER_PD,
	RECV_READONLY,
	RECV_LEN_BEYOND,
	RECV_LKEY_UNKNOWN_2ND, /* of two SGEs, the second is not needed */
	NUM_FAULTS
};

static const char *const fault_str[] = {
	"good",
	"lkey-unknown",
	"lkey-0",
	"lkey-of-other-pd",
	"lkey-gone",
	"lkey-readonly",
	"addr-before",
	"addr-behind",
	"len-beyond",
	"len-wraps",
	"len-0",
	"no-sge",
	"2nd-sge-bad",
	"rkey-unknown",
	"rkey-0",
	"rkey-of-other-pd",
	"rkey-gone",
	"rkey-no-access",
	"qp-no-access",
	"raddr-before",
	"raddr-behind",
	"rlen-beyond",
	"raddr-odd",
	"rkey-unknown-len-0",
	"recv-short",
	"recv-short-of-2",
	"recv-no-sge",
	"recv-lkey-unknown",
	"recv-lkey-of-other-pd",
	"recv-readonly",
	"recv-len-beyond",
	"recv-2nd-lkey-unknown",
};
_Static_assert(ARRAY_SIZE(fault_str) == NUM_FAULTS, "");

struct what {
	enum ibv_qp_type type;
	enum ibv_wr_opcode op;
	enum fault fault;
};

static bool is_rdma(enum ibv_wr_opcode op)
{
	return op != IBV_WR_SEND && op != IBV_WR_SEND_WITH_IMM;
}

static bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool takes_recv(enum ibv_wr_opcode op)
{
	return !is_rdma(op) || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* A key of the same memory that is of another PD, or of no MR any more. */
static struct ibv_mr *other_mr(struct vt_end *e, bool gone)
{
	struct ibv_pd *pd = gone ? e->pd : CHECK_PTR(ibv_alloc_pd(e->ctx));
	struct ibv_mr *mr = CHECK_PTR(ibv_reg_mr(pd, e->buf, e->len, VT_ACCESS_ALL));
	static struct ibv_mr copy;

	if (!gone)
		return mr;
	copy = *mr;
	CHECK_OK(ibv_dereg_mr(mr));
	return &copy;
}

static void spoil_local(struct vt_end *x, struct ibv_send_wr *wr, enum fault f)
{
	struct ibv_sge *sge = wr->sg_list;

	switch (f) {
	case LKEY_UNKNOWN:
		sge->lkey ^= 0x00ffff00;
		break;
	case LKEY_0:
		sge->lkey = 0;
		break;
	case LKEY_OTHER_PD:
	case LKEY_GONE:
		sge->lkey = other_mr(x, f == LKEY_GONE)->lkey;
		break;
	case LKEY_READONLY:
		sge->lkey = CHECK_PTR(ibv_reg_mr(x->pd, x->buf, x->len, 0))->lkey;
		break;
	case ADDR_BEFORE:
		sge->addr = (uintptr_t)x->buf - 8;
		break;
	case ADDR_BEHIND:
		sge->addr = (uintptr_t)x->buf + x->len;
		break;
	case LEN_BEYOND:
		sge->addr = (uintptr_t)x->buf + x->len - sge->length + 8;
		break;
	case LEN_WRAPS:
		sge->length = UINT32_MAX;
		break;
	case LEN_0:
		sge->length = 0;
		break;
	case NO_SGE:
		wr->num_sge = 0;
		break;
	case SECOND_SGE_BAD:
		sge[0].length /= 2;
		sge[1] = sge[0];
		sge[1].lkey ^= 0x00ffff00;
		wr->num_sge = 2;
		break;
	default:
		break;
	}
}

static void spoil_remote(struct vt_end *y, struct ibv_send_wr *wr, enum fault f)
{
	uint64_t addr = (uintptr_t)y->buf + 4096;
	uint32_t rkey = y->mr->rkey;

	switch (f) {
	case RKEY_UNKNOWN_LEN_0:
		wr->sg_list[0].length = 0; /* fall through */
	case RKEY_UNKNOWN:
		rkey ^= 0x00ffff00;
		break;
	case RKEY_0:
		rkey = 0;
		break;
	case RKEY_OTHER_PD:
	case RKEY_GONE:
		rkey = other_mr(y, f == RKEY_GONE)->rkey;
		break;
	case RKEY_NO_ACCESS:
		rkey = CHECK_PTR(ibv_reg_mr(y->pd, y->buf, y->len, IBV_ACCESS_LOCAL_WRITE))->rkey;
		break;
	case RADDR_BEFORE:
		addr = (uintptr_t)y->buf - 8;
		break;
	case RADDR_BEHIND:
		addr = (uintptr_t)y->buf + y->len;
		break;
	case RLEN_BEYOND:
		addr = (uintptr_t)y->buf + y->len - wr->sg_list[0].length + 8;
		break;
	case RADDR_ODD:
		addr += 1;
		break;
	default:
		break;
	}
	if (is_atomic(wr->opcode)) {
		wr->wr.atomic.remote_addr = addr;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = 0;
		wr->wr.atomic.swap = 5;
	} else if (is_rdma(wr->opcode)) {
		wr->wr.rdma.remote_addr = addr;
		wr->wr.rdma.rkey = rkey;
	}
}

/* Two SGEs of a receive, in the second half of the buffer. */
static void post_recv(struct vt_end *y, enum fault f)
{
	struct ibv_sge sge[2] = { vt_sge(y, 8192, LEN), vt_sge(y, 12288, LEN) };
	unsigned grh = y->par.type == IBV_QPT_UD ? VT_GRH : 0;
	struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = sge, .num_sge = 1 }, *bad;

	sge[0].length += grh;
	switch (f) {
	case RECV_SHORT:
		sge[0].length--;
		break;
	case RECV_SHORT_2_SGE:
		sge[0].length -= LEN / 2;
		sge[1].length = LEN / 2 - 1;
		wr.num_sge = 2;
		break;
	case RECV_NO_SGE:
		wr.num_sge = 0;
		break;
	case RECV_LKEY_UNKNOWN:
		sge[0].lkey ^= 0x00ffff00;
		break;
	case RECV_LKEY_OTHER_PD:
		sge[0].lkey = other_mr(y, false)->lkey;
		break;
	case RECV_READONLY:
		sge[0].lkey = CHECK_PTR(ibv_reg_mr(y->pd, y->buf, y->len, 0))->lkey;
		break;
	case RECV_LEN_BEYOND:
		sge[0].addr = (uintptr_t)y->buf + y->len - sge[0].length + 8;
		break;
	case RECV_LKEY_UNKNOWN_2ND:
		sge[1].lkey ^= 0x00ffff00;
		wr.num_sge = 2;
		break;
	default:
		break;
	}
	J(ibv_post_recv(y->qp, &wr, &bad));
}

/* What differs in one respect only is to have lines that are the same in the others. */
static void part(const struct what *w, const char *name)
{
	j_case("wr/%s/%s/%s/%s", j_qp_type(w->type), j_wr_opcode(w->op), fault_str[w->fault], name);
}

static void operate(const void *arg)
{
	const struct what *w = arg;
	struct vt_param par = VT_PARAM;
	struct vt_end x, y;
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = sge,
				  .num_sge = 1,
				  .opcode = w->op,
				  .imm_data = htobe32(0x1234abcd),
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	size_t place = !takes_recv(w->op) || is_rdma(w->op) ? 4096 :
		       w->type == IBV_QPT_UD		    ? 8192 + VT_GRH :
							      8192;

	par.type = w->type;
	par.timeout = 10;
	par.retry_cnt = 1;
	par.rnr_retry = 1;
	vt_end_open(&x, &par);
	if (w->fault == QP_NO_ACCESS)
		par.qp_access = IBV_ACCESS_LOCAL_WRITE;
	vt_end_open(&y, &par);
	vt_connect(&x, &y.self);
	vt_connect(&y, &x.self);
	sge[0] = vt_sge(&x, 4096, is_atomic(w->op) ? 8 : LEN);
	vt_pattern(x.buf, x.len, 1);
	memset(y.buf, 0, y.len);
	if (w->type == IBV_QPT_UD) {
		wr.wr.ud.ah = x.ah;
		wr.wr.ud.remote_qpn = y.qp->qp_num;
		wr.wr.ud.remote_qkey = VT_QKEY;
	} else {
		spoil_remote(&y, &wr, w->fault);
	}
	spoil_local(&x, &wr, w->fault);
	if (takes_recv(w->op)) {
		part(w, "post-recv");
		post_recv(&y, w->fault);
	}
	part(w, "post");
	if (J(ibv_post_send(x.qp, &wr, &bad)))
		return;
	part(w, "send");
	j_wcs(x.scq, 1, 1000);
	if (takes_recv(w->op)) {
		part(w, "recv");
		j_wcs(y.rcq, 1, w->fault == NONE ? 1000 : 30);
	}
	if (w->fault == NONE && !is_atomic(w->op)) {
		part(w, "bytes");
		j_say("%d", !memcmp(y.buf + place, x.buf + 4096, LEN));
	}
	part(w, "states");
	j_say("%s %s", j_qp_state(vt_state(x.qp)), j_qp_state(vt_state(y.qp)));
	part(w, "events");
	j_async(x.ctx, false);
	j_say("/");
	j_async(y.ctx, false);
}

static bool applies(const struct what *w)
{
	if (w->fault >= FIRST_FAULT_RECV)
		return takes_recv(w->op) && !(is_rdma(w->op) && w->fault != RECV_NO_SGE);
	if (w->fault >= FIRST_FAULT_REMOTE)
		return is_rdma(w->op);
	return true;
}

static void all_faults(enum ibv_qp_type type, enum ibv_wr_opcode op)
{
	for (enum fault f = NONE; f < NUM_FAULTS; f++) {
		struct what w = { type, op, f };

		if (applies(&w))
			j_apart(operate, &w, "wr/%s/%s/%s", j_qp_type(type), j_wr_opcode(op),
				fault_str[f]);
	}
}

static void operations_rc(void)
{
	for (enum ibv_wr_opcode op = IBV_WR_RDMA_WRITE; op <= IBV_WR_ATOMIC_FETCH_AND_ADD; op++)
		all_faults(IBV_QPT_RC, op);
}

static void operations_uc(void)
{
	for (enum ibv_wr_opcode op = IBV_WR_RDMA_WRITE; op <= IBV_WR_SEND_WITH_IMM; op++)
		all_faults(IBV_QPT_UC, op);
}

static void operations_ud(void)
{
	all_faults(IBV_QPT_UD, IBV_WR_SEND);
	all_faults(IBV_QPT_UD, IBV_WR_SEND_WITH_IMM);
}

/* Opcodes that a type does not have, and that there are not. */
static void wrong_opcodes(void)
{
	static const struct what tries[] = {
		{ IBV_QPT_UC, IBV_WR_RDMA_READ, NONE },
		{ IBV_QPT_UC, IBV_WR_ATOMIC_CMP_AND_SWP, NONE },
		{ IBV_QPT_UC, IBV_WR_ATOMIC_FETCH_AND_ADD, NONE },
		{ IBV_QPT_UD, IBV_WR_RDMA_WRITE, NONE },
		{ IBV_QPT_UD, IBV_WR_RDMA_WRITE_WITH_IMM, NONE },
		{ IBV_QPT_UD, IBV_WR_RDMA_READ, NONE },
		{ IBV_QPT_UD, IBV_WR_ATOMIC_CMP_AND_SWP, NONE },
		{ IBV_QPT_RC, IBV_WR_TSO, NONE },
		{ IBV_QPT_RC, (enum ibv_wr_opcode)11, NONE },
		{ IBV_QPT_RC, (enum ibv_wr_opcode)99, NONE },
		{ IBV_QPT_UC, (enum ibv_wr_opcode)99, NONE },
		{ IBV_QPT_UD, (enum ibv_wr_opcode)99, NONE },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(tries); i++)
		j_apart(operate, &tries[i], "wr/%s/%s/good", j_qp_type(tries[i].type),
			j_wr_opcode(tries[i].op));
}

JUDGE_GROUPS(judge_wr, { "wr/RC", operations_rc, 120 }, { "wr/UC", operations_uc, 60 },
	     { "wr/UD", operations_ud, 60 }, { "wr/wrong", wrong_opcodes, 60 })
