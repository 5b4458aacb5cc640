/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ndev.c - on which interfaces this process has its addresses. Any thread; called by query.c for each GID that is asked
 * for, and by context.c when the device is opened, because an interface may have been renamed since another program was
 * here: the router does not see the container's network, and keeps gid_attrs/ndevs of the device's files, of which UCX
 * 1.19 and later take the interface that leads to their peers.
 */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "ffl/session/ffl.h"

static_assert(FF_NDEV_NAME_SZ == IF_NAMESIZE, "ABI");

/* False: it is no address of IP. */
static bool ndev_from(const struct ifaddrs *a, struct ff_ndev *d)
{
	const struct sockaddr *sa = a->ifa_addr;

	memset(d, 0, sizeof(*d));
	if (sa && sa->sa_family == AF_INET) {
		d->addr[10] = d->addr[11] = 0xff;
		memcpy(d->addr + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
	} else if (sa && sa->sa_family == AF_INET6) {
		memcpy(d->addr, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
	} else {
		return false;
	}
	/* the name is a label where the address has one, "eth0:1" */
	strncpy(d->name, a->ifa_name, sizeof(d->name) - 1);
	d->name[strcspn(d->name, ":")] = '\0';
	return true;
}

/* Nothing of it is this machine's alone. */
static bool is_outward(const struct ifaddrs *a)
{
	return a->ifa_flags & IFF_UP && !(a->ifa_flags & IFF_LOOPBACK);
}

/* The first interface that is up and no loopback. False: there is none. */
static bool ndev_first(const struct ifaddrs *all, struct ff_ndev *d)
{
	for (const struct ifaddrs *a = all; a; a = a->ifa_next)
		if (is_outward(a) && ndev_from(a, d)) {
			memset(d->addr, 0, sizeof(d->addr));
			return true;
		}
	return false;
}

uint32_t ffl_ndev_of(const uint8_t addr[16])
{
	struct ifaddrs *all, *a;
	uint32_t index = 0;
	struct ff_ndev d;

	if (getifaddrs(&all))
		return 0;
	for (a = all; a && !index; a = a->ifa_next)
		if (ndev_from(a, &d) && !memcmp(d.addr, addr, sizeof(d.addr)))
			index = if_nametoindex(d.name);
	freeifaddrs(all);
	return index;
}

uint32_t ffl_ndev_any(void)
{
	struct ifaddrs *all;
	uint32_t index = 0;
	struct ff_ndev d;

	if (getifaddrs(&all))
		return 0;
	if (ndev_first(all, &d))
		index = if_nametoindex(d.name);
	freeifaddrs(all);
	return index;
}

void ffl_ndevs_tell(struct ffl_context *ctx)
{
	struct ff_tell_ndevs_req req = { 0 };
	struct ff_tell_ndevs_resp resp;
	struct ifaddrs *all, *a;
	struct ff_ndev *d;
	unsigned n = 0;
	int ret;

	if (getifaddrs(&all))
		return;
	d = malloc(FF_NDEVS_MAX * sizeof(*d));
	n += d && ndev_first(all, &d[n]);
	for (a = all; d && a && n < FF_NDEVS_MAX; a = a->ifa_next)
		n += ndev_from(a, &d[n]);
	freeifaddrs(all);
	if (n) {
		ret = ffl_call(ctx, FF_MSG_TELL_NDEVS, &req, sizeof(req), d, sizeof(*d), n, &resp,
			       sizeof(resp), NULL, 0, NULL);
		if (ret)
			ffl_log(FFL_INFO, "the router takes no names of interfaces: %s",
				strerror(-ret));
	}
	free(d);
}
