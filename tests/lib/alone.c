/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * alone.c - a host that knows of no other: what the software device asks of the directory and of the
 * connections between routers, for programs that are linked with nothing else of the router.
 */
#include <string.h>

#include "ffr/dir.h"
#include "ffr/peer.h"

enum dir_answer dir_path(struct fast *f, const struct container *from, const struct ff_ah_attr *ah,
			 struct container **here, struct remote **there)
{
	union ibv_gid gid;

	memcpy(&gid, ah->dgid, sizeof(gid));
	*there = NULL;
	*here = ah->is_global ? container_by_gid(f, from->tenant, &gid) :
				container_by_lid(f, from->tenant, ah->dlid);
	return *here ? DIR_HERE : DIR_NOBODY;
}

struct remote *dir_by_id(struct fast *f, uint32_t id)
{
	(void)f;
	(void)id;
	return NULL;
}

bool dir_allowed(struct fast *f, const struct container *here, const char *tenant, const char *name)
{
	(void)f;
	(void)name;
	return !strcmp(here->tenant, tenant);
}

enum map_answer dir_map(struct fast *f, struct remote *r, uint32_t rkey, uint64_t addr,
			uint64_t len, uint32_t access)
{
	(void)f;
	(void)r;
	(void)rkey;
	(void)addr;
	(void)len;
	(void)access;
	return MAP_REFUSED;
}

void remote_get(struct remote *r)
{
	r->refs++;
}

void remote_put(struct fast *f, struct remote *r)
{
	(void)f;
	r->refs--;
}

int dir_mcast(struct fast *f, const char *tenant, const union ibv_gid *mgid,
	      struct wire_peer ***peers)
{
	(void)f;
	(void)tenant;
	(void)mgid;
	*peers = NULL;
	return 0;
}

bool dir_mcast_pending(struct fast *f, const char *tenant, const union ibv_gid *mgid)
{
	(void)f;
	(void)tenant;
	(void)mgid;
	return false;
}

void dir_mcast_member(struct fast *f, const char *tenant, const union ibv_gid *mgid, bool join)
{
	(void)f;
	(void)tenant;
	(void)mgid;
	(void)join;
}

void dir_container_added(struct fast *f, struct container *c)
{
	(void)f;
	(void)c;
}

void dir_container_gone(struct fast *f, struct container *c)
{
	(void)f;
	(void)c;
}

void peer_get(struct wire_peer *p)
{
	p->refs++;
}

void peer_put(struct wire_peer *p)
{
	p->refs--;
}

void peer_want(struct wire_peer *p)
{
	(void)p;
}

void peer_unwant(struct wire_peer *p)
{
	(void)p;
}

void peer_lost(struct wire_peer *p, const char *why)
{
	(void)p;
	(void)why;
}
