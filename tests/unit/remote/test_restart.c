/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/req_rig.c tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c tests/rig/fakes/fake_pvm.c */
/*
 * test_restart.c - a peer's router is killed and started again while requests are under way. The
 * new router knows the container, at the same epoch, but not its QPs. The requester has to give up in
 * time, whatever news the directory has meanwhile and whatever else the new router sends.
 */
#include "tests/rig/unit/req_rig.h"
#include "tests/rig/unit/unit.h"

#define SEEDS	  150u
#define RETRY_CNT 7u
/* InfiniBand allows one to four times the time-out for each try (IBTA 9.7.6.1.3). */
#define LIMIT ((RETRY_CNT + 1) * 4 * QP_TIMEOUT)

static unsigned int seed; /* of the run, for rand_r() */

static uint32_t below(uint32_t n)
{
	return (uint32_t)rand_r(&seed) % n;
}

static enum map_answer any_map(void)
{
	static const enum map_answer map[] = { MAP_OK, MAP_WAIT, MAP_REFUSED };

	return map[below(3)];
}

/* A few messages of any kind, some of which are under way, and may wait for anything. */
static void traffic(void)
{
	static const struct {
		uint8_t op;
		uint32_t len;
	} any[] = { { FF_OP_READ, 1u << 20 }, { FF_OP_READ, 8 },  { FF_OP_WRITE, 8 },
		    { FF_OP_WRITE, 300000 },  { FF_OP_WRITE, 0 }, { FF_OP_SEND, 100 } };
	uint32_t n = 1 + below(12);

	req.h[0].qp->qp.attr.retry_cnt = RETRY_CNT;
	req.h[0].qp->qp.attr.max_rd_atomic = 1 + below(4);
	req.h[0].o.map = below(4) ? MAP_OK : any_map();
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = below(sizeof(any) / sizeof(any[0]));

		if (any[k].op == FF_OP_SEND && below(4))
			hosts_recv(&req, i, 0, 100);
		if (any[k].op == FF_OP_SEND)
			hosts_send(&req, i, 0, any[k].len);
		else
			hosts_rdma(&req, any[k].op, i, 0, 0, any[k].len);
	}
	for (uint32_t turns = below(8); turns; turns--)
		hosts_turn(&req);
}

static void tell(bool up)
{
	req.h[0].other.up = up;
	remote_changed(req_fast, &req.h[0].remote);
}

/* The old router goes; the directory learns that before, after, or not at all. */
static void killed(void)
{
	uint32_t told = below(3);

	if (told == 0)
		tell(false);
	hosts_cut(&req);
	rig_qp_free(&req.h[1].r, req.h[1].qp);
	req.h[1].qp = NULL;
	if (told == 1)
		tell(false);
}

static void back(void)
{
	bool first = below(2);

	if (first)
		tell(true);
	hosts_connect(&req);
	if (!first)
		tell(true);
}

static void run_once(void)
{
	struct qp *qp = &req.h[0].qp->qp;
	uint64_t end = req_fast->now + LIMIT, is_back = req_fast->now, news = 1 + below(40);
	bool talks = below(2), up = false;

	killed();
	is_back += below(3) * below(1000) * NS_PER_MS / 2;
	while (req_fast->now < end && qp->state == IBV_QPS_RTS) {
		const struct wire_hdr pong = { .type = WIRE_PONG };

		if (!up && req_fast->now >= is_back) {
			back();
			up = true;
		}
		if (up && talks)
			wire_send(req.h[1].r.f, &req.h[1].other, &pong, NULL);
		req.h[0].o.map = any_map();
		if (!below((uint32_t)news))
			remote_changed(req_fast, &req.h[0].remote);
		hosts_advance(&req, (1 + below(5000)) * NS_PER_US);
	}
}

/* Whatever was under way ends. */
static void ends_in_time(void **state)
{
	uint32_t failed = 0;

	(void)state;
	for (uint32_t i = 1; i <= SEEDS; i++) {
		seed = i;
		req_setup(NULL);
		traffic();
		if (req_qp->tx.una != req_qp->tx.tail) {
			run_once();
			if (req.h[0].qp->qp.state == IBV_QPS_RTS &&
			    req_qp->tx.una != req_qp->tx.tail) {
				print_message(
					"seed %u: phase %s, una %u nxt %u tail %u retry_left %u\n",
					i, remote_phase_str(req_qp->tx.phase), req_qp->tx.una,
					req_qp->tx.nxt, req_qp->tx.tail, req_qp->tx.retry_left);
				failed++;
			}
		}
		req_teardown(NULL);
	}
	assert_int_equal(failed, 0);
}

/*
 * The directory says that the host is down, because one of the two has lost the orchestrator: what the wire does is what
 * counts. The requester sends everything again by the next connection.
 */
static void only_the_wire_tells(void **state)
{
	(void)state;
	req_writes_sent(2); /* and are lost */
	tell(false);
	hosts_cut(&req);
	hosts_connect(&req);
	hosts_run(&req);
	req_done(0, 1);
	hosts_rdma(&req, FF_OP_WRITE, 2, 0, 0, 8);
	hosts_run(&req);
	req_done(2, 2);
	tell(true);
	hosts_run(&req);
	hosts_expect_none(&req, 0);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(ends_in_time), REQ_TEST(only_the_wire_tells));
}
