/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ctl.h - the control protocol on the router's side: connections, messages, handlers.
 *
 * The room ffr/ctl/ is what clients reach of the router: their sockets and slots, their calls, sessions, containers
 * with their directories, and which fast threads there are. It may use dir/ and all that dir/ may; it reaches the
 * software device by struct backend_ops, and carriers by struct carrier. cm/ and orch/ are above it: they register
 * (struct ctl_cm_ops, struct ctl_hooks). Control thread only.
 */
#ifndef FFR_CTL_CTL_H
#define FFR_CTL_CTL_H

#include <bsd/sys/queue.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "ffr/ctl/limits.h"
#include "ffr/ctl/spin.h"
#include "ffr/ctl/threads.h"
#include "ffr/fast/backend.h"
#include "ffr/keeper/hello.h"
#include "ffr/mem/shadow.h"
#include "ffr/obj/objects.h"

struct cm;
struct container;
struct hot;
struct restore;
struct ctl_cm_ops;
struct ctl_hooks;
struct orch;

/* ---- the room ----------------------------------------------------------------------------------- */

struct ctl_conn;
struct ctl_call;
struct ctl_ends;
TAILQ_HEAD(ctl_conn_list, ctl_conn);

/* The strings stay the caller's. */
struct ctl_conf {
	const char *runtime_dir;
	const char *engine_group; /* who may reach containers' folders besides root; NULL: nobody */
	struct ffr_limits limits;
	struct ffo_limits defaults; /* of containers of whose limits nothing was said */
};

/*
 * The control thread's part of the host: what clients have reached. There is one, the router's; all of it
 * is this thread's.
 */
struct ctl {
	struct ctl_conf conf;
	uv_loop_t *loop;
	struct fast_host *host;		 /* its fast threads */
	struct ff_query_device_resp dev; /* device attributes within conf.limits */
	int containers_fd;		 /* <runtime_dir>/containers */
	int uffd_fd;			 /* /dev/userfaultfd for clients, -1: not there */
	uv_async_t wake;		 /* a fast thread wants a session closed */
	uv_timer_t counters;		 /* sysfs.c */
	/* hot.c */
	LIST_HEAD(, hot) hots;	      /* sessions that are told of what is used */
	uv_async_t hot_wake;	      /* something is */
	uv_timer_t hot_due, hot_look; /* it is time to tell; a process may have ended */
	uv_prepare_t turns;	      /* conn.c: counts the turns of the loop */
	uint64_t turn;
	uint64_t ends_turn;  /* conn.c: the turn that ends_until is of */
	uint64_t ends_until; /* uv_hrtime() until when sessions' ends go on in that turn */
	struct ctl_spin spin;
	struct ctl_threads threads;
	LIST_HEAD(, runs_ask) runs_asks; /* runs.c: questions under way */
	uint32_t num_runs_asks;
	LIST_HEAD(, leftover) leftovers; /* sweep.c */
	bool fenced;			 /* HELLO is refused: containers_fence() */
	struct ctl_ends *ends;		 /* conn.c: connections whose sessions end; NULL: none */
	struct mem mem;
	uint32_t last_session, last_srqn;
	struct restore *restore; /* restore.c: what the last router has left, until it is restored */
	struct ctl_conn_list conns; /* all of them */
	/* the rooms above: the connection manager, and the orchestrator's client; NULL in tests */
	struct cm *cm;
	const struct ctl_cm_ops *cm_ops;
	struct orch *orch;
	const struct ctl_hooks *hooks;		 /* orch's */
	alignas(16) uint8_t rx[FF_MSG_MAX + 16]; /* the request at hand */
};

/* conn.c: with conf and host set before clients come. 0 or -errno; then nothing is to be closed. */
int ctl_open(struct ctl *ctl, uv_loop_t *loop);
/* No connection is left. Its handles close while the loop runs. */
void ctl_close(struct ctl *ctl);

/* ---- messages (msg.c): pure functions -------------------------------------------------- */

struct ctl_type {
	const char *name;
	uint16_t req_size, resp_size, tail_size; /* bytes */
	uint16_t max_fds;			 /* of the response */
	uint16_t req_fds;			 /* of the request: so many, no more, no fewer */
};
/* The row of FF_MSG_TABLE, or NULL. */
const struct ctl_type *ctl_type(uint16_t type);

struct ctl_msg {
	const struct ctl_type
		*type;	   /* NULL: not in the table; then only hdr, fds and sender are set */
	struct ff_hdr hdr; /* a copy */
	const void *req;   /* struct ff_<name>_req */
	const void *tail;  /* hdr.n_tail elements */
	const int *fds;	   /* hdr.n_fds descriptors, closed when the message was served */
	pid_t sender;	   /* the kernel's word on it; 0: none */
};

/*
 * Check one packet of `len` bytes with which n_fds descriptors came. `bytes` is aligned to 8.
 * NULL and *m filled in, or what is wrong with it.
 */
const char *ctl_parse(const void *bytes, size_t len, unsigned n_fds, struct ctl_msg *m);

/* ---- connections and their calls (conn.c, call.c) -------------------------------------------- */

#define CTL_HELLOS  8u /* of a container that the keeper looks at, at a time; further ones wait */
#define CTL_MAX_FDS 3u /* of a response */
#define CTL_REQ_FDS 2u /* of a request */

struct ctl_conn {
	TAILQ_ENTRY(ctl_conn) entry; /* ctl->conns */
	TAILQ_ENTRY(ctl_conn) end;   /* ctl->ends, while `ending` */
	struct ctl *ctl;
	struct container *cont;
	struct session *ses; /* NULL before HELLO */
	int fd;
	struct ctl_peer peer;
	uv_poll_t poll, pid_poll;
	uv_timer_t hello;	 /* runs until HELLO */
	uv_timer_t turn;	 /* runs while it waits (max_calls) */
	bool waits;		 /* nothing is read from it, nor from its slot */
	struct ctl_later *later; /* the call under way, for which nothing is read; NULL: none */
	bool is_leaving;	 /* it is closed when that is back */
	const char *leaving_why;
	bool ending;	       /* its session is going, a part for each round of the loop */
	bool silent;	       /* no HELLO yet: counted in container_ctl */
	bool fds_sent;	       /* an answer with descriptors, which may be unread */
	unsigned open_handles; /* uv handles whose close callback has not run */
	const char *bad;       /* [lock] why the fast thread wants it closed */
	const char *to_close;  /* why it is to be closed, as ctl_on_wake() has seen it */
	struct ctl_heat heat;
};

/*
 * A call that goes on when a carrier has ended an op that takes long. The call's connection is not read meanwhile, and,
 * if it has to be closed, is closed when the call is back. The handler puts this into conn->later and returns
 * CTL_LATER.
 */
struct ctl_later {
	struct carrier_later be;
	/*
	 * The rest of the call, the handler's memory included: its status, which may be CTL_LATER once
	 * more. err is -ECANCELED: the session is about to end, and nothing may be begun.
	 */
	int (*finish)(struct ctl_call *c, struct ctl_later *l, int err, void *resp);
	/* The connection is to end: it is done at once, by be.done(). NULL: it takes its time. */
	void (*cancel)(struct ctl_later *l);
	/*
	 * What the client can delay goes on somewhere else after cancel(). So the connection stays,
	 * and counts as one of its container's, until the call is back; cancel() is for the end of
	 * the container.
	 */
	bool is_counted;
	/* call.c's */
	struct ctl_conn *conn;
	const struct ctl_type *type;
	struct ff_hdr hdr;    /* the request's */
	bool in_slot;	      /* where its answer goes */
	int fds[CTL_REQ_FDS]; /* the request's */
	unsigned n_fds;
};
#define CTL_LATER 1
void ctl_call_later(struct ctl_call *c, struct ctl_later *l); /* conn->later is l */

/* What a handler answers with. */
struct ctl_reply {
	struct {
		int fd;
		bool owned; /* closed when the reply is sent */
	} fds[CTL_MAX_FDS];
	unsigned n_fds;
};
void ctl_reply_fd(struct ctl_reply *reply, int fd, bool owned);

/*
 * Serve one message: the response, without its header, goes to resp (type->resp_size bytes). NULL
 * and *status (0 or -errno), or why the connection must be closed.
 */
const char *ctl_serve(struct ctl_conn *conn, const struct ctl_msg *m, void *resp,
		      struct ctl_reply *reply, int *status);
#define CTL_RESP_MAX 512u /* bytes; no response struct is longer */

/* Have the connections of its container been served for as long as they may be in this turn of the loop? */
bool ctl_had_turn(const struct ctl_conn *conn);

/* Serve the request in the session's slot. False: there is none. The connection may be closed. */
bool ctl_serve_slot(struct ctl_conn *conn);

/* The control thread worked for that container since its cpu_of_thread() was `from`. */
void ctl_charge(struct container *c, uint64_t from);
/* Another thread, or the keeper, worked for that container for so long (ns). */
void ctl_charge_ns(struct container *c, uint64_t ns);

/* How long a connection may stay without a session; ms. */
extern uint64_t ctl_hello_patience;

/* A connection that a container's socket accepted; takes fd in any case. 0 or -errno. */
int ctl_conn_create(struct container *c, int fd);
/*
 * The connection of a session that a former router had; takes fd and pidfd, its process's, in any case. It has a
 * session with ctl_conn_restored(), or is closed. 0 or -errno.
 */
int ctl_conn_restore(struct container *c, int fd, int pidfd, struct ctl_conn **conn);
void ctl_conn_restored(struct ctl_conn *conn, struct session *s);
/* Big-endian. */
uint64_t ctl_node_guid(const struct container *c, unsigned device);
uint8_t ctl_sgid_index(const struct session *s, uint8_t index);
/*
 * Close it and its session. why NULL: the client went; else one line in the log. A session with very much
 * goes in parts (conn->ending); to close it once more makes an end at once.
 */
void ctl_conn_close(struct ctl_conn *conn, const char *why);
/* struct fast_host's session_bad, and the loop's side of it. */
void ctl_session_bad(struct session *s, const char *why);
/* For sigbus_tell(); struct ctl is its argument. Async-signal-safe. */
void ctl_memory_gone(void *arg);
void ctl_on_wake(uv_async_t *h);

/* ---- handlers (ctl/) ---------------------------------------------------------------------- */

/* One call of a handler. */
struct ctl_call {
	struct ctl *ctl;
	struct ctl_conn *conn;
	struct session *s; /* NULL for HELLO */
	const void *tail;
	uint32_t n_tail;
	const int *
		found; /* what the keeper has found for the call (look.c); NULL: it was not asked */
	const int *fds; /* as many as the message's row says; not the handler's to keep */
	pid_t sender;	/* of the message, by the kernel's word; 0: it has none */
	struct ctl_reply *reply;
};

/* 0, or -errno with nothing changed; resp is zeroed before the call. */
#define X(num, NAME, name, tail, fds)                                                              \
	int ctl_##name(struct ctl_call *c, const struct ff_##name##_req *req,                      \
		       struct ff_##name##_resp *resp);
FF_DEVICE_MSGS(X)
FF_LATER_MSGS(X)
#undef X

/* A handler without its types, to be put into a table of those below. */
#define CTL_SERVE(name)                                                                            \
	static int serve_##name(struct ctl_call *c, const void *req, void *resp)                   \
	{                                                                                          \
		return ctl_##name(c, req, resp);                                                   \
	}
typedef int ctl_serve_fn(struct ctl_call *c, const void *req, void *resp);

/* What the connection manager does for ctl/, which it tells with cm_create(). */
struct ctl_cm_ops {
	ctl_serve_fn *serve[FF_MSG_NUM]; /* of FF_CM_MSGS */
	/*
	 * The session ends: its ids, from table index *at on, are destroyed, as if it had said so, until
	 * uv_hrtime() is `until` or a little later. True: it has no more; if not, once more with *at as it is now.
	 */
	bool (*session_gone)(struct session *s, uint32_t *at, uint64_t until);
	/* The channel is destroyed: likewise the ids that have it. True: there are no more. */
	bool (*channel_gone)(struct channel *ch, uint64_t until);
};

/*
 * What the orchestrator's client wants to know of what clients do; given with it, as ctl->orch.
 * They never wait, and never fail.
 */
struct ctl_hooks {
	void (*mr_added)(struct orch *o, const struct mr *mr);
	void (*rkey_gone)(struct orch *o, uint32_t container, uint32_t rkey);
	void (*session_gone)(struct orch *o, uint32_t container,
			     uint32_t session);	 /* all its rkeys */
	void (*session_changed)(struct orch *o); /* one has begun, or ended */
};

/* mr.c: free an MR that fast code does not know. No lock. */
void ctl_mr_free(struct mr *mr);
/* mr.c: the session's MRs that have left without a call (struct ff_leaving) are gone afterwards. */
void ctl_mr_leave_all(struct ctl *ctl, struct session *s);

#endif
