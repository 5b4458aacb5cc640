/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/sqlite_rig.c ffr/lib/log.c -Wl,--wrap=sqlite3_step */
/*
 * test_store.c - the SQLite store: containers and hosts, what is unique, and that a failure at any step of
 * a change leaves what was there before.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/rig/unit/sqlite_rig.h"
#include "tests/rig/unit/unit.h"

/* ---- containers ----------------------------------------------------------------------------- */

static void test_allocate(void **state)
{
	struct lite *t = *state;
	struct ffo_container c, second = { 0 };
	struct lite_end *e;
	char text[INET6_ADDRSTRLEN];

	for (unsigned int i = 2; i <= 6; i++) {
		char name[8] = { 'c', (char)('0' + i) }, want[16];

		c = lite_cont(name, NULL);
		assert_int_equal(lite_add(t, &c), 0);
		assert_int_equal(c.num_ips, 2);
		assert_int_equal(c.lid, i - 1);
		snprintf(want, sizeof(want), "10.1.0.%u", i);
		assert_string_equal(ffo_addr_text(&c.ip[0], text), want);
		snprintf(want, sizeof(want), "fd01::%u", i);
		assert_string_equal(ffo_addr_text(&c.ip[1], text), want);
		if (i == 3)
			second = c;
	}
	c = lite_cont("x", NULL);
	e = LITE_CALL(t, container_add, &c, lite_container_done);
	assert_int_equal(e->err, -ENOSPC);
	assert_string_equal(e->why, "no IPv4 address is left for tenant \"blue\"");
	assert_int_equal(lite_del(t, &second), 0);
	assert_int_equal(lite_add(t, &c), 0); /* the lowest that is free */
	assert_string_equal(ffo_addr_text(&c.ip[0], text), "10.1.0.3");
	assert_string_equal(ffo_addr_text(&c.ip[1], text), "fd01::3");
	assert_int_equal(c.lid, 2);
}

static void test_change(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", "10.1.1.1"), was, b, got;

	assert_int_equal(lite_add(t, &a), 0);
	was = a;
	a.epoch = UINT32_MAX;
	a.mode = FFO_MODE_SOCKET;
	strcpy(a.host, "h1");
	assert_int_equal(ffo_addr_parse("10.9.9.9", &a.ip[0]), 0);
	assert_int_equal(lite_set(t, &was, &a, STORE_IF_IDLE), 0);
	lite_expect_container(t, &a);
	/* What it had is free again, what it has is not. */
	b = lite_cont("b", "10.1.1.1");
	assert_int_equal(lite_add(t, &b), 0);
	got = lite_cont("c", "10.9.9.9");
	assert_int_equal(lite_add(t, &got), -EADDRINUSE);

	/* From a state that is not so any more: nothing happens. */
	got = was;
	got.mode = FFO_MODE_ADAPTIVE;
	assert_int_equal(lite_set(t, &was, &got, 0), -EAGAIN);
	assert_int_equal(lite_del(t, &was), -EAGAIN);
	lite_expect_container(t, &a);
	assert_int_equal(lite_del(t, &a), 0);
	assert_int_equal(lite_del(t, &a), -ENOENT);
	assert_int_equal(lite_set(t, &a, &got, 0), -ENOENT);
	assert_int_equal(lite_get_id(t, a.id, &got), -ENOENT);
}

static void test_ids_are_not_used_again(void **state)
{
	struct lite *t = *state;
	uint32_t last = 0;

	for (int i = 0; i < 4; i++) {
		struct ffo_container c = lite_cont("a", "10.1.1.1");

		assert_int_equal(lite_add(t, &c), 0);
		assert_true(c.id > last);
		last = c.id;
		assert_int_equal(lite_del(t, &c), 0);
		lite_reopen(t);
	}
}

struct identity {
	int err;
	char id[STORE_ID_MAX];
	uint32_t last;
};

static void identity_told(void *arg, int err, const char *why, const char *id, uint32_t last)
{
	struct identity *i = arg;

	(void)why;
	*i = (struct identity){ .err = err, .last = last };
	snprintf(i->id, sizeof(i->id), "%s", id);
}

static void test_identity(void **state)
{
	struct ffo_container c = lite_cont("a", "10.1.1.1");
	struct identity was, now;
	struct lite *t = *state;

	store_sqlite.identity(t->s, identity_told, &was);
	assert_int_equal(was.err, 0);
	assert_int_equal(strlen(was.id), 32);
	assert_int_equal(was.last, 0);
	assert_int_equal(lite_add(t, &c), 0);
	assert_int_equal(lite_del(t, &c), 0);
	lite_reopen(t);
	store_sqlite.identity(t->s, identity_told, &now);
	assert_string_equal(now.id, was.id);
	assert_int_equal(now.last, c.id);
	store_sqlite.close(t->s);
	assert_int_equal(unlink(t->file), 0);
	assert_int_equal(lite_open(t, &t->s), 0);
	store_sqlite.identity(t->s, identity_told, &now);
	assert_string_not_equal(now.id, was.id);
	assert_int_equal(now.last, 0);
}

/* A container may keep what it had in a store that is lost. */
static void test_kept(void **state)
{
	struct ffo_container a = lite_cont("a", "10.1.1.1"), b, next;
	struct lite_end *e;
	struct lite *t = *state;

	a.id = 70;
	a.lid = 9;
	a.epoch = 4;
	b = a;
	assert_int_equal(lite_add(t, &b), 0);
	assert_true(ffo_container_same(&a, &b));
	lite_expect_container(t, &a);
	for (int i = 0; i < 3; i++) { /* its name, its id, its LID are taken */
		b = i ? lite_cont("b", "10.1.1.2") : a;
		b.id = i == 1 ? 70 : 71;
		b.lid = i == 2 ? 9 : 10;
		e = LITE_CALL(t, container_add, &b, lite_container_done);
		assert_int_equal(e->err, -EEXIST);
		assert_true(!i || strstr(e->why, i == 1 ? "\"a\" has the id 70" : "LID 9"));
	}
	next = lite_cont("c", "10.1.1.2"); /* nothing of b has stayed taken */
	assert_int_equal(lite_add(t, &next), 0);
	assert_int_equal(next.id, 71);
	assert_int_equal(next.lid, 1);
}

static void test_unique(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", "10.1.1.1"), b, was;
	struct lite_end *e;

	assert_int_equal(lite_add(t, &a), 0);
	b = lite_cont("a", "10.1.1.2");
	e = LITE_CALL(t, container_add, &b, lite_container_done);
	assert_int_equal(e->err, -EEXIST);
	assert_true(e->known && e->c.id == a.id);
	b = lite_cont("b", "10.1.1.1");
	assert_int_equal(lite_add(t, &b), -EADDRINUSE);
	strcpy(b.tenant, "red"); /* has addresses of its own */
	assert_int_equal(lite_add(t, &b), 0);
	lite_expect_container(t, &a);
	lite_expect_container(t, &b);
	/* Changing to an address that is taken: all is as it was, and what it took is free. */
	was = b = lite_cont("c", "10.1.1.3");
	assert_int_equal(lite_add(t, &was), 0);
	b = was;
	assert_int_equal(ffo_addr_parse("10.1.1.4", &b.ip[0]), 0);
	assert_int_equal(ffo_addr_parse("10.1.1.1", &b.ip[1]), 0);
	b.num_ips = 2;
	assert_int_equal(lite_set(t, &was, &b, 0), -EADDRINUSE);
	lite_expect_container(t, &was);
	b = lite_cont("d", "10.1.1.4");
	assert_int_equal(lite_add(t, &b), 0);
}

/* The file itself refuses what the caller's books let pass. */
static void test_unique_in_file(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", "10.1.1.1"), b = lite_cont("b", "10.1.1.1");

	assert_int_equal(lite_add(t, &a), 0);
	alloc_put_addr(t->alloc, "blue", &a.ip[0]);
	assert_int_equal(lite_add(t, &b), -EEXIST);
	alloc_put_lid(t->alloc, a.lid);
	b = lite_cont("b", "10.1.1.2");
	assert_int_equal(lite_add(t, &b), -EEXIST);
	assert_int_equal(alloc_take_lid(t->alloc, a.lid), 0);
	assert_int_equal(alloc_take_addr(t->alloc, "blue", &a.ip[0]), 0);
	assert_int_equal(lite_add(t, &b), 0);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

static void test_hosts(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", "10.1.1.1");
	struct lite_end *e;

	assert_int_equal(lite_add(t, &a), 0);
	assert_int_equal(lite_up(t, "h0", "1"), 0);
	assert_int_equal(lite_put_map(t, "h0", &a, 7, 1), 0);
	assert_int_equal(lite_up(t, "h0", "2"), -EEXIST);
	assert_int_equal(lite_up(t, "h0", ""), -EEXIST);
	assert_int_equal(lite_num_maps(t), 1);
	assert_int_equal(lite_up(t, "h0", "1"), 0); /* the same router: begins anew */
	assert_int_equal(lite_num_maps(t), 0);
	assert_int_equal(lite_put_map(t, "h0", &a, 7, 1), 0);
	assert_int_equal(lite_down(t, "h0", "0"), 0); /* of one that is not up any more */
	assert_int_equal(lite_num_maps(t), 1);
	assert_int_equal(lite_down(t, "h0", "1"), 0);
	assert_int_equal(lite_num_maps(t), 0);
	e = LITE_CALL(t, host_get, "h0", lite_host_done);
	assert_false(e->h.up);
	assert_true(e->h.last_seen == 1ull << 41);
	assert_int_equal(lite_put_map(t, "h0", &a, 7, 1), -ESHUTDOWN);
	assert_int_equal(lite_down(t, "h0", "1"), 0);
	assert_int_equal(lite_down(t, "h9", "1"), 0);
	assert_int_equal(lite_up(t, "h0", ""), 0);
	assert_int_equal(lite_up(t, "h0", ""), -EEXIST); /* nobody can tell the two apart */
	assert_int_equal(lite_down(t, "h0", ""), 0);
	assert_int_equal(lite_up(t, "h0", "2"), 0);
}

/* ---- lists and mappings --------------------------------------------------------------------- */

static void test_lists(void **state)
{
	struct lite *t = *state;
	uint32_t ids[6];
	struct lite_end *e;

	for (uint16_t i = 0; i < 6; i++) {
		char name[8] = { (char)('f' - i) }, ip[16];
		struct ffo_container c;

		snprintf(ip, sizeof(ip), "10.1.1.%u", i + 1);
		c = lite_cont(name, ip);
		strcpy(c.host, i % 2 ? "h1" : "h0");
		assert_int_equal(lite_add(t, &c), 0);
		ids[i] = c.id;
		assert_int_equal(lite_up(t, name, "1"), 0);
	}
	e = LITE_CALL(t, container_list, LITE_NO_NAME, ids[1], 3, lite_containers_listed);
	assert_int_equal(e->n, 3);
	assert_true(e->more);
	for (int i = 0; i < 3; i++)
		assert_int_equal(e->conts[i].id, ids[2 + i]);
	e = LITE_CALL(t, container_list, LITE_NO_NAME, ids[2], 3, lite_containers_listed);
	assert_int_equal(e->n, 3);
	assert_false(e->more);
	e = LITE_CALL(t, container_list, "h1", ids[1], 8, lite_containers_listed);
	assert_int_equal(e->n, 2);
	assert_int_equal(e->conts[0].id, ids[3]);
	assert_int_equal(e->conts[1].id, ids[5]);
	e = LITE_CALL(t, host_list, "b", 3, lite_hosts_listed);
	assert_int_equal(e->n, 3);
	assert_true(e->more);
	assert_string_equal(e->hosts[0].name, "c");
	assert_string_equal(e->hosts[2].name, "e");
	assert_true(e->hosts[2].up);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Whatever step fails, the change does not take place, and the next one does. */
static void test_fail_nth_step(void **state)
{
	static const struct {
		int rc, err;
	} faults[] = { { SQLITE_FULL, -ENOSPC },
		       { SQLITE_IOERR, -EIO },
		       { SQLITE_NOMEM, -ENOMEM } };
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", NULL), was, got;
	unsigned int n;
	int err;

	assert_int_equal(lite_add(t, &a), 0);
	assert_int_equal(lite_up(t, "h0", "1"), 0);
	assert_int_equal(lite_put_map(t, "h0", &a, 7, 1), 0);
	was = a;
	for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++)
		for (n = 1;; n++) {
			a = was;
			a.epoch++;
			strcpy(a.host, "h1");
			assert_int_equal(ffo_addr_parse("10.1.0.6", &a.ip[0]), 0);
			lite_fail_at = n;
			lite_fail_with = faults[f].rc;
			err = lite_set(t, &was, &a, STORE_IF_IDLE);
			if (lite_fail_at) { /* was not reached: the change is shorter */
				lite_fail_at = 0;
				assert_int_equal(err, 0);
				lite_expect_container(t, &a);
				got = was; /* back, for the next kind of failure */
				got.epoch = a.epoch + 1;
				assert_int_equal(lite_set(t, &a, &got, 0), 0);
				was = got;
				assert_int_equal(lite_put_map(t, "h0", &was, 7, 1), 0);
				break;
			}
			assert_int_equal(err, faults[f].err);
			lite_expect_container(t, &was);
			assert_int_equal(lite_maps(t, 0, 0, 0, 8)->maps[0].rkey, 7);
		}
	assert_true(n > 10);
	lite_reopen(t);
	lite_expect_container(t, &was);
}

/* A host goes down even if the file cannot be written: the last step is that. */
static void test_fail_host_down(void **state)
{
	struct lite *t = *state;
	struct lite_end *e;
	unsigned int n = 1;

	lite_fail_with = SQLITE_FULL;
	for (;; n++) {
		assert_int_equal(lite_up(t, "h0", "1"), 0);
		lite_fail_at = n;
		if (!lite_down(t, "h0", "1"))
			break;
		assert_int_equal(lite_fail_at, 0);
	}
	lite_fail_at = 0;
	assert_int_equal(lite_up(t, "h0", "1"), 0);
	lite_fail_at = n - 1;
	assert_int_equal(lite_down(t, "h0", "1"), -ENOSPC);
	e = LITE_CALL(t, host_get, "h0", lite_host_done);
	assert_false(e->h.up);
	assert_int_equal(lite_up(t, "h0", "2"), 0);
}

static void test_fail_reads(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", NULL), got;

	assert_int_equal(lite_add(t, &a), 0);
	assert_int_equal(lite_up(t, "h0", "1"), 0);
	assert_int_equal(lite_put_map(t, "h0", &a, 7, 1), 0);
	lite_fail_with = SQLITE_IOERR;
	for (unsigned int n = 1; n <= 3; n++) { /* the row, its addresses */
		lite_fail_at = n;
		assert_int_equal(lite_get_id(t, a.id, &got), -EIO);
		lite_fail_at = n;
		assert_int_equal(LITE_CALL(t, container_list, LITE_NO_NAME, 0, 8,
					   lite_containers_listed)
					 ->err,
				 -EIO);
	}
	lite_fail_at = 2;
	assert_int_equal(LITE_CALL(t, map_list, 0, 0, 0, 8, lite_maps_listed)->err, -EIO);
	lite_expect_container(t, &a);
}

int main(void)
{
	return UNIT_RUN(LITE_TEST(test_allocate), LITE_TEST(test_change),
			LITE_TEST(test_ids_are_not_used_again), LITE_TEST(test_identity),
			LITE_TEST(test_kept), LITE_TEST(test_unique),
			LITE_TEST(test_unique_in_file), LITE_TEST(test_hosts),
			LITE_TEST(test_lists), LITE_TEST(test_fail_nth_step),
			LITE_TEST(test_fail_host_down), LITE_TEST(test_fail_reads));
}
