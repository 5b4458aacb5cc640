/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c tests/rig/unit/certs.c ffr/lib/log.c */
/*
 * test_access.c - what the role of a client's certificate lets it do (ffo/server/access.c): every op for
 * each role, and for hosts whose containers they are.
 *
 * Hosts h0 and h1 have containers: a0 and b0 of tenants a and b on h0, a1 of tenant a and c1 of tenant c
 * on h1. h1's certificate has the tenants a and c.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/certs.h"
#include "ffo/client/client.h"
#include "ffo/server/server.c" /* struct listener */
#include "tests/rig/unit/ffo_rig.h"

#define TURNS 1000000
#define WAIT_FOR(what)                                                                             \
	for (int turn = 0; !(what); turn++) {                                                      \
		assert_true(turn < TURNS);                                                         \
		uv_run(&t->loop, UV_RUN_NOWAIT);                                                   \
	}

enum { H0, H1, BOSS, NUM_WHO };
static const char *const who_name[] = { "h0", "h1", "boss" };

struct who {
	struct ffo_client *client;
	struct tls *tls;
	unsigned int answers;
	int err;
	char why[300];
	json_t *answer, *event;
	unsigned int events;
};

static char dir[] = "/tmp/test_ffo_access.XXXXXX";
static struct test *t;
static struct who who[NUM_WHO];
static uint32_t id_a0, id_b0, id_a1, id_c1;

static const char *file(const char *name, const char *end)
{
	static char path[4][128];
	static unsigned int next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s%s", dir, name, end);
	return p;
}

/* ---- clients --------------------------------------------------------------------------------- */

static void answered(void *arg, int err, const char *why, json_t *answer)
{
	struct who *w = arg;

	w->answers++;
	w->err = err;
	snprintf(w->why, sizeof(w->why), "%s", why);
	json_decref(w->answer);
	w->answer = json_incref(answer);
}

static void closed(void *arg, int err)
{
	struct who *w = arg;

	fail_msg("%d %s", err, ffo_client_why(w->client));
}

static void told(void *arg, const char *event, json_t *msg)
{
	struct who *w = arg;

	if (!strcmp(event, "attach") || !strcmp(event, "detach"))
		return;
	w->events++;
	json_decref(w->event);
	w->event = json_incref(msg);
}

static int call(int i, enum ffo_op op, json_t *fields)
{
	struct who *w = &who[i];
	unsigned int before = w->answers;

	assert_int_equal(ffo_client_call(w->client, op, fields, answered, w), 0);
	WAIT_FOR(w->answers > before);
	return w->err;
}

#define OK(i, op, ...)	   assert_int_equal(call(i, FFO_OP_##op, json_pack(__VA_ARGS__)), 0)
#define DENIED(i, op, ...) assert_int_equal(call(i, FFO_OP_##op, json_pack(__VA_ARGS__)), -EPERM)

static uint32_t add(int i, const char *name, const char *tenant)
{
	OK(i, CONTAINER_ADD, "{s:s, s:s}", "name", name, "tenant", tenant);
	return (uint32_t)json_integer_value(
		json_object_get(json_object_get(who[i].answer, "container"), "id"));
}

static const char *text_of(int i, const char *object, const char *key)
{
	const char *s =
		json_string_value(json_object_get(json_object_get(who[i].answer, object), key));

	return s ? s : "";
}

/* ---- fixture --------------------------------------------------------------------------------- */

static const char *serve(void)
{
	struct ffo_conf conf = { .cert = file("server", ".pem"),
				 .key = file("server", ".key"),
				 .ca = file("ca", ".pem"),
				 .max_clients = 8 };
	static char address[64];
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);

	assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), 0);
	assert_int_equal(ffo_listen(t->ffo, "tls:127.0.0.1:0"), 0);
	getsockname(LIST_FIRST(&t->ffo->listeners)->acceptor.fd, (struct sockaddr *)&sa, &len);
	snprintf(address, sizeof(address), "tls:127.0.0.1:%u", ntohs(sa.sin_port));
	return address;
}

static void join(int i, const char *address)
{
	struct tls_files files = { .cert = file(who_name[i], ".pem"),
				   .key = file(who_name[i], ".key"),
				   .ca = file("ca", ".pem") };
	struct who *w = &who[i];
	char err[512];

	memset(w, 0, sizeof(*w));
	w->tls = tls_create(&files, err, sizeof(err));
	assert_non_null(w->tls);
	assert_int_equal(ffo_client_connect(&t->loop, address, w->tls, closed, w, &w->client), 0);
	ffo_client_on_event(w->client, told);
	OK(i, HELLO, "{s:i}", "version", FFO_PROTO_VERSION);
}

static int up(void **state)
{
	const char *address;

	t = calloc(1, sizeof(*t));
	memset(t->fd, 0xff, sizeof(t->fd));
	uv_loop_init(&t->loop);
	*state = t;
	address = serve();
	for (int i = H0; i <= BOSS; i++)
		join(i, address);
	for (int i = H0; i <= H1; i++)
		OK(i, HOST_REGISTER, "{s:s, s:s}", "host", who_name[i], "instance", who_name[i]);
	id_a0 = add(H0, "a0", "a");
	id_b0 = add(H0, "b0", "b");
	id_a1 = add(H1, "a1", "a");
	id_c1 = add(H1, "c1", "c");
	return 0;
}

static int down(void **state)
{
	for (int i = 0; i < NUM_WHO; i++) {
		ffo_client_close(who[i].client);
		json_decref(who[i].answer);
		json_decref(who[i].event);
	}
	ffo_teardown(state);
	for (int i = 0; i < NUM_WHO; i++) {
		tls_free(who[i].tls);
		memset(&who[i], 0, sizeof(who[i]));
	}
	return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* What no host may do, whatever it is about. */
static void test_host_is_no_operator(void **state)
{
	(void)state;
	for (int i = H0; i <= H1; i++) {
		DENIED(i, POLICY_SET, "{s:s, s:s, s:s}", "a", "a", "b", "b", "action", "allow");
		assert_non_null(strstr(who[i].why, "an operator's certificate"));
		DENIED(i, POLICY_RM, "{s:s, s:s}", "a", "a", "b", "b");
		DENIED(i, TENANT_SET, "{s:s, s:{s:i}}", "tenant", "a", "limits", "max_qp", 7);
		DENIED(i, CONTAINER_LIST, "{}");
		DENIED(i, MAP_LIST, "{}");
		OK(i, POLICY_LIST, "{}");
		OK(i, TENANT_LIST, "{}");
		OK(i, HOST_LIST, "{}");
		OK(i, HOST_GET, "{s:s}", "host", "h1");
	}
}

static void test_operator(void **state)
{
	(void)state;
	OK(BOSS, POLICY_SET, "{s:s, s:s, s:s}", "a", "a", "b", "b", "action", "allow");
	OK(BOSS, POLICY_RM, "{s:s, s:s}", "a", "a", "b", "b");
	OK(BOSS, TENANT_SET, "{s:s, s:{s:i}}", "tenant", "a", "limits", "max_qp", 7);
	OK(BOSS, CONTAINER_SET, "{s:s, s:{s:i}}", "name", "a0", "limits", "max_qp", 7);
	OK(BOSS, CONTAINER_LIST, "{}");
	assert_int_equal(json_array_size(json_object_get(who[BOSS].answer, "containers")), 4);
	OK(BOSS, MAP_LIST, "{}");
	OK(BOSS, CONTAINER_ADD, "{s:s, s:s}", "name", "x", "host", "h0");
	OK(BOSS, CONTAINER_SET, "{s:s, s:s}", "name", "x", "host", "h1");
	OK(BOSS, CONTAINER_GET, "{s:s}", "name", "x");
	assert_string_equal(text_of(BOSS, "container", "host"), "h1");
	OK(BOSS, CONTAINER_RM, "{s:s}", "name", "x");
	/* It is no host, and has nothing to do with what only hosts do. */
	for (int op = 0; op < FFO_NUM_OPS; op++)
		if (ffo_op_caller[op] == FFO_CALLER_HOST)
			assert_int_not_equal(call(BOSS, (enum ffo_op)op, NULL), 0);
	DENIED(BOSS, HOST_REGISTER, "{s:s}", "host", "boss");
	assert_non_null(strstr(who[BOSS].why, "is for hosts"));
}

/* Its own containers: all but limits; a container that it has handed over is its own no more. */
static void test_own_containers(void **state)
{
	(void)state;
	OK(H0, CONTAINER_SET, "{s:s, s:s}", "name", "a0", "mode", "spin");
	OK(H0, CONTAINER_GET, "{s:s}", "name", "a0");
	OK(H0, CONTAINER_LIST, "{s:s}", "host", "h0");
	assert_int_equal(json_array_size(json_object_get(who[H0].answer, "containers")), 2);
	OK(H0, CONTAINER_ACTIVE, "{s:i, s:i}", "container", id_a0, "active", 1);
	DENIED(H0, CONTAINER_SET, "{s:s, s:{s:i}}", "name", "a0", "limits", "max_qp", 7);
	DENIED(H0, CONTAINER_ADD, "{s:s, s:s, s:{s:i}}", "name", "n", "tenant", "a", "limits",
	       "max_qp", 7);
	OK(H0, CONTAINER_ACTIVE, "{s:i, s:i}", "container", id_a0, "active", 0);
	OK(H0, CONTAINER_SET, "{s:s, s:s}", "name", "a0", "host", "h1");
	DENIED(H0, CONTAINER_SET, "{s:s, s:s}", "name", "a0", "host", "h0");
	DENIED(H0, CONTAINER_RM, "{s:s}", "name", "a0");
	OK(H1, CONTAINER_RM, "{s:s}", "name", "a0");
}

/* Nothing of a container of another host's, idle or not, by name or by id. */
static void test_others_containers(void **state)
{
	(void)state;
	for (int active = 0; active < 2; active++) {
		OK(H0, CONTAINER_ACTIVE, "{s:i, s:i}", "container", id_a0, "active", active);
		DENIED(H1, CONTAINER_SET, "{s:s, s:s}", "name", "a0", "host", "h1");
		assert_non_null(strstr(who[H1].why, "is on host h0"));
		DENIED(H1, CONTAINER_SET, "{s:s, s:s, s:i}", "name", "a0", "host", "h1", "force",
		       1);
	}
	DENIED(H1, CONTAINER_SET, "{s:i, s:s}", "container", id_a0, "mode", "spin");
	DENIED(H1, CONTAINER_SET, "{s:s, s:[s]}", "name", "a0", "ips", "10.77.9.9");
	DENIED(H1, CONTAINER_RM, "{s:s}", "name", "a0");
	DENIED(H1, CONTAINER_RM, "{s:i}", "container", id_a0);
	DENIED(H1, CONTAINER_GET, "{s:s}", "name", "a0");
	DENIED(H1, CONTAINER_LIST, "{s:s}", "host", "h0");
	DENIED(H1, CONTAINER_ADD, "{s:s, s:s, s:s}", "name", "n", "tenant", "a", "host", "h0");
	DENIED(H1, CONTAINER_ADD, "{s:s, s:s}", "name", "n", "tenant", "b");
	assert_non_null(strstr(who[H1].why, "tenant"));
	DENIED(H1, CONTAINER_ADD, "{s:s}", "name", "n"); /* of tenant "default" */
	assert_int_equal(call(H1, FFO_OP_CONTAINER_ACTIVE,
			      json_pack("{s:i, s:i}", "container", id_a0, "active", 0)),
			 -ENOENT);
	/* Nothing has happened. */
	OK(BOSS, CONTAINER_GET, "{s:s}", "name", "a0");
	assert_string_equal(text_of(BOSS, "container", "host"), "h0");
	assert_string_equal(text_of(BOSS, "container", "mode"), "adaptive");
	OK(BOSS, CONTAINER_LIST, "{}");
	assert_int_equal(json_array_size(json_object_get(who[BOSS].answer, "containers")), 4);
}

/* ---- mappings -------------------------------------------------------------------------------- */

static void publish(int i, uint32_t container, uint32_t rkey)
{
	OK(i, MAP_PUBLISH, "{s:[[i,i,i,i,i,i,i,i,i]]}", "maps", container, rkey, 1, 0, 4096, 7, 0,
	   5, 1);
}

static void test_mappings(void **state)
{
	(void)state;
	publish(H0, id_a0, 5);
	assert_int_equal(json_integer_value(json_object_get(who[H0].answer, "stored")), 1);
	/* Neither published nor withdrawn for another host's container. */
	publish(H1, id_a0, 6);
	assert_int_equal(json_integer_value(json_object_get(who[H1].answer, "stored")), 0);
	OK(H1, MAP_WITHDRAW, "{s:[[i,i]]}", "maps", id_a0, 5);
	assert_int_equal(json_integer_value(json_object_get(who[H1].answer, "removed")), 0);
	assert_int_equal(call(H1, FFO_OP_MAP_DROP, json_pack("{s:i}", "container", id_a0)),
			 -ENOENT);
	/* Nor listed, or looked up. */
	DENIED(H1, MAP_LIST, "{s:i}", "container", id_a0);
	DENIED(H1, MAP_GET, "{s:i, s:i}", "container", id_a0, "rkey", 5);
	DENIED(H1, MAP_GET, "{s:s, s:i}", "name", "a0", "rkey", 5);
	OK(H0, MAP_LIST, "{s:i}", "container", id_a0);
	assert_int_equal(json_array_size(json_object_get(who[H0].answer, "maps")), 1);
	OK(H0, MAP_GET, "{s:s, s:i}", "name", "a0", "rkey", 5);
	OK(BOSS, MAP_GET, "{s:s, s:i}", "name", "a0", "rkey", 5);
}

/* The last event of that client is of that container's mappings, so many of them. */
static void expect_map(int i, uint32_t container, bool known, size_t rows)
{
	WAIT_FOR(who[i].event &&
		 json_integer_value(json_object_get(who[i].event, "container")) == container &&
		 !json_integer_value(json_object_get(who[i].event, "epoch")) == !known &&
		 json_array_size(json_object_get(who[i].event, "put")) == rows);
}

/* Those of whom its containers may talk to, as long as they may. */
static void test_watched_mappings(void **state)
{
	(void)state;
	publish(H0, id_a0, 5);
	publish(H0, id_b0, 6);
	OK(H1, MAP_WATCH, "{s:i}", "container", id_a0); /* of a1's tenant */
	expect_map(H1, id_a0, true, 1);
	OK(H1, MAP_WATCH, "{s:i}", "container", id_b0);
	expect_map(H1, id_b0, false, 0);
	OK(BOSS, POLICY_SET, "{s:s, s:s, s:s}", "a", "c/c1", "b", "b", "action", "allow");
	expect_map(H1, id_b0, true, 1);
	OK(BOSS, POLICY_RM, "{s:s, s:s}", "a", "c/c1", "b", "b");
	expect_map(H1, id_b0, false, 0);
	/* a1 was all that a0 could be known for. */
	OK(BOSS, CONTAINER_RM, "{s:s}", "name", "a1");
	expect_map(H1, id_a0, false, 0);
	id_a1 = add(H1, "a1", "a");
	expect_map(H1, id_a0, true, 1);
}

static void resolve(int i, const char *tenant, const char *ip)
{
	OK(i, RESOLVE, "{s:s, s:s}", "tenant", tenant, "ip", ip);
}

static const char *ip_of(const char *name)
{
	static char ip[64];

	OK(BOSS, CONTAINER_GET, "{s:s}", "name", name);
	snprintf(ip, sizeof(ip), "%s",
		 json_string_value(json_array_get(
			 json_object_get(json_object_get(who[BOSS].answer, "container"), "ips"),
			 0)));
	return ip;
}

static void test_resolved(void **state)
{
	(void)state;
	resolve(H1, "a", ip_of("a0"));
	assert_string_equal(text_of(H1, "container", "name"), "a0");
	assert_string_equal(text_of(H1, "host", "name"), "h0");
	/* As tenant b, of which it has no container; and by ids, which any number may be. */
	resolve(H1, "b", ip_of("b0"));
	assert_string_equal(text_of(H1, "container", "name"), "");
	OK(H1, RESOLVE, "{s:i}", "container", id_b0);
	assert_string_equal(text_of(H1, "container", "name"), "");
	OK(H1, RESOLVE, "{s:i}", "container", id_a0);
	assert_string_equal(text_of(H1, "container", "name"), "a0");
	OK(H0, RESOLVE, "{s:i}", "container", id_c1);
	assert_string_equal(text_of(H0, "container", "name"), "");
	/* c1 is told of as long as the policy allows it */
	OK(BOSS, POLICY_SET, "{s:s, s:s, s:s}", "a", "c", "b", "b", "action", "allow");
	WAIT_FOR(who[H0].event && json_object_get(who[H0].event, "id") &&
		 json_is_object(json_object_get(who[H0].event, "container")));
	OK(BOSS, CONTAINER_SET, "{s:s, s:s}", "name", "b0", "host", "h2");
	WAIT_FOR(json_is_null(json_object_get(who[H0].event, "container")));
}

static void test_groups(void **state)
{
	(void)state;
	OK(H0, MCAST_JOIN, "{s:s, s:s}", "tenant", "b", "mgid", "ff0e::1");
	DENIED(H1, MCAST_WATCH, "{s:s, s:s}", "tenant", "b", "mgid", "ff0e::1");
	DENIED(H1, MCAST_JOIN, "{s:s, s:s}", "tenant", "b", "mgid", "ff0e::1");
	OK(H0, MCAST_JOIN, "{s:s, s:s}", "tenant", "a", "mgid", "ff0e::1");
	OK(H1, MCAST_WATCH, "{s:s, s:s}", "tenant", "a", "mgid", "ff0e::1");
	assert_int_equal(json_array_size(json_object_get(who[H1].answer, "hosts")), 1);
	OK(BOSS, CONTAINER_RM, "{s:s}", "name", "a1");
	WAIT_FOR(who[H1].event && json_object_get(who[H1].event, "mgid") &&
		 !json_array_size(json_object_get(who[H1].event, "hosts")));
}

/* ---- others ---------------------------------------------------------------------------------- */

/* Who comes over a Unix socket has no certificate, and may do all. */
static void test_unix_socket(void **state)
{
	(void)state;
	hello(t, 0);
	json_decref(ask_ok(t, 0, "'policy_set','a':'a','b':'b','action':'allow'"));
	json_decref(ask_ok(t, 0, "'container_set','name':'a0','host':'h1'"));
	json_decref(ask_ok(t, 0, "'tenant_set','tenant':'a','limits':{'max_qp':7}"));
	close(t->fd[0]);
	t->fd[0] = -1;
	wait_conns(t, 3);
}

static void issue(const struct authority *a, const char *name, const char *names)
{
	cert_make_named(a, name, names, 5, file(name, ".pem"), file(name, ".key"));
}

static int make_files(void **state)
{
	struct authority a;

	(void)state;
	assert_non_null(mkdtemp(dir));
	authority_make(&a, "ours", file("ca", ".pem"));
	issue(&a, "server", "DNS:ffo,URI:freeflow:orchestrator");
	issue(&a, "h0", "DNS:h0,URI:freeflow:host");
	issue(&a, "h1", "DNS:h1,URI:freeflow:host,URI:freeflow:tenant/a,URI:freeflow:tenant/c");
	issue(&a, "boss", "DNS:boss,URI:freeflow:operator");
	authority_free(&a);
	return 0;
}

static int remove_files(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

	signal(SIGPIPE, SIG_IGN);
	return UNIT_RUN_GROUP(make_files, remove_files, T(test_host_is_no_operator),
			      T(test_operator), T(test_own_containers), T(test_others_containers),
			      T(test_mappings), T(test_watched_mappings), T(test_resolved),
			      T(test_groups), T(test_unix_socket));
}
