/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * trace.c - ffctl trace: the last operations of a container's QPs. Control thread.
 *
 * Asking switches tracing on; LEASE after the last request it goes off, so that nobody has to be there
 * to do that.
 */
#include <errno.h>

#include "ffr/admin/admin.h"
#include "ffr/ctl/container.h"
#include "ffr/fast/trace.h"

#define LEASE	    5000 /* ms */
#define MAX_ENTRIES 1024u

static const char *const op_name[FF_OP_NUM] = {
	[FF_OP_SEND] = "send",
	[FF_OP_SEND_IMM] = "send-imm",
	[FF_OP_WRITE] = "write",
	[FF_OP_WRITE_IMM] = "write-imm",
	[FF_OP_READ] = "read",
	[FF_OP_CMP_SWAP] = "cmp-swap",
	[FF_OP_FETCH_ADD] = "fetch-add",
	[FF_OP_BIND_MW] = "bind",
	[FF_OP_LOCAL_INV] = "invalidate",
	[FF_OP_SEND_INV] = "send-inv",
	[FF_OP_FLUSH] = "flush",
	[FF_OP_ATOMIC_WRITE] = "atomic-write",
};

static const char *const status_name[FF_NUM_STATUS] = {
#define X(status, name) [IBV_WC_##status] = #name,
	FF_STATS_STATUS(X)
#undef X
};

static json_t *entry_json(const struct qp *qp, const struct trace_entry *e)
{
	/* a malformed request may have any number */
	const char *op = e->recv ? "receive" : e->opcode < FF_OP_NUM ? op_name[e->opcode] : NULL;

	return json_pack("{s:I, s:I, s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:I}", "seq",
			 (json_int_t)e->seq, "qp", (json_int_t)qp->qp_num, "operation",
			 op ? op : "?", "wr_id", (json_int_t)e->wr_id, "length",
			 (json_int_t)e->length, "peer_qp", (json_int_t)e->peer, "status",
			 e->status < FF_NUM_STATUS ? status_name[e->status] : "?", "fetched_ns",
			 (json_int_t)e->fetched, "started_ns", (json_int_t)e->started, "done_ns",
			 (json_int_t)e->done);
}

static void add_qp(struct fast_host *h, json_t *list, const struct qp *qp, uint64_t after)
{
	struct trace_entry copy[TRACE_DEPTH];
	uint32_t n = trace_copy(h, qp, copy);

	for (uint32_t i = 0; i < n; i++)
		if (copy[i].seq > after && json_array_size(list) < MAX_ENTRIES)
			json_array_append_new(list, entry_json(qp, &copy[i]));
}

static void on_lease_end(uv_timer_t *t)
{
	struct container_ctl *ct = t->data;

	trace_off(ct->ctl->host, ct->c);
}

void admin_trace(struct admin_conn *conn, json_t *msg)
{
	uint64_t after = (uint64_t)json_integer_value(json_object_get(msg, "after"));
	json_int_t qp_num = json_integer_value(json_object_get(msg, "qp"));
	struct container *c = admin_named(conn, msg);
	struct fast_host *h = admin_conf(conn)->ctl->host;
	struct container_ctl *ct;
	json_t *list;
	struct session *s;
	int began;

	if (!c)
		return;
	if (qp_num < 0 || qp_num > 0xffffff) {
		admin_error(conn, -EINVAL, "a QP number has 24 bits");
		return;
	}
	ct = c->ctl;
	began = trace_on(h, c, (uint32_t)qp_num);
	if (began < 0) {
		admin_error(conn, began, "out of memory");
		return;
	}
	uv_timer_start(&ct->trace, on_lease_end, LEASE, 0);
	list = json_array();
	LIST_FOREACH(s, &c->sessions, entry) {
		for (uint32_t i = 0; i < s->tab[OBJ_QP].size; i++) {
			const struct qp *qp = obj_of(s->tab[OBJ_QP].slot[i], qp);

			if (qp && (!qp_num || qp->qp_num == qp_num))
				add_qp(h, list, qp, after);
		}
	}
	admin_reply(conn, json_pack("{s:b, s:o}", "began", began, "entries", list));
}
