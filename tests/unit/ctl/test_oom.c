/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_oom.c - the control thread without memory. Each call is made again and again, in a session of
 * its own: the first time its first allocation fails, then its second, until it needs no more. It
 * may succeed without, or say ENOMEM; the connection stays, nothing leaks (unit-san), and no
 * descriptor is left. libuv's and libc's own allocations do not fail here.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/cm_rig.c tests/rig/unit/ctl_rig.c ffo/base/proto.c -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=strdup
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/cm_rig.h"
#include "tests/rig/unit/ctl_calls.h"

#define MAX_ALLOCATIONS 100
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* ---- allocations that fail -------------------------------------------------------------------- */

static unsigned fail_at; /* 0: none fails */
static unsigned allocations;
static bool failed;

static bool fails(void)
{
	if (!fail_at || ++allocations != fail_at)
		return false;
	failed = true;
	errno = ENOMEM;
	return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	return fails() ? NULL : __real_strdup(s);
}

/* ---- calls ------------------------------------------------------------------------------------ */

static struct ctl_rig *const g = &call_rig;

/* What the call needs, made before. */
static struct cm_client client;
static int sock;
static uint32_t pd, cq, qp, id, dm;
static uint8_t *shared; /* a shared mapping of this process */
#define SHARED_LEN (4ul * FF_PAGE)

static void with_pd(void)
{
	pd = call_pd(g, sock);
}

static void with_cq(void)
{
	with_pd();
	cq = call_cq(g, sock);
}

static void with_ud_qp(void)
{
	struct ff_create_qp_req req;
	struct ff_create_qp_resp resp;

	with_cq();
	req = call_qp_req(pd, cq, IBV_QPT_UD);
	assert_int_equal(RIG_CALL(g, sock, CREATE_QP, &req, &resp), 0);
	qp = resp.qp;
}

static int do_pd(void)
{
	struct ff_alloc_pd_req req = { 0 };
	struct ff_alloc_pd_resp resp;

	return RIG_CALL(g, sock, ALLOC_PD, &req, &resp);
}

static int do_channel(void)
{
	struct ff_create_channel_req req = { 0 };
	struct ff_create_channel_resp resp;

	return RIG_CALL(g, sock, CREATE_CHANNEL, &req, &resp);
}

static int do_cq(void)
{
	struct ff_create_cq_resp resp;

	return call_create_cq(g, sock, 1000, 0, &resp);
}

static int do_resize(void)
{
	struct ff_resize_cq_req req = { .cq = cq, .cqe = 60000 };
	struct ff_resize_cq_resp resp;
	int st = RIG_CALL(g, sock, RESIZE_CQ, &req, &resp);

	if (st == -EAGAIN) /* in a segment that was not sealed yet */
		st = RIG_CALL(g, sock, RESIZE_CQ, &req, &resp);
	return st;
}

static int do_srq(void)
{
	struct ff_create_srq_req req = { .pd = pd, .max_wr = 100, .max_sge = 2 };
	struct ff_create_srq_resp resp;

	return RIG_CALL(g, sock, CREATE_SRQ, &req, &resp);
}

static int create_qp(uint32_t type)
{
	struct ff_create_qp_req req = call_qp_req(pd, cq, type);
	struct ff_create_qp_resp resp;

	return RIG_CALL(g, sock, CREATE_QP, &req, &resp);
}

static int do_rc_qp(void)
{
	return create_qp(IBV_QPT_RC);
}

static int do_ud_qp(void)
{
	return create_qp(IBV_QPT_UD);
}

static int do_ah(void)
{
	struct ff_create_ah_req req = { .pd = pd, .attr = { .dlid = 2, .port_num = 1 } };
	struct ff_create_ah_resp resp;

	return RIG_CALL(g, sock, CREATE_AH, &req, &resp);
}

static int do_mr(void)
{
	struct ff_reg_mr_resp resp;

	return call_reg_mr(g, sock, pd, shared, SHARED_LEN, IBV_ACCESS_LOCAL_WRITE, &resp);
}

static int do_shared_mr(void)
{
	struct ff_reg_mr_req req = { (uintptr_t)shared, SHARED_LEN, (uintptr_t)shared, pd,
				     IBV_ACCESS_LOCAL_WRITE };
	struct ff_mr_run run = { .va = (uintptr_t)shared,
				 .len = SHARED_LEN,
				 .kind = FF_RUN_SHARED };
	struct ff_reg_mr_resp resp;
	int st;

	rig_ask(sock, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1);
	do /* the keeper's thread looks for the file */
		st = rig_answer(g, sock, FF_MSG_REG_MR, &resp, sizeof(resp));
	while (st == -EAGAIN);
	return st;
}

static int do_null_mr(void)
{
	struct ff_alloc_null_mr_req req = { pd };
	struct ff_alloc_null_mr_resp resp;

	return RIG_CALL(g, sock, ALLOC_NULL_MR, &req, &resp);
}

static int do_shadow(void)
{
	uint64_t off;

	return call_place_pages(g, sock, 1 << 20, &off);
}

/* A session may watch once: the next try is another session's. */
static int do_watch_pages(void)
{
	int file, st = call_try_watch_pages(g, sock, &file);

	if (file >= 0)
		close(file);
	return st;
}

static void with_pages(void)
{
	assert_int_equal(do_watch_pages(), 0);
}

static int do_mw(void)
{
	struct ff_alloc_mw_req req = { pd, IBV_MW_TYPE_1 };
	struct ff_alloc_mw_resp resp;

	return RIG_CALL(g, sock, ALLOC_MW, &req, &resp);
}

static int do_dm(void)
{
	struct ff_alloc_dm_req req = { .length = 100 };
	struct ff_alloc_dm_resp resp = { 0 };
	int st = RIG_CALL(g, sock, ALLOC_DM, &req, &resp);

	dm = resp.dm;
	return st;
}

static void with_dm(void)
{
	with_pd();
	assert_int_equal(do_dm(), 0);
}

static int do_dm_mr(void)
{
	struct ff_reg_dm_mr_req req = { .length = 100,
					.pd = pd,
					.dm = dm,
					.access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE };
	struct ff_reg_dm_mr_resp resp;

	return RIG_CALL(g, sock, REG_DM_MR, &req, &resp);
}

static int do_xrcd(void)
{
	struct ff_open_xrcd_req req = { 0 };
	struct ff_open_xrcd_resp resp;

	req.flags = FF_XRCD_CREATE;
	return RIG_CALL(g, sock, OPEN_XRCD, &req, &resp);
}

static int do_mcast(void)
{
	struct ff_attach_mcast_req req = { .qp = qp,
					   .lid = 0xc001,
					   .gid = { 0xff, 0x12, 1, 2, 3 } };
	struct ff_attach_mcast_resp resp;

	return RIG_CALL(g, sock, ATTACH_MCAST, &req, &resp);
}

static int do_cm_id(void)
{
	struct ff_cm_create_id_req req = { .uid = 1, .channel = client.channel, .ps = RDMA_PS_TCP };
	struct ff_cm_create_id_resp resp = { 0 };
	int st = RIG_CALL(g, sock, CM_CREATE_ID, &req, &resp);

	id = resp.id;
	return st;
}

static void with_cm_id(void)
{
	assert_int_equal(do_cm_id(), 0);
}

static int do_cm_bind(void)
{
	return cm_do_bind(&client, id, cm_sa("0.0.0.1", 7000), NULL);
}

static void with_bound_id(void)
{
	with_cm_id();
	assert_int_equal(do_cm_bind(), 0);
}

static int do_cm_listen(void)
{
	return cm_do_listen(&client, id, 5);
}

static struct cm_client listener;

/* A route to somebody who listens in the other container. */
static void with_route(void)
{
	uint32_t l;

	listener = cm_open(g, 1);
	l = cm_new(&listener, RDMA_PS_TCP);
	assert_int_equal(cm_do_bind(&listener, l, cm_sa("0.0.0.2", 7001), NULL), 0);
	assert_int_equal(cm_do_listen(&listener, l, 5), 0);
	with_cm_id();
	assert_int_equal(cm_do_resolve(&client, id, cm_sa("", 0), cm_sa("0.0.0.2", 7001), 1000), 0);
	assert_int_equal(cm_do_route(&client, id), 0);
}

static int do_cm_connect(void)
{
	return cm_do_connect(&client, id, "hello", 5);
}

static void listener_close(void)
{
	cm_close(&listener);
}

/* ---- one after the other ---------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*before)(void);
	int (*call)(void);
	void (*after)(void);
} cases[] = {
	{ "pd", NULL, do_pd, NULL },
	{ "channel", NULL, do_channel, NULL },
	{ "cq", NULL, do_cq, NULL },
	{ "resize_cq", with_cq, do_resize, NULL },
	{ "srq", with_pd, do_srq, NULL },
	{ "rc_qp", with_cq, do_rc_qp, NULL },
	{ "ud_qp", with_cq, do_ud_qp, NULL },
	{ "ah", with_pd, do_ah, NULL },
	{ "mr", with_pd, do_mr, NULL },
	{ "shared_mr", with_pd, do_shared_mr, NULL },
	{ "null_mr", with_pd, do_null_mr, NULL },
	{ "watch_pages", NULL, do_watch_pages, NULL },
	{ "shadow", with_pages, do_shadow, NULL },
	{ "mw", with_pd, do_mw, NULL },
	{ "dm", NULL, do_dm, NULL },
	{ "dm_mr", with_dm, do_dm_mr, NULL },
	{ "xrcd", NULL, do_xrcd, NULL },
	{ "mcast", with_ud_qp, do_mcast, NULL },
	{ "cm_id", NULL, do_cm_id, NULL },
	{ "cm_bind", with_cm_id, do_cm_bind, NULL },
	{ "cm_listen", with_bound_id, do_cm_listen, NULL },
	{ "cm_connect", with_route, do_cm_connect, listener_close },
};

/* The call, with its n-th allocation failing. Did it come to that? */
static bool attempt(size_t i, unsigned n)
{
	int st;

	client = cm_open(g, 0);
	sock = client.sock;
	if (cases[i].before)
		cases[i].before();
	allocations = 0;
	failed = false;
	fail_at = n;
	st = cases[i].call();
	fail_at = 0;
	if (st && (!failed || st != -ENOMEM))
		fail_msg("%s without its allocation number %u: %d", cases[i].name, n, st);
	/* the session is as it was: the same call has memory now */
	if (st && (st = cases[i].call()))
		fail_msg("%s again, after its allocation number %u failed: %d", cases[i].name, n,
			 st);
	if (cases[i].after)
		cases[i].after();
	cm_close(&client);
	return failed;
}

static void every_call(void **state)
{
	unsigned fds = rig_open_fds(), n;

	(void)state;
	g->ctl.dev.max_dm_size = 1 << 20;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (n = 1; attempt(i, n); n++)
			assert_true(n < MAX_ALLOCATIONS);
		/* most calls need memory at all */
		if (n == 1)
			print_message("%s allocates nothing\n", cases[i].name);
		rig_fds(g, fds);
	}
}

/* Before Linux 6.5 HELLO comes twice, and what came with the first one stays open where its closing has no memory. */
static bool hello_comes_twice(void)
{
	socklen_t len = sizeof(int);
	int pair[2], fd = -1;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &fd, &len);
	close(pair[0]);
	close(pair[1]);
	return fd < 0 || close(fd);
}

/* From connect to the answer; a connection that cannot be served at all is closed. */
static void a_new_session(void **state)
{
	unsigned fds = rig_open_fds(), n;
	bool twice = hello_comes_twice();
	int st, pair[2];

	(void)state;
	for (n = 1, failed = true; failed; n++) {
		assert_true(n < MAX_ALLOCATIONS);
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
					    0, pair),
				 0);
		allocations = 0;
		failed = false;
		fail_at = n;
		st = ctl_conn_create(g->c[0], pair[1]);
		if (!st)
			st = rig_hello(g, pair[0]);
		fail_at = 0;
		if (failed)
			assert_true(st == 0 || st == -ENOMEM);
		else
			assert_int_equal(st, 0);
		close(pair[0]);
		rig_fds(g, twice ? fds + n : fds);
	}
	assert_true(n > 3);
}

static void a_new_container(void **state)
{
	struct ffo_container info = { .id = 7, .epoch = 1, .lid = 7, .num_ips = 1, .name = "late" };
	unsigned fds = rig_open_fds(), n;
	int st;

	(void)state;
	strcpy(info.tenant, "new");
	info.ip[0].s6_addr[10] = info.ip[0].s6_addr[11] = 0xff;
	info.ip[0].s6_addr[15] = 7;
	for (n = 1, failed = true; failed; n++) {
		assert_true(n < MAX_ALLOCATIONS);
		allocations = 0;
		failed = false;
		fail_at = n;
		st = container_attach(&g->ctl, &info);
		fail_at = 0;
		if (failed) /* what shows its counters may be missing, with a line in the log */
			assert_true(st == 0 || st == -ENOMEM);
		else
			assert_int_equal(st, 0);
		if (!st)
			container_detach(container_find(&g->ctl, "late"));
		rig_fds(g, fds);
	}
	assert_true(n > 3);
}

int main(void)
{
	shared = mmap(NULL, SHARED_LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	memset(shared, 1, SHARED_LEN);
	return UNIT_RUN(CALL_TEST(every_call), CALL_TEST(a_new_session),
			CALL_TEST(a_new_container));
}
