/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * address.h - where the orchestrator listens and its clients connect, as text.
 */
#ifndef FFO_ADDRESS_H
#define FFO_ADDRESS_H

#include <sys/socket.h>

/*
 * "unix:/path", "tcp:ADDRESS:PORT" or "tcp:[IPV6]:PORT" (numbers, no names) to a socket address of
 * family AF_UNIX, AF_INET or AF_INET6. 0 or -EINVAL.
 */
int ffo_address_parse(const char *text, struct sockaddr_storage *sa);

#endif
