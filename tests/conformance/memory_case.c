/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * memory_case.c - the course of one case: when the memory is registered, when the operation comes,
 * what is looked at, what RDMA reaches, and the second thread beside it. Runs in the case's own
 * process.
 */
#include "tests/conformance/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RACE_ROUNDS  15
#define ROUNDS	     3 /* of a thread, that an operation waits for */
#define WRITTEN_ONCE 0x7468726561640001u

/* ---- the registration ------------------------------------------------------------------------ */

#define USED_PASSES 4
#define USED_WAIT   400000 /* us */

static bool registered;

static int reg_at(const struct area *a, uint8_t *p)
{
	const struct kind *k = a->kind;

	return dev->reg(p + k->inset, a->len - 2 * k->inset, !k->no_atomics);
}

/* Reads all of it several times, and gives the device time to have noticed. */
static void use(const struct area *a)
{
	static uint8_t page[4096];

	for (unsigned i = 0; i < USED_PASSES; i++)
		for (size_t off = 0; off + PAGE <= a->len - 2 * a->kind->inset; off += PAGE)
			dev->read(off, page);
	usleep(USED_WAIT);
}

static void reg(const struct area *a)
{
	int err;

	if (!dev)
		return;
	err = reg_at(a, a->moved && a->moved_len == a->len ? a->moved : a->p);
	say_rdma(" reg=%s", err_name(err));
	registered = !err;
	if (registered && a->kind->used && dev == &dev_verbs)
		use(a);
}

/* A page of the MR. */
static size_t offset(const struct area *a, unsigned number)
{
	return number * PAGE - a->kind->inset;
}

static void dereg(void)
{
	int err;

	if (!registered)
		return;
	err = dev->dereg();
	if (err)
		say_rdma(" dereg=%s", err_name(err));
	registered = false;
}

/* Whether the program sees what was written to a page of the MR, and where. */
static const char *seen(const struct area *a, unsigned number)
{
	unsigned moved = (unsigned)(a->moved_len / PAGE);
	const char *word;

	if (a->moved && number >= a->moved_page && number < a->moved_page + moved &&
	    !strcmp(content_of(a->moved + (number - a->moved_page) * PAGE, number), "rdma"))
		return "moved";
	word = content_of(a->p + number * PAGE, number);
	return !strcmp(word, "rdma") ? "yes" : !strncmp(word, "SIG", 3) ? word : "no";
}

/* Reads from the MR, writes to it, and reads again. */
static void rdma(const struct area *a)
{
	const char *mr[4], *wrote[4], *saw[4], *back[4];
	unsigned per = (unsigned)(a->q / PAGE);
	static uint8_t page[4096];
	bool well = true;

	if (!registered)
		return;
	for (unsigned k = 0; k < 4; k++) {
		unsigned number = k * per + FIRST_PAGE;

		mr[k] = well ? dev->read(offset(a, number), page) : "-";
		well = well && !strcmp(mr[k], "ok");
		if (well)
			mr[k] = content_of_copy(page, number);
	}
	say_four(say_rdma, "mr", mr);
	for (unsigned k = 0; k < 4 && well; k++) {
		unsigned number = k * per + RDMA_PAGE;

		fill(page, RDMA, number);
		wrote[k] = well ? dev->write(offset(a, number), page) : "-";
		well = well && !strcmp(wrote[k], "ok");
		saw[k] = well ? seen(a, number) : "-";
		back[k] = well ? dev->read(offset(a, number), page) : "-";
		well = well && !strcmp(back[k], "ok");
		if (well)
			back[k] = content_of_copy(page, number);
	}
	if (!well) {
		say_rdma(" fails");
		return;
	}
	say_four(say_rdma, "write", wrote);
	say_four(say_rdma, "seen", saw);
	say_four(say_rdma, "back", back);
}

/* ---- threads --------------------------------------------------------------------------------- */

static struct {
	const struct area *a;
	pthread_t thread;
	_Atomic unsigned rounds;
	_Atomic bool stop, ended;
	const char *stream; /* the status that the stream of WRITEs has ended with, or NULL */
	bool lost[4];
	int down[4]; /* signals of the last round */
} second;

/*
 * Two words of each quarter are this thread's: a counter, and one that is written once. Nobody else
 * may change them. The second one tells of pages that are replaced between reading and writing the
 * counter.
 */
static void *writer(void *arg)
{
	const struct area *a = second.a;
	uint64_t model[4] = { 0 };
	volatile bool known = false;

	while (!second.stop) {
		for (unsigned k = 0; k < 4; k++) {
			volatile uint64_t *w =
				(void *)(a->p + k * a->q + THREAD_PAGE * PAGE + k * 8);

			second.down[k] = CAUGHT({
				uint64_t found = w[0];

				if (!known)
					w[1] = WRITTEN_ONCE;
				else if (found != model[k] || w[1] != WRITTEN_ONCE)
					second.lost[k] = true;
				w[0] = found + 1;
				model[k] = found + 1;
			});
		}
		known = true;
		second.rounds++;
	}
	return arg;
}

static void *stream(void *arg)
{
	const struct area *a = second.a;
	unsigned per = (unsigned)(a->q / PAGE), k = 0;
	static uint8_t page[4096];

	while (!second.stop && !second.stream) {
		unsigned number = (k++ % 4) * per + RDMA_PAGE;
		const char *word;

		fill(page, KERNEL, number);
		word = dev->write(offset(a, number), page);
		if (strcmp(word, "ok"))
			second.stream = word;
		second.rounds++;
	}
	second.ended = true;
	return arg;
}

static void *registrar(void *arg)
{
	const struct area *a = second.a;

	while (!second.stop) {
		if (!reg_at(a, a->p))
			dev->dereg();
		second.rounds++;
	}
	return arg;
}

/* Until the thread has begun and ended another round, several times. */
static void wait_rounds(unsigned num)
{
	unsigned from = second.rounds;

	while (second.rounds - from < num && !second.ended)
		usleep(20);
}

static void start(const struct area *a, void *(*run)(void *))
{
	second.a = a;
	pthread_create(&second.thread, NULL, run, NULL);
	wait_rounds(ROUNDS);
}

static void stop(void)
{
	wait_rounds(ROUNDS);
	second.stop = true;
	pthread_join(second.thread, NULL);
}

static void say_thread(void)
{
	const char *word[4];

	for (unsigned k = 0; k < 4; k++)
		word[k] = second.down[k] ? "signal" : second.lost[k] ? "lost" : "kept";
	say_four(say, "thread", word);
}

/* ---- a case ---------------------------------------------------------------------------------- */

static void child(const struct area *a)
{
	pid_t pid = fork();

	if (!pid) {
		look(a, "child", false);
		_exit(0);
	}
	say_end("child", pid);
}

/*
 * The operation, again and again, while another thread registers the memory. What differs is told.
 */
static void race(struct area *a, const struct op *op)
{
	static char first[WORDS_MAX];

	if (dev)
		start(a, registrar);
	op->run(a, op->arg);
	memcpy(first, words->program, WORDS_MAX);
	for (unsigned i = 1; i < RACE_ROUNDS; i++) {
		words->program[0] = 0;
		op->run(a, op->arg);
		if (strcmp(first, words->program)) {
			static char then[WORDS_MAX];

			memcpy(then, words->program, WORDS_MAX);
			memcpy(words->program, first, WORDS_MAX);
			say(" then%s", then);
			break;
		}
	}
	if (dev)
		stop();
}

/* The second half of an operation, while other memory is registered, which is not to be changed. */
static void late(struct area *a, const struct op *op)
{
	struct area other = { .len = (size_t)256 << 10, .q = (size_t)64 << 10, .fd = -1 };
	unsigned pages = (unsigned)(other.len / PAGE);
	const char *word = "kept";
	bool held = false;

	other.p = mmap(OTHER_AT, other.len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	for (unsigned i = 0; i < pages; i++)
		fill(other.p + i * PAGE, OLD, i);
	if (dev)
		held = !dev->reg(other.p, other.len, true);
	for (unsigned i = 0; i < pages; i++)
		fill(other.p + i * PAGE, NEW, i);
	op->late(a, op->arg);
	for (unsigned i = 0; i < pages; i++)
		if (strcmp(content_of(other.p + i * PAGE, i), "new"))
			word = "changed";
	say(" other=%s", word);
	if (held)
		dev->dereg();
}

static void in_order(struct area *a, const struct one *c)
{
	const struct op *op = c->op;

	switch (c->when) {
	case BEFORE:
		op->run(a, op->arg);
		reg(a);
		look(a, "sees", true);
		child(a);
		rdma(a);
		dereg();
		break;
	case DURING:
		reg(a);
		op->run(a, op->arg);
		look(a, "sees", true);
		child(a);
		rdma(a);
		dereg();
		break;
	case AFTER:
		reg(a);
		rdma(a);
		dereg();
		op->run(a, op->arg);
		look(a, "sees", true);
		child(a);
		reg(a);
		rdma(a);
		dereg();
		break;
	case FLIGHT:
		reg(a);
		if (registered)
			start(a, stream);
		op->run(a, op->arg);
		if (registered) {
			stop();
			say_rdma(" stream=%s", second.stream ? second.stream : "ok");
		}
		look(a, "sees", true);
		if (!second.stream)
			rdma(a);
		dereg();
		break;
	case THREADS:
		start(a, writer);
		reg(a);
		op->run(a, op->arg);
		wait_rounds(ROUNDS);
		dereg();
		reg(a);
		dereg();
		stop();
		say_thread();
		look(a, "sees", true);
		break;
	default:
		race(a, op);
	}
	if (op->late)
		late(a, op);
	look(a, "after", true);
}

void run_body(const struct one *c, uint8_t *room)
{
	struct area a = { .kind = c->kind, .len = c->kind->len, .q = c->kind->len / 4, .fd = -1 };
	const char *word;

	if (!c->kind->make(&a, room)) {
		say(" skipped");
		return;
	}
	for (unsigned i = 0; i < a.len / PAGE; i++)
		fill(a.p + i * PAGE, OLD, i);
	word = dev ? dev->open() : "ok";
	if (strcmp(word, "ok")) {
		say(" no-device=%s", word);
		return;
	}
	words->wants_core = c->op->flags & FINAL;
	in_order(&a, c);
}
