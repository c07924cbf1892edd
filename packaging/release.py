"""Builds all files of a release: python3 packaging/release.py --pages DIR --tools DIR --output DIR [--processor NAME ...]

`make release` calls it, and installs what it needs. For each processor it builds both programs, statically linked with musl; the C compiler
and linker are zig's. Then it writes packages (package.py), an image of each program for all processors (archive.py), the chart, the list
of crates as CycloneDX, their licences, install.sh and SHA256SUMS. The same sources and tools make the same bytes. No Docker, no root.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# the name in files -> Rust's target
TARGETS = {
    "x86_64": "x86_64-unknown-linux-musl",
    "aarch64": "aarch64-unknown-linux-musl",
    "armv7": "armv7-unknown-linux-musleabihf",
    "riscv64": "riscv64gc-unknown-linux-musl",
}
# the program -> its crate
PROGRAMS = {"edge-agent": "agent", "cloudsim": "hollow"}
# crates that a release builds with a nightly option where rustup has no standard library of a target
STANDARD_LIBRARY = "-Zbuild-std=std,panic_unwind"


def run(*command, **options):
    print("+", " ".join(str(word) for word in command), flush=True)
    return subprocess.run([str(word) for word in command], check=True, cwd=ROOT, **options)


def text(*command):
    return subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def environment(tools):
    """The variables of a build: nothing in the result depends on where it was built, or when."""
    cargo = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    paths = {str(ROOT): "/outrigger", f"{cargo}/registry/src": "/crates", text("rustc", "--print", "sysroot"): "/rust"}
    return {
        **os.environ,
        "PATH": f"{tools}/bin:{os.environ['PATH']}",
        "OUTRIGGER_COMMIT": text("git", "rev-parse", "--short=12", "HEAD"),
        "SOURCE_DATE_EPOCH": "0",
        "CARGO_INCREMENTAL": "0",
        # the variable replaces the flags of .cargo/config.toml
        "RUSTFLAGS": " ".join(["--cfg=tokio_unstable", *(f"--remap-path-prefix={path}={name}" for path, name in paths.items())]),
        "CFLAGS": " ".join(f"-ffile-prefix-map={path}={name}" for path, name in paths.items()),
    }


def build(processor, folder, variables):
    """Builds both programs for a processor; returns their files."""
    target, options = TARGETS[processor], []
    has_library = subprocess.run(["rustup", "target", "add", target], cwd=ROOT, capture_output=True).returncode == 0
    if not has_library:
        print(f"rustup has no standard library for {target}: it is built from rust-src", flush=True)
        run("rustup", "component", "add", "rust-src")
        # zig has the objects of musl, which come with rustup's library otherwise
        flags = f"{variables['RUSTFLAGS']} -C link-self-contained=no"
        options, variables = [STANDARD_LIBRARY], {**variables, "RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": flags}
    packages = [word for crate in PROGRAMS.values() for word in ("--package", crate)]
    bins = [word for program in PROGRAMS for word in ("--bin", program)]
    # one after the other, in cargo auditable, which writes the list of crates into each program
    run("cargo", "auditable", "zigbuild", "--locked", "--release", "--target", target, "--target-dir", folder, *options, *packages, *bins,
        env=variables)
    return {program: folder / target / "release" / program for program in PROGRAMS}


def write_chart(output, version):
    """Packs the chart. Helm's archive contains the time of packing; this one does not."""
    run("helm", "lint", "--quiet", "charts/cloudsim")
    chart = ROOT / "charts" / "cloudsim"
    unpacked = output / "chart"
    run("helm", "package", chart, "--version", version, "--app-version", version, "--destination", unpacked)
    archive = next(unpacked.glob("*.tgz"))
    subprocess.run(["tar", "--extract", "--gzip", "--file", archive, "--directory", unpacked], check=True)
    with open(output / archive.name, "wb") as file:
        packed = subprocess.Popen(["gzip", "--best", "--no-name"], stdin=subprocess.PIPE, stdout=file)
        with tarfile.open(fileobj=packed.stdin, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
            for path in sorted((unpacked / "cloudsim").rglob("*")):
                if path.is_file():
                    info = tarfile.TarInfo(str(path.relative_to(unpacked)))
                    info.size, info.mode = path.stat().st_size, 0o644
                    with open(path, "rb") as content:
                        tar.addfile(info, content)
        packed.stdin.close()
        if packed.wait() != 0:
            raise SystemExit("failed to compress the chart")
    shutil.rmtree(unpacked)


def write_materials(output, version, targets, variables):
    """Writes, for each program, the crates that it is made of (CycloneDX) and their licences."""
    for program, crate in PROGRAMS.items():
        name = f"{program}-{version}.cdx"
        run("cargo", "cyclonedx", "--manifest-path", ROOT / crate / "Cargo.toml", "--format", "json", "--override-filename", name,
            "--target", targets[0], env=variables)
        # it writes a file beside each manifest of the workspace
        for path in ROOT.glob(f"**/{name}.json"):
            if path.parent.name == crate:
                shutil.move(path, output / path.name)
            else:
                path.unlink()
        licences = output / f"{program}-{version}-licences.html"
        run("cargo", "about", "generate", "--locked", "--fail", "--manifest-path", ROOT / crate / "Cargo.toml", "--config",
            ROOT / "packaging/about.toml", "--output-file", licences, ROOT / "packaging/about.hbs", env=variables)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", required=True, help="the folder with man pages and completions, which make man writes")
    parser.add_argument("--tools", required=True, help="the folder with bin/ of cargo-auditable, cargo-cyclonedx and cargo-about")
    parser.add_argument("--build", required=True, help="the folder to build in")
    parser.add_argument("--output", required=True, help="the folder for the files; its earlier files are removed")
    parser.add_argument("--processor", action="append", choices=TARGETS, help="one processor of several; default: all")
    arguments = parser.parse_args()
    processors = arguments.processor or list(TARGETS)
    output, folder = pathlib.Path(arguments.output).resolve(), pathlib.Path(arguments.build).resolve()
    version = re.search(r'\[workspace\.package\][^\[]*?\nversion = "([^"]+)"', (ROOT / "Cargo.toml").read_text()).group(1)
    variables = environment(pathlib.Path(arguments.tools).resolve())

    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    write_materials(output, version, [TARGETS[processor] for processor in processors], variables)
    built = {processor: build(processor, folder, variables) for processor in processors}
    for program in PROGRAMS:
        for processor in processors:
            run(sys.executable, "packaging/package.py", "--program", built[processor][program], "--name", program, "--version", version,
                "--pages", arguments.pages, "--licences", output / f"{program}-{version}-licences.html", "--output", output)
        files = [word for processor in processors for word in ("--program", built[processor][program])]
        rights = ["--root"] if program == "edge-agent" else []
        # as node jobs name versions
        tag = f"v{version}" if program == "edge-agent" else version
        run(sys.executable, "image/archive.py", *files, *rights, "--name", program, "--tag", f"docker.io/outrigger/{program}:{tag}",
            "--version", version, "--output", output / f"{program}-{version}-image.tar")
    write_chart(output, version)
    shutil.copy(ROOT / "packaging/install.sh", output)
    files = sorted(path for path in output.iterdir())
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (output / "SHA256SUMS").write_text(sums)
    print(f"{len(files) + 1} files in {output}")


if __name__ == "__main__":
    main()
