/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_map.c - ffr/dir/map.c: what may be reached by which rkey, on virtual time; how the rows
 * come, go and are told anew; and how long a look-up takes.
 * build: tests/rig/unit/dir_rig.c tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c ffr/dir/dir.c ffr/dir/sub.c ffr/dir/event.c ffr/dir/map.c ffr/dir/policy.c
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/dir_rig.h"

#define READ  IBV_ACCESS_REMOTE_READ
#define WRITE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE)
#define EPOCH 3

static struct fast *f;
static struct remote *nine;

static void resolve_nine(void)
{
	expect(FFO_OP_RESOLVE, "{'tenant':'t','ip':'10.0.0.9'}");
	answer("{'container':%s,'host':%s}", cont_text(9, "t", "10.0.0.9", "h1", EPOCH),
	       host_text("h1", true));
	expect(FFO_OP_RESOLVE, "{'container':9}");
	answer("{'container':%s,'host':%s}", cont_text(9, "t", "10.0.0.9", "h1", EPOCH),
	       host_text("h1", true));
}

/* Container 9 of another host; there is a reference to it. */
static int setup(void **state)
{
	struct container *here;

	if (dir_setup(state))
		return -1;
	f = dir_rig.rig.f;
	path(0, 9, &here, &nine);
	resolve_nine();
	path(0, 9, &here, &nine);
	remote_get(nine);
	told_any();
	return 0;
}

static int teardown(void **state)
{
	remote_put(f, nine);
	return dir_teardown(state);
}

/* "[container, rkey, session, addr, length, access, shadow, key, epoch]" */
static char *row(char *buf, uint32_t rkey, uint64_t addr, uint64_t len, uint32_t access,
		 uint32_t epoch)
{
	sprintf(buf, "[9,%u,1,%lld,%lld,%u,0,%u,%u]", rkey, (long long)addr, (long long)len, access,
		rkey, epoch);
	return buf;
}

static void map(bool reset, bool synced, const char *put, const char *del)
{
	event("{'event':'map','container':9,'epoch':%d,'reset':%s,'put':[%s],'del':[%s],"
	      "'synced':%s}",
	      EPOCH, reset ? "true" : "false", put, del, synced ? "true" : "false");
}

static void put(uint32_t rkey, uint64_t addr, uint64_t len, uint32_t access)
{
	char buf[128];

	map(false, true, row(buf, rkey, addr, len, access, EPOCH), "");
}

static enum map_answer ask(uint32_t rkey, uint64_t addr, uint64_t len, uint32_t access)
{
	return dir_map(f, nine, rkey, addr, len, access);
}

/* Have it watched, with nothing in it. */
static void watch(void)
{
	assert_int_equal(ask(1, 0, 1, 0), MAP_WAIT);
	expect(FFO_OP_MAP_WATCH, "{'container':9}");
	answer("{}");
	map(true, true, "", "");
	told_any();
}

static void rows_are_exact(void **state)
{
	(void)state;
	watch();
	put(5, 0x1000, 0x100, READ);
	put(6, 0x1000, 0x100, WRITE);
	put(7, -0x100ull, 0x100, READ); /* up to the last byte that there is */
	assert_int_equal(ask(5, 0x1000, 0x100, READ), MAP_OK);
	assert_int_equal(ask(5, 0x10ff, 1, READ), MAP_OK);
	assert_int_equal(ask(5, 0x1000, 0, READ), MAP_OK);
	assert_int_equal(ask(5, 0x1100, 0, READ), MAP_OK);
	assert_int_equal(ask(6, 0x1000, 8, IBV_ACCESS_REMOTE_WRITE), MAP_OK);
	assert_int_equal(ask(7, -0x100ull, 0x100, READ), MAP_OK);
	assert_int_equal(ask(7, -1ull, 1, READ), MAP_OK);
	/* what does not fit is waited for, shortly: it may be about to change */
	assert_int_equal(ask(5, 0x1000, 0x101, READ), MAP_WAIT);
	assert_int_equal(ask(5, 0xfff, 1, READ), MAP_WAIT);
	assert_int_equal(ask(5, 0x1100, 1, READ), MAP_WAIT);
	assert_int_equal(ask(5, 0x1001, -1ull, READ), MAP_WAIT);
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_WAIT);
	assert_int_equal(ask(7, -1ull, 2, READ), MAP_WAIT);
	assert_int_equal(ask(7, 0, 1, READ), MAP_WAIT);
	assert_int_equal(ask(5, 0x1000, 8, READ | IBV_ACCESS_REMOTE_ATOMIC), MAP_WAIT);
	rig_advance(&dir_rig.rig, 100 * NS_PER_MS);
	assert_true(told(nine));
	assert_int_equal(ask(5, 0x1000, 0x101, READ), MAP_REFUSED);
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_REFUSED);
	assert_int_equal(ask(7, 0, 1, READ), MAP_REFUSED);
	assert_int_equal(ask(5, 0x1000, 0x100, READ), MAP_OK);
	assert_int_equal(ask(0, 0x1000, 1, READ), MAP_REFUSED);
}

/* The peer was told of an rkey by the program, sooner than by the orchestrator. */
static void who_comes_too_early_waits(void **state)
{
	(void)state;
	watch();
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_WAIT);
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_WAIT);
	rig_advance(&dir_rig.rig, 900 * NS_PER_MS);
	assert_int_equal(told_any(), 0);
	put(77, 0x1000, 8, READ); /* another one */
	assert_int_equal(told_any(), 0);
	put(5, 0x1000, 8, READ);
	assert_true(told(nine));
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_OK);
	put(5, 0x1000, 8, READ); /* nobody waits any more */
	assert_int_equal(told_any(), 0);
}

static void not_forever(void **state)
{
	(void)state;
	watch();
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_WAIT);
	rig_advance(&dir_rig.rig, 999 * NS_PER_MS);
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_WAIT);
	told_any();
	rig_advance(&dir_rig.rig, NS_PER_MS);
	assert_true(told(nine));
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_REFUSED);
	rig_advance(&dir_rig.rig, 1000 * NS_PER_MS); /* others who waited for it learn it, too */
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_REFUSED);
	rig_advance(&dir_rig.rig, 1000 * NS_PER_MS);
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_WAIT); /* a new try */
	rig_advance(&dir_rig.rig, 500 * NS_PER_MS);
	put(5, 0x1000, 8, READ);
	map(false, true, "", "5");
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_WAIT); /* it was there: it may come again */
}

static void longer_while_not_all_is_known(void **state)
{
	(void)state;
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_WAIT);
	expect(FFO_OP_MAP_WATCH, "{'container':9}");
	answer("{}");
	rig_advance(&dir_rig.rig, 3999 * NS_PER_MS);
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_WAIT);
	rig_advance(&dir_rig.rig, NS_PER_MS);
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_REFUSED);
}

static void many_may_be_waited_for_but_not_all(void **state)
{
	(void)state;
	watch();
	for (uint32_t i = 1; i <= 5000; i++)
		assert_int_equal(ask(i << 8, 0, 1, READ), MAP_WAIT);
	rig_advance(&dir_rig.rig, 500 * NS_PER_MS);
	assert_int_equal(ask(1 << 8, 0, 1, READ), MAP_WAIT);
	rig_advance(&dir_rig.rig, 500 * NS_PER_MS);
	assert_true(told(nine));
	/* The first rkey was forgotten for the later ones, so its time began again. */
	assert_int_equal(ask(1 << 8, 0, 1, READ), MAP_WAIT);
	assert_int_equal(ask(5000 << 8, 0, 1, READ), MAP_REFUSED);
	rig_advance(&dir_rig.rig, 3000 * NS_PER_MS);
	assert_int_equal(ask(5000 << 8, 0, 1, READ), MAP_WAIT);
}

/* A list beyond 2^20 rows is refused before memory is taken for it. */
static void a_container_has_only_so_many_rows(void **state)
{
	(void)state;
	watch();
	assert_int_equal(maps_reserve(nine->maps, (1u << 20) + 1), -E2BIG);
	put(5, 0x1000, 8, READ);
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_OK);
}

static void only_rows_of_the_epoch_count(void **state)
{
	char buf[128];

	(void)state;
	watch();
	map(false, true, row(buf, 5, 0x1000, 8, READ, EPOCH - 1), "");
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_WAIT);
	put(6, 0x1000, 8, READ);
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_OK);
	event("{'event':'resolve','id':9,'container':%s,'host':%s}",
	      cont_text(9, "t", "10.0.0.9", "h2", EPOCH + 1), host_text("h2", true));
	assert_true(told(nine));
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_WAIT); /* of before the move */
	event("{'event':'map','container':9,'epoch':%d,'reset':true,'put':[%s],'del':[],"
	      "'synced':true}",
	      EPOCH + 1, row(buf, 6, 0x1000, 8, READ, EPOCH + 1));
	assert_true(told(nine));
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_OK);
	/* an event of the new epoch forgets the old one's rows without being told to */
	event("{'event':'map','container':9,'epoch':%d,'reset':false,'put':[],'del':[],"
	      "'synced':true}",
	      EPOCH + 2);
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_WAIT);
}

/* The orchestrator was away; what is known is used until the list is told again, and no longer. */
static void the_list_is_told_anew(void **state)
{
	char buf[128];

	(void)state;
	watch();
	put(5, 0x1000, 8, READ);
	put(6, 0x1000, 8, READ);
	lose_orchestrator();
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_OK);
	find_orchestrator();
	resolve_nine();
	expect(FFO_OP_MAP_WATCH, "{'container':9}");
	answer("{}");
	map(true, false, row(buf, 7, 0x1000, 8, READ, EPOCH), "");
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_OK);
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_OK);
	assert_int_equal(ask(7, 0x1000, 8, READ), MAP_OK);
	map(false, false, row(buf, 8, 0x1000, 8, READ, EPOCH), "");
	map(false, false, "", "5,8"); /* changes while it is told, of the old list and the new */
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_WAIT);
	assert_int_equal(ask(8, 0x1000, 8, READ), MAP_WAIT);
	map(false, true, "", "");
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_WAIT);
	assert_int_equal(ask(7, 0x1000, 8, READ), MAP_OK);
}

/* Rows at random, beside a plain list of them. */
static void rows_come_and_go(void **state)
{
	enum { KEYS = 3000, ROUNDS = 20000 };
	static uint64_t length[KEYS];
	char buf[128];

	(void)state;
	watch();
	srand(3);
	memset(length, 0, sizeof(length));
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t k = (uint32_t)rand() % KEYS, rkey = (k + 1) << 8;

		if (rand() % 3) {
			length[k] = 1 + (uint64_t)(rand() % 100);
			put(rkey, 0x1000, length[k], READ);
		} else {
			length[k] = 0;
			sprintf(buf, "%u", rkey);
			map(false, true, "", buf);
		}
	}
	for (uint32_t k = 0; k < KEYS; k++) {
		uint32_t rkey = (k + 1) << 8;

		if (length[k])
			assert_int_equal(ask(rkey, 0x1000, length[k], READ), MAP_OK);
		assert_int_equal(ask(rkey, 0x1000, length[k] + 1, READ), MAP_WAIT);
	}
}

/* Several events' worth of rows: a table that grows, and the time that a look-up takes in it. */
static void looking_up_is_quick(void **state)
{
	enum { ROWS = 60000, LOOKS = 1000000 };
	uint32_t *keys = calloc(ROWS, sizeof(*keys)), hits = 0;
	char *text = malloc(1024 * 96), *p;
	uint64_t t;

	(void)state;
	watch();
	srand(5);
	for (uint32_t i = 0; i < ROWS;) {
		p = text;
		for (int n = 0; n < 1000 && i < ROWS; n++, i++) {
			keys[i] = (uint32_t)rand() << 8 | 1;
			p += strlen(row(p, keys[i], 0x1000, 0x1000, READ, EPOCH));
			*p++ = ',';
		}
		p[-1] = '\0';
		map(false, i == ROWS, text, "");
	}
	t = fast_clock();
	for (uint32_t i = 0; i < LOOKS; i++)
		hits += ask(keys[i * 7919u % ROWS], 0x1000 + i % 4096, 1, READ) == MAP_OK;
	t = fast_clock() - t;
	assert_int_equal(hits, LOOKS);
	print_message("dir_map: %.1f ns in %d rows\n", (double)t / LOOKS, ROWS);
	t = fast_clock();
	for (uint32_t i = 0; i < LOOKS; i++)
		hits += ask(keys[i % 16], 0x1000, 8, READ) == MAP_OK;
	t = fast_clock() - t;
	print_message("dir_map: %.1f ns, the same few\n", (double)t / LOOKS);
	free(text);
	free(keys);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

/*
 * The orchestrator is away from here, or from the other host: what is known of the mappings, or is not, refuses nothing. The
 * host that has the memory is asked.
 */
static void nothing_is_refused_offline(void **state)
{
	(void)state;
	watch();
	put(5, 0x1000, 0x100, READ);
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_WAIT);
	lose_orchestrator();
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_OK);
	assert_int_equal(ask(5, 0x1000, 8, IBV_ACCESS_REMOTE_WRITE), MAP_OK);
	assert_int_equal(ask(0, 0x1000, 8, READ), MAP_REFUSED); /* no key at all */
}

static void nothing_is_refused_of_a_host_that_is_offline(void **state)
{
	(void)state;
	watch();
	put(5, 0x1000, 0x100, READ);
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_WAIT);
	event("{'event':'resolve','id':9,'container':%s,'host':%s}",
	      cont_text(9, "t", "10.0.0.9", "h1", EPOCH), host_text("h1", false));
	assert_int_equal(ask(6, 0x1000, 8, READ), MAP_OK);
	map(false, true, "", "5"); /* its rows went with its lease */
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_OK);
	event("{'event':'resolve','id':9,'container':%s,'host':%s}",
	      cont_text(9, "t", "10.0.0.9", "h1", EPOCH), host_text("h1", true));
	assert_int_equal(ask(7, 0x1000, 8, READ), MAP_WAIT);
	put(5, 0x1000, 0x100, READ);
	assert_int_equal(ask(5, 0x1000, 8, READ), MAP_OK);
}

int main(void)
{
	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(T(nothing_is_refused_offline),
			T(nothing_is_refused_of_a_host_that_is_offline), T(rows_are_exact),
			T(who_comes_too_early_waits), T(not_forever),
			T(longer_while_not_all_is_known), T(many_may_be_waited_for_but_not_all),
			T(a_container_has_only_so_many_rows), T(only_rows_of_the_epoch_count),
			T(the_list_is_told_anew), T(rows_come_and_go), T(looking_up_is_quick));
}
