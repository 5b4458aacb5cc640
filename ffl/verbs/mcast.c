/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mcast.c - multicast groups of UD QPs. Any thread. The router checks and keeps them (its
 * soft/mcast.c); a QP that is attached cannot be destroyed (EBUSY).
 */
#include <string.h>
#include <time.h>

#include "ffl/session/ffl.h"

#define PATIENCE_NS 1000000000 /* with an orchestrator */

/*
 * 0, also if it is attached by that LID already; EINVAL, or ENOMEM beyond the device's limits. Who has
 * attached a QP tells others, often, and they send: so this waits until other hosts can know of it.
 */
FFL_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct ff_attach_mcast_req req = { .qp = to_qp(qp)->handle, .lid = lid };
	struct timespec pause = { .tv_nsec = 50000 };
	struct ff_attach_mcast_resp resp;
	int err;

	memcpy(req.gid, gid->raw, sizeof(req.gid));
	for (long ns = 0; ns < PATIENCE_NS; ns += pause.tv_nsec) {
		err = FFL_CALL(to_qp(qp)->ctx, ATTACH_MCAST, &req, &resp);
		if (err || !resp.pending)
			break;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 1000000)
			pause.tv_nsec *= 2;
	}
	return ffl_ret(err);
}

/* 0, or EINVAL: it is not attached to that group by that LID. */
FFL_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct ff_detach_mcast_req req = { .qp = to_qp(qp)->handle, .lid = lid };
	struct ff_detach_mcast_resp resp;

	memcpy(req.gid, gid->raw, sizeof(req.gid));
	return ffl_ret(FFL_CALL(to_qp(qp)->ctx, DETACH_MCAST, &req, &resp));
}
