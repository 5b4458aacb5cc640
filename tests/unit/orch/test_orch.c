/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_orch.c - ffr/orch/ and dir/ with a real orchestrator between them and another host,
 * which the test plays on a socket: what either learns of the other, containers that move with
 * their sessions, and an orchestrator that is away or says nothing.
 * build: tests/rig/unit/router_rig.c -Wl,--wrap=container_update,--wrap=fast_tenant_limits,--wrap=rules_parse
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffo/server/server.h"
#include "ffr/admin/admin.h"
#include "ffr/dir/dir.h"
#include "ffr/dir/internal.h"
#include "ffr/orch/internal.h"
#include "tests/rig/unit/router_rig.h"

static struct ffo *ffo; /* on the router's loop */
static int h1;		/* the other host's connection */
static json_t *events[64];
static unsigned num_events;

/* ---- how often the router applies a change ---------------------------------------------------- */

static struct {
	unsigned containers, tenants, policies;
} applied;

void __real_container_update(struct container *c, const struct ffo_container *info);
void __wrap_container_update(struct container *c, const struct ffo_container *info);
void __wrap_container_update(struct container *c, const struct ffo_container *info)
{
	applied.containers++;
	__real_container_update(c, info);
}

int __real_fast_tenant_limits(struct fast_host *h, const char *name, const struct ffo_limits *l);
int __wrap_fast_tenant_limits(struct fast_host *h, const char *name, const struct ffo_limits *l);
int __wrap_fast_tenant_limits(struct fast_host *h, const char *name, const struct ffo_limits *l)
{
	applied.tenants++;
	return __real_fast_tenant_limits(h, name, l);
}

int __real_rules_parse(struct dir_policy *p, json_t *rules);
int __wrap_rules_parse(struct dir_policy *p, json_t *rules);
int __wrap_rules_parse(struct dir_policy *p, json_t *rules)
{
	applied.policies++;
	return __real_rules_parse(p, rules);
}

/* ---- a store that tells its watchers before its caller --------------------------------------- */

static struct late {
	uv_timer_t timer;
	store_container_cb done;
	void *arg;
	struct ffo_container c;
} late;

static void late_end(uv_timer_t *t)
{
	(void)t;
	late.done(late.arg, 0, "", &late.c);
}

static void late_done(void *arg, int err, const char *why, const struct ffo_container *c)
{
	(void)arg;
	(void)why;
	assert_int_equal(err, 0);
	late.c = *c;
	uv_timer_start(&late.timer, late_end, 5, 0);
}

static void late_set(struct ffo_store *s, const struct ffo_container *was,
		     const struct ffo_container *now, unsigned int flags, store_container_cb done,
		     void *arg)
{
	late.done = done;
	late.arg = arg;
	store_sqlite.container_set(s, was, now, flags, late_done, NULL);
}

static void late_add(struct ffo_store *s, const struct ffo_container *c, store_container_cb done,
		     void *arg)
{
	late.done = done;
	late.arg = arg;
	store_sqlite.container_add(s, c, late_done, NULL);
}

static void late_begin(void)
{
	static struct ffo_store_ops ops;

	ops = store_sqlite;
	ops.container_set = late_set;
	ops.container_add = late_add;
	ffo->store->ops = &ops;
	uv_timer_init(&rt.loop, &late.timer);
}

static void late_stop(void)
{
	ffo->store->ops = &store_sqlite;
	uv_close((uv_handle_t *)&late.timer, NULL);
}

/* ---- the orchestrator, and the other host ---------------------------------------------------- */

static void ffo_start(void)
{
	char store[64], at[64];
	struct ffo_conf conf = { .store = store };

	snprintf(store, sizeof(store), "%s/ffo.db", dir);
	snprintf(at, sizeof(at), "unix:%s/ffo.sock", dir);
	assert_int_equal(ffo_create(&conf, &rt.loop, &ffo), 0);
	assert_int_equal(ffo_listen(ffo, at), 0);
}

static void ffo_stop(void)
{
	ffo_destroy(ffo);
	ffo = NULL;
}

/* The answer to the request, with ' for "; events that come before are kept. */
static json_t *say(const char *fmt, ...)
{
	char text[16384];
	va_list ap;
	size_t n;
	json_t *j;

	va_start(ap, fmt);
	n = (size_t)vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	for (char *p = text; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	text[n++] = '\n';
	assert_int_equal(send(h1, text, n, MSG_NOSIGNAL), n);
	for (;;) {
		j = next_line(h1);
		assert_non_null(j);
		if (!json_object_get(j, "event"))
			return j;
		assert_true(num_events < 64);
		events[num_events++] = j;
	}
}

static void say_ok(const char *fmt, ...)
{
	char text[8192];
	va_list ap;
	json_t *j;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	j = say("%s", text);
	if (!json_is_true(json_object_get(j, "ok")))
		fail_msg("%s: %s", text, json_string_value(json_object_get(j, "message")));
	json_decref(j);
}

static bool say_error(const char *text, const char *error)
{
	json_t *j = say("%s", text);
	const char *got = json_string_value(json_object_get(j, "error"));
	bool same = got && !strcmp(got, error);

	json_decref(j);
	return same;
}

static void host_start(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	h1 = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/ffo.sock", dir);
	assert_int_equal(connect(h1, (struct sockaddr *)&sa, sizeof(sa)), 0);
	say_ok("{'op':'hello','id':1,'version':1}");
	say_ok("{'op':'host_register','id':2,'host':'h1','instance':'x','wire':'tcp:10.9.9.9:7'}");
}

/* Has the other host been told of that event since it asked last? Forgets them. */
static bool heard(const char *event, const char *key, const char *value)
{
	bool yes = false;

	json_decref(say("{'op':'host_list','id':9}"));
	for (; num_events; num_events--) {
		json_t *e = events[num_events - 1];
		const char *name = json_string_value(json_object_get(e, "event"));
		char *text = json_dumps(json_object_get(e, key), JSON_COMPACT | JSON_ENCODE_ANY);

		yes = yes || (!strcmp(name, event) && text && strstr(text, value));
		free(text);
		json_decref(e);
	}
	return yes;
}

static int setup(void **state)
{
	char at[64];

	(void)state;
	if (make_dir())
		return -1;
	snprintf(at, sizeof(at), "unix:%s/ffo.sock", dir);
	start_at(at, ffo_start);
	host_start();
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"near\",\"ips\":[\"10.77.0.9\"]}"));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(h1);
	for (; num_events; num_events--)
		json_decref(events[num_events - 1]);
	if (ffo)
		ffo_stop();
	stop();
	return remove_dir();
}

/* ---- what the router knows -------------------------------------------------------------------- */

static struct container *here;
static struct remote *far;

static enum dir_answer path(uint8_t last)
{
	struct ff_ah_attr ah = { .is_global = 1 };
	enum dir_answer a;

	memcpy(ah.dgid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x4d\0", 15);
	ah.dgid[15] = last;
	fast_lock(rt.ctl.host);
	a = dir_path(rt.ctl.host->threads[0], container_find(&rt.ctl, "near"), &ah, &here, &far);
	fast_unlock(rt.ctl.host);
	return a;
}

static enum map_answer map(uint32_t rkey, uint64_t addr)
{
	enum map_answer a;

	fast_lock(rt.ctl.host);
	rt.ctl.host->threads[0]->now = uv_hrtime(); /* no fast thread runs */
	a = dir_map(rt.ctl.host->threads[0], far, rkey, addr, 1, IBV_ACCESS_REMOTE_READ);
	fast_unlock(rt.ctl.host);
	return a;
}

/* Containers of the cluster that run. */
static unsigned num_active(void)
{
	json_t *j = ask("{\"op\":\"container_list\"}"), *c;
	unsigned n = 0;
	size_t i;

	json_array_foreach(json_object_get(j, "containers"), i, c)
		n += json_is_true(json_object_get(c, "active"));
	json_decref(j);
	return n;
}

/* The router does not try to connect until then. */
static void orch_hold(void)
{
	uv_timer_stop(&rt.ctl.orch->retry);
}

static void orch_release(void)
{
	uv_timer_set_repeat(&rt.ctl.orch->retry, 1);
	uv_timer_again(&rt.ctl.orch->retry);
	uv_timer_set_repeat(&rt.ctl.orch->retry, 0);
}

#define FAR "{'op':'container_add','id':3,'name':'far','ips':['10.77.0.50']}"

static void another_hosts_container_is_found(void **state)
{
	(void)state;
	WAIT_FOR(path(50) == DIR_NOBODY);
	say_ok(FAR);
	WAIT_FOR(path(50) == DIR_REMOTE);
	assert_string_equal(far->name, "far");
	assert_int_equal(far->epoch, 1);
	close(h1); /* the host is away: whether it can be reached is the wire's affair */
	assert_int_equal(path(50), DIR_REMOTE);
	host_start();
	say_ok("{'op':'container_rm','id':4,'name':'far'}");
	WAIT_FOR(path(50) == DIR_NOBODY);
}

static void its_memory_is_known(void **state)
{
	json_int_t id;
	json_t *j;

	(void)state;
	j = say(FAR);
	id = json_integer_value(json_object_get(json_object_get(j, "container"), "id"));
	json_decref(j);
	WAIT_FOR(path(50) == DIR_REMOTE);
	assert_int_equal(map(77, 0x1000), MAP_WAIT);
	say_ok("{'op':'map_publish','id':4,'maps':[[%lld,77,1,4096,8,4,0,77,1]]}", (long long)id);
	WAIT_FOR(map(77, 0x1000) == MAP_OK);
	assert_int_equal(map(77, 0x1008), MAP_WAIT);
	say_ok("{'op':'map_publish','id':5,'maps':[[%lld,78,1,4096,8,4,0,77,1]]}", (long long)id);
	WAIT_FOR(map(78, 0x1000) == MAP_OK);
	say_ok("{'op':'map_withdraw','id':6,'maps':[[%lld,77]]}", (long long)id);
	WAIT_FOR(map(77, 0x1000) != MAP_OK);
	/* what administrators see */
	j = ask("{\"op\":\"map_get\",\"ip\":\"10.77.0.50\",\"rkey\":78}");
	assert_string_equal(json_string_value(json_object_get(json_object_get(j, "host"), "name")),
			    "h1");
	json_decref(j);
	ask_fails("{\"op\":\"map_get\",\"name\":\"far\",\"rkey\":77}", NULL);
}

/* It runs, so it is not moved; by force it is, and its programs lose the device. */
static void a_container_that_runs_is_moved_by_force_only(void **state)
{
	uint32_t pd, old = container_find(&rt.ctl, "near")->id;
	char byte;
	int s;

	(void)state;
	s = client("near", &pd);
	reg(s, pd);
	WAIT_FOR(num_active() == 1);
	assert_true(say_error("{'op':'container_set','id':3,'name':'near','host':'h1'}", "EBUSY"));
	ask_fails("{\"op\":\"container_migrate\",\"name\":\"near\",\"host\":\"h1\"}", "EBUSY");
	assert_non_null(container_find(&rt.ctl, "near"));
	say_ok("{'op':'container_set','id':4,'name':'near','host':'h1','force':1}");
	WAIT_FOR(!container_find(&rt.ctl, "near"));
	WAIT_FOR(recv(s, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET);
	close(s);
	assert_false(there("containers/near"));
	assert_int_equal(count("{\"op\":\"map_list\"}", "maps"), 0);
	say_ok("{'op':'container_set','id':5,'name':'near','host':'h0'}"); /* somebody else says so */
	WAIT_FOR(there("containers/near/ffr.sock"));
	assert_int_equal(container_find(&rt.ctl, "near")->epoch, 3);
	say_ok("{'op':'container_set','id':6,'name':'near','host':'h1'}");
	WAIT_FOR(!container_find(&rt.ctl, "near"));

	json_decref(ask("{\"op\":\"container_migrate\",\"name\":\"near\"}")); /* and back */
	assert_true(there("containers/near/ffr.sock"));			      /* when it is said */
	assert_int_equal(container_find(&rt.ctl, "near")->epoch, 5);
	assert_int_equal(container_find(&rt.ctl, "near")->id, old);
	assert_true(heard("detach", "name", "near"));
	s = client("near", &pd); /* stopped: it may go at once */
	close(s);
	WAIT_FOR(LIST_EMPTY(&container_find(&rt.ctl, "near")->sessions));
	json_decref(ask("{\"op\":\"container_migrate\",\"name\":\"near\",\"host\":\"h1\","
			"\"force\":true}"));
	assert_null(container_find(&rt.ctl, "near"));
	assert_true(heard("attach", "container", "\"near\""));
	ask_fails("{\"op\":\"container_migrate\",\"name\":\"near\",\"host\":\"h9\"}", "ENOENT");
	ask_fails("{\"op\":\"container_migrate\",\"name\":\"none\"}", "ENOENT");
	ask_fails("{\"op\":\"container_migrate\",\"name\":\"near\",\"host\":5}", "EINVAL");
}

/* The orchestrator has not been told yet that it runs: its host has the last word. */
static void a_container_that_just_began_is_not_moved(void **state)
{
	uint32_t pd;
	int s;

	(void)state;
	s = client("near", &pd);
	uv_timer_stop(&rt.ctl.orch->active);
	ask_fails("{\"op\":\"container_migrate\",\"name\":\"near\",\"host\":\"h1\"}", "EBUSY");
	assert_non_null(container_find(&rt.ctl, "near"));
	orch_container_active(rt.ctl.orch);
	WAIT_FOR(num_active() == 1);
	close(s);
}

static void moves_that_fail_leave_nothing(void **state)
{
	size_t before = 0, n = 100;

	(void)state;
	for (size_t i = 0; i < 2 * n; i++) {
		if (i == n)
			before = unit_allocated();
		ask_fails("{\"op\":\"container_migrate\",\"name\":\"near\",\"host\":\"h9\"}",
			  "ENOENT");
	}
	assert_true(unit_allocated() < before + n * FFO_NAME_MAX);
}

/* Not told of at once, and not more often than needed: one who is active says so again later. */
static void who_runs_is_told(void **state)
{
	uint32_t pd;
	int s;

	(void)state;
	s = client("near", &pd);
	WAIT_FOR(num_active() == 1);
	ffo_stop();
	WAIT_FOR(!rt.ctl.orch->up);
	ffo_start();
	WAIT_FOR(rt.ctl.orch->up);
	WAIT_FOR(num_active() == 1);
	close(s);
	WAIT_FOR(num_active() == 0);
	s = client("near", &pd);
	WAIT_FOR(num_active() == 1);
	close(s);
}

/* Away; meanwhile it was moved and came back. */
static void what_was_missed_is_made_up_for(void **state)
{
	uint32_t pd;
	char byte;
	int s;

	(void)state;
	say_ok(FAR);
	WAIT_FOR(path(50) == DIR_REMOTE);
	s = client("near", &pd);
	ffo_stop();
	WAIT_FOR(!rt.ctl.orch->up);
	close(h1);
	assert_int_equal(path(50), DIR_REMOTE); /* from what is known */
	assert_int_equal(path(51), DIR_WAIT);
	/* the other host is quicker to be back */
	orch_hold();
	ffo_start();
	host_start();
	say_ok("{'op':'container_set','id':4,'name':'near','host':'h1','force':1}");
	say_ok("{'op':'container_set','id':5,'name':'near','host':'h0','force':1}");
	say_ok("{'op':'container_rm','id':6,'name':'far'}");
	orch_release();
	WAIT_FOR(container_find(&rt.ctl, "near")->epoch == 3);
	WAIT_FOR(recv(s, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET);
	WAIT_FOR(path(50) == DIR_NOBODY);
	WAIT_FOR(path(51) == DIR_NOBODY);
	close(s);
}

static void groups_are_of_all_hosts(void **state)
{
	union ibv_gid g = { .raw = { 0xff, 0x12, [15] = 5 } };
	struct wire_peer **peers;
	int n = -1;

	(void)state;
	fast_lock(rt.ctl.host);
	dir_mcast_member(rt.ctl.host->threads[0], "default", &g, true);
	fast_unlock(rt.ctl.host);
	say_ok("{'op':'mcast_watch','id':3,'tenant':'default','mgid':'ff12::5'}");
	WAIT_FOR(heard("mcast", "hosts", "\"h0\""));
	say_ok("{'op':'mcast_join','id':4,'tenant':'default','mgid':'ff12::5'}");
	do {
		fast_lock(rt.ctl.host);
		n = dir_mcast(rt.ctl.host->threads[0], "default", &g, &peers);
		fast_unlock(rt.ctl.host);
		uv_run(&rt.loop, UV_RUN_ONCE);
	} while (n < 0);
	fast_lock(rt.ctl.host);
	dir_mcast_member(rt.ctl.host->threads[0], "default", &g, false);
	fast_unlock(rt.ctl.host);
	WAIT_FOR(heard("mcast", "hosts", "[{\"name\":\"h1\""));
}

static bool allowed(const char *tenant)
{
	bool yes;

	fast_lock(rt.ctl.host);
	yes = dir_allowed(rt.ctl.host, container_find(&rt.ctl, "near"), tenant, "x");
	fast_unlock(rt.ctl.host);
	return yes;
}

/* What the router does not serve itself goes to the orchestrator as it is, but not what is a host's to ask. */
static void operators_ops_are_passed_on(void **state)
{
	static const char *const hosts[] = { "hello",	    "host_register",	"map_drop",
					     "map_publish", "container_active", "resolve" };
	char text[64];
	json_t *j;

	(void)state;
	j = ask("{\"op\":\"container_get\",\"name\":\"near\"}");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(j, "container"), "host")), "h0");
	json_decref(j);
	ask_fails("{\"op\":\"host_list\",\"unknown\":1}", "EINVAL");
	for (unsigned i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		snprintf(text, sizeof(text), "{\"op\":\"%s\",\"container\":1}", hosts[i]);
		ask_fails(text, "EOPNOTSUPP");
	}
	/* a change is made unless its try is understood, and only what can be tried is */
	ask_fails("{\"op\":\"store_accept\",\"dry_run\":1}", "EINVAL");
	ask_fails("{\"op\":\"container_set\",\"name\":\"near\",\"limits\":{},\"dry_run\":true}",
		  "EINVAL");
	json_decref(ask("{\"op\":\"container_rm\",\"name\":\"near\",\"dry_run\":true}"));
	assert_int_equal(count("{\"op\":\"containers\"}", "containers"), 1);
}

static void the_policy_is_for_all_hosts(void **state)
{
	(void)state;
	assert_false(allowed("red"));
	say_ok("{'op':'policy_set','id':3,'a':'red','b':'default','action':'allow'}");
	WAIT_FOR(allowed("red"));
	json_decref(ask("{\"op\":\"policy_set\",\"a\":\"default/near\",\"b\":\"red\","
			"\"action\":\"deny\"}"));
	WAIT_FOR(!allowed("red"));
	assert_int_equal(count("{\"op\":\"policy_list\"}", "rules"), 2);
	json_decref(ask("{\"op\":\"policy_rm\",\"a\":\"red\",\"b\":\"default/near\"}"));
	WAIT_FOR(allowed("red"));
	ask_fails("{\"op\":\"policy_rm\",\"a\":\"red\",\"b\":\"default/near\"}", "ENOENT");
	ask_fails("{\"op\":\"policy_set\",\"a\":\"r d\",\"b\":\"b\",\"action\":\"deny\"}",
		  "EINVAL");
	json_decref(ask("{\"op\":\"policy_rm\",\"a\":\"red\",\"b\":\"default\",\"dry_run\":1}"));
	assert_int_equal(count("{\"op\":\"policy_list\"}", "rules"), 1);
	/* it is known before there are containers to which it applies */
	ffo_stop();
	WAIT_FOR(!rt.ctl.orch->up);
	assert_true(allowed("red"));
	ffo_start();
	WAIT_FOR(rt.ctl.orch->up);
	assert_true(allowed("red"));
}

static uint64_t tenant_max_qp(const char *name)
{
	uint64_t max = 0;
	struct tenant *t;

	fast_lock(rt.ctl.host);
	LIST_FOREACH(t, &rt.ctl.host->tenants, entry)
		if (!strcmp(t->name, name))
			max = t->limits.max_qp;
	fast_unlock(rt.ctl.host);
	return max;
}

/* They are kept while the orchestrator is away; what is changed meanwhile holds afterwards. */
static void limits_are_in_force(void **state)
{
	struct container *c = container_find(&rt.ctl, "near");
	uint32_t pd;
	int s;

	(void)state;
	s = client("near", &pd);
	say_ok("{'op':'container_set','id':3,'name':'near','limits':{'max_cq':5}}");
	WAIT_FOR(c->limits.max_cq == 5);
	json_decref(ask("{\"op\":\"container_set\",\"name\":\"near\",\"limits\":{\"max_qp\":3}}"));
	assert_int_equal(c->limits.max_qp, 3);
	assert_int_equal(c->limits.max_cq, 5);
	assert_false(LIST_EMPTY(&c->sessions)); /* its programs did not notice */
	ask_fails("{\"op\":\"container_set\",\"name\":\"near\",\"mode\":\"spin\",\"limits\":{}}",
		  "EBUSY");
	ask_fails("{\"op\":\"container_set\",\"name\":\"near\",\"limits\":{\"max\":3}}", "EINVAL");

	say_ok("{'op':'tenant_set','id':3,'tenant':'default','limits':{'max_qp':7}}");
	json_decref(ask("{\"op\":\"tenant_set\",\"tenant\":\"red\",\"limits\":{\"max_qp\":8}}"));
	WAIT_FOR(tenant_max_qp("default") == 7 && tenant_max_qp("red") == 8);
	assert_int_equal(count("{\"op\":\"tenant_list\"}", "tenants"), 2);
	ffo_stop();
	WAIT_FOR(!rt.ctl.orch->up);
	assert_int_equal(tenant_max_qp("default"), 7);
	ffo_start();
	orch_hold();
	close(h1);
	host_start();
	say_ok("{'op':'tenant_set','id':3,'tenant':'red','limits':{'max_qp':0}}");
	orch_release();
	WAIT_FOR(rt.ctl.orch->up);
	assert_int_equal(tenant_max_qp("red"), 0);
	assert_int_equal(tenant_max_qp("default"), 7);
	assert_int_equal(c->limits.max_qp, 3);
	close(s);
}

/* How often the router has applied what this asks for, when all events about it have come. */
static unsigned times(const unsigned *counter, const char *request)
{
	unsigned before = *counter;

	json_decref(ask("%s", request));
	json_decref(ask("{\"op\":\"host_list\"}")); /* behind the events of this turn */
	json_decref(ask("{\"op\":\"host_list\"}"));
	return *counter - before;
}

#define LIMIT(n) "{\"op\":\"container_set\",\"name\":\"near\",\"limits\":{\"max_qp\":" #n "}}"

/* The router applies a change once, whoever asks for it, and whether the store tells its watchers or its caller first. */
static void a_change_is_applied_once(void **state)
{
	struct container *c = container_find(&rt.ctl, "near");
	unsigned before;

	(void)state;
	assert_int_equal(times(&applied.containers, LIMIT(3)), 1);
	assert_int_equal(c->limits.max_qp, 3);
	assert_int_equal(times(&applied.containers, LIMIT(3)), 0); /* no change */
	before = applied.containers;
	say_ok("{'op':'container_set','id':3,'name':'near','limits':{'max_qp':4}}");
	WAIT_FOR(c->limits.max_qp == 4);
	assert_int_equal(applied.containers - before, 1);

	assert_int_equal(
		times(&applied.tenants,
		      "{\"op\":\"tenant_set\",\"tenant\":\"red\",\"limits\":{\"max_qp\":8}}"),
		1);
	assert_int_equal(tenant_max_qp("red"), 8);
	assert_int_equal(
		times(&applied.policies,
		      "{\"op\":\"policy_set\",\"a\":\"red\",\"b\":\"default\",\"action\":\"allow\"}"),
		1);
	assert_true(allowed("red"));

	late_begin();
	assert_int_equal(times(&applied.containers, LIMIT(5)), 1);
	assert_int_equal(c->limits.max_qp, 5);
	/* the event attaches a new container, and the answer finds it */
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"new\",\"cgroup\":\"/x\"}"));
	assert_string_equal(((struct container_ctl *)container_find(&rt.ctl, "new")->ctl)->cgroup,
			    "/x");
	late_stop();
}

/* ---- another store ----------------------------------------------------------------------------- */

/* Of the orchestrator, which does not run: `from` becomes `to`; NULL: nothing. */
static void store_file(const char *from, const char *to)
{
	char a[64], b[64];

	snprintf(a, sizeof(a), "%s/%s", dir, from ? from : to);
	snprintf(b, sizeof(b), "%s/%s", dir, to);
	assert_int_equal(from ? rename(a, b) : unlink(b), 0);
}

static void store_copy(const char *to)
{
	char text[160];

	snprintf(text, sizeof(text), "cp %s/ffo.db %s/%s", dir, dir, to);
	assert_int_equal(system(text), 0);
}

static bool refused(const char *word)
{
	struct orch_state o;

	orch_state(rt.ctl.orch, &o);
	return !o.up && strstr(o.why, word);
}

/* Of the one container in the store. */
static json_int_t stored_max_qp(void)
{
	json_t *j = ask("{\"op\":\"container_list\"}"), *list = json_object_get(j, "containers");
	json_t *limits = json_object_get(json_array_get(list, 0), "limits");
	json_int_t n = json_integer_value(json_object_get(limits, "max_qp"));

	assert_int_equal(json_array_size(list), 1);
	json_decref(j);
	return n;
}

static void accept_store(json_int_t kept, json_int_t gone)
{
	json_t *j = ask("{\"op\":\"store_accept\"}");

	assert_int_equal(json_integer_value(json_object_get(j, "kept")), kept);
	assert_int_equal(json_integer_value(json_object_get(j, "gone")), gone);
	json_decref(j);
}

/* Its socket goes as the loop runs on. */
static void ffo_end(void)
{
	ffo_stop();
	for (int i = 0; i < 20; i++)
		uv_run(&rt.loop, UV_RUN_NOWAIT);
}

static void away(void)
{
	ffo_end();
	WAIT_FOR(!rt.ctl.orch->up);
	close(h1);
}

/* What runs goes on, here and on the other host, until an operator tells to take it, and afterwards. */
static void an_empty_store_is_not_taken(void **state)
{
	struct container *c = container_find(&rt.ctl, "near");
	uint32_t pd, id;
	int s;

	(void)state;
	json_decref(ask("{\"op\":\"container_set\",\"name\":\"near\",\"limits\":{\"max_qp\":3}}"));
	say_ok(FAR);
	WAIT_FOR(path(50) == DIR_REMOTE);
	id = far->id;
	s = client("near", &pd);
	away();
	store_file(NULL, "ffo.db");
	ffo_start();
	WAIT_FOR(refused("another store"));
	assert_ptr_equal(container_find(&rt.ctl, "near"), c);
	assert_int_equal(count("{\"op\":\"containers\"}", "containers"), 1);
	ask_fails("{\"op\":\"container_rm\",\"name\":\"near\"}", "ENOTCONN");

	accept_store(1, 0);
	WAIT_FOR(rt.ctl.orch->up);
	assert_int_equal(stored_max_qp(), 3);
	assert_ptr_equal(container_find(&rt.ctl, "near"), c);
	assert_int_equal(c->limits.max_qp, 3);
	assert_false(LIST_EMPTY(&c->sessions));
	ask_fails("{\"op\":\"store_accept\"}", "EINVAL");
	host_start();
	json_decref(say("{'op':'container_get','id':3,'name':'near'}"));
	for (int i = 0; i < 20; i++) { /* the store says that nobody has it, and that is heard */
		json_decref(say("{'op':'host_list','id':9}"));
		assert_int_equal(path(50), DIR_REMOTE);
	}
	assert_int_equal(far->id, id);
	assert_int_equal(map(99, 0x1000), MAP_OK); /* its host decides */

	say_ok("{'op':'container_add','id':4,'name':'far','ips':['10.77.0.50'],"
	       "'container':%u,'lid':%u,'epoch':1}",
	       id, far->lid);
	WAIT_FOR(map(99, 0x1000) == MAP_WAIT); /* it is known what it has published: not this */
	say_ok("{'op':'container_rm','id':5,'name':'far'}");
	WAIT_FOR(path(50) == DIR_NOBODY);
	close(s);
	/* and the store that it took is the one that it knows */
	ffo_end();
	ffo_start();
	WAIT_FOR(rt.ctl.orch->up);
}

static void a_backup_is_not_taken(void **state)
{
	uint32_t id;

	(void)state;
	away();
	store_copy("old");
	ffo_start();
	WAIT_FOR(rt.ctl.orch->up);
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"late\"}"));
	id = container_find(&rt.ctl, "late")->id;
	host_start();
	away();
	store_copy("new");
	store_file("old", "ffo.db");
	ffo_start();
	WAIT_FOR(refused("older than this host's container late"));
	ffo_end();
	store_file("new", "ffo.db");
	ffo_start();
	WAIT_FOR(rt.ctl.orch->up);
	store_copy("new");
	assert_int_equal(container_find(&rt.ctl, "late")->id, id);

	/* moved and back: an earlier epoch */
	host_start();
	say_ok("{'op':'container_set','id':4,'name':'late','host':'h1'}");
	WAIT_FOR(!container_find(&rt.ctl, "late"));
	json_decref(ask("{\"op\":\"container_migrate\",\"name\":\"late\"}"));
	assert_int_equal(container_find(&rt.ctl, "late")->epoch, 3);
	away();
	store_file("new", "ffo.db");
	ffo_start();
	WAIT_FOR(refused("older than this host's container late"));
	ask_fails("{\"op\":\"store_accept\"}", "ENOTCONN"); /* its epoch would go back */
	host_start();
	say_ok("{'op':'container_rm','id':4,'name':'late'}");
	accept_store(1, 0);
	assert_int_equal(container_find(&rt.ctl, "late")->epoch, 3);
	assert_int_equal(container_find(&rt.ctl, "late")->id, id);
}

/* Another container has the address by now: that is the one which counts. */
static void a_store_may_have_somebody_else(void **state)
{
	(void)state;
	away();
	store_file(NULL, "ffo.db");
	ffo_start();
	WAIT_FOR(refused("another store"));
	host_start();
	say_ok("{'op':'container_add','id':3,'name':'other','ips':['10.77.0.9']}");
	accept_store(0, 1);
	assert_null(container_find(&rt.ctl, "near"));
	assert_false(there("containers/near"));
}

/* A socket that takes connections and is silent: administrators are served nevertheless. */
static void silence_is_not_waited_for(void **state)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char at[128];

	(void)state;
	if (make_dir())
		fail();
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/ffo.sock", dir);
	assert_int_equal(bind(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(s, 5), 0);
	snprintf(at, sizeof(at), "unix:%s", sa.sun_path);
	start_at(at, NULL); /* returns when there is an admin socket */
	assert_false(rt.ctl.orch->up);
	json_decref(ask("{\"op\":\"version\"}"));
	ask_fails("{\"op\":\"host_list\"}", "ENOTCONN");
	stop();
	close(s);
	assert_int_equal(remove_dir(), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(T(another_hosts_container_is_found), T(its_memory_is_known),
			T(a_container_that_runs_is_moved_by_force_only),
			T(a_container_that_just_began_is_not_moved),
			T(moves_that_fail_leave_nothing), T(who_runs_is_told),
			T(what_was_missed_is_made_up_for), T(groups_are_of_all_hosts),
			T(operators_ops_are_passed_on), T(the_policy_is_for_all_hosts),
			T(limits_are_in_force), T(a_change_is_applied_once),
			T(an_empty_store_is_not_taken), T(a_backup_is_not_taken),
			T(a_store_may_have_somebody_else),
			cmocka_unit_test(silence_is_not_waited_for));
}
