/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: -libverbs */
/*
 * limits.c - for limits.sh: makes as many objects as it gets. "limits qp|cq|srq|mr|session MAX" prints
 * how many there were and why there were no more, and keeps them until its input ends; "limits calls N"
 * makes 2 N calls.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_device *device;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char buf[4096];

static void *make_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .cap = { 8, 8, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};

	return ibv_create_qp(pd, &attr);
}

static void *make_cq(void)
{
	return ibv_create_cq(ctx, 8, NULL, NULL, 0);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };

	return ibv_create_srq(pd, &attr);
}

static void *make_mr(void)
{
	return ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
}

static void *make_session(void)
{
	return ibv_open_device(device);
}

static const struct {
	const char *name;
	void *(*make)(void);
} kinds[] = {
	{ "qp", make_qp }, { "cq", make_cq },		{ "srq", make_srq },
	{ "mr", make_mr }, { "session", make_session },
};

static int make_many(void *(*make)(void), int max)
{
	int n = 0;

	errno = 0;
	while (n < max && make())
		n++;
	printf("%d %s\n", n, n < max ? strerrorname_np(errno) : "max");
	fflush(stdout);
	while (fgets(buf, sizeof(buf), stdin))
		;
	return 0;
}

static int make_calls(int n)
{
	while (n-- > 0) {
		struct ibv_pd *p = ibv_alloc_pd(ctx);

		if (!p || ibv_dealloc_pd(p))
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int max = argc == 3 ? atoi(argv[2]) : 0;

	device = list ? list[0] : NULL;
	ctx = device ? ibv_open_device(device) : NULL;
	if (!ctx || max <= 0) {
		fprintf(stderr, "limits: %m\n");
		return 1;
	}
	if (!strcmp(argv[1], "calls"))
		return make_calls(max);
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 8, NULL, NULL, 0);
	if (!pd || !cq) {
		perror("limits");
		return 1;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(argv[1], kinds[i].name))
			return make_many(kinds[i].make, max);
	return 1;
}
