/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_mr_later.c - ffr/ctl/mr.c and conn.c with a NIC: large memory regions, of which the backend says that they take long,
 * and what becomes of the call, the connection and the session meanwhile; and re-registration.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ctl_calls.h"
#include "ffr/lib/timer.h"
#include "ffr/mem/stall.h"
#include "ffr/mem/watch.h"
#include "ffr/nic/nic.h"
#include "ffr/remote/remote.h"
#include "tests/rig/fakes/fake_nic.h"

#define MB     ((uint64_t)1 << 20)
#define VA     (1ull << 40)
#define LEN    (4 * MB)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct ctl_rig *const g = &call_rig;
static int sock;
static int file;
static uint32_t pd;

static struct session *ses(void)
{
	return LIST_FIRST(&g->c[0]->sessions);
}

/* LEN bytes of shadow pages, from the start of `file`. */
static void shadow_there(void)
{
	uint64_t off;

	file = call_shadow(g, sock, LEN, &off);
	assert_int_equal(off, 0);
}

static int setup(void **state)
{
	static const struct nic_conf nic = { .port = 1, .gid_index = -1, .no_worker = true };
	static const struct carrier_use list[] = { { &nic_carrier, &nic },
						   { &wire_carrier, NULL },
						   { 0 } };

	fake_nic_reset();
	ctl_rig_carriers = list;
	call_setup(state);
	sock = call_client(g, 0);
	pd = call_pd(g, sock);
	shadow_there();
	return 0;
}

static int teardown(void **state)
{
	int status;

	close(file);
	if (sock >= 0)
		close(sock);
	status = call_teardown(state);
	assert_true(fake_nic_is_clean());
	return status;
}

static void work(void)
{
	nic_carrier.work(g->backend.f, false);
}

/* REG_MR of len bytes at VA, all of which the router has. */
static void ask_reg(int s, uint64_t len)
{
	struct ff_reg_mr_req req = { VA, len, VA, pd, ACCESS };
	struct ff_mr_run run = { VA, len, 0, 0, FF_RUN_SHADOW };

	rig_ask(s, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1);
}

static int reg_answer(struct ff_reg_mr_resp *resp)
{
	return rig_answer(g, sock, FF_MSG_REG_MR, resp, sizeof(*resp));
}

/* A registration that has been answered. */
static uint32_t reg(uint64_t len)
{
	struct ff_reg_mr_resp resp;

	ask_reg(sock, len);
	rig_pump(g);
	work();
	assert_int_equal(reg_answer(&resp), 0);
	assert_int_equal(resp.zero_copy, len);
	return resp.mr;
}

static void a_small_one_at_once(void **state)
{
	struct ff_reg_mr_resp resp;

	(void)state;
	ask_reg(sock, MB - FF_PAGE);
	assert_int_equal(reg_answer(&resp), 0);
	assert_int_equal(resp.lkey, 0x200101); /* the NIC's */
	assert_int_equal(fake_nic.mrs, 1);
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, resp.mr), 0);
	assert_int_equal(fake_nic.mrs, 0);
}

/* A NIC would not reach what no file is mapped for: the client is told to ask again. */
static void a_debt_is_paid_first(void **state)
{
	struct ff_reg_mr_req reg_req = { VA, MB, VA, pd, ACCESS };
	struct ff_place_pages_req place = { .len = MB, .span = MB }, placed = { 0 };
	struct ff_place_pages_resp where;
	struct ff_rereg_mr_req again = { .mr = reg(MB), .addr = VA, .length = MB, .iova = VA };
	struct ff_rereg_mr_resp keys;
	struct ff_reg_mr_resp resp;
	struct ff_mr_run run = { VA, MB, 0, 0, FF_RUN_SHADOW };
	unsigned n = 1;
	int fd = -1;

	(void)state;
	stall_charge(g->c[0], 60000 * NS_PER_MS);
	assert_int_equal(rig_call(g, sock, FF_MSG_REG_MR, &reg_req, sizeof(reg_req), &run,
				  sizeof(run), 1, &resp, sizeof(resp), NULL, NULL),
			 -EINPROGRESS);
	assert_int_equal(rig_call(g, sock, FF_MSG_PLACE_PAGES, &place, sizeof(place), NULL, 0, 0,
				  &where, sizeof(where), &fd, &n),
			 -EINPROGRESS);
	again.flags = IBV_REREG_MR_CHANGE_TRANSLATION;
	assert_int_equal(RIG_CALL(g, sock, REREG_MR, &again, &keys), -EINPROGRESS);
	/* these need no file */
	again.flags = IBV_REREG_MR_CHANGE_PD;
	again.pd = pd;
	assert_int_equal(RIG_CALL(g, sock, REREG_MR, &again, &keys), 0);
	n = 0;
	assert_int_not_equal(rig_call(g, sock, FF_MSG_PLACE_PAGES, &placed, sizeof(placed), NULL, 0,
				      0, &where, sizeof(where), &fd, &n),
			     -EINPROGRESS);
	g->c[0]->stall = (struct cont_stall){ 0 };
	reg(MB);
	if (fd >= 0)
		close(fd);
}

/* Its connection is not read until it is answered; others are. */
static void others_are_served_meanwhile(void **state)
{
	struct ff_dereg_mr_req next = { .mr = 12345 };
	struct ff_reg_mr_resp resp;
	int other = call_client(g, 1), unread;

	(void)state;
	ask_reg(sock, LEN);
	call_pd(g, other);
	rig_ask(sock, FF_MSG_DEREG_MR, &next, sizeof(next), NULL, 0, 0);
	rig_pump(g);
	assert_non_null(TAILQ_FIRST(&g->ctl.conns)->later);
	assert_int_equal(recv(sock, &unread, sizeof(unread), MSG_DONTWAIT | MSG_PEEK), -1);
	work();
	rig_pump(g);
	assert_int_equal(recv(sock, &resp, sizeof(resp), MSG_DONTWAIT), sizeof(resp)); /* cut off */
	assert_int_equal(rig_answer(g, sock, FF_MSG_DEREG_MR, &(struct ff_dereg_mr_resp){ 0 },
				    sizeof(struct ff_dereg_mr_resp)),
			 -EINVAL);
	close(other);
}

static void answered_when_it_is_back(void **state)
{
	struct ff_reg_mr_resp resp;
	struct mr *mr;

	(void)state;
	ask_reg(sock, LEN);
	assert_int_equal(reg_answer(&resp), -EAGAIN);
	assert_int_equal(ses()->tab[OBJ_MR].used, 0);
	work();
	assert_int_equal(reg_answer(&resp), 0);
	mr = key_lookup(&g->c[0]->keys, resp.lkey);
	assert_non_null(mr);
	assert_non_null(mr->backend);
	assert_int_equal(mr->o.handle, resp.mr);
	assert_int_equal(fake_nic.mr.length, LEN);
	assert_int_equal(fake_nic.mr.iova, VA);
	/* the connection is read again */
	assert_int_equal(call_one(g, sock, FF_MSG_DEALLOC_PD, pd), -EBUSY);
}

static void what_the_nic_refuses(void **state)
{
	struct ff_reg_mr_resp resp;

	(void)state;
	fake_nic_fail(FAKE_reg_mr_iova2, 1, ENOMEM);
	ask_reg(sock, LEN);
	rig_pump(g);
	work();
	assert_int_equal(reg_answer(&resp), 0); /* it is the software device's */
	assert_null(((struct mr *)key_lookup(&g->c[0]->keys, resp.lkey))->backend);
	assert_int_equal(fake_nic.mrs, 0);
}

/* One whose key is taken is kept until another one is there. */
static void keys_that_are_taken(void **state)
{
	struct ff_reg_mr_resp first, resp;

	(void)state;
	ask_reg(sock, FF_PAGE);
	assert_int_equal(reg_answer(&first), 0);
	for (int i = 0; i < 3; i++)
		fake_nic.key[i] = first.lkey;
	fake_nic.key_at = 0;
	ask_reg(sock, LEN);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(reg_answer(&resp), -EAGAIN);
		work();
	}
	assert_int_equal(reg_answer(&resp), 0);
	assert_int_not_equal(resp.lkey, first.lkey);
	assert_int_equal(fake_nic.mrs, 2);
	for (int i = 0; i < 20; i++) /* all are */
		fake_nic.key[i] = first.lkey;
	fake_nic.key_at = 0;
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, first.mr), 0);
	assert_int_equal(fake_nic.mrs, 1);
}

static void deregistered_later(void **state)
{
	struct ff_dereg_mr_req req = { .mr = reg(LEN) };
	struct ff_dereg_mr_resp resp;
	uint32_t key = mr_handle_get(ses(), req.mr)->lkey;

	(void)state;
	rig_ask(sock, FF_MSG_DEREG_MR, &req, sizeof(req), NULL, 0, 0);
	assert_int_equal(rig_answer(g, sock, FF_MSG_DEREG_MR, &resp, sizeof(resp)), -EAGAIN);
	assert_null(key_lookup(&g->c[0]->keys, key)); /* nobody finds it, as it goes */
	work();
	assert_int_equal(rig_answer(g, sock, FF_MSG_DEREG_MR, &resp, sizeof(resp)), 0);
	assert_int_equal(ses()->tab[OBJ_MR].used, 0);
	assert_int_equal(call_one(g, sock, FF_MSG_DEALLOC_PD, pd), 0);
}

/* Another session, which has imported the device, may end the MR, but not one that its own session is ending. */
static void deregistered_by_two(void **state)
{
	struct ff_dereg_mr_req req = { .mr = reg(LEN) }, imported = { .mr = req.mr, .imported = 1 };
	struct session *s = ses();
	int other = call_client(g, 0);
	struct ff_import_device_resp device;
	struct ff_import_device_req token;
	struct ff_dereg_mr_resp resp;
	struct ff_hdr h;

	(void)state;
	memcpy(token.token, s->import.token, sizeof(token.token));
	assert_int_equal(RIG_CALL(g, other, IMPORT_DEVICE, &token, &device), 0);
	rig_ask(sock, FF_MSG_DEREG_MR, &req, sizeof(req), NULL, 0, 0);
	rig_pump(g);
	assert_int_equal(RIG_CALL(g, other, DEREG_MR, &imported, &resp), -EINVAL);
	work();
	rig_pump(g);
	assert_true(recv(sock, &h, sizeof(h), MSG_DONTWAIT) == sizeof(h)); /* cut off */
	assert_int_equal(h.status, 0);
	assert_int_equal(s->tab[OBJ_MR].used, 0);
	close(other);
}

/* The client goes while its MR is under way: its session ends when that is back. */
static void the_session_ends_meanwhile(void **state)
{
	struct ff_dereg_mr_req req;

	(void)state;
	ask_reg(sock, LEN);
	rig_pump(g);
	close(sock);
	rig_pump(g);
	assert_non_null(ses());
	rig_pump(g);
	work();
	rig_pump(g);
	assert_null(ses());
	work(); /* what it had at the NIC ends, too */
	assert_int_equal(fake_nic.mrs + fake_nic.pds, 0);
	assert_int_equal(g->c[0]->quota.use.used[QUOTA_SESSION], 0);
	close(file);
	/* the same with one that goes */
	sock = call_client(g, 0);
	pd = call_pd(g, sock);
	shadow_there();
	req.mr = reg(LEN);
	req.imported = 0;
	rig_ask(sock, FF_MSG_DEREG_MR, &req, sizeof(req), NULL, 0, 0);
	rig_pump(g);
	close(sock);
	sock = -1;
	rig_pump(g);
	assert_non_null(ses());
	work();
	rig_pump(g);
	assert_null(ses());
	work();
}

/* All connections are closed at once, as at the router's end: the NIC is waited for. */
static void closed_at_once(void **state)
{
	(void)state;
	ask_reg(sock, LEN);
	rig_pump(g);
	assert_non_null(TAILQ_FIRST(&g->ctl.conns)->later);
}

static void closed_by_the_router(void **state)
{
	(void)state;
	ask_reg(sock, LEN);
	rig_pump(g);
	ctl_session_bad(ses(), "the test says so");
	rig_pump(g);
	ctl_on_wake(&g->ctl.wake); /* once more changes nothing */
	assert_non_null(ses());
	work();
	rig_pump(g);
	assert_null(ses());
}

/* The NIC is removed while it registers: what it has got goes with it. */
static void the_nic_goes_meanwhile(void **state)
{
	struct fast *f = g->ctl.host->threads[0];
	struct ff_reg_mr_resp resp;

	(void)state;
	ask_reg(sock, LEN);
	rig_pump(g);
	fake_nic_event(IBV_EVENT_DEVICE_FATAL, NULL);
	fast_lock(f->host);
	CARRIERS_FIRST(ready, f, &f->host->nic[0].dev->ear[NIC_EAR_ASYNC], EPOLLIN);
	fast_unlock(f->host);
	work();
	assert_int_equal(reg_answer(&resp), 0);
	assert_null(((struct mr *)key_lookup(&g->c[0]->keys, resp.lkey))->backend);
	work();
	assert_int_equal(fake_nic.mrs + fake_nic.pds + fake_nic.contexts, 0);
}

/* ---- re-registration ---------------------------------------------------------------------------------- */

static void other_keys_with_other_rights(void **state)
{
	struct ff_rereg_mr_req req = { .flags = IBV_REREG_MR_CHANGE_ACCESS,
				       .access = IBV_ACCESS_REMOTE_READ };
	struct ff_rereg_mr_resp resp;
	struct ff_reg_mr_resp mr;

	(void)state;
	ask_reg(sock, 2 * FF_PAGE);
	assert_int_equal(reg_answer(&mr), 0);
	req.mr = mr.mr;
	assert_int_equal(RIG_CALL(g, sock, REREG_MR, &req, &resp), 0);
	assert_int_not_equal(resp.lkey, mr.lkey); /* the NIC has made a new one */
	assert_null(key_lookup(&g->c[0]->keys, mr.lkey));
	assert_int_equal(fake_nic.mr.access, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(fake_nic.mrs, 1);
	/* a NIC that refuses: the software device's alone, under a key of the router's */
	fake_nic_fail(FAKE_reg_mr_iova2, 1, ENOMEM);
	req.access = 0;
	assert_int_equal(RIG_CALL(g, sock, REREG_MR, &req, &resp), 0);
	assert_null(((struct mr *)key_lookup(&g->c[0]->keys, resp.lkey))->backend);
	assert_int_equal(fake_nic.mrs, 0);
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, mr.mr), 0);
}

static void another_translation(void **state)
{
	struct ff_rereg_mr_req req = { .flags = IBV_REREG_MR_CHANGE_TRANSLATION,
				       .addr = VA + FF_PAGE,
				       .iova = 0x5000,
				       .length = FF_PAGE };
	struct region *region;
	uint8_t *host;
	struct ff_mr_run run = { VA + FF_PAGE, FF_PAGE, FF_PAGE, 0, FF_RUN_SHADOW };
	struct ff_rereg_mr_resp resp;
	struct ff_reg_mr_resp mr;

	(void)state;
	ask_reg(sock, FF_PAGE);
	assert_int_equal(reg_answer(&mr), 0);
	req.mr = mr.mr;
	assert_int_equal(rig_call(g, sock, FF_MSG_REREG_MR, &req, sizeof(req), &run, sizeof(run), 1,
				  &resp, sizeof(resp), NULL, NULL),
			 0);
	assert_int_equal(fake_nic.mr.iova, 0x5000);
	assert_int_equal(fake_nic.mr.length, FF_PAGE);
	region = pages_get(ses(), FF_PAGE, FF_PAGE, &host);
	assert_non_null(region);
	pages_put(ses(), region);
	assert_ptr_equal(fake_nic.mr.addr, host);
	assert_int_equal(fake_nic.mrs, 1);
}

/* What a QP of the NIC is asked for is what its program has said. */
static void a_qp_is_queried(void **state)
{
	uint32_t cq = call_cq(g, sock);
	struct ff_query_qp_req req = { .qp = call_qp(g, sock, pd, cq) };
	struct ff_modify_qp_req mod = { .qp = req.qp };
	struct ff_modify_qp_resp modded;
	struct ff_query_qp_resp resp;

	(void)state;
	assert_int_equal(fake_nic.qps, 1);
	mod.attr = (struct ff_qp_attr){ .qp_state = IBV_QPS_INIT,
					.port_num = 1,
					.qp_access_flags = IBV_ACCESS_REMOTE_READ };
	mod.mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
	assert_int_equal(RIG_CALL(g, sock, MODIFY_QP, &mod, &modded), 0);
	assert_int_equal(RIG_CALL(g, sock, QUERY_QP, &req, &resp), 0);
	assert_int_equal(resp.attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(resp.attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(resp.attr.port_num, 1);
}

#define LATER_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	return UNIT_RUN(LATER_TEST(a_small_one_at_once), LATER_TEST(a_debt_is_paid_first),
			LATER_TEST(others_are_served_meanwhile),
			LATER_TEST(answered_when_it_is_back), LATER_TEST(what_the_nic_refuses),
			LATER_TEST(keys_that_are_taken), LATER_TEST(deregistered_later),
			LATER_TEST(deregistered_by_two), LATER_TEST(the_session_ends_meanwhile),
			LATER_TEST(closed_at_once), LATER_TEST(closed_by_the_router),
			LATER_TEST(the_nic_goes_meanwhile),
			LATER_TEST(other_keys_with_other_rights), LATER_TEST(another_translation),
			LATER_TEST(a_qp_is_queried));
}
