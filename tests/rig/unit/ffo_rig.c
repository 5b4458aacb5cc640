/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ffo_rig.c - see ffo_rig.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/map_row.h"
#include "tests/rig/unit/ffo_rig.h"

/* ---- a store that fails at the Nth call, or ends calls when told ----------------------------- */

struct faulty *faulty;

static bool fails(void)
{
	return faulty->fail_at && !--faulty->fail_at;
}

/* A call that has ended for store_sqlite, and not for the orchestrator. */
struct held {
	store_done_cb done;
	store_container_cb done_container;
	store_count_cb done_count;
	void *arg;
	int err;
	char why[200];
	bool has_container;
	struct ffo_container c;
	size_t count;
};

static void end_held(struct held *h, int err)
{
	const char *why = err ? "" : h->why;

	err = err ? err : h->err;
	if (h->done)
		h->done(h->arg, err, why);
	else if (h->done_count)
		h->done_count(h->arg, err, why, h->count);
	else
		h->done_container(h->arg, err, why, h->has_container ? &h->c : NULL);
	free(h);
}

static void ended(struct held *h, int err, const char *why)
{
	h->err = err;
	snprintf(h->why, sizeof(h->why), "%s", why);
	if (!faulty->hold) {
		end_held(h, 0);
		return;
	}
	assert_null(faulty->held);
	faulty->held = h;
}

static void keep_end(void *arg, int err, const char *why)
{
	struct held *h = arg;

	h->err = err;
	snprintf(h->why, sizeof(h->why), "%s", why);
}

static void hold_done(void *arg, int err, const char *why)
{
	ended(arg, err, why);
}

static void hold_count(void *arg, int err, const char *why, size_t count)
{
	struct held *h = arg;

	h->count = count;
	ended(h, err, why);
}

static void hold_container(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct held *h = arg;

	h->has_container = c;
	if (c)
		h->c = *c;
	ended(h, err, why);
}

static struct held *held(store_done_cb done, store_container_cb done_container,
			 store_count_cb done_count, void *arg)
{
	struct held *h = calloc(1, sizeof(*h));

	h->done = done;
	h->done_container = done_container;
	h->done_count = done_count;
	h->arg = arg;
	return h;
}

void release(int err)
{
	struct held *h = faulty->held;

	assert_non_null(h);
	faulty->held = NULL;
	end_held(h, err);
}

void store_becomes(enum store_state state)
{
	faulty->conf.state(faulty->conf.arg, state);
}

#define INNER(s) (((struct faulty *)(s))->inner)
#define DONE(op, ...)                                                                              \
	do {                                                                                       \
		if (fails())                                                                       \
			done(arg, -EIO, "");                                                       \
		else                                                                               \
			store_sqlite.op(INNER(s), __VA_ARGS__, hold_done,                          \
					held(done, NULL, NULL, arg));                              \
	} while (0)
#define DONE_CONTAINER(op, ...)                                                                    \
	do {                                                                                       \
		if (fails())                                                                       \
			done(arg, -EIO, "", NULL);                                                 \
		else                                                                               \
			store_sqlite.op(INNER(s), __VA_ARGS__, hold_container,                     \
					held(NULL, done, NULL, arg));                              \
	} while (0)
#define LIST(op, ...)                                                                              \
	do {                                                                                       \
		if (fails())                                                                       \
			done(arg, -EIO, "", NULL, 0, false);                                       \
		else                                                                               \
			store_sqlite.op(INNER(s), __VA_ARGS__, done, arg);                         \
	} while (0)

static void f_close(struct ffo_store *s)
{
	if (!s)
		return;
	if (faulty->held)
		release(-ECANCELED);
	store_sqlite.close(INNER(s));
	free(s);
	faulty = NULL;
}

static void f_identity(struct ffo_store *s, store_identity_cb done, void *arg)
{
	if (fails())
		done(arg, -EIO, "", "", 0);
	else
		store_sqlite.identity(INNER(s), done, arg);
}

static void f_backup(struct ffo_store *s, store_backup_cb done, void *arg)
{
	if (fails())
		done(arg, -EIO, "", NULL, 0);
	else
		store_sqlite.backup(INNER(s), done, arg);
}

static void f_host_up(struct ffo_store *s, const struct ffo_host *h, store_done_cb done, void *arg)
{
	DONE(host_up, h);
}

/* The host goes in any case, and nobody waits for it. */
static void f_host_down(struct ffo_store *s, const struct ffo_host *h, store_done_cb done,
			void *arg)
{
	struct held *down = held(done, NULL, NULL, arg);

	store_sqlite.host_down(INNER(s), h, keep_end, down);
	end_held(down, fails() ? -EIO : 0);
}

static void f_host_del(struct ffo_store *s, const char *name, store_done_cb done, void *arg)
{
	DONE(host_del, name);
}

static int f_try_next(struct ffo_store *s)
{
	return fails() ? -EOPNOTSUPP : store_sqlite.try_next(INNER(s));
}

static void f_container_add(struct ffo_store *s, const struct ffo_container *c,
			    store_container_cb done, void *arg)
{
	DONE_CONTAINER(container_add, c);
}

static void f_container_set(struct ffo_store *s, const struct ffo_container *was,
			    const struct ffo_container *now, unsigned int flags,
			    store_container_cb done, void *arg)
{
	DONE_CONTAINER(container_set, was, now, flags);
}

static void f_container_del(struct ffo_store *s, const struct ffo_container *was,
			    store_container_cb done, void *arg)
{
	DONE_CONTAINER(container_del, was);
}

static void f_container_get(struct ffo_store *s, const struct store_key *key,
			    store_container_cb done, void *arg)
{
	if (fails())
		done(arg, -EIO, "", NULL);
	else
		store_sqlite.container_get(INNER(s), key, done, arg);
}

static void f_container_list(struct ffo_store *s, const char *host, uint32_t after, size_t limit,
			     store_containers_cb done, void *arg)
{
	LIST(container_list, host, after, limit);
}

static void f_host_get(struct ffo_store *s, const char *name, store_host_cb done, void *arg)
{
	if (fails())
		done(arg, -EIO, "", NULL);
	else
		store_sqlite.host_get(INNER(s), name, done, arg);
}

static void f_host_list(struct ffo_store *s, const char *after, size_t limit, store_hosts_cb done,
			void *arg)
{
	LIST(host_list, after, limit);
}

static void f_map_put(struct ffo_store *s, const char *host, const struct ffo_map *rows, size_t n,
		      store_done_cb done, void *arg)
{
	DONE(map_put, host, rows, n);
}

static void f_map_del(struct ffo_store *s, const char *host, const struct store_map_id *ids,
		      size_t n, store_count_cb done, void *arg)
{
	if (fails())
		done(arg, -EIO, "", 0);
	else
		store_sqlite.map_del(INNER(s), host, ids, n, hold_count,
				     held(NULL, NULL, done, arg));
}

static void f_map_drop(struct ffo_store *s, const char *host, uint32_t container, uint32_t epoch,
		       uint32_t session, store_done_cb done, void *arg)
{
	if (epoch) /* what is left of an old one: nobody waits for that */
		store_sqlite.map_drop(INNER(s), host, container, epoch, session, done, arg);
	else
		DONE(map_drop, host, container, epoch, session);
}

static void f_container_active(struct ffo_store *s, const char *host, uint32_t container,
			       uint32_t epoch, bool active, store_done_cb done, void *arg)
{
	DONE(container_active, host, container, epoch, active);
}

static void f_mcast_member(struct ffo_store *s, const char *host, const char *tenant,
			   const struct in6_addr *mgid, bool member, store_done_cb done, void *arg)
{
	DONE(mcast_member, host, tenant, mgid, member);
}

static void f_map_list(struct ffo_store *s, uint32_t only, uint32_t container, uint32_t rkey,
		       size_t limit, store_maps_cb done, void *arg)
{
	LIST(map_list, only, container, rkey, limit);
}

static ssize_t f_map_page(struct ffo_store *s, const struct store_watch *w, uint32_t after,
			  struct ffo_map *rows, size_t n)
{
	return store_sqlite.map_page(INNER(s), w, after, rows, n);
}

static int f_map_row(struct ffo_store *s, const struct store_watch *w, uint32_t rkey,
		     struct ffo_map *row)
{
	return store_sqlite.map_row(INNER(s), w, rkey, row);
}

static void f_policy_set(struct ffo_store *s, const struct ffo_rule *rule, store_done_cb done,
			 void *arg)
{
	DONE(policy_set, rule);
}

static void f_policy_rm(struct ffo_store *s, const struct ffo_rule *rule, store_done_cb done,
			void *arg)
{
	DONE(policy_rm, rule);
}

static void f_tenant_set(struct ffo_store *s, const char *tenant,
			 const struct ffo_limits_change *change, store_done_cb done, void *arg)
{
	DONE(tenant_set, tenant, change);
}

static void f_watch(struct ffo_store *s, struct store_watch *w)
{
	struct store_news news = { .err = -EIO, .reset = true, .synced = true };

	w->topic = NULL;
	if (fails())
		w->cb(w->arg, &news);
	else if (!faulty->mute)
		store_sqlite.watch(INNER(s), w);
}

static void f_unwatch(struct ffo_store *s, struct store_watch *w)
{
	store_sqlite.unwatch(INNER(s), w);
}

static int f_open(const struct store_conf *conf, struct ffo_store **s);

static const struct ffo_store_ops store_faulty = { .name = "faulty",
#define X(op) .op = f_##op,
						   FFO_STORE_OPS(X)
#undef X
};

static int f_open(const struct store_conf *conf, struct ffo_store **s)
{
	int err;

	faulty = calloc(1, sizeof(*faulty));
	faulty->base.ops = &store_faulty;
	faulty->conf = *conf;
	err = store_sqlite.open(conf, &faulty->inner);
	*s = &faulty->base;
	return err;
}

/* ---- fixture -------------------------------------------------------------------------------- */

void start(struct test *t)
{
	static const char *const pools[] = { "10.1.0.0/29", "fd01::/120", "big=10.0.0.0/8" };
	struct ffo_conf conf = { .pools = pools,
				 .num_pools = 3,
				 .write_timeout = 1000000, /* ms: by hand only */
				 .patience = PATIENCE,
				 .max_clients = MAX_CLIENTS,
				 .store_ops = &store_faulty };

	assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), 0);
}

int ffo_setup(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	signal(SIGPIPE, SIG_IGN);
	memset(t->fd, 0xff, sizeof(t->fd));
	uv_loop_init(&t->loop);
	start(t);
	*state = t;
	return 0;
}

int ffo_teardown(void **state)
{
	struct test *t = *state;

	for (int i = 0; i <= MAX_CLIENTS; i++) {
		if (t->fd[i] >= 0)
			close(t->fd[i]);
		json_decref(t->events[i]);
	}
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
	t->in[i].len = 0;
	json_decref(t->events[i]);
	t->events[i] = json_array();
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

/* A message that has come; NULL: none has. *ended: and none will. */
static json_t *message(struct test *t, int i, bool *ended)
{
	struct input *in = &t->in[i];
	json_error_t error;
	json_t *msg;
	ssize_t n;
	char *nl;

	for (;;) {
		nl = memchr(in->text, '\n', in->len);
		if (nl) {
			msg = json_loadb(in->text, (size_t)(nl - in->text), 0, &error);
			assert_true(json_is_object(msg));
			in->len -= (size_t)(nl + 1 - in->text);
			memmove(in->text, nl + 1, in->len);
			return msg;
		}
		assert_true(in->len < FFO_LINE_MAX); /* no message is longer */
		n = recv(t->fd[i], in->text + in->len, FFO_LINE_MAX - in->len, 0);
		*ended = !n || (n < 0 && errno != EAGAIN);
		if (n <= 0)
			return NULL;
		in->len += (size_t)n;
	}
}

json_t *receive(struct test *t, int i)
{
	bool ended = false;
	json_t *msg;

	for (int turn = 0; turn < 1000000; turn++) {
		msg = message(t, i, &ended);
		if (msg && !json_object_get(msg, "event"))
			return msg;
		if (msg) {
			json_array_append_new(t->events[i], msg);
			continue;
		}
		if (ended) {
			assert_int_equal(t->in[i].len, 0);
			return NULL;
		}
		uv_run(&t->loop, UV_RUN_NOWAIT);
	}
	fail_msg("no answer");
	return NULL;
}

json_t *event(struct test *t, int i, const char *kind)
{
	bool ended = false;
	json_t *msg;

	for (int turn = 0; turn < 1000000; turn++) {
		msg = json_incref(json_array_get(t->events[i], 0));
		if (msg)
			json_array_remove(t->events[i], 0);
		else
			msg = message(t, i, &ended);
		if (msg) {
			assert_non_null(json_object_get(msg, "event"));
			assert_string_equal(json_string_value(json_object_get(msg, "event")), kind);
			return msg;
		}
		if (ended)
			return NULL;
		uv_run(&t->loop, UV_RUN_NOWAIT);
	}
	fail_msg("no event");
	return NULL;
}

void expect_silence(struct test *t, int i)
{
	char byte;

	assert_int_equal(json_array_size(t->events[i]), 0);
	assert_int_equal(t->in[i].len, 0);
	for (int turn = 0; turn < 50; turn++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
	assert_int_equal(recv(t->fd[i], &byte, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
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

json_t *publish_rows(struct test *t, json_t *rows)
{
	json_t *msg = json_pack("{s:i, s:s, s:o}", "id", 1, "op", "map_publish", "maps", rows);
	char *line = json_dumps(msg, JSON_COMPACT);

	json_decref(msg);
	assert_true(strlen(line) < FFO_LINE_MAX);
	msg = ask(t, 0, line);
	free(line);
	return msg;
}

void publish_batch(struct test *t, uint32_t first)
{
	json_t *rows = json_array(), *msg;

	for (uint32_t i = first; i < first + BATCH; i++) {
		struct ffo_map m = map_row(1 + i % CONTS, 1 + i * 2654435761u, i);

		json_array_append_new(rows, ffo_map_to_json(&m));
	}
	msg = publish_rows(t, rows);
	assert_int_equal(json_integer_value(json_object_get(msg, "stored")), BATCH);
	json_decref(msg);
}

void router_at(struct test *t, int i, const char *instance)
{
	hello(t, i);
	json_decref(ask_ok(t, i,
			   "'host_register','host':'h%d','instance':'%s',"
			   "'wire':'tcp:192.0.2.%d:7471'",
			   i, instance, i));
}

void send_str(struct test *t, int i, const char *text)
{
	send_text(t, i, text, strlen(text));
}

void router_leaves(struct test *t, int i)
{
	unsigned int conns = t->ffo->num_conns;

	close(t->fd[i]);
	t->fd[i] = -1;
	wait_conns(t, conns - 1);
}

void expect_resolved(json_t *msg, const char *name, const char *host, int up)
{
	json_t *c = json_object_get(msg, "container"), *h = json_object_get(msg, "host");

	assert_non_null(c);
	assert_non_null(h);
	assert_string_equal(json_is_null(c) ? "-" : json_string_value(json_object_get(c, "name")),
			    name);
	assert_string_equal(json_is_null(h) ? "-" : json_string_value(json_object_get(h, "name")),
			    host);
	if (!json_is_null(h))
		assert_int_equal(json_is_true(json_object_get(h, "up")), up);
	json_decref(msg);
}

uint64_t rig_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}
