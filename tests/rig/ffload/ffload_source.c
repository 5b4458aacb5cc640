/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffload_source.c - the issuing end of a lane: posts the plan's operations as far as the window goes,
 * checks what comes back, and when the connection fails makes the next one. See ffload.h.
 */
#include "tests/rig/ffload/ffload.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define BATCH	   16u		     /* WRs in one ibv_post_send */
#define PROBE_NS   (500 * NS_PER_MS) /* nothing moves: was the last WR not signalled? */
#define SILENCE_NS (2 * NS_PER_S)    /* UD: the sink may be another one by now */
#define UD_GO_NS   (5 * NS_PER_MS)   /* UD: what was not acknowledged by then was lost */
#define UD_AHEAD   4u		     /* windows */
#define FLUSH_NS   (200 * NS_PER_MS)
#define ACK_LEN	   64u

static uint8_t *slot_of(struct source *s, uint64_t seq)
{
	return s->mem + 4096 + seq % s->plan.window * s->slot;
}

static uint64_t ack_word(const struct source *s)
{
	return __atomic_load_n((const uint64_t *)s->mem, __ATOMIC_ACQUIRE);
}

int source_init(struct source *s, struct client *c, unsigned index, const struct load_plan *plan)
{
	memset(s, 0, sizeof(*s));
	s->client = c;
	s->index = index;
	s->plan = *plan;
	s->plan.lane = index;
	s->fd = -1;
	s->slot = (size_t)plan->max + 64;
	s->mem_len = 4096 + ((plan->window * s->slot + 4095) & ~(size_t)4095);
	if (plan->ud) /* the sink's words come as datagrams */
		s->mem_len += 4096;
	plan_layout(&s->plan, &s->layout);
	s->mem = mmap(NULL, s->mem_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return s->mem == MAP_FAILED ? -errno : 0;
}

/* ---- the end of a connection ---------------------------------------------------------------------- */

void source_fini(struct source *s)
{
	source_hang_up(s);
	load_drop_qp(&s->ah, &s->qp);
	if (s->mr)
		ibv_dereg_mr(s->mr);
	s->mr = NULL;
	munmap(s->mem, s->mem_len);
}

void source_down(struct source *s, uint64_t at)
{
	source_hang_up(s);
	load_drop_qp(&s->ah, &s->qp);
	s->state = SOURCE_DOWN;
	s->retry_at = at;
}

/* The connection does not work any more. What is posted comes back first. */
static void failed(struct source *s, const char *why, uint64_t now)
{
	struct client *c = s->client;

	if (s->state != SOURCE_UP)
		return;
	c->report.failures++;
	if (!s->failed_at)
		s->failed_at = s->last_good ? s->last_good : now;
	report_line(&c->report, "lane %u: %s; %llu done, %llu posted", s->index, why, LL(s->done),
		    LL(s->posted));
	if (!c->reconnect)
		c->lost = true;
	s->state = SOURCE_FLUSHING;
	s->progress_at = now;
	if (s->qp)
		dev_qp_error(s->qp);
}

void source_device_gone(struct source *s, uint64_t now)
{
	failed(s, "the device has died", now);
	if (s->state != SOURCE_ENDED)
		source_down(s, now);
	load_drop_qp(&s->ah, &s->qp);
	if (s->mr)
		ibv_dereg_mr(s->mr);
	s->mr = NULL;
}

/* ---- posting ------------------------------------------------------------------------------------- */

static void aim(struct source *s, uint64_t seq, const struct load_item *item,
		struct ibv_send_wr *wr)
{
	uint64_t target = seq, at;

	wr->wr.rdma.rkey = s->sink.rkey;
	switch (item->op) {
	case OP_WRITE:
		wr->opcode = IBV_WR_RDMA_WRITE;
		break;
	case OP_WRITE_IMM:
		wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		break;
	case OP_READ_BACK:
	case OP_READ:
		wr->opcode = IBV_WR_RDMA_READ;
		if (item->op == OP_READ_BACK && plan_write_before(&s->plan, seq, s->since, &target))
			break;
		at = item->dice % (s->layout.region_len - item->len + 1);
		wr->wr.rdma.remote_addr = s->sink.addr + s->layout.region + at;
		return;
	case OP_FETCH_ADD:
	case OP_CMP_SWAP:
		wr->opcode = item->op == OP_FETCH_ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD :
							IBV_WR_ATOMIC_CMP_AND_SWP;
		wr->wr.atomic.remote_addr =
			s->sink.addr + (item->op == OP_FETCH_ADD ? LAYOUT_FETCH : LAYOUT_CAS);
		wr->wr.atomic.rkey = s->sink.rkey;
		wr->wr.atomic.compare_add = item->op == OP_FETCH_ADD ? item->add : s->cas_posted;
		wr->wr.atomic.swap = item->add;
		return;
	case OP_SHARED_ADD:
		wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr->wr.atomic.remote_addr = s->shared_addr;
		wr->wr.atomic.rkey = s->shared_rkey;
		wr->wr.atomic.compare_add = 1;
		return;
	default:
		return;
	}
	wr->wr.rdma.remote_addr =
		s->sink.addr + s->layout.writes + target % (2 * s->plan.window) * s->layout.slot;
}

/* A READ_BACK is as long as what it reads. */
static uint32_t length_of(const struct source *s, uint64_t seq, const struct load_item *item)
{
	struct load_item written;
	uint64_t target;

	if (item->op != OP_READ_BACK || !plan_write_before(&s->plan, seq, s->since, &target))
		return item->len;
	plan_item(&s->plan, target, &written);
	return written.len;
}

static bool reads(enum load_op op)
{
	return op == OP_READ || op == OP_READ_BACK || op == OP_FETCH_ADD || op == OP_CMP_SWAP ||
	       op == OP_SHARED_ADD;
}

/* One to three pieces, some of them of no bytes. */
static int pieces(struct source *s, uint8_t *p, uint32_t len, uint64_t dice, struct ibv_sge *sge)
{
	int n = len >= 64 && !(dice & 12) ? 3 : 1;
	uint32_t left = len;

	for (int i = 0; i < n; i++) {
		uint32_t part = i == n - 1 ? left : (uint32_t)(dice >> (8 + 16 * i)) % (left + 1);

		if (!part && i < n - 1)
			part = left ? 1 : 0;
		sge[i] = (struct ibv_sge){ .addr = (uintptr_t)p,
					   .length = part,
					   .lkey = s->mr->lkey };
		p += part;
		left -= part;
	}
	return n;
}

#define LIE_FROM 64u /* operations that are all right */

static void lie(struct source *s, uint64_t seq, enum load_op op, struct ibv_send_wr *wr)
{
	static const enum load_op about[] = { OP_NUM,
#define X(name, op) op,
					      LOAD_LIES(X)
#undef X
	};
	struct client *c = s->client;
	struct ibv_sge *sge = wr->sg_list;

	if (c->lie == LIE_NONE || op != about[c->lie] || seq < LIE_FROM || !sge->length)
		return;
	report_line(&c->report, "lane %u, operation %llu (%s): the lie", s->index, LL(seq),
		    load_op_str[op]);
	switch (c->lie) {
	case LIE_byte:
		((uint8_t *)sge->addr)[sge->length / 2] ^= 0x10;
		break;
	case LIE_lost:
		wr->opcode = IBV_WR_RDMA_WRITE;
		wr->wr.rdma.remote_addr = s->sink.addr;
		wr->wr.rdma.rkey = s->sink.rkey;
		/* fall through */
	case LIE_unwritten:
	case LIE_unread:
		wr->num_sge = 0;
		break;
	case LIE_stale:
		wr->wr.rdma.remote_addr += 1;
		break;
	case LIE_twice:
	case LIE_shared:
		wr->wr.atomic.compare_add *= 2;
		break;
	case LIE_undone:
		wr->wr.atomic.compare_add += 1;
		break;
	default:
		break;
	}
	c->lie = LIE_NONE;
}

static void prepare(struct source *s, uint64_t seq, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	uint32_t half = s->plan.window / 2, len;
	uint8_t *p = slot_of(s, seq);
	struct load_item item;

	plan_item(&s->plan, seq, &item);
	len = length_of(s, seq, &item);
	*wr = (struct ibv_send_wr){
		.wr_id = wr_id_of(WR_OP, s->index, s->attempt, seq),
		.sg_list = sge,
		.opcode = item.op == OP_SEND_IMM ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		.imm_data = htonl((uint32_t)seq),
	};
	if (s->plan.ud) {
		memcpy(p, &seq, sizeof(seq));
		pattern_fill(p + sizeof(seq), len - sizeof(seq), item.key, 0);
		wr->wr.ud.ah = s->ah;
		wr->wr.ud.remote_qpn = s->sink.qpn;
		wr->wr.ud.remote_qkey = LOAD_QKEY;
	} else {
		if (reads(item.op)) /* what it leaves untouched must not pass for read */
			memset(p, (int)~item.key, len);
		else
			pattern_fill(p, len, item.key, 0);
		aim(s, seq, &item, wr);
	}
	wr->num_sge = pieces(s, p, len, item.dice, sge);
	if (item.op == OP_CMP_SWAP)
		s->cas_posted = item.add;
	lie(s, seq, item.op, wr);
	if (s->plan.ud || item.dice & 1 || seq % half == half - 1)
		wr->send_flags |= IBV_SEND_SIGNALED;
	if (len <= 64 && item.dice & 2 && !reads(item.op))
		wr->send_flags |= IBV_SEND_INLINE;
}

static bool may_post(const struct source *s, uint64_t now)
{
	const struct client *c = s->client;

	if (c->ending || s->posted - s->done >= s->plan.window)
		return false;
	if (c->rate && c->issued >= (now - c->report.started) / 1000 * c->rate / 1000000)
		return false;
	if (!s->plan.ud)
		return s->posted - s->told < s->plan.window;
	return s->posted - s->told < UD_AHEAD * s->plan.window ||
	       now - s->last_posted_at > UD_GO_NS;
}

static bool post(struct source *s, uint64_t now)
{
	struct ibv_send_wr wr[BATCH], *bad = NULL;
	struct ibv_sge sge[BATCH][3];
	unsigned n = 0;
	int err;

	while (n < BATCH && may_post(s, now)) {
		prepare(s, s->posted++, &wr[n], sge[n]);
		s->client->issued++;
		if (n)
			wr[n - 1].next = &wr[n];
		n++;
	}
	if (!n)
		return false;
	if (s->done == s->posted - n)
		s->progress_at = now; /* it had nothing to do */
	s->last_posted_at = now;
	err = ibv_post_send(s->qp, wr, &bad);
	if (err) {
		/* what was not accepted was never there */
		s->posted -= n - (unsigned)(bad ? bad - wr : 0);
		failed(s, strerror(err), now);
	}
	return true;
}

int source_post_recv(struct source *s, unsigned index)
{
	struct ibv_sge sge = { .addr = (uintptr_t)s->mem + s->mem_len - 4096 +
				       index % 16 * (LOAD_GRH + ACK_LEN),
			       .length = LOAD_GRH + ACK_LEN,
			       .lkey = s->mr->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id_of(WR_RECV, s->index, s->attempt, index),
		.sg_list = s->plan.ud ? &sge : NULL,
		.num_sge = (int)s->plan.ud,
	};
	int err = ibv_post_recv(s->qp, &wr, &bad);

	if (!err)
		s->receives++;
	return -err;
}

/* An empty WRITE: is anybody there? With it all before it is complete, signalled or not. */
static void probe(struct source *s, uint64_t now)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id_of(WR_PROBE, s->index, s->attempt, s->posted),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = s->sink.addr, .rkey = s->sink.rkey },
	};

	s->client->report.probes++;
	s->probing = true;
	if (ibv_post_send(s->qp, &wr, &bad))
		failed(s, "a probe cannot be posted", now);
}

/* ---- completions --------------------------------------------------------------------------------- */

static void good(struct source *s, uint64_t now)
{
	struct load_report *r = &s->client->report;

	report_good(r, now);
	s->last_good = s->progress_at = now;
	if (s->saw_good)
		return;
	s->saw_good = true;
	if (!s->failed_at)
		return;
	report_recovery(r, now - s->failed_at);
	report_line(r, "lane %u: back after %.1f ms", s->index,
		    (double)(now - s->failed_at) / NS_PER_MS);
	s->failed_at = 0;
}

static void wrong(struct source *s, uint64_t seq, const struct load_item *item, const char *what,
		  uint64_t got, uint64_t want)
{
	report_wrong(&s->client->report, "lane %u, operation %llu (%s): %s is %#llx, not %#llx",
		     s->index, LL(seq), load_op_str[item->op], what, LL(got), LL(want));
}

static void check_read(struct source *s, uint64_t seq, const struct load_item *item)
{
	uint32_t len = length_of(s, seq, item);
	uint64_t key = plan_region_key(&s->plan, s->incarnation), at, target;
	struct load_item written;

	at = item->dice % (s->layout.region_len - item->len + 1);
	if (item->op == OP_READ_BACK && plan_write_before(&s->plan, seq, s->since, &target)) {
		plan_item(&s->plan, target, &written);
		key = written.key;
		at = 0;
	}
	if (pattern_diff(slot_of(s, seq), len, key, at) >= 0)
		wrong(s, seq, item, "the first wrong byte",
		      (uint64_t)pattern_diff(slot_of(s, seq), len, key, at), len);
}

static void check_done(struct source *s, uint64_t seq)
{
	struct client *c = s->client;
	struct load_item item;
	uint64_t old;

	plan_item(&s->plan, seq, &item);
	memcpy(&old, slot_of(s, seq), sizeof(old));
	switch (item.op) {
	case OP_READ:
	case OP_READ_BACK:
		check_read(s, seq, &item);
		break;
	case OP_FETCH_ADD:
		if (old != s->fetch)
			wrong(s, seq, &item, "the old value", old, s->fetch);
		s->fetch = old + item.add;
		break;
	case OP_CMP_SWAP:
		if (old != s->cas)
			wrong(s, seq, &item, "the old value", old, s->cas);
		s->cas = item.add;
		break;
	case OP_SHARED_ADD:
		if (old < s->shared_last)
			wrong(s, seq, &item, "the old value (at least)", old, s->shared_last);
		s->shared_last = old + 1;
		if (s->incarnation == c->incarnation)
			c->shared_done++;
		break;
	default:
		break;
	}
	c->report.ops[item.op]++;
	c->report.bytes += length_of(s, seq, &item);
}

/* From the low half of a number near done: the number. */
static uint64_t seq_of(const struct source *s, uint32_t low)
{
	return s->done + (uint32_t)(low - (uint32_t)s->done);
}

static void op_completed(struct source *s, const struct ibv_wc *wc, uint64_t now)
{
	uint64_t seq = seq_of(s, (uint32_t)wc->wr_id);
	struct load_report *r = &s->client->report;
	char why[100];

	if (seq >= s->posted) {
		report_wrong(r,
			     "lane %u: a completion of operation %llu, but %llu..%llu are posted",
			     s->index, LL(seq), LL(s->done), LL(s->posted));
		return;
	}
	/* what is before it and was not signalled is complete, whatever became of this one */
	if (s->state == SOURCE_FLUSHING && s->returned) {
		if (wc->status == IBV_WC_SUCCESS)
			report_wrong(r, "lane %u, operation %llu: completed after one that failed",
				     s->index, LL(seq));
		else if (seq != s->done + s->returned)
			report_wrong(r, "lane %u, operation %llu: flushed in the place of %llu",
				     s->index, LL(seq), LL(s->done + s->returned));
		s->returned++;
		return;
	}
	for (; s->done < seq; s->done++)
		check_done(s, s->done);
	if (wc->status != IBV_WC_SUCCESS) {
		s->returned = 1;
		if (s->state != SOURCE_UP)
			return;
		snprintf(why, sizeof(why), "%s (vendor %u)", ibv_wc_status_str(wc->status),
			 wc->vendor_err);
		failed(s, why, now);
		return;
	}
	check_done(s, s->done++);
	s->progress_at = now;
	if (s->state == SOURCE_UP && !s->plan.ud) /* a datagram that was sent has not arrived */
		good(s, now);
}

static void probed(struct source *s, const struct ibv_wc *wc, uint64_t now)
{
	uint64_t before = seq_of(s, (uint32_t)wc->wr_id);

	s->probing = false;
	if (s->state != SOURCE_UP)
		return;
	s->progress_at = now;
	for (; s->done < before; s->done++)
		check_done(s, s->done);
	if (wc->status == IBV_WC_SUCCESS)
		good(s, now);
	else
		failed(s, ibv_wc_status_str(wc->status), now);
}

static void told(struct source *s, const struct ibv_wc *wc, uint64_t now)
{
	uint32_t imm = ntohl(wc->imm_data);
	uint64_t word = ack_word(s);

	s->receives--;
	if (wc->status != IBV_WC_SUCCESS) {
		if (s->state == SOURCE_UP)
			failed(s, ibv_wc_status_str(wc->status), now);
		return;
	}
	if (s->plan.ud) {
		word = s->told + (uint32_t)(imm - (uint32_t)s->told);
		if (word > s->posted)
			return; /* of an older one */
	} else if (word > s->posted || word < s->told || (int32_t)(imm - (uint32_t)word) > 0) {
		report_wrong(&s->client->report,
			     "lane %u: the sink tells of %llu (immediate %u), %llu are posted",
			     s->index, LL(word), imm, LL(s->posted));
		return;
	}
	s->client->report.verified += word - s->told;
	s->told = word;
	s->progress_at = now;
	if (s->plan.ud)
		good(s, now);
	if (s->state == SOURCE_UP && source_post_recv(s, (unsigned)(wc->wr_id & 0xffffffff)))
		failed(s, "no receive can be posted", now);
}

void source_wc(struct source *s, const struct ibv_wc *wc, uint64_t now)
{
	if (!s->qp || wr_attempt(wc->wr_id) != (s->attempt & 0xffff))
		return;
	switch (wr_kind(wc->wr_id)) {
	case WR_OP:
		op_completed(s, wc, now);
		break;
	case WR_RECV:
		told(s, wc, now);
		break;
	case WR_PROBE:
		probed(s, wc, now);
		break;
	default:
		report_wrong(&s->client->report, "lane %u: a completion of no kind", s->index);
	}
}

/* ---- what is due ----------------------------------------------------------------------------------- */

static bool run_up(struct source *s, uint64_t now)
{
	struct client *c = s->client;
	bool idle = s->done == s->posted;
	struct load_item item;

	/* what no completion of the sink has told of yet is verified at the good-bye */
	if (c->ending && idle) {
		dev_qp_error(s->qp);
		source_down(s, now);
		return true;
	}
	if (post(s, now))
		return true;
	if (s->plan.ud && idle && s->posted - s->told > UD_AHEAD * s->plan.window &&
	    now - s->last_good > SILENCE_NS && now - s->up_at > SILENCE_NS)
		failed(s, "the sink is silent", now);
	if (!s->plan.ud && !s->probing && !(idle && s->told == s->posted) &&
	    ((c->ending && !idle) || now - s->progress_at > PROBE_NS))
		probe(s, now);
	if ((!idle || s->probing) && now - s->progress_at > c->stall_ns) {
		c->report.stalls++;
		plan_item(&s->plan, s->done, &item);
		report_wrong(&c->report,
			     "lane %u, operation %llu (%s, %u bytes): no end after %llu ms%s",
			     s->index, LL(s->done), load_op_str[item.op], item.len,
			     LL(c->stall_ns / NS_PER_MS), s->probing ? ", nor of a probe" : "");
		failed(s, "stalled", now);
	}
	return false;
}

/*
 * Every WR from the first that failed on comes back, and every receive. If none has failed, what is
 * open was complete and not signalled: then nothing comes.
 */
static bool flushed(struct source *s, uint64_t now)
{
	if (!s->receives && s->returned == s->posted - s->done)
		return true;
	if (!s->receives && !s->returned && now - s->progress_at > FLUSH_NS)
		return true;
	if (now - s->progress_at < s->client->stall_ns)
		return false;
	report_wrong(&s->client->report, "lane %u: %u of %llu WRs came back, %u receives did not",
		     s->index, s->returned, LL(s->posted - s->done), s->receives);
	return true;
}

bool source_run(struct source *s, uint64_t now)
{
	struct client *c = s->client;

	switch (s->state) {
	case SOURCE_UP:
		return run_up(s, now);
	case SOURCE_FLUSHING:
		if (!flushed(s, now))
			return false;
		source_down(s, now);
		if (c->lost)
			s->state = SOURCE_ENDED;
		return true;
	case SOURCE_DOWN:
		if (now < s->retry_at || ((!c->dev.ctx || c->dev.dead) && !c->ending))
			return false;
		if (c->lost) {
			s->state = SOURCE_ENDED;
			return true;
		}
		source_dial(s, now);
		return true;
	case SOURCE_DIALING:
		if (now > s->deadline) {
			source_attempt_failed(s, "timed out", now);
			return true;
		}
		return false;
	case SOURCE_ENDED:
		break;
	}
	return false;
}
