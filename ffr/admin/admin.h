/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * admin.h - the administrator's socket, which ffctl speaks to. See socket.c. Control thread.
 *
 * The room ffr/admin/ is what operators see and change: this socket, and the metrics (metrics.h). It may use
 * every room of the router but its assembly. Control thread only.
 */
#ifndef FFR_ADMIN_ADMIN_H
#define FFR_ADMIN_ADMIN_H

#include <jansson.h>

#include "ffr/cm/cm.h"
#include "ffr/ctl/ctl.h"

struct admin;
struct admin_conn;
struct peers;
struct event;

#define ADMIN_LINE_MAX 65536u /* bytes of a request */

/* Strings stay the caller's, and are there as long as the socket is. */
struct admin_conf {
	struct ctl *ctl;
	struct peers *peers; /* NULL: a single host */
	const char *socket;  /* its path; a service manager may have it open already */
	const char *host;    /* this one's name */
	enum ff_mode mode;   /* of containers that do not say */
};
/* Listens, mode 0600. 0 or -errno. */
int admin_start(struct admin **out, const struct admin_conf *conf);
void admin_stop(struct admin *a); /* NULL is fine; frees itself while the loop runs */

/*
 * Each op answers once, now or later: with an object that gets "ok" and "id" (taken), or an error
 * (-errno) and one line.
 */
void admin_reply(struct admin_conn *conn, json_t *answer);
void admin_error(struct admin_conn *conn, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * As admin_reply(). From then on the connection takes no more requests, and is sent a line for each
 * event from that number on, or for the number of events that it has missed.
 */
void admin_follow(struct admin_conn *conn, json_t *answer, uint64_t from);
/* An event as JSON, without memory NULL. (events.c) */
json_t *event_json(const struct event *e);
const struct admin_conf *admin_conf(const struct admin_conn *conn);

/* What is known of a container, or of a tenant's. stats.c */
struct sums {
	struct ff_counts n;
	struct cm_counts cm;
	struct ff_stats stats;
	struct lat lat;
};
void sums_add(struct sums *t, const struct container *c);
json_t *copied_json(const struct ff_counts *n); /* bytes, by the reason; those that there are */
/* Parts of the answer to `stats`; stats.c */
json_t *counters_json(const struct ff_stats *st);
json_t *latency_json(const struct lat *h);
/* An object with how much of each quota the container uses now. In ops.c. */
json_t *usage_json(const struct container *c);

/* A bound socket of mode 0600, whatever was there before. A descriptor or -errno. */
int admin_listen(const char *path);

/*
 * As admin_reply(), after a container came to this host. Where something runs with the folder of a former container
 * of that name, the answer has a "warning". ops.c
 */
void admin_reply_came(struct admin_conn *conn, struct container *c, json_t *answer);

/* The container that `name` names, or NULL after an error was sent. */
struct container *admin_named(struct admin_conn *conn, json_t *msg);
/* Is the change only to be tried? Then it is not made in this host either. (ops.c) */
bool admin_is_dry_run(json_t *msg);
/*
 * An op of the orchestrator's for operators: the request is passed on as it is, and so is the answer. False: it is
 * none. (cluster.c)
 */
bool admin_forward(struct admin_conn *conn, const char *op, json_t *msg);

/*
 * X(name, tries): the ops that a router serves itself, because something of its host is in them, and whether one can
 * be tried ("dry_run"). All others are the orchestrator's (FFO_OPS), and passed on. stats, qp_list and mr_list are in
 * stats.c, trace is in trace.c, events in events.c, health in health.c, those from container_migrate on are in
 * cluster.c, and the others in ops.c.
 */
#define ADMIN_OPS(X)                                                                               \
	X(version, false)                                                                          \
	X(health, false)                                                                           \
	X(container_add, true)                                                                     \
	X(container_set, true)                                                                     \
	X(container_rm, true)                                                                      \
	X(containers, false)                                                                       \
	X(container_show, false)                                                                   \
	X(container_thread, false)                                                                 \
	X(container_nic, false)                                                                    \
	X(container_runs, false)                                                                   \
	X(stats, false)                                                                            \
	X(trace, false)                                                                            \
	X(events, false)                                                                           \
	X(qp_list, false)                                                                          \
	X(mr_list, false)                                                                          \
	X(container_migrate, true)                                                                 \
	X(container_ask, false)                                                                    \
	X(store_accept, false)
#define X(name, tries) void admin_##name(struct admin_conn *conn, json_t *msg);
ADMIN_OPS(X)
#undef X

#endif
