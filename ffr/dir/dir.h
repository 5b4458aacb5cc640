/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dir.h - the router's directory: who is at an address, on which host, what may be reached there,
 * who may talk to whom, and which hosts are in a multicast group. See dir.c.
 *
 * All of it is called [lock], from the runner or the control thread, and never waits: what is not
 * known is asked for, and told later by the carriers' op news. Without a directory
 * (host->dir is NULL: no orchestrator that knows other hosts) this host is all there is. It is the first
 * thread's, as wires are: who asks on another one learns of this host only.
 *
 * The room ffr/dir/ may use fast/ and peer/, tells carriers and the software device of news by their ops, and asks the
 * orchestrator by what dir_connected() has brought (ctl.h). Runners and the control thread look things up and leave
 * behind what they miss, by the lock; the control thread asks, and puts the answers in.
 */
#ifndef FFR_DIR_DIR_H
#define FFR_DIR_DIR_H

#include <jansson.h>
#include <stdbool.h>

#include "ffr/fast/fast.h"
#include "ffr/obj/objects.h"

struct remote_maps;
struct wire_peer;

/*
 * A container of another host that somebody here talks to; or an address that nobody is known to
 * have: then epoch is 0, and it is something to wait at.
 */
struct remote {
	uint32_t id, epoch; /* the orchestrator's; epoch 0: nobody (now) */
	char name[CONTAINER_NAME_MAX], tenant[CONTAINER_NAME_MAX];
	union ibv_gid gid[CONTAINER_MAX_GIDS];
	uint8_t num_gids;
	uint16_t lid;
	struct wire_peer *peer; /* its host's; NULL: not known, or it is on this host */
	struct remote_nic {	/* by which of its host's NICs it goes; wire/nics.c */
		const struct wire_peer *peer; /* who said so, in that connection, of that epoch; */
		uint32_t generation, epoch;   /* an answer of another one is void */
		uint32_t index;
		uint64_t asked; /* ns: when it was asked for last */
	} nic;
	uint32_t refs;
	struct remote_maps *maps; /* map.c's: what of it is published; NULL: never asked for */
	struct dir_entry *entry;  /* dir.c's: the table entry that it is part of */
};

enum dir_answer {
	DIR_HERE,   /* *here is it */
	DIR_REMOTE, /* *there is it; its host may be down */
	DIR_WAIT,   /* asked: news(*there) of the carriers follows */
	DIR_NOBODY, /* nobody has it; news(*there), should somebody get it */
	DIR_DENIED, /* policy; news(NULL), should that change */
};

/*
 * Who is at the end of a path, seen from a container here. No reference is taken: keep *there with
 * remote_get() beyond the lock. It is NULL with DIR_HERE and DIR_DENIED, and where there is no
 * directory (then nobody will be told of anything); with DIR_WAIT it can be NULL when there is no
 * memory for one more address.
 */
enum dir_answer dir_path(struct fast *f, const struct container *from, const struct ff_ah_attr *ah,
			 struct container **here, struct remote **there);
/* The container of that id, where it is known already; NULL otherwise, and it is asked for. */
struct remote *dir_by_id(struct fast *f, uint32_t id);
/* May the two talk to each other? */
bool dir_allowed(const struct fast_host *h, const struct container *here, const char *tenant,
		 const char *name);

enum map_answer {
	MAP_OK,
	MAP_REFUSED,
	MAP_WAIT, /* news() follows; not forever: some time later it is refused */
};
/*
 * May [addr, addr + len) be reached by that rkey, as far as is published? `access`: all of
 * IBV_ACCESS_REMOTE_* that are needed.
 */
enum map_answer dir_map(struct fast *f, struct remote *r, uint32_t rkey, uint64_t addr,
			uint64_t len, uint32_t access);

void remote_get(struct remote *r);
void remote_put(struct fast *f, struct remote *r);

/*
 * The hosts, without this one, that have members of the group. Their number, and an array that is
 * good until the turn ends; -1: not known yet, mcast_changed() follows.
 */
int dir_mcast(struct fast *f, const char *tenant, const union ibv_gid *mgid,
	      struct wire_peer ***peers);
/* The first member here has joined, the last one left. */
void dir_mcast_member(struct fast *f, const char *tenant, const union ibv_gid *mgid, bool join);
/* The orchestrator is there, and has not confirmed yet that there are members here. */
bool dir_mcast_pending(struct fast *f, const char *tenant, const union ibv_gid *mgid);

/* A container has come to this host; it has left, and nothing of it asks any more. */
void dir_container_added(struct fast_host *h, struct container *c);
void dir_container_gone(struct fast_host *h, struct container *c);

/* ---- control thread, not [lock] ------------------------------------------------------------- */

/*
 * The container is about to send on that path; what is needed is made so. With several threads, the
 * container that the path leads to, if it is on the same one now.
 */
struct container *dir_meet(struct container *c, const struct ff_ah_attr *path);

#endif
