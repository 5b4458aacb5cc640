/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rt.h - what the self-test of ffrio.ko shares. Ports are vmport's, whose settings and faults the self-test
 * of vmport knows how to set. The first mistake ends the test.
 */
#ifndef RT_H
#define RT_H

#include <unistd.h>

#include "../../tools/ffrio_lib.h"
#include "../vmport/vt.h"

#define PORTS 3
#define PAGE  ((size_t)getpagesize())

int rt_open(unsigned int port, int endpoint, int flags);
void rt_parameter(const char *name, const char *value); /* of the module */
void rt_parameter_get(const char *name, char *value, size_t size);
void rt_mode(unsigned int i); /* the module's, by number; 0: as it is loaded */
#define RT_MODES 4
void rt_quiet(void); /* no fault at any port */
/* All buffers are back, of all ports, and no page is pinned. */
void rt_all_free(int fd);
void rt_none_pinned(void);

/* A message for a receiver, filled by seed, with checks. */
void rt_send(int fd, unsigned int to, unsigned int endpoint, size_t n, uint32_t seed,
	     unsigned int flags);
void rt_expect(int fd, size_t n, uint32_t seed);
/* Messages of many sizes and alignments from a to b, which is at that endpoint. */
void rt_all_sizes(int a, int b, unsigned int to, unsigned int endpoint, unsigned int flags);

void test_calls(void);
void test_messages(void);
void test_in_place(void);
void test_pinned(void);
void test_ends(void);
void test_changes(void);
void test_windows_of_others(void);
void test_sixteen(void);
void test_losses(void);
void test_cut(void);
void test_fuzz(void);
void test_gone(void);

#endif
