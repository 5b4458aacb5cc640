/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_populate.c - ffr/mem/populate.c: registering much memory does not keep the other clients waiting.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 *
 * threads: yes
 */
#include <fcntl.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/mem/watch.h"
#include "tests/rig/unit/ctl_calls.h"

#define LEN ((uint64_t)64 << 20)

static struct ctl_rig *const g = &call_rig;
static uint8_t somewhere[UNIT_PAGE_MAX];

/* How many pages of [p, + len) have a page table entry in this process. */
static uint64_t present(const uint8_t *p, uint64_t len)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t n = 0, e[512];

	assert_true(fd >= 0);
	for (uint64_t at = 0; at < len; at += sizeof(e) / sizeof(e[0]) * FF_PAGE) {
		off_t off = (off_t)(((uintptr_t)p + at) / FF_PAGE * sizeof(e[0]));

		assert_int_equal(pread(fd, e, sizeof(e), off), sizeof(e));
		for (size_t i = 0; i < sizeof(e) / sizeof(e[0]); i++)
			n += e[i] >> 63;
	}
	close(fd);
	return n;
}

/* What the router has of a client's shadow memory, and the file. */
struct mem_of {
	uint8_t *map;
	int file;
};

/* A client with LEN bytes of shadow memory, `there` of them its pages, which registers all. */
static int client_registers(struct mem_of *m, uint64_t there, struct ff_reg_mr_resp *resp)
{
	struct ff_reg_mr_req req = { (uintptr_t)somewhere, LEN, 0, 0, 0 };
	struct ff_mr_run run = { .kind = FF_RUN_SHADOW, .len = LEN };
	int sock = call_client(g, 0);
	struct session *ses = LIST_FIRST(&g->c[0]->sessions);
	struct region *r;

	req.pd = call_pd(g, sock);
	m->file = call_watch_pages(g, sock);
	assert_int_equal(call_place_pages(g, sock, LEN, &run.off), 0);
	req.addr = run.va = (uintptr_t)somewhere & ~(uintptr_t)(FF_PAGE - 1);
	r = pages_get(ses, run.off, LEN, &m->map);
	assert_non_null(r);
	pages_put(ses, r);
	if (there)
		assert_int_equal(fallocate(m->file, 0, (off_t)run.off, (off_t)there), 0);
	assert_int_equal(rig_call(g, sock, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1,
				  resp, sizeof(*resp), NULL, NULL),
			 0);
	return sock;
}

/* A client with LEN bytes of shadow memory, all of it registered. */
static int client_with_memory(struct mem_of *m)
{
	struct ff_reg_mr_resp resp;
	int sock = client_registers(m, LEN, &resp);

	assert_int_equal(resp.zero_copy, LEN);
	return sock;
}

static void others_are_served_meanwhile(void **state)
{
	struct mem_of seg;
	int sock, other = call_client(g, 1);
	uint64_t n;

	(void)state;
	sock = client_with_memory(&seg);
	n = present(seg.map, LEN);
	assert_true(n > 0 && n < LEN / FF_PAGE);
	call_pd(g, other);
	assert_true(present(seg.map, LEN) < LEN / FF_PAGE);
	assert_non_null(g->ctl.mem.populate);
	while (g->ctl.mem.populate)
		uv_run(&g->loop, UV_RUN_NOWAIT);
	assert_int_equal(present(seg.map, LEN), LEN / FF_PAGE);
	close(seg.file);
	close(sock);
	close(other);
}

/* Sessions take turns; one that goes leaves the others theirs. */
static void a_session_goes_meanwhile(void **state)
{
	struct mem_of seg[2];
	int a = client_with_memory(&seg[0]), b = client_with_memory(&seg[1]);

	(void)state;
	assert_non_null(g->ctl.mem.populate);
	close(a);
	rig_pump(g);
	assert_non_null(g->ctl.mem.populate);
	while (g->ctl.mem.populate)
		uv_run(&g->loop, UV_RUN_NOWAIT);
	assert_int_equal(present(seg[1].map, LEN), LEN / FF_PAGE);
	close(seg[0].file);
	close(seg[1].file);
	close(b);
	rig_pump(g);
}

/* The last one goes before it had all its turns. */
static void the_session_goes(void **state)
{
	struct mem_of seg;
	int sock = client_with_memory(&seg);

	(void)state;
	assert_non_null(g->ctl.mem.populate);
	close(seg.file);
	close(sock);
	rig_pump(g);
	assert_null(g->ctl.mem.populate);
}

static uint64_t file_pages(const struct mem_of *m)
{
	struct stat st;

	assert_int_equal(fstat(m->file, &st), 0);
	return (uint64_t)st.st_blocks * 512 / FF_PAGE;
}

/* Pages that the client did not touch stay away: the router would pay for them. */
static void untouched_memory_stays_so(void **state)
{
	struct mem_of seg;
	struct ff_reg_mr_resp resp;
	int sock = client_registers(&seg, 0, &resp);

	(void)state;
	assert_int_equal(resp.zero_copy, 0); /* copied, like all that the router does not have */
	assert_int_equal(file_pages(&seg), 0);
	close(seg.file);
	close(sock);
	rig_pump(g);
	sock = client_registers(&seg, 8 << 20, &resp); /* the first slices are there */
	assert_int_equal(resp.zero_copy, LEN);
	while (g->ctl.mem.populate)
		uv_run(&g->loop, UV_RUN_NOWAIT);
	assert_int_equal(file_pages(&seg), (8 << 20) / FF_PAGE);
	assert_int_equal(present(seg.map, LEN), (8 << 20) / FF_PAGE);
	close(seg.file);
	close(sock);
	rig_pump(g);
}

/* Large segments are freed on another thread, but they are. */
static void segments_are_freed(void **state)
{
	unsigned before = rig_open_fds();
	struct mem_of seg;
	int sock;

	(void)state;
	sock = client_with_memory(&seg);
	close(seg.file);
	close(sock);
	do
		rig_pump(g);
	while (rig_open_fds() > before + 2); /* libuv's own, for its threads */
	assert_true(LIST_EMPTY(&g->c[0]->sessions));
}

int main(void)
{
	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(CALL_TEST(others_are_served_meanwhile), CALL_TEST(a_session_goes_meanwhile),
			CALL_TEST(the_session_goes), CALL_TEST(untouched_memory_stays_so),
			CALL_TEST(segments_are_freed));
}
