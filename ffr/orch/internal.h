/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * internal.h - inside the router's client of the orchestrator: the connection (orch.c), what is
 * published (map.c), who is active (active.c), what tenants may use (tenant.c), which store it has
 * (store.c), whether a container may move here (claim.c), when this host is to stop serving
 * (fence.c). Control thread.
 */
#ifndef FFR_ORCH_INTERNAL_H
#define FFR_ORCH_INTERNAL_H

#include <uv.h>

#include "ffr/ctl/ctl.h"
#include "ffr/orch/orch.h"

#define STORE_WORD_MAX 64

struct publish;
struct withdraw;
STAILQ_HEAD(withdraw_list, withdraw);

struct orch {
	struct ctl *ctl;
	struct orch_conf conf;
	struct ffo_client *client; /* NULL: not connected */
	struct tls *tls;	   /* NULL: the orchestrator is not at tls: */
	bool up;		   /* synchronized: calls are let through */
	bool known;		   /* it was up once */
	bool told;		   /* ready() was called */
	bool embedded;		   /* the thread runs */
	uv_timer_t retry, patience;
	uv_timer_t look;   /* at the revocation list, where there is one */
	unsigned int list; /* its number */
	unsigned open_handles;
	uint32_t delay; /* ms until the next try */
	char said[256]; /* why it was not reached last, as the log has it */
	uint32_t sync;	/* number of the listing under way */
	/* store.c */
	char store[STORE_WORD_MAX]; /* identity of the one that this host's containers are in; "": unknown */
	char says[STORE_WORD_MAX]; /* identity of the one that the orchestrator has */
	uint32_t last; /* the highest id that a container got in the latter; 0: unknown */
	orch_accepted_cb
		*accepted; /* of the operator who waits until it is taken; NULL: nobody does */
	void *accepted_arg;
	uint32_t filling;    /* id of the container that is being put into it */
	uint32_t kept, gone; /* containers that are in it now, or could not be put into it */
	/* map.c */
	uv_timer_t flush;
	uv_async_t windows; /* some have changed: mw_next_changed() */
	struct publish *publish;
	struct withdraw_list withdraw;
	bool map_busy; /* a batch is under way, */
	bool map_full; /* the last batch had no room for more */
	/* active.c */
	uv_timer_t active;
	/* claim.c */
	LIST_HEAD(, claim) claims; /* questions to other hosts */
	uint32_t claim_number;	   /* of the last one */
	uv_timer_t claim_tick;
	uv_async_t runs_frames;
	uint64_t asked_second; /* questions of other hosts: the second of the loop's time, */
	uint32_t num_asked;    /* how many questions came in that second */
	/* fence.c */
	uv_timer_t fence;
	uint64_t alone_since; /* ms, of the loop: when a connection to another host was last seen; 0: not looked yet */
	bool fenced;
};

/* What ctl/ tells (struct ctl_hooks): of a registered MR, of one that goes, of all of a session. */
void orch_map_publish(struct orch *o, const struct mr *mr);
void orch_map_withdraw(struct orch *o, uint32_t container, uint32_t rkey);
void orch_session_gone(struct orch *o, uint32_t container, uint32_t session);
/* The orchestrator is told that a session has begun, or ended. */
void orch_container_active(struct orch *o);

int orch_map_init(struct orch *o);  /* its handles: 0 or -errno */
void orch_map_up(struct orch *o);   /* publish everything that there is */
void orch_map_down(struct orch *o); /* nothing is published any more, nor to be */
void orch_map_stop(struct orch *o); /* close its handles */

/*
 * tenant.c: the whole list of tenants with limits, as the orchestrator tells it, holds from now
 * on. 0 or -errno: what held before goes on to.
 */
int orch_tenants(struct fast_host *h, json_t *list);

/*
 * store.c: is the store that it says one in which this host's containers are? "" or why not, as one
 * line. Asked when it says so, of each container of its list, and when the list is complete.
 */
const char *store_refused(struct orch *o);
const char *store_refused_for(struct orch *o, const struct ffo_container *info);
const char *store_refused_missing(struct orch *o);
/* An operator has told to take it: put in what is here and not in its list; then sync_done(). */
void store_fill(struct orch *o);
/* The end of the operator's wait, if somebody waits. */
void store_told(struct orch *o, int err, const char *why);

void orch_down(struct orch *o, const char *why);
void orch_now(struct orch *o); /* try to connect, at once */
void orch_sync_done(struct orch *o);

void orch_active_init(struct orch *o);
void orch_active_up(struct orch *o); /* nothing has been told yet */
void orch_active_stop(struct orch *o);

int orch_claim_init(struct orch *o); /* its handles: 0 or -errno */
void orch_claim_stop(struct orch *o);

void orch_fence_init(struct orch *o);
void orch_fence_down(struct orch *o);	 /* the orchestrator is lost, or not reached */
void orch_fence_up(struct orch *o);	 /* it is there, and this host's containers are known */
void orch_fence_reached(struct orch *o); /* it is there, and of no use */
void orch_fence_stop(struct orch *o);

void orch_on_handle_closed(uv_handle_t *h);

#endif
