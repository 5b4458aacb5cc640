/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_ffmem.h - a stand-in for /dev/ffmem, for tests of what uses ffr/mem/view.h: a memfd whose pages are the application's as
 * well, and an ioctl() that answers as ffmem does. Who links fake_ffmem.c has it in the place of libc's.
 */
#ifndef FAKE_FFMEM_H
#define FAKE_FFMEM_H

#include <stdint.h>

#include "kmod/ffmem.h"

struct fake_ffmem {
	int fd;	      /* for view_use() */
	uint8_t *app; /* the application's mapping of it */
	uint32_t version, processes, objects;
	uint32_t flags; /* of the last FFMEM_MAP, and its: */
	uint64_t address, length;
	int refuse;		/* FFMEM_MAP: that errno */
	void (*unmapped)(void); /* FFMEM_UNMAP calls it; NULL: nothing */
};
extern struct fake_ffmem fake_ffmem;

void fake_ffmem_start(uint64_t size); /* bytes of the application's memory; the test unmaps it */

#endif
