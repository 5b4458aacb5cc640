/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * doctor.c - ffctl doctor: what is wrong with this host's set-up, from the router outwards: router, libraries,
 * RapidIO, engines (doctor_host.c), orchestrator, other hosts, and one container if it is named. Nothing is changed.
 *
 * It goes on behind a problem as far as something can still be seen; what is only a consequence is left out.
 *
 * Tests: system/doctor.sh
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ffo/base/limits.h"
#include "ffr/ffctl/ffctl.h"
#include "ffr/lib/advice.h"
#include "ffr/lib/version.h"

#define SPACE_MIN 65536	  /* bytes, for a change of the store and its log */
#define SAMPLE_US 1000000 /* between two looks at a container's counters */

struct doctor {
	struct findings f;
	json_t *version; /* the router's answers, or NULL */
	json_t *containers;
	json_t *health;
	json_t *hosts;
};

/* The answer to that request, or NULL: then a problem is told, unless quiet. */
static json_t *ask(struct doctor *d, const char *op, const char *name, bool quiet)
{
	json_t *request = json_pack("{s:s, s:s*}", "op", op, "name", name), *answer;
	int err = router_try(request, answer_s, &answer);

	json_decref(request);
	if (!err && json_is_true(json_object_get(answer, "ok")))
		return answer;
	if (err && !quiet)
		doctor_no_router(&d->f, err);
	else if (!quiet)
		finding(&d->f, FINDING_PROBLEM, NULL, "router: %s", str_of(answer, "message"));
	json_decref(answer);
	return NULL;
}

/* ---- the router --------------------------------------------------------------------------------- */

static void check_router(struct doctor *d)
{
	static const char *const advice[] = {
		[HOME_SYSTEMD] =
			"systemctl restart ffr: programs see a fatal event and open the device again",
		[HOME_POD] =
			"packages of this node and image of the router's pod are to be of one release",
		[HOME_SHELL] =
			"start ffr again: programs see a fatal event and open the device again",
	};

	d->version = ask(d, "version", NULL, false);
	if (!d->version)
		return;
	if (strcmp(str_of(d->version, "version"), FF_VERSION))
		finding(&d->f, FINDING_PROBLEM, advice[router_home()],
			"router: it is version %s and ffctl " FF_VERSION
			": it was not started again after an upgrade",
			str_of(d->version, "version"));
	else
		finding(&d->f, FINDING_OK, NULL, "router: ffr %s on %s answers at %s",
			str_of(d->version, "version"), str_of(d->version, "hostname"),
			admin_socket());
	d->health = ask(d, "health", NULL, false);
	d->containers = ask(d, "containers", NULL, true);
	if (d->health && !json_is_true(json_object_get(d->health, "userfaultfd")))
		finding(&d->f, FINDING_NOTE, ADVICE_UFFD,
			"router: no /dev/userfaultfd: programs' private memory is copied twice, large "
			"transfers are slow");
}

/* ---- the orchestrator and other hosts ------------------------------------------------------------- */

/* Reading goes on without space, so the orchestrator is connected, but nothing can be added. */
static void check_space(struct doctor *d, const char *store)
{
	struct statvfs fs;

	if (store && !statvfs(store, &fs) && fs.f_blocks && fs.f_bavail * fs.f_frsize < SPACE_MIN)
		finding(&d->f, FINDING_PROBLEM, "make room on that file system",
			"orchestrator: store %s: no space left: nothing can be added or changed",
			store);
}

static bool check_orchestrator(struct doctor *d)
{
	const json_t *o = json_object_get(d->health, "orchestrator");
	const char *why = str_of(o, "why");

	check_space(d, json_string_value(json_object_get(o, "store")));
	d->hosts = ask(d, "host_list", NULL, true);
	if (json_is_true(json_object_get(o, "up")) && !d->hosts) {
		finding(&d->f, FINDING_PROBLEM,
			"ffctl host list has the reason; with ZooKeeper start enough of its servers",
			"orchestrator: %s: it does not serve requests; " EFFECT_ALONE,
			str_of(o, "where"));
		return false;
	}
	if (json_is_true(json_object_get(o, "up"))) {
		finding(&d->f, FINDING_OK, NULL, "orchestrator: %s, connected", str_of(o, "where"));
		return true;
	}
	finding(&d->f, FINDING_PROBLEM, advice_orchestrator(why), "orchestrator: %s: %s; %s",
		str_of(o, "where"), *why ? why : "not connected yet",
		json_is_true(json_object_get(d->health, "fenced")) ? EFFECT_FENCED : EFFECT_ALONE);
	return false;
}

static bool is_loopback(const char *wire)
{
	return !strncmp(wire, "tcp:127.", 8) || !strncmp(wire, "tcp:[::1]", 9) ||
	       !strncmp(wire, "tcp:localhost:", 14);
}

/* What this router says of its connection with that host, or NULL. */
static const json_t *peer_of(const struct doctor *d, const char *host)
{
	json_t *p;
	size_t i;

	json_array_foreach(json_object_get(d->health, "peers"), i, p)
		if (!strcmp(str_of(p, "host"), host))
			return p;
	return NULL;
}

static void check_host(struct doctor *d, const json_t *host)
{
	const char *name = str_of(host, "name"), *wire = str_of(host, "wire");
	const json_t *p = peer_of(d, name);
	int err;

	if (!json_is_true(json_object_get(host, "up"))) {
		finding(&d->f, FINDING_PROBLEM, ADVICE_HOST_DOWN,
			"host %s: the orchestrator has not heard of it for a while", name);
		return;
	}
	if (!strncmp(wire, "tcp:", 4) && is_loopback(wire)) {
		finding(&d->f, FINDING_PROBLEM, "wire_advertise in its ffr.conf",
			"host %s: it tells others to connect to %s, which is each host's own", name,
			wire);
		return;
	}
	/* also where there is a connection: that a network is cut off, TCP notices when something is sent */
	err = strncmp(wire, "tcp:", 4) ? -EDESTADDRREQ : doctor_connect(wire);
	if (err == -EDESTADDRREQ)
		finding(&d->f, FINDING_PROBLEM, "wire_listen in its ffr.conf",
			"host %s: it takes no connections of other hosts", name);
	else if (err)
		finding(&d->f, FINDING_PROBLEM,
			err == -ECONNREFUSED ?
				"its router listens elsewhere: wire_listen and wire_advertise "
				"in its ffr.conf" :
				"a route, and a firewall that lets this port through",
			"host %s: %s: %s; programs see \"transport retry counter exceeded\"", name,
			wire, strerror(-err));
	else if (p && json_is_true(json_object_get(p, "wanted")) && *str_of(p, "why"))
		finding(&d->f, FINDING_PROBLEM, ADVICE_HOST_UNREACHED,
			"host %s: %s: no connection: %s", name, wire, str_of(p, "why"));
	else
		finding(&d->f, FINDING_OK, NULL, "host %s: %s %s", name, wire,
			json_is_true(json_object_get(p, "connected")) ? "is connected" :
									"takes connections");
}

static void check_hosts(struct doctor *d)
{
	const char *self = str_of(d->version, "hostname");
	json_t *host, *hosts = json_object_get(d->hosts, "hosts");
	size_t i;

	json_array_foreach(hosts, i, host) {
		if (strcmp(str_of(host, "name"), self))
			check_host(d, host);
		else if (json_array_size(hosts) > 1 && !*str_of(d->health, "wire"))
			finding(&d->f, FINDING_PROBLEM, "wire_listen in ffr.conf",
				"host %s: this one takes no connections of other hosts", self);
	}
}

/* ---- one container ---------------------------------------------------------------------------------- */

/* Where it is, if it is not here. */
static void check_elsewhere(struct doctor *d, const char *name)
{
	json_t *answer = ask(d, "container_list", NULL, true), *c;
	const char *host = NULL;
	size_t i;

	json_array_foreach(json_object_get(answer, "containers"), i, c)
		if (!strcmp(str_of(c, "name"), name))
			host = str_of(c, "host");
	if (host)
		finding(&d->f, FINDING_PROBLEM,
			"if it was moved there, remove it from this host's engine (docker rm); to have it "
			"here again: stop it there, then here: ffctl container claim NAME",
			"container %s: it belongs to host %s", name, host);
	else
		finding(&d->f, FINDING_PROBLEM,
			"start it with --runtime freeflow or --device freeflow.io/rdma=auto (a pod: its "
			"container asks for freeflow.io/rdma: 1); or ffctl container add NAME, and the "
			"flags that it prints",
			"container %s: the router does not know it", name);
	json_decref(answer);
}

static json_t *counters(struct doctor *d, const char *name)
{
	json_t *answer = ask(d, "stats", name, true), *c;

	c = json_incref(json_object_get(json_array_get(json_object_get(answer, "containers"), 0),
					"counters"));
	json_decref(answer);
	return c;
}

/* Requests wait for a limit per second. An operator set it on purpose, so it is no problem. */
static void tell_throttled(struct doctor *d, const json_t *c, const struct traffic_problem *p)
{
	json_t *answer = ask(d, "tenant_list", NULL, true), *t;
	char limits[512] = "";
	size_t i;

	limit_rates_text(json_object_get(c, "limits"), "container", limits, sizeof(limits));
	json_array_foreach(json_object_get(answer, "tenants"), i, t)
		if (!strcmp(str_of(t, "tenant"), str_of(c, "tenant")))
			limit_rates_text(json_object_get(t, "limits"), "tenant", limits,
					 sizeof(limits));
	json_decref(answer);
	if (*limits)
		finding(&d->f, FINDING_NOTE, p->advice,
			"container %s: throttled: it is limited to %s", str_of(c, "name"), limits);
	else
		finding(&d->f, FINDING_NOTE,
			"ffctl container show and ffctl tenant list have the limits of its peers",
			"container %s: throttled: it sends to a container with a limit on what that "
			"receives (rx-rate), or reads from one with a serve-rate",
			str_of(c, "name"));
}

static void check_traffic(struct doctor *d, const json_t *c)
{
	const char *name = str_of(c, "name");
	json_t *first = counters(d, name), *then;
	json_int_t grown;

	usleep(SAMPLE_US);
	then = counters(d, name);
	for (size_t i = 0; i < NUM_TRAFFIC_PROBLEMS; i++) {
		const struct traffic_problem *p = &traffic_problem[i];

		grown = int_of(then, p->counter) - int_of(first, p->counter);
		if (grown > 0 && !strcmp(p->counter, "throttled_ns"))
			tell_throttled(d, c, p);
		else if (grown > 0 && p->is_note)
			finding(&d->f, FINDING_NOTE, p->advice,
				"container %s: %lld times in a second %s", name, (long long)grown,
				p->text);
		else if (grown > 0)
			finding(&d->f, FINDING_PROBLEM, p->advice, "container %s: %s", name,
				p->text);
	}
	json_decref(first);
	json_decref(then);
}

static void check_quotas(struct doctor *d, const json_t *c)
{
	json_t *l;
	size_t i;

	json_array_foreach(json_object_get(c, "used_up"), i, l) {
		bool is_own = !strcmp(str_of(l, "of"), "container");

		finding(&d->f, FINDING_PROBLEM, is_own ? ADVICE_QUOTA : ADVICE_TENANT_QUOTA,
			QUOTA_USED_UP, str_of(c, "name"), is_own ? "it" : "its tenant",
			(unsigned long long)int_of(l, "most"), str_of(l, "limit"));
	}
}

/* What can be seen of a process without the router: the router does not run, or does not know the container. */
static void check_stranger(struct doctor *d, const char *name, pid_t pid)
{
	json_t *c = json_pack("{s:s}", "name", name);

	check_process(&d->f, c, pid);
	json_decref(c);
}

static void check_container(struct doctor *d, const char *name, pid_t pid)
{
	json_t *answer = ask(d, "container_show", name, true);
	const json_t *c = json_object_get(answer, "container"), *heard;

	if (!c) {
		if (d->version)
			check_elsewhere(d, name);
		if (pid)
			check_stranger(d, name, pid);
		return;
	}
	heard = json_object_get(c, "heard");
	if (int_of(heard, "refused"))
		finding(&d->f, FINDING_PROBLEM, ADVICE_REFUSED,
			"container %s: %lld programs were refused, the last %lld s ago: %s", name,
			(long long)int_of(heard, "refused"), (long long)int_of(heard, "refused_s"),
			str_of(heard, "refused_why"));
	if (int_of(heard, "opened"))
		finding(&d->f, FINDING_OK, NULL, "container %s: programs have opened the device",
			name);
	else if (!pid && !int_of(heard, "refused"))
		finding(&d->f, FINDING_NOTE,
			"if one has tried to: ffctl doctor NAME --pid PID, with a process of the container",
			"container %s: no program has opened the device yet", name);
	check_quotas(d, c);
	check_traffic(d, c);
	if (pid) {
		check_process(&d->f, c, pid);
		doctor_addresses(&d->f, c, pid);
	}
	json_decref(answer);
}

/* ---- the command ------------------------------------------------------------------------------------ */

struct args {
	const char *name, *image, *cdi, *daemon_json;
	pid_t pid;
};

static void args_parse(struct args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "pid", required_argument, NULL, 'p' },
		{ "image", required_argument, NULL, 'i' },
		{ "cdi", required_argument, NULL, 'c' },
		{ "daemon-json", required_argument, NULL, 'd' },
		{ 0 },
	};
	int o;

	*a = (struct args){ .cdi = CDI_FILE, .daemon_json = "/etc/docker/daemon.json" };
	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (o) {
		case 'p':
			a->pid = pid_parse(optarg);
			break;
		case 'i':
			a->image = optarg;
			break;
		case 'c':
			a->cdi = optarg;
			break;
		case 'd':
			a->daemon_json = optarg;
			break;
		default:
			option_fail(o, argv);
		}
	}
	if (optind < argc)
		a->name = argv[optind++];
	no_more(argc, argv, optind);
	if (a->pid && !a->name)
		usage_fail("doctor: --pid goes with a container's name");
}

void cmd_doctor(int argc, char **argv)
{
	struct doctor d = { 0 };
	struct args a;

	args_parse(&a, argc, argv);
	check_router(&d);
	doctor_libraries(&d.f);
	doctor_rapidio(&d.f);
	doctor_engines(&d.f, a.daemon_json, a.cdi, json_object_get(d.containers, "containers"));
	if (d.health && check_orchestrator(&d))
		check_hosts(&d);
	if (a.name)
		check_container(&d, a.name, a.pid);
	if (a.image)
		doctor_image(&d.f, a.image);
	json_decref(d.version);
	json_decref(d.containers);
	json_decref(d.health);
	json_decref(d.hosts);
	findings_end(&d.f);
}
