/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffload_sink.c - the receiving end of a lane. It verifies what arrives against the plan, in order,
 * and after a failure what the source was told had arrived. See ffload.h.
 */
#include "tests/rig/ffload/ffload.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_RUNS  64u
#define MAX_BYTES (4ull << 30) /* of one sink */
#define UD_TELL	  16u

/* ---- runs and sinks ------------------------------------------------------------------------------ */

static struct sink_run *run_of(struct server *srv, uint64_t run)
{
	struct sink_run **runs, *r;

	for (unsigned i = 0; i < srv->num_runs; i++)
		if (srv->runs[i]->run == run)
			return srv->runs[i];
	if (srv->num_runs == MAX_RUNS)
		return NULL;
	runs = realloc(srv->runs, (srv->num_runs + 1) * sizeof(*runs));
	if (!runs)
		return NULL;
	srv->runs = runs;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->run = run;
	r->shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->shared == MAP_FAILED) {
		free(r);
		return NULL;
	}
	runs[srv->num_runs++] = r;
	return r;
}

static struct sink *sink_new(struct server *srv, const struct load_plan *plan)
{
	struct load_layout l;
	unsigned index = 0;
	struct sink *s;

	plan_layout(plan, &l);
	while (index < srv->num && srv->sinks[index])
		index++;
	if (index == LOAD_MAX_SINKS || l.len > MAX_BYTES)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->server = srv;
	s->plan = *plan;
	s->layout = l;
	s->run = run_of(srv, plan->run);
	if (plan->ud)
		s->seen = calloc(UD_SEEN / 64, sizeof(*s->seen));
	s->mem = mmap(NULL, l.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!s->run || s->mem == MAP_FAILED || (plan->ud && !s->seen)) {
		if (s->mem != MAP_FAILED)
			munmap(s->mem, l.len);
		free(s->seen);
		free(s);
		return NULL;
	}
	pattern_fill(s->mem + l.region, l.region_len, plan_region_key(plan, srv->incarnation), 0);
	s->run->users++;
	s->index = index;
	srv->sinks[index] = s;
	if (index == srv->num)
		srv->num++;
	return s;
}

struct sink *sink_of(struct server *srv, const struct load_hello *h)
{
	if (h->magic != LOAD_MAGIC || !plan_valid(&h->plan) || h->done > h->base ||
	    (h->what != HELLO_CONNECT && h->what != HELLO_BYE))
		return NULL;
	for (unsigned i = 0; i < srv->num; i++) {
		struct sink *s = srv->sinks[i];

		if (s && s->plan.run == h->plan.run && s->plan.lane == h->plan.lane)
			return memcmp(&s->plan, &h->plan, sizeof(s->plan)) ? NULL : s;
	}
	return sink_new(srv, &h->plan);
}

void sink_free(struct sink *s)
{
	struct server *srv = s->server;
	struct sink_run *r = s->run;

	load_drop_qp(&s->ah, &s->qp);
	if (s->mr)
		ibv_dereg_mr(s->mr);
	munmap(s->mem, s->layout.len);
	srv->sinks[s->index] = NULL; /* wr_ids have the index: the others keep theirs */
	if (--r->users == 0) {
		if (r->mr)
			ibv_dereg_mr(r->mr);
		munmap(r->shared, 4096);
		for (unsigned i = 0; i < srv->num_runs; i++)
			if (srv->runs[i] == r)
				srv->runs[i] = srv->runs[--srv->num_runs];
		free(r);
	}
	free(s->seen);
	free(s);
}

void sink_device_gone(struct sink *s)
{
	if (s->qp)
		s->device_died = true;
	load_drop_qp(&s->ah, &s->qp);
	if (s->mr)
		ibv_dereg_mr(s->mr);
	s->mr = NULL;
	if (s->run->mr)
		ibv_dereg_mr(s->run->mr);
	s->run->mr = NULL;
}

/* ---- verifying ----------------------------------------------------------------------------------- */

static uint8_t *write_slot(struct sink *s, uint64_t seq)
{
	return s->mem + s->layout.writes + seq % (2 * s->plan.window) * s->layout.slot;
}

static uint8_t *recv_slot(struct sink *s, uint64_t index)
{
	return s->mem + s->layout.receives + index % s->plan.receives * s->layout.slot;
}

static void wrong(struct sink *s, uint64_t seq, const char *what, long long got, long long want)
{
	s->run->wrong++;
	report_wrong(&s->server->report, "lane %u, operation %llu: %s is %lld, not %lld",
		     s->plan.lane, (unsigned long long)seq, what, got, want);
}

/* Which operation nearby has these contents: what came in its place tells what went wrong. */
static void wrong_contents(struct sink *s, uint64_t seq, const char *where, const uint8_t *p,
			   uint32_t len, long at)
{
	uint64_t from = seq > 4 * s->plan.window ? seq - 4 * s->plan.window : 0;
	struct load_item item;

	s->run->wrong++;
	for (uint64_t other = from; other < seq + 4 * s->plan.window; other++) {
		plan_item(&s->plan, other, &item);
		if (len < 8 || pattern_diff(p + at, len - (size_t)at < 64 ? len - (size_t)at : 64,
					    item.key, (uint64_t)at) >= 0)
			continue;
		report_wrong(&s->server->report,
			     "lane %u, operation %llu: %s of %u bytes has from byte %ld on what "
			     "operation %llu (%s, %u bytes) carries",
			     s->plan.lane, (unsigned long long)seq, where, len, at,
			     (unsigned long long)other, load_op_str[item.op], item.len);
		return;
	}
	report_wrong(&s->server->report,
		     "lane %u, operation %llu: %s of %u bytes is wrong from byte %ld on: 0x%02x",
		     s->plan.lane, (unsigned long long)seq, where, len, at, p[at]);
}

static void verify(struct sink *s, uint64_t seq, const struct load_item *item, const uint8_t *p,
		   const char *where)
{
	struct load_report *r = &s->server->report;
	long at = pattern_diff(p, item->len, item->key, 0);

	if (at >= 0)
		wrong_contents(s, seq, where, p, item->len, at);
	r->ops[item->op]++;
	r->bytes += item->len;
}

/*
 * Verify from s->next on up to the next operation with a completion, if that is before `end`: it is
 * found in *item, with its number, and not verified itself. False: there is none.
 */
static bool to_two_sided(struct sink *s, uint64_t end, uint64_t *seq, struct load_item *item)
{
	for (; s->next < end; s->next++) {
		plan_item(&s->plan, s->next, item);
		if (plan_two_sided(item->op)) {
			*seq = s->next;
			return true;
		}
		if (item->op == OP_WRITE)
			verify(s, s->next, item, write_slot(s, s->next), "the WRITE");
		s->server->report.verified++;
	}
	return false;
}

static void verify_completion(struct sink *s, const struct ibv_wc *wc, uint64_t index)
{
	struct load_item item;
	uint64_t seq;
	bool imm;

	to_two_sided(s, UINT64_MAX, &seq, &item);
	imm = item.op != OP_SEND;
	if (wc->opcode != (item.op == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		wrong(s, seq, "the completion's opcode", wc->opcode, item.op);
	if (wc->byte_len != item.len)
		wrong(s, seq, "the length", wc->byte_len, item.len);
	if (!!(wc->wc_flags & IBV_WC_WITH_IMM) != imm)
		wrong(s, seq, "the immediate's flag", wc->wc_flags, imm);
	else if (imm && ntohl(wc->imm_data) != (uint32_t)seq)
		wrong(s, seq, "the immediate", ntohl(wc->imm_data), (uint32_t)seq);
	else if (item.op == OP_WRITE_IMM)
		verify(s, seq, &item, write_slot(s, seq), "the WRITE_IMM");
	else
		verify(s, seq, &item, recv_slot(s, index), "the SEND");
	s->next = seq + 1;
	s->server->report.verified++;
}

/*
 * What the source says about the connection that has ended. If the device lived, all completions
 * have been seen. If it died, they may be lost, but not the bytes: receives were consumed in order.
 */
static void verify_past(struct sink *s, const struct load_hello *h)
{
	struct load_item item;
	uint64_t seq, start = s->next;

	while (to_two_sided(s, h->done, &seq, &item)) {
		if (!s->device_died) {
			s->run->wrong++;
			report_wrong(
				&s->server->report,
				"lane %u, operation %llu (%s): reported complete, but it never "
				"arrived (all before %llu were)",
				s->plan.lane, (unsigned long long)seq, load_op_str[item.op],
				(unsigned long long)h->done);
			break;
		}
		verify(s, seq, &item,
		       item.op == OP_WRITE_IMM ? write_slot(s, seq) : recv_slot(s, s->recv_done),
		       "what lies in memory");
		s->recv_done++;
		s->next = seq + 1;
		s->server->report.verified++;
	}
	if (s->device_died && s->next > start)
		s->server->report.scanned += s->next - start;
	if (s->next > h->base)
		wrong(s, s->next, "what was verified", (long long)s->next, (long long)h->base);
}

/* ---- completions --------------------------------------------------------------------------------- */

static int post_recv(struct sink *s)
{
	struct ibv_sge sge = { .addr = (uintptr_t)recv_slot(s, s->recv_posted),
			       .length = (uint32_t)(s->plan.max + (s->plan.ud ? LOAD_GRH : 0)),
			       .lkey = s->mr->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id_of(WR_RECV, s->index, s->attempt, s->recv_posted),
		.sg_list = &sge,
		.num_sge = 1,
	};
	int err = ibv_post_recv(s->qp, &wr, &bad);

	if (!err)
		s->recv_posted++;
	return -err;
}

static void ud_arrived(struct sink *s, const struct ibv_wc *wc)
{
	struct load_report *r = &s->server->report;
	const uint8_t *p = recv_slot(s, s->recv_done) + LOAD_GRH;
	struct load_item item;
	uint64_t seq, bit;

	if (wc->byte_len < LOAD_GRH + sizeof(seq)) {
		wrong(s, s->next, "the datagram's length", wc->byte_len, 0);
		return;
	}
	memcpy(&seq, p, sizeof(seq));
	if (seq + UD_SEEN <= s->next || seq > s->next + (1u << 30)) {
		wrong(s, s->next, "the datagram's number", (long long)seq, (long long)s->next);
		return;
	}
	plan_item(&s->plan, seq, &item);
	if (wc->byte_len - LOAD_GRH != item.len)
		wrong(s, seq, "the datagram's length", wc->byte_len - LOAD_GRH, item.len);
	else if (pattern_diff(p + sizeof(seq), item.len - sizeof(seq), item.key, 0) >= 0)
		wrong_contents(s, seq, "the datagram", p + sizeof(seq), item.len - 8,
			       pattern_diff(p + sizeof(seq), item.len - 8, item.key, 0));
	if (item.op == OP_SEND_IMM && ntohl(wc->imm_data) != (uint32_t)seq)
		wrong(s, seq, "the immediate", ntohl(wc->imm_data), (uint32_t)seq);
	for (; s->next <= seq; s->next++) {
		bit = s->next % UD_SEEN;
		s->seen[bit / 64] &= ~(1ull << bit % 64);
	}
	if (seq + 1 < s->next)
		r->ud_reordered++;
	bit = seq % UD_SEEN;
	if (s->seen[bit / 64] >> bit % 64 & 1)
		wrong(s, seq, "a datagram that came before", 2, 1);
	s->seen[bit / 64] |= 1ull << bit % 64;
	s->ud_received++;
	r->ud_received++;
	r->ops[item.op]++;
	r->bytes += item.len;
	r->verified++;
}

static void arrived(struct sink *s, const struct ibv_wc *wc)
{
	if ((uint32_t)wc->wr_id != (uint32_t)s->recv_done)
		wrong(s, s->next, "the receive's number", (uint32_t)wc->wr_id,
		      (uint32_t)s->recv_done);
	if (wc->status != IBV_WC_SUCCESS) {
		s->broken = true;
		s->recv_done++;
		return;
	}
	if (s->plan.ud)
		ud_arrived(s, wc);
	else
		verify_completion(s, wc, s->recv_done);
	s->recv_done++;
	report_good(&s->server->report, load_now());
	if (!s->broken && post_recv(s))
		s->broken = true;
}

void sink_wc(struct sink *s, const struct ibv_wc *wc)
{
	if (!s->qp || wr_attempt(wc->wr_id) != (s->attempt & 0xffff))
		return;
	switch (wr_kind(wc->wr_id)) {
	case WR_RECV:
		arrived(s, wc);
		break;
	case WR_ACK:
		s->acking = false;
		if (wc->status != IBV_WC_SUCCESS)
			s->broken = true;
		break;
	default:
		wrong(s, s->next, "a completion's kind", wr_kind(wc->wr_id), WR_RECV);
	}
}

void sink_tell(struct sink *s)
{
	uint64_t *word = (uint64_t *)(s->mem + LAYOUT_ACK);
	uint64_t behind = s->next - s->acked;
	struct ibv_sge sge = { .addr = (uintptr_t)word, .length = 8 };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id_of(WR_ACK, s->index, s->attempt, s->next),
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.opcode = s->plan.ud ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl((uint32_t)s->next),
	};

	if (!s->qp || s->broken || s->acking || !behind || (s->plan.ud && behind < UD_TELL))
		return;
	*word = s->next;
	if (s->plan.ud) {
		wr.wr.ud.ah = s->ah;
		wr.wr.ud.remote_qpn = s->source.qpn;
		wr.wr.ud.remote_qkey = LOAD_QKEY;
	} else {
		wr.wr.rdma.remote_addr = s->source.addr;
		wr.wr.rdma.rkey = s->source.rkey;
	}
	if (ibv_post_send(s->qp, &wr, &bad)) {
		s->broken = true;
		return;
	}
	s->acking = true;
	s->acked = s->next;
}

/* ---- connecting ---------------------------------------------------------------------------------- */

void sink_retire(struct sink *s)
{
	s->broken = true;
	if (s->qp)
		dev_qp_error(s->qp);
}

/* Every receive has come back, so nothing that arrived is unseen. */
bool sink_retired(struct sink *s)
{
	return !s->qp || s->recv_done == s->recv_posted;
}

static int open_mrs(struct sink *s)
{
	struct load_dev *d = &s->server->dev;
	struct sink_run *r = s->run;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC;

	if (!r->mr)
		r->mr = ibv_reg_mr(d->pd, r->shared, 4096, access);
	if (!s->mr)
		s->mr = ibv_reg_mr(d->pd, s->mem, s->layout.len, access);
	return r->mr && s->mr ? 0 : -errno;
}

static int connect_qp(struct sink *s, const struct load_hello *h, struct load_answer *a)
{
	struct load_dev *d = &s->server->dev;
	int err = open_mrs(s);

	if (err)
		return err;
	s->qp = dev_qp(d, &s->plan, 4, s->plan.receives);
	if (!s->qp)
		return -errno;
	s->attempt = h->attempt;
	s->source = h->end;
	s->psn = (uint32_t)load_random() & 0xffffff;
	s->recv_posted = s->recv_done = 0;
	s->acking = s->broken = s->device_died = false;
	err = dev_qp_init(s->qp, &s->plan);
	while (!err && s->recv_posted < s->plan.receives)
		err = post_recv(s);
	if (!err)
		err = dev_qp_connect(d, s->qp, &s->plan, s->psn, &h->end);
	if (!err && s->plan.ud && !(s->ah = dev_ah(d, &h->end)))
		err = -errno;
	if (err) {
		load_drop_qp(&s->ah, &s->qp);
		return err;
	}
	a->end = (struct load_end){ .gid = d->gid,
				    .lid = d->lid,
				    .qpn = s->qp->qp_num,
				    .psn = s->psn,
				    .rkey = s->mr->rkey,
				    .addr = (uintptr_t)s->mem };
	a->shared_rkey = s->run->mr->rkey;
	a->shared_addr = (uintptr_t)s->run->shared;
	return 0;
}

void sink_answer(struct sink *s, const struct load_hello *h, struct load_answer *a)
{
	struct server *srv = s->server;
	int err = 0;

	load_drop_qp(&s->ah, &s->qp);
	if (h->incarnation == srv->incarnation && !s->plan.ud)
		verify_past(s, h);
	if (h->base != s->base) /* else an answer was lost: the same question again */
		s->past = s->next;
	s->base = h->base;
	*a = (struct load_answer){
		.magic = LOAD_MAGIC,
		.status = ANSWER_OK,
		.incarnation = srv->incarnation,
		.next = s->past,
		.wrong = s->run->wrong,
		.shared = __atomic_load_n(s->run->shared, __ATOMIC_ACQUIRE),
		.ud_received = s->ud_received,
	};
	memcpy(&a->fetch, s->mem + LAYOUT_FETCH, 8);
	memcpy(&a->cas, s->mem + LAYOUT_CAS, 8);
	s->next = s->acked = h->base;
	if (h->what == HELLO_CONNECT)
		err = srv->dev.ctx && !srv->dev.dead ? connect_qp(s, h, a) : -ENODEV;
	if (err) {
		report_line(&srv->report, "lane %u: cannot connect: %s", s->plan.lane,
			    strerror(-err));
		a->status = ANSWER_AGAIN;
	}
	srv->report.connects += h->what == HELLO_CONNECT && !err;
}
