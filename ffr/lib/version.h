/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* version.h - the version of freeflow. --version, the packages and the release take it from here. */
#ifndef FFR_LIB_VERSION_H
#define FFR_LIB_VERSION_H

#define FF_VERSION "1.0.0"

#endif
