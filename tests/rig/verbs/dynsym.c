/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* dynsym.c - see dynsym.h. */
#include "tests/rig/verbs/dynsym.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The whole file of the library. */
static const uint8_t *map_file(const void *inside)
{
	Dl_info info;
	struct stat st;
	void *file;
	int fd;

	CHECK(dladdr(inside, &info) && info.dli_fname);
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		FAIL("%s: %s", info.dli_fname, strerror(errno));
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(file != MAP_FAILED);
	close(fd);
	return file;
}

/* A name in several version nodes is there several times, one after the other or not. */
static bool is_first(const Elf64_Sym *sym, size_t i, const char *names)
{
	for (size_t k = 0; k < i; k++)
		if (sym[k].st_shndx != SHN_UNDEF &&
		    !strcmp(names + sym[k].st_name, names + sym[i].st_name))
			return false;
	return true;
}

void dynsym_each(const void *inside, void (*fn)(const char *name, void *arg), void *arg)
{
	const uint8_t *file = map_file(inside);
	const Elf64_Ehdr *h = (const void *)file;
	const Elf64_Shdr *sec = (const void *)(file + h->e_shoff);

	for (unsigned s = 0; s < h->e_shnum; s++) {
		const Elf64_Sym *sym = (const void *)(file + sec[s].sh_offset);
		const char *names = (const char *)file + sec[sec[s].sh_link].sh_offset;

		if (sec[s].sh_type != SHT_DYNSYM)
			continue;
		for (size_t i = 0; i < sec[s].sh_size / sizeof(*sym); i++)
			if (sym[i].st_shndx != SHN_UNDEF &&
			    ELF64_ST_TYPE(sym[i].st_info) == STT_FUNC && is_first(sym, i, names))
				fn(names + sym[i].st_name, arg);
	}
}

struct cover {
	bool (*want)(const char *name);
	const struct vt_case *cases;
	size_t num;
	char missing[1024];
	unsigned seen;
};

static void look_up(const char *name, void *arg)
{
	struct cover *c = arg;
	size_t at = strlen(c->missing);

	if (!c->want(name))
		return;
	c->seen++;
	for (size_t i = 0; i < c->num; i++)
		if (!strcmp(c->cases[i].name, name))
			return;
	snprintf(c->missing + at, sizeof(c->missing) - at, " %s", name);
}

void dynsym_covered(const void *inside, bool (*want)(const char *name), const struct vt_case *cases,
		    size_t num)
{
	struct cover c = { .want = want, .cases = cases, .num = num };

	dynsym_each(inside, look_up, &c);
	CHECK(c.seen > 0);
	if (c.missing[0])
		FAIL("exported, but there is no case for:%s", c.missing);
}
