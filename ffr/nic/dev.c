/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dev.c - the NIC: opening it, its PDs and CQs, and how the runner sleeps beside it. See nic.h. The control thread
 * calls nic_open() before there are other threads, and makes and ends PDs and CQs. The runner calls nic_start() before
 * it has its sandbox. The worker, too, calls nic_dev_open(), when a removed NIC is back (unplug.c).
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "ffr/nic/cm/cm.h"

#define CQ_SIZE 4096 /* completions of a CQ of the NIC, at least */

/* ---- opening ------------------------------------------------------------------------------------- */

#define NODE_DIR "/dev/infiniband"

const char *nic_node_dir = NODE_DIR;

static int fail(const struct nic_dev *d, const char *what, int err)
{
	if (!d->is_quiet)
		log_err("NIC %s: %s: %s", d->host->name, what, strerror(err));
	return -err;
}

/* Find the NIC's device. It is a part of d->list, which stays therefore. */
static struct ibv_device *find(struct nic_dev *d)
{
	const char *name = d->conf->name;

	d->list = d->lib.get_device_list(NULL);
	for (int i = 0; d->list && d->list[i]; i++)
		if (!name || !strcmp(d->lib.get_device_name(d->list[i]), name))
			return d->list[i];
	if (d->list)
		errno = ENODEV;
	return NULL;
}

/* Only a QP tells how much it takes inline, so make one. */
static void probe_inline(struct nic_dev *d)
{
	struct ibv_pd *pd = d->lib.alloc_pd(d->ctx);
	struct ibv_cq *cq = pd ? d->lib.create_cq(d->ctx, 1, NULL, NULL, 0) : NULL;

	for (uint32_t n = FF_MAX_INLINE; cq && n >= 64 && !d->max_inline; n /= 2) {
		struct ibv_qp_init_attr attr = { .send_cq = cq,
						 .recv_cq = cq,
						 .qp_type = IBV_QPT_RC,
						 .cap = { .max_send_wr = 1,
							  .max_recv_wr = 1,
							  .max_send_sge = 1,
							  .max_recv_sge = 1,
							  .max_inline_data = n } };
		struct ibv_qp *qp = d->lib.create_qp(pd, &attr);

		if (!qp)
			continue;
		d->max_inline = n;
		d->lib.destroy_qp(qp);
	}
	if (cq)
		d->lib.destroy_cq(cq);
	if (pd)
		d->lib.dealloc_pd(pd);
}

#define RXE_VENDOR_ID 0xffffffu /* drivers/infiniband/sw/rxe/rxe_param.h */
#define SIW_VENDOR_ID 0x626d74u /* drivers/infiniband/sw/siw/siw.h */

/* Ask what the NIC can do with on-demand memory. Only newer libraries and NICs tell. */
static void look_at_odp(struct nic_dev *d)
{
	struct verbs_context *v = verbs_get_ctx_op(d->ctx, query_device_ex);
	struct ibv_device_attr_ex ex = { 0 };

	d->odp = (struct ibv_odp_caps){ 0 };
	if (v && !v->query_device_ex(d->ctx, NULL, &ex, sizeof(ex)))
		d->odp = ex.odp_caps;
}

/* Find out what the NIC is and has. 0 or -errno */
static int look_at(struct nic_dev *d)
{
	int err = d->lib.query_device(d->ctx, &d->attr);

	d->is_iwarp = d->device->transport_type == IBV_TRANSPORT_IWARP;
	d->is_siw = d->is_iwarp && d->attr.vendor_id == SIW_VENDOR_ID;
	d->is_rxe = !d->is_iwarp && d->attr.vendor_id == RXE_VENDOR_ID;
	look_at_odp(d);
	if (!err)
		err = nic_query_port(d);
	if (err)
		return fail(d, "port", err);
	err = nic_choose_gid(d);
	if (err)
		return fail(d,
			    d->is_iwarp ? "iWARP: has its network device an address?" :
					  "no GID for RoCE v2; has its network device an address?",
			    err);
	probe_inline(d);
	return 0;
}

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? errno : 0;
}

/* Not all drivers tell those who have the NIC open that it goes. But its device file always goes. */
static void watch_node(struct nic_dev *d)
{
	d->node_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (d->node_fd < 0 || inotify_add_watch(d->node_fd, nic_node_dir, IN_DELETE) >= 0)
		return;
	if (!d->is_quiet)
		log_warn("NIC %s: %s: %m: that it is removed only its driver can tell",
			 d->host->name, nic_node_dir);
	close(d->node_fd);
	d->node_fd = -1;
}

int nic_dev_open(struct nic_dev *d)
{
	bool is_known = d->device;
	int err = 0;

	d->node_fd = -1;
	if (!is_known)
		d->device = find(d);
	watch_node(d); /* before the NIC is open, so that no removal is missed */
	d->ctx = d->device ? d->lib.open_device(d->device) : NULL;
	if (!d->ctx)
		err = fail(d, "cannot be opened", errno);
	if (!err && !is_known)
		err = look_at(d);
	if (!err) {
		d->channel = d->lib.create_comp_channel(d->ctx);
		err = d->channel ? set_nonblocking(d->channel->fd) : errno;
		err = err ? err : set_nonblocking(d->ctx->async_fd);
		err = err ? fail(d, "completion channel", err) : 0;
	}
	if (!err)
		nic_pace_open(d);
	if (!err && nic_has_ud(d)) {
		d->ud_pd = d->lib.alloc_pd(d->ctx);
		err = d->ud_pd ? 0 : fail(d, "PD", errno);
	}
	if (err)
		nic_dev_close(d);
	return err;
}

void nic_dev_close(struct nic_dev *d)
{
	nic_pace_close(d);
	if (d->ud_pd && d->lib.dealloc_pd(d->ud_pd) && !d->is_quiet)
		log_err("NIC %s: a PD cannot be given back: %m", d->host->name);
	if (d->channel)
		d->lib.destroy_comp_channel(d->channel);
	if (d->ctx)
		d->lib.close_device(d->ctx);
	if (d->list)
		d->lib.free_device_list(d->list);
	if (d->node_fd >= 0)
		close(d->node_fd);
	nic_dev_forget(d);
}

void nic_dev_forget(struct nic_dev *d)
{
	d->ud_pd = NULL;
	d->channel = NULL;
	d->ctx = NULL;
	d->list = NULL;
	d->device = NULL;
	d->node_fd = -1;
}

static int look_first(struct nic_dev *d)
{
	const char *why;
	int err = nic_lib_load(&d->lib, &why);

	if (err) {
		log_err("NIC: libibverbs: %s", why);
		return err;
	}
	d->device = find(d);
	d->ctx = d->device ? d->lib.open_device(d->device) : NULL;
	if (!d->ctx)
		return errno == ENOSYS ?
			       fail(d,
				    "there is no RDMA device: load the NIC's driver and ib_uverbs",
				    ENODEV) :
			       fail(d, "cannot be opened", errno);
	err = look_at(d);
	/* the runner opens the NIC again, because the kernel lets only the opener ring the NIC's doorbells */
	d->lib.close_device(d->ctx);
	d->ctx = NULL;
	return err;
}

static int open_one(struct fast *f, const struct nic_conf *conf)
{
	struct fast_host *h = f->host;
	struct nic_dev *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return -ENOMEM;
	LIST_INIT(&d->cqs);
	LIST_INIT(&d->ud_pools);
	STAILQ_INIT(&d->ahs_held);
	LIST_INIT(&d->paces);
	LIST_INIT(&d->pace_tenants);
	LIST_INIT(&d->srqs);
	TAILQ_INIT(&d->srqs_to_fill);
	TAILQ_INIT(&d->to_end);
	TAILQ_INIT(&d->to_fill);
	TAILQ_INIT(&d->undecided);
	d->f = f;
	d->conf = conf;
	d->host = &h->nic[h->num_nics++];
	d->host->dev = d;
	d->port = conf->port;
	d->node_fd = -1;
	d->look.fn = nic_on_look;
	d->end.fn = nic_on_end;
	snprintf(d->host->name, sizeof(d->host->name), "%s:%u",
		 conf->name ? conf->name : "(the first)", d->port);
	d->worker = nic_worker_new(h);
	err = d->worker ? look_first(d) : -ENOMEM;
	if (!err && conf->direct)
		err = nic_ucma_new(d);
	if (err)
		return err;
	h->nic_direct = conf->direct;
	d->host->gid = d->gid;
	snprintf(d->host->net, sizeof(d->host->net), "%s", nic_net_of(d) ? nic_net_of(d) : "");
	snprintf(d->host->name, sizeof(d->host->name), "%s:%u", d->lib.get_device_name(d->device),
		 d->port);
	log_info("NIC %s: GID index %u, up to %u bytes inline%s", d->host->name, d->gid_index,
		 d->max_inline, d->is_iwarp ? ", iWARP" : "");
	if (d->is_iwarp && conf->net)
		log_warn("NIC %s: nic_network: iWARP: other hosts are reached by the wire",
			 d->host->name);
	return 0;
}

int nic_open(struct fast *f, const struct nic_conf *conf)
{
	int err = 0;

	for (; !err && conf; conf = conf->next)
		err = f->host->num_nics < HOST_NICS_MAX ? open_one(f, conf) : -E2BIG;
	if (err)
		nic_close(f);
	return err;
}

int nic_dev_listen(struct nic_dev *d)
{
	const uint32_t events = EPOLLIN | EPOLLET;
	int err = fast_watch(d->f, d->channel->fd, events, d);

	err = err ? err : fast_watch(d->f, d->ctx->async_fd, events, &d->ear[NIC_EAR_ASYNC]);
	if (!err && d->node_fd >= 0)
		err = fast_watch(d->f, d->node_fd, events, &d->ear[NIC_EAR_NODE]);
	return err;
}

void nic_dev_deafen(struct nic_dev *d)
{
	int epoll_fd = d->f->epoll_fd;

	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, d->channel->fd, NULL);
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, d->ctx->async_fd, NULL);
	if (d->node_fd >= 0)
		epoll_ctl(epoll_fd, EPOLL_CTL_DEL, d->node_fd, NULL);
}

static int start_one(struct nic_dev *d)
{
	int err = nic_dev_open(d);

	if (err)
		return err;
	err = nic_dev_listen(d);
	if (err)
		return fail(d, "cannot be listened to", -err);
	if (!d->conf->no_worker)
		err = nic_worker_start(d->worker);
	if (!err && !d->conf->no_worker)
		err = nic_ucma_start(d);
	if (!err && d->ud_pd)
		err = nic_ahs_start(d);
	if (err)
		return fail(d, "threads", -err);
	if (nic_net_of(d))
		err = nic_ud_tunnel_start(d);
	if (err)
		return fail(d, "UD QP", err);
	nic_dev_to(d, NIC_UP);
	return 0;
}

int nic_start(struct fast *f)
{
	struct nic_dev *d;
	int err = 0;

	NIC_FOREACH(d, f)
		if (!err)
			err = start_one(d);
	return err;
}

void nic_stop(struct fast *f)
{
	struct nic_dev *d;

	NIC_FOREACH(d, f) {
		nic_worker_join(d->worker);
		nic_ucma_stop(d);
	}
}

static void close_one(struct nic_dev *d)
{
	struct nic_cq *cq;

	nic_dev_to(d, NIC_CLOSED);
	nic_ucma_free(d);
	nic_worker_free(d->worker);
	nic_ud_tunnel_stop(d);
	nic_ahs_stop(d);
	while ((cq = LIST_FIRST(&d->cqs))) {
		LIST_REMOVE(cq, entry);
		d->lib.destroy_cq(cq->cq);
		free(cq);
	}
	nic_dev_close(d);
	free(d);
}

void nic_close(struct fast *f)
{
	struct fast_host *h = f->host;

	while (h->num_nics)
		close_one(h->nic[--h->num_nics].dev);
	memset(h->nic, 0, sizeof(h->nic));
}

/* ---- PDs, CQs ------------------------------------------------------------------------------------- */

struct ibv_pd *nic_pd(struct nic_dev *d, struct pd *pd)
{
	errno = ENODEV;
	if (!pd->nic && nic_is_up(d))
		pd->nic = d->lib.alloc_pd(d->ctx);
	return pd->nic;
}

struct pd_end {
	struct nic_job job;
	struct nic_lib *lib;
	struct ibv_pd *pd;
};

static void pd_run(struct nic_job *job)
{
	struct pd_end *e = (struct pd_end *)job;

	if (e->lib->dealloc_pd(e->pd))
		log_err("NIC: a PD cannot be given back: %m");
}

static void pd_back(struct nic_job *job)
{
	free(job);
}

/* The worker frees the PD, after the jobs of the PD's MRs that it may still have. */
void nic_pd_break(struct pd *pd)
{
	struct nic_dev *d = nic_of(pd->o.ses->cont);
	struct pd_end *e = pd->nic ? calloc(1, sizeof(*e)) : NULL;

	if (e) {
		*e = (struct pd_end){ { .run = pd_run, .back = pd_back }, &d->lib, pd->nic };
		nic_job_give(d->worker, &e->job);
	}
	pd->nic = NULL;
}

struct nic_cq *nic_cq_get(struct nic_dev *d, const struct container *c, uint32_t n)
{
	struct fast *f = d->f;
	struct nic_cq *cq;

	LIST_FOREACH(cq, &d->cqs, entry)
		if (cq->cont == c && !cq->is_broken && cq->size - cq->used >= n) {
			cq->used += n;
			return cq;
		}
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	cq->cq = d->lib.create_cq(d->ctx, n > CQ_SIZE ? (int)n : CQ_SIZE, cq, d->channel, 0);
	if (!cq->cq && n < CQ_SIZE)
		cq->cq = d->lib.create_cq(d->ctx, (int)n, cq, d->channel, 0);
	if (!cq->cq) {
		free(cq);
		return NULL;
	}
	cq->d = d;
	cq->cont = c;
	cq->size = (uint32_t)cq->cq->cqe;
	cq->used = n;
	fast_lock(f->host);
	LIST_INSERT_HEAD(&d->cqs, cq, entry);
	fast_kick(f); /* a runner that sleeps has not armed this CQ */
	fast_unlock(f->host);
	return cq;
}

void nic_cq_put(struct nic_cq *cq, uint32_t n)
{
	struct nic_dev *d = cq->d;
	struct fast *f = d->f;

	cq->used -= n;
	if (cq->used)
		return;
	fast_lock(f->host);
	nic_heard(d); /* the CQ cannot be destroyed before its events are acknowledged */
	LIST_REMOVE(cq, entry);
	fast_kick(f); /* the events may have been of other CQs, which the runner is to poll */
	fast_unlock(f->host);
	if (d->lib.destroy_cq(cq->cq))
		log_err("NIC %s: a CQ cannot be destroyed: %m", d->host->name);
	free(cq);
}

/* ---- the runner's sleep ---------------------------------------------------------------------------- */

static bool arm_one(struct nic_dev *d)
{
	struct nic_cq *cq;

	if (!nic_is_up(d))
		return true;
	LIST_FOREACH(cq, &d->cqs, entry) {
		if (!cq->used || cq->armed)
			continue;
		if (ibv_req_notify_cq(cq->cq, 0))
			return false;
		cq->armed = true;
	}
	return nic_poll(d) == 0;
}

bool nic_arm(struct fast *f)
{
	struct nic_dev *d;

	NIC_FOREACH(d, f)
		if (!arm_one(d))
			return false;
	return true;
}

void nic_heard(struct nic_dev *d)
{
	struct ibv_cq *cq;
	void *arg;

	while (nic_is_up(d) && !d->lib.get_cq_event(d->channel, &cq, &arg)) {
		((struct nic_cq *)arg)->armed = false;
		d->lib.ack_cq_events(cq, 1);
	}
}
