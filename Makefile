# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# freeflow's build. `make` builds into build/, `make SAN=1` into build-san/ with ASan and UBSan,
# `make TSAN=1` into build-tsan/ with ThreadSanitizer, `make COV=1` into build-cov/ with clang and its
# coverage counters (tests/coverage).
# CC, CFLAGS, CPPFLAGS and LDFLAGS are the caller's, from the command line or the environment; what
# the build itself needs is added to them. harden.mk has what makes a bug harder to use.
# CROSS=aarch64-linux-gnu- builds into build-aarch64/ with the tools of that prefix, SYSROOT=FOLDER with
# the headers and libraries of a system unpacked there (tests/rig/shell/arm64.sh makes one). `make musl` builds the
# containers' libraries for images with musl, into build-musl/lib.
#
#   make all        build everything; this is what `make` does
#   make libs       build the containers' libraries only
#   make help       print this list
#   make deps       install the Debian packages that building, demo and tests need (root)
#   make demo       ib_write_bw and ib_send_lat between two Docker containers
#   make test       something of every part, in minutes; the runner is tests/run
#   make test-all   everything else that CI runs
#   make test-nightly   what takes hours
#   make unit       the unit tests only
#   make system     the tests in the lab only
#   make conformance   the tests of the ABI and the documents only
#   make fuzz       the fuzz targets only
#   make lint       the checks of the source text only
#   make coverage   lines and branches that the unit and system tests run, by room: tests/coverage
#   make fuzz-coverage   what the fuzz targets reach, by llvm-cov
#   make bench      the benchmarks, with their peers; writes the tables in docs/figures.md
#   make matrix     the compatibility matrix: runs the programs, writes the table into docs/programs.md
#   make judge      what the kernel's rxe and rdma_cm answer, anew, in a VM: tests/conformance/judge-rxe.txt
#   make format     clang-format in place
#   make musl       the containers' libraries for musl (Debian's musl-tools)
#   make arm64      unit tests, programs in the lab and modules, built for arm64, in VMs
#   make deb        Debian packages, into build/deb; with CROSS= and SYSROOT= into build/deb-arm64
#   make release    OUT=FOLDER KEY=KEY: all files of a release, signed with gpg's KEY; UNSIGNED=1 leaves it unsigned (root)
#   make install    DESTDIR= PREFIX=/usr SYSCONFDIR=/etc
#   make install-libs   with CROSS= or LIBC=musl: the containers' libraries beside the host's own
#   make uninstall  remove what install has installed, except the configuration
#   make clean      remove all build folders
#
# ffl/build.mk, ffr/build.mk, ffo/build.mk and kmod/tools/build.mk name their sources, append what they make to ALL and
# give the link rules; how a .c becomes a .o is said once, here.

, := ,
B := build$(if $(LIBC),-$(LIBC))$(if $(CROSS),-$(firstword $(subst -, ,$(CROSS))))$(if $(SAN),-san,$(if $(TSAN),-tsan,$(if $(COV),-cov)))
VERSION := $(shell sed -n 's/^\#define FF_VERSION "\(.*\)"/\1/p' ffr/lib/version.h)
PREFIX ?= /usr
SYSCONFDIR ?= /etc
SHELL := /bin/bash
.SHELLFLAGS := -e -o pipefail -c
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

CLANG = clang
CC = $(if $(COV),$(CLANG),$(if $(LIBC),$(LIBC)-,$(CROSS))gcc)
AR = $(CROSS)ar
SANFLAGS := $(if $(SAN),-fsanitize=address$(,)undefined -fno-sanitize-recover=undefined \
	-fno-omit-frame-pointer)
# ThreadSanitizer knows no fences, of which gcc warns.
SANFLAGS += $(if $(TSAN),-fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
# The counters are in the profile's file, which is mapped at start (%c in LLVM_PROFILE_FILE): a process that is
# killed, or may write no file any more, has counted all the same.
SANFLAGS += $(if $(COV),-fprofile-instr-generate -fcoverage-mapping -mllvm -runtime-counter-relocation)
# clang names the counters of static functions by the source's name without its folder, and there are five conn.c.
COV_NAME = $(if $(COV),-Xclang -main-file-name -Xclang $<)
CFLAGS ?= $(if $(SAN)$(TSAN)$(COV),-O1 -g1,-O2 -g)
include harden.mk
# The caller's come last, so that they decide.
OUR_CPPFLAGS = -I. -D_GNU_SOURCE $(CPPFLAGS)
# A warning that other options than ours bring about is not an error. clang's warnings are nobody's concern with
# COV=1: gcc judges the same code.
WARNINGS := $(if $(COV),-w,-Wall -Wextra $(if $(filter file,$(origin CFLAGS)),-Werror))
# ... but for this: -fPIC where a library is made of it
PIC := -fPIE
OUR_CFLAGS = $(if $(SYSROOT),--sysroot=$(SYSROOT)) -std=gnu11 $(WARNINGS) $(SANFLAGS) $(HARDEN_CFLAGS) $(CFLAGS) $(PIC)
OUR_LDFLAGS = $(SANFLAGS) $(HARDEN_LDFLAGS) -Wl,--as-needed $(LDFLAGS)
LINK = $(CC) -pie $(OUR_CFLAGS) $(OUR_LDFLAGS)
FUZZFLAGS = -std=gnu11 -O1 -g -Wall -Wextra -fno-omit-frame-pointer \
	-fsanitize=address$(,)undefined -fno-sanitize-recover=undefined

ALL :=
-include ffl/build.mk
-include ffr/build.mk
-include ffo/build.mk
-include kmod/tools/build.mk

# ---- objects, archives, man pages --------------------------------------------------------------

# V=1 shows the command lines.
Q := $(if $(V),,@)
# What sanitized tests do themselves need not be fast, and there are twice as many files of them.
$(B)/tests/%.o: CFLAGS := $(if $(SAN)$(TSAN),$(filter-out -O%,$(CFLAGS)),$(CFLAGS))
$(B)/%.o: %.c harden.mk
	@mkdir -p $(@D)
	@echo "  CC $<"
	$(Q)$(CC) $(HARDEN_FORTIFY) $(OUR_CPPFLAGS) $(OUR_CFLAGS) $(COV_NAME) -MMD -MP -c -o $@ $<

# q: files of the same name in two rooms are both put in.
$(B)/%.a:
	@mkdir -p $(@D)
	@rm -f $@
	@echo "  AR $@"
	$(Q)$(AR) qcs $@ $^

# What /etc/ld.so.preload of the lab's own containers says: where the libraries are found inside them.
FFL_INSIDE := /usr/lib/freeflow/libibverbs.so.1 /usr/lib/freeflow/librdmacm.so.1
ASAN_INSIDE := $(if $(SAN),/usr/lib/freeflow/libasan.so.8 )
$(B)/lib/preload: Makefile
	@mkdir -p $(@D)
	$(Q)echo '$(ASAN_INSIDE)$(FFL_INSIDE)' >$@

# The preload of a sanitized library needs its run-time first and beside it.
$(B)/lib/libasan.so.8 $(B)/lib/libubsan.so.1:
	@mkdir -p $(@D)
	cp -L $$($(CC) -print-file-name=$(@F)) $@

MAN_SRC := $(wildcard ffl/*.scd ffr/*.scd ffo/*.scd kmod/tools/*.scd)
MAN := $(patsubst %.scd,$(B)/man/%,$(notdir $(MAN_SRC)))
vpath %.scd ffl ffr ffo kmod/tools
$(B)/man/%: %.scd ffr/lib/version.h
	@mkdir -p $(@D)
	@echo "  MAN $@"
	$(Q)sed '1s/$$/ "freeflow $(VERSION)"/' $< | scdoc >$@

ALL += $(B)/lib/preload $(MAN)
ALL += $(if $(SAN),$(B)/lib/libasan.so.8 $(B)/lib/libubsan.so.1)
# The lab's own helpers are never sanitized: one enters containers of any build of the machine's.
LAB_B := $(if $(CROSS),$(B),build)
LAB_HELPERS := $(addprefix $(LAB_B)/tests/lab/,nsrun nsinit netlag)
$(LAB_HELPERS): $(LAB_B)/%: %.c
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(CC) $(OUR_CPPFLAGS) $(if $(SYSROOT),--sysroot=$(SYSROOT)) -std=gnu11 $(WARNINGS) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.c,$^)
$(LAB_B)/tests/lab/nsinit: ffr/oci/cache.c ffr/oci/rootfs.c ffr/oci/oci.h
ALL += $(LAB_HELPERS)

# The list at the beginning of this file.
help:
	@sed -n 's/^#   make \([a-z0-9-]*\) */\1\t/p' Makefile | expand -t 16

all: $(ALL)
libs: $(FFL_LIBS)

musl:
	$(MAKE) LIBC=musl libs

arm64:
	tests/run arm64

# ---- tests -------------------------------------------------------------------------------------
#
# A test program is one .c file; a line `build: a.c b.c -lfoo` in a comment of it names what else
# is compiled and linked. @ROOM is all of a room's sources; of @fast pvm.c and roles.c are
# named by themselves, for which some programs have others. $(call extra,FILE) is that line.

$(foreach r,lib keeper obj mem fast peer dir wire soft remote ctl cm orch admin nic rio oci,$(eval \
	SET_$(r) := $(wildcard ffr/$(r)/*.c ffr/$(r)/*/*.c)))
SET_fast := $(filter-out ffr/fast/pvm.c ffr/fast/roles.c,$(SET_fast))
$(foreach r,base tls client store server,$(eval SET_ffo_$(r) := $(wildcard ffo/$(r)/*.c ffo/$(r)/*/*.c)))
# All of these lines are read at once, as words FILE=WORD, because a process for each file took 12 s of each make.
BUILD_WORDS := $(shell grep -roE -m 1 --include='*.c' '\<build:.*' tests/unit tests/system tests/hostile tests/fuzz \
	tests/conformance | awk '{ f = $$0; sub(/:.*/, "", f); sub(/^[^:]*:build:/, ""); sub(/[*]\/.*/, ""); \
	for (i = 1; i <= NF; i++) print f "=" $$i }')
extra = $(foreach w,$(patsubst $(1)=%,%,$(filter $(1)=%,$(BUILD_WORDS))),$(if $(filter @%,$(w)),$(SET_$(w:@%=%)),$(w)))
ARCHIVES := $(filter %.a,$(ALL) $(wildcard $(B)/*.a)) $(if $(wildcard ffr/build.mk),$(B)/libffr.a) \
	$(if $(wildcard ffo/build.mk),$(B)/libffo.a)
ARCHIVES := $(sort $(ARCHIVES))
DAEMON_LIBS := -luv -lconfuse -ljansson -lsqlite3 -lssl -lcrypto -lzookeeper_st -lmicrohttpd -lseccomp -lcap-ng \
		-lbsd -lpthread

# There are hundreds of them, and gold links them in half the time. gold knows nothing of shadow stacks.
GOLD := $(if $(CROSS)$(COV),,$(if $(shell command -v ld.gold),-fuse-ld=gold))
TEST_LINK = $(if $(GOLD),$(subst -z shstk,,$(LINK)) $(GOLD),$(LINK))
# With SAN=1, a program that has ffl or uses it is linked by ld: gold puts AddressSanitizer's flag, which sanitized code
# reads in each function, beside the program's own variables. ffl takes their page away for a moment, and would wait for
# itself (system/verbs_kinds.c with FFL_REPLACE=whole).
USES_FFL := tests/unit/ffl/% tests/system/% tests/hostile/% tests/conformance/% ffl/%
test_link = $(if $(SAN),$(if $(filter $(USES_FFL),$(1) $(call extra,$(1))),$$(LINK),$$(TEST_LINK)),$$(TEST_LINK))

# $(1) source; $(2) the program's libraries; $(3) archives. A test of ffl is linked with what it
# names only: ffl and the router both define what the other must not see.
define test_program
$(B)/$(1:.c=): $(B)/$(1:.c=.o) $(patsubst %.c,$(B)/%.o,$(filter %.c,$(call extra,$(1)))) $(3)
	@mkdir -p $$(@D)
	@echo "  LD $$@"
	$$(Q)$(call test_link,$(1)) -o $$@ -Wl,--start-group $$^ -Wl,--end-group \
		$(filter -l% -Wl%,$(call extra,$(1))) $(2)
endef

UNIT_SRC := $(sort $(shell find tests/unit -name 'test_*.c'))
UNIT := $(patsubst %.c,$(B)/%,$(UNIT_SRC))
is_ffl = $(filter tests/unit/ffl/%,$(1))
$(foreach s,$(UNIT_SRC),$(eval $(call test_program,$(s),-lcmocka \
	$(if $(call is_ffl,$(s)),-lpthread,$(DAEMON_LIBS)),$(if $(call is_ffl,$(s)),,$(ARCHIVES)))))

# Plain verbs programs against the system's headers and library; the lab puts ffl in its place.
SYSTEM_SRC := $(wildcard tests/system/*.c tests/hostile/*.c)
SYSTEM := $(patsubst %.c,$(B)/%,$(SYSTEM_SRC))
$(foreach s,$(SYSTEM_SRC),$(eval $(call test_program,$(s),-libverbs -lpthread,)))

# One program, which runs on freeflow and on the kernel's own stack; see tests/conformance/judge.sh.
SET_judge := $(wildcard tests/conformance/judge_*.c)
$(eval $(call test_program,tests/conformance/judge.c,-libverbs -lpthread,))
# What registered memory is to a program; see tests/conformance/memory.sh.
SET_memory := $(wildcard tests/conformance/memory_*.c)
$(eval $(call test_program,tests/conformance/memory.c,-libverbs -lpthread,))

FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ := $(patsubst %.c,build/%,$(FUZZ_SRC))
build/fuzz/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CLANG $<"
	$(Q)$(CLANG) $(OUR_CPPFLAGS) $(FUZZFLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<
define fuzz_program
build/$(1:.c=): $(patsubst %.c,build/fuzz/%.o,$(1) $(filter %.c,$(call extra,$(1))))
	@mkdir -p $$(@D)
	@echo "  LD $$@"
	$$(Q)$$(CLANG) $$(FUZZFLAGS) -fsanitize=fuzzer -Wl,--as-needed -o $$@ $$^ \
		$(filter -l%,$(call extra,$(1))) $(DAEMON_LIBS)
endef
$(foreach s,$(FUZZ_SRC),$(eval $(call fuzz_program,$(s))))

# The same targets without libFuzzer, over their corpus only (replay.c).
REPLAY := $(patsubst tests/fuzz/fuzz_%.c,$(B)/tests/fuzz/replay_%,$(FUZZ_SRC))
define replay_program
$(patsubst tests/fuzz/fuzz_%.c,$(B)/tests/fuzz/replay_%,$(1)): $(B)/tests/fuzz/replay.o \
	$(patsubst %.c,$(B)/%.o,$(1) $(filter %.c,$(call extra,$(1))))
	@mkdir -p $$(@D)
	@echo "  LD $$@"
	$$(Q)$(call test_link,$(1)) -o $$@ $$^ $(filter -l%,$(call extra,$(1))) $(DAEMON_LIBS)
endef
$(foreach s,$(FUZZ_SRC),$(eval $(call replay_program,$(s))))

# The same with clang's coverage instead of sanitizers; tests/fuzz/coverage runs them.
COVFLAGS = -std=gnu11 -O1 -g -Wall -Wextra -fprofile-instr-generate -fcoverage-mapping
FUZZ_COV := $(patsubst %.c,build-cov/%,$(FUZZ_SRC))
build-cov/fuzz/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CLANG $<"
	$(Q)$(CLANG) $(OUR_CPPFLAGS) $(COVFLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<
define fuzz_cov_program
build-cov/$(1:.c=): $(patsubst %.c,build-cov/fuzz/%.o,$(1) $(filter %.c,$(call extra,$(1))))
	@mkdir -p $$(@D)
	@echo "  LD $$@"
	$$(Q)$$(CLANG) $$(COVFLAGS) -fsanitize=fuzzer -Wl,--as-needed -o $$@ $$^ \
		$(filter -l%,$(call extra,$(1))) $(DAEMON_LIBS)
endef
$(foreach s,$(FUZZ_SRC),$(eval $(call fuzz_cov_program,$(s))))

unit-programs: $(UNIT)
conformance-programs: $(addprefix $(B)/tests/conformance/,judge memory)
system-programs: $(SYSTEM)
fuzz-programs: $(FUZZ)
replay-programs: $(REPLAY)
fuzz-cov-programs: $(FUZZ_COV)

coverage:
	tests/coverage

fuzz-coverage:
	tests/fuzz/coverage

unit conformance fuzz system lint:
	tests/run $@

# The README's command: minutes, and something of every part. CI runs the second as well. The third takes hours.
test: deps
	tests/run -l test

test-all: deps
	tests/run -l all

test-nightly: deps
	FUZZ_SECONDS=$${FUZZ_SECONDS:-3600} tests/run -l night; status=$$?; tests/mutate --all && exit $$status

demo: deps
	$(MAKE) all
	tests/lab/demo

bench: all
	tests/bench/run --docs

matrix: all
	tests/conformance/matrix -v --docs; one=$$?; \
	tests/conformance/matrix -v --docs --hosts 2 && exit $$one

judge:
	tests/conformance/judge-rxe

deps:
	@deploy/deps

format:
	clang-format -i $$(tests/lint/sources c)

# ---- install -----------------------------------------------------------------------------------

I := $(DESTDIR)$(PREFIX)
install_libs = install -D -m 644 -t $(1) $(filter %.1,$(FFL_LIBS)) && cp -P $(filter %.so,$(FFL_LIBS)) $(1)
install: all
	install -D -m 755 $(B)/bin/ffr $(I)/sbin/ffr
	install -D -m 755 $(B)/bin/ffo $(I)/sbin/ffo
	install -D -m 755 $(B)/bin/ffctl $(I)/bin/ffctl
	install -D -m 755 $(B)/bin/ff-hook $(I)/libexec/freeflow/ff-hook
	ln -sf ../libexec/freeflow/ff-hook $(I)/bin/freeflow-runc
	install -D -m 755 -t $(I)/sbin $(B)/bin/ff-device-plugin $(RIO_TOOLS)
	$(call install_libs,$(I)/lib/freeflow)
	install -D -m 644 -t $(I)/include ffl/session/freeflow.h
	for m in $(MAN); do \
		install -D -m 644 $$m $(I)/share/man/man$${m##*.}/$${m##*/}; done
	for u in deploy/systemd/*.service deploy/systemd/*.socket deploy/systemd/*.path; do \
		install -D -m 644 $$u $(I)/lib/systemd/system/$${u##*/}; done
	install -D -m 644 deploy/sysusers.d/freeflow.conf $(I)/lib/sysusers.d/freeflow.conf
	install -D -m 644 deploy/tmpfiles.d/freeflow.conf $(I)/lib/tmpfiles.d/freeflow.conf
	install -D -m 644 deploy/completion/ffctl.bash $(I)/share/bash-completion/completions/ffctl
	install -D -m 644 deploy/completion/_ffctl $(I)/share/zsh/vendor-completions/_ffctl
	install -D -m 644 deploy/completion/ffctl.fish $(I)/share/fish/vendor_completions.d/ffctl.fish
	[ -e $(DESTDIR)$(SYSCONFDIR)/freeflow/ffr.conf ] || \
		install -D -m 644 deploy/ffr.conf $(DESTDIR)$(SYSCONFDIR)/freeflow/ffr.conf

# The hook looks there for what is not the host's own: aarch64, x86_64-musl.
install-libs: libs
	$(call install_libs,$(I)/lib/freeflow/$(firstword $(subst -, ,$(HARDEN_MACHINE)))$(if $(LIBC),-$(LIBC)))

# The configuration stays.
uninstall:
	rm -f $(I)/sbin/ffr $(I)/sbin/ffo $(I)/sbin/ff-device-plugin $(I)/bin/ffctl
	rm -f $(I)/bin/freeflow-runc $(addprefix $(I)/sbin/,$(notdir $(RIO_TOOLS)))
	rm -rf $(I)/lib/freeflow $(I)/libexec/freeflow $(I)/include/freeflow.h
	for m in $(notdir $(MAN)); do rm -f $(I)/share/man/man$${m##*.}/$$m; done
	for u in $(notdir $(wildcard deploy/systemd/*)); do rm -f $(I)/lib/systemd/system/$$u; done
	rm -f $(I)/lib/sysusers.d/freeflow.conf $(I)/lib/tmpfiles.d/freeflow.conf
	rm -f $(I)/share/bash-completion/completions/ffctl $(I)/share/zsh/vendor-completions/_ffctl
	rm -f $(I)/share/fish/vendor_completions.d/ffctl.fish

# Debian packages, into build/deb.
deb:
	deploy/deb $(if $(CROSS),-c $(CROSS) -s $(SYSROOT))

# Everything that is published; docs/release.md.
release:
	deploy/release $(if $(OUT),-o "$(OUT)") $(if $(KEY),-k "$(KEY)") $(if $(UNSIGNED),-u) $(if $(SYSROOT),-s $(SYSROOT))

clean:
	rm -rf build build-san build-tsan build-cov build-aarch64* build-musl

.PHONY: all libs help musl arm64 deps demo test test-all test-nightly coverage unit conformance fuzz system lint bench matrix judge format install install-libs uninstall deb release clean \
	unit-programs conformance-programs system-programs replay-programs fuzz-programs fuzz-cov-programs fuzz-coverage

-include $(shell [ ! -d $(B) ] || find $(B) -path $(B)/deb -prune -o -type f -name '*.d' -print)
