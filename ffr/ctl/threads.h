/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * threads.h - the fast threads as the control thread has them. See threads.c.
 */
#ifndef FFR_CTL_THREADS_H
#define FFR_CTL_THREADS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct backend;
struct fast_host;
struct fast_conf;
struct ctl;

struct ctl_threads {
	struct fast_host *host;
	uv_async_t near;	   /* a container waits for another thread */
	uv_async_t work;	   /* the carriers' work() is to be called */
	uv_timer_t again, balance; /* it still does; loads are compared */
	uv_prepare_t before_sleep;
	bool open;
};

/* Each thread's conf, but for its CPU: cpu[num], -1: any. */
struct ctl_threads_conf {
	const struct fast_conf *fast;
	const int *cpu;
	uint32_t num;
};
/* ctl->host and further threads are made, not started; they look after the calling thread. 0 or -errno. */
int ctl_threads_init(struct ctl *ctl, struct backend *be, const struct ctl_threads_conf *conf);
/* Its handles close while the loop runs. The containers are gone. */
void ctl_threads_close(struct ctl *ctl);

#endif
