/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/rig.c */
/* test_mr.c - MRs at the NIC: their pages in a row, their keys, and which have none. */
#include "tests/rig/unit/nic_rig.h"
#include "ffr/mem/shadow.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void one_run_is_registered_as_it_is(void **state)
{
	struct nic_rig *n = *state;

	assert_ptr_equal(fake_nic.mr.addr, n->buf);
	assert_int_equal(fake_nic.mr.length, NIC_RIG_BUF);
	assert_int_equal(fake_nic.mr.iova, n->mr->iova);
	assert_int_equal(fake_nic.mr.access, NIC_RIG_ACCESS);
	assert_ptr_equal(fake_nic.mr.pd, n->s->pd.nic);
	assert_int_equal(n->mr->lkey, ((struct nic_mr *)n->mr->backend)->ib->lkey);
	assert_int_equal(n->mr->rkey, n->mr->lkey);
	assert_ptr_equal(key_lookup(&n->r.cont[0].keys, n->mr->lkey), n->mr);
	assert_null(((struct nic_mr *)n->mr->backend)->window);
}

/* Of what the application asks for the NIC is told what it knows. */
static void other_rights_are_not_the_nics(void **state)
{
	struct nic_rig *n = *state;
	struct mr *mr =
		rig_mr(&n->r, n->s, n->buf, 64,
		       IBV_ACCESS_MW_BIND | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_LOCAL_WRITE);

	assert_int_equal(fake_nic.mr.access, IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_LOCAL_WRITE);
	rig_mr_free(&n->r, mr);
}

/* The NIC lets nobody do what the application does not allow. */
static void each_right_is_its_own(void **state)
{
	static const uint32_t rights[] = {
		0,
		IBV_ACCESS_LOCAL_WRITE,
		IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct nic_rig *n = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(rights); i++) {
		struct mr *mr = rig_mr(&n->r, n->s, n->buf, 64, rights[i]);

		assert_int_equal(fake_nic.mr.access, rights[i]);
		rig_mr_free(&n->r, mr);
	}
}

/* Pages that are apart are behind one another for the NIC, and the same memory. */
static void two_runs_are_one_window(void **state)
{
	struct nic_rig *n = *state;
	int fd = memfd_create("runs", 0);
	uint64_t len[2] = { FF_PAGE - 100, FF_PAGE + 50 }, va = 0x7000000064ull;
	uint8_t *map, *host[2], *seen;
	struct mr *mr;

	assert_true(fd >= 0 && !ftruncate(fd, 8 * FF_PAGE));
	map = mmap(NULL, 8 * FF_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	memset(map, 0, 8 * FF_PAGE);
	if (guard_init()) {
		print_message("no userfaultfd: MRs of several runs are not registered\n");
		skip();
	}
	host[0] = map + 5 * FF_PAGE + 100;
	host[1] = map + FF_PAGE;
	mr = rig_mr_runs(n->s, va, host, len, 2, NIC_RIG_ACCESS);
	assert_non_null(mr->backend);
	seen = fake_nic.mr.addr;
	assert_int_equal(fake_nic.mr.length, len[0] + len[1]);
	assert_int_equal(fake_nic.mr.iova, va);
	assert_int_equal((uintptr_t)seen % FF_PAGE, 100);
	for (unsigned i = 0; i < 2; i++)
		for (uint64_t k = 0; k < len[i]; k += 7)
			host[i][k] = (uint8_t)(k * 3 + i + 1);
	for (unsigned i = 0; i < 2; i++)
		for (uint64_t k = 0; k < len[i]; k += 7)
			assert_int_equal(seen[i * len[0] + k], (uint8_t)(k * 3 + i + 1));
	seen[0] = 0x5a;
	assert_int_equal(host[0][0], 0x5a);
	rig_mr_free(&n->r, mr);
	host[1][0] = 1; /* the router's own mapping is there yet */
	munmap(map, 8 * FF_PAGE);
	close(fd);
}

/* Runs that cannot be mapped in a row, since their offsets in the page differ, are not registered, and nothing stays. */
static void runs_that_do_not_fit(void **state)
{
	struct nic_rig *n = *state;
	uint64_t len[2] = { FF_PAGE, FF_PAGE };
	uint8_t *host[2] = { n->buf + 8, n->buf + 4 * FF_PAGE + 16 };
	struct mr *mr = rig_mr_runs(n->s, 0x7000000000ull, host, len, 2, NIC_RIG_ACCESS);

	assert_null(mr->backend);
	assert_int_not_equal(mr->lkey, 0);
	rig_mr_free(&n->r, mr);
}

static void what_is_not_wholly_mapped_is_not_the_nics(void **state)
{
	struct nic_rig *n = *state;
	unsigned calls = fake_nic.calls[FAKE_reg_mr_iova2];
	struct mr *mr = rig_mr_pvm(&n->r, n->s, n->buf, 4096, NIC_RIG_ACCESS);
	struct mr_run run = { .va = (uintptr_t)n->buf, .len = 4095, .host = n->buf };
	struct mr part = *mr;

	assert_null(mr->backend);
	assert_int_not_equal(mr->lkey, 0);
	part.run = &run;
	part.num_runs = 1;
	part.zero_copy = 4095;
	assert_int_equal(nic_mr_make(&part), 0);
	assert_null(part.backend);
	part.zero_copy = 4096;
	part.kind = MR_DMABUF;
	assert_int_equal(nic_mr_make(&part), 0);
	assert_null(part.backend);
	assert_int_equal(fake_nic.calls[FAKE_reg_mr_iova2], calls);
	rig_mr_free(&n->r, mr);
}

/* Its addresses begin with 0: the NIC has it if its memory begins a page, and if it is not so much that it takes long. */
static void device_memory(void **state)
{
	static const struct {
		uint64_t off, length;
		bool has;
	} parts[] = { { 0, 4096, true },    { 0, NIC_LONG - 1, true }, { 0, NIC_LONG, false },
		      { 65536, 100, true }, { 8, 100, false },	       { 0, 0, false } };
	struct nic_rig *n = *state;
	uint8_t *map =
		mmap(NULL, 2 * NIC_LONG, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	for (unsigned i = 0; i < ARRAY_SIZE(parts); i++) {
		struct mr_run run = { .len = parts[i].length, .host = map + parts[i].off };
		struct mr mr = { .o.ses = &n->s->s,
				 .pd = &n->s->pd,
				 .kind = MR_DM,
				 .access = NIC_RIG_ACCESS,
				 .length = parts[i].length,
				 .zero_copy = parts[i].length,
				 .run = &run,
				 .num_runs = parts[i].length != 0 };

		assert_int_equal(nic_mr_make(&mr), 0);
		assert_int_equal(mr.backend != NULL, parts[i].has);
		if (!parts[i].has)
			continue;
		assert_ptr_equal(fake_nic.mr.addr, run.host);
		assert_int_equal(fake_nic.mr.length, parts[i].length);
		assert_int_equal(fake_nic.mr.iova, 0);
		assert_int_equal(mr.rkey, mr.lkey);
		assert_int_not_equal(mr.lkey, 0);
		nic_mr_break(&mr);
	}
	munmap(map, 2 * NIC_LONG);
}

/* The MR is made all the same: for the software device. */
static void a_call_that_fails(void **state)
{
	static const enum fake_nic_call calls[] = { FAKE_alloc_pd, FAKE_reg_mr_iova2 };
	struct nic_rig *n = *state;

	for (unsigned i = 0; i < 2; i++) {
		struct rig_ses *s = rig_session(&n->r, 1);
		struct mr *mr;

		fake_nic_fail(calls[i], 1, ENOMEM);
		mr = rig_mr(&n->r, s, n->buf, 64, NIC_RIG_ACCESS);
		assert_null(mr->backend);
		assert_ptr_equal(key_lookup(&n->r.cont[1].keys, mr->lkey), mr);
		rig_mr_free(&n->r, mr);
		rig_session_free(&n->r, s);
	}
	fake_nic_fail(FAKE_dereg_mr, 1, EBUSY);
	rig_mr_free(&n->r, n->mr);
	n->mr = NULL;
}

/* A key that the container has already is not given twice; other containers may have it. */
static void a_key_that_is_taken(void **state)
{
	struct nic_rig *n = *state;
	struct rig_ses *other = rig_session(&n->r, 1);
	uint32_t taken = n->mr->lkey;
	struct mr *mr, *others;

	memset(fake_nic.key, 0, sizeof(fake_nic.key));
	fake_nic.key[0] = fake_nic.key[1] = taken;
	fake_nic.key[2] = 0x777700;
	fake_nic.key_at = 0;
	mr = rig_mr(&n->r, n->s, n->buf, 64, NIC_RIG_ACCESS);
	assert_int_equal(mr->lkey, 0x777700);
	assert_int_equal(fake_nic.mrs, 2);
	fake_nic.key_at = 1;
	others = rig_mr(&n->r, other, n->buf, 64, NIC_RIG_ACCESS);
	assert_int_equal(others->lkey, taken);
	rig_mr_free(&n->r, mr);
	rig_mr_free(&n->r, others);
	rig_session_free(&n->r, other);
}

/* A NIC that has no others: it is not asked for ever. */
static void keys_that_are_all_taken(void **state)
{
	struct nic_rig *n = *state;
	struct mr *mr;

	for (unsigned i = 0; i < 256; i++)
		fake_nic.key[i] = n->mr->lkey;
	fake_nic.key_at = 0;
	mr = rig_mr(&n->r, n->s, n->buf, 64, NIC_RIG_ACCESS);
	assert_null(mr->backend);
	assert_int_not_equal(mr->lkey, n->mr->lkey);
	assert_true(fake_nic.key_at < 256);
	assert_int_equal(fake_nic.mrs, 1);
	rig_mr_free(&n->r, mr);
}

int main(void)
{
	return UNIT_RUN(NIC_TEST(one_run_is_registered_as_it_is),
			NIC_TEST(other_rights_are_not_the_nics), NIC_TEST(each_right_is_its_own),
			NIC_TEST(two_runs_are_one_window), NIC_TEST(runs_that_do_not_fit),
			NIC_TEST(what_is_not_wholly_mapped_is_not_the_nics),
			NIC_TEST(device_memory), NIC_TEST(a_call_that_fails),
			NIC_TEST(a_key_that_is_taken), NIC_TEST(keys_that_are_all_taken));
}
