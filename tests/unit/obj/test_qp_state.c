/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_qp_state.c - the QP state machine against a list of its own, written from the table of the
 * specification (IBTA 11.2.5.2) line by line. build: ffr/obj/qp_state.c
 */
#include <errno.h>
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffr/obj/qp_state.h"
#include "tests/rig/common/qp_attr.h"

/* One line: from, to, type ('*': all), attributes that must and that may be given, by letters. */
static const struct {
	const char *from, *to;
	char type; /* R(C) U(C) D(UD) * */
	const char *must, *may;
} rows[] = {
	{ "RESET", "RESET", '*', "", "" },
	{ "RESET", "INIT", 'R', "ipx", "" },
	{ "RESET", "INIT", 'U', "ipx", "" },
	{ "RESET", "INIT", 'D', "ipq", "" },
	{ "INIT", "RESET", '*', "", "" },
	{ "INIT", "ERR", '*', "", "" },
	{ "INIT", "INIT", 'R', "", "ipx" },
	{ "INIT", "INIT", 'U', "", "ipx" },
	{ "INIT", "INIT", 'D', "", "ipq" },
	{ "INIT", "RTR", 'R', "amdrDn", "Axi" },
	{ "INIT", "RTR", 'U', "amdr", "Axi" },
	{ "INIT", "RTR", 'D', "", "iq" },
	{ "RTR", "RESET", '*', "", "" },
	{ "RTR", "ERR", '*', "", "" },
	{ "RTR", "RTS", 'R', "tkNsI", "cAxnM" },
	{ "RTR", "RTS", 'U', "s", "cAxM" },
	{ "RTR", "RTS", 'D', "s", "cq" },
	{ "RTS", "RESET", '*', "", "" },
	{ "RTS", "ERR", '*', "", "" },
	{ "RTS", "RTS", 'R', "", "cxAMn" },
	{ "RTS", "RTS", 'U', "", "cxAM" },
	{ "RTS", "RTS", 'D', "", "cq" },
	{ "RTS", "SQD", '*', "", "e" },
	{ "SQD", "RESET", '*', "", "" },
	{ "SQD", "ERR", '*', "", "" },
	{ "SQD", "RTS", 'R', "", "cAxnM" },
	{ "SQD", "RTS", 'U', "", "cAxM" },
	{ "SQD", "RTS", 'D', "", "cq" },
	{ "SQD", "SQD", 'R', "", "patkNIDAxinM" },
	{ "SQD", "SQD", 'U', "", "aAxiM" },
	{ "SQD", "SQD", 'D', "", "iq" },
	{ "SQE", "RESET", '*', "", "" },
	{ "SQE", "ERR", '*', "", "" },
	{ "SQE", "RTS", 'R', "", "" },
	{ "SQE", "RTS", 'U', "", "cx" },
	{ "SQE", "RTS", 'D', "", "cq" },
	{ "ERR", "RESET", '*', "", "" },
	{ "ERR", "ERR", '*', "", "" },
};

static const struct {
	char letter;
	uint32_t bit;
} attrs[] = {
	{ 'i', IBV_QP_PKEY_INDEX },
	{ 'p', IBV_QP_PORT },
	{ 'x', IBV_QP_ACCESS_FLAGS },
	{ 'q', IBV_QP_QKEY },
	{ 'a', IBV_QP_AV },
	{ 'm', IBV_QP_PATH_MTU },
	{ 'd', IBV_QP_DEST_QPN },
	{ 'r', IBV_QP_RQ_PSN },
	{ 'D', IBV_QP_MAX_DEST_RD_ATOMIC },
	{ 'n', IBV_QP_MIN_RNR_TIMER },
	{ 'A', IBV_QP_ALT_PATH },
	{ 't', IBV_QP_TIMEOUT },
	{ 'k', IBV_QP_RETRY_CNT },
	{ 'N', IBV_QP_RNR_RETRY },
	{ 's', IBV_QP_SQ_PSN },
	{ 'I', IBV_QP_MAX_QP_RD_ATOMIC },
	{ 'c', IBV_QP_CUR_STATE },
	{ 'M', IBV_QP_PATH_MIG_STATE },
	{ 'e', IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ '-', IBV_QP_CAP },
	{ '-', IBV_QP_RATE_LIMIT },
	{ '-', 1u << 30 },
};
#define NUM_ATTRS (sizeof(attrs) / sizeof(attrs[0]))

static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
static const struct {
	char letter;
	enum ibv_qp_type type;
} types[] = { { 'R', IBV_QPT_RC }, { 'U', IBV_QPT_UC }, { 'D', IBV_QPT_UD } };

static const struct qp_limits limits = {
	.num_ports = 1, .num_gids = 2, .max_rd_atomic = 16, .max_dest_rd_atomic = 8
};

/* Attributes that are right wherever they are allowed. */
static struct ff_qp_attr good(enum ibv_qp_state cur, enum ibv_qp_state next)
{
	struct ff_qp_attr a = qp_attr_usual(next, 0xffffff);

	a.cur_qp_state = (uint8_t)cur;
	a.ah.dgid[0] = 1;
	a.ah.sgid_index = 1;
	a.max_rd_atomic = 16;
	a.max_dest_rd_atomic = 8;
	a.rq_psn = 0xffffff;
	a.path_mig_state = IBV_MIG_MIGRATED;
	return a;
}

static uint32_t letters(const char *s)
{
	uint32_t mask = 0;

	for (size_t i = 0; i < NUM_ATTRS; i++)
		if (strchr(s, attrs[i].letter))
			mask |= attrs[i].bit;
	return mask;
}

static int find(int from, int to, char type)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].from, names[from]) && !strcmp(rows[i].to, names[to]) &&
		    (rows[i].type == '*' || rows[i].type == type))
			return (int)i;
	return -1;
}

static int check(enum ibv_qp_type type, int from, int to, uint32_t mask)
{
	struct ff_qp_attr a = good((enum ibv_qp_state)from, (enum ibv_qp_state)to);
	enum ibv_qp_state next;
	int err = qp_state_check(type, (enum ibv_qp_state)from, mask, &a, &limits, &next);

	assert_int_equal(next, mask & IBV_QP_STATE ? to : from);
	return err;
}

/* What the check says of a mask: alternate paths are known but not there. */
static int expected(uint32_t mask, uint32_t must, uint32_t may)
{
	if ((mask & must) != must || mask & ~(must | may | IBV_QP_STATE))
		return -EINVAL;
	return mask & IBV_QP_ALT_PATH ? -EOPNOTSUPP : 0;
}

static void check_masks(int from, int to, enum ibv_qp_type type, uint32_t must, uint32_t may)
{
	uint32_t whole = IBV_QP_STATE | must, mask;

	assert_int_equal(check(type, from, to, whole), 0);
	assert_int_equal(check(type, from, to, whole | may), expected(whole | may, must, may));
	for (size_t i = 0; i < NUM_ATTRS; i++) {
		mask = whole ^ attrs[i].bit;
		assert_int_equal(check(type, from, to, mask), expected(mask, must, may));
		mask = (whole | may) ^ attrs[i].bit;
		assert_int_equal(check(type, from, to, mask), expected(mask, must, may));
		for (size_t j = 0; j < NUM_ATTRS; j++) {
			mask = whole ^ attrs[i].bit ^ attrs[j].bit;
			if (i != j)
				assert_int_equal(check(type, from, to, mask),
						 expected(mask, must, may));
		}
	}
}

static void every_transition_is_as_listed(void **state)
{
	(void)state;
	for (int from = 0; from < 7; from++) {
		for (int to = 0; to < 7; to++) {
			for (int t = 0; t < 3; t++) {
				int row = find(from, to, types[t].letter);

				if (row >= 0) {
					check_masks(from, to, types[t].type,
						    letters(rows[row].must),
						    letters(rows[row].may));
					continue;
				}
				assert_int_equal(check(types[t].type, from, to, IBV_QP_STATE),
						 -EINVAL);
				assert_int_equal(check(types[t].type, from, to, 0x1fffff), -EINVAL);
			}
		}
	}
}

static void without_a_state_it_stays(void **state)
{
	(void)state;
	assert_int_equal(check(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(check(IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, IBV_QP_TIMEOUT), 0);
	assert_int_equal(check(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTR, IBV_QP_ACCESS_FLAGS), -EINVAL);
	assert_int_equal(check(IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, IBV_QP_QKEY), 0);
}

static void other_types_and_states_are_refused(void **state)
{
	struct ff_qp_attr a = good(IBV_QPS_RESET, IBV_QPS_RESET);
	enum ibv_qp_state next;

	(void)state;
	assert_int_equal(qp_state_check(IBV_QPT_RAW_PACKET, IBV_QPS_RESET, IBV_QP_STATE, &a,
					&limits, &next),
			 -EINVAL);
	for (int to = 7; to < 256; to++) {
		a.qp_state = (uint8_t)to;
		assert_int_equal(qp_state_check(IBV_QPT_RC, IBV_QPS_ERR, IBV_QP_STATE, &a, &limits,
						&next),
				 -EINVAL);
	}
}

static void a_wrong_current_state_is_refused(void **state)
{
	struct ff_qp_attr a = good(IBV_QPS_RTR, IBV_QPS_RTS);
	enum ibv_qp_state next;

	(void)state;
	assert_int_equal(qp_state_check(IBV_QPT_UD, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_CUR_STATE,
					&a, &limits, &next),
			 -EINVAL);
	a.cur_qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_state_check(IBV_QPT_UD, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_CUR_STATE,
					&a, &limits, &next),
			 0);
}

/* SQD -> SQD of an RC QP takes nearly every attribute: ranges are tried there. */
static int sqd(uint32_t bit, const struct ff_qp_attr *a)
{
	enum ibv_qp_state next;

	return qp_state_check(IBV_QPT_RC, IBV_QPS_SQD, bit, a, &limits, &next);
}

#define RANGE(bit, field, lowest, highest)                                                         \
	do {                                                                                       \
		struct ff_qp_attr a = good(IBV_QPS_SQD, IBV_QPS_SQD);                              \
		a.field = lowest;                                                                  \
		assert_int_equal(sqd(bit, &a), 0);                                                 \
		a.field = highest;                                                                 \
		assert_int_equal(sqd(bit, &a), 0);                                                 \
		a.field = (highest) + 1;                                                           \
		assert_int_equal(sqd(bit, &a), -EINVAL);                                           \
		assert_int_equal(sqd(IBV_QP_ACCESS_FLAGS, &a), 0); /* not named: ignored */        \
	} while (0)

static void attributes_out_of_range_are_refused(void **state)
{
	struct ff_qp_attr a = good(IBV_QPS_INIT, IBV_QPS_RTR);
	const uint32_t rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN;
	enum ibv_qp_state next;

	(void)state;
	RANGE(IBV_QP_TIMEOUT, timeout, 0, 31);
	RANGE(IBV_QP_RETRY_CNT, retry_cnt, 0, 7);
	RANGE(IBV_QP_RNR_RETRY, rnr_retry, 0, 7);
	RANGE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer, 0, 31);
	RANGE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, 0, limits.max_rd_atomic);
	RANGE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, 0, limits.max_dest_rd_atomic);
	RANGE(IBV_QP_PORT, port_num, 1, 1);
	RANGE(IBV_QP_PKEY_INDEX, pkey_index, 0, 0);
	a.port_num = 0;
	assert_int_equal(sqd(IBV_QP_PORT, &a), -EINVAL);
	a.path_mig_state = IBV_MIG_ARMED;
	assert_int_equal(sqd(IBV_QP_PATH_MIG_STATE, &a), -EOPNOTSUPP);
	a.qp_access_flags = 1u << 31;
	assert_int_equal(sqd(IBV_QP_ACCESS_FLAGS, &a), -EINVAL);

	assert_int_equal(qp_state_check(IBV_QPT_UC, IBV_QPS_INIT, rtr, &a, &limits, &next), 0);
	for (int mtu = 0; mtu < 256; mtu++) {
		a.path_mtu = (uint8_t)mtu;
		assert_int_equal(qp_state_check(IBV_QPT_UC, IBV_QPS_INIT, rtr, &a, &limits, &next),
				 mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 0 : -EINVAL);
	}
	a.path_mtu = IBV_MTU_4096;
	a.dest_qp_num = 0x1000000;
	assert_int_equal(qp_state_check(IBV_QPT_UC, IBV_QPS_INIT, rtr, &a, &limits, &next),
			 -EINVAL);
}

static void address_vectors_are_checked(void **state)
{
	struct ff_ah_attr ah = { .dlid = 1, .port_num = 1 };

	(void)state;
	assert_int_equal(ah_attr_check(&ah, &limits), 0);
	ah.dlid = 0xbfff;
	assert_int_equal(ah_attr_check(&ah, &limits), 0);
	ah.dlid = 0xc000; /* multicast */
	assert_int_equal(ah_attr_check(&ah, &limits), -EINVAL);
	ah.dlid = 0;
	assert_int_equal(ah_attr_check(&ah, &limits), -EINVAL);
	ah.is_global = 1; /* the GID is all zeros */
	assert_int_equal(ah_attr_check(&ah, &limits), -EINVAL);
	ah.dgid[15] = 1;
	assert_int_equal(ah_attr_check(&ah, &limits), 0);
	ah.sgid_index = limits.num_gids;
	assert_int_equal(ah_attr_check(&ah, &limits), -EINVAL);
	ah.sgid_index = 0;
	ah.port_num = 0;
	assert_int_equal(ah_attr_check(&ah, &limits), -EINVAL);
	ah.port_num = 2;
	assert_int_equal(ah_attr_check(&ah, &limits), -EINVAL);
}

static void only_named_attributes_are_stored(void **state)
{
	struct ff_qp_attr from, to = { 0 }, none = { 0 };

	(void)state;
	memset(&from, 0xff, sizeof(from));
	qp_attr_store(&to, 0, &from);
	assert_memory_equal(&to, &none, sizeof(to));
	qp_attr_store(&to, IBV_QP_TIMEOUT | IBV_QP_AV | IBV_QP_RQ_PSN, &from);
	assert_int_equal(to.timeout, 0xff);
	assert_memory_equal(&to.ah, &from.ah, sizeof(to.ah));
	assert_int_equal(to.rq_psn, 0xffffff); /* cut to 24 bits */
	assert_int_equal(to.sq_psn, 0);
	assert_int_equal(to.retry_cnt, 0);
	assert_int_equal(to.qp_state, 0); /* never this function's */
	qp_attr_store(&to, 0xffffffff, &from);
	assert_int_equal(to.sq_psn, 0xffffff);
	assert_int_equal(to.qp_state, 0);
	assert_int_equal(to.cap.max_send_wr, 0);
	assert_int_equal(to.dest_qp_num, from.dest_qp_num);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(every_transition_is_as_listed),
			cmocka_unit_test(without_a_state_it_stays),
			cmocka_unit_test(other_types_and_states_are_refused),
			cmocka_unit_test(a_wrong_current_state_is_refused),
			cmocka_unit_test(attributes_out_of_range_are_refused),
			cmocka_unit_test(address_vectors_are_checked),
			cmocka_unit_test(only_named_attributes_are_stored));
}
