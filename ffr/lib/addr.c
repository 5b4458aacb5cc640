/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* addr.c - see addr.h. Any thread. */
#include "ffr/lib/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

int addr_port(const char *s)
{
	char *end;
	long n = strtol(s, &end, 10);

	return *s >= '0' && *s <= '9' && !*end && n > 0 && n < 65536 ? (int)n : -1;
}

int addr_parse(const char *s, struct sockaddr_storage *sa)
{
	const char *colon = strrchr(s, ':'), *from = s + 4;
	struct sockaddr_in6 *six = (void *)sa;
	struct sockaddr_in *four = (void *)sa;
	char addr[INET6_ADDRSTRLEN];
	size_t len;
	int port;

	memset(sa, 0, sizeof(*sa));
	if (strncmp(s, "tcp:", 4) || colon < from)
		return -EINVAL;
	port = addr_port(colon + 1);
	len = (size_t)(colon - from);
	if (len > 2 && from[0] == '[' && from[len - 1] == ']') {
		from++;
		len -= 2;
	}
	if (port < 0 || len >= sizeof(addr))
		return -EINVAL;
	memcpy(addr, from, len);
	addr[len] = '\0';
	if (inet_pton(AF_INET, addr, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons((uint16_t)port);
		return 0;
	}
	if (inet_pton(AF_INET6, addr, &six->sin6_addr) != 1)
		return -EINVAL;
	six->sin6_family = AF_INET6;
	six->sin6_port = htons((uint16_t)port);
	return 0;
}
