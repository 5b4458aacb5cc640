/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 300 */
/*
 * verbs_mcast.c - multicast of UD QPs.
 *
 *	verbs_mcast [CASE...]			receivers and senders in this container
 *	verbs_mcast --receive MGID N SENDER	attach, say "ready", take N messages sent by the
 *						container with that address, say "done"
 *	verbs_mcast --send MGID N		send N messages, being a member of the group, too
 *
 * That something does not arrive is checked by something sent after it that does.
 */
#include "tests/rig/verbs/vt.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#define MCAST_QPN 0xffffffu
#define MSG	  1000u /* bytes */
#define SLOT	  2048u

static const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 0x42 } };

/* A UD QP in RTS, and an address handle of the group. */
struct member {
	struct vt_end e;
	struct ibv_ah *ah;
};

static struct ibv_ah *group_ah(struct vt_end *e, const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = vt_av(gid, 0xc001);

	return CHECK_PTR(ibv_create_ah(e->pd, &attr));
}

static void open_member(struct member *m, const union ibv_gid *gid, bool attach)
{
	struct vt_param par = VT_PARAM;

	par.type = IBV_QPT_UD;
	par.len = 64 * SLOT;
	vt_end_open(&m->e, &par);
	vt_connect(&m->e, &m->e.self);
	m->ah = group_ah(&m->e, gid);
	if (attach)
		CHECK_OK(ibv_attach_mcast(m->e.qp, gid, 0));
}

static void close_member(struct member *m)
{
	CHECK_OK(ibv_destroy_ah(m->ah));
	vt_end_close(&m->e);
}

static struct ibv_send_wr group_wr(struct member *m, struct ibv_sge *sge, uint64_t id, size_t off,
				   size_t len)
{
	return vt_ud_wr(&m->e, sge, id, off, len, m->ah, MCAST_QPN);
}

static void post(struct member *m, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	CHECK_OK(ibv_post_send(m->e.qp, wr, &bad));
}

static void send_group(struct member *m, uint64_t id, size_t len)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = group_wr(m, &sge, id, 0, len);

	post(m, &wr);
	WANT_OK(m->e.scq, id);
}

/* What must be true of a message of the group that lies at off. */
static struct ibv_wc check_message(struct vt_end *e, uint64_t id, size_t off, size_t len,
				   const union ibv_gid *mgid, const union ibv_gid *sender)
{
	const struct ibv_grh *grh = (const struct ibv_grh *)(e->buf + off);
	struct ibv_wc wc = WANT_OK(e->rcq, id);

	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, len + VT_GRH);
	CHECK(wc.wc_flags & IBV_WC_GRH);
	if (IN6_IS_ADDR_V4MAPPED(mgid->raw) && IN6_IS_ADDR_V4MAPPED(sender->raw)) {
		/* an IPv4 header at the end */
		CHECK_EQ(e->buf[off + 20], 0x45);
		CHECK(!memcmp(e->buf + off + 32, sender->raw + 12, 4));
		CHECK(!memcmp(e->buf + off + 36, mgid->raw + 12, 4));
		return wc;
	}
	CHECK(!memcmp(&grh->dgid, mgid, sizeof(*mgid)));
	CHECK(!memcmp(&grh->sgid, sender, sizeof(*sender)));
	return wc;
}

/* ---- cases ---------------------------------------------------------------------------------- */

static void several_receivers(void)
{
	enum { N = 5 };
	struct member from, to[N], stranger;

	open_member(&from, &group, false);
	open_member(&stranger, &group, false);
	vt_recv(&stranger.e, 1, 0, SLOT);
	for (unsigned i = 0; i < N; i++) {
		open_member(&to[i], &group, true);
		for (unsigned k = 0; k < 10; k++)
			vt_recv(&to[i].e, k, k * SLOT, SLOT);
	}
	for (unsigned k = 0; k < 10; k++) {
		vt_pattern(from.e.buf, MSG, k);
		send_group(&from, k, MSG);
	}
	for (unsigned i = 0; i < N; i++)
		for (unsigned k = 0; k < 10; k++) {
			struct ibv_wc wc =
				check_message(&to[i].e, k, k * SLOT, MSG, &group, &from.e.self.gid);

			CHECK_EQ(wc.src_qp, from.e.qp->qp_num);
			CHECK_PATTERN(to[i].e.buf + k * SLOT + VT_GRH, MSG, k);
		}
	CHECK_EMPTY(stranger.e.rcq);
	CHECK_EMPTY(from.e.rcq);
	for (unsigned i = 0; i < N; i++)
		CHECK_OK(ibv_detach_mcast(to[i].e.qp, &group, 0));
	for (unsigned i = 0; i < N; i++)
		close_member(&to[i]);
	close_member(&stranger);
	close_member(&from);
}

/* Who has no receive, or another Q_Key, misses the message; the others do not notice. */
static void each_for_itself(void)
{
	struct member from, good, poor, other;
	struct ibv_qp_attr attr = { .qkey = VT_QKEY + 1 };

	open_member(&from, &group, false);
	open_member(&poor, &group, true);
	open_member(&other, &group, true);
	open_member(&good, &group, true);
	CHECK_OK(ibv_modify_qp(other.e.qp, &attr, IBV_QP_QKEY));
	vt_recv(&other.e, 1, 0, SLOT);
	vt_recv(&good.e, 1, 0, SLOT);
	vt_recv(&good.e, 2, 0, SLOT);
	send_group(&from, 1, MSG);
	check_message(&good.e, 1, 0, MSG, &group, &from.e.self.gid);
	vt_recv(&poor.e, 2, 0, SLOT);
	attr.qkey = VT_QKEY;
	CHECK_OK(ibv_modify_qp(other.e.qp, &attr, IBV_QP_QKEY));
	send_group(&from, 2, 77);
	check_message(&good.e, 2, 0, 77, &group, &from.e.self.gid);
	check_message(&poor.e, 2, 0, 77, &group, &from.e.self.gid);
	check_message(&other.e, 1, 0, 77, &group, &from.e.self.gid);
	CHECK_OK(ibv_detach_mcast(poor.e.qp, &group, 0));
	CHECK_OK(ibv_detach_mcast(other.e.qp, &group, 0));
	CHECK_OK(ibv_detach_mcast(good.e.qp, &group, 0));
	close_member(&good);
	close_member(&other);
	close_member(&poor);
	close_member(&from);
}

/* A member that sends gets its own message, unless it was created with the flag against it. */
static void loopback(void)
{
	struct ibv_qp_init_attr_ex init;
	struct member a, b;
	struct ibv_qp *quiet;
	struct ibv_send_wr wr, *bad;
	struct ibv_recv_wr rr, *bad_rr;
	struct ibv_sge sge, rsge;

	open_member(&a, &group, true);
	open_member(&b, &group, true);
	vt_recv(&a.e, 1, SLOT, SLOT);
	vt_recv(&b.e, 1, SLOT, SLOT);
	vt_pattern(a.e.buf, MSG, 3);
	send_group(&a, 1, MSG);
	check_message(&a.e, 1, SLOT, MSG, &group, &a.e.self.gid);
	check_message(&b.e, 1, SLOT, MSG, &group, &a.e.self.gid);
	CHECK_PATTERN(a.e.buf + SLOT + VT_GRH, MSG, 3);

	init = (struct ibv_qp_init_attr_ex){
		.send_cq = a.e.scq,
		.recv_cq = a.e.rcq,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = a.e.pd,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};
	quiet = CHECK_PTR(ibv_create_qp_ex(a.e.ctx, &init));
	vt_connect_qp(quiet, &a.e.par, &a.e.self, &a.e.self);
	CHECK_OK(ibv_attach_mcast(quiet, &group, 0));
	rsge = vt_sge(&a.e, 4 * SLOT, SLOT);
	rr = (struct ibv_recv_wr){ .wr_id = 50, .sg_list = &rsge, .num_sge = 1 };
	CHECK_OK(ibv_post_recv(quiet, &rr, &bad_rr));
	vt_recv(&b.e, 2, SLOT, SLOT);
	wr = group_wr(&a, &sge, 60, 0, MSG);
	CHECK_OK(ibv_post_send(quiet, &wr, &bad));
	WANT_OK(a.e.scq, 60);
	check_message(&b.e, 2, SLOT, MSG, &group, &a.e.self.gid);
	CHECK_EMPTY(a.e.rcq);
	/* another's message takes the receive that its own did not */
	vt_recv(&a.e, 3, 2 * SLOT, SLOT);
	send_group(&b, 61, 55);
	CHECK_EQ(vt_wc(a.e.rcq).byte_len, 55 + VT_GRH);
	CHECK_EQ(vt_wc(a.e.rcq).byte_len, 55 + VT_GRH);
	CHECK_OK(ibv_detach_mcast(quiet, &group, 0));
	CHECK_OK(ibv_destroy_qp(quiet));
	init.qp_type = IBV_QPT_RC;
	CHECK_NULL(ibv_create_qp_ex(a.e.ctx, &init), EINVAL);
	CHECK_OK(ibv_detach_mcast(a.e.qp, &group, 0));
	CHECK_OK(ibv_detach_mcast(b.e.qp, &group, 0));
	close_member(&b);
	close_member(&a);
}

/* Through ibv_wr_start .. complete, with immediate data and inline. */
static void extended_posting(void)
{
	struct vt_param par = VT_PARAM;
	struct member from, to;
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;

	open_member(&to, &group, true);
	par.type = IBV_QPT_UD;
	par.inline_data = 64;
	par.send_ops = IBV_QP_EX_WITH_SEND_WITH_IMM;
	vt_end_open(&from.e, &par);
	vt_connect(&from.e, &from.e.self);
	from.ah = group_ah(&from.e, &group);
	vt_recv(&to.e, 1, 0, SLOT);
	ex = CHECK_PTR(ibv_qp_to_qp_ex(from.e.qp));
	vt_pattern(from.e.buf, 64, 9);
	ibv_wr_start(ex);
	ex->wr_id = 5;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, htonl(0x11223344));
	ibv_wr_set_ud_addr(ex, from.ah, MCAST_QPN, VT_QKEY);
	ibv_wr_set_inline_data(ex, from.e.buf, 64);
	CHECK_OK(ibv_wr_complete(ex));
	WANT_OK(from.e.scq, 5);
	wc = check_message(&to.e, 1, 0, 64, &group, &from.e.self.gid);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQ(ntohl(wc.imm_data), 0x11223344);
	CHECK_PATTERN(to.e.buf + VT_GRH, 64, 9);
	CHECK_OK(ibv_detach_mcast(to.e.qp, &group, 0));
	close_member(&from);
	close_member(&to);
}

/* A receiver with an SRQ, and one of RoCE's IPv4 groups. */
static void ipv4_group_srq(void)
{
	static const union ibv_gid v4 = { .raw = { [10] = 0xff, [11] = 0xff, 0xef, 1, 2, 3 } };
	struct vt_param par = VT_PARAM;
	struct member from;
	struct vt_end to;
	struct ibv_ah_attr reply;
	struct ibv_wc wc;

	open_member(&from, &v4, false);
	par.type = IBV_QPT_UD;
	par.srq = true;
	vt_end_open(&to, &par);
	vt_connect(&to, &to.self);
	CHECK_OK(ibv_attach_mcast(to.qp, &v4, 0));
	vt_recv(&to, 1, 0, SLOT);
	vt_pattern(from.e.buf, MSG, 4);
	send_group(&from, 1, MSG);
	wc = check_message(&to, 1, 0, MSG, &v4, &from.e.self.gid);
	CHECK_PATTERN(to.buf + VT_GRH, MSG, 4);
	/* no GID of the port's is the one that it was sent to */
	CHECK_ERR(ibv_init_ah_from_wc(to.ctx, 1, &wc, (struct ibv_grh *)to.buf, &reply), EINVAL);
	CHECK_OK(ibv_detach_mcast(to.qp, &v4, 0));
	vt_end_close(&to);
	close_member(&from);
}

/* The checks of the kernel's ib_attach_mcast() and of uverbs around it. */
static void bad_arguments(void)
{
	static const union ibv_gid unicast = { .raw = { 0xfe, 0x80, [15] = 1 } };
	struct vt_param par = VT_PARAM;
	struct vt_end rc;
	struct member m;

	vt_end_open(&rc, &par);
	CHECK_ERR(ibv_attach_mcast(rc.qp, &group, 0), EINVAL);
	CHECK_ERR(ibv_detach_mcast(rc.qp, &group, 0), EINVAL);
	vt_end_close(&rc);
	open_member(&m, &group, false);
	CHECK_ERR(ibv_attach_mcast(m.e.qp, &unicast, 0), EINVAL);
	CHECK_ERR(ibv_attach_mcast(m.e.qp, &m.e.self.gid, 0), EINVAL);
	CHECK_ERR(ibv_detach_mcast(m.e.qp, &group, 0), EINVAL); /* not attached */
	CHECK_OK(ibv_attach_mcast(m.e.qp, &group, 0xc001));
	CHECK_OK(ibv_attach_mcast(m.e.qp, &group, 0xc001)); /* again */
	CHECK_ERR(ibv_detach_mcast(m.e.qp, &group, 0xc002), EINVAL);
	CHECK_ERR(ibv_destroy_qp(m.e.qp), EBUSY);
	CHECK_OK(ibv_detach_mcast(m.e.qp, &group, 0xc001));
	CHECK_ERR(ibv_detach_mcast(m.e.qp, &group, 0xc001), EINVAL);
	close_member(&m);
}

static int attach_numbered(struct ibv_qp *qp, int n, bool attach)
{
	union ibv_gid gid = group;

	memcpy(gid.raw + 8, &n, sizeof(n));
	return attach ? ibv_attach_mcast(qp, &gid, 0) : ibv_detach_mcast(qp, &gid, 0);
}

/* Exactly as many QPs and groups as the device says, and as many again when they are free. */
static void limits(void)
{
	struct ibv_device_attr dev;
	struct ibv_qp **qp;
	struct member m;

	open_member(&m, &group, false);
	CHECK_OK(ibv_query_device(m.e.ctx, &dev));
	CHECK(dev.max_mcast_grp > 0 && dev.max_mcast_qp_attach > 0);
	CHECK(dev.max_total_mcast_qp_attach >= dev.max_mcast_qp_attach);
	qp = calloc((size_t)dev.max_mcast_qp_attach, sizeof(*qp));
	CHECK(qp);
	for (int i = 0; i < dev.max_mcast_qp_attach; i++) {
		qp[i] = vt_make_qp(&m.e);
		CHECK_OK(ibv_attach_mcast(qp[i], &group, 0));
	}
	CHECK_ERR(ibv_attach_mcast(m.e.qp, &group, 0), ENOMEM);
	for (int i = 0; i < dev.max_mcast_qp_attach; i++) {
		CHECK_OK(ibv_detach_mcast(qp[i], &group, 0));
		CHECK_OK(ibv_destroy_qp(qp[i]));
	}
	free(qp);
	for (int lap = 0; lap < 2; lap++) {
		for (int i = 0; i < dev.max_mcast_grp; i++)
			CHECK_OK(attach_numbered(m.e.qp, i, true));
		CHECK_ERR(attach_numbered(m.e.qp, dev.max_mcast_grp, true), ENOMEM);
		for (int i = 0; i < dev.max_mcast_grp; i++)
			CHECK_OK(attach_numbered(m.e.qp, i, false));
	}
	close_member(&m);
}

/* ---- between containers --------------------------------------------------------------------- */

static void parse_gid(const char *text, union ibv_gid *gid)
{
	struct in_addr v4;

	memset(gid, 0, sizeof(*gid));
	if (inet_pton(AF_INET, text, &v4) == 1) {
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, &v4, sizeof(v4));
	} else if (inet_pton(AF_INET6, text, gid->raw) != 1) {
		FAIL("%s is no address", text);
	}
}

static void receive(const union ibv_gid *mgid, unsigned n, const char *sender)
{
	union ibv_gid from;
	struct member m;

	parse_gid(sender, &from);
	open_member(&m, mgid, true);
	if (n > 60)
		FAIL("at most 60 messages");
	for (unsigned i = 0; i < n; i++)
		vt_recv(&m.e, i, i * SLOT, SLOT);
	puts("ready");
	fflush(stdout);
	for (unsigned i = 0; i < n; i++) {
		check_message(&m.e, i, i * SLOT, MSG, mgid, &from);
		CHECK_PATTERN(m.e.buf + i * SLOT + VT_GRH, MSG, i);
	}
	CHECK_OK(ibv_detach_mcast(m.e.qp, mgid, 0));
	close_member(&m);
	puts("done");
}

static void transmit(const union ibv_gid *mgid, unsigned n)
{
	struct member m;

	open_member(&m, mgid, true);
	for (unsigned i = 0; i < n; i++) {
		vt_pattern(m.e.buf, MSG, i);
		send_group(&m, i, MSG);
	}
	CHECK_OK(ibv_detach_mcast(m.e.qp, mgid, 0));
	close_member(&m);
	puts("sent");
}

static const struct vt_case cases[] = {
	{ "several_receivers", several_receivers, 0 },
	{ "each_for_itself", each_for_itself, 0 },
	{ "loopback", loopback, 0 },
	{ "extended_posting", extended_posting, 0 },
	{ "ipv4_group_srq", ipv4_group_srq, 0 },
	{ "bad_arguments", bad_arguments, 0 },
	{ "limits", limits, 0 },
};

int main(int argc, char **argv)
{
	union ibv_gid gid;

	if (argc == 5 && !strcmp(argv[1], "--receive")) {
		parse_gid(argv[2], &gid);
		receive(&gid, (unsigned)atoi(argv[3]), argv[4]);
		return 0;
	}
	if (argc == 4 && !strcmp(argv[1], "--send")) {
		parse_gid(argv[2], &gid);
		transmit(&gid, (unsigned)atoi(argv[3]));
		return 0;
	}
	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}
