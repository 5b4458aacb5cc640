/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ctl_calls.c - see ctl_calls.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/rig/unit/ctl_calls.h"

struct ctl_rig call_rig;

int call_setup(void **state)
{
	(void)state;
	rig_open(&call_rig);
	return 0;
}

int call_teardown(void **state)
{
	(void)state;
	rig_close(&call_rig);
	return 0;
}

int call_client(struct ctl_rig *g, int container)
{
	int sock = rig_connect(g, container);

	assert_int_equal(rig_hello(g, sock), 0);
	return sock;
}

uint32_t call_pd(struct ctl_rig *g, int sock)
{
	struct ff_alloc_pd_req req = { 0 };
	struct ff_alloc_pd_resp resp;

	assert_int_equal(RIG_CALL(g, sock, ALLOC_PD, &req, &resp), 0);
	assert_int_not_equal(resp.pd, 0);
	return resp.pd;
}

int call_create_cq(struct ctl_rig *g, int sock, uint32_t cqe, uint32_t channel,
		   struct ff_create_cq_resp *resp)
{
	struct ff_create_cq_req req = { .cqe = cqe, .channel = channel };

	return RIG_CALL(g, sock, CREATE_CQ, &req, resp);
}

uint32_t call_cq(struct ctl_rig *g, int sock)
{
	struct ff_create_cq_resp resp;

	assert_int_equal(call_create_cq(g, sock, 10, 0, &resp), 0);
	return resp.cq;
}

struct ff_create_qp_req call_qp_req(uint32_t pd, uint32_t cq, uint32_t type)
{
	return (struct ff_create_qp_req){
		.pd = pd,
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.cap = { 100, 10, 3, 1, 100 },
	};
}

uint32_t call_qp(struct ctl_rig *g, int sock, uint32_t pd, uint32_t cq)
{
	struct ff_create_qp_req req = call_qp_req(pd, cq, IBV_QPT_RC);
	struct ff_create_qp_resp resp;

	assert_int_equal(RIG_CALL(g, sock, CREATE_QP, &req, &resp), 0);
	return resp.qp;
}

int call_reg_mr(struct ctl_rig *g, int sock, uint32_t pd, void *addr, uint64_t len, uint32_t access,
		struct ff_reg_mr_resp *resp)
{
	struct ff_reg_mr_req req = { (uintptr_t)addr, len, (uintptr_t)addr, pd, access };

	return RIG_CALL(g, sock, REG_MR, &req, resp);
}

/* Calls whose request is one handle, and zeros. */
int call_one(struct ctl_rig *g, int sock, uint16_t type, uint32_t handle)
{
	uint32_t req[16] = { handle }, resp;

	return rig_call(g, sock, type, req, ctl_type(type)->req_size, NULL, 0, 0, &resp,
			sizeof(resp), NULL, NULL);
}
