/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_plan.c - ffl/mem/plan.c: which pages of an MR become what run, and why the others are copied. Each row of the
 * tables is a range, what is mapped there, and the plan for it.
 */
#include <stdio.h>

#include "tests/rig/unit/unit.h"
#include "ffl/session/ffl.h"
#include "ffl/mem/plan.c"

#define PG   ((uintptr_t)FF_PAGE)
#define BASE (1000 * PG)

struct row {
	const char *name;
	uintptr_t addr, end; /* bytes from BASE on */
	/* w: to write; d: on demand; o: only own; W: whole; u: nothing can be replaced; l: later; 1 to 9: runs at most */
	const char *asks;
	/*
	 * "FROM-TO FLAGS, ...", in pages. r, w, x, s: as in /proc/self/maps; -: none; o: own shadow pages; f: a file in
	 * memory; d: one on a disk; h: huge pages. T, F, C, S: FFL_USE_STACK, FILE, CLEAN, SINGLE
	 */
	const char *maps;
	/* steps "WAY FROM-TO", and what is copied as "WHY:PAGES"; or EFAULT */
	const char *plan;
};

static bool has(const char *flags, char c)
{
	return strchr(flags, c);
}

/* The mapping that `maps` begins with. */
static struct ffl_known known(const char *maps)
{
	unsigned from, to;
	char f[16];

	assert_int_equal(sscanf(maps, "%u-%u %15[^,]", &from, &to, f), 3);
	return (struct ffl_known){
		.v = {
			.start = BASE + from * PG,
			.end = BASE + to * PG,
			.inode = has(f, 'f') || has(f, 'd') || has(f, 'o') ? 5 : 0,
			.dev_major = has(f, 'd') ? 8 : 0,
			.flags = (has(f, 'r') ? FF_VMA_READ : 0u) | (has(f, 'w') ? FF_VMA_WRITE : 0u) |
				 (has(f, 'x') ? FF_VMA_EXEC : 0u) |
				 (has(f, 's') || has(f, 'o') ? FF_VMA_SHARED : 0u),
			.page_size = has(f, 'h') ? 512 * FF_PAGE : FF_PAGE,
		},
		.is_own = has(f, 'o'),
		.use = has(f, 'T') ? FFL_USE_STACK :
		       has(f, 'F') ? FFL_USE_FILE :
		       has(f, 'C') ? FFL_USE_CLEAN :
		       has(f, 'S') ? FFL_USE_SINGLE :
				     FFL_USE_PLAIN,
	};
}

static const char *next_map(const char *maps)
{
	const char *comma = strchr(maps, ',');

	return comma ? comma + 1 : "";
}

static void begin(const struct row *r, struct ffl_plan *p)
{
	uintptr_t addr = BASE + r->addr, end = BASE + r->end;
	uintptr_t va = addr / PG * PG, last = (end + PG - 1) / PG * PG;
	bool all = has(r->asks, 'W') || has(r->asks, 'd');
	const char *max = strpbrk(r->asks, "123456789");
	p->ask = (struct ffl_ask){
		.va = va,
		.end = last,
		.from = all ? va : (addr + PG - 1) / PG * PG,
		.to = all ? last : end / PG * PG,
		.max = max ? (unsigned)(*max - '0') : FF_MR_MAX_RUNS,
		.when = has(r->asks, 'l') ? FFL_LATER : FFL_NOW,
		.write = has(r->asks, 'w'),
		.is_on_demand = has(r->asks, 'd'),
		.only_own = has(r->asks, 'd') || has(r->asks, 'o'),
		.whole = has(r->asks, 'W'),
		.can_replace = !has(r->asks, 'u'),
	};

	ffl_plan_begin(p);
}

static int plan_of(const struct row *r, struct ffl_plan *p)
{
	int err = 0;

	begin(r, p);
	for (const char *m = r->maps; *m && !err; m = next_map(m)) {
		struct ffl_known k = known(m);

		if (k.v.end <= p->ask.va || k.v.start >= p->ask.end)
			continue;
		ffl_plan_fresh(p, &k);
		err = ffl_plan_add(p, &k);
	}
	return err ? err : ffl_plan_end(p);
}

static void tell(const struct row *r, char *out, size_t len)
{
	static const char *const way[] = { "own", "shared", "window", "file", "alone" };
	static const char *const why[] = {
#define X(NAME, name, text) name,
		FF_WHYS(X)
#undef X
	};
	static struct ffl_plan p;
	size_t at = 0;

	*out = 0;
	if (plan_of(r, &p)) {
		snprintf(out, len, "EFAULT");
		return;
	}
	for (unsigned i = 0; i < p.num; i++) {
		const struct ffl_step *s = &p.step[i];

		assert_true(s->v.start <= s->va && s->v.end >= s->end);
		at += (size_t)snprintf(out + at, len - at, "%s%s %u-%u", at ? " " : "", way[s->way],
				       (unsigned)((s->va - BASE) / PG),
				       (unsigned)((s->end - BASE) / PG));
	}
	for (unsigned i = 0; i < FF_WHY_NUM; i++)
		if (p.copied[i])
			at += (size_t)snprintf(out + at, len - at, "%s%s:%u", at ? " " : "", why[i],
					       (unsigned)(p.copied[i] / PG));
}

static void check(const struct row *rows, size_t num)
{
	for (size_t i = 0; i < num; i++) {
		char is[256];

		tell(&rows[i], is, sizeof(is));
		if (strcmp(is, rows[i].plan))
			fail_msg("%s: \"%s\" in place of \"%s\"", rows[i].name, is, rows[i].plan);
	}
}

/* ---- kinds of mappings -------------------------------------------------------------------------- */

static void kinds_of_mappings(void **state)
{
	const struct row rows[] = {
		{ "plain", 0, 4 * PG, "w", "0-4 rw", "window 0-4" },
		{ "plain, and longer", 2 * PG, 4 * PG, "w", "0-9 rw", "window 2-4" },
		{ "own shadow pages", 0, 4 * PG, "w", "0-4 rwo", "own 0-4" },
		{ "shared", 0, 4 * PG, "w", "0-4 rws", "shared 0-4" },
		{ "a shared segment", 0, 4 * PG, "w", "0-4 rwsf", "shared 0-4" },
		{ "shared, to read", 0, 4 * PG, "", "0-4 rs", "shared 0-4" },
		{ "shared, of a disk", 0, 4 * PG, "w", "0-4 rwsd", "shared 0-4 file:4" },
		{ "to read", 0, 4 * PG, "", "0-4 r", "rights:4" },
		{ "to read, NIC", 0, 4 * PG, "W", "0-4 r", "window 0-4" },
		{ "code", 0, 4 * PG, "", "0-4 rxd", "rights:4" },
		{ "code, NIC", 0, 4 * PG, "W", "0-4 rxd", "rights:4" },
		{ "executable", 0, 4 * PG, "w", "0-4 rwx", "rights:4" },
		{ "huge pages", 0, 4 * PG, "w", "0-4 rwhf", "hugetlb:4" },
		{ "huge pages, NIC", 0, 4 * PG, "wW", "0-4 rwhf", "hugetlb:4" },
		{ "huge pages without rights", 0, 4 * PG, "d", "0-4 -hf", "hugetlb:4" },
		{ "a stack", 0, 4 * PG, "w", "0-4 rwT", "stack:4" },
		{ "a stack, NIC", 0, 4 * PG, "wW", "0-4 rwT", "stack:4" },
		{ "a private file", 0, 4 * PG, "w", "0-4 rwdS", "file:4" },
		{ "a private file, to read", 0, 4 * PG, "", "0-4 rdC", "file:4" },
		{ "a private memfd", 0, 4 * PG, "w", "0-4 rwfS", "file:4" },
		{ "NIC: a file that others write to", 0, 4 * PG, "wW", "0-4 rwdF", "file:4" },
		{ "NIC: a file that nobody writes to", 0, 4 * PG, "W", "0-4 rdC", "file 0-4" },
		{ "NIC: a file, one thread", 0, 4 * PG, "wW", "0-4 rwfS", "alone 0-4" },
	};

	(void)state;
	check(rows, ARRAY_SIZE(rows));
}

static void what_is_asked_for(void **state)
{
	const struct row rows[] = {
		{ "later", 0, 4 * PG, "wl", "0-4 rw", "unused:4" },
		{ "later: a stack", 0, 4 * PG, "wl", "0-4 rwT", "stack:4" },
		{ "later: shared", 0, 4 * PG, "wl", "0-4 rws", "shared 0-4" },
		{ "later: own", 0, 4 * PG, "wl", "0-4 rwo", "own 0-4" },
		{ "no windows", 0, 4 * PG, "wu", "0-4 rw", "no-userfaultfd:4" },
		{ "no windows, later", 0, 4 * PG, "wlu", "0-4 rw", "no-userfaultfd:4" },
		{ "no windows: own", 0, 4 * PG, "wu", "0-4 rwo", "own 0-4" },
		{ "only own", 0, 6 * PG, "wo", "0-2 rws, 2-4 rwo, 4-6 rw", "own 2-4 window 4-6" },
	};

	(void)state;
	check(rows, ARRAY_SIZE(rows));
}

static void edges_of_pages(void **state)
{
	const struct row rows[] = {
		{ "both", 100, 4 * PG + 100, "w", "0-9 rw", "window 1-4 edge:2" },
		{ "the first", 1, 4 * PG, "w", "0-9 rw", "window 1-4 edge:1" },
		{ "the last", 0, 4 * PG + 1, "w", "0-9 rw", "window 0-4 edge:1" },
		{ "less than a page", 10, 100, "w", "0-9 rw", "edge:1" },
		{ "less than a page, farther", 3 * PG + 10, 3 * PG + 100, "w", "0-9 rw", "edge:1" },
		{ "some bytes of two", PG - 1, PG + 1, "w", "0-9 rw", "edge:2" },
		{ "some of a page's mapping", 10, 100, "w", "0-1 rw", "edge:1" },
		{ "NIC", 100, 4 * PG + 100, "wW", "0-9 rw", "window 0-5" },
		{ "NIC: less than a page", 10, 100, "wW", "0-9 rw", "window 0-1" },
		{ "nearly all", 16, 5 * PG - 100, "w", "0-5 rw", "window 0-5" },
		{ "nearly all, and later", 16, 5 * PG - 100, "wl", "0-5 rw", "unused:5" },
		{ "nearly all of a stack", 16, 5 * PG - 100, "w", "0-5 rwT", "stack:5" },
		{ "a page more", 16, 5 * PG - 100, "w", "0-6 rw", "window 1-4 edge:2" },
		{ "nearly all of two", 16, 5 * PG - 100, "w", "0-3 rw, 3-5 rw",
		  "window 1-3 window 3-4 edge:2" },
		{ "the first is a mapping", 100, 4 * PG, "w", "0-1 rw, 1-9 rw",
		  "window 1-4 edge:1" },
		{ "the last is a mapping", 0, 4 * PG + 9, "w", "0-4 rw, 4-9 rw",
		  "window 0-4 edge:1" },
		{ "own", 100, 4 * PG + 9, "w", "0-9 rwo", "own 0-5" },
		{ "shared", 100, 4 * PG + 9, "w", "0-9 rws", "shared 0-5" },
		{ "own, in the middle of a page", 100, 200, "w", "0-9 rwo", "own 0-1" },
		{ "copied anyway", 100, 3 * PG + 9, "", "0-9 rx", "edge:2 rights:2" },
	};

	(void)state;
	check(rows, ARRAY_SIZE(rows));
}

static void several_mappings(void **state)
{
	const struct row rows[] = {
		{ "between own", 0, 6 * PG, "w", "0-2 rwo, 2-4 rw, 4-6 rwo",
		  "own 0-2 window 2-4 own 4-6" },
		{ "own later on", 10, 6 * PG, "w", "0-3 rw, 3-9 rwo", "window 1-3 own 3-6 edge:1" },
		{ "own at first", 0, 6 * PG - 10, "w", "0-3 rwo, 3-9 rw",
		  "own 0-3 window 3-5 edge:1" },
		{ "all kinds", 0, 12 * PG, "W",
		  "0-2 rw, 2-4 rwo, 4-6 rws, 6-8 rx, 8-10 rdC, 10-12 rwT",
		  "window 0-2 own 2-4 shared 4-6 file 8-10 rights:2 stack:2" },
		{ "as many as may be", 0, 6 * PG, "w3", "0-2 rw, 2-4 rwo, 4-6 rws",
		  "window 0-2 own 2-4 shared 4-6" },
		{ "one too many", 0, 6 * PG, "w2", "0-2 rw, 2-4 rwo, 4-6 rw",
		  "window 0-2 own 2-4 pieces:2" },
		{ "own is too many", 0, 4 * PG, "w1", "0-2 rw, 2-4 rwo", "window 0-2 pieces:2" },
		{ "the edge is too many", 0, 3 * PG + 9, "w1", "0-2 rw, 2-4 rw",
		  "window 0-2 pieces:2" },
		{ "copied is none", 0, 6 * PG, "1", "0-2 rx, 2-4 rw, 4-6 r",
		  "window 2-4 rights:2 pieces:2" },
	};

	(void)state;
	check(rows, ARRAY_SIZE(rows));
}

static void holes_and_rights(void **state)
{
	const struct row rows[] = {
		{ "nothing", 0, 4 * PG, "w", "", "EFAULT" },
		{ "a hole at the beginning", 0, 4 * PG, "w", "1-4 rw", "EFAULT" },
		{ "a hole in the middle", 0, 4 * PG, "w", "0-1 rw, 2-4 rw", "EFAULT" },
		{ "a hole at the end", 0, 4 * PG, "w", "0-3 rw", "EFAULT" },
		{ "a hole for the last byte", 0, 4 * PG + 1, "w", "0-4 rw", "EFAULT" },
		{ "a hole behind the last run", 0, 4 * PG, "w1", "0-1 rw, 1-2 rw, 3-4 rw",
		  "EFAULT" },
		{ "a hole between own", 0, 4 * PG, "w", "0-2 rwo, 3-4 rwo", "EFAULT" },
		{ "read-only", 0, 4 * PG, "w", "0-4 r", "EFAULT" },
		{ "a part is read-only", 0, 4 * PG, "w", "0-2 rw, 2-4 rs", "EFAULT" },
		{ "the edge is read-only", 0, 3 * PG + 1, "w", "0-3 rw, 3-4 r", "EFAULT" },
		{ "the next is read-only", 0, 3 * PG, "w", "0-3 rw, 3-4 r", "window 0-3" },
		{ "not readable", 0, 4 * PG, "", "0-4 -", "EFAULT" },
		{ "on demand: nothing", 0, 4 * PG, "d", "", "" },
		{ "on demand: holes", 0, 6 * PG, "d", "1-2 rwo, 4-5 rw", "own 1-2 window 4-5" },
		{ "on demand: no rights", 0, 4 * PG, "wd", "0-2 -, 2-4 rw", "window 2-4 rights:2" },
		{ "on demand: edges", 9, 4 * PG - 9, "d", "0-9 rw", "window 0-4" },
		{ "on demand: shared", 0, 4 * PG, "d", "0-4 rws", "" },
	};

	(void)state;
	check(rows, ARRAY_SIZE(rows));
}

/* ---- what kind.c is asked ----------------------------------------------------------------------- */

static void fresh_pages(void **state)
{
	const struct row rows[] = {
		{ "interior", 10, 4 * PG + 10, "w", "0-9 rw", "1-4" },
		{ "nearly all", 16, 9 * PG - 16, "w", "0-9 rw", "0-9" },
		{ "less than a page", 10, 90, "w", "0-9 rw", "" },
		{ "a file", 10, 4 * PG, "w", "0-9 rwd", "" },
		{ "a file, NIC", 10, 4 * PG + 10, "wW", "0-9 rwd", "0-5" },
		{ "read-only", 0, 4 * PG, "", "0-9 r", "" },
		{ "read-only, NIC", 0, 4 * PG, "W", "0-9 r", "0-4" },
		{ "code, NIC", 0, 4 * PG, "W", "0-9 rx", "" },
		{ "shared", 0, 4 * PG, "w", "0-9 rws", "" },
		{ "own", 0, 4 * PG, "w", "0-9 rwo", "" },
		{ "huge", 0, 4 * PG, "w", "0-9 rwhf", "" },
		{ "on demand", 0, 4 * PG, "d", "2-3 rw", "2-3" },
	};
	static struct ffl_plan p;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ffl_known k = known(rows[i].maps);
		char is[64] = "";

		begin(&rows[i], &p);
		if (ffl_plan_fresh(&p, &k))
			snprintf(is, sizeof(is), "%u-%u", (unsigned)((k.va - BASE) / PG),
				 (unsigned)((k.end - BASE) / PG));
		assert_string_equal(is, rows[i].plan);
		p.ask.max = 0; /* what gets no run need not be looked at */
		assert_false(ffl_plan_fresh(&p, &k));
	}
}

/* ---- reasons ------------------------------------------------------------------------------------ */

static void reasons(void **state)
{
	static const struct {
		int err;
		enum ff_why window, attr;
	} rows[] = {
		{ -EAGAIN, FF_WHY_CHANGED, FF_WHY_UNUSED },
		{ -EBUSY, FF_WHY_PINNED, FF_WHY_ATTRIBUTE },
		{ -ESTALE, FF_WHY_ATTRIBUTE, FF_WHY_ATTRIBUTE },
		{ -EEXIST, FF_WHY_ATTRIBUTE, FF_WHY_ATTRIBUTE },
		{ -ENOSPC, FF_WHY_LIMIT, FF_WHY_ATTRIBUTE },
		{ -ENOMEM, FF_WHY_MAPPINGS, FF_WHY_ATTRIBUTE },
		{ -EOPNOTSUPP, FF_WHY_UFFD, FF_WHY_ATTRIBUTE },
		{ -EXDEV, FF_WHY_OTHER, FF_WHY_POLICY },
		{ -EINVAL, FF_WHY_OTHER, FF_WHY_ATTRIBUTE },
	};
	uint64_t copied[FF_WHY_NUM] = { 0 };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(ffl_plan_why_window(rows[i].err), rows[i].window);
		assert_int_equal(ffl_plan_why_attr(rows[i].err), rows[i].attr);
	}
	assert_int_equal(ffl_plan_why_most(copied), FF_WHY_UNUSED);
	copied[FF_WHY_CHANGED] = 1;
	assert_int_equal(ffl_plan_why_most(copied), FF_WHY_CHANGED);
	copied[FF_WHY_OTHER] = 2;
	copied[FF_WHY_EDGE] = 5;
	copied[FF_WHY_STACK] = 4;
	assert_int_equal(ffl_plan_why_most(copied), FF_WHY_EDGE);
	for (unsigned i = 0; i < FF_WHY_NUM; i++)
		assert_true(*ffl_plan_why_text(i));
}

/* Each page is in one step, or is copied for one reason, whichever range of that memory is asked for. */
static void nothing_is_lost(void **state)
{
	static const char *const asks[] = { "1", "2W", "3l", "4u", "" };
	static struct ffl_plan p;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(asks) * 26; i++)
		for (uintptr_t end = i % 26 * PG / 2 + 1; end <= 13 * PG; end += PG / 2) {
			struct row r = { .addr = i % 26 * PG / 2,
					 .end = end,
					 .asks = asks[i / 26] };
			uint64_t sum = 0;

			r.maps = "0-3 rw, 3-5 rwo, 5-6 rx, 6-8 rws, 8-11 rw, 11-13 rwdF";
			assert_int_equal(plan_of(&r, &p), 0);
			for (unsigned k = 0; k < p.num; k++) {
				assert_true(p.step[k].va >= (k ? p.step[k - 1].end : p.ask.va));
				assert_true(p.step[k].end <= p.ask.end);
				sum += p.step[k].end - p.step[k].va;
			}
			for (unsigned k = 0; k < FF_WHY_NUM; k++)
				sum += p.copied[k];
			assert_int_equal(sum, p.ask.end - p.ask.va);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_of_mappings), cmocka_unit_test(what_is_asked_for),
		cmocka_unit_test(edges_of_pages),    cmocka_unit_test(several_mappings),
		cmocka_unit_test(holes_and_rights),  cmocka_unit_test(fresh_pages),
		cmocka_unit_test(reasons),	     cmocka_unit_test(nothing_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
