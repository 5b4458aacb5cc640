/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * wait.c - waiting: poll for a short time, then sleep on the completion channel and on the
 * CM channel. Any thread.
 *
 * Several threads may wait for different things on one CQ, and each takes in what it finds there
 * for all of them. So that nobody sleeps while what it waits for was taken in by another:
 *
 * - A thread that is about to sleep has, with the lock held, armed the CQ and then found its
 *   condition false after an empty poll. It counts itself in `sleepers` and releases the lock.
 * - Each CQE from then on causes one event in the channel, which stays readable until it is read.
 *   `fired` says that a CQE was taken since arming: the event is there or will be.
 * - The event is read, and the CQ armed again, only while there are no sleepers. Who wants to sleep
 *   while the event of others is pending lets them wake up first.
 *
 * A connection that ends makes CQEs (its receives are flushed), so that events of the CM channel
 * that one thread reads wake the others, too. While a connection is made there is no CQ yet; then
 * RS_SLEEP_MS bounds what a thread can miss.
 *
 * Tests: system/rs_socket.c, system/rs_stream.c
 */
#include <poll.h>
#include <sched.h>

#include "ffl/rsocket/rsocket.h"

#define MAX_SERVED 64	/* descriptors that one wait serves */
#define MAX_YIELDS 1000 /* for sleepers to wake up; one may have left by longjmp() */
/*
 * The first LOOKS_ROUNDS rounds that find nothing poll the CQ LOOKS times each. The verbs count a program's
 * empty polls and then give its CPU away, which the peer or the router may be waiting for (ffl/verbs/cq.c). Their
 * number suits a program that does nothing but poll. A round here does ten times as much beside its poll, so
 * with one poll a round the CPU would be given away too late.
 */
#define LOOKS	     10
#define LOOKS_ROUNDS 2

static pthread_mutex_t service_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rsocket *service; /* listeners and datagram rsockets */

/* ---- the CQ -------------------------------------------------------------------------------------- */

int rs_cq_open(struct rs_cq *q, struct ibv_context *ctx, int cqe)
{
	int err;

	q->channel = ibv_create_comp_channel(ctx);
	if (!q->channel)
		return -errno;
	if (fcntl(q->channel->fd, F_SETFL, O_NONBLOCK)) {
		err = -errno;
		goto err_channel;
	}
	q->cq = ibv_create_cq(ctx, cqe, q, q->channel, 0);
	if (!q->cq) {
		err = -errno;
		goto err_channel;
	}
	return 0;

err_channel:
	ibv_destroy_comp_channel(q->channel);
	q->channel = NULL;
	return err;
}

void rs_cq_close(struct rs_cq *q)
{
	if (q->cq)
		ibv_destroy_cq(q->cq);
	if (q->channel)
		ibv_destroy_comp_channel(q->channel);
	q->cq = NULL;
	q->channel = NULL;
}

enum rs_arm rs_cq_arm(struct rs_cq *q)
{
	struct ibv_cq *cq;
	void *context;

	if (q->armed && !q->fired)
		return RS_ARMED;
	if (q->sleepers && ++q->yields < MAX_YIELDS)
		return RS_OTHERS;
	q->yields = 0;
	if (q->armed && !ibv_get_cq_event(q->channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(q->cq, 0);
	q->armed = true;
	q->fired = false;
	return RS_REARMED;
}

/* ---- one rsocket ----------------------------------------------------------------------------------- */

void rs_process(struct rsocket *rs)
{
	if (rs->type == SOCK_DGRAM)
		rs_dgram_process(rs);
	else if (rs_is_stream(rs))
		rs_stream_process(rs);
	else
		rs_cm_process(rs);
}

/* Sleep until something may have changed. Call with lock held, which is released meanwhile. */
static int sleep_on(struct rsocket *rs, int timeout /* ms */)
{
	struct pollfd fds[2] = { { .fd = rs->cm_lost ? -1 : rs->ec->fd, .events = POLLIN } };
	nfds_t n = 1;
	int ret, err;

	if (rs->cq.channel) {
		fds[n++] = (struct pollfd){ .fd = rs->cq.channel->fd, .events = POLLIN };
		rs->cq.sleepers++;
	}
	rs->cm_sleepers++;
	rs_unlock(&rs->lock);
	ret = poll(fds, n, timeout);
	err = ret < 0 ? -errno : 0;
	rs_lock(&rs->lock);
	rs->cm_sleepers--;
	if (n > 1) {
		rs->cq.sleepers--;
		if (fds[1].revents)
			rs->cq.fired = true;
	}
	if (ret == 0 || fds[0].revents)
		rs_cm_process(rs);
	return err;
}

static int ms_until(uint64_t deadline, uint64_t now)
{
	uint64_t ms;

	if (!deadline)
		return RS_SLEEP_MS;
	ms = deadline > now ? (deadline - now + 999) / 1000 : 0;
	return (int)rs_min(ms, (uint64_t)RS_SLEEP_MS);
}

/* A round of polling. Call with lock held. */
static bool look(struct rsocket *rs, bool (*ready)(struct rsocket *rs))
{
	bool polls = rs->type == SOCK_DGRAM || rs_is_stream(rs);
	int looks = 1;

	if (polls && rs->cq.empty < LOOKS_ROUNDS) {
		rs->cq.empty++;
		looks = LOOKS;
	}
	do {
		rs_process(rs);
		if (ready(rs))
			return true;
	} while (--looks);
	return false;
}

int rs_wait(struct rsocket *rs, bool (*ready)(struct rsocket *rs), bool nonblock, uint64_t timeout)
{
	uint64_t start = 0, now, deadline = 0;
	int err = 0;
	bool ok;

	for (;;) {
		rs_lock(&rs->lock);
		ok = look(rs, ready);
		if (!ok && nonblock) {
			rs_cm_look(rs);
			ok = ready(rs);
		}
		rs_unlock(&rs->lock);
		if (ok)
			return 0;
		if (nonblock)
			return -EAGAIN;
		now = rs_now();
		if (!start) {
			start = now;
			deadline = timeout ? now + timeout : 0;
		}
		if (now - start >= rs_polling_time || (deadline && now >= deadline))
			break;
	}

	rs_lock(&rs->lock);
	for (;;) {
		rs_process(rs);
		if (ready(rs))
			break;
		now = rs_now();
		if (deadline && now >= deadline) {
			err = -EAGAIN;
			break;
		}
		if (rs->cq.cq) {
			enum rs_arm arm = rs_cq_arm(&rs->cq);

			if (arm == RS_OTHERS) {
				rs_unlock(&rs->lock);
				sched_yield();
				rs_lock(&rs->lock);
			}
			if (arm != RS_ARMED)
				continue;
		}
		err = sleep_on(rs, ms_until(deadline, now));
		if (err)
			break;
	}
	rs_unlock(&rs->lock);
	return err;
}

/* ---- waiting for others, who may be ourselves --------------------------------------------------------- */

void rs_service_add(struct rsocket *rs)
{
	pthread_mutex_lock(&service_lock);
	rs->next_service = service;
	service = rs;
	pthread_mutex_unlock(&service_lock);
}

void rs_service_del(struct rsocket *rs)
{
	struct rsocket **p;

	pthread_mutex_lock(&service_lock);
	for (p = &service; *p; p = &(*p)->next_service)
		if (*p == rs) {
			*p = rs->next_service;
			break;
		}
	pthread_mutex_unlock(&service_lock);
}

/*
 * Take in what came for the others; their CM channels. Returns how many there are in fds. A thread that sleeps on a
 * channel takes its events itself: without one it would not learn that a connection was accepted. It may have left by
 * longjmp(), so `all` are served where nothing has happened for RS_SLEEP_MS.
 */
static nfds_t serve(const struct rsocket *self, struct pollfd *fds, nfds_t max, bool all)
{
	nfds_t n = 0;
	bool awaited;

	pthread_mutex_lock(&service_lock);
	for (struct rsocket *rs = service; rs; rs = rs->next_service) {
		/* one that is locked is served by the thread that has it */
		if (rs == self || !rs_trylock(&rs->lock))
			continue;
		awaited = (rs->cm_sleepers && !all) || rs->cm_lost;
		if (!awaited)
			rs_cm_process(rs);
		rs_unlock(&rs->lock);
		if (n < max && !awaited)
			fds[n++] = (struct pollfd){ .fd = rs->fd, .events = POLLIN };
	}
	pthread_mutex_unlock(&service_lock);
	return n;
}

int rs_wait_served(struct rsocket *rs, bool (*done)(struct rsocket *rs), uint64_t timeout)
{
	struct pollfd fds[1 + MAX_SERVED];
	uint64_t deadline = timeout ? rs_now() + timeout : 0, now;
	bool ok, all = false;
	int ready;
	nfds_t n;

	for (;;) {
		rs_lock(&rs->lock);
		rs_cm_process(rs);
		rs_process(rs);
		ok = done(rs);
		rs_unlock(&rs->lock);
		if (ok)
			return 0;
		now = rs_now();
		if (deadline && now >= deadline)
			return -EAGAIN;
		n = serve(rs, fds + 1, MAX_SERVED, all);
		fds[0] = (struct pollfd){ .fd = rs->fd, .events = POLLIN };
		ready = poll(fds, n + 1, ms_until(deadline, now));
		if (ready < 0)
			return -errno;
		all = !ready;
	}
}
