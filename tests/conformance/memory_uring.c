/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* memory_uring.c - a ring of io_uring by bare system calls, for one request at a time. */
#include "tests/conformance/memory.h"

#include <linux/io_uring.h>
#include <string.h>
#include <sys/uio.h>

int uring_open(struct uring *r)
{
	struct io_uring_params p;
	size_t sq_len, cq_len;
	uint8_t *sq, *cq;

	memset(&p, 0, sizeof(p));
	memset(r, 0, sizeof(*r));
	r->fd = (int)syscall(SYS_io_uring_setup, 4, &p);
	if (r->fd < 0)
		return errno;
	sq_len = p.sq_off.array + p.sq_entries * sizeof(unsigned);
	cq_len = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	sq = mmap(NULL, sq_len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_SQ_RING);
	cq = mmap(NULL, cq_len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_CQ_RING);
	r->sqe = mmap(NULL, p.sq_entries * sizeof(*r->sqe), PROT_READ | PROT_WRITE, MAP_SHARED,
		      r->fd, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || r->sqe == MAP_FAILED)
		return ENOMEM;
	r->sq_tail = (unsigned *)(sq + p.sq_off.tail);
	r->sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
	r->sq_array = (unsigned *)(sq + p.sq_off.array);
	r->cq_head = (unsigned *)(cq + p.cq_off.head);
	r->cq_tail = (unsigned *)(cq + p.cq_off.tail);
	r->cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
	r->cqe = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	return 0;
}

/* The rings' mappings stay until the process ends. */
void uring_close(struct uring *r)
{
	close(r->fd);
}

int uring_register(struct uring *r, void *p, size_t len)
{
	struct iovec iov = { p, len };

	return syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_BUFFERS, &iov, 1) ? errno : 0;
}

int uring_unregister(struct uring *r)
{
	return syscall(SYS_io_uring_register, r->fd, IORING_UNREGISTER_BUFFERS, NULL, 0) ? errno :
											   0;
}

int uring_rw(struct uring *r, int op, int fd, void *p, unsigned len, uint64_t off)
{
	unsigned tail = *r->sq_tail, head;
	struct io_uring_sqe *s = &r->sqe[tail & *r->sq_mask];
	int res;

	memset(s, 0, sizeof(*s));
	s->opcode = (uint8_t)op;
	s->fd = fd;
	s->addr = (uintptr_t)p;
	s->len = len;
	s->off = off;
	r->sq_array[tail & *r->sq_mask] = tail & *r->sq_mask;
	__atomic_store_n(r->sq_tail, tail + 1, __ATOMIC_RELEASE);
	while (syscall(SYS_io_uring_enter, r->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		if (errno != EINTR)
			return -errno;
	head = *r->cq_head;
	while (__atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE) == head)
		syscall(SYS_io_uring_enter, r->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	res = r->cqe[head & *r->cq_mask].res;
	__atomic_store_n(r->cq_head, head + 1, __ATOMIC_RELEASE);
	return res;
}
