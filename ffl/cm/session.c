/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * session.c - the process's session with the router's connection manager, and the devices that
 * its ids use. Any thread; neighbours: context.c of libibverbs, channel.c, id.c.
 *
 * The session is opened by the first channel and then kept. When the router died, or in a child
 * that was forked, the next channel, or one that is made again (renew.c), opens another; what belongs to
 * the old one fails with EIO and can be destroyed, and with the last of it the old session goes.
 *
 * A device is opened once for a session. Programs get it as id->verbs and from rdma_get_devices(), and may use it as
 * long as they live. Which device an id is on, the router says, by the id's address; while an id is bound to all
 * addresses it is on none. A device whose router is gone is left (ffl_device_leave()) when the session has no id and no
 * list of devices any more, and the program has destroyed what it had in the device. Programs destroy that when they
 * like, so each call for a session looks whether they have.
 *
 * Tests: system/cm_connect.c, system/cm_channel.c
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffl/cm/cm.h"

#define CALL_TIMEOUT_MS 10000 /* a router that is silent for so long has stopped */

/* The three below, and of each session refs and the devices. Held across fork. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cm_session *current; /* NULL: none yet; may have died */
static struct cm_session *ended;   /* nobody is in those, but their device is not left yet */
pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t cm_acked = PTHREAD_COND_INITIALIZER;
static bool fork_handled;

static void fork_prepare(void)
{
	pthread_mutex_lock(&lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void fork_child(void)
{
	/* another thread of the parent may have held them */
	pthread_mutex_init(&cm_lock, NULL);
	pthread_cond_init(&cm_acked, NULL);
	cm_renew_forked();
	pthread_mutex_unlock(&lock);
}

/* PD and XRC domain go; a PD that the program still uses stays. Call with lock held. */
static void objects_free(struct cm_device *d)
{
	if (d->xrcd && !ibv_close_xrcd(d->xrcd))
		d->xrcd = NULL;
	if (d->pd && !ibv_dealloc_pd(d->pd))
		d->pd = NULL;
}

static void device_leave(struct cm_device *d)
{
	if (!d->verbs || ffl_check_alive(to_ctx(d->verbs)))
		return;
	objects_free(d);
	if (!ffl_device_leave(d->verbs))
		d->verbs = NULL;
}

static bool has_device(const struct cm_session *s)
{
	for (size_t i = 0; i < FF_DEVICES_MAX; i++)
		if (s->device[i].verbs)
			return true;
	return false;
}

/* Call with lock held. */
static void devices_leave(void)
{
	struct cm_session **p = &ended, *s;

	while ((s = *p)) {
		for (size_t i = 0; i < FF_DEVICES_MAX; i++)
			device_leave(&s->device[i]);
		if (has_device(s)) {
			p = &s->next;
		} else {
			*p = s->next;
			free(s);
		}
	}
}

/* Call with lock held. */
static void session_free(struct cm_session *s)
{
	ffl_session_untrack(s->ctx);
	ffl_session_free(s->ctx);
	if (has_device(s)) {
		s->next = ended;
		ended = s;
	} else {
		free(s);
	}
}

/* Call with lock held. NULL: errno. */
static struct cm_session *session_open(void)
{
	struct cm_session *s;
	int err;

	ffl_log_init();
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->ctx = ffl_session_new(CALL_TIMEOUT_MS);
	if (!s->ctx) {
		err = errno == ENOMEM ? ENOMEM : ENODEV; /* as where the kernel has no rdma_cm */
		goto err_free;
	}
	err = -ffl_session_track(s->ctx);
	if (err)
		goto err_session;
	if (!fork_handled) {
		/*
		 * After libibverbs's: what is registered last prepares first, and the locks that
		 * those take are taken with ours held when a device is opened.
		 */
		err = pthread_atfork(fork_prepare, fork_parent, fork_child);
		if (err)
			goto err_track;
		fork_handled = true;
	}
	return s;

err_track:
	ffl_session_untrack(s->ctx);
err_session:
	ffl_session_free(s->ctx);
err_free:
	free(s);
	return ffl_err_ptr(err);
}

struct cm_session *cm_session_get(void)
{
	struct cm_session *s, *old;

	pthread_mutex_lock(&lock);
	old = current;
	if (old && (old->ctx->pid != getpid() || !ffl_check_alive(old->ctx))) {
		current = NULL;
		if (!old->refs)
			session_free(old);
	}
	devices_leave();
	if (!current)
		current = session_open();
	s = current;
	if (s)
		s->refs++;
	pthread_mutex_unlock(&lock);
	return s;
}

struct cm_session *cm_session_ref(struct cm_session *s)
{
	pthread_mutex_lock(&lock);
	s->refs++;
	pthread_mutex_unlock(&lock);
	return s;
}

void cm_session_put(struct cm_session *s)
{
	pthread_mutex_lock(&lock);
	if (!--s->refs && s != current)
		session_free(s);
	devices_leave();
	pthread_mutex_unlock(&lock);
}

/* ---- devices ---------------------------------------------------------------------------------------- */

/* The container's device of that number. NULL: there is none. */
static struct ibv_context *verbs_open(uint32_t number)
{
	struct ibv_context *verbs = NULL;
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (number < (uint32_t)n)
		verbs = ibv_open_device(list[number]);
	if (list)
		ibv_free_device_list(list);
	return verbs;
}

/* Call with lock held. 0 or -errno. */
static int device_open(struct cm_session *s, uint32_t number)
{
	struct cm_device *d = &s->device[number];
	struct ff_import_device_resp resp;
	struct ff_import_device_req req;
	struct ibv_device_attr attr;
	struct ibv_context *verbs;
	int err;

	if (d->verbs)
		return 0;
	verbs = verbs_open(number);
	if (!verbs)
		return -ENODEV;
	err = -ibv_query_device(verbs, &attr);
	if (!err) { /* the router may move the QPs of ids */
		memcpy(req.token, to_ctx(verbs)->token, sizeof(req.token));
		err = CM_CALL(s, IMPORT_DEVICE, &req, &resp);
	}
	if (err) {
		ibv_close_device(verbs);
		return err;
	}
	s->max_qpsize = attr.max_qp_wr;
	s->max_initiator_depth = (uint8_t)attr.max_qp_init_rd_atom;
	s->max_responder_resources = (uint8_t)attr.max_qp_rd_atom;
	d->verbs = verbs;
	return 0;
}

/* How many devices ids may be on. */
static uint32_t num_devices(const struct cm_session *s)
{
	return s->ctx->num_devices ? s->ctx->num_devices : 1;
}

/* The number of the device that has the id's address, or -errno. Call with lock held. */
static int device_of(struct cm_id *id)
{
	struct ff_cm_device_req req = { .id = id->handle };
	struct ff_cm_device_resp resp;
	int err;

	if (num_devices(id->ses) == 1)
		return 0;
	err = CM_CALL(id->ses, CM_DEVICE, &req, &resp);
	if (err)
		return err;
	return resp.device < FF_DEVICES_MAX ? (int)resp.device : -EPROTO;
}

int cm_device_get(struct cm_id *id)
{
	struct cm_session *s = id->ses;
	struct cm_device *d = NULL;
	int err, number;

	pthread_mutex_lock(&lock);
	number = device_of(id);
	err = number < 0 ? number : device_open(s, (uint32_t)number);
	if (!err) {
		d = &s->device[number];
		if (!d->pd)
			d->pd = ibv_alloc_pd(d->verbs);
		err = d->pd ? 0 : -errno;
	}
	if (!err) {
		d->refs++;
		id->dev = d;
		id->id.verbs = d->verbs;
		id->id.pd = d->pd;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

void cm_device_put(struct cm_id *id)
{
	struct cm_device *d = id->dev;

	pthread_mutex_lock(&lock);
	if (!--d->refs)
		objects_free(d);
	pthread_mutex_unlock(&lock);
}

struct ibv_xrcd *cm_device_xrcd(struct cm_id *id)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct cm_device *d = id->dev;
	struct ibv_xrcd *xrcd;

	if (!d)
		return ffl_err_ptr(ENODEV);
	pthread_mutex_lock(&lock);
	if (!d->xrcd)
		d->xrcd = ibv_open_xrcd(d->verbs, &attr);
	xrcd = d->xrcd;
	pthread_mutex_unlock(&lock);
	return xrcd;
}

/* What rdma_get_devices() gives. */
struct device_list {
	struct cm_session *ses; /* with a reference */
	struct ibv_context *dev[FF_DEVICES_MAX + 1];
};

/* The container's devices, opened, and NULL behind them. NULL: there is none. */
FFL_EXPORT struct ibv_context **rdma_get_devices(int *num)
{
	struct cm_session *s = cm_session_get();
	struct device_list *list;
	int err = 0, n = 0;

	if (num)
		*num = 0;
	if (!s)
		return NULL;
	list = calloc(1, sizeof(*list));
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; list && i < num_devices(s) && !err; i++) {
		err = device_open(s, i);
		if (!err)
			list->dev[n++] = s->device[i].verbs;
	}
	pthread_mutex_unlock(&lock);
	if (!n) {
		err = list ? -err : ENOMEM;
		free(list);
		cm_session_put(s);
		return ffl_err_ptr(err);
	}
	list->ses = s;
	if (num)
		*num = n;
	return list->dev;
}

FFL_EXPORT void rdma_free_devices(struct ibv_context **list)
{
	struct device_list *l;

	if (!list)
		return;
	l = container_of_(list, struct device_list, dev);
	cm_session_put(l->ses);
	free(l);
}
