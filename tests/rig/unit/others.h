/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * others.h - the directory and the connections' control side, for fast paths that run without a
 * router around them: who else there is, is what the program says.
 */
#ifndef TEST_OTHERS_H
#define TEST_OTHERS_H

#include "ffr/dir/dir.h"
#include "ffr/peer/peer.h"

#define OTHERS_MAX 4

/* What one fast path knows. The program fills in everything but the three at the end. */
struct others {
	const struct fast *f;
	struct remote *remote[OTHERS_MAX];  /* containers, by their first GID or their LID */
	struct wire_peer *peer[OTHERS_MAX]; /* hosts; all are in all multicast groups */
	bool is_denied;			    /* policy: of all other hosts */
	enum map_answer map;		    /* dir_map()'s answer */
	unsigned maps;			    /* how often dir_map() was asked */
	bool is_wanted;			    /* peer_want() was called, of any */
	char why[100];			    /* peer_lost()'s */
};

/* Fast paths that nobody named know of no other host. */
void others_add(struct others *o);
void others_del(struct others *o);

#endif
