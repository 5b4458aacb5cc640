/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * status.c - GET /status.json: hosts, containers, who talks to whom, events and problems, for the status page.
 * Control thread.
 *
 * Containers are what the admin socket's `stats` says of them. Whoever may read the metrics may read this, so nothing
 * is in it that an operator may want to keep from them: no process, path or address. Names of containers, tenants,
 * hosts and NICs are.
 *
 * One step looks at some QPs of a container, or writes several small containers. A container that comes or goes between
 * two steps is written or not. The QPs of a session that opens while its container is looked at are left out: otherwise
 * programs that open and close sessions could put off the answer, and those who wait for it, for ever. If QPs go while
 * their container is looked at, what they counted may be in the sum twice; then "exact" is false. What is too much is
 * left out, and counted: containers above MAX_CONTAINERS, a container's peers above MAX_PEERS, hosts and problems above
 * MAX_HOSTS and MAX_PROBLEMS.
 *
 * Tests: unit/admin/test_status.c, web/status.sh
 */
#include "ffr/admin/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ffo/base/limits.h"
#include "ffr/admin/admin.h"
#include "ffr/admin/carriers.h"
#include "ffr/admin/metrics.h"
#include "ffr/ctl/container.h"
#include "ffr/dir/dir.h"
#include "ffr/lib/advice.h"
#include "ffr/lib/version.h"
#include "ffr/obj/events.h"
#include "ffr/orch/orch.h"
#include "ffr/peer/peer.h"

#define MAX_CONTAINERS 512u
#define MAX_HOSTS      256u
#define MAX_PROBLEMS   128u
#define MAX_EVENTS     64u
#define MAX_PEERS      16u  /* of one container */
#define MAX_TARGETS    512u /* XRC_RECV QPs of one container */
#define LOCKED                                                                                     \
	32u /* QPs that are looked at with the lock held once, and between two looks at the clock */

/* QPs of a container that are connected with one address by one carrier. */
struct edge {
	struct ff_ah_attr to;
	const char *by;
	uint32_t qps;
	uint64_t tx, rx;
};

/* A container that is looked at. Ids only: it may go between two steps. */
struct look {
	bool on;
	uint32_t ses, at; /* the session that is next, from that place of its table of QPs on */
	uint32_t last;	  /* the newest session when it began; 0: none */
	struct ff_stats first; /* what was counted beside QPs when it began */
	struct ff_stats sum;   /* of its QPs so far */
	struct lat lat;
	struct edge edge[MAX_PEERS];
	uint32_t num_edges, left_out; /* the latter are QPs */
};

struct status {
	const struct metrics_conf *conf;
	FILE *out;
	char *text;
	size_t len;
	bool failed;   /* no memory */
	uint64_t next; /* the least id of the containers that are not written yet */
	uint32_t written, left_out;
	struct look look;
	json_t *problems;
	json_int_t more_problems;
};

/* ---- problems ----------------------------------------------------------------------------------- */

static void problem(struct status *s, const char *level, const char *advice, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void problem(struct status *s, const char *level, const char *advice, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (json_array_size(s->problems) >= MAX_PROBLEMS) {
		s->more_problems++;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_array_append_new(s->problems, json_pack("{s:s, s:s, s:s*}", "level", level, "text",
						     text, "advice", advice));
}

static void container_problems(struct status *s, const struct container *c)
{
	const struct container_heard *h = &((const struct container_ctl *)c->ctl)->heard;

	if (h->refused)
		problem(s, "problem", ADVICE_REFUSED, "container %s: %llu programs were refused",
			c->name, (unsigned long long)h->refused);
	for (enum quota q = 0; q < QUOTA_NUM; q++) {
		const struct ffo_limits *by = quota_used_up(c, q);

		if (by)
			problem(s, "problem", by == &c->limits ? ADVICE_QUOTA : ADVICE_TENANT_QUOTA,
				QUOTA_USED_UP, c->name, by == &c->limits ? "it" : "its tenant",
				(unsigned long long)quota_limit(by, q), quota_name[q]);
	}
}

static void host_problems(struct status *s)
{
	const struct fast_host *h = s->conf->ctl->host;
	struct orch_state o;

	orch_state(s->conf->ctl->orch, &o);
	if (!o.up)
		problem(s, "problem", advice_orchestrator(o.why),
			"orchestrator: it is not connected; %s",
			s->conf->ctl->fenced ? EFFECT_FENCED : EFFECT_ALONE);
	if (s->conf->ctl->uffd_fd < 0)
		problem(s, "note", ADVICE_UFFD,
			"router: no /dev/userfaultfd: programs' private memory is copied twice");
	for (uint32_t i = 0; i < h->num_nics; i++)
		if (h->nic[i].is_away)
			problem(s, "problem", "ibv_devices, and the kernel's log",
				"NIC %s: it was removed", h->nic[i].name);
}

/* ---- who talks to whom ------------------------------------------------------------------------- */

static bool is_same_address(const struct ff_ah_attr *a, const struct ff_ah_attr *b)
{
	if (a->is_global != b->is_global)
		return false;
	return a->is_global ? !memcmp(a->dgid, b->dgid, sizeof(a->dgid)) : a->dlid == b->dlid;
}

/* [lock] */
static void edge_add(struct look *l, const struct qp *qp)
{
	const char *by = qp->type == IBV_QPT_UD || qp->xrc.target ? NULL : carrier_of(qp);
	uint32_t i = 0;

	if (!by)
		return;
	while (i < l->num_edges &&
	       !(l->edge[i].by == by && is_same_address(&l->edge[i].to, &qp->attr.ah)))
		i++;
	if (i == MAX_PEERS) {
		l->left_out++;
		return;
	}
	if (i == l->num_edges)
		l->edge[l->num_edges++] = (struct edge){ .to = qp->attr.ah, .by = by };
	l->edge[i].qps++;
	l->edge[i].tx += stats_word(&qp->stats.tx_bytes);
	l->edge[i].rx += stats_word(&qp->stats.rx_bytes);
}

/* One line of the table "who talks to whom": the name of the container that has the address, "" if none has it. */
static json_t *edge_json(const struct container *c, const struct edge *e)
{
	struct fast_host *h = c->fast->host;
	json_t *j = json_pack("{s:s, s:I, s:I, s:I}", "by", e->by, "qps", (json_int_t)e->qps,
			      "tx_bytes", (json_int_t)e->tx, "rx_bytes", (json_int_t)e->rx);
	char name[CONTAINER_NAME_MAX] = "", tenant[CONTAINER_NAME_MAX] = "";
	struct container *here;
	struct remote *there;

	fast_lock(h);
	switch (dir_path(h->threads[0], c, &e->to, &here, &there)) {
	case DIR_HERE:
		memcpy(name, here->name, sizeof(name));
		memcpy(tenant, here->tenant, sizeof(tenant));
		break;
	case DIR_REMOTE:
		memcpy(name, there->name, sizeof(name));
		memcpy(tenant, there->tenant, sizeof(tenant));
		break;
	default:
		break;
	}
	fast_unlock(h);
	if (*name) {
		json_object_set_new(j, "container", json_string(name));
		json_object_set_new(j, "tenant", json_string(tenant));
	}
	return j;
}

/* ---- parts of the answer --------------------------------------------------------------------- */

static void put(struct status *s, json_t *j)
{
	if (!j || json_dumpf(j, s->out, JSON_COMPACT | JSON_ENCODE_ANY))
		s->failed = true;
	json_decref(j);
}

/* Limits in force; those that are none are left out. */
static json_t *limits_json(const struct container *c)
{
	struct ffo_limits l = c->limits;

	for (size_t i = 0; i < FFO_NUM_LIMITS; i++)
		if (*ffo_limit_of(&l, i) == FFO_UNLIMITED)
			*ffo_limit_of(&l, i) = 0;
	return ffo_limits_to_json(&l);
}

/* ---- one container -------------------------------------------------------------------------------- */

/* LOCKED QPs of the session's table. */
static void look_at_qps(struct look *l, const struct session *ses)
{
	const struct obj_table *qps = &ses->tab[OBJ_QP];
	uint32_t end = l->at + LOCKED < qps->size ? l->at + LOCKED : qps->size;
	const struct qp *qp;

	fast_lock(ses->fast->host);
	for (uint32_t i = l->at; i < end; i++) {
		qp = obj_of(qps->slot[i], qp);
		if (qp)
			edge_add(l, qp);
	}
	fast_unlock(ses->fast->host);
	for (; l->at < end; l->at++) {
		qp = obj_of(qps->slot[l->at], qp);
		if (qp)
			stats_of_qp(qp, &l->sum, &l->lat);
	}
}

/* The session with the least id that is still to be looked at. */
static const struct session *next_session(const struct look *l, const struct container *c)
{
	const struct session *s, *found = NULL;

	LIST_FOREACH(s, &c->sessions, entry)
		if (s->id >= l->ses && s->id <= l->last && (!found || s->id < found->id))
			found = s;
	return found;
}

static void look_begin(struct look *l, const struct container *c)
{
	const struct session *s;

	*l = (struct look){ .on = true };
	stats_beside_qps(c, &l->first, NULL);
	LIST_FOREACH(s, &c->sessions, entry)
		if (s->id > l->last)
			l->last = s->id;
}

/* Until all of its QPs were looked at (true), or it is time to stop. */
static bool look(struct look *l, const struct container *c, uint64_t stop)
{
	const struct session *ses;

	if (!l->on)
		look_begin(l, c);
	while ((ses = next_session(l, c))) {
		if (ses->id != l->ses)
			l->at = 0;
		l->ses = ses->id;
		look_at_qps(l, ses);
		if (l->at >= ses->tab[OBJ_QP].size) {
			if (ses->id == l->last)
				break;
			l->ses++;
			l->at = 0;
		}
		if (uv_hrtime() >= stop)
			return false;
	}
	return true;
}

/* False: there are too many of them. */
static bool add_targets(struct look *l, const struct container *c)
{
	const struct xrcd *x;
	const struct qp *qp;
	uint32_t n = 0;

	LIST_FOREACH(x, &c->xrcds, entry)
		LIST_FOREACH(qp, &x->targets, xrc.same_xrcd) {
			if (n++ == MAX_TARGETS)
				return false;
			stats_of_qp(qp, &l->sum, NULL);
		}
	return true;
}

/* What only QPs count: it is the same beside them as long as none goes. */
static uint64_t of_gone_qps(const struct ff_stats *st)
{
	return st->tx_bytes + st->rx_bytes + stats_status(st, IBV_WC_SUCCESS);
}

static void put_container(struct status *s, const struct container *c)
{
	const struct fast_host *h = s->conf->ctl->host;
	struct ff_stats beside = { 0 };
	json_t *peers = json_array(), *j;
	struct look *l = &s->look;
	bool exact;

	for (uint32_t i = 0; i < l->num_edges; i++)
		json_array_append_new(peers, edge_json(c, &l->edge[i]));
	stats_beside_qps(c, &beside, &l->lat);
	exact = add_targets(l, c) && of_gone_qps(&beside) == of_gone_qps(&l->first);
	stats_add(&l->sum, &beside);
	j = json_pack("{s:s, s:s, s:b, s:I, s:o, s:o, s:o, s:o, s:o, s:I}", "name", c->name,
		      "tenant", c->tenant, "exact", (int)exact, "thread",
		      (json_int_t)c->fast->index, "usage", usage_json(c), "limits", limits_json(c),
		      "counters", counters_json(&l->sum), "latency", latency_json(&l->lat), "peers",
		      peers, "peers_left_out", (json_int_t)l->left_out);
	if (c->nic < h->num_nics)
		json_object_set_new(j, "nic", json_string(h->nic[c->nic].name));
	container_problems(s, c);
	if (s->written++)
		fputc(',', s->out);
	put(s, j);
}

struct hosts {
	struct status *s;
	json_t *list;
	json_int_t left_out;
};

static void host_json(void *arg, const struct peer_state *p)
{
	struct hosts *h = arg;

	if (!p->up)
		problem(h->s, "problem", ADVICE_HOST_DOWN,
			"host %s: the orchestrator has not heard of it for a while", p->host);
	else if (p->wanted && !p->attached && *p->why)
		problem(h->s, "problem", ADVICE_HOST_UNREACHED, "host %s: no connection", p->host);
	if (json_array_size(h->list) >= MAX_HOSTS)
		h->left_out++;
	else
		json_array_append_new(h->list,
				      json_pack("{s:s, s:b, s:b}", "host", p->host, "up",
						(int)p->up, "connected", (int)p->attached));
}

static json_t *nics_json(const struct fast_host *h)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < h->num_nics; i++)
		json_array_append_new(list, json_pack("{s:s, s:b}", "name", h->nic[i].name, "up",
						      (int)!h->nic[i].is_away));
	return list;
}

/* The text of other events has a process, or where the orchestrator is. */
static bool may_tell(enum event_kind kind)
{
	return kind == EVENT_ATTACHED || kind == EVENT_DETACHED || kind == EVENT_LIMIT ||
	       kind == EVENT_FENCED || kind == EVENT_UNFENCED;
}

static json_t *events_json(void)
{
	uint64_t next = event_next(), from = event_oldest();
	json_t *list = json_array();

	for (from = next - from > MAX_EVENTS ? next - MAX_EVENTS : from; from < next; from++) {
		const struct event *e = event_get(from);
		json_t *j = event_json(e);

		if (!may_tell(e->kind))
			json_object_del(j, "text");
		json_array_append_new(list, j);
	}
	return list;
}

static json_t *traffic_json(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < NUM_TRAFFIC_PROBLEMS; i++) {
		const struct traffic_problem *p = &traffic_problem[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:s, s:s*}", "counter", p->counter,
						"level", p->is_note ? "note" : "problem", "text",
						p->text, "advice", p->advice));
	}
	return list;
}

/* What comes behind the containers. */
static void put_rest(struct status *s)
{
	const struct metrics_conf *conf = s->conf;
	struct hosts h = { .s = s, .list = json_array() };
	struct orch_state o;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	orch_state(conf->ctl->orch, &o);
	peers_each(conf->peers, host_json, &h);
	fprintf(s->out, "],\"containers_left_out\":%u,\"events\":", s->left_out);
	put(s, events_json());
	fputs(",\"hosts\":", s->out);
	put(s, h.list);
	fputs(",\"problems\":", s->out);
	put(s, json_incref(s->problems));
	fputs(",\"traffic_problems\":", s->out);
	put(s, traffic_json());
	fputs(",\"nics\":", s->out);
	put(s, nics_json(conf->ctl->host));
	fputs(",\"router\":", s->out);
	put(s,
	    json_pack("{s:s, s:s, s:I, s:b, s:b, s:I, s:I, s:I}", "version", FF_VERSION, "host",
		      conf->host, "time_ms", (json_int_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
		      "orchestrator_up", (int)o.up, "fenced", (int)conf->ctl->fenced,
		      "fast_threads", (json_int_t)conf->ctl->host->num_threads, "hosts_left_out",
		      h.left_out, "problems_left_out", s->more_problems));
	fputs("}\n", s->out);
}

/* ---- steps --------------------------------------------------------------------------------------- */

struct status *status_begin(const struct metrics_conf *conf)
{
	struct status *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->conf = conf;
	s->problems = json_array();
	s->out = open_memstream(&s->text, &s->len);
	if (!s->out || !s->problems) {
		free(status_end(s, &(size_t){ 0 }));
		return NULL;
	}
	host_problems(s);
	fputs("{\"containers\":[", s->out);
	return s;
}

/* The container with the least id from s->next on. */
static const struct container *next_container(const struct status *s)
{
	const struct container *c, *found = NULL;

	LIST_FOREACH(c, &s->conf->ctl->host->containers, entry)
		if (c->id >= s->next && (!found || c->id < found->id))
			found = c;
	return found;
}

bool status_step(struct status *s)
{
	uint64_t stop = uv_hrtime() + STATUS_STEP_NS;
	const struct container *c;

	do {
		c = next_container(s);
		if (!c || s->failed) {
			put_rest(s);
			return false;
		}
		if (c->id > s->next)
			s->look.on = false; /* the one before it went meanwhile */
		s->next = c->id;
		if (s->written == MAX_CONTAINERS)
			s->left_out++;
		else if (look(&s->look, c, stop))
			put_container(s, c);
		else
			break;
		s->look.on = false;
		s->next++;
	} while (uv_hrtime() < stop);
	return true;
}

char *status_end(struct status *s, size_t *len)
{
	char *text = NULL;

	if (s->out && fclose(s->out))
		s->failed = true;
	if (s->failed)
		free(s->text);
	else
		text = s->text;
	*len = s->len;
	json_decref(s->problems);
	free(s);
	return text;
}
