/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffl/cm/channel.c ffl/cm/event.c ffl/cm/id.c ffl/cm/mcast.c ffl/cm/renew.c ffl/cm/watch.c ffl/session/table.c ffl/verbs/async.c tests/rig/unit/ffl_cm_rig.c */
/*
 * test_channel_end.c - a channel that is destroyed while a thread waits in it. It closes a descriptor
 * under its reader, which is what is tested, and what ThreadSanitizer takes for a race.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffl/cm/cm.h"
#include "tests/rig/unit/asleep.h"
#include "tests/rig/unit/ffl_cm_rig.h"
#include "tests/rig/unit/unit.h"

static _Atomic int waiter_tid;

static void *waiter(void *c)
{
	struct rdma_cm_event *e;

	waiter_tid = gettid();
	return (void *)(intptr_t)(rdma_get_cm_event(c, &e) ? errno : 0);
}

/* A channel that is destroyed lives on for a thread that waits in it, until that is woken. */
static void test_destroy_under_reader(void **state)
{
	struct rdma_event_channel *c = cm_rig_new_channel();
	struct ff_cm_event ev = { .event = RDMA_CM_EVENT_ADDR_CHANGE };
	pthread_t t;
	void *ret;

	(void)state;
	fcntl(c->fd, F_SETFL, 0);
	waiter_tid = 0;
	assert_int_equal(pthread_create(&t, NULL, waiter, c), 0);
	for (bool reads = false; !reads || !is_asleep(waiter_tid);) {
		pthread_mutex_lock(&cm_lock);
		reads = to_channel(c)->readers;
		pthread_mutex_unlock(&cm_lock);
	}
	rdma_destroy_event_channel(c);
	assert_int_not_equal(cm_router.channel[1], -1);
	assert_int_equal(send(cm_router.channel[1], &ev, sizeof(ev), 0), sizeof(ev));
	pthread_join(t, &ret);
	assert_int_equal((intptr_t)ret, EBADF);
	assert_int_equal(cm_router.channel[1], -1);
}

int main(void)
{
	return UNIT_RUN(CM_RIG_TEST(test_destroy_under_reader));
}
