/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * container.c - ffctl container add, set, rm, list, show; migrate is in cluster.c.
 *
 * Tests: system/bad_options.sh, system/fast_threads.sh, system/ffctl_scripts.sh
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffo/base/proto.h"
#include "ffr/abi/ff_proto.h"
#include "ffr/ffctl/ffctl.h"
#include "ffr/lib/cgroup.h"

/*
 * Where a container finds the library, and the router. The node is for programs (UCX) that use a
 * device only if it has a device file that they may open; nothing reads or writes it.
 */
#define INSIDE_RUN    "/run/freeflow"
#define INSIDE_NODE   "/dev/infiniband/" FF_DEVICE_NODE /* and a number for each device */
#define SYS_CLASS     "/sys/class"
#define INSTALLED_LIB "/usr/lib/freeflow"
#define SYS_CGROUP    "/sys/fs/cgroup"

struct args {
	const char *name;
	json_t *request;
	bool docker;
	bool lenient; /* --exist-ok, --ignore */
};

static void take_cgroup(json_t *request, const char *path)
{
	const char *wrong = strcmp(path, "none") ? cgroup_path_wrong(path) : NULL;

	if (wrong)
		usage_fail("--cgroup: \"%s\": %s", path, wrong);
	if (cgroup_within(path, SYS_CGROUP))
		usage_fail("--cgroup: \"%s\": give the path in the hierarchy, as in "
			   "/proc/PID/cgroup, not that of its folder",
			   path);
	json_object_set_new(request, "cgroup",
			    strcmp(path, "none") ? json_string(path) : json_null());
}

/* The cgroup that this process is in now. */
static void take_cgroup_of(json_t *request, const char *number)
{
	char path[CGROUP_MAX], *end;
	const char *wrong;
	long pid;
	int err;

	errno = 0;
	pid = strtol(number, &end, 10);
	if (*end || end == number || errno || pid <= 0 || pid > INT_MAX)
		usage_fail("--pid: \"%s\" is no process's number", number);
	err = cgroup_of((pid_t)pid, path);
	if (err)
		fail("process %ld: its cgroup: %s", pid, strerror(-err));
	wrong = cgroup_is_outside(path) ? "it is outside of the cgroup namespace of this command" :
					  cgroup_path_wrong(path);
	if (wrong)
		fail("process %ld: its cgroup, %s, cannot be a container's: %s", pid, path, wrong);
	json_object_set_new(request, "cgroup", json_string(path));
}

static void take_device_name(json_t *request, const char *name)
{
	if (!ffo_name_ok(name))
		usage_fail("--device-name: \"%s\" is no name of a device: a letter or digit, then "
			   "letters, digits, \"_.-\", at most %u",
			   name, FFO_NAME_MAX - 1);
	json_object_set_new(request, "device_name", json_string(name));
}

static void take_devices(json_t *request, const char *number)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(number, &end, 10);
	if (*end || end == number || errno || n < 1 || n > (long)FFO_DEVICES_MAX)
		usage_fail("--devices: \"%s\" is no number of 1 to %u", number, FFO_DEVICES_MAX);
	json_object_set_new(request, "devices", json_integer(n));
}

/* The options that the command knows are in `allowed`, by their letters; 'l': limits. */
static void args_parse(struct args *a, int argc, char **argv, const char *op, const char *allowed)
{
	static const struct option options[] = {
		{ "ip", required_argument, NULL, 'i' },
		{ "tenant", required_argument, NULL, 't' },
		{ "mode", required_argument, NULL, 'm' },
		{ "device-name", required_argument, NULL, 'n' },
		{ "devices", required_argument, NULL, 'v' },
		{ "docker", no_argument, NULL, 'd' },
		{ "untrusted", no_argument, NULL, 'l' },
		{ "cgroup", required_argument, NULL, 'c' },
		{ "pid", required_argument, NULL, 'p' },
		{ "exist-ok", no_argument, NULL, 'e' },
		{ "ignore", no_argument, NULL, 'g' },
		{ "dry-run", no_argument, NULL, 'y' },
		{ 0 },
	};
	struct option some[sizeof(options) / sizeof(options[0])];
	const struct option *all = options_some(options, allowed, some);
	json_t *ips = json_array();
	struct in6_addr addr;
	bool untrusted = false;
	int o;

	if (strchr(allowed, 'l'))
		all = limit_options(some, false);
	a->request = json_pack("{s:s}", "op", op);
	while ((o = getopt_long(argc, argv, ":", all, NULL)) != -1) {
		if (o >= LIMIT_OPTION) {
			limit_take(a->request, o, optarg);
			continue;
		}
		if (!strchr(allowed, o))
			option_fail(o, argv);
		if (o == 'i' && ffo_addr_parse(optarg, &addr))
			usage_fail("--ip: \"%s\" is not an IPv4 or IPv6 address", optarg);
		if (o == 'm' && ffo_mode_parse(optarg) < 0)
			usage_fail("--mode: \"%s\" is none of adaptive, spin, socket", optarg);
		if (o == 'i')
			json_array_append_new(ips, json_string(optarg));
		else if (o == 'd')
			a->docker = true;
		else if (o == 'l')
			untrusted = true;
		else if (o == 'e' || o == 'g')
			a->lenient = true;
		else if (o == 'y')
			dry_run = true;
		else if (o == 'c')
			take_cgroup(a->request, optarg);
		else if (o == 'p')
			take_cgroup_of(a->request, optarg);
		else if (o == 'v')
			take_devices(a->request, optarg);
		else if (o == 'n')
			take_device_name(a->request, optarg);
		else
			json_object_set_new(a->request, o == 't' ? "tenant" : "mode",
					    json_string(optarg));
	}
	if (json_object_get(a->request, "cgroup") && orch_options.address)
		usage_fail("a container's cgroup is its host's: ask the router there, without "
			   "--orchestrator");
	if (untrusted)
		limit_take_untrusted(a->request);
	if (json_array_size(ips))
		json_object_set(a->request, "ips", ips);
	json_decref(ips);
	if (optind == argc)
		usage_fail("container %s: a container's name is missing", argv[0]);
	no_more(argc, argv, optind + 1);
	a->name = argv[optind];
	json_object_set_new(a->request, "name", json_string(a->name));
}

/* "10.77.0.2,fd77::2": the caller's to free. */
static char *ips_text(const json_t *c)
{
	char *text = strdup(""), *longer;
	json_t *ip;
	size_t i;

	json_array_foreach(json_object_get(c, "ips"), i, ip) {
		if (!text ||
		    asprintf(&longer, "%s%s%s", text, *text ? "," : "", json_string_value(ip)) < 0)
			fail("out of memory");
		free(text);
		text = longer;
	}
	return text;
}

/* ---- docker -------------------------------------------------------------------------------- */

static bool has_files(const char *dir)
{
	static const char *const files[] = { "libibverbs.so.1", "librdmacm.so.1" };
	char path[PATH_MAX + 32];

	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		if (access(path, R_OK))
			return false;
	}
	return true;
}

/* The directory of the libraries: beside this program, or where it is installed. */
bool lib_folder(char *dir)
{
	static const char *const near[] = { "../lib", "../lib/freeflow", NULL };
	char exe[PATH_MAX], path[PATH_MAX * 2];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	exe[n < 0 ? 0 : n] = '\0';
	slash = strrchr(exe, '/');
	for (int i = 0; slash && near[i]; i++) {
		snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - exe), exe, near[i]);
		if (realpath(path, dir) && has_files(dir))
			return true;
	}
	snprintf(dir, PATH_MAX, "%s", INSTALLED_LIB);
	return has_files(dir);
}

void find_lib(char *dir)
{
	if (!lib_folder(dir))
		fail("libibverbs.so.1 and librdmacm.so.1 are neither beside this program nor in %s",
		     dir);
}

/* --mount's value is a line of CSV, and this line is for a shell. */
static const char *mount_path(const char *path)
{
	if (strpbrk(path, ",\"'\n"))
		fail("%s: docker cannot mount a path with such characters", path);
	return path;
}

static unsigned num_devices(const json_t *c)
{
	json_int_t n = int_of(c, "devices");

	return n > 1 && n <= (json_int_t)FFO_DEVICES_MAX ? (unsigned)n : 1;
}

/*
 * The device's classes in /sys/class. sysfs takes no new folder: where the host has none of that name, the router's
 * copy of /sys/class, which has both, goes over it first. q: the quote that the shell needs.
 */
static char *class_flags(const char *run, const char *q)
{
	static const char *const class[] = { "infiniband", "infiniband_verbs" };
	char *flags = strdup(""), *longer, copy[PATH_MAX], path[64];
	bool is_there = true;

	for (unsigned i = 0; i < 2 && is_there; i++) {
		snprintf(path, sizeof(path), SYS_CLASS "/%s", class[i]);
		is_there = !access(path, F_OK);
	}
	if (!is_there) {
		snprintf(copy, sizeof(copy), "%s/class", socket_dir());
		if (!flags || access(copy, F_OK))
			return flags;
		if (asprintf(&longer, " --mount %stype=bind,src=%s,dst=" SYS_CLASS ",readonly%s", q,
			     copy, q) < 0)
			return NULL;
		free(flags);
		flags = longer;
	}
	for (unsigned i = 0; flags && i < 2; i++) {
		if (asprintf(&longer,
			     "%s --mount %stype=bind,src=%s" SYS_CLASS "/%s,dst=" SYS_CLASS
			     "/%s,readonly%s",
			     flags, q, run, class[i], class[i], q) < 0)
			longer = NULL;
		free(flags);
		flags = longer;
	}
	return flags;
}

static char *docker_flags(const json_t *c)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "/_.:@%+-";
	/* of the answer's path nothing is taken: who has taken the router over would have another one mounted */
	const char *name = str_of(c, "name"), *q;
	char run[PATH_MAX], lib[PATH_MAX], nodes[64 * FFO_DEVICES_MAX], *flags, *sys;
	size_t len = 0;

	if (!ffo_name_ok(name) ||
	    snprintf(run, sizeof(run), "%s/containers/%s", socket_dir(), name) >= (int)sizeof(run))
		fail("the router's answer is not understood");
	mount_path(run);

	find_lib(lib);
	mount_path(lib);
	q = run[strspn(run, safe)] || lib[strspn(lib, safe)] ? "'" : "";
	sys = class_flags(run, q);
	if (!sys)
		fail("out of memory");
	for (unsigned i = 0; i < num_devices(c); i++)
		len += (size_t)snprintf(nodes + len, sizeof(nodes) - len,
					" --mount type=bind,src=/dev/null,dst=" INSIDE_NODE "%u",
					i);
	if (asprintf(&flags,
		     "--mount %stype=bind,src=%s,dst=" INSIDE_RUN ",readonly%s "
		     "--mount %stype=bind,src=%s,dst=" INSIDE_LIB ",readonly%s "
		     "--env LD_LIBRARY_PATH=" INSIDE_LIB "%s%s",
		     q, run, q, q, lib, q, nodes, sys) < 0)
		fail("out of memory");
	free(sys);
	return flags;
}

/* What the router has to say of a change that it made. */
void print_warning(const json_t *answer)
{
	if (json_object_get(answer, "warning"))
		fprintf(stderr, "ffctl: warning: %s\n", str_of(answer, "warning"));
}

/* ---- commands ------------------------------------------------------------------------------ */

void print_container(json_t *answer, bool docker)
{
	json_t *c = json_object_get(answer, "container");
	char *flags = docker ? docker_flags(c) : NULL, *ips;

	print_warning(answer);
	dry_run_tell(c);
	if (json_out) {
		if (docker)
			json_object_set_new(c, "docker", json_string(flags));
		json_print(c);
	} else if (docker) {
		puts(flags);
	} else {
		/* the orchestrator knows of no directories */
		const char *dir = json_string_value(json_object_get(c, "directory"));

		ips = ips_text(c);
		printf("%s %s%s%s\n", str_of(c, "name"), ips, dir ? " " : "", dir ? dir : "");
		free(ips);
	}
	free(flags);
	json_decref(answer);
}

static bool has_ip(const json_t *c, const struct in6_addr *addr)
{
	struct in6_addr own;
	json_t *ip;
	size_t i;

	json_array_foreach(json_object_get(c, "ips"), i, ip)
		if (!ffo_addr_parse(json_string_value(ip), &own) && IN6_ARE_ADDR_EQUAL(&own, addr))
			return true;
	return false;
}

/* The addresses that were asked for, and no others. Where none was, any will do. */
static bool same_ips(const json_t *request, const json_t *c)
{
	const json_t *asked = json_object_get(request, "ips"), *ip;
	struct in6_addr addr;
	size_t i;

	json_array_foreach((json_t *)asked, i, ip)
		if (ffo_addr_parse(json_string_value(ip), &addr) || !has_ip(c, &addr))
			return false;
	return !asked || json_array_size(asked) == json_array_size(json_object_get(c, "ips"));
}

/*
 * The answer to that request of container_add; to container_show, if it is there with this tenant and these addresses.
 */
static json_t *add_or_show(json_t *request)
{
	json_t *tenant = json_object_get(request, "tenant"), *answer, *c;
	const char *name = str_of(request, "name"), *wanted = json_string_value(tenant);
	char *ips;

	answer = router_call_unless(change(json_incref(request)), "EEXIST");
	if (answer)
		return answer;
	answer = router_call_unless(json_pack("{s:s, s:s}", "op", "container_show", "name", name),
				    "ENOENT");
	if (!answer)
		fail_status(EXIT_EXISTS,
			    "container %s exists on another host: ffctl container claim %s", name,
			    name);
	c = json_object_get(answer, "container");
	if (strcmp(str_of(c, "tenant"), wanted ?: "default"))
		fail_status(EXIT_EXISTS, "container %s exists with tenant %s", name,
			    str_of(c, "tenant"));
	ips = ips_text(c);
	if (!same_ips(request, c))
		fail_status(EXIT_EXISTS, "container %s exists with other addresses: %s", name, ips);
	free(ips);
	json_decref(request);
	return answer;
}

void cmd_container_add(int argc, char **argv)
{
	struct args a = { 0 };

	args_parse(&a, argc, argv, "container_add", "itmnvdlcpey");
	print_container(a.lenient ? add_or_show(a.request) : router_call(change(a.request)),
			a.docker);
	cdi_refresh();
}

/* The container as it is, by the router or by the orchestrator; NULL: the change itself says why. */
static json_t *container_now(const char *name)
{
	json_t *list, *c, *found = NULL, *answer;
	size_t i;

	if (!orch_options.address) {
		answer = router_call_unless(
			json_pack("{s:s, s:s}", "op", "container_show", "name", name), "ENOENT");
		found = json_incref(json_object_get(answer, "container"));
		json_decref(answer);
		return found;
	}
	list = router_list("container_list", "containers");
	json_array_foreach(list, i, c)
		if (!strcmp(str_of(c, "name"), name))
			found = json_incref(c);
	json_decref(list);
	return found;
}

/*
 * What the request made of a container: {"mode": {"from": "spin", "to": "adaptive"}}. null: there was or is none. The
 * cgroup is the request's, because the answer to a dry run has none.
 */
static json_t *changes(const json_t *before, const json_t *request, const json_t *after)
{
	static const char *const keys[] = { "ips", "mode", "cgroup" };
	json_t *changed = json_object(), *from, *to, *asked;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		asked = json_object_get(request, keys[i]);
		from = json_object_get(before, keys[i]);
		to = strcmp(keys[i], "cgroup") ? json_object_get(after, keys[i]) : asked;
		if (json_is_null(to))
			to = NULL;
		if (asked && !json_equal(from, to) && (from || to))
			json_object_set_new(changed, keys[i],
					    json_pack("{s:o, s:o}", "from",
						      from ? json_incref(from) : json_null(), "to",
						      to ? json_incref(to) : json_null()));
	}
	limit_changes(json_object_get(before, "limits"), json_object_get(after, "limits"), changed);
	return changed;
}

static void print_changes(json_t *changed)
{
	const char *key;
	json_t *pair;

	json_object_foreach(changed, key, pair) {
		json_t *from = json_object_get(pair, "from"), *to = json_object_get(pair, "to");

		if (json_is_array(to)) {
			json_t *c = json_pack("{s:O}", "ips", from),
			       *d = json_pack("{s:O}", "ips", to);
			char *was = ips_text(c), *is = ips_text(d);

			printf("ip: %s -> %s\n", was, is);
			free(was);
			free(is);
			json_decref(c);
			json_decref(d);
		} else if (!limit_print_change(key, from, to)) {
			printf("%s: %s -> %s\n", key, json_string_value(from) ?: "none",
			       json_string_value(to) ?: "none");
		}
	}
	if (!json_object_size(changed))
		puts("no change: all of this was so before");
}

void cmd_container_set(int argc, char **argv)
{
	struct args a = { 0 };
	json_t *before, *answer, *c, *changed;

	args_parse(&a, argc, argv, "container_set", "imlcpy");
	if (json_object_size(a.request) == 2)
		usage_fail(
			"container set: nothing to change: give --ip, --mode, --cgroup, --pid or a limit");
	before = container_now(a.name);
	answer = router_call(change(json_incref(a.request)));
	c = json_object_get(answer, "container");
	changed = changes(before, a.request, c);
	json_decref(a.request);
	if (json_out)
		json_object_set(c, "changed", changed);
	print_container(answer, false);
	if (!json_out)
		print_changes(changed);
	json_decref(changed);
	json_decref(before);
}

void cmd_container_rm(int argc, char **argv)
{
	struct args a = { 0 };
	json_t *answer;

	args_parse(&a, argc, argv, "container_rm", "gy");
	a.request = change(a.request);
	answer = a.lenient ? router_call_unless(a.request, "ENOENT") : router_call(a.request);
	print_warning(answer);
	dry_run_tell(answer);
	json_decref(answer);
	cdi_refresh();
}

/* ---- lists ----------------------------------------------------------------------------------- */

struct list_wish {
	bool all, quiet;
	const char *tenant;
	const struct column *sort;
};

static const struct column {
	const char *head, *key;
	bool here, all; /* in a list of this host's, of all hosts' */
} columns[] = {
	{ "NAME", "name", true, true },	     { "TENANT", "tenant", true, true },
	{ "ADDRESSES", "ips", true, true },  { "MODE", "mode", true, true },
	{ ">LID", "lid", true, true },	     { ">SESSIONS", "sessions", true, false },
	{ "HOST", "host", false, true },     { ">EPOCH", "epoch", false, true },
	{ "ACTIVE", "active", false, true },
};
#define NUM_COLUMNS (sizeof(columns) / sizeof(columns[0]))

static bool has_column(const struct list_wish *w, const struct column *c)
{
	return w->all ? c->all : c->here;
}

static const struct column *sort_parse(const struct list_wish *w, const char *name)
{
	for (const struct column *c = columns; name && c < columns + NUM_COLUMNS; c++)
		if (!strcasecmp(name, c->head + (*c->head == '>')) && has_column(w, c))
			return c;
	if (name)
		usage_fail("--sort: \"%s\" is no column of the list", name);
	return columns;
}

static struct list_wish list_parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "all", no_argument, NULL, 'a' },
		{ "tenant", required_argument, NULL, 't' },
		{ "sort", required_argument, NULL, 's' },
		{ 0 },
	};
	struct list_wish w = { 0 };
	const char *sort = NULL;
	int o;

	while ((o = getopt_long(argc, argv, ":q", options, NULL)) != -1) {
		switch (o) {
		case 'a':
			w.all = true;
			break;
		case 't':
			w.tenant = optarg;
			break;
		case 's':
			sort = optarg;
			break;
		case 'q':
			w.quiet = true;
			break;
		default:
			option_fail(o, argv);
		}
	}
	no_more(argc, argv, optind);
	w.sort = sort_parse(&w, sort);
	return w;
}

static int value_compare(const json_t *a, const json_t *b)
{
	struct in6_addr x = { 0 }, y = { 0 };
	const char *s = json_string_value(a), *t = json_string_value(b);

	if (json_is_array(a))
		return value_compare(json_array_get(a, 0), json_array_get(b, 0));
	if (s && t && !ffo_addr_parse(s, &x) && !ffo_addr_parse(t, &y))
		return memcmp(&x, &y, sizeof(x));
	if (s && t)
		return strcmp(s, t);
	if (json_is_integer(a))
		return (json_integer_value(a) > json_integer_value(b)) -
		       (json_integer_value(a) < json_integer_value(b));
	return json_is_true(a) - json_is_true(b);
}

static int container_compare(const void *a, const void *b, void *key)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int d = value_compare(json_object_get(x, key), json_object_get(y, key));

	return d ? d : strcmp(str_of(x, "name"), str_of(y, "name"));
}

/* The containers that are wanted, in that order. Takes the list. */
static json_t *list_choose(json_t *list, const struct list_wish *w)
{
	json_t **v = calloc(json_array_size(list) + 1, sizeof(json_t *)), *c,
	       *chosen = json_array();
	size_t i, n = 0;

	if (!v)
		fail("out of memory");
	json_array_foreach(list, i, c)
		if (!w->tenant || !strcmp(str_of(c, "tenant"), w->tenant))
			v[n++] = c;
	qsort_r(v, n, sizeof(*v), container_compare, (void *)w->sort->key);
	for (i = 0; i < n; i++)
		json_array_append(chosen, w->quiet ? json_object_get(v[i], "name") : v[i]);
	free(v);
	json_decref(list);
	return chosen;
}

static void list_cell(struct table *t, const json_t *c, const char *key)
{
	const json_t *value = json_object_get(c, key), *seen;
	char *ips, when[32];

	if (json_is_array(value)) {
		ips = ips_text(c);
		table_cell(t, "%s", ips);
		free(ips);
	} else if (json_is_null(value)) {
		seen = json_object_get(c, "host_last_seen");
		table_cell(t, seen ? "host down, last seen %s" : "host never seen",
			   time_of_day(json_integer_value(seen), when));
	} else if (json_is_integer(value)) {
		table_cell(t, "%lld", (long long)json_integer_value(value));
	} else if (json_is_boolean(value)) {
		table_cell(t, "%s", json_is_true(value) ? "yes" : "no");
	} else {
		table_cell(t, "%s", str_of(c, key));
	}
}

static void list_print(const json_t *list, const struct list_wish *w)
{
	const char *heads[NUM_COLUMNS + 1] = { NULL };
	struct limit_columns limits;
	struct table *t;
	json_t *c;
	size_t i, n = 0;

	for (i = 0; i < NUM_COLUMNS; i++)
		if (has_column(w, &columns[i]))
			heads[n++] = columns[i].head;
	limit_columns(&limits, list, heads);
	t = table_new(limits.heads);
	json_array_foreach(list, i, c) {
		for (n = 0; n < NUM_COLUMNS; n++)
			if (has_column(w, &columns[n]))
				list_cell(t, c, columns[n].key);
		limit_cells(&limits, t, c);
	}
	table_print(t);
}

/*
 * The orchestrator forgets which containers are in use on a host when it loses the host, whose programs go on. So
 * nobody knows whether a container of a host that is down is active.
 */
static void list_hosts(const json_t *list)
{
	json_t *hosts = router_list("host_list", "hosts"), *named = json_object(), *c, *h;
	size_t i;

	json_array_foreach(hosts, i, h)
		json_object_set(named, str_of(h, "name"), h);
	json_array_foreach(list, i, c) {
		bool up;

		h = json_object_get(named, str_of(c, "host"));
		up = json_is_true(json_object_get(h, "up"));
		json_object_set_new(c, "host_up", json_boolean(up));
		if (up)
			continue;
		json_object_set_new(c, "active", json_null());
		if (h)
			json_object_set(c, "host_last_seen", json_object_get(h, "last_seen"));
	}
	json_decref(named);
	json_decref(hosts);
}

void cmd_container_list(int argc, char **argv)
{
	struct list_wish w = list_parse(argc, argv);
	json_t *list = router_list(w.all ? "container_list" : "containers", "containers"), *name;
	size_t i;

	if (w.all && !w.quiet)
		list_hosts(list);
	list = list_choose(list, &w);
	if (json_only(list, NULL))
		return;
	if (w.quiet)
		json_array_foreach(list, i, name)
			puts(json_string_value(name));
	else
		list_print(list, &w);
	json_decref(list);
}

/* ---- one container ----------------------------------------------------------------------------- */

static void print_sessions(const json_t *sessions)
{
	static const char *const heads[] = { ">SESSION",   ">PID",  "COMMAND", ">QPS",
					     ">CQS",	   ">SRQS", ">MRS",    ">REGISTERED",
					     ">ZERO-COPY", NULL };
	char a[16], b[16];
	struct table *t;
	json_t *s;
	size_t i;

	if (!json_array_size(sessions))
		return;
	putchar('\n');
	t = table_new(heads);
	json_array_foreach(sessions, i, s) {
		table_cell(t, "%lld", (long long)int_of(s, "session"));
		table_cell(t, "%lld", (long long)int_of(s, "pid"));
		table_cell(t, "%s", str_of(s, "command"));
		table_cell(t, "%lld", (long long)int_of(s, "qps"));
		table_cell(t, "%lld", (long long)int_of(s, "cqs"));
		table_cell(t, "%lld", (long long)int_of(s, "srqs"));
		table_cell(t, "%lld", (long long)int_of(s, "mrs"));
		table_cell(t, "%s", bytes_text(int_of(s, "registered_bytes"), a));
		table_cell(t, "%s", bytes_text(int_of(s, "zero_copy_bytes"), b));
	}
	table_print(t);
}

/* "5 s", "12 min", "3 h", "9 d" */
static const char *ago_text(json_int_t s, char buf[32])
{
	const struct {
		json_int_t s;
		const char *unit;
	} units[] = { { 172800, "d" }, { 7200, "h" }, { 120, "min" }, { 0, "s" } };
	static const json_int_t of[] = { 86400, 3600, 60, 1 };
	size_t i = 0;

	while (s < units[i].s)
		i++;
	snprintf(buf, 32, "%lld %s", (long long)(s / of[i]), units[i].unit);
	return buf;
}

static const char *times_text(json_int_t n, char buf[40])
{
	snprintf(buf, 40, n == 1 ? "once, " : "%lld times, the last ", (long long)n);
	return buf;
}

/* Has any program opened the device? One whose library was not loaded hears nothing itself. */
static void print_heard(const json_t *c)
{
	const json_t *h = json_object_get(c, "heard");
	char ago[32], times[40];

	if (int_of(h, "opened"))
		printf("opened     %s%s ago\n", times_text(int_of(h, "opened"), times),
		       ago_text(int_of(h, "opened_s"), ago));
	else
		printf("opened     never in the %s that this router knows it: ffctl container check "
		       "%s --pid PID tells why a program has not\n",
		       ago_text(int_of(h, "known_s"), ago), str_of(c, "name"));
	if (int_of(h, "refused"))
		printf("refused    %s%s ago: process %lld: %s\n",
		       times_text(int_of(h, "refused"), times),
		       ago_text(int_of(h, "refused_s"), ago), (long long)int_of(h, "refused_pid"),
		       str_of(h, "refused_why"));
}

/* What its connected queue pairs go by. */
static void print_carried(json_t *carried)
{
	const char *by, *sep = "carried   ";
	json_t *n;

	json_object_foreach(carried, by, n) {
		printf("%s %lld by %s", sep, (long long)json_integer_value(n), by);
		sep = ";";
	}
	if (json_object_size(carried))
		putchar('\n');
}

/* What of its memory regions is copied, and why. */
static void print_copied(const json_t *sessions)
{
	const char *why, *sep = "copied    ";
	json_t *sum = json_object(), *s, *n;
	char buf[16];
	size_t i;

	json_array_foreach(sessions, i, s) {
		json_t *copied = json_object_get(s, "copied_bytes");

		json_object_foreach(copied, why, n) {
			json_object_set_new(sum, why,
					    json_integer(int_of(sum, why) + json_integer_value(n)));
		}
	}
	json_object_foreach(sum, why, n) {
		printf("%s %s: %s", sep, bytes_text(json_integer_value(n), buf), why);
		sep = ";";
	}
	if (json_object_size(sum))
		putchar('\n');
	json_decref(sum);
}

static void print_devices(const json_t *c)
{
	const char *first = json_string_value(json_object_get(c, "device_name"));
	char name[FFO_NAME_MAX];

	for (unsigned i = 0; first && i < num_devices(c); i++) {
		ffo_device_name(first, num_devices(c), i, name);
		printf("%s%s", i ? " " : "devices    ", name);
	}
	if (first)
		putchar('\n');
}

void cmd_container_show(int argc, char **argv)
{
	struct args a = { 0 };
	json_t *answer, *c;
	char *ips;

	args_parse(&a, argc, argv, "container_show", "d");
	answer = router_call(a.request);
	if (json_out || a.docker) {
		print_container(answer, a.docker);
		return;
	}
	c = json_object_get(answer, "container");
	ips = ips_text(c);
	printf("name       %s\ntenant     %s\naddresses  %s\nmode       %s\nlid        %lld\n"
	       "epoch      %lld\nthread     %lld\ndirectory  %s\n",
	       str_of(c, "name"), str_of(c, "tenant"), ips, str_of(c, "mode"),
	       (long long)int_of(c, "lid"), (long long)int_of(c, "epoch"),
	       (long long)int_of(c, "thread"), str_of(c, "directory"));
	free(ips);
	print_devices(c);
	if (json_object_get(c, "nic"))
		printf("nic        %s\n", str_of(c, "nic"));
	if (json_object_get(c, "cgroup"))
		printf("cgroup     %s\n", str_of(c, "cgroup"));
	if (json_object_get(c, "runs"))
		printf("runs       %s\n", str_of(c, "runs"));
	print_heard(c);
	print_limits(c);
	print_carried(json_object_get(c, "carried"));
	print_copied(json_object_get(c, "sessions"));
	print_sessions(json_object_get(c, "sessions"));
	json_decref(answer);
}

void cmd_container_thread(int argc, char **argv)
{
	json_t *answer, *c;
	unsigned long n;
	char *end;

	if (argc != 3)
		usage_fail("container thread: give a container's name and a thread's number");
	errno = 0;
	n = strtoul(argv[2], &end, 10);
	if (*end || end == argv[2] || errno || argv[2][0] == '-')
		usage_fail("container thread: \"%s\" is not a number", argv[2]);
	answer = router_call(json_pack("{s:s, s:s, s:I}", "op", "container_thread", "name", argv[1],
				       "thread", (json_int_t)n));
	c = json_object_get(answer, "container");
	if (json_out)
		json_print(c);
	else
		printf("%s is on thread %lld\n", str_of(c, "name"), (long long)int_of(c, "thread"));
	json_decref(answer);
}

void cmd_container_nic(int argc, char **argv)
{
	json_t *answer, *c;

	if (argc != 3)
		usage_fail("container nic: give a container's name and DEVICE or DEVICE:PORT");
	answer = router_call(json_pack("{s:s, s:s, s:s}", "op", "container_nic", "name", argv[1],
				       "nic", argv[2]));
	c = json_object_get(answer, "container");
	if (json_out)
		json_print(c);
	else
		printf("%s has %s\n", str_of(c, "name"), str_of(c, "nic"));
	json_decref(answer);
}
