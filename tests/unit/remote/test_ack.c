/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_ack.c - when the other host acknowledges what it was sent: at once, or with the answer of its program.
 */
#include "tests/rig/unit/two_hosts.h"
#include "tests/rig/unit/unit.h"

/* Host 1 sends to host 0, which has a receive. */
static void send_back(struct hosts *t, uint64_t id)
{
	struct ff_sqe *e = rig_sqe(t->h[1].qp, FF_OP_SEND, id);

	rig_recv(&t->h[0].r, t->h[0].qp, id, t->h[0].mr, hosts_at(t, 0, 4096), 8);
	rig_sge(e, t->h[1].mr, hosts_at(t, 1, 0), 8);
	rig_post(&t->h[1].r, t->h[1].qp);
}

/* Ping and pong, the answer after that time. */
static void talk(struct hosts *t, uint64_t id, uint64_t ns)
{
	hosts_recv(t, id, 0, 8);
	hosts_send(t, id, 0, 8);
	hosts_run(t);
	hosts_expect(t, 1, id, IBV_WC_SUCCESS);
	hosts_advance(t, ns);
	send_back(t, 100 + id);
	hosts_run(t);
}

/* All that was posted ends. */
static void talk_and_hear(struct hosts *t, uint64_t id, uint64_t ns)
{
	talk(t, id, ns);
	hosts_expect(t, 0, id, IBV_WC_SUCCESS);
	hosts_expect(t, 0, 100 + id, IBV_WC_SUCCESS);
	hosts_expect(t, 1, 100 + id, IBV_WC_SUCCESS);
}

/* Each acknowledges at once, until they know each other: then the ACK of message 10 waits for the answer. */
static void an_ack_is_due(struct hosts *t)
{
	for (uint64_t i = 0; i < 4; i++) {
		talk_and_hear(t, i, 1000);
	}
	hosts_recv(t, 10, 0, 8);
	hosts_send(t, 10, 0, 8);
	hosts_run(t);
	hosts_expect(t, 1, 10, IBV_WC_SUCCESS);
	hosts_expect_none(t, 0);
}

/* Who answers at once sends the ACK with the answer; who does not, or is sent more, acknowledges. */
static void acks_wait(void **state)
{
	struct hosts *t = *state;
	struct remote_qp *rq;

	rq = t->h[1].qp->qp.soft->rem;
	an_ack_is_due(t);
	assert_true(rq->rx.ack_due);
	hosts_advance(t, REMOTE_ACK_HOLD - 1);
	hosts_expect_none(t, 0);
	send_back(t, 11);
	hosts_run(t);
	assert_false(rq->rx.ack_due);
	hosts_expect(t, 0, 11, IBV_WC_SUCCESS);
	hosts_expect(t, 0, 10, IBV_WC_SUCCESS);
	/* it waits in vain for no longer than that */
	hosts_recv(t, 20, 0, 8);
	hosts_send(t, 20, 0, 8);
	hosts_run(t);
	hosts_expect(t, 1, 20, IBV_WC_SUCCESS);
	hosts_expect(t, 1, 11, IBV_WC_SUCCESS); /* its ACK came with this one */
	hosts_expect_none(t, 0);
	hosts_advance(t, REMOTE_ACK_HOLD);
	hosts_expect(t, 0, 20, IBV_WC_SUCCESS);
	/* then it has to answer some times again, soon enough */
	for (uint64_t i = 30; i < 40; i++) {
		talk(t, i, REMOTE_ACK_HOLD + 1);
		hosts_expect(t, 0, i, IBV_WC_SUCCESS);
		hosts_advance(t, REMOTE_ACK_HOLD);
		hosts_expect(t, 0, 100 + i, IBV_WC_SUCCESS);
		hosts_expect(t, 1, 100 + i, IBV_WC_SUCCESS);
	}
	for (uint64_t i = 40; i < 44; i++) {
		talk(t, i, 1000);
		hosts_advance(t, REMOTE_ACK_HOLD);
		hosts_expect(t, 0, i, IBV_WC_SUCCESS);
		hosts_expect(t, 0, 100 + i, IBV_WC_SUCCESS);
		hosts_expect(t, 1, 100 + i, IBV_WC_SUCCESS);
	}
	/* several messages are one answer */
	rq->rx.dialog = 0;
	hosts_recv(t, 45, 0, 8);
	hosts_send(t, 45, 0, 8);
	hosts_run(t);
	hosts_expect(t, 1, 45, IBV_WC_SUCCESS);
	hosts_expect(t, 0, 45, IBV_WC_SUCCESS);
	for (uint64_t i = 145; i < 149; i++) {
		send_back(t, i);
		hosts_run(t);
		hosts_expect(t, 0, i, IBV_WC_SUCCESS);
		hosts_expect(t, 1, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(rq->rx.dialog, 1);
	for (uint64_t i = 46; i < 49; i++) {
		talk_and_hear(t, i, 1000);
	}
	/* a second message is not waited with */
	hosts_recv(t, 50, 0, 8);
	hosts_recv(t, 51, 0, 8);
	hosts_send(t, 50, 0, 8);
	hosts_run(t);
	hosts_expect_none(t, 0);
	hosts_send(t, 51, 0, 8);
	hosts_run(t);
	hosts_expect(t, 0, 50, IBV_WC_SUCCESS);
	hosts_expect(t, 0, 51, IBV_WC_SUCCESS);
	assert_int_equal(rq->rx.dialog, 0);
	hosts_expect(t, 1, 50, IBV_WC_SUCCESS);
	hosts_expect(t, 1, 51, IBV_WC_SUCCESS);
	/* the ACK that is held when the connection ends is given on the next one */
	for (uint64_t i = 60; i < 64; i++) {
		talk(t, i, 1000);
		hosts_advance(t, REMOTE_ACK_HOLD);
		for (int k = 0; k < 2; k++)
			hosts_expect(t, 0, i + 100 * k, IBV_WC_SUCCESS);
		hosts_expect(t, 1, 100 + i, IBV_WC_SUCCESS);
	}
	hosts_recv(t, 70, 0, 8);
	hosts_send(t, 70, 0, 8);
	hosts_run(t);
	hosts_expect_none(t, 0);
	hosts_cut(t);
	hosts_run(t);
	hosts_advance(t, REMOTE_ACK_HOLD);
	hosts_expect_none(t, 0);
	hosts_connect(t);
	hosts_run(t);
	hosts_expect(t, 0, 70, IBV_WC_SUCCESS);
	hosts_expect(t, 1, 70, IBV_WC_SUCCESS);
	hosts_expect_none(t, 1);
}

/* The answer's bytes are read through the process first, and the ACK waits for them: both come together. */
static void acks_wait_for_bytes(void **state)
{
	struct hosts *t = *state;
	struct host *h = &t->h[1];
	struct ff_cqe c;

	rig_mr_free(&h->r, h->mr);
	h->mr = rig_mr_pvm(&h->r, h->s, h->buf, HOSTS_BUF, HOSTS_ACCESS);
	an_ack_is_due(t);
	send_back(t, 11);
	while (!rig_poll(t->h[0].cq, &c))
		hosts_turn(t);
	assert_int_equal(c.wr_id, 11);
	hosts_expect(t, 0, 10, IBV_WC_SUCCESS);
	hosts_advance(t, REMOTE_ACK_HOLD);
	hosts_expect(t, 1, 11, IBV_WC_SUCCESS);
}

/* Who knows of a message may end at once: its sender hears of it all the same. */
static void ack_of_one_that_goes(void **state)
{
	struct hosts *t = *state;

	an_ack_is_due(t);
	rig_state(&t->h[1].r, t->h[1].qp, IBV_QPS_RESET);
	hosts_run(t);
	hosts_expect(t, 0, 10, IBV_WC_SUCCESS);
}

int main(void)
{
	return UNIT_RUN(HOSTS_TEST(acks_wait), HOSTS_TEST(acks_wait_for_bytes),
			HOSTS_TEST(ack_of_one_that_goes));
}
