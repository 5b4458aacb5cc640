/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rt.h - what the self-test of ffrio.ko shares. Ports are vmport's, whose settings and faults the self-test
 * of vmport knows how to set. The first mistake ends the test.
 */
#ifndef RT_H
#define RT_H

#include "../../tools/ffrio_lib.h"
#include "../vmport/vt.h"

#define PORTS 3

int rt_open(unsigned int port, int endpoint, int flags);
void rt_parameter(const char *name, const char *value); /* of the module */
void rt_quiet(void);					/* no fault at any port */
/* All buffers are back, of all ports. */
void rt_all_free(int fd);

/* A message for a receiver, filled by seed, with checks. */
void rt_send(int fd, unsigned int to, unsigned int endpoint, size_t n, uint32_t seed);
void rt_expect(int fd, size_t n, uint32_t seed);

void test_calls(void);
void test_messages(void);
void test_in_place(void);
void test_windows_of_others(void);
void test_sixteen(void);
void test_losses(void);
void test_cut(void);
void test_fuzz(void);

#endif
