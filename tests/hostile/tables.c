/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/*
 * tables.c - for tables.sh: a client that takes of everything as much as it is given, and keeps it; and one of
 * another container that wants what any program wants.
 *
 *	tables fill		says what it has, then "full"; ends with its standard input
 *	tables neighbour	says "served", or fails
 */
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/rig/verbs/raw.h"

#define SESSIONS 1024u
#define MANY	 1000u /* of a kind in a session, which leaves some for other kinds */
#define MAPPINGS 1024u /* of one session */
#define CLAIM	 64u   /* of them in one call */
#define IDS	 300u  /* they count much, and leave no room for others */
#define SILENT	 100u  /* more than a container may have */

/* As many as there are: their number, and the first one's handle. */
#define FILL(r, NAME, req, resp, first)                                                            \
	({                                                                                         \
		unsigned n_ = 0;                                                                   \
		while (n_ < MANY && !RAW_TRY(r, NAME, req, resp)) {                                \
			if (!n_++)                                                                 \
				memcpy(first, resp, sizeof(uint32_t));                             \
			if ((r)->last_fd >= 0)                                                     \
				close((r)->last_fd);                                               \
		}                                                                                  \
		n_;                                                                                \
	})

#define KINDS(X)                                                                                   \
	X(SESSION, sessions)                                                                       \
	X(CHANNEL, channels)                                                                       \
	X(CQ, CQs)                                                                                 \
	X(SRQ, SRQs)                                                                               \
	X(QP, QPs)                                                                                 \
	X(MR, MRs)                                                                                 \
	X(AH, AHs)                                                                                 \
	X(MW, windows)                                                                             \
	X(DM, device memories)                                                                     \
	X(ID, ids)                                                                                 \
	X(MEMBERSHIP, memberships)                                                                 \
	X(MAPPING, mappings)                                                                       \
	X(SEGMENT, segments)                                                                       \
	X(PD, PDs)

enum kind {
#define X(NAME, what) NAME,
	KINDS(X)
#undef X
		NUM_KINDS
};
static const char *const what[NUM_KINDS] = {
#define X(NAME, what) #what,
	KINDS(X)
#undef X
};
static unsigned long total[NUM_KINDS];

/* False: no further one is let in. */
static bool session_new(struct raw *r)
{
	struct {
		struct ff_hdr hdr;
		struct ff_hello_resp resp;
	} a;
	unsigned n;
	int fds[8];

	raw_connect(r);
	if (!raw_hello(r) || raw_recv(r, &a, sizeof(a), fds, &n) != sizeof(a) || a.hdr.status)
		return false;
	r->async_fd = fds[0];
	r->bell_fd = fds[1];
	return true;
}

static struct ff_cm_addr address(const uint8_t ip[4])
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct ff_cm_addr a = { .sa = { 0 } };

	memcpy(&in.sin_addr, ip, 4);
	memcpy(a.sa, &in, sizeof(in));
	return a;
}

/* Ports, ids that listen on them, groups that they are in, events that nobody reads. */
static void fill_ids(struct raw *r, uint32_t channel, const uint8_t ip[4])
{
	struct ff_cm_create_id_req id = { .channel = channel, .ps = RDMA_PS_UDP };
	struct ff_cm_create_id_resp made;
	struct ff_cm_bind_resp bound;
	struct ff_cm_listen_resp none;

	while (total[ID] < IDS && !RAW_TRY(r, CM_CREATE_ID, &id, &made)) {
		struct ff_cm_bind_req bind = { .id = made.id, .addr = address(ip) };
		struct ff_cm_listen_req listen = { .id = made.id, .backlog = 1000 };
		struct ff_cm_join_req join = { .id = made.id,
					       .join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
					       .addr = address((const uint8_t[]){ 239, 1, 1, 1 }) };
		struct ff_cm_join_resp joined;

		total[ID]++;
		(void)RAW_TRY(r, CM_BIND, &bind, &bound);
		for (int i = 0; i < 8 && !RAW_TRY(r, CM_JOIN, &join, &joined); i++)
			total[MEMBERSHIP]++;
		(void)RAW_TRY(r, CM_LISTEN, &listen, &none);
	}
}

/* Claims on many mappings of a page each. */
static void fill_mappings(struct raw *r)
{
	static char *maps;
	struct ff_alloc_pd_resp pd;
	struct ff_reg_mr_resp mr;
	struct ff_mr_run run = { .len = CLAIM * 4096ull, .kind = FF_RUN_SHARED };
	struct ff_reg_mr_req req = { .length = run.len, .access = VT_ACCESS_ALL };

	if (!maps) {
		int fd = memfd_create("many", MFD_CLOEXEC);

		CHECK(fd >= 0 && !ftruncate(fd, MAPPINGS * 4096));
		maps = mmap(NULL, MAPPINGS * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(maps != MAP_FAILED);
		for (unsigned i = 0; i < MAPPINGS; i++)
			CHECK(mmap(maps + i * 4096ul, 4096, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_FIXED, fd,
				   (off_t)(MAPPINGS - 1 - i) * 4096) != MAP_FAILED);
		memset(maps, 1, MAPPINGS * 4096);
	}
	if (RAW_TRY(r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd))
		return;
	req.pd = pd.pd;
	for (unsigned i = 0; i < MAPPINGS; i += CLAIM) {
		req.addr = req.iova = run.va = (uintptr_t)maps + i * 4096ul;
		if (!raw_call_tail(r, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1, &mr,
				   sizeof(mr)))
			total[MAPPING] += mr.zero_copy / 4096;
	}
}

static void fill_session(struct raw *r)
{
	struct ff_create_channel_resp channel;
	struct ff_create_qp_resp qp;
	struct ff_create_cq_resp cq;
	struct ff_create_srq_resp srq;
	struct ff_alloc_null_mr_resp mr;
	struct ff_alloc_pd_resp pd;
	struct ff_alloc_mw_resp mw;
	struct ff_alloc_dm_resp dm;
	struct ff_create_ah_resp ah;
	struct ff_place_pages_resp placed;
	struct ff_query_gid_resp gid;
	uint32_t one_pd, one_cq = 0, one_channel = 0, none;
	struct ff_create_ah_req to = { .attr = { .is_global = 1, .port_num = 1 } };

	if (RAW_TRY(r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd))
		return;
	one_pd = to.pd = pd.pd;
	total[PD]++;
	RAW_CALL(r, QUERY_GID, (&(struct ff_query_gid_req){ .port = 1 }), &gid);
	memcpy(to.attr.dgid, gid.gid, sizeof(to.attr.dgid));
	total[CQ] += FILL(r, CREATE_CQ, (&(struct ff_create_cq_req){ .cqe = 16 }), &cq, &one_cq);
	total[QP] += FILL(r, CREATE_QP,
			  (&(struct ff_create_qp_req){ .pd = one_pd,
						       .send_cq = one_cq,
						       .recv_cq = one_cq,
						       .qp_type = IBV_QPT_RC,
						       .cap = { 4, 4, 1, 1, 0 } }),
			  &qp, &none);
	total[SRQ] += FILL(r, CREATE_SRQ,
			   (&(struct ff_create_srq_req){ .pd = one_pd, .max_wr = 4, .max_sge = 1 }),
			   &srq, &none);
	total[MR] += FILL(r, ALLOC_NULL_MR, (&(struct ff_alloc_null_mr_req){ .pd = one_pd }), &mr,
			  &none);
	if (RAW_TRY(r, CREATE_CHANNEL, &(struct ff_create_channel_req){ 0 }, &channel))
		return;
	close(r->last_fd);
	one_channel = channel.channel;
	total[CHANNEL]++;
	fill_ids(r, one_channel, gid.gid + 12);
	total[DM] += FILL(r, ALLOC_DM, (&(struct ff_alloc_dm_req){ .length = 4096 }), &dm, &none);
	total[MW] += FILL(r, ALLOC_MW,
			  (&(struct ff_alloc_mw_req){ .pd = one_pd, .type = IBV_MW_TYPE_1 }), &mw,
			  &none);
	total[AH] += FILL(r, CREATE_AH, &to, &ah, &none);
	total[PD] += FILL(r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd, &none);
	if (!raw_watch_pages(r)) {
		close(r->last_fd);
		total[SEGMENT] +=
			FILL(r, PLACE_PAGES,
			     (&(struct ff_place_pages_req){ .len = 1 << 20, .span = 1 << 20 }),
			     &placed, &none);
	}
	total[CHANNEL] +=
		FILL(r, CREATE_CHANNEL, &(struct ff_create_channel_req){ 0 }, &channel, &none);
}

static void fill(void)
{
	static struct raw r[SESSIONS], silent[SILENT];
	struct rlimit lim;
	unsigned n = 0;
	char c;

	CHECK(!getrlimit(RLIMIT_NOFILE, &lim));
	lim.rlim_cur = lim.rlim_max;
	CHECK(!setrlimit(RLIMIT_NOFILE, &lim));
	while (n < SESSIONS && session_new(&r[n]))
		n++;
	total[SESSION] = n;
	for (unsigned i = 0; i < n; i++)
		fill_mappings(&r[i]);
	for (unsigned i = 0; i < n; i++)
		fill_session(&r[i]);
	for (unsigned i = 0; i < SILENT; i++)
		raw_connect(&silent[i]);
	for (size_t i = 0; i < ARRAY_SIZE(what); i++)
		printf("%lu %s, ", total[i], what[i]);
	printf("\nfull\n");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
}

static void neighbour(void)
{
	struct ff_create_channel_resp channel;
	struct ff_cm_create_id_resp id;
	struct ff_cm_bind_resp bound;
	struct ff_cm_listen_resp none;
	struct ff_reg_mr_resp mr;
	struct ff_mr_run run = { .len = 65536, .kind = FF_RUN_SHARED };
	struct ff_reg_mr_req req = { .length = run.len, .access = VT_ACCESS_ALL };
	struct ff_cm_bind_req bind = { .addr = address((const uint8_t[4]){ 0 }) };
	struct vt_end a, b;
	struct vt_param par = VT_PARAM;
	struct raw_qp q;
	struct raw r;
	void *p = mmap(NULL, run.len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 4096);
	raw_qp_connect(&r, &q);
	memset(p, 1, run.len);
	req.addr = req.iova = run.va = (uintptr_t)p;
	req.pd = q.pd;
	CHECK_EQ(raw_call_tail(&r, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1, &mr,
			       sizeof(mr)),
		 0);
	CHECK_EQ(mr.zero_copy, run.len);
	RAW_CALL(&r, CREATE_CHANNEL, &(struct ff_create_channel_req){ 0 }, &channel);
	close(r.last_fd);
	RAW_CALL(&r, CM_CREATE_ID,
		 (&(struct ff_cm_create_id_req){ .channel = channel.channel, .ps = RDMA_PS_TCP }),
		 &id);
	bind.id = id.id;
	RAW_CALL(&r, CM_BIND, &bind, &bound);
	RAW_CALL(&r, CM_LISTEN, (&(struct ff_cm_listen_req){ .id = id.id, .backlog = 4 }), &none);
	raw_close(&r);
	/* and with the library */
	vt_pair(&a, &b, &par);
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
	puts("served");
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "fill"))
		fill();
	else if (argc == 2 && !strcmp(argv[1], "neighbour"))
		neighbour();
	else
		return 2;
	return 0;
}
