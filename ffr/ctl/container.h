/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * container.h - containers that are attached to this host.
 */
#ifndef FFR_CTL_CONTAINER_H
#define FFR_CTL_CONTAINER_H

#include <stdbool.h>
#include <uv.h>

#include "ffo/base/proto.h"
#include "ffr/ctl/limits.h"
#include "ffr/lib/log.h"
#include "ffr/obj/objects.h"

/* HELLOs that came, for operators: seconds are of CLOCK_MONOTONIC. */
struct container_heard {
	uint64_t since; /* when this router attached the container */
	uint64_t opened, opened_at;
	uint64_t refused, refused_at;
	pid_t refused_pid;
	int refused_err; /* -errno, as the client was told */
};

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
	uv_timer_t trace;    /* admin/trace.c: when tracing ends */
	struct sysfs *sysfs; /* NULL: its files could not be made */
	unsigned open_handles;
	uint64_t turn;	  /* call.c: the turn of the loop (ctl->turn) that turn_ns is of */
	uint64_t turn_ns; /* how long the control thread has served its connections in that turn */
	uint32_t num_silent; /* connections that have not said HELLO */
	uint32_t num_hellos; /* of them: the keeper looks at them */
	struct discard *discard;
	char device_name[FFO_NAME_MAX]; /* of its first RDMA device, "": the usual one */
	uint8_t devices;		/* how many it has; neither changes */
	struct ffo_limits told;		/* the orchestrator's; what is in force is c->limits */
	struct container_heard heard;
	uint64_t claimed_at; /* ms, of the loop: when an operator had it moved to this host; 0: nobody did */
	char *cgroup; /* where its processes are (cgroup.c); NULL: nobody has told */
	char *runs; /* by which id its runtime knows it (runs.c); NULL: it does not run, or nobody has told */
};

/* <runtime_dir>/containers, without sockets that nobody serves. 0 or -errno. */
int containers_init(struct ctl *ctl);
/* <runtime_dir>/class, which can take the place of sys_class (/sys/class) in a container. 0 or -errno. */
int classes_make(const char *runtime_dir, const char *sys_class);
struct user;
/* Root, before it becomes the user: that folder, in the one of that descriptor, is the user's. 0 or -errno. */
int containers_give(const char *engine_group, const struct user *u, int runtime_fd);

/* Serve a container on its socket, which exists when this returns 0; else -errno. */
int container_attach(struct ctl *ctl, const struct ffo_container *info);
/*
 * What the orchestrator knows has changed. Sessions were told the mode, and their peers the epoch:
 * where these are others, they are closed. Of other addresses they get IBV_EVENT_GID_CHANGE. Other
 * limits hold from now on.
 */
void container_update(struct container *c, const struct ffo_container *info);
/*
 * The configuration has other bounds: from now on the defaults hold for all containers that are
 * here, and the limits for what begins later.
 */
void containers_bound(struct ctl *ctl, const struct ffr_limits *limits,
		      const struct ffo_limits *defaults);
/* Closes its sessions; its socket and directory go. c is gone afterwards. */
void container_detach(struct container *c);
/* container_detach(), and operators are told why. */
void container_leave(struct container *c, const char *why);
/*
 * It goes by that NIC of the host's from now on, and with the next routers, as long as they have a
 * NIC of that name. 0; -EBUSY: it has sessions; or -errno of what cannot be kept, and nothing is
 * changed.
 */
int container_set_nic(struct container *c, uint8_t nic);
/*
 * Close the sessions of all containers and let nobody in, or let programs in again: this host must
 * not, or may, serve its containers (orch/fence.c).
 */
void containers_fence(struct ctl *ctl, bool fenced);
/* The router stops: the same, but the directory stays for the next router. */
void container_stop(struct container *c);

/* ---- sweep.c ---------------------------------------------------------------------------------- */

/* Remove, at once or later, the directories of containers that are not attached and do not run. */
void containers_sweep(struct ctl *ctl);
void containers_sweep_stop(struct ctl *ctl); /* the router stops: those that remain stay */

/* ---- cgroup.c --------------------------------------------------------------------------------- */

struct ctl_conn;
/* What was told of it when another router was here. 0 or -errno. */
int container_cgroup_recall(struct container *c);
/* From now on HELLO is for processes of that cgroup, or below it; NULL: for all. 0, or -errno with nothing changed. */
int container_cgroup_tell(struct container *c, const char *path);
/* The container of that name is gone from this host. */
void container_cgroup_forget(struct ctl *ctl, const char *name);
/* Is that what is kept, in the folder of containers, about one's cgroup? Then `name` is its container. */
bool container_cgroup_file(const char *file, char name[CONTAINER_NAME_MAX]);
struct keeper_added;
/* Log that a process may not say HELLO, because its cgroup is not the container's (a->outside). */
void container_cgroup_refused(const struct ctl_conn *conn, const struct keeper_added *a);

/* ---- runs.c ---------------------------------------------------------------------------------- */

#define RUNS_ID_MAX 128
/* What was told of it when another router was here. 0 or -errno. */
int container_runs_recall(struct container *c);
bool container_runs_id_ok(const char *id);
/* It runs, or has ended, by that id of its runtime's. 0; -EBUSY: it runs by another id; other -errno. */
int container_runs_tell(struct container *c, const char *id, bool runs);

enum container_runs { RUNS_NO, RUNS_YES, RUNS_UNKNOWN };
/* stale: something runs with a folder of a former container of that name, in which there is no socket any more. */
typedef void container_runs_fn(void *arg, enum container_runs runs, bool stale);
/*
 * Does the container run, on this host? It has sessions, a hook said so, its folder is mounted in
 * another mount namespace, or its cgroup has processes. fn is called once, now or within 3 s; the
 * container may be gone by then.
 */
void container_runs_ask(struct container *c, container_runs_fn *fn, void *arg);
/* The same of a container that is not attached, by its folder alone, which is open as `dir`. */
void folder_runs_ask(struct ctl *ctl, int dir, container_runs_fn *fn, void *arg);
/* The router stops: questions under way are answered with RUNS_UNKNOWN. */
void container_runs_stop(struct ctl *ctl);

/* ---- kept.c ---------------------------------------------------------------------------------- */

enum kept { KEPT_RUNS, KEPT_NIC, KEPT_NUM };
#define KEPT_MAX 160
/*
 * The word that is kept of the container. 0; -ENOENT: none, and what is of a container that had its name is gone; or
 * -errno
 */
int kept_read(const struct container *c, enum kept what, char word[KEPT_MAX]);
int kept_write(const struct container *c, enum kept what, const char *word); /* 0 or -errno */
void kept_forget(struct ctl *ctl, const char *name, enum kept what);
void kept_forget_all(struct ctl *ctl, const char *name);
/* Is that such a file, in the folder of containers? Then `name` is its container. */
bool kept_file(const char *file, char name[CONTAINER_NAME_MAX]);

/* ---- container.c ------------------------------------------------------------------------------- */

/* The directory of a container that is not attached, with what is in it. */
void container_dir_remove(struct ctl *ctl, const char *name);
/* The keeper lets go of the socket of that name; closes fd, which is the same one. */
void container_socket_let_go(const char *name, int fd);
/* One connection less is silent (conn.c): there is room for another. */
void container_heard(struct container *c);

struct container *container_find(struct ctl *ctl, const char *name);
struct container *container_by_id(struct ctl *ctl, uint32_t id);
/* [A-Za-z0-9][A-Za-z0-9_.-]*, at most 63 characters */
bool container_name_ok(const char *name);

#endif
