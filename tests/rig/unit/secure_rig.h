/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * secure_rig.h - an orchestrator (ffo_rig.h) that listens for TLS, certificates of two authorities for a
 * program's tests, clients that connect with them, and what is logged.
 */
#ifndef SECURE_RIG_H
#define SECURE_RIG_H

#include "tests/rig/unit/unit.h"
#include "ffo/client/client.h"
#include "tests/rig/unit/certs.h"
#include "tests/rig/unit/ffo_rig.h"

/* When a test that waits gives up: time, and not turns, since TCP's own timers take up to seconds. */
#define SECURE_DEADLINE() (uv_hrtime() + unit_slow() * 30 * 1000000000ull)

/* Run the loop until that is so. */
#define SECURE_WAIT_FOR(t, what)                                                                   \
	for (uint64_t deadline = SECURE_DEADLINE(); !(what);) {                                    \
		assert_true(uv_hrtime() < deadline);                                               \
		uv_run(&(t)->loop, UV_RUN_NOWAIT);                                                 \
	}

int secure_setup(void **state);
int secure_teardown(void **state);
#define SECURE_TEST(name) cmocka_unit_test_setup_teardown(name, secure_setup, secure_teardown)

/* Of the whole group. */
int secure_make_files(void **state);
int secure_remove_files(void **state);

/* ---- files ----------------------------------------------------------------------------------- */

extern struct authority secure_ours, secure_foreign;
extern long secure_serial_h1; /* of h1's certificate */

/* Up to four names at once. */
const char *secure_file(const char *name, const char *end);
/* Its serial number. role: "" for none. */
long secure_make_as(const struct authority *a, const char *role, const char *name, const char *san,
		    int days);
/* Of clients, for those tests that say so. */
extern const char *secure_client_crl;
struct tls *secure_tls_of(const char *name, const char *ca);

/* ---- the orchestrator, and what it logs ------------------------------------------------------- */

/* Of an orchestrator with that certificate; its files are secure_file()'s. */
struct ffo_conf secure_conf(const char *cert);
/* What the orchestrator has beside its certificate, for those tests that say so. */
struct secure_server {
	const char *crl;
};
extern struct secure_server secure_server;
/* With that certificate; the address it listens at. */
const char *secure_serve(struct test *t, const char *cert, const char *listen);
void secure_log_capture(void);
/* What was logged since has that word in it. */
const char *secure_log_has(const char *word);
/* What was logged since is one line with that word; NULL: nothing was logged. */
void secure_log_is(const char *word);

/* ---- clients --------------------------------------------------------------------------------- */

struct secure_client {
	struct ffo_client *client;
	struct tls *tls;
	unsigned int answers, events;
	int err, closed, closed_err;
	char why[300]; /* of the last answer, or of the end */
	json_t *answer;
};

void secure_closed(void *arg, int err); /* ffo_client_connect()'s callback */
void secure_call(struct secure_client *s, enum ffo_op op, json_t *fields);
/* Connect with that certificate and say hello at once. */
void secure_connect_as(struct test *t, struct secure_client *s, const char *address,
		       const char *cert, const char *ca);
void secure_let_in(struct test *t, struct secure_client *s);
void secure_leave(struct secure_client *s);
/* Its second call, HOST_LIST, succeeds. */
void secure_is_served(struct test *t, struct secure_client *s);
/* h0 comes, is let in, and leaves. */
void secure_visit(struct test *t, struct secure_client *s, const char *address);
int secure_dial(const char *address);

/* Connections that may be in handshake. */
#define SECURE_STRANGERS 128u
/* The orchestrator's end of it, of the one that came last. */
struct conn *secure_last_conn(struct test *t);

#endif
