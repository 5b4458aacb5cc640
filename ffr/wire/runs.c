/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * runs.c - the frames RUNS_ASK and RUNS, by which a host asks the owner of a container
 * whether the container runs. [lock] What comes in waits for the control thread (orch/claim.c),
 * which knows what it means. A host may have FROM_ONE frames waiting, so that no host takes the
 * others' room; what is beyond is dropped, which the asking host sees as no answer.
 *
 * Tests: unit/wire/test_runs.c
 */
#include "ffr/wire/runs.h"

#include <errno.h>
#include <string.h>

#include "ffr/peer/peer.h"
#include "ffr/wire/wire.h"

#define FROM_ONE (RUNS_FRAMES / 8)

int wire_runs_ask(struct fast *f, struct wire_peer *p, uint32_t container, uint32_t epoch,
		  uint32_t number)
{
	struct wire_hdr h = {
		.type = WIRE_RUNS_ASK, .dst_cont = container, .dst_epoch = epoch, .msn = number
	};

	return wire_send(f, p, &h, NULL);
}

void wire_runs_tell(struct fast *f, const struct runs_frame *q, enum wire_runs code)
{
	struct wire_hdr h = { .type = WIRE_RUNS,
			      .src_cont = q->container,
			      .src_epoch = q->epoch,
			      .msn = q->number,
			      .code = (uint8_t)code };

	if (q->peer->tcp && q->peer->generation == q->generation)
		wire_send(f, q->peer, &h, NULL);
}

void wire_runs_came(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
{
	struct wire_dev *dev = wire_dev(f);
	bool is_answer = h->type == WIRE_RUNS;
	uint32_t own = 0;

	for (uint32_t i = 0; i < dev->num_runs; i++)
		own += dev->runs[i].peer == p;
	if (dev->num_runs == RUNS_FRAMES || own >= FROM_ONE || !f->host->runs_frames)
		return;
	peer_get(p);
	dev->runs[dev->num_runs++] = (struct runs_frame){
		.peer = p,
		.generation = p->generation,
		.is_answer = is_answer,
		.container = is_answer ? h->src_cont : h->dst_cont,
		.epoch = is_answer ? h->src_epoch : h->dst_epoch,
		.number = h->msn,
		.code = h->code,
	};
	f->host->runs_frames(f->host);
}

bool wire_runs_take(struct fast *f, struct runs_frame *fr)
{
	struct wire_dev *dev = wire_dev(f);

	if (!dev->num_runs)
		return false;
	*fr = dev->runs[0];
	dev->num_runs--;
	memmove(dev->runs, dev->runs + 1, dev->num_runs * sizeof(*dev->runs));
	return true;
}
