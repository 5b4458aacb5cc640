/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* odp.c - see odp.h. */
#include "tests/rig/verbs/odp.h"

#include <sys/mman.h>

struct odp_target odp_target;

/*
 * Where the kernel maps nothing by itself. The tests unmap this memory and map it again. Elsewhere, another thread or
 * a sanitizer may have mapped its own memory there in between.
 */
static uint8_t *free_from = (uint8_t *)(1ull << 45);

void *odp_map(void *at, size_t len)
{
	int fixed = at ? MAP_FIXED : MAP_FIXED_NOREPLACE;
	void *p = mmap(at ? at : free_from, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);

	CHECK(p != MAP_FAILED);
	if (!at)
		free_from += len + (1u << 30);
	return p;
}

struct ibv_mr *odp_serve(struct vt_end *e, void *p, size_t len, int access)
{
	struct vt_param par = VT_PARAM;
	struct odp_target t = { .addr = (uintptr_t)p };
	struct ibv_mr *mr;

	halves_open(e, &par);
	mr = CHECK_PTR(ibv_reg_mr(e->pd, p, len, access));
	t.rkey = mr->rkey;
	halves_put(halves_sock, &t, sizeof(t));
	return mr;
}

void odp_reach(struct vt_end *e)
{
	struct vt_param par = VT_PARAM;

	par.len = 3 * ODP_MB;
	par.access = ODP_ACCESS;
	halves_open(e, &par);
	CHECK(halves_get(halves_sock, &odp_target, sizeof(odp_target)));
}

void odp_close_served(struct vt_end *e, struct ibv_mr *mr)
{
	halves_meet('e');
	if (mr)
		CHECK_OK(ibv_dereg_mr(mr));
	vt_end_close(e);
}

void odp_close_reach(struct vt_end *e)
{
	halves_meet('e');
	vt_end_close(e);
}

enum ibv_wc_status odp_transfer(struct vt_end *e, enum ibv_wr_opcode op, size_t off, size_t len,
				uint64_t at)
{
	struct ibv_sge sge = vt_sge(e, off, len);
	struct ibv_send_wr wr = {
		.wr_id = 7,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { odp_target.addr + at, odp_target.rkey },
	};

	CHECK_OK(vt_post(e, &wr));
	return vt_wc(e->scq).status;
}

void odp_put(struct vt_end *e, size_t len, uint64_t at, uint32_t seed)
{
	vt_pattern(e->buf, len, seed);
	CHECK_EQ(odp_transfer(e, IBV_WR_RDMA_WRITE, 0, len, at), IBV_WC_SUCCESS);
}

void odp_get(struct vt_end *e, size_t len, uint64_t at)
{
	memset(e->buf, 0x5a, len);
	CHECK_EQ(odp_transfer(e, IBV_WR_RDMA_READ, 0, len, at), IBV_WC_SUCCESS);
}
