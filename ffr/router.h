/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * router.h - the router process as its control thread sees it: one libuv loop, the fast thread,
 * the containers, the orchestrator's client and the administrator's socket.
 *
 * All of it belongs to the control thread. What fast threads see too is in objects.h.
 */
#ifndef FFR_ROUTER_H
#define FFR_ROUTER_H

#include <bsd/sys/queue.h>
#include <stdalign.h>
#include <uv.h>

#include "ffr/fast/backend.h"
#include "ffr/conf.h"
#include "ffr/ctl/spin.h"
#include "ffr/ctl/threads.h"
#include "ffr/fast/fast.h"
#include "ffr/mem/shadow.h"

struct admin;
struct metrics;
struct cm;
struct orch;
struct peers;
struct ctl_conn;
struct ctl_ends;
TAILQ_HEAD(ctl_conn_list, ctl_conn);

struct router {
	struct ffr_conf conf;
	char instance[32]; /* this start, told from other ones of this host */
	uv_loop_t loop;
	uv_async_t wake; /* a fast thread wants a session closed */
	struct ctl_spin spin;
	struct backend backend;
	struct fast *fast; /* the first one */
	struct ctl_threads threads;
	struct orch *orch;	       /* NULL in tests */
	const struct ctl_hooks *hooks; /* orch's; ctl/ctl.h */
	struct peers *peers;	       /* other hosts' routers; NULL: a single host */
	struct cm *cm;
	const struct ctl_cm_ops *cm_ops; /* ctl/ctl.h */
	struct metrics *metrics;	 /* NULL: nobody is told */
	struct admin *admin;		 /* NULL until the first answer of the orchestrator */
	struct ff_query_device_resp dev; /* device attributes within conf.limits */
	bool loop_ready;
	int lock_fd;	       /* <runtime_dir>/ffr.lock */
	int containers_fd;     /* <runtime_dir>/containers */
	int uffd_fd;	       /* /dev/userfaultfd for clients, -1: not there */
	struct ctl_ends *ends; /* ctl/conn.c: connections whose sessions end; NULL: none */
	struct mem mem;
	uint32_t last_session, last_srqn;
	struct ctl_conn_list conns;		 /* all of them */
	alignas(16) uint8_t rx[FF_MSG_MAX + 16]; /* the request at hand */
};

struct user;

/* Root, before it becomes another user: devices that only root may open. They stay router_fini's. */
void router_devices(struct router *r);
/*
 * Root, before it becomes that user: folders and files of the configuration are the user's. 0, or -errno
 * with a line in the log.
 */
int router_give(const struct ffr_conf *conf, const struct user *u);
/*
 * After router_devices(). Everything but the orchestrator, the admin socket and signals: loop, fast thread (created, not
 * started), runtime directory. `err` gets one line. 0 or -errno. router_fini undoes what was done.
 */
int router_init(struct router *r, char *err, size_t size);
/* Detaches the containers and runs the loop until all its handles are closed. */
void router_fini(struct router *r);
/* The orchestrator has answered, or cannot be reached: administrators may come. */
void router_ready(struct router *r);

#endif
