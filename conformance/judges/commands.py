"""What judges of manifests share: they run kubectl and helm, and print a line for each case."""

import subprocess


def run(*command, given=None, limit=120):
    return subprocess.run([str(word) for word in command], input=given, capture_output=True, text=True, timeout=limit)


def tell(outcome, name, why):
    print(f"{outcome} {name} :: {' '.join(why.split())}", flush=True)
