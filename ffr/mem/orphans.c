/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * orphans.c - the process ffr-orphans, which watches registered memory when neither a session nor a
 * router is left to do so. Started by main.c before keeper and router; the router's control thread
 * hands over to it (pages.c).
 *
 * Theory of operation
 * -------------------
 * A program has its shadow pages for longer than a session: until it unmaps them, or ends. For so
 * long the kernel's questions have to be answered (watch.c). If nobody did, because the last
 * descriptor of the userfaultfd was closed, nothing would fail: what the program drops of such
 * memory would keep its content. So this process has, from WATCH_PAGES on, a second descriptor of
 * all that the thread in the router has, and outlives the router. With each session comes a
 * socket. The kernel closes the router's end of it when the router dies, by whatever signal, and
 * after the router's threads. The router closes it when the session ends. In both cases a thread
 * here goes on, with what the other one has read and not dealt with yet (struct watch_log). What the
 * program does in between waits for that, some milliseconds.
 *
 * The process ends when no router can come any more and no orphan is left. Until then it stays,
 * also when the service is stopped (KillMode=process in ffr.service): programs that run are not
 * changed by that. It has no rights and is the router's user. Its first thread waits for nobody. A
 * client can keep the thread for its orphan waiting, but no other one.
 *
 * A container, and a tenant's together, may have as many of the ORPHANS_MAX places as are free, as
 * with the router's own tables (share_full()); sessions count from WATCH_PAGES on. A client whose
 * session gets no place has its memory copied. What has nothing mapped gives its place back.
 *
 * Tests: unit/mem/test_orphans.c, system/verbs_orphans.sh
 */
#include "ffr/mem/orphans.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/keeper/keeper.h"
#include "ffr/lib/fds.h"
#include "ffr/lib/log.h"
#include "ffr/mem/pages_int.h"

#define ORPHANS_MAX 131072u /* fewer, where RLIMIT_NOFILE says so */
#define FDS_OWN	    64u
#define NUM_FDS	    (PAGES_NUM_FDS + 1u)	/* and the socket, which comes first */
#define RETRY_NS    10000000			/* after there was no memory, or no thread */
#define WATCHED	    (EPOLLRDHUP | EPOLLONESHOT) /* of a session's socket: its end, once */

/* A container, or with `container` 0 a tenant. */
struct owner_key {
	uint32_t container;
	char tenant[CONTAINER_NAME_MAX];
};

struct owner {
	UT_hash_handle hh;
	struct owner_key key;
	uint32_t num;
};

/* One packet. The answer, an int32_t, 0 or -errno, comes through the socket that came along. */
struct orphans_req {
	uint32_t container;
	char tenant[CONTAINER_NAME_MAX];
};

struct orphan {
	struct owner *owner[2]; /* container and tenant */
	int sock, fd[PAGES_NUM_FDS];
};

/* ---- the router's side ------------------------------------------------------------------- */

static int door = -1;

void orphans_use(int sock)
{
	door = sock;
}

static int32_t answer_get(int sock)
{
	int32_t status;
	ssize_t n;

	do
		n = recv(sock, &status, sizeof(status), 0);
	while (n < 0 && errno == EINTR);
	return n == sizeof(status) ? status : -EPIPE;
}

int orphans_add(const struct container *c, const int *fd, unsigned num, int *heir)
{
	struct orphans_req req = { .container = c->id };
	int pair[2], fds[NUM_FDS], err = 0;

	*heir = -1;
	if (door < 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	memcpy(req.tenant, c->tenant, sizeof(req.tenant));
	fds[0] = pair[1];
	memcpy(fds + 1, fd, num * sizeof(*fd));
	if (fds_send(door, &req, sizeof(req), fds, num + 1, 0) < 0)
		err = -errno;
	close(pair[1]);
	if (!err)
		err = answer_get(pair[0]);
	if (err) {
		close(pair[0]);
		return err;
	}
	*heir = pair[0];
	return 0;
}

/* ---- who has how many -------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* its holder waits for nothing */
static struct owner *owners;				 /* [lock] hash by key */
static uint32_t num_orphans;				 /* [lock] and sessions */
static uint32_t max_orphans;
static int ended_fd; /* eventfd: an orphan is no more */

static uint32_t places(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur == RLIM_INFINITY)
		return ORPHANS_MAX;
	if (l.rlim_cur <= FDS_OWN)
		return 0;
	/* each with an eventfd of its own */
	l.rlim_cur = (l.rlim_cur - FDS_OWN) / (NUM_FDS + 1);
	return l.rlim_cur < ORPHANS_MAX ? (uint32_t)l.rlim_cur : ORPHANS_MAX;
}

/* [lock] */
static void owner_put(struct owner *w)
{
	if (!w || --w->num)
		return;
	HASH_DEL(owners, w);
	free(w);
}

/* [lock] One more is its. NULL: no memory. */
static struct owner *owner_get(const struct owner_key *key)
{
	struct owner *w;

	HASH_FIND(hh, owners, key, sizeof(*key), w);
	if (!w) {
		w = calloc(1, sizeof(*w));
		if (!w)
			return NULL;
		w->key = *key;
		HASH_ADD(hh, owners, key, sizeof(w->key), w);
		if (!w->hh.tbl) {
			free(w);
			return NULL;
		}
	}
	w->num++;
	return w;
}

/* [lock] */
static void place_return(struct orphan *o)
{
	owner_put(o->owner[0]);
	owner_put(o->owner[1]);
	num_orphans--;
}

/* [lock] 0, -ENOSPC or -ENOMEM. */
static int place_take(struct orphan *o, const struct orphans_req *req)
{
	struct owner_key container = { .container = req->container }, tenant = { 0 };
	uint32_t own, all;

	snprintf(tenant.tenant, sizeof(tenant.tenant), "%.*s", CONTAINER_NAME_MAX - 1, req->tenant);
	o->owner[0] = owner_get(&container);
	o->owner[1] = owner_get(&tenant);
	num_orphans++;
	if (!o->owner[0] || !o->owner[1]) {
		place_return(o);
		return -ENOMEM;
	}
	own = o->owner[0]->num - 1;
	all = o->owner[1]->num - 1;
	if (!share_full(own, num_orphans - 1, max_orphans) &&
	    (own < SHARE_SMALL || !share_full(all, num_orphans - 1, max_orphans)))
		return 0;
	place_return(o);
	return -ENOSPC;
}

/* ---- an orphan ---------------------------------------------------------------------------- */

/* On a thread of its own: to close the last userfaultfd waits for the client's address space. */
static void orphan_end(struct orphan *o)
{
	bool has_place = o->owner[0];

	if (has_place) {
		pthread_mutex_lock(&lock);
		place_return(o);
		pthread_mutex_unlock(&lock);
	}
	free(o);
	if (has_place)
		eventfd_write(ended_fd, 1);
}

static void nap(void)
{
	const struct timespec t = { .tv_nsec = RETRY_NS };

	nanosleep(&t, NULL);
}

static void fds_close(const int *fd)
{
	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		close(fd[i]);
}

static void *orphan_thread(void *arg)
{
	struct orphan *o = arg;
	struct pages *w;
	int err;

	close(o->sock);
	while ((err = pages_inherit(o->fd, &w)) && err != -EINVAL)
		nap();
	if (err) {
		fds_close(o->fd);
	} else {
		watch_run(w);
		pages_unref(w);
	}
	orphan_end(o);
	return NULL;
}

static void *refused_thread(void *arg)
{
	struct orphan *o = arg;

	fds_close(o->fd);
	orphan_end(o);
	return NULL;
}

/* ---- messages in -------------------------------------------------------------------------- */

/* Is the last word that it may not become shorter, at which a thread here would be killed? */
static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK;
}

static int serve(int epoll, struct orphan *o, const struct orphans_req *req)
{
	struct epoll_event e = { .events = WATCHED, .data.ptr = o };
	socklen_t len = sizeof(int);
	int type, err;

	if (!req->container || !is_sealed(o->fd[PAGES_LOG]) ||
	    getsockopt(o->sock, SOL_SOCKET, SO_TYPE, &type, &len))
		return -EINVAL;
	pthread_mutex_lock(&lock);
	err = place_take(o, req);
	pthread_mutex_unlock(&lock);
	if (!err && epoll_ctl(epoll, EPOLL_CTL_ADD, o->sock, &e)) {
		err = -errno;
		pthread_mutex_lock(&lock);
		place_return(o);
		pthread_mutex_unlock(&lock);
	}
	if (err)
		o->owner[0] = o->owner[1] = NULL;
	return err;
}

/* A packet with its descriptors. False: no router will come any more. */
static bool take(int epoll, int sock)
{
	struct orphans_req req;
	unsigned n = 0;
	int fds[NUM_FDS];
	ssize_t len;
	struct orphan *o;
	int32_t status;

	len = fds_recv(sock, &req, sizeof(req), fds, NUM_FDS, &n, MSG_DONTWAIT);
	if (len < 0)
		return errno == EAGAIN || errno == EINTR;
	o = len == sizeof(req) && n == NUM_FDS ? calloc(1, sizeof(*o)) : NULL;
	if (!o) { /* the sender has them, too, and waits */
		while (n)
			close(fds[--n]);
		return len > 0;
	}
	o->sock = fds[0];
	memcpy(o->fd, fds + 1, sizeof(o->fd));
	status = serve(epoll, o, &req);
	while (status && keeper_thread(refused_thread, o))
		nap();
	send(fds[0], &status, sizeof(status), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (status)
		close(fds[0]);
	return true;
}

/* The session, or its router, has ended. */
static void inherit(int epoll, struct orphan *o)
{
	struct epoll_event again = { .events = WATCHED, .data.ptr = o };

	if (keeper_thread(orphan_thread, o)) {
		nap();
		epoll_ctl(epoll, EPOLL_CTL_MOD, o->sock, &again);
	}
}

static uint32_t num_left(void)
{
	uint32_t n;

	pthread_mutex_lock(&lock);
	n = num_orphans;
	pthread_mutex_unlock(&lock);
	return n;
}

static void tell(void)
{
	uint32_t n = num_left();

	if (n)
		log_info(
			"programs of %u sessions still have registered memory: process %d stays until they end",
			n, (int)getpid());
}

static void orphans_main(int sock, const struct sandbox_conf *conf, const struct user *u)
	__attribute__((noreturn));

static void orphans_main(int sock, const struct sandbox_conf *conf, const struct user *u)
{
	struct epoll_event e[64], own = { .events = EPOLLIN };
	struct user_rights rights = { 0 };
	bool is_open = true;
	eventfd_t ended;
	int epoll;

	/* what the router is told to stop by; this one ends when it has nothing to do */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	prctl(PR_SET_NAME, "ffr-orphans");
	log_journal(NULL); /* its descriptor is not kept */
	if (dup2(sock, STDERR_FILENO + 1) < 0 || chdir("/"))
		_exit(EXIT_FAILURE);
	sock = STDERR_FILENO + 1;
	syscall(SYS_close_range, sock + 1, ~0u, 0);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	max_orphans = places();
	if (epoll < 0 || ended_fd < 0 || (u && user_become(u, &rights)) || sandbox_prepare(conf) ||
	    sandbox_enter(SANDBOX_ORPHANS))
		_exit(EXIT_FAILURE);
	own.data.ptr = &is_open;
	epoll_ctl(epoll, EPOLL_CTL_ADD, sock, &own);
	own.data.ptr = &ended;
	epoll_ctl(epoll, EPOLL_CTL_ADD, ended_fd, &own);
	while (is_open || num_left()) {
		int n = epoll_wait(epoll, e, sizeof(e) / sizeof(e[0]), -1);

		for (int i = 0; i < n; i++) {
			if (e[i].data.ptr == &ended) {
				eventfd_read(ended_fd, &ended);
			} else if (e[i].data.ptr != &is_open) {
				inherit(epoll, e[i].data.ptr);
			} else if (!take(epoll, sock)) {
				is_open = false;
				close(sock);
				tell();
			}
		}
	}
	_exit(EXIT_SUCCESS);
}

pid_t orphans_start(const struct sandbox_conf *conf, const struct user *u, int *sock)
{
	int pair[2], err;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		err = -errno;
		log_err("the process for orphans: %s", strerror(-err));
		return err;
	}
	pid = fork();
	if (!pid)
		orphans_main(pair[1], conf, u);
	err = -errno;
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		log_err("the process for orphans: %s", strerror(-err));
		return err;
	}
	*sock = pair[0];
	return pid;
}
