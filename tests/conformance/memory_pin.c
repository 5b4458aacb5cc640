/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * memory_pin.c - what a NIC does to memory, without a NIC: registering pins the pages by io_uring,
 * with the kernel's same call (pin_user_pages with FOLL_LONGTERM) as ibv_reg_mr() of a NIC. A WRITE
 * by RDMA is a read from a file into the pinned pages, and a READ is a write to the file.
 */
#include "tests/conformance/memory.h"

#include <linux/io_uring.h>
#include <stdio.h>

static struct uring ring;
static int file = -1;
static uint8_t *base;

static const char *pin_open(void)
{
	int err = uring_open(&ring);

	if (err)
		return err_name(err);
	file = memfd_create("pin", MFD_CLOEXEC);
	return file < 0 ? err_name(errno) : "ok";
}

static int pin_reg(void *p, size_t len, bool atomics)
{
	(void)atomics;
	base = p;
	return uring_register(&ring, p, len);
}

static int pin_dereg(void)
{
	return uring_unregister(&ring);
}

static const char *pin_write(size_t off, const void *page)
{
	int n;

	if (pwrite(file, page, PAGE, 0) != (ssize_t)PAGE)
		return err_name(errno);
	n = uring_rw(&ring, IORING_OP_READ_FIXED, file, base + off, PAGE, 0);
	return n == (int)PAGE ? "ok" : n < 0 ? err_name(-n) : "short";
}

static const char *pin_read(size_t off, void *page)
{
	int n = uring_rw(&ring, IORING_OP_WRITE_FIXED, file, base + off, PAGE, PAGE);

	if (n != (int)PAGE)
		return n < 0 ? err_name(-n) : "short";
	return pread(file, page, PAGE, PAGE) == (ssize_t)PAGE ? "ok" : err_name(errno);
}

const struct device dev_pin = { "pin", pin_open, pin_reg, pin_dereg, pin_write, pin_read };
