/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * policy.c - ffctl policy; and which parties the orchestrator's store knows.
 *
 * A rule or a limit may come before its containers, so a party that the store does not know is no
 * error. It may be a wrong word as well, and then nothing would tell the operator. So ffctl warns.
 *
 * Tests: system/ffctl_scripts.sh
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffo/base/proto.h"
#include "ffr/ffctl/ffctl.h"

/* ---- parties that the store knows ------------------------------------------------------------ */

static json_t *all_containers(void)
{
	static json_t *list; /* one list for both parties of a rule */

	if (!list)
		list = router_list("container_list", "containers");
	return list;
}

static bool has_limits(const char *tenant)
{
	json_t *answer = router_call(json_pack("{s:s}", "op", "tenant_list")), *t;
	bool found = false;
	size_t i;

	json_array_foreach(json_object_get(answer, "tenants"), i, t)
		found = found || !strcmp(str_of(t, "tenant"), tenant);
	json_decref(answer);
	return found;
}

/* A container of that tenant, or of that name. NULL: there is none. */
static const json_t *find(const char *key, const char *value)
{
	json_t *c;
	size_t i;

	json_array_foreach(all_containers(), i, c)
		if (!strcmp(str_of(c, key), value))
			return c;
	return NULL;
}

/* Writes into text why the store does not know the party, or "" if it knows it. */
static void look(const char *party, enum party_in in, char *text, size_t size)
{
	const char *name = strchr(party, '/');
	char tenant[FFO_NAME_MAX];
	const json_t *c;

	*text = '\0';
	snprintf(tenant, sizeof(tenant), "%.*s", (int)strcspn(party, "/"), party);
	if (name) {
		c = find("name", name + 1);
		if (!c)
			snprintf(text, size, "there is no container %s", name + 1);
		else if (strcmp(str_of(c, "tenant"), tenant))
			snprintf(text, size, "container %s is of tenant %s, not of %s", name + 1,
				 str_of(c, "tenant"), tenant);
	} else if (!find("tenant", tenant) && (in == PARTY_HAS_LIMITS || !has_limits(tenant))) {
		snprintf(text, size, "no container is of tenant %s", tenant);
	}
}

void warn_unknown(json_t *said, const char *party, enum party_in in)
{
	json_t *before = json_object_get(said, "warning");
	char text[512], all[1100];

	look(party, in, text, sizeof(text));
	if (!*text || (before && !strcmp(json_string_value(before), text)))
		return;
	snprintf(all, sizeof(all), "%s%s%s", before ? json_string_value(before) : "",
		 before ? "; " : "", text);
	json_object_set_new(said, "warning", json_string(all));
}

void print_change(json_t *answer, json_t *said)
{
	json_object_update(answer, said);
	json_decref(said);
	dry_run_tell(answer);
	if (json_out)
		json_print(answer);
	else
		print_warning(answer);
	json_decref(answer);
}

/* ---- policy ---------------------------------------------------------------------------------- */

void cmd_policy_list(int argc, char **argv)
{
	static const char *const heads[] = { "PARTY", "PARTY", "ACTION", NULL };
	json_t *answer, *r;
	struct table *t;
	size_t i;

	no_more(argc, argv, 1);
	answer = router_call(json_pack("{s:s}", "op", "policy_list"));
	if (json_only(answer, "rules"))
		return;
	t = table_new(heads);
	json_array_foreach(json_object_get(answer, "rules"), i, r) {
		table_cell(t, "%s", str_of(r, "a"));
		table_cell(t, "%s", str_of(r, "b"));
		table_cell(t, "%s", str_of(r, "action"));
	}
	table_print(t);
	json_decref(answer);
}

void change_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "dry-run", no_argument, NULL, 'y' },
		{ 0 },
	};
	int o;

	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (o != 'y')
			option_fail(o, argv);
		dry_run = true;
	}
}

/* The word is the action: allow, deny, or rm. */
void cmd_policy_change(int argc, char **argv)
{
	bool rm = !strcmp(argv[0], "rm");
	json_t *answer, *said = json_object();
	const char *party[2];

	change_options(argc, argv);
	if (argc - optind != 2)
		usage_fail("policy %s: two parties are needed, each TENANT or TENANT/CONTAINER",
			   argv[0]);
	for (int i = 0; i < 2; i++) {
		party[i] = argv[optind + i];
		if (!ffo_party_ok(party[i]))
			usage_fail("policy %s: \"%s\" is neither TENANT nor TENANT/CONTAINER",
				   argv[0], party[i]);
	}
	for (int i = 0; !rm && i < 2; i++)
		warn_unknown(said, party[i], PARTY_HAS_RULE);
	answer = router_call(
		change(json_pack("{s:s, s:s, s:s, s:s*}", "op", rm ? "policy_rm" : "policy_set",
				 "a", party[0], "b", party[1], "action", rm ? NULL : argv[0])));
	print_change(answer, said);
}
