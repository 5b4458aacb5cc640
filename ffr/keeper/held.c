/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * held.c - listening sockets that stay while the router is started again, by name. Keeper; called by
 * keeper.c.
 *
 * Connections of clients wait in such a socket, so closing its last descriptor may take as long as a client likes
 * (discard.h). So the router keeps the socket open itself while the keeper closes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/keeper/keeper.h"

#define MAX_HELD (1u << 16)

struct held {
	UT_hash_handle hh;
	char name[KEEPER_NAME];
	int fd;
};

static struct held *held; /* hash by name */

static bool name_ok(const char name[KEEPER_NAME])
{
	return name[0] && memchr(name, '\0', KEEPER_NAME);
}

static struct held *find(const char name[KEEPER_NAME])
{
	struct held *h = NULL;

	if (name_ok(name))
		HASH_FIND_STR(held, name, h);
	return h;
}

static bool listens(int fd)
{
	int domain = 0, accepts = 0;
	socklen_t len = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) || domain != AF_UNIX)
		return false;
	len = sizeof(accepts);
	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len) && accepts == 1;
}

int held_add(const char name[KEEPER_NAME], int fd)
{
	struct held *h = find(name);
	int own;

	if (!name_ok(name) || !listens(fd))
		return -EINVAL;
	if (!h && HASH_COUNT(held) >= MAX_HELD)
		return -ENOSPC;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return -errno;
	if (h) {
		close(h->fd);
		h->fd = own;
		return 0;
	}
	h = calloc(1, sizeof(*h));
	if (!h) {
		close(own);
		return -ENOMEM;
	}
	memcpy(h->name, name, KEEPER_NAME);
	h->fd = own;
	HASH_ADD_STR(held, name, h);
	if (h->hh.tbl)
		return 0;
	close(own);
	free(h);
	return -ENOMEM;
}

int held_get(const char name[KEEPER_NAME])
{
	const struct held *h = find(name);
	int fd = h ? fcntl(h->fd, F_DUPFD_CLOEXEC, 0) : -1;

	return !h ? -ENOENT : fd < 0 ? -errno : fd;
}

int held_del(const char name[KEEPER_NAME])
{
	struct held *h = find(name);

	if (!h)
		return -ENOENT;
	HASH_DEL(held, h);
	close(h->fd);
	free(h);
	return 0;
}

void held_clear(void)
{
	struct held *h, *next;

	HASH_ITER(hh, held, h, next)
		held_del(h->name);
}
