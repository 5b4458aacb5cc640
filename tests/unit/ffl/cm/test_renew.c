/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: ffl/cm/channel.c ffl/cm/event.c ffl/cm/id.c ffl/cm/mcast.c ffl/cm/renew.c ffl/session/table.c ffl/verbs/async.c tests/rig/unit/ffl_cm_rig.c */
/*
 * test_renew.c - what outlives a router: listeners on the wildcard address, ids without a device, channels. The test is both
 * routers, and watch.c: an eventfd that is readable when the next router answers.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ffl/cm/cm.h"
#include "tests/rig/unit/asleep.h"
#include "tests/rig/unit/ffl_cm_rig.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/wait.h"

/* ---- the return of the router ---------------------------------------------------------------------- */

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER; /* these four */
static int watch_fd = -1;
static unsigned starts, pauses;
static bool is_out_of_fds;

static void watch(struct cm_watch *w, unsigned *count)
{
	pthread_mutex_lock(&watch_lock);
	++*count;
	w->fd = watch_fd = is_out_of_fds ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	pthread_mutex_unlock(&watch_lock);
}
void cm_watch_start(struct cm_watch *w)
{
	watch(w, &starts);
}
bool cm_watch_look(struct cm_watch *w)
{
	assert_true(w->fd >= 0);
	cm_watch_stop(w);
	return true;
}
void cm_watch_pause(struct cm_watch *w)
{
	watch(w, &pauses);
}
void cm_watch_stop(struct cm_watch *w)
{
	pthread_mutex_lock(&watch_lock);
	if (w->fd >= 0) {
		close(w->fd);
		watch_fd = -1;
	}
	w->fd = -1;
	pthread_mutex_unlock(&watch_lock);
}

static void router_answers(void)
{
	uint64_t one = 1;

	pthread_mutex_lock(&watch_lock);
	assert_int_equal(write(watch_fd, &one, sizeof(one)), sizeof(one));
	pthread_mutex_unlock(&watch_lock);
}

static bool readable(const struct rdma_event_channel *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* The program looks, and there is no event for it. */
static void look_in_vain(struct rdma_event_channel *c)
{
	struct rdma_cm_event *e;

	assert_int_equal(rdma_get_cm_event(c, &e), -1);
	assert_int_equal(errno, EAGAIN);
}

/* ---- ids -------------------------------------------------------------------------------------------- */

static struct rdma_cm_id *listener_on(struct rdma_event_channel *c)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_cm_id *l;

	assert_int_equal(rdma_create_id(c, &l, NULL, RDMA_PS_TCP), 0);
	cm_router.port_num = 0;
	any.sin_port = htons(4791);
	memcpy(&cm_router.local, &any, sizeof(any));
	any.sin_port = 0; /* the router chooses */
	assert_int_equal(rdma_bind_addr(l, (struct sockaddr *)&any), 0);
	assert_int_equal(rdma_listen(l, 9), 0);
	cm_router.port_num = 1;
	memset(&cm_router.local, 0, sizeof(cm_router.local));
	return l;
}

static struct rdma_cm_id *connected_on(struct rdma_event_channel *c)
{
	struct rdma_cm_id *id = cm_rig_new_on(c);

	cm_rig_simple(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_expect(c, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return id;
}

/* A request reaches the listener, and comes with an id of the next router. */
static void expect_request(struct rdma_event_channel *c, struct rdma_cm_id *l)
{
	uint32_t handle = cm_rig_request(l);
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	assert_true(readable(c));
	assert_int_equal(rdma_get_cm_event(c, &e), 0);
	assert_int_equal(e->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(e->listen_id, l);
	id = e->id;
	assert_non_null(id->verbs);
	assert_int_equal(to_id(id)->handle, handle);
	assert_ptr_equal(to_id(id)->ses, &cm_router.next_ses);
	assert_int_equal(rdma_ack_cm_event(e), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* ---- tests ------------------------------------------------------------------------------------------ */

static void test_listener_goes_on(void **state)
{
	struct rdma_cm_id *l = listener_on(cm_ch), *id = connected_on(cm_ch);
	struct sockaddr_in sin;
	uint32_t before = to_id(l)->handle;
	int one = 1, copy = dup(to_channel(cm_ch)->line->fd);

	(void)state;
	assert_true(copy >= 0); /* a child that was forked has the socket, too, and keeps it */
	assert_int_equal(rdma_set_option(l, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, 4), 0);
	cm_rig_router_ends();
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(to_id(l)->handle, before);

	memset(&cm_router.option, 0, sizeof(cm_router.option));
	router_answers();
	assert_true(readable(cm_ch));
	look_in_vain(cm_ch);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(starts, 1);
	assert_int_not_equal(to_id(l)->handle, before);
	memcpy(&sin, &cm_router.bind.addr, sizeof(sin));
	assert_int_equal(sin.sin_family, AF_INET);
	assert_int_equal(sin.sin_port, htons(4791)); /* the one that it had */
	assert_int_equal(cm_router.listen.id, to_id(l)->handle);
	assert_int_equal(cm_router.listen.backlog, 9);
	assert_int_equal(cm_router.option.id, to_id(l)->handle);
	assert_int_equal(cm_router.option.option, RDMA_OPTION_ID_REUSEADDR);
	assert_int_equal(cm_router.option.value, 1);
	expect_request(cm_ch, l);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(close(copy), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(l), 0);
}

/* Nobody can bind the port any more. */
static void test_port_is_taken(void **state)
{
	struct rdma_cm_id *l = listener_on(cm_ch);

	(void)state;
	cm_rig_router_ends();
	look_in_vain(cm_ch);
	cm_router.fail[FF_MSG_CM_BIND] = -EADDRINUSE;
	router_answers();
	assert_true(readable(cm_ch));
	cm_rig_expect(cm_ch, l, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	cm_rig_expect_none(cm_ch);
	cm_router.fail[FF_MSG_CM_BIND] = 0;
	assert_int_equal(rdma_destroy_id(l), 0);
}

/* The next router answers but does not take us, or has no room: the listener goes on when it has. */
static void test_refused_for_a_while(void **state)
{
	struct rdma_cm_id *l = listener_on(cm_ch), *idle = cm_rig_new_on(cm_ch);
	uint32_t before = to_id(l)->handle;

	(void)state;
	cm_rig_router_ends();
	look_in_vain(cm_ch);
	cm_router.session_err = ENODEV;
	router_answers();
	look_in_vain(cm_ch);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(pauses, 1);
	cm_router.session_err = 0;
	cm_router.fail[FF_MSG_CREATE_CHANNEL] = -EMFILE;
	router_answers();
	look_in_vain(cm_ch);
	cm_router.fail[FF_MSG_CREATE_CHANNEL] = 0;
	cm_router.fail[FF_MSG_CM_CREATE_ID] = -ENOMEM;
	router_answers();
	look_in_vain(cm_ch);
	cm_router.fail[FF_MSG_CM_CREATE_ID] = 0;
	cm_router.fail[FF_MSG_CM_LISTEN] = -EIO; /* it has died, too */
	router_answers();
	look_in_vain(cm_ch);
	cm_router.fail[FF_MSG_CM_LISTEN] = 0;
	assert_int_equal(pauses, 4);
	assert_int_equal(to_id(l)->handle, before);
	assert_ptr_equal(to_id(l)->ses, &cm_router.ses);
	for (unsigned i = 0; i < NUM_CHANNELS; i++)
		assert_int_equal(cm_router.channel[i], -1);
	router_answers();
	look_in_vain(cm_ch);
	expect_request(cm_ch, l);
	assert_int_equal(rdma_destroy_id(idle), 0);
	assert_int_equal(rdma_destroy_id(l), 0);
}

/* A server gives each connection to another channel, which it has had since before the router ended. */
static void test_migrate_to_channel_of_before(void **state)
{
	struct rdma_event_channel *worker = cm_rig_new_channel();
	struct rdma_cm_id *l = listener_on(cm_ch), *old = connected_on(worker), *id;
	struct rdma_cm_event *e;

	(void)state;
	cm_rig_router_ends();
	look_in_vain(cm_ch);
	router_answers();
	look_in_vain(cm_ch);
	cm_rig_request(l);
	assert_int_equal(rdma_get_cm_event(cm_ch, &e), 0);
	id = e->id;
	assert_int_equal(rdma_ack_cm_event(e), 0);
	assert_int_equal(rdma_migrate_id(id, worker),
			 -1); /* it has an event of the last router's */
	assert_int_equal(errno, EIO);
	cm_rig_expect(worker, old, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	assert_int_equal(rdma_migrate_id(id, worker), 0);
	cm_rig_simple(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_rig_expect(worker, id, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(rdma_migrate_id(old, worker), -1); /* its router is gone */
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(old), 0);
	assert_int_equal(rdma_destroy_id(l), 0);
	rdma_destroy_event_channel(worker);
}

/* The process has no descriptor left when the router ends. */
static void test_out_of_fds(void **state)
{
	struct rdma_cm_id *l = listener_on(cm_ch);

	(void)state;
	is_out_of_fds = true;
	cm_rig_router_ends();
	look_in_vain(cm_ch);
	cm_rig_expect_none(cm_ch);
	is_out_of_fds = false;
	cm_rig_expect_none(cm_ch);
	router_answers();
	assert_true(readable(cm_ch));
	look_in_vain(cm_ch);
	expect_request(cm_ch, l);
	assert_int_equal(rdma_destroy_id(l), 0);
}

/* An id that resolves an address gets ADDR_ERROR when the router ends, and can be used again with the next router. */
static void test_resolving(void **state)
{
	struct sockaddr_in dst = { .sin_family = AF_INET };
	struct rdma_cm_id *id = cm_rig_new_on(cm_ch);

	(void)state;
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000), 0);
	cm_rig_router_ends();
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(starts, 0); /* nobody listens: nothing is watched */
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000), 0);
	cm_rig_simple(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_ptr_equal(to_id(id)->ses, &cm_router.next_ses);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* What the old router said comes first: until then nothing is made in the channel. */
static void test_calls_renew(void **state)
{
	struct rdma_cm_id *idle = cm_rig_new_on(cm_ch), *id = connected_on(cm_ch), *fresh;
	uint8_t tos = 3;

	(void)state;
	cm_rig_simple(id, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	cm_rig_router_ends();
	assert_int_equal(rdma_create_id(cm_ch, &fresh, NULL, RDMA_PS_TCP), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(rdma_set_option(idle, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), -1);
	assert_int_equal(errno, EIO);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	assert_int_equal(rdma_create_id(cm_ch, &fresh, NULL, RDMA_PS_TCP), -1);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	cm_router.session_err = ENODEV; /* no router */
	assert_int_equal(rdma_create_id(cm_ch, &fresh, NULL, RDMA_PS_TCP), -1);
	cm_router.session_err = 0;
	assert_int_equal(rdma_create_id(cm_ch, &fresh, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_set_option(idle, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
	assert_int_equal(cm_router.option.id, to_id(idle)->handle);
	cm_rig_simple(fresh, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_expect(cm_ch, fresh, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_expect_none(cm_ch);
	/* the old router's id fails in all but its end */
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(idle), 0);
	assert_int_equal(rdma_destroy_id(fresh), 0);
}

/* Events of ids that were destroyed do not hold a call up. */
static void test_events_of_nobody(void **state)
{
	struct rdma_cm_id *id = connected_on(cm_ch), *fresh;
	int copy = dup(to_channel(cm_ch)->line->fd);

	(void)state;
	cm_rig_simple(id, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	cm_rig_router_ends();
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_create_id(cm_ch, &fresh, NULL, RDMA_PS_TCP), 0);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(close(copy), 0);
	assert_int_equal(rdma_destroy_id(fresh), 0);
}

/* Synchronous ids: a call fails, but who waits for requests on the wildcard address goes on. */
static void test_sync(void **state)
{
	struct sockaddr_in dst = { .sin_family = AF_INET };
	struct rdma_cm_id *id, *l = listener_on(NULL), *on_device;
	struct rdma_cm_event *ev;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &on_device, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(on_device, (struct sockaddr *)&dst), 0);
	assert_int_equal(rdma_listen(on_device, 1), 0);
	assert_non_null(on_device->verbs);
	fcntl(on_device->channel->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	fcntl(l->channel->fd, F_SETFL, O_NONBLOCK);
	close(cm_router.channel[to_channel(id->channel)->line->handle - 1]);
	cm_router.channel[to_channel(id->channel)->line->handle - 1] = -1;
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000), -1);
	assert_int_equal(errno, EIO);
	cm_rig_router_ends();
	assert_int_equal(rdma_get_cm_event(on_device->channel, &ev), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(rdma_destroy_id(on_device), 0);
	look_in_vain(l->channel);
	router_answers();
	look_in_vain(l->channel);
	expect_request(l->channel, l);
	assert_int_equal(rdma_destroy_id(l), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* ---- threads ------------------------------------------------------------------------------------------ */

static _Atomic int waiter_tid;

static void *waiter(void *c)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	waiter_tid = gettid();
	if (rdma_get_cm_event(c, &e))
		return (void *)(intptr_t)errno;
	id = e->id;
	rdma_ack_cm_event(e);
	return (void *)(intptr_t)rdma_destroy_id(id);
}

/* How many threads wait in the channel; *lost: until a router is back. */
static unsigned waits(struct rdma_event_channel *c, unsigned *lost)
{
	struct cm_channel *ch = to_channel(c);
	unsigned n;

	pthread_mutex_lock(&cm_lock);
	n = ch->readers;
	*lost = n - ch->line->readers;
	pthread_mutex_unlock(&cm_lock);
	return n;
}

static bool sleeps_lost(struct rdma_event_channel *c)
{
	unsigned lost;

	waits(c, &lost);
	return lost && is_asleep(waiter_tid);
}

static bool is_watched(void)
{
	bool is;

	pthread_mutex_lock(&watch_lock);
	is = watch_fd >= 0;
	pthread_mutex_unlock(&watch_lock);
	return is;
}

static bool is_renewed(const struct rdma_cm_id *id)
{
	bool is;

	pthread_mutex_lock(&cm_lock);
	is = container_of_(id, struct cm_id, id)->ses == &cm_router.next_ses;
	pthread_mutex_unlock(&cm_lock);
	return is;
}

/* A thread that waits in the channel, and found that its router has ended. */
static pthread_t waits_without_router(struct rdma_event_channel *c)
{
	pthread_t t;

	fcntl(c->fd, F_SETFL, 0);
	waiter_tid = 0;
	assert_int_equal(pthread_create(&t, NULL, waiter, c), 0);
	cm_rig_router_ends();
	WAIT_FOR(waiter_tid && sleeps_lost(c));
	return t;
}

/* A thread waits in a channel across two routers, and gets the request that comes then. */
static void test_thread_waits(void **state)
{
	struct rdma_cm_id *l = listener_on(cm_ch);
	pthread_t t;
	void *ret;

	(void)state;
	t = waits_without_router(cm_ch);
	router_answers();
	WAIT_FOR(is_renewed(l));
	cm_rig_request(l);
	pthread_join(t, &ret);
	assert_null(ret);
	assert_int_equal(rdma_destroy_id(l), 0);
}

/* The channel is destroyed while a thread waits in it for a router: it is freed when that thread wakes up. */
static void test_destroyed_while_lost(void **state)
{
	struct rdma_event_channel *c = cm_rig_new_channel();
	struct rdma_cm_id *l = listener_on(c);
	pthread_t t;
	void *ret;

	(void)state;
	t = waits_without_router(c);
	assert_int_equal(rdma_destroy_id(l), 0);
	rdma_destroy_event_channel(c);
	router_answers();
	pthread_join(t, &ret);
	assert_int_equal((intptr_t)ret, EBADF);
	assert_int_equal(watch_fd, -1);
}

/* A thread that waits without a descriptor for the router's return looks for itself. */
static void test_thread_out_of_fds(void **state)
{
	struct rdma_cm_id *l = listener_on(cm_ch);
	pthread_t t;
	void *ret;

	(void)state;
	fcntl(cm_ch->fd, F_SETFL, 0);
	waiter_tid = 0;
	is_out_of_fds = true;
	assert_int_equal(pthread_create(&t, NULL, waiter, cm_ch), 0);
	cm_rig_router_ends();
	WAIT_FOR(waiter_tid && sleeps_lost(cm_ch));
	pthread_mutex_lock(&watch_lock);
	is_out_of_fds = false;
	pthread_mutex_unlock(&watch_lock);
	WAIT_FOR(is_watched());
	router_answers();
	WAIT_FOR(is_renewed(l));
	cm_rig_request(l);
	pthread_join(t, &ret);
	assert_null(ret);
	assert_int_equal(rdma_destroy_id(l), 0);
}

static _Atomic int destroyer_tid;
static _Atomic bool is_destroyed;

static void on_signal(int sig)
{
	(void)sig;
}

static void *destroyer(void *c)
{
	destroyer_tid = gettid();
	rdma_destroy_event_channel(c);
	is_destroyed = true;
	return NULL;
}

/* The channel is destroyed while a thread in it has found that the router is gone, and is about to wait for the next. */
static void test_destroyed_as_it_is_lost(void **state)
{
	struct rdma_event_channel *c = cm_rig_new_channel();
	pthread_t t, d;
	void *ret;

	(void)state;
	signal(SIGUSR1, on_signal);
	fcntl(c->fd, F_SETFL, 0);
	waiter_tid = destroyer_tid = 0;
	is_destroyed = false;
	cm_id_keep(); /* the thread comes no further than this */
	cm_rig_router_ends();
	assert_int_equal(pthread_create(&t, NULL, waiter, c), 0);
	WAIT_FOR(waiter_tid && is_asleep(waiter_tid));
	assert_int_equal(pthread_create(&d, NULL, destroyer, c), 0);
	WAIT_FOR(is_destroyed || (destroyer_tid && is_asleep(destroyer_tid)));
	cm_id_leave();
	pthread_join(d, &ret);
	/* if it came first it sleeps until a signal comes, because nobody listens */
	WAIT_FOR(!pthread_kill(t, SIGUSR1) && !pthread_tryjoin_np(t, &ret));
	assert_true((intptr_t)ret == EBADF || (intptr_t)ret == EINTR);
}

static int setup(void **state)
{
	starts = pauses = 0;
	is_out_of_fds = false;
	return ffl_cm_rig_setup(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, ffl_cm_rig_teardown)

int main(void)
{
	return UNIT_RUN(TEST(test_listener_goes_on), TEST(test_port_is_taken),
			TEST(test_refused_for_a_while), TEST(test_migrate_to_channel_of_before),
			TEST(test_out_of_fds), TEST(test_resolving), TEST(test_calls_renew),
			TEST(test_events_of_nobody), TEST(test_sync), TEST(test_thread_waits),
			TEST(test_destroyed_while_lost), TEST(test_thread_out_of_fds),
			TEST(test_destroyed_as_it_is_lost));
}
