/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/log.c */
/*
 * test_ffo_server.c - the orchestrator over socket pairs, its loop driven by the test: the ops,
 * what is malformed or not allowed, clients that do not read, and a store that fails at its Nth
 * call or commits late.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ffo/client.h"
#include "ffo/server.c" /* struct listener */

/* ---- a store that fails at the Nth call, or ends commits when told -------------------------- */

struct faulty {
	struct ffo_store base;
	struct ffo_store *inner;
	unsigned int fail_at; /* calls from now; 0: none fails */
	bool hold;	      /* keep commits until release_commits() */
	struct faulty_txn {
		struct ffo_txn base;
		struct ffo_txn *inner;
		store_done_cb done;
		void *arg;
	} txn;
};

static struct faulty *faulty; /* of the test that runs */

static bool fails(void)
{
	return faulty->fail_at && !--faulty->fail_at;
}

#define INNER(s)     (((struct faulty *)(s))->inner)
#define INNER_TXN(t) (((struct faulty_txn *)(t))->inner)
#define FORWARD(inner, op, ...)                                                                    \
	do {                                                                                       \
		return fails() ? -EIO : store_sqlite.op(inner, ##__VA_ARGS__);                     \
	} while (0)

static int f_open(const char *where, struct ffo_store **s);

static void f_close(struct ffo_store *s)
{
	if (!s)
		return;
	store_sqlite.close(INNER(s));
	free(s);
	faulty = NULL;
}

static int f_begin(struct ffo_store *s, struct ffo_txn **t)
{
	int err = fails() ? -EIO : store_sqlite.begin(INNER(s), &faulty->txn.inner);

	if (!err)
		*t = &faulty->txn.base;
	return err;
}

static void f_commit(struct ffo_txn *t, store_done_cb done, void *arg)
{
	struct faulty_txn *ft = (struct faulty_txn *)t;

	if (fails()) {
		store_sqlite.abort(ft->inner);
		done(arg, -EIO);
	} else if (faulty->hold) {
		assert_null(ft->done);
		ft->done = done;
		ft->arg = arg;
	} else {
		store_sqlite.commit(ft->inner, done, arg);
	}
}

static void f_abort(struct ffo_txn *t)
{
	store_sqlite.abort(INNER_TXN(t));
}

static int f_host_put(struct ffo_txn *t, const struct ffo_host *h)
{
	FORWARD(INNER_TXN(t), host_put, h);
}

static int f_container_put(struct ffo_txn *t, struct ffo_container *c)
{
	FORWARD(INNER_TXN(t), container_put, c);
}

static int f_container_del(struct ffo_txn *t, uint32_t id)
{
	FORWARD(INNER_TXN(t), container_del, id);
}

static int f_map_put(struct ffo_txn *t, const struct ffo_map *m)
{
	FORWARD(INNER_TXN(t), map_put, m);
}

static int f_map_del(struct ffo_txn *t, uint32_t container, uint32_t rkey)
{
	FORWARD(INNER_TXN(t), map_del, container, rkey);
}

static int f_map_drop(struct ffo_txn *t, uint32_t container, uint32_t session)
{
	FORWARD(INNER_TXN(t), map_drop, container, session);
}

static int f_map_drop_host(struct ffo_txn *t, const char *host)
{
	FORWARD(INNER_TXN(t), map_drop_host, host);
}

static int f_host_list(struct ffo_store *s, const char *after, store_host_cb cb, void *arg)
{
	FORWARD(INNER(s), host_list, after, cb, arg);
}

static int f_container_get(struct ffo_store *s, uint32_t id, struct ffo_container *c)
{
	FORWARD(INNER(s), container_get, id, c);
}

static int f_container_find(struct ffo_store *s, const char *name, struct ffo_container *c)
{
	FORWARD(INNER(s), container_find, name, c);
}

static int f_container_list(struct ffo_store *s, uint32_t after, store_container_cb cb, void *arg)
{
	FORWARD(INNER(s), container_list, after, cb, arg);
}

static int f_map_list(struct ffo_store *s, uint32_t only, uint32_t container, uint32_t rkey,
		      store_map_cb cb, void *arg)
{
	FORWARD(INNER(s), map_list, only, container, rkey, cb, arg);
}

static const struct ffo_store_ops store_faulty = {
	.name = "faulty",
	.open = f_open,
	.close = f_close,
	.begin = f_begin,
	.commit = f_commit,
	.abort = f_abort,
	.host_put = f_host_put,
	.container_put = f_container_put,
	.container_del = f_container_del,
	.map_put = f_map_put,
	.map_del = f_map_del,
	.map_drop = f_map_drop,
	.map_drop_host = f_map_drop_host,
	.host_list = f_host_list,
	.container_get = f_container_get,
	.container_find = f_container_find,
	.container_list = f_container_list,
	.map_list = f_map_list,
};

static int f_open(const char *where, struct ffo_store **s)
{
	int err;

	faulty = calloc(1, sizeof(*faulty));
	faulty->base.ops = &store_faulty;
	faulty->txn.base.store = &faulty->base;
	err = store_sqlite.open(where, &faulty->inner);
	*s = &faulty->base;
	return err;
}

/* The store learns now how the commit that it holds ended. */
static void release_commit(bool works)
{
	struct faulty_txn *t = &faulty->txn;
	store_done_cb done = t->done;

	assert_non_null(done);
	t->done = NULL;
	if (works) {
		store_sqlite.commit(t->inner, done, t->arg);
	} else {
		store_sqlite.abort(t->inner);
		done(t->arg, -EIO);
	}
}

/* ---- fixture -------------------------------------------------------------------------------- */

#define MAX_CLIENTS   4
#define WRITE_TIMEOUT 30 /* ms */

struct test {
	uv_loop_t loop;
	struct ffo *ffo;
	int fd[MAX_CLIENTS + 1]; /* the clients' ends; -1: none */
	char in[FFO_LINE_MAX + 1];
	size_t in_len;
};

static void start(struct test *t)
{
	static const char *const pools[] = { "10.1.0.0/29", "fd01::/120", "big=10.0.0.0/8" };
	struct ffo_conf conf = { .pools = pools,
				 .num_pools = 3,
				 .write_timeout = WRITE_TIMEOUT,
				 .max_clients = MAX_CLIENTS,
				 .store_ops = &store_faulty };

	assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), 0);
}

static int set_up(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	memset(t->fd, 0xff, sizeof(t->fd));
	uv_loop_init(&t->loop);
	start(t);
	*state = t;
	return 0;
}

static int tear_down(void **state)
{
	struct test *t = *state;

	for (int i = 0; i <= MAX_CLIENTS; i++)
		if (t->fd[i] >= 0)
			close(t->fd[i]);
	ffo_destroy(t->ffo);
	uv_run(&t->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&t->loop), 0); /* nothing was left behind */
	assert_null(faulty);
	free(t);
	return 0;
}

/* A new connection, as client i. */
static void attach(struct test *t, int i)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
	t->fd[i] = fd[1];
	ffo_attach(t->ffo, fd[0]);
}

static void send_text(struct test *t, int i, const char *text, size_t len)
{
	ssize_t n;

	while (len) {
		n = send(t->fd[i], text, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN) {
			uv_run(&t->loop, UV_RUN_NOWAIT);
			continue;
		}
		if (n < 0)
			return; /* closed; the reader will see it */
		text += n;
		len -= (size_t)n;
	}
}

/* The next message for client i; NULL: the connection has ended. */
static json_t *receive(struct test *t, int i)
{
	json_error_t error;
	json_t *msg;
	ssize_t n;
	char *nl;

	for (int turn = 0; turn < 1000000; turn++) {
		nl = memchr(t->in, '\n', t->in_len);
		if (nl) {
			msg = json_loadb(t->in, (size_t)(nl - t->in), 0, &error);
			assert_true(json_is_object(msg));
			t->in_len -= (size_t)(nl + 1 - t->in);
			memmove(t->in, nl + 1, t->in_len);
			return msg;
		}
		uv_run(&t->loop, UV_RUN_NOWAIT);
		assert_true(t->in_len < FFO_LINE_MAX); /* no answer is longer */
		n = recv(t->fd[i], t->in + t->in_len, FFO_LINE_MAX - t->in_len, 0);
		if (!n || (n < 0 && errno != EAGAIN)) {
			assert_int_equal(t->in_len, 0);
			return NULL;
		}
		if (n > 0)
			t->in_len += (size_t)n;
	}
	fail_msg("no answer");
	return NULL;
}

static json_t *ask(struct test *t, int i, const char *line)
{
	send_text(t, i, line, strlen(line));
	send_text(t, i, "\n", 1);
	return receive(t, i);
}

/* Ask with 'for " and id 7; the answer must be ok. */
static json_t *ask_ok(struct test *t, int i, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void ask_err(struct test *t, int i, const char *error, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static json_t *ask_va(struct test *t, int i, const char *fmt, va_list ap)
{
	char fields[2000], line[2100];

	vsnprintf(fields, sizeof(fields), fmt, ap);
	snprintf(line, sizeof(line), "{'id':7,'op':%s}", fields);
	for (char *p = line; *p; p++)
		if (*p == '\'')
			*p = '"';
	return ask(t, i, line);
}

static json_t *ask_ok(struct test *t, int i, const char *fmt, ...)
{
	json_t *msg;
	va_list ap;

	va_start(ap, fmt);
	msg = ask_va(t, i, fmt, ap);
	va_end(ap);
	assert_non_null(msg);
	if (!json_is_true(json_object_get(msg, "ok")))
		fail_msg("%s: %s", fmt, json_string_value(json_object_get(msg, "message")));
	assert_int_equal(json_integer_value(json_object_get(msg, "id")), 7);
	return msg;
}

static void expect_error(json_t *msg, int id, const char *error)
{
	const char *why;

	assert_non_null(msg);
	assert_true(json_is_false(json_object_get(msg, "ok")));
	assert_int_equal(json_integer_value(json_object_get(msg, "id")), id);
	assert_string_equal(json_string_value(json_object_get(msg, "error")), error);
	why = json_string_value(json_object_get(msg, "message"));
	assert_true(why && *why && !strchr(why, '\n'));
	json_decref(msg);
}

static void ask_err(struct test *t, int i, const char *error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	expect_error(ask_va(t, i, fmt, ap), 7, error);
	va_end(ap);
}

static void hello(struct test *t, int i)
{
	attach(t, i);
	json_decref(ask_ok(t, i, "'hello','version':1,'host':'h%d'", i));
}

/* Client i becomes the router of host h<i>. */
static void router(struct test *t, int i)
{
	hello(t, i);
	json_decref(ask_ok(t, i, "'host_register','host':'h%d'", i));
}

static struct ffo_container container(json_t *msg)
{
	struct ffo_container c;

	assert_int_equal(ffo_container_from_json(json_object_get(msg, "container"), &c), 0);
	json_decref(msg);
	return c;
}

static void expect_ip(const struct ffo_container *c, int i, const char *want)
{
	char text[INET6_ADDRSTRLEN];

	assert_true(i < c->num_ips);
	assert_string_equal(ffo_addr_text(&c->ip[i], text), want);
}

static size_t count(json_t *msg, const char *key)
{
	size_t n = json_array_size(json_object_get(msg, key));

	assert_true(json_is_array(json_object_get(msg, key)));
	json_decref(msg);
	return n;
}

/* Until the orchestrator has that many connections. */
static void wait_conns(struct test *t, unsigned int n)
{
	for (int turn = 0; t->ffo->num_conns != n; turn++) {
		assert_true(turn < 100000);
		uv_run(&t->loop, UV_RUN_ONCE);
	}
}

/* ---- containers ----------------------------------------------------------------------------- */

static void test_add(void **state)
{
	struct test *t = *state;
	struct ffo_container a, b;

	router(t, 0);
	a = container(ask_ok(t, 0, "'container_add','name':'a'"));
	assert_string_equal(a.name, "a");
	assert_string_equal(a.tenant, "default");
	assert_string_equal(a.host, "h0");
	assert_int_equal(a.mode, FFO_MODE_ADAPTIVE);
	assert_int_equal(a.epoch, 1);
	assert_int_equal(a.lid, 1);
	assert_int_equal(a.num_ips, 2);
	expect_ip(&a, 0, "10.1.0.2");
	expect_ip(&a, 1, "fd01::2");
	b = container(ask_ok(t, 0,
			     "'container_add','name':'b','tenant':'big','host':'h9',"
			     "'mode':'socket','ips':['fd01::2']"));
	assert_int_equal(b.num_ips, 1);
	expect_ip(&b, 0, "fd01::2");
	assert_int_equal(b.lid, 2);
	assert_int_equal(b.mode, FFO_MODE_SOCKET);
	assert_string_equal(b.host, "h9");

	a = container(ask_ok(t, 0, "'container_get','name':'b'"));
	assert_memory_equal(&a, &b, sizeof(a));
	a = container(ask_ok(t, 0, "'container_get','container':%u", b.id));
	assert_memory_equal(&a, &b, sizeof(a));
	a = container(ask_ok(t, 0, "'container_rm','name':'b'"));
	assert_memory_equal(&a, &b, sizeof(a));
	ask_err(t, 0, "ENOENT", "'container_get','name':'b'");
	ask_err(t, 0, "ENOENT", "'container_get','container':%u", b.id);
	ask_err(t, 0, "ENOENT", "'container_rm','name':'b'");
	ask_err(t, 0, "ENOENT", "'container_set','name':'b'");
}

static void test_conflicts(void **state)
{
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	c = container(ask_ok(t, 0, "'container_add','name':'a','ips':['10.1.0.3','fd01::9']"));
	ask_err(t, 0, "EEXIST", "'container_add','name':'a'");
	ask_err(t, 0, "EEXIST", "'container_add','name':'a','tenant':'big'");
	ask_err(t, 0, "EADDRINUSE", "'container_add','name':'b','ips':['10.1.0.3']");
	/* The one that was free is given back. */
	ask_err(t, 0, "EADDRINUSE", "'container_add','name':'b','ips':['10.1.0.2','fd01::9']");
	ask_err(t, 0, "EADDRNOTAVAIL", "'container_add','name':'b','ips':['10.1.0.2','10.1.0.7']");
	ask_err(t, 0, "EINVAL", "'container_add','name':'b','ips':['10.1.0.2','10.1.0.2']");
	ask_err(t, 0, "EINVAL", "'container_add','name':'b','ips':['10.1.0.2','nonsense']");
	ask_err(t, 0, "EINVAL", "'container_add','name':'b','ips':['10.1.0.2',5]");
	ask_err(t, 0, "EINVAL", "'container_add','name':'b','ips':[]");
	ask_err(t, 0, "EINVAL",
		"'container_add','name':'b','ips':['10.1.0.2','fd01::2','fd01::3']");
	ask_err(t, 0, "EINVAL", "'container_add','name':'b','mode':'turbo'");
	c = container(ask_ok(t, 0, "'container_add','name':'b'"));
	expect_ip(&c, 0, "10.1.0.2");
	expect_ip(&c, 1, "fd01::2");
	assert_int_equal(c.lid, 2);
	/* Tenants have addresses of their own. */
	c = container(ask_ok(t, 0,
			     "'container_add','name':'c','tenant':'big',"
			     "'ips':['10.1.0.3','fd01::9']"));
	assert_int_equal(c.lid, 3);
	expect_ip(&c, 0, "10.1.0.3");
}

static void test_exhaustion(void **state)
{
	struct test *t = *state;
	struct ffo_container c;
	char ip[16];

	router(t, 0);
	for (int i = 2; i <= 6; i++) {
		c = container(ask_ok(t, 0, "'container_add','name':'c%d'", i));
		snprintf(ip, sizeof(ip), "10.1.0.%d", i);
		expect_ip(&c, 0, ip);
	}
	for (int i = 0; i < 3; i++)
		ask_err(t, 0, "ENOSPC", "'container_add','name':'x'");
	/* Not for others, and not for given addresses; and what goes is there again. */
	c = container(ask_ok(t, 0, "'container_add','name':'y','ips':['10.2.0.1']"));
	assert_int_equal(c.lid, 6);
	json_decref(ask_ok(t, 0, "'container_add','name':'z','tenant':'big'"));
	json_decref(ask_ok(t, 0, "'container_rm','name':'c4'"));
	c = container(ask_ok(t, 0, "'container_add','name':'x'"));
	expect_ip(&c, 0, "10.1.0.4");
	expect_ip(&c, 1, "fd01::4");
	assert_int_equal(c.lid, 3);
}

static void test_set(void **state)
{
	struct test *t = *state;
	struct ffo_container a, c;

	router(t, 0);
	a = container(ask_ok(t, 0, "'container_add','name':'a'"));
	c = container(ask_ok(t, 0, "'container_set','name':'a','mode':'spin','host':'h0'"));
	assert_int_equal(c.mode, FFO_MODE_SPIN);
	assert_int_equal(c.epoch, 1); /* it was there already */
	ask_err(t, 0, "EINVAL", "'container_set','name':'a','mode':'fast'");
	ask_err(t, 0, "EINVAL", "'container_set','mode':'spin'");
	ask_err(t, 0, "EINVAL", "'container_set','name':'a','container':%u,'mode':'spin'", a.id);

	/* One address stays, one goes, one comes. */
	c = container(ask_ok(t, 0, "'container_set','name':'a','ips':['fd01::2','10.1.0.5']"));
	expect_ip(&c, 0, "fd01::2");
	expect_ip(&c, 1, "10.1.0.5");
	c = container(ask_ok(t, 0, "'container_add','name':'b'"));
	expect_ip(&c, 0, "10.1.0.2");
	expect_ip(&c, 1, "fd01::3");
	ask_err(t, 0, "EADDRINUSE", "'container_set','name':'a','ips':['10.1.0.6','fd01::3']");
	c = container(ask_ok(t, 0, "'container_set','name':'b','ips':['10.1.0.6']"));
	expect_ip(&c, 0, "10.1.0.6");

	/* A move: the epoch grows, the mappings go, the old host may publish no more. */
	json_decref(ask_ok(t, 0, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", a.id));
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), 1);
	c = container(ask_ok(t, 0, "'container_set','container':%u,'host':'h1'", a.id));
	assert_int_equal(c.epoch, 2);
	assert_int_equal(c.lid, a.lid);
	assert_string_equal(c.host, "h1");
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), 0);
	assert_int_equal(count(ask_ok(t, 0, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,2]]", a.id),
			       "refused"),
			 1);
	ask_err(t, 0, "EPERM", "'map_drop','container':%u", a.id);
	router(t, 1);
	assert_int_equal(count(ask_ok(t, 1,
				      "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1],"
				      "[%u,6,1,0,4096,7,0,5,2]]",
				      a.id, a.id),
			       "refused"),
			 1);
	assert_int_equal(count(ask_ok(t, 1, "'map_list'"), "maps"), 1);
}

static void test_list_pages(void **state)
{
	struct test *t = *state;
	json_t *msg, *next;
	size_t n = 0, pages = 0;
	uint32_t after = 0;
	struct ffo_container c;

	router(t, 0);
	for (int i = 0; i < 600; i++)
		json_decref(ask_ok(t, 0,
				   "'container_add','name':'c%d','tenant':'big','host':'h%d',"
				   "'ips':['10.3.%d.%d']",
				   i, i % 2, i / 100, i % 100));
	do {
		msg = ask_ok(t, 0, "'container_list','host':'h1','after':%u", after);
		next = json_object_get(msg, "next");
		after = (uint32_t)json_integer_value(next);
		assert_int_equal(ffo_container_from_json(
					 json_array_get(json_object_get(msg, "containers"), 0), &c),
				 0);
		assert_string_equal(c.host, "h1");
		n += count(msg, "containers");
		pages++;
	} while (after);
	assert_int_equal(n, 300);
	assert_int_equal(pages, 2);
	msg = ask_ok(t, 0, "'container_list','limit':3,'after':10");
	assert_int_equal(json_integer_value(json_object_get(msg, "next")), 13);
	assert_int_equal(count(msg, "containers"), 3);
	assert_int_equal(count(ask_ok(t, 0, "'container_list','limit':100000"), "containers"),
			 FFO_PAGE_MAX);
}

/* A second orchestrator on the same store gives out nothing that is taken. */
static void test_restart(void **state)
{
	struct test *t = *state;
	char file[] = "/tmp/test_ffo_server.XXXXXX", wal[48];
	struct ffo_conf conf = { .store = file };
	struct ffo_container c;
	int fd = mkstemp(file);

	close(fd);
	ffo_destroy(t->ffo);
	uv_run(&t->loop, UV_RUN_DEFAULT);
	for (uint32_t round = 0; round < 3; round++) {
		char ip[16];

		assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), 0);
		router(t, 0);
		c = container(ask_ok(t, 0, "'container_add','name':'c%u'", round));
		snprintf(ip, sizeof(ip), "10.77.0.%u", 2 + round);
		expect_ip(&c, 0, ip);
		assert_int_equal(c.lid, 1 + round);
		ask_err(t, 0, "EEXIST", "'container_add','name':'c0'");
		close(t->fd[0]);
		t->fd[0] = -1;
		ffo_destroy(t->ffo);
		uv_run(&t->loop, UV_RUN_DEFAULT);
	}
	unlink(file);
	snprintf(wal, sizeof(wal), "%s-wal", file);
	unlink(wal);
	start(t);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

static void expect_host(struct test *t, int i, const char *name, bool up)
{
	json_t *msg = ask_ok(t, i, "'host_list'"), *j;
	struct ffo_host h;
	size_t n;

	json_array_foreach(json_object_get(msg, "hosts"), n, j) {
		assert_int_equal(ffo_host_from_json(j, &h), 0);
		if (!strcmp(h.name, name))
			break;
	}
	assert_non_null(j);
	assert_int_equal(h.up, up);
	json_decref(msg);
}

static void test_hosts(void **state)
{
	struct test *t = *state;
	struct ffo_container c;
	json_t *msg;

	router(t, 0);
	router(t, 1);
	hello(t, 2);
	ask_err(t, 0, "EINVAL", "'host_register','host':'h7'"); /* is h0 already */
	ask_err(t, 2, "EEXIST", "'host_register','host':'h0'"); /* two hosts with one name */
	ask_err(t, 2, "EEXIST", "'host_register','host':'h0','instance':'x'");
	c = container(ask_ok(t, 0, "'container_add','name':'a'"));
	json_decref(ask_ok(t, 0, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", c.id));
	c = container(ask_ok(t, 1, "'container_add','name':'b'"));
	json_decref(ask_ok(t, 1, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", c.id));
	assert_int_equal(count(ask_ok(t, 2, "'map_list'"), "maps"), 2);
	expect_host(t, 2, "h0", true);
	msg = ask_ok(t, 2, "'host_list','limit':1");
	assert_string_equal(json_string_value(json_object_get(msg, "next")), "h0");
	assert_int_equal(count(msg, "hosts"), 1);
	assert_int_equal(count(ask_ok(t, 2, "'host_list','after':'h0'"), "hosts"), 1);

	/* A host that leaves: its mappings go, its containers and the others' mappings stay. */
	close(t->fd[0]);
	t->fd[0] = -1;
	wait_conns(t, 2);
	assert_int_equal(count(ask_ok(t, 2, "'map_list'"), "maps"), 1);
	assert_int_equal(count(ask_ok(t, 2, "'container_list'"), "containers"), 2);
	expect_host(t, 2, "h0", false);
	expect_host(t, 2, "h1", true);
	json_decref(ask_ok(t, 2, "'host_register','host':'h0'"));
	expect_host(t, 2, "h0", true);
}

/* The same router connects again before its old connection was seen to end. */
static void test_host_again(void **state)
{
	struct test *t = *state;
	struct ffo_container c;

	hello(t, 0);
	json_decref(ask_ok(t, 0, "'host_register','host':'h0','instance':'boot 1'"));
	c = container(ask_ok(t, 0, "'container_add','name':'a'"));
	json_decref(ask_ok(t, 0, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", c.id));
	hello(t, 1);
	ask_err(t, 1, "EEXIST", "'host_register','host':'h0','instance':'boot 2'");
	json_decref(ask_ok(t, 1, "'host_register','host':'h0','instance':'boot 1'"));
	assert_null(receive(t, 0));
	assert_int_equal(count(ask_ok(t, 1, "'map_list'"), "maps"), 0);
	expect_host(t, 1, "h0", true);
	json_decref(ask_ok(t, 1, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", c.id));
}

/* ---- mappings ------------------------------------------------------------------------------- */

static void test_map_rows(void **state)
{
	static const char *const bad[] = { "5",
					   "[]",
					   "[1]",
					   "[1,5,1,0,4096,7,0,5,1,1]",
					   "[0,5,1,0,4096,7,0,5,1]",
					   "[1,0,1,0,4096,7,0,5,1]",
					   "[1,5,0,0,4096,7,0,5,1]",
					   "[1,5,1,0,4096,7,0,5,0]",
					   "[1,4294967296,1,0,4096,7,0,5,1]",
					   "[1,-5,1,0,4096,7,0,5,1]",
					   "[1,5,1,0.5,4096,7,0,5,1]",
					   "[1,5,1,'0',4096,7,0,5,1]",
					   "[1,5,1,null,4096,7,0,5,1]",
					   "{'a':1}" };
	struct test *t = *state;
	struct ffo_container c;
	struct ffo_map m;
	json_t *msg, *refused;

	router(t, 0);
	c = container(ask_ok(t, 0, "'container_add','name':'a'"));
	assert_int_equal(c.id, 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ask_err(t, 0, "EINVAL", "'map_publish','maps':[[1,9,1,0,4096,7,0,5,1],%s]", bad[i]);
	ask_err(t, 0, "EINVAL", "'map_publish','maps':[]");
	ask_err(t, 0, "EINVAL", "'map_withdraw','maps':[]");
	ask_err(t, 0, "EINVAL", "'map_withdraw','maps':[[1,9],[1]]");
	ask_err(t, 0, "EINVAL", "'map_withdraw','maps':[[1,9],[-1,5]]");
	ask_err(t, 0, "EINVAL", "'map_list','after':[1]");
	ask_err(t, 0, "ENOENT", "'map_drop','container':77");
	ask_err(t, 0, "ENOENT", "'map_drop','container':0");
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), 0);

	/* Rows whose container is gone are refused alone; all 64 bits travel. */
	msg = ask_ok(t, 0,
		     "'map_publish','maps':[[1,9,1,-1,-4096,7,140737488355328,5,1],"
		     "[2,9,1,0,4096,7,0,5,1],[1,10,1,0,4096,7,0,5,3]]");
	assert_int_equal(json_integer_value(json_object_get(msg, "stored")), 1);
	refused = json_object_get(msg, "refused");
	for (int i = 0; i < 2; i++) {
		json_t *row = json_array_get(refused, (size_t)i);

		assert_int_equal(json_integer_value(json_array_get(row, 0)), i + 1);
		assert_string_equal(json_string_value(json_array_get(row, 1)),
				    i ? "ESTALE" : "ENOENT");
	}
	json_decref(msg);
	msg = ask_ok(t, 0, "'map_list'");
	assert_int_equal(ffo_map_from_json(json_array_get(json_object_get(msg, "maps"), 0), &m), 0);
	assert_true(m.addr == UINT64_MAX && m.length == (uint64_t)-4096);
	assert_true(m.shadow == 1ull << 47 && m.rkey == 9 && m.access == 7);
	json_decref(msg);

	msg = ask_ok(t, 0, "'map_withdraw','maps':[[1,9],[1,9],[5,5],[0,0]]");
	assert_int_equal(json_integer_value(json_object_get(msg, "removed")), 1);
	json_decref(msg);
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

#define MAPS  20000u
#define BATCH 500u
#define CONTS 4u

static void publish_batch(struct test *t, uint32_t first)
{
	json_t *rows = json_array(), *msg;
	char *line;

	for (uint32_t i = first; i < first + BATCH; i++) {
		struct ffo_map m = { .container = 1 + i % CONTS,
				     .rkey = 1 + i * 2654435761u,
				     .session = 1 + i % 2,
				     .addr = 0x7f0000000000 + i * 4096ull,
				     .length = 4096,
				     .access = 7,
				     .shadow = 0x7e0000000000 + i * 4096ull,
				     .key = i,
				     .epoch = 1 };

		json_array_append_new(rows, ffo_map_to_json(&m));
	}
	msg = json_pack("{s:i, s:s, s:o}", "id", 1, "op", "map_publish", "maps", rows);
	line = json_dumps(msg, JSON_COMPACT);
	json_decref(msg);
	msg = ask(t, 0, line);
	free(line);
	assert_int_equal(json_integer_value(json_object_get(msg, "stored")), BATCH);
	json_decref(msg);
}

static void test_publish_many(void **state)
{
	struct test *t = *state;
	uint32_t container = 0, rkey = 0, n = 0;
	uint64_t start_us, us;
	struct ffo_map m;
	json_t *msg, *maps;

	router(t, 0);
	for (uint32_t i = 0; i < CONTS; i++)
		json_decref(ask_ok(t, 0, "'container_add','name':'c%u'", i));
	start_us = now_us();
	for (uint32_t i = 0; i < MAPS; i += BATCH)
		publish_batch(t, i);
	us = now_us() - start_us;
	print_message("%u mappings published, %u a batch: %.0f a second\n", MAPS, BATCH,
		      MAPS * 1e6 / (double)us);

	do {
		msg = ask_ok(t, 0, "'map_list','after':[%u,%u]", container, rkey);
		maps = json_object_get(msg, "maps");
		for (size_t i = 0; i < json_array_size(maps); i++, n++) {
			assert_int_equal(ffo_map_from_json(json_array_get(maps, i), &m), 0);
			assert_true(m.container > container ||
				    (m.container == container && m.rkey > rkey));
			container = m.container;
			rkey = m.rkey;
			assert_int_equal(m.rkey, 1 + m.key * 2654435761u);
			assert_true(m.addr == 0x7f0000000000 + m.key * 4096ull);
		}
		maps = json_object_get(msg, "next");
		if (maps) {
			assert_int_equal(json_integer_value(json_array_get(maps, 0)), container);
			assert_int_equal(json_integer_value(json_array_get(maps, 1)), rkey);
		}
		n += 1u << 24; /* pages in the upper byte */
		json_decref(msg);
	} while (maps);
	assert_int_equal(n & 0xffffff, MAPS);
	assert_int_equal(n >> 24, (MAPS + FFO_BATCH_MAX - 1) / FFO_BATCH_MAX);

	/* One container's, one session's, published again, all of one. */
	assert_int_equal(count(ask_ok(t, 0, "'map_list','container':2,'limit':9"), "maps"), 9);
	for (uint32_t i = 0; i < MAPS; i += BATCH)
		publish_batch(t, i);
	json_decref(ask_ok(t, 0, "'map_drop','container':2,'session':1"));
	assert_true(count(ask_ok(t, 0, "'map_list','container':2"), "maps") == FFO_BATCH_MAX);
	json_decref(ask_ok(t, 0, "'map_drop','container':2,'session':2"));
	assert_int_equal(count(ask_ok(t, 0, "'map_list','container':2"), "maps"), 0);
	json_decref(ask_ok(t, 0, "'container_rm','container':1"));
	json_decref(ask_ok(t, 0, "'map_drop','container':3"));
	json_decref(ask_ok(t, 0, "'map_drop','container':4"));
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), 0);
}

static void test_batch_limit(void **state)
{
	struct test *t = *state;
	json_t *rows, *msg;
	char *line;

	router(t, 0);
	json_decref(ask_ok(t, 0, "'container_add','name':'a'"));
	for (uint32_t n = FFO_BATCH_MAX; n <= FFO_BATCH_MAX + 1; n++) {
		rows = json_array();
		/* As long as rows can be. */
		for (uint32_t i = 0; i < n; i++) {
			struct ffo_map m = { .container = 1,
					     .rkey = UINT32_MAX - i,
					     .session = UINT32_MAX,
					     .addr = 1ull << 63,
					     .length = 1ull << 63,
					     .access = UINT32_MAX,
					     .shadow = 1ull << 63,
					     .key = UINT32_MAX,
					     .epoch = 1 };

			json_array_append_new(rows, ffo_map_to_json(&m));
		}
		msg = json_pack("{s:i, s:s, s:o}", "id", 7, "op", "map_publish", "maps", rows);
		line = json_dumps(msg, JSON_COMPACT);
		json_decref(msg);
		assert_true(strlen(line) < FFO_LINE_MAX);
		msg = ask(t, 0, line);
		free(line);
		if (n <= FFO_BATCH_MAX)
			json_decref(msg);
		else
			expect_error(msg, 7, "EINVAL");
	}
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), FFO_BATCH_MAX);
}

/* ---- bad input ------------------------------------------------------------------------------ */

static void test_requests_refused(void **state)
{
	static const struct {
		const char *error, *request;
	} cases[] = {
		{ "EINVAL", "5" },
		{ "EINVAL", "null" },
		{ "EOPNOTSUPP", "'reboot'" },
		{ "EOPNOTSUPP", "''" },
		{ "EOPNOTSUPP", "'hello\\u0007\\u00e4'" },
		{ "EPROTO", "'hello','version':1" }, /* once only */
		{ "EINVAL", "'hello'" },
		{ "EINVAL", "'hello','version':'1'" },
		{ "EINVAL", "'hello','version':-1" },
		{ "EINVAL", "'hello','version':4294967296" },
		{ "EPERM", "'map_publish','maps':[[1,5,1,0,4096,7,0,5,1]]" },
		{ "EPERM", "'map_withdraw','maps':[[1,5]]" },
		{ "EPERM", "'map_drop','container':1" },
		{ "EINVAL", "'map_publish','maps':5" },
		{ "EINVAL", "'map_list','maps':[]" },
		{ "EINVAL", "'container_list','after':-1" },
		{ "EINVAL", "'container_list','after':1.5" },
		{ "EINVAL", "'container_list','host':7" },
		{ "EINVAL", "'container_get'" },
		{ "EINVAL", "'container_get','container':0" },
		{ "EINVAL", "'container_get','name':'a','container':1" },
		{ "EINVAL", "'container_get','name':'a','color':'red'" },
		{ "EINVAL", "'container_add'" },
		{ "EINVAL", "'container_add','name':'a'" }, /* of which host? */
		{ "EINVAL", "'container_add','name':'','host':'h0'" },
		{ "EINVAL", "'container_add','name':'../x','host':'h0'" },
		{ "EINVAL", "'container_add','name':'.x','host':'h0'" },
		{ "EINVAL", "'container_add','name':'a b','host':'h0'" },
		{ "EINVAL", "'container_add','name':'a\\u00e4','host':'h0'" },
		{ "EINVAL", "'container_add','name':'a','host':'-h'" },
		{ "EINVAL", "'container_add','name':'a','tenant':null,'host':'h0'" },
		{ "EINVAL",
		  "'container_add','name':'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		  "aaaaaaaaaaaaaaaa','host':'h0'" },
		{ "EINVAL", "'host_register'" },
		{ "EINVAL", "'host_register','host':'h0','instance':'a\\nb'" },
	};
	struct test *t = *state;

	attach(t, 0);
	ask_err(t, 0, "EPROTO", "'container_list'");
	ask_err(t, 0, "EPROTONOSUPPORT", "'hello','version':0");
	ask_err(t, 0, "EPROTO", "'host_register','host':'h0'");
	json_decref(ask_ok(t, 0, "'hello','version':4294967295"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ask_err(t, 0, cases[i].error, "%s", cases[i].request);
	expect_error(ask(t, 0, "{\"op\":\"container_list\"}"), 0, "EINVAL");
	expect_error(ask(t, 0, "{\"op\":\"container_list\",\"id\":-1}"), 0, "EINVAL");
	expect_error(ask(t, 0, "{\"op\":\"container_list\",\"id\":\"1\"}"), 0, "EINVAL");
	expect_error(ask(t, 0, "{}"), 0, "EINVAL");
	assert_int_equal(count(ask_ok(t, 0, "'container_list'"), "containers"), 0);
}

/* What is no message ends that connection, after an answer; others are served on. */
static void test_malformed(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} lines[] = {
#define L(s) { s, sizeof(s) - 1 }
		L("\n"),
		L("\r\n"),
		L("hello\n"),
		L("[]\n"),
		L("5\n"),
		L("\"hello\"\n"),
		L("null\n"),
		L("{\n"),
		L("}\n"),
		L("{\"op\":\"hello\"\n"),
		L("{\"op\":\"hello\"}}\n"),
		L("{\"op\":\"hello\",\"op\":\"hello\",\"id\":1}\n"),
		L("{\"id\":1e999}\n"),
		L("{\"id\":99999999999999999999}\n"),
		L("{\"a\":\"\\u0000\"}\n"),
		L("\0\0\0\n"),
		L("{\"op\":\"\xff\xfe\"}\n"),
		L("{\"op\":\"\\ud800\"}\n"),
		L("{\"op\":\"a\tb\"}\n"),
		L("GET / HTTP/1.1\r\n\r\n"),
		L("{\"a\":1}{\"a\":1}\n"),
#undef L
	};
	struct test *t = *state;

	hello(t, 1);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		hello(t, 0);
		send_text(t, 0, lines[i].text, lines[i].len);
		/* Nothing behind it is looked at. */
		send_text(t, 0, "{\"op\":\"container_list\",\"id\":7}\n", 32);
		expect_error(receive(t, 0), 0, "EBADMSG");
		assert_null(receive(t, 0));
		close(t->fd[0]);
		t->fd[0] = -1;
		assert_int_equal(count(ask_ok(t, 1, "'container_list'"), "containers"), 0);
	}
	wait_conns(t, 1);
}

static void test_deep_nesting(void **state)
{
	struct test *t = *state;
	char *text = malloc(200001);

	hello(t, 0);
	memset(text, '[', 200000);
	text[200000] = '\0';
	expect_error(ask(t, 0, text), 0, "EBADMSG");
	assert_null(receive(t, 0));
	free(text);
}

static void test_line_length(void **state)
{
	static const char head[] = "{\"id\":7,\"op\":\"container_get\",\"name\":\"";
	struct test *t = *state;
	char *text = malloc(2 * FFO_LINE_MAX);

	hello(t, 0);
	/* The longest that is allowed, newline included, in one piece and byte by byte at the end. */
	memset(text, 'a', 2 * FFO_LINE_MAX);
	memcpy(text, head, sizeof(head) - 1);
	memcpy(text + FFO_LINE_MAX - 3, "\"}\n", 3);
	send_text(t, 0, text, FFO_LINE_MAX);
	expect_error(receive(t, 0), 7, "EINVAL"); /* the name is too long */
	send_text(t, 0, text, FFO_LINE_MAX - 3);
	for (int i = 3; i; i--) {
		uv_run(&t->loop, UV_RUN_NOWAIT);
		send_text(t, 0, text + FFO_LINE_MAX - i, 1);
	}
	expect_error(receive(t, 0), 7, "EINVAL");
	json_decref(ask_ok(t, 0, "'container_list'"));
	/* One byte more. */
	memset(text + sizeof(head) - 1, 'a', FFO_LINE_MAX);
	memcpy(text + FFO_LINE_MAX - 2, "\"}\n", 3);
	send_text(t, 0, text, FFO_LINE_MAX + 1);
	expect_error(receive(t, 0), 0, "EMSGSIZE");
	assert_null(receive(t, 0));
	wait_conns(t, 0);
	/* No end in sight. */
	close(t->fd[0]);
	hello(t, 0);
	memset(text, ' ', 2 * FFO_LINE_MAX);
	send_text(t, 0, text, 2 * FFO_LINE_MAX);
	expect_error(receive(t, 0), 0, "EMSGSIZE");
	assert_null(receive(t, 0));
	wait_conns(t, 0);
	free(text);
}

/* Many requests in one piece, one request in many. */
static void test_framing(void **state)
{
	static const char one[] = "{\"op\":\"container_list\",\"id\":7}\n";
	struct test *t = *state;
	char text[100 * (sizeof(one) - 1)];

	hello(t, 0);
	for (size_t i = 0; i < 100; i++)
		memcpy(text + i * (sizeof(one) - 1), one, sizeof(one) - 1);
	send_text(t, 0, text, sizeof(text));
	for (int i = 0; i < 100; i++)
		assert_int_equal(count(receive(t, 0), "containers"), 0);
	for (size_t i = 0; i < sizeof(one) - 1; i++) {
		send_text(t, 0, one + i, 1);
		uv_run(&t->loop, UV_RUN_NOWAIT);
	}
	assert_int_equal(count(receive(t, 0), "containers"), 0);
	/* The end of the connection in the middle of a message. */
	send_text(t, 0, one, 10);
	close(t->fd[0]);
	t->fd[0] = -1;
	wait_conns(t, 0);
}

/* ---- clients that do not read --------------------------------------------------------------- */

static void fill_maps(struct test *t)
{
	router(t, 0);
	for (uint32_t i = 0; i < CONTS; i++)
		json_decref(ask_ok(t, 0, "'container_add','name':'c%u'", i));
	publish_batch(t, 0);
	publish_batch(t, BATCH);
}

/* Asks for big answers until the orchestrator does not take requests any more. */
static unsigned int flood(struct test *t, int i)
{
	static const char end[] = "{\"op\":\"map_list\",\"id\":7}\n";
	unsigned int sent = 0;
	char one[2048];

	memset(one, ' ', sizeof(one)); /* or the socket's buffer has room for thousands */
	memcpy(one + sizeof(one) - (sizeof(end) - 1), end, sizeof(end) - 1);
	for (int idle = 0; idle < 1000;) {
		if (send(t->fd[i], one, sizeof(one), MSG_NOSIGNAL) == sizeof(one)) {
			sent++;
			idle = 0;
		} else {
			idle++;
		}
		uv_run(&t->loop, UV_RUN_NOWAIT);
		assert_true(sent < 10000);
	}
	return sent;
}

static struct conn *last_conn(struct test *t)
{
	return LIST_FIRST(&t->ffo->conns);
}

static void test_slow_client(void **state)
{
	struct test *t = *state;

	fill_maps(t);
	hello(t, 1);
	t->ffo->write_timeout = 1000000; /* not yet */
	flood(t, 1);
	assert_true(last_conn(t)->paused);
	assert_true(uv_stream_get_write_queue_size(&last_conn(t)->stream) < 2 * FFO_LINE_MAX);
	/* Others are served. */
	json_decref(ask_ok(t, 0, "'container_get','name':'c0'"));
	/* It never reads: it is dropped. */
	uv_timer_start(&last_conn(t)->timer, last_conn(t)->timer.timer_cb, WRITE_TIMEOUT, 0);
	wait_conns(t, 1);
	json_decref(ask_ok(t, 0, "'container_get','name':'c0'"));
}

/* One that reads in the end gets every answer. */
static void test_late_client(void **state)
{
	struct test *t = *state;
	unsigned int sent;

	fill_maps(t);
	hello(t, 1);
	t->ffo->write_timeout = 1000000;
	sent = flood(t, 1);
	assert_true(last_conn(t)->paused);
	while (sent--)
		assert_int_equal(count(receive(t, 1), "maps"), 2 * BATCH);
	assert_false(last_conn(t)->paused);
	json_decref(ask_ok(t, 1, "'container_get','name':'c0'"));
}

/* It leaves while answers wait. */
static void test_gone_client(void **state)
{
	struct test *t = *state;

	fill_maps(t);
	hello(t, 1);
	t->ffo->write_timeout = 1000000;
	flood(t, 1);
	close(t->fd[1]);
	t->fd[1] = -1;
	wait_conns(t, 1);
	json_decref(ask_ok(t, 0, "'container_get','name':'c0'"));
}

static void test_too_many_clients(void **state)
{
	struct test *t = *state;

	for (int i = 0; i < MAX_CLIENTS; i++)
		hello(t, i);
	attach(t, MAX_CLIENTS);
	expect_error(receive(t, MAX_CLIENTS), 0, "EBUSY");
	assert_null(receive(t, MAX_CLIENTS));
	wait_conns(t, MAX_CLIENTS);
	close(t->fd[0]);
	wait_conns(t, MAX_CLIENTS - 1);
	hello(t, 0);
}

/* ---- a store that fails, or answers late ---------------------------------------------------- */

/* All that the orchestrator tells, and what it would allocate next. */
static char *whole_state(struct test *t)
{
	json_t *all = json_array();
	struct ffo_container c;
	char *text;

	c = container(ask_ok(t, 0, "'container_add','name':'probe'"));
	json_decref(ask_ok(t, 0, "'container_rm','name':'probe'"));
	c.id = 1; /* is another one each time */
	json_array_append_new(all, ffo_container_to_json(&c));
	json_array_append_new(all, ask_ok(t, 0, "'container_list'"));
	json_array_append_new(all, ask_ok(t, 0, "'map_list'"));
	text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	return text;
}

/*
 * Make a request with the Nth store call failing, for each N up to the first that is not reached:
 * it fails with EIO and all is as it was, until it works.
 */
static json_t *fail_each(struct test *t, int i, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static json_t *fail_each(struct test *t, int i, const char *fmt, ...)
{
	char *before = whole_state(t), *after;
	bool reached = true;
	json_t *msg = NULL;
	va_list ap;

	for (unsigned int n = 1; reached; n++) {
		assert_true(n < 20);
		faulty->fail_at = n;
		va_start(ap, fmt);
		msg = ask_va(t, i, fmt, ap);
		va_end(ap);
		reached = !faulty->fail_at;
		faulty->fail_at = 0;
		if (reached) {
			expect_error(msg, 7, "EIO");
			after = whole_state(t);
			assert_string_equal(after, before);
			free(after);
		} else {
			assert_true(n > 1);
			assert_true(json_is_true(json_object_get(msg, "ok")));
		}
	}
	free(before);
	return msg;
}

static void test_failing_store(void **state)
{
	struct test *t = *state;
	struct ffo_container c;
	uint32_t id;

	router(t, 0);
	c = container(fail_each(t, 0, "'container_add','name':'a'"));
	expect_ip(&c, 0, "10.1.0.2");
	id = c.id;
	json_decref(fail_each(t, 0, "'container_add','name':'b','ips':['10.1.0.4']"));
	json_decref(fail_each(t, 0,
			      "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1],"
			      "[%u,6,1,0,4096,7,0,5,1]]",
			      id, id));
	json_decref(fail_each(t, 0, "'map_withdraw','maps':[[%u,5]]", id));
	json_decref(fail_each(t, 0, "'container_set','name':'b','ips':['10.1.0.5'],'mode':'spin'"));
	json_decref(fail_each(t, 0, "'container_get','name':'a'"));
	json_decref(fail_each(t, 0, "'map_drop','container':%u", id));
	json_decref(fail_each(t, 0, "'container_set','name':'a','host':'h1'"));
	json_decref(fail_each(t, 0, "'container_rm','name':'b'"));
	hello(t, 1);
	json_decref(fail_each(t, 1, "'host_register','host':'h1'"));
	json_decref(fail_each(t, 1, "'host_list'"));
	json_decref(fail_each(t, 1, "'container_list'"));
	json_decref(fail_each(t, 1, "'map_list'"));
}

/* The end of a host's connection, with each of its store calls failing: served on. */
static void test_failing_goodbye(void **state)
{
	struct test *t = *state;

	router(t, 0);
	for (unsigned int n = 1; n <= 4; n++) {
		router(t, 1);
		faulty->fail_at = n;
		close(t->fd[1]);
		t->fd[1] = -1;
		wait_conns(t, 1);
		assert_int_equal(faulty->fail_at, 0);
		expect_host(t, 0, "h1", false);
	}
}

static void test_store_unusable(void **state)
{
	struct test *t = *state;
	static const char *const bad_pool[] = { "10.0.0.0/33" };
	struct ffo_conf conf = { .store = "/nonexistent/ffo.db" };
	struct ffo *f = NULL;

	assert_int_equal(ffo_create(&conf, &t->loop, &f), -EIO);
	conf = (struct ffo_conf){ .pools = bad_pool, .num_pools = 1 };
	assert_int_equal(ffo_create(&conf, &t->loop, &f), -EINVAL);
	assert_null(f);
}

static void expect_silence(struct test *t, int i)
{
	char byte;

	for (int turn = 0; turn < 50; turn++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
	assert_int_equal(recv(t->fd[i], &byte, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
}

static void send_line(struct test *t, int i, const char *line)
{
	send_text(t, i, line, strlen(line));
	send_text(t, i, "\n", 1);
}

/* A commit that ends later: the answer waits for it, others are served meanwhile. */
static void test_late_commit(void **state)
{
	static const char add[] = "{\"id\":7,\"op\":\"container_add\",\"name\":\"a\"}";
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	hello(t, 1);
	/* It fails in the end: what was taken for it is given back. */
	faulty->hold = true;
	send_line(t, 0, add);
	expect_silence(t, 0);
	assert_int_equal(count(ask_ok(t, 1, "'host_list'"), "hosts"), 1);
	release_commit(false);
	expect_error(receive(t, 0), 7, "EIO");
	/* It works in the end. */
	send_line(t, 0, add);
	expect_silence(t, 0);
	release_commit(true);
	c = container(receive(t, 0));
	expect_ip(&c, 0, "10.1.0.2");
	assert_int_equal(c.lid, 1);
	/* The client has left before that. */
	send_line(t, 1, "{\"id\":7,\"op\":\"container_rm\",\"name\":\"a\"}");
	expect_silence(t, 1);
	close(t->fd[1]);
	t->fd[1] = -1;
	wait_conns(t, 1);
	release_commit(true);
	ask_err(t, 0, "ENOENT", "'container_get','name':'a'");
	faulty->hold = false;
	c = container(ask_ok(t, 0, "'container_add','name':'b'"));
	expect_ip(&c, 0, "10.1.0.2");
	assert_int_equal(c.lid, 1);
}

/* ---- listening, the client, the embedded form ----------------------------------------------- */

static void test_listen(void **state)
{
	static const char *const bad[] = {
		"",
		"unix:",
		"unix:relative",
		"tcp:",
		"tcp:1.2.3.4",
		"tcp:1.2.3.4:",
		"tcp:1.2.3.4:65536",
		"tcp:1.2.3.4:x",
		"tcp:host:1",
		"tcp:[::1:1",
		"tcp:::1:1",
		"udp:1.2.3.4:5",
		"unix:/123456789012345678901234567890123456789012345678901234"
		"567890123456789012345678901234567890123456789012345678901234"
	};
	struct test *t = *state;
	char dir[] = "/tmp/test_ffo_listen.XXXXXX", path[64], address[80];
	struct ffo *second;
	struct ffo_conf conf = { 0 };
	FILE *f;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ffo_listen(t->ffo, bad[i]), -EINVAL);
	assert_int_equal(ffo_listen(t->ffo, "unix:/nonexistent/dir/sock"), -ENOENT);

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	snprintf(address, sizeof(address), "unix:%s", path);
	f = fopen(path, "w"); /* no socket: not replaced */
	fclose(f);
	assert_int_equal(ffo_listen(t->ffo, address), -EADDRINUSE);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ffo_listen(t->ffo, address), 0);
	/* In use: not replaced. */
	assert_int_equal(ffo_create(&conf, &t->loop, &second), 0);
	assert_int_equal(ffo_listen(second, address), -EADDRINUSE);
	assert_int_equal(access(path, F_OK), 0);
	/* Left behind by a dead process: replaced. */
	snprintf(path, sizeof(path), "%s/dead", dir);
	snprintf(address, sizeof(address), "unix:%s", path);
	{
		struct sockaddr_storage sa;
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		assert_int_equal(ffo_address_parse(address, &sa), 0);
		assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(struct sockaddr_un)), 0);
		close(fd);
	}
	assert_int_equal(ffo_listen(second, address), 0);
	ffo_destroy(second);
	ffo_destroy(t->ffo);
	uv_run(&t->loop, UV_RUN_DEFAULT);
	assert_int_equal(rmdir(dir), 0); /* both sockets are gone */
	start(t);
}

struct client_seen {
	uv_loop_t *loop;
	struct ffo_client *client;
	int answers, last_err, closed, closed_err;
	char version_seen;
	char why[200];
	bool close_in_callback;
};

static void answered(void *arg, int err, const char *why, json_t *answer)
{
	struct client_seen *seen = arg;

	seen->answers++;
	seen->last_err = err;
	snprintf(seen->why, sizeof(seen->why), "%s", why);
	assert_true(err ? !answer : json_is_object(answer));
	if (json_object_get(answer, "version"))
		seen->version_seen = true;
	if (seen->close_in_callback)
		ffo_client_close(seen->client);
}

static void client_closed(void *arg, int err)
{
	struct client_seen *seen = arg;

	seen->closed++;
	seen->closed_err = err;
}

static void wait_answers(struct client_seen *seen, int n)
{
	for (int turn = 0; seen->answers + seen->closed < n; turn++) {
		assert_true(turn < 10000);
		uv_run(seen->loop, UV_RUN_ONCE);
	}
}

static json_t *version(void)
{
	return json_pack("{s:i}", "version", FFO_PROTO_VERSION);
}

static void test_client(void **state)
{
	struct test *t = *state;
	struct client_seen seen = { .loop = &t->loop };
	struct ffo_client *c;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	assert_int_equal(ffo_attach(t->ffo, fd[0]), 0);
	assert_int_equal(ffo_client_open(&t->loop, fd[1], client_closed, &seen, &c), 0);
	assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, version(), answered, &seen), 0);
	assert_int_equal(seen.answers, 0); /* later */
	wait_answers(&seen, 1);
	assert_true(seen.version_seen);
	/* Pipelined; an error with its text. */
	for (int i = 0; i < 100; i++)
		assert_int_equal(ffo_client_call(c, FFO_OP_CONTAINER_LIST, NULL, answered, &seen),
				 0);
	assert_int_equal(ffo_client_call(c, FFO_OP_CONTAINER_GET, json_pack("{s:s}", "name", "x"),
					 answered, &seen),
			 0);
	wait_answers(&seen, 102);
	assert_int_equal(seen.last_err, -ENOENT);
	assert_string_equal(seen.why, "there is no container \"x\"");
	/* What cannot be asked. */
	assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, json_array(), answered, &seen), -EINVAL);
	assert_int_equal(ffo_client_call(c, FFO_OP_HELLO,
					 json_pack("{s:o}", "host", json_sprintf("%300000d", 1)),
					 answered, &seen),
			 -EMSGSIZE);
	/* Closed with calls under way. */
	assert_int_equal(ffo_client_call(c, FFO_OP_CONTAINER_LIST, NULL, answered, &seen), 0);
	ffo_client_close(c);
	assert_int_equal(seen.answers, 103);
	assert_int_equal(seen.last_err, -ECANCELED);
	wait_conns(t, 0);
	assert_int_equal(seen.closed, 0);
}

/* The orchestrator goes, talks nonsense, or is not there. */
static void test_client_lost(void **state)
{
	static const char *const nonsense[] = {
		"5\n",
		"{}\n",
		"{\"id\":1}\n",
		"{\"id\":1,\"ok\":false}\n",
		"{\"id\":2,\"ok\":true}\n",
		"{\"id\":1,\"ok\":1}\n",
		"\n",
	};
	struct test *t = *state;
	struct client_seen seen;
	struct ffo_client *c;
	int fd[2];

	for (size_t i = 0; i <= 2 * sizeof(nonsense) / sizeof(nonsense[0]) + 1; i++) {
		seen = (struct client_seen){ .loop = &t->loop, .close_in_callback = i % 2 };
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
		assert_int_equal(ffo_client_open(&t->loop, fd[1], client_closed, &seen, &c), 0);
		seen.client = c;
		assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, version(), answered, &seen), 0);
		if (i / 2 < sizeof(nonsense) / sizeof(nonsense[0]))
			dprintf(fd[0], "%s", nonsense[i / 2]);
		else
			close(fd[0]);
		wait_answers(&seen, i % 2 ? 1 : 2);
		assert_int_equal(seen.answers, 1);
		assert_int_equal(seen.last_err, -ECONNRESET);
		assert_int_equal(seen.closed, i % 2 ? 0 : 1);
		if (i / 2 < sizeof(nonsense) / sizeof(nonsense[0])) {
			if (seen.closed)
				assert_int_equal(seen.closed_err, -EPROTO);
			close(fd[0]);
		}
	}

	seen = (struct client_seen){ .loop = &t->loop };
	assert_int_equal(ffo_client_connect(&t->loop, "nonsense", client_closed, &seen, &c),
			 -EINVAL);
	assert_int_equal(ffo_client_connect(&t->loop, "unix:/nonexistent/sock", client_closed,
					    &seen, &c),
			 0);
	assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, version(), answered, &seen), -ENOTCONN);
	wait_answers(&seen, 1);
	assert_int_equal(seen.closed, 1);
	assert_int_equal(seen.closed_err, -ENOENT);
}

static void test_client_connect(void **state)
{
	static const char *const listen[] = { "unix:/tmp/test_ffo_connect.sock", "tcp:127.0.0.1:0",
					      "tcp:[::1]:0" };
	struct test *t = *state;

	for (size_t i = 0; i < sizeof(listen) / sizeof(listen[0]); i++) {
		struct client_seen seen = { .loop = &t->loop };
		struct sockaddr_in6 sa = { 0 };
		int len = sizeof(sa), err;
		struct ffo_client *c;
		char address[64];

		snprintf(address, sizeof(address), "%s", listen[i]);
		err = ffo_listen(t->ffo, address);
		if (i == 2 && (err == -EADDRNOTAVAIL || err == -EAFNOSUPPORT))
			continue; /* no IPv6 here */
		assert_int_equal(err, 0);
		if (i) { /* the port that it got; sin_port and sin6_port are at one place */
			uv_tcp_getsockname(&LIST_FIRST(&t->ffo->listeners)->tcp,
					   (struct sockaddr *)&sa, &len);
			snprintf(strrchr(address, ':'), 8, ":%u", ntohs(sa.sin6_port));
		}
		assert_int_equal(ffo_client_connect(&t->loop, address, client_closed, &seen, &c),
				 0);
		assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, version(), answered, &seen), 0);
		wait_answers(&seen, 1);
		assert_true(seen.version_seen);
		ffo_client_close(c);
		wait_conns(t, 0);
	}
}

static void test_embedded(void **state)
{
	struct test *t = *state;
	struct ffo_conf conf = { .store = "/nonexistent/x" };
	struct client_seen seen;
	struct ffo_client *c;
	int fd;

	ffo_embedded_stop(); /* does not run: nothing to do */
	assert_int_equal(ffo_embedded_start(&conf, &fd), -EIO);
	conf.store = NULL;
	for (int round = 0; round < 3; round++) {
		seen = (struct client_seen){ .loop = &t->loop };
		assert_int_equal(ffo_embedded_start(&conf, &fd), 0);
		assert_int_equal(ffo_embedded_start(&conf, &fd), -EBUSY);
		assert_int_equal(ffo_client_open(&t->loop, fd, client_closed, &seen, &c), 0);
		assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, version(), answered, &seen), 0);
		assert_int_equal(ffo_client_call(c, FFO_OP_HOST_REGISTER,
						 json_pack("{s:s}", "host", "h0"), answered, &seen),
				 0);
		wait_answers(&seen, 2);
		assert_int_equal(seen.last_err, 0);
		assert_true(seen.version_seen);
		/* Whoever ends first. */
		if (round == 1)
			ffo_client_close(c);
		ffo_embedded_stop();
		if (round != 1) {
			wait_answers(&seen, 3);
			assert_int_equal(seen.closed, 1);
		}
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_add),
		T(test_conflicts),
		T(test_exhaustion),
		T(test_set),
		T(test_list_pages),
		T(test_restart),
		T(test_hosts),
		T(test_host_again),
		T(test_map_rows),
		T(test_publish_many),
		T(test_batch_limit),
		T(test_requests_refused),
		T(test_malformed),
		T(test_deep_nesting),
		T(test_line_length),
		T(test_framing),
		T(test_slow_client),
		T(test_late_client),
		T(test_gone_client),
		T(test_too_many_clients),
		T(test_failing_store),
		T(test_failing_goodbye),
		T(test_store_unusable),
		T(test_late_commit),
		T(test_listen),
		T(test_client),
		T(test_client_lost),
		T(test_client_connect),
		T(test_embedded),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
