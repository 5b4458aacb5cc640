/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* keeper_add.h - keeper_client_add(), and what the keeper answers. Inlines; no state. */
#ifndef TEST_KEEPER_ADD_H
#define TEST_KEEPER_ADD_H

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/keeper/keeper.h"

/* The client's name, or -errno; *a is the answer, all 0 without one. */
static inline int keeper_add(const struct ctl_peer *peer, const int memory[2], const char *cgroup,
			     uint32_t *id, struct keeper_added *a)
{
	struct pollfd p = { .events = POLLIN };
	ssize_t n;

	*a = (struct keeper_added){ 0 };
	*id = 0;
	p.fd = keeper_client_add(peer, memory[0], memory[1], cgroup, id);
	if (p.fd < 0)
		return p.fd;
	do
		n = poll(&p, 1, -1) == 1 ? recv(p.fd, a, sizeof(*a), MSG_DONTWAIT) : -1;
	while (n < 0 && (errno == EAGAIN || errno == EINTR));
	close(p.fd);
	return n == sizeof(*a) ? a->err : -EPIPE;
}

#endif
