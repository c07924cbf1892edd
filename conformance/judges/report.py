"""The report of a suite: what passed, what failed and why, and the comparison with what has passed before."""

import datetime
import fnmatch
import tomllib
from pathlib import Path

import yaml

import history
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
    """Returns a report and the cases that passed in it; `None` and nothing if the suite has not run."""
    path = folder(root) / f"{name}.yaml"
    if not path.exists():
        return None, set()
    return yaml.safe_load(path.read_text()), set(path.with_suffix(".passed").read_text().splitlines())


def build(root, suite, cases, fallen=()):
    """Returns the report of a run, and the faults: cases that fail without a reason, unless they have fallen, and reasons that no case needs."""
    count = lambda outcome: sum(one[1] == outcome for one in cases)
    given = reasons(root).get(suite.name, [])
    failed, faults, used = [{"whose": entry["whose"], "why": entry["why"], "cases": []} for entry in given], [], set()
    for name, outcome, message in cases:
        if outcome != FAILED:
            continue
        number = next((number for number, entry in enumerate(given) if matches(entry, name)), None)
        if number is None and name in fallen:
            continue
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
    return any(is_like(name, pattern) for pattern in entry["cases"])


def is_like(name, pattern):
    """Whether a name has a pattern, in which * is any text, and brackets are brackets."""
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def commit(root):
    """Returns the commit, with `-dirty` if anything but reports differs from it."""
    changed = history.git(root, "status", "--porcelain", "--", ".", ":!conformance/reports", ":!docs/conformance.md", ":!README.md")
    return (history.git(root, "rev-parse", "--short=12", "HEAD").strip() or "unknown") + ("-dirty" if changed.strip() else "")


def fallen(root, suite, outcomes):
    """Returns the cases that have passed in this repository or an earlier commit, and do not pass in `outcomes`: name → (outcome, message). In
    another version of a suite, cases may be missing."""
    for version, passed in sorted(history.passed(root, suite.name).items()):
        for name in sorted(passed):
            outcome, message = outcomes.get(name, ("missing", ""))
            if outcome in (FAILED, SKIPPED) or outcome == "missing" and version == suite.version:
                yield name, outcome, message


def write(root, suite, cases):
    """Compares a run with all reports that the repository has had and writes the new one, unless a case has fallen; returns the faults."""
    outcomes = {name: tell for name, *tell in cases}
    lost = {name: tell for name, *tell in fallen(root, suite, outcomes)}
    document, faults = build(root, suite, cases, lost)
    for name, (outcome, message) in lost.items():
        faults.append(f"{suite.name}: {name} has passed before and does not pass now: {outcome}{message and ': ' + message}")
    statistics = document["profiles"][0]["statistics"]
    print(f"{suite.name}: {statistics['passed']} passed, {statistics['failed']} failed, {statistics['skipped']} skipped", flush=True)
    if faults:
        return faults
    path = folder(root) / f"{suite.name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=140))
    passed = sorted(name for name, outcome, _ in cases if outcome == PASSED)
    path.with_suffix(".passed").write_text("".join(f"{name}\n" for name in passed))
    return []
