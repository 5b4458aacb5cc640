# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""screen.py KEYS TEXT... -- COMMAND...: runs COMMAND on a terminal of 80 columns, types each of KEYS
after it was drawn anew, with another size of the window before the last one, and ends with COMMAND's
status; 1 if one of the TEXTs was never shown or if it does not end."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time


def size(fd, rows, cols):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def shown(fd, until, seconds):
    """What was written until `until` is in it; ends with the program."""
    out, end = b"", time.monotonic() + seconds
    while until not in out and time.monotonic() < end:
        if not select.select([fd], [], [], 0.1)[0]:
            continue
        try:
            out += os.read(fd, 65536)
        except OSError:
            break
    return out


def main():
    at = sys.argv.index("--")
    keys, texts, command = sys.argv[1], sys.argv[2:at], sys.argv[at + 1:]
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.environ.pop("LINES", None)
        os.environ.pop("COLUMNS", None)
        size(0, 24, 80)
        os.execvp(command[0], command)
    out = shown(fd, b"q quit", 20)
    for i, key in enumerate(keys):
        if i == len(keys) - 1:
            size(fd, 10, 60)
            os.kill(pid, signal.SIGWINCH)
            out += shown(fd, b"freeflow", 20)
        os.write(fd, key.encode())
        if i < len(keys) - 1:
            out += shown(fd, b"\x1b[", 20)
    out += shown(fd, b"\x1b[?1049l", 20) # the screen of before is back
    ended, status = os.waitpid(pid, os.WNOHANG)
    for _ in range(200):
        if ended:
            break
        time.sleep(0.02)
        ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        sys.exit("screen: the program did not end")
    text = re.sub(rb"\x1b[\[(][0-9;?]*[A-Za-z]", b"", out).decode(errors="replace")
    missing = [t for t in texts if t not in text]
    if missing:
        sys.exit(f"screen: not shown: {missing}\n{text}")
    sys.exit(os.waitstatus_to_exitcode(status))


main()
