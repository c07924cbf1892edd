"""Machines of their own for edge nodes: namespaces with containerd and edge-agent, on a bridge of this machine. They need root, containerd, runc and CNI plugins."""

import json
import subprocess
import time
from pathlib import Path

from servers import Failure

#: The network of the bridge and of the pods, the first of each for the machine itself.
BRIDGE, MACHINES, PODS = "judges0", "198.18.240.{}", "10.88.{}.0/24"
GATEWAY = MACHINES.format(1)
#: What is empty on a machine, in memory: it must not see what is left on the machine around it, and layers cannot lie on another overlay.
FRESH = ["/etc/kubeedge", "/etc/containerd", "/etc/cni/net.d", "/var/lib/kubeedge", "/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni",
         "/var/log/pods", "/var/log/containers"]
CONTAINERD = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "registry.k8s.io/pause:3.10.2"
restrict_oom_score_adj = true
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
"""
#: Put into the configuration of each agent, after the line.
SETTINGS = {"kind: EdgeCore": "featureGates: {requireAuthorization: true}", "modules:": "  edgeMesh: {enable: true}"}
#: Seconds.
LIMIT = 60


def command(*words, **options):
    """Runs a program, which must succeed; returns its output."""
    ended = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, **options)
    if ended.returncode != 0:
        raise Failure(f"{' '.join(str(word) for word in words)} failed: {ended.stdout[-500:]}{ended.stderr[-1500:]}")
    return ended.stdout


class Network:
    """A bridge, and the routes to the pods of the machines."""

    def __init__(self, count):
        command("ip", "link", "add", BRIDGE, "type", "bridge")
        command("ip", "address", "add", f"{GATEWAY}/24", "dev", BRIDGE)
        command("ip", "link", "set", BRIDGE, "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")
        for number in range(2, count + 2):
            command("ip", "route", "replace", PODS.format(number), "via", MACHINES.format(number))

    def remove(self):
        subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True)


class Machine:
    """A machine; everything on it ends with its first process."""

    def __init__(self, number, folder):
        self.name, self.address, self.folder = f"machine-{number - 1}", MACHINES.format(number), folder / f"machine-{number - 1}"
        self.folder.mkdir()
        self.holder = subprocess.Popen(["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
                                        "--propagation", "private", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        try:
            self.pid = self.first_process()
            self.connect(number)
            self.mount_disks()
        except BaseException:
            self.stop()
            raise

    def first_process(self):
        """Waits for the process that has all namespaces: it runs `sleep`."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until and self.holder.poll() is None:
            for child in Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "sleep":
                    return child
            time.sleep(0.02)
        raise Failure("unshare starts no machine; namespaces need root")

    def enter(self, *words):
        return ["nsenter", "--target", self.pid, "--net", "--mount", "--uts", "--pid", "--", *words]

    def on(self, *words):
        return command(*self.enter(*words))

    def path(self, path):
        """Returns where this machine sees a path of that one."""
        return Path(f"/proc/{self.pid}/root{path}")

    def connect(self, number):
        """Connects it to the bridge; other machines' pods are behind their machines."""
        cable = f"judges{number}"
        command("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", self.pid)
        command("ip", "link", "set", cable, "master", BRIDGE, "up")
        self.on("hostname", self.name)
        self.on("ip", "link", "set", "lo", "up")
        self.on("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.on("ip", "link", "set", "eth0", "up")
        self.on("ip", "route", "add", "default", "via", GATEWAY)
        # the bridge of its pods is made with its first pod
        self.path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")

    def mount_disks(self):
        disk = self.folder / "disk"
        disk.mkdir()
        self.on("mount", "-t", "tmpfs", "tmpfs", disk)
        for name in ("etc", "usr", "var"):
            self.on("mkdir", f"{disk}/{name}", f"{disk}/{name}.work")
            self.on("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/{name},upperdir={disk}/{name},workdir={disk}/{name}.work", f"/{name}")
        self.on("mount", "-t", "tmpfs", "tmpfs", "/run")
        for place in FRESH:
            self.on("mkdir", "-p", place)
            self.on("mount", "-t", "tmpfs", "tmpfs", place)
        # volumes that containers mount reach the machine, and back
        self.on("mount", "--make-shared", "/var/lib/kubelet")

    def write_runtime_files(self, number):
        addresses = {"type": "host-local", "ranges": [[{"subnet": PODS.format(number)}]], "routes": [{"dst": "0.0.0.0/0"}]}
        plugins = [{"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses},
                   {"type": "portmap", "capabilities": {"portMappings": True}}]
        self.path("/etc/containerd/config.toml").write_text(CONTAINERD)
        self.path("/etc/cni/net.d/10-edge.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "edge", "plugins": plugins}))

    def join(self, agent, ports, token):
        """Joins it to the cloud, and adds what pods and Services need to its configuration."""
        self.on(agent, "join", "--cloud", f"{GATEWAY}:{ports['ws_port']}", "--cert-port", ports["https_port"], "--tunnel-port", ports["tunnel_port"],
                "--name", self.name, "--node-ip", self.address, "--token", token, "--no-start", "--ignore-checks", "all")
        file = self.path("/etc/kubeedge/config/edgecore.yaml")
        text = file.read_text()
        for line, more in SETTINGS.items():
            text = text.replace(f"{line}\n", f"{line}\n{more}\n", 1)
        file.write_text(text)

    def stop(self):
        """Ends all its processes with the first one, and its mounts with them."""
        self.holder.kill()
        self.holder.wait()
