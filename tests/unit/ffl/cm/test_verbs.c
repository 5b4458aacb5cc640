/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_verbs.c - ffl/cm/verbs.c: the state in which an id's QP is while its connection is accepted.
 * The test is the router.
 */
#include "ffl/cm/verbs.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/unit/unit.h"

static struct ibv_context device, other_device;
static struct ffl_context ctx;
static struct cm_session ses;
static struct ffl_qp qp;
static struct cm_id id;
static int answer;
static uint32_t told_qp;       /* the one that the router is to move */
static enum ibv_qp_state seen; /* in which the QP was then */

int ffl_call(struct ffl_context *c, enum ff_msg_type type, const void *req, size_t req_len,
	     const void *tail, size_t tail_size, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned max_fds, unsigned *n_fds)
{
	struct ff_cm_accept_req accept = { 0 };

	(void)c, (void)tail, (void)tail_size, (void)n_tail, (void)resp;
	(void)resp_len, (void)fds, (void)max_fds, (void)n_fds;
	assert_int_equal(type, FF_MSG_CM_ACCEPT);
	assert_int_equal(req_len, sizeof(accept));
	memcpy(&accept, req, req_len);
	told_qp = accept.qp;
	seen = qp.qp.state;
	return answer;
}

enum ibv_qp_state ffl_qp_set_state(struct ffl_qp *q, enum ibv_qp_state state)
{
	enum ibv_qp_state old = q->qp.state;

	q->qp.state = state;
	return old;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOT_CALLED(type, name, ...)                                                                \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		abort();                                                                           \
	}
NOT_CALLED(struct ibv_xrcd *, cm_device_xrcd, struct cm_id *id)
NOT_CALLED(struct ibv_qp *, ffl_create_qp_by, struct ibv_context *c,
	   struct ibv_qp_init_attr_ex *attr, const struct ffl_qp_maker *by)
NOT_CALLED(void, ffl_qp_attr_from_ff, struct ibv_qp_attr *to, const struct ff_qp_attr *a)
NOT_CALLED(struct ibv_comp_channel *, ibv_create_comp_channel, struct ibv_context *c)
#undef ibv_create_cq
NOT_CALLED(struct ibv_cq *, ibv_create_cq, struct ibv_context *c, int cqe, void *context,
	   struct ibv_comp_channel *ch, int vector)
NOT_CALLED(struct ibv_srq *, ibv_create_srq, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
NOT_CALLED(int, ibv_destroy_comp_channel, struct ibv_comp_channel *ch)
NOT_CALLED(int, ibv_destroy_cq, struct ibv_cq *cq)
NOT_CALLED(int, ibv_destroy_qp, struct ibv_qp *q)
NOT_CALLED(int, ibv_destroy_srq, struct ibv_srq *srq)
NOT_CALLED(int, ibv_modify_qp, struct ibv_qp *q, struct ibv_qp_attr *attr, int mask)
NOT_CALLED(int, ibv_query_ece, struct ibv_qp *q, struct ibv_ece *ece)
NOT_CALLED(int, ibv_set_ece, struct ibv_qp *q, struct ibv_ece *ece)

static int setup(void **state)
{
	(void)state;
	ses = (struct cm_session){ .ctx = &ctx };
	qp = (struct ffl_qp){ .qp = { .context = &device,
				      .handle = 5,
				      .state = IBV_QPS_INIT,
				      .qp_type = IBV_QPT_RC } };
	id = (struct cm_id){ .ses = &ses, .id = { .verbs = &device, .qp = &qp.qp } };
	answer = 0;
	return 0;
}

static int accept_it(void)
{
	struct ff_cm_accept_req req = { 0 };

	return cm_qp_accept(&id, &req, NULL, 0);
}

/* The peer may send before the answer is here, and the program post: so the QP is ready before. */
static void an_accepted_qp_sends(void **state)
{
	(void)state;
	assert_int_equal(accept_it(), 0);
	assert_int_equal(told_qp, 5);
	assert_int_equal(seen, IBV_QPS_RTS);
	assert_int_equal(qp.qp.state, IBV_QPS_RTS);
}

static void a_refused_one_is_as_before(void **state)
{
	(void)state;
	answer = -EINVAL;
	assert_int_equal(accept_it(), -EINVAL);
	assert_int_equal(seen, IBV_QPS_RTS);
	assert_int_equal(qp.qp.state, IBV_QPS_INIT);
}

/* Its number is of the other device; the program moves it. */
static void another_devices_qp_is_left_alone(void **state)
{
	(void)state;
	qp.qp.context = &other_device;
	assert_int_equal(accept_it(), 0);
	assert_int_equal(told_qp, 0);
	assert_int_equal(qp.qp.state, IBV_QPS_INIT);
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	return UNIT_RUN(T(an_accepted_qp_sends), T(a_refused_one_is_as_before),
			T(another_devices_qp_is_left_alone));
}
