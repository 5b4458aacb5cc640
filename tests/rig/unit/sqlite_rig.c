/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* sqlite_rig.c - see sqlite_rig.h. */
#include "tests/rig/unit/sqlite_rig.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- failures ------------------------------------------------------------------------------- */

unsigned int lite_fail_at;
int lite_fail_with;

int __real_sqlite3_step(sqlite3_stmt *stmt);
int __wrap_sqlite3_step(sqlite3_stmt *stmt);
int __wrap_sqlite3_step(sqlite3_stmt *stmt)
{
	if (lite_fail_at && !--lite_fail_at)
		return lite_fail_with;
	return __real_sqlite3_step(stmt);
}

static void lite_state_changed(void *arg, enum store_state state)
{
	struct lite *t = arg;

	t->state = state;
	t->states++;
}

int lite_open(struct lite *t, struct ffo_store **s)
{
	struct store_conf conf = {
		.where = t->file, .loop = &t->loop, .state = lite_state_changed, .arg = t
	};
	char why[100];

	alloc_free(t->alloc);
	assert_int_equal(alloc_create(&t->alloc), 0);
	assert_int_equal(alloc_set_pool(t->alloc, AF_INET, "10.1.0.0/29", why, sizeof(why)), 0);
	assert_int_equal(alloc_set_pool(t->alloc, AF_INET6, "fd01::/120", why, sizeof(why)), 0);
	conf.alloc = t->alloc;
	return store_sqlite.open(&conf, s);
}

int lite_setup(void **state)
{
	struct lite *t = calloc(1, sizeof(*t));

	strcpy(t->dir, "/tmp/test_ffo_store.XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	snprintf(t->file, sizeof(t->file), "%s/ffo.db", t->dir);
	t->state = STORE_AWAY;
	assert_int_equal(lite_open(t, &t->s), 0);
	assert_int_equal(t->state, STORE_READY);
	*state = t;
	return 0;
}

int lite_teardown(void **state)
{
	struct lite *t = *state;
	char wal[64];

	lite_fail_at = lite_fail_with = 0;
	store_sqlite.close(t->s);
	alloc_free(t->alloc);
	snprintf(wal, sizeof(wal), "%s-wal", t->file);
	unlink(wal);
	unlink(t->file);
	assert_int_equal(rmdir(t->dir), 0);
	free(t);
	return 0;
}

void lite_reopen(struct lite *t)
{
	store_sqlite.close(t->s);
	t->s = NULL;
	assert_int_equal(lite_open(t, &t->s), 0);
}

/* ---- calls, which this store ends at once ----------------------------------------------------- */

struct lite_end *lite_ending(void)
{
	static struct lite_end e;

	memset(&e, 0, sizeof(e));
	e.err = LITE_NOT_YET;
	return &e;
}

static void lite_take_err(struct lite_end *e, int err, const char *why)
{
	assert_int_equal(e->err, LITE_NOT_YET); /* once */
	e->err = err;
	snprintf(e->why, sizeof(e->why), "%s", why);
	assert_null(strchr(why, '\n'));
}

void lite_done(void *arg, int err, const char *why)
{
	lite_take_err(arg, err, why);
}

void lite_counted(void *arg, int err, const char *why, size_t count)
{
	lite_take_err(arg, err, why);
	((struct lite_end *)arg)->count = count;
}

void lite_container_done(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct lite_end *e = arg;

	lite_take_err(e, err, why);
	assert_true(err || c);
	e->known = c;
	if (c)
		e->c = *c;
}

void lite_host_done(void *arg, int err, const char *why, const struct ffo_host *h)
{
	struct lite_end *e = arg;

	lite_take_err(e, err, why);
	if (!err)
		e->h = *h;
}

#define LISTED(name, type, field)                                                                  \
	void name(void *arg, int err, const char *why, const struct type *list, size_t n,          \
		  bool more)                                                                       \
	{                                                                                          \
		struct lite_end *e = arg;                                                          \
                                                                                                   \
		lite_take_err(e, err, why);                                                        \
		assert_true(n <= sizeof(e->field) / sizeof(e->field[0]));                          \
		if (n)                                                                             \
			memcpy(e->field, list, n * sizeof(*list));                                 \
		e->n = n;                                                                          \
		e->more = more;                                                                    \
	}
LISTED(lite_containers_listed, ffo_container, conts)
LISTED(lite_hosts_listed, ffo_host, hosts)
LISTED(lite_maps_listed, ffo_map, maps)

struct ffo_container lite_cont(const char *name, const char *ip)
{
	struct ffo_container c = { .epoch = 1, .mode = FFO_MODE_SPIN };

	strcpy(c.name, name);
	strcpy(c.tenant, "blue");
	strcpy(c.host, "h0");
	if (ip)
		assert_int_equal(ffo_addr_parse(ip, &c.ip[c.num_ips++]), 0);
	return c;
}

int lite_add(struct lite *t, struct ffo_container *c)
{
	struct lite_end *e = LITE_CALL(t, container_add, c, lite_container_done);

	if (!e->err)
		*c = e->c;
	return e->err;
}

int lite_set(struct lite *t, const struct ffo_container *was, struct ffo_container *now,
	     unsigned int flags)
{
	struct lite_end *e = LITE_CALL(t, container_set, was, now, flags, lite_container_done);

	if (!e->err)
		*now = e->c;
	return e->err;
}

int lite_del(struct lite *t, const struct ffo_container *c)
{
	return LITE_CALL(t, container_del, c, lite_container_done)->err;
}

int lite_get_id(struct lite *t, uint32_t id, struct ffo_container *c)
{
	const struct store_key key = { .kind = STORE_ID, .id = id };
	struct lite_end *e = LITE_CALL(t, container_get, &key, lite_container_done);

	*c = e->c;
	return e->err;
}

void lite_expect_container(struct lite *t, const struct ffo_container *want)
{
	struct store_key keys[5] = { { .kind = STORE_ID, .id = want->id },
				     { .kind = STORE_LID, .lid = want->lid },
				     { .kind = STORE_NAME } };
	struct lite_end *e;

	strcpy(keys[2].name, want->name);
	for (unsigned int i = 0; i < want->num_ips; i++) {
		keys[3 + i].kind = STORE_ADDR;
		strcpy(keys[3 + i].name, want->tenant);
		keys[3 + i].addr = want->ip[i];
	}
	for (unsigned int i = 0; i < 3u + want->num_ips; i++) {
		e = LITE_CALL(t, container_get, &keys[i], lite_container_done);
		assert_int_equal(e->err, 0);
		assert_memory_equal(&e->c, want, sizeof(*want));
	}
}

int lite_up(struct lite *t, const char *name, const char *instance)
{
	struct ffo_host h = { .last_seen = 1ull << 40, .wire = "tcp:1.2.3.4:5" };

	strcpy(h.name, name);
	strcpy(h.instance, instance);
	return LITE_CALL(t, host_up, &h, lite_done)->err;
}

int lite_down(struct lite *t, const char *name, const char *instance)
{
	struct ffo_host h = { .last_seen = 1ull << 41 };

	strcpy(h.name, name);
	strcpy(h.instance, instance);
	return LITE_CALL(t, host_down, &h, lite_done)->err;
}

int lite_put_map(struct lite *t, const char *host, const struct ffo_container *c, uint32_t rkey,
		 uint32_t session)
{
	struct ffo_map m = { .container = c->id,
			     .rkey = rkey,
			     .session = session,
			     .epoch = c->epoch,
			     .addr = UINT64_MAX - rkey,
			     .length = 4096,
			     .shadow = 1ull << 63 };

	return LITE_CALL(t, map_put, host, &m, 1, lite_done)->err;
}

struct lite_end *lite_maps(struct lite *t, uint32_t only, uint32_t container, uint32_t rkey,
			   size_t limit)
{
	struct lite_end *e = LITE_CALL(t, map_list, only, container, rkey, limit, lite_maps_listed);

	assert_int_equal(e->err, 0);
	return e;
}

size_t lite_num_maps(struct lite *t)
{
	return lite_maps(t, 0, 0, 0, 64)->n;
}

/* ---- policy --------------------------------------------------------------------------------- */

int lite_set_tenant(struct lite *t, const char *name, uint64_t max_qp)
{
	struct ffo_limits_change c = { .set = 1u << FFO_LIMIT_NR_max_qp, .to.max_qp = max_qp };
	struct lite_end *e = LITE_CALL(t, tenant_set, name, &c, lite_done);

	assert_int_equal(!e->err, !*e->why);
	return e->err;
}

/* ---- watches -------------------------------------------------------------------------------- */

static void lite_see(void *arg, const struct store_news *news)
{
	struct lite_seen *v = arg;

	v->calls++;
	assert_int_equal(news->err, lite_fail_with ? -EIO : 0);
	v->reset = news->reset;
	v->synced = news->synced;
	switch (v->w.key.kind) {
	case STORE_HOST:
		v->none = !news->host;
		v->up = news->host && news->host->up;
		break;
	case STORE_OWNED:
		v->puts += news->owned.num_put;
		v->dels += news->owned.num_del;
		break;
	case STORE_MAP:
		v->rkeys += news->map.num;
		if (news->map.num)
			v->last_rkey = news->map.rkeys[news->map.num - 1];
		break;
	case STORE_POLICY:
		v->rules = news->policy.num;
		break;
	case STORE_TENANTS:
		v->tenants = news->tenants.num;
		break;
	case STORE_MCAST:
		v->hosts = news->mcast.num;
		break;
	default:
		v->none = !news->container;
		if (news->container)
			v->c = *news->container;
		break;
	}
	if (v->ends && v->calls > 1) {
		store_sqlite.unwatch(v->t->s, &v->ends->w);
		store_sqlite.unwatch(v->t->s, &v->w);
	}
}

void lite_watch(struct lite *t, struct lite_seen *v, enum store_kind kind, const char *name)
{
	memset(v, 0, sizeof(*v));
	v->t = t;
	v->w.key.kind = kind;
	strcpy(v->w.key.name, name);
	v->w.cb = lite_see;
	v->w.arg = v;
}

void lite_begin_watch(struct lite *t, struct lite_seen *v)
{
	store_sqlite.watch(t->s, &v->w);
	assert_int_equal(v->calls, 1); /* this store tells at once */
}
