/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_look.c - ffr/ctl/look.c: REG_MR and REREG_MR of shared mappings, while the keeper takes its time. The keeper is this test:
 * it answers when the test says so, with the file of a memfd.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ctl_calls.h"
#include "ffr/keeper/keeper.h"
#include "ffr/lib/fds.h"
#include "ffr/mem/shadow.h"

static struct {
	int sock; /* the keeper's end; -1: nobody asks */
	uint32_t n;
	struct keeper_range range[KEEPER_RANGES];
	bool writes;
	int err;
} asked;

static int slow_look(uint32_t id, const struct keeper_range *range, uint32_t n, bool writes)
{
	int pair[2];

	(void)id;
	if (asked.err)
		return asked.err;
	assert_int_equal(asked.sock, -1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	asked.sock = pair[1];
	asked.n = n;
	memcpy(asked.range, range, n * sizeof(*range));
	asked.writes = writes;
	return pair[0];
}

#define keeper_look slow_look
#include "ffr/ctl/look.c"
#undef keeper_look

#define VA     (1ull << 40)
#define LEN    (4ull * FF_PAGE)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct ctl_rig *const g = &call_rig;
static int sock, file;
static uint32_t pd;

static struct session *ses(void)
{
	return LIST_FIRST(&g->c[0]->sessions);
}

static int setup(void **state)
{
	call_setup(state);
	asked.sock = -1;
	asked.err = 0;
	sock = call_client(g, 0);
	pd = call_pd(g, sock);
	if (ses()->mem.maps_fd < 0) {
		print_message("no PROCMAP_QUERY here\n");
		skip();
	}
	file = memfd_create("app", 0);
	assert_int_equal(fallocate(file, 0, 0, LEN), 0);
	return 0;
}

static int teardown(void **state)
{
	if (sock >= 0)
		close(sock);
	close(file);
	return call_teardown(state);
}

/* The keeper's answer: the file from `start` on, if there is one to be found, and the end. */
static void answer(uint64_t start, uint64_t end)
{
	struct keeper_found found = {
		.start = start,
		.end = end,
		.vma = { .start = start,
			 .end = end,
			 .inode = 7,
			 .flags = FF_VMA_READ | FF_VMA_WRITE | FF_VMA_SHARED,
			 .page_size = FF_PAGE },
	};

	assert_true(asked.sock >= 0);
	if (start < end)
		assert_int_equal(fds_send(asked.sock, &found, sizeof(found), &file, 1, 0),
				 sizeof(found));
	close(asked.sock);
	asked.sock = -1;
}

static void ask_reg(uint32_t access)
{
	struct ff_reg_mr_req req = { VA, LEN, VA, pd, access };
	struct ff_mr_run run = { VA, LEN, 0, 0, FF_RUN_SHARED };

	rig_ask(sock, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1);
}

static int reg_answer(struct ff_reg_mr_resp *resp)
{
	return rig_answer(g, sock, FF_MSG_REG_MR, resp, sizeof(*resp));
}

static void only_who_asks_waits(void **state)
{
	struct {
		struct ff_hdr h;
		struct ff_reg_mr_resp resp;
	} m;
	struct ff_reg_mr_resp resp;
	int other = call_client(g, 1);

	(void)state;
	ask_reg(ACCESS);
	assert_int_equal(reg_answer(&resp), -EAGAIN);
	assert_int_equal(asked.n, 1);
	assert_int_equal(asked.range[0].start, VA);
	assert_int_equal(asked.range[0].end, VA + LEN);
	assert_true(asked.writes);
	call_pd(g, other);
	assert_int_equal(recv(sock, &m, sizeof(m), MSG_DONTWAIT), -1);
	answer(VA, VA + LEN);
	rig_pump(g);
	assert_int_equal(recv(sock, &m, sizeof(m), MSG_DONTWAIT), sizeof(m));
	assert_int_equal(m.h.type, FF_MSG_REG_MR);
	assert_int_equal(m.h.status, 0);
	assert_int_equal(m.resp.zero_copy, LEN);
	assert_int_equal(ses()->mem.num_foreign, 1);
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, m.resp.mr), 0);
	assert_int_equal(ses()->mem.num_foreign, 0);
	close(other);
}

static void what_is_not_found_is_copied(void **state)
{
	struct ff_reg_mr_resp resp;

	(void)state;
	ask_reg(IBV_ACCESS_REMOTE_READ);
	assert_int_equal(reg_answer(&resp), -EAGAIN);
	assert_false(asked.writes);
	answer(0, 0);
	assert_int_equal(reg_answer(&resp), 0);
	assert_int_equal(resp.zero_copy, 0);
	/* what nobody has asked for is not taken */
	ask_reg(ACCESS);
	assert_int_equal(reg_answer(&resp), -EAGAIN);
	answer(VA + LEN - FF_PAGE, VA + LEN + FF_PAGE);
	assert_int_equal(reg_answer(&resp), 0);
	assert_int_equal(resp.zero_copy, 0);
	/* there is no keeper to ask: at once */
	asked.err = -EAGAIN;
	ask_reg(ACCESS);
	assert_int_equal(reg_answer(&resp), 0);
	assert_int_equal(resp.zero_copy, 0);
}

/* A call that is refused is refused at once. The keeper is not asked. */
static void bad_calls_ask_nobody(void **state)
{
	struct ff_reg_mr_resp resp;

	(void)state;
	ask_reg(IBV_ACCESS_REMOTE_WRITE); /* without the local one */
	assert_int_equal(reg_answer(&resp), -EINVAL);
	assert_int_equal(asked.sock, -1);
}

static void a_session_that_ends_does_not_wait(void **state)
{
	struct ff_reg_mr_resp resp;

	(void)state;
	ask_reg(ACCESS);
	assert_int_equal(reg_answer(&resp), -EAGAIN);
	close(sock);
	sock = -1;
	rig_pump(g);
	assert_null(ses());
	assert_int_equal(g->c[0]->quota.use.used[QUOTA_SESSION], 0);
	assert_true(fds_send(asked.sock, "x", 1, &file, 1, MSG_NOSIGNAL) < 0); /* nobody is there */
	close(asked.sock);
	rig_pump(g);
}

static void rereg_waits_as_well(void **state)
{
	struct ff_rereg_mr_req req = { .flags = IBV_REREG_MR_CHANGE_TRANSLATION,
				       .addr = VA + LEN,
				       .length = LEN,
				       .iova = VA + LEN };
	struct ff_mr_run run = { VA + LEN, LEN, 0, 0, FF_RUN_SHARED };
	struct ff_rereg_mr_resp again;
	struct ff_reg_mr_resp resp;

	(void)state;
	ask_reg(ACCESS);
	assert_int_equal(reg_answer(&resp), -EAGAIN);
	answer(VA, VA + LEN);
	assert_int_equal(reg_answer(&resp), 0);
	req.mr = resp.mr;
	rig_ask(sock, FF_MSG_REREG_MR, &req, sizeof(req), &run, sizeof(run), 1);
	assert_int_equal(rig_answer(g, sock, FF_MSG_REREG_MR, &again, sizeof(again)), -EAGAIN);
	assert_true(asked.writes); /* by the access that stays */
	answer(VA + LEN, VA + 2 * LEN);
	assert_int_equal(rig_answer(g, sock, FF_MSG_REREG_MR, &again, sizeof(again)), 0);
	assert_int_equal(again.zero_copy, LEN);
	assert_int_equal(mr_handle_get(ses(), resp.mr)->addr, VA + LEN);
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, resp.mr), 0);
	assert_int_equal(ses()->mem.num_foreign, 0);
}

/* The file was mapped for reading: what is to be written from now on is copied to the application's own mapping. */
static void more_rights_do_not_reach_the_file(void **state)
{
	struct ff_rereg_mr_req req = { .flags = IBV_REREG_MR_CHANGE_ACCESS, .access = ACCESS };
	struct ff_rereg_mr_resp again;
	struct ff_reg_mr_resp resp;

	(void)state;
	ask_reg(IBV_ACCESS_REMOTE_READ);
	assert_int_equal(reg_answer(&resp), -EAGAIN);
	answer(VA, VA + LEN);
	assert_int_equal(reg_answer(&resp), 0);
	assert_int_equal(resp.zero_copy, LEN);
	req.mr = resp.mr;
	assert_int_equal(RIG_CALL(g, sock, REREG_MR, &req, &again), 0);
	assert_int_equal(again.zero_copy, 0);
	assert_int_equal(mr_handle_get(ses(), resp.mr)->num_runs, 0);
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, resp.mr), 0);
	assert_int_equal(ses()->mem.num_foreign, 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

	return UNIT_RUN(T(only_who_asks_waits), T(what_is_not_found_is_copied),
			T(bad_calls_ask_nobody), T(a_session_that_ends_does_not_wait),
			T(rereg_waits_as_well), T(more_rights_do_not_reach_the_file));
}
