/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rio_rig.c - see rio_rig.h. */
#include "tests/rig/unit/rio_rig.h"

#include <string.h>

#include "ffr/remote/remote.h"

/* hosts_up() makes host 0 before host 1. */
static struct rio_conf conf;

static void work(struct host *h)
{
	rio_carrier.work(h->r.f, false);
}

/*
 * Each host has a port of its own. The first work() looks whether that is there: tests count and fail the calls of links
 * only.
 */
static int open_next(struct fast *f, const void *of)
{
	struct fake_rio wanted = fake_rio;
	int err;

	fake_rio.fails = 0;
	fake_rio.open_error = 0;
	err = rio_carrier.open(f, of);
	assert_int_equal(fake_rio.opened, wanted.opened); /* there is no keeper yet */
	rio_work(f, false);
	assert_int_equal(fake_rio.opened, wanted.opened + !f->index);
	fake_rio = wanted;
	conf.port = !conf.port;
	return err;
}

void rio_rig_set(void)
{
	static struct carrier rio;
	static const struct carrier_use list[] = { { &rio, &conf },
						   { &wire_carrier, NULL },
						   { 0 } };

	fake_rio_reset();
	rio_calls = &fake_rio_calls;
	conf.port = 0;
	rio = rio_carrier;
	rio.open = open_next;
	rig_carriers = list;
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
