/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * port.c - ports of the connection manager: who has which address and port, and who listens there.
 * Control thread.
 *
 * Each container has the ports of each port space to itself. Several ids can have a port: on
 * different addresses, of different families where both want theirs only (af_only), or where all of
 * them allow it (reuse_addr) and none listens. The rules are those of the kernel's cma_check_port().
 *
 * A loopback address is a wildcard here, as in the kernel (cma_any_addr()): it takes no device, is in
 * the way of every other address on its port, and who listens there is there for every address.
 */
#include <errno.h>
#include <stdlib.h>

#include "ffr/cm/internal.h"

/* Ports that the router chooses: Linux's default for ip_local_port_range. */
#define PORT_LOW  32768u
#define PORT_HIGH 60999u

struct cm_port {
	uint32_t key; /* port space << 16 | port */
	LIST_HEAD(, cm_id) owners;
	UT_hash_handle hh;
};

static uint32_t port_key(uint16_t ps, uint16_t port)
{
	return (uint32_t)ps << 16 | port;
}

static struct cm_port *port_find(const struct cm_cont *cont, uint16_t ps, uint16_t port)
{
	uint32_t key = port_key(ps, port);
	struct cm_port *p;

	HASH_FIND(hh, cont->ports, &key, sizeof(key), p);
	return p;
}

/* May the id have its address on that port beside those who have it? */
static int port_check(const struct cm_port *p, const struct cm_id *id, bool reuse)
{
	const struct cm_id *other;

	LIST_FOREACH(other, &p->owners, of_port) {
		if (other == id)
			continue;
		if (reuse && other->reuse_addr && other->state != CM_LISTEN)
			continue;
		if (id->af_only && other->af_only && id->src.family != other->src.family)
			continue;
		if (cm_addr_wild(&id->src) || cm_addr_wild(&other->src))
			return -EADDRNOTAVAIL;
		if (cm_addr_equal(&id->src, &other->src))
			return -EADDRINUSE;
	}
	return 0;
}

static int port_take(struct cm_id *id, uint16_t port)
{
	struct cm_port *p = port_find(id->cont, id->ps, port);
	int err;

	if (p) {
		err = port_check(p, id, id->reuse_addr);
		if (err)
			return err;
	} else {
		p = calloc(1, sizeof(*p));
		if (!p)
			return -ENOMEM;
		p->key = port_key(id->ps, port);
		HASH_ADD(hh, id->cont->ports, key, sizeof(p->key), p);
		if (!p->hh.tbl) {
			free(p);
			return -ENOMEM;
		}
	}
	LIST_INSERT_HEAD(&p->owners, id, of_port);
	id->port = p;
	id->src.port = port;
	return 0;
}

/* One that nobody has; a port that was given back comes last again. */
static int port_choose(struct cm_id *id)
{
	struct cm_cont *cont = id->cont;

	/*
	 * Begin at a random port: a listener of before the router's restart has yet to take its port again, and no
	 * other id is to have that. Where ports are the NIC's as well (plain.c), containers begin at different ones.
	 */
	if (!cont->next_port)
		cont->next_port = (uint16_t)(PORT_LOW + id->psn % (PORT_HIGH - PORT_LOW));
	for (uint32_t i = PORT_LOW; i <= PORT_HIGH; i++) {
		if (cont->next_port < PORT_LOW || cont->next_port > PORT_HIGH)
			cont->next_port = PORT_LOW;
		if (!port_find(cont, id->ps, cont->next_port))
			return port_take(id, cont->next_port++);
		cont->next_port++;
	}
	return -EADDRNOTAVAIL;
}

void cm_port_release(struct cm_id *id)
{
	struct cm_port *p = id->port;

	if (!p)
		return;
	LIST_REMOVE(id, of_port);
	id->port = NULL;
	if (!LIST_EMPTY(&p->owners))
		return;
	HASH_DELETE(hh, id->cont->ports, p);
	free(p);
}

int cm_bind(struct cm_id *id, const struct cm_addr *a)
{
	const struct container *c = id->cont->c;
	int i = -1, err;

	if (!a->family)
		return -EAFNOSUPPORT;
	if (id->state != CM_IDLE || cm_addr_scopeless(a))
		return -EINVAL;
	if (!cm_addr_wild(a)) {
		i = cm_addr_index(c, a);
		if (i < 0)
			return -EADDRNOTAVAIL;
	}
	id->src = *a;
	if (!id->af_only_set)
		id->af_only = a->family == AF_INET;
	err = a->port ? port_take(id, a->port) : port_choose(id);
	if (err) {
		id->src = (struct cm_addr){ 0 };
		return err;
	}
	if (i >= 0) {
		id->attached = true;
		id->sgid_index = (uint8_t)i;
		id->sgid = gid_entry(c, (uint32_t)i).gid;
	}
	id->dst.family = a->family; /* so the kernel tells of a peer that there is not yet */
	cm_id_state(id, CM_BOUND);
	return 0;
}

int cm_listen(struct cm_id *id, int32_t backlog)
{
	static const struct cm_addr any = { .family = AF_INET };
	int err;

	if (id->state == CM_IDLE) {
		err = cm_bind(id, &any);
		if (err)
			return err;
	}
	if (id->state != CM_BOUND)
		return -EINVAL;
	if (id->reuse_addr) {
		err = port_check(id->port, id, false);
		if (err)
			return err;
	}
	id->backlog = backlog > 0 && backlog < (int32_t)FF_CM_MAX_BACKLOG ? (uint32_t)backlog :
									    FF_CM_MAX_BACKLOG;
	cm_id_state(id, CM_LISTEN);
	return 0;
}

static bool listens_for(const struct cm_id *l, const struct cm_addr *dst)
{
	if (l->state != CM_LISTEN)
		return false;
	if (cm_addr_wild(&l->src))
		return !l->af_only || l->src.family == dst->family;
	return cm_addr_equal(&l->src, dst);
}

/* An id on the very address goes before one on the wildcard. */
struct cm_id *cm_port_listener(const struct cm_cont *cont, uint16_t ps, const struct cm_addr *dst)
{
	struct cm_port *p = port_find(cont, ps, dst->port);
	struct cm_id *l, *best = NULL;

	if (!p)
		return NULL;
	LIST_FOREACH(l, &p->owners, of_port)
		if (listens_for(l, dst) && (!best || cm_addr_wild(&best->src)))
			best = l;
	return best;
}

void cm_port_each_listener(struct cm_cont *cont, void (*fn)(struct cm_id *l))
{
	struct cm_port *p, *tmp;
	struct cm_id *l;

	HASH_ITER(hh, cont->ports, p, tmp)
		LIST_FOREACH(l, &p->owners, of_port)
			if (l->state == CM_LISTEN)
				fn(l);
}
