/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/halves.c tests/rig/verbs/odp.c tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_odp.c - on-demand paging between two processes, by halves.h: the serving half does to its memory what
 * programs do to memory that is not pinned, and the other one writes to it and reads it. verbs_odp_regions.c has
 * what regions are by themselves.
 *
 * Environment: ODP_STORM (rounds of the case `storm`, 200; fewer on an emulated machine).
 */
#include "tests/rig/verbs/odp.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ffr/abi/ff_vma.h"

#define MB     ODP_MB
#define TB     ((size_t)1 << 40)
#define PAGE   ODP_PAGE
#define ODP    ODP_ACCESS
#define ROUNDS 20u

/* ---- unmapped and mapped again ----------------------------------------------------------------- */

#define AREA (300u * PAGE)

/* Other pages at the same address, by munmap() and mmap(), MAP_FIXED, mremap() and MADV_DONTNEED in turn. */
static void change(uint8_t *p, unsigned how, uint32_t seed)
{
	uint8_t *other;

	switch (how % 4) {
	case 0:
		CHECK_OK(munmap(p, AREA));
		odp_map(p, AREA);
		break;
	case 1:
		odp_map(p, AREA);
		break;
	case 2:
		other = odp_map(NULL, AREA);
		vt_pattern(other, AREA, seed);
		CHECK(mremap(other, AREA, AREA, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p);
		return;
	default:
		CHECK_OK(madvise(p, AREA, MADV_DONTNEED));
	}
	if (how / 4 % 2)
		vt_pattern(p, AREA, seed);
}

/* What is there then: the pattern, or zeros that nobody has touched. */
static bool is_filled(unsigned how)
{
	return how % 4 == 2 || how / 4 % 2;
}

static void remap_server(void)
{
	uint8_t *p = odp_map(NULL, AREA);
	struct ibv_mr *mr;
	struct vt_end e;

	CHECK_OK(munmap(p, AREA)); /* it is registered before there is anything */
	mr = odp_serve(&e, p, AREA, ODP);
	odp_map(p, AREA);
	for (unsigned i = 0; i < ROUNDS; i++) {
		change(p, i, i);
		halves_meet('m');
		halves_meet('w');
		CHECK_PATTERN(p, AREA, 500 + i);
	}
	odp_close_served(&e, mr);
}

static void remap_client(void)
{
	struct vt_end e;

	odp_reach(&e);
	for (unsigned i = 0; i < ROUNDS; i++) {
		halves_meet('m');
		odp_get(&e, AREA, 0);
		if (is_filled(i))
			CHECK_PATTERN(e.buf, AREA, i);
		else
			CHECK(vt_all(e.buf, AREA, 0));
		odp_put(&e, AREA, 0, 500 + i);
		halves_meet('w');
	}
	odp_close_reach(&e);
}

/* ---- what is not there ------------------------------------------------------------------------- */

/* The client finds nothing to read or write, its QP ends, and no other; then it is there again. */
enum how_gone { UNMAPPED, READ_ONLY, NO_ACCESS, CUT_OFF, NUM_GONE };

/* Before Linux 6.11 nobody tells the router what a process may do with its pages (docs/internals/odp.md). */
static bool is_known(enum how_gone how)
{
	struct ff_vma v;
	int maps, err;

	if (how != READ_ONLY && how != NO_ACCESS)
		return true;
	maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	CHECK(maps >= 0);
	err = ff_vma_ask(maps, 0, &v);
	CHECK_OK(close(maps));
	return err != -ENOTTY;
}

static void be_gone(enum how_gone how, uint8_t *p, int fd)
{
	switch (how) {
	case UNMAPPED:
		CHECK_OK(munmap(p, 2 * PAGE));
		break;
	case READ_ONLY:
		CHECK_OK(mprotect(p, 2 * PAGE, PROT_READ));
		break;
	case NO_ACCESS:
		CHECK_OK(mprotect(p, 2 * PAGE, PROT_NONE));
		break;
	default:
		CHECK_OK(ftruncate(fd, PAGE / 2));
	}
}

static void be_back(enum how_gone how, uint8_t *p, int fd)
{
	if (how == UNMAPPED)
		odp_map(p, 2 * PAGE);
	else if (how == CUT_OFF)
		CHECK_OK(ftruncate(fd, 2 * PAGE));
	else
		CHECK_OK(mprotect(p, 2 * PAGE, PROT_READ | PROT_WRITE));
}

static void gone_server(void)
{
	for (enum how_gone how = 0; how < NUM_GONE; how++) {
		for (unsigned again = 0; again < 2 && is_known(how); again++) {
			struct vt_param par = VT_PARAM;
			int fd = memfd_create("odp", MFD_CLOEXEC);
			uint8_t *p = odp_map(NULL, 2 * PAGE);
			struct vt_end e, other;
			struct ibv_mr *mr;

			CHECK(fd >= 0 && !ftruncate(fd, 2 * PAGE));
			if (how == CUT_OFF)
				CHECK(mmap(p, 2 * PAGE, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_FIXED, fd, 0) == p);
			halves_open(&other, &par);
			mr = odp_serve(&e, p, 2 * PAGE, ODP);
			halves_meet('1');
			CHECK_PATTERN(p, 2 * PAGE, 11);
			be_gone(how, p, fd);
			halves_meet('2');
			halves_meet('3');
			be_back(how, p, fd);
			if (how == READ_ONLY || how == NO_ACCESS)
				CHECK_PATTERN(p, 2 * PAGE, 11);
			halves_meet('4');
			halves_meet('5');
			CHECK_PATTERN(other.buf, 1000, 12);
			CHECK_OK(munmap(p, 2 * PAGE));
			CHECK_OK(close(fd));
			odp_close_served(&e, mr);
			vt_end_close(&other);
		}
	}
}

static void gone_client(void)
{
	for (enum how_gone how = 0; how < NUM_GONE; how++) {
		for (unsigned reads = 0; reads < 2 && is_known(how); reads++) {
			struct vt_param par = VT_PARAM;
			struct vt_end e, other;
			bool works = how == READ_ONLY && reads;

			halves_open(&other, &par);
			odp_reach(&e);
			odp_put(&e, 2 * PAGE, 0, 11);
			halves_meet('1');
			halves_meet('2');
			CHECK_EQ(odp_transfer(&e, reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0,
					      64, PAGE + 100),
				 works ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
			halves_meet('3');
			halves_meet('4');
			vt_pattern(other.buf, 1000, 12);
			vt_rdma(&other, IBV_WR_RDMA_WRITE, 1, 0, 1000, 0, IBV_SEND_SIGNALED);
			WANT_OK(other.scq, 1);
			halves_meet('5');
			odp_close_reach(&e);
			vt_end_close(&other);
		}
	}
}

/* The same of memory of this side: local protection errors. */
static void gone_here_server(void)
{
	uint8_t *p = odp_map(NULL, PAGE);

	for (unsigned i = 0; i < 2; i++) {
		struct vt_end e;
		struct ibv_mr *mr = odp_serve(&e, p, PAGE, ODP);

		odp_close_served(&e, mr);
	}
}

static void gone_here_client(void)
{
	for (unsigned reads = 0; reads < 2; reads++) {
		struct vt_end e;

		odp_reach(&e);
		CHECK_OK(munmap(e.buf, e.len));
		CHECK_EQ(odp_transfer(&e, reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0, 64, 0),
			 IBV_WC_LOC_PROT_ERR);
		odp_map(e.buf, e.len);
		odp_close_reach(&e);
	}
}

/* ---- fork and swap ----------------------------------------------------------------------------- */

static void fork_server(void)
{
	uint8_t *p = odp_map(NULL, AREA), go;
	int pipes[2];
	struct ibv_mr *mr;
	struct vt_end e;
	pid_t child;

	vt_pattern(p, AREA, 1);
	mr = odp_serve(&e, p, AREA, ODP);
	CHECK_OK(pipe(pipes));
	child = fork();
	CHECK(child >= 0);
	if (!child) { /* its memory stays as it was */
		close(pipes[1]);
		CHECK_EQ(read(pipes[0], &go, 1), 0);
		_exit(vt_mismatch(p, AREA, 1) < 0 ? 0 : 1);
	}
	halves_meet('f');
	halves_meet('w');
	CHECK_PATTERN(p, AREA, 2);
	close(pipes[0]);
	close(pipes[1]);
	CHECK_EQ(vt_child_status(child), 0);
	odp_close_served(&e, mr);
}

static void fork_client(void)
{
	struct vt_end e;

	odp_reach(&e);
	halves_meet('f');
	odp_get(&e, AREA, 0);
	CHECK_PATTERN(e.buf, AREA, 1);
	odp_put(&e, AREA, 0, 2);
	halves_meet('w');
	odp_close_reach(&e);
}

/* Both a file's pages, which go without swap, and anonymous ones, which go where there is some. */
static void pageout_server(void)
{
	char path[] = "/tmp/odp-XXXXXX";
	int fd = mkstemp(path);
	struct ibv_mr *mr;
	struct vt_end e;
	uint8_t *p;

	CHECK(fd >= 0 && !unlink(path) && !ftruncate(fd, AREA));
	p = odp_map(NULL, 2 * AREA);
	CHECK(mmap(p, AREA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == p);
	mr = odp_serve(&e, p, 2 * AREA, ODP);
	for (unsigned i = 0; i < ROUNDS; i++) {
		vt_pattern(p, 2 * AREA, i);
		CHECK_OK(msync(p, AREA, MS_SYNC));
		if (madvise(p, 2 * AREA, 21 /* MADV_PAGEOUT */))
			CHECK_EQ(errno, EINVAL); /* before Linux 5.4 */
		halves_meet('o');
		halves_meet('w');
		CHECK_PATTERN(p, 2 * AREA, 900 + i);
	}
	odp_close_served(&e, mr);
}

static void pageout_client(void)
{
	struct vt_end e;

	odp_reach(&e);
	for (unsigned i = 0; i < ROUNDS; i++) {
		halves_meet('o');
		odp_get(&e, AREA, 0);
		CHECK_PATTERN(e.buf, AREA, i);
		memset(e.buf, 0, e.len);
		vt_pattern(e.buf, 2 * AREA, 900 + i);
		for (size_t at = 0; at < 2 * AREA; at += AREA / 2)
			CHECK_EQ(odp_transfer(&e, IBV_WR_RDMA_WRITE, at, AREA / 2, at),
				 IBV_WC_SUCCESS);
		halves_meet('w');
	}
	odp_close_reach(&e);
}

/* ---- under traffic ------------------------------------------------------------------------------- */

static _Atomic bool stop;

/* Half of the memory changes all the time, and what is there is zeros or nothing but what the peer wrote. */
static void *changer(void *arg)
{
	uint8_t *p = arg;

	for (unsigned i = 0; !atomic_load(&stop); i++) {
		if (i % 3)
			CHECK_OK(madvise(p, AREA, MADV_DONTNEED));
		else
			odp_map(p, AREA);
		vt_pause();
	}
	return NULL;
}

static unsigned storm_rounds(void)
{
	const char *s = getenv("ODP_STORM");

	return s ? (unsigned)atoi(s) : 200;
}

static void storm_server(void)
{
	uint8_t *p = odp_map(NULL, 2 * AREA);
	unsigned rounds = storm_rounds();
	struct ibv_mr *mr;
	struct vt_end e;
	pthread_t t;

	mr = odp_serve(&e, p, 2 * AREA, ODP);
	atomic_store(&stop, false);
	CHECK_OK(pthread_create(&t, NULL, changer, p));
	for (unsigned i = 0; i < rounds; i++) {
		halves_meet('w');
		CHECK_PATTERN(p + AREA, AREA, i);
		halves_meet('c');
	}
	atomic_store(&stop, true);
	CHECK_OK(pthread_join(t, NULL));
	odp_close_served(&e, mr);
}

static void storm_client(void)
{
	unsigned rounds = storm_rounds();
	struct vt_end e;

	odp_reach(&e);
	for (unsigned i = 0; i < rounds; i++) {
		odp_get(&e, AREA, 0);
		for (size_t at = 0; at < AREA; at++)
			CHECK(!e.buf[at] || e.buf[at] == 0xee);
		memset(e.buf, 0xee, AREA);
		CHECK_EQ(odp_transfer(&e, IBV_WR_RDMA_WRITE, 0, AREA, 0), IBV_WC_SUCCESS);
		odp_put(&e, AREA, AREA, i);
		halves_meet('w');
		halves_meet('c');
	}
	odp_close_reach(&e);
}

/* ---- large, and all of it ------------------------------------------------------------------------ */

static const uint64_t far_at[] = { 0, 5000 - 13, TB / 2 - 5, TB - 100 * PAGE, TB - 1000 };

static void sparse_server(void)
{
	uint8_t *p = odp_map(NULL, TB);
	struct ibv_mr *mr;
	struct vt_end e;

	mr = odp_serve(&e, p, TB, ODP);
	for (unsigned i = 0; i < ARRAY_SIZE(far_at); i++) {
		halves_meet('w');
		CHECK_PATTERN(p + far_at[i], 1000, i);
	}
	odp_close_served(&e, mr);
}

static void sparse_client(void)
{
	struct vt_end e;

	odp_reach(&e);
	for (unsigned i = 0; i < ARRAY_SIZE(far_at); i++) {
		odp_put(&e, 1000, far_at[i], i);
		odp_get(&e, 1000, far_at[i]);
		CHECK_PATTERN(e.buf, 1000, i);
		halves_meet('w');
	}
	odp_close_reach(&e);
}

static uint8_t of_the_program[1000];

static void implicit_server(void)
{
	uint8_t on_stack[1000], *heap = malloc(1000), *late;
	uint8_t *const where[] = { on_stack, heap, of_the_program };
	struct ibv_mr *mr;
	struct vt_end e;
	uint64_t at;

	CHECK(heap != NULL);
	mr = odp_serve(&e, NULL, SIZE_MAX, ODP);
	CHECK(!mr->addr && mr->length == SIZE_MAX);
	for (unsigned i = 0; i < ARRAY_SIZE(where); i++) {
		at = (uintptr_t)where[i];
		halves_put(halves_sock, &at, sizeof(at));
		halves_meet('w');
		CHECK_PATTERN(where[i], 1000, i);
	}
	late = odp_map(NULL, PAGE); /* what was not mapped when it was registered */
	at = (uintptr_t)late;
	halves_put(halves_sock, &at, sizeof(at));
	halves_meet('w');
	CHECK_PATTERN(late, 1000, 3);
	odp_close_served(&e, mr);
	free(heap);
}

static void implicit_client(void)
{
	struct vt_end e;
	struct ibv_mr *mr;
	uint64_t at;

	odp_reach(&e);
	mr = CHECK_PTR(ibv_reg_mr(e.pd, NULL, SIZE_MAX, ODP));
	for (unsigned i = 0; i < 4; i++) {
		struct ibv_sge sge = { .length = 1000, .lkey = mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED };
		uint8_t here[1000];

		CHECK(halves_get(halves_sock, &at, sizeof(at)));
		vt_pattern(here, sizeof(here), i);
		sge.addr = (uintptr_t)here;
		wr.wr.rdma.remote_addr = at;
		wr.wr.rdma.rkey = odp_target.rkey;
		CHECK_OK(vt_post(&e, &wr));
		CHECK_EQ(vt_wc(e.scq).status, IBV_WC_SUCCESS);
		halves_meet('w');
	}
	CHECK_OK(ibv_dereg_mr(mr));
	odp_close_reach(&e);
}

/* ---- the other operations ------------------------------------------------------------------------ */

#define ADDS 300u

/* Two QPs add to one word in turn, many at a time: none is lost. */
static struct ibv_qp *second_qp(struct vt_end *e)
{
	struct ibv_qp *qp = vt_make_qp(e);
	struct vt_addr mine = e->self, theirs;

	mine.qpn = qp->qp_num;
	halves_exchange(&mine, &theirs);
	vt_connect_qp(qp, &e->par, &mine, &theirs);
	halves_meet('q');
	return qp;
}

static void atomics_server(void)
{
	uint8_t *p = odp_map(NULL, PAGE);
	struct ibv_qp *other;
	struct ibv_mr *mr;
	struct vt_end e;
	uint64_t v;

	mr = odp_serve(&e, p, PAGE, ODP);
	other = second_qp(&e);
	halves_meet('a');
	memcpy(&v, p + 64, sizeof(v));
	CHECK_EQ(v, 2 * ADDS + 1000);
	CHECK_OK(ibv_destroy_qp(other));
	odp_close_served(&e, mr);
}

static void post_add(struct vt_end *e, struct ibv_qp *qp, const struct ibv_mr *mr, uint64_t add)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, 8, mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
					.send_flags = IBV_SEND_SIGNALED };

	wr.wr.atomic.remote_addr = odp_target.addr + 64;
	wr.wr.atomic.rkey = odp_target.rkey;
	wr.wr.atomic.compare_add = add;
	CHECK_OK(ibv_post_send(qp, &wr, &bad));
}

static void atomics_client(void)
{
	struct ibv_qp *other;
	struct vt_end e;
	unsigned n = 0;

	odp_reach(&e);
	other = second_qp(&e);
	for (unsigned posted = 0; n < ADDS; n++) {
		for (; posted < ADDS && posted < n + 16; posted++) {
			post_add(&e, e.qp, e.mr, 1);
			post_add(&e, other, e.mr, 1);
		}
		CHECK_EQ(vt_wc(e.scq).status, IBV_WC_SUCCESS);
		CHECK_EQ(vt_wc(e.scq).status, IBV_WC_SUCCESS);
	}
	{
		struct ibv_sge sge = vt_sge(&e, 0, 8);
		struct ibv_send_wr wr = { .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
					  .send_flags = IBV_SEND_SIGNALED };
		uint64_t old;

		wr.wr.atomic.remote_addr = odp_target.addr + 64;
		wr.wr.atomic.rkey = odp_target.rkey;
		wr.wr.atomic.compare_add = 2 * ADDS;
		wr.wr.atomic.swap = 2 * ADDS + 1000;
		CHECK_OK(vt_post(&e, &wr));
		CHECK_EQ(vt_wc(e.scq).status, IBV_WC_SUCCESS);
		memcpy(&old, e.buf, sizeof(old));
		CHECK_EQ(old, 2 * ADDS);
	}
	halves_meet('a');
	CHECK_OK(ibv_destroy_qp(other));
	odp_close_reach(&e);
}

/* SEND to and from on-demand memory, through an SRQ, by RC and by UD; inline does not care. */
static void messages(bool client, enum ibv_qp_type type)
{
	struct vt_param par = VT_PARAM;
	size_t grh = type == IBV_QPT_UD ? VT_GRH : 0;
	struct vt_end e;

	par.type = type;
	par.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
	par.srq = true;
	par.inline_data = 64;
	halves_open(&e, &par);
	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned flags = IBV_SEND_SIGNALED | (i % 2 ? IBV_SEND_INLINE : 0);

		CHECK_OK(madvise(e.buf, e.len, MADV_DONTNEED));
		vt_recv(&e, i, 8192, 4096);
		halves_meet('r');
		if (client) {
			vt_pattern(e.buf, 60, i);
			vt_send(&e, 100, 0, 60, flags);
			WANT_OK(e.scq, 100);
		}
		CHECK_EQ(WANT_OK(e.rcq, i).byte_len, 60 + grh);
		CHECK_PATTERN(e.buf + 8192 + grh, 60, client ? 50 + i : i);
		if (!client) {
			vt_pattern(e.buf, 60, 50 + i);
			vt_send(&e, 100, 0, 60, flags);
			WANT_OK(e.scq, 100);
		}
	}
	halves_meet('e');
	vt_end_close(&e);
}

static void messages_server(void)
{
	messages(false, IBV_QPT_RC);
	messages(false, IBV_QPT_UC);
	messages(false, IBV_QPT_UD);
}

static void messages_client(void)
{
	messages(true, IBV_QPT_RC);
	messages(true, IBV_QPT_UC);
	messages(true, IBV_QPT_UD);
}

/* A window on on-demand memory, whose pages are other ones by the time it is used. */
static void windows_server(void)
{
	uint8_t *p = odp_map(NULL, 4 * PAGE);
	struct vt_param par = VT_PARAM;
	struct odp_target t = { .addr = (uintptr_t)p + PAGE };
	struct ibv_mw_bind bind = { .wr_id = 1, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct vt_end e;

	halves_open(&e, &par);
	mr = CHECK_PTR(
		ibv_reg_mr(e.pd, p, 4 * PAGE,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND));
	mw = CHECK_PTR(ibv_alloc_mw(e.pd, IBV_MW_TYPE_1));
	bind.bind_info =
		(struct ibv_mw_bind_info){ mr, t.addr, 2 * PAGE,
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
	CHECK_OK(ibv_bind_mw(e.qp, mw, &bind));
	WANT_OK(e.scq, 1);
	t.rkey = mw->rkey;
	odp_map(p, 4 * PAGE);
	halves_put(halves_sock, &t, sizeof(t));
	halves_meet('w');
	CHECK_PATTERN(p + PAGE, 2 * PAGE, 4);
	CHECK(vt_all(p, PAGE, 0) && vt_all(p + 3 * PAGE, PAGE, 0));
	CHECK_ERR(ibv_dereg_mr(mr), EBUSY);
	CHECK_OK(ibv_dealloc_mw(mw));
	odp_close_served(&e, mr);
}

static void windows_client(void)
{
	struct vt_end e;

	odp_reach(&e);
	odp_put(&e, 2 * PAGE, 0, 4);
	halves_meet('w');
	odp_close_reach(&e);
}

/* From ordinary to on-demand and back, in place. */
static void rereg_server(void)
{
	uint8_t *p = odp_map(NULL, AREA);
	struct ibv_mr *mr;
	struct vt_end e;
	uint32_t rkey;

	mr = odp_serve(&e, p, AREA, VT_ACCESS_ALL);
	for (unsigned i = 0; i < ROUNDS; i++) {
		halves_meet('r');
		CHECK_PATTERN(p, AREA, i);
		if (i % 2)
			CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					      VT_ACCESS_ALL),
				 0);
		else
			CHECK_EQ(ibv_rereg_mr(mr,
					      IBV_REREG_MR_CHANGE_ACCESS |
						      IBV_REREG_MR_CHANGE_TRANSLATION,
					      NULL, p, AREA, ODP),
				 0);
		CHECK_PATTERN(p, AREA, i);
		if (!(i % 2))
			odp_map(p, AREA);
		rkey = mr->rkey;
		halves_put(halves_sock, &rkey, sizeof(rkey));
	}
	odp_close_served(&e, mr);
}

static void rereg_client(void)
{
	struct vt_end e;

	odp_reach(&e);
	for (unsigned i = 0; i < ROUNDS; i++) {
		odp_put(&e, AREA, 0, i);
		halves_meet('r');
		CHECK(halves_get(halves_sock, &odp_target.rkey, sizeof(odp_target.rkey)));
	}
	odp_close_reach(&e);
}

HALVES_MAIN({ "remap", remap_client, remap_server }, { "gone", gone_client, gone_server },
	    { "gone-here", gone_here_client, gone_here_server },
	    { "fork", fork_client, fork_server }, { "pageout", pageout_client, pageout_server },
	    { "storm", storm_client, storm_server }, { "sparse", sparse_client, sparse_server },
	    { "implicit", implicit_client, implicit_server },
	    { "atomics", atomics_client, atomics_server },
	    { "messages", messages_client, messages_server },
	    { "windows", windows_client, windows_server }, { "rereg", rereg_client, rereg_server })
