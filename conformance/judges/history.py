"""What the reports of earlier commits say, from git. Without a repository, only what the files say."""

import subprocess

import yaml

REPORTS = "conformance/reports/suites"


def git(root, *arguments):
    """Returns the output of git; nothing if it fails."""
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True).stdout


def suites(root):
    """Returns the names of all suites that have had a report in a commit."""
    files = git(root, "log", "--format=", "--name-only", "--", REPORTS).split()
    return {name.rpartition("/")[2].removesuffix(".passed") for name in files if name.endswith(".passed")}


def passed(root, name):
    """Returns the cases of a suite that have passed, in this repository or any commit before: version → names."""
    path, found = f"{REPORTS}/{name}", {}
    commits = git(root, "log", "--format=%H", "--", f"{path}.passed").split()
    texts = [[git(root, "show", f"{commit}:./{path}{ending}") for ending in (".yaml", ".passed")] for commit in commits]
    here = [root / f"{path}{ending}" for ending in (".yaml", ".passed")]
    if all(file.exists() for file in here):
        texts.append([file.read_text() for file in here])
    for report, names in texts:
        try:
            version = str(yaml.safe_load(report)["suite"]["version"])
        except (yaml.YAMLError, TypeError, KeyError):
            # `check` tells that of the present one
            continue
        found.setdefault(version, set()).update(names.splitlines())
    return found
