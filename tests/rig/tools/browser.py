#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A headless Chromium that opens a page and looks at it: browser.py URL < STEPS

Each line of standard input is a step:
    until EXPRESSION    waits until the page says that this is true, 60 s at most
    print EXPRESSION    prints its value, JSON where it is no text
    shot FILE [W H]     a PNG of the page, W pixels wide and H high

What the page may not do, by its policy, and errors of its script are printed to standard error, and the exit status is 1
then. Chromium is driven through its pipe for debuggers, so nothing but Chromium is needed.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile
import time

LIMIT = 60  # s for a condition
POLL = 0.1  # s between two looks


class Browser:
    def __init__(self, folder):
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()

        def give():  # the pipe's ends are 3 and 4 in Chromium
            os.dup2(to_browser, 10)
            os.dup2(from_browser, 11)
            os.dup2(10, 3)
            os.dup2(11, 4)

        # The test runs as root, whose Chromium has no sandbox; it sees this router's page only.
        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
             f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=give, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(f"{folder}/log", "w", encoding="utf-8"))
        os.close(to_browser)
        os.close(from_browser)
        self.number = 0
        self.rest = b""
        self.wrong = []
        self.session = None

    def message(self):
        while b"\0" not in self.rest:
            data = os.read(self.answers, 1 << 16)
            if not data:
                sys.exit("browser: Chromium ended")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def note(self, m):
        """What the page tells without being asked."""
        if m.get("method") == "Log.entryAdded":
            e = m["params"]["entry"]
            if e["level"] == "error" and not e.get("url", "").endswith("/favicon.ico"):
                self.wrong.append(e["text"] + " " + e.get("url", ""))
        if m.get("method") == "Runtime.exceptionThrown":
            self.wrong.append(json.dumps(m["params"]["exceptionDetails"]))
        if m.get("method") == "Page.javascriptDialogOpening":
            self.wrong.append("a dialog: " + m["params"]["message"])
            self.call("Page.handleJavaScriptDialog", accept=True)

    def call(self, method, **params):
        self.number += 1
        mine = self.number
        m = {"id": mine, "method": method, "params": params}
        if self.session:
            m["sessionId"] = self.session
        os.write(self.commands, json.dumps(m).encode() + b"\0")
        while True:
            m = self.message()
            if m.get("id") == mine:
                if "error" in m:
                    sys.exit(f"browser: {method}: {m['error']['message']}")
                return m["result"]
            self.note(m)

    def open(self, url):
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        answer = self.call("Page.navigate", url=url)
        if "errorText" in answer:
            sys.exit(f"browser: {url}: {answer['errorText']}")
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    def value(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in r:
            sys.exit(f"browser: {expression}: {r['exceptionDetails']['exception']['description']}")
        return r["result"].get("value")

    def until(self, expression):
        end = time.monotonic() + LIMIT
        while not self.value(expression):
            if time.monotonic() > end:
                text = self.value("document.body.innerText")
                sys.exit(f"browser: never true: {expression}\n{text}\n" + "\n".join(self.wrong))
            time.sleep(POLL)

    def shot(self, path, width=1200, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=int(width), height=int(height), deviceScaleFactor=1,
                  mobile=False)
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait()


def main():
    with tempfile.TemporaryDirectory() as folder:
        b = Browser(folder)
        try:
            b.open(sys.argv[1])
            for line in sys.stdin:
                step, _, rest = line.strip().partition(" ")
                if step == "until":
                    b.until(rest)
                elif step == "print":
                    value = b.value(rest)
                    print(value if isinstance(value, str) else json.dumps(value), flush=True)
                elif step == "shot":
                    b.shot(*rest.split())
                elif step:
                    sys.exit(f"browser: no step '{step}'")
            b.close()
        finally:
            if b.process.poll() is None:
                b.process.kill()
                b.process.wait()
    for text in b.wrong:
        print(f"browser: {text}", file=sys.stderr)
    return 1 if b.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
