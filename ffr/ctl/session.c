/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * session.c - a session from HELLO to its end. Control thread.
 *
 * Neighbours: conn.c owns the connection, ctl/ fill the tables, fast/ work on the objects.
 *
 * Tests: test_ctl.c
 */
#include "ffr/ctl/session.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/abi/ff_vma.h"
#include "ffr/ctl/obj.h"
#include "ffr/ctl/import.h"
#include "ffr/ctl/record.h"
#include "ffr/keeper/keeper.h"
#include "ffr/fast/pvm.h"
#include "ffr/mem/track.h"
#include "ffr/mem/view.h"
#include "ffr/mem/shadow.h"
#include "ffr/ctl/sysfs.h"
#include "ffr/ctl/hot.h"

/* Objects deleted before the fast thread gets its turn again. */
#define TEARDOWN_BATCH 64u
/* Places for objects, of all kinds, from which on the heap of a session that ended is worth giving to the system. */
#define TRIM_MIN 4096u
/* bell, async socket, the process's memory and maps (pvm.c), maps, status, ledger */
#define SESSION_FDS 7u

/* What the device reports is what a session gets, however much the configuration allows. */
static void session_limits(struct session *s, const struct ctl *ctl)
{
	const struct ff_query_device_resp *dev = &ctl->dev;
	const struct ffr_limits *lim = &ctl->conf.limits;

#define BOTH(KIND, field) s->tab[OBJ_##KIND].max = lim->field < dev->field ? lim->field : dev->field
	BOTH(PD, max_pd);
	BOTH(MR, max_mr);
	BOTH(CQ, max_cq);
	BOTH(SRQ, max_srq);
	BOTH(QP, max_qp);
	BOTH(AH, max_ah);
	BOTH(MW, max_mw);
#undef BOTH
	s->tab[OBJ_CHANNEL].max = lim->max_channel;
	s->tab[OBJ_XRCD].max = lim->max_pd; /* domains, too */
	s->tab[OBJ_CM_ID].max = lim->max_cm_id;
	s->tab[OBJ_DM].max = lim->max_mr; /* bounded by their bytes, too */
}

/* What others print must be printable. */
static void comm_copy(char *to, const char *from, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : from[i] ? '?' : '\0';
	to[size - 1] = '\0';
}

void session_socket_bound(int fd)
{
	const int half =
		QUOTA_SOCKET / 2; /* the kernel doubles it, and counts its own part as well */

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof(half));
}

int session_event_pair(int pair[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	session_socket_bound(pair[0]);
	/* nothing comes in, descriptors of any kind least of all: nobody would read it (discard.c) */
	if (!fcntl(pair[0], F_SETFL, O_NONBLOCK) && !shutdown(pair[0], SHUT_RD))
		return 0;
	close(pair[0]);
	close(pair[1]);
	return -EIO;
}

int session_check(struct session *s)
{
	int err;

	if (!s->bells.are_mute)
		return 0;
	err = seg_check(s, 0);
	if (err)
		return err;
	fast_lock_thread(s->fast);
	s->bells.are_mute = false;
	fast_unlock_thread(s->fast);
	return 0;
}

/* Charged, and with nothing of its own yet. NULL and *err. */
static struct session *session_new(struct ctl_conn *conn, int *err)
{
	struct session *s = calloc(1, sizeof(*s));

	*err = -ENOMEM;
	if (!s)
		return NULL;
	s->cont = conn->cont;
	*err = quota_charge(s->cont, QUOTA_SESSION, 1);
	if (*err)
		goto err_free;
	*err = quota_charge(s->cont, QUOTA_FD, SESSION_FDS);
	if (*err)
		goto err_session;
	s->conn = conn;
	s->mem.later = &conn->ctl->mem;
	s->bells.are_mute = true;
	s->fast = s->cont->fast;
	s->mem.node = s->fast->conf.node;
	s->mem.status_fd = s->mem.maps_fd = -1;
	s->bell_fd = s->async_fd = -1;
	s->pid = conn->peer.pid;
	session_limits(s, conn->ctl);
	return s;

err_session:
	quota_return(s->cont, QUOTA_SESSION, 1);
err_free:
	free(s);
	return NULL;
}

static void close_if(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* What session_new() has made, and what came to it. */
static void session_drop(struct session *s)
{
	close_if(s->mem.maps_fd);
	close_if(s->async_fd);
	close_if(s->bell_fd);
	seg_free_all(s); /* there may be a table of them, with none in it */
	quota_return(s->cont, QUOTA_FD, SESSION_FDS);
	quota_return(s->cont, QUOTA_SESSION, 1);
	free(s);
}

/* It has segment 0, bell and async socket: the fast thread knows it from now on. 0 or -errno. */
static int session_enter(struct session *s, int mem, int maps)
{
	struct ctl *ctl = s->conn->ctl;
	int err;

	s->mem.maps_fd = fcntl(maps, F_DUPFD_CLOEXEC, 0);
	s->mem.can_ask = s->mem.maps_fd >= 0 && ff_vma_can_ask(maps);
	err = pvm_session_add(s, mem, s->mem.can_ask ? s->mem.maps_fd : -1);
	if (err)
		return err;
	view_session_add(s, s->conn->peer.pidfd, mem);
	fast_lock(s->fast->host);
	err = fast_session_add(s->fast, s);
	if (err)
		pvm_session_del(s->fast, s);
	fast_unlock(s->fast->host);
	if (err) {
		view_session_del(s);
		return err;
	}
	sysfs_wake(ctl);
	if (ctl->orch)
		ctl->hooks->session_changed(ctl->orch);
	return 0;
}

int session_create(struct ctl_conn *conn, const char *comm, int mem, int maps, int status,
		   uint32_t keeper_id, struct session **out, int *async_fd)
{
	struct ctl *ctl = conn->ctl;
	uint32_t seg, off;
	int pair[2], err;
	struct session *s = session_new(conn, &err);

	if (!s)
		return err;
	if (getrandom(s->import.token, sizeof(s->import.token), 0) != sizeof(s->import.token)) {
		err = -EIO;
		goto err;
	}
	s->id = ++ctl->last_session ? ctl->last_session : ++ctl->last_session;
	comm_copy(s->comm, comm, sizeof(s->comm));

	/* The first allocation of the first segment: offset 0. */
	err = ring_alloc(s, sizeof(struct ff_ses_hdr), &seg, &off);
	if (err)
		goto err;
	s->hdr = (struct ff_ses_hdr *)(seg_get(s, seg)->map + off);
	s->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->bell_fd < 0) {
		err = -errno;
		goto err;
	}
	err = session_event_pair(pair);
	if (err)
		goto err;
	s->async_fd = pair[0];
	err = session_enter(s, mem, maps);
	if (err) {
		close(pair[1]);
		goto err;
	}
	s->mem.keeper_id = keeper_id;
	s->mem.status_fd = status;
	s->mem.filters = hot_filters(status);
	record_session(s);
	*async_fd = pair[1];
	*out = s;
	return 0;

err:
	session_drop(s);
	return err;
}

/* ---- of a former router --------------------------------------------------------------------- */

/* The segments, as far as the client has them. 0 or -errno. */
static int segs_restore(struct session *s, struct ledger_view *v)
{
	struct ledger_seg r;
	uint32_t at = 0;
	int fd, err = 0;

	while (!err && ledger_next(v, LEDGER_SEG, &at, &r)) {
		fd = r.id == s->mem.num_segs ? keeper_saved(s->mem.keeper_id, SAVED_SEG + r.id) :
					       -EPROTO;
		err = fd < 0 ? fd : seg_restore(s, fd, r.size, r.pages);
		if (fd >= 0)
			close(fd);
	}
	if (!err)
		err = ring_restore(s, 0, 0, sizeof(struct ff_ses_hdr));
	/* without the seal, or with a client that takes pages away, no runner touches it */
	if (!err)
		err = seg_check(s, 0);
	return err;
}

/* What the kernel has told nobody yet waits at the descriptor. */
static int track_restore(struct session *s, const struct ledger_session *r)
{
	int fd, err;

	if (!r->has_track)
		return 0;
	if (r->is_closed)
		return -EBUSY;
	fd = keeper_saved(s->mem.keeper_id, SAVED_TRACK);
	if (fd < 0)
		return fd;
	err = quota_charge(s->cont, QUOTA_FD, TRACK_FDS);
	if (!err) {
		err = track_prepare(s, fd);
		if (err)
			quota_return(s->cont, QUOTA_FD, TRACK_FDS);
	}
	close(fd);
	if (!err)
		record_track(s);
	return err;
}

/* Handles of objects that are gone do not come again at once. */
static uint16_t generation_next(uint32_t generation)
{
	return (uint16_t)(generation >= 0xff00 ? 0 : generation + 0x100);
}

int session_restore(struct ctl_conn *conn, const struct ledger_session *r, struct ledger_view *v,
		    uint32_t keeper_id, struct session **out)
{
	int mem = -1, maps = -1, err;
	struct session *s = session_new(conn, &err);

	*out = NULL;
	if (!s)
		return err;
	s->mem.keeper_id = keeper_id;
	s->id = r->id;
	s->device = (uint8_t)r->device;
	memcpy(s->import.token, r->token, sizeof(s->import.token));
	comm_copy(s->comm, r->comm, sizeof(s->comm));
	s->mem.filters = (int)r->filters;
	for (unsigned kind = 0; kind < OBJ_NUM_KINDS; kind++)
		s->tab[kind].first_gen = generation_next(r->generation);
	err = segs_restore(s, v);
	if (err)
		goto err;
	s->hdr = (struct ff_ses_hdr *)seg_get(s, 0)->map;
	s->bells.are_mute = false;
	atomic_store(&s->hdr->leaving.busy, 0); /* copies of the last router's have ended with it */
	mem = keeper_saved(keeper_id, SAVED_MEM);
	maps = keeper_saved(keeper_id, SAVED_MAPS);
	s->bell_fd = keeper_saved(keeper_id, SAVED_BELL);
	s->async_fd = keeper_saved(keeper_id, SAVED_ASYNC);
	err = -EMFILE;
	if (mem < 0 || maps < 0 || s->bell_fd < 0 || s->async_fd < 0)
		goto err;
	err = session_enter(s, mem, maps);
	if (err)
		goto err;
	close(mem);
	close(maps);
	s->mem.status_fd = keeper_saved(keeper_id, SAVED_STATUS);
	if (s->mem.status_fd < 0)
		s->mem.status_fd = -1;
	record_session_again(s);
	err = track_restore(s, r);
	*out = s;
	return err;

err:
	close_if(mem);
	close_if(maps);
	session_drop(s);
	return err;
}

/* ---- the end ------------------------------------------------------------------------------- */

const struct obj_ops *const obj_ops[OBJ_NUM_KINDS] = {
	[OBJ_PD] = &pd_obj_ops, [OBJ_MR] = &mr_obj_ops,	    [OBJ_CHANNEL] = &channel_obj_ops,
	[OBJ_CQ] = &cq_obj_ops, [OBJ_SRQ] = &srq_obj_ops,   [OBJ_QP] = &qp_obj_ops,
	[OBJ_AH] = &ah_obj_ops, [OBJ_XRCD] = &xrcd_obj_ops, [OBJ_MW] = &mw_obj_ops,
	[OBJ_DM] = &dm_obj_ops,
};

/*
 * Fast code must let go of an object before its memory goes, so there are two rounds over the
 * table; the lock is given back every few objects, for a session can have very many. True: it is empty.
 */
static bool table_clear_some(struct session *s, enum obj_kind kind)
{
	struct obj_table *t = &s->tab[kind];
	struct fast *f = s->fast;
	struct obj *gone[TEARDOWN_BATCH];
	uint32_t n = 0;

	if (!t->used)
		return true;
	ctl_obj_lock(f, kind);
	for (; s->end.at < t->size && n < TEARDOWN_BATCH; s->end.at++) {
		struct obj *o = t->slot[s->end.at];

		if (!o)
			continue;
		gone[n++] = o;
		ctl_obj_remove(s, o);
		if (obj_ops[kind]->forget)
			obj_ops[kind]->forget(f, o);
	}
	ctl_obj_unlock(f, kind);
	while (n)
		obj_ops[kind]->free(gone[--n]);
	return !t->used;
}

void session_end_begin(struct session *s)
{
	const struct ctl *ctl = s->conn->ctl;
	struct fast *f = s->fast;

	ledger_bar(s->ledger, LEDGER_BAR_ENDING);
	fast_lock_thread(f);
	s->closing = true;
	fast_unlock_thread(f);
	if (ctl->orch) {
		ctl->hooks->session_gone(ctl->orch, s->cont->id, s->id);
		ctl->hooks->session_changed(ctl->orch);
	}
}

bool session_end_some(struct session *s, uint64_t until)
{
	/* Users first, then what they use; windows before the QPs that would have to let go of them. */
	static const enum obj_kind order[] = { OBJ_CM_ID, OBJ_MW,      OBJ_QP,	OBJ_AH,
					       OBJ_MR,	  OBJ_DM,      OBJ_SRQ, OBJ_XRCD,
					       OBJ_CQ,	  OBJ_CHANNEL, OBJ_PD };

	while (s->end.step < sizeof(order) / sizeof(order[0])) {
		enum obj_kind kind = order[s->end.step];

		if (uv_hrtime() >= until)
			return false;
		if (kind == OBJ_CM_ID ? s->conn->ctl->cm_ops->session_gone(s, &s->end.at, until) :
					table_clear_some(s, kind)) {
			s->end.step++;
			s->end.at = 0;
		}
	}
	return true;
}

void session_end_finish(struct session *s)
{
	const struct ctl *ctl = s->conn->ctl;
	struct fast *f = s->fast;
	uint64_t places = 0;

	sysfs_session_ends(s);
	fast_lock(f->host);
	fast_session_del(f, s);
	stats_add(&s->cont->stats, &s->stats);
	lat_add(&s->cont->lat, &s->lat);
	fast_unlock(f->host);
	if (ctl->orch)
		ctl->hooks->session_changed(ctl->orch);
	for (unsigned kind = 0; kind < OBJ_NUM_KINDS; kind++) {
		places += s->tab[kind].size;
		obj_table_free(&s->tab[kind]);
	}
	close(s->bell_fd);
	close(s->async_fd);
	view_session_del(s);
	if (s->mem.maps_fd >= 0)
		close(s->mem.maps_fd);
	keeper_client_del(s->mem.keeper_id);
	seg_free_all(s);
	sigbus_forget(s);
	hot_end(s);
	if (s->mem.status_fd >= 0)
		close(s->mem.status_fd);
	track_stop(s);
	ledger_free(s->ledger);
	quota_return(s->cont, QUOTA_FD, SESSION_FDS);
	quota_return(s->cont, QUOTA_SESSION, 1);
	import_session_free(s);
	free(s);
	/* small pieces that were freed stay the router's otherwise, though its container no longer pays for them */
	if (places >= TRIM_MIN)
		malloc_trim(0);
}

uint64_t session_seg_bytes(const struct session *s, enum seg_kind kind)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->mem.num_segs; i++)
		if (s->mem.segs[i].kind == kind)
			sum += s->mem.segs[i].size;
	return sum;
}
