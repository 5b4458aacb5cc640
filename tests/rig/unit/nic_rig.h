/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * nic_rig.h - a fixture: *state is a rig whose carriers are the wire and a fake NIC (fake_nic.h), whose GID containers may
 * use; a session in container 0 with a CQ, a buffer that is an MR, and a QP that the NIC carries, in RTS and watched.
 */
#ifndef NIC_RIG_H
#define NIC_RIG_H

#include "tests/rig/unit/unit.h"
#include "ffr/nic/nic.h"
#include "tests/rig/fakes/fake_nic.h"
#include "tests/rig/unit/rig.h"

#define NIC_RIG_ACCESS                                                                             \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define NIC_RIG_BUF 65536u

struct nic_rig {
	struct rig r;
	struct rig_ses *s;
	struct rig_cq *cq;
	struct rig_qp *qp;
	struct ibv_qp *ib; /* the NIC's of it */
	struct mr *mr;
	uint8_t *buf;
	unsigned wakes; /* so often work() was asked for since it was called last */
};

extern struct nic_conf nic_rig_conf; /* of the rigs to come: "fake0", port 1, any GID, direct */

/* The carriers of a host with these NICs, until the next call; a rig with them. */
const struct carrier_use *nic_rig_carriers(const struct nic_conf *conf);
void nic_rig_init(struct rig *r, const struct nic_conf *conf);
/* Without a QP; with one of that type in RESET; and that in RTS. */
void nic_rig_open(struct nic_rig *n);
void nic_rig_open_qp(struct nic_rig *n, enum ibv_qp_type type);
void nic_rig_open_rts(struct nic_rig *n, enum ibv_qp_type type);
/* What is NULL is gone already. Asserts that the NIC has everything back. */
void nic_rig_close(struct nic_rig *n);

int nic_rig_setup(void **state);
int nic_rig_setup_uc(void **state);
int nic_rig_teardown(void **state);
#define NIC_TEST(name)	  cmocka_unit_test_setup_teardown(name, nic_rig_setup, nic_rig_teardown)
#define NIC_TEST_UC(name) cmocka_unit_test_setup_teardown(name, nic_rig_setup_uc, nic_rig_teardown)

/* Attributes of a way by the NIC to QP 0x4321 at fd01::2; the state does not change. */
void nic_rig_attr(struct nic_rig *n, struct rig_qp *q);
/* INIT, RTR, RTS with those. */
void nic_rig_connect(struct nic_rig *n, struct rig_qp *q);
struct ibv_qp *nic_rig_ib(const struct rig_qp *q);
/* What the control thread does when it is woken. */
void nic_rig_work(struct nic_rig *n);
/* The QP goes to ERR, the NIC hears of it, and all comes back that it flushes. */
void nic_rig_error(struct nic_rig *n);
/* epoll tells of asynchronous events; control thread and runner do what follows. */
void nic_rig_events(struct nic_rig *n);
/* The next event of the session is this one, of that object; there is none. */
void nic_rig_expect_event(struct nic_rig *n, enum ibv_event_type type, uint32_t handle);
void nic_rig_expect_no_event(struct nic_rig *n);

uint64_t nic_rig_at(const struct nic_rig *n, uint64_t off); /* address of that byte of buf */
/* A SEND of so many bytes of the buffer, posted; nothing runs yet. */
void nic_rig_send(struct nic_rig *n, uint64_t wr_id, uint32_t len);
void nic_rig_recv(struct nic_rig *n, uint64_t wr_id, uint32_t len);

/* The next completion; none. */
void nic_rig_expect(struct nic_rig *n, uint64_t wr_id, enum ibv_wc_status st);
void nic_rig_expect_none(struct nic_rig *n);

#endif
