/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * buf.c - registration by an extensible struct, and buffers that the library allocates for it:
 * verbs of rdma-core v59 to v65, newer than the headers that this is built with. Any thread.
 *
 * A buffer is shadow memory from the start (malloc.c), page-aligned, so that its registration
 * copies nothing.
 */
#include <stdlib.h>

#include "ffl/session/ffl.h"

#define ALIGNED_FROM 32768u /* bytes: from here on ibv_malloc() aligns to pages */

struct ibv_dmah;

struct ibv_buf {
	struct ibv_pd *pd;
	void *addr;
	size_t size; /* bytes, as asked for */
};

struct ibv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask; /* MASK_* */
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf;
};
enum {
	MASK_IOVA = 1 << 0,
	MASK_ADDR = 1 << 1,
	MASK_FD = 1 << 2,
	MASK_FD_OFFSET = 1 << 3,
	MASK_BUF = 1 << 5,
};

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

/* Does the range lie in the buffer, and is that one of the PD's? */
static bool in_buf(const struct ibv_pd *pd, const struct ibv_mr_init_attr *a)
{
	size_t off = (size_t)((uintptr_t)a->addr - (uintptr_t)a->buf->addr);

	return a->buf->pd == pd && off <= a->buf->size && a->length <= a->buf->size - off;
}

/*
 * Either memory (ADDR, IOVA, BUF) or a dma-buf (FD with its offset and IOVA); EINVAL for anything
 * between, EOPNOTSUPP for DMA handles and what is newer.
 */
FFL_EXPORT struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	const uint64_t dmabuf = MASK_FD | MASK_FD_OFFSET | MASK_IOVA;
	uint64_t mask = attr->comp_mask;

	if (mask & ~(uint64_t)(dmabuf | MASK_ADDR | MASK_BUF))
		return ffl_err_ptr(EOPNOTSUPP);
	if (mask & MASK_FD)
		return mask == dmabuf ? ibv_reg_dmabuf_mr(pd, attr->fd_offset, attr->length,
							  attr->iova, attr->fd, attr->access) :
					ffl_err_ptr(EINVAL);
	if (!(mask & MASK_ADDR) || mask & MASK_FD_OFFSET || (mask & MASK_BUF && !in_buf(pd, attr)))
		return ffl_err_ptr(EINVAL);
	return ibv_reg_mr_iova2(pd, attr->addr, attr->length,
				mask & MASK_IOVA ? attr->iova : (uintptr_t)attr->addr,
				(unsigned int)attr->access);
}

FFL_EXPORT struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
					 size_t length, int access)
{
	struct ibv_mr_init_attr attr = {
		.length = length,
		.access = access,
		.comp_mask = MASK_ADDR | MASK_BUF,
		.addr = addr,
		.buf = buf,
	};

	return ibv_reg_mr_ex(pd, &attr);
}

FFL_EXPORT void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	struct ibv_buf *b = malloc(sizeof(*b));

	if (!b)
		return ffl_err_ptr(ENOMEM);
	*b = (struct ibv_buf){ .pd = pd, .size = size };
	b->addr = ibv_malloc(pd, size < ALIGNED_FROM ? ALIGNED_FROM : size);
	if (!b->addr) {
		free(b);
		return NULL;
	}
	*buf = b;
	return b->addr;
}

/* No buffer is a dma-buf; as rdma-core says of one that is not. */
FFL_EXPORT int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	(void)buf;
	errno = ENODATA;
	return -1;
}

FFL_EXPORT void ibv_free_buf(struct ibv_buf *buf)
{
	ibv_free(buf->addr);
	free(buf);
}
