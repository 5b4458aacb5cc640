/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_reload.c - a configuration that is read again: which options need a restart, and what the others do to a router
 * that runs.
 * build: tests/rig/unit/router_rig.c
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/conf.c"
#include "ffr/reload.c"
#include "tests/rig/unit/router_rig.h"

static void parse(struct ffr_conf *c, const char *text)
{
	char err[256], copy[1024];

	snprintf(copy, sizeof(copy), "%s", text);
	if (conf_parse(c, "test", copy, err, sizeof(err)))
		fail_msg("%s", err);
}

/* ---- what needs a restart ---------------------------------------------------------------------- */

static const struct {
	const char *name, *value; /* another one than the default; NULL: it takes effect at once */
} options[] = {
	{ "runtime_dir", "/x" },
	{ "admin_socket", "/x" },
	{ "user", "x" },
	{ "engine_group", "x" },
	{ "hostname", "x" },
	{ "log_level", NULL },
	{ "sandbox", "off" },
	{ "mode", "spin" },
	{ "spin", "auto" },
	{ "fast_threads", "2" },
	{ "fast_cpu", "{1}" },
	{ "priority", "2" },
	{ "realtime", "false" },
	{ "spin_us", "7" },
	{ "quantum", "5000" },
	{ "latency_share", "7" },
	{ "memory_workers", "7" },
	{ "counters", "basic" },
	{ "nic", "x" },
	{ "nic_port", "2" },
	{ "nic_gid_index", "{3}" },
	{ "nic_direct", "true" },
	{ "nic_network", "x" },
	{ "rio_port", "1\nwire_listen = \"tcp:192.0.2.1:7471\"\nwire_tls = false" },
	{ "orchestrator", "\"unix:/x\"" },
	{ "store", "/x" },
	{ "pools", "{\"10.1.0.0/16\"}" },
	{ "cluster", "x" },
	{ "metrics", NULL },
	{ "wire_listen", "\"tcp:192.0.2.1:7471\"\nwire_tls = false" },
	{ "wire_advertise", "\"tcp:192.0.2.1:7471\"" },
	{ "wire_tls", "false" },
	{ "wire_cert", "/x" },
	{ "wire_key", "/x" },
	{ "wire_ca", "/x" },
	{ "wire_crl", "/x" },
	{ "wire_check_address", "false" },
	{ "fence_after", "7" },
	{ "limits", NULL },
	{ "defaults", NULL },
};

static const char *value_of(const char *name)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (!strcmp(options[i].name, name))
			return options[i].value;
	fail_msg("%s: does it need a restart?", name);
	return NULL;
}

static void each_option_is_told(void **state)
{
	cfg_t *all = conf_open();
	struct ffr_conf a, b;
	char text[128];

	(void)state;
	parse(&a, "nic = y\n");
	for (const cfg_opt_t *opt = all->opts; opt->name; opt++) {
		const char *value = value_of(opt->name);
		struct names n = { .len = 0 }, none = { .len = 0 };

		if (!value)
			continue;
		snprintf(text, sizeof(text), "%s%s = %s\n",
			 !strcmp(opt->name, "nic") ? "" : "nic = y\n", opt->name, value);
		parse(&b, text);
		need_restart(&b, &b, &none);
		assert_string_equal(none.text, "");
		need_restart(&a, &b, &n);
		if (!strstr(value, "\n"))
			assert_string_equal(n.text, opt->name);
		else
			assert_non_null(strstr(n.text, opt->name));
		conf_free(&b);
	}
	conf_free(&a);
	cfg_free(all);
}

/* A log line has an end. */
static void many_names(void **state)
{
	struct names n = { .len = 0 };

	(void)state;
	for (int i = 0; i < 200; i++)
		name_add(&n, "wire_check_address");
	assert_int_equal(strlen(n.text), sizeof(n.text) - 1);
	assert_int_equal(n.len, sizeof(n.text) - 1);
}

/* ---- what takes effect ----------------------------------------------------------------------------- */

static void reload(const char *text)
{
	struct ffr_conf next;

	parse(&next, text);
	router_reload(&rt, &next);
	conf_free(&next);
}

static void levels(void **state)
{
	(void)state;
	reload("log_level = debug\n");
	assert_int_equal(log_level, LOG_LEVEL_DEBUG);
	assert_int_equal(rt.conf.log_level, LOG_LEVEL_DEBUG);
	reload("");
	assert_int_equal(log_level, LOG_LEVEL_INFO);
}

/* Of containers that are there; what an operator has set for one stays. */
static void defaults_and_limits(void **state)
{
	uint32_t before;

	(void)state;
	reload("");
	before = rt.ctl.dev.max_qp;
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"web\"}"));
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"db\",\"limits\":{\"max_qp\":9}}"));
	reload("limits {\nmax_qp = 100\nmax_mw = 3\n}\ndefaults {\nmax_qp = 7\n}\n");
	assert_int_equal(rt.ctl.dev.max_qp, 100);
	assert_int_equal(rt.ctl.conf.limits.max_mw, 3);
	assert_int_equal(container_find(&rt.ctl, "web")->limits.max_qp, 7);
	assert_int_equal(container_find(&rt.ctl, "db")->limits.max_qp, 9);
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"new\"}"));
	assert_int_equal(container_find(&rt.ctl, "new")->limits.max_qp, 7);
	reload("");
	assert_int_equal(rt.ctl.dev.max_qp, before); /* what the device can do is not forgotten */
	assert_int_equal(container_find(&rt.ctl, "web")->limits.max_qp, 65536);
}

static const char *metrics_at(const char *name)
{
	static char text[128];

	snprintf(text, sizeof(text), "metrics = \"unix:%s/%s\"\n", dir, name);
	return text;
}

static bool is_served(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !access(path, F_OK);
}

static void metrics_move(void **state)
{
	(void)state;
	reload(metrics_at("a"));
	assert_true(is_served("a"));
	reload(metrics_at("a"));
	assert_true(is_served("a"));
	reload(metrics_at("b"));
	assert_true(is_served("b") && !is_served("a"));
	reload(metrics_at("none/c")); /* cannot be */
	assert_true(is_served("b"));
	assert_non_null(strstr(rt.conf.metrics, "/b"));
	rt.alone = true;
	reload("metrics = \"tcp:127.0.0.1:1\"\n"); /* of its own network */
	assert_true(is_served("b"));
	assert_non_null(strstr(rt.conf.metrics, "/b"));
	reload("");
	assert_false(is_served("b"));
	assert_null(rt.conf.metrics);
	assert_null(rt.metrics);
}

int main(void)
{
	return UNIT_RUN(
		cmocka_unit_test(each_option_is_told), cmocka_unit_test(many_names),
		cmocka_unit_test_setup_teardown(levels, router_setup, router_teardown),
		cmocka_unit_test_setup_teardown(defaults_and_limits, router_setup, router_teardown),
		cmocka_unit_test_setup_teardown(metrics_move, router_setup, router_teardown));
}
