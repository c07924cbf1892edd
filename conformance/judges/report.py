"""The report of a suite: what passed, what failed and why, and the comparison with what has passed before."""

import datetime
import fnmatch
import subprocess
import tomllib
from pathlib import Path

import yaml

from results import FAILED, PASSED, SKIPPED

#: Whose fault a failed case is.
WHOSE = {"ours": "a fault of ours", "suite": "a fault of the suite or of this run of it", "unsupported": "not supported"}


def folder(root):
    return Path(root) / "conformance/reports/suites"


def reasons(root):
    """Returns the reasons of a repository: for each suite, entries with `cases` (patterns of names), `whose` and `why`."""
    with open(Path(root) / "conformance/reasons.toml", "rb") as file:
        return tomllib.load(file)


def read(root, name):
    """Returns a report and the cases that have passed once; `None` and nothing if the suite has not run."""
    path = folder(root) / f"{name}.yaml"
    if not path.exists():
        return None, set()
    passed = path.with_suffix(".passed")
    return yaml.safe_load(path.read_text()), set(passed.read_text().splitlines())


def build(root, suite, cases):
    """Returns the report of a run, and the faults: cases that fail without a reason, and reasons that no case needs."""
    count = lambda outcome: sum(one[1] == outcome for one in cases)
    given = reasons(root).get(suite.name, [])
    failed, faults, used = [{"whose": entry["whose"], "why": entry["why"], "cases": []} for entry in given], [], set()
    for name, outcome, message in cases:
        if outcome != FAILED:
            continue
        number = next((number for number, entry in enumerate(given) if matches(entry, name)), None)
        if number is None:
            faults.append(f"{suite.name}: {name} fails, and conformance/reasons.toml does not say why: {message}")
        else:
            used.add(number)
            failed[number]["cases"].append(name)
    for number, entry in enumerate(given):
        if entry["whose"] not in WHOSE:
            faults.append(f"{suite.name}: whose = {entry['whose']!r} in conformance/reasons.toml is not one of {', '.join(WHOSE)}")
        if number not in used:
            faults.append(f"{suite.name}: no failed case has this reason of conformance/reasons.toml, remove it: {entry['why']}")
    skipped = {}
    for name, outcome, message in cases:
        if outcome == SKIPPED:
            skipped.setdefault(message or "without a reason", []).append(name)
    statistics = {"passed": count(PASSED), "failed": count(FAILED), "skipped": count(SKIPPED)}
    document = {
        "apiVersion": "outrigger.dev/v1alpha1", "kind": "SuiteReport",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "implementation": {"project": "outrigger", "program": suite.subject, "commit": commit(root)},
        "suite": {"name": suite.name, "version": suite.version},
        "profiles": [{"name": suite.profile, "result": "failure" if statistics["failed"] else "success", "statistics": statistics}],
        "failed": [entry for entry in failed if entry["cases"]],
        "skipped": [{"why": why, "cases": names if len(names) <= 5 else len(names)} for why, names in sorted(skipped.items())],
    }
    return document, faults


def matches(entry, name):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in entry["cases"])


def commit(root):
    """Returns the commit, with `-dirty` if anything but reports differs from it."""
    git = lambda *arguments: subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True).stdout.strip()
    changed = git("status", "--porcelain", "--", ".", ":!conformance/reports", ":!docs/conformance.md", ":!README.md")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("-dirty" if changed else "")


def write(root, suite, cases):
    """Compares a run with the report of the repository and writes the new one, unless a case fails that has passed; returns the faults."""
    document, faults = build(root, suite, cases)
    old, once = read(root, suite.name)
    passed = {name for name, outcome, _ in cases if outcome == PASSED}
    is_same_version = old is not None and old["suite"]["version"] == suite.version
    if is_same_version:
        faults += [f"{suite.name}: {name} has passed before and does not pass now" for name in sorted(once - passed)]
    statistics = document["profiles"][0]["statistics"]
    print(f"{suite.name}: {statistics['passed']} passed, {statistics['failed']} failed, {statistics['skipped']} skipped", flush=True)
    if faults:
        return faults
    path = folder(root) / f"{suite.name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=140))
    path.with_suffix(".passed").write_text("".join(f"{name}\n" for name in sorted(passed)))
    return []


def check(root, known):
    """Returns what is wrong with the reports of a repository, without running anything."""
    faults = [f"{name}: conformance/reasons.toml has a suite that conformance/suites.toml has not" for name in reasons(root) if name not in known]
    found = {path.stem for path in folder(root).glob("*.yaml")}
    faults += [f"{name}: a report of a suite that conformance/suites.toml has not" for name in sorted(found - known.keys())]
    for name in sorted(found & known.keys()):
        faults += [f"{name}: {fault}" for fault in check_one(root, known[name])]
    return faults


def check_one(root, suite):
    document, once = read(root, suite.name)
    statistics = document["profiles"][0]["statistics"]
    failed = [name for entry in document["failed"] for name in entry["cases"]]
    given = {(entry["whose"], entry["why"]) for entry in reasons(root).get(suite.name, [])}
    stated = {(entry["whose"], entry["why"]) for entry in document["failed"]}
    if document["suite"]["version"] != suite.version:
        yield f"the report is of version {document['suite']['version']}, conformance/suites.toml has {suite.version}; run the suite"
    if len(failed) != statistics["failed"]:
        yield f"{statistics['failed']} cases failed, but reasons are given for {len(failed)}"
    if len(once) != statistics["passed"]:
        yield f"{statistics['passed']} cases passed, but {len(once)} have passed once: a case that passes may not fail again"
    for name in sorted(once & set(failed)):
        yield f"{name} has passed before and does not pass now"
    for whose, why in sorted(given ^ stated):
        yield f"the report and conformance/reasons.toml differ in: {whose}: {why}"
