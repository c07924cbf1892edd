"""Sends requests that schemathesis makes of the cloud's own OpenAPI documents: python openapi.py FOLDER.

An operation passes if no answer is an error of the server, and each answer has a documented content type and fits the published schema.
Watches are left out: their answers have no end, and no schema.
"""

import base64
import json
import os
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

import yaml

CHECKS = "not_a_server_error,response_schema_conformance,content_type_conformance"
#: Its requests delete definitions, which others need.
LAST = "apis/apiextensions.k8s.io/v1"
#: For one document, seconds.
LIMIT = 600


def credentials(folder):
    """Writes the administrator's certificate; returns the server and the options that name the files."""
    kubeconfig = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    files = {"ca": cluster["certificate-authority-data"], "cert": user["client-certificate-data"], "key": user["client-key-data"]}
    for name, text in files.items():
        (folder / f"{name}.pem").write_bytes(base64.b64decode(text))
    return cluster["server"], folder / "ca.pem", folder / "cert.pem", folder / "key.pem"


def without_watches(document):
    """Removes the parameters of watches."""
    for path in document["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict) and "parameters" in operation:
                operation["parameters"] = [one for one in operation["parameters"] if one.get("name") not in ("watch", "timeoutSeconds")]
        if "parameters" in path:
            path["parameters"] = [one for one in path["parameters"] if one.get("name") not in ("watch", "timeoutSeconds")]
    return document


def cases(report):
    """Returns name, outcome and message of each operation."""
    for case in ElementTree.parse(report).iter("testcase"):
        failures = [*case.iter("failure"), *case.iter("error")]
        why = " ".join(f"{one.get('message') or ''} {one.text or ''}" for one in failures)
        yield case.get("name"), "FAILED" if failures else "PASSED", " ".join(why.split())[:600]


def main():
    folder = Path(sys.argv[1]).resolve()
    server, ca, cert, key = credentials(folder)
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(cert, key)

    def get(path):
        with urllib.request.urlopen(f"{server}{path}", context=context, timeout=60) as answer:
            return json.load(answer)

    documents = get("/openapi/v3")["paths"]
    for group in sorted(documents, key=lambda group: (group == LAST, group)):
        document = without_watches(get(documents[group]["serverRelativeURL"]))
        if not document["paths"]:
            continue
        name = group.replace("/", "_")
        file, report = folder / f"{name}.json", folder / f"{name}.xml"
        file.write_text(json.dumps(document))
        command = ["schemathesis", "run", file, "--url", server, "--tls-verify", ca, "--request-cert", cert, "--request-cert-key", key,
                   "--checks", CHECKS, "--phases", "fuzzing", "--max-examples", "5", "--generation-deterministic", "--no-shrink",
                   "--request-timeout", "20", "--continue-on-failure", "--report", "junit", "--report-junit-path", report]
        output = folder / f"{name}.txt"
        with open(output, "wb") as text:
            subprocess.run([str(word) for word in command], stdout=text, stderr=text, cwd=folder, timeout=LIMIT)
        if not report.exists():
            print(f"FAILED {group} :: {' '.join(output.read_text().split())[-600:]}", flush=True)
            continue
        for case, outcome, why in cases(report):
            print(f"{outcome} {case} :: {why}", flush=True)


main()
