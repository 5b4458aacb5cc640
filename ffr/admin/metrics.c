/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * metrics.c - the router's counters in Prometheus' text format, version 0.0.4. Control thread.
 *
 * Names follow Prometheus' conventions: base units (bytes, seconds), _total for what only grows.
 * Labels' values are names of containers and tenants, which have no character that would have to be
 * escaped. Queue pairs have no metrics, for they come and go: `ffctl stats --qps` shows them.
 *
 * Tests: system/metrics.sh
 */
#include "ffr/admin/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ffr/admin/admin.h"
#include "ffr/admin/carriers.h"
#include "ffr/fast/backend.h"
#include "ffr/lib/version.h"
#include "ffr/orch/orch.h"
#include "ffr/peer/peer.h"

struct target {
	const struct container *c;
	struct sums t;
	uint64_t depth[3]; /* of its QPs together */
};

struct page {
	FILE *out;
	struct target *list;
	size_t n;
};

static void head(struct page *p, const char *name, const char *type, const char *help)
{
	fprintf(p->out, "# HELP freeflow_%s %s\n# TYPE freeflow_%s %s\n", name, help, name, type);
}

/* The labels of one sample and its value; `label` may be NULL. */
static void sample(struct page *p, const struct target *a, const char *name, const char *label,
		   const char *value, uint64_t n)
{
	fprintf(p->out, "freeflow_%s{container=\"%s\",tenant=\"%s\"", name, a->c->name,
		a->c->tenant);
	if (label)
		fprintf(p->out, ",%s=\"%s\"", label, value);
	fprintf(p->out, "} %" PRIu64 "\n", n);
}

/* ---- families with one sample for each container ---------------------------------------------- */

/* X(name, where in struct sums, type, help) */
#define PLAIN(X)                                                                                   \
	X("container_sessions", n.sessions, "gauge", "Programs that have the device open.")        \
	X("container_queue_pairs", n.qps, "gauge", "Queue pairs.")                                 \
	X("container_completion_queues", n.cqs, "gauge", "Completion queues.")                     \
	X("container_shared_receive_queues", n.srqs, "gauge", "Shared receive queues.")            \
	X("container_memory_regions", n.mrs, "gauge", "Memory regions.")                           \
	X("container_registered_bytes", n.registered, "gauge", "Bytes of memory regions.")         \
	X("container_zero_copy_bytes", n.zero_copy, "gauge",                                       \
	  "Bytes of memory regions whose pages the router shares.")                                \
	X("container_cm_connections", cm.connections, "gauge",                                     \
	  "Connections of the connection manager.")                                                \
	X("container_tx_bytes_total", stats.tx_bytes, "counter",                                   \
	  "Bytes sent: SEND and WRITE, READ served.")                                              \
	X("container_rx_bytes_total", stats.rx_bytes, "counter",                                   \
	  "Bytes received: SEND and WRITE to it, READ by it.")                                     \
	X("container_view_bytes_total", stats.view_bytes, "counter",                               \
	  "Bytes copied by views of clients' memory (ffmem.ko).")                                  \
	X("container_pvm_bytes_total", stats.pvm_bytes, "counter",                                 \
	  "Bytes copied through /proc/PID/mem.")                                                   \
	X("container_pvm_stalls_total", stats.pvm_stalls, "counter",                               \
	  "Such copies that lasted too long, or failed for now.")                                  \
	X("container_pvm_held_total", stats.pvm_held, "counter",                                   \
	  "Such copies that failed since too many waited.")                                        \
	X("container_on_demand_mrs", n.odp_mrs, "gauge", "Memory regions with on-demand paging.")  \
	X("container_page_faults_total", stats.odp_faults, "counter",                              \
	  "Pages of on-demand memory that were not there when they were used.")                    \
	X("container_page_invalidations_total", stats.odp_invalidations, "counter",                \
	  "Pages of on-demand memory that the router unmapped.")                                   \
	X("container_prefetched_pages_total", stats.odp_prefetched, "counter",                     \
	  "Pages of on-demand memory that came since they were asked for.")                        \
	X("container_rnr_naks_total", stats.rnr, "counter", "RNR NAKs received.")                  \
	X("container_retries_total", stats.retries, "counter", "Retransmission time-outs.")        \
	X("container_dropped_messages_total", stats.ud_drops, "counter",                           \
	  "Datagrams and UC messages dropped.")                                                    \
	X("container_cq_overruns_total", stats.cq_overruns, "counter",                             \
	  "Completion queues that overran.")                                                       \
	X("container_doorbells_total", stats.bells, "counter",                                     \
	  "Wake-ups of the router by a doorbell.")                                                 \
	X("container_completion_events_total", stats.comp_events, "counter",                       \
	  "Completion events sent.")                                                               \
	X("container_async_events_total", stats.async_events, "counter",                           \
	  "Asynchronous events sent.")                                                             \
	X("container_lost_events_total", stats.events_lost, "counter",                             \
	  "Events dropped because the client did not read them.")                                  \
	X("container_cgroup_refused_total", stats.cgroup_refused, "counter",                       \
	  "Programs refused since they are not in the container's cgroup.")                        \
	X("container_bad_requests_total", stats.bad_wqes, "counter",                               \
	  "Malformed work queue entries.")

static void plain(struct page *p)
{
#define X(name, where, type, help)                                                                 \
	head(p, name, type, help);                                                                 \
	for (size_t i = 0; i < p->n; i++)                                                          \
		sample(p, &p->list[i], name, NULL, NULL, p->list[i].t.where);
	PLAIN(X)
#undef X
}

/* ---- families with labels of their own ---------------------------------------------------------- */

static void operations(struct page *p)
{
	static const char name[] = "container_operations_total";

	head(p, name, "counter", "Requests and receives completed with success, by operation.");
	for (size_t i = 0; i < p->n; i++) {
		const struct ff_stats *st = &p->list[i].t.stats;

		sample(p, &p->list[i], name, "operation", "send", st->send_ops);
		sample(p, &p->list[i], name, "operation", "write", st->write_ops);
		sample(p, &p->list[i], name, "operation", "read", st->read_ops);
		sample(p, &p->list[i], name, "operation", "atomic", st->atomic_ops);
		sample(p, &p->list[i], name, "operation", "flush", st->flush_ops);
		sample(p, &p->list[i], name, "operation", "window", st->mw_ops);
		sample(p, &p->list[i], name, "operation", "receive", st->recv_ops);
	}
}

static void completions(struct page *p)
{
	static const char name[] = "container_completions_total";

	head(p, name, "counter", "Requests and receives completed, by status.");
	for (size_t i = 0; i < p->n; i++) {
#define X(status, text)                                                                            \
	sample(p, &p->list[i], name, "status", #text,                                              \
	       stats_status(&p->list[i].t.stats, IBV_WC_##status));
		FF_STATS_STATUS(X)
#undef X
	}
}

static void depths(struct page *p)
{
	static const char *const queue[] = { "send", "receive", "completion" };
	static const char name[] = "container_queue_entries";

	head(p, name, "gauge", "Entries in the queues of all queue pairs now.");
	for (size_t i = 0; i < p->n; i++)
		for (int k = 0; k < 3; k++)
			sample(p, &p->list[i], name, "queue", queue[k], p->list[i].depth[k]);
}

static void copied(struct page *p)
{
	static const char name[] = "container_copied_bytes";

	head(p, name, "gauge",
	     "Bytes of memory regions that are copied through the process, by the reason.");
	for (size_t i = 0; i < p->n; i++)
		for (unsigned k = 0; k < FF_WHY_NUM; k++)
			if (p->list[i].t.n.copied[k])
				sample(p, &p->list[i], name, "reason", why_name[k],
				       p->list[i].t.n.copied[k]);
}

static void carried(struct page *p)
{
	static const char name[] = "container_connected_queue_pairs";

	head(p, name, "gauge", "Queue pairs in RTR and later, by what carries them.");
	for (size_t i = 0; i < p->n; i++) {
		struct carriers sum = { 0 };

		carriers_add(&sum, p->list[i].c);
		for (uint32_t k = 0; k < sum.n; k++)
			sample(p, &p->list[i], name, "by", sum.list[k].by, sum.list[k].qps);
	}
}

/*
 * What a container has of each of its quotas, and may have at most; without a limit there is no
 * second sample.
 */
static void quotas(struct page *p)
{
	static const char used[] = "container_quota_used", limit[] = "container_quota_limit";

	head(p, used, "gauge", "What is in use of a quota: a number, or bytes.");
	for (size_t i = 0; i < p->n; i++)
		for (int q = 0; q < QUOTA_NUM; q++)
			sample(p, &p->list[i], used, "quota", quota_name[q],
			       p->list[i].c->quota.use.used[q]);
	head(p, limit, "gauge", "The limit of a quota, where there is one.");
	for (size_t i = 0; i < p->n; i++)
		for (int q = 0; q < QUOTA_NUM; q++) {
			uint64_t max = quota_limit(&p->list[i].c->limits, (enum quota)q);

			if (max && max != FFO_UNLIMITED)
				sample(p, &p->list[i], limit, "quota", quota_name[q], max);
		}
}

/* The other limits, of rates: what is in use of them other metrics count. */
static void rates(struct page *p)
{
	static const char bytes[] = "container_limit_bytes_per_second",
			  cpus[] = "container_limit_cpus";

	head(p, bytes, "gauge", "The limit of a rate, where there is one.");
	for (size_t i = 0; i < p->n; i++) {
		const struct ffo_limits *l = &p->list[i].c->limits;

		if (l->tx_rate)
			sample(p, &p->list[i], bytes, "rate", "tx", l->tx_rate);
		if (l->rx_rate)
			sample(p, &p->list[i], bytes, "rate", "rx", l->rx_rate);
		if (l->serve_rate)
			sample(p, &p->list[i], bytes, "rate", "serve", l->serve_rate);
	}
	head(p, cpus, "gauge",
	     "How much of container_router_cpu_seconds_total there may be per second.");
	for (size_t i = 0; i < p->n; i++) {
		const struct container *c = p->list[i].c;

		if (c->limits.max_cpu && c->limits.max_cpu != FFO_UNLIMITED)
			fprintf(p->out, "freeflow_%s{container=\"%s\",tenant=\"%s\"} %.3f\n", cpus,
				c->name, c->tenant, (double)c->limits.max_cpu / 1000);
	}
}

/* X(metric, field of struct ff_stats, ns; help) */
#define TIMES(X)                                                                                   \
	X("container_throttled_seconds_total", throttled_ns,                                       \
	  "Time that queue pairs waited for a rate limit, added up.")                              \
	X("container_router_cpu_seconds_total", cpu_ns, "CPU time that the router spent on it.")   \
	X("container_page_fault_seconds_total", odp_fault_ns,                                      \
	  "Time of the copies in which pages of on-demand memory had to come.")                    \
	X("container_prefetch_seconds_total", odp_prefetch_ns,                                     \
	  "Time that programs had pages of on-demand memory come.")                                \
	X("container_held_seconds_total", held_ns,                                                 \
	  "Time that its requests waited, since it had reached max_cpu.")                          \
	X("container_stalled_seconds_total", stalled_ns,                                           \
	  "Time that its files kept threads of the router waiting.")

static void times(struct page *p)
{
#define X(metric, field, help)                                                                     \
	head(p, metric, "counter", help);                                                          \
	for (size_t i = 0; i < p->n; i++)                                                          \
		fprintf(p->out, "freeflow_%s{container=\"%s\",tenant=\"%s\"} %.9f\n", metric,      \
			p->list[i].c->name, p->list[i].c->tenant,                                  \
			(double)p->list[i].t.stats.field / 1e9);
	TIMES(X)
#undef X
}

/* Of the router's 226 buckets those that end with a power of 4: from 256 ns to 17 s. */
static void histogram(struct page *p, const struct target *a, const char *name)
{
	const struct lat *h = &a->t.lat;
	uint64_t n = 0;
	uint32_t i = 0;

	for (uint32_t shift = 8; shift <= LAT_MAX_SHIFT; shift += 2) {
		for (; i < LAT_BUCKETS - 1 && lat_bound(i) <= 1ull << shift; i++)
			n += h->count[i];
		fprintf(p->out,
			"freeflow_%s_bucket{container=\"%s\",tenant=\"%s\",le=\"%.12g\"} %" PRIu64
			"\n",
			name, a->c->name, a->c->tenant, (double)(1ull << shift) / 1e9, n);
	}
	n += h->count[LAT_BUCKETS - 1];
	fprintf(p->out,
		"freeflow_%s_bucket{container=\"%s\",tenant=\"%s\",le=\"+Inf\"} %" PRIu64 "\n"
		"freeflow_%s_sum{container=\"%s\",tenant=\"%s\"} %.9f\n"
		"freeflow_%s_count{container=\"%s\",tenant=\"%s\"} %" PRIu64 "\n",
		name, a->c->name, a->c->tenant, n, name, a->c->name, a->c->tenant,
		(double)h->sum / 1e9, name, a->c->name, a->c->tenant, n);
}

static void durations(struct page *p)
{
	static const char name[] = "container_request_duration_seconds";

	head(p, name, "histogram",
	     "Time from when the router fetched a request to its completion.");
	for (size_t i = 0; i < p->n; i++)
		histogram(p, &p->list[i], name);
}

static void threads(struct page *p, const struct fast_host *h)
{
	static const char name[] = "container_thread";

	head(p, "fast_threads", "gauge", "Fast threads.");
	fprintf(p->out, "freeflow_fast_threads %u\n", h->num_threads);
	head(p, "thread_moves_total", "counter",
	     "Moves of containers that talk to each other from one fast thread to another.");
	fprintf(p->out, "freeflow_thread_moves_total %" PRIu64 "\n", h->num_moves);
	head(p, "control_thread_starved_total", "counter",
	     "Times that the control thread was runnable and got no CPU for 50 ms.");
	fprintf(p->out, "freeflow_control_thread_starved_total %" PRIu64 "\n",
		rescue_count(h->rescue));
	head(p, name, "gauge", "The fast thread that serves the container.");
	for (size_t i = 0; i < p->n; i++)
		fprintf(p->out, "freeflow_%s{container=\"%s\",tenant=\"%s\"} %u\n", name,
			p->list[i].c->name, p->list[i].c->tenant, p->list[i].c->fast->index);
}

static void nics(struct page *p, const struct fast_host *h)
{
	static const char name[] = "container_nic";

	head(p, "nic_up", "gauge", "Is the NIC there? 0: it was removed.");
	if (!h->num_nics)
		return;
	for (uint32_t i = 0; i < h->num_nics; i++)
		fprintf(p->out, "freeflow_nic_up{nic=\"%s\"} %d\n", h->nic[i].name,
			!h->nic[i].is_away);
	head(p, name, "gauge", "Which NIC is the container's: always 1.");
	for (size_t i = 0; i < p->n; i++)
		fprintf(p->out, "freeflow_%s{container=\"%s\",tenant=\"%s\",nic=\"%s\"} 1\n", name,
			p->list[i].c->name, p->list[i].c->tenant, h->nic[p->list[i].c->nic].name);
}

/* What the carrier counts of its own. */
static void carrier(struct page *p, struct fast_host *h, const struct carrier *c)
{
	struct carrier_counter list[CARRIER_COUNTERS];
	size_t n;

	if (!c->counters)
		return;
	fast_lock(h);
	n = c->counters(h->threads[0], list);
	fast_unlock(h);
	for (size_t i = 0; i < n; i++) {
		head(p, list[i].name, list[i].gauge ? "gauge" : "counter",
		     list[i].help ?: list[i].name);
		fprintf(p->out, "freeflow_%s %" PRIu64 "\n", list[i].name, list[i].value);
	}
}

/* ---- the orchestrator, other hosts ----------------------------------------------------------- */

struct hosts {
	struct page *p;
	const char *name;
	bool connected; /* that, or up */
};

static void host_sample(void *arg, const struct peer_state *s)
{
	const struct hosts *h = arg;

	fprintf(h->p->out, "freeflow_%s{host=\"%s\"} %d\n", h->name, s->host,
		h->connected ? s->attached : s->up);
}

static void cluster(struct page *p, const struct metrics_conf *conf)
{
	struct hosts up = { .p = p, .name = "host_up" };
	struct hosts connected = { .p = p, .name = "host_connected", .connected = true };
	struct orch_state o;

	orch_state(conf->ctl->orch, &o);
	head(p, "orchestrator_up", "gauge", "Is the router connected to the orchestrator?");
	fprintf(p->out, "freeflow_orchestrator_up %d\n", o.up);
	head(p, "fenced", "gauge",
	     "Is this host cut off from everybody? Its containers have no device then.");
	fprintf(p->out, "freeflow_fenced %d\n", conf->ctl->fenced);
	head(p, up.name, "gauge",
	     "Is that other host's router connected to the orchestrator? Hosts that containers here have peers on.");
	peers_each(conf->peers, host_sample, &up);
	head(p, connected.name, "gauge",
	     "Is there a connection with that host? It is made when there is something to send.");
	peers_each(conf->peers, host_sample, &connected);
}

/* ---- the page ------------------------------------------------------------------------------------- */

static void add_depths(struct target *a)
{
	const struct session *s;

	LIST_FOREACH(s, &a->c->sessions, entry) {
		const struct obj_table *qps = &s->tab[OBJ_QP];

		for (uint32_t i = 0; i < qps->size; i++) {
			const struct qp *qp = obj_of(qps->slot[i], qp);
			struct ff_depths d;

			if (!qp || qp->xrc.target) /* an XRC_RECV QP's receives are its SRQ's */
				continue;
			stats_depths(qp, &d);
			a->depth[0] += d.sq;
			a->depth[1] += d.rq;
			a->depth[2] += d.cq;
		}
	}
}

static int collect(const struct fast_host *h, struct page *p)
{
	const struct container *c;

	LIST_FOREACH(c, &h->containers, entry)
		p->n++;
	p->list = calloc(p->n + 1, sizeof(*p->list));
	if (!p->list)
		return -1;
	p->n = 0;
	LIST_FOREACH(c, &h->containers, entry) {
		struct target *a = &p->list[p->n++];

		a->c = c;
		sums_add(&a->t, c);
		add_depths(a);
	}
	return 0;
}

char *metrics_text(const struct metrics_conf *conf, size_t *len)
{
	struct fast_host *h = conf->ctl->host;
	struct page p = { 0 };
	char *text = NULL;

	if (collect(h, &p))
		return NULL;
	p.out = open_memstream(&text, len);
	if (p.out) {
		head(&p, "build_info", "gauge", "The router's version.");
		fprintf(p.out, "freeflow_build_info{version=\"%s\",host=\"%s\"} 1\n", FF_VERSION,
			conf->host);
		head(&p, "containers", "gauge", "Containers on this host.");
		fprintf(p.out, "freeflow_containers %zu\n", p.n);
		cluster(&p, conf);
		threads(&p, h);
		nics(&p, h);
		CARRIER_FOREACH(u, h->threads[0])
			carrier(&p, h, u->ops);
		plain(&p);
		operations(&p);
		completions(&p);
		depths(&p);
		carried(&p);
		copied(&p);
		quotas(&p);
		rates(&p);
		times(&p);
		durations(&p);
		if (fclose(p.out)) {
			free(text);
			text = NULL;
		}
	}
	free(p.list);
	return text;
}
