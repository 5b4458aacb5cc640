/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/oci/cache.c */
/*
 * test_cache.c - ld.so.cache with our libraries: what this machine's ldconfig makes and reads, the format of before
 * glibc 2.32, and caches that are made to lead the editor out of its buffers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/oci/oci.h"

#define OURS  "/usr/lib/freeflow"
#define FLAGS 0x0303 /* glibc, x86-64 */

static const char *const names[NUM_NAMES] = { "libibverbs.so.1", "librdmacm.so.1", "libibverbs.so",
					      "librdmacm.so" };
static char *made;
static size_t len;

/* A header, an entry, an extension's section, as glibc has them. */
struct head {
	char magic[20];
	uint32_t num, strings;
	uint8_t flags, pad[3];
	uint32_t extensions, unused[3];
};

struct entry {
	int32_t flags;
	uint32_t key, value, osversion;
	uint64_t hwcap;
};

struct ext {
	uint32_t magic, num;
	struct {
		uint32_t tag, flags, offset, size;
	} section[1];
};

static int edit(const void *old, size_t n, bool with)
{
	free(made);
	made = NULL;
	len = 0;
	return cache_edit(old, n, OURS, with ? names : NULL, FLAGS, &made, &len);
}

static int teardown(void **state)
{
	(void)state;
	free(made);
	made = NULL;
	return 0;
}

static struct entry at(const void *cache, size_t i)
{
	struct entry e;

	memcpy(&e, (const char *)cache + sizeof(struct head) + i * sizeof(e), sizeof(e));
	return e;
}

static size_t count(const void *cache)
{
	struct head h;

	memcpy(&h, cache, sizeof(h));
	return h.num;
}

/* A cache of these libraries, each "NAME PATH", in that order; one of them in a subfolder of glibc-hwcaps. */
#define HWCAP (1ull << 62)
static char buf[4096];

static size_t build(const char *const (*libs)[2], size_t num, size_t hwcap)
{
	struct head h = { .num = (uint32_t)num, .flags = 2 };
	size_t end = sizeof(h) + num * sizeof(struct entry);
	struct ext x = { .magic = 0xeaa42174, .num = 1 };
	uint32_t level;

	memcpy(h.magic, "glibc-ld.so.cache1.1", 20);
	memset(buf, 0, sizeof(buf));
	for (size_t i = 0; i < num; i++) {
		struct entry e = { .flags = FLAGS, .hwcap = i == hwcap ? HWCAP : 0 };

		e.key = (uint32_t)end;
		end += strlen(strcpy(buf + end, libs[i][0])) + 1;
		e.value = (uint32_t)end;
		end += strlen(strcpy(buf + end, libs[i][1])) + 1;
		memcpy(buf + sizeof(h) + i * sizeof(e), &e, sizeof(e));
	}
	level = (uint32_t)end;
	end += strlen(strcpy(buf + end, "x86-64-v3")) + 1;
	h.strings = (uint32_t)(end - sizeof(h) - num * sizeof(struct entry));
	h.extensions = (uint32_t)(end = (end + 3) & ~3ul);
	x.section[0].tag = 1;
	x.section[0].offset = (uint32_t)(end + sizeof(x));
	x.section[0].size = sizeof(level);
	memcpy(buf + end, &x, sizeof(x));
	memcpy(buf + end + sizeof(x), &level, sizeof(level));
	memcpy(buf, &h, sizeof(h));
	return end + sizeof(x) + sizeof(level);
}

static const char *const image[][2] = {
	{ "libz.so.1", "/usr/lib/libz.so.1" },
	{ "librdmacm.so.1", "/opt/librdmacm.so.1.3" },
	{ "libibverbs.so.1", "/usr/lib/glibc-hwcaps/x86-64-v3/libibverbs.so.1" },
	{ "libibverbs.so.1", "/usr/lib/libibverbs.so.1" },
	{ "libc.so.6", "/usr/lib/libc.so.6" },
};
#define NUM_IMAGE (sizeof(image) / sizeof(image[0]))

static void assert_lib(size_t i, const char *key, const char *value)
{
	struct entry e = at(made, i);

	assert_string_equal(made + e.key, key);
	assert_string_equal(made + e.value, value);
}

/* Ours are first of their names, also before one of a subfolder; the others stay as and where they were. */
static void first_of_its_name(void **state)
{
	struct head h;
	struct ext x;
	uint32_t level;

	(void)state;
	assert_int_equal(edit(buf, build(image, NUM_IMAGE, 2), true), 0);
	assert_int_equal(count(made), NUM_IMAGE + NUM_NAMES);
	assert_lib(0, "libz.so.1", "/usr/lib/libz.so.1");
	assert_lib(1, "librdmacm.so.1", OURS "/librdmacm.so.1");
	assert_lib(2, "librdmacm.so.1", "/opt/librdmacm.so.1.3");
	assert_lib(3, "librdmacm.so", OURS "/librdmacm.so");
	assert_lib(4, "libibverbs.so.1", OURS "/libibverbs.so.1");
	assert_int_equal(at(made, 4).flags, FLAGS);
	assert_int_equal(at(made, 4).hwcap, 0);
	assert_lib(5, "libibverbs.so.1", image[2][1]);
	assert_int_equal(at(made, 5).hwcap, HWCAP);
	assert_lib(6, "libibverbs.so.1", image[3][1]);
	assert_lib(7, "libibverbs.so", OURS "/libibverbs.so");
	assert_lib(8, "libc.so.6", "/usr/lib/libc.so.6");
	memcpy(&h, made, sizeof(h));
	assert_int_equal(h.flags, 2);
	assert_int_equal(h.extensions % 4, 0);
	memcpy(&x, made + h.extensions, sizeof(x));
	assert_int_equal(x.magic, 0xeaa42174);
	assert_int_equal(x.section[0].size, 4);
	assert_true(x.section[0].offset + 4 <= len);
	memcpy(&level, made + x.section[0].offset, 4);
	assert_string_equal(made + level, "x86-64-v3");
}

/* A second start finds its own entries, and does not make the cache longer; without them it is the image's again. */
static void again_and_back(void **state)
{
	char *once;
	size_t n;

	(void)state;
	assert_int_equal(edit(buf, build(image, NUM_IMAGE, 2), true), 0);
	once = memcpy(malloc(len), made, len);
	n = len;
	assert_int_equal(edit(once, n, true), 0);
	assert_int_equal(len, n);
	assert_memory_equal(made, once, n);
	assert_int_equal(edit(once, n, false), 0);
	assert_int_equal(count(made), NUM_IMAGE);
	for (size_t i = 0; i < NUM_IMAGE; i++)
		assert_lib(i, image[i][0], image[i][1]);
	free(once);
	/* one that only has ours is none */
	assert_int_equal(edit(NULL, 0, true), 0);
	assert_int_equal(count(made), NUM_NAMES);
	assert_lib(0, "librdmacm.so.1", OURS "/librdmacm.so.1");
	assert_lib(3, "libibverbs.so", OURS "/libibverbs.so");
	once = memcpy(malloc(len), made, len);
	n = len;
	assert_int_equal(edit(once, n, false), 0);
	assert_int_equal(len, 0);
	free(once);
}

/* glibc 2.31 and before: an older list is in front. */
static void with_older_list(void **state)
{
	static const uint32_t num = 3;
	char both[sizeof(buf) + 64] = "ld.so-1.7.0";
	size_t n = build(image, NUM_IMAGE, 99), skip = (16 + num * 12 + 7) & ~7ul;

	(void)state;
	memcpy(both + 12, &num, sizeof(num));
	memcpy(both + skip, buf, n);
	assert_int_equal(edit(both, skip + n, true), 0);
	assert_int_equal(count(made), NUM_IMAGE + NUM_NAMES);
	assert_lib(4, "libibverbs.so.1", OURS "/libibverbs.so.1");
	/* only the older one, which no loader of glibc 2.28 or later reads */
	assert_int_equal(edit(both, skip, true), -EBADMSG);
	assert_int_equal(edit(both, 20, true), -EBADMSG);
}

/* Numbers in names count as numbers: libfoo.so.10 is before libfoo.so.9. */
static void order(void **state)
{
	static const char *const odd[][2] = {
		{ "librdmacm.so.10", "/a" },
		{ "librdmacm.so.2", "/b" },
		{ "libibverbs-1.so", "/c" },
		{ "lib", "/d" },
	};

	(void)state;
	assert_int_equal(edit(buf, build(odd, 4, 99), true), 0);
	assert_lib(1, "librdmacm.so.2", "/b");
	assert_lib(2, "librdmacm.so.1", OURS "/librdmacm.so.1");
	assert_lib(3, "librdmacm.so", OURS "/librdmacm.so");
	assert_lib(4, "libibverbs.so.1", OURS "/libibverbs.so.1");
	assert_lib(6, "libibverbs-1.so", "/c");
}

/* Every length, and every byte changed: refused, or what comes out can be read again and has ours. */
static void broken(void **state)
{
	size_t n = build(image, NUM_IMAGE, 2);
	static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };

	(void)state;
	for (size_t cut = 1; cut < n; cut++) {
		char *exact = memcpy(malloc(cut), buf, cut); /* a sanitizer sees a byte too far */

		assert_int_equal(edit(exact, cut, true), -EBADMSG);
		free(exact);
	}
	for (size_t i = 0; i < n * sizeof(values); i++) {
		char *exact = memcpy(malloc(n), buf, n), *result;
		size_t again;
		int err;

		exact[i / sizeof(values)] = (char)values[i % sizeof(values)];
		err = edit(exact, n, true);
		free(exact);
		if (err) {
			assert_int_equal(err, -EBADMSG);
			continue;
		}
		result = memcpy(malloc(len), made, len);
		again = len;
		assert_int_equal(edit(result, again, true), 0);
		assert_true(count(made) >= NUM_NAMES);
		free(result);
	}
}

/* Entries without end that have one long string make no cache without end. */
static void too_large(void **state)
{
	const size_t num = 100000, text = 4000, n = sizeof(struct head) + num * 24 + text + 1;
	char *big = calloc(1, n);
	struct head h = { .num = (uint32_t)num };

	(void)state;
	memcpy(h.magic, "glibc-ld.so.cache1.1", 20);
	memcpy(big, &h, sizeof(h));
	memset(big + n - text - 1, 'x', text);
	for (size_t i = 0; i < num; i++) {
		struct entry e = { .key = (uint32_t)(n - 3), .value = (uint32_t)(n - text - 1) };

		memcpy(big + sizeof(h) + i * sizeof(e), &e, sizeof(e));
	}
	assert_int_equal(edit(big, n, true), -E2BIG);
	free(big);
}

/* What ldconfig made, and what it says of what we made. */
static void ldconfigs(void **state)
{
	char path[] = "/tmp/test_cache.XXXXXX", command[128], line[512], *old;
	int fd = open("/etc/ld.so.cache", O_RDONLY);
	size_t ours = 0, others = 0, before;
	ssize_t n;
	FILE *f;

	(void)state;
	if (fd < 0 || access("/sbin/ldconfig", X_OK))
		skip();
	old = malloc(CACHE_MAX);
	n = read(fd, old, CACHE_MAX);
	close(fd);
	assert_true(n > 0);
	assert_int_equal(edit(old, (size_t)n, false), 0);
	before = count(made);
	assert_int_equal(edit(old, (size_t)n, true), 0);
	free(old);
	fd = mkstemp(path);
	assert_int_equal(write(fd, made, len), len);
	close(fd);
	snprintf(command, sizeof(command), "/sbin/ldconfig -p -C %s 2>&1", path);
	f = popen(command, "r");
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "=> " OURS "/"))
			ours++;
		else if (strstr(line, "=> /"))
			others++;
	assert_int_equal(pclose(f), 0);
	assert_int_equal(ours, NUM_NAMES);
	assert_int_equal(others, before);
	unlink(path);
}

#define T(f) cmocka_unit_test_setup_teardown(f, NULL, teardown)

int main(void)
{
	return UNIT_RUN(T(first_of_its_name), T(again_and_back), T(with_older_list), T(order),
			T(broken), T(too_large), T(ldconfigs));
}
