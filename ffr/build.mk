# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ffr's part of the Makefile: libffr.a (everything but the programs' main files; unit tests link
# it), the router and ffctl.

FFCTL_SRCS := $(wildcard ffr/ffctl/*.c)
FFR_SRCS := $(filter-out ffr/main.c $(FFCTL_SRCS),$(wildcard ffr/*.c ffr/*/*.c ffr/*/*/*.c))

$(B)/libffr.a: $(patsubst %.c,$(B)/%.o,$(FFR_SRCS))

# The two archives need each other: ffo logs through ffr/lib/log.c, the router is a client of ffo's.
$(B)/bin/ffr: $(B)/ffr/main.o $(B)/libffr.a $(B)/libffo.a
	@mkdir -p $(@D)
	$(LINK) -o $@ -Wl,--start-group $^ -Wl,--end-group \
		-luv -lconfuse -ljansson -lsqlite3 -lssl -lcrypto -lzookeeper_st -lmicrohttpd -lseccomp -lcap-ng \
		-lbsd -lpthread

$(B)/bin/ffctl: $(patsubst %.c,$(B)/%.o,$(FFCTL_SRCS)) $(B)/libffo.a $(B)/ffr/lib/log.o
	@mkdir -p $(@D)
	$(LINK) -o $@ $^ -luv -ljansson -lssl -lcrypto -lncurses -ltinfo -lpthread

ALL += $(B)/libffr.a $(B)/bin/ffr $(B)/bin/ffctl
