/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * container.h - containers that are attached to this host.
 */
#ifndef FFR_CTL_CONTAINER_H
#define FFR_CTL_CONTAINER_H

#include <stdbool.h>
#include <uv.h>

#include "ffo/base/proto.h"
#include "ffr/lib/log.h"
#include "ffr/obj/objects.h"

/* The control thread's part of a container: container->ctl. */
struct ctl;
struct sysfs;
struct container_ctl {
	struct ctl *ctl;
	struct container *c;
	uint32_t sync; /* orch.c: number of the last listing that had it */
	/* orch/active.c: what was told of it */
	bool active_told, active_busy;
	int dir_fd, listen_fd;
	uv_poll_t poll;
	uv_timer_t retry;    /* after descriptors ran out */
	uv_timer_t counters; /* sysfs.c */
	uv_timer_t trace;    /* admin/trace.c: when tracing ends */
	struct sysfs *sysfs; /* NULL: its files could not be made */
	unsigned open_handles;
	uint32_t num_conns;
	uint32_t num_silent; /* of them: have not said HELLO */
	struct discard *discard;
	struct ffo_limits told; /* the orchestrator's; what is in force is c->limits */
};

/* <runtime_dir>/containers, without sockets that nobody serves. 0 or -errno. */
int containers_init(struct ctl *ctl);
struct user;
/* Root, before it becomes the user: that folder, in the one of that descriptor, is the user's. 0 or -errno. */
int containers_give(const char *engine_group, const struct user *u, int runtime_fd);
/* Remove the directories of containers that are not attached. */
void containers_sweep(struct ctl *ctl);

/* Serve a container on its socket, which exists when this returns 0; else -errno. */
int container_attach(struct ctl *ctl, const struct ffo_container *info);
/*
 * What the orchestrator knows has changed. Sessions were told the mode, and their peers the
 * addresses and the epoch: where these are others, they are closed. Other limits hold from now on.
 */
void container_update(struct container *c, const struct ffo_container *info);
/* Closes its sessions; its socket and directory go. c is gone afterwards. */
void container_detach(struct container *c);
/* The router stops: the same, but the directory stays for the next router. */
void container_stop(struct container *c);

/* One connection less is silent (conn.c): there is room for another. */
void container_heard(struct container *c);

struct container *container_find(struct ctl *ctl, const char *name);
struct container *container_by_id(struct ctl *ctl, uint32_t id);
/* [A-Za-z0-9][A-Za-z0-9_.-]*, at most 63 characters */
bool container_name_ok(const char *name);

#endif
