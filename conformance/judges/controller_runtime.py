"""Runs the tests of controller-runtime: each package with the API server of the kubeconfig as its existing cluster.

Usage: python controller_runtime.py build FOLDER   compiles the tests of all packages into FOLDER
       python controller_runtime.py run FOLDER     runs them; prints a line for each case
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

#: How long the tests of one package may take, seconds.
LIMIT = 300
GO = ["-mod=vendor", "-modfile=vendor/controller-runtime.mod"]


def packages():
    """Returns the packages with tests: their path, and whether ginkgo runs them."""
    listed = subprocess.run(["go", "list", *GO, "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles", "./pkg/..."], check=True, capture_output=True, text=True)
    decoder, text = json.JSONDecoder(), listed.stdout
    while text.strip():
        one, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        files = [Path(one["Dir"]) / name for name in one.get("TestGoFiles", []) + one.get("XTestGoFiles", [])]
        if files:
            yield one["ImportPath"].partition("/pkg/")[2], any("RunSpecs(" in file.read_text() for file in files)


def build(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, _ in packages():
        subprocess.run(["go", "test", *GO, "-c", "-o", folder / name.replace("/", "_"), f"./pkg/{name}"], check=True)


def run(folder):
    for name, is_ginkgo in packages():
        with tempfile.TemporaryDirectory() as directory:
            report = Path(directory) / "junit.xml"
            command = [folder.resolve() / name.replace("/", "_"), "-test.v", f"-test.timeout={LIMIT}s"]
            if is_ginkgo:
                command += [f"-ginkgo.junit-report={report}", "-ginkgo.no-color", f"-ginkgo.timeout={LIMIT - 10}s"]
            try:
                output = subprocess.run(command, cwd=f"pkg/{name}", capture_output=True, text=True, errors="replace", timeout=LIMIT + 30).stdout
            except subprocess.TimeoutExpired:
                output = ""
            print(output, file=sys.stderr)
            cases = list(of_ginkgo(report)) if is_ginkgo else []
            cases += [case for case in of_go(output) if not (is_ginkgo and cases and case[0] in suites(name))]
            for case, outcome, message in cases or [("all", "FAILED", "no result")]:
                print(f"{outcome} {name}: {case} :: {' '.join(message.split())[:300]}", flush=True)


def suites(name):
    """Returns the functions of a package that only run ginkgo: its cases count instead."""
    texts = [file.read_text() for file in Path(f"pkg/{name}").glob("*_test.go")]
    return {found for text in texts for found in re.findall(r"func (Test\w+)\([^{]*\{(?:(?!\nfunc ).)*?RunSpecs\(", text, re.S)}


def of_ginkgo(report):
    if not report.exists():
        return
    for case in xml.parse(report).iter("testcase"):
        name = case.get("name").removeprefix("[It] ")
        if re.match(r"\[\w+\]", name):
            failed = case.find("failure") is not None or case.find("error") is not None
            if failed and re.match(r"\[BeforeSuite\]", name):
                yield name, "FAILED", message(case)
            continue
        if case.find("skipped") is not None:
            yield name, "SKIPPED", case.find("skipped").get("message") or ""
        elif case.find("failure") is not None or case.find("error") is not None:
            yield name, "FAILED", message(case)
        else:
            yield name, "PASSED", ""


def message(case):
    found = case.find("failure") if case.find("failure") is not None else case.find("error")
    return found.get("message") or found.text or ""


def of_go(output):
    for outcome, name in re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+)", output, re.M):
        yield name, {"PASS": "PASSED", "FAIL": "FAILED", "SKIP": "SKIPPED"}[outcome], ""


if __name__ == "__main__":
    {"build": build, "run": run}[sys.argv[1]](Path(sys.argv[2]))
