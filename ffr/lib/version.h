/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* version.h - what --version says. */
#ifndef FFR_LIB_VERSION_H
#define FFR_LIB_VERSION_H

#define FF_VERSION "0.1.0"

#endif
