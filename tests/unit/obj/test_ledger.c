/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_ledger.c - records that a router leaves: what the next one finds, after a kill at any store, and of damage. */
#include "tests/rig/unit/unit.h"
#include "ffr/obj/ledger.c"

static struct ledger_view *view_of(const struct ledger *l)
{
	struct ledger_view *v = NULL;

	assert_int_equal(ledger_open(ledger_fd(l), &v), 0);
	return v;
}

/* Bytes that differ for each kind, slot and time. */
static void fill(void *rec, uint32_t kind, uint32_t n)
{
	uint8_t *p = rec;

	for (uint32_t i = 0; i < rec_bytes[kind]; i++)
		p[i] = (uint8_t)(n * 31 + i + kind);
}

static uint32_t count(struct ledger_view *v, enum ledger_kind kind)
{
	union ledger_record rec;
	uint32_t at = 0, n = 0;

	while (ledger_next(v, kind, &at, &rec))
		n++;
	return n;
}

static void the_next_router_finds_all(void **state)
{
	struct ledger *l = ledger_new(NULL);
	struct ledger_view *v;
	union ledger_record rec, got;
	uint32_t at;

	(void)state;
	assert_non_null(l);
	for (uint32_t k = 1; k < LEDGER_NUM_KINDS; k++)
		for (uint32_t n = 0; n < 100; n++) {
			uint32_t slot = ledger_slot_new(l, (enum ledger_kind)k);

			assert_true(slot);
			fill(&rec, k, n);
			ledger_write(l, slot, &rec);
		}
	v = view_of(l);
	for (uint32_t k = 1; k < LEDGER_NUM_KINDS; k++) {
		at = 0;
		for (uint32_t n = 0; n < 100; n++) {
			assert_true(ledger_next(v, (enum ledger_kind)k, &at, &got));
			fill(&rec, k, n);
			assert_memory_equal(&got, &rec, rec_bytes[k]);
		}
		assert_false(ledger_next(v, (enum ledger_kind)k, &at, &got));
	}
	assert_false(ledger_is_damaged(v));
	assert_null(ledger_barred(v));
	ledger_close(v);
	ledger_free(l);
}

static void an_empty_slot_has_no_record(void **state)
{
	struct ledger *l = ledger_new(NULL);
	struct ledger_pd pd = { .handle = 7 };
	uint32_t slot = ledger_slot_new(l, LEDGER_PD), other = ledger_slot_new(l, LEDGER_PD);
	struct ledger_view *v = view_of(l);

	(void)state;
	assert_int_equal(count(v, LEDGER_PD), 0);
	ledger_write(l, slot, &pd);
	ledger_write(l, slot, &pd);
	ledger_write(l, other, &pd);
	assert_int_equal(count(v, LEDGER_PD), 2);
	ledger_erase(l, other);
	assert_int_equal(count(v, LEDGER_PD), 1);
	ledger_slot_free(l, slot);
	assert_int_equal(count(v, LEDGER_PD), 0);
	assert_int_equal(ledger_slot_new(l, LEDGER_PD), slot);
	assert_int_equal(ledger_slot_new(NULL, LEDGER_PD), 0);
	ledger_close(v);
	ledger_free(l);
}

/* At each store of ledger_write(), the record is the old one or the new one. */
static void a_kill_leaves_the_old_or_the_new(void **state)
{
	struct ledger *l = ledger_new(NULL);
	struct ledger_mr first = { .handle = 1, .key = 11 }, second = { .handle = 1, .key = 22 }, r;
	uint32_t slot = ledger_slot_new(l, LEDGER_MR), at = 0;
	struct copy *b = copy_at(l->head, slot, 1), after;
	struct ledger_view *v;

	(void)state;
	ledger_write(l, slot, &first);
	ledger_write(l, slot, &second);
	after = *b;
	assert_int_equal(after.seq, 2);
	b->seq = 0; /* as if it were being written: any bytes */
	for (uint32_t len = 0; len <= sizeof(second); len++) {
		memset(&b->rec, 0xee, sizeof(second));
		memcpy(&b->rec, &second, len);
		v = view_of(l);
		at = 0;
		assert_true(ledger_next(v, LEDGER_MR, &at, &r));
		assert_int_equal(r.key, 11);
		assert_false(ledger_is_damaged(v));
		ledger_close(v);
	}
	b->seq = after.seq;
	v = view_of(l);
	at = 0;
	assert_true(ledger_next(v, LEDGER_MR, &at, &r));
	assert_int_equal(r.key, 22);
	ledger_close(v);
	ledger_free(l);
}

static void cursors_are_those_of_the_object(void **state)
{
	struct ledger *l = ledger_new(NULL);
	uint32_t slot = ledger_slot_new(l, LEDGER_QP), at = 0;
	struct qp *qp = ledger_live(l, slot);
	struct ledger_qp r = { .handle = 3 };
	struct ledger_view *v;

	(void)state;
	qp->sq.head = 0x12345678;
	qp->rq.head = 9;
	qp->state = IBV_QPS_RTS;
	qp->busy = true;
	ledger_write(l, slot, &r);
	v = view_of(l);
	assert_true(ledger_next(v, LEDGER_QP, &at, &r));
	assert_int_equal(at, slot);
	assert_int_equal(ledger_cursor(v, at, LEDGER_CUR_sq_head), 0x12345678);
	assert_int_equal(ledger_cursor(v, at, LEDGER_CUR_rq_head), 9);
	assert_int_equal(ledger_cursor(v, at, LEDGER_CUR_state), IBV_QPS_RTS);
	assert_int_equal(ledger_cursor(v, at, LEDGER_CUR_busy), 1);
	assert_int_equal(ledger_cursor(v, at, LEDGER_CUR_torn), 0);
	ledger_close(v);
	ledger_free(l);
}

static void a_session_says_why_it_cannot_be_restored(void **state)
{
	struct ledger *l = ledger_new(NULL);
	struct ledger_view *v;

	(void)state;
	ledger_call(l, true);
	v = view_of(l);
	assert_string_equal(ledger_barred(v), "a call was under way");
	ledger_close(v);
	ledger_call(l, false);
	ledger_event(l, true);
	v = view_of(l);
	assert_string_equal(ledger_barred(v), "its memory was being moved");
	ledger_close(v);
	ledger_event(l, false);
	ledger_bar(l, LEDGER_BAR_MEMORY);
	v = view_of(l);
	assert_string_equal(ledger_barred(v), bar_text[LEDGER_BAR_MEMORY]);
	ledger_close(v);
	ledger_bar(NULL, LEDGER_BAR_MEMORY);
	ledger_call(NULL, true);
	ledger_free(l);
}

static void another_ledger_is_refused(void **state)
{
	struct ledger *l = ledger_new(NULL);
	struct head *h = l->head;
	struct ledger_view *v = NULL;
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(ledger_open(-1, &v), -EPROTO);
	assert_int_equal(ftruncate(fd, (off_t)LEDGER_BYTES), 0);
	assert_int_equal(ledger_open(fd, &v), -EPROTO); /* it could be cut off */
	close(fd);
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, CHUNK), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(ledger_open(fd, &v), -EPROTO);
	close(fd);
	h->version++;
	assert_int_equal(ledger_open(ledger_fd(l), &v), -EPROTO);
	h->version--;
	h->num_chunks = CHUNKS + 1;
	assert_int_equal(ledger_open(ledger_fd(l), &v), -EPROTO);
	h->num_chunks = 1;
	h->kind[LEDGER_QP].slot = 0;
	assert_int_equal(ledger_open(ledger_fd(l), &v), -EPROTO);
	h->kind[LEDGER_QP].slot = CHUNK;
	h->kind[LEDGER_QP].live = CHUNK;
	assert_int_equal(ledger_open(ledger_fd(l), &v), -EPROTO);
	h->kind[LEDGER_QP].live = UNIT;
	assert_int_equal(ledger_open(ledger_fd(l), &v), -EPROTO); /* cursors lie behind that */
	ledger_free(l);
}

/*
 * Bytes changed at random, in the head and in records: the ledger is refused, or each record that is found is one that
 * was written, unless the change was of a live object, or of the kind of a chunk.
 */
static void damage_is_found(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (unsigned round = 0; round < 2000; round++) {
		struct ledger *l = ledger_new(NULL);
		struct ledger_view *v = NULL;
		union ledger_record rec;
		uint32_t at, k;
		struct copy *copy[LEDGER_NUM_KINDS];
		char text[4096];

		for (k = 1; k < LEDGER_NUM_KINDS; k++) {
			uint32_t slot = ledger_slot_new(l, (enum ledger_kind)k);

			fill(&rec, k, 1);
			ledger_write(l, slot, &rec);
			copy[k] = copy_at(l->head, slot, 0);
		}
		for (unsigned i = 0; i < 1 + round % 3; i++) {
			uint8_t *p;

			seed = seed * 1664525 + 1013904223;
			k = 1 + (seed >> 8) % (LEDGER_NUM_KINDS - 1);
			p = seed >> 31 ? (uint8_t *)copy[k] : (uint8_t *)l->head;
			p[(seed >> 12) %
			  (seed >> 31 ? copy_bytes(rec_bytes[k]) : sizeof(struct head))] ^=
				(uint8_t)(1u << (seed >> 5) % 8);
		}
		if (!ledger_open(ledger_fd(l), &v)) {
			for (k = 1; k < LEDGER_NUM_KINDS; k++)
				for (at = 0; ledger_next(v, (enum ledger_kind)k, &at, &rec);) {
					uint8_t want[sizeof(rec)];

					if (l->head->kind_of[at / (CHUNK / UNIT)] != k)
						continue;
					fill(want, k, 1);
					assert_memory_equal(&rec, want, rec_bytes[k]);
				}
			assert_true(ledger_dump(v, text, sizeof(text)) < UINT32_MAX);
			ledger_close(v);
		}
		ledger_free(l);
	}
}

static void a_dump_has_each_record(void **state)
{
	struct ledger *l = ledger_new(NULL);
	struct ledger_cq cq = { .handle = 0x10001, .depth = 0x40 };
	uint32_t slot = ledger_slot_new(l, LEDGER_CQ);
	struct ledger_view *v;
	char text[256], small[8];
	size_t len;

	(void)state;
	((struct cq *)ledger_live(l, slot))->pi = 0x55;
	ledger_write(l, slot, &cq);
	v = view_of(l);
	len = ledger_dump(v, text, sizeof(text));
	assert_true(len < sizeof(text));
	assert_non_null(strstr(text, "cq handle=10001"));
	assert_non_null(strstr(text, " cq_pi=55"));
	assert_int_equal(ledger_dump(v, small, sizeof(small)), len);
	ledger_close(v);
	ledger_free(l);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(the_next_router_finds_all),
			cmocka_unit_test(an_empty_slot_has_no_record),
			cmocka_unit_test(a_kill_leaves_the_old_or_the_new),
			cmocka_unit_test(cursors_are_those_of_the_object),
			cmocka_unit_test(a_session_says_why_it_cannot_be_restored),
			cmocka_unit_test(another_ledger_is_refused),
			cmocka_unit_test(damage_is_found),
			cmocka_unit_test(a_dump_has_each_record));
}
