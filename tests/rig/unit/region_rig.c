/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* region_rig.c - see region_rig.h. */
#include "tests/rig/unit/region_rig.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct ffl_context *rg_ctx;
struct ibv_pd *rg_pd;

int rg_setup(void **state)
{
	(void)state;
	memset(&fake_shadow, 0, sizeof(fake_shadow));
	rg_ctx = fake_shadow_open(true);
	rg_pd = fake_shadow_pd(rg_ctx);
	return 0;
}

int rg_teardown(void **state)
{
	(void)state;
	fake_shadow_left();
	if (fake_shadow.mrs || to_pd(rg_pd)->refs)
		return -1;
	fake_shadow_close(rg_ctx);
	free(rg_pd);
	return 0;
}

void rg_need_uffd(void)
{
	if (!fake_shadow_has_uffd()) {
		print_message("no /dev/userfaultfd here\n");
		skip();
	}
}

char *rg_map(size_t len)
{
	char *p = mmap(NULL, len, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

struct ff_vma rg_vma_at(const void *p)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct ff_vma v = { 0 };

	assert_true(maps >= 0);
	assert_int_equal(ff_vma_query(maps, (uintptr_t)p, &v), 0);
	assert_true(v.start <= (uintptr_t)p);
	close(maps);
	return v;
}

bool rg_is_shared(const void *p)
{
	return rg_vma_at(p).flags & FF_VMA_SHARED;
}

unsigned rg_count_vmas(const void *p, size_t len)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct ff_vma v;
	unsigned n = 0;

	for (uint64_t pos = (uintptr_t)p;
	     !ff_vma_query(maps, pos, &v) && v.start < (uintptr_t)p + len; pos = v.end)
		n++;
	close(maps);
	return n;
}

struct ibv_mr *rg_reg(void *p, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(rg_pd, p, len, ACCESS);

	assert_non_null(mr);
	return mr;
}

void rg_dereg(struct ibv_mr *mr)
{
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

void rg_fill(char *p, size_t len, unsigned salt)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (char)(i / PG * 7 + i + salt);
}

void rg_check(const char *p, size_t len, unsigned salt)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (char)(i / PG * 7 + i + salt))
			fail_msg("byte %zu of %zu differs", i, len);
}

void rg_check_zero(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i])
			fail_msg("byte %zu of %zu is not zero", i, len);
}

int rg_dontneed(void *p, size_t len)
{
	return (int)syscall(SYS_madvise, p, len, MADV_DONTNEED);
}

struct ibv_mr *rg_filled(char *p, size_t len, unsigned salt)
{
	rg_fill(p, len, salt);
	return rg_reg(p, len);
}

void rg_gone(struct ibv_mr *mr, char *p, size_t len, unsigned salt)
{
	rg_dereg(mr);
	rg_check(p, len, salt);
	munmap(p, len);
}

int rg_in_child(int (*fn)(void *), void *arg)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(fn(arg));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}
