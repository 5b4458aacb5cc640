/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * router.h - the router process, put together: what each room is given of the configuration and of the
 * others, in which order they begin and end.
 *
 * The folder ffr/ itself is the assembly: main.c, router.c, the configuration (conf.c), the list of
 * carriers (carriers.c). It uses every room, and no room uses it. Control thread only.
 */
#ifndef FFR_ROUTER_H
#define FFR_ROUTER_H

#include <uv.h>

#include "ffr/carriers.h"
#include "ffr/conf.h"
#include "ffr/ctl/ctl.h"
#include "ffr/fast/backend.h"

struct admin;
struct metrics;
struct peers;

/* The rooms that are put together; none of them knows this struct. */
struct router {
	struct ffr_conf conf;
	char instance[32]; /* this start, told from other ones of this host */
	uv_loop_t loop;
	struct backend backend;
	struct carrier_use carriers[CARRIERS_ALL + 1];
	struct ctl ctl; /* with the fast threads, the connection manager, the orchestrator's client */
	struct peers *peers;	 /* other hosts' routers; NULL: a single host */
	struct metrics *metrics; /* NULL: nobody is told */
	struct admin *admin;	 /* NULL until the first answer of the orchestrator */
	bool loop_ready;
	int lock_fd;			 /* <runtime_dir>/ffr.lock */
	struct ff_query_device_resp can; /* the device; ctl.dev: within conf.limits */
	bool alone;			 /* its network may be an empty one of its own */
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
 * After router_devices(). Everything but the orchestrator, the admin socket and signals: loop, fast thread (created,
 * not started), runtime directory. `err` gets one line. 0 or -errno. router_fini undoes what was done.
 */
int router_init(struct router *r, char *err, size_t size);
/* ms that router_init() waits for the router before it to be gone; tests make it shorter. */
extern unsigned int router_lock_wait;
/* Control thread, before it runs: what the device can do, once more since view_init() was called. */
void router_look(struct router *r);
/*
 * reload.c: the configuration was read again. log_level, metrics, limits and defaults are taken over, certificates
 * looked at; of other options that are changed the log says that they need a restart. next stays the caller's, to be
 * freed, with whatever is in it by then.
 */
void router_reload(struct router *r, struct ffr_conf *next);
/* The control thread: programs that open the device from now on find it within conf.limits. */
void router_limits(struct router *r);
/* metrics as `where` says, which stays the configuration's. 0 or -errno. */
int router_metrics(struct router *r, const char *where, struct metrics **m);
/* Bytes of memory that containers may have together, of a router with that limit, on a host with so many. */
uint64_t router_memory_bound(uint64_t limit, uint64_t host);
/* Detaches the containers and runs the loop until all its handles are closed. */
void router_fini(struct router *r);
/* The orchestrator's client begins; administrators may come when it knows more. 0 or -errno. */
int router_start(struct router *r);

#endif
