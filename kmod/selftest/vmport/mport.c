// SPDX-License-Identifier: GPL-2.0
/*
 * mport.c - a master port by the kernel's rio_mport_cdev, and vmport's files of it in sysfs.
 */
#include "vt.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

void vt_pause(void)
{
	usleep(1000);
}

static uint8_t byte_at(size_t i, uint32_t seed)
{
	uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u;

	return (x ^ x >> 13) >> 5;
}

void vt_fill(void *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = byte_at(i, seed);
}

size_t vt_differ(const void *p, size_t n, uint32_t seed)
{
	size_t bad = 0;

	for (size_t i = 0; i < n; i++)
		bad += ((const uint8_t *)p)[i] != byte_at(i, seed);
	return bad;
}

static long call(int fd, unsigned long request, void *arg)
{
	long ret = ioctl(fd, request, arg);

	return ret < 0 ? -errno : ret;
}

int mport_open(int index)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/rio_mport%d", index);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static long long read_number(const char *path, int base)
{
	char text[64];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		check_fail("%s: %m", path);
	n = read(fd, text, sizeof(text) - 1);
	CHECK(n > 0);
	text[n] = 0;
	close(fd);
	return strtoll(text, NULL, base);
}

uint16_t mport_id(int index)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/rapidio_port/rapidio%d/port_destid", index);
	return read_number(path, 16);
}

long mport_set(int index, const char *setting, const char *value)
{
	char path[128];
	long ret;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/rapidio_port/rapidio%d/vmport/%s", index, setting);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		check_fail("%s: %m", path);
	ret = write(fd, value, strlen(value)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

long long mport_stat(int index, const char *counter)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/rapidio_port/rapidio%d/statistics/%s", index,
		 counter);
	return read_number(path, 10);
}

long maint(int fd, bool write, uint16_t id, uint8_t hop, uint32_t offset, uint32_t *value)
{
	struct rio_mport_maint_io io = {
		.rioid = id,
		.hopcount = hop,
		.offset = offset,
		.length = 4,
		.buffer = (uintptr_t)value,
	};

	return call(fd, write ? RIO_MPORT_MAINT_WRITE_REMOTE : RIO_MPORT_MAINT_READ_REMOTE, &io);
}

long maint_local(int fd, bool write, uint32_t offset, uint32_t *value)
{
	struct rio_mport_maint_io io = {
		.offset = offset,
		.length = 4,
		.buffer = (uintptr_t)value,
	};

	return call(fd, write ? RIO_MPORT_MAINT_WRITE_LOCAL : RIO_MPORT_MAINT_READ_LOCAL, &io);
}

static uint8_t *map(int fd, uint64_t handle, size_t length)
{
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, handle);

	CHECK(p != MAP_FAILED);
	return p;
}

long window_try(int fd, uint64_t address, size_t length, struct window *w)
{
	struct rio_mmap m = { .rio_addr = address, .length = length };
	long ret = call(fd, RIO_MAP_INBOUND, &m);

	if (ret)
		return ret;
	*w = (struct window){ .handle = m.handle, .address = m.rio_addr, .length = length };
	w->p = map(fd, w->handle, length);
	return 0;
}

void window_open(int fd, uint64_t address, size_t length, struct window *w)
{
	EXPECT(window_try(fd, address, length, w), 0);
}

void window_close(int fd, struct window *w)
{
	munmap(w->p, w->length);
	EXPECT(call(fd, RIO_UNMAP_INBOUND, &w->handle), 0);
}

long outbound_open(int fd, uint16_t id, uint64_t address, size_t length, struct window *w)
{
	struct rio_mmap m = { .rioid = id, .rio_addr = address, .length = length };
	long ret = call(fd, RIO_MAP_OUTBOUND, &m);

	if (ret)
		return ret;
	*w = (struct window){ .handle = m.handle, .address = address, .length = length };
	w->p = map(fd, w->handle, length);
	return 0;
}

void outbound_close(int fd, struct window *w)
{
	munmap(w->p, w->length);
	EXPECT(call(fd, RIO_UNMAP_OUTBOUND, &w->handle), 0);
}

static long transfer(int fd, struct rio_transfer_io *io, bool write, int sync)
{
	struct rio_transaction t = {
		.block = (uintptr_t)io,
		.count = 1,
		.transfer_mode = RIO_TRANSFER_MODE_TRANSFER,
		.sync = sync,
		.dir = write ? RIO_TRANSFER_DIR_WRITE : RIO_TRANSFER_DIR_READ,
	};

	return call(fd, RIO_TRANSFER, &t);
}

long dma(int fd, bool write, uint16_t id, uint64_t address, void *p, size_t n, int method, int sync)
{
	struct rio_transfer_io io = {
		.rio_addr = address,
		.loc_addr = (uintptr_t)p,
		.length = n,
		.rioid = id,
		.method = method,
	};

	return transfer(fd, &io, write, sync);
}

long dma_buffer(int fd, bool write, uint16_t id, uint64_t address, uint64_t handle, uint64_t offset,
		size_t n, int method)
{
	struct rio_transfer_io io = {
		.rio_addr = address,
		.handle = handle,
		.offset = offset,
		.length = n,
		.rioid = id,
		.method = method,
	};

	return transfer(fd, &io, write, RIO_TRANSFER_SYNC);
}

long dma_wait(int fd, long number)
{
	struct rio_async_tx_wait w = { .token = number, .timeout = 10000 };

	return call(fd, RIO_WAIT_FOR_ASYNC, &w);
}

long doorbell(int fd, uint16_t id, uint16_t info)
{
	struct rio_event e = { .header = RIO_DOORBELL };

	e.u.doorbell.rioid = id;
	e.u.doorbell.payload = info;
	return write(fd, &e, sizeof(e)) < 0 ? -errno : 0;
}

void doorbells_on(int fd, uint16_t low, uint16_t high)
{
	struct rio_doorbell_filter f = { .rioid = 0xffff, .low = low, .high = high };

	EXPECT(call(fd, RIO_ENABLE_DOORBELL_RANGE, &f), 0);
	EXPECT(call(fd, RIO_SET_EVENT_MASK, (void *)(uintptr_t)RIO_DOORBELL), 0);
}

void doorbells_off(int fd, uint16_t low, uint16_t high)
{
	struct rio_doorbell_filter f = { .rioid = 0xffff, .low = low, .high = high };

	EXPECT(call(fd, RIO_DISABLE_DOORBELL_RANGE, &f), 0);
}

bool event_next(int fd, struct rio_event *e, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, ms) <= 0)
		return false;
	CHECK(read(fd, e, sizeof(*e)) == sizeof(*e));
	return true;
}
