/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * msg.c - a packet from a client, checked against FF_MSG_TABLE. Pure functions; the fuzz
 * target calls them with anything.
 */
#include <string.h>

#include "ffr/ctl/ctl.h"

#define TAIL_ff_none	0
#define TAIL_ff_mr_run	sizeof(struct ff_mr_run)
#define TAIL_ff_cm_byte sizeof(struct ff_cm_byte)
#define TAIL_ff_ndev	sizeof(struct ff_ndev)

static const struct ctl_type types[FF_MSG_NUM] = {
#define X(num, NAME, name, tail, fds)                                                              \
	[num] = { #NAME,                                                                           \
		  sizeof(struct ff_##name##_req),                                                  \
		  sizeof(struct ff_##name##_resp),                                                 \
		  TAIL_##tail,                                                                     \
		  FF_RESP_FDS(fds),                                                                \
		  FF_REQ_FDS(fds) },
	FF_MSG_TABLE(X)
#undef X
};
#define X(num, NAME, name, tail, fds)                                                              \
	static_assert(sizeof(struct ff_##name##_resp) <= CTL_RESP_MAX &&                           \
			      FF_RESP_FDS(fds) <= CTL_MAX_FDS && FF_REQ_FDS(fds) <= CTL_REQ_FDS,   \
		      #name);
FF_MSG_TABLE(X)
#undef X

const struct ctl_type *ctl_type(uint16_t type)
{
	return type < FF_MSG_NUM && types[type].name ? &types[type] : NULL;
}

const char *ctl_parse(const void *bytes, size_t len, unsigned n_fds, struct ctl_msg *m)
{
	size_t want;

	if (len < sizeof(m->hdr))
		return "a message shorter than its header";
	memcpy(&m->hdr, bytes, sizeof(m->hdr));
	if (m->hdr.magic != FF_PROTO_MAGIC)
		return "not a freeflow message";
	m->type = ctl_type(m->hdr.type);
	if (m->hdr.status)
		return "a request with a status";
	m->req = m->tail = NULL;
	if (!m->type) { /* a newer library's: nothing is known of its body */
		if (len > FF_MSG_MAX || n_fds != m->hdr.n_fds)
			return "an unknown message beyond the limits of all messages";
		return NULL;
	}
	if (n_fds != m->type->req_fds || m->hdr.n_fds != n_fds)
		return "a request with the wrong number of descriptors";
	if (m->hdr.n_tail && !m->type->tail_size)
		return "tail elements where there are none";
	want = sizeof(m->hdr) + m->type->req_size + (size_t)m->hdr.n_tail * m->type->tail_size;
	if (len != want)
		return "wrong message length";
	m->req = (const uint8_t *)bytes + sizeof(m->hdr);
	m->tail = (const uint8_t *)m->req + m->type->req_size;
	return NULL;
}
