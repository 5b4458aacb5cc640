/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ffo_rig.c - see ffo_rig.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffo_rig.h"

/* ---- a store that fails at the Nth call, or ends commits when told -------------------------- */

struct faulty *faulty;

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

void release_commit(bool works)
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

void start(struct test *t)
{
	static const char *const pools[] = { "10.1.0.0/29", "fd01::/120", "big=10.0.0.0/8" };
	struct ffo_conf conf = { .pools = pools,
				 .num_pools = 3,
				 .write_timeout = WRITE_TIMEOUT,
				 .max_clients = MAX_CLIENTS,
				 .store_ops = &store_faulty };

	assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), 0);
}

int set_up(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	memset(t->fd, 0xff, sizeof(t->fd));
	uv_loop_init(&t->loop);
	start(t);
	*state = t;
	return 0;
}

int tear_down(void **state)
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

void attach(struct test *t, int i)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
	t->fd[i] = fd[1];
	ffo_attach(t->ffo, fd[0]);
}

void send_text(struct test *t, int i, const char *text, size_t len)
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

json_t *receive(struct test *t, int i)
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

json_t *ask(struct test *t, int i, const char *line)
{
	send_text(t, i, line, strlen(line));
	send_text(t, i, "\n", 1);
	return receive(t, i);
}

json_t *ask_va(struct test *t, int i, const char *fmt, va_list ap)
{
	char fields[2000], line[2100];

	vsnprintf(fields, sizeof(fields), fmt, ap);
	snprintf(line, sizeof(line), "{'id':7,'op':%s}", fields);
	for (char *p = line; *p; p++)
		if (*p == '\'')
			*p = '"';
	return ask(t, i, line);
}

json_t *ask_ok(struct test *t, int i, const char *fmt, ...)
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

void expect_error(json_t *msg, int id, const char *error)
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

void ask_err(struct test *t, int i, const char *error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	expect_error(ask_va(t, i, fmt, ap), 7, error);
	va_end(ap);
}

void hello(struct test *t, int i)
{
	attach(t, i);
	json_decref(ask_ok(t, i, "'hello','version':1,'host':'h%d'", i));
}

void router(struct test *t, int i)
{
	hello(t, i);
	json_decref(ask_ok(t, i, "'host_register','host':'h%d'", i));
}

struct ffo_container container(json_t *msg)
{
	struct ffo_container c;

	assert_int_equal(ffo_container_from_json(json_object_get(msg, "container"), &c), 0);
	json_decref(msg);
	return c;
}

void expect_ip(const struct ffo_container *c, int i, const char *want)
{
	char text[INET6_ADDRSTRLEN];

	assert_true(i < c->num_ips);
	assert_string_equal(ffo_addr_text(&c->ip[i], text), want);
}

size_t count(json_t *msg, const char *key)
{
	size_t n = json_array_size(json_object_get(msg, key));

	assert_true(json_is_array(json_object_get(msg, key)));
	json_decref(msg);
	return n;
}

void wait_conns(struct test *t, unsigned int n)
{
	for (int turn = 0; t->ffo->num_conns != n; turn++) {
		assert_true(turn < 100000);
		uv_run(&t->loop, UV_RUN_ONCE);
	}
}

void expect_host(struct test *t, int i, const char *name, bool up)
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

void publish_batch(struct test *t, uint32_t first)
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
