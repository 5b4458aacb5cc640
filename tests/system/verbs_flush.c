/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/halves.c tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_flush.c - FLUSH and atomic WRITE between two processes, by halves.h: data, a FLUSH, and then a word that
 * tells of them; words that are never torn; rights, windows, and how both end when they are not granted.
 *
 * rdma-core 44's header knows the atomic WRITE and not FLUSH; the numbers of FLUSH are the kernel's, and
 * ibv_wr_flush() is the pointer behind that of ibv_wr_atomic_write(), which later headers have there.
 *
 * The kernel's rxe, tried with Linux 7.3 and rdma-core 56 in a VM: flush_placed and flush_words pass, and each
 * of refusals[] ends with the same status, but that a FLUSH to a QP without responder resources got no
 * completion. It raises no events for them, claims FLUSH into persistence, and flush_window fails there.
 */
#include "tests/rig/verbs/halves.h"

#include <stdatomic.h>

#define MB (1024u * 1024u)

enum {
	ACCESS_FLUSH_GLOBAL = 1 << 8,
	ACCESS_FLUSH_PERSISTENT = 1 << 9,
	WC_FLUSH = 8,
	GLOBAL = 1,
	PERSISTENT = 2,
	RANGE = 0,
	WHOLE_MR = 1,
};
#define QP_EX_WITH_FLUSH (1u << 11)
#define OPS                                                                                        \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_WRITE |      \
	 QP_EX_WITH_FLUSH)

typedef void (*flush_fn)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len,
			 uint8_t type, uint8_t level);

static void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
		     uint8_t level)
{
	flush_fn fn;

	memcpy(&fn,
	       (char *)qp + offsetof(struct ibv_qp_ex, wr_atomic_write) +
		       sizeof(qp->wr_atomic_write),
	       sizeof(fn));
	fn(qp, rkey, addr, len, type, level);
}

static struct vt_param param(size_t len)
{
	struct vt_param par = VT_PARAM;

	par.len = len;
	par.access = VT_ACCESS_ALL | ACCESS_FLUSH_GLOBAL;
	par.qp_access = par.access;
	par.send_ops = OPS;
	return par;
}

static struct ibv_qp_ex *begin(struct vt_end *e, uint64_t id)
{
	struct ibv_qp_ex *qp = CHECK_PTR(ibv_qp_to_qp_ex(e->qp));

	ibv_wr_start(qp);
	qp->wr_id = id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

static void flush(struct vt_end *e, uint64_t id, uint64_t addr, size_t len, uint8_t type,
		  uint8_t level)
{
	struct ibv_qp_ex *qp = begin(e, id);

	wr_flush(qp, e->peer.rkey, addr, len, type, level);
	CHECK_OK(ibv_wr_complete(qp));
}

static void atomic_write(struct vt_end *e, uint64_t id, uint64_t addr, uint64_t value)
{
	struct ibv_qp_ex *qp = begin(e, id);

	ibv_wr_atomic_write(qp, e->peer.rkey, addr, &value);
	CHECK_OK(ibv_wr_complete(qp));
}

/* ---- what they are for --------------------------------------------------------------------------- */

#define ROUNDS	 100u
#define DATA_OFF 4096u
#define DATA_LEN (300000u + 7u)

static void placed_client(void)
{
	struct vt_param par = param(MB);
	struct vt_end e;

	halves_open(&e, &par);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		struct ibv_qp_ex *qp = begin(&e, 1);

		vt_pattern(e.buf, DATA_LEN, (uint32_t)i);
		ibv_wr_rdma_write(qp, e.peer.rkey, e.peer.addr + DATA_OFF);
		ibv_wr_set_sge(qp, e.mr->lkey, (uintptr_t)e.buf, DATA_LEN);
		qp->wr_id = 2;
		if (i % 2)
			wr_flush(qp, e.peer.rkey, e.peer.addr + DATA_OFF, DATA_LEN, GLOBAL, RANGE);
		else
			wr_flush(qp, e.peer.rkey, 0, 0, GLOBAL, WHOLE_MR);
		qp->wr_id = 3;
		ibv_wr_atomic_write(qp, e.peer.rkey, e.peer.addr + 64, &i);
		CHECK_OK(ibv_wr_complete(qp));
		CHECK_EQ(WANT_OK(e.scq, 1).opcode, IBV_WC_RDMA_WRITE);
		CHECK_EQ(WANT_OK(e.scq, 2).opcode, WC_FLUSH);
		CHECK_EQ(WANT_OK(e.scq, 3).opcode, IBV_WC_ATOMIC_WRITE);
		halves_meet('n');
	}
	/* nothing signalled but the last */
	for (uint64_t i = 0; i < 1000; i++) {
		struct ibv_qp_ex *qp = begin(&e, i);

		qp->wr_flags = i % 50 == 49 ? IBV_SEND_SIGNALED : 0;
		wr_flush(qp, e.peer.rkey, e.peer.addr, 8, GLOBAL, RANGE);
		CHECK_OK(ibv_wr_complete(qp));
		if (i % 50 == 49)
			WANT_OK(e.scq, i);
	}
	CHECK_EMPTY(e.scq);
	halves_meet('e');
	vt_end_close(&e);
}

static void placed_server(void)
{
	struct vt_param par = param(MB);
	struct vt_end e;

	halves_open(&e, &par);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		WAIT_FOR(atomic_load((_Atomic uint64_t *)(e.buf + 64)) == i);
		CHECK_PATTERN(e.buf + DATA_OFF, DATA_LEN, (uint32_t)i);
		CHECK_EMPTY(e.rcq);
		halves_meet('n');
	}
	halves_meet('e');
	vt_end_close(&e);
}

/* Both halves of the word are one number, at whatever moment it is looked at. */
#define WORDS 20000u

static void words_client(void)
{
	struct vt_param par = param(4096);
	struct vt_end e;

	halves_open(&e, &par);
	for (uint64_t i = 1; i <= WORDS / vt_slow(); i++) {
		struct ibv_qp_ex *qp = begin(&e, i);
		uint64_t value = i << 32 | i;

		qp->wr_flags = i % 32 ? 0 : IBV_SEND_SIGNALED;
		ibv_wr_atomic_write(qp, e.peer.rkey, e.peer.addr + 8, &value);
		CHECK_OK(ibv_wr_complete(qp));
		if (i % 32 == 0)
			WANT_OK(e.scq, i);
	}
	halves_meet('e');
	vt_end_close(&e);
}

static void words_server(void)
{
	struct vt_param par = param(4096);
	uint64_t last = 0, now = 0;
	struct vt_end e;

	halves_open(&e, &par);
	while (now >> 32 < WORDS / vt_slow()) {
		uint64_t deadline = vt_deadline();

		while ((now = atomic_load((_Atomic uint64_t *)(e.buf + 8))) == last)
			if (vt_now() > deadline)
				FAIL("no more than %llu come", (unsigned long long)(last >> 32));
		if (now >> 32 != (uint32_t)now || now < last)
			FAIL("%llx after %llx", (unsigned long long)now, (unsigned long long)last);
		last = now;
	}
	CHECK(vt_all(e.buf, 8, 0) && vt_all(e.buf + 16, 4080, 0));
	halves_meet('e');
	vt_end_close(&e);
}

/* ---- rights ----------------------------------------------------------------------------------------- */

struct refusal {
	const char *what;
	int mr_less, qp_less; /* rights that the serving half does not give */
	bool flush, no_resources, bad_key;
	uint8_t type, level;
	uint64_t off;
	size_t len;
	enum ibv_wc_status want;
	enum ibv_event_type event; /* there, unless it is well */
};

static const struct refusal refusals[] = {
	{ "range", .flush = true, .type = GLOBAL, .off = 100, .len = 3996 },
	{ "nothing", .flush = true, .type = GLOBAL, .off = 4096 },
	{ "whole", .flush = true, .type = GLOBAL, .level = WHOLE_MR, .off = 1u << 30, .len = 77 },
	{ "flush-mr", ACCESS_FLUSH_GLOBAL, .flush = true, .type = GLOBAL, .len = 8,
	  .want = IBV_WC_REM_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR },
	{ "flush-qp", 0, ACCESS_FLUSH_GLOBAL, .flush = true, .type = GLOBAL, .len = 8,
	  .want = IBV_WC_REM_INV_REQ_ERR, .event = IBV_EVENT_QP_REQ_ERR },
	{ "flush-resources", .no_resources = true, .flush = true, .type = GLOBAL, .len = 8,
	  .want = IBV_WC_REM_INV_REQ_ERR, .event = IBV_EVENT_QP_REQ_ERR },
	{ "flush-beyond", .flush = true, .type = GLOBAL, .off = 100, .len = 3997,
	  .want = IBV_WC_REM_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR },
	{ "flush-key", .bad_key = true, .flush = true, .type = GLOBAL, .len = 8,
	  .want = IBV_WC_REM_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR },
	{ "flush-whole-key", .bad_key = true, .flush = true, .type = GLOBAL, .level = WHOLE_MR,
	  .want = IBV_WC_REM_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR },
	{ "flush-persistent", .flush = true, .type = PERSISTENT, .len = 8,
	  .want = IBV_WC_REM_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR },
	{ "word", .off = 8 },
	{ "word-no-atomics", IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC, .off = 8 },
	{ "word-mr", IBV_ACCESS_REMOTE_WRITE, .off = 8, .want = IBV_WC_REM_ACCESS_ERR,
	  .event = IBV_EVENT_QP_ACCESS_ERR },
	{ "word-qp", 0, IBV_ACCESS_REMOTE_WRITE, .off = 8, .want = IBV_WC_REM_INV_REQ_ERR,
	  .event = IBV_EVENT_QP_REQ_ERR },
	{ "word-resources", .no_resources = true, .off = 8, .want = IBV_WC_REM_INV_REQ_ERR,
	  .event = IBV_EVENT_QP_REQ_ERR },
	{ "word-odd", .off = 12, .want = IBV_WC_REM_INV_REQ_ERR, .event = IBV_EVENT_QP_REQ_ERR },
	{ "word-beyond", .off = 4096, .want = IBV_WC_REM_ACCESS_ERR,
	  .event = IBV_EVENT_QP_ACCESS_ERR },
	{ "word-key", .bad_key = true, .off = 8, .want = IBV_WC_REM_ACCESS_ERR,
	  .event = IBV_EVENT_QP_ACCESS_ERR },
};

static void rights_client(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(refusals); i++) {
		const struct refusal *r = &refusals[i];
		struct vt_param par = param(4096);
		struct ibv_wc wc;
		struct vt_end e;

		halves_open(&e, &par);
		if (r->bad_key)
			e.peer.rkey ^= 0x5a00;
		if (r->flush)
			flush(&e, 1, e.peer.addr + r->off, r->len, r->type, r->level);
		else
			atomic_write(&e, 1, e.peer.addr + r->off, 99);
		wc = vt_wc(e.scq);
		if (wc.wr_id != 1 || wc.status != r->want)
			FAIL("%s: %s", r->what, ibv_wc_status_str(wc.status));
		CHECK_EQ(vt_state(e.qp), r->want ? IBV_QPS_ERR : IBV_QPS_RTS);
		halves_meet('x');
		vt_end_close(&e);
	}
}

static void rights_server(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(refusals); i++) {
		const struct refusal *r = &refusals[i];
		struct vt_param par = param(4096);
		struct vt_end e;
		uint64_t word;

		par.access &= ~r->mr_less;
		par.qp_access |= ACCESS_FLUSH_PERSISTENT; /* the MR has it never */
		par.qp_access &= ~r->qp_less;
		if (r->no_resources)
			par.dest_rd_atomic = 0;
		halves_open(&e, &par);
		if (r->want)
			WANT_QP_EVENT(&e, r->event);
		halves_meet('x');
		memcpy(&word, e.buf + 8, 8);
		if (word != (r->flush || r->want ? 0 : 99))
			FAIL("%s: %llu", r->what, (unsigned long long)word);
		vt_end_close(&e);
	}
}

static void window_server(void)
{
	struct vt_param par = param(2 * MB);
	struct ibv_mw *mw;
	uint32_t rkey;
	struct vt_end e;

	par.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
	halves_open(&e, &par);
	mw = CHECK_PTR(ibv_alloc_mw(e.pd, IBV_MW_TYPE_2));
	rkey = mw->rkey;
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_qp_ex *qp = begin(&e, 1);
		struct ibv_mw_bind_info info = { e.mr, (uintptr_t)e.buf + 4096, 8192,
						 IBV_ACCESS_REMOTE_WRITE |
							 (i ? 0u : (unsigned)ACCESS_FLUSH_GLOBAL) };

		if (i) {
			ibv_wr_local_inv(qp, rkey);
			qp->wr_flags |= IBV_SEND_FENCE;
		}
		rkey = ibv_inc_rkey(rkey); /* of its lowest byte only */
		ibv_wr_bind_mw(qp, mw, rkey, &info);
		CHECK_OK(ibv_wr_complete(qp));
		WANT_OK(e.scq, 1);
		if (i)
			WANT_OK(e.scq, 1);
		halves_put(halves_sock, &rkey, sizeof(rkey));
		halves_meet('w');
		CHECK_PATTERN(e.buf + 4096 + 8, 8184, i);
	}
	WANT_QP_EVENT(&e, IBV_EVENT_QP_ACCESS_ERR);
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_end_close(&e);
}

static void window_client(void)
{
	struct vt_param par = param(2 * MB);
	struct vt_end e;

	halves_open(&e, &par);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(halves_get(halves_sock, &e.peer.rkey, sizeof(e.peer.rkey)));
		vt_pattern(e.buf, 8184, i);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, 8184, 4096 + 8, 0);
		atomic_write(&e, 2, e.peer.addr + 4096, 5);
		WANT_OK(e.scq, 2);
		if (!i) {
			flush(&e, 3, e.peer.addr + 4096, 8192, GLOBAL, RANGE);
			WANT_OK(e.scq, 3);
			flush(&e, 4, 0, 0, GLOBAL, WHOLE_MR);
			WANT_OK(e.scq, 4);
		}
		halves_meet('w');
	}
	flush(&e, 5, e.peer.addr + 4096, 8, GLOBAL, RANGE); /* this one does not allow it */
	WANT(e.scq, 5, IBV_WC_REM_ACCESS_ERR);
	vt_end_close(&e);
}

/* ---- what is refused at once -------------------------------------------------------------------------- */

static void at_once(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD };
	static const uint64_t ops[] = { QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_ATOMIC_WRITE };
	struct vt_param par = param(4096);
	struct ibv_device_attr_ex dev;
	struct ibv_qp_init_attr_ex init;
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = 14, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_qp_ex *qp;
	struct ibv_sge sge;
	struct vt_end e;

	halves_open(&e, &par);
	CHECK_OK(ibv_query_device_ex(e.ctx, NULL, &dev));
	CHECK_EQ(dev.device_cap_flags_ex >> 38, 1 | 1 << 2); /* FLUSH_GLOBAL, ATOMIC_WRITE */
	CHECK_NULL(ibv_reg_mr(e.pd, e.buf, 4096, par.access | ACCESS_FLUSH_PERSISTENT), EOPNOTSUPP);
	for (unsigned i = 0; i < 4; i++) {
		init = (struct ibv_qp_init_attr_ex){
			.send_cq = e.scq,
			.recv_cq = e.rcq,
			.cap = { 1, 1, 1, 1, 0 },
			.qp_type = types[i / 2],
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.pd = e.pd,
			.send_ops_flags = ops[i % 2],
		};
		CHECK_NULL(ibv_create_qp_ex(e.ctx, &init), EOPNOTSUPP);
	}
	CHECK_ERR(vt_post(&e, &wr), EOPNOTSUPP); /* the WR has no place for what it asks */
	for (unsigned i = 0; i < 3; i++) {
		qp = begin(&e, 1);
		wr_flush(qp, e.peer.rkey, e.peer.addr, i == 2 ? SIZE_MAX : 8, i ? GLOBAL : 0,
			 i == 1 ? 2 : RANGE);
		CHECK_ERR(ibv_wr_complete(qp), EINVAL);
	}
	CHECK_EMPTY(e.scq);
	/* ibv_post_send() takes the word from wherever it is, at once */
	vt_pattern(e.buf, 8, 1);
	sge = vt_sge(&e, 0, 8);
	wr.opcode = IBV_WR_ATOMIC_WRITE;
	wr.wr.rdma.remote_addr = e.peer.addr + 16;
	wr.wr.rdma.rkey = e.peer.rkey;
	CHECK_ERR(vt_post(&e, &wr), EINVAL);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	CHECK_OK(vt_post(&e, &wr));
	memset(e.buf, 0, 8);
	CHECK_EQ(WANT_OK(e.scq, 7).opcode, IBV_WC_ATOMIC_WRITE);
	halves_meet('p');
	vt_end_close(&e);
}

static void at_once_server(void)
{
	struct vt_param par = param(4096);
	struct vt_end e;

	halves_open(&e, &par);
	halves_meet('p');
	CHECK_PATTERN(e.buf + 16, 8, 1);
	vt_end_close(&e);
}

HALVES_MAIN({ "flush_placed", placed_client, placed_server },
	    { "flush_words", words_client, words_server },
	    { "flush_rights", rights_client, rights_server },
	    { "flush_window", window_client, window_server },
	    { "flush_at_once", at_once, at_once_server })
