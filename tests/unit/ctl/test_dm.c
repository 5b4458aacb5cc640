/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_dm.c - ffr/ctl/dm.c, ffr/ctl/mw.c and requests that carry a descriptor: device memory,
 * null MRs, windows and dma-bufs, over real SEQPACKET sockets.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ctl_calls.h"
#include "ffr/fast/mw.h"

#define PAGE   FF_PAGE
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define MAX_DM (64u * PAGE)

static struct ctl_rig rig, *g = &rig;

static int setup(void **state)
{
	(void)state;
	rig_open(g);
	g->ctl.dev.max_dm_size = MAX_DM;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(g);
	return 0;
}

static int alloc_dm(int s, uint64_t length, uint32_t log_align, struct ff_alloc_dm_resp *resp)
{
	struct ff_alloc_dm_req req = { .length = length, .log_align = log_align };

	return RIG_CALL(g, s, ALLOC_DM, &req, resp);
}

static int reg_dm(int s, uint32_t pd, uint32_t dm, uint64_t off, uint64_t len, uint32_t access,
		  struct ff_reg_dm_mr_resp *resp)
{
	struct ff_reg_dm_mr_req req = {
		.offset = off, .length = len, .pd = pd, .dm = dm, .access = access
	};

	return RIG_CALL(g, s, REG_DM_MR, &req, resp);
}

/* Device memory that is mapped, before the rig has the client seal the segment. */
static uint8_t *alloc_mapped(int s, uint64_t len, uint32_t align, struct ff_alloc_dm_resp *a,
			     uint64_t *size)
{
	struct ff_get_seg_req req = { 0 };
	struct ff_get_seg_resp resp;
	uint8_t *map;
	unsigned n;
	int fd;

	g->unsealed = true;
	assert_int_equal(alloc_dm(s, len, align, a), 0);
	req.seg = a->seg;
	assert_int_equal(rig_call(g, s, FF_MSG_GET_SEG, &req, sizeof(req), NULL, 0, 0, &resp,
				  sizeof(resp), &fd, &n),
			 0);
	map = mmap(NULL, resp.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	close(fd);
	*size = resp.size;
	g->unsealed = false;
	return map;
}

static void device_memory(void **state)
{
	struct ff_alloc_dm_resp a, b;
	struct ff_reg_dm_mr_resp mr;
	struct mr *m;
	uint64_t size, *word;
	uint8_t *map;
	int s = call_client(g, 0), other;
	uint32_t pd = call_pd(g, s);

	(void)state;
	assert_int_equal(alloc_dm(s, 0, 0, &a), -EINVAL);
	assert_int_equal(alloc_dm(s, MAX_DM + 1, 0, &a), -EINVAL);
	assert_int_equal(alloc_dm(s, UINT64_MAX, 0, &a), -EINVAL);
	assert_int_equal(alloc_dm(s, 8, 13, &a), -EINVAL);
	map = alloc_mapped(s, PAGE + 904, 12, &a, &size);
	assert_int_equal(a.off % PAGE, 0);
	assert_int_equal(g->c[0]->dm_bytes, 2 * PAGE);
	assert_int_equal(alloc_dm(s, 8, 0, &b), 0);
	assert_true(b.seg != a.seg || b.off >= a.off + 2 * PAGE || b.off + PAGE <= a.off);

	/* the container's limit, whoever asks; another container has its own */
	assert_int_equal(alloc_dm(s, MAX_DM - 2 * PAGE, 0, &b), -ENOMEM);
	other = call_client(g, 0);
	assert_int_equal(alloc_dm(other, MAX_DM, 0, &b), -ENOMEM);
	assert_int_equal(alloc_dm(other, MAX_DM - 3 * PAGE, 0, &b), 0);
	close(other);
	rig_pump(g);
	assert_int_equal(g->c[0]->dm_bytes, 3 * PAGE);
	other = call_client(g, 1);
	assert_int_equal(alloc_dm(other, MAX_DM, 0, &b), 0);
	assert_int_equal(call_one(g, other, FF_MSG_FREE_DM, b.dm + 1), -EINVAL);
	assert_int_equal(call_one(g, other, FF_MSG_FREE_DM, b.dm), 0);
	assert_int_equal(g->c[1]->dm_bytes, 0);
	close(other);

	/* an MR's addresses begin with 0 and reach the client's own bytes */
	assert_int_equal(reg_dm(s, pd, a.dm, 8, 4992, ACCESS, &mr), 0);
	m = key_lookup(&g->c[0]->keys, mr.rkey);
	assert_int_equal(m->iova, 0);
	assert_int_equal(m->length, 4992);
	assert_int_equal(m->num_runs, 1);
	assert_int_equal(m->zero_copy, 4992);
	assert_int_equal(size, MAX_DM);
	word = (uint64_t *)(map + a.off + 8);
	*word = 0x1234;
	assert_int_equal(*(uint64_t *)m->run[0].host, 0x1234);
	assert_int_equal(call_one(g, s, FF_MSG_FREE_DM, a.dm), -EBUSY);
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_PD, pd), -EBUSY);

	assert_int_equal(reg_dm(s, pd, a.dm, 0, PAGE + 905, ACCESS, &mr), -EINVAL);
	assert_int_equal(reg_dm(s, pd, a.dm, PAGE + 905, 0, ACCESS, &mr), -EINVAL);
	assert_int_equal(reg_dm(s, pd, a.dm, UINT64_MAX, 2, ACCESS, &mr), -EINVAL);
	assert_int_equal(reg_dm(s, pd, a.dm, 2, UINT64_MAX, ACCESS, &mr), -EINVAL);
	assert_int_equal(reg_dm(s, pd, a.dm, 0, 8, IBV_ACCESS_REMOTE_WRITE, &mr), -EINVAL);
	assert_int_equal(reg_dm(s, pd, a.dm, 0, 8, ACCESS | IBV_ACCESS_MW_BIND, &mr), -EINVAL);
	assert_int_equal(reg_dm(s, pd + 1, a.dm, 0, 8, ACCESS, &mr), -EINVAL);
	assert_int_equal(reg_dm(s, pd, a.dm + 7, 0, 8, ACCESS, &mr), -EINVAL);
	munmap(map, size);
	/* the session takes what is left along */
	close(s);
	rig_pump(g);
	assert_int_equal(g->c[0]->dm_bytes, 0);
	assert_int_equal(g->c[0]->keys.used, 0);
}

/* Pages given back are zeroed before the next one has them. */
static void device_memory_is_clean(void **state)
{
	struct ff_alloc_dm_resp a;
	int s = call_client(g, 0);
	uint64_t size;
	uint8_t *map = NULL;

	(void)state;
	for (int i = 0; i < 5; i++) {
		if (map)
			assert_int_equal(alloc_dm(s, MAX_DM, 0, &a), 0);
		else
			map = alloc_mapped(s, MAX_DM, 0, &a, &size);
		for (uint32_t k = 0; k < MAX_DM; k++)
			assert_int_equal(map[a.off + k], 0);
		memset(map + a.off, 0x77, MAX_DM);
		assert_int_equal(call_one(g, s, FF_MSG_FREE_DM, a.dm), 0);
	}
	munmap(map, size);
	close(s);
}

static void null_mr(void **state)
{
	int s = call_client(g, 0);
	uint32_t pd = call_pd(g, s);
	struct ff_alloc_null_mr_req req = { .pd = pd };
	struct ff_alloc_null_mr_resp resp;
	struct ff_rereg_mr_req re = { .flags = IBV_REREG_MR_CHANGE_ACCESS };
	struct ff_rereg_mr_resp re_resp;
	struct ff_advise_mr_req adv = { .length = 8, .pd = pd };
	struct ff_advise_mr_resp adv_resp;
	struct mr *m;

	(void)state;
	assert_int_equal(RIG_CALL(g, s, ALLOC_NULL_MR, &req, &resp), 0);
	m = key_lookup(&g->c[0]->keys, resp.lkey);
	assert_int_equal(m->kind, MR_NULL);
	assert_int_equal(m->access, IBV_ACCESS_LOCAL_WRITE);
	re.mr = resp.mr;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &re, &re_resp), -EINVAL);
	adv.lkey = resp.lkey;
	assert_int_equal(RIG_CALL(g, s, ADVISE_MR, &adv, &adv_resp), -EINVAL);
	req.pd = pd + 1;
	assert_int_equal(RIG_CALL(g, s, ALLOC_NULL_MR, &req, &resp), -EINVAL);
	close(s);
}

static void advice(void **state)
{
	static uint8_t buf[8 * UNIT_PAGE_MAX];
	int s = call_client(g, 0), other = call_client(g, 0);
	uint32_t pd = call_pd(g, s), alien = call_pd(g, other);
	struct ff_advise_mr_req req = { .addr = (uintptr_t)buf + 5, .length = 100, .pd = pd }, bad;
	struct ff_advise_mr_resp resp;
	struct ff_reg_mr_resp mr;

	(void)state;
	assert_int_equal(call_reg_mr(g, s, pd, buf, sizeof(buf), 0, &mr), 0);
	req.lkey = mr.lkey;
	for (uint32_t a = 0; a < 3; a++) {
		req.advice = a;
		assert_int_equal(RIG_CALL(g, s, ADVISE_MR, &req, &resp),
				 a == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE ? -EPERM : 0);
		if (a != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE)
			assert_int_equal(resp.va, (uintptr_t)buf + 5);
	}
	req.advice = 0;
#define BAD(change, err)                                                                           \
	do {                                                                                       \
		bad = req;                                                                         \
		change;                                                                            \
		assert_int_equal(RIG_CALL(g, s, ADVISE_MR, &bad, &resp), err);                     \
	} while (0)
	BAD(bad.advice = 3, -EOPNOTSUPP);
	BAD(bad.flags = 2, -EINVAL);
	BAD(bad.pd = 0, -EINVAL);
	BAD(bad.lkey = 0, -ENOENT);
	BAD(bad.lkey++, -ENOENT);
	BAD(bad.addr--, 0);
	BAD(bad.addr -= 6, -EFAULT);
	BAD(bad.length = sizeof(buf), -EFAULT);
	BAD(bad.length = UINT32_MAX, -EFAULT);
	BAD(bad.pd = call_pd(g, s), -EPERM);
#undef BAD
	/* another session's MR, though the container's keys are one table */
	req.pd = alien;
	assert_int_equal(RIG_CALL(g, other, ADVISE_MR, &req, &resp), -ENOENT);
	close(s);
	close(other);
}

static void windows(void **state)
{
	int s = call_client(g, 0), other = call_client(g, 0);
	uint32_t pd = call_pd(g, s);
	struct ff_alloc_mw_req req = { .pd = pd, .type = IBV_MW_TYPE_2 };
	struct ff_alloc_mw_resp mw;

	(void)state;
	assert_int_equal(RIG_CALL(g, s, ALLOC_MW, &req, &mw), 0);
	assert_non_null(mw_lookup(&g->c[0]->windows, mw.rkey));
	assert_null(key_lookup(&g->c[0]->keys, mw.rkey));
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_PD, pd), -EBUSY);
	/* handles are of the session */
	assert_int_equal(call_one(g, other, FF_MSG_DEALLOC_MW, mw.mw), -EINVAL);
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_MW, mw.mw), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_MW, mw.mw), -EINVAL);
	assert_null(mw_lookup(&g->c[0]->windows, mw.rkey));
	static const uint32_t bad[] = { 0, 3, UINT32_MAX };
	for (unsigned i = 0; i < 3; i++) {
		req.type = bad[i];
		assert_int_equal(RIG_CALL(g, s, ALLOC_MW, &req, &mw), -EINVAL);
	}
	req.type = IBV_MW_TYPE_1;
	req.pd = pd + 1;
	assert_int_equal(RIG_CALL(g, s, ALLOC_MW, &req, &mw), -EINVAL);
	/* a limit, and the session takes them along */
	req.pd = pd;
	g->ctl.conf.limits.max_mw = 5;
	close(other);
	rig_pump(g);
	for (int i = 0; i < 20; i++)
		assert_int_equal(RIG_CALL(g, s, ALLOC_MW, &req, &mw), 0);
	close(s);
	rig_pump(g);
	assert_int_equal(g->c[0]->windows.used, 0);
	s = call_client(g, 0);
	req.pd = call_pd(g, s);
	for (int i = 0; i < 6; i++)
		assert_int_equal(RIG_CALL(g, s, ALLOC_MW, &req, &mw), i < 5 ? 0 : -ENOMEM);
	close(s);
}

/* An MR under a bound window neither goes nor changes. */
static void bound_mr_is_busy(void **state)
{
	static uint8_t buf[UNIT_PAGE_MAX];
	int s = call_client(g, 0);
	uint32_t pd = call_pd(g, s);
	struct ff_reg_mr_resp mr;
	struct ff_rereg_mr_req re = { .flags = IBV_REREG_MR_CHANGE_ACCESS, .access = 0 };
	struct ff_rereg_mr_resp re_resp;
	struct mr *m;

	(void)state;
	assert_int_equal(call_reg_mr(g, s, pd, buf, sizeof(buf),
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, &mr),
			 0);
	m = key_lookup(&g->c[0]->keys, mr.rkey);
	m->o.refs++; /* as mw_bind() does */
	assert_int_equal(call_one(g, s, FF_MSG_DEREG_MR, mr.mr), -EBUSY);
	re.mr = mr.mr;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &re, &re_resp), -EBUSY);
	assert_ptr_equal(key_lookup(&g->c[0]->keys, mr.rkey), m);
	m->o.refs--;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &re, &re_resp), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DEREG_MR, mr.mr), 0);
	close(s);
}

/* ---- requests with descriptors -------------------------------------------------------------- */

struct dmabuf_msg {
	struct ff_hdr h;
	struct ff_reg_dmabuf_mr_req body;
};

/* The status that REG_DMABUF_MR with that descriptor gets, or RIG_CLOSED. */
static int send_dmabuf(int s, struct dmabuf_msg *m, int fd, unsigned n_fds)
{
	struct {
		struct ff_hdr h;
		struct ff_reg_dmabuf_mr_resp body;
	} resp;

	rig_send(s, m, sizeof(*m), fd, n_fds);
	rig_pump(g);
	if (recv(s, &resp, sizeof(resp), MSG_DONTWAIT) != sizeof(resp))
		return RIG_CLOSED;
	return resp.h.status;
}

static void descriptors_of_requests(void **state)
{
	int s = call_client(g, 0), fd, pipes[2];
	uint32_t pd = call_pd(g, s);
	struct dmabuf_msg m = {
		{ .magic = FF_PROTO_MAGIC, .type = FF_MSG_REG_DMABUF_MR, .n_fds = 1 },
		{ .length = PAGE, .pd = pd, .access = ACCESS },
	};
	unsigned before;
	uint8_t byte;

	(void)state;
	/* what is no dma-buf is refused, and no copy of it is left */
	before = rig_open_fds();
	fd = memfd_create("x", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(send_dmabuf(s, &m, fd, 1), -EINVAL);
	close(fd);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(send_dmabuf(s, &m, fd, 1), -EINVAL);
	close(fd);
	fd = open("/", O_PATH | O_CLOEXEC);
	assert_int_equal(send_dmabuf(s, &m, fd, 1), -EINVAL);
	close(fd);
	m.body.pd++;
	fd = open("/proc/self/fdinfo/0", O_RDONLY | O_CLOEXEC);
	assert_int_equal(send_dmabuf(s, &m, fd, 1), -EINVAL);
	close(fd);
	m.body.pd--;
	rig_fds(g, before);
	assert_int_equal(g->c[0]->keys.used, 0);

	/* the wrong number, or another one than the header says, ends the session */
	static const struct {
		uint16_t said;
		unsigned sent;
	} wrong[] = { { 1, 0 }, { 0, 1 }, { 1, 2 }, { 2, 2 }, { 1, 3 }, { 1, 253 }, { 0, 0 } };
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int victim = call_client(g, 0);

		assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
		m.h.n_fds = wrong[i].said;
		assert_int_equal(send_dmabuf(victim, &m, pipes[1], wrong[i].sent), RIG_CLOSED);
		assert_true(rig_is_closed(g, victim));
		close(pipes[1]);
		assert_int_equal(read(pipes[0], &byte, 1), 0); /* every copy was closed */
		close(pipes[0]);
		close(victim);
	}
	/* a request that fails before its handler, with the right number of them */
	m.h.n_fds = 1;
	m.h.n_tail = 1;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(send_dmabuf(s, &m, pipes[1], 1), RIG_CLOSED);
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &byte, 1), 0);
	close(pipes[0]);
	close(s);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

	return UNIT_RUN(T(device_memory), T(device_memory_is_clean), T(null_mr), T(advice),
			T(windows), T(bound_mr_is_busy), T(descriptors_of_requests));
}
