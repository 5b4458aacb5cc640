/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * clients.c - checking the descriptors that clients hand over in HELLO, and keeping a pidfd and the client's own maps
 * for as long as its session lives. Keeper, or the control thread without a keeper.
 *
 * Checking a process means reading files of /proc, which wait for locks of the kernel. One of them is the lock of all
 * mounts, and whoever may mount can hold it for long. A descriptor may be of no file of /proc, and closing it may then
 * ask a server that is the client's. So the keeper's first thread gets only the client's name, and starts a thread for
 * the question. That thread takes the client's descriptors out of the question's socket, checks them and answers. The
 * socket hangs up when the thread has closed the descriptors that it does not keep.
 *
 * The first thread owns the table of clients. A client can be asked about when `ok` is set, which the question's thread
 * does before it answers.
 *
 * Tests: test_keeper.c
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/keeper/keeper.h"
#include "ffr/keeper/mounts.h"
#include "ffr/keeper/opener.h"
#include "ffr/lib/fds.h"

#define MAX_CLIENTS (1u << 20)

/* HELLOs at a time, of all containers. A container has at most as many as connections without a session. */
#define QUESTIONS_MAX 4096u

struct client {
	UT_hash_handle hh;
	_Atomic uint32_t refs; /* the table's, and that of the question's thread */
	_Atomic bool ok;       /* maps is set and checked */
	uint32_t id;
	pid_t pid;
	int pidfd, maps;
	struct saved *saved; /* the table's */
};

struct question {
	struct client *client;
	int sock;
	char cgroup[CGROUP_MAX]; /* "": any */
};

static struct client *clients; /* hash by id */
static uint32_t last_id;
static _Atomic uint32_t questions;

static struct client *find(uint32_t id)
{
	struct client *c;

	HASH_FIND(hh, clients, &id, sizeof(id), c);
	return c;
}

static void client_put(struct client *c)
{
	if (atomic_fetch_sub(&c->refs, 1) > 1)
		return;
	if (c->pidfd >= 0)
		close(c->pidfd);
	if (c->maps >= 0)
		close(c->maps);
	free(c);
}

static void client_forget(struct client *c)
{
	HASH_DEL(clients, c);
	saved_free(c->saved);
	c->saved = NULL;
	client_put(c);
}

/* ---- the question ------------------------------------------------------------------------------ */

static void question_free(struct question *q)
{
	client_put(q->client);
	if (q->sock >= 0)
		close(q->sock);
	free(q);
	atomic_fetch_sub(&questions, 1);
}

static void cgroup_look(const struct question *q, const struct ctl_peer *peer,
			struct keeper_added *a)
{
	char path[CGROUP_MAX];
	size_t n;

	if (!*q->cgroup)
		return;
	a->err = ctl_peer_in_cgroup(peer, q->cgroup, path);
	a->outside = a->err && a->err != -ESRCH;
	n = strlen(path);
	memcpy(a->cgroup, n < KEEPER_CGROUP ? path : path + n - (KEEPER_CGROUP - 1),
	       n < KEEPER_CGROUP ? n : KEEPER_CGROUP - 1);
}

/*
 * memory: mem and maps. The latter is the client's afterwards, if all is well. *status is the caller's then: an open
 * file of its own of the process's /proc/PID/status, or -1.
 */
static void look(const struct question *q, int memory[2], int *status, struct keeper_added *a)
{
	const struct ctl_peer peer = { .pid = q->client->pid, .pidfd = q->client->pidfd };
	char path[32];
	const char *why;

	cgroup_look(q, &peer, a);
	if (a->err)
		return;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)peer.pid);
	*status = opener_proc(path); /* of that process, if it still lives below */
	why = ctl_peer_memory(&peer, memory[0], memory[1]);
	if (why) {
		snprintf(a->why, sizeof(a->why), "%s", why);
		a->err = -EPERM;
		return;
	}
	q->client->maps = memory[1];
	memory[1] = -1;
	atomic_store(&q->client->ok, true);
}

static uint64_t cpu_of_this_thread(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Where too many descriptors wait in sockets of this user, none can be sent along: then without. */
static void answer(int sock, const struct keeper_added *a, int status)
{
	unsigned n = status >= 0;

	while (fds_send(sock, a, sizeof(*a), &status, n, 0) < 0 && (errno == EINTR || n))
		n = errno == EINTR ? n : 0;
}

static void *question_thread(void *arg)
{
	struct question *q = arg;
	struct keeper_added a = { 0 };
	int memory[2] = { -1, -1 }, status = -1;
	unsigned n = 0;
	char c;

	mounts_call_begins();
	if (fds_recv(q->sock, &c, sizeof(c), memory, 2, &n, 0) == 1 && n == 2)
		look(q, memory, &status, &a);
	else
		a.err = -EINVAL;
	mounts_call_ends();
	while (n)
		if (memory[--n] >= 0)
			close(memory[n]);
	a.cpu_ns = cpu_of_this_thread();
	answer(q->sock, &a, a.err ? -1 : status);
	if (status >= 0)
		close(status);
	question_free(q);
	return NULL;
}

void clients_settle(void)
{
	while (atomic_load(&questions))
		sched_yield();
}

static int ask(struct client *c, const char *cgroup, int sock)
{
	struct question *q;
	int err;

	if (atomic_fetch_add(&questions, 1) >= QUESTIONS_MAX) {
		atomic_fetch_sub(&questions, 1);
		return -EAGAIN;
	}
	q = calloc(1, sizeof(*q));
	if (!q) {
		atomic_fetch_sub(&questions, 1);
		return -ENOMEM;
	}
	atomic_fetch_add(&c->refs, 1);
	q->client = c;
	snprintf(q->cgroup, sizeof(q->cgroup), "%s", cgroup);
	q->sock = fcntl(sock, F_DUPFD_CLOEXEC, 0);
	err = q->sock < 0 ? -errno : keeper_thread(question_thread, q);
	if (err)
		question_free(q);
	return err;
}

/* ---- the table --------------------------------------------------------------------------------- */

int clients_add(const struct ctl_peer *peer, const char *cgroup, int sock, uint32_t *id)
{
	struct client *c;
	int err;

	if (HASH_COUNT(clients) >= MAX_CLIENTS)
		return -ENOSPC;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->refs = 1;
	c->pid = peer->pid;
	c->maps = -1;
	c->pidfd = fcntl(peer->pidfd, F_DUPFD_CLOEXEC, 0);
	if (c->pidfd < 0) {
		err = -errno;
		client_put(c);
		return err;
	}
	do
		c->id = ++last_id;
	while (!c->id || find(c->id));
	HASH_ADD(hh, clients, id, sizeof(c->id), c);
	if (!c->hh.tbl) {
		client_put(c);
		return -ENOMEM;
	}
	err = ask(c, cgroup, sock);
	if (err)
		client_forget(c);
	else
		*id = c->id;
	return err;
}

int clients_del(uint32_t id)
{
	struct client *c = find(id);

	if (!c)
		return -ENOENT;
	client_forget(c);
	return 0;
}

int clients_look(uint32_t id, const struct keeper_range *range, uint32_t n, bool writes, int sock)
{
	const struct client *c = find(id);

	if (!c || !atomic_load(&c->ok))
		return -ENOENT;
	return look_start(c->pid, c->pidfd, c->maps, range, n, writes, sock);
}

/* ---- what is saved of them --------------------------------------------------------------------- */

int clients_save(uint32_t id, const uint32_t *slot, const int *fds, uint32_t n)
{
	struct client *c = find(id);
	int err = c && atomic_load(&c->ok) ? 0 : -ENOENT;

	for (uint32_t i = 0; i < n && !err; i++)
		err = saved_put(&c->saved, slot[i], fds[i]);
	return err;
}

int clients_saved(uint32_t id, uint32_t slot)
{
	const struct client *c = find(id);

	return c ? saved_get(c->saved, slot) : -ENOENT;
}

int clients_unsave(uint32_t id, uint32_t slot)
{
	const struct client *c = find(id);

	return c ? saved_del(c->saved, slot) : -ENOENT;
}

int clients_saved_next(uint32_t after, uint32_t *id)
{
	const struct client *c = find(after);

	if (after && !c)
		return -ENOENT;
	c = after ? c->hh.next : clients;
	while (c && !c->saved)
		c = c->hh.next;
	*id = c ? c->id : 0;
	return c ? 0 : -ENOENT;
}

void clients_begin(void)
{
	struct client *c, *next;

	HASH_ITER(hh, clients, c, next)
		if (!c->saved)
			client_forget(c);
}

void clients_clear(void)
{
	struct client *c, *next;

	HASH_ITER(hh, clients, c, next)
		client_forget(c);
}
