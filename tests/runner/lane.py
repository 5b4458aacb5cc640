# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A lane: a process that runs one job after the other, and keeps the lab that its tests share.

The runner writes jobs to a lane, a JSON object in a line, and reads a result for each. A lane adopts
what its tests leave behind, so that it can count the CPU time of a lab's daemons and end them.
"""
import ctypes
import glob
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

from plan import KINDS

PR_SET_CHILD_SUBREAPER = 36
TICK = os.sysconf("SC_CLK_TCK")
DAEMON_LINES = 6  # lines of each daemon's log after a failure
STACKS_MAX = 8  # processes of a test that hangs


def processes():
    """All processes: pid -> (parent, session, CPU seconds with those of its ended children)."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="ascii", errors="replace") as f:
                text = f.read()
        except OSError:
            continue
        field = text[text.rindex(")") + 2:].split()
        cpu = sum(int(field[i]) for i in (11, 12, 13, 14)) / TICK
        found[int(text.split(" ", 1)[0])] = (int(field[1]), int(field[3]), cpu)
    return found


def descendants(table):
    """Of this process, without itself."""
    below, new = set(), {os.getpid()}
    while new:
        new = {pid for pid, (parent, _, _) in table.items() if parent in new and pid not in below}
        below |= new
    return below


def number_in(path):
    """0: there is no such file, or no number in it yet."""
    try:
        with open(path, encoding="ascii") as f:
            return int(f.read() or 0)
    except (FileNotFoundError, ValueError):
        return 0


def alive(pid):
    """A process that ended and waits for its parent to notice is not alive."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return not f.read().rpartition(")")[2].startswith(" Z")
    except OSError:
        return False


def end_programs(containers):
    """Kills what runs in a lab's containers, but for their first processes and what keeps those busy.

    The names of the containers in which something stays. From outside: an exec in a container of Docker's takes half a
    second of CPU time.
    """
    first = {}
    for path in containers:
        pid = number_in(path + "/pid")
        try:
            first[os.readlink(f"/proc/{pid}/ns/pid")] = pid, os.path.basename(path)
        except OSError:
            pass  # it is stopped
    for _ in range(200):
        left = set()
        for pid, (parent, _, _) in processes().items():
            try:
                init, name = first.get(os.readlink(f"/proc/{pid}/ns/pid"), (0, ""))
                if not init or pid == init or not alive(pid):
                    continue
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    if parent == init and f.read() == b"sleep\0infinity\0":
                        continue
                os.kill(pid, signal.SIGKILL)
                left.add(name)
            except OSError:
                pass  # it has ended
        if not left:
            break
        time.sleep(0.05)
    return " ".join(sorted(left))


def not_as_before(folder):
    """What a test has stopped, cut off or slowed down of a lab."""
    found = []
    for path in sorted(glob.glob(f"{folder}/*")):
        name = os.path.basename(path)
        pid = "ffr.pid" if re.fullmatch(r"h\d+", name) else "pid" if re.fullmatch(r"h\d+c\d+b?|ffo|zk\d+", name) else None
        if pid and not alive(number_in(f"{path}/{pid}")):
            found.append(f"{name} does not run")
        for state in ("cut", "delay"):
            if os.path.exists(f"{path}/{state}") and os.path.getsize(f"{path}/{state}"):
                found.append(f"{name} has a {state}")
    return found


class Lane:
    def __init__(self, number, work, tree, plain, brief):
        self.number = number
        self.work = f"{work}/lane{number}"
        self.logs = f"{work}/logs"
        self.tree = tree
        self.plain = plain
        self.lab = f"{tree}/tests/lab/lab"
        self.kind = None  # the kind that the lab is of
        self.ctl = None  # the lab's environment
        self.refused = set()
        self.current = None
        self.ended = True  # the current command
        self.env = dict(os.environ, TREE=tree, LAB=self.lab, WORK=self.work, RUN_WORK=work, DEBS=f"{work}/debs")
        self.env.pop("FF_LAB", None)
        if brief:
            self.env.update(FF_BRIEF="1")
            self.env.setdefault("FT_LOADS", "100")
            self.env.setdefault("FT_SECONDS", "15")
        os.mkdir(self.work)
        os.chmod(self.work, 0o711)  # routers of labs in it are users of their own

    # ---- processes ----

    def cpu(self):
        table = processes()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        live = sum(table[pid][2] for pid in descendants(table))
        return used.ru_utime + used.ru_stime + live

    def reap(self):
        """Takes note of children that have ended. Those that were adopted would stay as zombies, and a test that waits
        for the end of a router would see it."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if self.current is not None and pid == self.current.pid:
                self.ended = True
                self.current.returncode = os.waitstatus_to_exitcode(status)

    def wait(self, seconds):
        """False: the current command has not ended in SECONDS."""
        end = time.monotonic() + seconds
        while not self.ended:
            self.reap()
            if time.monotonic() > end:
                break
            if not self.ended:
                time.sleep(0.02)
        return self.ended

    def of_session(self, session):
        for pid in descendants(processes()):
            try:
                if os.getsid(pid) == session or os.getpgid(pid) == session:
                    yield pid
            except (ProcessLookupError, PermissionError):
                pass

    def kill_session(self, session):
        for pid in self.of_session(session):
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    def stacks(self, session, out):
        """Where the processes of a test that hangs are."""
        pids = [str(pid) for pid in list(self.of_session(session))[:STACKS_MAX]]
        try:
            subprocess.run([f"{self.tree}/tests/lab/stacks", *pids], stdin=subprocess.DEVNULL, stdout=out,
                           stderr=subprocess.DEVNULL, timeout=20 * STACKS_MAX, check=False)
        except (OSError, subprocess.TimeoutExpired):
            pass

    def kill_all(self):
        for _ in range(20):
            pids = descendants(processes())
            if not pids:
                return
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
            self.reap()

    def command(self, cmd, env, limit, log):
        """The exit status of CMD, or None when LIMIT seconds were over."""
        with open(log, "ab") as out:
            self.ended = False
            try:
                self.current = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.tree,
                                                env=env, start_new_session=True)
            except OSError as error:
                out.write(f"{cmd[0]}: {error.strerror}\n".encode())
                return 127
            if not self.wait(limit):
                self.stacks(self.current.pid, out)
                out.write(f"(no end after {limit} s)\n".encode())
                os.killpg(self.current.pid, signal.SIGTERM)  # a script's trap takes its own lab down
                if self.wait(20):
                    self.current.returncode = None
        status = self.current.returncode
        self.kill_session(self.current.pid)
        if status is None and not self.ended:
            self.current.wait()
        self.current = None
        return status

    # ---- the lab that tests of a kind share ----

    def daemons_build(self, k):
        if k.daemons:
            return f"{self.tree}/build-{k.daemons}"
        return self.plain if k.build == "plain" else f"{self.tree}/build-{k.build}"

    def lab_env(self, name):
        k = KINDS[name]
        build = self.plain if k.build in ("plain", "tsan") else f"{self.tree}/build-{k.build}"
        return dict(self.env, **k.env, KIND=name, ENGINE=k.engine, HOSTS=str(k.hosts), BUILD=build,
                    FF_BUILD=self.daemons_build(k), SANITIZED="1" if k.sanitized else "0",
                    FF_LAB=f"{self.work}/lab-{name}")

    def lab_up(self, name):
        """h0c0 and h0c1 are Debian 12, h0c2 Debian 11 and h0c3 Debian 13 where the engine has images."""
        k = KINDS[name]
        options = ["--containers", "4"]
        if k.hosts > 1:
            options = ["--hosts", str(k.hosts), "--containers", "2"]
        elif k.engine == "docker":
            options += ["--image", "debian12,debian12,debian11,debian13"]
        self.kind = name
        self.ctl = self.lab_env(name)
        self.refused = set()
        log = f"{self.logs}/lab-{name}-{self.number}.log"
        status = self.command(k.wrap + [self.lab, "up", "--engine", k.engine] + options, self.ctl, 600, log)
        return status == 0, log

    def lab_down(self, log):
        """Takes the lab down; a sanitized daemon that ends reports what it leaked. True: all was well."""
        ok = self.command([self.lab, "down"], self.ctl, 120, log) == 0
        self.kill_all()
        self.kind = None
        return ok

    def lab_check(self, log):
        """Leaves the lab as the test found it, or says in LOG what the test broke."""
        folder = self.ctl["FF_LAB"]
        with open(log, "ab") as out:
            def say(text):
                out.write(text.encode() + b"\n")

            stays = end_programs(glob.glob(f"{folder}/h*c*"))
            if stays:
                say(f"nothing could be ended in {stays}")
                return False
            broken = not_as_before(folder)
            if broken:
                say("the lab did not survive the test: " + ", ".join(broken))
                return False
            return self.reports(folder, say)

    def reports(self, folder, say):
        """False where a sanitizer reported or a sandbox refused a system call."""
        ok = True
        for path in glob.glob(f"{folder}/*/san.*"):
            with open(path, encoding="utf-8", errors="replace") as f:
                say(f.read())
            os.unlink(path)
            ok = False
        for path in glob.glob(f"{folder}/*/*.log"):
            with open(path, encoding="utf-8", errors="replace") as f:
                for line in f:
                    if "sandbox: the " in line and " may not call" in line and (path, line) not in self.refused:
                        self.refused.add((path, line))
                        say(line.rstrip())
                        ok = False
        return ok

    def daemon_logs(self, log):
        """The ends of the lab's logs, beside a failed test's log."""
        with open(log + ".daemons", "ab") as out:
            for path in sorted(glob.glob(f"{self.ctl['FF_LAB']}/*/ff*.log")):
                with open(path, "rb") as f:
                    lines = f.read().splitlines()[-DAEMON_LINES:]
                out.write(f"== {os.path.relpath(path, self.ctl['FF_LAB'])} ends:\n".encode())
                out.write(b"\n".join(lines) + b"\n")

    def own_labs_down(self):
        """Labs of tests that were killed before they took them down."""
        for folder in glob.glob(f"{self.work}/own-*"):
            if os.path.isdir(folder):
                self.command([self.lab, "down"], dict(self.env, FF_LAB=folder), 120, os.devnull)

    # ---- jobs ----

    def run(self, job):
        name, kind = job["name"], job["kind"]
        log = f"{self.logs}/{job['log']}"
        k = KINDS.get(kind)
        env = dict(self.env, KIND=kind, **job["env"])
        wanted = kind if k and k.engine else None
        before = []
        if self.kind and self.kind != wanted:
            before.append(self.end_lab())
        if wanted and not self.kind:
            ok, lab_log = self.lab_up(wanted)
            if not ok:
                with open(lab_log, "rb") as f, open(log, "ab") as out:
                    out.write(b"the lab did not start:\n" + f.read())
                self.lab_down(os.devnull)
                return before + [self.result(name, 1, 0, 0, log)]
        if wanted:
            env = dict(self.ctl)
        elif k:
            env.update(k.env)
        if job["makes"]:
            os.makedirs(job["makes"], exist_ok=True)
        start, cpu = time.monotonic(), self.cpu()
        status = self.command(job["cmd"], env, job["timeout"], log)
        if wanted and not self.lab_check(log):
            self.daemon_logs(log)
            self.lab_down(log)
            status = 1
        elif wanted and status not in (0, 77):
            self.daemon_logs(log)
        self.own_labs_down()
        seconds, used = time.monotonic() - start, self.cpu() - cpu
        if not wanted:
            self.kill_all()
        return before + [self.result(name, status, seconds, used, log)]

    def end_lab(self):
        start = time.monotonic()
        name = f"{self.kind}/lab-down"
        log = f"{self.logs}/{self.kind}-lab-down-{self.number}.log"
        ok = self.lab_down(log)
        return self.result(name, 0 if ok else 1, time.monotonic() - start, 0, log)

    @staticmethod
    def result(name, status, seconds, cpu, log):
        return {"name": name, "status": status, "seconds": seconds, "cpu": max(0, cpu), "log": log}

    def finish(self):
        if self.current is not None:
            try:
                os.killpg(self.current.pid, signal.SIGTERM)
                self.wait(15)
            except ProcessLookupError:
                pass
            self.current = None
        self.own_labs_down()
        if self.kind:
            self.lab_down(os.devnull)
        self.kill_all()


class Interrupted(BaseException):
    pass


def interrupt(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Interrupted


def main(number, jobs, results, work, tree, plain, brief):
    """Runs in a process of its own; JOBS and RESULTS are the ends of pipes, as files."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, interrupt)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    lane = Lane(number, work, tree, plain, brief)
    try:
        for line in jobs:
            order = json.loads(line)
            if order is not None:
                done = lane.run(order)
            else:
                done = [lane.end_lab()] if lane.kind else []
            print(json.dumps(done), file=results, flush=True)
    except Interrupted:
        pass
    finally:
        lane.finish()
    sys.stdout.flush()
    os._exit(0)
