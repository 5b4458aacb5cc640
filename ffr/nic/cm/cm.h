/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cm.h - rdma_cm in the NIC's network, by the host's kernel, and connections of NICs that speak iWARP, which only the
 * kernel's rdma_cm can make.
 *
 * The room ffr/nic/cm/ may use nic/ and what nic/ may use. The rooms below know only nic_ucma_ops of this room, a part
 * of nic_carrier (fast/ucma.h). nic/ starts and ends this room, and asks it for the steps of QPs with iWARP. Control
 * thread, except where a comment says otherwise. A worker of its own (nic/worker.c) makes the calls to the kernel.
 */
#ifndef FFR_NIC_CM_CM_H
#define FFR_NIC_CM_CM_H

#include "ffr/nic/nic.h"

/* ucma.c; control thread, no lock, except where a comment says otherwise */
struct ucma_ops;
extern const struct ucma_ops nic_ucma_ops;
int nic_ucma_new(struct nic_dev *d);   /* 0 or -ENOMEM */
int nic_ucma_start(struct nic_dev *d); /* runner, before its sandbox. 0 or -errno */
void nic_ucma_stop(struct nic_dev *d); /* end the worker of ucma.c */
void nic_ucma_free(struct nic_dev *d);
void nic_ucma_settle(struct nic_dev *d);  /* wait until all commands have been carried out */
void nic_ucma_changed(struct nic_dev *d); /* the NIC is back, or its GID has changed */

/* ucma_event.c */
void nic_ucma_heard(struct nic_ucma *u); /* runner, [lock]: events are there */
void nic_ucma_work(struct nic_dev *d);

/* ucma_call.c */
/* Is `conn` the number of a connection of one of the container's ids? */
bool nic_ucma_knows(struct nic_dev *d, const struct container *c, uint32_t conn);
/* The QP of connection `conn` goes: cancel or interrupt the call that names this QP. */
void nic_ucma_qp_goes(struct nic_dev *d, uint32_t conn);

/* iwarp.c */
/* Take a QP from state `now` to state `next`. 0 or -errno */
int nic_iw_step(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a,
		enum ibv_qp_state now, enum ibv_qp_state next);
/* Prepare the container's QP number `num`, before the kernel is asked for connection `conn` with it. 0 or -errno */
int nic_iw_ask(struct fast *f, const struct container *cont, uint32_t num, uint32_t conn);
/* Connection `conn` of QP number `num` is established. */
void nic_iw_up(struct fast *f, uint32_t num, uint32_t conn);
/* Connection `conn` of QP number `num` has ended, or failed. */
void nic_iw_down(struct fast *f, uint32_t num, uint32_t conn);

#endif
