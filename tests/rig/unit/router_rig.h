/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * router_rig.h - a whole control thread in a test, which drives its loop: its administrator, and its
 * clients over real sockets.
 */
#ifndef ROUTER_RIG_H
#define ROUTER_RIG_H

#include <jansson.h>

#include "tests/rig/unit/unit.h"
#include "ffr/ctl/container.h"
#include "ffr/router.h"

extern struct router rt;
extern char dir[32]; /* its runtime_dir is <dir>/run */
extern uv_timer_t watchdog;

int make_dir(void);
int remove_dir(void);
void start(void); /* host h0, with the embedded orchestrator */
void start_at(const char *orchestrator, void (*before)(void)); /* `before` it connects there */
void stop(void);
/* For cmocka_unit_test_setup_teardown(): all of that. */
int router_setup(void **state);
int router_teardown(void **state);

/* Run the loop until something is so; it aborts after a while. */
#define WAIT_FOR(cond)                                                                             \
	do {                                                                                       \
		uv_timer_again(&watchdog);                                                         \
		while (!(cond))                                                                    \
			uv_run(&rt.loop, UV_RUN_ONCE);                                             \
	} while (0)

/* ---- the administrator ---- */
int dial(int type, const char *name); /* connect to a socket in runtime_dir */
json_t *next_line(int s);	      /* NULL when the connection was closed */
json_t *ask_text(const char *text);   /* a request with its newline: the answer */
json_t *ask(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* it must be a good one */
void ask_fails(const char *text, const char *error);			 /* NULL: any */
size_t count(const char *request, const char *key); /* elements of that array of the answer */
bool there(const char *name);			    /* in runtime_dir */

/* ---- a client ---- */
int call(int s, uint16_t type, const void *req, size_t len, void *resp, size_t resp_len);
#define CALL(s, NAME, req, resp)                                                                   \
	assert_int_equal(call(s, FF_MSG_##NAME, req, sizeof(*(req)), resp, sizeof(*(resp))), 0)

extern uint8_t memory[4096];

int client(const char *container, uint32_t *pd); /* a session with a PD */
struct ff_reg_mr_resp reg(int s, uint32_t pd);	 /* all of memory, at 0x1000, to be read */
void dereg(int s, uint32_t mr);

#endif
