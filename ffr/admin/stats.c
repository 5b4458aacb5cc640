/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stats.c - counters and times for administrators: of containers, tenants and QPs. Control
 * thread; obj/stats.c has what is counted where, and makes a container's and a session's sums.
 *
 * Tests: system/stats.sh
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ffo/base/proto.h"
#include "ffr/mem/view.h"
#include "ffr/admin/admin.h"
#include "ffr/admin/carriers.h"
#include "ffr/ctl/container.h"

#define QPS_PER_ANSWER 128u
#define MRS_PER_ANSWER 128u
#define MRS_LOOKED     16384u /* in one call */

void sums_add(struct sums *t, const struct container *c)
{
	struct cm_counts cm = cm_counts(c);
	const struct session *s;

	t->cm.ids += cm.ids;
	t->cm.listeners += cm.listeners;
	t->cm.connections += cm.connections;
	LIST_FOREACH(s, &c->sessions, entry)
		counts_add_session(&t->n, s);
	stats_of_container(c, &t->stats, &t->lat);
}

json_t *counters_json(const struct ff_stats *st)
{
	json_t *j = json_object();

#define X(name, help) json_object_set_new(j, #name, json_integer((json_int_t)st->name));
	FF_STATS(X)
#undef X
	return j;
}

static json_t *completions_json(const struct ff_stats *st)
{
	json_t *j = json_object();

#define X(status, name)                                                                            \
	json_object_set_new(j, #name, json_integer((json_int_t)stats_status(st, IBV_WC_##status)));
	FF_STATS_STATUS(X)
#undef X
	return j;
}

/* [bound, count] of each bucket that has any; the one without a bound has the longest time. */
json_t *latency_json(const struct lat *h)
{
	json_t *buckets = json_array();
	uint64_t total = lat_total(h);

	for (uint32_t i = 0; i < LAT_BUCKETS; i++)
		if (h->count[i])
			json_array_append_new(buckets, json_pack("[I, I]",
								 (json_int_t)(i < LAT_BUCKETS - 1 ?
										      lat_bound(i) :
										      h->max + 1),
								 (json_int_t)h->count[i]));
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "count", (json_int_t)total,
			 "sum_ns", (json_int_t)h->sum, "p50_ns", (json_int_t)lat_percentile(h, 0.5),
			 "p90_ns", (json_int_t)lat_percentile(h, 0.9), "p99_ns",
			 (json_int_t)lat_percentile(h, 0.99), "p999_ns",
			 (json_int_t)lat_percentile(h, 0.999), "max_ns", (json_int_t)h->max,
			 "buckets", buckets);
}

json_t *copied_json(const struct ff_counts *n)
{
	json_t *j = json_object();

	for (unsigned i = 0; i < FF_WHY_NUM; i++)
		if (n->copied[i])
			json_object_set_new(j, why_name[i], json_integer((json_int_t)n->copied[i]));
	return j;
}

static json_t *sums_json(const struct sums *t, bool latency)
{
	json_t *j = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}",
			      "sessions", (json_int_t)t->n.sessions, "qps", (json_int_t)t->n.qps,
			      "cqs", (json_int_t)t->n.cqs, "srqs", (json_int_t)t->n.srqs, "mrs",
			      (json_int_t)t->n.mrs, "pds", (json_int_t)t->n.pds, "registered_bytes",
			      (json_int_t)t->n.registered, "zero_copy_bytes",
			      (json_int_t)t->n.zero_copy, "cm_ids", (json_int_t)t->cm.ids,
			      "cm_listeners", (json_int_t)t->cm.listeners, "cm_connections",
			      (json_int_t)t->cm.connections, "counters", counters_json(&t->stats),
			      "completions", completions_json(&t->stats));

	json_object_set_new(j, "on_demand_mrs", json_integer(t->n.odp_mrs));
	json_object_set_new(j, "copied_bytes", copied_json(&t->n));
	if (latency)
		json_object_set_new(j, "latency", latency_json(&t->lat));
	return j;
}

static json_t *container_sums(const struct container *c, bool latency)
{
	struct sums t = { 0 };
	json_t *j;

	sums_add(&t, c);
	j = sums_json(&t, latency);
	json_object_set_new(j, "name", json_string(c->name));
	json_object_set_new(j, "tenant", json_string(c->tenant));
	return j;
}

/* A tenant's on this host, as one element. NULL: it has no container here. */
static json_t *tenant_sums(const struct admin_conf *a, const char *tenant, bool latency)
{
	struct sums t = { 0 };
	struct container *c;
	json_int_t n = 0;
	json_t *j;

	LIST_FOREACH(c, &a->ctl->host->containers, entry) {
		if (strcmp(c->tenant, tenant))
			continue;
		sums_add(&t, c);
		n++;
	}
	if (!n)
		return NULL;
	j = sums_json(&t, latency);
	json_object_set_new(j, "tenant", json_string(tenant));
	json_object_set_new(j, "containers", json_integer(n));
	return j;
}

void admin_stats(struct admin_conn *conn, json_t *msg)
{
	bool latency = json_is_true(json_object_get(msg, "latency"));
	const char *tenant = json_string_value(json_object_get(msg, "tenant"));
	const struct admin_conf *a = admin_conf(conn);
	json_t *list = json_array(), *j;
	struct container *c;

	if (tenant) {
		j = tenant_sums(a, tenant, latency);
		if (!j) {
			admin_error(conn, -ENOENT, "no container of tenant \"%.64s\" on this host",
				    tenant);
			json_decref(list);
			return;
		}
		json_array_append_new(list, j);
	} else if (json_object_get(msg, "name")) {
		c = admin_named(conn, msg);
		if (!c) {
			json_decref(list);
			return;
		}
		json_array_append_new(list, container_sums(c, latency));
	} else {
		LIST_FOREACH(c, &a->ctl->host->containers, entry)
			json_array_append_new(list, container_sums(c, latency));
	}
	admin_reply(conn, json_pack("{s:o}", "containers", list));
}

/* ---- QPs ------------------------------------------------------------------------------------ */

static const char *type_name(const struct qp *qp)
{
	switch (qp->type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_XRC_SEND:
		return "XRC-SEND";
	default:
		return "XRC-RECV";
	}
}

static const char *state_name(const struct qp *qp)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",	   [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return qp->state <= IBV_QPS_ERR ? names[qp->state] : "?";
}

/* Where a connected one's requests go to. */
static void peer_json(json_t *j, const struct qp *qp)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr a;

	if (qp->type == IBV_QPT_UD || qp->state < IBV_QPS_RTR)
		return;
	json_object_set_new(j, "peer_qp", json_integer(qp->attr.dest_qp_num));
	memcpy(&a, qp->attr.ah.dgid, sizeof(a));
	if (qp->attr.ah.is_global)
		json_object_set_new(j, "peer", json_string(ffo_addr_text(&a, text)));
}

/* One that an answer lists. */
struct listed {
	const struct session *s;
	const struct qp *qp; /* it may be one that other sessions have as well */
	const char *by;	     /* NULL: nothing yet */
};

static json_t *qp_json(const struct listed *l, bool latency)
{
	const struct session *s = l->s;
	const struct qp *qp = l->qp;
	struct ff_stats st = { 0 };
	struct lat lat = { 0 };
	struct ff_depths d;
	json_t *j;

	stats_add(&st, &qp->stats);
	stats_depths(qp, &d);
	j = json_pack("{s:I, s:I, s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o}", "session",
		      (json_int_t)s->id, "pid", (json_int_t)s->pid, "command", s->comm, "qp",
		      (json_int_t)qp->qp_num, "type", type_name(qp), "state", state_name(qp), "by",
		      l->by ? l->by : "-", "sq_depth", (json_int_t)d.sq, "rq_depth",
		      (json_int_t)d.rq, "cq_depth", (json_int_t)d.cq, "counters",
		      counters_json(&st), "completions", completions_json(&st));
	peer_json(j, qp);
	if (latency && qp->lat.hist) {
		lat_add(&lat, qp->lat.hist);
		json_object_set_new(j, "latency", latency_json(&lat));
	}
	return j;
}

/* The session with the smallest id from `from` on. */
static const struct session *session_from(const struct container *c, uint64_t from)
{
	const struct session *s, *found = NULL;

	LIST_FOREACH(s, &c->sessions, entry)
		if (s->id >= from && (!found || s->id < found->id))
			found = s;
	return found;
}

/* Some QPs of a container; "next" is where to go on: session and place in its table, in one number. */
void admin_qp_list(struct admin_conn *conn, json_t *msg)
{
	bool latency = json_is_true(json_object_get(msg, "latency"));
	uint64_t after = (uint64_t)json_integer_value(json_object_get(msg, "after"));
	struct container *c = admin_named(conn, msg);
	struct listed listed[QPS_PER_ANSWER];
	json_t *list, *next = NULL;
	const struct session *s;
	uint32_t i = (uint32_t)after & 0xffff, n = 0;

	if (!c)
		return;
	for (s = session_from(c, after >> 16 & UINT32_MAX); s && !next;
	     s = session_from(c, s->id + 1ull), i = 0) {
		const struct obj_table *qps = &s->tab[OBJ_QP];
		const struct qp *entry;

		if (s->id != after >> 16)
			i = 0;
		for (; i < qps->size; i++) {
			if (!qps->slot[i])
				continue;
			if (n == QPS_PER_ANSWER) {
				next = json_integer((json_int_t)((uint64_t)s->id << 16 | i));
				break;
			}
			entry = obj_of(qps->slot[i], qp);
			listed[n++] = (struct listed){
				.s = s,
				.qp = entry->xrc.target ? entry->xrc.target : entry,
			};
		}
	}
	fast_lock(c->fast->host); /* a runner may choose another way for it */
	for (i = 0; i < n; i++)
		listed[i].by = carrier_of(listed[i].qp);
	fast_unlock(c->fast->host);
	list = json_array();
	for (i = 0; i < n; i++)
		json_array_append_new(list, qp_json(&listed[i], latency));
	admin_reply(conn, json_pack("{s:o, s:o*}", "qps", list, "next", next));
}

/* ---- MRs -------------------------------------------------------------------------------------- */

static void odp_json(json_t *j, const struct mr *mr)
{
	struct ffmem_stat view = view_stat(mr);
	struct odp n = *mr->odp;

	n.odp_faults += view.fault_pages;
	n.odp_fault_ns += view.fault_ns;
	n.odp_invalidations += view.invalidations;
#define X(name) json_object_set_new(j, #name, json_integer((json_int_t)n.name));
	FF_ODP_STATS(X)
#undef X
}

static json_t *mr_json(const struct session *s, const struct mr *mr)
{
	bool implicit = mr->length == UINT64_MAX;
	char addr[19];
	json_t *j;

	snprintf(addr, sizeof(addr), "0x%llx", (unsigned long long)mr->addr);
	j = json_pack("{s:I, s:I, s:s, s:I, s:s, s:b, s:I}", "session", (json_int_t)s->id, "pid",
		      (json_int_t)s->pid, "command", s->comm, "mr", (json_int_t)mr->o.handle,
		      "address", addr, "implicit", implicit, "bytes",
		      implicit ? (json_int_t)0 : (json_int_t)mr->length);
	if (mr->odp)
		odp_json(j, mr);
	else
		json_object_update_new(j, json_pack("{s:I, s:I}", "zero_copy_bytes",
						    (json_int_t)mr->zero_copy, "copied_bytes",
						    (json_int_t)mr_copied(mr)));
	if (mr_copied(mr))
		json_object_set_new(j, "copied_why", json_string(why_name[mr_why(mr)]));
	return j;
}

/* Some MRs of a container, as admin_qp_list() has QPs. */
void admin_mr_list(struct admin_conn *conn, json_t *msg)
{
	uint64_t after = (uint64_t)json_integer_value(json_object_get(msg, "after"));
	struct container *c = admin_named(conn, msg);
	json_t *list, *next = NULL;
	const struct session *s;
	uint32_t i = (uint32_t)after & 0xffff, looked = 0;

	if (!c)
		return;
	list = json_array();
	for (s = session_from(c, after >> 16 & UINT32_MAX); s && !next;
	     s = session_from(c, s->id + 1ull), i = 0) {
		const struct obj_table *mrs = &s->tab[OBJ_MR];

		if (s->id != after >> 16)
			i = 0;
		for (; i < mrs->size; i++) {
			const struct mr *mr = obj_of(mrs->slot[i], mr);

			if (json_array_size(list) == MRS_PER_ANSWER || looked++ == MRS_LOOKED) {
				next = json_integer((json_int_t)((uint64_t)s->id << 16 | i));
				break;
			}
			if (mr && mr->kind != MR_NULL && !mr_leaves(mr))
				json_array_append_new(list, mr_json(s, mr));
		}
	}
	admin_reply(conn, json_pack("{s:o, s:o*}", "mrs", list, "next", next));
}
