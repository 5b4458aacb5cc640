/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * address.h - where the orchestrator listens and its clients connect, as text, and how they find out
 * that the other side is not reached any more.
 */
#ifndef FFO_BASE_ADDRESS_H
#define FFO_BASE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * "unix:/path", "tcp:ADDRESS:PORT" or "tcp:[IPV6]:PORT" (numbers, no names), or tls: instead of tcp:,
 * to a socket address of family AF_UNIX, AF_INET or AF_INET6. 0 or -EINVAL.
 */
int ffo_address_parse(const char *text, struct sockaddr_storage *sa);
/* Is it one of tls:? */
bool ffo_address_is_tls(const char *text);

/*
 * For a TCP connection: no delay; and a peer that is silent, because its machine died or the network
 * is cut, is given up within FFO_TCP_SILENCE: a host is up while its connection lives.
 */
#define FFO_TCP_SILENCE 10000 /* ms */
void ffo_tcp_options(int fd);

#endif
