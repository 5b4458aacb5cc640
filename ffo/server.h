/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * server.h - inside the orchestrator: struct ffo, its connections (server.c) and its requests
 * (request.c, op_host.c, op_container.c, op_map.c). The orchestrator's loop only.
 */
#ifndef FFO_SERVER_H
#define FFO_SERVER_H

#include <bsd/sys/queue.h>

#include "alloc.h"
#include "ffo.h"
#include "ffo_proto.h"
#include "ffr/log.h"
#include "store_txn.h"

struct ffo {
	uv_loop_t *loop;
	struct ffo_store *store;
	struct alloc *alloc;
	LIST_HEAD(, conn) conns;
	LIST_HEAD(, listener) listeners;
	unsigned int num_conns, max_clients;
	unsigned int write_timeout; /* ms */
	unsigned int refs;	    /* conns and listeners not freed, and the owner */
	unsigned long conn_seq;
	struct log_limit log_limit; /* of lines that clients cause */
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
	uv_timer_t timer;     /* runs while output waits: the client is to make progress */
	unsigned int refs;    /* the two handles and the requests under way */
	unsigned long number; /* for the log */
	bool said_hello;
	bool paused;		     /* not read from, until it has read its answers */
	bool leaving;		     /* to be closed when it has read the last answer */
	bool closing;		     /* nothing is sent or handled any more */
	char host[FFO_NAME_MAX];     /* whose router it is; "": of none */
	char instance[FFO_TEXT_MAX]; /* of that router */
	char *in;		     /* [in_cap] bytes received and not handled */
	size_t in_len, in_cap;
	size_t in_seen; /* of these bytes the first ones hold no newline */
};

/* ---- server.c ---- */

/* Send a message, a JSON object. A failure closes the connection. */
void conn_send(struct conn *c, json_t *msg);
/* Close at once; a host's mappings are dropped. `why` is logged, NULL: nothing to tell. */
void conn_close(struct conn *c, const char *why);
void conn_get(struct conn *c);
void conn_put(struct conn *c);

/* ---- request.c ---- */

/* Addresses and a LID that alloc.h has marked as taken. */
struct holding {
	char tenant[FFO_NAME_MAX];
	struct in6_addr ip[FFO_ADDR_MAX];
	unsigned int num_ips;
	uint16_t lid; /* 0: none */
};

/*
 * A request from its line to its answer. An op fills `reply` and stages changes in `txn`; after it,
 * request.c commits, or aborts when the op failed, and answers.
 */
struct request {
	struct conn *conn;
	struct ffo *ffo;
	json_t *msg; /* owns the strings in arg */
	json_int_t id;
	enum ffo_op op;
	union ffo_req arg;
	json_t *reply;
	struct ffo_txn *txn;	  /* NULL until request_txn() */
	struct holding claimed;	  /* given back when the request fails */
	struct holding unclaimed; /* given back when it succeeds */
	bool registers;		  /* conn->host is set, unless the request fails */
	char why[200];		  /* one line about a failure */
};

/* Handle a line (without its newline). 0, or -EBADMSG: it is no JSON object. */
int request_line(struct conn *c, const char *line, size_t len, char *why, size_t size);
/* An answer that tells of a failure: a new reference. */
json_t *request_error(json_int_t id, int err, const char *why);

/* Set r->why and return err, a negative errno. */
int request_fail(struct request *r, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Start the transaction if there is none yet. */
int request_txn(struct request *r);
/* r->reply[key] = value, which is taken. 0 or -ENOMEM. */
int request_reply(struct request *r, const char *key, json_t *value);

/* ---- op_*.c: what each op does. 0 or -errno; r->why set or left empty for errno's text ---- */

#define X(NAME, name, caller) int op_##name(struct request *r);
FFO_OPS(X)
#undef X

/* The host's connection ends: its mappings go. (op_host.c) */
void host_gone(struct ffo *f, const char *host, const char *instance);

#endif
