/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * server.h - inside the orchestrator: struct ffo, its connections (server.c), their requests
 * (request.c, op_*.c), what they are told of by events (sub.c, with the kinds in op_*.c; owned.c). The
 * orchestrator's loop only.
 */
#ifndef FFO_SERVER_SERVER_H
#define FFO_SERVER_SERVER_H

#include <bsd/sys/queue.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffo/base/alloc.h"
#include "ffo/server/ffo.h"
#include "ffo/base/proto.h"
#include "ffr/lib/log.h"
#include "ffo/base/policy.h"
#include "ffo/store/store.h"
#include "ffo/tls/stream.h"

#define TENANT_DEFAULT "default"

struct request;
struct sub;

struct ffo {
	uv_loop_t *loop;
	struct ffo_store *store;
	struct alloc *alloc;
	bool ready; /* the store is */
	LIST_HEAD(, conn) conns;
	LIST_HEAD(, listener) listeners;
	unsigned int num_conns, max_clients;
	unsigned int num_handshakes;	/* of num_conns, those that are not let in yet */
	unsigned int handshake_timeout; /* ms */
	struct tls *tls;		/* NULL: none, no tls: addresses */
	uv_timer_t look;		/* at the revocation list, where there is one */
	unsigned int list;		/* its number */
	unsigned int write_timeout;	/* ms */
	unsigned int patience;		/* ms that a request may wait for the store */
	unsigned int refs; /* conns, listeners and own handles that are not closed, and the owner */
	unsigned long conn_seq;
	struct log_limit log_limit; /* of lines that clients cause */

	LIST_HEAD(, conn) kicked; /* with something to do: see conn_kick() */
	uv_idle_t pump;		  /* runs while there are some */
	TAILQ_HEAD(, request) waiting;
	uv_timer_t wait_timer; /* until the first of them has waited long enough */

	struct store_watch policy_watch;
	bool policy_known;
	struct ffo_rule *rules; /* [num_rules], room for FFO_RULES_MAX */
	size_t num_rules;
	LIST_HEAD(, sub) by_policy; /* subscriptions that look at it */

	struct { /* op_store.c: a copy of the store that is being read */
		unsigned char *data;
		size_t size;
		uint32_t number;
		uv_timer_t timer; /* until it is dropped */
	} copy;

	struct store_watch tenants_watch;
	bool tenants_known;
	struct ffo_tenant *tenants; /* [num_tenants], room for FFO_TENANTS_MAX */
	size_t num_tenants;
	LIST_HEAD(, sub) by_tenants; /* subscriptions that look at them */
};

struct conn {
	LIST_ENTRY(conn) entry;
	struct ffo *ffo;
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_pipe_t pipe;
		uv_tcp_t tcp;
	};
	uv_timer_t
		timer; /* runs while output waits, or in TLS's handshake: the client is to make progress */
	struct tls_stream *tls; /* NULL: without */
	unsigned int list;	/* number of the revocation list that knows nothing of it */
	unsigned int refs;	/* the two handles and the requests under way */
	unsigned int busy;	/* requests under way */
	unsigned long number;	/* for the log */
	bool handshake; /* TLS's is under way; `leaving` then: it has failed, and the client is told why */
	bool said_hello;
	bool paused;		     /* not read from, until it has read its answers */
	bool leaving;		     /* to be closed when it has read the last answer */
	bool closing;		     /* nothing is sent or handled any more */
	bool kicked;		     /* is in ffo->kicked */
	bool access_changed;	     /* access_peer() and access_tenant() may have other answers */
	bool up;		     /* the store knows that host as up: by this connection */
	char host[FFO_NAME_MAX];     /* whose router it is; "": of none */
	char instance[FFO_TEXT_MAX]; /* of that router */
	char *in;		     /* [in_cap] bytes received and not handled */
	size_t in_len, in_cap;
	size_t in_seen; /* of these bytes the first ones hold no newline */

	LIST_ENTRY(conn) kick_entry;
	struct sub *subs;	   /* by key */
	TAILQ_HEAD(, sub) to_tell; /* with an event to send */
	struct owned *owned;	   /* the host's containers, by id; complete when `up` */
	TAILQ_HEAD(, owned) owned_to_tell;
	struct store_watch owned_watch;
	struct request *registering; /* waits for the host's containers */
};

/* ---- server.c ---- */

/* Send a message, a JSON object. A failure closes the connection. */
void conn_send(struct conn *c, json_t *msg);
/* Close at once; its host is down. `why` is logged, NULL: nothing to tell. */
void conn_close(struct conn *c, const char *why);
void conn_get(struct conn *c);
void conn_put(struct conn *c);
/* It has events to send, or room for requests: soon, from the loop. */
void conn_kick(struct conn *c);

/* ---- request.c ---- */

#define REQUEST_LATER 1 /* the op will call request_end(), or has; the request is not touched */

/*
 * A request from its line to its answer. An op fills `reply` and returns 0 or -errno, or
 * REQUEST_LATER when it has asked the store.
 */
struct request {
	struct conn *conn;
	struct ffo *ffo;
	json_t *msg; /* owns the strings in arg */
	json_int_t id;
	enum ffo_op op;
	union ffo_req arg;
	json_t *reply;
	char why[200]; /* one line about a failure */

	/* Of requests that wait for something that may not come: request_wait(). */
	bool waiting;
	uint64_t until; /* uv_now() */
	TAILQ_ENTRY(request) wait_entry;
	struct sub *sub; /* whose first state it waits for; NULL: something else */
	LIST_ENTRY(request) sub_entry;
	int err; /* of a subscription that is ready */

	bool dry_run; /* its change is only tried */

	/* Of op_container.c. */
	struct ffo_container was, now;
	unsigned int tries;
};

/* Handle a line (without its newline). 0, or -EBADMSG: it is no JSON object. */
int request_line(struct conn *c, const char *line, size_t len, char *why, size_t size);
/* Answer it: with its reply, or with err and r->why. The request is gone. */
void request_end(struct request *r, int err);
/* An answer that tells of a failure: a new reference. */
json_t *request_error(json_int_t id, int err, const char *why);

/* Set r->why and return err, a negative errno. */
int request_fail(struct request *r, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The store's answer: err, with `why` as r->why unless that is set. */
int request_failed(struct request *r, int err, const char *why);
/*
 * Right before the store's change that it asks for: is that only to be tried? 0, or -errno: it is
 * not to be asked for.
 */
int request_try(struct request *r, uint32_t dry_run);
/* r->reply[key] = value, which is taken. 0 or -ENOMEM. */
int request_reply(struct request *r, const char *key, json_t *value);
/*
 * End it with a part of a list, reply[key], or as request_failed() has it. `next`: where the list goes
 * on, NULL: it is complete. Both are taken.
 */
void request_end_list(struct request *r, int err, const char *why, const char *key, json_t *list,
		      json_t *next);
/* It ends with -ENOTCONN if it does not end within f->patience. */
void request_wait(struct request *r);
void request_wait_end(struct request *r);

/* ---- access.c: what a certificate's role lets its connection do ---- */

/* May the request's connection ask for that, as far as the request tells? 0 or -EPERM. */
int access_check(struct request *r);
/* Is the request's container one of the connection's? 0 or -EPERM. */
int access_container(struct request *r, const struct ffo_container *c);
/* May one of the containers of the connection's host talk to that one? */
bool access_peer(const struct conn *c, const char *tenant, const char *container);
/* Is one of them of that tenant? */
bool access_tenant(const struct conn *c, const char *tenant);
/* They are others now: its subscriptions are looked at again, soon. */
void access_changed(struct conn *c);

/* ---- op_*.c: what each op does. 0, -errno (r->why set or left empty), or REQUEST_LATER ---- */

#define X(NAME, name, caller, host, operator) int op_##name(struct request *r);
FFO_OPS(X)
#undef X

/* The host's connection ends. (op_host.c) */
void host_gone(struct conn *c);
/* The store has become ready: who waits for that goes on. (op_host.c) */
void hosts_resume(struct ffo *f);
/* The key of a container that a request names by id or by name; 0 or -EINVAL. (op_container.c) */
int container_key(struct request *r, uint32_t id, const char *name, struct store_key *key);
/* Why it was not found: sets r->why, returns err. (op_container.c) */
int container_missing(struct request *r, const struct store_key *key, int err, const char *why);
/* The policy, in f->rules. (op_policy.c) */
void policy_start(struct ffo *f);
void policy_stop(struct ffo *f);
/* The tenants' limits, in f->tenants. (op_tenant.c) */
void tenants_start(struct ffo *f);
void tenants_stop(struct ffo *f);

/* ---- sub.c: what a connection is told of ---- */

/*
 * A subscription: it has a state that its answer and its events tell. Embedded at the start of each
 * kind's struct.
 */
struct sub {
	struct conn *conn;
	const struct sub_ops *ops;
	struct store_key key;	      /* what it is about; unique in the connection */
	bool ready;		      /* has its first state */
	LIST_HEAD(, request) waiters; /* for that */
	bool queued;		      /* is in conn->to_tell */
	TAILQ_ENTRY(sub) entry;
	LIST_ENTRY(sub) policy_entry; /* in ffo->by_policy, if ops->policy is there */
	LIST_ENTRY(sub) list_entry;   /* op_tenant.c: in ffo->by_tenants */
	UT_hash_handle hh;
};

enum sub_event {
	SUB_NOTHING, /* there is nothing to tell */
	SUB_LAST,    /* all is told with it */
	SUB_MORE,    /* there is more to tell */
};

struct sub_ops {
	size_t size; /* of the struct that it is embedded in */
	/* Begin its watches, and call sub_ready(), now or later. r: the first who asks. */
	void (*start)(struct sub *sub, const struct request *r);
	/* End its watches and free what it has, but not itself. */
	void (*stop)(struct sub *sub);
	/* Put the state into an answer: 0 or -ENOMEM. NULL: there is nothing to answer. */
	int (*answer)(struct sub *sub, struct request *r);
	/* Make the next event; *msg is a new reference, or stays NULL without memory. */
	enum sub_event (*event)(struct sub *sub, json_t **msg);
	/* The policy has changed. NULL: of no interest. */
	void (*policy)(struct sub *sub);
	/*
	 * What access_peer() and access_tenant() tell may have changed; the subscription is ready,
	 * and ends nothing. NULL: of no interest.
	 */
	void (*access)(struct sub *sub);
};

/*
 * Subscribe the request's connection, if it is not yet, and answer with the state as soon as there
 * is one: for an op to return.
 */
int sub_request(struct request *r, const struct sub_ops *ops, const struct store_key *key);
/* The request waits for its subscription no more, which is dropped if nobody does. */
void sub_give_up(struct request *r);
/* Take it back: 0, or -ENOENT. */
int sub_cancel(struct request *r, const struct store_key *key);
/* There is a first state, or (err) there will be none: then the subscription may be gone. */
void sub_ready(struct sub *sub, int err, const char *why);
/* The state has changed. */
void sub_changed(struct sub *sub);
/* What the connection's certificate lets it learn may have changed. */
void subs_access(struct conn *c);
/* All of a connection's. */
void subs_stop(struct conn *c);
/* Send events while the connection takes them: its output is below OUT_HIGH. */
void subs_tell(struct conn *c);
bool conn_has_room(const struct conn *c);

/* ---- owned.c: the containers of a connection's host ---- */

struct owned {
	uint32_t id;
	struct ffo_container c;
	bool here;     /* it is the host's now */
	bool seen;     /* in the listing under way */
	uint32_t told; /* epoch that the router knows; 0: it does not know the container */
	bool queued;   /* is in conn->owned_to_tell */
	TAILQ_ENTRY(owned) entry;
	UT_hash_handle hh;
};

/* Watch the host's containers; r ends when they are known. */
void owned_start(struct conn *c, struct request *r);
/* The host's registration has failed; its request is the caller's to end. */
void owned_abort(struct conn *c);
void owned_stop(struct conn *c);
/* The host's container of that id; NULL: it is not its. */
const struct ffo_container *owned_find(const struct conn *c, uint32_t id);
/*
 * A request of that connection made this of a container, or removed it (gone), and is about to be answered. The router
 * learns from the answer which containers it has, and by an event, which is sent here, what has changed of one.
 */
void owned_changed(struct conn *c, const struct ffo_container *cont, bool gone);
/* The next event, as for a subscription; NULL: there is none, or no memory. */
json_t *owned_event(struct conn *c);

#endif
