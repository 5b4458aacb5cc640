/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dmabuf.h - MRs on an application's dma-buf. See dmabuf.c. Control thread.
 */
#ifndef FFR_MEM_DMABUF_H
#define FFR_MEM_DMABUF_H

#include "ffr/obj/objects.h"

/*
 * Map bytes [offset, offset + mr->length) of the dma-buf, for what mr->access allows, as the MR's
 * one run. mr->o.ses is set, and so are iova, length and access. fd stays the caller's. 0 or:
 *	-EINVAL		not a dma-buf, or out of its bounds
 *	-EOPNOTSUPP	of another exporter than those of plain memory
 *	-ENOSPC		the session has as many mappings of its files as it may
 */
int dmabuf_map(struct mr *mr, int fd, uint64_t offset);
/* Undo it, after fast_mr_del(); an MR of another kind is left alone. */
void dmabuf_unmap(struct mr *mr);

#endif
