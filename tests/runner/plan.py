# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What there is to run: the kinds of tests, the builds that they need, and a job for each test.

A test's header (its first 25 lines) says where the test runs:

    test: KIND...      at `make test`
    all: KIND...       at `make test-all`
    night: KIND...     at `make test-nightly`
    timeout: SECONDS   after which the test is taken for hung (300)

Without any of the first three a test runs where its folder's entry in FOLDERS says.
"""
import glob
import os
import re
import shutil
import subprocess

LEVELS = ("test", "all", "night")
HEADER_LINES = 25
WORDS = re.compile(r"^[#/ *]*(test|all|night|timeout|threads):[ \t]*([a-z0-9 -]*[a-z0-9])")


class Kind:
    """A place where tests run. ENGINE and HOSTS describe its lab; None: it needs no lab."""

    def __init__(self, name, build="plain", engine=None, hosts=1, sanitized=False, daemons=None,
                 env=None, wrap=()):
        self.name = name
        self.build = build
        self.engine = engine
        self.hosts = hosts
        self.sanitized = sanitized
        self.daemons = daemons  # the build whose router runs in the lab, if it is another one
        self.env = env or {}
        self.wrap = list(wrap)  # a command that starts the lab or the test


# gcc 12's AddressSanitizer, with detect_stack_use_after_return, ends the process by SIGSEGV when a thread ends, once in 30
# runs of mem/test_shadow. It happens where it intercepts the access to thread-local variables.
ASAN_UNIT = {"ASAN_OPTIONS": "detect_stack_use_after_return=1:intercept_tls_get_addr=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
ASAN_LAB = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
TSAN = {"TSAN_OPTIONS": "halt_on_error=0:second_deadlock_stack=1"}
# Where the kernel spreads mappings wider than this version of ThreadSanitizer knows.
FIXED = ("setarch", "-R")
# A /tmp in memory: most of the time of units that make many files is the disk's.
OWN_TMP = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /tmp && exec "$@"', "sh") if not __file__.startswith("/tmp/") else ()

# In the order in which they start: what fails soonest comes first. Virtual machines come early because
# only one runs at a time.
KINDS = {k.name: k for k in (
    Kind("lint", build=None),
    Kind("vm"),
    Kind("unit", wrap=OWN_TMP),
    Kind("conformance"),
    Kind("netns", engine="netns"),
    Kind("hosts", engine="netns", hosts=2),
    Kind("hostile", engine="netns"),
    Kind("docker", engine="docker"),
    Kind("packages", build=None),
    Kind("unit-san", build="san", env=ASAN_UNIT, wrap=OWN_TMP),
    Kind("system-san", build="san", engine="netns", sanitized=True, env=ASAN_LAB),
    Kind("fuzz", build="fuzz"),
    Kind("unit-tsan", build="tsan", env=TSAN, wrap=FIXED + OWN_TMP),
    Kind("system-tsan", build="tsan", engine="netns", sanitized=True, daemons="tsan", wrap=FIXED),
    Kind("hosts-san", build="san", engine="netns", hosts=2, sanitized=True, env=ASAN_LAB),
    Kind("hosts-docker", engine="docker", hosts=2),
    Kind("arm64", build="arm64"),
)}
GROUPS = {"system": ("netns", "docker", "system-san")}

LONG_CHECKS = ("cppcheck", "shellcheck")  # a minute of CPU time each

# Where a test of a folder runs if its header does not say: level -> kinds. Scripts drive other people's
# programs, which other engines and images have other versions of; our own C programs do the same everywhere.
FOLDERS = {
    "system/*.sh": {"test": "netns", "all": "docker system-san"},
    "system/*.c": {"test": "netns", "all": "system-san", "night": "docker"},
    "hostile": {"all": "hostile"},
    "programs": {"night": "netns hosts"},
    "web": {"night": "netns"},
    "vm": {"all": "vm"},
    "arm64": {"night": "arm64"},
    "conformance": {"test": "conformance"},
    "packages": {"all": "packages"},
}


class Job:
    """A test, or a build: CMD runs, and NAME stands for it in the output."""

    def __init__(self, name, kind, cmd, timeout, level="test", needs=(), env=None):
        self.name = name
        self.kind = kind
        self.cmd = cmd
        self.timeout = timeout
        self.level = level
        self.needs = set(needs)  # names of jobs that end well before this one starts
        self.env = env or {}
        self.build = False
        self.alone = None  # of the jobs with one word here only one runs at a time
        self.makes = None  # a folder that has to be there before it starts


def header(path):
    words = {}
    with open(path, encoding="utf-8", errors="replace") as f:
        for _, line in zip(range(HEADER_LINES), f):
            m = WORDS.match(line)
            if m:
                words.setdefault(m.group(1), m.group(2))
    return words


class Plan:
    """All jobs that the command line asks for."""

    def __init__(self, tree, tests, build_dir, fuzz_seconds, levels):
        self.tree = tree
        self.tests = tests
        self.plain = build_dir or os.path.join(tree, "build")
        self.given = build_dir is not None
        self.fuzz_seconds = fuzz_seconds
        self.levels = levels
        self.jobs = []
        self.skipped = []  # (name, why)
        self.errors = []

    def build_dir(self, build):
        return {"plain": self.plain, "fuzz": os.path.join(self.tree, "build")}.get(
            build, os.path.join(self.tree, "build-" + str(build)))

    def add(self, job):
        self.jobs.append(job)

    def places(self, path, folder):
        """The (level, kind) pairs of a test, and its time limit."""
        words = header(path)
        where = {lv: words[lv] for lv in LEVELS if lv in words}
        where = where or FOLDERS.get(folder) or FOLDERS[f"{folder}/*{os.path.splitext(path)[1]}"]
        pairs = []
        for level, kinds in where.items():
            for kind in kinds.split():
                if kind in KINDS:
                    pairs.append((level, kind))
                else:
                    self.errors.append(f"{path}: {level}: there is no kind '{kind}'")
        return pairs, int(words.get("timeout", "300"))

    # ---- kinds without a lab ----

    def lint(self):
        names = subprocess.run([f"{self.tree}/tests/lint/lint"], capture_output=True, text=True, check=True)
        for name in names.stdout.split():
            level = "all" if name in LONG_CHECKS else "test"
            self.add(Job(f"lint/{name}", "lint", [f"{self.tree}/tests/lint/lint", name], 600, level))

    def units(self):
        for path in sorted(glob.glob(f"{self.tests}/unit/**/test_*.c", recursive=True)):
            rel = os.path.relpath(path, self.tests)[:-2]
            words = header(path)
            limit = int(words.get("timeout", "300"))
            short = rel[len("unit/"):]
            where = [("test", "unit"), ("all", "unit-san")]
            if words.get("threads", "no") != "no":
                where.append(("all", "unit-tsan"))
            where += [("night", kind) for kind in words.get("night", "").split()]  # those do more without FF_BRIEF
            for level, kind in where:
                k = KINDS[kind]
                cmd = k.wrap + [f"{self.build_dir(k.build)}/tests/{rel}"]
                self.add(Job(f"{kind}/{short}", kind, cmd, limit, level))

    def fuzz(self, work, logs):
        for path in sorted(glob.glob(f"{self.tests}/fuzz/fuzz_*.c")):
            name = os.path.basename(path)[:-2]
            found = f"{work}/{name}"
            seconds = self.fuzz_seconds
            cmd = [f"{self.tree}/build/tests/fuzz/{name}", "-verbosity=1", "-error_exitcode=1",
                   "-timeout_exitcode=1", f"-max_total_time={seconds}", "-timeout=5", "-rss_limit_mb=2048",
                   f"-artifact_prefix={logs}/{name}-", found]
            corpus = f"{self.tests}/fuzz/corpus/{name[len('fuzz_'):]}"
            if os.path.isdir(corpus):
                cmd.append(corpus)
            job = Job(f"fuzz/{name}", "fuzz", cmd, seconds + 180, "night")
            job.makes = found  # what is found anew stays out of the tree's corpus
            self.add(job)
            replay = f"{self.build_dir('san')}/tests/fuzz/{name.replace('fuzz_', 'replay_')}"
            self.add(Job(f"unit-san/fuzz/{name}", "unit-san", [replay, corpus], 600, "all"))

    def scripts(self, folder, kind):
        """Scripts that need no lab of the runner's."""
        for path in sorted(glob.glob(f"{self.tests}/{folder}/*.sh")):
            if not os.access(path, os.X_OK):
                continue
            pairs, limit = self.places(path, folder)
            for level, k in pairs:
                if k != kind:
                    continue
                name = f"{kind}/{os.path.basename(path)[:-3]}"
                job = Job(name, kind, [path], limit, level,
                          env={"BUILD": self.build_dir(KINDS[kind].build or "plain")})
                if kind == "vm":
                    job.alone = "vm"
                self.add(job)

    def packages(self):
        """The first one builds them, for the others to install and to compare."""
        self.scripts("packages", "packages")
        for job in self.jobs:
            if job.kind == "packages":
                job.alone = "packages"
            if job.name in ("packages/install", "packages/papers"):
                job.needs.add("packages/build")

    # ---- kinds with a lab ----

    def system(self, folder):
        """A C program runs in the lab's first container, unless a script of its name has more."""
        paths = sorted(glob.glob(f"{self.tests}/{folder}/*.c") + glob.glob(f"{self.tests}/{folder}/*.sh"))
        for path in paths:
            stem, ext = os.path.splitext(path)
            if ext == ".c" and os.path.exists(stem + ".sh"):
                continue
            pairs, limit = self.places(path, folder)
            for level, kind in pairs:
                k = KINDS[kind]
                if ext == ".sh":
                    cmd = [path]
                else:
                    program = os.path.relpath(stem, os.path.dirname(self.tests))
                    build = "plain" if k.build == "tsan" else k.build
                    cmd = [f"{self.tree}/tests/lab/lab", "exec", "h0c0", "--",
                           f"{self.build_dir(build)}/{program}"]
                self.add(Job(f"{kind}/{os.path.basename(stem)}", kind, cmd, limit, level))

    # ---- builds ----

    def builds(self, kinds):
        """What `make` has to build, as jobs that the tests of these kinds wait for."""
        wanted = {}
        plain = ["all"]
        if "conformance" in kinds:
            plain.append("conformance-programs")
        if kinds & {"unit", "vm"}:
            plain.append("unit-programs")
        if any(KINDS[k].engine for k in kinds) or "vm" in kinds:
            plain.append("system-programs")
        labs_san = kinds & {"system-san", "hosts-san"}
        if (labs_san or any(KINDS[k].build in ("plain", "tsan") for k in kinds)) and not self.given:
            wanted["plain"] = plain
        if any(KINDS[k].build == "san" for k in kinds):
            wanted["san"] = ["SAN=1", "all"]
            wanted["san"] += ["unit-programs", "replay-programs"] if "unit-san" in kinds else []
        if any(KINDS[k].build == "tsan" for k in kinds):
            programs = [j.cmd[-1][len(self.tree) + 1:] for j in self.jobs if j.kind == "unit-tsan"]
            daemons = [f"build-tsan/bin/{p}" for p in ("ffr", "ffo", "ffctl")]
            wanted["tsan"] = ["TSAN=1"] + programs + (daemons if "system-tsan" in kinds else [])
        if "fuzz" in kinds:
            wanted["fuzz"] = ["fuzz-programs"]
        out = []
        for name, args in wanted.items():
            cmd = ["make", "--no-print-directory", f"-j{os.cpu_count()}"] + args
            if name == "tsan" and "system-tsan" in kinds:
                # The router is sanitized and the library is not: programs would have to be, too.
                cmd = ["sh", "-c", '"$@" && rm -rf build-tsan/lib && cp -r build/lib build-tsan/lib', "sh"] + cmd
            if name == "san" and labs_san:
                # The router and the library are sanitized, and the programs of tests/system are not, like those of others.
                cmd = ["sh", "-c", f'"$@" && mkdir -p build-san/tests && rm -rf build-san/tests/system && '
                       f'cp -r {self.plain}/tests/system build-san/tests/', "sh"] + cmd
            job = Job(f"build/{name}", "build", cmd, 3600)
            job.build = True
            job.alone = "build"  # make keeps all CPUs busy by itself
            out.append(job)
        names = {j.name for j in out}
        copies = {"build/tsan": "system-tsan" in kinds, "build/san": bool(labs_san)}
        for job in out:
            if copies.get(job.name) and "build/plain" in names:
                job.needs.add("build/plain")
        for job in self.jobs:
            if job.name == "lint/rooms" and "build/plain" in names:
                job.needs.add("build/plain")  # it looks at the objects, and two makes at once would mix them up
            build = KINDS[job.kind].build
            for b in {build, "plain" if KINDS[job.kind].engine else build}:
                if f"build/{b}" in names:
                    job.needs.add(f"build/{b}")
        return out

    def arm64(self):
        for tool in ("aarch64-linux-gnu-gcc", "mmdebstrap"):
            if not shutil.which(tool):
                self.skipped.append(("arm64", f"no {tool} (apt-get install gcc-aarch64-linux-gnu mmdebstrap)"))
                return []
        script = f". {self.tree}/tests/rig/shell/arm64.sh && arm64_sysroot"
        sysroot = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        if sysroot.returncode:
            self.skipped.append(("arm64", "no Debian for arm64 here"))
            return []
        build = Job("build/arm64", "build", ["make", f"-j{os.cpu_count()}", "CROSS=aarch64-linux-gnu-",
                                             f"SYSROOT={sysroot.stdout.strip()}", "all", "unit-programs",
                                             "system-programs"], 3600)
        build.build = True
        build.alone = "build"
        for path in sorted(glob.glob(f"{self.tests}/arm64/*.sh")):
            if os.access(path, os.X_OK):
                _, limit = self.places(path, "arm64")
                job = Job(f"arm64/{os.path.basename(path)[:-3]}", "arm64", [path], limit, "night",
                          needs=["build/arm64"], env={"BUILD": f"{self.tree}/build-aarch64"})
                job.alone = "vm"
                self.add(job)
        return [build]

    # ---- the whole ----

    def make(self, kinds, pattern, work, logs):
        """Fills jobs with the builds and tests of KINDS whose names match PATTERN."""
        if "lint" in kinds:
            self.lint()
        self.units()
        self.fuzz(work, logs)
        self.scripts("conformance", "conformance")
        self.packages()
        self.scripts("vm", "vm")
        for folder in ("system", "hostile", "programs", "web"):
            self.system(folder)
        arm64 = self.arm64() if "arm64" in kinds else []
        self.jobs = [j for j in self.jobs if j.kind in kinds and j.level in self.levels and
                     (pattern is None or pattern.search(j.name))]
        first = {}
        for job in self.jobs:
            if first.setdefault(job.name, job).cmd != job.cmd:
                self.errors.append(f"{job.name} is two tests: {first[job.name].cmd[-1]}, {job.cmd[-1]}")
        # Some tests do more at night, and less in CI.
        self.jobs = list({j.name: j for j in reversed(self.jobs)}.values())[::-1]
        for job in self.jobs:
            job.timeout *= 4 if job.level == "night" else 1
        names = {j.name for j in self.jobs}
        builds = [b for b in arm64 if any(b.name in j.needs for j in self.jobs)]
        for job in self.jobs:
            job.needs = {n for n in job.needs if n in names or n in {b.name for b in builds}}
        builds += self.builds({j.kind for j in self.jobs})
        order = list(KINDS)
        self.jobs.sort(key=lambda j: (order.index(j.kind), j.kind == "vm" and -j.timeout))
        self.jobs = builds + self.jobs
