/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* req_rig.c - see req_rig.h. */
#include "tests/rig/unit/req_rig.h"

#include "tests/rig/fakes/fake_pvm.h"

struct hosts req;
struct fast *req_fast;
struct remote_qp *req_qp;

static void up(enum ibv_qp_type type)
{
	fake_pvm = (struct fake_pvm){ 0 };
	hosts_up(&req, type);
	req_fast = req.h[0].r.f;
	req_qp = req.h[0].qp->qp.soft->rem;
	req.h[0].qp->qp.attr.max_rd_atomic = 2;
}

int req_setup(void **state)
{
	(void)state;
	rig_depth = 256;
	up(IBV_QPT_RC);
	return 0;
}

int req_setup_uc(void **state)
{
	(void)state;
	up(IBV_QPT_UC);
	return 0;
}

int req_teardown(void **state)
{
	(void)state;
	hosts_down(&req);
	rig_depth = 16;
	return 0;
}

/* ---- what is done by hand ----------------------------------------------------------------------------- */

/* What was posted is taken over; no frame leaves. */
void req_take(void)
{
	while (turns_serve(req_fast))
		;
}

/* The next frame has that number and those flags; what of it is new. */
struct frame req_next(uint32_t msn, uint8_t flags)
{
	struct frame fr = { 0 };

	assert_int_equal(request_next(req_fast, req_qp, &fr), NEXT_FRAME);
	assert_int_equal(fr.h.msn, msn);
	assert_int_equal(fr.h.flags, flags);
	assert_int_equal(fr.h.tag, req_qp->tx.tag);
	assert_int_equal(fr.h.dst_qpn, req.h[1].qp->qp.qp_num);
	return fr;
}

void req_no_next(void)
{
	struct frame fr = { 0 };

	assert_int_equal(request_next(req_fast, req_qp, &fr), NEXT_NONE);
}

/* n WRITEs, numbered from 0, that have left. */
void req_writes_sent(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		hosts_rdma(&req, FF_OP_WRITE, i, 0, 0, 8);
	req_take();
	for (uint32_t i = 0; i < n; i++)
		req_next(i, WIRE_LAST);
	req_no_next();
}

void req_nak(uint32_t msn, enum wire_nak code)
{
	req_nak_at(msn, 0, code);
}

void req_nak_at(uint32_t msn, uint64_t offset, enum wire_nak code)
{
	struct wire_hdr h = {
		.type = WIRE_NAK, .code = (uint8_t)code, .msn = msn, .offset = offset
	};

	if (code == NAK_RNR)
		h.nak.rnr_timer = RNR_FIELD;
	request_nak(req_fast, req_qp, &h);
}

/* Time goes by for this host; only its timers run. */
void req_later(uint64_t ns)
{
	req_fast->now += ns;
	timer_run(&req_fast->timers, req_fast->now, 100);
}

void req_in_phase(enum remote_phase want)
{
	assert_string_equal(remote_phase_str(req_qp->tx.phase), remote_phase_str(want));
}

/* WRs first to last have ended well, and no other. */
void req_done(uint64_t first, uint64_t last)
{
	for (; first <= last; first++)
		hosts_expect(&req, 0, first, IBV_WC_SUCCESS);
	hosts_expect_none(&req, 0);
}

/* The first ends so, those behind it are flushed. */
void req_failed(uint64_t first, uint64_t last, enum ibv_wc_status st)
{
	hosts_expect(&req, 0, first++, st);
	for (; first <= last; first++)
		hosts_expect(&req, 0, first, IBV_WC_WR_FLUSH_ERR);
	hosts_expect_none(&req, 0);
	assert_int_equal(req.h[0].qp->qp.state, IBV_QPS_ERR);
	assert_int_equal(req_qp->tx.una, req_qp->tx.tail);
	req_no_next();
}
