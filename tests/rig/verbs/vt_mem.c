/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* vt_mem.c - see vt_mem.h. */
#include "tests/rig/verbs/vt_mem.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define MANY (4u << 20) /* bytes that are not worth repeating */

static void send_from(struct vt_end *e, const void *addr, uint32_t lkey, size_t len)
{
	struct ibv_sge sge = { (uintptr_t)addr, (uint32_t)len, lkey };
	struct ibv_send_wr wr = { .wr_id = 5,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	CHECK_OK(vt_post(e, &wr));
}

static void recv_into(struct vt_end *e, void *addr, uint32_t lkey, size_t len)
{
	struct ibv_sge sge = { (uintptr_t)addr, (uint32_t)len, lkey };
	struct ibv_recv_wr wr = { .wr_id = 6, .sg_list = &sge, .num_sge = 1 };

	CHECK_OK(vt_post_recv(e, &wr));
}

void vt_mem_use_read_only(const void *mem, size_t len)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_mr *mr;

	par.len = len + PAGE;
	vt_pair(&a, &b, &par);
	mr = CHECK_PTR(ibv_reg_mr(b.pd, (void *)mem, len, IBV_ACCESS_REMOTE_READ));
	vt_aim(&a, mem, mr);
	vt_rdma(&a, IBV_WR_RDMA_READ, 1, 0, len, 0, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 1);
	CHECK(!memcmp(a.buf, mem, len));
	memset(a.buf, 0, len);
	recv_into(&a, a.buf, a.mr->lkey, len);
	send_from(&b, mem, mr->lkey, len);
	WANT_OK(b.scq, 5);
	WANT_OK(a.rcq, 6);
	CHECK(!memcmp(a.buf, mem, len));
	vt_rdma(&a, IBV_WR_RDMA_WRITE, 2, 0, len, 0, IBV_SEND_SIGNALED);
	WANT(a.scq, 2, IBV_WC_REM_ACCESS_ERR);
	CHECK(!memcmp(a.buf, mem, len));
	CHECK_OK(ibv_dereg_mr(mr));
	vt_pair_close(&a, &b);
}

/* The memory must be ordinary memory: written, forked over, and (by the caller) unmapped. */
static void use_afterwards(uint8_t *mem, size_t len)
{
	pid_t pid;

	vt_pattern(mem, len, 91);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		long at = vt_mismatch(mem, len, 91);

		if (at < 0)
			mem[0] ^= 0xff;
		_exit(at < 0 ? 0 : 1);
	}
	CHECK_EQ(vt_child_status(pid), 0);
	vt_pattern(mem, len, 92);
	CHECK_PATTERN(mem, len, 92);
}

void vt_mem_use(uint8_t *outer, size_t outer_len, size_t off, size_t len)
{
	uint8_t *mem = outer + off;
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.len = len + PAGE;
	vt_pair(&a, &b, &par);
	memset(outer, 0x33, outer_len);
	for (unsigned round = 0; round < 3; round++) {
		struct ibv_mr *mr;

		vt_pattern(mem, len, 10 + round);
		mr = CHECK_PTR(ibv_reg_mr(b.pd, mem, len, VT_ACCESS_ALL));
		CHECK_PATTERN(mem, len, 10 + round); /* kept through registration */
		vt_aim(&a, mem, mr);
		vt_rdma(&a, IBV_WR_RDMA_READ, 1, 0, len, 0, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 1);
		CHECK_PATTERN(a.buf, len, 10 + round);
		vt_pattern(mem, len, 20 + round); /* a store by the program is seen */
		recv_into(&a, a.buf, a.mr->lkey, len);
		send_from(&b, mem, mr->lkey, len);
		WANT_OK(b.scq, 5);
		WANT_OK(a.rcq, 6);
		CHECK_PATTERN(a.buf, len, 20 + round);
		vt_pattern(a.buf, len, 30 + round);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, 2, 0, len, 0, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 2);
		CHECK_PATTERN(mem, len, 30 + round);
		vt_pattern(a.buf, len, 40 + round);
		recv_into(&b, mem, mr->lkey, len);
		send_from(&a, a.buf, a.mr->lkey, len);
		WANT_OK(a.scq, 5);
		WANT_OK(b.rcq, 6);
		CHECK_PATTERN(mem, len, 40 + round);
		if (len >= 16) {
			size_t at = (8 - (uintptr_t)mem % 8) % 8;
			uint64_t was;

			memcpy(&was, mem + at, 8);
			vt_atomic(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 0, at, 5, 0);
			WANT_OK(a.scq, 3);
			CHECK(!memcmp(a.buf, &was, 8));
			was += 5;
			CHECK(!memcmp(mem + at, &was, 8));
		}
		vt_pattern(mem, len, 50 + round);
		CHECK_OK(ibv_dereg_mr(mr));
		CHECK_PATTERN(mem, len, 50 + round); /* kept through deregistration */
		CHECK(vt_all(outer, off, 0x33));
		CHECK(vt_all(mem + len, outer_len - off - len, 0x33));
	}
	vt_pair_close(&a, &b);
	use_afterwards(outer, outer_len);
}

void vt_mem_use_alias(uint8_t *p, uint8_t *alias, size_t len)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_mr *mr;

	par.len = len;
	vt_pair(&a, &b, &par);
	mr = vt_reg(&b, p, len, VT_ACCESS_ALL);
	vt_aim(&a, p, mr);
	vt_pattern(a.buf, len, 61);
	vt_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, len, 0, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 1);
	CHECK_PATTERN(alias, len, 61);
	vt_pattern(alias, len, 62);
	vt_rdma(&a, IBV_WR_RDMA_READ, 2, 0, len, 0, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 2);
	CHECK_PATTERN(a.buf, len, 62);
	CHECK_OK(ibv_dereg_mr(mr));
	vt_pattern(p, len, 63);
	CHECK_PATTERN(alias, len, 63); /* still the same pages */
	vt_pair_close(&a, &b);
}

void vt_mem_fork(uint8_t *outer, size_t outer_len, size_t off, size_t len, bool shared)
{
	struct vt_param par = VT_PARAM;
	unsigned rounds = len < MANY ? 10 : 1;
	uint8_t *p = outer + off;
	struct vt_end a, b;
	struct ibv_mr *mr;

	par.len = len;
	vt_pair(&a, &b, &par);
	memset(outer, 0x44, outer_len);
	mr = vt_reg(&b, p, len, VT_ACCESS_ALL);
	vt_aim(&a, p, mr);
	for (unsigned round = 0; round < rounds; round++) {
		int go[2];
		pid_t pid;
		char c = 0;

		vt_pattern(p, len, round);
		CHECK_EQ(pipe(go), 0);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			close(go[1]);
			if (read(go[0], &c, 1) != 1) /* the parent has overwritten its pages */
				_exit(2);
			if (!shared && vt_mismatch(p, len, round) >= 0)
				_exit(3);
			if (!vt_all(outer, off, 0x44) ||
			    !vt_all(p + len, outer_len - off - len, 0x44))
				_exit(4);
			if (!shared)
				memset(outer, 0xcc, outer_len);
			_exit(0);
		}
		close(go[0]);
		vt_pattern(a.buf, len, 50 + round);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, len, 0, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 1);
		CHECK_PATTERN(p, len, 50 + round);
		CHECK(write(go[1], &c, 1) == 1);
		close(go[1]);
		CHECK_EQ(vt_child_status(pid), 0);
		CHECK_PATTERN(p, len, 50 + round);
		vt_pattern(a.buf, len, 70 + round);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, 2, 0, len, 0, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 2);
		CHECK_PATTERN(p, len, 70 + round);
		CHECK(vt_all(outer, off, 0x44));
		CHECK(vt_all(p + len, outer_len - off - len, 0x44));
	}
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_PATTERN(p, len, 70 + rounds - 1);
	vt_pair_close(&a, &b);
}

size_t vt_mem_shared(const void *p, size_t len)
{
	uintptr_t from = (uintptr_t)p, to = from + len;
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512], perm[5];
	unsigned long a, b;
	size_t sum = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %4s", &a, &b, perm) == 3 && perm[3] == 's' && a < to &&
		    b > from)
			sum += (b < to ? b : to) - (a > from ? a : from);
	fclose(f);
	return sum;
}
