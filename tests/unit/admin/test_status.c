/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_status.c - the status page's numbers: what is in them and what is not, names of any kind, what is left out where
 * there is much, and that they are made in steps.
 * build: tests/rig/unit/router_rig.c
 */
#include "tests/rig/unit/router_rig.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffr/admin/status.c"
#include "ffr/fast/backend.h"

static struct metrics_conf conf;

static int setup(void **state)
{
	signal(SIGPIPE, SIG_IGN); /* as ffr does */
	if (router_setup(state))
		return -1;
	conf = (struct metrics_conf){ .host = "h0", .loop = &rt.loop, .ctl = &rt.ctl };
	return 0;
}

static struct container *added(const char *name)
{
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"%s\"}", name));
	return container_find(&rt.ctl, name);
}

/* The rest of its steps, and what came of them. */
static char *finish(struct status *s)
{
	size_t len;
	char *text;

	while (status_step(s))
		;
	text = status_end(s, &len);
	assert_non_null(text);
	assert_int_equal(strlen(text), len);
	return text;
}

static json_t *json_of(struct status *s)
{
	char *text = finish(s);
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	free(text);
	assert_true(json_is_object(j));
	return j;
}

static json_t *get(json_t *j, const char *key)
{
	json_t *v = json_object_get(j, key);

	assert_non_null(v);
	return v;
}

static json_int_t number(json_t *j, const char *key)
{
	assert_true(json_is_integer(get(j, key)));
	return json_integer_value(get(j, key));
}

static const char *text_of(json_t *j, const char *key)
{
	return json_string_value(get(j, key));
}

/* ---- what is there ------------------------------------------------------------------------------ */

static void numbers_are_those_of_the_router(void **state)
{
	struct container *web = added("web");
	uint32_t pd;
	int s = client("web", &pd);
	json_t *j, *c;

	(void)state;
	reg(s, pd);
	web->stats.tx_bytes = 1000;
	lat_count(&web->lat, 1000, 3);
	web->limits.tx_rate = 125000;
	j = json_of(status_begin(&conf));
	assert_int_equal(json_array_size(get(j, "containers")), 1);
	c = json_array_get(get(j, "containers"), 0);
	assert_string_equal(text_of(c, "name"), "web");
	assert_string_equal(text_of(c, "tenant"), "default");
	assert_true(json_is_true(get(c, "exact")));
	assert_int_equal(number(get(c, "counters"), "tx_bytes"), 1000);
	assert_int_equal(number(get(c, "latency"), "count"), 3);
	assert_int_equal(number(get(c, "limits"), "tx_rate"), 125000);
	assert_int_equal(number(get(c, "usage"), "max_session"), 1);
	assert_int_equal(number(get(c, "usage"), "max_mr"), 1);
	assert_string_equal(text_of(get(j, "router"), "host"), "h0");
	assert_true(json_is_true(get(get(j, "router"), "orchestrator_up")));
	assert_int_equal(json_array_size(get(j, "traffic_problems")), NUM_TRAFFIC_PROBLEMS);
	for (size_t i = 0; i < NUM_TRAFFIC_PROBLEMS; i++) /* what the page looks for in counters */
		assert_true(json_is_integer(
			json_object_get(get(c, "counters"), traffic_problem[i].counter)));
	json_decref(j);
	close(s);
}

static void unlimited_is_no_limit(void **state)
{
	struct container *web = added("web");
	json_t *j, *limits;

	(void)state;
	web->limits.max_qp = FFO_UNLIMITED;
	web->limits.max_cq = 5;
	j = json_of(status_begin(&conf));
	limits = get(json_array_get(get(j, "containers"), 0), "limits");
	assert_null(json_object_get(limits, "max_qp"));
	assert_int_equal(number(limits, "max_cq"), 5);
	json_decref(j);
}

/* The metrics have none of these, and are read by the same. */
static void nothing_of_processes_paths_and_addresses(void **state)
{
	static const char *const secret[] = { "/tmp/",	 "10.77.1.2", "/docker/abc",
					      "\"pid\"", "pid ",      "test" };
	json_t *j, *e;
	bool opened = false;
	uint32_t pd;
	char *text;
	size_t i;
	int s;

	(void)state;
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"web\",\"ips\":[\"10.77.1.2\"]}"));
	s = client("web", &pd);
	json_decref(ask("{\"op\":\"container_set\",\"name\":\"web\",\"cgroup\":\"/docker/abc\"}"));
	event_add(EVENT_DISCONNECTED, NULL, "orchestrator unix:/tmp/ffo.sock: test");
	text = finish(status_begin(&conf));
	for (i = 0; i < sizeof(secret) / sizeof(secret[0]); i++)
		if (strstr(text, secret[i]))
			fail_msg("\"%s\" is in %s", secret[i], text);
	j = json_loads(text, 0, NULL);
	json_array_foreach(get(j, "events"), i, e)
		opened |= !strcmp(text_of(e, "event"), "opened") &&
			  !strcmp(text_of(e, "container"), "web");
	assert_true(opened);
	json_decref(j);
	free(text);
	close(s);
}

static void any_name_is_one_string(void **state)
{
	static const char name[] = "a\"}<img src=x onerror=alert(1)>\\\n\x01";
	struct container *web = added("web");
	json_t *j;

	(void)state;
	strcpy(web->name, name); /* ffr gives none like that a container */
	j = json_of(status_begin(&conf));
	assert_string_equal(text_of(json_array_get(get(j, "containers"), 0), "name"), name);
	json_decref(j);
	strcpy(web->name, "web");
}

static void problems_have_advice(void **state)
{
	struct container *web = added("web");
	struct container_heard *h = &((struct container_ctl *)web->ctl)->heard;
	json_t *j, *p;
	bool quota = false, of_tenant = false, refused = false;
	size_t i;

	(void)state;
	web->limits.max_qp = 3;
	web->quota.use.used[QUOTA_QP] = 3;
	web->of->limits.max_cq = 5;
	web->of->use.used[QUOTA_CQ] = 5;
	h->refused = 2;
	j = json_of(status_begin(&conf));
	web->quota.use.used[QUOTA_QP] = 0;
	web->of->limits.max_cq = web->of->use.used[QUOTA_CQ] = 0;
	json_array_foreach(get(j, "problems"), i, p) {
		if (strstr(text_of(p, "text"), "container web: it has all 3 of max_qp"))
			quota = !strcmp(text_of(p, "advice"), ADVICE_QUOTA);
		if (strstr(text_of(p, "text"), "container web: its tenant has all 5 of max_cq"))
			of_tenant = !strcmp(text_of(p, "advice"), ADVICE_TENANT_QUOTA);
		if (strstr(text_of(p, "text"), "container web: 2 programs were refused"))
			refused = !strcmp(text_of(p, "advice"), ADVICE_REFUSED);
	}
	assert_true(quota);
	assert_true(of_tenant);
	assert_true(refused);
	json_decref(j);
}

/* ---- much of it -------------------------------------------------------------------------------- */

static void many_containers_are_cut_off(void **state)
{
	const unsigned more = 3, n = MAX_CONTAINERS + more;
	struct fast_host *h = rt.ctl.host;
	struct container *c = calloc(n, sizeof(*c));
	struct container_ctl *ctl = calloc(n, sizeof(*ctl));
	struct tenant tenant = { 0 };
	struct status *s;
	json_t *j;

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		c[i].id = i + 1;
		c[i].fast = h->threads[0];
		c[i].ctl = &ctl[i];
		c[i].of = &tenant;
		ctl[i].heard.refused = 1;
		snprintf(c[i].name, sizeof(c[i].name), "c%u", i);
		LIST_INSERT_HEAD(&h->containers, &c[i], entry);
	}
	s = status_begin(&conf);
	j = json_of(s);
	for (unsigned i = 0; i < n; i++)
		LIST_REMOVE(&c[i], entry);
	assert_int_equal(json_array_size(get(j, "containers")), MAX_CONTAINERS);
	assert_int_equal(number(j, "containers_left_out"), more);
	assert_int_equal(json_array_size(get(j, "problems")), MAX_PROBLEMS);
	assert_true(number(get(j, "router"), "problems_left_out") >= MAX_CONTAINERS - MAX_PROBLEMS);
	json_decref(j);
	free(c);
	free(ctl);
}

static void many_peers_are_cut_off(void **state)
{
	static const struct send_ops host = { .name = "host" }, wire = { .name = "wire" };
	struct look l = { 0 };
	struct qp qp = { .type = IBV_QPT_RC, .state = IBV_QPS_RTS, .send = &host };

	(void)state;
	qp.attr.ah.is_global = 1;
	qp.stats.tx_bytes = 10;
	for (unsigned i = 0; i < MAX_PEERS + 5; i++) {
		qp.attr.ah.dgid[15] = (uint8_t)i;
		edge_add(&l, &qp);
	}
	assert_int_equal(l.num_edges, MAX_PEERS);
	assert_int_equal(l.left_out, 5);
	qp.attr.ah.dgid[15] = 0; /* one that is there gets more */
	edge_add(&l, &qp);
	assert_int_equal(l.edge[0].qps, 2);
	assert_int_equal(l.edge[0].tx, 20);
	l = (struct look){ 0 };
	edge_add(&l, &qp);
	qp.send = &wire; /* the same peer by another carrier */
	edge_add(&l, &qp);
	qp.state = IBV_QPS_INIT; /* it has no peer yet */
	edge_add(&l, &qp);
	qp.state = IBV_QPS_RTS;
	qp.type = IBV_QPT_UD; /* it has many */
	edge_add(&l, &qp);
	assert_int_equal(l.num_edges, 2);
	assert_int_equal(l.edge[1].qps, 1);
}

/* ---- steps --------------------------------------------------------------------------------------- */

static void a_step_ends_in_the_middle_of_a_container(void **state)
{
	struct container *web = added("web");
	struct obj *none[3 * LOCKED] = { 0 };
	struct session ses = { .id = 7, .cont = web, .fast = web->fast };
	struct status *s = status_begin(&conf);
	json_t *j;

	(void)state;
	ses.tab[OBJ_QP].slot = none;
	ses.tab[OBJ_QP].size = 3 * LOCKED;
	LIST_INSERT_HEAD(&web->sessions, &ses, entry);
	s->next = web->id;
	assert_false(look(&s->look, web, 0)); /* no time */
	assert_int_equal(s->look.ses, 7);
	assert_int_equal(s->look.at, LOCKED); /* each step gets on */
	ses.stats.tx_bytes = 100;	      /* QPs go now, and theirs becomes the session's */
	j = json_of(s);
	LIST_REMOVE(&ses, entry);
	assert_true(json_is_false(get(json_array_get(get(j, "containers"), 0), "exact")));
	json_decref(j);
}

/* Between any two steps another session opens, so that there is always one more, and the newest at first closes. */
static void sessions_that_open_meanwhile_put_nothing_off(void **state)
{
	struct container *web = added("web");
	struct session ses[100] = { 0 };
	struct status *s = status_begin(&conf);
	unsigned n = 0, steps = 0;

	(void)state;
	do {
		do {
			assert_true(n < sizeof(ses) / sizeof(ses[0]));
			ses[n].fast = web->fast;
			ses[n].id = n + 1;
			LIST_INSERT_HEAD(&web->sessions, &ses[n], entry);
		} while (++n < 3);
		if (n == 4)
			LIST_REMOVE(&ses[2], entry);
	} while (!look(&s->look, web, 0) && ++steps);
	LIST_INIT(&web->sessions);
	assert_int_equal(steps, 2); /* of the first two sessions */
	free(finish(s));
}

static void a_container_that_goes_between_steps(void **state)
{
	struct container *one = added("one"), *two = added("two");
	struct status *s = status_begin(&conf);
	json_t *j;

	(void)state;
	s->next = one->id;
	s->look = (struct look){ .on = true, .left_out = 9 };
	json_decref(ask("{\"op\":\"container_rm\",\"name\":\"one\"}"));
	j = json_of(s);
	assert_int_equal(json_array_size(get(j, "containers")), 1);
	assert_string_equal(text_of(json_array_get(get(j, "containers"), 0), "name"), two->name);
	assert_int_equal(number(json_array_get(get(j, "containers"), 0), "peers_left_out"), 0);
	json_decref(j);
}

/* ---- over HTTP ------------------------------------------------------------------------------------ */

static int request(const char *path, const char *what)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[128];
	int len = snprintf(text, sizeof(text),
			   "%s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", what);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	assert_int_equal(connect(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(send(s, text, (size_t)len, MSG_NOSIGNAL), len);
	return s;
}

/* All of the answer. */
static char *answer(int s)
{
	static char text[1 << 20];
	size_t len = 0;
	ssize_t n = -1;

	while (n) {
		WAIT_FOR((n = recv(s, text + len, sizeof(text) - 1 - len, MSG_DONTWAIT)) >= 0);
		len += (size_t)n;
	}
	text[len] = '\0';
	close(s);
	return text;
}

/* Two that ask at the same time get one answer, and a third one soon after them. */
static void one_answer_serves_all(void **state)
{
	char path[64], where[80], body[65536], *text;
	struct container *web;
	struct metrics *m;
	int one, two;
	json_t *j;

	(void)state;
	web = added("web");
	snprintf(path, sizeof(path), "%s/metrics", dir);
	snprintf(where, sizeof(where), "unix:%s", path);
	conf.where = where;
	assert_int_equal(metrics_start(&m, &conf), 0);
	one = request(path, "GET /status.json");
	two = request(path, "GET /status.json");
	text = answer(one);
	assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\n"));
	assert_non_null(strstr(text, "\r\nContent-Type: application/json\r\n"));
	assert_non_null(strstr(text, "\r\nX-Content-Type-Options: nosniff\r\n"));
	assert_non_null(strstr(text, "\r\nCross-Origin-Resource-Policy: same-origin\r\n"));
	text = strstr(text, "\r\n\r\n") + 4;
	j = json_loads(text, 0, NULL);
	assert_int_equal(json_array_size(get(j, "containers")), 1);
	json_decref(j);
	snprintf(body, sizeof(body), "%s", text);
	assert_string_equal(strstr(answer(two), "\r\n\r\n") + 4, body);
	web->stats.tx_bytes = 1; /* it would be another answer now */
	assert_string_equal(strstr(answer(request(path, "GET /status.json")), "\r\n\r\n") + 4,
			    body);
	text = answer(request(path, "HEAD /status.json"));
	assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\n"));
	assert_int_equal(strlen(strstr(text, "\r\n\r\n")), 4);
	metrics_stop(m);
}

/* It is stopped, as a reload does, while somebody waits for an answer. */
static void stopped_while_one_waits(void **state)
{
	char path[64], where[80];
	struct metrics *m;
	int s;

	(void)state;
	snprintf(path, sizeof(path), "%s/metrics", dir);
	snprintf(where, sizeof(where), "unix:%s", path);
	conf.where = where;
	for (int turns = 0; turns < 6; turns++) {
		assert_int_equal(metrics_start(&m, &conf), 0);
		s = request(path, "GET /status.json");
		for (int i = 0; i < turns; i++)
			uv_run(&rt.loop, UV_RUN_NOWAIT);
		metrics_stop(m);
		answer(s); /* it ends */
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, router_teardown)

int main(void)
{
	return UNIT_RUN(TEST(numbers_are_those_of_the_router), TEST(unlimited_is_no_limit),
			TEST(nothing_of_processes_paths_and_addresses),
			TEST(any_name_is_one_string), TEST(problems_have_advice),
			TEST(many_containers_are_cut_off), TEST(many_peers_are_cut_off),
			TEST(a_step_ends_in_the_middle_of_a_container),
			TEST(sessions_that_open_meanwhile_put_nothing_off),
			TEST(a_container_that_goes_between_steps), TEST(one_answer_serves_all),
			TEST(stopped_while_one_waits));
}
