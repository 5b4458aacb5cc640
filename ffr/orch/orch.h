/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * orch.h - the router as a client of the orchestrator. See orch.c. Control thread.
 *
 * The room ffr/orch/ keeps this host and the orchestrator of one mind: containers, policy, limits,
 * what is published, who runs. It may use ctl/, dir/ and ffo's client, and starts an orchestrator
 * of its own where none is configured (ffo/server/ffo.h). Control thread only.
 */
#ifndef FFR_ORCH_ORCH_H
#define FFR_ORCH_ORCH_H

#include <jansson.h>

#include "ffo/client/client.h"

struct container;
struct ctl;
struct orch;
struct peers;
struct tls_files;

/* Strings stay the caller's, and are there as long as the client is. */
struct orch_conf {
	const char *
		where; /* "embedded", "unix:/path", "tls:address:port", "tcp:..." or "zookeeper:..." */
	const char *host;	  /* this one's name */
	const char *instance;	  /* this start of its router */
	const char *wire;	  /* where other hosts reach it, "tcp:ADDR:PORT"; "": nowhere */
	const char *store;	  /* embedded: database file, or ":memory:" */
	const char *const *pools; /* embedded: prefixes to allocate addresses from */
	uint32_t num_pools;
	struct peers *peers;	     /* NULL: a single host */
	uint32_t fence_after;	     /* s: fence.c; 0: never */
	const struct tls_files *tls; /* of orch_start() only: for one at tls: */
	void (*ready)(void *arg);
	void *arg; /* ready()'s */
};

/* Connects, registers the host, attaches its containers, and calls ready() when it is known or cannot be
 * reached. 0 or -errno. */
int orch_start(struct ctl *ctl, const struct orch_conf *conf);
/* Closes it; its handles close while the loop runs, and then it is freed. NULL is fine. */
void orch_stop(struct orch *o);

/* How it stands with the orchestrator; text is the client's, until it is called again. */
struct orch_state {
	const char *where; /* the configuration's word */
	bool up;	   /* connected, and of one mind */
	bool known; /* it was up since the router's start: what the router lists is the whole */
	const char *store; /* the file of the embedded one; NULL: it has none, or is elsewhere */
	const char *why;   /* it was not, the last time; "" */
};
void orch_state(const struct orch *o, struct orch_state *s);

/*
 * Ask. Takes the reference `fields` (an object with the op's fields). cb is called once, perhaps
 * before the return: -ENOTCONN while the orchestrator cannot be reached.
 */
void orch_call(struct orch *o, enum ffo_op op, json_t *fields, ffo_reply_cb cb, void *arg);

/* err 0: the container does not run. Else text says why it is not to be moved, and what to do; -EBUSY: it runs. */
typedef void orch_claim_fn(void *arg, int err, const char *text);
/*
 * Ask the container's host whether it runs there, before it moves. fn is called once, now or within 4 s. See claim.c.
 */
void orch_claim_ask(struct orch *o, const struct ffo_container *c, const struct ffo_host *owner,
		    orch_claim_fn *fn, void *arg);

/*
 * Take the store that the orchestrator has now, whichever it is, and put this host's containers
 * into it. cb is called once: with how many are in it and how many could not be (another one has
 * their name, address, id or LID), which are detached. -EINVAL: it is the store that they are in;
 * -EBUSY: somebody else waits for that.
 */
typedef void orch_accepted_cb(void *arg, int err, const char *why, uint32_t kept, uint32_t gone);
void orch_accept(struct orch *o, orch_accepted_cb *cb, void *arg);

/*
 * A container of this host, as the orchestrator has it: attached, or as it says. NULL: *err is why.
 */
struct container *orch_container(struct ctl *ctl, const struct ffo_container *info, int *err);

#endif
