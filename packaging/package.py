"""Packs one program as .tar.zst, .deb and .rpm: python3 packaging/package.py --program FILE --name edge-agent --version 0.1.0 --output DIR

The package holds the program, its service for systemd, man pages, completions, licences and examples. The same input makes the same bytes:
files are sorted, and all times are those of SOURCE_DATE_EPOCH, 0 by default. nfpm writes .deb and .rpm, and zstd compresses .tar.zst; both
are on PATH. Source of the forms: https://nfpm.goreleaser.com/docs/configuration/.
"""

import argparse
import datetime
import gzip
import io
import json
import os
import pathlib
import struct
import subprocess
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIME = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
# of e_machine in the header of an ELF file: the name in files, and nfpm's, which is Go's
ARCHITECTURES = {0x3E: ("x86_64", "amd64"), 0xB7: ("aarch64", "arm64"), 0x28: ("armv7", "arm7"), 0xF3: ("riscv64", "riscv64")}
PT_INTERP = 3
FORMATS = ("tar.zst", "deb", "rpm")

PACKAGES = {
    "edge-agent": {
        "description": "KubeEdge edge node agent\nRuns pods on an edge node, connects devices, and continues without the cloud.",
        "service": "agent/edge-agent.service",
        "recommends": ["containerd | cri-o"],
        "files": {
            "agent/src/config/minimal.yaml": "usr/share/doc/edge-agent/examples/edgecore.yaml",
            "packaging/10-bridge.conflist": "usr/share/doc/edge-agent/examples/10-bridge.conflist",
        },
        "settings": {"packaging/edge-agent.default": "etc/default/edge-agent"},
    },
    "cloudsim": {
        "description": "KubeEdge cloud in one process\nServes edge nodes, alone or beside an existing API server, and simulates nodes.",
        "service": "hollow/cloudsim.service",
        "recommends": [],
        "files": {"examples": "usr/share/doc/cloudsim/examples"},
        "settings": {"packaging/cloudsim.default": "etc/default/cloudsim"},
    },
}


def architecture(program):
    with open(program, "rb") as file:
        header = file.read(20)
    if header[:4] != b"\x7fELF" or len(header) < 20:
        raise SystemExit(f"{program} is not an ELF file")
    machine = int.from_bytes(header[18:20], "little")
    if machine not in ARCHITECTURES:
        raise SystemExit(f"{program}: unsupported processor {machine:#x}")
    return ARCHITECTURES[machine]


def is_dynamic(program):
    """Reports whether an ELF file has an interpreter, and so needs a C library of the machine (elf(5), PT_INTERP)."""
    data = pathlib.Path(program).read_bytes()
    is_64, order = data[4] == 2, "<" if data[5] == 1 else ">"
    offset = struct.unpack_from(f"{order}{'Q' if is_64 else 'I'}", data, 32 if is_64 else 28)[0]
    size, count = struct.unpack_from(f"{order}HH", data, 54 if is_64 else 42)
    return any(struct.unpack_from(f"{order}I", data, offset + size * index)[0] == PT_INTERP for index in range(count))


def content(arguments, folder):
    """Path in the package -> (file, mode, whether it is a setting that upgrades keep)."""
    name, package = arguments.name, PACKAGES[arguments.name]
    pages = pathlib.Path(arguments.pages)
    files = {
        f"usr/bin/{name}": (pathlib.Path(arguments.program), 0o755, False),
        f"usr/lib/systemd/system/{name}.service": (ROOT / package["service"], 0o644, False),
        f"usr/share/bash-completion/completions/{name}": (pages / f"{name}.bash", 0o644, False),
        f"usr/share/zsh/site-functions/_{name}": (pages / f"_{name}", 0o644, False),
        f"usr/share/fish/vendor_completions.d/{name}.fish": (pages / f"{name}.fish", 0o644, False),
        f"usr/share/doc/{name}/copyright": (ROOT / "LICENSE", 0o644, False),
    }
    if arguments.licences:
        files[f"usr/share/doc/{name}/third-party-licences.html"] = (pathlib.Path(arguments.licences), 0o644, False)
    manuals = sorted(path for path in pages.glob("*.1") if path.stem == name or path.stem.startswith(f"{name}-"))
    if not manuals:
        raise SystemExit(f"{pages} has no man page of {name}; run make man")
    for manual in manuals:
        packed = folder / f"{manual.name}.gz"
        packed.write_bytes(gzip.compress(manual.read_bytes(), 9, mtime=0))
        files[f"usr/share/man/man1/{packed.name}"] = (packed, 0o644, False)
    for source, target in package["files"].items():
        source = ROOT / source
        for file in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if file.is_file():
                path = target if file == source else f"{target}/{file.relative_to(source)}"
                files[path] = (file, 0o644, False)
    for source, target in package["settings"].items():
        files[target] = (ROOT / source, 0o644, True)
    return dict(sorted(files.items()))


def write_archive(path, root, files, fast):
    """A tar with one folder, which holds what a package installs at `/`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for target, (source, mode, _) in files.items():
            info = tarfile.TarInfo(f"{root}/{target}")
            data = source.read_bytes()
            info.size, info.mode, info.mtime = len(data), mode, TIME
            tar.addfile(info, io.BytesIO(data))
    subprocess.run(["zstd", "--quiet", "--force", "-1" if fast else "-19", "-o", path], input=buffer.getvalue(), check=True)


def own_folders(name, files, time):
    """The package's own folders of documentation: rpm removes a folder only with the package that has it."""
    root = pathlib.PurePosixPath(f"usr/share/doc/{name}")
    folders = {parent for target in files for parent in pathlib.PurePosixPath(target).parents if parent.is_relative_to(root)}
    info = {"mode": 0o755, "owner": "root", "group": "root", "mtime": time}
    return [{"dst": f"/{folder}", "type": "dir", "file_info": info} for folder in sorted(folders)]


def write_package(path, kind, arguments, processor, files, folder):
    """Has nfpm write a .deb or .rpm."""
    package = PACKAGES[arguments.name]
    scripts = ROOT / "packaging" / "scripts" / arguments.name / kind
    # rpm shows the summary above the description, deb has both in one
    summary, _, details = package["description"].partition("\n")
    time = datetime.datetime.fromtimestamp(TIME, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "name": arguments.name,
        "arch": processor,
        "platform": "linux",
        "version": arguments.version,
        "release": "1",
        "section": "net",
        "priority": "optional",
        "maintainer": "The Outrigger authors <maintainers@outrigger.invalid>",
        "description": package["description"] if kind == "deb" else details,
        "license": "Apache-2.0",
        "recommends": package["recommends"] if kind == "deb" else [],
        "mtime": time,
        "contents": [
            {
                "src": str(source),
                "dst": f"/{target}",
                "type": "config|noreplace" if is_setting else "file",
                "file_info": {"mode": mode, "owner": "root", "group": "root", "mtime": time},
            }
            for target, (source, mode, is_setting) in files.items()
        ]
        + (own_folders(arguments.name, files, time) if kind == "rpm" else []),
        "scripts": {path.stem: str(path) for path in sorted(scripts.glob("*.sh"))},
        "deb": {"compression": "none" if arguments.fast else "xz"},
        "rpm": {
            "compression": "gzip:1" if arguments.fast else "zstd",
            "summary": summary,
            "buildhost": "outrigger",
        },
    }
    configuration = folder / f"{kind}.json"
    configuration.write_text(json.dumps(document, indent=1))
    command = ["nfpm", "package", "--config", configuration, "--packager", kind, "--target", path]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the file of the program")
    parser.add_argument("--name", required=True, choices=PACKAGES)
    parser.add_argument("--version", required=True)
    parser.add_argument("--pages", required=True, help="the folder with man pages and completions, which make man writes")
    parser.add_argument("--licences", help="the licences of the crates in the program, as HTML")
    parser.add_argument("--formats", default=",".join(FORMATS), help="some of %(default)s")
    parser.add_argument("--fast", action="store_true", help="compress little, for tests")
    parser.add_argument("--dynamic", action="store_true", help="accept a dynamically linked program, for tests: no libraries are declared")
    parser.add_argument("--output", required=True, help="the folder for the packages")
    arguments = parser.parse_args()

    name, version, output = arguments.name, arguments.version, pathlib.Path(arguments.output)
    machine, processor = architecture(arguments.program)
    if is_dynamic(arguments.program) and not arguments.dynamic:
        raise SystemExit(f"{arguments.program} is dynamically linked and would need this machine's libraries; build it for a musl target")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = content(arguments, folder)
        for kind in arguments.formats.split(","):
            if kind not in FORMATS:
                raise SystemExit(f"unknown format {kind}; the formats are {', '.join(FORMATS)}")
            path = output / f"{name}-{version}-{machine}.{kind}"
            if kind == "tar.zst":
                write_archive(path, f"{name}-{version}", files, arguments.fast)
            else:
                write_package(path, kind, arguments, processor, files, folder)
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
