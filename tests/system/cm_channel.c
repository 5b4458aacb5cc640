/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c -lrdmacm -lpthread */
/* timeout: 360 */
/*
 * cm_channel.c - event channels of rdma_cm: descriptors that block or not, events that wait while
 * their id moves or is destroyed, signals, a forked child.
 */
#include "tests/rig/verbs/cmt.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- channels ------------------------------------------------------------------------------------ */

static void nonblocking(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_in sin = cmt_self();

	CHECK_NO_EVENT(ch);
	sin.sin_port = htons(9);
	CHECK_OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000));
	WANT_CM_ACK(ch, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK_NO_EVENT(ch);
	/* an event that was destroyed with its id leaves nothing behind */
	CHECK_OK(rdma_resolve_route(id, 1000));
	WAIT_FOR(vt_readable(ch->fd, 0));
	CHECK_OK(rdma_destroy_id(id));
	CHECK_NO_EVENT(ch);
	rdma_destroy_event_channel(ch);
}

static void migrate_pending(void)
{
	struct rdma_event_channel *one = cmt_channel(), *two = cmt_channel();
	struct cmt_pair p;

	cmt_pair(&p);
	CHECK_OK(rdma_disconnect(p.active));
	WAIT_FOR(vt_readable(p.ch->fd, 0));
	CHECK_OK(rdma_migrate_id(p.passive, one));
	CHECK(p.passive->channel == one);
	CHECK_OK(rdma_disconnect(p.passive));
	WAIT_FOR(vt_readable(p.ch->fd, 0)); /* the active one's */
	CHECK_OK(rdma_migrate_id(p.active, two));
	CHECK_NO_EVENT(p.ch);
	WANT_CM_ACK(one, p.passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	WANT_CM_ACK(two, p.active, RDMA_CM_EVENT_DISCONNECTED, 0);
	WANT_CM_ACK(two, p.active, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	WANT_CM_ACK(one, p.passive, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	cmt_pair_close(&p);
	rdma_destroy_event_channel(one);
	rdma_destroy_event_channel(two);
}

static struct rdma_cm_event *held;
static _Atomic int acknowledged;

static void *acknowledge(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++)
		vt_pause();
	acknowledged = 1;
	rdma_ack_cm_event(held);
	return NULL;
}

static void destroy_waits(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_in sin = cmt_self();
	pthread_t t;

	sin.sin_port = htons(9);
	CHECK_OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000));
	held = WANT_CM(ch, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK_OK(pthread_create(&t, NULL, acknowledge, NULL));
	CHECK_OK(rdma_destroy_id(id));
	CHECK_EQ(acknowledged, 1);
	pthread_join(t, NULL);
	rdma_destroy_event_channel(ch);
}

/* A handler with SA_RESTART does not end a blocked call, one without does. */
static volatile sig_atomic_t signals;
static _Atomic int blocked_ret = 1;

static void on_signal(int sig)
{
	(void)sig;
	signals++;
}

static void *blocked(void *channel)
{
	struct rdma_cm_event *e;
	int ret = rdma_get_cm_event(channel, &e);

	if (!ret)
		rdma_ack_cm_event(e);
	blocked_ret = ret ? -errno : 0;
	return NULL;
}

static void signals_restart(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_in sin = cmt_self();
	pthread_t t;

	CHECK_OK(sigaction(SIGUSR1, &sa, NULL));
	CHECK_OK(pthread_create(&t, NULL, blocked, ch));
	for (int n = 0; n < 5; n++) {
		CHECK_OK(pthread_kill(t, SIGUSR1));
		WAIT_FOR(signals > n);
	}
	CHECK_EQ(blocked_ret, 1);
	sin.sin_port = htons(9);
	CHECK_OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000));
	pthread_join(t, NULL);
	CHECK_EQ(blocked_ret, 0);
	sa.sa_flags = 0;
	CHECK_OK(sigaction(SIGUSR1, &sa, NULL));
	blocked_ret = 1;
	CHECK_OK(pthread_create(&t, NULL, blocked, ch));
	WAIT_FOR((pthread_kill(t, SIGUSR1), blocked_ret != 1)); /* until it has met the call */
	pthread_join(t, NULL);
	CHECK_EQ(blocked_ret, -EINTR);
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

static void forked(void)
{
	struct cmt_pair p;
	pid_t pid;

	cmt_pair(&p);
	pid = fork();
	if (!pid) {
		struct rdma_cm_event *e;
		struct rdma_cm_id *id;
		struct cmt_pair mine;

		CHECK_ERR(rdma_get_cm_event(p.ch, &e), EIO);
		CHECK_ERR(rdma_create_id(p.ch, &id, NULL, RDMA_PS_TCP), EIO);
		CHECK_ERR(rdma_disconnect(p.active), EIO);
		cmt_pair(&mine);
		cmt_transfer(mine.active, mine.passive, 4);
		cmt_pair_close(&mine);
		CHECK_OK(rdma_destroy_id(p.listener)); /* its memory only */
		_exit(0);
	}
	CHECK_EQ(vt_child_status(pid), 0);
	cmt_transfer(p.active, p.passive, 5);
	CHECK_OK(rdma_disconnect(p.active));
	WANT_CM_ACK(p.ch, p.passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK_OK(rdma_disconnect(p.passive));
	WANT_CM_ACK(p.ch, p.active, RDMA_CM_EVENT_DISCONNECTED, 0);
	cmt_pair_close(&p);
}

/* The peer's process is killed: the connection ends with an event. */

VT_MAIN({ "nonblocking", nonblocking, 0 }, { "migrate_pending", migrate_pending, 0 },
	{ "destroy_waits", destroy_waits, 0 }, { "signals_restart", signals_restart, 0 },
	{ "forked", forked, 0 })
