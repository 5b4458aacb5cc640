/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * nics.c - the frames NIC, NIC_ASK and NIC_OF, by which two hosts tell each other of their NICs. [lock] The NIC's
 * carrier uses what they say (nic/path.c, nic/ud_tunnel.c).
 *
 * When a connection begins, either router sends a NIC for each of its NICs: which it is (code) of how many (msn), its
 * GID and network, and the router's own UD QP (src_qpn, tag: its Q_Key) with a number that nobody else is told, which
 * is to be in front of the peer's datagrams (offset). All 0: there is no such QP. Told again, the number is another
 * one: datagrams with the former are lost. Where a host has several NICs, NIC_ASK asks which of them a container has,
 * and NIC_OF answers.
 *
 * Tests: unit/nic/test_several.c, unit/nic/test_path.c
 */
#include "ffr/wire/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "ffr/dir/dir.h"
#include "ffr/peer/peer.h"

static struct wire_hdr about_nic(const struct fast_host *h, const struct wire_peer *p, uint32_t i)
{
	const struct host_nic *nic = &h->nic[i];
	struct wire_hdr to = { .type = WIRE_NIC };

	memcpy(to.nic.gid, &nic->gid, sizeof(to.nic.gid));
	to.code = (uint8_t)i;
	to.msn = h->num_nics ? h->num_nics : 1;
	memcpy(to.nic.net, nic->net, sizeof(to.nic.net));
	if (nic->ud_qpn && p->nic_ud_in) {
		to.src_qpn = nic->ud_qpn;
		to.tag = nic->ud_qkey;
		to.offset = p->nic_ud_in;
	}
	return to;
}

static bool has_ud(const struct fast_host *h)
{
	for (uint32_t i = 0; i < h->num_nics; i++)
		if (h->nic[i].ud_qpn)
			return true;
	return false;
}

void wire_nics_tell(struct fast *f, struct wire_peer *p)
{
	const struct fast_host *host = f->host;
	struct wire_hdr h;

	p->nic_ud_in = 0;
	if (has_ud(host) && getrandom(&p->nic_ud_in, sizeof(p->nic_ud_in), GRND_NONBLOCK) !=
				    (ssize_t)sizeof(p->nic_ud_in))
		p->nic_ud_in = 0;
	for (uint32_t i = 0; !i || i < host->num_nics; i++) {
		h = about_nic(host, p, i);
		wire_send(f, p, &h, NULL);
	}
}

void wire_nics_begin(struct fast *f, struct wire_peer *p)
{
	memset(p->nic, 0, sizeof(p->nic));
	p->num_nics = p->nics_told = 0;
	p->nic_told = false;
	wire_nics_tell(f, p);
}

static void told(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
{
	uint32_t i = h->code, num = h->msn;
	struct wire_nic *nic;

	static_assert(WIRE_NICS_MAX == HOST_NICS_MAX, "protocol");
	if (!num || num > WIRE_NICS_MAX || i >= num || (p->num_nics && num != p->num_nics))
		return;
	/* QPs that were told their way by what it had before keep to that */
	nic = &p->nic[i];
	memcpy(&nic->gid, h->nic.gid, sizeof(nic->gid));
	memcpy(nic->net, h->nic.net, sizeof(nic->net));
	nic->net[sizeof(nic->net) - 1] = '\0';
	nic->ud_qpn = h->src_qpn & 0xffffff;
	nic->ud_qkey = h->tag;
	nic->ud_out = h->offset;
	p->num_nics = num;
	p->nics_told |= 1u << i;
	p->nic_told = p->nics_told == (1u << num) - 1;
	if (p->nic_told)
		fast_want_work(f->host);
}

#define NIC_ASK_NS (100 * NS_PER_MS) /* an answer may be lost with its container's registration */

int wire_nic_of(struct fast *f, struct remote *there)
{
	struct wire_hdr h = { .type = WIRE_NIC_ASK,
			      .dst_cont = there->id,
			      .dst_epoch = there->epoch };
	const struct remote_nic *n = &there->nic;
	struct wire_peer *p = there->peer;

	if (!p || !p->tcp || !p->nic_told)
		return -EAGAIN;
	if (p->num_nics <= 1)
		return 0;
	if (n->peer == p && n->generation == p->generation && n->epoch == there->epoch &&
	    n->index < p->num_nics)
		return (int)n->index;
	if ((!n->asked || f->now >= n->asked + NIC_ASK_NS) && !wire_send(f, p, &h, NULL))
		there->nic.asked = f->now;
	return -EAGAIN;
}

void wire_nics_tell_of(struct fast *f, struct wire_peer *p, const struct container *c)
{
	struct wire_hdr h = {
		.type = WIRE_NIC_OF, .src_cont = c->id, .src_epoch = c->epoch, .msn = c->nic
	};

	wire_send(f, p, &h, NULL);
}

static void asked_of(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
{
	const struct container *c;

	LIST_FOREACH(c, &f->host->containers, entry)
		if (c->id == h->dst_cont && c->epoch == h->dst_epoch)
			wire_nics_tell_of(f, p, c);
}

static void told_of(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
{
	struct remote *r = dir_by_id(f, h->src_cont);

	if (!r || r->peer != p || r->epoch != h->src_epoch || h->msn >= p->num_nics)
		return;
	r->nic.peer = p;
	r->nic.generation = p->generation;
	r->nic.epoch = r->epoch;
	r->nic.index = h->msn;
	fast_want_work(f->host);
}

void wire_nics_came(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
{
	switch (h->type) {
	case WIRE_NIC:
		told(f, p, h);
		break;
	case WIRE_NIC_ASK:
		asked_of(f, p, h);
		break;
	case WIRE_NIC_OF:
		told_of(f, p, h);
		break;
	}
}
