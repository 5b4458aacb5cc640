/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* dir_rig.c - see dir_rig.h. */
#include "tests/rig/unit/dir_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/rig/fakes/fake_backend.h"

#define MAX_CALLS 8192
#define MAX_TOLD  8192
#define MAX_PEERS 16

struct dir_rig dir_rig;

static struct {
	enum ffo_op op;
	json_t *fields;
	ffo_reply_cb cb;
	void *arg;
} calls[MAX_CALLS];
static unsigned num_calls, first_call;

static struct remote *remotes[MAX_TOLD];
static unsigned num_remotes, num_policy, num_mcast;
static struct wire_peer hosts[MAX_PEERS];
static unsigned num_hosts;

/* ---- what the directory calls ---------------------------------------------------------------- */

static void news(struct fast *f, struct remote *r)
{
	(void)f;
	if (!r)
		num_policy++;
	else if (num_remotes < MAX_TOLD)
		remotes[num_remotes++] = r;
}

static const struct carrier carrier = { .news = news };
static const struct carrier_use carriers[] = { { .ops = &carrier }, { 0 } };

static void mcast_changed(struct fast *f, const char *tenant, const union ibv_gid *mgid)
{
	(void)f;
	(void)tenant;
	(void)mgid;
	num_mcast++;
}

static struct backend_ops rig_ops; /* the fake's, but for these */

struct wire_peer *peer_of_host(struct peers *ps, const char *host, const char *instance,
			       const char *wire, bool up)
{
	struct wire_peer *p = hosts;

	(void)ps;
	(void)wire;
	while (p < hosts + num_hosts && strcmp(p->host, host))
		p++;
	if (p == hosts + num_hosts) {
		assert_true(num_hosts < MAX_PEERS);
		num_hosts++;
		*p = (struct wire_peer){ 0 };
		snprintf(p->host, sizeof(p->host), "%s", host);
	}
	snprintf(p->instance, sizeof(p->instance), "%s", instance);
	p->up = up;
	return p;
}

void peers_on_stranger(struct peers *ps, void (*fn)(void *arg, const char *host), void *arg)
{
	(void)ps;
	(void)fn;
	(void)arg;
	abort(); /* there are none */
}

void peer_get(struct wire_peer *p)
{
	p->refs++;
}

void peer_put(struct wire_peer *p)
{
	assert_true(p->refs > 0);
	p->refs--;
}

unsigned peers_live(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < num_hosts; i++)
		n += hosts[i].refs;
	return n;
}

static void ask(struct orch *o, enum ffo_op op, json_t *fields, ffo_reply_cb cb, void *arg)
{
	(void)o;
	assert_true(num_calls < MAX_CALLS);
	assert_non_null(fields);
	calls[num_calls].op = op;
	calls[num_calls].fields = fields;
	calls[num_calls].cb = cb;
	calls[num_calls++].arg = arg;
}

/* ---- ... and whom it told -------------------------------------------------------------------- */

bool told(const struct remote *r)
{
	bool yes = false;

	for (unsigned i = 0; i < num_remotes; i++)
		yes = yes || remotes[i] == r;
	num_remotes = 0;
	return yes;
}

static unsigned take(unsigned *n)
{
	unsigned was = *n;

	*n = 0;
	return was;
}

unsigned told_any(void)
{
	return take(&num_remotes);
}

unsigned told_policy(void)
{
	return take(&num_policy);
}

unsigned told_mcast(void)
{
	return take(&num_mcast);
}

/* ---- the orchestrator ------------------------------------------------------------------------ */

static json_t *text_json(const char *text)
{
	char *copy = strdup(text);
	json_error_t why;
	json_t *j;

	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	j = json_loads(copy, 0, &why);
	if (!j)
		fail_msg("%s: %s", copy, why.text);
	free(copy);
	return j;
}

static void pump(void)
{
	uv_run(&dir_rig.loop, UV_RUN_NOWAIT);
}

void expect(enum ffo_op op, const char *fields)
{
	json_t *want = text_json(fields);
	char *got;

	pump();
	assert_true(first_call < num_calls);
	assert_string_equal(ffo_op_name[calls[first_call].op], ffo_op_name[op]);
	got = json_dumps(calls[first_call].fields, JSON_COMPACT);
	if (!json_equal(want, calls[first_call].fields))
		fail_msg("%s: fields are %s, not %s", ffo_op_name[op], got, fields);
	free(got);
	json_decref(want);
}

void expect_none(void)
{
	pump();
	if (first_call < num_calls)
		fail_msg("there is a call: %s", ffo_op_name[calls[first_call].op]);
}

bool dir_calls_waiting(void)
{
	return first_call < num_calls;
}

bool dir_asked_for(const char *ip)
{
	const char *got;

	for (unsigned i = first_call; i < num_calls; i++) {
		got = json_string_value(json_object_get(calls[i].fields, "ip"));
		if (got && !strcmp(got, ip))
			return true;
	}
	return false;
}

unsigned dir_rig_hosts(void)
{
	return num_hosts;
}

static void end_call(int err, json_t *msg)
{
	unsigned i = first_call++;

	pump();
	assert_true(i < num_calls);
	json_decref(calls[i].fields);
	calls[i].cb(calls[i].arg, err, err ? "it is so" : "", msg);
	json_decref(msg);
	if (first_call == num_calls)
		first_call = num_calls = 0;
	pump();
}

static json_t *vtext_json(const char *fmt, va_list ap)
{
	char *text;
	json_t *j;

	assert_true(vasprintf(&text, fmt, ap) >= 0);
	j = text_json(text);
	free(text);
	return j;
}

void answer(const char *fmt, ...)
{
	va_list ap;
	json_t *j;

	va_start(ap, fmt);
	j = vtext_json(fmt, ap);
	va_end(ap);
	pump();
	end_call(0, j);
}

void answer_error(int err)
{
	pump();
	end_call(err, NULL);
}

void event(const char *fmt, ...)
{
	va_list ap;
	json_t *j;

	va_start(ap, fmt);
	j = vtext_json(fmt, ap);
	va_end(ap);
	assert_true(dir_event(dir_rig.rig.f->host->dir,
			      json_string_value(json_object_get(j, "event")), j));
	json_decref(j);
	pump();
}

void lose_orchestrator(void)
{
	pump();
	while (first_call < num_calls)
		end_call(-ECONNRESET, NULL);
	dir_disconnected(dir_rig.rig.f->host->dir);
	pump();
}

void find_orchestrator(void)
{
	dir_connected(dir_rig.rig.f->host->dir, ask, NULL);
	pump();
}

static const char *keep(char *text)
{
	static char *kept[16];
	static unsigned n;
	char **at = &kept[n++ % 16];

	free(*at);
	*at = text;
	return text;
}

const char *cont_text(uint32_t id, const char *tenant, const char *ip, const char *host,
		      uint32_t epoch)
{
	char *text;

	assert_true(asprintf(&text,
			     "{'id':%u,'name':'c%u','tenant':'%s','ips':['%s'],'lid':%u,"
			     "'mode':'adaptive','host':'%s','epoch':%u,'active':true}",
			     id, id, tenant, ip, id, host, epoch) > 0);
	return keep(text);
}

const char *host_text(const char *name, bool up)
{
	char *text;

	assert_true(asprintf(&text,
			     "{'name':'%s','instance':'1','wire':'tcp:10.9.9.9:7471','up':%s,"
			     "'last_seen':5}",
			     name, up ? "true" : "false") > 0);
	return keep(text);
}

/* ---- paths ----------------------------------------------------------------------------------- */

enum dir_answer path(int from, uint8_t last, struct container **here, struct remote **there)
{
	struct ff_ah_attr ah = { .is_global = 1 };

	memcpy(ah.dgid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0", 15);
	ah.dgid[15] = last;
	return dir_path(dir_rig.rig.f, &dir_rig.rig.cont[from], &ah, here, there);
}

enum dir_answer path_lid(int from, uint16_t lid, struct container **here, struct remote **there)
{
	struct ff_ah_attr ah = { .dlid = lid };

	return dir_path(dir_rig.rig.f, &dir_rig.rig.cont[from], &ah, here, there);
}

/* ---- life ------------------------------------------------------------------------------------ */

int dir_setup(void **state)
{
	struct dir_rig *g = &dir_rig;

	(void)state;
	memset(g, 0, sizeof(*g));
	num_calls = first_call = num_remotes = num_policy = num_mcast = num_hosts = 0;
	rig_ops = fake_ops;
	rig_ops.mcast_changed = mcast_changed;
	rig_carriers = carriers;
	rig_init(&g->rig, &rig_ops);
	rig_carriers = NULL;
	for (unsigned i = 0; i < 4; i++)
		g->rig.cont[i].id = i + 1;
	if (uv_loop_init(&g->loop))
		return -1;
	if (dir_create(
		    &(struct dir_conf){ .loop = &g->loop, .fast = g->rig.f->host, .host = "h0" }))
		return -1;
	dir_connected(g->rig.f->host->dir, ask, NULL);
	return 0;
}

int dir_teardown(void **state)
{
	struct dir_rig *g = &dir_rig;

	(void)state;
	lose_orchestrator();
	dir_free(g->rig.f->host->dir);
	assert_int_equal(peers_live(), 0);
	uv_run(&g->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&g->loop), 0);
	rig_fini(&g->rig);
	return 0;
}
