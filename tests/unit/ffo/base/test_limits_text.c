/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffo/base/limits.c ffo/base/limits_text.c */
/* test_limits_text.c - limits as people write them: read, refused, and written again. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/rig/unit/unit.h"
#include "ffo/base/limits_text.h"

#define RATE  FFO_LIMIT_RATE
#define COUNT FFO_LIMIT_COUNT
#define BYTES FFO_LIMIT_BYTES
#define CPUS  FFO_LIMIT_CPUS
#define FLAG  FFO_LIMIT_FLAG
#define MAX   (1ull << 50)

static void values_are_read(void **state)
{
	static const struct {
		enum ffo_limit_kind kind;
		const char *text;
		uint64_t value;
		const char *written; /* NULL: as it was */
	} good[] = {
		{ RATE, "10Gbit", 1250000000, NULL },
		{ RATE, "250Mbit", 31250000, NULL },
		{ RATE, "1.5Gbit", 187500000, NULL },
		{ RATE, "1.500gBIT", 187500000, "1.5Gbit" },
		{ RATE, "800kbit", 100000, NULL },
		{ RATE, "9600bit", 1200, "9.6kbit" },
		{ RATE, "1bit", 1, "8bit" },
		{ RATE, "11bit", 1, "8bit" },
		{ RATE, "12bit", 2, "16bit" },
		{ RATE, "8Tbit", 1000000000000, NULL },
		{ RATE, "1000Gbit", 125000000000, "1Tbit" },
		{ RATE, "0.008kbit", 1, "8bit" },
		{ RATE, "123456792bit", 15432099, "123456.792kbit" },
		{ RATE, "none", 0, NULL },
		{ COUNT, "64", 64, NULL },
		{ COUNT, "2M", 2000000, NULL },
		{ COUNT, "500k", 500000, NULL },
		{ COUNT, "500K", 500000, "500k" },
		{ COUNT, "1.5k", 1500, NULL },
		{ COUNT, "1.234k", 1234, "1234" },
		{ COUNT, "4G", 4000000000, NULL },
		{ COUNT, "65536", 65536, NULL },
		{ COUNT, "none", 0, NULL },
		{ COUNT, "unlimited", FFO_UNLIMITED, NULL },
		{ BYTES, "Unlimited", FFO_UNLIMITED, "unlimited" },
		{ BYTES, "1MB", 1 << 20, NULL },
		{ BYTES, "64kB", 65536, NULL },
		{ BYTES, "1GB", 1 << 30, NULL },
		{ BYTES, "1.5mb", 3 << 19, "1.5MB" },
		{ BYTES, "3TB", 3ull << 40, NULL },
		{ BYTES, "1000", 1000, "1000B" },
		{ BYTES, "4097b", 4097, "4097B" },
		{ CPUS, "50m", 50, NULL },
		{ CPUS, "0.05", 50, "50m" },
		{ CPUS, "1", 1000, NULL },
		{ CPUS, "2.5", 2500, NULL },
		{ CPUS, "1001m", 1001, "1.001" },
		{ CPUS, "none", 0, NULL },
		{ FLAG, "yes", 1, NULL },
		{ FLAG, "no", 0, "none" },
		{ FLAG, "none", 0, NULL },
	};
	char buf[LIMIT_TEXT_MAX];
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (ffo_limit_parse(good[i].kind, MAX, good[i].text, &v) || v != good[i].value)
			fail_msg("%s", good[i].text);
		assert_string_equal(ffo_limit_text(good[i].kind, v, buf),
				    good[i].written ? good[i].written : good[i].text);
	}
}

static void others_are_refused(void **state)
{
	static const struct {
		enum ffo_limit_kind kind;
		const char *text;
		int err;
	} bad[] = {
		{ RATE, "10", -EINVAL },
		{ RATE, "10G", -EINVAL },
		{ RATE, "10GB", -EINVAL },
		{ RATE, "10 Gbit", -EINVAL },
		{ RATE, "", -EINVAL },
		{ RATE, "Gbit", -EINVAL },
		{ RATE, "-1Gbit", -EINVAL },
		{ RATE, "1e9bit", -EINVAL },
		{ RATE, "1.Gbit", -EINVAL },
		{ RATE, ".5Gbit", -EINVAL },
		{ RATE, "1.2.3Gbit", -EINVAL },
		{ RATE, "1Gbit/s", -EINVAL },
		{ RATE, "1234567890123456789bit", -EINVAL },
		{ RATE, "0Gbit", -ERANGE },
		{ RATE, "999999999999999999Tbit", -ERANGE },
		{ COUNT, "0", -ERANGE },
		{ COUNT, "1.5", -EINVAL },
		{ COUNT, "0x10", -EINVAL },
		{ COUNT, "10T", -EINVAL },
		{ COUNT, "10kB", -EINVAL },
		{ COUNT, "+1", -EINVAL },
		{ BYTES, "1Mbit", -EINVAL },
		{ BYTES, "1k", -EINVAL },
		{ BYTES, "1.0001kB", -EINVAL },
		{ BYTES, "1025TB", -ERANGE },
		{ FLAG, "1", -EINVAL },
		{ FLAG, "unlimited", -EINVAL },
		{ FLAG, "", -EINVAL },
	};
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (ffo_limit_parse(bad[i].kind, MAX, bad[i].text, &v) != bad[i].err)
			fail_msg("%s", bad[i].text);
	for (size_t i = 0; i < FFO_NUM_LIMITS; i++)
		assert_non_null(ffo_limit_example(ffo_limit[i].kind));
}

/* Whatever it is, what is written is read as the same again, and is not long. */
static void what_is_written_is_read(void **state)
{
	char buf[LIMIT_TEXT_MAX];
	uint64_t v, again;

	(void)state;
	srandom(5);
	for (int n = 0; n < 200000; n++) {
		size_t i = (size_t)n % FFO_NUM_LIMITS;
		const struct ffo_limit *l = &ffo_limit[i];

		v = ((uint64_t)random() << 31 ^ (uint64_t)random()) >> (random() % 60);
		v = v % l->max + 1;
		if (n % 3 == 0) /* round ones */
			v = v % 9999 + 1 <= l->max ? v % 9999 + 1 : 1;
		for (int zeros = n % 7; zeros && v * 10 <= l->max; zeros--)
			v *= 10;
		ffo_limit_text(l->kind, v, buf);
		if (ffo_limit_parse(l->kind, l->max, buf, &again) || again != v)
			fail_msg("%s: %llu is written as %s", l->name, (unsigned long long)v, buf);
	}
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(values_are_read), cmocka_unit_test(others_are_refused),
			cmocka_unit_test(what_is_written_is_read));
}
