/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: ffl/cm/channel.c ffl/cm/event.c ffl/cm/id.c ffl/cm/mcast.c ffl/cm/renew.c ffl/cm/watch.c ffl/session/table.c ffl/verbs/async.c tests/rig/unit/ffl_cm_rig.c -Wl,--wrap=calloc */
/*
 * test_id.c - an id that is destroyed: what becomes of its events and of connections that it was asked for; options.
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "ffl/cm/cm.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ffl_cm_rig.h"

/* The n-th calloc() from now on fails; 0: none does. */
static unsigned fails_in;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
	return fails_in && !--fails_in ? NULL : __real_calloc(n, size);
}

static void test_destroy_forgets(void **state)
{
	struct rdma_cm_id *a = cm_rig_new_on(cm_ch), *b = cm_rig_new_on(cm_ch);

	(void)state;
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 2);
	cm_rig_simple(b, RDMA_CM_EVENT_ADDR_CHANGE, 3);
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 4);
	cm_rig_expect(cm_ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	assert_int_equal(rdma_destroy_id(a), 0);
	cm_rig_expect(cm_ch, b, RDMA_CM_EVENT_ADDR_CHANGE, 3);
	cm_rig_expect_none(cm_ch); /* and not readable for what is left of a */
	assert_int_equal(rdma_destroy_id(b), 0);
}

static void test_destroy_refuses_requests(void **state)
{
	struct rdma_cm_id *l = cm_rig_new_on(cm_ch);
	struct rdma_cm_event *e;
	struct rdma_cm_id *child;
	uint32_t handle[3];
	int i;

	(void)state;
	for (i = 0; i < 3; i++)
		handle[i] = cm_rig_request(l);
	assert_int_equal(rdma_get_cm_event(cm_ch, &e), 0);
	assert_ptr_equal(e->listen_id, l);
	child = e->id;
	assert_int_equal(to_id(child)->handle, handle[0]);
	rdma_ack_cm_event(e);
	cm_router.num_destroyed = 0;
	assert_int_equal(rdma_destroy_id(l), 0);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(cm_router.num_destroyed, 3);
	assert_int_equal(cm_router.destroyed[1], handle[1]);
	assert_int_equal(cm_router.destroyed[2], handle[2]);
	assert_int_equal(rdma_destroy_id(child), 0);
}

static void *destroy(void *id)
{
	return (void *)(intptr_t)rdma_destroy_id(id);
}

static void test_destroy_waits(void **state)
{
	struct rdma_cm_id *a = cm_rig_new_on(cm_ch);
	struct rdma_cm_event *e;
	pthread_t t;
	void *ret;

	(void)state;
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	assert_int_equal(rdma_get_cm_event(cm_ch, &e), 0);
	assert_int_equal(pthread_create(&t, NULL, destroy, a), 0);
	while (!__atomic_load_n(&cm_router.num_destroyed, __ATOMIC_ACQUIRE))
		sched_yield();
	usleep(20000); /* time to fall asleep, or to go on by mistake */
	assert_int_equal(pthread_tryjoin_np(t, &ret), EBUSY);
	rdma_ack_cm_event(e);
	pthread_join(t, &ret);
	assert_null(ret);
}

/* The router refuses to end it: the id goes on as it was. */
static void test_destroy_refused(void **state)
{
	struct rdma_cm_id *a = cm_rig_new_on(cm_ch);

	(void)state;
	cm_router.fail[FF_MSG_CM_DESTROY_ID] = -EBUSY;
	assert_int_equal(rdma_destroy_id(a), -1);
	assert_int_equal(errno, EBUSY);
	cm_router.fail[FF_MSG_CM_DESTROY_ID] = 0;
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	cm_rig_expect(cm_ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	assert_int_equal(rdma_destroy_id(a), 0);
}

/* There is no memory to enter a new id here: the router's one ends. */
static void test_create_without_memory(void **state)
{
	struct rdma_cm_id *id;

	(void)state;
	fails_in = 2; /* the first is for the id itself */
	assert_int_equal(rdma_create_id(cm_ch, &id, NULL, RDMA_PS_TCP), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(cm_router.num_destroyed, 1);
}

static void test_bind_family(void **state)
{
	struct rdma_cm_id *id = cm_rig_new_on(cm_ch);
	struct sockaddr addr = { .sa_family = AF_UNIX };

	(void)state;
	assert_int_equal(rdma_bind_addr(id, &addr), -1);
	assert_int_equal(errno, EINVAL);
	addr.sa_family = AF_INET;
	assert_int_equal(rdma_bind_addr(id, &addr), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void test_options(void **state)
{
	struct rdma_cm_id *id = cm_rig_new_on(cm_ch);
	uint8_t tos = 8;
	int one = 1;

	(void)state;
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &one, 4), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, 4), 0);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, 77, &one, 4), -1);
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(rdma_set_option(id, 9, RDMA_OPTION_ID_TOS, &tos, 1), -1);
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &one, 4), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

int main(void)
{
	return UNIT_RUN(CM_RIG_TEST(test_destroy_forgets),
			CM_RIG_TEST(test_destroy_refuses_requests), CM_RIG_TEST(test_destroy_waits),
			CM_RIG_TEST(test_destroy_refused), CM_RIG_TEST(test_create_without_memory),
			CM_RIG_TEST(test_bind_family), CM_RIG_TEST(test_options));
}
