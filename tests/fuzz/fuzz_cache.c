/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/oci/cache.c */
/*
 * fuzz_cache.c - whatever an image's ld.so.cache holds: the hook refuses it, or makes one of it that has our libraries,
 * that is the same when it is made again, and that is sound without them.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/oci/oci.h"

#define OURS "/usr/lib/freeflow"

/* Each entry is 24 bytes behind a header of 48, and has the offset of its path at 8. */
static void none_of_ours(const char *cache, size_t len)
{
	uint32_t num = 0, path;

	if (len)
		memcpy(&num, cache + 20, sizeof(num));
	for (uint32_t i = 0; i < num; i++) {
		memcpy(&path, cache + 48 + i * 24 + 8, sizeof(path));
		assert(path < len && memchr(cache + path, '\0', len - path));
		assert(strncmp(cache + path, OURS "/", sizeof(OURS "/") - 1));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char *const names[NUM_NAMES] = { "libibverbs.so.1", "librdmacm.so.1",
						      "libibverbs.so", "librdmacm.so" };
	char *made, *again, *without;
	size_t made_len, again_len, without_len;
	int err = cache_edit(data, len, OURS, names, 0x0303, &made, &made_len);

	if (err) {
		assert(err == -EBADMSG || err == -E2BIG);
		return 0;
	}
	assert(made_len <= CACHE_MAX);
	for (int i = 0; i < NUM_NAMES; i++)
		assert(memmem(made, made_len, names[i], strlen(names[i]) + 1));
	assert(!cache_edit(made, made_len, OURS, names, 0x0303, &again, &again_len));
	assert(made_len == again_len && !memcmp(made, again, made_len));
	assert(!cache_edit(made, made_len, OURS, NULL, 0x0303, &without, &without_len));
	none_of_ours(without, without_len);
	free(made);
	free(again);
	free(without);
	return 0;
}
