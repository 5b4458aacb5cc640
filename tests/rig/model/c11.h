/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * c11.h - runs a few short threads in all ways that C11 allows, and says in which a rule is broken. What runs is the
 * product's own code: a file that includes c11_atomics.h before a source compiles its atomics into calls of these.
 *
 * The model. A word's stores are a list, its modification order; a load may return any of them that the
 * thread does not know to be superseded; a store may come anywhere behind what it knows of. What a thread knows
 * of (its view) grows by what it loads, by what the stores that it acquires knew of when they were released, and,
 * at seq_cst fences, by what all seq_cst fences before in their one order knew of. This is RC11's promise-free
 * part: what C11 allows, but for executions in which a load returns what depends on that load's own result or on
 * a store that comes later in its thread's program. No CPU that is supported here does that through the branches
 * that follow each load of these protocols. A seq_cst load or store is only as strong as C11 has it,
 * which is less than CPUs give.
 *
 * The explorer runs the threads again and again, each time with another choice (who is next, which store a load
 * sees, where a store comes), depth first, and leaves a run where its state has been seen before: the words' lists, the
 * views, and all that each thread has been told. So a thread must do the same whenever it is told the same.
 */
#ifndef C11_H
#define C11_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define C11_THREADS 4

/* What is left out or weakened, by thread: a test of the test. */
struct c11_mutant {
	bool no_fence;	 /* its fences do nothing */
	bool weak_fence; /* its seq_cst fences are acquire and release */
	bool no_release; /* its release stores are relaxed */
	bool no_acquire; /* its acquire loads are relaxed */
};

struct c11_program {
	void (*reset)(void); /* before each run: all that the threads share or keep */
	void (*thread[C11_THREADS])(void);
	uint64_t (*state)(
		void); /* of what threads keep elsewhere, a hash or the thing itself; NULL: nothing */
	/* after each run in which all have ended or wait: what is wrong, or NULL */
	const char *(*check)(void);
	struct c11_mutant mutant[C11_THREADS];
	uint32_t max_states; /* 0: 4 million */
};

struct c11_result {
	const char *wrong;	     /* NULL: nothing in any run */
	bool incomplete;	     /* more states than max_states */
	uint32_t states, runs, left; /* left: runs that a thread left with c11_leave() */
};

struct c11_result c11_explore(const struct c11_program *p);

/* In reset: the words that the model has; others are the threads' own. n: bytes of each, 1 to 8. */
void c11_word(void *p, size_t n);

/* In threads, by c11_atomics.h; n: bytes. What the model does not have is read and written as it is. */
bool c11_has(const volatile void *p);
uint64_t c11_load(const volatile void *p, size_t n, memory_order o);
void c11_store(volatile void *p, size_t n, uint64_t v, memory_order o);
enum c11_rmw { C11_XCHG, C11_ADD, C11_SUB, C11_OR, C11_AND };
uint64_t c11_rmw(volatile void *p, size_t n, enum c11_rmw how, uint64_t v, memory_order o);
bool c11_cas(volatile void *p, size_t n, uint64_t *expected, uint64_t v, memory_order o);
void c11_fence(memory_order o);

/* Data that is not atomic: reading or writing it is wrong unless what others did with it happened before. */
uint64_t c11_plain_load(const volatile void *p);
void c11_plain_store(volatile void *p, uint64_t v);

/* Kernel objects: waits until the word is not 0 (is 0), which is then known. c11_take() makes it 0 as well. */
uint64_t c11_take(volatile void *p);
void c11_wait_zero(volatile void *p);
void c11_give(volatile void *p); /* adds 1 */

/* The run is of no more interest: it went on for longer than it has to. */
void c11_leave(void);
/* A rule is broken. */
void c11_wrong(const char *what);
/* In check: has the thread ended? The newest value of a word. */
bool c11_ended(int thread);
uint64_t c11_newest(const volatile void *p);

#endif
