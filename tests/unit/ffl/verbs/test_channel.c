/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c */
/* threads: yes */
/*
 * test_channel.c - ffl/verbs/channel.c ffl/verbs/home.c: arming, and completion events.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "ffl/session/ffl.h"
#include "tests/rig/fakes/fake_ffl.h"
#include "tests/rig/unit/asleep.h"
#include "tests/rig/unit/unit.h"

static void arming(void **state)
{
	struct ffl_cq *cq = fake_cq(4);

	(void)state;
	assert_int_equal(ibv_req_notify_cq(&cq->cq, 1), 0);
	assert_int_equal(atomic_load(&cq->hdr->arm), FF_CQ_ARM_SOLICITED);
	assert_int_equal(ibv_req_notify_cq(&cq->cq, 0), 0);
	assert_int_equal(atomic_load(&cq->hdr->arm), FF_CQ_ARM_ANY);
	/* any is more than solicited */
	assert_int_equal(ibv_req_notify_cq(&cq->cq, 1), 0);
	assert_int_equal(atomic_load(&cq->hdr->arm), FF_CQ_ARM_ANY);
	ibv_destroy_cq(&cq->cq);
}

static _Atomic int destroyer;
static _Atomic bool has_ended;

static void *destroy_thread(void *cq)
{
	intptr_t ret;

	destroyer = gettid();
	ret = ibv_destroy_cq(cq);
	has_ended = true;
	return (void *)ret;
}

static void events(void **state)
{
	struct ibv_context *ctx = &fake.ctx->v.context;
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
	int c1, c2;
	struct ibv_cq *a = ibv_create_cq(ctx, 4, &c1, ch, 0),
		      *b = ibv_create_cq(ctx, 4, &c2, ch, 0);
	struct ibv_cq *got;
	void *cookie, *ret;
	pthread_t t;
	uint32_t gone = a->handle + 0x10000; /* its slot, another generation */

	(void)state;
	assert_int_equal(fcntl(ch->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), -1);
	assert_int_equal(errno, EAGAIN);
	fake_event(gone);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), -1);
	assert_int_equal(errno, EAGAIN);
	fake_event(gone);
	fake_event(a->handle);
	fake_event(b->handle);
	fake_event(a->handle);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), 0);
	assert_ptr_equal(got, a);
	assert_ptr_equal(cookie, &c1);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), 0);
	assert_ptr_equal(got, b);
	assert_ptr_equal(cookie, &c2);

	/* an event that nobody asked for yet does not hold up destruction, and is dropped */
	assert_int_equal(a->comp_events_completed, 0);
	ibv_ack_cq_events(a, 1);
	assert_int_equal(a->comp_events_completed, 1);
	assert_int_equal(a->async_events_completed, 0);
	assert_int_equal(ibv_destroy_cq(a), 0);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), -1);
	assert_int_equal(errno, EAGAIN);

	/* one that was returned does, until it is acknowledged */
	assert_int_equal(pthread_create(&t, NULL, destroy_thread, b), 0);
	while (fake.live > 1)
		usleep(0);
	while (!has_ended && !is_asleep(destroyer))
		usleep(0);
	assert_false(has_ended);
	ibv_ack_cq_events(b, 1);
	pthread_join(t, &ret);
	assert_null(ret);

	/* lazily posted WRs are announced before the program sleeps here */
	atomic_store(&fake.ctx->lazy_qp, 0x7);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), -1);
	assert_true(fake_take_dirty(0x7));

	/* EOF */
	close(fake.channel_fd);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), -1);
	assert_int_equal(errno, EIO);
	assert_true(atomic_load(&fake.ctx->dead));
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
	fake.live = 0;
}

/* The events of a CQ that is destroyed leave the channel, those of others stay in their order. */
static void unread_events(void **state)
{
	struct ibv_context *ctx = &fake.ctx->v.context;
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
	struct ibv_cq *cq[3], *got;
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	void *cookie;

	(void)state;
	for (int i = 0; i < 3; i++)
		cq[i] = ibv_create_cq(ctx, 4, NULL, ch, 0);
	for (int i = 0; i < 7; i++)
		fake_event(cq[i % 3]->handle);
	assert_int_equal(ibv_destroy_cq(cq[0]), 0);
	assert_int_equal(fake.repeated, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(poll(&p, 1, 0), 1);
		assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), 0);
		assert_ptr_equal(got, cq[1 + i % 2]);
	}
	assert_int_equal(poll(&p, 1, 0), 0);
	ibv_ack_cq_events(cq[1], 2);
	ibv_ack_cq_events(cq[2], 2);
	fake_event(cq[1]->handle);
	assert_int_equal(ibv_destroy_cq(cq[1]), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(ibv_destroy_cq(cq[2]), 0);
	assert_int_equal(fake.repeated, 4);
	close(fake.channel_fd);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
	return UNIT_RUN(T(arming), T(events), T(unread_events));
}
