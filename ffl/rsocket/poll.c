/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * poll.c - rpoll and rselect, over rsockets and ordinary descriptors mixed. Any thread.
 *
 * First everything is looked at, again and again for the polling time. Then each rsocket's CQ is
 * armed by the rules of wait.c, and poll(2) sleeps on the ordinary descriptors and, for
 * each rsocket, on its completion channel and its CM channel.
 *
 * Tests: system/rs_socket.c
 */
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

#include "ffl/rsocket/rsocket.h"

#define ON_STACK  32u /* descriptors for which no memory is allocated */
#define OTHERS_US 5u  /* between two looks at the ordinary descriptors, while rsockets are polled */

/* ---- one rsocket ------------------------------------------------------------------------------------ */

/* Call with lock held. */
static short revents_of(struct rsocket *rs, short events)
{
	short in = POLLIN | POLLRDNORM, out = POLLOUT | POLLWRNORM;

	switch ((enum rs_state)rs->state) {
	case RS_LISTENING:
		return rs->num_accepted ? (short)(events & in) : 0;
	case RS_ACCEPTING:
	case RS_CONNECTED:
		return rs_stream_revents(rs, events);
	case RS_FAILED:
		return (short)((events & (in | out)) | POLLERR | POLLHUP);
	case RS_OPEN:
		return rs_dgram_revents(rs, events);
	case RS_INIT:
	case RS_BOUND: /* a stream that is not connected has no events; a datagram can be sent */
		return rs->type == SOCK_STREAM ? 0 : (short)(events & out);
	default:
		return 0;
	}
}

static short look(struct rsocket *rs, short events)
{
	short r;

	rs_lock(&rs->lock);
	rs_process(rs);
	rs_cm_look(rs);
	r = revents_of(rs, events);
	rs_unlock(&rs->lock);
	return r;
}

/* ---- looking at all ----------------------------------------------------------------------------------- */

/* fds with the rsockets in rs (NULL: an ordinary descriptor). How many have events. */
static int look_at_rsockets(struct pollfd *fds, struct rsocket **rs, nfds_t n)
{
	int ready = 0;

	for (nfds_t i = 0; i < n; i++)
		if (rs[i]) {
			fds[i].revents = look(rs[i], fds[i].events);
			ready += fds[i].revents != 0;
		}
	return ready;
}

/* sys has room for n; how many ordinary descriptors have events, or -errno. */
static int look_at_others(struct pollfd *fds, struct rsocket **rs, nfds_t n, struct pollfd *sys)
{
	nfds_t k = 0, at = 0;
	int ready;

	for (nfds_t i = 0; i < n; i++)
		if (!rs[i])
			sys[k++] = fds[i];
	if (!k)
		return 0;
	ready = poll(sys, k, 0);
	if (ready < 0)
		return -errno;
	for (nfds_t i = 0; i < n; i++)
		if (!rs[i])
			fds[i].revents = sys[at++].revents;
	return ready;
}

/* ---- sleeping --------------------------------------------------------------------------------------------- */

/* Not to sleep on it any more; woken: its channel had something. */
static void disarm(struct rsocket *rs, bool woken)
{
	rs_lock(&rs->lock);
	rs->cq.sleepers--;
	rs->cm_sleepers--;
	if (woken)
		rs->cq.fired = true;
	rs_unlock(&rs->lock);
}

/* 0: armed, and this thread counts as a sleeper; 1: it has events; -EAGAIN: others must wake up. */
static int arm(struct rsocket *rs, short events)
{
	enum rs_arm a = RS_ARMED;
	int ret = 0;

	rs_lock(&rs->lock);
	do {
		rs_process(rs);
		if (revents_of(rs, events)) {
			ret = 1;
			break;
		}
		if (rs->cq.cq)
			a = rs_cq_arm(&rs->cq);
		if (a == RS_OTHERS)
			ret = -EAGAIN;
	} while (a == RS_REARMED);
	if (!ret) {
		rs->cq.sleepers++;
		rs->cm_sleepers++;
	}
	rs_unlock(&rs->lock);
	return ret;
}

/*
 * Sleep on all of them, in sys, which has room for 2 * n. 0, or -errno of poll(2). Returns at once
 * if an rsocket has events by now.
 */
static int sleep_on_all(struct pollfd *fds, struct rsocket **rs, nfds_t n, struct pollfd *sys,
			int timeout /* ms */)
{
	nfds_t armed, k = 0;
	int ret = 0;

	for (armed = 0; armed < n; armed++) {
		struct rsocket *r = rs[armed];

		if (!r) {
			sys[k++] = fds[armed];
			continue;
		}
		ret = arm(r, fds[armed].events);
		if (ret)
			break;
		sys[k++] = (struct pollfd){ .fd = r->cq.channel ? r->cq.channel->fd : -1,
					    .events = POLLIN };
		sys[k++] = (struct pollfd){ .fd = r->cm_lost ? -1 : r->fd, .events = POLLIN };
	}
	if (armed == n)
		ret = poll(sys, k, timeout) < 0 ? -errno : 0;
	else if (ret == -EAGAIN)
		sched_yield();
	k = 0;
	for (nfds_t i = 0; i < armed; i++) {
		if (!rs[i]) {
			k++;
			continue;
		}
		disarm(rs[i], armed == n && sys[k].revents);
		if (armed == n && (sys[k + 1].revents || rs_opening(rs[i]->state))) {
			rs_lock(&rs[i]->lock);
			rs_cm_process(rs[i]);
			rs_unlock(&rs[i]->lock);
		}
		k += 2;
	}
	return armed == n ? ret : 0;
}

/* ---- rpoll ---------------------------------------------------------------------------------------------------- */

static int poll_all(struct pollfd *fds, struct rsocket **rs, nfds_t n, struct pollfd *sys,
		    int timeout)
{
	uint64_t start = rs_now(), now = start, others_at = 0;
	uint64_t end = timeout > 0 ? start + (uint64_t)timeout * 1000 : 0;
	int ready, others = 0, ms, err;

	for (;;) {
		ready = look_at_rsockets(fds, rs, n);
		/* what is ready is not held up by descriptors that may be as well, but they count */
		if (ready || timeout == 0 || now - others_at >= OTHERS_US ||
		    now - start >= rs_polling_time) {
			others = look_at_others(fds, rs, n, sys);
			if (others < 0)
				return others;
			others_at = now;
			ready += others;
		}
		if (ready || timeout == 0)
			return ready;
		now = rs_now();
		if (end && now >= end)
			return 0;
		if (now - start < rs_polling_time)
			continue;
		ms = end ? (int)rs_min((end - now + 999) / 1000, (uint64_t)RS_SLEEP_MS) :
			   RS_SLEEP_MS;
		err = sleep_on_all(fds, rs, n, sys, ms);
		if (err)
			return err;
		now = rs_now();
	}
}

RS_EXPORT int rpoll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct rsocket *rs_stack[ON_STACK], **rs = rs_stack;
	struct pollfd sys_stack[2 * ON_STACK], *sys = sys_stack;
	bool any = false;
	int ret;

	if (n > ON_STACK) {
		rs = calloc(n, sizeof(*rs));
		sys = calloc(n, 2 * sizeof(*sys));
		if (!rs || !sys) {
			ret = -ENOMEM;
			goto out;
		}
	}
	for (nfds_t i = 0; i < n; i++) {
		fds[i].revents = 0;
		rs[i] = rs_fd_get(fds[i].fd);
		any |= rs[i] != NULL;
	}
	if (any) {
		ret = poll_all(fds, rs, n, sys, timeout < 0 ? -1 : timeout);
	} else {
		ret = poll(fds, n, timeout);
		if (ret < 0)
			ret = -errno;
	}
out:
	if (rs != rs_stack) {
		free(rs);
		free(sys);
	}
	return rs_ret(ret);
}

/* ---- rselect ---------------------------------------------------------------------------------------------------- */

static bool in_set(int fd, const fd_set *set)
{
	return set && FD_ISSET(fd, set);
}

/* As select(2) reports poll(2)'s events. */
static int report(const struct pollfd *p, fd_set *set, short events, short wanted)
{
	if (!set || !(p->events & wanted) || !(p->revents & events))
		return 0;
	FD_SET(p->fd, set);
	return 1;
}

RS_EXPORT int rselect(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout)
{
	struct pollfd *fds;
	int n = 0, ms = -1, ret;

	if (nfds < 0) /* as rdma-core's, which asks for memory for so many */
		return rs_ret(-ENOMEM);
	if (nfds > FD_SETSIZE)
		return rs_ret(-EINVAL);
	if (timeout && timeout->tv_sec >= 0 && timeout->tv_usec >= 0) /* else without end */
		ms = timeout->tv_sec > INT_MAX / 1000 - 1 ?
			     INT_MAX :
			     (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
	fds = calloc((size_t)nfds + 1, sizeof(*fds));
	if (!fds)
		return rs_ret(-ENOMEM);
	for (int fd = 0; fd < nfds; fd++) {
		short events = (in_set(fd, rd) ? POLLIN : 0) | (in_set(fd, wr) ? POLLOUT : 0) |
			       (in_set(fd, ex) ? POLLPRI : 0);

		if (events)
			fds[n++] = (struct pollfd){ .fd = fd, .events = events };
	}
	ret = rpoll(fds, (nfds_t)n, ms);
	if (ret < 0)
		goto out;
	if (rd)
		FD_ZERO(rd);
	if (wr)
		FD_ZERO(wr);
	if (ex)
		FD_ZERO(ex);
	ret = 0;
	for (int i = 0; i < n; i++) {
		ret += report(&fds[i], rd, POLLIN | POLLHUP | POLLERR, POLLIN);
		ret += report(&fds[i], wr, POLLOUT | POLLERR, POLLOUT);
		/* of one that is closed each call tells, but not with EBADF */
		ret += report(&fds[i], ex, POLLPRI | POLLNVAL, POLLPRI);
	}
out:
	free(fds);
	return ret;
}
