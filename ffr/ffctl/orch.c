/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * orch.c - ffctl as a client of the orchestrator itself, with an operator's certificate. See
 * ffctl(8).
 *
 * What a router may not do for an operator, who has more rights than its host, is asked here. Commands
 * make the same requests in either case (admin/cluster.c has the router's side): the ones that are the
 * orchestrator's are sent to it, the others are refused.
 *
 * Tests: system/fault_tls.sh
 */
#include "ffr/ffctl/ffctl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "ffo/base/address.h"
#include "ffo/client/client.h"
#include "ffo/tls/tls.h"

struct orch_options orch_options;

static struct {
	uv_loop_t loop;
	uv_timer_t timer;
	struct tls *tls;
	struct ffo_client *client;
	bool done;
	int err;
	char why[512];
	json_t *answer;
} conn;

/* ---- the connection -------------------------------------------------------------------------- */

static void answered(void *arg, int err, const char *why, json_t *answer)
{
	(void)arg;
	if (err == -ECONNRESET || err == -ECANCELED)
		return; /* closed() tells more */
	conn.done = true;
	conn.err = err;
	snprintf(conn.why, sizeof(conn.why), "%s", why);
	conn.answer = json_incref(answer);
}

static void closed(void *arg, int err)
{
	const char *why = ffo_client_why(conn.client);

	(void)arg;
	fail("orchestrator %s: %s", orch_options.address, *why ? why : strerror(-err));
}

static void late(uv_timer_t *t)
{
	char who[512];

	(void)t;
	snprintf(who, sizeof(who), "orchestrator %s", orch_options.address);
	late_fail(who);
}

/* Its answer; or -errno, and conn.why has a line. */
static int ask(enum ffo_op op, json_t *fields, json_t **answer)
{
	int err = ffo_client_call(conn.client, op, fields, answered, NULL);

	if (err)
		fail("orchestrator %s: %s", orch_options.address, strerror(-err));
	conn.done = false;
	uv_timer_start(&conn.timer, late, (uint64_t)answer_s * 1000, 0);
	while (!conn.done)
		uv_run(&conn.loop, UV_RUN_ONCE);
	uv_timer_stop(&conn.timer);
	*answer = conn.answer;
	return conn.err;
}

static void need_files(void)
{
	const struct orch_options *o = &orch_options;

	if (!o->cert || !o->key || !o->ca)
		usage_fail("--orchestrator %s needs --cert, --key and --ca", o->address);
}

static void orch_open(void)
{
	const struct orch_options *o = &orch_options;
	struct tls_files files = { .cert = o->cert, .key = o->key, .ca = o->ca, .crl = o->crl };
	json_t *answer;
	int err;

	if (conn.client)
		return;
	signal(SIGPIPE, SIG_IGN);
	if (ffo_address_is_tls(o->address)) {
		need_files();
		conn.tls = tls_create(&files, conn.why, sizeof(conn.why));
		if (!conn.tls)
			fail("%s", conn.why);
	}
	uv_loop_init(&conn.loop);
	uv_timer_init(&conn.loop, &conn.timer);
	err = ffo_client_connect(&conn.loop, o->address, conn.tls, closed, NULL, &conn.client);
	if (err == -EINVAL)
		usage_fail("--orchestrator %s: must be tls:ADDRESS:PORT, unix:/PATH or "
			   "tcp:ADDRESS:PORT",
			   o->address);
	if (err)
		fail("orchestrator %s: %s", o->address, strerror(-err));
	if (ask(FFO_OP_HELLO, json_pack("{s:i}", "version", FFO_PROTO_VERSION), &answer))
		fail("orchestrator %s: %s", o->address, conn.why);
	json_decref(answer);
}

/* ---- requests as a router takes them ----------------------------------------------------------- */

/* Addresses and mode are for when it is not used, as a router has it. */
static int set(json_t *fields, json_t **answer)
{
	bool told = json_object_get(fields, "ips") || json_object_get(fields, "mode"), active;
	json_t *got;

	if (told) {
		if (ask(FFO_OP_CONTAINER_GET,
			json_pack("{s:O}", "name", json_object_get(fields, "name")), &got)) {
			json_decref(fields);
			return conn.err;
		}
		active = json_is_true(json_object_get(json_object_get(got, "container"), "active"));
		json_decref(got);
		if (active)
			fail("container %s is in use: stop its programs first",
			     str_of(fields, "name"));
	}
	return ask(FFO_OP_CONTAINER_SET, fields, answer);
}

/*
 * Unless it is forced: only what has the same epoch still is moved; and for a claim ("ask") the router of this host
 * asks the container's host whether it runs there.
 */
static int may_move(json_t *fields)
{
	bool asks = json_is_true(json_object_get(fields, "ask"));
	json_t *got, *c;
	int err;

	json_object_del(fields, "ask");
	if (json_is_true(json_object_get(fields, "force")))
		return 0;
	err = ask(FFO_OP_CONTAINER_GET, json_pack("{s:O}", "name", json_object_get(fields, "name")),
		  &got);
	if (err)
		return err;
	c = json_object_get(got, "container");
	json_object_set(fields, "epoch", json_object_get(c, "epoch"));
	if (asks)
		json_decref(router_itself(json_pack("{s:s, s:O}", "op", "container_ask",
						    "container", c),
					  "EBUSY", BUSY_TRIES));
	json_decref(got);
	return 0;
}

static int migrate(json_t *fields, json_t **answer)
{
	json_t *host = json_object_get(fields, "host"), *up, *got;
	int err = may_move(fields);

	if (!err)
		err = ask(FFO_OP_HOST_GET, json_pack("{s:O}", "host", host), &got);
	if (err) {
		json_decref(fields);
		return err;
	}
	up = json_incref(json_object_get(json_object_get(got, "host"), "up"));
	json_decref(got);
	if (json_is_true(json_object_get(fields, "force")))
		json_object_set_new(fields, "force", json_integer(1));
	else
		json_object_del(fields, "force");
	err = ask(FFO_OP_CONTAINER_SET, fields, answer);
	if (!err)
		json_object_set(*answer, "host_up", up);
	json_decref(up);
	return err;
}

int orch_exchange(const json_t *request, json_t **answer)
{
	const char *name = str_of(request, "op");
	int op = ffo_op_for_operators(name);
	json_t *fields;

	*answer = NULL;
	if (strcmp(name, "container_migrate") != 0 && (op < 0 || op == FFO_OP_CONTAINER_ADD))
		usage_fail(OF_A_ROUTER);
	orch_open();
	fields = json_copy((json_t *)request);
	json_object_del(fields, "op");
	if (!strcmp(name, "container_migrate"))
		return migrate(fields, answer);
	return op == FFO_OP_CONTAINER_SET ? set(fields, answer) :
					    ask((enum ffo_op)op, fields, answer);
}

const char *orch_why(void)
{
	return conn.why;
}
