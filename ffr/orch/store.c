/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * store.c - which store the orchestrator has. Control thread; called by orch.c.
 *
 * The orchestrator's list of this host's containers may lack one that the router has. If the list
 * is from the store that the container was in, the container was removed or moved. If it is from an
 * empty store (a lost disk, a mistyped path) or from a backup, it tells nothing of the container,
 * which runs, and which its peers on other hosts reach. So a router that has containers takes no
 * other store than the one that it knows, and no older state of that one. It serves its containers
 * from what it knows, until the orchestrator has that store again, or an operator tells the router
 * to take the store that there is. Then the router puts its containers into it, with their ids,
 * LIDs and epochs, so that other hosts notice nothing.
 *
 * Each store has an identity of its own (struct ffo_store_ops). A store is an older state of itself
 * if it has never given the id of a container that the router has, or has the container in an
 * earlier epoch.
 *
 * Tests: unit/orch/test_orch.c, system/fault_store.sh
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ffo/base/limits.h"
#include "ffr/ctl/container.h"
#include "ffr/dir/ctl.h"
#include "ffr/lib/log.h"
#include "ffr/orch/internal.h"

#define WHAT_TO_DO "bring it back, or run `ffctl store accept`"

static bool is_other(const struct orch *o)
{
	return *o->store && strcmp(o->says, o->store);
}

const char *store_refused(struct orch *o)
{
	static char why[sizeof(o->said)];
	const struct container *c;
	unsigned n = 0;

	if (!is_other(o) || o->accepted)
		return "";
	LIST_FOREACH(c, &o->ctl->host->containers, entry)
		n++;
	if (!n)
		return "";
	snprintf(
		why, sizeof(why),
		"it has another store (%.12s) than the one that this host's %u containers are in (%.12s): " WHAT_TO_DO,
		o->says, n, o->store);
	return why;
}

static const char *older(struct orch *o, const char *name)
{
	static char why[sizeof(o->said)];

	snprintf(
		why, sizeof(why),
		"its store is older than this host's container %.64s, a backup perhaps: " WHAT_TO_DO,
		name);
	return why;
}

const char *store_refused_for(struct orch *o, const struct ffo_container *info)
{
	const struct container *c = container_find(o->ctl, info->name);

	if (!c || is_other(o) || (o->accepted && info->id != c->id))
		return "";
	if (info->id < c->id || (info->id == c->id && info->epoch < c->epoch))
		return older(o, info->name);
	return "";
}

static struct container *missing(struct orch *o)
{
	struct container *c;

	LIST_FOREACH(c, &o->ctl->host->containers, entry)
		if (((struct container_ctl *)c->ctl)->sync != o->sync)
			return c;
	return NULL;
}

const char *store_refused_missing(struct orch *o)
{
	struct container *c;

	if (!o->last || is_other(o) || o->accepted)
		return "";
	LIST_FOREACH(c, &o->ctl->host->containers, entry)
		if (((struct container_ctl *)c->ctl)->sync != o->sync && c->id > o->last)
			return older(o, c->name);
	return "";
}

/* ---- an operator's word ---------------------------------------------------------------------- */

static json_t *fields_of(const struct orch *o, const struct container *c)
{
	const struct container_ctl *ct = c->ctl;
	json_t *ips = json_array(), *limits = ffo_limits_to_json(&ct->told);
	char text[INET6_ADDRSTRLEN];
	struct in6_addr ip;

	for (unsigned i = 0; i < c->num_gids; i++) {
		memcpy(&ip, &c->gid[i], sizeof(ip));
		json_array_append_new(ips, json_string(ffo_addr_text(&ip, text)));
	}
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o*, s:s*, s:i, s:I, s:i, s:I}", "name",
			 c->name, "tenant", c->tenant, "mode", ffo_mode_name[c->mode], "host",
			 o->conf.host, "ips", ips, "limits", limits, "device_name",
			 *ct->device_name ? ct->device_name : NULL, "devices", (int)ct->devices,
			 "container", (json_int_t)c->id, "lid", (int)c->lid, "epoch",
			 (json_int_t)c->epoch);
}

/* The container may have gone meanwhile: whoever finds it in the store may move it at once. */
static void filled(void *arg, int err, const char *why, json_t *answer)
{
	struct orch *o = arg;
	struct container *c = container_by_id(o->ctl, o->filling);

	(void)answer;
	if (err == -ECONNRESET || err == -ECANCELED)
		return;
	if (err && err != -EEXIST && err != -EADDRINUSE) {
		orch_down(o, why);
		return;
	}
	if (!err) {
		if (c)
			((struct container_ctl *)c->ctl)->sync = o->sync;
		o->kept++;
	} else if (c) {
		log_err("container %s: it cannot be in the orchestrator's store, and ends here: %s",
			c->name, why);
		container_leave(c, why);
		o->gone++;
	}
	store_fill(o);
}

void store_fill(struct orch *o)
{
	struct container *c = o->accepted ? missing(o) : NULL;
	int err;

	if (!c) {
		if (is_other(o))
			dir_store_changed(o->ctl->host->dir);
		orch_sync_done(o);
		return;
	}
	o->filling = c->id;
	err = ffo_client_call(o->client, FFO_OP_CONTAINER_ADD, fields_of(o, c), filled, o);
	if (err)
		orch_down(o, strerror(-err));
}

void store_told(struct orch *o, int err, const char *why)
{
	orch_accepted_cb *cb = o->accepted;

	o->accepted = NULL;
	if (cb)
		cb(o->accepted_arg, err, why, o->kept, o->gone);
}

void orch_accept(struct orch *o, orch_accepted_cb *cb, void *arg)
{
	if (o->accepted || o->up) {
		cb(arg, o->up ? -EINVAL : -EBUSY,
		   o->up ? "this host's containers are in the orchestrator's store" :
			   "another operator waits for the orchestrator's store",
		   0, 0);
		return;
	}
	o->accepted = cb;
	o->accepted_arg = arg;
	o->kept = o->gone = 0;
	if (!o->client)
		orch_now(o);
}
