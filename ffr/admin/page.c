/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * page.c - the status page as it is in the source tree (status.html), and its Content-Security-Policy, which the build
 * makes of it (csp). Both end with a NUL.
 */
#include "ffr/admin/status.h"

#define TEXT(name, file)                                                                           \
	__asm__(".pushsection .rodata\n"                                                           \
		".globl " #name "\n" #name ":\n"                                                   \
		".incbin \"" file "\"\n"                                                           \
		".byte 0\n"                                                                        \
		".popsection\n")

TEXT(status_page, "ffr/admin/status.html");
TEXT(status_policy, "ffr/admin/page.csp");
