/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sysfs.c - <container's directory>/sys/class/: the files that the kernel has for a NIC in /sys, as
 * text and in its units, for programs that read them. Control thread.
 *
 *	infiniband/ff0			a link, as the kernel's, to
 *	infiniband/.ff0/PCI_NAME/	the folder of a PCI device: vendor, numa_node, local_cpulist, ...
 *		infiniband/ff0/		node and ports, with GIDs and counters; device is a link back
 *		infiniband_verbs/NODE/	dev, ibdev, abi_version
 *		net/eth0		a link to the interface
 *	infiniband_verbs/NODE		a link to that
 *
 * NCCL takes the last part of the path behind .../ff0/device for a PCI address, and looks for what
 * has the same beside it; so it is one that no device of a host has.
 *
 * The tree is made when the container is attached and stays in place for the next router, because
 * containers mount it. Counters are rewritten in place at most once a second, those that have changed,
 * and only while the container has sessions or had some a moment ago.
 *
 * The network device of the GIDs is what a program's library has told when it opened the device (TELL_NDEVS), because the
 * router does not see the container's interfaces: UCX 1.19 and later look whether that device has a route to the peer.
 * Before any program has told, it is NDEV, the one that engines give a container.
 *
 * A container that has mounted its directory to write in it may have put anything there: nothing is
 * followed, only regular files are written, and what fails makes only its own counters stand still.
 *
 * Tests: test_ctl.c, test_container.c, system/sysfs.sh
 */
#include "ffr/ctl/sysfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/ctl/ctl.h"
#include "ffr/ctl/sysfile.h"
#include "ffr/fast/fast.h"
#include "ffr/lib/log.h"

#define PERIOD	   1000 /* ms */
#define PCI_NAME   "ff00:00:00.0"
#define PCI_DIR	   "." FF_DEVICE_NAME "/" PCI_NAME
#define CLASS_DIR  "sys/class/infiniband"
#define DEVICE_DIR CLASS_DIR "/" PCI_DIR "/infiniband/" FF_DEVICE_NAME
#define VERBS_DIR  "infiniband_verbs/" FF_DEVICE_NODE
#define MTU	   4096 /* bytes of a packet, if there were any */
#define NDEV	   "eth0"

/* X(file, value from struct ff_stats *st): ports/1/counters. Data is in words of 4 bytes. */
#define COUNTERS(X)                                                                                \
	X("port_xmit_data", st->tx_bytes / 4)                                                      \
	X("port_rcv_data", st->rx_bytes / 4)                                                       \
	X("port_xmit_packets", packets_out(st))                                                    \
	X("port_rcv_packets", packets_in(st))                                                      \
	X("unicast_xmit_packets", packets_out(st))                                                 \
	X("unicast_rcv_packets", packets_in(st))                                                   \
	X("multicast_xmit_packets", 0)                                                             \
	X("multicast_rcv_packets", 0)                                                              \
	X("port_xmit_wait", st->throttled_ns / 1000)                                               \
	X("port_xmit_discards", st->ud_drops)                                                      \
	X("port_rcv_errors", st->bad_wqes)                                                         \
	X("port_rcv_remote_physical_errors", 0)                                                    \
	X("port_rcv_switch_relay_errors", 0)                                                       \
	X("port_xmit_constraint_errors", 0)                                                        \
	X("port_rcv_constraint_errors", 0)                                                         \
	X("symbol_error", 0)                                                                       \
	X("link_error_recovery", 0)                                                                \
	X("link_downed", 0)                                                                        \
	X("local_link_integrity_errors", 0)                                                        \
	X("excessive_buffer_overrun_errors", 0)                                                    \
	X("VL15_dropped", 0)

/* ports/1/hw_counters, with the names of the kernel's rxe */
#define HW_COUNTERS(X)                                                                             \
	X("sent_pkts", packets_out(st))                                                            \
	X("rcvd_pkts", packets_in(st))                                                             \
	X("rcvd_rnr_err", st->rnr)                                                                 \
	X("completer_retry_err", st->retries)                                                      \
	X("retry_exceeded_err", st->status[IBV_WC_RETRY_EXC_ERR])                                  \
	X("retry_rnr_exceeded_err", st->status[IBV_WC_RNR_RETRY_EXC_ERR])                          \
	X("send_err", st->errors)                                                                  \
	X("rdma_sends", st->send_ops)                                                              \
	X("rdma_recvs", st->recv_ops)                                                              \
	X("rdma_writes", st->write_ops)                                                            \
	X("rdma_reads", st->read_ops)                                                              \
	X("rdma_atomics", st->atomic_ops)

/* clang-format off */
#define X(name, value) +1
enum { NUM_COUNTERS = 0 COUNTERS(X), NUM_HW_COUNTERS = 0 HW_COUNTERS(X) };
#undef X
/* clang-format on */

static const char *const counter_name[] = {
#define X(name, value) name,
	COUNTERS(X) HW_COUNTERS(X)
#undef X
};

struct sysfs {
	/* The interfaces of its addresses, where a client has told one; else the name is empty. */
	struct ff_ndev ndev[CONTAINER_MAX_GIDS], any; /* any: where it has no address of its own */
	int counters_fd, hw_fd;			      /* directories; -1 */
	uint64_t written[NUM_COUNTERS + NUM_HW_COUNTERS];
	/* Who counts, how much they had done when it was seen to change, and the looks since then. */
	const struct fast *fast;
	uint64_t done;
	unsigned looks;
};

/* What a wire would have needed at least: nobody counts packets where there is none. */
static uint64_t packets_out(const struct ff_stats *st)
{
	return st->tx_bytes / MTU + st->send_ops + st->write_ops + st->read_ops + st->atomic_ops +
	       st->flush_ops;
}

static uint64_t packets_in(const struct ff_stats *st)
{
	return st->rx_bytes / MTU + st->recv_ops + st->read_ops + st->atomic_ops + st->flush_ops;
}

void sysfs_remove(int dir_fd)
{
	sysfile_remove(dir_fd, "sys");
}

/* ---- what does not change ------------------------------------------------------------------------- */

/* Eight groups of four digits, as the kernel prints GIDs; GUIDs have four groups. */
static void groups_text(const uint8_t *raw, int groups, char text[48])
{
	for (int i = 0, n = 0; i < groups; i++)
		n += snprintf(text + n, (size_t)(48 - n), "%s%02x%02x", i ? ":" : "", raw[2 * i],
			      raw[2 * i + 1]);
}

static int write_node(struct container *c, int fd)
{
	const struct ctl *ctl = ((struct container_ctl *)c->ctl)->ctl;
	uint64_t guid = ctl_node_guid(c);
	char text[48];
	int err;

	groups_text((const uint8_t *)&guid, 4, text);
	err = sysfile_write(fd, "node_type", "1: CA\n");
	err = err ? err : sysfile_printf(fd, "node_guid", "%s\n", text);
	err = err ? err : sysfile_printf(fd, "sys_image_guid", "%s\n", text);
	err = err ? err : sysfile_printf(fd, "node_desc", "%s\n", c->name);
	err = err ? err : sysfile_printf(fd, "fw_ver", "%.63s\n", ctl->dev.fw_ver);
	err = err ? err : sysfile_write(fd, "hw_rev", "0x0\n");
	err = err ? err : sysfile_write(fd, "hca_type", "freeflow\n");
	return err ? err : sysfile_write(fd, "board_id", "freeflow\n");
}

static const struct ff_ndev *ndev_find(const struct sysfs *s, const union ibv_gid *gid)
{
	for (unsigned i = 0; s && i < CONTAINER_MAX_GIDS; i++)
		if (s->ndev[i].name[0] && !memcmp(s->ndev[i].addr, gid->raw, sizeof(gid->raw)))
			return &s->ndev[i];
	return NULL;
}

/*
 * The interface of a GID. One that is on no interface, as the link-local GID and the NIC's, is said to be where the
 * container's first address is that is on one; or, where none is, where its network begins.
 */
static const char *ndev_of(const struct container *c, const union ibv_gid *gid)
{
	const struct sysfs *s = ((const struct container_ctl *)c->ctl)->sysfs;
	const struct ff_ndev *d = ndev_find(s, gid);

	for (unsigned i = 0; !d && i < c->num_gids; i++)
		d = ndev_find(s, &c->gid[i]);
	return d ? d->name : s && s->any.name[0] ? s->any.name : NDEV;
}

/* The processors of the machine, as the kernel writes a set of them: a list, and words of 32. */
static int write_cpus(int fd)
{
	long last = sysconf(_SC_NPROCESSORS_CONF) - 1;
	char text[256];
	int n = 0;

	if (last < 0 || last >= 512)
		last = 0;
	for (long i = last / 32; i >= 0; i--) {
		uint32_t word = i == last / 32 ? (uint32_t)((2ull << last % 32) - 1) : UINT32_MAX;

		n += snprintf(text + n, sizeof(text) - (size_t)n, "%08x%c", word, i ? ',' : '\n');
	}
	n = sysfile_write(fd, "local_cpus", text);
	return n ? n : sysfile_printf(fd, "local_cpulist", last ? "0-%ld\n" : "%ld\n", last);
}

static int write_verbs(int pci_fd)
{
	int fd = sysfile_dir(pci_fd, VERBS_DIR), err;

	if (fd < 0)
		return fd;
	err = sysfile_write(fd, "dev", "231:192\n"); /* the kernel's first */
	err = err ? err : sysfile_write(fd, "ibdev", FF_DEVICE_NAME "\n");
	err = err ? err : sysfile_write(fd, "abi_version", "1\n");
	err = err ? err : sysfile_link(fd, "device", "../..");
	close(fd);
	return err;
}

/* The interface that has the container's first address. */
static int write_net(const struct container *c, int pci_fd)
{
	char target[64];
	const char *name = ndev_of(c, &c->gid[0]);
	int fd = sysfile_dir(pci_fd, "net"), err;

	if (fd < 0)
		return fd;
	snprintf(target, sizeof(target), "/sys/class/net/%s", name);
	sysfile_keep_one(fd, name);
	err = sysfile_link(fd, name, target);
	close(fd);
	return err;
}

static int write_pci(struct container *c, int fd)
{
	const struct ctl *ctl = ((struct container_ctl *)c->ctl)->ctl;
	int err = sysfile_printf(fd, "vendor", "0x%04x\n", ctl->dev.vendor_id & 0xffff);

	err = err ? err :
		    sysfile_printf(fd, "device", "0x%04x\n", ctl->dev.vendor_part_id & 0xffff);
	err = err ? err : sysfile_write(fd, "subsystem_vendor", "0x0000\n");
	err = err ? err : sysfile_write(fd, "subsystem_device", "0x0000\n");
	err = err ? err : sysfile_write(fd, "class", "0x020000\n");
	err = err ? err : sysfile_write(fd, "numa_node", "-1\n");
	err = err ? err : write_cpus(fd);
	err = err ? err : write_verbs(fd);
	return err ? err : write_net(c, fd);
}

/* The links in the folders of the two classes. */
static int write_classes(int dir_fd)
{
	int fd = sysfile_dir(dir_fd, CLASS_DIR), err;

	if (fd < 0)
		return fd;
	err = sysfile_link(fd, FF_DEVICE_NAME, PCI_DIR "/infiniband/" FF_DEVICE_NAME);
	close(fd);
	if (err)
		return err;
	fd = sysfile_dir(dir_fd, "sys/class/infiniband_verbs");
	if (fd < 0)
		return fd;
	err = sysfile_write(fd, "abi_version", "6\n");
	err = err ? err : sysfile_link(fd, FF_DEVICE_NODE, "../infiniband/" PCI_DIR "/" VERBS_DIR);
	close(fd);
	return err;
}

/* As ctl_query_port() has it. */
static int write_port(struct container *c, int fd)
{
	int err = sysfile_write(fd, "state", "4: ACTIVE\n");

	err = err ? err : sysfile_write(fd, "phys_state", "5: LinkUp\n");
	err = err ? err : sysfile_write(fd, "rate", "100 Gb/sec (4X EDR)\n");
	err = err ? err : sysfile_write(fd, "link_layer", "Ethernet\n");
	err = err ? err : sysfile_printf(fd, "lid", "0x%x\n", c->lid);
	err = err ? err : sysfile_write(fd, "lid_mask_count", "0\n");
	err = err ? err : sysfile_write(fd, "sm_lid", "0x0\n");
	err = err ? err : sysfile_write(fd, "sm_sl", "0\n");
	return err ? err :
		     sysfile_printf(fd, "cap_mask", "0x%08x\n",
				    (unsigned)(IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS));
}

/* One file of the directory below port_fd. */
static int write_in(int port_fd, const char *dir, const char *name, const char *text)
{
	int fd = sysfile_dir(port_fd, dir), err;

	if (fd < 0)
		return fd;
	err = sysfile_write(fd, name, text);
	close(fd);
	return err;
}

/* ... is no more. */
static void remove_in(int port_fd, const char *dir, const char *name)
{
	int fd = sysfile_dir(port_fd, dir);

	if (fd < 0)
		return;
	unlinkat(fd, name, 0);
	close(fd);
}

/* Entries that the container has not, but could have: where the kernel has no text either, no file. */
static int write_no_gid(int port_fd, const char *name)
{
	remove_in(port_fd, "gid_attrs/types", name);
	remove_in(port_fd, "gid_attrs/ndevs", name);
	return write_in(port_fd, "gids", name, "0000:0000:0000:0000:0000:0000:0000:0000\n");
}

static int write_ndev(const struct container *c, int port_fd, const char *name,
		      const union ibv_gid *gid)
{
	char text[FF_NDEV_NAME_SZ + 1];

	snprintf(text, sizeof(text), "%s\n", ndev_of(c, gid));
	return write_in(port_fd, "gid_attrs/ndevs", name, text);
}

static int write_gid(const struct container *c, int port_fd, const char *name,
		     const struct gid_entry *e)
{
	bool v2 = e->type == IBV_GID_TYPE_ROCE_V2;
	char text[48];
	int err;

	groups_text(e->gid.raw, 8, text);
	strcat(text, "\n");
	err = write_in(port_fd, "gids", name, text);
	err = err ? err :
		    write_in(port_fd, "gid_attrs/types", name, v2 ? "RoCE v2\n" : "IB/RoCE v1\n");
	return err ? err : write_ndev(c, port_fd, name, &e->gid);
}

static int write_gids(struct container *c, int port_fd)
{
	int err = write_in(port_fd, "pkeys", "0", "0xffff\n");

	for (unsigned i = 0; !err && i < GID_TABLE_LEN(CONTAINER_MAX_GIDS) + c->has_nic_gid; i++) {
		struct gid_entry e = gid_entry(c, i);
		char name[16];

		snprintf(name, sizeof(name), "%u", i);
		err = i < gid_table_len(c) ? write_gid(c, port_fd, name, &e) :
					     write_no_gid(port_fd, name);
	}
	return err;
}

/* As the kernel's dev_valid_name(), and no control characters. */
static bool ndev_name_ok(const char name[FF_NDEV_NAME_SZ])
{
	size_t n = strnlen(name, FF_NDEV_NAME_SZ);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f || strchr("/:", name[i]))
			return false;
	return n && n < FF_NDEV_NAME_SZ && strcmp(name, ".") && strcmp(name, "..");
}

/*
 * Keeps the interfaces that a client has told for the container's own addresses, in place of those that were told before.
 * True if one has changed.
 */
static bool ndevs_keep(const struct container *c, struct sysfs *s, const struct ff_ndev *told,
		       uint32_t n)
{
	static const uint8_t none[16];
	bool changed = false;

	for (uint32_t k = 0; k < n; k++)
		if (!memcmp(told[k].addr, none, sizeof(none)) &&
		    memcmp(&told[k], &s->any, sizeof(s->any))) {
			s->any = told[k];
			changed = true;
		}
	for (unsigned i = 0; i < c->num_gids; i++) {
		struct ff_ndev now = { 0 }, *d = &s->ndev[i];
		const struct ff_ndev *old = ndev_find(s, &c->gid[i]);

		if (old)
			now = *old;
		for (uint32_t k = 0; k < n; k++)
			if (!memcmp(told[k].addr, c->gid[i].raw, sizeof(told[k].addr)))
				now = told[k];
		changed |= memcmp(&now, d, sizeof(now)) != 0;
		*d = now;
	}
	return changed;
}

int ctl_tell_ndevs(struct ctl_call *call, const struct ff_tell_ndevs_req *req,
		   struct ff_tell_ndevs_resp *resp)
{
	struct container *c = call->s->cont;
	struct sysfs *s = ((struct container_ctl *)c->ctl)->sysfs;
	const struct ff_ndev *told = call->tail;
	int fd, port_fd;

	(void)req;
	(void)resp;
	if (call->n_tail > FF_NDEVS_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < call->n_tail; i++)
		if (!ndev_name_ok(told[i].name))
			return -EINVAL;
	if (!s || !ndevs_keep(c, s, told, call->n_tail))
		return 0;
	fd = sysfile_dir(((struct container_ctl *)c->ctl)->dir_fd, CLASS_DIR "/" PCI_DIR);
	if (fd >= 0) {
		write_net(c, fd);
		close(fd);
	}
	fd = sysfile_dir(((struct container_ctl *)c->ctl)->dir_fd, DEVICE_DIR);
	if (fd < 0)
		return 0;
	port_fd = sysfile_dir(fd, "ports/1");
	close(fd);
	for (unsigned i = 0; port_fd >= 0 && i < gid_table_len(c); i++) {
		struct gid_entry e = gid_entry(c, i);
		char name[16];

		snprintf(name, sizeof(name), "%u", i);
		write_ndev(c, port_fd, name, &e.gid);
	}
	if (port_fd >= 0)
		close(port_fd);
	return 0;
}

/* ---- counters ------------------------------------------------------------------------------------- */

static void values_of(const struct ff_stats *st, uint64_t v[NUM_COUNTERS + NUM_HW_COUNTERS])
{
	const uint64_t values[] = {
#define X(name, value) value,
		COUNTERS(X) HW_COUNTERS(X)
#undef X
	};

	memcpy(v, values, sizeof(values));
}

static void write_counters(struct container *c, bool all)
{
	struct container_ctl *ct = c->ctl;
	uint64_t v[NUM_COUNTERS + NUM_HW_COUNTERS];
	struct ff_stats st = { 0 };

	stats_of_container(c, &st, NULL);
	values_of(&st, v);
	for (int i = 0; i < NUM_COUNTERS + NUM_HW_COUNTERS; i++) {
		int fd = i < NUM_COUNTERS ? ct->sysfs->counters_fd : ct->sysfs->hw_fd;

		if (all || v[i] != ct->sysfs->written[i])
			sysfile_printf(fd, counter_name[i], "%llu\n", (unsigned long long)v[i]);
		ct->sysfs->written[i] = v[i];
	}
}

/* ---- a container's life ---------------------------------------------------------------------------- */

static int identity(struct container *c, int *port_fd)
{
	struct container_ctl *ct = c->ctl;
	int fd = sysfile_dir(ct->dir_fd, CLASS_DIR "/" PCI_DIR), err;

	if (fd < 0)
		return fd;
	err = write_pci(c, fd);
	close(fd);
	err = err ? err : write_classes(ct->dir_fd);
	if (err)
		return err;
	fd = sysfile_dir(ct->dir_fd, DEVICE_DIR);
	if (fd < 0)
		return fd;
	err = write_node(c, fd);
	err = err ? err : sysfile_link(fd, "device", "../..");
	*port_fd = err ? err : sysfile_dir(fd, "ports/1");
	close(fd);
	if (*port_fd < 0)
		return *port_fd;
	err = write_port(c, *port_fd);
	err = err ? err : write_gids(c, *port_fd);
	if (err)
		close(*port_fd);
	return err;
}

void sysfs_open(struct container *c)
{
	struct container_ctl *ct = c->ctl;
	struct sysfs *s = calloc(1, sizeof(*s));
	int port = -1, err = s ? identity(c, &port) : -ENOMEM;

	if (!err) {
		s->counters_fd = sysfile_dir(port, "counters");
		s->hw_fd = sysfile_dir(port, "hw_counters");
		err = s->counters_fd < 0 ? s->counters_fd : s->hw_fd < 0 ? s->hw_fd : 0;
		close(port);
		ct->sysfs = s;
	} else {
		free(s);
	}
	if (err)
		log_warn("container %s: %s: %s", c->name, DEVICE_DIR, strerror(-err));
	if (ct->sysfs)
		write_counters(c, true);
}

void sysfs_identity(struct container *c)
{
	struct container_ctl *ct = c->ctl;
	int port;

	if (ct->sysfs && !identity(c, &port))
		close(port);
}

void sysfs_close(struct container *c)
{
	struct container_ctl *ct = c->ctl;

	if (!ct->sysfs)
		return;
	write_counters(c, false);
	if (ct->sysfs->counters_fd >= 0)
		close(ct->sysfs->counters_fd);
	if (ct->sysfs->hw_fd >= 0)
		close(ct->sysfs->hw_fd);
	free(ct->sysfs);
	ct->sysfs = NULL;
}

/* ---- the timer --------------------------------------------------------------------------------------- */

/*
 * May they have changed since they were written? Counting is done in turns of the fast thread, and in the container's own
 * calls (flushed WRs). Where there were neither is nothing new; and the last turn may have gone on when it was looked at.
 */
static bool may_have_changed(struct container *c)
{
	struct sysfs *s = ((struct container_ctl *)c->ctl)->sysfs;
	uint64_t done = stats_word(&c->fast->turn) + c->cpu.ctl_ns;

	if (s->fast != c->fast || s->done != done)
		s->looks = 0;
	s->fast = c->fast;
	s->done = done;
	return s->looks++ < 2;
}

static void on_timer(uv_timer_t *t)
{
	struct ctl *ctl = t->data;
	struct container *c;
	bool goes_on = false;

	LIST_FOREACH(c, &ctl->host->containers, entry) {
		struct container_ctl *ct = c->ctl;

		if (!ct->sysfs)
			continue;
		goes_on |= !LIST_EMPTY(&c->sessions);
		if (may_have_changed(c)) {
			write_counters(c, false);
			goes_on = true;
		}
	}
	if (!goes_on)
		uv_timer_stop(t);
}

void sysfs_wake(struct ctl *ctl)
{
	if (!uv_is_active((uv_handle_t *)&ctl->counters))
		uv_timer_start(&ctl->counters, on_timer, PERIOD, PERIOD);
}

void sysfs_init(struct ctl *ctl)
{
	uv_timer_init(ctl->loop, &ctl->counters);
	ctl->counters.data = ctl;
}
