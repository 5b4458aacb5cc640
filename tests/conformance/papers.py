# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What papers.sh looks for in the documents. Prints a line for each mistake, and ends with 1 if there is one.

Links lead to files and to headings that are there. Files that any text of the tree names as docs/..., and sources that pages of
docs/internals name, are there. Code blocks say what they are. Dates stand in the diaries only: figures.md, tested.md, CHANGELOG.md.
"""
import glob
import os
import re
import subprocess
import sys

FENCES = {"", "sh", "sh runnable", "dockerfile", "json", "yaml", "ini", "c"}
DIARIES = {"docs/figures.md", "docs/tested.md", "CHANGELOG.md"}
# Elsewhere a reader wants what is so, and not when somebody saw it.
DIARY_WORDS = re.compile(r"\b20\d\d-\d\d-\d\d\b")
ELSEWHERE = re.compile(r"^(https?:|mailto:)")

mistakes = []


def say(text):
    mistakes.append(text)


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], capture_output=True, text=True, check=True)
    return [f for f in out.stdout.split("\n") if f and os.path.exists(f)]


def without_blocks(text):
    """The lines outside of code blocks; the blocks' first lines are checked on the way."""
    lines, inside = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            inside = not inside
            if inside and line[3:] not in FENCES:
                yield number, None, line[3:]
            continue
        if not inside:
            yield number, line, None
    if inside:
        yield number, None, "a block that does not end"


def slug(heading):
    """The anchor that GitHub makes of a heading."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.strip())
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def headings(path, cache={}):
    if path not in cache:
        names, seen = set(), {}
        for _, line, _ in without_blocks(open(path, encoding="utf-8").read()):
            m = re.match(r"#+ +(.*)", line or "")
            if m:
                name = slug(m.group(1))
                count = seen.get(name, 0)
                seen[name] = count + 1
                names.add(f"{name}-{count}" if count else name)
        cache[path] = names
    return cache[path]


def page(path):
    for number, line, fence in without_blocks(open(path, encoding="utf-8").read()):
        where = f"{path}:{number}"
        if line is None:
            say(f"{where}: a code block is '{fence}', which is none of {sorted(FENCES)}")
            continue
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if ELSEWHERE.match(link):
                continue
            name, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if not os.path.exists(target):
                say(f"{where}: {link} is not there")
            elif anchor and target.endswith(".md") and anchor not in headings(target):
                say(f"{where}: {link}: no such heading")
        if path.startswith("docs/internals/"):
            for source in re.findall(r"`((?:ff[lro]|tests|kmod)/[^` ]+)`", line):
                if not re.search("NAME|TOPIC", source) and not glob.glob(re.sub(r"\{[^}]*\}", "*", source)):
                    say(f"{where}: {source} is not there")


def dates(path):
    for number, line in enumerate(open(path, encoding="utf-8").read().split("\n"), 1):
        m = DIARY_WORDS.search(line)
        if m:
            say(f"{path}:{number}: '{m.group(0)}' is for a diary: {', '.join(sorted(DIARIES))}")


pages = [p for p in tracked("*.md") if not p.startswith(("tests/fuzz/corpus", "LICENSES"))]
for p in pages:
    page(p)
    if p not in DIARIES and (p == "README.md" or p == "SECURITY.md" or p.startswith("docs/")):
        dates(p)
for p in tracked("*.scd"):
    dates(p)
for p in tracked():
    if p.endswith((".md", ".txt", ".bin")) or "/corpus/" in p or os.path.islink(p):
        continue
    try:
        text = open(p, encoding="utf-8").read()
    except UnicodeDecodeError:
        continue
    for name in set(re.findall(r"\bdocs/[a-z0-9/-]+\.md\b", text)):
        if not os.path.exists(name):
            say(f"{p}: {name} is not there")
print("\n".join(mistakes), end="\n" if mistakes else "")
sys.exit(bool(mistakes))
