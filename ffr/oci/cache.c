/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cache.c - the list of libraries by which glibc's loader finds them, /etc/ld.so.cache: ours put before all others of
 * their names, or taken out again. Bytes in, bytes out; deliver.c reads and writes the file.
 *
 * The format is glibc's (sysdeps/generic/dl-cache.h): a header, entries, strings, and since 2.33 extensions. All
 * offsets count from the header. Entries are sorted by name, the greatest first, and the loader takes the first one
 * of a name that its processor can load. Before 2.32 the file begins with an older list, which no loader reads where
 * the newer one follows; it is left out of what is made here.
 *
 * The file is the image's, so hostile: all of it is decoded, with each offset and length checked, and encoded anew. The
 * subfolders of glibc-hwcaps are kept; other extensions are notes for people.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/oci/oci.h"

#define OLD_MAGIC  "ld.so-1.7.0"
#define MAGIC	   "glibc-ld.so.cache1.1"
#define EXT_MAGIC  0xeaa42174u
#define EXT_HWCAPS 1u
#define FLAGS_LE   2 /* of the header: little endian */

struct old_header {
	char magic[sizeof(OLD_MAGIC) - 1];
	uint32_t num;
};

struct old_entry {
	uint32_t flags, key, value;
};

struct header {
	char magic[sizeof(MAGIC) - 1];
	uint32_t num;
	uint32_t strings; /* bytes */
	uint8_t flags;	  /* byte order */
	uint8_t pad[3];
	uint32_t extensions; /* offset; 0: none */
	uint32_t unused[3];
};
static_assert(sizeof(struct header) == 48, "glibc's");

struct entry {
	int32_t flags;
	uint32_t key, value; /* offsets of strings */
	uint32_t osversion;
	uint64_t hwcap;
};
static_assert(sizeof(struct entry) == 24, "glibc's");

struct extensions {
	uint32_t magic, num;
};

struct section {
	uint32_t tag, flags, offset, size;
};

struct lib {
	struct entry e;
	const char *key, *value;
};

struct list {
	struct header head;
	struct lib *lib;
	size_t num;
	const char **hwcap;
	size_t num_hwcaps;
};

/* ---- reading ------------------------------------------------------------------------------------ */

static const char *text_at(const char *base, size_t len, uint32_t offset, size_t longest)
{
	size_t max = offset < len ? len - offset : 0;

	if (max > longest + 1)
		max = longest + 1;
	return max && memchr(base + offset, '\0', max) ? base + offset : NULL;
}

/* Where the newer list begins. NULL: there is none. */
static const char *newer(const char *base, size_t *len)
{
	struct old_header old;
	uint64_t skip;

	if (*len >= sizeof(old) && !memcmp(base, OLD_MAGIC, sizeof(old.magic))) {
		memcpy(&old, base, sizeof(old));
		skip = (sizeof(old) + (uint64_t)old.num * sizeof(struct old_entry) + 7) & ~7ull;
		if (skip > *len)
			return NULL;
		base += skip;
		*len -= skip;
	}
	return *len >= sizeof(struct header) && !memcmp(base, MAGIC, sizeof(MAGIC) - 1) ? base :
											  NULL;
}

static int read_hwcaps(struct list *l, const char *base, size_t len, const struct section *s)
{
	uint32_t offset;

	if (s->offset > len || s->size > len - s->offset || s->size % sizeof(offset))
		return -EBADMSG;
	free(l->hwcap);
	l->num_hwcaps = s->size / sizeof(offset);
	l->hwcap = calloc(l->num_hwcaps + 1, sizeof(*l->hwcap));
	if (!l->hwcap)
		return -ENOMEM;
	for (size_t i = 0; i < l->num_hwcaps; i++) {
		memcpy(&offset, base + s->offset + i * sizeof(offset), sizeof(offset));
		l->hwcap[i] = text_at(base, len, offset, NAME_MAX);
		if (!l->hwcap[i])
			return -EBADMSG;
	}
	return 0;
}

static int read_extensions(struct list *l, const char *base, size_t len)
{
	size_t at = l->head.extensions;
	struct extensions ext;
	struct section s;
	int err = 0;

	if (!at)
		return 0;
	if (at > len || len - at < sizeof(ext))
		return -EBADMSG;
	memcpy(&ext, base + at, sizeof(ext));
	at += sizeof(ext);
	if (ext.magic != EXT_MAGIC || ext.num > (len - at) / sizeof(s))
		return -EBADMSG;
	for (uint32_t i = 0; i < ext.num && !err; i++) {
		memcpy(&s, base + at + i * sizeof(s), sizeof(s));
		if (s.tag == EXT_HWCAPS)
			err = l->hwcap ? -EBADMSG : read_hwcaps(l, base, len, &s);
	}
	return err;
}

static bool is_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return !strncmp(path, folder, n) && path[n] == '/';
}

/* All entries but those of that folder. There is room for `more`. */
static int read_list(struct list *l, const char *base, size_t len, const char *folder, size_t more)
{
	struct lib *lib;

	if (len) {
		base = newer(base, &len);
		if (!base)
			return -EBADMSG;
		memcpy(&l->head, base, sizeof(l->head));
		if (l->head.num > (len - sizeof(l->head)) / sizeof(struct entry))
			return -EBADMSG;
	}
	l->lib = calloc(l->head.num + more + 1, sizeof(*l->lib));
	if (!l->lib)
		return -ENOMEM;
	for (uint32_t i = 0; i < l->head.num; i++) {
		lib = &l->lib[l->num];
		memcpy(&lib->e, base + sizeof(l->head) + i * sizeof(lib->e), sizeof(lib->e));
		lib->key = text_at(base, len, lib->e.key, NAME_MAX);
		lib->value = text_at(base, len, lib->e.value, PATH_MAX);
		if (!lib->key || !lib->value)
			return -EBADMSG;
		l->num += !is_below(lib->value, folder);
	}
	return len ? read_extensions(l, base, len) : 0;
}

/* ---- the order ---------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static unsigned number(const char **p)
{
	unsigned n = 0;

	for (; is_digit(**p); (*p)++)
		n = n * 10 + (unsigned)(**p - '0');
	return n;
}

/* _dl_cache_libcmp(): numbers by their value. */
static int compare(const char *a, const char *b)
{
	unsigned x, y;

	while (*a) {
		if (is_digit(*a) != is_digit(*b))
			return is_digit(*a) ? 1 : -1;
		if (is_digit(*a)) {
			x = number(&a);
			y = number(&b);
			if (x != y)
				return x > y ? 1 : -1;
		} else if (*a != *b) {
			return *a > *b ? 1 : -1;
		} else {
			a++;
			b++;
		}
	}
	return -!!*b;
}

static void insert(struct list *l, const char *key, const char *value, int flags)
{
	size_t at = 0;

	while (at < l->num && compare(l->lib[at].key, key) > 0)
		at++;
	memmove(&l->lib[at + 1], &l->lib[at], (l->num - at) * sizeof(*l->lib));
	l->lib[at] = (struct lib){ .e.flags = flags, .key = key, .value = value };
	l->num++;
}

/* ---- writing ------------------------------------------------------------------------------------ */

struct out {
	char *base; /* room_for() bytes */
	size_t at;
};

/* Bytes that the list needs at most; above CACHE_MAX the rest is not counted. */
static size_t room_for(const struct list *l)
{
	size_t n = sizeof(l->head) + l->num * sizeof(struct entry) + sizeof(struct extensions) +
		   sizeof(struct section) + sizeof(uint32_t);

	for (size_t i = 0; i < l->num && n <= CACHE_MAX; i++)
		n += strlen(l->lib[i].key) + strlen(l->lib[i].value) + 2;
	for (size_t i = 0; i < l->num_hwcaps && n <= CACHE_MAX; i++)
		n += strlen(l->hwcap[i]) + 1 + sizeof(uint32_t);
	return n;
}

/* Returns the offset. */
static uint32_t put(struct out *o, const void *bytes, size_t n)
{
	size_t at = o->at;

	memcpy(o->base + at, bytes, n);
	o->at += n;
	return (uint32_t)at;
}

static uint32_t put_text(struct out *o, const char *text)
{
	return put(o, text, strlen(text) + 1);
}

static void put_lib(struct out *o, struct lib *lib)
{
	size_t name = strlen(lib->key), path = strlen(lib->value);

	lib->e.value = put_text(o, lib->value);
	/* The name is the end of its path, mostly: one string has both. */
	if (name <= path && !strcmp(lib->value + path - name, lib->key))
		lib->e.key = lib->e.value + (uint32_t)(path - name);
	else
		lib->e.key = put_text(o, lib->key);
}

/* Behind the strings, those of them that are subfolders of glibc-hwcaps. */
static void put_hwcaps(struct out *o, struct list *l)
{
	static const char zeros[4];
	const struct extensions ext = { .magic = EXT_MAGIC, .num = 1 };
	struct section s = { .tag = EXT_HWCAPS };
	size_t first = o->at;

	if (!l->num_hwcaps)
		return;
	s.size = (uint32_t)(l->num_hwcaps * sizeof(uint32_t));
	for (size_t i = 0; i < l->num_hwcaps; i++)
		put_text(o, l->hwcap[i]);
	l->head.strings += (uint32_t)(o->at - first);
	put(o, zeros, -o->at % sizeof(zeros));
	l->head.extensions = put(o, &ext, sizeof(ext));
	s.offset = (uint32_t)(o->at + sizeof(s));
	put(o, &s, sizeof(s));
	for (size_t i = 0; i < l->num_hwcaps; i++) {
		uint32_t offset = (uint32_t)first;

		put(o, &offset, sizeof(offset));
		first += strlen(l->hwcap[i]) + 1;
	}
}

static int write_list(struct list *l, struct out *o)
{
	size_t begin = sizeof(l->head) + l->num * sizeof(struct entry), room = room_for(l);

	if (room > CACHE_MAX)
		return -E2BIG;
	o->base = calloc(1, room);
	if (!o->base)
		return -ENOMEM;
	memcpy(l->head.magic, MAGIC, sizeof(l->head.magic));
	l->head.flags = l->head.flags ? l->head.flags : FLAGS_LE;
	l->head.num = (uint32_t)l->num;
	l->head.extensions = 0;
	o->at = begin;
	for (size_t i = 0; i < l->num; i++) {
		put_lib(o, &l->lib[i]);
		memcpy(o->base + sizeof(l->head) + i * sizeof(struct entry), &l->lib[i].e,
		       sizeof(struct entry));
	}
	l->head.strings = (uint32_t)(o->at - begin);
	put_hwcaps(o, l);
	memcpy(o->base, &l->head, sizeof(l->head));
	return 0;
}

int cache_edit(const void *old, size_t len, const char *folder, const char *const *names, int flags,
	       char **new, size_t *new_len)
{
	char path[NUM_NAMES][PATH_MAX];
	struct out o = { 0 };
	struct list l = { 0 };
	int err = read_list(&l, old, len, folder, NUM_NAMES);

	for (size_t i = 0; names && i < NUM_NAMES && !err; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/%s", folder, names[i]);
		insert(&l, names[i], path[i], flags);
	}
	if (!err && l.num)
		err = write_list(&l, &o);
	free(l.lib);
	free(l.hwcap);
	if (err)
		return err;
	*new = o.base;
	*new_len = o.at;
	return 0;
}
