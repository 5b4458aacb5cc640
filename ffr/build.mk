# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ffr's part of the Makefile: libffr.a (everything but the programs' main files; unit tests link
# it), the router, ffctl, and the hook of OCI runtimes.

FFCTL_SRCS := $(wildcard ffr/ffctl/*.c)
OCI_SRCS := $(wildcard ffr/oci/*.c)
K8S_SRCS := $(wildcard ffr/k8s/*.c)
FFR_SRCS := $(filter-out ffr/main.c $(FFCTL_SRCS) $(OCI_SRCS) $(K8S_SRCS),$(wildcard ffr/*.c ffr/*/*.c ffr/*/*/*.c))

$(B)/libffr.a: $(patsubst %.c,$(B)/%.o,$(FFR_SRCS))

# The page is part of the program, and so is its policy, which lets the browser run this script and apply this style only.
$(B)/ffr/admin/page.o: OUR_CFLAGS += -Wa,-I$(B)
$(B)/ffr/admin/page.o: ffr/admin/status.html $(B)/ffr/admin/page.csp
$(B)/ffr/admin/page.csp: ffr/admin/status.html ffr/admin/csp
	@mkdir -p $(@D)
	$(Q)ffr/admin/csp $< >$@

# The two archives need each other: ffo logs through ffr/lib/log.c, the router is a client of ffo's.
$(B)/bin/ffr: $(B)/ffr/main.o $(B)/libffr.a $(B)/libffo.a
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(LINK) -o $@ -Wl,--start-group $^ -Wl,--end-group \
		-luv -lconfuse -ljansson -lsqlite3 -lssl -lcrypto -lzookeeper_st -lmicrohttpd -lseccomp -lcap-ng \
		-lbsd -lpthread

$(B)/bin/ffctl: $(patsubst %.c,$(B)/%.o,$(FFCTL_SRCS)) $(B)/libffo.a $(addprefix $(B)/ffr/,lib/log.o lib/cgroup.o lib/addr.o lib/advice.o oci/rootfs.o)
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(LINK) -o $@ $^ -luv -ljansson -lsqlite3 -lssl -lcrypto -lncurses -ltinfo -lpthread

# What containers are started with: small, it is run for each.
$(B)/bin/ff-hook: $(patsubst %.c,$(B)/%.o,$(OCI_SRCS)) $(B)/libffo.a $(B)/ffr/lib/log.o
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(LINK) -o $@ $^ -ljansson -lpthread

$(B)/bin/freeflow-runc: $(B)/bin/ff-hook
	$(Q)ln -sf ff-hook $@

# The kubelet's interface, by protobuf-c: its files are built, not kept.
$(B)/ffr/k8s/deviceplugin.pb-c.c: ffr/k8s/deviceplugin.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --c_out=$(B) $<
$(B)/ffr/k8s/deviceplugin.pb-c.o: $(B)/ffr/k8s/deviceplugin.pb-c.c
	$(Q)$(CC) $(HARDEN_FORTIFY) -I$(B) $(OUR_CPPFLAGS) $(OUR_CFLAGS) -c -o $@ $<
$(B)/ffr/k8s/plugin.o: $(B)/ffr/k8s/deviceplugin.pb-c.c
$(B)/ffr/k8s/plugin.o: OUR_CPPFLAGS += -I$(B)

$(B)/bin/ff-device-plugin: $(patsubst %.c,$(B)/%.o,$(K8S_SRCS)) $(B)/ffr/k8s/deviceplugin.pb-c.o $(B)/ffr/lib/log.o
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(LINK) -o $@ $^ -lnghttp2 -lprotobuf-c

ALL += $(B)/bin/ff-hook $(B)/bin/freeflow-runc $(B)/bin/ff-device-plugin
ALL += $(B)/libffr.a $(B)/bin/ffr $(B)/bin/ffctl
