/* SPDX-License-Identifier: GPL-2.0 */
/*
 * vt.h - what the self-test of vmport.ko shares: master ports by /dev/rio_mportN and their files in
 * sysfs. The first mistake ends the test.
 */
#ifndef VT_H
#define VT_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <linux/rio_mport_cdev.h>

#include "../check.h"

/* Waits for a condition, 10 s at most. */
#define AWAIT(x)                                                                                   \
	do {                                                                                       \
		double end_ = check_now() + 10;                                                    \
		while (!(x)) {                                                                     \
			if (check_now() > end_)                                                    \
				check_fail("not so after 10 s: %s", #x);                           \
			vt_pause();                                                                \
		}                                                                                  \
	} while (0)

void vt_pause(void); /* a millisecond */
void vt_fill(void *p, size_t n, uint32_t seed);
/* Bytes that differ from what vt_fill() writes. */
size_t vt_differ(const void *p, size_t n, uint32_t seed);

/* ---- a master port (mport.c) --------------------------------------------------------------------- */

int mport_open(int index);
uint16_t mport_id(int index);					   /* its device ID */
long mport_set(int index, const char *setting, const char *value); /* 0 or -errno */
long long mport_stat(int index, const char *counter);

long maint(int fd, bool write, uint16_t id, uint8_t hop, uint32_t offset, uint32_t *value);
long maint_local(int fd, bool write, uint32_t offset, uint32_t *value);

struct window {
	uint64_t handle, address; /* address: RapidIO's */
	size_t length;
	uint8_t *p;
};
/* address RIO_MAP_ANY_ADDR: one that the kernel finds. */
long window_try(int fd, uint64_t address, size_t length, struct window *w);
void window_open(int fd, uint64_t address, size_t length, struct window *w);
void window_close(int fd, struct window *w);
long outbound_open(int fd, uint16_t id, uint64_t address, size_t length, struct window *w);
void outbound_close(int fd, struct window *w);

/* Waits for the end if sync is RIO_TRANSFER_SYNC; otherwise 0, or for ASYNC the transfer's number. */
long dma(int fd, bool write, uint16_t id, uint64_t address, void *p, size_t n, int method,
	 int sync);
long dma_wait(int fd, long number);
/* By a buffer of the kernel's instead of the caller's memory. */
long dma_buffer(int fd, bool write, uint16_t id, uint64_t address, uint64_t handle, uint64_t offset,
		size_t n, int method);

long doorbell(int fd, uint16_t id, uint16_t info);
void doorbells_on(int fd, uint16_t low, uint16_t high);
void doorbells_off(int fd, uint16_t low, uint16_t high);
/* The next event; false if there is none in so many ms. */
bool event_next(int fd, struct rio_event *e, int ms);

/* ---- the cases ----------------------------------------------------------------------------------- */

void test_maint(void);
void test_dma(void);
void test_windows(void);
void test_doorbells(void);
void test_time(void);
void test_faults(void);
void test_cm(void);
void serve(void);	     /* the other side of test_peer(), in another VM */
void test_peer(uint16_t id); /* of the other side's first port */
void cm_serve(int mport);    /* echoes until the channel is closed */
void cm_client(int mport, uint16_t id, int count);

#endif
