/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sysfs.c - <container's directory>/sys/class/: the files that the kernel has for a NIC in /sys, as
 * text and in its units, for programs that read them. Control thread.
 *
 *	infiniband/ff0			a link, as the kernel's, to
 *	infiniband/.ff0/PCI/		the folder of a PCI device: vendor, numa_node, local_cpulist, ...
 *		infiniband/ff0/		node and ports, with GIDs and counters; device is a link back
 *		infiniband_verbs/NODE/	dev, ibdev, abi_version
 *		net/eth0		a link to the interface
 *	infiniband_verbs/NODE		a link to that
 *
 * ff0 is the device's name; where a container has several devices, each has all of that. NCCL takes
 * the last part of the path behind .../ff0/device for a PCI address, and takes devices for one whose
 * addresses differ behind the bus only; so PCI is an address that no device of a host has, with a
 * bus of its own for each device.
 *
 * The tree is made when the container is attached and stays in place for the next router, because
 * containers mount it. Counters are rewritten in place at most once a second, those that have changed,
 * and only while the container has sessions or had some a moment ago.
 *
 * The network device of each GID is the interface that a program's library named when it opened the device
 * (TELL_NDEVS), because the router does not see the container's interfaces. UCX 1.19 and later look whether that
 * interface has a route to the peer. Until a program has opened the device, the files say NDEV, the interface that
 * engines give a container.
 *
 * A container that has mounted its directory to write in it may have put anything there. So the router follows no
 * link, writes only regular files, and a failed write only makes that container's counters stand still.
 *
 * Tests: test_ctl.c, test_container.c, system/sysfs.sh
 */
#include "ffr/ctl/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/ctl/ctl.h"
#include "ffr/ctl/sysfile.h"
#include "ffr/fast/fast.h"
#include "ffr/lib/log.h"

#define PERIOD	  1000				       /* ms */
#define PCI_DIR	  "." FF_DEVICE_NAME "/ff00:%02x:00.0" /* of the device's number */
#define CLASS_DIR "sys/class/infiniband"
#define VERBS_DIR "infiniband_verbs/" FF_DEVICE_NODE "%u"
#define PATH_SZ	  256  /* a name has 63 bytes */
#define MTU	  4096 /* bytes of a packet, if there were any */
#define NDEV	  "eth0"

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
	struct sysfs_device {
		int counters_fd, hw_fd; /* directories; -1 */
		uint64_t written[NUM_COUNTERS + NUM_HW_COUNTERS];
		struct ff_stats ended; /* of its sessions that have ended */
	} dev[FFO_DEVICES_MAX];
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

static const struct container_ctl *ctl_of(const struct container *c)
{
	return c->ctl;
}

static unsigned num_devices(const struct container *c)
{
	return ctl_of(c)->devices;
}

static const char *name_of(const struct container *c, unsigned device, char name[FFO_NAME_MAX])
{
	ffo_device_name(ctl_of(c)->device_name, num_devices(c), device, name);
	return name;
}

/* An entry of a device's GID table. */
static struct gid_entry gid_of(const struct container *c, unsigned device, uint32_t index)
{
	return gid_entry(c, gid_of_device(c, device, index));
}

/* The folder of its PCI device, or the device's own. A descriptor or -errno. */
static int pci_open(const struct container *c, unsigned device)
{
	char path[PATH_SZ];

	snprintf(path, sizeof(path), CLASS_DIR "/" PCI_DIR, device);
	return sysfile_dir(ctl_of(c)->dir_fd, path);
}

static int device_open(const struct container *c, unsigned device)
{
	char path[PATH_SZ], name[FFO_NAME_MAX];

	snprintf(path, sizeof(path), CLASS_DIR "/" PCI_DIR "/infiniband/%s", device,
		 name_of(c, device, name));
	return sysfile_dir(ctl_of(c)->dir_fd, path);
}

/* ---- what does not change ------------------------------------------------------------------------- */

/* Eight groups of four digits, as the kernel prints GIDs; GUIDs have four groups. */
static void groups_text(const uint8_t *raw, int groups, char text[48])
{
	for (int i = 0, n = 0; i < groups; i++)
		n += snprintf(text + n, (size_t)(48 - n), "%s%02x%02x", i ? ":" : "", raw[2 * i],
			      raw[2 * i + 1]);
}

static int write_node(const struct container *c, unsigned device, int fd)
{
	const struct ctl *ctl = ctl_of(c)->ctl;
	uint64_t guid = ctl_node_guid(c, device);
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
 * device's first address is that is on one; or, where none is, where its network begins.
 */
static const char *ndev_of(const struct container *c, unsigned device, const union ibv_gid *gid)
{
	const struct sysfs *s = ctl_of(c)->sysfs;
	const struct ff_ndev *d = ndev_find(s, gid);

	for (unsigned i = 0; !d && i < c->num_gids; i++) {
		struct gid_entry e = gid_of(c, device, gid_index_of_addr(i));

		d = ndev_find(s, &e.gid);
	}
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

static int write_verbs(const struct container *c, unsigned device, int pci_fd)
{
	char path[PATH_SZ], name[FFO_NAME_MAX];
	int fd, err;

	snprintf(path, sizeof(path), VERBS_DIR, device);
	fd = sysfile_dir(pci_fd, path);
	if (fd < 0)
		return fd;
	err = sysfile_printf(fd, "dev", "231:%u\n", 192 + device); /* as the kernel's first ones */
	err = err ? err : sysfile_printf(fd, "ibdev", "%s\n", name_of(c, device, name));
	err = err ? err : sysfile_write(fd, "abi_version", "1\n");
	err = err ? err : sysfile_link(fd, "device", "../..");
	close(fd);
	return err;
}

/* The interface that has the device's first address. */
static int write_net(const struct container *c, unsigned device, int pci_fd)
{
	struct gid_entry e = gid_of(c, device, GID_ADDR_V2);
	const char *name = ndev_of(c, device, &e.gid);
	char target[64];
	int fd = sysfile_dir(pci_fd, "net"), err;

	if (fd < 0)
		return fd;
	snprintf(target, sizeof(target), "/sys/class/net/%s", name);
	sysfile_keep_one(fd, name);
	err = sysfile_link(fd, name, target);
	close(fd);
	return err;
}

static int write_pci(const struct container *c, unsigned device, int fd)
{
	const struct ctl *ctl = ctl_of(c)->ctl;
	int err = sysfile_printf(fd, "vendor", "0x%04x\n", ctl->dev.vendor_id & 0xffff);

	err = err ? err :
		    sysfile_printf(fd, "device", "0x%04x\n", ctl->dev.vendor_part_id & 0xffff);
	err = err ? err : sysfile_write(fd, "subsystem_vendor", "0x0000\n");
	err = err ? err : sysfile_write(fd, "subsystem_device", "0x0000\n");
	err = err ? err : sysfile_write(fd, "class", "0x020000\n");
	err = err ? err : sysfile_write(fd, "numa_node", "-1\n");
	err = err ? err : write_cpus(fd);
	err = err ? err : write_verbs(c, device, fd);
	return err ? err : write_net(c, device, fd);
}

/* A link in the folder of a class, to the device's folder there. */
static int write_link(const struct container *c, const char *class, const char *name,
		      const char *target)
{
	int fd = sysfile_dir(ctl_of(c)->dir_fd, class), err;

	if (fd < 0)
		return fd;
	err = sysfile_link(fd, name, target);
	if (!err && strcmp(class, CLASS_DIR) != 0)
		err = sysfile_write(fd, "abi_version", "6\n");
	close(fd);
	return err;
}

static int write_classes(const struct container *c, unsigned device)
{
	char target[PATH_SZ], name[FFO_NAME_MAX];
	int err;

	name_of(c, device, name);
	snprintf(target, sizeof(target), PCI_DIR "/infiniband/%s", device, name);
	err = write_link(c, CLASS_DIR, name, target);
	if (err)
		return err;
	snprintf(name, sizeof(name), FF_DEVICE_NODE "%u", device);
	snprintf(target, sizeof(target), "../infiniband/" PCI_DIR "/" VERBS_DIR, device, device);
	return write_link(c, CLASS_DIR "_verbs", name, target);
}

/* As ctl_query_port() has it. */
static int write_port(const struct container *c, int fd)
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

/* Remove the file `name` of the port's directory `dir`. */
static void remove_in(int port_fd, const char *dir, const char *name)
{
	int fd = sysfile_dir(port_fd, dir);

	if (fd < 0)
		return;
	unlinkat(fd, name, 0);
	close(fd);
}

/*
 * A GID table entry that the container has not, but could have: its GID is zero, and its attributes have no files,
 * because the kernel shows no text for them.
 */
static int write_no_gid(int port_fd, const char *name)
{
	remove_in(port_fd, "gid_attrs/types", name);
	remove_in(port_fd, "gid_attrs/ndevs", name);
	return write_in(port_fd, "gids", name, "0000:0000:0000:0000:0000:0000:0000:0000\n");
}

static int write_ndev(const struct container *c, unsigned device, int port_fd, const char *name,
		      const union ibv_gid *gid)
{
	char text[FF_NDEV_NAME_SZ + 1];

	snprintf(text, sizeof(text), "%s\n", ndev_of(c, device, gid));
	return write_in(port_fd, "gid_attrs/ndevs", name, text);
}

static int write_gid(const struct container *c, unsigned device, int port_fd, const char *name,
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
	return err ? err : write_ndev(c, device, port_fd, name, &e->gid);
}

static int write_gids(const struct container *c, unsigned device, int port_fd)
{
	int err = write_in(port_fd, "pkeys", "0", "0xffff\n");

	for (unsigned i = 0; !err && i < GID_TABLE_LEN(CONTAINER_MAX_GIDS) + c->has_nic_gid; i++) {
		struct gid_entry e = gid_of(c, device, i);
		char name[16];

		snprintf(name, sizeof(name), "%u", i);
		err = i < gid_table_len(c) ? write_gid(c, device, port_fd, name, &e) :
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
 * Keep the interfaces that a client has told for the container's own addresses, in place of those told earlier.
 * True if one of them has changed.
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

/* The files of a device that name an interface. */
static void write_ndevs(const struct container *c, unsigned device)
{
	int fd = pci_open(c, device), port_fd;

	if (fd >= 0) {
		write_net(c, device, fd);
		close(fd);
	}
	fd = device_open(c, device);
	if (fd < 0)
		return;
	port_fd = sysfile_dir(fd, "ports/1");
	close(fd);
	for (unsigned i = 0; port_fd >= 0 && i < gid_table_len(c); i++) {
		struct gid_entry e = gid_of(c, device, i);
		char name[16];

		snprintf(name, sizeof(name), "%u", i);
		write_ndev(c, device, port_fd, name, &e.gid);
	}
	if (port_fd >= 0)
		close(port_fd);
}

int ctl_tell_ndevs(struct ctl_call *call, const struct ff_tell_ndevs_req *req,
		   struct ff_tell_ndevs_resp *resp)
{
	struct container *c = call->s->cont;
	struct sysfs *s = ((struct container_ctl *)c->ctl)->sysfs;
	const struct ff_ndev *told = call->tail;

	(void)req;
	(void)resp;
	if (call->n_tail > FF_NDEVS_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < call->n_tail; i++)
		if (!ndev_name_ok(told[i].name))
			return -EINVAL;
	if (s && ndevs_keep(c, s, told, call->n_tail))
		for (unsigned i = 0; i < num_devices(c); i++)
			write_ndevs(c, i);
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

static void write_values(struct sysfs_device *d, const uint64_t v[], bool all)
{
	for (int i = 0; i < NUM_COUNTERS + NUM_HW_COUNTERS; i++) {
		int fd = i < NUM_COUNTERS ? d->counters_fd : d->hw_fd;

		if (all || v[i] != d->written[i])
			sysfile_printf(fd, counter_name[i], "%llu\n", (unsigned long long)v[i]);
		d->written[i] = v[i];
	}
}

/* Of a device, but the first. */
static void values_of_device(const struct container *c, unsigned device,
			     uint64_t v[NUM_COUNTERS + NUM_HW_COUNTERS])
{
	struct ff_stats st = ctl_of(c)->sysfs->dev[device].ended, of;
	const struct session *s;

	LIST_FOREACH(s, &c->sessions, entry) {
		if (s->device != device)
			continue;
		of = stats_of_session(s);
		stats_add(&st, &of);
	}
	values_of(&st, v);
}

/* The first device has all that is no other's, so that the sum over the devices is the container's. */
static void write_counters(struct container *c, bool all)
{
	struct sysfs *s = ((struct container_ctl *)c->ctl)->sysfs;
	uint64_t v[NUM_COUNTERS + NUM_HW_COUNTERS], others[NUM_COUNTERS + NUM_HW_COUNTERS] = { 0 };
	struct ff_stats st = { 0 };

	for (unsigned d = 1; d < num_devices(c); d++) {
		values_of_device(c, d, v);
		write_values(&s->dev[d], v, all);
		for (int i = 0; i < NUM_COUNTERS + NUM_HW_COUNTERS; i++)
			others[i] += v[i];
	}
	stats_of_container(c, &st, NULL); /* after the others: it is not less than their sum */
	values_of(&st, v);
	for (int i = 0; i < NUM_COUNTERS + NUM_HW_COUNTERS; i++)
		v[i] -= others[i] < v[i] ? others[i] : v[i];
	write_values(&s->dev[0], v, all);
}

void sysfs_session_ends(const struct session *s)
{
	struct sysfs *all = ((struct container_ctl *)s->cont->ctl)->sysfs;
	struct ff_stats st = stats_of_session(s);

	if (all)
		stats_add(&all->dev[s->device].ended, &st);
}

/* ---- a container's life ---------------------------------------------------------------------------- */

/* The folder of its port in *port_fd. 0 or -errno. */
static int identity(const struct container *c, unsigned device, int *port_fd)
{
	int fd = pci_open(c, device), err;

	if (fd < 0)
		return fd;
	err = write_pci(c, device, fd);
	close(fd);
	err = err ? err : write_classes(c, device);
	if (err)
		return err;
	fd = device_open(c, device);
	if (fd < 0)
		return fd;
	err = write_node(c, device, fd);
	err = err ? err : sysfile_link(fd, "device", "../..");
	*port_fd = err ? err : sysfile_dir(fd, "ports/1");
	close(fd);
	if (*port_fd < 0)
		return *port_fd;
	err = write_port(c, *port_fd);
	err = err ? err : write_gids(c, device, *port_fd);
	if (err)
		close(*port_fd);
	return err;
}

static int open_device(const struct container *c, unsigned device, struct sysfs_device *d)
{
	int port, err = identity(c, device, &port);

	if (err)
		return err;
	d->counters_fd = sysfile_dir(port, "counters");
	d->hw_fd = sysfile_dir(port, "hw_counters");
	close(port);
	return d->counters_fd < 0 ? d->counters_fd : d->hw_fd < 0 ? d->hw_fd : 0;
}

/* The names of the devices that are in the folder, as a former container of that name may have left them. */
static bool is_anothers(const struct container *c)
{
	int fd = sysfile_dir(ctl_of(c)->dir_fd, CLASS_DIR);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	char name[FFO_NAME_MAX];
	bool found = false;
	struct dirent *e;
	unsigned i;

	if (!dir && fd >= 0)
		close(fd);
	while (dir && !found && (e = readdir(dir))) {
		for (i = 0; i < num_devices(c); i++)
			if (!strcmp(e->d_name, name_of(c, i, name)))
				break;
		found = e->d_name[0] != '.' && i == num_devices(c);
	}
	if (dir)
		closedir(dir);
	return found;
}

void sysfs_open(struct container *c)
{
	struct container_ctl *ct = c->ctl;
	struct sysfs *s = calloc(1, sizeof(*s));
	int err = s ? 0 : -ENOMEM;

	if (is_anothers(c))
		sysfs_remove(ct->dir_fd);
	for (unsigned i = 0; s && i < FFO_DEVICES_MAX; i++)
		s->dev[i].counters_fd = s->dev[i].hw_fd = -1;
	for (unsigned i = 0; !err && i < num_devices(c); i++)
		err = open_device(c, i, &s->dev[i]);
	ct->sysfs = s;
	if (err)
		log_warn("container %s: " CLASS_DIR ": %s", c->name, strerror(-err));
	if (s)
		write_counters(c, true);
}

void sysfs_identity(struct container *c)
{
	int port;

	for (unsigned i = 0; ctl_of(c)->sysfs && i < num_devices(c); i++)
		if (!identity(c, i, &port))
			close(port);
}

void sysfs_close(struct container *c)
{
	struct container_ctl *ct = c->ctl;

	if (!ct->sysfs)
		return;
	write_counters(c, false);
	for (unsigned i = 0; i < FFO_DEVICES_MAX; i++) {
		if (ct->sysfs->dev[i].counters_fd >= 0)
			close(ct->sysfs->dev[i].counters_fd);
		if (ct->sysfs->dev[i].hw_fd >= 0)
			close(ct->sysfs->dev[i].hw_fd);
	}
	free(ct->sysfs);
	ct->sysfs = NULL;
}

/* ---- the timer --------------------------------------------------------------------------------------- */

/*
 * May the counters have changed since they were written? Only turns of the fast thread and the container's own calls
 * (flushed WRs) count. After both stand still, write the counters once more, because the last turn may not have been
 * over at the first look.
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
