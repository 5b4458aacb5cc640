/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* resp_rig.c - see resp_rig.h. */
#include "tests/rig/unit/resp_rig.h"

struct remote_qp *rem(const struct hosts *t)
{
	return t->h[1].qp->qp.soft->rem;
}

void is_in(const struct hosts *t, enum rx_state want)
{
	assert_string_equal(rx_state_str(rem(t)->rx.state), rx_state_str(want));
}

void part(struct hosts *t, struct wire_hdr *h, uint64_t offset, uint32_t n)
{
	h->offset = offset;
	h->flags = 0;
	hosts_part(t, h, n, 1);
}

struct wire_hdr write_of(struct hosts *t, uint32_t msn)
{
	return (struct wire_hdr){
		.opcode = FF_OP_WRITE,
		.msn = msn,
		.req = { .addr = hosts_at(t, 1, 5000), .length = 20, .rkey = t->h[1].mr->rkey },
	};
}

void ahead(struct hosts *t)
{
	struct wire_hdr h = write_of(t, rem(t)->rx.msn + 5);

	part(t, &h, 0, 20);
}

void again(struct hosts *t)
{
	hosts_cut(t);
	hosts_connect(t);
	hosts_run(t);
}
