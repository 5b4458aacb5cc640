/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * saved.c - descriptors of a client's session that stay while the router is started again. Keeper; called by clients.c,
 * which has the clients. docs/internals/restart.md tells what they are for.
 *
 * The keeper looks at none of them, and hands them to a router only. The router may have been taken over, and a client
 * chooses what some of them are. So the last close of one may take as long as a client likes, and a thread closes
 * them, for which nobody waits. Each client's have a thread of their own.
 *
 * Tests: test_saved.c
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "ffr/keeper/keeper.h"

#define SAVED_MAX 8192u /* of a client */

struct saved {
	uint32_t num, max;
	struct saved_one {
		uint32_t slot;
		int fd;
	} * one;
};

/* ---- closing --------------------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct to_close {
	struct to_close *next;
	uint32_t num;
	int fd[];
};
static struct to_close *waiting; /* [lock] for whom there was no memory for a thread */
static uint32_t num_closers;	 /* [lock] */

static struct to_close *take_waiting(void)
{
	struct to_close *c;

	pthread_mutex_lock(&lock);
	c = waiting;
	if (c)
		waiting = c->next;
	else
		num_closers--;
	pthread_mutex_unlock(&lock);
	return c;
}

/* One client's descriptors, and then those that wait: what a client makes slow keeps up no other client's. */
static void *closer(void *arg)
{
	for (struct to_close *c = arg; c; c = take_waiting()) {
		while (c->num)
			close(c->fd[--c->num]);
		free(c);
	}
	return NULL;
}

static void close_later(struct to_close *c)
{
	pthread_mutex_lock(&lock);
	num_closers++;
	pthread_mutex_unlock(&lock);
	if (!keeper_thread(closer, c))
		return;
	/* the next thread closes these, too */
	pthread_mutex_lock(&lock);
	num_closers--;
	c->next = waiting;
	waiting = c;
	pthread_mutex_unlock(&lock);
}

void saved_settle(void)
{
	bool busy;

	do {
		pthread_mutex_lock(&lock);
		busy = num_closers;
		pthread_mutex_unlock(&lock);
		sched_yield();
	} while (busy);
}

static struct to_close *to_close_new(uint32_t num)
{
	return calloc(1, sizeof(struct to_close) + num * sizeof(int));
}

/* ---- a client's ------------------------------------------------------------------------------------------------ */

static struct saved_one *find(const struct saved *s, uint32_t slot)
{
	for (uint32_t i = 0; s && i < s->num; i++)
		if (s->one[i].slot == slot)
			return &s->one[i];
	return NULL;
}

/* Room for one more. 0 or -errno. */
static int room(struct saved **sp)
{
	struct saved *s = *sp ? *sp : calloc(1, sizeof(*s));
	uint32_t max;
	void *more;

	if (!s)
		return -ENOMEM;
	*sp = s;
	if (s->num < s->max)
		return 0;
	max = s->max ? s->max * 2 : 16;
	if (max > SAVED_MAX)
		return -ENOSPC;
	more = realloc(s->one, max * sizeof(*s->one));
	if (!more)
		return -ENOMEM;
	s->one = more;
	s->max = max;
	return 0;
}

int saved_put(struct saved **sp, uint32_t slot, int fd)
{
	struct saved_one *old = find(*sp, slot);
	struct to_close *c = old ? to_close_new(1) : NULL;
	int own, err = old ? 0 : room(sp);

	if (err || (old && !c))
		return err ? err : -ENOMEM;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0) {
		err = -errno;
		free(c);
		return err;
	}
	if (!old) {
		(*sp)->one[(*sp)->num++] = (struct saved_one){ slot, own };
		return 0;
	}
	c->fd[c->num++] = old->fd;
	old->fd = own;
	close_later(c);
	return 0;
}

int saved_get(const struct saved *s, uint32_t slot)
{
	const struct saved_one *o = find(s, slot);
	int fd = o ? fcntl(o->fd, F_DUPFD_CLOEXEC, 0) : -1;

	return !o ? -ENOENT : fd < 0 ? -errno : fd;
}

int saved_del(struct saved *s, uint32_t slot)
{
	struct saved_one *o = find(s, slot);
	struct to_close *c = o ? to_close_new(1) : NULL;

	if (!c)
		return o ? -ENOMEM : -ENOENT;
	c->fd[c->num++] = o->fd;
	*o = s->one[--s->num];
	close_later(c);
	return 0;
}

void saved_free(struct saved *s)
{
	struct to_close *c;

	if (!s)
		return;
	c = to_close_new(s->num);
	for (uint32_t i = 0; i < s->num; i++) {
		if (c)
			c->fd[c->num++] = s->one[i].fd;
		else
			close(s->one[i].fd);
	}
	if (c)
		close_later(c);
	free(s->one);
	free(s);
}
