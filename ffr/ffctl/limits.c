/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * limits.c - limits on the command line and on screens; ffctl tenant set, rm, list.
 *
 * Tests: system/limits.sh, system/ffctl_scripts.sh
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffo/base/proto.h"
#include "ffo/base/limits_text.h"
#include "ffr/ffctl/ffctl.h"

#define NAME_SIZE 32

/* Options that set two limits at once. */
static const struct {
	const char *name;
	size_t first, second;
} both[] = {
	{ "rate", FFO_LIMIT_NR_tx_rate, FFO_LIMIT_NR_rx_rate },
	{ "ops", FFO_LIMIT_NR_tx_ops, FFO_LIMIT_NR_rx_ops },
};
#define NUM_BOTH (sizeof(both) / sizeof(both[0]))

static const char *option_name(size_t i)
{
	static char names[FFO_NUM_LIMITS][NAME_SIZE];
	char *name = names[i];

	snprintf(name, NAME_SIZE, "%s", ffo_limit[i].name);
	for (char *p = name; *p; p++)
		*p = *p == '_' ? '-' : *p;
	return name;
}

const struct option *limit_options(const struct option *first, bool tenant)
{
	static struct option all[FFO_NUM_LIMITS + NUM_BOTH + 16];
	size_t n = 0;

	for (; first[n].name; n++)
		all[n] = first[n];
	for (size_t i = 0; i < NUM_BOTH; i++)
		all[n++] = (struct option){ both[i].name, required_argument, NULL,
					    LIMIT_OPTION + (int)(FFO_NUM_LIMITS + i) };
	for (size_t i = 0; i < FFO_NUM_LIMITS; i++)
		if (!tenant || ffo_limit[i].tenant)
			all[n++] = (struct option){ option_name(i), required_argument, NULL,
						    LIMIT_OPTION + (int)i };
	all[n] = (struct option){ 0 };
	return all;
}

static void take(json_t *limits, size_t i, const char *option, const char *text)
{
	const struct ffo_limit *l = &ffo_limit[i];
	char max[LIMIT_TEXT_MAX];
	uint64_t value;
	int err = ffo_limit_parse(l->kind, l->max, text, &value);

	if (err == -ERANGE)
		usage_fail("--%s: \"%s\" is out of range: more than 0 and at most %s, or none",
			   option, text, ffo_limit_text(l->kind, l->max, max));
	if (value == FFO_UNLIMITED && !ffo_limit_has_default(i))
		value = 0; /* it is that when nothing is said */
	if (err)
		usage_fail("--%s: \"%s\" is not %s, or none", option, text,
			   ffo_limit_example(l->kind));
	json_object_set_new(limits, l->name, json_integer((json_int_t)value));
}

void limit_take(json_t *request, int o, const char *text)
{
	json_t *limits = json_object_get(request, "limits");
	size_t i = (size_t)(o - LIMIT_OPTION);

	if (!limits) {
		limits = json_object();
		json_object_set_new(request, "limits", limits);
	}
	if (i < FFO_NUM_LIMITS) {
		take(limits, i, option_name(i), text);
	} else {
		i -= FFO_NUM_LIMITS;
		take(limits, both[i].first, both[i].name, text);
		take(limits, both[i].second, both[i].name, text);
	}
}

void limit_take_untrusted(json_t *request)
{
	json_t *limits = json_object_get(request, "limits");
	struct ffo_limits l = ffo_limits_untrusted;

	if (!limits) {
		limits = json_object();
		json_object_set_new(request, "limits", limits);
	}
	/* what is said beside it, before or after, holds */
	for (size_t i = 0; i < FFO_NUM_LIMITS; i++)
		if (*ffo_limit_of(&l, i) && !json_object_get(limits, ffo_limit[i].name))
			json_object_set_new(limits, ffo_limit[i].name,
					    json_integer((json_int_t)*ffo_limit_of(&l, i)));
}

static const char *kind_text(enum ffo_limit_kind kind)
{
	static const char *const text[] = {
		[FFO_LIMIT_RATE] = "RATE",   [FFO_LIMIT_COUNT] = "NUMBER",
		[FFO_LIMIT_BYTES] = "BYTES", [FFO_LIMIT_CPUS] = "CPUS",
		[FFO_LIMIT_FLAG] = "yes|no",
	};

	return text[kind];
}

static void help_line(const char *option, enum ffo_limit_kind kind, const char *what)
{
	int width = 22 - (int)strlen(option);

	printf("  --%s %-*s  %s\n", option, width, kind_text(kind), what);
}

void limit_help(bool tenant)
{
	printf("\nLIMIT, each with a value as below, none%s or unlimited:\n\n",
	       tenant ? "" : " (what the host's ffr.conf says)");
	help_line("rate", FFO_LIMIT_RATE, "--tx-rate and --rx-rate");
	help_line("ops", FFO_LIMIT_COUNT, "--tx-ops and --rx-ops");
	for (size_t i = 0; i < FFO_NUM_LIMITS; i++)
		if (!tenant || ffo_limit[i].tenant)
			help_line(option_name(i), ffo_limit[i].kind, ffo_limit[i].what);
}

/* ---- screens --------------------------------------------------------------------------------- */

static json_int_t value_of(const json_t *limits, size_t i)
{
	return json_integer_value(json_object_get(limits, ffo_limit[i].name));
}

/* How much of limit `i` the container uses, for people: a size is rounded. */
static const char *usage_text(const json_t *usage, size_t i, char buf[LIMIT_TEXT_MAX])
{
	json_int_t v = value_of(usage, i);

	if (!json_object_get(usage, ffo_limit[i].name))
		return "-";
	if (ffo_limit[i].kind == FFO_LIMIT_BYTES)
		return bytes_text(v, buf);
	return v ? ffo_limit_text(ffo_limit[i].kind, (uint64_t)v, buf) : "0";
}

static const char *limit_text(const json_t *limits, size_t i, char buf[LIMIT_TEXT_MAX])
{
	json_int_t v = value_of(limits, i);

	return v ? ffo_limit_text(ffo_limit[i].kind, (uint64_t)v, buf) : "-";
}

void limit_columns(struct limit_columns *cols, const json_t *list, const char *const *heads)
{
	json_t *c;
	size_t k, n = 0;

	memset(cols, 0, sizeof(*cols));
	while (heads[n])
		cols->heads[cols->num_heads++] = heads[n++];
	for (size_t i = 0; i < FFO_NUM_LIMITS; i++) {
		if (ffo_limit[i].kind != FFO_LIMIT_RATE)
			continue;
		json_array_foreach(list, k, c)
			if (value_of(json_object_get(c, "limits"), i))
				break;
		if (k == json_array_size(list))
			continue;
		n = cols->num++;
		cols->limit[n] = i;
		snprintf(cols->name[n], sizeof(cols->name[n]), ">%s", ffo_limit[i].name);
		for (char *p = cols->name[n]; *p; p++)
			*p = *p == '_' ? ' ' : (char)toupper((unsigned char)*p);
		cols->heads[cols->num_heads++] = cols->name[n];
	}
}

void limit_cells(const struct limit_columns *cols, struct table *t, const json_t *c)
{
	char buf[LIMIT_TEXT_MAX];

	for (size_t n = 0; n < cols->num; n++)
		table_cell(t, "%s", limit_text(json_object_get(c, "limits"), cols->limit[n], buf));
}

void limit_rates_text(const json_t *limits, const char *whose, char *text, size_t size)
{
	char buf[LIMIT_TEXT_MAX];
	size_t n = strlen(text);

	for (size_t i = 0; i < FFO_NUM_LIMITS; i++) {
		const char *name = ffo_limit[i].name, *end = strrchr(name, '_');

		if (!value_of(limits, i) || !end || (strcmp(end, "_rate") && strcmp(end, "_ops")) ||
		    n >= size)
			continue;
		n += (size_t)snprintf(text + n, size - n, "%s%s %s (the %s's)", n ? ", " : "",
				      option_name(i), limit_text(limits, i, buf), whose);
	}
}

void print_limits(const json_t *c)
{
	static const char *const heads[] = { "LIMIT", ">VALUE", ">IN USE", "WHAT", NULL };
	const json_t *limits = json_object_get(c, "limits"), *usage = json_object_get(c, "usage");
	json_int_t memory = json_integer_value(json_object_get(usage, "memory"));
	char value[LIMIT_TEXT_MAX], used[LIMIT_TEXT_MAX];
	struct table *t = NULL;

	for (size_t i = 0; i < FFO_NUM_LIMITS; i++) {
		if (!value_of(limits, i) && !value_of(usage, i))
			continue;
		if (!t)
			t = table_new(heads);
		table_cell(t, "%s", option_name(i));
		table_cell(t, "%s", limit_text(limits, i, value));
		table_cell(t, "%s", usage_text(usage, i, used));
		table_cell(t, "%s", ffo_limit[i].what);
	}
	if (memory > 0) {
		if (!t)
			t = table_new(heads);
		table_cell(t, "memory");
		table_cell(t, "-");
		table_cell(t, "%s", bytes_text(memory, used));
		table_cell(t, "of the router's own, which all containers share");
	}
	if (!t)
		return;
	putchar('\n');
	table_print(t);
}

void limit_changes(const json_t *before, const json_t *after, json_t *changed)
{
	for (size_t i = 0; i < FFO_NUM_LIMITS; i++) {
		json_int_t from = value_of(before, i), to = value_of(after, i);

		if (from != to)
			json_object_set_new(changed, ffo_limit[i].name,
					    json_pack("{s:o, s:o}", "from",
						      from ? json_integer(from) : json_null(), "to",
						      to ? json_integer(to) : json_null()));
	}
}

bool limit_print_change(const char *name, const json_t *from, const json_t *to)
{
	char a[LIMIT_TEXT_MAX], b[LIMIT_TEXT_MAX];

	for (size_t i = 0; i < FFO_NUM_LIMITS; i++) {
		if (strcmp(ffo_limit[i].name, name))
			continue;
		printf("%s: %s -> %s\n", option_name(i),
		       ffo_limit_text(ffo_limit[i].kind, (uint64_t)json_integer_value(from), a),
		       ffo_limit_text(ffo_limit[i].kind, (uint64_t)json_integer_value(to), b));
		return true;
	}
	return false;
}

/* ---- tenants --------------------------------------------------------------------------------- */

void cmd_tenant_set(int argc, char **argv)
{
	static const struct option first[] = {
		{ "dry-run", no_argument, NULL, 'y' },
		{ 0 },
	};
	const struct option *options = limit_options(first, true);
	json_t *request = json_pack("{s:s}", "op", "tenant_set"), *answer, *said = json_object();
	int o;

	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (o == ':' || o == '?')
			option_fail(o, argv);
		if (o == 'y')
			dry_run = true;
		else
			limit_take(request, o, optarg);
	}
	if (optind == argc)
		usage_fail("tenant set: a tenant's name is missing");
	no_more(argc, argv, optind + 1);
	if (!json_object_get(request, "limits"))
		usage_fail(
			"tenant set: nothing to change: give a limit, see ffctl tenant set --help");
	json_object_set_new(request, "tenant", json_string(argv[optind]));
	warn_unknown(said, argv[optind], PARTY_HAS_LIMITS);
	answer = router_call(change(request));
	print_change(answer, said);
}

/* Limits are all that there is of a tenant. Without any it is forgotten. */
void cmd_tenant_rm(int argc, char **argv)
{
	json_t *answer, *list, *limits = json_object(), *j;
	const char *tenant;
	bool known = false;
	size_t i;

	change_options(argc, argv);
	if (optind == argc)
		usage_fail("tenant rm: a tenant's name is missing");
	no_more(argc, argv, optind + 1);
	tenant = argv[optind];
	answer = router_call(json_pack("{s:s}", "op", "tenant_list"));
	json_array_foreach(json_object_get(answer, "tenants"), i, j)
		known = known || !strcmp(str_of(j, "tenant"), tenant);
	json_decref(answer);
	if (!known)
		fail_status(EXIT_NOT_FOUND, "tenant %s has no limits", tenant);
	list = router_list("container_list", "containers");
	json_array_foreach(list, i, j)
		if (!strcmp(str_of(j, "tenant"), tenant))
			fail("tenant %s has containers, %s among them: remove them first", tenant,
			     str_of(j, "name"));
	json_decref(list);
	for (i = 0; i < FFO_NUM_LIMITS; i++)
		if (ffo_limit[i].tenant)
			json_object_set_new(limits, ffo_limit[i].name, json_integer(0));
	answer = router_call(change(json_pack("{s:s, s:s, s:o}", "op", "tenant_set", "tenant",
					      tenant, "limits", limits)));
	dry_run_tell(answer);
	json_decref(answer);
}

/* A line for each limit: there are too many for columns. */
void cmd_tenant_list(int argc, char **argv)
{
	static const char *const heads[] = { "TENANT", "LIMIT", ">VALUE", "WHAT", NULL };
	json_t *answer, *tenant, *limits;
	char buf[LIMIT_TEXT_MAX];
	struct table *t;
	size_t k;

	no_more(argc, argv, 1);
	answer = router_call(json_pack("{s:s}", "op", "tenant_list"));
	if (json_only(answer, "tenants"))
		return;
	t = table_new(heads);
	json_array_foreach(json_object_get(answer, "tenants"), k, tenant) {
		limits = json_object_get(tenant, "limits");
		for (size_t i = 0; i < FFO_NUM_LIMITS; i++) {
			if (!value_of(limits, i))
				continue;
			table_cell(t, "%s", str_of(tenant, "tenant"));
			table_cell(t, "%s", option_name(i));
			table_cell(t, "%s", limit_text(limits, i, buf));
			table_cell(t, "%s", ffo_limit[i].what);
		}
	}
	table_print(t);
	json_decref(answer);
}
