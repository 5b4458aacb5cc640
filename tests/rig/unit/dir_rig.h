/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dir_rig.h - the router's directory in a test: the fast path of rig.h with the fake backend, a loop
 * that the test drives, an orchestrator that answers when the test says so, and a note of whom the
 * backend was told of.
 */
#ifndef DIR_RIG_H
#define DIR_RIG_H

#include "ffo/base/proto.h"
#include "ffr/dir/dir.h"
#include "ffr/dir/internal.h"
#include "ffr/peer/peer.h"
#include "tests/rig/unit/rig.h"

struct dir_rig {
	struct rig rig; /* containers a, b, c of tenant "t" and d of "other"; ids 1 to 4 */
	uv_loop_t loop;
};

extern struct dir_rig dir_rig;

/* For cmocka_unit_test_setup_teardown(): the orchestrator is connected. */
int dir_setup(void **state);
int dir_teardown(void **state); /* nothing is left behind */

/* Whom the backend was told of since it was asked last. */
bool told(const struct remote *r);
unsigned told_any(void); /* how often, of any remote */
unsigned told_policy(void);
unsigned told_mcast(void);

/*
 * Requests, in order. expect(): the next one is of that op with these fields (JSON with ' for ");
 * answer(): it is answered so; NULL: the connection is lost. expect_none(): there is none.
 */
void expect(enum ffo_op op, const char *fields);
void expect_none(void);
void answer(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void answer_error(int err);
void event(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void lose_orchestrator(void);
void find_orchestrator(void);
/* "{...}" of a container and of a host, for answers. */
const char *cont_text(uint32_t id, const char *tenant, const char *ip, const char *host,
		      uint32_t epoch);
const char *host_text(const char *name, bool up);

/* A path from a container of the rig to an IPv4 address in 10.0.0.0/24, or a LID. */
enum dir_answer path(int from, uint8_t last, struct container **here, struct remote **there);
enum dir_answer path_lid(int from, uint16_t lid, struct container **here, struct remote **there);

bool dir_calls_waiting(void);
bool dir_asked_for(const char *ip); /* among the requests that wait, for that address? */
unsigned peers_live(void);	    /* references that are held */
unsigned dir_rig_hosts(void);	    /* hosts that were told of */

#endif
