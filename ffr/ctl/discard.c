/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * discard.c - descriptors that may take as long as a client likes to close. Control thread; called by
 * conn.c and container.c.
 *
 * To close the last descriptor of a file is a call into what the file is of. A TCP socket that lingers
 * (SO_LINGER) waits until its peer has read everything, one of a FUSE file system until its server has
 * answered: either may be the client's. It can send such a descriptor with any message, and the
 * kernel closes those in messages that nobody has read when the socket goes. The thread that serves
 * everybody must not be the one that closes them.
 *
 * So a container that sends what it should not has its descriptors, and a connection in which anything
 * is left unread, closed by a thread of its own, which ends when there is nothing more to close. A
 * client that keeps it waiting keeps its own container from new connections, above DISCARD_MAX.
 * Programs of that container that have a connection go on: a connection is closed when it sends
 * such a descriptor, and more than DISCARD_MAX descriptors that were sent wait already. Connections
 * that wait are not counted for that, since a process that dies may leave hundreds at once.
 */
#include "ffr/ctl/discard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <bsd/sys/queue.h>

#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"

struct item {
	STAILQ_ENTRY(item) entry;
	int fd;
	bool sent; /* by a client; else it is a connection */
};

struct discard {
	pthread_mutex_t lock;
	STAILQ_HEAD(, item) items; /* [lock] */
	unsigned num;		   /* [lock] that are not closed yet */
	unsigned num_sent;	   /* [lock] of them, what clients have sent */
	bool running;		   /* [lock] there is a thread */
	bool ended;		   /* [lock] the last one frees it */
};

static void discard_free(struct discard *d)
{
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* Until nothing is left. */
static void *closer(void *arg)
{
	struct discard *d = arg;
	struct item *i;
	bool last;

	(void)sandbox_enter(SANDBOX_POOL); /* the control thread's holds in any case */
	pthread_mutex_lock(&d->lock);
	while ((i = STAILQ_FIRST(&d->items))) {
		STAILQ_REMOVE_HEAD(&d->items, entry);
		pthread_mutex_unlock(&d->lock);
		close(i->fd);
		pthread_mutex_lock(&d->lock);
		d->num--;
		d->num_sent -= i->sent;
		free(i);
	}
	d->running = false;
	last = d->ended;
	pthread_mutex_unlock(&d->lock);
	if (last)
		discard_free(d);
	return NULL;
}

/* [lock] 0 or -errno. */
static int start(struct discard *d)
{
	sigset_t all, old;
	pthread_attr_t a;
	pthread_t t;
	int err;

	if (d->running)
		return 0;
	/* signals are the control thread's, but for the sandbox's */
	sigfillset(&all);
	sigdelset(&all, SIGSYS);
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&t, &a, closer, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&a);
	d->running = !err;
	return -err;
}

static struct discard *get(struct discard **d)
{
	struct discard *new = *d ? NULL : calloc(1, sizeof(*new));

	if (new) {
		pthread_mutex_init(&new->lock, NULL);
		STAILQ_INIT(&new->items);
		*d = new;
	}
	return *d;
}

static void discard(struct discard **dp, int fd, bool sent)
{
	struct item *i = malloc(sizeof(*i));
	struct discard *d = i ? get(dp) : NULL;
	int err;

	if (!d) { /* it stays open: to close it here may stop everybody */
		free(i);
		log_warn("a client's descriptor cannot be closed: %s", strerror(ENOMEM));
		return;
	}
	i->fd = fd;
	i->sent = sent;
	pthread_mutex_lock(&d->lock);
	STAILQ_INSERT_TAIL(&d->items, i, entry);
	d->num++;
	d->num_sent += sent;
	err = start(d); /* the next one tries again */
	pthread_mutex_unlock(&d->lock);
	if (err)
		log_warn("no thread to close a client's descriptors: %s", strerror(-err));
}

void discard_fd(struct discard **d, int fd)
{
	discard(d, fd, true);
}

/*
 * Is there a message in the socket that nobody has read? Its receiving side is shut down, so no more
 * can come. Each message has its sender's name with it, so that one without data is told from none.
 */
static bool unread(int fd)
{
	struct msghdr msg = { 0 };
	int yes = 1;
	ssize_t n;

	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)))
		return true;
	n = recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT);
	return n || msg.msg_flags;
}

void discard_socket(struct discard **d, int fd)
{
	if (!shutdown(fd, SHUT_RDWR) && !unread(fd))
		close(fd);
	else
		discard(d, fd, false);
}

bool discard_full(struct discard *d, bool sent)
{
	bool full;

	if (!d)
		return false;
	pthread_mutex_lock(&d->lock);
	full = (sent ? d->num_sent : d->num) > DISCARD_MAX;
	pthread_mutex_unlock(&d->lock);
	return full;
}

void discard_end(struct discard *d)
{
	bool last;

	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->ended = true;
	last = !d->running;
	pthread_mutex_unlock(&d->lock);
	if (last)
		discard_free(d);
}
