/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ff_probe.h - static tracepoints (USDT) at the hops of a request, of provider "freeflow". Each is one
 * nop until somebody (bpftrace, perf, SystemTap) asks for it. ffr(8) tells their arguments. Without
 * counters (stats.h), or where the C library has no <sys/sdt.h> (musl), there are none.
 */
#ifndef FFR_ABI_FF_PROBE_H
#define FFR_ABI_FF_PROBE_H

#if !defined(FF_NO_COUNTERS) && __has_include(<sys/sdt.h>)
#include <sys/sdt.h>

#define FF_PROBE1(name, a)	    DTRACE_PROBE1(freeflow, name, a)
#define FF_PROBE2(name, a, b)	    DTRACE_PROBE2(freeflow, name, a, b)
#define FF_PROBE3(name, a, b, c)    DTRACE_PROBE3(freeflow, name, a, b, c)
#define FF_PROBE4(name, a, b, c, d) DTRACE_PROBE4(freeflow, name, a, b, c, d)
#else
#define FF_PROBE1(name, a)	    ((void)(a))
#define FF_PROBE2(name, a, b)	    ((void)(a), (void)(b))
#define FF_PROBE3(name, a, b, c)    ((void)(a), (void)(b), (void)(c))
#define FF_PROBE4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#endif

#endif
