/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * opt.c - options of rsockets, fcntl, and the defaults that an administrator gives in files
 * of one number each, as rdma-core's: /etc/rdma/rsocket/{mem,wmem,sqsize,rqsize,inline}_default,
 * iomap_size, polling_time. Any thread.
 *
 * As rdma-core's rsockets do, what is not known fails with ENOTSUP, and SO_RCVBUF and SO_SNDBUF
 * are doubled.
 *
 * Tests: system/rs_socket.c, system/rs_stream.c
 */
#include <infiniband/sa.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffl/rsocket/rsocket.h"

#define CONF_DIR "/etc/rdma/rsocket/"

uint32_t rs_polling_time = 50;

/* ---- defaults --------------------------------------------------------------------------------------- */

static pthread_mutex_t read_lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_read;
static struct rs_options defaults = {
	.rcvbuf = 1u << 18,
	.sndbuf = 1u << 18,
	.sq_size = 384,
	.rq_size = 384,
	.inline_size = 64,
	.keepidle = 7200,
};

static void read_default(const char *name, uint32_t *value, uint32_t lo, uint32_t hi)
{
	char path[64];
	unsigned v;
	FILE *f;

	snprintf(path, sizeof(path), CONF_DIR "%s", name);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fscanf(f, "%u", &v) == 1)
		*value = rs_min(rs_max(v, lo), hi);
	fclose(f);
}

static void read_defaults(void)
{
	read_default("polling_time", &rs_polling_time, 0, 1000000);
	read_default("mem_default", &defaults.rcvbuf, RS_BUF_MIN, RS_BUF_MAX);
	read_default("wmem_default", &defaults.sndbuf, RS_BUF_MIN, RS_BUF_MAX);
	read_default("sqsize_default", &defaults.sq_size, RS_QP_MIN, RS_QP_MAX);
	read_default("rqsize_default", &defaults.rq_size, RS_QP_MIN, RS_QP_MAX);
	read_default("inline_default", &defaults.inline_size, 0, RS_INLINE_MAX);
	read_default("iomap_size", &defaults.iomap_size, 0, RS_IOMAP_MAX);
}

void rs_opt_defaults(struct rs_options *opt)
{
	pthread_mutex_lock(&read_lock);
	if (!is_read)
		read_defaults();
	is_read = true;
	pthread_mutex_unlock(&read_lock);
	*opt = defaults;
}

void rs_opt_inherit(struct rs_options *opt, const struct rs_options *from)
{
	rs_opt_free(opt);
	*opt = *from;
	opt->route = NULL;
	opt->route_len = 0;
}

void rs_opt_free(struct rs_options *opt)
{
	free(opt->route);
	opt->route = NULL;
}

int rs_opt_apply(struct rsocket *rs)
{
	const struct rs_options *o = &rs->opt;
	int on = 1;
	uint8_t tos = (uint8_t)o->tos;

	if (o->reuseaddr &&
	    rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)))
		return -errno;
	if (rs->domain == AF_INET6 && o->v6only &&
	    rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)))
		return -errno;
	if (o->tos &&
	    rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)))
		return -errno;
	return 0;
}

int rs_opt_bind(struct rsocket *rs)
{
	return rs->state == RS_INIT ? rs_opt_apply(rs) : -EINVAL;
}

/* ---- setting -------------------------------------------------------------------------------------------- */

static uint32_t buf_size(int v)
{
	uint32_t bytes = (uint32_t)rs_max(v, 0);

	return bytes >= RS_BUF_MAX / 2 ? RS_BUF_MAX : rs_max(bytes * 2, RS_BUF_MIN);
}

static uint32_t clamp(int v, uint32_t lo, uint32_t hi)
{
	return rs_min(rs_max((uint32_t)rs_max(v, 0), lo), hi);
}

/*
 * What a program gives for an int. rdma-core's streams do not look at the length; what is missing of
 * it is 0 here. Its datagrams give it to a UDP socket first.
 */
static int take_int(const struct rsocket *rs, const void *val, socklen_t len, int *v)
{
	*v = 0;
	if (rs->type == SOCK_DGRAM && len < sizeof(*v))
		return -EINVAL;
	if (!val)
		return -EFAULT;
	memcpy(v, val, rs_min((size_t)len, sizeof(*v)));
	return 0;
}

/* One that streams give to rdma_set_option(), which looks at the length. */
static int take_id_int(const struct rsocket *rs, const void *val, socklen_t len, int *v)
{
	int err = take_int(rs, val, len, v);

	return !err && rs->type == SOCK_STREAM && len != sizeof(*v) ? -EINVAL : err;
}

static int set_linger(struct rsocket *rs, const void *val, socklen_t len)
{
	struct linger l = { 0 };

	if (!val)
		return -EFAULT;
	if (rs->type == SOCK_DGRAM && len < sizeof(l))
		return -EINVAL;
	memcpy(&l, val, rs_min((size_t)len, sizeof(l)));
	rs->opt.linger = l;
	return 0;
}

static int set_time(uint64_t *us, const void *val, socklen_t len)
{
	struct timeval tv;

	if (!val)
		return -EFAULT;
	if (len < sizeof(tv))
		return -EINVAL;
	memcpy(&tv, val, sizeof(tv));
	if (tv.tv_sec < 0 || tv.tv_usec < 0 || tv.tv_usec >= 1000000)
		return -EDOM;
	*us = (uint64_t)tv.tv_sec * 1000000 + (uint64_t)tv.tv_usec;
	return 0;
}

static int set_socket(struct rsocket *rs, int name, const void *val, socklen_t len)
{
	struct rs_options *o = &rs->opt;
	int v, err;

	switch (name) {
	case SO_LINGER:
		return set_linger(rs, val, len);
	case SO_RCVTIMEO:
		return set_time(&o->rcvtimeo, val, len);
	case SO_SNDTIMEO:
		return set_time(&o->sndtimeo, val, len);
	case SO_REUSEADDR:
		err = take_id_int(rs, val, len, &v);
		if (!err)
			o->reuseaddr = v;
		return err;
	case SO_KEEPALIVE: /* the CM tells of a peer that is gone; nothing is to be sent for it */
	case SO_OOBINLINE:
	case SO_BROADCAST: /* accepted for datagrams; nothing can be sent to a broadcast address */
	case SO_RCVBUF:
	case SO_SNDBUF:
		break;
	default:
		return -ENOTSUP;
	}
	err = take_int(rs, val, len, &v);
	if (err)
		return err;
	switch (name) {
	case SO_KEEPALIVE:
		o->keepalive = v;
		break;
	case SO_OOBINLINE:
		o->oobinline = v;
		break;
	case SO_BROADCAST:
		o->broadcast = v;
		break;
	case SO_RCVBUF:
		o->rcvbuf = buf_size(v);
		break;
	case SO_SNDBUF:
		o->sndbuf = buf_size(v);
		break;
	}
	return 0;
}

static int set_tcp(struct rsocket *rs, int name, const void *val, socklen_t len)
{
	int v, err;

	switch (name) {
	case TCP_NODELAY: /* nothing is ever delayed */
		err = take_int(rs, val, len, &v);
		if (!err)
			rs->opt.nodelay = v;
		return err;
	case TCP_KEEPIDLE:
		err = take_int(rs, val, len, &v);
		if (!err && v <= 0)
			err = -EINVAL;
		if (!err)
			rs->opt.keepidle = v;
		return err;
	case TCP_CONGESTION:
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
	case TCP_MAXSEG:
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int set_route(struct rs_options *o, const void *val, socklen_t len)
{
	void *copy = malloc(len ? len : 1);

	if (!copy)
		return -ENOMEM;
	if (len)
		memcpy(copy, val, len);
	free(o->route);
	o->route = copy;
	o->route_len = len;
	return 0;
}

static int set_rdma(struct rsocket *rs, int name, const void *val, socklen_t len)
{
	struct rs_options *o = &rs->opt;
	int v = 0;

	if (rs->state > RS_LISTENING)
		return -EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
	case RDMA_RQSIZE:
	case RDMA_INLINE:
	case RDMA_IOMAPSIZE:
		if (!val)
			return -EFAULT;
		memcpy(&v, val, rs_min((size_t)len, sizeof(v)));
		break;
	case RDMA_ROUTE:
		return val || !len ? set_route(o, val, len) : -EFAULT;
	default:
		return -ENOTSUP;
	}
	switch (name) {
	case RDMA_SQSIZE:
		o->sq_size = clamp(v, RS_QP_MIN, RS_QP_MAX);
		break;
	case RDMA_RQSIZE:
		o->rq_size = clamp(v, RS_QP_MIN, RS_QP_MAX);
		break;
	case RDMA_INLINE:
		o->inline_size = clamp(v, 0, RS_INLINE_MAX);
		break;
	case RDMA_IOMAPSIZE:
		o->iomap_size = clamp(v, 0, RS_IOMAP_MAX);
		break;
	}
	return 0;
}

static int set_ip(struct rsocket *rs, int level, int name, const void *val, socklen_t len)
{
	bool tos = level == IPPROTO_IP && name == IP_TOS;
	int v, err;

	if (!tos && (level != IPPROTO_IPV6 || name != IPV6_V6ONLY))
		return -ENOTSUP;
	err = tos ? take_int(rs, val, len, &v) : take_id_int(rs, val, len, &v);
	if (err)
		return err;
	if (tos)
		rs->opt.tos = v & 0xff;
	else
		rs->opt.v6only = v;
	return 0;
}

RS_EXPORT int rsetsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct rsocket *rs = rs_fd_get(fd);
	int err;

	if (!rs)
		return rs_ret(-EBADF);
	rs_lock(&rs->lock);
	switch (level) {
	case SOL_SOCKET:
		err = set_socket(rs, name, val, len);
		break;
	case IPPROTO_TCP:
		err = rs->type == SOCK_STREAM ? set_tcp(rs, name, val, len) : -ENOTSUP;
		break;
	case IPPROTO_IP:
	case IPPROTO_IPV6:
		err = set_ip(rs, level, name, val, len);
		break;
	case SOL_RDMA:
		err = set_rdma(rs, name, val, len);
		break;
	default:
		err = -ENOTSUP;
	}
	rs_unlock(&rs->lock);
	if (err == -ENOTSUP && rs->type == SOCK_DGRAM && level != SOL_RDMA)
		err = -ENOPROTOOPT; /* the UDP socket's answer */
	return rs_ret(err);
}

/* ---- getting ------------------------------------------------------------------------------------------------ */

static int put(void *val, socklen_t *len, const void *from, size_t n)
{
	if (!val || !len)
		return -EFAULT;
	*len = (socklen_t)rs_min((size_t)*len, n);
	memcpy(val, from, *len);
	return 0;
}

static int put_int(void *val, socklen_t *len, int v)
{
	return put(val, len, &v, sizeof(v));
}

static int put_time(void *val, socklen_t *len, uint64_t us)
{
	struct timeval tv = { (time_t)(us / 1000000), (suseconds_t)(us % 1000000) };

	return put(val, len, &tv, sizeof(tv));
}

static int get_socket(struct rsocket *rs, int name, void *val, socklen_t *len)
{
	const struct rs_options *o = &rs->opt;

	switch (name) {
	case SO_ERROR:
		return put_int(val, len, rs_take_err(rs));
	case SO_TYPE:
		return put_int(val, len, rs->type);
	case SO_DOMAIN:
		return put_int(val, len, rs->domain);
	case SO_PROTOCOL:
		return put_int(val, len, rs->type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP);
	case SO_ACCEPTCONN:
		return put_int(val, len, rs->state == RS_LISTENING);
	case SO_REUSEADDR:
		return put_int(val, len, o->reuseaddr);
	case SO_KEEPALIVE:
		return put_int(val, len, o->keepalive);
	case SO_OOBINLINE:
		return put_int(val, len, o->oobinline);
	case SO_BROADCAST:
		return put_int(val, len, o->broadcast);
	case SO_RCVBUF:
		return put_int(val, len, (int)o->rcvbuf);
	case SO_SNDBUF:
		return put_int(val, len, (int)o->sndbuf);
	case SO_LINGER:
		return put(val, len, &o->linger, sizeof(o->linger));
	case SO_RCVTIMEO:
		return put_time(val, len, o->rcvtimeo);
	case SO_SNDTIMEO:
		return put_time(val, len, o->sndtimeo);
	default:
		return -ENOTSUP;
	}
}

static int get_tcp(struct rsocket *rs, int name, void *val, socklen_t *len)
{
	struct tcp_info info = { .tcpi_state = rs_is_stream(rs) ? TCP_ESTABLISHED : TCP_CLOSE };

	switch (name) {
	case TCP_NODELAY:
		return put_int(val, len, rs->opt.nodelay);
	case TCP_KEEPIDLE:
		return put_int(val, len, rs->opt.keepidle);
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
		return put_int(val, len, 1);
	case TCP_MAXSEG:
		return put_int(val, len, 4096); /* the path's MTU */
	case TCP_INFO:
		info.tcpi_snd_cwnd = rs->opt.sq_size;
		return put(val, len, &info, sizeof(info));
	default:
		return -ENOTSUP;
	}
}

/* The path records that the program has set; none else. */
static int get_route(struct rsocket *rs, void *val, socklen_t *len)
{
	const struct rs_options *o = &rs->opt;

	if (!val || !len)
		return -EFAULT;
	if (!o->route) {
		if (*len < sizeof(struct ibv_path_data))
			return -EINVAL;
		*len = 0;
		return 0;
	}
	return *len < o->route_len ? -EINVAL : put(val, len, o->route, o->route_len);
}

static int get_rdma(struct rsocket *rs, int name, void *val, socklen_t *len)
{
	switch (name) {
	case RDMA_SQSIZE:
		return put_int(val, len, (int)rs->opt.sq_size);
	case RDMA_RQSIZE:
		return put_int(val, len, (int)rs->opt.rq_size);
	case RDMA_INLINE:
		return put_int(val, len, (int)rs->opt.inline_size);
	case RDMA_IOMAPSIZE:
		return put_int(val, len, (int)rs->opt.iomap_size);
	case RDMA_ROUTE:
		return get_route(rs, val, len);
	default:
		return -ENOTSUP;
	}
}

RS_EXPORT int rgetsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct rsocket *rs = rs_fd_get(fd);
	int err = -ENOTSUP;

	if (!rs)
		return rs_ret(-EBADF);
	rs_lock(&rs->lock);
	if (level == SOL_SOCKET)
		err = get_socket(rs, name, val, len);
	else if (level == IPPROTO_TCP)
		err = get_tcp(rs, name, val, len);
	else if (level == IPPROTO_IP && name == IP_TOS)
		err = put_int(val, len, rs->opt.tos);
	else if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
		err = put_int(val, len, rs->opt.v6only);
	else if (level == SOL_RDMA)
		err = get_rdma(rs, name, val, len);
	rs_unlock(&rs->lock);
	return rs_ret(err);
}

/* ---- fcntl ------------------------------------------------------------------------------------------------------- */

RS_EXPORT int rfcntl(int fd, int cmd, ...)
{
	struct rsocket *rs = rs_fd_get(fd);
	va_list args;
	int arg = 0, ret = 0;

	if (!rs)
		return rs_ret(-EBADF);
	if (cmd == F_SETFL || cmd == F_SETFD) {
		va_start(args, cmd);
		arg = (int)va_arg(args, long); /* librspreload gives a long */
		va_end(args);
	}
	rs_lock(&rs->lock);
	switch (cmd) {
	case F_GETFL:
		ret = rs->fs_flags;
		break;
	case F_SETFL:
		rs->fs_flags = (rs->fs_flags & O_ACCMODE) | (arg & ~O_ACCMODE);
		break;
	case F_GETFD:
		ret = rs->fd_flags;
		break;
	case F_SETFD:
		rs->fd_flags = arg;
		break;
	default:
		ret = -ENOTSUP;
	}
	rs_unlock(&rs->lock);
	return rs_ret(ret);
}
