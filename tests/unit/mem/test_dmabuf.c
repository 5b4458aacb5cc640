/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_dmabuf.c - ffr/mem/dmabuf.c, with a memfd in the place of a dma-buf, for few machines have
 * /dev/udmabuf: what /proc and fstatfs() say of it is the test's to choose.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"

static const char *fdinfo; /* NULL: the real one */
static long magic;

static FILE *fake_fopen(const char *path, const char *mode)
{
	assert_non_null(strstr(path, "/proc/self/fdinfo/"));
	return fdinfo ? fmemopen((void *)(uintptr_t)fdinfo, strlen(fdinfo), "r") :
			fopen(path, mode);
}

static int fake_fstatfs(int fd, struct statfs *st)
{
	int ret = fstatfs(fd, st);

	st->f_type = magic;
	return ret;
}

#define fopen	fake_fopen
#define fstatfs fake_fstatfs
#include "ffr/mem/dmabuf.c"
#undef fopen
#undef fstatfs

#define PAGE 4096u
#define LEN  (8 * PAGE)
#define RW   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static const char udmabuf[] = "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t7\nsize:\t32768\ncount:\t2\n"
			      "exp_name:\tudmabuf\n";

static struct tenant tenant;
static struct container cont = { .of = &tenant };
static struct session ses;

static int map(struct mr *mr, int fd, uint64_t offset, uint64_t length, uint32_t access)
{
	*mr = (struct mr){ .o.ses = &ses,
			   .kind = MR_DMABUF,
			   .iova = 0x500000 + offset % PAGE,
			   .length = length,
			   .access = access };
	return dmabuf_map(mr, fd, offset);
}

static int buffer(uint8_t **bytes)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);

	assert_true(fd >= 0 && !ftruncate(fd, LEN));
	*bytes = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(*bytes != MAP_FAILED);
	fdinfo = udmabuf;
	magic = DMA_BUF_MAGIC;
	ses = (struct session){ .id = 1, .cont = &cont };
	return fd;
}

static void a_part_is_mapped(void **state)
{
	uint8_t *bytes, *host;
	struct mr mr;
	int fd = buffer(&bytes);

	(void)state;
	assert_int_equal(map(&mr, fd, PAGE + 100, 2 * PAGE, RW), 0);
	assert_int_equal(mr.num_runs, 1);
	assert_int_equal(mr.addr, mr.iova);
	assert_int_equal(mr.zero_copy, 2 * PAGE);
	assert_int_equal(ses.mem.num_foreign, 1);
	/* from the first byte to the last, and in both directions */
	host = shadow_first(&mr, mr.addr, 2 * PAGE);
	assert_non_null(host);
	assert_null(shadow_first(&mr, mr.addr, 2 * PAGE + 1));
	host[0] = 1;
	host[2 * PAGE - 1] = 2;
	assert_int_equal(bytes[PAGE + 100], 1);
	assert_int_equal(bytes[3 * PAGE + 99], 2);
	bytes[PAGE + 101] = 3;
	assert_int_equal(host[1], 3);
	close(fd); /* the mapping keeps it */
	host[2] = 4;
	assert_int_equal(bytes[PAGE + 102], 4);
	dmabuf_unmap(&mr);
	shadow_unmap(&mr);
	assert_int_equal(ses.mem.num_foreign, 0);
	dmabuf_unmap(&mr); /* once is enough */
	assert_int_equal(ses.mem.num_foreign, 0);
	munmap(bytes, LEN);
}

static void bounds(void **state)
{
	uint8_t *bytes;
	struct mr mr;
	int fd = buffer(&bytes);

	(void)state;
	assert_int_equal(map(&mr, fd, 0, LEN, RW), 0);
	dmabuf_unmap(&mr);
	shadow_unmap(&mr);
	assert_int_equal(map(&mr, fd, 0, LEN + 1, RW), -EINVAL);
	assert_int_equal(map(&mr, fd, LEN, 1, RW), -EINVAL);
	assert_int_equal(map(&mr, fd, UINT64_MAX, 2, RW), -EINVAL);
	assert_int_equal(map(&mr, fd, 2, UINT64_MAX, RW), -EINVAL);
	assert_int_equal(map(&mr, fd, 0, 0, RW), -EINVAL);
	assert_int_equal(ses.mem.num_foreign, 0);
	ses.mem.num_foreign = MAX_FOREIGN;
	assert_int_equal(map(&mr, fd, 0, LEN, RW), -ENOSPC);
	close(fd);
	munmap(bytes, LEN);
}

/* A descriptor that may only be read from cannot be written through. */
static void rights(void **state)
{
	char path[32];
	uint8_t *bytes;
	struct mr mr;
	int fd = buffer(&bytes), ro;

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(ro >= 0);
	assert_int_equal(map(&mr, ro, 0, LEN, RW), -EACCES);
	assert_null(mr.run);
	assert_null(mr.map);
	assert_int_equal(map(&mr, ro, 0, LEN, IBV_ACCESS_REMOTE_READ), 0);
	dmabuf_unmap(&mr);
	shadow_unmap(&mr);
	close(ro);
	close(fd);
	munmap(bytes, LEN);
}

static void only_dmabufs_of_plain_memory(void **state)
{
	uint8_t *bytes;
	struct mr mr;
	int fd = buffer(&bytes);

	(void)state;
	fdinfo = NULL;
	assert_int_equal(map(&mr, fd, 0, LEN, RW), -EINVAL); /* a memfd is none */
	fdinfo = "pos:\t0\n";
	assert_int_equal(map(&mr, fd, 0, LEN, RW), -EINVAL);
	fdinfo = "exp_name:\tsystem\n";
	assert_int_equal(map(&mr, fd, 0, LEN, RW), 0);
	dmabuf_unmap(&mr);
	shadow_unmap(&mr);
	fdinfo = "exp_name:\ti915\n";
	assert_int_equal(map(&mr, fd, 0, LEN, RW), -EOPNOTSUPP);
	fdinfo = "exp_name:\tudmabufs\n";
	assert_int_equal(map(&mr, fd, 0, LEN, RW), -EOPNOTSUPP);
	fdinfo = udmabuf;
	magic = 0x01021994; /* tmpfs */
	assert_int_equal(map(&mr, fd, 0, LEN, RW), -EINVAL);
	close(fd);
	munmap(bytes, LEN);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(a_part_is_mapped), cmocka_unit_test(bounds),
			cmocka_unit_test(rights), cmocka_unit_test(only_dmabufs_of_plain_memory));
}
