"""Runs suites that others wrote against our programs, writes a report of each, and fails if a case fails that has passed before.

Usage: python conformance/judges run [--suite NAME]... [--suites DIRECTORY] [--built DIRECTORY] [--cluster KUBECONFIG]
       python conformance/judges check [--root DIRECTORY]   without running anything: the reports, their reasons and the page agree
       python conformance/judges page                       writes the page anew
With $KEEP, what a suite has written is kept in `target/judges/NAME/run`.
The suites are in conformance/suites.toml, why cases fail in conformance/reasons.toml, the reports in conformance/reports/suites.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

import check
import history
import page
import report
import suites

ROOT = Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(prog="judges", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "check", "page"])
    parser.add_argument("--suite", action="append", default=[], help="run only this suite")
    parser.add_argument("--suites", type=Path, help="the directory with the suites that no registry has")
    parser.add_argument("--built", type=Path, default=ROOT / "target", help="cargo's target directory")
    parser.add_argument("--cluster", type=Path, help="a kubeconfig: run against this cluster instead of cloudsim, and write no report")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository whose reports are checked")
    options = parser.parse_args()
    # so that what runs is stopped
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: stopped by a signal; the current suite has no report"))
    try:
        known = suites.read(options.root)
        faults = run(options, known) if options.command == "run" else check.check(options.root, known)
        if options.command == "check":
            # the page is made of reports that are right
            faults = faults or page.check(options.root, known)
        elif not options.cluster:
            page.write(options.root, known)
    except suites.Failure as failure:
        faults = [failure]
    except KeyboardInterrupt:
        sys.exit("error: stopped by a signal; the current suite has no report")
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    if not faults and options.command == "check":
        print(f"the reports of {len(known)} suites agree with their reasons, the page and all earlier commits")
    return 1 if faults else 0


def run(options, known):
    unknown = [name for name in options.suite if name not in known]
    if unknown:
        return [f"no suite {name} in conformance/suites.toml; it has {', '.join(sorted(known))}" for name in unknown]
    if options.cluster and not options.cluster.is_file():
        return [f"{options.cluster} does not exist; name a kubeconfig with --cluster"]
    faults = []
    for name in options.suite or sorted(known):
        suite = known[name]
        if suite.kind == "directory" and not options.suites:
            origin = suite.origin or "conformance/suites.toml says where from"
            print(f"{name}: not run; get version {suite.version} ({origin}) as DIRECTORY/{suite.package}, and give SUITES=DIRECTORY")
            continue
        if options.cluster and "cloudsim" not in suite.servers:
            print(f"{name}: not run; it does not test a cluster")
            continue
        try:
            passed = set().union(*history.passed(options.root, name).values())
            given = options.suites and options.suites.resolve()
            cases = suites.run(suite, options.built.resolve(), given, passed, options.cluster)
        except suites.Failure as failure:
            faults.append(f"{name}: {failure}")
            continue
        if options.cluster:
            print("".join(f"{name}: {outcome} {case} {message}\n" for case, outcome, message in cases), end="")
            continue
        faults += report.write(options.root, suite, cases)
        if os.environ.get("KEEP") is None:
            suites.remove_work(suite, options.built)
    return faults


if __name__ == "__main__":
    sys.exit(main())
