/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/*
 * numbers.c - for numbers.sh: a victim, and an attacker in another container that knows the numbers
 * of all the victim's objects: of its QPs, XRC domains, SRQs and XRC_RECV QPs, the rkeys of its
 * regions and windows, and the address of its memory. Each one's standard output is the other one's
 * standard input.
 *
 *	numbers victim	says its numbers, does what the lines of its input ask for, and tells whether
 *			its memory and queues are unchanged
 *	numbers peer	an attacker that may talk to the victim: it reaches what it was given, and not
 *			one byte more
 *	numbers other	an attacker that may not: it reaches nothing, whether the victim wants its
 *			connection or not
 *	numbers stays	an attacker that is connected while another container takes the victim's place
 *			and address: it hears that container's numbers
 *
 * The victim's bytes are all 0x22, and stay so: what a peer may write are such bytes, and what it
 * may not are others.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/rig/verbs/raw.h"

#define PAGE 4096u
#define LENGTH                                                                                     \
	(16u * PAGE) /* bytes of the victim's region, and of the window of type 1 in its middle */
#define EIGHT  0x2222222222222222ull
#define WINDOW 64u /* bytes of the window of type 2, at the region's begin */
#define ACCESS (VT_ACCESS_ALL | IBV_ACCESS_MW_BIND)
#define REMOTE (ACCESS & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND))

/* What the victim says of itself. */
struct numbers {
	uint32_t qpn, recv_qpn; /* its RC QP, its XRC_RECV QP */
	uint32_t srqn, hidden;	/* an SRQ of that QP's domain, and one of another domain */
	uint32_t rkey, mw1, mw2, other_pd;
	uint64_t addr;
	uint64_t dev, ino; /* of the domain's file */
	uint64_t gid[2];
	uint32_t lid;
	int refused; /* errno of what connects to a peer */
};

static FILE *wire; /* the other one reads it; failed checks go to standard error */

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(wire, fmt, ap);
	va_end(ap);
	putc('\n', wire);
	fflush(wire);
}

static bool hear(char line[512])
{
	return fgets(line, 512, stdin) != NULL;
}

static void numbers_hear(struct numbers *n)
{
	char line[512];

	CHECK(hear(line));
	CHECK_EQ(sscanf(line,
			"numbers %u %u %u %u %u %u %u %u %" SCNu64 " %" SCNu64 " %" SCNu64
			" %" SCNx64 " %" SCNx64 " %u %d",
			&n->qpn, &n->recv_qpn, &n->srqn, &n->hidden, &n->rkey, &n->mw1, &n->mw2,
			&n->other_pd, &n->addr, &n->dev, &n->ino, &n->gid[0], &n->gid[1], &n->lid,
			&n->refused),
		 15);
}

static struct vt_addr at(const uint64_t gid[2], uint32_t lid, uint32_t qpn)
{
	struct vt_addr a = { .qpn = qpn, .psn = 7, .lid = (uint16_t)lid };

	memcpy(&a.gid, gid, sizeof(a.gid));
	return a;
}

/* 0 or errno: policy may refuse it. */
static int connect_qp(struct ibv_qp *qp, const struct vt_param *par, const struct vt_addr *peer)
{
	int err;

	CHECK_OK(vt_to_state(qp, IBV_QPS_RESET));
	err = vt_to_init(qp, par);
	if (!err)
		err = vt_to_rtr(qp, par, peer);
	return err ? err : vt_to_rts(qp, par, 7);
}

/* ---- the victim ------------------------------------------------------------------------------ */

struct domain {
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint32_t srqn;
};

struct victim {
	struct vt_end e; /* an RC QP, and the memory */
	struct domain open, hidden;
	struct ibv_qp *recv;
	struct ibv_cq *cq; /* of the SRQs */
	struct ibv_mw *mw1, *mw2;
	struct ibv_mr *mr, *other_pd; /* all but the canaries */
	struct stat file;
	int refused;
};

static void domain_recv(struct victim *v, struct domain *d)
{
	struct ibv_sge sge = { (uintptr_t)v->e.buf + PAGE, 8, v->e.mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK_OK(ibv_post_srq_recv(d->srq, &wr, &bad));
}

static void domain_open(struct victim *v, struct domain *d, int fd)
{
	struct ibv_xrcd_init_attr xattr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							 IBV_XRCD_INIT_ATTR_OFLAGS,
					    .fd = fd,
					    .oflags = O_CREAT };
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 64, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.cq = v->cq,
		.pd = v->e.pd,
	};

	d->xrcd = attr.xrcd = CHECK_PTR(ibv_open_xrcd(v->e.ctx, &xattr));
	d->srq = CHECK_PTR(ibv_create_srq_ex(v->e.ctx, &attr));
	CHECK_OK(ibv_get_srq_num(d->srq, &d->srqn));
	for (int i = 0; i < 4; i++)
		domain_recv(v, d);
}

/* Memory is registered and windows are bound anew: every number before is of nothing any more. */
static void keys_make(struct victim *v)
{
	struct ibv_mw_bind_info info = { .addr = (uintptr_t)v->e.buf + PAGE,
					 .length = LENGTH,
					 .mw_access_flags = REMOTE };
	struct ibv_mw_bind bind = { .wr_id = 50, .send_flags = IBV_SEND_SIGNALED };

	if (v->mr) {
		CHECK_OK(ibv_dealloc_mw(v->mw1));
		CHECK_OK(ibv_dealloc_mw(v->mw2));
		CHECK_OK(ibv_dereg_mr(v->mr));
	}
	v->mr = CHECK_PTR(ibv_reg_mr(v->e.pd, v->e.buf + PAGE, LENGTH, ACCESS));
	v->mw1 = CHECK_PTR(ibv_alloc_mw(v->e.pd, IBV_MW_TYPE_1));
	v->mw2 = CHECK_PTR(ibv_alloc_mw(v->e.pd, IBV_MW_TYPE_2));
	if (v->refused)
		return; /* its QP cannot bind them */
	info.mr = v->mr;
	bind.bind_info = info;
	CHECK_OK(ibv_bind_mw(v->e.qp, v->mw1, &bind));
	WANT_OK(v->e.scq, 50);
	info.length = WINDOW;
	{
		struct ibv_send_wr wr = { .wr_id = 51,
					  .opcode = IBV_WR_BIND_MW,
					  .send_flags = IBV_SEND_SIGNALED,
					  .bind_mw = { .mw = v->mw2,
						       .rkey = ibv_inc_rkey(v->mw2->rkey),
						       .bind_info = info } };

		CHECK_OK(vt_post(&v->e, &wr));
		WANT_OK(v->e.scq, 51);
		v->mw2->rkey = wr.bind_mw.rkey;
	}
}

static void victim_open(struct victim *v)
{
	struct vt_param par = VT_PARAM;
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC); /* all containers have that file */
	struct ibv_pd *pd;

	par.len = LENGTH + 2 * PAGE;
	vt_end_open(&v->e, &par);
	memset(v->e.buf, 0x22, v->e.len);
	CHECK(fd >= 0 && !fstat(fd, &v->file));
	v->cq = CHECK_PTR(ibv_create_cq(v->e.ctx, 64, NULL, NULL, 0));
	domain_open(v, &v->open, fd);
	domain_open(v, &v->hidden, -1);
	attr.xrcd = v->open.xrcd;
	v->recv = CHECK_PTR(ibv_create_qp_ex(v->e.ctx, &attr));
	pd = CHECK_PTR(ibv_alloc_pd(v->e.ctx));
	v->other_pd = CHECK_PTR(ibv_reg_mr(pd, v->e.buf + PAGE, LENGTH, ACCESS));
	v->refused = connect_qp(v->e.qp, &v->e.par, &v->e.self); /* to bind windows */
	keys_make(v);
}

static void numbers_say(const struct victim *v)
{
	uint64_t gid[2];

	memcpy(gid, &v->e.self.gid, sizeof(gid));
	say("numbers %u %u %u %u %u %u %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIx64
	    " %" PRIx64 " %u %d",
	    v->e.qp->qp_num, v->recv->qp_num, v->open.srqn, v->hidden.srqn, v->mr->rkey,
	    v->mw1->rkey, v->mw2->rkey, v->other_pd->rkey, (uint64_t)(uintptr_t)v->e.buf + PAGE,
	    (uint64_t)v->file.st_dev, (uint64_t)v->file.st_ino, gid[0], gid[1], v->e.self.lid,
	    v->refused);
}

/* c QPN XRC-QPN LID GID: connected to that peer, with new keys. */
static void victim_connect(struct victim *v, const char *line)
{
	uint32_t qpn, xqpn, lid;
	struct vt_addr peer;
	uint64_t gid[2];

	CHECK_EQ(sscanf(line, "c %u %u %u %" SCNx64 " %" SCNx64, &qpn, &xqpn, &lid, &gid[0],
			&gid[1]),
		 5);
	peer = at(gid, lid, xqpn);
	v->refused = connect_qp(v->recv, &v->e.par, &peer);
	peer = at(gid, lid, qpn);
	v->refused = v->refused ? v->refused : connect_qp(v->e.qp, &v->e.par, &peer);
	keys_make(v);
}

static const char *what_is_harmed(struct victim *v)
{
	struct ibv_wc wc;

	if (!vt_all(v->e.buf, v->e.len, 0x22))
		return "its memory";
	if (ibv_poll_cq(v->cq, 1, &wc) || ibv_poll_cq(v->e.rcq, 1, &wc))
		return "its queues";
	return NULL;
}

static void victim(void)
{
	static struct victim v;
	const char *harmed;
	char line[512];

	victim_open(&v);
	numbers_say(&v);
	while (hear(line)) {
		harmed = line[0] == 'r' ? NULL : what_is_harmed(&v);
		if (harmed)
			FAIL("%s", harmed);
		switch (line[0]) {
		case 'c':
			victim_connect(&v, line);
			numbers_say(&v);
			break;
		case 'r': /* a message comes */
			WANT_OK(v.cq, 0);
			domain_recv(&v, &v.open);
			say("received");
			break;
		default:
			say("whole");
		}
	}
}

/* ---- the attacker ---------------------------------------------------------------------------- */

struct attacker {
	struct vt_end e;
	struct ibv_qp *xsend;
	struct numbers n; /* the victim's now */
};

static void attacker_open(struct attacker *a, bool is_allowed)
{
	struct ibv_qp_init_attr_ex attr = { .cap = { .max_send_wr = 64, .max_send_sge = 1 },
					    .qp_type = IBV_QPT_XRC_SEND,
					    .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct vt_param par = VT_PARAM;

	par.len = PAGE;
	if (!is_allowed) { /* nobody answers */
		par.timeout = 8;
		par.retry_cnt = 1;
	}
	vt_end_open(&a->e, &par);
	attr.pd = a->e.pd;
	attr.send_cq = a->e.scq;
	a->xsend = CHECK_PTR(ibv_create_qp_ex(a->e.ctx, &attr));
	numbers_hear(&a->n);
}

/* Connect both QPs with the victim's. 0, or the errno of the call that was refused. */
static int attacker_connect(struct attacker *a)
{
	struct ibv_wc wc;
	uint64_t gid[2];
	struct vt_addr peer;
	int err;

	memcpy(gid, &a->e.self.gid, sizeof(gid));
	say("c %u %u %u %" PRIx64 " %" PRIx64, a->e.qp->qp_num, a->xsend->qp_num, a->e.self.lid,
	    gid[0], gid[1]);
	numbers_hear(&a->n);
	peer = at(a->n.gid, a->n.lid, a->n.recv_qpn);
	err = connect_qp(a->xsend, &a->e.par, &peer);
	peer = at(a->n.gid, a->n.lid, a->n.qpn);
	err = err ? err : connect_qp(a->e.qp, &a->e.par, &peer);
	while (ibv_poll_cq(a->e.scq, 1, &wc) > 0)
		;
	return err;
}

/* The victim has looked. */
static void is_whole(void)
{
	char line[512];

	say("w");
	CHECK(hear(line) && !strcmp(line, "whole\n"));
}

/* 8 bytes, of which a good one changes nothing. SRQNs are of XRC only. */
static enum ibv_wc_status op(struct attacker *a, struct ibv_qp *qp, enum ibv_wr_opcode opcode,
			     bool good, uint64_t addr, uint32_t rkey, uint32_t srqn)
{
	struct ibv_sge sge = vt_sge(&a->e, 0, 8);
	struct ibv_send_wr wr = vt_wr(opcode, 1, &sge, IBV_SEND_SIGNALED), *bad;
	bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct ibv_wc wc;

	memset(a->e.buf, good ? 0x22 : 0x33, a->e.len);
	wr.qp_type.xrc.remote_srqn = srqn;
	if (atomic) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? EIGHT :
					   good				       ? 0 :
										 1;
		wr.wr.atomic.swap = good ? EIGHT : 1;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK_OK(ibv_post_send(qp, &wr, &bad));
	wc = vt_wc(a->e.scq);
	CHECK_EQ(wc.wr_id, 1);
	if (wc.status != IBV_WC_SUCCESS) /* what is read or swapped is not here either */
		CHECK(vt_all(a->e.buf, a->e.len, good ? 0x22 : 0x33));
	return wc.status;
}

static const enum ibv_wr_opcode reaching[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
					       IBV_WR_ATOMIC_CMP_AND_SWP,
					       IBV_WR_ATOMIC_FETCH_AND_ADD };

/* It must fail, by a NAK if the victim is there to say it; then both connect again. */
static void must_fail(struct attacker *a, struct ibv_qp *qp, enum ibv_wr_opcode opcode,
		      uint64_t addr, uint32_t rkey, uint32_t srqn, const char *what)
{
	enum ibv_wc_status st = op(a, qp, opcode, false, addr, rkey, srqn);

	if (st != IBV_WC_REM_ACCESS_ERR && st != IBV_WC_REM_INV_REQ_ERR && st != IBV_WC_REM_OP_ERR)
		FAIL("%s: opcode %d has status %s", what, (int)opcode, ibv_wc_status_str(st));
	CHECK_OK(attacker_connect(a));
}

static void must_work(struct attacker *a, struct ibv_qp *qp, uint64_t addr, uint32_t rkey,
		      uint32_t srqn)
{
	for (unsigned i = 0; i < ARRAY_SIZE(reaching); i++)
		CHECK_EQ(op(a, qp, reaching[i], true, addr, rkey, srqn), IBV_WC_SUCCESS);
}

/* ---- by one byte ----------------------------------------------------------------------------- */

static const struct {
	int64_t at; /* from the begin, or from the end */
	bool behind;
} outside[] = {
	{ -1, false },
	{ -8, false },
	{ -7, true },
	{ -1, true },
	{ 0, true },
	{ 8, true },
	{ INT64_MAX / 2, false },
	{ INT64_MIN / 2, true },
};

/* len bytes from addr on may be reached by that key. */
static void edges(struct attacker *a, struct ibv_qp *qp, uint32_t srqn, const uint32_t *key,
		  uint32_t len, const char *what)
{
	must_work(a, qp, a->n.addr, *key, srqn);
	must_work(a, qp, a->n.addr + len - 8, *key, srqn);
	for (unsigned o = 0; o < ARRAY_SIZE(reaching); o++)
		for (unsigned i = 0; i < ARRAY_SIZE(outside); i++)
			must_fail(a, qp, reaching[o],
				  a->n.addr + (outside[i].behind ? len : 0) +
					  (uint64_t)outside[i].at,
				  *key, srqn, what);
}

/* ---- what a peer may not do ------------------------------------------------------------------ */

static void keys_of_others(struct attacker *a)
{
	struct numbers old = a->n;
	const uint32_t stale[] = { old.rkey, old.mw1, old.mw2 };

	/* they are of nothing since both connected again */
	CHECK_OK(attacker_connect(a));
	for (unsigned i = 0; i < ARRAY_SIZE(stale); i++)
		for (unsigned o = 0; o < ARRAY_SIZE(reaching); o++)
			must_fail(a, a->e.qp, reaching[o], old.addr, stale[i], 0, "an old key");
	for (unsigned bit = 0; bit < 32; bit++)
		must_fail(a, a->e.qp, reaching[bit % 4], old.addr, a->n.rkey ^ 1u << bit, 0,
			  "a key with another bit");
	for (unsigned bit = 0; bit < 32; bit++)
		must_fail(a, a->e.qp, reaching[bit % 4], old.addr, a->n.mw1 ^ 1u << bit, 0,
			  "a window's key with another bit");
	/* the attacker's own, of memory that is at that address with itself */
	must_fail(a, a->e.qp, IBV_WR_RDMA_WRITE, (uintptr_t)a->e.buf, a->e.mr->rkey, 0,
		  "its own key");
	must_fail(a, a->e.qp, IBV_WR_RDMA_READ, a->n.addr, 0, 0, "no key");
	must_fail(a, a->e.qp, IBV_WR_RDMA_READ, a->n.addr, a->n.other_pd, 0, "a key of another PD");
}

/* A QP of the attacker's that is its own peer: there the victim's keys are of nothing. */
static void keys_at_home(struct attacker *a)
{
	const uint32_t keys[] = { a->n.rkey, a->n.mw1, a->n.mw2, a->n.other_pd };
	struct vt_addr self = a->e.self;
	enum ibv_wc_status st;

	self.psn = 7;
	for (unsigned i = 0; i < ARRAY_SIZE(keys); i++)
		for (unsigned o = 0; o < ARRAY_SIZE(reaching); o++) {
			CHECK_OK(connect_qp(a->e.qp, &a->e.par, &self));
			st = op(a, a->e.qp, reaching[o], false, a->n.addr, keys[i], 0);
			/* it ends with the NAK that it sends, which may come first */
			CHECK(st == IBV_WC_REM_ACCESS_ERR || st == IBV_WC_WR_FLUSH_ERR);
		}
	CHECK_OK(attacker_connect(a));
}

static void srqs_of_others(struct attacker *a)
{
	uint32_t rnd = 11, num;
	char line[512];

	CHECK_EQ(op(a, a->xsend, IBV_WR_SEND, true, 0, 0, a->n.srqn), IBV_WC_SUCCESS);
	say("r");
	CHECK(hear(line) && !strcmp(line, "received\n"));
	must_fail(a, a->xsend, IBV_WR_SEND, 0, 0, a->n.hidden, "an SRQ of another domain");
	must_fail(a, a->xsend, IBV_WR_RDMA_WRITE, a->n.addr, a->n.rkey, a->n.hidden,
		  "an SRQ of another domain");
	for (unsigned i = 0; i < 128; i++) {
		num = i < 64 ? i : i < 66 ? 0xffffffu - (i & 1) : vt_rand(&rnd) & 0xffffffu;
		if (num != a->n.srqn)
			must_fail(a, a->xsend, IBV_WR_SEND, 0, 0, num, "no SRQ");
	}
	/* windows of type 2 are of the QP that bound them, regions of the SRQ's PD */
	must_work(a, a->xsend, a->n.addr, a->n.rkey, a->n.srqn);
	must_fail(a, a->xsend, IBV_WR_RDMA_WRITE, a->n.addr, a->n.mw2, a->n.srqn,
		  "the RC QP's window");
	must_fail(a, a->xsend, IBV_WR_RDMA_READ, a->n.addr, a->n.other_pd, a->n.srqn,
		  "a key of another PD");
}

/*
 * The domain's file and the XRC_RECV QP's number, in the router's own protocol: another container's
 * domain is not found, and its QP is in no domain.
 */
static void domains_of_others(struct attacker *a)
{
	struct ff_open_xrcd_req open = { .has_file = 1, .dev = a->n.dev, .ino = a->n.ino };
	struct ff_open_xrcd_resp xrcd;
	struct ff_open_qp_resp none;
	struct raw r;

	raw_open(&r);
	CHECK_EQ(RAW_TRY(&r, OPEN_XRCD, &open, &xrcd), -EAGAIN);
	open.flags = FF_XRCD_CREATE | FF_XRCD_EXCLUSIVE;
	RAW_CALL(&r, OPEN_XRCD, &open, &xrcd);
	for (uint32_t num = 0; num < 64; num++) {
		struct ff_open_qp_req req = { .xrcd = xrcd.xrcd,
					      .qp_type = IBV_QPT_XRC_RECV,
					      .qp_num = a->n.recv_qpn + num - 32 };

		CHECK_EQ(RAW_TRY(&r, OPEN_QP, &req, &none), -EINVAL);
		req.qp_num = a->n.recv_qpn;
		req.xrcd = xrcd.xrcd + num + 1; /* handles of others' domains */
		CHECK_EQ(RAW_TRY(&r, OPEN_QP, &req, &none), -EINVAL);
	}
	raw_close(&r);
}

static void peer(void)
{
	struct attacker a = { 0 };

	attacker_open(&a, true);
	CHECK_OK(attacker_connect(&a));
	CHECK_EQ(a.n.refused, 0);
	edges(&a, a.e.qp, 0, &a.n.rkey, LENGTH, "outside of the region");
	edges(&a, a.e.qp, 0, &a.n.mw1, LENGTH, "outside of the window of type 1");
	edges(&a, a.e.qp, 0, &a.n.mw2, WINDOW, "outside of the window of type 2");
	edges(&a, a.xsend, a.n.srqn, &a.n.rkey, LENGTH, "outside of the region, by XRC");
	is_whole();
	keys_of_others(&a);
	keys_at_home(&a);
	srqs_of_others(&a);
	domains_of_others(&a);
	is_whole();
}

/* ---- who may not talk to the victim ---------------------------------------------------------- */

static void nothing_is_reached(struct attacker *a, bool is_anew)
{
	const uint32_t keys[] = { a->n.rkey, a->n.mw1, a->n.mw2, a->n.other_pd };
	unsigned refused = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(keys); i++)
		for (unsigned o = 0; o < 2 * ARRAY_SIZE(reaching); o++) {
			struct ibv_qp *qp = o % 2 ? a->xsend : a->e.qp;

			if (is_anew && attacker_connect(a)) {
				refused++;
				continue;
			}
			CHECK(op(a, qp, reaching[o / 2], false, a->n.addr, keys[i], a->n.srqn) !=
			      IBV_WC_SUCCESS);
		}
	for (unsigned i = 0; i < 2; i++) {
		if (is_anew && attacker_connect(a))
			refused++;
		else
			CHECK(op(a, a->xsend, IBV_WR_SEND, false, 0, 0,
				 i ? a->n.hidden : a->n.srqn) != IBV_WC_SUCCESS);
	}
	fprintf(stderr, "%u connections were refused\n", refused);
	is_whole();
}

static void other(void)
{
	struct attacker a = { 0 };

	attacker_open(&a, false);
	nothing_is_reached(&a, true);
	domains_of_others(&a);
	is_whole();
}

/* By the connection that it had with the one before, and by a new one. */
static void stays(void)
{
	struct attacker a = { 0 };
	struct numbers old;

	attacker_open(&a, false);
	CHECK_OK(attacker_connect(&a));
	must_work(&a, a.e.qp, a.n.addr, a.n.rkey, 0);
	old = a.n;
	fputs("connected\n", stderr);
	numbers_hear(&a.n);
	CHECK_EQ(a.n.gid[1], old.gid[1]); /* it has the other's address */
	CHECK(op(&a, a.e.qp, IBV_WR_RDMA_WRITE, false, old.addr, old.rkey, 0) != IBV_WC_SUCCESS);
	nothing_is_reached(&a, false);
	nothing_is_reached(&a, true);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} who[] = { { "victim", victim }, { "peer", peer }, { "other", other }, { "stays", stays } };

	wire = fdopen(dup(STDOUT_FILENO), "w");
	CHECK(wire && dup2(STDERR_FILENO, STDOUT_FILENO) == STDOUT_FILENO);
	for (size_t i = 0; argc == 2 && i < ARRAY_SIZE(who); i++) {
		if (strcmp(argv[1], who[i].name))
			continue;
		who[i].run();
		if (strcmp(argv[1], "victim"))
			fputs("done\n", stderr);
		return 0;
	}
	FAIL("no such part");
}
