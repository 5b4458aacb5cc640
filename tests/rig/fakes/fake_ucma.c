/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_ucma.c - see fake_ucma.h. Aborts where the test cannot go on. */
#include "tests/rig/fakes/fake_ucma.h"

#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "ffr/nic/cm/ucma_abi.h"

#define EVENTS 256

struct fake_ucma fake_ucma;
static struct rdma_ucm_event_resp event[EVENTS];
static unsigned first, num;

static int fake_open(void)
{
	errno = fake_ucma.no_file;
	if (fake_ucma.no_file)
		return -1;
	fake_ucma.opens++;
	return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

static uint32_t id_new(uint64_t uid)
{
	for (uint32_t i = 0; i < FAKE_UCMA_IDS; i++) {
		struct fake_ucma_id *id = &fake_ucma.id[i];

		if (id->is_there)
			continue;
		*id = (struct fake_ucma_id){ .is_there = true, .uid = uid };
		fake_ucma.num_ids++;
		return i;
	}
	abort();
}

/* Where a command has the id that it is of. */
static size_t id_at(uint32_t cmd)
{
	static const size_t at[] = {
		[RDMA_USER_CM_CMD_DESTROY_ID] = offsetof(struct rdma_ucm_destroy_id, id),
		[RDMA_USER_CM_CMD_QUERY] = offsetof(struct rdma_ucm_query, id),
		[RDMA_USER_CM_CMD_CONNECT] = offsetof(struct rdma_ucm_connect, id),
		[RDMA_USER_CM_CMD_ACCEPT] = offsetof(struct rdma_ucm_accept, id),
		[RDMA_USER_CM_CMD_INIT_QP_ATTR] = offsetof(struct rdma_ucm_init_qp_attr, id),
		[RDMA_USER_CM_CMD_SET_OPTION] = offsetof(struct rdma_ucm_set_option, id),
	};

	return cmd < sizeof(at) / sizeof(at[0]) ? at[cmd] : 0;
}

static void answer(uint64_t to, const void *what, size_t len, size_t room)
{
	if (len > room)
		abort();
	memcpy((void *)(uintptr_t)to, what, len);
}

static void query(uint64_t to, size_t room)
{
	struct rdma_ucm_query_addr_resp resp = { .node_guid = fake_ucma.guid };
	struct sockaddr_in peer = { .sin_family = AF_INET,
				    .sin_port = htons(99),
				    .sin_addr.s_addr = htonl(0x0a010209) };

	memcpy(&resp.dst_addr, &peer, sizeof(peer));
	answer(to, &resp, sizeof(resp), room);
}

static void attr(uint64_t to, size_t room)
{
	struct ib_uverbs_qp_attr resp = { .rq_psn = fake_ucma.rq_psn,
					  .sq_psn = fake_ucma.sq_psn,
					  .path_mtu = fake_ucma.mtu };

	answer(to, &resp, sizeof(resp), room);
}

static int take_event(uint64_t to, size_t room)
{
	if (first == num)
		return EAGAIN;
	answer(to, &event[first], sizeof(event[first]), room);
	if (++first == num)
		first = num = 0;
	return 0;
}

static int of_id(const struct rdma_ucm_cmd_hdr *h, const uint8_t *in)
{
	struct rdma_ucm_accept accept;
	struct fake_ucma_id *id;
	uint32_t number;
	uint64_t to;

	memcpy(&number, in + id_at(h->cmd), sizeof(number));
	memcpy(&to, in, sizeof(to));
	if (number >= FAKE_UCMA_IDS || !fake_ucma.id[number].is_there)
		return ENOENT;
	id = &fake_ucma.id[number];
	if (id->num_calls < 16)
		id->call[id->num_calls++] = h->cmd;
	switch (h->cmd) {
	case RDMA_USER_CM_CMD_DESTROY_ID:
		id->is_there = false;
		fake_ucma.num_ids--;
		return 0;
	case RDMA_USER_CM_CMD_QUERY:
		query(to, h->out);
		return 0;
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
		attr(to, h->out);
		return 0;
	case RDMA_USER_CM_CMD_ACCEPT:
		memcpy(&accept, in, sizeof(accept));
		if (accept.conn_param.valid)
			id->uid = accept.uid;
		break;
	default:
		break;
	}
	memcpy(id->last, in, h->in);
	return 0;
}

static int serve(const struct rdma_ucm_cmd_hdr *h, const uint8_t *in)
{
	struct rdma_ucm_create_id_resp made;
	uint64_t uid, to;

	if (h->cmd == RDMA_USER_CM_CMD_GET_EVENT) {
		memcpy(&to, in, sizeof(to));
		return take_event(to, h->out);
	}
	if (fake_ucma.fail[h->cmd] && !--fake_ucma.fail[h->cmd])
		return fake_ucma.err;
	if (h->cmd != RDMA_USER_CM_CMD_CREATE_ID)
		return of_id(h, in);
	memcpy(&uid, in + offsetof(struct rdma_ucm_create_id, uid), sizeof(uid));
	memcpy(&to, in + offsetof(struct rdma_ucm_create_id, response), sizeof(to));
	made.id = id_new(uid);
	answer(to, &made, sizeof(made), h->out);
	return 0;
}

static ssize_t fake_write(int fd, const void *bytes, size_t len)
{
	struct rdma_ucm_cmd_hdr h;

	(void)fd;
	memcpy(&h, bytes, sizeof(h));
	if (len != sizeof(h) + h.in || h.cmd >= 32)
		abort();
	errno = serve(&h, (const uint8_t *)bytes + sizeof(h));
	return errno ? -1 : (ssize_t)len;
}

static const struct ucma_sys fake = { fake_open, fake_write };

void fake_ucma_reset(void)
{
	memset(&fake_ucma, 0, sizeof(fake_ucma));
	first = num = 0;
	ucma_sys = &fake;
}

void fake_ucma_fail(int cmd, int nth, int err)
{
	fake_ucma.fail[cmd] = nth;
	fake_ucma.err = err;
}

static struct rdma_ucm_event_resp *event_new(uint32_t id, uint64_t uid, uint32_t what)
{
	struct rdma_ucm_event_resp *e = &event[num++];

	if (num > EVENTS)
		abort();
	*e = (struct rdma_ucm_event_resp){ .uid = uid, .id = id, .event = what };
	return e;
}

void fake_ucma_tell(uint32_t id, uint32_t what, int status, uint8_t pd)
{
	struct rdma_ucm_event_resp *e = event_new(id, fake_ucma.id[id].uid, what);

	e->status = (uint32_t)status;
	e->param.conn.private_data_len = pd != 0;
	e->param.conn.private_data[0] = pd;
}

uint32_t fake_ucma_request(uint32_t listener)
{
	uint32_t id = id_new(0);
	struct rdma_ucm_event_resp *e = event_new(id, fake_ucma.id[listener].uid, 4);

	e->param.conn = (struct rdma_ucm_conn_param){ .qp_num = 0x1000007,
						      .responder_resources = 3,
						      .initiator_depth = 4,
						      .retry_count = 15,
						      .private_data_len = 56 };
	return id;
}

uint32_t fake_ucma_only(void)
{
	uint32_t i = 0;

	if (fake_ucma.num_ids != 1)
		abort();
	while (!fake_ucma.id[i].is_there)
		i++;
	return i;
}
