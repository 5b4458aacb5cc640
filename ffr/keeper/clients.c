/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * clients.c - what clients handed over in HELLO and is kept for as long as their sessions live: a pidfd
 * and their own maps. Keeper, or the control thread where there is none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/keeper/keeper.h"

#define MAX_CLIENTS (1u << 20)

struct client {
	UT_hash_handle hh;
	uint32_t id;
	pid_t pid;
	int pidfd, maps;
};

static struct client *clients; /* hash by id */
static uint32_t last_id;

static struct client *find(uint32_t id)
{
	struct client *c;

	HASH_FIND(hh, clients, &id, sizeof(id), c);
	return c;
}

static void client_free(struct client *c)
{
	if (c->pidfd >= 0)
		close(c->pidfd);
	if (c->maps >= 0)
		close(c->maps);
	free(c);
}

int clients_add(const struct ctl_peer *peer, int mem, int maps, uint32_t *id, char why[KEEPER_WHY])
{
	const char *reason = ctl_peer_memory(peer, mem, maps);
	struct client *c;
	int err;

	if (reason) {
		snprintf(why, KEEPER_WHY, "%s", reason);
		return -EPERM;
	}
	if (HASH_COUNT(clients) >= MAX_CLIENTS)
		return -ENOSPC;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->pid = peer->pid;
	c->pidfd = fcntl(peer->pidfd, F_DUPFD_CLOEXEC, 0);
	c->maps = fcntl(maps, F_DUPFD_CLOEXEC, 0);
	if (c->pidfd < 0 || c->maps < 0) {
		err = -errno;
		client_free(c);
		return err;
	}
	do
		c->id = ++last_id;
	while (!c->id || find(c->id));
	HASH_ADD(hh, clients, id, sizeof(c->id), c);
	if (!c->hh.tbl) {
		client_free(c);
		return -ENOMEM;
	}
	*id = c->id;
	return 0;
}

int clients_del(uint32_t id)
{
	struct client *c = find(id);

	if (!c)
		return -ENOENT;
	HASH_DEL(clients, c);
	client_free(c);
	return 0;
}

int clients_look(uint32_t id, const struct keeper_range *range, uint32_t n, bool writes, int sock)
{
	const struct client *c = find(id);

	return c ? look_start(c->pid, c->pidfd, c->maps, range, n, writes, sock) : -ENOENT;
}

void clients_clear(void)
{
	struct client *c, *next;

	HASH_ITER(hh, clients, c, next) {
		HASH_DEL(clients, c);
		client_free(c);
	}
}
