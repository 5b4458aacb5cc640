/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * alloc.h - addresses and LIDs: who has what, and what is free. In memory; the orchestrator loads
 * it from its store at start (server.c) and changes it with each container (op_container.c).
 *
 * Each tenant has an address space of its own: two tenants may use the same addresses. Addresses
 * come from the tenant's pools, or from the default ones, or are given and then need not be in
 * any pool. LIDs are unique in the whole cluster.
 *
 * Not thread-safe: the orchestrator's loop only.
 */
#ifndef FFO_BASE_ALLOC_H
#define FFO_BASE_ALLOC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALLOC_POOL4_DEFAULT "10.77.0.0/16"
#define ALLOC_POOL6_DEFAULT "fd77:6666::/64"

struct alloc;

/* Default pools are set. 0 or -ENOMEM. */
int alloc_create(struct alloc **a);
void alloc_free(struct alloc *a);

/*
 * The pool that a family's addresses come from: "[TENANT=]ADDRESS/LENGTH", without a tenant for
 * all that have none of their own. family: AF_INET, AF_INET6, or AF_UNSPEC for either. IPv4
 * prefixes are 1..30 bits long, IPv6 ones 1..126. 0, -ENOMEM, or -EINVAL with one line in why[].
 */
int alloc_set_pool(struct alloc *a, int family, const char *pool, char *why, size_t size);

/*
 * What a container of that tenant may be given, first..last, by today's pools: the network's
 * address, its first host (by custom the gateway) and the IPv4 broadcast address are left out.
 */
void alloc_range(struct alloc *a, const char *tenant, int family, struct in6_addr *first,
		 struct in6_addr *last);
/*
 * May a container have that address at all, whoever else has it? Not an unspecified, loopback,
 * multicast or link-local one, nor a pool's network or broadcast address.
 */
bool alloc_addr_ok(struct alloc *a, const char *tenant, const struct in6_addr *addr);

/*
 * Take the lowest free address of the tenant's pool. The network's address, its first host (by
 * custom the gateway) and the IPv4 broadcast address are not given out. 0, -ENOSPC or -ENOMEM.
 */
int alloc_addr(struct alloc *a, const char *tenant, int family, struct in6_addr *addr);
/*
 * Take that address: 0, -EADDRINUSE, -ENOMEM, or -EADDRNOTAVAIL when no container can have it
 * (unspecified, loopback, multicast, link-local, a pool's network or broadcast address).
 */
int alloc_take_addr(struct alloc *a, const char *tenant, const struct in6_addr *addr);
/* Take an address that the store says is taken, whatever today's pools are: 0, -EADDRINUSE, ... */
int alloc_restore_addr(struct alloc *a, const char *tenant, const struct in6_addr *addr);
/* The address was taken before. */
void alloc_put_addr(struct alloc *a, const char *tenant, const struct in6_addr *addr);

/* 1..FFO_LID_MAX: the lowest free one (0, -ENOSPC, -ENOMEM), or that one (0, -EEXIST, ...). */
int alloc_lid(struct alloc *a, uint16_t *lid);
int alloc_take_lid(struct alloc *a, uint16_t lid);
void alloc_put_lid(struct alloc *a, uint16_t lid);

#endif
