"""The parts of docs/conformance.md and README.md that are made from the reports."""

from pathlib import Path

import report
from servers import Failure

BEGIN, END = "<!-- reports: written by `make judges` -->\n", "<!-- end of reports -->\n"
#: How the line of README.md begins.
LINE = "- **Judged by others.**"


def text(root, known):
    rows, details = [], []
    for name, suite in sorted(known.items()):
        document, _ = report.read(root, name)
        if document is None:
            rows.append(f"| `{name}` | {suite.title} | {suite.version} | not run | | | |")
            continue
        statistics = document["profiles"][0]["statistics"]
        when, commit = document["date"][:10], document["implementation"]["commit"]
        rows.append(f"| `{name}` | {suite.title} | {suite.version} | {statistics['passed']} | {statistics['failed']} | "
                    f"{statistics['skipped']} | {when}, `{commit}` |")
        if document["failed"]:
            details.append(f"\n**{name}** ({suite.subject}, {suite.profile}):\n\n")
        for entry in document["failed"]:
            names = ", ".join(f"`{case}`" for case in entry["cases"][:3])
            more = f" and {len(entry['cases']) - 3} more" if len(entry["cases"]) > 3 else ""
            details.append(f"- {len(entry['cases'])}: {entry['why']} ({report.WHOSE[entry['whose']]}) {names}{more}\n")
    head = "| suite | what it is | version | passed | failed | skipped | when, on which commit |\n|---|---|---|---|---|---|---|\n"
    return head + "".join(row + "\n" for row in rows) + "".join(details)


def summary(root, known):
    """Returns the line of README.md."""
    found = [document for document, _ in (report.read(root, name) for name in known) if document]
    count = lambda outcome: sum(document["profiles"][0]["statistics"][outcome] for document in found)
    return (f"{LINE} {len(found)} suites of other projects: {count('passed'):,} cases pass, {count('failed')} fail "
            "([why](docs/conformance.md#suites-of-others)).\n")


def parts(path):
    """Returns what is before, in and after the generated part of a page."""
    begin, end = (LINE, "\n") if path.name == "README.md" else (BEGIN, END)
    text = path.read_text()
    if text.count(begin) != 1 or end not in text.partition(begin)[2]:
        raise Failure(f"{path} needs one part between {begin.strip()!r} and {end.strip() or 'the end of the line'!r}; restore it from git")
    before, _, rest = text.partition(begin)
    inside, _, after = rest.partition(end)
    return (before, begin + inside + end, after)


def pages(root, known):
    yield Path(root) / "docs/conformance.md", BEGIN + text(root, known) + END
    yield Path(root) / "README.md", summary(root, known)


def write(root, known):
    for path, wanted in pages(root, known):
        before, _, after = parts(path)
        path.write_text(before + wanted + after)


def check(root, known):
    return [f"{path.relative_to(root)} is not that of the reports; run `make judges`" for path, wanted in pages(root, known)
            if parts(path)[1] != wanted]
