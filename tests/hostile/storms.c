/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/fuse.c tests/rig/verbs/vt.c -lpthread */
/*
 * storms.c - for storms.sh: a client whose registered memory keeps who touches it waiting. It says "attacks" when it does,
 * answers each line of its standard input with "goes on", and ends with its input.
 *
 *	storms fuse		a file of a FUSE server that does not answer the router: every request is held until the end
 *	storms mlock		memory that threads lock and unlock all the time
 *	storms reclaim FOLDER	pages of a file, in a memory cgroup that is full: they are reclaimed all the time
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/verbs/fuse.h"
#include "tests/rig/verbs/raw.h"

#define PAGE	 4096u
#define SESSIONS 24u
#define REQUESTS 4u /* of a session that are held */
#define LOCKED	 (4u << 20)
#define LOCKERS	 4u
#define PAGED	 (96u << 20) /* more than the cgroup of storms.sh has */

static struct client {
	struct raw r;
	struct raw_qp q;
	uint32_t key; /* of the bad page */
	uint64_t addr;
} client[SESSIONS];

/* A page for each session, from there on. Nothing of it may be mapped by the router if is_copied. */
static void clients_make(uint8_t *pages, size_t apart, bool is_copied)
{
	for (unsigned i = 0; i < SESSIONS; i++) {
		struct client *c = &client[i];
		struct ff_mr_run run = { .len = PAGE, .kind = FF_RUN_SHARED };
		struct ff_reg_mr_req req = { .length = PAGE, .access = VT_ACCESS_ALL };
		struct ff_reg_mr_resp mr;

		raw_open(&c->r);
		raw_qp_make(&c->r, &c->q, IBV_QPT_RC, PAGE);
		raw_qp_connect(&c->r, &c->q);
		c->addr = req.addr = req.iova = run.va = (uintptr_t)(pages + i * apart);
		req.pd = c->q.pd;
		if (!raw_call_tail(&c->r, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1,
				   &mr, sizeof(mr)))
			CHECK(!is_copied || !mr.zero_copy);
		RAW_CALL(&c->r, REG_MR, &req, &mr);
		CHECK_EQ(mr.zero_copy, 0);
		c->key = mr.lkey;
	}
}

static void answer(const char *what)
{
	puts(what);
	fflush(stdout);
}

/* Each line is answered once f() says that the attack goes on. */
static void until_the_end(bool (*f)(void))
{
	char line[32];

	answer("attacks");
	while (fgets(line, sizeof(line), stdin)) {
		CHECK(f());
		answer("goes on");
	}
}

/* ---- a server that does not answer ----------------------------------------------------------------- */

static bool all_are_held(void)
{
	for (unsigned i = 2; i < SESSIONS; i++)
		if (raw_cqe(&client[i].q))
			return false;
	return true;
}

/*
 * While requests are held this program must not change its mappings: munmap() and brk() wait for the router's reads of its
 * memory, and those who read /proc/PID/cmdline (ps, pgrep) wait behind them. So nothing is closed or allocated.
 */
static void of_a_fuse_server(void)
{
	struct ff_destroy_qp_resp none;
	struct fuse f;
	uint8_t *p;
	int fd;

	if (!fuse_start(&f)) {
		printf("no FUSE here: %s\n", strerror(errno));
		exit(77);
	}
	fd = fuse_file(&f, "file", O_RDWR);
	p = mmap(NULL, SESSIONS * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(fd >= 0 && p != MAP_FAILED);
	clients_make(p, PAGE, true);
	for (unsigned i = 0; i < SESSIONS; i++)
		for (unsigned k = 0; k < REQUESTS; k++)
			raw_post_nth(&client[i].r, &client[i].q, k, client[i].addr, client[i].key);
	/* ends while they are held: a QP's, and a session's */
	RAW_CALL(&client[0].r, DESTROY_QP, (&(struct ff_destroy_qp_req){ .qp = client[0].q.qp }),
		 &none);
	shutdown(client[1].r.sock, SHUT_RDWR);
	until_the_end(all_are_held);
	fuse_end(&f); /* who waits fails */
	for (unsigned i = 2; i < SESSIONS; i++) {
		const struct ff_cqe *c;

		WAIT_FOR((c = raw_cqe(&client[i].q)));
		CHECK(c->status != IBV_WC_SUCCESS);
	}
	answer("all have failed");
}

/* ---- memory that changes ------------------------------------------------------------------------------ */

static uint8_t *memory;
static _Atomic uint64_t rounds;

/* Requests without end, to all pages. */
static void *post_for_ever(void *arg)
{
	for (unsigned n = 0;; n++)
		for (unsigned i = 0; i < SESSIONS; i++) {
			struct raw_qp *q = &client[i].q;
			const struct ff_cqe *c = raw_cqe(q);

			if (n && !c)
				continue;
			if (c && c->status != IBV_WC_SUCCESS)
				raw_qp_connect(&client[i].r, q);
			raw_post_nth(&client[i].r, q, n + i, client[i].addr, client[i].key);
		}
	return arg;
}

static bool rounds_are_made(void)
{
	uint64_t from = rounds;

	WAIT_FOR(rounds > from + 10);
	return true;
}

static void attack(void *(*change)(void *), unsigned threads)
{
	pthread_t t;

	for (unsigned i = 0; i < threads; i++)
		CHECK_EQ(pthread_create(&t, NULL, change, NULL), 0);
	CHECK_EQ(pthread_create(&t, NULL, post_for_ever, NULL), 0);
	until_the_end(rounds_are_made);
}

static void *lock_and_unlock(void *arg)
{
	for (;; rounds++)
		if (mlock(memory, LOCKED) || munlock(memory, LOCKED))
			usleep(1000); /* another thread has all that may be locked */
	return arg;
}

static void locked(void)
{
	memory = vt_map(LOCKED);
	memset(memory, 1, LOCKED);
	clients_make(memory, LOCKED / SESSIONS / PAGE * PAGE, false);
	attack(lock_and_unlock, LOCKERS);
}

static void *dirty_all(void *arg)
{
	for (uint8_t n = 0;; n++, rounds++)
		for (size_t at = 0; at < PAGED; at += PAGE)
			memory[at + 64] = n;
	return arg;
}

static void reclaimed(const char *folder)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/paged", folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && !unlink(path) && !ftruncate(fd, PAGED));
	memory = mmap(NULL, PAGED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(memory != MAP_FAILED);
	clients_make(memory, PAGED / SESSIONS / PAGE * PAGE, true);
	attack(dirty_all, 1);
}

int main(int argc, char **argv)
{
	static char in[64], out[4096];

	setvbuf(stdin, in, _IOFBF, sizeof(in));
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	if (argc == 2 && !strcmp(argv[1], "fuse"))
		of_a_fuse_server();
	else if (argc == 2 && !strcmp(argv[1], "mlock"))
		locked();
	else if (argc == 3 && !strcmp(argv[1], "reclaim"))
		reclaimed(argv[2]);
	else
		FAIL("no such storm");
	fflush(stdout);
	_exit(0); /* threads are in it */
}
