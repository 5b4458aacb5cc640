/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* addr.h - addresses of TCP as the configuration and the orchestrator have them. */
#ifndef FFR_LIB_ADDR_H
#define FFR_LIB_ADDR_H

#include <sys/socket.h>

/* A port's number, 1..65535, or -1. */
int addr_port(const char *s);
/*
 * "tcp:ADDR:PORT" with a numeric address (IPv6 with or without brackets) and a port of 1..65535.
 * *sa gets it. 0 or -EINVAL.
 */
int addr_parse(const char *s, struct sockaddr_storage *sa);

#endif
