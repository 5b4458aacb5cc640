/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * health.c - what the router itself knows to be missing, for `ffctl doctor`: the orchestrator, other hosts, what
 * the kernel did not give. Control thread.
 *
 * Only facts: what is a problem, and what to do, ffctl says.
 */
#include "ffr/admin/admin.h"
#include "ffr/orch/orch.h"
#include "ffr/peer/peer.h"

static void peer_json(void *list, const struct peer_state *s)
{
	json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:s}", "host", s->host, "wanted",
					      (int)s->wanted, "connected", (int)s->attached, "why",
					      s->why));
}

void admin_health(struct admin_conn *conn, json_t *msg)
{
	const struct admin_conf *a = admin_conf(conn);
	json_t *peers = json_array();
	struct orch_state o;

	(void)msg;
	orch_state(a->ctl->orch, &o);
	peers_each(a->peers, peer_json, peers);
	admin_reply(conn,
		    json_pack("{s:{s:s, s:b, s:s, s:s?}, s:b, s:s, s:b, s:o}", "orchestrator",
			      "where", o.where, "up", (int)o.up, "why", o.why, "store", o.store,
			      "fenced", (int)a->ctl->fenced, "wire", peers_wire(a->peers),
			      "userfaultfd", (int)(a->ctl->uffd_fd >= 0), "peers", peers));
}
