/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: ffl/cm/channel.c ffl/cm/event.c ffl/cm/id.c ffl/cm/mcast.c ffl/cm/renew.c ffl/cm/watch.c ffl/session/table.c ffl/verbs/async.c tests/rig/unit/ffl_cm_rig.c -Wl,--wrap=recv */
/*
 * test_channel.c - ids that change their channel, while events wait and while others read them.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "ffl/cm/cm.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ffl_cm_rig.h"

static void test_migrate_pending(void **state)
{
	struct rdma_event_channel *to = cm_rig_new_channel();
	struct rdma_cm_id *a = cm_rig_new_on(cm_ch), *b = cm_rig_new_on(cm_ch);

	(void)state;
	cm_rig_simple(b, RDMA_CM_EVENT_ADDR_CHANGE, 10);
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	cm_rig_simple(b, RDMA_CM_EVENT_ADDR_CHANGE, 11);
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 2);
	assert_int_equal(rdma_migrate_id(a, to), 0);
	assert_ptr_equal(a->channel, to);
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 3);
	cm_rig_expect(cm_ch, b, RDMA_CM_EVENT_ADDR_CHANGE, 10);
	cm_rig_expect(cm_ch, b, RDMA_CM_EVENT_ADDR_CHANGE, 11);
	cm_rig_expect_none(cm_ch);
	cm_rig_expect(to, a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	/* back, before the others were taken, and twice more with nothing new */
	assert_int_equal(rdma_migrate_id(a, cm_ch), 0);
	cm_rig_expect_none(to);
	assert_int_equal(rdma_migrate_id(a, to), 0);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(rdma_migrate_id(a, cm_ch), 0);
	cm_rig_expect_none(to);
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 4);
	cm_rig_expect(cm_ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 2);
	cm_rig_expect(cm_ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 3);
	cm_rig_expect(cm_ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 4);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(rdma_destroy_id(a), 0);
	assert_int_equal(rdma_destroy_id(b), 0);
	rdma_destroy_event_channel(to);
}

static void test_migrate_listener(void **state)
{
	struct rdma_event_channel *to = cm_rig_new_channel();
	struct rdma_cm_id *l = cm_rig_new_on(cm_ch);
	struct rdma_cm_event *e;
	uint32_t handle = cm_rig_request(l);

	(void)state;
	assert_int_equal(rdma_migrate_id(l, to), 0);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(cm_router.num_destroyed, 0);
	assert_int_equal(rdma_get_cm_event(to, &e), 0);
	assert_int_equal(e->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(to_id(e->id)->handle, handle);
	assert_ptr_equal(e->id->channel, to);
	l = e->listen_id;
	struct rdma_cm_id *id = e->id;
	rdma_ack_cm_event(e);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(l), 0);
	rdma_destroy_event_channel(to);
}

static void test_migrate_fails(void **state)
{
	struct rdma_event_channel *to = cm_rig_new_channel();
	struct rdma_cm_id *a = cm_rig_new_on(cm_ch);

	(void)state;
	cm_router.fail[FF_MSG_CM_MIGRATE_ID] = -EINVAL;
	assert_int_equal(rdma_migrate_id(a, to), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_migrate_id(a, NULL), -1);
	assert_ptr_equal(a->channel, cm_ch);
	cm_router.fail[FF_MSG_CM_MIGRATE_ID] = 0;
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 5);
	cm_rig_expect(cm_ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 5);
	assert_int_equal(rdma_migrate_id(a, NULL), 0);
	assert_int_equal(rdma_migrate_id(a, NULL), -1); /* is synchronous already */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(a), 0);
	rdma_destroy_event_channel(to);
}

/* What moved is not seen in the old channel, also if a reader that waits there kept it from being taken away. */
static void test_migrate_beside_a_reader(void **state)
{
	struct rdma_event_channel *to = cm_rig_new_channel();
	struct rdma_cm_id *a = cm_rig_new_on(cm_ch), *b = cm_rig_new_on(cm_ch);

	(void)state;
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 2);
	cm_rig_simple(b, RDMA_CM_EVENT_ADDR_CHANGE, 10);
	to_channel(cm_ch)->line->readers++;
	assert_int_equal(rdma_migrate_id(a, to), 0);
	to_channel(cm_ch)->line->readers--;
	cm_rig_expect(cm_ch, b, RDMA_CM_EVENT_ADDR_CHANGE, 10);
	cm_rig_expect_none(cm_ch);
	cm_rig_expect(to, a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	cm_rig_expect(to, a, RDMA_CM_EVENT_ADDR_CHANGE, 2);
	cm_rig_expect_none(to);
	assert_int_equal(rdma_destroy_id(a), 0);
	assert_int_equal(rdma_destroy_id(b), 0);
	rdma_destroy_event_channel(to);
}

/* A reader that has taken a packet from the socket, but enters it only when the move has looked some times. */
static struct {
	_Atomic bool armed, has;
	_Atomic unsigned looks;
} slow;

ssize_t __real_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
	ssize_t n = __real_recv(fd, buf, len, flags);

	if (!slow.armed)
		return n;
	if (flags & MSG_PEEK) {
		slow.looks++;
	} else if (n > 0 && !slow.has) {
		slow.has = true;
		while (slow.looks < 10)
			sched_yield();
	}
	return n;
}

static void *slow_reader(void *status)
{
	struct rdma_cm_event *e;

	if (rdma_get_cm_event(cm_ch, &e))
		return NULL;
	*(int *)status = e->status;
	rdma_ack_cm_event(e);
	return NULL;
}

static void test_migrate_beside_a_slow_reader(void **state)
{
	struct rdma_event_channel *to = cm_rig_new_channel();
	struct rdma_cm_id *a = cm_rig_new_on(cm_ch);
	pthread_t reader;
	int status = 0;

	(void)state;
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 2);
	memset(&slow, 0, sizeof(slow));
	slow.armed = true;
	assert_int_equal(pthread_create(&reader, NULL, slow_reader, &status), 0);
	while (!slow.has)
		sched_yield();
	assert_int_equal(rdma_migrate_id(a, to), 0);
	pthread_join(reader, NULL);
	slow.armed = false;
	assert_int_equal(status, 1);
	cm_rig_expect_none(cm_ch);
	cm_rig_expect(to, a, RDMA_CM_EVENT_ADDR_CHANGE, 2);
	cm_rig_expect_none(to);
	assert_int_equal(rdma_destroy_id(a), 0);
	rdma_destroy_event_channel(to);
}

/* Two readers, one of each channel, an id that changes its channel over and over: each event comes once. */
#define RACE_EVENTS 2000
static struct race {
	struct rdma_event_channel *c[2];
	_Atomic uint32_t seen[RACE_EVENTS];
	_Atomic unsigned total, bad;
	_Atomic bool stop;
} race;

static void *race_reader(void *c)
{
	struct rdma_cm_event *e;

	for (;;) {
		if (rdma_get_cm_event(c, &e)) {
			race.bad++;
			return NULL;
		}
		int n = e->status;
		rdma_ack_cm_event(e);
		if (n == RACE_EVENTS)
			return NULL;
		if (race.seen[n]++)
			race.bad++;
		race.total++;
	}
}

static void *race_writer(void *id)
{
	int i;

	for (i = 0; i < RACE_EVENTS; i++) {
		cm_rig_simple(id, RDMA_CM_EVENT_ADDR_CHANGE, i);
		if (i % 8 == 0)
			sched_yield();
	}
	race.stop = true;
	return NULL;
}

static void test_migrate_race(void **state)
{
	struct rdma_cm_id *id, *end[2];
	pthread_t reader[2], writer;
	unsigned i;

	(void)state;
	memset(&race, 0, sizeof(race));
	for (i = 0; i < 2; i++) {
		race.c[i] = cm_rig_new_channel();
		fcntl(race.c[i]->fd, F_SETFL, 0);
		end[i] = cm_rig_new_on(race.c[i]);
	}
	id = cm_rig_new_on(race.c[0]);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&reader[i], NULL, race_reader, race.c[i]), 0);
	assert_int_equal(pthread_create(&writer, NULL, race_writer, id), 0);
	for (i = 1; !race.stop || race.total < RACE_EVENTS; i++) {
		assert_int_equal(rdma_migrate_id(id, race.c[i % 2]), 0);
		sched_yield();
	}
	pthread_join(writer, NULL);
	for (i = 0; i < 2; i++)
		cm_rig_simple(end[i], RDMA_CM_EVENT_ADDR_CHANGE, RACE_EVENTS);
	for (i = 0; i < 2; i++)
		pthread_join(reader[i], NULL);
	assert_int_equal(race.bad, 0);
	assert_int_equal(race.total, RACE_EVENTS);
	assert_int_equal(rdma_destroy_id(id), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(rdma_destroy_id(end[i]), 0);
		rdma_destroy_event_channel(race.c[i]);
	}
}

int main(void)
{
	return UNIT_RUN(CM_RIG_TEST(test_migrate_pending), CM_RIG_TEST(test_migrate_listener),
			CM_RIG_TEST(test_migrate_fails), CM_RIG_TEST(test_migrate_beside_a_reader),
			CM_RIG_TEST(test_migrate_beside_a_slow_reader),
			CM_RIG_TEST(test_migrate_race));
}
