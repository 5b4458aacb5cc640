/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c tests/rig/unit/fake_rig.c */
/*
 * test_send_once.c - send.c reads each field of an SQE once: a client that changes a field after it was read
 * changes nothing. The test includes send.c, so that each field is overwritten as soon as it was read.
 */
#include <string.h>

#include "ffr/fast/internal.h"
#include "ffr/lib/shm.h"
#include "tests/rig/unit/fake_rig.h"
#include "tests/rig/unit/unit.h"

static void copy_and_overwrite(void *to, const void *from, size_t n)
{
	memcpy(to, from, n);
	memset((void *)(uintptr_t)from, 0xff, n);
}

#undef shm_read
#define shm_read(p)                                                                                \
	({                                                                                         \
		__typeof__(*(p) + 0) read_ = *(p);                                                 \
		memset((void *)(uintptr_t)(p), 0xff, sizeof(*(p)));                                \
		read_;                                                                             \
	})
#define shm_copy copy_and_overwrite
#include "ffr/fast/send.c"

/* Post a WR of this opcode with n SGEs, or with n inline bytes if sge is NULL. Returns what the backend got. */
static const struct send_wr *posted(struct rig_one *o, uint8_t opcode, const struct ff_sge *sge,
				    uint16_t n)
{
	struct ff_sqe *e = rig_sqe(o->qp, opcode, 11);

	e->num_sge = n;
	if (sge)
		memcpy((uint8_t *)e + offsetof(struct ff_sqe, sge), sge, n * sizeof(*sge));
	else
		e->flags |= FF_SQE_INLINE;
	e->remote_addr = 22;
	e->rkey = 33;
	e->imm = 44;
	rig_post(&o->r, o->qp);
	rig_run(&o->r);
	assert_int_equal(fake_posted(), 1);
	return o->qp->qp.wr;
}

static void is_as_written(const struct send_wr *wr, uint8_t opcode, uint16_t num_sge,
			  uint64_t length)
{
	assert_int_equal(wr->opcode, opcode);
	assert_int_equal(wr->num_sge, num_sge);
	assert_int_equal(wr->length, length);
	assert_int_equal(wr->wr_id, 11);
	assert_int_equal(wr->remote_addr, 22);
	assert_int_equal(wr->rkey, 33);
	assert_int_equal(wr->imm, 44);
}

static void sges(void **state)
{
	static const struct ff_sge sge[3] = { { 1000, 10, 1 }, { 2000, 20, 2 }, { 3000, 30, 3 } };
	const struct send_wr *wr = posted(*state, FF_OP_WRITE_IMM, sge, 3);

	is_as_written(wr, FF_OP_WRITE_IMM, 3, 60);
	assert_memory_equal(wr->sge, sge, sizeof(sge));
}

static void one_sge(void **state)
{
	static const struct ff_sge sge = { 1000, 10, 1 };
	const struct send_wr *wr = posted(*state, FF_OP_READ, &sge, 1);

	is_as_written(wr, FF_OP_READ, 1, 10);
	assert_memory_equal(wr->sge, &sge, sizeof(sge));
}

static void inline_bytes(void **state)
{
	struct rig_one *o = *state;

	memcpy((uint8_t *)qp_sqe(&o->qp->qp, 0) + offsetof(struct ff_sqe, inl), "eight by", 8);
	is_as_written(posted(o, FF_OP_SEND_IMM, NULL, 8), FF_OP_SEND_IMM, 8, 8);
	assert_memory_equal(o->qp->qp.wr->inl, "eight by", 8);
}

static void operands(void **state)
{
	static const struct ff_sge sge = { 1000, 8, 1 };
	struct rig_one *o = *state;
	const struct send_wr *wr;

	qp_sqe(&o->qp->qp, 0)->atomic.compare_add = 55;
	qp_sqe(&o->qp->qp, 0)->atomic.swap = 66;
	wr = posted(o, FF_OP_CMP_SWAP, &sge, 1);
	is_as_written(wr, FF_OP_CMP_SWAP, 1, 8);
	assert_int_equal(wr->compare_add, 55);
	assert_int_equal(wr->swap, 66);
}

static void flush_of_a_range(void **state)
{
	static const struct ff_sge none;
	struct rig_one *o = *state;
	const struct send_wr *wr;

	qp_sqe(&o->qp->qp, 0)->flush.types = FF_FLUSH_GLOBAL;
	qp_sqe(&o->qp->qp, 0)->flush.level = FF_FLUSH_RANGE;
	qp_sqe(&o->qp->qp, 0)->flush.length = 77;
	wr = posted(o, FF_OP_FLUSH, &none, 0);
	is_as_written(wr, FF_OP_FLUSH, 0, 0);
	assert_int_equal(wr->flush.types, FF_FLUSH_GLOBAL);
	assert_int_equal(wr->flush.level, FF_FLUSH_RANGE);
	assert_int_equal(wr->flush.length, 77);
}

/* A WR of a QP in ERR is flushed under the number that it was posted with. */
static void flushed(void **state)
{
	struct rig_one *o = *state;
	struct ff_cqe e;

	rig_state(&o->r, o->qp, IBV_QPS_ERR);
	rig_sqe(o->qp, FF_OP_READ, 11);
	rig_post(&o->r, o->qp);
	rig_run(&o->r);
	assert_true(rig_poll(o->cq, &e));
	assert_int_equal(e.wr_id, 11);
	assert_int_equal(e.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(e.opcode, IBV_WC_RDMA_READ);
}

int main(void)
{
	return UNIT_RUN(FAKE_TEST(sges), FAKE_TEST(one_sge), FAKE_TEST(inline_bytes),
			FAKE_TEST(operands), FAKE_TEST(flush_of_a_range), FAKE_TEST(flushed));
}
