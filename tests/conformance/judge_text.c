/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* judge_text.c - see judge.h: names, completions and events as words, QPs in a state. */
#include "tests/conformance/judge.h"

#include <stdio.h>
#include <unistd.h>

const enum ibv_qp_state j_states[6] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
					IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR };
const enum ibv_qp_type j_types[3] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

const char *j_errno(int err)
{
	static char number[16];
	const char *name = err ? strerrorname_np(err) : "0";

	if (name)
		return name;
	snprintf(number, sizeof(number), "E%d", err);
	return number;
}

/* `names`, or the number where there is none. */
static const char *word(const char *const *names, size_t num, unsigned i)
{
	static char text[4][16];
	static unsigned next;

	if (i < num && names[i])
		return names[i];
	next = (next + 1) % ARRAY_SIZE(text);
	snprintf(text[next], sizeof(text[next]), "%u", i);
	return text[next];
}
#define WORD(names, i) word(names, ARRAY_SIZE(names), (unsigned)(i))

const char *j_qp_type(enum ibv_qp_type t)
{
	static const char *const names[] = { [IBV_QPT_RC] = "RC",
					     [IBV_QPT_UC] = "UC",
					     [IBV_QPT_UD] = "UD",
					     [IBV_QPT_RAW_PACKET] = "RAW",
					     [IBV_QPT_XRC_SEND] = "XRC_SEND",
					     [IBV_QPT_XRC_RECV] = "XRC_RECV",
					     [IBV_QPT_DRIVER] = "DRIVER" };

	return WORD(names, t);
}

const char *j_qp_state(enum ibv_qp_state s)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return WORD(names, s);
}

const char *j_wr_opcode(enum ibv_wr_opcode op)
{
	static const char *const names[] = {
		"WRITE", "WRITE_IMM", "SEND",	      "SEND_IMM",    "READ",
		"CAS",	 "FAA",	      "LOCAL_INV",    "BIND_MW",     "SEND_INV",
		"TSO",	 "DRIVER1",   [14] = "FLUSH", "ATOMIC_WRITE"
	};

	return WORD(names, op);
}

const char *j_wc_status(enum ibv_wc_status s)
{
	static const char *const names[] = {
		"SUCCESS",	    "LOC_LEN_ERR",	 "LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
		"LOC_PROT_ERR",	    "WR_FLUSH_ERR",	 "MW_BIND_ERR",	      "BAD_RESP_ERR",
		"LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",	 "REM_ACCESS_ERR",    "REM_OP_ERR",
		"RETRY_EXC_ERR",    "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
		"REM_ABORT_ERR",    "INV_EECN_ERR",	 "INV_EEC_STATE_ERR", "FATAL_ERR",
		"RESP_TIMEOUT_ERR", "GENERAL_ERR",
	};

	return WORD(names, s);
}

static void say_wc(const struct ibv_wc *wc)
{
	static const char *const names[] = { "SEND",	  "WRITE",	  "READ",
					     "CAS",	  "FAA",	  "BIND_MW",
					     "LOCAL_INV", [128] = "RECV", "RECV_IMM" };

	if (wc->status != IBV_WC_SUCCESS) {
		j_say("wr%llu:%s", (unsigned long long)wc->wr_id, j_wc_status(wc->status));
		return;
	}
	j_say("wr%llu:%s", (unsigned long long)wc->wr_id, WORD(names, wc->opcode));
	if (wc->opcode & IBV_WC_RECV || wc->opcode == IBV_WC_RDMA_READ)
		j_say("len=%u", wc->byte_len);
	if (wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM)
		j_say("imm=%x", be32toh(wc->imm_data));
	if (wc->wc_flags & IBV_WC_WITH_INV)
		j_say("inv");
}

void j_wcs(struct ibv_cq *cq, unsigned num, unsigned ms)
{
	uint64_t quiet = ms * 1000000ull * vt_slow(), until = vt_now() + quiet;
	struct ibv_wc wc;
	int n;

	while (num && vt_now() < until) {
		n = ibv_poll_cq(cq, 1, &wc);
		if (n < 0) {
			j_say("poll failed");
			return;
		}
		if (!n) {
			vt_pause();
			continue;
		}
		say_wc(&wc);
		num--;
		until = vt_now() + quiet;
	}
	if (num)
		j_say("no more");
}

void j_async(struct ibv_context *ctx, bool wait)
{
	static const char *const names[] = {
		"CQ_ERR",
		"QP_FATAL",
		"QP_REQ_ERR",
		"QP_ACCESS_ERR",
		"COMM_EST",
		"SQ_DRAINED",
		"PATH_MIG",
		"PATH_MIG_ERR",
		"DEVICE_FATAL",
		"PORT_ACTIVE",
		"PORT_ERR",
		"LID_CHANGE",
		"PKEY_CHANGE",
		"SM_CHANGE",
		"SRQ_ERR",
		"SRQ_LIMIT_REACHED",
		"QP_LAST_WQE_REACHED",
		"CLIENT_REREGISTER",
		"GID_CHANGE",
		"WQ_FATAL",
	};
	struct ibv_async_event ev;

	while (vt_readable(ctx->async_fd, wait ? 100 * (int)vt_slow() : 0)) {
		if (ibv_get_async_event(ctx, &ev))
			break;
		j_say("event:%s", WORD(names, ev.event_type));
		ibv_ack_async_event(&ev);
	}
}

void j_bring(struct vt_end *e, enum ibv_qp_state to)
{
	struct ibv_wc wc;

	CHECK_OK(vt_to_state(e->qp, IBV_QPS_RESET));
	while (ibv_poll_cq(e->scq, 1, &wc) > 0 || ibv_poll_cq(e->rcq, 1, &wc) > 0)
		;
	if (to == IBV_QPS_RESET)
		return;
	CHECK_OK(vt_to_init(e->qp, &e->par));
	if (to == IBV_QPS_INIT)
		return;
	if (to != IBV_QPS_ERR) {
		CHECK_OK(vt_to_rtr(e->qp, &e->par, &e->peer));
		if (to == IBV_QPS_RTR)
			return;
		CHECK_OK(vt_to_rts(e->qp, &e->par, e->self.psn));
		if (to == IBV_QPS_RTS)
			return;
	}
	CHECK_OK(vt_to_state(e->qp, to));
}
