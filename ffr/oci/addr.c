/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * addr.c - the addresses that an engine gave a container, by netlink from inside its network namespace, and what of
 * them the router is told. Called as a container starts (main.c) and when they change (follow.c).
 *
 * A socket belongs to the namespace that it was made in, so the namespace is entered to make it and left at once.
 * The kernel is trusted; what has been configured there is the engine's, as long as no program in there may do it:
 * CAP_NET_ADMIN of the container itself (state.c), or of another one that shares the namespace.
 *
 * Like a NIC's table, the router's keeps what stays where it is: new addresses come behind.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

#define LOOPBACK   1	 /* every namespace's interface of that number is lo */
#define ANSWER_MAX 32768 /* bytes of one datagram of the kernel's */

/* ---- sockets in a namespace ------------------------------------------------------------------ */

static int route_socket(unsigned groups)
{
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK, .nl_groups = groups };
	const struct timeval tv = { .tv_sec = 5 };
	int err = 0, fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | (groups ? SOCK_NONBLOCK : 0),
				 NETLINK_ROUTE);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		err = -errno;
		close(fd);
	}
	return err ? err : fd;
}

static int open_ns(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool same_ns(int a, int b)
{
	struct stat x, y;

	return !fstat(a, &x) && !fstat(b, &y) && same_file(&x, &y);
}

int addrs_open(pid_t pid, struct addrs_socks *s)
{
	int own = open_ns(getpid()), ns = open_ns(pid), err = own < 0 ? own : ns < 0 ? ns : 0;

	*s = (struct addrs_socks){ -1, -1 };
	if (!err && same_ns(own, ns))
		err = -EXDEV;
	if (!err && setns(ns, CLONE_NEWNET))
		err = -errno;
	if (!err) {
		s->ear = route_socket(RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
		s->ask = route_socket(0);
		err = s->ear < 0 ? s->ear : s->ask < 0 ? s->ask : 0;
		if (setns(own, CLONE_NEWNET)) /* in another's network it must not go on */
			abort();
	}
	if (err)
		addrs_close(s);
	if (own >= 0)
		close(own);
	if (ns >= 0)
		close(ns);
	return err;
}

void addrs_close(struct addrs_socks *s)
{
	if (s->ear >= 0)
		close(s->ear);
	if (s->ask >= 0)
		close(s->ask);
	*s = (struct addrs_socks){ -1, -1 };
}

/* ---- who may change them --------------------------------------------------------------------- */

struct spaces {
	struct stat net;	/* the namespace that it is about */
	struct stat owner, own; /* user namespaces: that one's, and ours */
	struct stat host;	/* the mount namespace of root's programs */
};

static bool space_is(int pid, const char *kind, const struct stat *other)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kind);
	return !stat(path, &st) && same_file(&st, other);
}

static bool spaces_find(struct spaces *s, pid_t pid)
{
	int net = open_ns(pid), owner = net < 0 ? -1 : ioctl(net, NS_GET_USERNS);
	bool ok = owner >= 0 && !fstat(net, &s->net) && !fstat(owner, &s->owner) &&
		  !stat("/proc/self/ns/user", &s->own) &&
		  (!stat("/proc/1/ns/mnt", &s->host) || !stat("/proc/self/ns/mnt", &s->host));

	if (net >= 0)
		close(net);
	if (owner >= 0)
		close(owner);
	return ok;
}

static bool has_net_admin(int pid)
{
	unsigned long long caps = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapBnd: %llx", &caps) == 1)
			break;
	if (f)
		fclose(f);
	return caps >> CAP_NET_ADMIN & 1;
}

bool addrs_anyones(pid_t pid)
{
	DIR *d = opendir("/proc");
	struct spaces s;
	bool found = !d || !spaces_find(&s, pid);
	struct dirent *e;

	while (!found && (e = readdir(d))) {
		int p = atoi(e->d_name); /* 0: no process */

		found = p > 0 && p != pid && space_is(p, "net", &s.net) &&
			!space_is(p, "mnt", &s.host) &&
			(space_is(p, "user", &s.owner) || space_is(p, "user", &s.own)) &&
			has_net_admin(p);
	}
	if (d)
		closedir(d);
	return found;
}

/* ---- what is there --------------------------------------------------------------------------- */

struct found {
	uint32_t interface;
	struct in6_addr ip;
};

static bool is_v4(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_V4MAPPED(ip);
}

/* Behind those of interfaces with smaller numbers; of one interface IPv4 first. */
static bool goes_before(const struct found *a, const struct found *b)
{
	if (a->interface != b->interface)
		return a->interface < b->interface;
	return is_v4(&a->ip) && !is_v4(&b->ip);
}

static void insert(struct found *list, unsigned *num, const struct found *f)
{
	unsigned at = *num;

	if (at == ADDRS_SEEN)
		return;
	while (at && goes_before(f, &list[at - 1])) {
		list[at] = list[at - 1];
		at--;
	}
	list[at] = *f;
	(*num)++;
}

/* One that others can reach, and that is not about to go or to prove a double? */
static bool take_message(const struct nlmsghdr *h, struct found *f)
{
	const struct ifaddrmsg *m = NLMSG_DATA(h);
	const uint32_t not = IFA_F_TENTATIVE | IFA_F_DADFAILED | IFA_F_DEPRECATED |
			     (m->ifa_family == AF_INET6 ? IFA_F_TEMPORARY : 0);
	uint32_t flags = m->ifa_flags;
	int left = (int)IFA_PAYLOAD(h);
	const struct rtattr *a;
	bool has = false;

	*f = (struct found){ .interface = m->ifa_index };
	if (m->ifa_scope != RT_SCOPE_UNIVERSE || m->ifa_index == LOOPBACK)
		return false;
	for (a = IFA_RTA(m); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == IFA_FLAGS && RTA_PAYLOAD(a) == sizeof(flags)) {
			memcpy(&flags, RTA_DATA(a), sizeof(flags));
		} else if (m->ifa_family == AF_INET && a->rta_type == IFA_LOCAL &&
			   RTA_PAYLOAD(a) == 4) {
			f->ip.s6_addr[10] = f->ip.s6_addr[11] = 0xff;
			memcpy(&f->ip.s6_addr[12], RTA_DATA(a), 4);
			has = true;
		} else if (m->ifa_family == AF_INET6 && a->rta_type == IFA_ADDRESS &&
			   RTA_PAYLOAD(a) == 16) {
			memcpy(&f->ip, RTA_DATA(a), 16);
			has = true;
		}
	}
	return has && !(flags & not );
}

/* 0: more to come; 1: that was all; -errno. */
static int take_datagram(const uint8_t *buf, size_t len, struct found *list, unsigned *num)
{
	const struct nlmsghdr *h = (const struct nlmsghdr *)buf;
	struct found f;

	for (; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
		if (h->nlmsg_type == NLMSG_DONE)
			return 1;
		if (h->nlmsg_type == NLMSG_ERROR)
			return -EIO;
		if (h->nlmsg_type == RTM_NEWADDR &&
		    h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct ifaddrmsg)) && take_message(h, &f))
			insert(list, num, &f);
	}
	return 0;
}

int addrs_read(const struct addrs_socks *s, struct addrs *a)
{
	static uint8_t buf[ANSWER_MAX] __attribute__((aligned(NLMSG_ALIGNTO)));
	static uint32_t seq;
	struct {
		struct nlmsghdr h;
		struct ifaddrmsg m;
	} req = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
			 .nlmsg_type = RTM_GETADDR,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			 .nlmsg_seq = ++seq } };
	struct found list[ADDRS_SEEN];
	unsigned num = 0;
	int end = 0;
	ssize_t n;

	*a = (struct addrs){ 0 };
	if (send(s->ask, &req, req.h.nlmsg_len, 0) < 0)
		return -errno;
	while (!end) {
		n = recv(s->ask, buf, sizeof(buf), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		end = take_datagram(buf, (size_t)n, list, &num);
	}
	for (unsigned i = 0; i < num && a->num < FFO_ADDR_MAX; i++)
		a->ip[a->num++] = list[i].ip;
	return end < 0 ? end : 0;
}

bool addrs_heard(const struct addrs_socks *s)
{
	char buf[4096];
	bool heard = false;
	ssize_t n;

	/* that some were lost is news as well */
	while ((n = recv(s->ear, buf, sizeof(buf), MSG_DONTWAIT)) > 0 ||
	       (n < 0 && (errno == ENOBUFS || errno == EINTR)))
		heard = true;
	return heard;
}

/* ---- what the router is told ----------------------------------------------------------------- */

static bool has(const struct addrs *a, const struct in6_addr *ip)
{
	for (unsigned i = 0; i < a->num; i++)
		if (IN6_ARE_ADDR_EQUAL(&a->ip[i], ip))
			return true;
	return false;
}

static void add(struct addrs *a, const struct in6_addr *ip)
{
	if (a->num < FFO_ADDR_MAX && !has(a, ip))
		a->ip[a->num++] = *ip;
}

void addrs_order(const struct addrs *now, const struct addrs *found, struct addrs *next)
{
	*next = (struct addrs){ 0 };
	for (unsigned i = 0; i < now->num; i++)
		if (has(found, &now->ip[i]))
			add(next, &now->ip[i]);
	for (unsigned i = 0; i < found->num; i++)
		add(next, &found->ip[i]);
}

json_t *addrs_json(const struct addrs *a)
{
	char text[INET6_ADDRSTRLEN];
	json_t *ips = json_array();

	for (unsigned i = 0; i < a->num; i++)
		json_array_append_new(ips, json_string(ffo_addr_text(&a->ip[i], text)));
	return ips;
}

static void from_json(const json_t *ips, struct addrs *a)
{
	struct in6_addr ip;
	const char *text;
	json_t *j;
	size_t i;

	*a = (struct addrs){ 0 };
	json_array_foreach(ips, i, j) {
		text = json_string_value(j);
		if (text && !ffo_addr_parse(text, &ip))
			add(a, &ip);
	}
}

bool addrs_refused(int err)
{
	return err == -EADDRINUSE || err == -EADDRNOTAVAIL;
}

static int set(const char *admin, const char *name, const struct addrs *a, char why[WHY_SZ])
{
	int err = 0;
	json_t *answer = ask(admin,
			     json_pack("{s:s, s:s, s:o}", "op", "container_set", "name", name,
				       "ips", addrs_json(a)),
			     &err, why);

	json_decref(answer);
	return answer ? 0 : err;
}

/* One after the other: what somebody else has is left out, and why tells of the last one. */
static int set_some(const char *admin, const char *name, const struct addrs *now,
		    const struct addrs *want, char why[WHY_SZ])
{
	struct addrs next = { 0 };
	int err;

	for (unsigned i = 0; i < want->num; i++) {
		bool is_new = !has(now, &want->ip[i]);

		add(&next, &want->ip[i]);
		err = is_new ? set(admin, name, &next, why) : 0;
		if (err)
			next.num--;
		if (err && !addrs_refused(err))
			return err;
	}
	/* those that went, where none of the new ones was taken */
	return next.num ? set(admin, name, &next, why) : 0;
}

int addrs_tell(const char *admin, const char *name, const struct addrs *found, char why[WHY_SZ])
{
	struct addrs now, next;
	int err;
	json_t *answer;

	why[0] = '\0';
	if (!found->num)
		return 0;
	answer = ask(admin, json_pack("{s:s, s:s}", "op", "container_show", "name", name), &err,
		     why);
	if (!answer)
		return err;
	from_json(json_object_get(json_object_get(answer, "container"), "ips"), &now);
	json_decref(answer);
	addrs_order(&now, found, &next);
	if (next.num == now.num && !memcmp(next.ip, now.ip, sizeof(now.ip[0]) * now.num))
		return 0;
	err = set(admin, name, &next, why);
	return addrs_refused(err) ? set_some(admin, name, &now, &next, why) : err;
}
