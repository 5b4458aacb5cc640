/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * threads.c - the fast threads that the configuration asks for, and when their containers are
 * looked at. Control thread. What is done then is in fast/threads.c.
 *
 * Tests: unit/orch/test_orch.c, system/fast_threads.sh
 */
#include "ffr/ctl/threads.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/ctl/ctl.h"
#include "ffr/ctl/sysfs.h"
#include "ffr/fast/fast.h"
#include "ffr/lib/log.h"

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

static struct fast_conf conf_of(const struct ctl_threads_conf *conf, uint32_t i)
{
	struct fast_conf f = *conf->fast;

	f.cpu = conf->cpu[i];
	f.node = node_of_cpu(f.cpu);
	return f;
}

static void on_again(uv_timer_t *h);

static void settle(struct ctl_threads *t)
{
	if (fast_settle(t->host))
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

static void on_work(uv_async_t *h)
{
	struct ctl_threads *t = h->data;

	CARRIERS_DO(work, t->host->threads[0], false);
}

static void work_wake(struct fast_host *h)
{
	uv_async_send(h->work_arg);
}

/* Each container's table has its NIC's GID. */
static void on_nic_changed(struct fast_host *h)
{
	struct container *c;

	fast_lock(h);
	LIST_FOREACH(c, &h->containers, entry)
		c->nic_gid = h->nic[c->nic].gid;
	fast_unlock(h);
	LIST_FOREACH(c, &h->containers, entry)
		sysfs_identity(c);
}

static void on_balance(uv_timer_t *h)
{
	struct ctl_threads *t = h->data;

	fast_balance(t->host);
}

static void want_near(struct fast_host *h)
{
	uv_async_send(h->near_arg);
}

static void on_before_sleep(uv_prepare_t *h)
{
	struct ctl_threads *t = h->data;

	rescue_spend(t->host->rescue);
}

static int handles_init(struct ctl_threads *t, uv_loop_t *loop)
{
	int err = uv_async_init(loop, &t->near, on_near);

	err = err ? err : uv_async_init(loop, &t->work, on_work);
	if (err)
		return err;
	uv_timer_init(loop, &t->again);
	uv_timer_init(loop, &t->balance);
	uv_prepare_init(loop, &t->before_sleep);
	t->work.data = t->near.data = t->again.data = t->balance.data = t->before_sleep.data = t;
	t->open = true;
	return 0;
}

static void look_after_this_thread(struct ctl_threads *t)
{
	t->host->rescue = rescue_create();
	/* a start with a callback cannot fail */
	if (t->host->rescue)
		uv_prepare_start(&t->before_sleep, on_before_sleep);
	else
		log_warn("/proc/thread-self/stat: %m: nobody sees if this thread gets no CPU");
}

int ctl_threads_init(struct ctl *ctl, struct backend *be, const struct ctl_threads_conf *conf)
{
	struct ctl_threads *t = &ctl->threads;
	struct fast_conf fc = conf_of(conf, 0);
	int err;

	ctl->host = fast_create(&fc, be);
	if (!ctl->host)
		return -errno;
	t->host = ctl->host;
	err = handles_init(t, ctl->loop);
	if (err)
		return err;
	ctl->host->work_arg = &t->work;
	ctl->host->work_wake = work_wake;
	ctl->host->nic_changed = on_nic_changed;
	work_wake(ctl->host); /* carriers have been opened, and may have work */
	if (fc.realtime)
		look_after_this_thread(t);
	for (uint32_t i = 1; !err && i < conf->num; i++) {
		fc = conf_of(conf, i);
		err = fast_add_thread(ctl->host, &fc);
	}
	if (err || conf->num < 2)
		return err;
	ctl->host->near_arg = &t->near;
	ctl->host->want_near = want_near;
	return uv_timer_start(&t->balance, on_balance, FAST_BALANCE_MS, FAST_BALANCE_MS);
}

void ctl_threads_close(struct ctl *ctl)
{
	struct ctl_threads *t = &ctl->threads;

	if (!t->open)
		return;
	t->open = false;
	ctl->host->want_near = ctl->host->work_wake = NULL;
	rescue_free(ctl->host->rescue);
	ctl->host->rescue = NULL;
	uv_close((uv_handle_t *)&t->near, NULL);
	uv_close((uv_handle_t *)&t->work, NULL);
	uv_close((uv_handle_t *)&t->again, NULL);
	uv_close((uv_handle_t *)&t->balance, NULL);
	uv_close((uv_handle_t *)&t->before_sleep, NULL);
}
