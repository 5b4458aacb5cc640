/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_conn.c - ffl/cm/conn.c: what a program may ask for when it connects. The test is the router.
 */
#include "ffl/cm/conn.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/unit/unit.h"

static struct ffl_context ctx;
static struct cm_session ses;
static struct cm_id id;
static unsigned calls, data_len; /* CM_CONNECT, and the private data of the last one */

int ffl_call(struct ffl_context *c, enum ff_msg_type type, const void *req, size_t req_len,
	     const void *tail, size_t tail_size, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned max_fds, unsigned *n_fds)
{
	(void)c, (void)req, (void)req_len, (void)tail, (void)resp, (void)resp_len;
	(void)fds, (void)max_fds, (void)n_fds;
	assert_int_equal(type, FF_MSG_CM_CONNECT);
	calls++;
	data_len = (unsigned)tail_size * n_tail;
	return 0;
}

int cm_complete(struct cm_id *i)
{
	(void)i;
	return 0;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOT_CALLED(type, name, ...)                                                                \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		abort();                                                                           \
	}
NOT_CALLED(int, cm_establish, struct cm_id *i)
NOT_CALLED(void, cm_event_drop, struct cm_id *i)
NOT_CALLED(int, cm_qp_accept, struct cm_id *i, struct ff_cm_accept_req *req, const void *data,
	   uint32_t len)
NOT_CALLED(int, cm_qp_error, struct cm_id *i)
NOT_CALLED(int, rdma_create_qp, struct rdma_cm_id *i, struct ibv_pd *pd,
	   struct ibv_qp_init_attr *attr)
NOT_CALLED(int, rdma_get_cm_event, struct rdma_event_channel *ch, struct rdma_cm_event **ev)

static int setup(void **state)
{
	(void)state;
	ses = (struct cm_session){ .ctx = &ctx,
				   .max_responder_resources = 4,
				   .max_initiator_depth = 3 };
	id = (struct cm_id){ .ses = &ses, .id = { .ps = RDMA_PS_TCP, .qp_type = IBV_QPT_RC } };
	calls = data_len = 0;
	return 0;
}

static int connect_with(struct rdma_conn_param p)
{
	return rdma_connect(&id.id, &p) ? errno : 0;
}

/* A connection has as many READs and atomics on their way as the device. */
static void resources_are_the_devices(void **state)
{
	(void)state;
	assert_int_equal(connect_with((struct rdma_conn_param){ .responder_resources = 4,
								.initiator_depth = 3 }),
			 0);
	assert_int_equal(connect_with((struct rdma_conn_param){ .responder_resources = 5 }),
			 EINVAL);
	assert_int_equal(connect_with((struct rdma_conn_param){ .initiator_depth = 4 }), EINVAL);
	assert_int_equal(calls, 1);
	assert_int_equal(
		connect_with((struct rdma_conn_param){ .responder_resources = RDMA_MAX_RESP_RES,
						       .initiator_depth = RDMA_MAX_INIT_DEPTH }),
		0);
	assert_int_equal(id.responder_resources, 4);
	assert_int_equal(id.initiator_depth, 3);
}

/* What rdma_create_ep() was given and the program's data have one buffer. */
static void data_of_two_sources_has_room(void **state)
{
	static uint8_t data[FF_CM_PD_MAX];
	struct rdma_conn_param p = { .private_data = data, .private_data_len = 57 };

	(void)state;
	id.connect_data = calloc(1, 200);
	id.connect_len = 200;
	assert_int_equal(connect_with(p), EINVAL);
	assert_int_equal(calls, 0);
	p.private_data_len = 56;
	assert_int_equal(connect_with(p), 0);
	assert_int_equal(data_len, 256);
	assert_null(id.connect_data);
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	return UNIT_RUN(T(resources_are_the_devices), T(data_of_two_sources_has_room));
}
