/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ctl.h - the directory as those have it who make it and bring the orchestrator's word. Control thread,
 * not [lock]; what it is asked is in dir.h.
 */
#ifndef FFR_DIR_CTL_H
#define FFR_DIR_CTL_H

#include <jansson.h>
#include <stdbool.h>

#include "ffo/client/client.h"

struct dir;
struct fast_host;
struct orch;
struct peers;

/* host->dir is made; it asks nobody until it is connected. 0 or -errno. */
struct dir_conf {
	struct uv_loop_s *loop;
	struct fast_host *fast; /* its threads[0] has the directory */
	const char *host;	/* this one's name; it stays the caller's */
	struct peers *peers;	/* NULL: a single host */
};
int dir_create(const struct dir_conf *conf);
/*
 * host->dir goes; its handles close while the loop runs. The orchestrator's client is closed, and
 * nobody has a reference.
 */
void dir_free(struct dir *d); /* NULL is fine */
/*
 * Asks the orchestrator: takes the reference `fields` (an object with the op's fields), and calls cb once,
 * perhaps before it returns; with an error while the orchestrator cannot be reached.
 */
typedef void dir_ask_fn(struct orch *o, enum ffo_op op, json_t *fields, ffo_reply_cb cb, void *arg);
/* The orchestrator is there, is asked like that from now on, and knows this host; it is lost. */
void dir_connected(struct dir *d, dir_ask_fn *ask, struct orch *o);
void dir_disconnected(struct dir *d);
/* The orchestrator has another store than before: what is not in it may still be there. */
void dir_store_changed(struct dir *d);
/* The whole list of rules, as the orchestrator tells it. 0 or -errno: it stays as it was. */
int dir_policy(struct dir *d, json_t *rules);
/* An event. False: it is none of the directory's. */
bool dir_event(struct dir *d, const char *event, json_t *msg);

#endif
