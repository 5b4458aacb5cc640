/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffo_rig.h - an orchestrator whose loop the test drives, clients at the other ends of socket pairs,
 * and a store that fails at its Nth call or ends commits when told. For the tests of ffo.
 */
#ifndef FFO_RIG_H
#define FFO_RIG_H

#include <stdbool.h>

#include "ffo/server/server.h"

#define MAX_CLIENTS 4
#define PATIENCE    20	 /* ms */
#define BATCH	    500u /* mappings of publish_batch() */
#define CONTS	    4u	 /* containers that they are of */

/* A store in front of store_sqlite. */
struct faulty {
	struct ffo_store base;
	struct ffo_store *inner;
	struct store_conf conf;
	unsigned int fail_at; /* calls from now; 0: none fails */
	bool hold;	      /* keep the ends of calls until release() */
	struct held *held;
	bool mute; /* watches have no first state */
};

extern struct faulty *faulty; /* of the test that runs */

/* The orchestrator learns now how the call that is held has ended: well, unless err is given. */
void release(int err);
/* The store's state changes. */
void store_becomes(enum store_state state);

struct test {
	uv_loop_t loop;
	struct ffo *ffo;
	int fd[MAX_CLIENTS + 1]; /* the clients' ends; -1: none */
	struct input {
		char text[FFO_LINE_MAX + 1];
		size_t len;
	} in[MAX_CLIENTS + 1];
	json_t *events[MAX_CLIENTS + 1]; /* arrays: not looked at yet */
};

/* A test of a struct test; ffo_teardown() checks that nothing is left. */
int ffo_setup(void **state);
int ffo_teardown(void **state);
#define FFO_T(name) cmocka_unit_test_setup_teardown(name, ffo_setup, ffo_teardown)
/* Make t->ffo: pools 10.1.0.0/29 and fd01::/120, 10.0.0.0/8 for tenant "big". */
void start(struct test *t);

/* A new connection, as client i; one that has said hello; one that is the router of host h<i>. */
void attach(struct test *t, int i);
void hello(struct test *t, int i);
void router(struct test *t, int i);
/* Until the orchestrator has that many connections. */
void wait_conns(struct test *t, unsigned int n);

void send_text(struct test *t, int i, const char *text, size_t len);
/* The next answer for client i; NULL: the connection has ended. Events on the way are kept. */
json_t *receive(struct test *t, int i);
/* The next event, which must be of that kind; NULL: the connection has ended. */
json_t *event(struct test *t, int i, const char *kind);
/* Nothing comes for a while: no answer, no event. */
void expect_silence(struct test *t, int i);
json_t *ask(struct test *t, int i, const char *line);
/* Ask with ' for " and id 7. The text begins with the op: "'container_get','name':'a'". */
json_t *ask_va(struct test *t, int i, const char *fmt, va_list ap);
/* Ask; the answer must be ok, or that error. */
json_t *ask_ok(struct test *t, int i, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void ask_err(struct test *t, int i, const char *error, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void expect_error(json_t *msg, int id, const char *error); /* takes msg */

/* What an answer holds; each takes the reference. */
struct ffo_container container(json_t *msg);
size_t count(json_t *msg, const char *key); /* elements of that array */

void expect_ip(const struct ffo_container *c, int i, const char *want);
void expect_host(struct test *t, int i, const char *name, bool up);
/* Client 0 publishes mappings number first..first + BATCH, of containers 1..CONTS. */
void publish_batch(struct test *t, uint32_t first);
/* Client 0 publishes those rows, which it takes, by a request with the id 1; the answer. */
json_t *publish_rows(struct test *t, json_t *rows);
/* A router with an instance and a wire address, which can be told from others. */
void router_at(struct test *t, int i, const char *instance);
void send_str(struct test *t, int i, const char *text);
/* Its connection ends, and the orchestrator has seen it. */
void router_leaves(struct test *t, int i);
/* Take msg: its container's name and host, "-" for null. */
void expect_resolved(json_t *msg, const char *name, const char *host, int up);
uint64_t rig_now_us(void); /* monotonic */

#endif
