/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_one_thread.c - control calls about MRs, CQs, windows and the like of one container leave fast threads alone that do
 * not serve the container: their locks are not taken (ffr/ctl/verbs.c, mr.c, cq.c, mw.c, dm.c, import.c).
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include "tests/rig/unit/ctl_calls.h"
#include "tests/rig/unit/unit.h"

#define CQE    64u
#define MANY   5000u /* MRs: the table of keys becomes a larger one several times */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)

static struct ctl_rig *const g = &call_rig;
static struct fast *served, *other;
static uint64_t served_before, other_before;
static int sock;
static uint32_t pd, cq;
static char memory[4096];

static void look(void)
{
	served_before = served->taken;
	other_before = other->taken;
}

/* The call took the lock of the container's thread, and no other. */
static void has_left_the_other_alone(void)
{
	assert_true(served->taken > served_before);
	assert_int_equal(other->taken, other_before);
	look();
}

static int setup(void **state)
{
	static const struct fast_conf conf = FAST_CONF_DEFAULT;

	call_setup(state);
	g->ctl.dev.max_dm_size = 64 * FF_PAGE;
	assert_int_equal(fast_add_thread(g->ctl.host, &conf), 0);
	served = g->c[0]->fast;
	other = g->ctl.host->threads[1];
	assert_ptr_not_equal(served, other);
	sock = call_client(g, 0);
	pd = call_pd(g, sock);
	cq = call_cq(g, sock);
	look();
	return 0;
}

static int teardown(void **state)
{
	close(sock);
	return call_teardown(state);
}

static uint32_t reg(void)
{
	struct ff_reg_mr_resp r;

	assert_int_equal(call_reg_mr(g, sock, pd, memory, sizeof(memory), ACCESS, &r), 0);
	return r.mr;
}

static void domains_and_channels(void **state)
{
	struct ff_create_channel_req req = { 0 };
	struct ff_create_channel_resp resp;
	uint32_t another = call_pd(g, sock);

	(void)state;
	has_left_the_other_alone();
	assert_int_equal(call_one(g, sock, FF_MSG_DEALLOC_PD, another), 0);
	has_left_the_other_alone();
	assert_int_equal(RIG_CALL(g, sock, CREATE_CHANNEL, &req, &resp), 0);
	has_left_the_other_alone();
	assert_int_equal(call_one(g, sock, FF_MSG_DESTROY_CHANNEL, resp.channel), 0);
	has_left_the_other_alone();
}

static void completion_queues(void **state)
{
	struct ff_create_cq_resp made;
	struct ff_modify_cq_req moderate = { .count = 2, .period = 10 };
	struct ff_modify_cq_resp moderated;
	struct ff_resize_cq_req larger = { .cqe = 2 * CQE };
	struct ff_resize_cq_resp resized;

	(void)state;
	assert_int_equal(call_create_cq(g, sock, CQE, 0, &made), 0);
	has_left_the_other_alone();
	moderate.cq = larger.cq = made.cq;
	assert_int_equal(RIG_CALL(g, sock, MODIFY_CQ, &moderate, &moderated), 0);
	has_left_the_other_alone();
	assert_int_equal(RIG_CALL(g, sock, RESIZE_CQ, &larger, &resized), 0);
	has_left_the_other_alone();
	assert_int_equal(call_one(g, sock, FF_MSG_DESTROY_CQ, made.cq), 0);
	has_left_the_other_alone();
}

static void shared_receive_queues(void **state)
{
	struct ff_create_srq_req req = { .pd = pd, .max_wr = 16, .max_sge = 1 };
	struct ff_create_srq_resp made;
	struct ff_modify_srq_req limit = { .mask = IBV_SRQ_LIMIT, .srq_limit = 4 };
	struct ff_modify_srq_resp limited;
	struct ff_query_srq_req ask = { 0 };
	struct ff_query_srq_resp answer;

	(void)state;
	assert_int_equal(RIG_CALL(g, sock, CREATE_SRQ, &req, &made), 0);
	has_left_the_other_alone();
	limit.srq = ask.srq = made.srq;
	assert_int_equal(RIG_CALL(g, sock, MODIFY_SRQ, &limit, &limited), 0);
	has_left_the_other_alone();
	assert_int_equal(RIG_CALL(g, sock, QUERY_SRQ, &ask, &answer), 0);
	has_left_the_other_alone();
	assert_int_equal(call_one(g, sock, FF_MSG_DESTROY_SRQ, made.srq), 0);
	has_left_the_other_alone();
}

static void memory_regions(void **state)
{
	struct ff_rereg_mr_req req = { .flags = IBV_REREG_MR_CHANGE_ACCESS };
	struct ff_rereg_mr_resp resp;
	struct ff_alloc_dm_req dm = { .length = 4096 };
	struct ff_alloc_dm_resp dm_made;
	uint32_t mr = reg();

	(void)state;
	has_left_the_other_alone();
	req.mr = mr;
	assert_int_equal(RIG_CALL(g, sock, REREG_MR, &req, &resp), 0);
	has_left_the_other_alone();
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, mr), 0);
	has_left_the_other_alone();
	assert_int_equal(RIG_CALL(g, sock, ALLOC_DM, &dm, &dm_made), 0);
	has_left_the_other_alone();
	assert_int_equal(call_one(g, sock, FF_MSG_FREE_DM, dm_made.dm), 0);
	has_left_the_other_alone();
}

static void so_many_keys_that_their_table_grows(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < MANY; i++)
		reg();
	has_left_the_other_alone();
}

static void memory_windows(void **state)
{
	struct ff_alloc_mw_req req = { .pd = pd, .type = IBV_MW_TYPE_2 };
	struct ff_alloc_mw_resp made;

	(void)state;
	assert_int_equal(RIG_CALL(g, sock, ALLOC_MW, &req, &made), 0);
	has_left_the_other_alone();
	assert_int_equal(call_one(g, sock, FF_MSG_DEALLOC_MW, made.mw), 0);
	has_left_the_other_alone();
}

/* A QP's number is in a table of the host's, which runners of all threads read. What the QP is is its own thread's. */
static void a_queue_pair_needs_all_only_to_come_and_go(void **state)
{
	struct ff_query_qp_req ask = { 0 };
	struct ff_query_qp_resp answer;

	(void)state;
	ask.qp = call_qp(g, sock, pd, cq);
	assert_true(other->taken > other_before);
	look();
	assert_int_equal(RIG_CALL(g, sock, QUERY_QP, &ask, &answer), 0);
	has_left_the_other_alone();
	assert_int_equal(call_one(g, sock, FF_MSG_DESTROY_QP, ask.qp), 0);
	assert_true(other->taken > other_before);
}

/* The end of a session takes the locks of all when it enters and leaves lists, however much the session has. */
static void the_end_of_a_session_takes_the_others_once(void **state)
{
	uint64_t few, many;

	(void)state;
	close(sock);
	rig_pump(g);
	few = other->taken - other_before;
	sock = call_client(g, 0);
	pd = call_pd(g, sock);
	for (uint32_t i = 0; i < MANY; i++)
		reg();
	look();
	close(sock);
	while (!LIST_EMPTY(&g->c[0]->sessions))
		rig_pump(g);
	many = other->taken - other_before;
	assert_true(few > 0);
	assert_int_equal(few, many);
	sock = call_client(g, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	return UNIT_RUN(T(domains_and_channels), T(completion_queues), T(shared_receive_queues),
			T(memory_regions), T(so_many_keys_that_their_table_grows),
			T(memory_windows), T(a_queue_pair_needs_all_only_to_come_and_go),
			T(the_end_of_a_session_takes_the_others_once));
}
