/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ctl_threads.c - the fast threads that the configuration asks for, and when their containers are
 * looked at. Control thread. What is done then is in fast_threads.c.
 */
#include "ctl_threads.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "router.h"

#define AGAIN_MS 10 /* while a client keeps a container from moving */

/* The NUMA node of that CPU, or -1. */
static int node_of_cpu(int cpu)
{
	struct dirent *e;
	char path[64];
	int node = -1;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d", cpu);
	d = cpu < 0 ? NULL : opendir(path);
	while (d && node < 0 && (e = readdir(d)))
		if (!strncmp(e->d_name, "node", 4) && e->d_name[4] >= '0' && e->d_name[4] <= '9')
			node = atoi(e->d_name + 4);
	if (d)
		closedir(d);
	return node;
}

static struct fast_conf conf_of(const struct ffr_conf *conf, uint32_t i)
{
	struct fast_conf f = conf->fast;

	f.cpu = conf->fast_cpu[i];
	f.node = node_of_cpu(f.cpu);
	return f;
}

static void on_again(uv_timer_t *h);

static void settle(struct ctl_threads *t)
{
	if (fast_settle(t->first))
		uv_timer_start(&t->again, on_again, AGAIN_MS, 0);
}

static void on_again(uv_timer_t *h)
{
	settle(h->data);
}

static void on_near(uv_async_t *h)
{
	settle(h->data);
}

static void on_balance(uv_timer_t *h)
{
	struct ctl_threads *t = h->data;

	fast_balance(t->first);
}

static void want_near(struct fast *first)
{
	uv_async_send(first->near_arg);
}

int ctl_threads_init(struct router *r)
{
	struct ctl_threads *t = &r->threads;
	struct fast_conf conf = conf_of(&r->conf, 0);
	int err = 0;

	r->fast = fast_create(&conf, &r->backend);
	if (!r->fast)
		return errno ? -errno : -ENOMEM;
	t->first = r->fast;
	if (r->conf.fast_threads < 2)
		return 0;
	err = uv_async_init(&r->loop, &t->near, on_near);
	if (err)
		return err;
	uv_timer_init(&r->loop, &t->again);
	uv_timer_init(&r->loop, &t->balance);
	t->near.data = t->again.data = t->balance.data = t;
	t->open = true;
	for (uint32_t i = 1; !err && i < r->conf.fast_threads; i++) {
		conf = conf_of(&r->conf, i);
		err = fast_add_thread(r->fast, &conf);
	}
	if (err)
		return err;
	r->fast->near_arg = &t->near;
	r->fast->want_near = want_near;
	return uv_timer_start(&t->balance, on_balance, FAST_BALANCE_MS, FAST_BALANCE_MS);
}

void ctl_threads_close(struct router *r)
{
	struct ctl_threads *t = &r->threads;

	if (!t->open)
		return;
	t->open = false;
	r->fast->want_near = NULL;
	uv_close((uv_handle_t *)&t->near, NULL);
	uv_close((uv_handle_t *)&t->again, NULL);
	uv_close((uv_handle_t *)&t->balance, NULL);
}
