/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* others.c - see others.h. */
#include "tests/rig/unit/others.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct others *all[OTHERS_MAX];

void others_add(struct others *o)
{
	for (int i = 0; i < OTHERS_MAX; i++)
		if (!all[i]) {
			all[i] = o;
			return;
		}
	abort();
}

void others_del(struct others *o)
{
	for (int i = 0; i < OTHERS_MAX; i++)
		if (all[i] == o)
			all[i] = NULL;
}

static struct others *of(const struct fast *f)
{
	for (int i = 0; i < OTHERS_MAX; i++)
		if (all[i] && all[i]->f == f)
			return all[i];
	return NULL;
}

/* ---- dir.h -------------------------------------------------------------------------------------- */

enum dir_answer dir_path(struct fast *f, const struct container *from, const struct ff_ah_attr *ah,
			 struct container **here, struct remote **there)
{
	struct others *o = of(f);
	union ibv_gid gid;

	memcpy(&gid, ah->dgid, sizeof(gid));
	*there = NULL;
	*here = ah->is_global ? container_by_gid(&f->host->containers, from->tenant, &gid) :
				container_by_lid(&f->host->containers, from->tenant, ah->dlid);
	if (*here)
		return DIR_HERE;
	if (o && o->is_denied)
		return DIR_DENIED;
	for (int i = 0; o && i < OTHERS_MAX && o->remote[i]; i++) {
		struct remote *r = o->remote[i];

		if (ah->is_global ? memcmp(&gid, &r->gid[0], sizeof(gid)) : ah->dlid != r->lid)
			continue;
		*there = r;
		return r->epoch ? DIR_REMOTE : DIR_WAIT;
	}
	return DIR_NOBODY;
}

struct remote *dir_by_id(struct fast *f, uint32_t id)
{
	struct others *o = of(f);

	for (int i = 0; o && i < OTHERS_MAX && o->remote[i]; i++)
		if (o->remote[i]->id == id)
			return o->remote[i];
	return NULL;
}

bool dir_allowed(const struct fast_host *h, const struct container *here, const char *tenant,
		 const char *name)
{
	const struct others *o = of(h->threads[0]);

	(void)name;
	return !(o && o->is_denied) && !strcmp(here->tenant, tenant);
}

enum map_answer dir_map(struct fast *f, struct remote *r, uint32_t rkey, uint64_t addr,
			uint64_t len, uint32_t access)
{
	struct others *o = of(f);

	(void)r;
	(void)rkey;
	(void)addr;
	(void)len;
	(void)access;
	if (!o)
		return MAP_REFUSED;
	o->maps++;
	return o->map;
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
	struct others *o = of(f);
	int n = 0;

	(void)tenant;
	(void)mgid;
	*peers = o ? o->peer : NULL;
	while (o && n < OTHERS_MAX && o->peer[n])
		n++;
	return n;
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

struct container *dir_meet(struct container *c, const struct ff_ah_attr *path)
{
	(void)c;
	(void)path;
	return NULL;
}

void dir_container_added(struct fast_host *h, struct container *c)
{
	(void)h;
	(void)c;
}

void dir_container_gone(struct fast_host *h, struct container *c)
{
	(void)h;
	(void)c;
}

/* ---- peer.h ------------------------------------------------------------------------------------- */

static struct others *of_peer(const struct wire_peer *p)
{
	for (int i = 0; i < OTHERS_MAX; i++)
		for (int k = 0; all[i] && k < OTHERS_MAX; k++)
			if (all[i]->peer[k] == p)
				return all[i];
	abort();
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
	of_peer(p)->is_wanted = true;
}

void peer_unwant(struct wire_peer *p)
{
	of_peer(p)->is_wanted = false;
}

void peer_lost(struct wire_peer *p, const char *why)
{
	struct others *o = of_peer(p);

	snprintf(o->why, sizeof(o->why), "%s", why);
}
