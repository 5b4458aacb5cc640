// SPDX-License-Identifier: GPL-2.0
/*
 * dma.c - transfers by the mport's DMA channels. A job goes to the channel that has least to do; when
 * all have as much as they take, it waits in order, and each job's end lets the next in. The first
 * flow control is the send buffer's, the second the receive buffer's, this is the third.
 *
 * A transfer that takes longer than a grant lasts would write to a buffer that is somebody else's by
 * then: its channel is stopped before that.
 *
 * Tests: vm/ffrio.sh
 */
#include "ffrio_int.h"

#define CHANNEL_JOBS 16
#define JOB_TIME     (FFRIO_GRANT_MS * HZ / 1000 / 4)

/* Call with port->lock held. */
static void end(struct ffrio_job *job, int error)
{
	job->done(job, error);
}

static void start_waiting(struct ffrio_port *port);

/* Callback of the DMA driver, softirqs off, any thread; port->lock is not held. */
static void dma_done(void *param)
{
	struct ffrio_job *job = param;
	struct ffrio_port *port = job->port;
	enum dma_status status;

	/* From dmaengine_terminate_all(), with locks of the driver's: stop() ends it. */
	if (READ_ONCE(job->channel->terminating)) {
		WRITE_ONCE(job->aborted, true);
		return;
	}
	status = dma_async_is_tx_complete(job->channel->chan, job->cookie, NULL, NULL);
	ffrio_enter(port);
	job->error = status == DMA_COMPLETE ? 0 : -EIO;
	job->channel->count--;
	list_del_init(&job->node);
	if (ffrio_top_half) {
		end(job, job->error);
		start_waiting(port);
	} else {
		list_add_tail(&job->node, &port->ended);
		queue_work(system_highpri_wq, &port->work);
	}
	ffrio_leave(port);
}

/* Call with port->lock held. -EBUSY: not now. */
static int submit(struct ffrio_port *port, struct ffrio_channel *c, struct ffrio_job *job)
{
	struct dma_async_tx_descriptor *txd;
	struct rio_dma_data data = {
		.sg = job->list ?: &job->sg,
		.sg_len = job->list ? job->entries : 1,
		.rio_addr = job->rio,
		.wr_type = job->type,
	};

	sg_init_table(&job->sg, 1);
	sg_dma_address(&job->sg) = job->local;
	sg_dma_len(&job->sg) = job->length;
	txd = rio_dma_prep_xfer(c->chan, job->destid, &data,
				job->read ? DMA_DEV_TO_MEM : DMA_MEM_TO_DEV,
				DMA_CTRL_ACK | DMA_PREP_INTERRUPT);
	if (!txd)
		return -EBUSY;
	if (IS_ERR(txd))
		return PTR_ERR(txd);
	txd->callback = dma_done;
	txd->callback_param = job;
	job->channel = c;
	job->since = jiffies;
	job->aborted = false;
	job->cookie = dmaengine_submit(txd);
	if (dma_submit_error(job->cookie))
		return -EIO;
	c->count++;
	list_add_tail(&job->node, &c->jobs);
	dma_async_issue_pending(c->chan);
	return 0;
}

static int try(struct ffrio_port *port, struct ffrio_job *job)
{
	struct ffrio_channel *best = NULL, *c;

	for (c = port->channel; c < port->channel + port->channels; c++)
		if (!c->stop && c->count < CHANNEL_JOBS && (!best || c->count < best->count))
			best = c;
	return best ? submit(port, best, job) : -EBUSY;
}

static void start_waiting(struct ffrio_port *port)
{
	struct ffrio_job *job;

	while ((job = list_first_entry_or_null(&port->jobs, struct ffrio_job, node))) {
		int ret = port->gone ? -ENODEV : -EBUSY;

		list_del_init(&job->node);
		if (!port->gone)
			ret = try(port, job);
		if (ret == -EBUSY) {
			list_add(&job->node, &port->jobs);
			return;
		}
		if (ret)
			end(job, ret);
	}
}

/* Call with port->lock held; done() comes later, never from here. */
void ffrio_dma_start(struct ffrio_port *port, struct ffrio_job *job)
{
	job->port = port;
	if (list_empty(&port->jobs) && !port->gone && !try(port, job))
		return;
	ffrio_stat(&port->proto, dma_waits);
	list_add_tail(&job->node, &port->jobs);
	/* what is refused for good ends there */
	queue_work(system_highpri_wq, &port->work);
}

bool ffrio_dma_busy(const struct ffrio_port *port)
{
	unsigned int i;

	for (i = 0; i < port->channels; i++)
		if (port->channel[i].count)
			return true;
	return !list_empty(&port->jobs);
}

/* Call with port->lock held. */
void ffrio_dma_tick(struct ffrio_port *port)
{
	struct ffrio_channel *c;
	struct ffrio_job *job;

	for (c = port->channel; c < port->channel + port->channels; c++) {
		job = list_first_entry_or_null(&c->jobs, struct ffrio_job, node);
		if (job && time_after(jiffies, job->since + JOB_TIME)) {
			c->stop = true;
			queue_work(system_highpri_wq, &port->work);
		}
	}
	if (!list_empty(&port->jobs))
		queue_work(system_highpri_wq, &port->work);
}

/* Call with port->lock held. */
static void end_all(struct ffrio_port *port, struct ffrio_channel *c, bool aborted_only)
{
	struct ffrio_job *job, *next;
	LIST_HEAD(over);

	list_for_each_entry_safe(job, next, &c->jobs,
				 node) if (!aborted_only || READ_ONCE(job->aborted))
	{
		list_move_tail(&job->node, &over);
		c->count--;
	}
	while ((job = list_first_entry_or_null(&over, struct ffrio_job, node))) {
		list_del_init(&job->node);
		end(job, -EIO);
	}
}

/* What the driver does not abort has a callback on its way. */
static void stop(struct ffrio_port *port, struct ffrio_channel *c)
{
	WRITE_ONCE(c->terminating, true);
	dmaengine_terminate_sync(c->chan);
	WRITE_ONCE(c->terminating, false);
	ffrio_enter(port);
	end_all(port, c, true);
	c->stop = false;
	ffrio_leave(port);
}

/* The work queue's part. */
void ffrio_dma_work(struct ffrio_port *port)
{
	struct ffrio_channel *c;
	struct ffrio_job *job;

	for (c = port->channel; c < port->channel + port->channels; c++)
		if (READ_ONCE(c->stop) && !port->gone)
			stop(port, c);
	ffrio_enter(port);
	while ((job = list_first_entry_or_null(&port->ended, struct ffrio_job, node))) {
		list_del_init(&job->node);
		end(job, job->error);
	}
	start_waiting(port);
	ffrio_leave(port);
}

/* What this module maps for DMA, and the RMBs' window, are of one device, whose addresses both have. */
int ffrio_dma_open(struct ffrio_port *port, char *why)
{
	while (port->channels < ffrio_channel_count) {
		struct ffrio_channel *c = &port->channel[port->channels];

		c->chan = rio_request_mport_dma(port->mport);
		if (!c->chan)
			break;
		INIT_LIST_HEAD(&c->jobs);
		port->channels++;
		if (dmaengine_get_dma_device(c->chan) != port->dev) {
			strscpy(why, "its DMA channels are of another device", FFRIO_WHY_SIZE);
			return -EOPNOTSUPP;
		}
	}
	if (port->channels)
		return 0;
	strscpy(why, "the port has no DMA channel that nobody uses", FFRIO_WHY_SIZE);
	return -ENODEV;
}

/* After this no job is under way, and each has ended. port->gone is set. */
void ffrio_dma_close(struct ffrio_port *port)
{
	unsigned int i;

	for (i = 0; i < port->channels; i++) {
		struct ffrio_channel *c = &port->channel[i];

		stop(port, c);
		rio_release_dma(c->chan);
		/* no callback comes any more */
		spin_lock_bh(&port->lock);
		end_all(port, c, false);
		spin_unlock_bh(&port->lock);
	}
}
