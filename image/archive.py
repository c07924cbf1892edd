"""Writes an OCI archive of one program without Docker: python3 image/archive.py --program FILE --tag NAME --output FILE.tar

With --program for several processors it writes one image for all of them.

The image holds the program, the roots of CAs and the names of its user, and nothing else. The same input makes the same bytes: files are
sorted, and all times are 0. With --libraries, what a dynamically linked program needs of this machine is packed as well, for tests.
Source of the forms: https://github.com/opencontainers/image-spec, image-layout.md, manifest.md, config.md.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile

USER = 65532
MEDIA = "application/vnd.oci.image."
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# of e_machine in the header of an ELF file
ARCHITECTURES = {
    0x3E: {"architecture": "amd64"},
    0xB7: {"architecture": "arm64"},
    0x28: {"architecture": "arm", "variant": "v7"},
    0xF3: {"architecture": "riscv64"},
}


def platform_of(program):
    if program[:4] != b"\x7fELF":
        raise SystemExit("the program is no ELF file")
    return {**ARCHITECTURES[int.from_bytes(program[18:20], "little")], "os": "linux"}


def libraries(path):
    """The loader and the libraries of a dynamically linked program, by the path that it asks for."""
    said = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    if "not found" in said:
        raise SystemExit(f"{path} lacks libraries: {said}")
    return {found: open(found, "rb").read() for found in re.findall(r"(/\S+) \(0x", said)}


def content(arguments, path):
    """Path -> (bytes, mode)."""
    program = open(path, "rb").read()
    name = arguments.name
    files = {
        f"/{name}": (program, 0o755),
        "/etc/passwd": (open(os.path.join(os.path.dirname(__file__), "passwd"), "rb").read(), 0o644),
        CERTIFICATES: (open(arguments.certificates, "rb").read(), 0o644),
    }
    if arguments.libraries:
        files.update({path: (data, 0o755) for path, data in libraries(path).items()})
    return program, files


def entry(name, mode, kind=tarfile.REGTYPE, size=0):
    info = tarfile.TarInfo(name.lstrip("/"))
    info.type, info.mode, info.size, info.mtime = kind, mode, size, 0
    return info


def layer(files):
    """A tar of the files and of the directories above them, and `/tmp`, which anybody may write to."""
    directories = {"/tmp": 0o1777}
    for path in files:
        parent = os.path.dirname(path)
        while parent != "/":
            directories.setdefault(parent, 0o755)
            parent = os.path.dirname(parent)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted([*directories, *files]):
            if path in directories:
                tar.addfile(entry(path, directories[path], tarfile.DIRTYPE))
            else:
                data, mode = files[path]
                tar.addfile(entry(path, mode, size=len(data)), io.BytesIO(data))
    return buffer.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def compact(document):
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, action="append", help="the file of the program, once for each processor")
    parser.add_argument("--name", default="cloudsim", help="what it is called in the image, at /")
    parser.add_argument("--tag", required=True, help="the name of the image, with its tag")
    parser.add_argument("--version", default="", help="for the label org.opencontainers.image.version")
    parser.add_argument("--certificates", default=CERTIFICATES, help="the roots of CAs, as PEM")
    parser.add_argument("--root", action="store_true", help="run as root")
    parser.add_argument("--libraries", action="store_true", help="pack the libraries that the program is linked to")
    parser.add_argument("--level", type=int, default=9, help="how hard to compress, 0 to 9")
    parser.add_argument("--output", required=True, help="the archive")
    arguments = parser.parse_args()

    blobs = {}

    def blob(media_type, data):
        blobs[digest(data)] = data
        return {"mediaType": MEDIA + media_type, "digest": digest(data), "size": len(data)}

    def image(path):
        """Returns the descriptors of the manifest, the configuration and the layer for one processor."""
        program, files = content(arguments, path)
        platform = platform_of(program)
        unpacked = layer(files)
        packed = blob("layer.v1.tar+gzip", gzip.compress(unpacked, arguments.level, mtime=0))
        settings = {
            "Entrypoint": [f"/{arguments.name}"],
            "Env": [f"SSL_CERT_FILE={CERTIFICATES}"],
            "WorkingDir": "/tmp",
            "Labels": {
                "org.opencontainers.image.title": arguments.name,
                "org.opencontainers.image.version": arguments.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        }
        if not arguments.root:
            settings["User"] = f"{USER}:{USER}"
        config = blob("config.v1+json", compact({
            **platform,
            "created": "1970-01-01T00:00:00Z",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [digest(unpacked)]},
            "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "image/archive.py"}],
        }))
        manifest = blob("manifest.v1+json", compact({
            "schemaVersion": 2, "mediaType": MEDIA + "manifest.v1+json", "config": config, "layers": [packed],
        }))
        return {**manifest, "platform": platform}, config, packed

    images = [image(path) for path in arguments.program]
    manifest, config, packed = images[0]
    parts = {"oci-layout": compact({"imageLayoutVersion": "1.0.0"})}
    if len(images) > 1:
        manifest = blob("index.v1+json", compact({
            "schemaVersion": 2, "mediaType": MEDIA + "index.v1+json", "manifests": [manifest for manifest, _, _ in images],
        }))
    else:
        # for those who take what `docker save` writes alone, as `docker load` before version 25
        parts["manifest.json"] = compact([{
            "Config": blob_path(config), "RepoTags": [arguments.tag], "Layers": [blob_path(packed)],
        }])
    manifest["annotations"] = {
        "io.containerd.image.name": arguments.tag,
        "org.opencontainers.image.ref.name": arguments.tag.rpartition(":")[2],
    }
    parts["index.json"] = compact({"schemaVersion": 2, "mediaType": MEDIA + "index.v1+json", "manifests": [manifest]})
    parts.update({f"blobs/sha256/{name.partition(':')[2]}": data for name, data in blobs.items()})
    with tarfile.open(arguments.output, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in ["blobs", "blobs/sha256"]:
            tar.addfile(entry(path, 0o755, tarfile.DIRTYPE))
        for path in sorted(parts):
            tar.addfile(entry(path, 0o644, size=len(parts[path])), io.BytesIO(parts[path]))
    size = os.path.getsize(arguments.output)
    processors = ", ".join(f"linux/{manifest['platform']['architecture']}" for manifest, _, _ in images)
    print(f"{arguments.output}: {size / 1e6:.1f} MB, {arguments.tag}, {processors}, {manifest['digest']}")


def blob_path(descriptor):
    return "blobs/sha256/" + descriptor["digest"].partition(":")[2]


if __name__ == "__main__":
    main()
