/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * windows.h - a soft_pair with memory windows: end 0 reaches for memory of end 1, whose MR gives it no
 * right but through windows.
 */
#ifndef WINDOWS_H
#define WINDOWS_H

#include "ffr/fast/mw.h"
#include "tests/rig/unit/soft_pair.h"

#define BINDABLE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
#define RW	 (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

void windows_up(struct pair *p, enum ibv_qp_type type);
void windows_down(struct pair *p);
/* Both ends from whatever state to RTS again, the CQs emptied. */
void windows_revive(struct pair *p);
struct mw *window_new(struct rig_ses *s, enum ibv_mw_type type);
void window_free(struct pair *p, struct mw *mw);
/* End 1 binds mw with that low byte to [off, off + len) of its MR. */
enum ibv_wc_status window_bind_mr(struct pair *p, struct rig_qp *qp, const struct mw *mw,
				  const struct mr *mr, uint64_t off, uint64_t len, uint32_t access,
				  uint8_t low);
enum ibv_wc_status window_bind(struct pair *p, const struct mw *mw, uint64_t off, uint64_t len,
			       uint32_t access, uint8_t low);
/* End 1 invalidates; end 0 reads, writes or fetches and adds: how that ended. */
enum ibv_wc_status window_local_inv(struct pair *p, uint32_t rkey);
enum ibv_wc_status window_rdma(struct pair *p, uint8_t op, uint64_t addr, uint32_t rkey,
			       uint32_t len);
/* Does a WRITE to that part of end 1's buffer get through? If not, it was refused, and both ends are revived. */
bool window_writes(struct pair *p, uint64_t off, uint32_t rkey, uint32_t len);
void window_send_inv(struct pair *p, uint32_t rkey, uint32_t len);

#endif
