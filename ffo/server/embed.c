/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * embed.c - the orchestrator in a thread of its own, for a router that has none configured.
 *
 * ffo_embedded_start() and ffo_embedded_stop() are called by one thread, the router's control
 * thread; everything else of the orchestrator runs on the new thread. The store is opened before
 * that thread starts, so that what is wrong with it is the caller's to see.
 */
#include "ffo/server/ffo.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"

static struct {
	bool running;
	pthread_t thread;
	uv_loop_t loop;
	uv_async_t stop;
	struct ffo *ffo;
} embedded;

/* Runs until stop_asked() has closed all handles. */
static void *embedded_main(void *arg)
{
	(void)sandbox_enter(SANDBOX_STORE); /* the control thread's holds in any case */
	uv_run(arg, UV_RUN_DEFAULT);
	return NULL;
}

static void stop_asked(uv_async_t *a)
{
	ffo_destroy(embedded.ffo);
	uv_close((uv_handle_t *)a, NULL);
}

/* A thread with SCHED_OTHER and all signals but faults blocked, whatever the caller has. */
static int start_thread(void)
{
	struct sched_param ordinary = { 0 };
	sigset_t all, before;
	pthread_attr_t attr;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	pthread_attr_setschedparam(&attr, &ordinary);
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&embedded.thread, &attr, embedded_main, &embedded.loop);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (!err)
		pthread_setname_np(embedded.thread, "ffo");
	return -err;
}

int ffo_embedded_start(const struct ffo_conf *conf, int *client_fd)
{
	int fd[2], err;

	if (embedded.running)
		return -EBUSY;
	err = uv_loop_init(&embedded.loop);
	if (err)
		goto err_log;
	err = ffo_create(conf, &embedded.loop, &embedded.ffo);
	if (err)
		goto err_loop;
	err = uv_async_init(&embedded.loop, &embedded.stop, stop_asked);
	if (err)
		goto err_ffo;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd)) {
		err = -errno;
		goto err_async;
	}
	err = ffo_attach(embedded.ffo, fd[0]);
	if (!err)
		err = start_thread();
	if (err)
		goto err_fd;
	embedded.running = true;
	*client_fd = fd[1];
	return 0;

err_fd:
	close(fd[1]);
err_async:
	uv_close((uv_handle_t *)&embedded.stop, NULL);
err_ffo:
	ffo_destroy(embedded.ffo);
	uv_run(&embedded.loop, UV_RUN_DEFAULT);
	uv_loop_close(&embedded.loop);
err_log:
	log_err("embedded orchestrator: %s", strerror(-err));
	return err;

err_loop: /* ffo_create() has told why */
	uv_loop_close(&embedded.loop);
	return err;
}

void ffo_embedded_stop(void)
{
	if (!embedded.running)
		return;
	uv_async_send(&embedded.stop);
	pthread_join(embedded.thread, NULL);
	uv_loop_close(&embedded.loop);
	embedded.running = false;
}
