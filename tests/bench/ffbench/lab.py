# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The lab (tests/lab/lab) as measures use it: up, programs inside, the router's CPU time, down."""

import os
import pathlib
import re
import tempfile

from . import proc


class Lab:
    """One lab, in a folder of its own; a context manager. Pairs of programs run in `server` and
    `client`: two containers of one host, or of two."""

    def __init__(self, root, containers=2, mode="adaptive", engine="netns", fast_cpu=None, hosts=1):
        self.tool = root / "tests/lab/lab"
        self.containers = containers
        self.mode = mode
        self.engine = engine
        self.fast_cpu = fast_cpu
        self.hosts = hosts
        self.server, self.client = ("h1c0" if hosts > 1 else "h0c1"), "h0c0"
        self.base = None
        self.dir = None

    def __enter__(self):
        self.base = tempfile.mkdtemp(prefix="ffbench.")
        os.chmod(self.base, 0o711) # its routers are users of their own
        self.dir = pathlib.Path(self.base) / "lab"
        os.environ["FF_LAB"] = str(self.dir)
        try:
            self.lab("up", "--containers", self.containers, "--engine", self.engine,
                     "--mode", self.mode, "--hosts", self.hosts, timeout=180)
            if self.fast_cpu is not None:
                with open(self.dir / "h0/ffr.conf", "a", encoding="ascii") as conf:
                    conf.write(f"fast_cpu = {self.fast_cpu}\n")
                self.lab("restart", "router", "h0")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        proc.kill_all()
        if self.dir.exists():
            try:
                self.lab("down", timeout=120)
            except proc.Failure as why:
                print(f"bench: {why}", flush=True)
        if not self.dir.exists():
            os.rmdir(self.base)

    def lab(self, *args, timeout=60):
        return proc.run([self.tool, *args], timeout)

    def inside(self, container, *cmd, timeout=60):
        """The command line that runs `cmd` in a container, where it ends by itself in time."""
        return [str(c) for c in (self.tool, "exec", container, "--", "timeout", timeout, *cmd)]

    def net_pid(self, where):
        """A process in the network of a container, or of a host: its router's first."""
        name = "pid" if "c" in where else "ffr.pid"
        return (self.dir / where / name).read_text(encoding="ascii").strip()

    def on_net(self, where, *cmd, timeout=60):
        """The same for a program of the machine that only uses the network of a container, or of a
        host (TCP peers): no library of ours is in its way."""
        net = f"--net=/proc/{self.net_pid(where)}/ns/net"
        return [str(c) for c in ("nsenter", net, "timeout", timeout, *cmd)]

    def ip(self, where):
        """Of a container; of a host, on the link between hosts."""
        if "c" in where:
            return self.lab("ip", where).strip()
        found = re.search(r"inet ([\d.]+)/", proc.run(self.on_net(where, "ip", "-4", "-o", "addr",
                                                                  "show", "dev", "fab0")))
        if not found:
            raise proc.Failure(f"{where} has no address on the link between hosts")
        return found[1]

    def host_of(self, container):
        return self.lab("host", container).strip()

    def listens(self, where, port):
        """Does a TCP server listen there? /proc/net/tcp: local address in hex, state 0A."""
        pid = self.net_pid(where)
        for family in ("tcp", "tcp6"):
            try:
                text = pathlib.Path(f"/proc/{pid}/net/{family}").read_text(encoding="ascii")
            except FileNotFoundError:
                continue
            if re.search(rf":{port:04X} [0-9A-F]+:0000 0A ", text):
                return True
        return False

    def router_pid(self, host="h0"):
        """The process that works, not the one that started it."""
        return int((self.dir / host / "router.pid").read_text(encoding="ascii"))

    def routers_cpu_ns(self):
        """CPU time of all threads of all hosts' routers."""
        return sum(sum(self.router_cpu_ns(f"h{i}")[0].values()) for i in range(self.hosts))

    def router_cpu_ns(self, host="h0"):
        """CPU time of a router's threads: ({name: ns} by schedstat, clock ticks by stat)."""
        pid = self.router_pid(host)
        threads = {}
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            name = (task / "comm").read_text().strip()
            ns = int((task / "schedstat").read_text().split()[0])
            threads[f"{name}/{task.name}"] = ns
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return threads, int(fields[11]) + int(fields[12])
