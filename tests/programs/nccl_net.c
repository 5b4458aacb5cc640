/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * nccl_net.c - a user of a network plugin of NCCL (version 12 of its interface, as NCCL 2.30 has it) that takes the
 * place of NCCL itself, on host memory. Run by nccl_net.sh.
 *
 *     nccl_net PLUGIN.so -p PORT          the one side, which listens there for the other
 *     nccl_net PLUGIN.so -p PORT ADDRESS  the other side
 *
 * Both sides do what two ranks of NCCL do: each listens, connects to the peer and accepts the peer's connection
 * without blocking, registers its buffers, and keeps several requests under way in each direction. All received bytes
 * are compared. NCCL's core starts a receive for up to maxRecvs buffers with a tag each, and flushes what it has
 * received into the memory of a GPU; both are done here with host memory. The client prints the properties of the
 * device, a latency and two rates.
 */

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: error: %s\n", __FILE__, __LINE__, #what);          \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define OK(call) CHECK((call) == 0) /* ncclSuccess */

/* ---- the interface, ncclNet_v12_t ------------------------------------------------------------- */

#define HANDLE_MAX   128 /* NCCL_NET_HANDLE_MAXSIZE */
#define DEVS_PER_NIC 8	 /* NCCL_NET_MAX_DEVS_PER_NIC_V12 */
#define PTR_HOST     1	 /* NCCL_PTR_HOST */
#define PTR_DMABUF   4	 /* NCCL_PTR_DMABUF */

struct net_properties {
	char *name;
	char *pci_path; /* NULL: the device has none in /sys */
	uint64_t guid;
	int ptr_support; /* PTR_* */
	int reg_is_global;
	int force_flush;
	int speed; /* Mbit/s */
	int port;
	float latency;
	int max_comms;
	int max_recvs; /* buffers of one irecv */
	int device_type;
	int device_version;
	struct {
		int ndevs;
		int devs[DEVS_PER_NIC];
	} vprops;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request_size;
	int16_t rail_id;
	int16_t plane_id;
};

struct net_config {
	int traffic_class; /* -1: undefined */
};

typedef void (*net_log_fn)(int level, unsigned long flags, const char *file, int line,
			   const char *fmt, ...);

struct net_plugin {
	const char *name;
	int (*init)(void **ctx, uint64_t comm_id, struct net_config *config, net_log_fn log,
		    void *profiler);
	int (*devices)(int *ndev);
	int (*get_properties)(int dev, struct net_properties *props);
	int (*listen)(void *ctx, int dev, void *handle, void **listen_comm);
	int (*connect)(void *ctx, int dev, void *handle, void **send_comm, void **dev_comm);
	int (*accept)(void *listen_comm, void **recv_comm, void **dev_comm);
	int (*reg_mr)(void *comm, void *data, size_t size, int type, void **mhandle);
	int (*reg_mr_dmabuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
			     void **mhandle);
	int (*dereg_mr)(void *comm, void *mhandle);
	int (*isend)(void *send_comm, void *data, size_t size, int tag, void *mhandle,
		     void *phandle, void **request);
	int (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
		     void **phandles, void **request);
	int (*iflush)(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
		      void **request);
	int (*test)(void *request, int *done, int *sizes);
	int (*close_send)(void *send_comm);
	int (*close_recv)(void *recv_comm);
	int (*close_listen)(void *listen_comm);
	int (*get_device_mr)(void *comm, void *mhandle, void **dptr);
	int (*irecv_consumed)(void *recv_comm, int n, void *request);
	int (*make_vdevice)(int *dev, void *props);
	int (*finalize)(void *ctx);
	int (*set_net_attr)(void *ctx, void *attr);
};

static struct net_plugin *net;

static void __attribute__((format(printf, 5, 6)))
log_line(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	va_list args;

	(void)flags;
	va_start(args, fmt);
	fprintf(stderr, "%d %s:%d ", level, file, line);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
}

/* ---- the other side, beside the plugin -------------------------------------------------------- */

static bool is_client;
static int peer = -1; /* a TCP connection */

static void peer_open(const char *address, const char *port)
{
	struct addrinfo hints = { .ai_family = AF_INET,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE },
			*info;
	int fd, one = 1;

	CHECK(getaddrinfo(address, port, &hints, &info) == 0);
	fd = socket(info->ai_family, info->ai_socktype, 0);
	CHECK(fd >= 0);
	if (address) {
		CHECK(connect(fd, info->ai_addr, info->ai_addrlen) == 0);
		peer = fd;
	} else {
		CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
		CHECK(bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, 1) == 0);
		peer = accept(fd, NULL, NULL);
		CHECK(peer >= 0);
		close(fd);
	}
	CHECK(setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
	freeaddrinfo(info);
}

static void peer_swap(const void *mine, void *theirs, size_t len)
{
	CHECK(send(peer, mine, len, MSG_NOSIGNAL) == (ssize_t)len);
	CHECK(recv(peer, theirs, len, MSG_WAITALL) == (ssize_t)len);
}

/* Neither side goes on before the other is here. */
static void meet(void)
{
	char mine = 'm', theirs;

	peer_swap(&mine, &theirs, 1);
	CHECK(theirs == mine);
}

/* ---- what is sent ----------------------------------------------------------------------------- */

#define LARGEST ((size_t)64 << 20)
#define SLOTS	8 /* requests under way in each direction: NCCL_STEPS */

static uint8_t *out, *in; /* LARGEST bytes each, or SLOTS times LARGEST / SLOTS */
static void *send_comm, *recv_comm;
static void *out_mr, *in_mr;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A side's bytes of a round differ from those of its other rounds and from the other side's. */
static void fill(uint8_t *p, size_t len, uint32_t seed)
{
	uint64_t x = 0x9e3779b97f4a7c15u * (seed + 1), word;

	for (size_t i = 0; i < len; i += 8) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		word = x ^ (x >> 29);
		memcpy(p + i, &word, len - i < 8 ? len - i : 8);
	}
}

static void compare(const uint8_t *p, size_t len, uint32_t seed)
{
	static uint8_t *want;

	if (!want)
		want = malloc(LARGEST);
	CHECK(want);
	fill(want, len, seed);
	CHECK(memcmp(p, want, len) == 0);
}

static void *start_send(uint8_t *p, size_t size, int tag)
{
	void *request = NULL;

	/* The plugin takes a send when the peer's receive has arrived: NULL means "again". */
	OK(net->isend(send_comm, p, size, tag, out_mr, NULL, &request));
	return request;
}

static void *start_recv(uint8_t *p, size_t size, int tag)
{
	void *request = NULL, *data[] = { p }, *mrs[] = { in_mr };
	size_t sizes[] = { size };
	int tags[] = { tag };

	OK(net->irecv(recv_comm, 1, data, sizes, tags, mrs, NULL, &request));
	return request;
}

/* Has the request ended? If so it is cleared, and a receive's sizes are compared with LENS. */
static bool ended(void **request, const int *lens, int n)
{
	int done = 0, sizes[8] = { 0 };

	OK(net->test(*request, &done, sizes));
	if (!done)
		return false;
	for (int i = 0; lens && i < n; i++)
		CHECK(sizes[i] == lens[i]);
	*request = NULL;
	return true;
}

/* NCCL flushes what goes to a GPU, so that a transport without memory of GPUs may refuse. */
static void flush(uint8_t *p, int size)
{
	void *request = NULL, *data[] = { p }, *mrs[] = { in_mr };
	int sizes[] = { size };

	if (strcmp(net->name, "IB") != 0)
		return;
	OK(net->iflush(recv_comm, 1, data, sizes, mrs, &request));
	while (request && !ended(&request, NULL, 0))
		sched_yield();
}

/* COUNT messages of SIZE bytes, each way, SLOTS of them under way. RECV is what the receiver has room for. */
static double stream(size_t size, size_t room, int count, uint32_t seed, bool verify)
{
	void *sends[SLOTS] = { NULL }, *recvs[SLOTS] = { NULL };
	size_t step = LARGEST / SLOTS;
	int sent = 0, asked = 0, done_send = 0, done_recv = 0, len = (int)size;
	double start;

	CHECK(room <= step);
	for (int i = 0; verify && i < SLOTS; i++)
		fill(out + (size_t)i * step, size, seed + (uint32_t)i * 2 + is_client);
	memset(in, 0xee, SLOTS * step);
	meet();
	start = now();
	while (done_send < count || done_recv < count) {
		int before = asked + sent + done_recv + done_send;

		while (asked < count && !recvs[asked % SLOTS]) {
			recvs[asked % SLOTS] =
				start_recv(in + (size_t)(asked % SLOTS) * step, room, 7);
			if (!recvs[asked % SLOTS])
				break;
			asked++;
		}
		while (sent < count && !sends[sent % SLOTS]) {
			sends[sent % SLOTS] =
				start_send(out + (size_t)(sent % SLOTS) * step, size, 7);
			if (!sends[sent % SLOTS])
				break;
			sent++;
		}
		while (done_recv < asked && ended(&recvs[done_recv % SLOTS], &len, 1)) {
			uint8_t *p = in + (size_t)(done_recv % SLOTS) * step;

			if (verify) {
				flush(p, len);
				compare(p, size,
					seed + (uint32_t)(done_recv % SLOTS) * 2 + !is_client);
				CHECK(room == size || p[size] == 0xee); /* nothing behind it */
				memset(p, 0xee, size);
			}
			done_recv++;
		}
		while (done_send < sent && ended(&sends[done_send % SLOTS], NULL, 0))
			done_send++;
		if (asked + sent + done_recv + done_send == before)
			sched_yield(); /* as NCCL's proxy thread does */
	}
	return now() - start;
}

/* One irecv for as many buffers as the plugin allows, which come in any order of their tags. */
static void grouped(int n, uint32_t seed)
{
	size_t step = 100000, sizes[8];
	void *request = NULL, *data[8], *mrs[8], *sends[8] = { NULL };
	int tags[8], lens[8];

	CHECK(n >= 1 && n <= 8);
	for (int i = 0; i < n; i++) {
		lens[i] = i == 2 ? 0 : 1000 * i + 17; /* one of them empty */
		data[i] = in + (size_t)i * step;
		sizes[i] = step;
		tags[i] = 100 + i;
		mrs[i] = in_mr;
		fill(out + (size_t)i * step, (size_t)lens[i], seed + (uint32_t)i * 2 + is_client);
	}
	meet();
	OK(net->irecv(recv_comm, n, data, sizes, tags, mrs, NULL, &request));
	CHECK(request);
	for (int i = n - 1; i >= 0; i--)
		while (!(sends[i] = start_send(out + (size_t)i * step, (size_t)lens[i], tags[i])))
			sched_yield();
	/* A transport may go on with a request in its test() only. */
	for (int left = n + 1; left; sched_yield()) {
		left -= request && ended(&request, lens, n);
		for (int i = 0; i < n; i++)
			left -= sends[i] && ended(&sends[i], NULL, 0);
	}
	for (int i = 0; i < n; i++)
		compare(data[i], (size_t)lens[i], seed + (uint32_t)i * 2 + !is_client);
}

/* Half a round trip of 8 bytes, in microseconds. */
static double latency(int count)
{
	void *request;
	int len = 8;
	double start;

	meet();
	start = now();
	for (int i = 0; i < count; i++)
		for (int turn = 0; turn < 2; turn++) {
			if (is_client == !turn)
				while (!(request = start_send(out, 8, 1)))
					sched_yield();
			else
				while (!(request = start_recv(in, 8, 1)))
					sched_yield();
			while (!ended(&request, is_client == !turn ? NULL : &len, 1))
				sched_yield();
		}
	return (now() - start) / count / 2 * 1e6;
}

static void connection(void *ctx, int dev)
{
	char mine[HANDLE_MAX] = { 0 }, theirs[HANDLE_MAX];
	void *listener, *dev_comm = NULL;

	OK(net->listen(ctx, dev, mine, &listener));
	peer_swap(mine, theirs, sizeof(mine));
	send_comm = recv_comm = NULL;
	while (!send_comm || !recv_comm) {
		if (!send_comm)
			OK(net->connect(ctx, dev, theirs, &send_comm, &dev_comm));
		if (!recv_comm)
			OK(net->accept(listener, &recv_comm, &dev_comm));
	}
	OK(net->close_listen(listener));
}

static void disconnect(void)
{
	meet();
	OK(net->close_send(send_comm));
	OK(net->close_recv(recv_comm));
}

static void device(void *ctx, int dev)
{
	static const size_t sizes[] = { 0, 1, 8, 4095, 65536, 1 << 20, LARGEST / SLOTS };
	struct net_properties props = { 0 };
	uint32_t seed = 1;
	double us, mb;

	OK(net->get_properties(dev, &props));
	printf("%s: pciPath %s guid %#llx pointers %d speed %d port %d comms %d recvs %d\n",
	       props.name, props.pci_path ? props.pci_path : "-", (unsigned long long)props.guid,
	       props.ptr_support, props.speed, props.port, props.max_comms, props.max_recvs);
	CHECK(props.ptr_support & PTR_HOST && props.max_recvs >= 1);
	/* No dma-buf of a GPU can be registered here, so NCCL has to stage in host memory. */
	CHECK(strcmp(net->name, "IB") != 0 ||
	      (!(props.ptr_support & PTR_DMABUF) && props.speed > 0 && props.guid));

	connection(ctx, dev);
	OK(net->reg_mr(send_comm, out, LARGEST, PTR_HOST, &out_mr));
	OK(net->reg_mr(recv_comm, in, LARGEST, PTR_HOST, &in_mr));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++, seed += 100)
		stream(sizes[i], sizes[i], sizes[i] > 65536 ? 16 : 200, seed, true);
	stream(1000, 5000, 100, seed += 100, true);
	for (int i = 0; i < 20; i++)
		grouped(props.max_recvs < 8 ? props.max_recvs : 8, seed += 100);
	us = latency(1000);
	mb = 2.0 * 64 * (double)(LARGEST / SLOTS) / 1e6;
	printf("latency %.2f us, 8 MB messages both ways %.0f MB/s, 4 KB messages %.0f MB/s\n", us,
	       mb / stream(LARGEST / SLOTS, LARGEST / SLOTS, 64, 0, false),
	       2.0 * 20000 * 4096 / 1e6 / stream(4096, 4096, 20000, 0, false));
	OK(net->dereg_mr(send_comm, out_mr));
	OK(net->dereg_mr(recv_comm, in_mr));
	disconnect();

	/* What NCCL does for each channel: many connections, and the same memory with each. */
	for (int i = 0; i < 16; i++) {
		connection(ctx, dev);
		OK(net->reg_mr(send_comm, out, LARGEST, PTR_HOST, &out_mr));
		OK(net->reg_mr(recv_comm, in, LARGEST, PTR_HOST, &in_mr));
		stream(100000, 100000, 20, seed += 100, true);
		OK(net->dereg_mr(send_comm, out_mr));
		OK(net->dereg_mr(recv_comm, in_mr));
		disconnect();
	}
}

int main(int argc, char **argv)
{
	struct net_config config = { .traffic_class = -1 };
	void *library, *ctx = NULL;
	int ndev = 0;

	if ((argc != 4 && argc != 5) || strcmp(argv[2], "-p") != 0) {
		fprintf(stderr, "usage: nccl_net PLUGIN.so -p PORT [ADDRESS]\n");
		return 2;
	}
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "error: %s\n", dlerror());
		return 1;
	}
	net = dlsym(library, "ncclNetPlugin_v12");
	CHECK(net);
	is_client = argc == 5;
	peer_open(is_client ? argv[4] : NULL, argv[3]);
	out = aligned_alloc(4096, LARGEST);
	in = aligned_alloc(4096, LARGEST);
	CHECK(out && in);
	OK(net->init(&ctx, 1, &config, log_line, NULL));
	OK(net->devices(&ndev));
	CHECK(ndev >= 1);
	for (int dev = 0; dev < ndev; dev++)
		device(ctx, dev);
	meet();
	OK(net->finalize(ctx));
	printf("%s: %d devices, all data verified\n", net->name, ndev);
	return 0;
}
