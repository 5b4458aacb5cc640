/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffo.h - the orchestrator: in a loop of its owner's (main.c is the daemon), or in a thread of its
 * own inside a router that has none configured.
 *
 * The room ffo/server/ is the orchestrator but for its main.c: connections, requests, events. It may use
 * all other rooms of ffo. The loop's thread only, but for starting and stopping the one inside a router.
 */
#ifndef FFO_SERVER_FFO_H
#define FFO_SERVER_FFO_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct ffo;
struct ffo_store_ops;

/* All zero is fine: in memory, default pools. Strings are read by ffo_create() only. */
struct ffo_conf {
	/*
	 * An SQLite file, ":memory:" or NULL (nothing is kept); or "zookeeper:SERVERS[/CHROOT]",
	 * which other orchestrators share.
	 */
	const char *store;
	const char *const *pools; /* [num_pools] each "[TENANT=]ADDRESS/LENGTH", see alloc.h */
	size_t num_pools;
	unsigned int write_timeout; /* ms a client may take to read an answer; 0: 10,000 */
	unsigned int patience;	    /* ms that a request waits for a store that is away; 0: 5,000 */
	unsigned int max_clients;   /* connections at once; 0: 1,024 */
	unsigned int handshake_timeout; /* ms for TLS's; 0: 3,000 */
	/* PEM files for tls: addresses, as in tls.h, which are read again when they change; or NULL. */
	const char *cert, *key, *ca;
	const char *crl; /* which certificates are revoked, likewise; NULL: none is asked for */
	const struct ffo_store_ops *store_ops; /* NULL: what `store` says */
};

/*
 * Open the store and load what is allocated. 0 or -errno, after a line in the log. Everything
 * below is called on the loop's thread.
 */
int ffo_create(const struct ffo_conf *conf, uv_loop_t *loop, struct ffo **f);
/*
 * Accept connections at "unix:/path" or "tcp:ADDRESS:PORT" ("tcp:[ADDRESS]:PORT" for IPv6), or at
 * "tls:ADDRESS:PORT", for which the conf had files. A Unix socket is mode 0600; one that a dead
 * process left behind is replaced. 0 or -errno, after a line in the log.
 */
int ffo_listen(struct ffo *f, const char *address);
/* Serve a connected Unix stream socket. Takes fd in any case. 0 or -errno. */
int ffo_attach(struct ffo *f, int fd);
/* Look now whether there are new certificates, not with the next connection. The log tells. */
void ffo_look(struct ffo *f);
/* Ends all; f is freed when the loop, which must run on, has closed its handles. */
void ffo_destroy(struct ffo *f);

/*
 * The embedded orchestrator: a thread (ordinary priority, all signals blocked) with its own loop,
 * at most one in a process. *client_fd: the caller's end of a socket pair, for client.h. 0 or
 * -errno, after a line in the log; -EBUSY: runs already.
 */
int ffo_embedded_start(const struct ffo_conf *conf, int *client_fd);
/* Ends and joins it; nothing to do when it does not run. */
void ffo_embedded_stop(void);

#endif
