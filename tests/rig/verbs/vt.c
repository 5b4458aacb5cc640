/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* vt.c - see vt.h. Plain libibverbs; knows nothing of what lies below it. */
#include "tests/rig/verbs/vt.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_SKIP 77 /* of a case's process */

static const char *case_name = "?"; /* in a case's process */

/* ---- cases and checks ----------------------------------------------------------------------- */

const char *vt_case_name(void)
{
	return case_name;
}

void vt_fail(const char *file, int line, const char *fmt, ...)
{
	const char *base = strrchr(file, '/');
	char why[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	printf("not ok %s: %s:%d: %s\n", case_name, base ? base + 1 : file, line, why);
	fflush(stdout);
	_exit(1);
}

void vt_skip(const char *fmt, ...)
{
	char why[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	printf("skip %s: %s\n", case_name, why);
	fflush(stdout);
	_exit(EXIT_SKIP);
}

static bool selected(const char *name, int argc, char **argv)
{
	if (argc < 2)
		return true;
	for (int i = 1; i < argc; i++)
		if (strstr(name, argv[i]))
			return true;
	return false;
}

/* True if the case did not fail. */
static bool run_case(const struct vt_case *c)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		printf("not ok %s: fork: %s\n", c->name, strerror(errno));
		return false;
	}
	if (!pid) {
		setpgid(0, 0);
		case_name = c->name;
		alarm((c->seconds ? c->seconds : 60) * vt_slow());
		c->run();
		printf("ok %s\n", c->name);
		fflush(stdout);
		_exit(0);
	}
	setpgid(pid, pid); /* whoever comes first */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	kill(-pid, SIGKILL); /* what the case forked and did not end */
	if (WIFSIGNALED(status)) {
		printf("not ok %s: killed by %s%s\n", c->name, strsignal(WTERMSIG(status)),
		       WTERMSIG(status) == SIGALRM ? " (time limit)" : "");
		return false;
	}
	return WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == EXIT_SKIP;
}

int vt_main(int argc, char **argv, const struct vt_case *cases, size_t num)
{
	bool good = true, any = false;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "-l")) {
		for (size_t i = 0; i < num; i++)
			puts(cases[i].name);
		return 0;
	}
	for (size_t i = 0; i < num; i++) {
		if (!selected(cases[i].name, argc, argv))
			continue;
		any = true;
		good = run_case(&cases[i]) && good;
	}
	if (!any) {
		fprintf(stderr, "%s: no such case (-l lists them)\n", argv[0]);
		return 2;
	}
	return good ? 0 : 1;
}

int vt_child_status(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t vt_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

unsigned vt_slow(void)
{
	const char *s = getenv("VT_SLOW");
	int n = s ? atoi(s) : 1;

	return n > 0 ? (unsigned)n : 1;
}

uint64_t vt_deadline(void)
{
	return vt_now() + (uint64_t)VT_WAIT_MS * vt_slow() * 1000000u;
}

void vt_pause(void)
{
	sched_yield();
}

/* ---- contents ------------------------------------------------------------------------------- */

static uint8_t pattern_byte(size_t i, uint32_t seed)
{
	uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u;

	return (uint8_t)(x >> 24 ^ x >> 11);
}

void vt_pattern(void *buf, size_t len, uint32_t seed)
{
	uint8_t *p = buf;

	for (size_t i = 0; i < len; i++)
		p[i] = pattern_byte(i, seed);
}

long vt_mismatch(const void *buf, size_t len, uint32_t seed)
{
	const uint8_t *p = buf;

	for (size_t i = 0; i < len; i++)
		if (p[i] != pattern_byte(i, seed))
			return (long)i;
	return -1;
}

void vt_check_pattern(const char *file, int line, const void *buf, size_t len, uint32_t seed)
{
	long at = vt_mismatch(buf, len, seed);

	if (at >= 0)
		vt_fail(file, line, "wrong contents: byte %ld of %zu is 0x%02x, not 0x%02x", at,
			len, ((const uint8_t *)buf)[at], pattern_byte((size_t)at, seed));
}

bool vt_all(const void *buf, size_t len, uint8_t byte)
{
	const uint8_t *p = buf;

	for (size_t i = 0; i < len; i++)
		if (p[i] != byte)
			return false;
	return true;
}

uint32_t vt_rand(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

void *vt_map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		FAIL("mmap of %zu bytes: %s", len, strerror(errno));
	return p;
}

/* ---- one end of a connection ---------------------------------------------------------------- */

unsigned vt_gid_index(void)
{
	const char *s = getenv("VT_GID");

	return s ? (unsigned)atoi(s) : 0;
}

struct ibv_context *vt_open_device(void)
{
	const char *name = getenv("VT_DEVICE");
	struct ibv_device **list = CHECK_PTR(ibv_get_device_list(NULL));
	struct ibv_context *ctx = NULL;

	for (int i = 0; list[i] && !ctx; i++)
		if (!name || !strcmp(name, ibv_get_device_name(list[i])))
			ctx = CHECK_PTR(ibv_open_device(list[i]));
	ibv_free_device_list(list);
	if (!ctx)
		FAIL("there is no RDMA device%s%s", name ? " called " : "", name ? name : "");
	return ctx;
}

void vt_gid(struct ibv_context *ctx, union ibv_gid *gid)
{
	CHECK_OK(ibv_query_gid(ctx, 1, (int)vt_gid_index(), gid));
}

struct ibv_mr *vt_reg(struct vt_end *e, void *addr, size_t len, int access)
{
	return CHECK_PTR(ibv_reg_mr(e->pd, addr, len, access));
}

struct ibv_qp *vt_make_qp(struct vt_end *e)
{
	const struct vt_param *par = &e->par;
	struct ibv_qp_init_attr_ex ex = {
		.send_cq = e->scq,
		.recv_cq = e->rcq,
		.srq = e->srq,
		.cap = { .max_send_wr = par->send_wr,
			 .max_recv_wr = par->srq ? 0 : par->recv_wr,
			 .max_send_sge = par->send_sge,
			 .max_recv_sge = par->srq ? 0 : par->recv_sge,
			 .max_inline_data = par->inline_data },
		.qp_type = par->type,
		.sq_sig_all = par->sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = e->pd,
		.send_ops_flags = par->send_ops,
	};
	struct ibv_qp_init_attr plain = {
		.send_cq = ex.send_cq,
		.recv_cq = ex.recv_cq,
		.srq = ex.srq,
		.cap = ex.cap,
		.qp_type = ex.qp_type,
		.sq_sig_all = ex.sq_sig_all,
	};

	return par->send_ops ? CHECK_PTR(ibv_create_qp_ex(e->ctx, &ex)) :
			       CHECK_PTR(ibv_create_qp(e->pd, &plain));
}

void vt_end_open_on(struct vt_end *e, const struct vt_param *par, struct ibv_context *ctx,
		    struct ibv_pd *pd)
{
	struct ibv_port_attr port;

	memset(e, 0, sizeof(*e));
	e->par = *par;
	e->ctx = ctx;
	e->pd = pd;
	e->borrowed = true;
	if (par->channel)
		e->channel = CHECK_PTR(ibv_create_comp_channel(ctx));
	e->scq = CHECK_PTR(ibv_create_cq(ctx, par->cqe, NULL, e->channel, 0));
	e->rcq = par->one_cq ? e->scq :
			       CHECK_PTR(ibv_create_cq(ctx, par->cqe, NULL, e->channel, 0));
	if (par->srq) {
		struct ibv_srq_init_attr attr = {
			.attr = { .max_wr = par->recv_wr, .max_sge = par->recv_sge },
		};

		e->srq = CHECK_PTR(ibv_create_srq(pd, &attr));
	}
	e->qp = vt_make_qp(e);
	e->len = par->len;
	e->buf = vt_map(e->len);
	e->mr = vt_reg(e, e->buf, e->len, par->access);
	CHECK_OK(ibv_query_port(ctx, 1, &port));
	vt_gid(ctx, &e->self.gid);
	e->self.lid = port.lid;
	e->self.qpn = e->qp->qp_num;
	e->self.psn = e->qp->qp_num * 7 & 0xffffff;
	e->self.rkey = e->mr->rkey;
	e->self.addr = (uintptr_t)e->buf;
	e->self.len = e->len;
}

void vt_end_open(struct vt_end *e, const struct vt_param *par)
{
	struct ibv_context *ctx = vt_open_device();

	vt_end_open_on(e, par, ctx, CHECK_PTR(ibv_alloc_pd(ctx)));
	e->borrowed = false;
}

static void end_close_objects(struct vt_end *e)
{
	if (e->ah)
		CHECK_OK(ibv_destroy_ah(e->ah));
	if (e->qp)
		CHECK_OK(ibv_destroy_qp(e->qp));
	if (e->srq)
		CHECK_OK(ibv_destroy_srq(e->srq));
	if (e->rcq != e->scq)
		CHECK_OK(ibv_destroy_cq(e->rcq));
	CHECK_OK(ibv_destroy_cq(e->scq));
	if (e->channel)
		CHECK_OK(ibv_destroy_comp_channel(e->channel));
	if (e->mr)
		CHECK_OK(ibv_dereg_mr(e->mr));
	munmap(e->buf, e->len);
}

void vt_end_close(struct vt_end *e)
{
	end_close_objects(e);
	if (e->borrowed)
		return;
	CHECK_OK(ibv_dealloc_pd(e->pd));
	CHECK_OK(ibv_close_device(e->ctx));
}

struct ibv_ah_attr vt_av(const union ibv_gid *gid, uint16_t lid)
{
	return (struct ibv_ah_attr){
		.dlid = lid,
		.port_num = 1,
		.is_global = 1,
		.grh = { .dgid = *gid, .sgid_index = (uint8_t)vt_gid_index(), .hop_limit = 64 },
	};
}

struct ibv_qp_attr vt_good_attr(const struct vt_end *e, enum ibv_qp_state from,
				enum ibv_qp_state to)
{
	return (struct ibv_qp_attr){
		.qp_state = to,
		.cur_qp_state = from,
		.port_num = 1,
		.qkey = VT_QKEY,
		.qp_access_flags = VT_ACCESS_ALL,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = e->qp->qp_num,
		.rq_psn = 5,
		.sq_psn = 5,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 1,
		.rnr_retry = 1,
		.ah_attr = vt_av(&e->self.gid, e->self.lid),
	};
}

int vt_to_init(struct ibv_qp *qp, const struct vt_param *par)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = VT_QKEY,
		.qp_access_flags = (unsigned)par->qp_access,
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (par->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int vt_to_rtr(struct ibv_qp *qp, const struct vt_param *par, const struct vt_addr *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = par->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = par->dest_rd_atomic,
		.min_rnr_timer = par->rnr_timer,
		.ah_attr = vt_av(&peer->gid, peer->lid),
	};
	int mask = IBV_QP_STATE;

	if (par->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (par->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, mask);
}

int vt_to_rts(struct ibv_qp *qp, const struct vt_param *par, uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = par->timeout,
		.retry_cnt = par->retry_cnt,
		.rnr_retry = par->rnr_retry,
		.max_rd_atomic = par->rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (par->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

int vt_to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state vt_state(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	CHECK_OK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

void vt_connect_qp(struct ibv_qp *qp, const struct vt_param *par, const struct vt_addr *self,
		   const struct vt_addr *peer)
{
	CHECK_OK(vt_to_init(qp, par));
	CHECK_OK(vt_to_rtr(qp, par, peer));
	CHECK_OK(vt_to_rts(qp, par, self->psn));
}

void vt_connect(struct vt_end *e, const struct vt_addr *peer)
{
	e->peer = *peer;
	vt_connect_qp(e->qp, &e->par, &e->self, peer);
	if (e->par.type == IBV_QPT_UD && !e->ah) {
		struct ibv_ah_attr attr = vt_av(&peer->gid, peer->lid);

		e->ah = CHECK_PTR(ibv_create_ah(e->pd, &attr));
	}
}

void vt_pair_more(struct vt_end *a, struct vt_end *b, struct ibv_qp **of_a, struct ibv_qp **of_b,
		  unsigned num)
{
	struct vt_addr addr_a = a->self, addr_b = b->self;

	for (unsigned i = 0; i < num; i++) {
		of_a[i] = vt_make_qp(a);
		of_b[i] = vt_make_qp(b);
		addr_a.qpn = of_a[i]->qp_num;
		addr_b.qpn = of_b[i]->qp_num;
		vt_connect_qp(of_a[i], &a->par, &addr_a, &addr_b);
		vt_connect_qp(of_b[i], &b->par, &addr_b, &addr_a);
	}
}

void vt_destroy_qps(struct ibv_qp **qp, unsigned num)
{
	for (unsigned i = 0; i < num; i++)
		CHECK_OK(ibv_destroy_qp(qp[i]));
}

void vt_pair(struct vt_end *a, struct vt_end *b, const struct vt_param *par)
{
	vt_end_open(a, par);
	vt_end_open(b, par);
	vt_connect(a, &b->self);
	vt_connect(b, &a->self);
}

void vt_pair_close(struct vt_end *a, struct vt_end *b)
{
	vt_end_close(a);
	vt_end_close(b);
}

static void drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

void vt_pair_reset(struct vt_end *a, struct vt_end *b)
{
	CHECK_OK(vt_to_state(a->qp, IBV_QPS_RESET));
	CHECK_OK(vt_to_state(b->qp, IBV_QPS_RESET));
	drain(a->scq);
	drain(a->rcq);
	drain(b->scq);
	drain(b->rcq);
	vt_connect(a, &b->self);
	vt_connect(b, &a->self);
}

void vt_aim(struct vt_end *e, const void *addr, const struct ibv_mr *mr)
{
	e->peer.addr = (uintptr_t)addr;
	e->peer.rkey = mr->rkey;
}

/* ---- work requests -------------------------------------------------------------------------- */

struct ibv_sge vt_sge(const struct vt_end *e, size_t off, size_t len)
{
	return (struct ibv_sge){ .addr = (uintptr_t)e->buf + off,
				 .length = (uint32_t)len,
				 .lkey = e->mr->lkey };
}

struct ibv_send_wr vt_ud_wr(const struct vt_end *e, struct ibv_sge *sge, uint64_t id, size_t off,
			    size_t len, struct ibv_ah *ah, uint32_t qpn)
{
	*sge = vt_sge(e, off, len);
	return (struct ibv_send_wr){
		.wr_id = id,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = VT_QKEY },
	};
}

int vt_post(struct vt_end *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int err;

	if (e->par.type == IBV_QPT_UD && !wr->wr.ud.ah) {
		wr->wr.ud.ah = e->ah;
		wr->wr.ud.remote_qpn = e->peer.qpn;
		wr->wr.ud.remote_qkey = VT_QKEY;
	}
	err = VERB_ERRNO(ibv_post_send(e->qp, wr, &bad));
	if (err)
		CHECK(bad);
	return err;
}

int vt_post_recv(struct vt_end *e, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad = NULL;
	int err = VERB_ERRNO(e->srq ? ibv_post_srq_recv(e->srq, wr, &bad) :
				      ibv_post_recv(e->qp, wr, &bad));

	if (err)
		CHECK(bad);
	return err;
}

void vt_recv(struct vt_end *e, uint64_t id, size_t off, size_t len)
{
	struct ibv_sge sge = vt_sge(e, off, len);
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	CHECK_OK(vt_post_recv(e, &wr));
}

struct ibv_send_wr vt_wr(enum ibv_wr_opcode op, uint64_t id, struct ibv_sge *sge, unsigned flags)
{
	return (struct ibv_send_wr){
		.wr_id = id, .sg_list = sge, .num_sge = 1, .opcode = op, .send_flags = flags
	};
}

void vt_send(struct vt_end *e, uint64_t id, size_t off, size_t len, unsigned flags)
{
	struct ibv_sge sge = vt_sge(e, off, len);
	struct ibv_send_wr wr = vt_wr(IBV_WR_SEND, id, &sge, flags);

	CHECK_OK(vt_post(e, &wr));
}

void vt_pass(struct vt_end *a, struct vt_end *b, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end; i++) {
		vt_send(a, i, 0, 8, IBV_SEND_SIGNALED);
		WANT_OK(a->scq, i);
		WANT_OK(b->rcq, i);
	}
}

void vt_rdma(struct vt_end *e, enum ibv_wr_opcode op, uint64_t id, size_t off, size_t len,
	     size_t remote_off, unsigned flags)
{
	struct ibv_sge sge = vt_sge(e, off, len);
	struct ibv_send_wr wr = vt_wr(op, id, &sge, flags);

	wr.wr.rdma.remote_addr = e->peer.addr + remote_off;
	wr.wr.rdma.rkey = e->peer.rkey;
	CHECK_OK(vt_post(e, &wr));
}

void vt_atomic(struct vt_end *e, enum ibv_wr_opcode op, uint64_t id, size_t off, size_t remote_off,
	       uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = vt_sge(e, off, 8);
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { .remote_addr = e->peer.addr + remote_off,
			       .rkey = e->peer.rkey,
			       .compare_add = compare_add,
			       .swap = swap },
	};

	CHECK_OK(vt_post(e, &wr));
}

/* ---- completions and events ----------------------------------------------------------------- */

static struct ibv_wc next_wc(const char *file, int line, struct ibv_cq *cq, uint64_t id)
{
	uint64_t until = vt_deadline();
	struct ibv_wc wc;
	int n;

	memset(&wc, 0xee, sizeof(wc));
	while (!(n = ibv_poll_cq(cq, 1, &wc))) {
		if (vt_now() > until)
			vt_fail(file, line, "no completion came (waiting for wr_id %llu)",
				(unsigned long long)id);
	}
	if (n != 1)
		vt_fail(file, line, "ibv_poll_cq returned %d", n);
	return wc;
}

struct ibv_wc vt_wc(struct ibv_cq *cq)
{
	return next_wc(__FILE__, __LINE__, cq, 0);
}

struct ibv_wc vt_want(const char *file, int line, struct ibv_cq *cq, uint64_t id,
		      enum ibv_wc_status status)
{
	struct ibv_wc wc = next_wc(file, line, cq, id);

	if (wc.wr_id != id || wc.status != status)
		vt_fail(file, line,
			"completion of wr_id %llu with \"%s\" (vendor %u), not of %llu with \"%s\"",
			(unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), wc.vendor_err,
			(unsigned long long)id, ibv_wc_status_str(status));
	return wc;
}

bool vt_want_cut(struct ibv_cq *cq, unsigned first, unsigned end)
{
	bool failed = false;

	for (unsigned i = first; i < end; i++) {
		struct ibv_wc wc = vt_wc(cq);

		CHECK_EQ(wc.wr_id, i);
		if (failed)
			CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		else if (wc.status != IBV_WC_SUCCESS)
			CHECK_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
		failed = wc.status != IBV_WC_SUCCESS;
	}
	return failed;
}

bool vt_readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, ms);
	while (n < 0 && errno == EINTR);
	return n == 1 && (p.revents & POLLIN);
}

struct ibv_async_event vt_want_event(const char *file, int line, struct ibv_context *ctx,
				     enum ibv_event_type type)
{
	struct ibv_async_event ev;

	if (!vt_readable(ctx->async_fd, VT_WAIT_MS * (int)vt_slow()))
		vt_fail(file, line, "no async event came (waiting for \"%s\")",
			ibv_event_type_str(type));
	if (ibv_get_async_event(ctx, &ev))
		vt_fail(file, line, "ibv_get_async_event: %s", strerror(errno));
	ibv_ack_async_event(&ev);
	if (ev.event_type != type)
		vt_fail(file, line, "async event \"%s\", not \"%s\"",
			ibv_event_type_str(ev.event_type), ibv_event_type_str(type));
	return ev;
}

void vt_want_qp_event(const char *file, int line, struct vt_end *e, enum ibv_event_type type)
{
	struct ibv_async_event ev;

	if (getenv("VT_RXE") && (type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_QP_REQ_ERR))
		return;
	ev = vt_want_event(file, line, e->ctx, type);
	if (ev.element.qp != e->qp)
		vt_fail(file, line, "\"%s\" of another QP", ibv_event_type_str(type));
}

void vt_want_comp_event(const char *file, int line, struct ibv_comp_channel *ch, struct ibv_cq *cq)
{
	struct ibv_cq *got;
	void *context;

	if (!vt_readable(ch->fd, VT_WAIT_MS * (int)vt_slow()))
		vt_fail(file, line, "no completion event came");
	if (ibv_get_cq_event(ch, &got, &context))
		vt_fail(file, line, "ibv_get_cq_event: %s", strerror(errno));
	if (got != cq)
		vt_fail(file, line, "completion event of another CQ");
	if (context != cq->cq_context)
		vt_fail(file, line, "completion event with another cq_context");
}

void vt_check_alive(struct vt_end *a, struct vt_end *b)
{
	size_t n = 512;

	vt_pattern(a->buf, n, 77);
	memset(b->buf, 0, 2 * n);
	vt_recv(b, 901, 0, n);
	vt_send(a, 902, 0, n, IBV_SEND_SIGNALED);
	WANT_OK(a->scq, 902);
	CHECK_EQ(WANT_OK(b->rcq, 901).byte_len, n);
	CHECK_PATTERN(b->buf, n, 77);
	vt_rdma(a, IBV_WR_RDMA_WRITE, 903, 0, n, n, IBV_SEND_SIGNALED);
	WANT_OK(a->scq, 903);
	CHECK_PATTERN(b->buf + n, n, 77);
}
