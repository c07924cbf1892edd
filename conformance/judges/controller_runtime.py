"""Runs the tests of controller-runtime. Packages that need an API server get a cloud of their own as their existing cluster, without
controllers, as the test environment of controller-runtime has none.

Usage: python controller_runtime.py build FOLDER         compiles the tests of all packages into FOLDER
       python controller_runtime.py run FOLDER TARGET    runs them with the programs in cargo's target directory; prints a line for each case
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import types
import xml.etree.ElementTree as xml
from contextlib import nullcontext
from pathlib import Path

from servers import Servers

#: How long the tests of one package may take, seconds.
LIMIT = 300
GO = ["-mod=vendor", "-modfile=vendor/controller-runtime.mod"]


#: Starts and stops a kube-apiserver and an etcd of its own.
WITHOUT = {"internal/testing/controlplane"}
CLOUD = types.SimpleNamespace(servers={"cloudsim": ["--nodes", "0", "--controllers", ""]})


def packages():
    """Returns the packages with tests: their path, and the text of the tests."""
    listed = subprocess.run(["go", "list", *GO, "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles", "./pkg/..."], check=True, capture_output=True, text=True)
    decoder, text = json.JSONDecoder(), listed.stdout
    while text.strip():
        one, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        files = [Path(one["Dir"]) / name for name in one.get("TestGoFiles", []) + one.get("XTestGoFiles", [])]
        name = one["ImportPath"].partition("/pkg/")[2]
        if files and name not in WITHOUT:
            yield name, "".join(file.read_text() for file in files)


def build(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, _ in packages():
        subprocess.run(["go", "test", *GO, "-c", "-o", folder / name.replace("/", "_"), f"./pkg/{name}"], check=True)


def run(folder, built):
    for name, text in packages():
        is_ginkgo = "RunSpecs(" in text
        with tempfile.TemporaryDirectory() as directory:
            report = Path(directory) / "junit.xml"
            command = [folder.resolve() / name.replace("/", "_"), "-test.v", f"-test.timeout={LIMIT}s"]
            if is_ginkgo:
                command += [f"-ginkgo.junit-report={report}", "-ginkgo.no-color", f"-ginkgo.timeout={LIMIT - 10}s"]
            with Servers(CLOUD, built, directory, None) if re.search(r"envtest\.Environment|&Environment\{", text) else nullcontext() as cloud:
                env = {**os.environ, "USE_EXISTING_CLUSTER": "true", "KUBECONFIG": str(cloud.names["kubeconfig"]) if cloud else ""}
                try:
                    output = subprocess.run(command, cwd=f"pkg/{name}", env=env, capture_output=True, text=True, errors="replace", timeout=LIMIT + 30).stdout
                except subprocess.TimeoutExpired:
                    output = ""
            print(output, file=sys.stderr)
            cases = list(of_ginkgo(report)) if is_ginkgo else []
            skipped = suites(text) if cases else set()
            cases += [case for case in of_go(output) if case[0] not in skipped]
            for case, outcome, message in cases:
                print(f"{outcome} {name}: {case} :: {' '.join(message.split())[:300]}", flush=True)


def suites(text):
    """Returns the functions of a package that only run ginkgo: its cases count instead."""
    return set(re.findall(r"func (Test\w+)\([^{]*\{(?:(?!\nfunc ).)*?RunSpecs\(", text, re.S))


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
    {"build": build, "run": run}[sys.argv[1]](*map(Path, sys.argv[2:]))
