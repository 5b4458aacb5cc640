/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * hello.c - HELLO and CHALLENGE: who is behind a connection, and the session that it gets. Control
 * thread; called by call.c.
 *
 * The keeper looks whether the process is in its container's cgroup, and whether what it hands over
 * is its own memory (keeper/clients.c). Files of /proc are read for that, which may wait for
 * somebody else: so the call is answered later, and only this client waits. What is nobody's memory
 * at first sight does not go there. A client that hands over files of a server of its own, which
 * look like it, can have the keeper's thread wait for ever. Its connection stays for as long, as one
 * of those that its container may have without a session, and as one of the CTL_HELLOS that the
 * keeper looks at. What the keeper's thread has worked is charged to the container.
 *
 * Tests: unit/ctl/test_hello.c, unit/ctl/test_ctl.c, unit/ctl/test_cgroup.c
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/ctl/container.h"
#include "ffr/ctl/obj.h"
#include "ffr/ctl/session.h"
#include "ffr/keeper/keeper.h"
#include "ffr/lib/fds.h"
#include "ffr/lib/log.h"
#include "ffr/obj/events.h"

struct hello {
	struct ctl_later l;
	uv_poll_t poll;
	int sock;
	uint32_t id; /* of the client, for the keeper */
	struct ff_hello_req req;
	struct keeper_added got;
	int status;		 /* the process's /proc/PID/status, which came with that, or -1 */
	char cgroup[CGROUP_MAX]; /* that was asked about; "": any */
};

/* ---- the session ------------------------------------------------------------------------------- */

/* The client may have it, and has a use for it: where ffmem shows the router its memory, nothing has to be replaced. */
static int uffd_for(const struct ctl_call *c, const struct session *s, bool has_nic)
{
	const struct container *cont = s->cont;
	bool may = !cont->limits.no_uffd && !cont->of->limits.no_uffd;

	return may && (has_nic || !s->mem.viewed) ? c->ctl->uffd_fd : -1;
}

static int session_open(struct ctl_call *c, struct hello *h, struct ff_hello_resp *resp)
{
	struct session *s;
	int async_fd, uffd, err;
	bool has_nic;

	err = session_create(c->conn, h->req.comm, c->fds[0], c->fds[1], h->status, h->id, &s,
			     &async_fd);
	if (err)
		return err;
	h->status = -1;
	c->conn->ses = c->s = s;
	ctl_reply_fd(c->reply, async_fd, true);
	ctl_reply_fd(c->reply, s->bell_fd, false);
	has_nic = carriers_make_objects(s->fast);
	uffd = uffd_for(c, s, has_nic);
	if (uffd >= 0)
		ctl_reply_fd(c->reply, uffd, false);
	*resp = (struct ff_hello_resp){
		.version = FF_PROTO_VERSION,
		.session = s->id,
		.mode = s->cont->mode,
		.has_uffd = uffd >= 0 ? FF_UFFD_TRACK : 0,
		.has_nic = has_nic,
		.seg0_size = (uint32_t)seg_get(s, 0)->size,
		.num_ports = CTL_NUM_PORTS,
		.num_devices = ((struct container_ctl *)s->cont->ctl)->devices,
		.node_guid = ctl_node_guid(s->cont, 0),
	};
	memcpy(resp->token, s->import.token, sizeof(resp->token));
	event_add_client(EVENT_OPENED, s->cont, "session %u of pid %d (%s)", s->id, (int)s->pid,
			 s->comm);
	log_debug("container %s: session %u of pid %d (%s), uid %u", s->cont->name, s->id,
		  (int)s->pid, s->comm, c->conn->peer.uid);
	return 0;
}

/* For operators: what became of a HELLO. */
static void heard(const struct ctl_conn *conn, int err)
{
	struct container_heard *h = &((struct container_ctl *)conn->cont->ctl)->heard;
	uint64_t now = uv_hrtime() / 1000000000;

	if (!err) {
		h->opened++;
		h->opened_at = now;
	} else if (err != -EAGAIN && err != -ECANCELED && err != -ENETDOWN) {
		/* not those that come again, have left, or met a fence, which is the host's affair */
		h->refused++;
		h->refused_at = now;
		h->refused_pid = conn->peer.pid;
		h->refused_err = err;
	}
}

/* ---- the question ------------------------------------------------------------------------------ */

static void on_closed(uv_handle_t *handle)
{
	struct hello *h = handle->data;

	if (h->status >= 0)
		close(h->status);
	close(h->sock);
	free(h);
}

static void hello_end(struct hello *h, int err)
{
	struct container *cont = h->l.conn->cont;

	((struct container_ctl *)cont->ctl)->num_hellos--;
	ctl_charge_ns(cont, h->got.cpu_ns);
	uv_poll_stop(&h->poll);
	h->l.be.done(&h->l.be, err);
	uv_close((uv_handle_t *)&h->poll, on_closed);
}

static void hello_cancel(struct ctl_later *l)
{
	hello_end((struct hello *)l, -ECANCELED);
}

static void on_answer(uv_poll_t *p, int status, int events)
{
	struct hello *h = p->data;
	unsigned n_fds;
	ssize_t n;

	(void)events;
	/* The rest of the call may have to wait for its container's next turn. */
	if (!status && ctl_had_turn(h->l.conn))
		return;
	n = fds_recv(h->sock, &h->got, sizeof(h->got), &h->status, 1, &n_fds, MSG_DONTWAIT);
	if (!n_fds)
		h->status = -1;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	hello_end(h, n == sizeof(h->got) ? 0 : -EPIPE);
}

static int hello_finish(struct ctl_call *c, struct ctl_later *l, int err, void *resp);

/* CTL_LATER or -errno. */
static int ask(struct ctl_call *c, const struct ff_hello_req *req)
{
	struct container_ctl *ct = c->conn->cont->ctl;
	struct hello *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->req = *req;
	h->status = -1;
	if (ct->cgroup)
		snprintf(h->cgroup, sizeof(h->cgroup), "%s", ct->cgroup);
	h->sock = keeper_client_add(&c->conn->peer, c->fds[0], c->fds[1], h->cgroup, &h->id);
	if (h->sock < 0) {
		int err = h->sock;

		free(h);
		return err == -EAGAIN ? -EBUSY :
					err; /* -EAGAIN is for who must prove something first */
	}
	if (uv_poll_init(c->ctl->loop, &h->poll, h->sock)) {
		keeper_client_del(h->id);
		close(h->sock);
		free(h);
		return -ENOMEM;
	}
	h->poll.data = h;
	h->l.finish = hello_finish;
	h->l.cancel = hello_cancel;
	h->l.is_counted = true;
	uv_poll_start(&h->poll, UV_READABLE | UV_DISCONNECT, on_answer);
	ct->num_hellos++;
	ctl_call_later(c, &h->l);
	return CTL_LATER;
}

static int refuse(const struct ctl_conn *conn, const char *why)
{
	log_client(&conn->cont->log, LOG_LEVEL_WARN, "container %s: pid %d: HELLO refused: %s",
		   conn->cont->name, (int)conn->peer.pid, why);
	return -EPERM;
}

/* What the keeper has said: 0, or -errno with a line in the log. */
static int verdict(const struct ctl_conn *conn, struct keeper_added *got)
{
	got->why[KEEPER_WHY - 1] = got->cgroup[KEEPER_CGROUP - 1] = '\0';
	if (got->outside) {
		container_cgroup_refused(conn, got);
		return -EACCES;
	}
	return got->err == -EPERM ? refuse(conn, got->why) : got->err;
}

static int hello_finish(struct ctl_call *c, struct ctl_later *l, int err, void *resp)
{
	struct hello *h = (struct hello *)l;
	const struct container_ctl *ct = c->conn->cont->ctl;
	bool is_other = strcmp(h->cgroup, ct->cgroup ? ct->cgroup : "");

	if (!err && !is_other)
		err = verdict(c->conn, &h->got);
	if (!err && !is_other)
		err = session_open(c, h, resp);
	if (err || is_other)
		keeper_client_del(h->id);
	if (!err && is_other) { /* an operator has told the container's cgroup meanwhile */
		err = ask(c, &h->req);
		if (err == CTL_LATER)
			return err;
	}
	heard(c->conn, err);
	return err;
}

/* ---- the calls --------------------------------------------------------------------------------- */

static int hello(struct ctl_call *c, const struct ff_hello_req *req)
{
	const char *wrong;
	int err;

	if (c->ctl->fenced)
		return -ENETDOWN;
	if (req->version_min > FF_PROTO_VERSION || req->version_max < FF_PROTO_VERSION) {
		log_client(
			&c->conn->cont->log, LOG_LEVEL_WARN,
			"container %s: pid %d: HELLO refused: its library speaks versions %u to %u "
			"of the protocol, this router %u",
			c->conn->cont->name, (int)c->conn->peer.pid, req->version_min,
			req->version_max, FF_PROTO_VERSION);
		return -EPROTONOSUPPORT;
	}
	err = ctl_peer_prove(&c->conn->peer, req->nonce, c->sender);
	if (err)
		return err;
	wrong = ctl_memory_wrong(c->fds[0], c->fds[1]);
	return wrong ? refuse(c->conn, wrong) : ask(c, req);
}

int ctl_hello(struct ctl_call *c, const struct ff_hello_req *req, struct ff_hello_resp *resp)
{
	int err = hello(c, req);

	(void)resp;
	if (err != CTL_LATER)
		heard(c->conn, err);
	return err;
}

int ctl_challenge(struct ctl_call *c, const struct ff_challenge_req *req,
		  struct ff_challenge_resp *resp)
{
	int err = ctl_peer_ask(&c->conn->peer);

	(void)req;
	memcpy(resp->nonce, c->conn->peer.nonce, sizeof(resp->nonce));
	return err;
}
