/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * look.c - REG_MR and REREG_MR of shared mappings: before the handler runs, the keeper finds the files
 * of these mappings. Control thread; called by mr.c.
 *
 * The keeper needs the lock of the client's address space for that, which the client can hold for
 * seconds. So the call is answered later, and only this client waits. When the keeper's socket hangs
 * up, the handler takes all that was found; until then the descriptors stay in the socket.
 *
 * Tests: unit/ctl/test_look.c
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/ctl/obj.h"
#include "ffr/ctl/session.h"
#include "ffr/keeper/keeper.h"

#define REQ_MAX 64u
static_assert(sizeof(struct ff_reg_mr_req) <= REQ_MAX && sizeof(struct ff_rereg_mr_req) <= REQ_MAX,
	      "those that look");
static_assert(FF_MR_MAX_RUNS <= KEEPER_RANGES, "a range for each claim");

struct look {
	struct ctl_later l;
	uv_poll_t poll;
	int sock;
	ctl_serve_fn *serve;
	alignas(16) uint8_t req[REQ_MAX];
	uint32_t n;
	struct ff_mr_run claim[];
};

static void on_closed(uv_handle_t *h)
{
	struct look *k = h->data;

	close(k->sock);
	free(k);
}

static void look_end(struct look *k, int err)
{
	uv_poll_stop(&k->poll);
	k->l.be.done(&k->l.be, err);
	uv_close((uv_handle_t *)&k->poll, on_closed);
}

/* The rest of the call may have to wait for its container's next turn: the hangup is seen again then. */
static void on_hangup(uv_poll_t *h, int status, int events)
{
	struct look *k = h->data;

	(void)events;
	if (!status && ctl_had_turn(k->l.conn))
		return;
	look_end(k, status);
}

static void look_cancel(struct ctl_later *l)
{
	look_end((struct look *)l, -ECANCELED);
}

static int look_finish(struct ctl_call *c, struct ctl_later *l, int err, void *resp)
{
	struct look *k = (struct look *)l;

	if (err)
		return err;
	c->tail = k->claim;
	c->n_tail = k->n;
	c->found = &k->sock;
	return k->serve(c, k->req, resp);
}

/* The socket, or -1: nothing is to be found, or nobody can find it. */
static int ask(const struct ctl_call *c, bool writes)
{
	const struct ff_mr_run *claim = c->tail;
	struct keeper_range range[FF_MR_MAX_RUNS];
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n_tail; i++)
		if (claim[i].kind == FF_RUN_SHARED)
			range[n++] =
				(struct keeper_range){ claim[i].va, claim[i].va + claim[i].len };
	return n ? keeper_look(c->s->mem.keeper_id, range, n, writes) : -1;
}

bool ctl_look(struct ctl_call *c, bool writes, ctl_serve_fn *serve, const void *req, size_t size)
{
	struct look *k;
	int sock;

	if (c->found || c->n_tail > FF_MR_MAX_RUNS || !c->s->mem.can_ask)
		return false;
	sock = ask(c, writes);
	if (sock < 0)
		return false;
	k = calloc(1, sizeof(*k) + c->n_tail * sizeof(*k->claim));
	if (!k || uv_poll_init(c->ctl->loop, &k->poll, sock)) {
		free(k);
		close(sock);
		return false;
	}
	k->poll.data = k;
	k->l.finish = look_finish;
	k->l.cancel = look_cancel;
	k->sock = sock;
	k->serve = serve;
	memcpy(k->req, req, size);
	k->n = c->n_tail;
	memcpy(k->claim, c->tail, c->n_tail * sizeof(*k->claim));
	uv_poll_start(&k->poll, UV_DISCONNECT, on_hangup);
	ctl_call_later(c, &k->l);
	return true;
}
