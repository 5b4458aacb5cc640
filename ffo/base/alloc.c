/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * alloc.c - IP address management (IPAM) and LIDs. See alloc.h. The orchestrator's loop only.
 *
 * An address is a 128-bit number here, IPv4 as ::ffff:a.b.c.d, so one set for each tenant holds
 * both families. A tenant exists while it has an address in use or pools of its own.
 */
#include "ffo/base/alloc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffo/base/proto.h"
#include "ffo/base/idset.h"

#define V4_MAPPED ((idset_num)0xffff << 32)

enum { POOL4, POOL6, NUM_POOLS };

struct pool {
	idset_num net, top; /* first and last number of the prefix; top 0: there is none */
};

struct tenant {
	char name[FFO_NAME_MAX];
	struct pool pool[NUM_POOLS]; /* its own */
	struct idset used;
	UT_hash_handle hh;
};

struct alloc {
	struct pool pool[NUM_POOLS]; /* for tenants without their own */
	struct tenant *tenants;
	struct idset lids;
};

static idset_num addr_num(const struct in6_addr *addr)
{
	idset_num n = 0;

	for (int i = 0; i < 16; i++)
		n = n << 8 | addr->s6_addr[i];
	return n;
}

static void num_addr(idset_num n, struct in6_addr *addr)
{
	for (int i = 15; i >= 0; i--, n >>= 8)
		addr->s6_addr[i] = (uint8_t)n;
}

static bool is_v4(idset_num n)
{
	return n >> 32 == 0xffff;
}

/* ---- tenants -------------------------------------------------------------------------------- */

static struct tenant *tenant_find(struct alloc *a, const char *name)
{
	struct tenant *t;

	HASH_FIND_STR(a->tenants, name, t);
	return t;
}

static struct tenant *tenant_get(struct alloc *a, const char *name)
{
	struct tenant *t = tenant_find(a, name);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	snprintf(t->name, sizeof(t->name), "%s", name);
	idset_init(&t->used);
	HASH_ADD_STR(a->tenants, name, t);
	if (t->hh.tbl)
		return t;
	free(t);
	return NULL;
}

static void tenant_free(struct alloc *a, struct tenant *t)
{
	HASH_DEL(a->tenants, t);
	idset_clear(&t->used);
	free(t);
}

static void tenant_put(struct alloc *a, struct tenant *t)
{
	if (!t->used.count && !t->pool[POOL4].top && !t->pool[POOL6].top)
		tenant_free(a, t);
}

static const struct pool *tenant_pool(const struct alloc *a, const struct tenant *t, int which)
{
	return t && t->pool[which].top ? &t->pool[which] : &a->pool[which];
}

/* ---- pools ---------------------------------------------------------------------------------- */

/* "ADDRESS/LENGTH" to a pool and its family: NULL, or what is wrong with it. */
static const char *parse_prefix(const char *text, struct pool *p, int *which)
{
	const char *slash = strchr(text, '/');
	char addr_text[INET6_ADDRSTRLEN];
	struct in6_addr addr;
	unsigned long length;
	idset_num host_bits;
	unsigned int bits;
	char *end;

	if (!slash || slash - text >= (ptrdiff_t)sizeof(addr_text) || slash[1] < '0' ||
	    slash[1] > '9')
		return "must be ADDRESS/LENGTH";
	memcpy(addr_text, text, (size_t)(slash - text));
	addr_text[slash - text] = '\0';
	length = strtoul(slash + 1, &end, 10);
	if (*end || ffo_addr_parse(addr_text, &addr))
		return "must be ADDRESS/LENGTH";
	p->net = addr_num(&addr);
	*which = is_v4(p->net) ? POOL4 : POOL6;
	bits = *which == POOL4 ? 32 : 128;
	if (length < 1 || length > bits - 2)
		return *which == POOL4 ? "must have a length of 1 to 30" :
					 "must have a length of 1 to 126";
	host_bits = ((idset_num)1 << (bits - length)) - 1;
	if (p->net & host_bits)
		return "has bits set behind its length";
	p->top = p->net | host_bits;
	return NULL;
}

int alloc_set_pool(struct alloc *a, int family, const char *text, char *why, size_t size)
{
	const char *prefix = strchr(text, '=');
	char tenant[FFO_NAME_MAX] = "";
	const char *wrong = NULL;
	struct tenant *t;
	struct pool p;
	int which;

	if (prefix) {
		snprintf(tenant, sizeof(tenant), "%.*s", (int)(prefix - text), text);
		if (prefix - text >= (ptrdiff_t)sizeof(tenant) || !ffo_name_ok(tenant))
			wrong = "has no valid tenant name before '='";
	}
	if (!wrong)
		wrong = parse_prefix(prefix ? prefix + 1 : text, &p, &which);
	if (!wrong && family != AF_UNSPEC && which != (family == AF_INET ? POOL4 : POOL6))
		wrong = family == AF_INET ? "is no IPv4 prefix" : "is no IPv6 prefix";
	if (wrong) {
		snprintf(why, size, "address pool \"%s\" %s", text, wrong);
		return -EINVAL;
	}
	if (!prefix) {
		a->pool[which] = p;
		return 0;
	}
	t = tenant_get(a, tenant);
	if (!t)
		return -ENOMEM;
	t->pool[which] = p;
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------ */

void alloc_range(struct alloc *a, const char *tenant, int family, struct in6_addr *first,
		 struct in6_addr *last)
{
	const struct pool *p =
		tenant_pool(a, tenant_find(a, tenant), family == AF_INET ? POOL4 : POOL6);

	num_addr(p->net + 2, first);
	num_addr(p->top - (family == AF_INET), last);
}

int alloc_addr(struct alloc *a, const char *tenant, int family, struct in6_addr *addr)
{
	struct tenant *t = tenant_get(a, tenant);
	const struct pool *p;
	idset_num n;
	int err;

	if (!t)
		return -ENOMEM;
	p = tenant_pool(a, t, family == AF_INET ? POOL4 : POOL6);
	err = idset_lowest_free(&t->used, p->net + 2, p->top - (family == AF_INET), &n);
	if (!err)
		err = idset_add(&t->used, n);
	if (!err)
		num_addr(n, addr);
	tenant_put(a, t);
	return err;
}

/* Can a container have that address at all, whoever else has it? */
static bool addr_usable(const struct pool *p, idset_num n)
{
	uint32_t v4 = (uint32_t)n;

	if (n == p->net || (is_v4(n) && n == p->top))
		return false;
	if (is_v4(n)) /* this net, loopback, link-local, multicast and above */
		return v4 >> 24 && v4 >> 24 != 127 && v4 >> 16 != 0xa9fe && v4 < 0xe0000000;
	return n > 1 && n >> 120 != 0xff && n >> 118 != 0xfe80 >> 6;
}

bool alloc_addr_ok(struct alloc *a, const char *tenant, const struct in6_addr *addr)
{
	idset_num n = addr_num(addr);

	return addr_usable(tenant_pool(a, tenant_find(a, tenant), is_v4(n) ? POOL4 : POOL6), n);
}

int alloc_restore_addr(struct alloc *a, const char *tenant, const struct in6_addr *addr)
{
	struct tenant *t = tenant_get(a, tenant);
	int err;

	if (!t)
		return -ENOMEM;
	err = idset_add(&t->used, addr_num(addr));
	tenant_put(a, t);
	return err == -EEXIST ? -EADDRINUSE : err;
}

int alloc_take_addr(struct alloc *a, const char *tenant, const struct in6_addr *addr)
{
	if (!alloc_addr_ok(a, tenant, addr))
		return -EADDRNOTAVAIL;
	return alloc_restore_addr(a, tenant, addr);
}

void alloc_put_addr(struct alloc *a, const char *tenant, const struct in6_addr *addr)
{
	struct tenant *t = tenant_find(a, tenant);

	idset_del(&t->used, addr_num(addr));
	tenant_put(a, t);
}

/* ---- LIDs ----------------------------------------------------------------------------------- */

int alloc_lid(struct alloc *a, uint16_t *lid)
{
	idset_num n;
	int err = idset_lowest_free(&a->lids, 1, FFO_LID_MAX, &n);

	if (!err)
		err = idset_add(&a->lids, n);
	if (!err)
		*lid = (uint16_t)n;
	return err;
}

int alloc_take_lid(struct alloc *a, uint16_t lid)
{
	return lid && lid <= FFO_LID_MAX ? idset_add(&a->lids, lid) : -EINVAL;
}

void alloc_put_lid(struct alloc *a, uint16_t lid)
{
	idset_del(&a->lids, lid);
}

/* --------------------------------------------------------------------------------------------- */

int alloc_create(struct alloc **out)
{
	struct alloc *a = calloc(1, sizeof(*a));
	char why[96];

	if (!a)
		return -ENOMEM;
	idset_init(&a->lids);
	alloc_set_pool(a, AF_INET, ALLOC_POOL4_DEFAULT, why, sizeof(why));
	alloc_set_pool(a, AF_INET6, ALLOC_POOL6_DEFAULT, why, sizeof(why));
	*out = a;
	return 0;
}

void alloc_free(struct alloc *a)
{
	struct tenant *t, *next;

	if (!a)
		return;
	HASH_ITER(hh, a->tenants, t, next)
		tenant_free(a, t);
	idset_clear(&a->lids);
	free(a);
}
