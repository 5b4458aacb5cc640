/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * restore.c - sessions of a router that has ended: made again from their ledgers, with what the keeper holds of them.
 * Control thread; called by main.c at the start, and by sweep.c, when the containers of the host are known.
 *
 * All sessions take each step together. First it is found out which of them have to end, for example because a call
 * was under way. These end at once, so that their programs need not wait for the orchestrator. Then all objects are
 * made, then the new ledgers take the place of the old ones, and then QPs get their states: so the QPs that are
 * connected to each other are there when the first WR is looked at.
 *
 * The ledger is checked as if it were hostile, because the last router may have been taken over.
 *
 * Tests: system/verbs_restart.sh, unit/obj/test_ledger.c
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/ctl/container.h"
#include "ffr/ctl/ctl.h"
#include "ffr/ctl/obj.h"
#include "ffr/ctl/record.h"
#include "ffr/ctl/session.h"
#include "ffr/keeper/keeper.h"
#include "ffr/lib/log.h"
#include "ffr/mem/track.h"
#include "ffr/obj/events.h"

/* A session that the last router has left. */
struct left {
	uint32_t keeper_id;
	struct ledger_view *view; /* NULL: there is none that can be used */
	struct ledger_session ses;
	struct ctl_conn *conn; /* once it is made */
	struct session *s;
	const char *why; /* not NULL: it ends */
	bool has_ended;
};

/* Two QP numbers: of a QP whose WR was under way, and of the one that it is connected to. */
struct broken {
	uint32_t qp_num, dest;
};

/* From sessions_look() until sessions_restore(). */
struct restore {
	struct ctl *ctl;
	struct left *left;
	uint32_t num;
	struct broken *broken;
	uint32_t num_broken, max_broken;
};

/* ---- what is there -------------------------------------------------------------------------- */

/* The ledger of a client of the keeper's. */
static void look(struct left *l)
{
	int fd = keeper_saved(l->keeper_id, SAVED_LEDGER), err = fd < 0 ? fd : 0;
	uint32_t at = 0;

	if (!err)
		err = ledger_open(fd, &l->view);
	if (fd >= 0)
		close(fd);
	if (err)
		l->why = err == -EPROTO ? "its ledger is of another version, or damaged" :
					  "its ledger cannot be read";
	else if (!ledger_next(l->view, LEDGER_SESSION, &at, &l->ses))
		l->why = "its ledger has no session";
	else
		l->why = ledger_barred(l->view);
}

static bool find_all(struct restore *r)
{
	uint32_t id = 0, max = 0;
	struct left *more;

	while (!keeper_saved_next(id, &id)) {
		if (r->num == max) {
			max = max ? max * 2 : 64;
			more = realloc(r->left, max * sizeof(*more));
			if (!more)
				return false;
			r->left = more;
		}
		r->left[r->num] = (struct left){ .keeper_id = id };
		look(&r->left[r->num++]);
	}
	return true;
}

/* ---- who has to end ------------------------------------------------------------------------- */

static uint32_t dest_of(const struct ledger_qp *q)
{
	struct ff_qp_attr attr;

	memcpy(&attr, q->attr, sizeof(attr));
	return attr.dest_qp_num;
}

static bool broken_add(struct restore *r, const struct ledger_qp *q)
{
	uint32_t max = r->max_broken ? r->max_broken * 2 : 64;
	struct broken *more;

	if (r->num_broken == r->max_broken) {
		more = realloc(r->broken, max * sizeof(*more));
		if (!more)
			return false;
		r->broken = more;
		r->max_broken = max;
	}
	r->broken[r->num_broken++] = (struct broken){ q->qp_num, dest_of(q) };
	return true;
}

/* Was it flushed, or failing? What else was under way goes on (ctl/qp.c). */
static bool is_broken(const struct ledger_view *v, uint32_t slot)
{
	return ledger_cursor(v, slot, LEDGER_CUR_torn) ||
	       ledger_cursor(v, slot, LEDGER_CUR_in_flight);
}

/* False: no memory to remember it. */
static bool find_broken(struct restore *r, struct left *l)
{
	struct ledger_qp q;
	uint32_t at = 0;

	while (l->view && ledger_next(l->view, LEDGER_QP, &at, &q)) {
		if (!is_broken(l->view, at))
			continue;
		if (!l->why)
			l->why = "a WR was failing, or flushed";
		if (!broken_add(r, &q))
			return false;
	}
	return true;
}

/* The peer of a WR that was under way may have taken a receive for it, and not have completed it. */
static void find_peers(const struct restore *r, struct left *l)
{
	struct ledger_qp q;
	uint32_t at = 0;

	while (!l->why && r->num_broken && ledger_next(l->view, LEDGER_QP, &at, &q))
		for (uint32_t i = 0; i < r->num_broken; i++)
			if (r->broken[i].dest == q.qp_num && dest_of(&q) == r->broken[i].qp_num)
				l->why =
					"a WR of a QP that one of its QPs is connected to was failing, or flushed";
}

/* ---- making it again ------------------------------------------------------------------------ */

static struct container *container_of_session(struct ctl *ctl, struct left *l)
{
	struct container *c = container_by_id(ctl, l->ses.container);

	if (!c)
		l->why = "its container is not on this host any more";
	else if (c->epoch != l->ses.epoch)
		l->why = "its container was moved, or changed";
	else if (((struct container_ctl *)c->ctl)->devices <= l->ses.device)
		l->why = "its container has not that device any more";
	return l->why ? NULL : c;
}

static int session_again(struct restore *r, struct left *l, struct container *c)
{
	int fd = keeper_saved(l->keeper_id, SAVED_CONN),
	    pidfd = keeper_saved(l->keeper_id, SAVED_PIDFD), err = fd < 0 ? fd : pidfd;

	if (err < 0) {
		if (fd >= 0)
			close(fd);
		return err;
	}
	err = ctl_conn_restore(c, fd, pidfd, &l->conn);
	if (err)
		return err;
	err = session_restore(l->conn, &l->ses, l->view, l->keeper_id, &l->s);
	if (l->s)
		ctl_conn_restored(l->conn, l->s);
	if (err)
		return err;
	if (l->s->id > r->ctl->last_session)
		r->ctl->last_session = l->s->id;
	return 0;
}

static int channels_again(struct left *l)
{
	struct ledger_channel ch;
	uint32_t at = 0;
	int fd, err = 0;

	while (!err && ledger_next(l->view, LEDGER_CHANNEL, &at, &ch)) {
		fd = keeper_saved(l->keeper_id, SAVED_CHANNEL + FF_HANDLE_INDEX(ch.handle));
		err = fd < 0 ? fd : channel_restore(l->s, &ch, fd);
	}
	return err;
}

/* In the order in which they use each other. */
static int objects_again(struct restore *r, struct left *l)
{
	struct ledger_view *v = l->view;
	union ledger_record rec;
	uint32_t at;
	int err = 0;

	for (at = 0; !err && ledger_next(v, LEDGER_PD, &at, &rec);)
		err = pd_restore(l->s, &rec.pd);
	if (!err)
		err = channels_again(l);
	for (at = 0; !err && ledger_next(v, LEDGER_CQ, &at, &rec);)
		err = cq_restore(r->ctl, l->s, &rec.cq, v, at);
	for (at = 0; !err && ledger_next(v, LEDGER_SRQ, &at, &rec);)
		err = srq_restore(r->ctl, l->s, &rec.srq, v, at);
	for (at = 0; !err && ledger_next(v, LEDGER_MR, &at, &rec);)
		err = mr_restore(r->ctl, l->s, &rec.mr);
	for (at = 0; !err && ledger_next(v, LEDGER_AH, &at, &rec);)
		err = ah_restore(r->ctl, l->s, &rec.ah);
	/* events that nobody has read yet are about these */
	if (!err && l->s->mem.track)
		err = track_go(l->s);
	for (at = 0; !err && ledger_next(v, LEDGER_QP, &at, &rec);)
		err = qp_restore(r->ctl, l->s, &rec.qp, v, at);
	for (at = 0; !err && ledger_next(v, LEDGER_RECV, &at, &rec);)
		err = recv_restore(l->s, &rec.recv, v, at);
	return err;
}

static const char *reason(int err)
{
	return err == -EINPROGRESS ? "a WR was under way that cannot be repeated" :
	       err == -EBUSY	   ? "some of its memory was about to be replaced" :
	       err == -EPROTO	   ? "what is recorded of it is not sound" :
	       err == -ESRCH	   ? "its process has ended" :
	       err == -EACCES	   ? "it has not sealed its rings" :
	       err == -ENOMEDIUM ? "its rings cannot be mapped, since the last router has crashed" :
				   strerror(-err);
}

static void make(struct restore *r, struct left *l)
{
	struct container *c = l->why ? NULL : container_of_session(r->ctl, l);
	int err;

	if (!c)
		return;
	if (carriers_make_objects(c->fast)) {
		l->why = "the host has a NIC";
		return;
	}
	err = session_again(r, l, c);
	if (!err)
		err = objects_again(r, l);
	if (!err && ledger_is_damaged(l->view))
		l->why = "a record of it is damaged";
	else if (err)
		l->why = reason(err);
}

static void renew(struct left *l)
{
	int err = l->why ? 0 : record_renew(l->s);

	if (err)
		l->why = reason(err);
}

static struct session *session_by_id(const struct restore *r, uint32_t id)
{
	for (uint32_t i = 0; i < r->num; i++)
		if (!r->left[i].why && r->left[i].s->id == id)
			return r->left[i].s;
	return NULL;
}

/* Atomics that may have been done: it is found out before anybody changes a word of the same process. */
static void settle(struct restore *r, struct left *l)
{
	const struct obj_table *qps = l->why ? NULL : &l->s->tab[OBJ_QP];
	uint32_t ses;

	for (uint32_t i = 0; qps && i < qps->size; i++)
		if (qps->slot[i] && qp_atom_left(obj_of(qps->slot[i], qp), &ses))
			qp_atom_settle(r->ctl, obj_of(qps->slot[i], qp), session_by_id(r, ses));
}

static void go_on(struct restore *r, struct left *l)
{
	struct ledger_qp q;
	uint32_t at = 0;
	int err = 0;

	while (!l->why && !err && ledger_next(l->view, LEDGER_QP, &at, &q))
		err = qp_go_on(r->ctl, qp_get(l->s, q.handle), &q, l->view, at);
	if (err)
		l->why = reason(err);
}

/* Completions that are there may not have been told of, and a call may wait in the slot. */
static void look_again(struct restore *r, struct left *l)
{
	const struct obj_table *cqs;

	if (l->why)
		return;
	cqs = &l->s->tab[OBJ_CQ];
	fast_lock(r->ctl->host);
	for (uint32_t i = 0; i < cqs->size; i++)
		if (cqs->slot[i])
			fast_cq_again(l->s->fast, obj_of(cqs->slot[i], cq));
	fast_unlock(r->ctl->host);
	ledger_call(l->s->ledger, false);
	ctl_serve_slot(l->conn);
}

/* ---- the end -------------------------------------------------------------------------------- */

/*
 * The client hears at once that the connection has ended. The last close is the keeper's, since it may take as long as
 * the client likes: there may be packets with descriptors in it.
 */
static void drop(struct left *l)
{
	int fd = keeper_saved(l->keeper_id, SAVED_CONN);

	if (fd >= 0) {
		shutdown(fd, SHUT_RDWR);
		close(fd);
	}
	keeper_client_del(l->keeper_id);
}

static void end(struct left *l)
{
	ledger_close(l->view);
	l->view = NULL;
	if (!l->why || l->has_ended)
		return;
	l->has_ended = true;
	log_warn("session %u of %.15s does not outlive the restart: %s", l->ses.id, l->ses.comm,
		 l->why);
	if (l->s)
		ctl_conn_close(l->conn, l->why);
	else if (l->conn)
		ctl_conn_close(l->conn, NULL);
	if (!l->s)
		drop(l);
}

void sessions_look(struct ctl *ctl)
{
	struct restore *r = calloc(1, sizeof(*r));
	bool ok;

	ctl->restore = r;
	if (!r)
		return;
	r->ctl = ctl;
	ok = find_all(r);
	for (uint32_t i = 0; i < r->num && ok; i++)
		ok = find_broken(r, &r->left[i]);
	for (uint32_t i = 0; i < r->num; i++) {
		if (!ok)
			r->left[i].why = "the router has no memory";
		find_peers(r, &r->left[i]);
	}
	for (uint32_t i = 0; i < r->num; i++)
		if (r->left[i].why)
			end(&r->left[i]);
}

static void all_again(struct restore *r)
{
	for (uint32_t i = 0; i < r->num; i++)
		make(r, &r->left[i]);
	for (uint32_t i = 0; i < r->num; i++)
		renew(&r->left[i]);
	for (uint32_t i = 0; i < r->num; i++)
		settle(r, &r->left[i]);
	for (uint32_t i = 0; i < r->num; i++)
		go_on(r, &r->left[i]);
	for (uint32_t i = 0; i < r->num; i++)
		look_again(r, &r->left[i]);
}

void sessions_restore(struct ctl *ctl)
{
	struct restore *r = ctl->restore;
	uint64_t from = uv_hrtime();
	uint32_t num = 0;

	if (!r)
		return;
	ctl->restore = NULL;
	all_again(r);
	nursery_take_no_more();
	for (uint32_t i = 0; i < r->num; i++) {
		num += !r->left[i].why;
		end(&r->left[i]);
	}
	if (r->num)
		log_info("restored %u of %u sessions in %llu us", num, r->num,
			 (unsigned long long)(uv_hrtime() - from) / 1000);
	free(r->left);
	free(r->broken);
	free(r);
}

void sessions_restore_stop(struct ctl *ctl)
{
	struct restore *r = ctl->restore;

	if (!r)
		return;
	ctl->restore = NULL;
	for (uint32_t i = 0; i < r->num; i++)
		ledger_close(r->left[i].view);
	free(r->left);
	free(r->broken);
	free(r);
}
