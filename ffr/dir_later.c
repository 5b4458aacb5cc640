/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dir_later.c - what the directory calls of parts that are written beside it: weak, until they are
 * there.
 */
#include <errno.h>

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

__attribute__((weak)) int wire_attach(struct fast *f, struct wire_peer *p, struct wire_io *io,
				      const struct wire_hello *theirs)
{
	(void)f;
	(void)p;
	(void)io;
	(void)theirs;
	return -EOPNOTSUPP;
}

__attribute__((weak)) void wire_detach(struct fast *f, struct wire_peer *p, const char *why)
{
	(void)f;
	(void)p;
	(void)why;
}
