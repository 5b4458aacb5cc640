/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rio_rig.c - see rio_rig.h. */
#include "tests/rig/unit/rio_rig.h"

#include <string.h>

/* hosts_up() makes host 0 before host 1. */
static struct rio_conf conf;

static void work(struct host *h)
{
	h->r.be.ops->work(&h->r.be);
}

/*
 * Each backend has a port of its own. As it opens, it looks whether that is there: tests count and fail the calls of links
 * only.
 */
static int open_next(struct backend *be)
{
	struct fake_rio wanted = fake_rio;
	int err;

	fake_rio.fails = 0;
	fake_rio.open_error = 0;
	err = rio_ops()->open(be);
	fake_rio = wanted;
	conf.port = !conf.port;
	return err;
}

void rio_rig_set(void)
{
	static struct backend_ops ops;

	fake_rio_reset();
	rio_calls = &fake_rio_calls;
	conf.port = 0;
	rig_backend_conf = &conf;
	ops = *rio_ops();
	ops.open = open_next;
	hosts_ops = &ops;
	hosts_work = work;
}

void rio_rig_check(void)
{
	assert_int_equal(fake_rio.files, 0);
	assert_int_equal(fake_rio.maps, 0);
}

struct rio_link *rio_rig_link(struct hosts *t, int host)
{
	return t->h[host].other.by;
}
