"""The suites: what they are, where they come from, and how they run."""

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
import venv
from dataclasses import dataclass, field
from pathlib import Path

import results
from servers import Failure, Servers


#: The locks of the suites that this process has run.
LOCKS = []


@dataclass
class Suite:
    """A suite, as suites.toml has it."""

    name: str
    #: What it is, as the page says it.
    title: str
    version: str
    #: `pypi NAME`, `npm NAME`, or `directory NAME` for what the caller provides.
    source: str
    #: Of the archive, or of all files of the directory but `vendor` and `.git`.
    sha256: str
    #: The program that it tests.
    subject: str
    #: How the program runs: the profile of the report.
    profile: str
    #: Its last command, whose results count.
    run: list
    #: `junit FILE`, `junit FILE REGULAR-EXPRESSION` for only some names, or `lines REGULAR-EXPRESSION` over the output.
    results: str
    #: Seconds.
    limit: int = 900
    #: Packages of PyPI in an environment of its own, whose programs are on PATH.
    packages: list = field(default_factory=list)
    #: Packages of npm beside its files.
    node_packages: list = field(default_factory=list)
    build: list = field(default_factory=list)
    #: Runs a failed case that has passed before again, up to three times, if cases of the suite fail at random: the command, with `{case}` or
    #: `{test}`, or for the whole suite.
    again: list = field(default_factory=list)
    #: Programs of ours that run meanwhile, with their arguments: `cloudsim`, `runtime`, `broker`.
    servers: dict = field(default_factory=dict)
    #: Applied to the cloud before it runs.
    objects: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    #: Files of ours that are put beside the suite's, with `@mqtt_port@` and so on replaced.
    files: dict = field(default_factory=dict)
    #: The folder in which it runs, in its files.
    folder: str = "."
    #: Where the files of a directory come from.
    origin: str = ""
    #: An OCI archive beside the suite's directory, which the caller provides: the images of its pods.
    images: str = ""

    def __post_init__(self):
        if self.kind not in ("pypi", "npm", "directory"):
            raise ValueError(f"no source is called {self.kind}; there are pypi, npm and directory")

    @property
    def kind(self):
        return self.source.split()[0]

    @property
    def package(self):
        return self.source.split()[1]


def read(root):
    """Returns the suites of a repository by name."""
    try:
        with open(root / "conformance/suites.toml", "rb") as file:
            return {name: Suite(name=name, **entry) for name, entry in tomllib.load(file).items()}
    except (ValueError, TypeError) as error:
        raise Failure(f"conformance/suites.toml cannot be read: {error}") from error


def work(suite, built):
    return Path(built).resolve() / "judges" / suite.name


def remove_work(suite, built):
    """Removes what the suite has written, but not its files and what was built of them."""
    shutil.rmtree(work(suite, built) / "run", ignore_errors=True)


def run_again(suite, cases, again, passed):
    """Runs failed cases that have passed before up to three more times. `again` runs the suite's command for a case and returns those that
    pass: that case, or any if the command names none."""
    is_alone = any(field in word for word in suite.again for field in ("{case}", "{test}"))
    for _ in range(3):
        failed = [name for name, outcome, _ in cases if outcome == results.FAILED and name in passed]
        better = set()
        for name in failed if is_alone else failed[:1]:
            better |= again(name) & ({name} if is_alone else set(failed))
        for number, (name, _, message) in enumerate(cases):
            if name in better:
                print(f"{suite.name}: {name} failed, and passed when it was run again", flush=True)
                cases[number] = (name, results.PASSED, message)


def run(suite, built, given, passed, cluster=None):
    """Runs a suite, against another cluster if its kubeconfig is given; returns its cases: (name, outcome, message). `passed` are the cases that
    have passed before."""
    print(f"{suite.name} {suite.version}", flush=True)
    here = work(suite, built)
    here.mkdir(parents=True, exist_ok=True)
    # held until this process ends
    lock = open(here / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise Failure(f"another run of this suite is under way in {here}; wait for its end") from error
    LOCKS.append(lock)
    source = fetch(suite, here, given)
    remove_work(suite, built)
    (here / "run").mkdir(exist_ok=True)
    judges = Path(__file__).resolve().parent
    names = {"source": source, "run": here / "run", "built": built, "judges": judges, "root": judges.parents[1], "kubectl": built / "python/bin/kubectl"}
    path = [str(built / "python/bin"), os.environ["PATH"]]
    if suite.packages:
        path.insert(0, str(environment(here, suite.packages)))
    if suite.node_packages:
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", source, *suite.node_packages]
        execute(command, source, dict(os.environ), here / "npm.log", 600)
    env = {**os.environ, "PATH": ":".join(path), "HOME": str(here / "home"), "CARGO_HOME": os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")),
           "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")), "CARGO_TARGET_DIR": str(here / "target")}
    (here / "home").mkdir(exist_ok=True)
    fill = lambda text: str(text).format(**names)
    for number, command in enumerate(suite.build):
        execute([fill(word) for word in command], source, env, here / f"build-{number}.log", 1800)
    images = given / suite.images if suite.images else None
    with Servers(suite, built, here / "run", cluster, images) as running:
        names.update(running.names)
        for name, target in suite.files.items():
            place = source / target
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(replace((judges / name).read_text(), names))
        env.update({name: fill(value) for name, value in suite.env.items()})
        for document in suite.objects:
            execute([fill("{kubectl}"), "apply", "--server-side", "-f", fill(document)], source, env, here / "run/objects.log", 120)
        log = here / "suite.log"
        # a suite that found faults ends with an error: its results say so
        code = execute([fill(word) for word in suite.run], source / suite.folder, env, log, suite.limit, must_succeed=False)
        form = fill(suite.results) if suite.results.startswith("junit") else suite.results
        cases = read_results(form, log)
        count = lambda wanted: sum(outcome == wanted for _, outcome, _ in cases)
        where = f"its output is in {log} and {log.with_suffix('.errors').name}"
        if not count(results.PASSED) and not count(results.FAILED):
            raise Failure(f"no case ran; {where}")
        if code < 0 or code > 0 and not count(results.FAILED):
            raise Failure(f"the suite ended with {code}, and its {len(cases)} results do not say why: not all cases ran; {where}")

        def again(case):
            # pytest selects by the name of a function or of its parameter
            names.update(case=case, test=case.rpartition(".")[2].rstrip("]").rpartition("[")[2])
            execute([fill(word) for word in suite.again], source / suite.folder, env, here / "again.log", suite.limit, must_succeed=False)
            return {name for name, outcome, _ in read_results(form, here / "again.log") if outcome == results.PASSED}

        if suite.again:
            run_again(suite, cases, again, passed)
    return cases


def read_results(form, log):
    try:
        return results.read(form, log)
    except (OSError, SyntaxError) as error:
        raise Failure(f"its results cannot be read: {error}; its output is in {log}") from error


def replace(text, names):
    """Replaces `@name@`."""
    for name, value in names.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def environment(here, packages):
    """Makes an environment with these packages; returns the folder of its programs."""
    mark = here / "venv/packages"
    if not mark.exists() or mark.read_text() != "\n".join(packages):
        venv.create(here / "venv", clear=True, with_pip=True)
        execute([here / "venv/bin/pip", "install", "--quiet", *packages], here, dict(os.environ), here / "pip.log", 900)
        mark.write_text("\n".join(packages))
    return here / "venv/bin"


def execute(command, folder, env, log, limit, must_succeed=True):
    """Runs a command with its output in a file, and its errors in one beside it; returns its exit code. What it has started ends with it."""
    command, errors_log = [str(word) for word in command], Path(log).with_suffix(".errors")
    with open(log, "wb") as output, open(errors_log, "wb") as errors:
        try:
            process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True)
        except OSError as error:
            raise Failure(f"cannot run {command[0]}: {error}") from error
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired as expired:
            raise Failure(f"{command[0]} did not end within {limit} s; its output is in {log}") from expired
        finally:
            # also after a signal to this process
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    if must_succeed and code != 0:
        told = "".join(path.read_text(errors="replace")[-1500:] for path in (Path(log), errors_log))
        raise Failure(f"{' '.join(command[:3])} failed; its output is in {log} and {errors_log.name}:\n{told}")
    return code


def fetch(suite, here, given):
    """Returns the folder with the suite's files, after their checksum was compared."""
    source, mark = here / "source", here / "source.sha256"
    if suite.kind == "directory":
        found = given / suite.package
        if not found.is_dir():
            raise Failure(f"{found} does not exist; put version {suite.version} of {suite.package} there")
        compare(suite, of_files(found), found)
        if not mark.exists() or mark.read_text() != suite.sha256:
            shutil.rmtree(source, ignore_errors=True)
            shutil.copytree(found, source, symlinks=True, ignore=shutil.ignore_patterns(".git"))
            mark.write_text(suite.sha256)
        return source
    if not mark.exists() or mark.read_text() != suite.sha256:
        archive = download(suite, here)
        compare(suite, hashlib.sha256(archive.read_bytes()).hexdigest(), archive)
        shutil.rmtree(source, ignore_errors=True)
        with tarfile.open(archive) as opened:
            opened.extractall(here / "unpacked", filter="data")
        (only,) = (here / "unpacked").iterdir()
        only.rename(source)
        (here / "unpacked").rmdir()
        archive.unlink()
        mark.write_text(suite.sha256)
    return source


def download(suite, here):
    """Downloads the archive of a suite from its registry."""
    folder = here / "archive"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(here / "unpacked", ignore_errors=True)
    folder.mkdir()
    pinned = {"pypi": f"{suite.package}=={suite.version}", "npm": f"{suite.package}@{suite.version}"}.get(suite.kind)
    if suite.kind == "pypi":
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", suite.package, "--dest", folder, pinned]
    else:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, pinned]
    execute(command, here, dict(os.environ), here / "download.log", 600)
    (archive,) = folder.iterdir()
    return archive


def of_files(folder):
    """Returns a checksum of all files of a folder: of their paths and contents, without .git and dependencies."""
    whole = hashlib.sha256()
    is_own = lambda path: path.is_file() and not {".git", "vendor"} & set(path.relative_to(folder).parts[:1])
    files = sorted(path for path in folder.rglob("*") if is_own(path))
    for path in files:
        whole.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def compare(suite, found, path):
    if found != suite.sha256:
        raise Failure(f"{path} has the checksum {found}, not {suite.sha256} of conformance/suites.toml: it is not version {suite.version}")
