/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_remote.c - QPs whose peer is on another host: what each operation does, in which order, and what
 * becomes of it when the connection of the two hosts ends. On virtual time. ACKs are in test_ack.c.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/two_hosts.h"
#include "tests/rig/unit/unit.h"

#define TIMEOUT (3 * (4096ull << 14)) /* of a try, with rig_connect()'s timeout */

static void fill(uint8_t *p, uint32_t n, uint32_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 8) + seed);
}

static void all_operations(void **state)
{
	struct hosts *t = *state;
	static const uint32_t len[] = { 0, 1, 8, 100, 4096, 65535, 65536, 65537, 300000, 1500000 };
	struct ff_cqe c;

	for (unsigned i = 0; i < ARRAY_SIZE(len); i++) {
		fill(t->h[0].buf + 3, len[i], i);
		memset(t->h[1].buf, 0xee, 2000000);
		hosts_rdma(t, FF_OP_WRITE, i, 3, 5, len[i]);
		hosts_run(t);
		hosts_expect(t, 0, i, IBV_WC_SUCCESS);
		assert_memory_equal(t->h[1].buf + 5, t->h[0].buf + 3, len[i]);
		assert_int_equal(t->h[1].buf[4], 0xee);
		assert_int_equal(t->h[1].buf[5 + len[i]], 0xee);
		memset(t->h[0].buf + 2000000, 0, 2000000);
		hosts_rdma(t, FF_OP_READ, 100 + i, 2000001, 5, len[i]);
		hosts_run(t);
		hosts_expect(t, 0, 100 + i, IBV_WC_SUCCESS);
		assert_memory_equal(t->h[0].buf + 2000001, t->h[1].buf + 5, len[i]);
		assert_int_equal(t->h[0].buf[2000001 + len[i]], 0);
		memset(t->h[1].buf, 0xee, 2000000);
		hosts_recv(t, 200 + i, 9, len[i] + 1);
		hosts_send(t, 300 + i, 3, len[i]);
		hosts_run(t);
		hosts_expect(t, 0, 300 + i, IBV_WC_SUCCESS);
		assert_true(rig_poll(t->h[1].cq, &c));
		assert_int_equal(c.wr_id, 200 + i);
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		assert_int_equal(c.byte_len, len[i]);
		assert_memory_equal(t->h[1].buf + 9, t->h[0].buf + 3, len[i]);
	}
	hosts_expect_none(t, 0);
	hosts_expect_none(t, 1);
}

static void atomics(void **state)
{
	struct hosts *t = *state;
	struct ff_sqe *e;
	uint64_t v;

	v = 40;
	memcpy(t->h[1].buf + 64, &v, 8);
	e = rig_sqe(t->h[0].qp, FF_OP_FETCH_ADD, 1);
	rig_sge(e, t->h[0].mr, hosts_at(t, 0, 8), 8);
	e->remote_addr = hosts_at(t, 1, 64);
	e->rkey = t->h[1].mr->rkey;
	e->atomic.compare_add = 2;
	rig_post(&t->h[0].r, t->h[0].qp);
	e = rig_sqe(t->h[0].qp, FF_OP_CMP_SWAP, 2);
	rig_sge(e, t->h[0].mr, hosts_at(t, 0, 16), 8);
	e->remote_addr = hosts_at(t, 1, 64);
	e->rkey = t->h[1].mr->rkey;
	e->atomic.compare_add = 42;
	e->atomic.swap = 7;
	rig_post(&t->h[0].r, t->h[0].qp);
	hosts_run(t);
	hosts_expect(t, 0, 1, IBV_WC_SUCCESS);
	hosts_expect(t, 0, 2, IBV_WC_SUCCESS);
	memcpy(&v, t->h[0].buf + 8, 8);
	assert_int_equal(v, 40);
	memcpy(&v, t->h[0].buf + 16, 8);
	assert_int_equal(v, 42);
	memcpy(&v, t->h[1].buf + 64, 8);
	assert_int_equal(v, 7);
}

/* Many under way at once; completions in order, each message once. */
static void window(void **state)
{
	struct hosts *t = *state;

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 16; i++)
			hosts_recv(t, i, 100000 * i, 100000);
		for (unsigned i = 0; i < 16; i++) {
			fill(t->h[0].buf + 100000 * i, 100000, i + round);
			hosts_send(t, i, 100000 * i, 100000 - 6000 * i);
		}
		assert_int_equal(t->h[0].qp->qp.in_flight, 0);
		hosts_turn(t);
		assert_true(t->h[0].qp->qp.in_flight > 1);
		hosts_run(t);
		assert_int_equal(t->h[0].qp->qp.in_flight, 0);
		for (unsigned i = 0; i < 16; i++) {
			hosts_expect(t, 0, i, IBV_WC_SUCCESS);
			hosts_expect(t, 1, i, IBV_WC_SUCCESS);
			assert_memory_equal(t->h[1].buf + 100000 * i, t->h[0].buf + 100000 * i,
					    100000 - 6000 * i);
		}
	}
}

static void no_receive(void **state)
{
	struct hosts *t = *state;

	hosts_send(t, 1, 0, 200000);
	hosts_send(t, 2, 0, 10);
	hosts_run(t);
	hosts_expect_none(t, 0);
	assert_int_equal(stats_of_session(&t->h[0].s->s).rnr, 1);
	/* the peer tells of its receive */
	hosts_recv(t, 11, 0, 300000);
	hosts_recv(t, 12, 300000, 300000);
	hosts_run(t);
	hosts_expect(t, 0, 1, IBV_WC_SUCCESS);
	hosts_expect(t, 0, 2, IBV_WC_SUCCESS);
	hosts_expect(t, 1, 11, IBV_WC_SUCCESS);
	hosts_expect(t, 1, 12, IBV_WC_SUCCESS);
	/* or it never has one: the RNR timer (0.64 ms), rnr_retry 2 */
	hosts_send(t, 3, 0, 10);
	hosts_run(t);
	for (int i = 0; i < 2; i++) {
		hosts_expect_none(t, 0);
		hosts_advance(t, NS_PER_MS);
	}
	hosts_advance(t, NS_PER_MS);
	hosts_expect(t, 0, 3, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(t->h[0].qp->qp.state, IBV_QPS_ERR);
}

/* Errors of the responder end both sides; what was posted behind is flushed, in order. */
static void refused(void **state)
{
	struct hosts t;
	uint32_t handle;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	hosts_rdma(&t, FF_OP_WRITE, 1, 0, 0, 100);
	hosts_rdma(&t, FF_OP_WRITE, 2, 0, HOSTS_BUF - 10, 100);
	hosts_rdma(&t, FF_OP_WRITE, 3, 0, 0, 100);
	hosts_run(&t);
	hosts_expect(&t, 0, 1, IBV_WC_SUCCESS);
	hosts_expect(&t, 0, 2, IBV_WC_REM_ACCESS_ERR);
	hosts_expect(&t, 0, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(t.h[0].qp->qp.state, IBV_QPS_ERR);
	assert_int_equal(t.h[1].qp->qp.state, IBV_QPS_ERR);
	assert_int_equal(rig_async(t.h[1].s, &handle), IBV_EVENT_QP_ACCESS_ERR + 1);
	hosts_down(&t);

	hosts_up(&t, IBV_QPT_RC);
	hosts_recv(&t, 9, 0, 50);
	hosts_rdma(&t, FF_OP_READ, 1, 0, 0, 300000); /* it is answered before */
	hosts_send(&t, 2, 0, 100);
	hosts_run(&t);
	hosts_expect(&t, 0, 1, IBV_WC_SUCCESS);
	hosts_expect(&t, 0, 2, IBV_WC_REM_INV_REQ_ERR);
	hosts_expect(&t, 1, 9, IBV_WC_LOC_LEN_ERR);
	hosts_down(&t);
}

/* The same, when little of an answer goes out at once: the refusal comes behind all of it. */
static void refused_slowly(void **state)
{
	struct hosts *t = *state;
	int size = 1;

	setsockopt(t->fd[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	hosts_recv(t, 9, 0, 50);
	hosts_rdma(t, FF_OP_READ, 1, 0, 0, 300000);
	hosts_send(t, 2, 0, 100);
	hosts_run(t);
	hosts_expect(t, 0, 1, IBV_WC_SUCCESS);
	hosts_expect(t, 0, 2, IBV_WC_REM_INV_REQ_ERR);
	hosts_expect(t, 1, 9, IBV_WC_LOC_LEN_ERR);
}

/* One's own memory is at fault: in its turn, after what was posted before. */
static void local_error(void **state)
{
	struct hosts *t = *state;
	struct ff_sqe *e;

	hosts_rdma(t, FF_OP_WRITE, 1, 0, 0, 500000);
	e = rig_sqe(t->h[0].qp, FF_OP_WRITE, 2);
	rig_sge(e, t->h[0].mr, hosts_at(t, 0, HOSTS_BUF - 1), 2);
	e->remote_addr = hosts_at(t, 1, 0);
	e->rkey = t->h[1].mr->rkey;
	rig_post(&t->h[0].r, t->h[0].qp);
	hosts_rdma(t, FF_OP_WRITE, 3, 0, 0, 5);
	hosts_run(t);
	hosts_expect(t, 0, 1, IBV_WC_SUCCESS);
	hosts_expect(t, 0, 2, IBV_WC_LOC_PROT_ERR);
	hosts_expect(t, 0, 3, IBV_WC_WR_FLUSH_ERR);
}

/* The connection ends after each number of turns; everything is done once, in order. */
static void reconnect(void **state)
{
	(void)state;
	for (unsigned cut = 0; cut < 40; cut++) {
		struct hosts t;
		struct ff_sqe *e;
		uint64_t sum = 0, v;

		hosts_up(&t, IBV_QPT_RC);
		for (unsigned i = 0; i < 4; i++)
			hosts_recv(&t, 100 + i, 300000 * i, 300000);
		memset(t.h[1].buf + 2000000, 0, 8);
		for (unsigned i = 0; i < 4; i++) {
			fill(t.h[0].buf + 300000 * i, 250000, i);
			hosts_send(&t, 4 * i, 300000 * i, 250000);
			e = rig_sqe(t.h[0].qp, FF_OP_FETCH_ADD, 4 * i + 1);
			rig_sge(e, t.h[0].mr, hosts_at(&t, 0, 3000000 + 8 * i), 8);
			e->remote_addr = hosts_at(&t, 1, 2000000);
			e->rkey = t.h[1].mr->rkey;
			e->atomic.compare_add = 1;
			rig_post(&t.h[0].r, t.h[0].qp);
			hosts_rdma(&t, FF_OP_READ, 4 * i + 2, 3100000 + 100000 * i, 300000 * i,
				   100000);
			hosts_rdma(&t, FF_OP_WRITE, 4 * i + 3, 300000 * i, 2100000 + 300000 * i,
				   200000);
		}
		for (unsigned i = 0; i < cut; i++)
			hosts_turn(&t);
		hosts_cut(&t);
		hosts_run(&t);
		assert_true(t.h[0].o.is_wanted || !t.h[0].qp->qp.in_flight);
		hosts_advance(&t, TIMEOUT);
		hosts_connect(&t);
		hosts_run(&t);
		for (unsigned i = 0; i < 16; i++)
			hosts_expect(&t, 0, i, IBV_WC_SUCCESS);
		for (unsigned i = 0; i < 4; i++) {
			hosts_expect(&t, 1, 100 + i, IBV_WC_SUCCESS);
			assert_memory_equal(t.h[1].buf + 300000 * i, t.h[0].buf + 300000 * i,
					    250000);
			assert_memory_equal(t.h[0].buf + 3100000 + 100000 * i,
					    t.h[0].buf + 300000 * i, 100000);
			assert_memory_equal(t.h[1].buf + 2100000 + 300000 * i,
					    t.h[0].buf + 300000 * i, 200000);
			memcpy(&v, t.h[0].buf + 3000000 + 8 * i, 8);
			assert_int_equal(v, i);
			sum += v;
		}
		assert_int_equal(sum, 6);
		memcpy(&v, t.h[1].buf + 2000000, 8);
		assert_int_equal(v, 4);
		hosts_expect_none(&t, 0);
		hosts_expect_none(&t, 1);
		hosts_down(&t);
	}
}

/* Nobody answers for longer than retry_cnt (2) allows. */
static void retry_exceeded(void **state)
{
	struct hosts *t = *state;

	hosts_cut(t);
	hosts_rdma(t, FF_OP_WRITE, 1, 0, 0, 100);
	hosts_rdma(t, FF_OP_WRITE, 2, 0, 0, 100);
	hosts_run(t);
	for (int i = 0; i < 2; i++) {
		hosts_advance(t, TIMEOUT + NS_PER_MS);
		hosts_expect_none(t, 0);
	}
	hosts_advance(t, TIMEOUT + NS_PER_MS);
	hosts_expect(t, 0, 1, IBV_WC_RETRY_EXC_ERR);
	hosts_expect(t, 0, 2, IBV_WC_WR_FLUSH_ERR);
}

/* That WR ends when it was tried often enough. */
static void nobody_answers(struct hosts *t, uint64_t id)
{
	for (int i = 0; i < 3; i++) {
		hosts_expect_none(t, 0);
		hosts_advance(t, TIMEOUT + NS_PER_MS);
	}
	hosts_expect(t, 0, id, IBV_WC_RETRY_EXC_ERR);
}

/* The peer's QP is not there, then it is. */
static void no_qp(void **state)
{
	struct hosts *t = *state;

	rig_state(&t->h[1].r, t->h[1].qp, IBV_QPS_RESET);
	hosts_rdma(t, FF_OP_WRITE, 1, 0, 0, 100);
	hosts_run(t);
	hosts_expect_none(t, 0);
	rig_connect(&t->h[1].r, t->h[1].qp, NULL);
	hosts_run(t);
	hosts_expect(t, 0, 1, IBV_WC_SUCCESS);
	/* one that is connected anew never goes on with an old sequence */
	rig_state(&t->h[1].r, t->h[1].qp, IBV_QPS_RESET);
	rig_connect(&t->h[1].r, t->h[1].qp, NULL);
	hosts_rdma(t, FF_OP_WRITE, 2, 0, 0, 100);
	hosts_run(t);
	nobody_answers(t, 2);
}

/* What the map refuses is asked of the peer, whose answer counts; what it does not know yet waits. */
static void mapping(void **state)
{
	struct hosts *t = *state;
	uint64_t woken;

	t->h[0].o.map = MAP_REFUSED;
	hosts_rdma(t, FF_OP_WRITE, 1, 0, 0, 100000);
	hosts_run(t);
	hosts_expect(t, 0, 1, IBV_WC_SUCCESS); /* the map was behind the times */
	t->h[0].o.map = MAP_WAIT;
	hosts_rdma(t, FF_OP_READ, 2, 0, 0, 100000);
	hosts_run(t);
	hosts_expect_none(t, 0);
	t->h[0].o.map = MAP_OK;
	t->h[0].r.f->sleeping = true;
	remote_changed(t->h[0].r.f, &t->h[0].remote);
	t->h[0].r.f->sleeping = false;
	assert_int_equal(read(t->h[0].r.f->stop_fd, &woken, sizeof(woken)), sizeof(woken));
	hosts_run(t);
	hosts_expect(t, 0, 2, IBV_WC_SUCCESS);
	t->h[0].o.map = MAP_WAIT;
	hosts_rdma(t, FF_OP_WRITE, 3, 0, 0, 10);
	hosts_run(t);
	hosts_expect_none(t, 0);
	hosts_advance(t, 20 * NS_PER_MS);
	hosts_expect(t, 0, 3, IBV_WC_SUCCESS);
	/* and a wrong one is refused as it would be on one host */
	t->h[0].o.map = MAP_REFUSED;
	hosts_rdma(t, FF_OP_WRITE, 4, 0, HOSTS_BUF, 10);
	hosts_run(t);
	hosts_expect(t, 0, 4, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(t->h[1].qp->qp.state, IBV_QPS_ERR);
}

/* The peer's container moves: nobody answers this QP any more. */
static void moved(void **state)
{
	struct hosts *t = *state;

	t->h[0].remote.epoch = 2;
	remote_changed(t->h[0].r.f, &t->h[0].remote);
	hosts_rdma(t, FF_OP_WRITE, 1, 0, 0, 100);
	hosts_run(t);
	nobody_answers(t, 1);
	assert_int_equal(t->h[1].buf[0], 0xa1);
}

static void denied(void **state)
{
	struct hosts *t = *state;
	uint32_t handle;

	t->h[0].o.is_denied = t->h[1].o.is_denied = true;
	remote_policy_changed(t->h[1].r.f);
	assert_int_equal(t->h[1].qp->qp.state, IBV_QPS_ERR);
	assert_int_equal(rig_async(t->h[1].s, &handle), IBV_EVENT_QP_FATAL + 1);
}

/* Memory that no pointer reaches, on either side. */
static void process_memory(void **state)
{
	struct hosts *t = *state;
	static const uint32_t len[] = { 1, 100, 65536, 200000 };

	for (int i = 0; i < 2; i++) {
		rig_mr_free(&t->h[i].r, t->h[i].mr);
		t->h[i].mr =
			rig_mr_pvm(&t->h[i].r, t->h[i].s, t->h[i].buf, HOSTS_BUF, HOSTS_ACCESS);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(len); i++) {
		fill(t->h[0].buf, len[i], i);
		hosts_rdma(t, FF_OP_WRITE, 1, 0, 5, len[i]);
		hosts_rdma(t, FF_OP_READ, 2, 1000001, 5, len[i]);
		hosts_recv(t, 3, 2000001, len[i]);
		hosts_send(t, 4, 0, len[i]);
		hosts_run(t);
		hosts_expect(t, 0, 1, IBV_WC_SUCCESS);
		hosts_expect(t, 0, 2, IBV_WC_SUCCESS);
		hosts_expect(t, 0, 4, IBV_WC_SUCCESS);
		hosts_expect(t, 1, 3, IBV_WC_SUCCESS);
		assert_memory_equal(t->h[1].buf + 5, t->h[0].buf, len[i]);
		assert_memory_equal(t->h[0].buf + 1000001, t->h[0].buf, len[i]);
		assert_memory_equal(t->h[1].buf + 2000001, t->h[0].buf, len[i]);
	}
}

/* Edges that no pointer reaches with mapped pages between them, as an unaligned buffer has. */
static void edges(void **state)
{
	struct hosts *t = *state;

	for (int i = 0; i < 2; i++) {
		struct mr *mr = t->h[i].mr;

		mr->run->va += 1000 + 77 * i;
		mr->run->host += 1000 + 77 * i;
		mr->run->len = 20000;
	}
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < 4; i++) {
			fill(t->h[0].buf, 30000, round);
			hosts_rdma(t, FF_OP_WRITE, 10 * i, 5, 7, 25000);
			hosts_recv(t, 10 * i + 1, 30000 * i + 3, 25000);
			hosts_send(t, 10 * i + 2, 5, 25000);
			hosts_rdma(t, FF_OP_READ, 10 * i + 3, 500000 + 30000 * i, 7, 25000);
		}
		hosts_run(t);
		for (unsigned i = 0; i < 4; i++) {
			hosts_expect(t, 0, 10 * i, IBV_WC_SUCCESS);
			hosts_expect(t, 0, 10 * i + 2, IBV_WC_SUCCESS);
			hosts_expect(t, 0, 10 * i + 3, IBV_WC_SUCCESS);
			hosts_expect(t, 1, 10 * i + 1, IBV_WC_SUCCESS);
			if (i)
				assert_memory_equal(t->h[1].buf + 30000 * i + 3, t->h[0].buf + 5,
						    25000);
			assert_memory_equal(t->h[0].buf + 500000 + 30000 * 3, t->h[0].buf + 5,
					    24000);
		}
	}
}

/*
 * The requester asks what became of a message whose ACK is on the way, behind much else: the one that is
 * coming in meanwhile goes on.
 */
static void asked_meanwhile(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr ask;
	struct remote_qp *rq;

	fill(t->h[0].buf, 2000000, 1);
	hosts_rdma(t, FF_OP_WRITE, 1, 0, 0, 8);
	hosts_run(t);
	hosts_expect(t, 0, 1, IBV_WC_SUCCESS);
	rq = t->h[0].qp->qp.soft->rem;
	hosts_rdma(t, FF_OP_WRITE, 2, 0, 5, 2000000);
	while (!t->h[1].qp->qp.soft->rem->rx.off)
		hosts_turn(t);
	remote_hdr(rq, &ask, WIRE_ASK);
	ask.tag = rq->tx.tag;
	ask.msn = rq->tx.una - 1;
	ask.opcode = FF_OP_WRITE;
	assert_int_equal(wire_send(t->h[0].r.f, &t->h[0].other, &ask, NULL), 0);
	hosts_run(t);
	hosts_expect(t, 0, 2, IBV_WC_SUCCESS);
	assert_memory_equal(t->h[1].buf + 5, t->h[0].buf, 2000000);
}

static void unreliable(void **state)
{
	struct hosts *t = *state;

	fill(t->h[0].buf, 300000, 1);
	hosts_recv(t, 1, 0, 300000);
	hosts_send(t, 2, 0, 300000);
	hosts_rdma(t, FF_OP_WRITE, 3, 0, 1000000, 300000);
	hosts_run(t);
	hosts_expect(t, 0, 2, IBV_WC_SUCCESS);
	hosts_expect(t, 0, 3, IBV_WC_SUCCESS);
	hosts_expect(t, 1, 1, IBV_WC_SUCCESS);
	assert_memory_equal(t->h[1].buf, t->h[0].buf, 300000);
	assert_memory_equal(t->h[1].buf + 1000000, t->h[0].buf, 300000);
	/* without a receive it is lost, and the next one comes */
	hosts_send(t, 4, 0, 200000);
	hosts_run(t);
	hosts_expect(t, 0, 4, IBV_WC_SUCCESS);
	hosts_recv(t, 5, 0, 300000);
	hosts_send(t, 6, 0, 1000);
	hosts_run(t);
	hosts_expect(t, 0, 6, IBV_WC_SUCCESS);
	hosts_expect(t, 1, 5, IBV_WC_SUCCESS);
}

int main(void)
{
	return UNIT_RUN(HOSTS_TEST(all_operations), HOSTS_TEST(atomics), HOSTS_TEST(window),
			HOSTS_TEST(no_receive), cmocka_unit_test(refused),
			HOSTS_TEST(refused_slowly), HOSTS_TEST(local_error),
			cmocka_unit_test(reconnect), HOSTS_TEST(retry_exceeded), HOSTS_TEST(no_qp),
			HOSTS_TEST(mapping), HOSTS_TEST(moved), HOSTS_TEST(denied),
			HOSTS_TEST(process_memory), HOSTS_TEST_UC(unreliable), HOSTS_TEST(edges),
			HOSTS_TEST(asked_meanwhile));
}
