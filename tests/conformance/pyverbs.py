# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""pyverbs.py SUITE EXPECTED - rdma-core's own test suite, with a list of what each test must do.

Runs inside a container, started by pyverbs.sh. SUITE is the suite's folder, as Debian packs it (with
some files compressed). Its modules are loaded once, then each test runs in a forked process of its
own, so that a crash or a hang is one failure; no library is initialized before the fork.

EXPECTED has headings, and below each of them, indented, names of tests:

    pass
            test_addr.AHTest.test_create_ah
    skip WHY =~ REGULAR EXPRESSION that the suite's own reason for the skip matches
            test_odp.OdpTestCase.test_odp_rc_traffic
    pass or skip WHY =~ ...
            what depends on the machine
    pass or fail WHY =~ ...
            what fails now and then by the suite's own fault
    fail WHY =~ ...
            what is known not to work

Not ok are: a test that fails, ends by a signal or does not end; one that skips though it should
pass, or for another reason; one that should skip or fail and passes (then the list is out of date);
a name that only the list or only the suite has.
"""

import argparse
import gzip
import json
import os
import random
import re
import select
import shutil
import signal
import sys
import tempfile
import time
import unittest


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("suite")
    p.add_argument("expected")
    p.add_argument("--dev", default="ff0")
    p.add_argument("--port", default="1")
    p.add_argument("--gid", default="0")
    p.add_argument("--ip", help="the container's address, for the tests of rdma_cm")
    p.add_argument("--timeout", type=float, default=40, help="seconds a test may take")
    p.add_argument("--seed", type=int, default=random.randrange(1 << 32),
                   help="of the random sizes and flags that the suite tries")
    p.add_argument("-k", default="", metavar="REGEX", help="only tests whose name matches")
    p.add_argument("-v", action="store_true", help="a line for each test")
    p.add_argument("--list", action="store_true", help="print the results as a list, not a verdict")
    return p.parse_args()


# ---- the suite ---------------------------------------------------------------------------------

def unpack(suite, to):
    """The suite as a package that can be imported: TO/tests"""
    package = os.path.join(to, "tests")
    os.mkdir(package)
    for name in os.listdir(suite):
        path = os.path.join(suite, name)
        if not os.path.isfile(path):
            continue
        with (gzip.open if name.endswith(".gz") else open)(path, "rb") as packed:
            with open(os.path.join(package, name.removesuffix(".gz")), "wb") as plain:
                shutil.copyfileobj(packed, plain)
    return package


def load(args, folder):
    """All tests of the suite, in its order: {name: test case}"""
    # in the place of this file's folder: the package pyverbs is another thing
    sys.path[:1] = [folder, unpack(args.suite, folder)]
    sys.argv[1:] = ["--dev", args.dev, "--port", args.port, "--gid", args.gid]
    from args_parser import parser  # pylint: disable=import-error
    parser.parse_args()
    import tests  # pylint: disable=import-error
    tests.base.RDMATestCase._get_ip_mac = address_of_device(args.ip)
    tests.utils.get_pkey_from_kernel = pkey_of_device

    found = {}
    for module in tests.__test_modules__:
        for cases in unittest.defaultTestLoader.loadTestsFromModule(module):
            for case in cases:
                found[case.id().removeprefix("tests.")] = case
    return found


# What the suite looks up in /sys, where a container's device is not.

def pkey_of_device(device, port=1, index=0):
    from pyverbs.device import Context  # pylint: disable=import-error
    with Context(name=device) as ctx:
        return ctx.query_pkey(port, index)


def address_of_device(ip):
    def add(self, dev, port, idx):
        self.args.append([dev, port, idx, ip, None])
    return add


def outcome(case):
    """Runs one test: ["pass" | "skip" | "fail", why]"""
    result = unittest.TestResult()
    case.run(result)
    if result.errors or result.failures:
        return "fail", "".join(text for _, text in result.errors + result.failures)
    if result.skipped:
        return "skip", " ".join(result.skipped[0][1].split())
    return "pass", ""


# ---- one process for each test -----------------------------------------------------------------

def run_test(case, args):
    """The same in a process of its own; [result, why, what it printed]"""
    with tempfile.TemporaryFile() as printed:
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.close(ours)
            for fd in (1, 2):
                os.dup2(printed.fileno(), fd)
            random.seed(f"{args.seed} {case.id()}")
            with os.fdopen(theirs, "w") as pipe:
                json.dump(outcome(case), pipe)
            sys.stdout.flush()
            os._exit(0)
        os.close(theirs)
        told = read_all(ours, args.timeout)
        os.close(ours)
        ended = told is not None and wait_end(pid, 5)
        # what a test forks and leaves behind is in its session
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        status = ended[1] if ended else os.waitpid(pid, 0)[1]
        printed.seek(0)
        text = printed.read().decode(errors="replace")
    if not ended:
        return "fail", f"no end after {args.timeout:.0f} s", text
    if os.WIFSIGNALED(status):
        return "fail", f"ended by {signal.Signals(os.WTERMSIG(status)).name}", text
    if not told:
        return "fail", f"ended with status {os.WEXITSTATUS(status)}", text
    return *json.loads(told), text


def read_all(fd, seconds):
    """All that comes until the other end closes; None when the time is over."""
    data, end = b"", time.monotonic() + seconds
    while select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
        part = os.read(fd, 65536)
        if not part:
            return data
        data += part
    return None


def wait_end(pid, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended = os.waitpid(pid, os.WNOHANG)
        if ended[0]:
            return ended
        time.sleep(0.001)
    return None


# ---- the list ----------------------------------------------------------------------------------

def expectations(path):
    """{name: (results that may be, regular expression of the reason if it is not pass)}"""
    expected, heading = {}, None
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            text = line.split("#")[0].rstrip()
            if not text:
                continue
            if not text[0].isspace():
                kind = re.fullmatch(r"(pass)|(pass or skip|pass or fail|skip|fail) .+? =~ (.+)", text)
                if not kind:
                    sys.exit(f"{path}:{number}: no heading")
                heading = (kind[1] or kind[2]).split(" or "), kind[3]
                continue
            name = text.strip()
            if heading is None or name in expected:
                sys.exit(f"{path}:{number}: {name} has no heading, or is there twice")
            expected[name] = heading
    return expected


def verdict(expected, result, why):
    """None if that is what had to happen, or what is wrong."""
    if expected is None:
        return f"not in the list: {result} {why}"
    may, pattern = expected
    if result not in may:
        return why if result == "fail" else f"{result}, not {' or '.join(may)}: {why}"
    if result != "pass" and not re.search(pattern, why):
        return f"{result} for another reason than /{pattern}/: {why}"
    return None


def print_list(results):
    """Headings without WHY: a person has to add that."""
    groups = {}
    for name, (result, why) in results.items():
        groups.setdefault((result, why.splitlines()[-1] if why else ""), []).append(name)
    for (result, why), names in sorted(groups.items()):
        print(result if result == "pass" else f"{result} =~ {why}")
        for name in names:
            print(f"\t{name}")


def main():
    args = parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return run(args, folder)


def run(args, folder):
    expected = expectations(args.expected)
    cases = {n: c for n, c in load(args, folder).items() if re.search(args.k, n)}
    print(f"# {len(cases)} tests, --seed {args.seed}", flush=True)

    start, results, wrong = time.monotonic(), {}, 0
    for name, case in cases.items():
        began = time.monotonic()
        result, why, printed = run_test(case, args)
        results[name] = (result, why)
        took = time.monotonic() - began
        if args.list:
            continue
        bad = verdict(expected.get(name), result, why)
        if bad:
            wrong += 1
            print(f"not ok {name} ({took:.1f} s)")
            for line in (bad + "\n" + printed).strip().splitlines()[-25:]:
                print(f"#   {line}")
        elif args.v:
            print(f"ok {name} ({took:.1f} s)" + (f" # skip {why}" if result == "skip" else ""))
        sys.stdout.flush()
    if args.list:
        print_list(results)
        return 0
    for name in expected:
        if re.search(args.k, name) and name not in cases:
            wrong += 1
            print(f"not ok {name}\n#   the list has it, the suite has not")
    count = {k: sum(r[0] == k for r in results.values()) for k in ("pass", "skip", "fail")}
    print(f"# {count['pass']} passed, {count['skip']} skipped, {count['fail']} failed, "
          f"{wrong} not as expected; {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
