/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dir_later.c - what the directory calls of parts that are written beside it: weak, until they are
 * there.
 */
#include <string.h>

#include "dir.h"
#include "peer.h"

__attribute__((weak)) void soft_remote_changed(struct fast *f, struct remote *r)
{
	(void)f;
	(void)r;
}

__attribute__((weak)) void soft_policy_changed(struct fast *f)
{
	(void)f;
}

__attribute__((weak)) void soft_mcast_changed(struct fast *f, const char *tenant,
					      const union ibv_gid *mgid)
{
	(void)f;
	(void)tenant;
	(void)mgid;
}

__attribute__((weak)) struct wire_peer *
peer_of_host(struct router *r, const char *host, const char *instance, const char *wire, bool up)
{
	(void)r;
	(void)host;
	(void)instance;
	(void)wire;
	(void)up;
	return NULL;
}

__attribute__((weak)) void peer_get(struct wire_peer *p)
{
	p->refs++;
}

__attribute__((weak)) void peer_put(struct wire_peer *p)
{
	p->refs--;
}

__attribute__((weak)) const char *peers_wire(const struct router *r)
{
	(void)r;
	return "";
}
