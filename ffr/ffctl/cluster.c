/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cluster.c - ffctl host list and rm, container migrate and claim, map lookup.
 *
 * Tests: system/bad_options.sh, system/fault_tls.sh, system/host_down.sh
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ffo/base/proto.h"
#include "ffr/ffctl/ffctl.h"

/* ---- hosts --------------------------------------------------------------------------------- */

const char *time_of_day(json_int_t seconds, char buf[32])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	strftime(buf, 32, "%Y-%m-%d %H:%M:%S", localtime_r(&t, &tm));
	return buf;
}

static const char *seen_text(const json_t *host, char when[32])
{
	if (json_is_true(json_object_get(host, "up")))
		return "now";
	return time_of_day(int_of(host, "last_seen"), when);
}

static const char *state_text(const json_t *host)
{
	return json_is_true(json_object_get(host, "up")) ? "up" : "down";
}

void cmd_host_list(int argc, char **argv)
{
	static const char *const heads[] = { "HOST", "STATE", "WIRE", "LAST SEEN", NULL };
	json_t *hosts, *h;
	struct table *t;
	char when[32];
	size_t i;

	no_more(argc, argv, 1);
	hosts = router_list("host_list", "hosts");
	if (json_only(hosts, NULL))
		return;
	t = table_new(heads);
	json_array_foreach(hosts, i, h) {
		const char *wire = json_string_value(json_object_get(h, "wire"));

		table_cell(t, "%s", str_of(h, "name"));
		table_cell(t, "%s", state_text(h));
		table_cell(t, "%s", wire && *wire ? wire : "-");
		table_cell(t, "%s", seen_text(h, when));
	}
	table_print(t);
	json_decref(hosts);
}

void cmd_host_rm(int argc, char **argv)
{
	static const struct option options[] = {
		{ "ignore", no_argument, NULL, 'g' },
		{ "dry-run", no_argument, NULL, 'y' },
		{ 0 },
	};
	json_t *request = json_pack("{s:s}", "op", "host_rm"), *answer;
	bool ignore = false;
	int o;

	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (o != 'g' && o != 'y')
			option_fail(o, argv);
		ignore = ignore || o == 'g';
		dry_run = dry_run || o == 'y';
	}
	if (optind == argc)
		usage_fail("host rm: a host's name is missing");
	no_more(argc, argv, optind + 1);
	json_object_set_new(request, "host", json_string(argv[optind]));
	answer = router_call_unless(change(request), ignore ? "ENOENT" : "");
	dry_run_tell(answer);
	json_decref(answer);
}

/* ---- moving containers ----------------------------------------------------------------------- */

struct move_args {
	const char *name, *to;
	bool force, docker, ask;
};

static void move_parse(struct move_args *a, int argc, char **argv, const char *allowed)
{
	static const struct option options[] = {
		{ "to", required_argument, NULL, 't' },
		{ "force", no_argument, NULL, 'f' },
		{ "docker", no_argument, NULL, 'd' },
		{ "dry-run", no_argument, NULL, 'y' },
		{ 0 },
	};
	struct option some[sizeof(options) / sizeof(options[0])];
	int o;

	options_some(options, allowed, some);
	while ((o = getopt_long(argc, argv, ":", some, NULL)) != -1) {
		if (!strchr(allowed, o))
			option_fail(o, argv);
		if (o == 't')
			a->to = optarg;
		a->force = a->force || o == 'f';
		a->docker = a->docker || o == 'd';
		dry_run = dry_run || o == 'y';
	}
	if (optind == argc)
		usage_fail("container %s: a container's name is missing", argv[0]);
	no_more(argc, argv, optind + 1);
	a->name = argv[optind];
}

static json_t *move(const struct move_args *a)
{
	json_t *answer = router_call_while(change(json_pack("{s:s, s:s, s:s*, s:b, s:b}", "op",
							    "container_migrate", "name", a->name,
							    "host", a->to, "force", (int)a->force,
							    "ask", (int)a->ask)),
					   "EBUSY", BUSY_TRIES);

	if (!json_is_true(json_object_get(answer, "host_up")))
		fprintf(stderr,
			"ffctl: host %s is down: the container will be there when its router is\n",
			str_of(json_object_get(answer, "container"), "host"));
	return answer;
}

void cmd_container_migrate(int argc, char **argv)
{
	struct move_args a = { 0 };
	json_t *answer, *c;

	move_parse(&a, argc, argv, "tfy");
	if (!a.to)
		usage_fail("container migrate: where to? give --to HOST");
	answer = move(&a);
	c = json_object_get(answer, "container");
	dry_run_tell(c);
	if (json_out)
		json_print(c);
	else
		printf("%s %s on %s, epoch %lld\n", str_of(c, "name"), dry_run ? "would be" : "is",
		       str_of(c, "host"), (long long)int_of(c, "epoch"));
	json_decref(answer);
}

/* The orchestrator moves it to the host of the router, which hears of that and has its directory. */
static json_t *claim_as_operator(struct move_args *a)
{
	json_t *router = router_itself(json_pack("{s:s}", "op", "version"), "", 0), *answer;

	a->to = str_of(router, "hostname");
	a->ask = true;
	answer = move(a);
	if (dry_run) {
		json_decref(router);
		return answer;
	}
	json_decref(answer);
	answer = router_itself(json_pack("{s:s, s:s}", "op", "container_show", "name", a->name),
			       "ENOENT", BUSY_TRIES);
	json_decref(router);
	return answer;
}

void cmd_container_claim(int argc, char **argv)
{
	struct move_args a = { 0 };

	move_parse(&a, argc, argv, "fdy");
	if (orch_options.address)
		print_container(claim_as_operator(&a), a.docker);
	else
		print_container(move(&a), a.docker);
}

/* ---- the map ------------------------------------------------------------------------------- */

static uint32_t rkey_parse(const char *text)
{
	unsigned long v;
	char *end;

	errno = 0;
	v = strtoul(text, &end, 0);
	if (errno || end == text || *end || text[0] == '-' || v > UINT32_MAX)
		usage_fail("map lookup: \"%s\" is no rkey: a number, or 0x and hexadecimal digits",
			   text);
	return (uint32_t)v;
}

static void print_lookup(json_t *answer, const struct ffo_map *m)
{
	const json_t *c = json_object_get(answer, "container"),
		     *h = json_object_get(answer, "host");
	char buf[64];

	printf("container  %s\ntenant     %s\nhost       %s\nstate      %s\nepoch      %lld\n",
	       str_of(c, "name"), str_of(c, "tenant"), str_of(c, "host"),
	       h && !json_is_null(h) ? state_text(h) : "unknown", (long long)int_of(c, "epoch"));
	printf("rkey       0x%08x\naddress    0x%llx\nlength     %llu\naccess     %s\n", m->rkey,
	       (unsigned long long)m->addr, (unsigned long long)m->length,
	       access_text(m->access, buf));
	if (m->shadow)
		printf("shadow     0x%llx\n", (unsigned long long)m->shadow);
}

void cmd_map_lookup(int argc, char **argv)
{
	static const struct option options[] = {
		{ "tenant", required_argument, NULL, 't' },
		{ 0 },
	};
	json_t *request = json_pack("{s:s}", "op", "map_get"), *answer;
	struct in6_addr addr;
	struct ffo_map m;
	int o;

	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (o != 't')
			option_fail(o, argv);
		json_object_set_new(request, "tenant", json_string(optarg));
	}
	if (argc - optind != 2)
		usage_fail("map lookup: a container or an address, and an rkey, are needed");
	json_object_set_new(request, ffo_addr_parse(argv[optind], &addr) ? "name" : "ip",
			    json_string(argv[optind]));
	json_object_set_new(request, "rkey", json_integer(rkey_parse(argv[optind + 1])));
	answer = router_call(request);
	if (ffo_map_from_json(json_object_get(answer, "map"), &m))
		fail("the router's answer is not understood");
	if (json_out) {
		json_object_set_new(answer, "map", map_json(&m));
		json_print(answer);
	} else {
		print_lookup(answer, &m);
	}
	json_decref(answer);
}
