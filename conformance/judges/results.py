"""Reads the results of a suite."""

import re
import xml.etree.ElementTree as xml
from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
#: What suites call outcomes.
WORDS = {"ok": PASSED, "pass": PASSED, "passed": PASSED, "success": PASSED, "ignored": SKIPPED, "skip": SKIPPED, "skipped": SKIPPED,
         "✔": PASSED, "○": SKIPPED}
#: A longer message is cut, characters.
MAX_MESSAGE = 300


def read(form, log):
    """Returns the cases in a form of suites.toml: (name, outcome, message), each name once."""
    kind, _, rest = form.partition(" ")
    found = junit(*rest.partition(" ")[::2]) if kind == "junit" else lines(rest, log)
    cases, seen = [], {}
    for name, outcome, message in found:
        name = " ".join(name.split())
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            name = f"{name} #{seen[name]}"
        cases.append((name, outcome, " ".join(message.split())[:MAX_MESSAGE]))
    return cases


def junit(path, pattern=""):
    """Reads JUnit's XML, from one file or all of a folder: the cases whose names have the pattern."""
    path = Path(path)
    files = sorted(path.glob("*.xml")) if path.is_dir() else [path]
    for file in files:
        if not file.exists():
            continue
        for case in xml.parse(file).iter("testcase"):
            # ginkgo has cases for what it does before and after all
            if re.search(r"\[\w*(Before|After)Suite\]", case.get("name") or ""):
                continue
            name = ".".join(filter(None, [case.get("package") or case.get("classname"), case.get("name")]))
            if not re.search(pattern, name):
                continue
            outcome, message = PASSED, ""
            for child in case:
                if child.tag in ("failure", "error"):
                    outcome, message = FAILED, child.get("message") or child.text or ""
                elif child.tag == "skipped" and outcome == PASSED:
                    outcome, message = SKIPPED, child.get("message") or child.text or ""
            yield name, outcome, message


def lines(pattern, log):
    """Reads lines with the groups `name`, `outcome`, and perhaps `message`."""
    expression = re.compile(pattern)
    for line in Path(log).read_text(errors="replace").splitlines():
        found = expression.search(line)
        if found:
            groups = found.groupdict()
            yield groups["name"], WORDS.get(groups["outcome"].lower(), FAILED), groups.get("message") or ""
