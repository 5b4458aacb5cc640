/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/*
 * crowd.c - for crowd.sh: a client that is many. It says "attacks" when it does, and goes on
 * until its standard input ends.
 *
 *	crowd maps		many sessions that register shared mappings, of a page each, and end that
 *	crowd lookups		many rdma_cm ids look for an address that nobody has, without end
 *	crowd files		one session after the other opens an XRC domain, where the container has as many as it gets
 *	crowd hellos		many threads open the device again and again, in a mount namespace with very many mounts
 */
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/rig/verbs/raw.h"

#define SESSIONS 200u
#define CLAIM	 16u /* mappings in one registration: so many descriptors are on their way for it */
#define IDS	 16000u
#define DOMAINS	 4000u /* of a session */
#define PORT	 7471

static struct raw r[SESSIONS];

static void attacks(void)
{
	puts("attacks");
	fflush(stdout);
}

static unsigned open_many(unsigned max)
{
	for (unsigned i = 0; i < max; i++)
		raw_open(&r[i]);
	return max;
}

/* ---- registrations ------------------------------------------------------------------------- */

static char *make_maps(void)
{
	int fd = memfd_create("maps", MFD_CLOEXEC);
	char *maps = mmap(NULL, CLAIM * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(fd >= 0 && !ftruncate(fd, CLAIM * 4096) && maps != MAP_FAILED);
	/* in the other order, so that no two become one */
	for (unsigned i = 0; i < CLAIM; i++)
		CHECK(mmap(maps + i * 4096ul, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			   fd, (off_t)(CLAIM - 1 - i) * 4096) != MAP_FAILED);
	memset(maps, 1, CLAIM * 4096);
	return maps;
}

static void *register_and_end(void *arg)
{
	const char *maps = arg;
	struct ff_mr_run run = { .va = (uintptr_t)maps,
				 .len = CLAIM * 4096,
				 .kind = FF_RUN_SHARED };
	struct ff_reg_mr_req req = {
		.addr = run.va, .length = run.len, .iova = run.va, .access = VT_ACCESS_ALL
	};
	struct ff_alloc_pd_resp pd;
	struct ff_reg_mr_resp mr;
	struct ff_dereg_mr_resp none;
	struct raw s;

	raw_open(&s);
	RAW_CALL(&s, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd);
	req.pd = pd.pd;
	for (;;) {
		CHECK_EQ(raw_call_tail(&s, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1,
				       &mr, sizeof(mr)),
			 0);
		RAW_CALL(&s, DEREG_MR, (&(struct ff_dereg_mr_req){ .mr = mr.mr }), &none);
	}
	return NULL;
}

static void maps(void)
{
	char *p = make_maps();
	pthread_t t;

	for (unsigned i = 0; i < SESSIONS; i++)
		CHECK_EQ(pthread_create(&t, NULL, register_and_end, p), 0);
	attacks();
	pause();
}

/* ---- rdma_cm ------------------------------------------------------------------------------- */

static struct ff_cm_addr address(const uint8_t ip[4], uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct ff_cm_addr a = { .sa = { 0 } };

	memcpy(&in.sin_addr, ip, 4);
	memcpy(a.sa, &in, sizeof(in));
	return a;
}

static uint32_t new_channel(struct raw *s)
{
	struct ff_create_channel_resp channel;

	RAW_CALL(s, CREATE_CHANNEL, &(struct ff_create_channel_req){ 0 }, &channel);
	return channel.channel;
}

static uint32_t new_id(struct raw *s, uint32_t channel)
{
	struct ff_cm_create_id_resp id;

	RAW_CALL(s, CM_CREATE_ID,
		 (&(struct ff_cm_create_id_req){ .channel = channel, .ps = RDMA_PS_TCP }), &id);
	return id.id;
}

static void resolve(struct raw *s, uint32_t id, const uint8_t ip[4])
{
	struct ff_cm_resolve_addr_resp none;

	RAW_CALL(s, CM_RESOLVE_ADDR,
		 (&(struct ff_cm_resolve_addr_req){
			 .id = id, .timeout_ms = -1, .dst = address(ip, PORT) }),
		 &none);
}

static void lookups(void)
{
	uint32_t channel;

	open_many(1);
	channel = new_channel(&r[0]);
	for (unsigned i = 0; i < IDS; i++)
		resolve(&r[0], new_id(&r[0], channel), (const uint8_t[]){ 203, 0, 113, 7 });
	attacks();
	pause();
}

/* ---- XRC domains --------------------------------------------------------------------------- */

static void files(void)
{
	struct ff_open_xrcd_req req = { .flags = FF_XRCD_CREATE, .has_file = 1 };
	struct ff_open_xrcd_resp x;
	unsigned n = open_many(32);
	struct ff_close_xrcd_resp none;

	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < DOMAINS; k++) {
			req.ino++;
			if (RAW_TRY(&r[i], OPEN_XRCD, &req, &x))
				break;
		}
	printf("%llu domains were asked for\n", (unsigned long long)req.ino);
	attacks();
	for (;;) {
		req.ino++;
		if (!RAW_TRY(&r[0], OPEN_XRCD, &req, &x))
			RAW_CALL(&r[0], CLOSE_XRCD, (&(struct ff_close_xrcd_req){ .xrcd = x.xrcd }),
				 &none);
	}
}

/* ---- HELLO ------------------------------------------------------------------------------------- */

#define OPENERS 64u
#define MOUNTS	16000u /* the keeper looks through 1 MB of a process's, 60 bytes each */

static void *open_for_ever(void *arg)
{
	for (;;)
		raw_knock();
	return arg;
}

static void hellos(void)
{
	pthread_t t;

	if (!raw_mounts(MOUNTS))
		puts("no mount namespaces here");
	for (unsigned i = 0; i < OPENERS; i++)
		CHECK_EQ(pthread_create(&t, NULL, open_for_ever, NULL), 0);
	attacks();
	pause();
}

static const struct kind {
	const char *name;
	void (*run)(void);
} kinds[] = {
	{ "maps", maps },
	{ "lookups", lookups },
	{ "files", files },
	{ "hellos", hellos },
};

static void *end_with_input(void *arg)
{
	char c;

	while (read(0, &c, 1) > 0)
		;
	_exit(0);
	return arg;
}

int main(int argc, char **argv)
{
	struct rlimit lim;
	pthread_t t;

	CHECK_EQ(argc, 2);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = lim.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &lim), 0);
	CHECK_EQ(pthread_create(&t, NULL, end_with_input, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(argv[1], kinds[i].name))
			kinds[i].run();
	FAIL("no kind %s", argv[1]);
}
