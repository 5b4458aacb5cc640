/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* map.c - ffctl map list: what containers have published. map lookup is in cluster.c. */
#include <getopt.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "ffo/base/proto.h"
#include "ffr/ffctl/ffctl.h"

/* ---- the map ------------------------------------------------------------------------------- */

/* Names of containers, by their numbers. */
static json_t *container_names(void)
{
	json_t *list = router_list("container_list", "containers"), *names = json_object(), *c;
	char id[16];
	size_t i;

	json_array_foreach(list, i, c) {
		snprintf(id, sizeof(id), "%u", (unsigned)int_of(c, "id"));
		json_object_set(names, id, json_object_get(c, "name"));
	}
	json_decref(list);
	return names;
}

const char *access_text(uint32_t access, char buf[64])
{
	static const struct {
		uint32_t bit;
		const char *name;
	} bits[] = {
		{ IBV_ACCESS_LOCAL_WRITE, "local-write" },
		{ IBV_ACCESS_REMOTE_READ, "read" },
		{ IBV_ACCESS_REMOTE_WRITE, "write" },
		{ IBV_ACCESS_REMOTE_ATOMIC, "atomic" },
	};
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		if (access & bits[i].bit)
			n += (size_t)snprintf(buf + n, 64 - n, "%s%s", n ? "," : "", bits[i].name);
	return n ? buf : "-";
}

json_t *map_json(const struct ffo_map *m)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "rkey", (json_int_t)m->rkey,
			 "session", (json_int_t)m->session, "addr", (json_int_t)m->addr, "length",
			 (json_int_t)m->length, "access", (json_int_t)m->access, "shadow",
			 (json_int_t)m->shadow, "epoch", (json_int_t)m->epoch);
}

static void map_row(struct table *t, json_t *list, const struct ffo_map *m, const char *name)
{
	char buf[64];
	json_t *j;

	if (json_out) {
		j = map_json(m);
		json_object_set_new(j, "container", json_string(name));
		json_array_append_new(list, j);
		return;
	}
	table_cell(t, "%s", name);
	table_cell(t, "0x%08x", m->rkey);
	table_cell(t, "%u", m->session);
	table_cell(t, "0x%llx", (unsigned long long)m->addr);
	table_cell(t, "%llu", (unsigned long long)m->length);
	table_cell(t, "%s", access_text(m->access, buf));
	table_cell(t, m->shadow ? "0x%llx" : "-", (unsigned long long)m->shadow);
	table_cell(t, "%u", m->epoch);
}

static const char *map_container(int argc, char **argv)
{
	static const struct option options[] = {
		{ "container", required_argument, NULL, 'c' },
		{ 0 },
	};
	const char *name = NULL;
	int o;

	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (o != 'c')
			option_fail(o, argv);
		name = optarg;
	}
	no_more(argc, argv, optind);
	return name;
}

static json_t *container_id(const char *name)
{
	json_t *answer = router_call(json_pack("{s:s, s:s}", "op", "container_get", "name", name));
	json_t *id = json_incref(json_object_get(json_object_get(answer, "container"), "id"));

	json_decref(answer);
	return id;
}

void cmd_map_list(int argc, char **argv)
{
	static const char *const heads[] = { "CONTAINER", "RKEY",    ">SESSION",
					     ">ADDRESS",  ">LENGTH", "ACCESS",
					     ">SHADOW",	  ">EPOCH",  NULL };
	const char *only = map_container(argc, argv), *name;
	json_t *names = only ? json_object() : container_names(), *list = json_array(),
	       *after = NULL;
	json_t *request, *answer, *row, *id_of = only ? container_id(only) : NULL;
	struct table *t = table_new(heads);
	struct ffo_map m;
	char id[16];
	size_t i;

	do {
		request = json_pack("{s:s, s:o*, s:O*}", "op", "map_list", "after", after,
				    "container", id_of);
		answer = router_call(request);
		json_array_foreach(json_object_get(answer, "maps"), i, row) {
			if (ffo_map_from_json(row, &m))
				fail("the router's answer is not understood");
			snprintf(id, sizeof(id), "%u", m.container);
			name = json_string_value(json_object_get(names, id));
			map_row(t, list, &m, name ? name : only ? only : id);
		}
		after = json_incref(json_object_get(answer, "next"));
		json_decref(answer);
	} while (after);
	if (json_out)
		json_print(list);
	else
		table_print(t);
	json_decref(list);
	json_decref(names);
	json_decref(id_of);
}
