"""Checks the reports of a repository without running anything: that they are complete, agree with the reasons, and have lost no case."""

import datetime
import re
from collections import Counter

import yaml

import history
import report
from results import FAILED, SKIPPED


def check(root, known):
    """Returns what is wrong."""
    faults = []
    try:
        given = report.reasons(root)
    except ValueError as error:
        return [f"conformance/reasons.toml cannot be read: {error}"]
    for name, entries in given.items():
        if name not in known:
            faults.append(f"{name}: conformance/reasons.toml has a suite that conformance/suites.toml has not")
        faults += [f"{name}: {fault} in conformance/reasons.toml" for entry in entries for fault in of_reason(entry)]
    for name, suite in known.items():
        if not re.fullmatch("[0-9a-f]{64}", suite.sha256):
            faults.append(f"{name}: sha256 in conformance/suites.toml is no checksum")
    if faults:
        return faults
    folder = report.folder(root)
    found = {path.stem for path in folder.glob("*.yaml")}
    pairs = {path.stem for path in folder.glob("*.passed")}
    faults += [f"{name}: one of {name}.yaml and {name}.passed is missing; run the suite" for name in sorted(found ^ pairs)]
    faults += [f"{name}: a report of a suite that conformance/suites.toml has not" for name in sorted(found - known.keys())]
    gone = history.suites(root) - found
    faults += [f"{name}: its report was removed, and an earlier commit has it; run the suite" for name in sorted(gone)]
    for name in sorted(found & pairs & known.keys()):
        try:
            faults += [f"{name}: {fault}" for fault in of_report(root, known[name], given.get(name, []))]
        except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
            faults.append(f"{name}: {name}.yaml is no report of a suite ({type(error).__name__}: {error}); run the suite")
    return faults


def of_reason(entry):
    unknown = entry.keys() ^ {"cases", "whose", "why"}
    if unknown:
        yield f"unknown or missing field: {', '.join(sorted(unknown))}"
        return
    if entry["whose"] not in report.WHOSE:
        yield f"whose = {entry['whose']!r} is not one of {', '.join(report.WHOSE)}"
    if not isinstance(entry["why"], str) or not entry["why"].strip():
        yield "an empty why"
    if not isinstance(entry["cases"], list) or not entry["cases"]:
        yield f"cases = {entry['cases']!r} is no list of patterns"


def of_report(root, suite, given):
    """Yields the faults of a report."""
    document, once = report.read(root, suite.name)
    (profile,) = document["profiles"]
    statistics = {outcome: int(count) for outcome, count in profile["statistics"].items()}
    failed = [(name, entry["whose"], entry["why"]) for entry in document["failed"] for name in entry["cases"]]
    names = [name for name, _, _ in failed]
    skipped = [entry["cases"] for entry in document["skipped"]]
    lines = (report.folder(root) / f"{suite.name}.passed").read_text().splitlines()
    wanted = {"kind": "SuiteReport", "suite": {"name": suite.name, "version": suite.version}}
    for field, value in wanted.items():
        if document[field] != value:
            yield f"the report has {field} {document[field]}, not {value}; run the suite"
    if profile["name"] != suite.profile:
        yield f"the report is of profile {profile['name']}, not {suite.profile}; run the suite"
    if profile["result"] != ("failure" if names else "success"):
        yield f"the result is {profile['result']}, and {len(names)} cases failed"
    if document["implementation"]["commit"].endswith("-dirty"):
        yield f"it ran on {document['implementation']['commit']}, not on a commit; commit, and run the suite"
    when = datetime.datetime.fromisoformat(document["date"])
    if when > datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1):
        yield f"its date {document['date']} is in the future"
    counts = {"passed": len(lines), "failed": len(names), "skipped": sum(it if isinstance(it, int) else len(it) for it in skipped)}
    for outcome, count in counts.items():
        if statistics[outcome] != count:
            yield f"the statistics have {statistics[outcome]} {outcome} cases, and the report names {count}"
    for name, count in Counter(lines + names).items():
        if count > 1:
            yield f"{name} is there {count} times"
    unexplained = {}
    for name, whose, why in failed:
        entry = next((entry for entry in given if report.matches(entry, name)), None)
        if entry is None or (entry["whose"], entry["why"]) != (whose, why):
            unexplained.setdefault(why, []).append(name)
    for why, cases in unexplained.items():
        more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        yield f"{cases[0]}{more}: conformance/reasons.toml does not have this reason: {why}"
    for entry in given:
        for pattern in entry["cases"]:
            if not any(report.is_like(name, pattern) for name in names):
                yield f"no failed case has the pattern {pattern} of conformance/reasons.toml; remove it"
    outcomes = {name: ("passed", "") for name in lines}
    outcomes.update({name: (FAILED, "") for name in names})
    outcomes.update({name: (SKIPPED, "") for it in skipped if not isinstance(it, int) for name in it})
    for name, outcome, _ in report.fallen(root, suite, outcomes):
        yield f"{name} has passed before and does not pass now: {outcome}"
