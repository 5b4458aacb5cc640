/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * reload.c - the configuration, read again while the router runs: which options take effect, and which the log says to
 * need a restart. Called by main.c with a configuration that has no mistake. Control thread.
 */
#include <stdio.h>
#include <string.h>

#include "ffr/admin/metrics.h"
#include "ffr/ctl/container.h"
#include "ffr/lib/log.h"
#include "ffr/peer/peer.h"
#include "ffr/router.h"

/* X(field of struct ffr_conf, option): what is read at the start only */
#define STRINGS(X)                                                                                 \
	X(runtime_dir, "runtime_dir")                                                              \
	X(admin_socket, "admin_socket")                                                            \
	X(user, "user")                                                                            \
	X(engine_group, "engine_group")                                                            \
	X(hostname, "hostname")                                                                    \
	X(orchestrator, "orchestrator")                                                            \
	X(store, "store")                                                                          \
	X(cluster, "cluster")                                                                      \
	X(wire_listen, "wire_listen")                                                              \
	X(wire_advertise, "wire_advertise")                                                        \
	X(wire_cert, "wire_cert")                                                                  \
	X(wire_key, "wire_key")                                                                    \
	X(wire_ca, "wire_ca")                                                                      \
	X(wire_crl, "wire_crl")

#define VALUES(X)                                                                                  \
	X(sandbox, "sandbox")                                                                      \
	X(mode, "mode")                                                                            \
	X(fast_threads, "fast_threads")                                                            \
	X(fast_cpu, "fast_cpu")                                                                    \
	X(fast.realtime, "realtime")                                                               \
	X(fast.priority, "priority")                                                               \
	X(fast.spin_us, "spin_us")                                                                 \
	X(fast.spin_auto, "spin")                                                                  \
	X(fast.quantum, "quantum")                                                                 \
	X(fast.urgent, "latency_share")                                                            \
	X(fast.memory_workers, "memory_workers")                                                   \
	X(fast.latency, "counters")                                                                \
	X(rio.port, "rio_port")                                                                    \
	X(wire_tls, "wire_tls")                                                                    \
	X(wire_check_addr, "wire_check_address")                                                   \
	X(fence_after, "fence_after")

struct names {
	char text[512];
	size_t len;
};

static void name_add(struct names *n, const char *name)
{
	int len = snprintf(n->text + n->len, sizeof(n->text) - n->len, "%s%s", n->len ? ", " : "",
			   name);

	n->len += (size_t)len;
	if (n->len >= sizeof(n->text))
		n->len = sizeof(n->text) - 1;
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool pools_are_same(const struct ffr_conf *a, const struct ffr_conf *b)
{
	bool same = a->num_pools == b->num_pools;

	for (uint32_t i = 0; same && i < a->num_pools; i++)
		same = is_same(a->pools[i], b->pools[i]);
	return same;
}

static void nics_compare(const struct ffr_conf *a, const struct ffr_conf *b, struct names *n)
{
	bool name = a->num_nics != b->num_nics, port = false, net = false, gid = false;
	bool direct = false;

	for (uint32_t i = 0; i < a->num_nics && i < b->num_nics; i++) {
		const struct nic_conf *x = &a->nics[i], *y = &b->nics[i];

		name |= !is_same(x->name, y->name);
		port |= x->port != y->port;
		net |= !is_same(x->net, y->net);
		gid |= x->gid_index != y->gid_index;
		direct |= x->direct != y->direct;
	}
	if (name)
		name_add(n, "nic");
	if (port && !name)
		name_add(n, "nic_port");
	if (net || a->num_nic_networks != b->num_nic_networks)
		name_add(n, "nic_network");
	if (gid || a->num_nic_gids != b->num_nic_gids)
		name_add(n, "nic_gid_index");
	if (direct)
		name_add(n, "nic_direct");
}

/* Adds to n the names of options whose new values (b) are not in force until a restart; a: the values in force. */
static void need_restart(const struct ffr_conf *a, const struct ffr_conf *b, struct names *n)
{
#define X(field, name)                                                                             \
	if (!is_same(a->field, b->field))                                                          \
		name_add(n, name);
	STRINGS(X)
#undef X
#define X(field, name)                                                                             \
	if (memcmp(&a->field, &b->field, sizeof(a->field)))                                        \
		name_add(n, name);
	VALUES(X)
#undef X
	if (!pools_are_same(a, b))
		name_add(n, "pools");
	nics_compare(a, b, n);
}

/*
 * The new address is served before the old one is not. Where it cannot be, the old one stays: a socket in a folder that
 * Landlock closes, or an address while the router's network is one of its own.
 */
static void metrics_change(struct router *r, struct ffr_conf *next, struct names *done,
			   struct names *later)
{
	struct metrics *m = NULL;
	char *old = r->conf.metrics;
	int err = 0;

	if (is_same(old, next->metrics))
		return;
	if (r->alone && next->metrics && strncmp(next->metrics, "unix:", 5)) {
		name_add(later, "metrics");
		return;
	}
	if (next->metrics)
		err = router_metrics(r, next->metrics, &m);
	if (err) {
		log_err("metrics: %s: %s: %s; %s is served on", next->metrics, strerror(-err),
			err == -EACCES ? "restart ffr, which may reach it then" :
					 "correct `metrics` in ffr.conf",
			old ? old : "nothing");
		return;
	}
	metrics_stop(r->metrics);
	r->metrics = m;
	r->conf.metrics = next->metrics;
	next->metrics = old;
	name_add(done, "metrics");
}

void router_reload(struct router *r, struct ffr_conf *next)
{
	struct names done = { .len = 0 }, later = { .len = 0 };
	struct ffr_conf *conf = &r->conf;

	need_restart(conf, next, &later);
	if (conf->log_level != next->log_level)
		name_add(&done, "log_level");
	log_level = conf->log_level = next->log_level;
	metrics_change(r, next, &done, &later);
	if (memcmp(&conf->limits, &next->limits, sizeof(conf->limits)))
		name_add(&done, "limits");
	if (memcmp(&conf->defaults, &next->defaults, sizeof(conf->defaults)))
		name_add(&done, "defaults");
	conf->limits = next->limits;
	conf->defaults = next->defaults;
	router_limits(r);
	containers_bound(&r->ctl, &conf->limits, &conf->defaults);
	peers_look(r->peers);
	if (done.len)
		log_info("configuration: read again; new in force: %s", done.text);
	else
		log_info("configuration: read again; no option with effect at once has changed");
	if (later.len)
		log_warn("configuration: changed in the file, but not in force until `systemctl "
			 "restart ffr`: %s",
			 later.text);
}
