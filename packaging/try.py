"""Runs the files of a release as a user would: python3 packaging/try.py --files DIR [--processor NAME ...] [--limit SECONDS]

For each processor, the agent of the archive joins a cloud, becomes Ready on a simulated runtime and runs a pod; then the cloud of the archive
starts with one simulated node. Programs for other processors run under qemu-user (qemu-ARM-static and others, Debian's qemu-user-static).
The packages must contain the same programs, and the images one for each processor. SHA256SUMS must match. Exits with 1 if anything fails.
"""

import argparse
import hashlib
import json
import pathlib
import platform
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

# the name in files -> qemu's, Debian's, rpm's, and that of images
NAMES = {
    "x86_64": ("x86_64", "amd64", "x86_64", "amd64"),
    "aarch64": ("aarch64", "arm64", "aarch64", "arm64"),
    "armv7": ("arm", "armhf", "armv7hl", "arm"),
    "riscv64": ("riscv64", "riscv64", "riscv64", "riscv64"),
}
POD = json.dumps({
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hello"},
    "spec": {"containers": [{"name": "hello", "image": "busybox"}]},
})


def text(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, **options).stdout


def until(what, limit, check):
    """Waits until the check returns something; returns the seconds that it took."""
    begin = time.monotonic()
    while True:
        found = check()
        if found:
            return time.monotonic() - begin
        if time.monotonic() - begin > limit:
            raise SystemExit(f"{what}: not within {limit} s")
        time.sleep(0.2)


class Release:
    def __init__(self, files, folder):
        self.files, self.folder = files, folder
        self.version = next(files.glob("cloudsim-*.tgz")).name.removeprefix("cloudsim-").removesuffix(".tgz")

    def check_sums(self):
        names = set()
        for line in (self.files / "SHA256SUMS").read_text().splitlines():
            digest, name = line.split()
            if hashlib.sha256((self.files / name).read_bytes()).hexdigest() != digest:
                raise SystemExit(f"{name} is not what SHA256SUMS says")
            names.add(name)
        others = {path.name for path in self.files.iterdir()} - names - {"SHA256SUMS"}
        if others:
            raise SystemExit(f"SHA256SUMS lacks {', '.join(sorted(others))}")

    def program(self, name, processor):
        """Unpacks an archive; returns the command that runs its program on this machine."""
        folder = self.folder / processor
        if not folder.exists() or not (folder / f"{name}-{self.version}").exists():
            folder.mkdir(exist_ok=True)
            archive = self.files / f"{name}-{self.version}-{processor}.tar.zst"
            packed = subprocess.run(["zstd", "--decompress", "--stdout", archive], check=True, capture_output=True).stdout
            subprocess.run(["tar", "--extract", "--directory", folder], input=packed, check=True)
        path = folder / f"{name}-{self.version}" / "usr" / "bin" / name
        emulator = [] if processor == platform.machine() else [f"qemu-{NAMES[processor][0]}-static"]
        return [*emulator, str(path)]

    def check_packages(self, name, processor):
        """The packages hold the program of the archive, for this processor."""
        expected = pathlib.Path(self.program(name, processor)[-1]).read_bytes()
        _, debian, rpm, _ = NAMES[processor]
        package = self.files / f"{name}-{self.version}-{processor}"
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["dpkg-deb", "--extract", f"{package}.deb", folder], check=True)
            found = (pathlib.Path(folder) / "usr" / "bin" / name).read_bytes()
        architecture = text(["dpkg-deb", "--field", f"{package}.deb", "Architecture"]).strip()
        if found != expected or architecture != debian:
            raise SystemExit(f"{package}.deb is for {architecture}, or has another program than the archive")
        query = text(["rpm", "--query", "--package", f"{package}.rpm", "--queryformat", "%{ARCH}\n[%{FILENAMES} %{FILEDIGESTS}\n]"])
        if query.splitlines()[0] != rpm or f"/usr/bin/{name} {hashlib.sha256(expected).hexdigest()}" not in query:
            raise SystemExit(f"{package}.rpm is for {query.splitlines()[0]}, or has another program than the archive")

    def check_image(self, name, processors):
        with tarfile.open(self.files / f"{name}-{self.version}-image.tar") as archive:
            index = json.load(archive.extractfile("index.json"))
            digest = index["manifests"][0]["digest"].removeprefix("sha256:")
            manifest = json.load(archive.extractfile(f"blobs/sha256/{digest}"))
        entries = manifest.get("manifests") or index["manifests"]
        found = {entry["platform"]["architecture"] for entry in entries}
        if found != {NAMES[processor][3] for processor in processors}:
            raise SystemExit(f"the image of {name} is for {found}")


class Cloud:
    """A cloud of this machine's processor, or another one, on free ports."""

    def __init__(self, command, folder, *options):
        folder.mkdir(parents=True)
        self.kubeconfig, self.command = folder / "kubeconfig", command
        ports = [f"--{name}-port=0" for name in ("api", "https", "ws", "tunnel")]
        self.log = open(folder / "log", "w+")
        arguments = [*command, "up", *ports, "--kubeconfig", self.kubeconfig, "--data-dir", folder / "data", "--log-filter", "info", *options]
        self.process = subprocess.Popen(arguments, stdout=self.log, stderr=self.log)

    def nodes(self):
        if self.process.poll() is not None:
            raise SystemExit(f"the cloud has ended: {pathlib.Path(self.log.name).read_text()[-2000:]}")
        if not self.kubeconfig.exists():
            return []
        listed = subprocess.run(
            ["kubectl", "--kubeconfig", self.kubeconfig, "get", "nodes", "-o", "json"], capture_output=True, text=True, timeout=60)
        return json.loads(listed.stdout)["items"] if listed.returncode == 0 else []

    def has_ready(self):
        conditions = [condition for node in self.nodes() for condition in node["status"].get("conditions", [])]
        return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def port_of(log, word):
    line = next((line for line in pathlib.Path(log).read_text().splitlines() if "Ports " in line), "")
    return next((part.split()[0] for part in line.split("Ports", 1)[-1].split(",") if word in part), None) if line else None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def try_processor(release, processor, native, limit):
    folder, node = release.folder / f"run-{processor}", processor.replace("_", "-")
    folder.mkdir()
    cloud = Cloud(release.program("cloudsim", native), folder / "cloud")
    started = []
    try:
        until("the cloud", limit, lambda: port_of(cloud.log.name, "CloudHub"))
        ports = {word: port_of(cloud.log.name, word) for word in ("CloudHub", "certificates", "logs")}
        token = text([*release.program("cloudsim", native), "token", "--kubeconfig", cloud.kubeconfig]).strip()
        endpoint = folder / "cri.sock"
        with open(folder / "agent.log", "w") as log:
            started.append(subprocess.Popen([*release.program("cloudsim", native), "runtime", "--socket", endpoint], stdout=log, stderr=log))
            until("the runtime", limit, endpoint.exists)
            begin = time.monotonic()
            command = [
                *release.program("edge-agent", processor), "join", "--foreground", "--root", folder / "node", "--name", node,
                "--cloud", f"127.0.0.1:{ports['CloudHub']}", "--cert-port", ports["certificates"], "--tunnel-port", ports["logs"],
                "--token", token, "--runtime-endpoint", f"unix://{endpoint}", "--read-only-port", "0", "--mqtt-port", free_port(),
            ]
            started.append(subprocess.Popen(command, stdout=log, stderr=log))
        agent = started[-1]

        def is_ready():
            if agent.poll() is not None:
                raise SystemExit(f"the agent has ended: {(folder / 'agent.log').read_text()[-2000:]}")
            return cloud.has_ready()

        until(f"edge-agent for {processor} Ready", limit, is_ready)
        ready = time.monotonic() - begin
        kubectl = ["kubectl", "--kubeconfig", cloud.kubeconfig]
        text([*kubectl, "apply", "--filename", "-"], input=POD)
        text([*kubectl, "wait", "--for=condition=Ready", "pod/hello", f"--timeout={limit}s"])
        memory = pathlib.Path(f"/proc/{agent.pid}/status").read_text().split("VmRSS:")[1].split("kB")[0].strip()
        # the volume of its token is a mount
        text([*kubectl, "delete", "pod/hello", f"--timeout={limit}s"])
        print(f"edge-agent {processor}: Ready after {ready:.1f} s, a pod runs; {int(memory) / 1000:.1f} MB resident", flush=True)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)
        cloud.stop()

    own = Cloud(release.program("cloudsim", processor), folder / "own", "--nodes", "1")
    try:
        ready = until(f"cloudsim for {processor} with a node", limit, own.has_ready)
        print(f"cloudsim {processor}: a simulated node Ready after {ready:.1f} s", flush=True)
    finally:
        own.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", required=True, help="the folder that make release wrote")
    parser.add_argument("--processor", action="append", choices=NAMES, help="one processor of several; default: all")
    parser.add_argument("--limit", type=int, default=60, help="seconds until a node is Ready; default: %(default)s")
    arguments = parser.parse_args()
    processors, native = arguments.processor or list(NAMES), platform.machine()
    if native not in NAMES:
        sys.exit(f"there is no release for this machine, {native}")
    with tempfile.TemporaryDirectory() as folder:
        release = Release(pathlib.Path(arguments.files).resolve(), pathlib.Path(folder))
        release.check_sums()
        for name in ("edge-agent", "cloudsim"):
            for processor in processors:
                release.check_packages(name, processor)
            release.check_image(name, processors)
        print("sums, packages and images match", flush=True)
        for processor in processors:
            try_processor(release, processor, native, arguments.limit)


if __name__ == "__main__":
    main()
