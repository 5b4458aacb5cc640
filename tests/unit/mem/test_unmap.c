/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_unmap.c - ffr/mem/unmap.c: what is unmapped at once, on a thread, and one after the other. What is charged is
 * the test's.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "tests/rig/unit/unit.h"
#include "ffr/mem/stall.h"

static bool owes;
static _Atomic uint64_t next_wait; /* ns: what the next munmap() took */
static uint64_t charged;

static void test_begin(struct stall_wait *w)
{
	*w = (struct stall_wait){ 0 };
}

static uint64_t test_wait(const struct stall_wait *w)
{
	(void)w;
	return next_wait;
}

static void test_charge(struct container *c, uint64_t ns)
{
	(void)c;
	charged += ns;
}

static bool test_maps_no_file(const struct container *c)
{
	return owes || c->stall.unmaps;
}

#define stall_wait_begin   test_begin
#define stall_waited	   test_wait
#define stall_charge	   test_charge
#define stall_maps_no_file test_maps_no_file
#include "ffr/mem/unmap.c"

static uv_loop_t loop;
static struct mem m;
static struct container c;
static struct session s;

static int setup(void **state)
{
	(void)state;
	assert_int_equal(uv_loop_init(&loop), 0);
	memset(&m, 0, sizeof(m));
	assert_int_equal(mem_init(&m, &loop), 0);
	c = (struct container){ .name = "web" };
	s = (struct session){ .cont = &c, .mem.later = &m };
	owes = false;
	next_wait = charged = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mem_close(&m);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(LIST_EMPTY(&m.remains));
	assert_int_equal(uv_loop_close(&loop), 0);
	return 0;
}

static void *map(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static bool is_mapped(void *p)
{
	return !msync(p, FF_PAGE, MS_ASYNC);
}

static void run_until_gone(void *p)
{
	while (is_mapped(p))
		uv_run(&loop, UV_RUN_ONCE);
}

/* The timer is due. */
static void due(void)
{
	assert_true(uv_is_active((uv_handle_t *)&m.timer));
	uv_timer_stop(&m.timer);
	on_timer(&m.timer);
}

static void who_owes_nothing(void **state)
{
	void *small = map(FF_PAGE), *large = map(HERE_MAX + FF_PAGE);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	next_wait = 7;
	unmap_later(&s, small, FF_PAGE, fd);
	assert_false(is_mapped(small));
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(charged, 7);
	unmap_later(&s, large, HERE_MAX + FF_PAGE, -1);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_false(is_mapped(large));
	assert_int_equal(charged, 14);
	assert_int_equal(c.stall.unmaps, 0);
	/* a session without a loop does all at once */
	s.mem.later = NULL;
	owes = true;
	large = map(HERE_MAX + FF_PAGE);
	unmap_later(&s, large, HERE_MAX + FF_PAGE, -1);
	assert_false(is_mapped(large));
}

/* One at a time, in order; as long as some wait, those that come later do, too. */
static void who_owes_waits(void **state)
{
	void *p[3];

	(void)state;
	owes = true;
	for (int i = 0; i < 3; i++) {
		p[i] = map(FF_PAGE);
		unmap_later(&s, p[i], FF_PAGE, -1);
		owes = false;
	}
	assert_int_equal(c.stall.unmaps, 3);
	assert_int_equal(uv_timer_get_due_in(&m.timer), FIRST_MS);
	next_wait = 250000000;
	due();
	while (c.stall.unmaps == 3)
		uv_run(&loop, UV_RUN_ONCE);
	assert_false(is_mapped(p[0]));
	assert_true(is_mapped(p[1]));
	assert_true(uv_timer_get_due_in(&m.timer) > 20000); /* since that one took long */
	next_wait = 0;
	due(); /* the third one follows at once */
	assert_true(is_mapped(p[2]));
	while (c.stall.unmaps)
		uv_run(&loop, UV_RUN_ONCE);
	assert_false(is_mapped(p[1]));
	assert_false(is_mapped(p[2]));
	assert_int_equal(charged, 250000000);
	assert_false(uv_is_active((uv_handle_t *)&m.timer));
	/* the list is empty: at once again */
	p[0] = map(FF_PAGE);
	unmap_later(&s, p[0], FF_PAGE, -1);
	assert_false(is_mapped(p[0]));
}

/* Its container goes while one waits and one is being unmapped. */
static void the_container_goes(void **state)
{
	void *p[2] = { map(FF_PAGE), map(FF_PAGE) };

	(void)state;
	owes = true;
	for (int i = 0; i < 2; i++)
		unmap_later(&s, p[i], FF_PAGE, -1);
	next_wait = 50000000;
	due();
	mem_container_gone(&m, &c);
	memset(&c, 0xff, sizeof(c));
	while (!uv_is_active((uv_handle_t *)&m.timer))
		uv_run(&loop, UV_RUN_ONCE);
	assert_false(is_mapped(p[0]));
	assert_true(is_mapped(p[1]));
	due();
	run_until_gone(p[1]);
	assert_int_equal(charged, 0);
}

/* The router ends while some wait: teardown() finds nothing left. */
static void the_router_ends(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	void *p[2] = { map(FF_PAGE), map(FF_PAGE) };

	(void)state;
	owes = true;
	for (int i = 0; i < 2; i++)
		unmap_later(&s, p[i], FF_PAGE, i ? fd : -1);
	due();
	mem_close(&m);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(LIST_EMPTY(&m.remains));
	assert_false(is_mapped(p[0]));
	munmap(p[1], FF_PAGE);
	memset(&m, 0, sizeof(m));
	assert_int_equal(mem_init(&m, &loop), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	return UNIT_RUN(T(who_owes_nothing), T(who_owes_waits), T(the_container_goes),
			T(the_router_ends));
}
