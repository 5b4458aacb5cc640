/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* address.c - see address.h. Used by server.c and client.c; any thread. */
#include "ffo/base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static int parse_unix(const char *path, struct sockaddr_un *sa)
{
	if (*path != '/' || strlen(path) >= sizeof(sa->sun_path))
		return -EINVAL;
	sa->sun_family = AF_UNIX;
	strcpy(sa->sun_path, path);
	return 0;
}

static int parse_tcp(const char *text, struct sockaddr_storage *sa)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)sa;
	struct sockaddr_in *v4 = (struct sockaddr_in *)sa;
	const char *colon = strrchr(text, ':');
	char addr[INET6_ADDRSTRLEN + 2];
	unsigned long port;
	size_t len;
	char *end;

	len = colon ? (size_t)(colon - text) : 0;
	if (!len || len >= sizeof(addr) || colon[1] < '0' || colon[1] > '9')
		return -EINVAL;
	port = strtoul(colon + 1, &end, 10);
	if (*end || port > UINT16_MAX)
		return -EINVAL;
	memcpy(addr, text, len);
	addr[len] = '\0';
	if (addr[0] == '[' && addr[len - 1] == ']') {
		addr[len - 1] = '\0';
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		return inet_pton(AF_INET6, addr + 1, &v6->sin6_addr) == 1 ? 0 : -EINVAL;
	}
	v4->sin_family = AF_INET;
	v4->sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, addr, &v4->sin_addr) == 1 ? 0 : -EINVAL;
}

bool ffo_address_is_tls(const char *text)
{
	return !strncmp(text, "tls:", 4);
}

int ffo_address_parse(const char *text, struct sockaddr_storage *sa)
{
	memset(sa, 0, sizeof(*sa));
	if (!strncmp(text, "unix:", 5))
		return parse_unix(text + 5, (struct sockaddr_un *)sa);
	if (!strncmp(text, "tcp:", 4) || ffo_address_is_tls(text))
		return parse_tcp(text + 4, sa);
	return -EINVAL;
}

void ffo_tcp_options(int fd)
{
	const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 4 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 2 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 3 },
		/* Also while data waits to be acknowledged, which stops the probes. */
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, FFO_TCP_SILENCE },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			   sizeof(options[i].value));
}
