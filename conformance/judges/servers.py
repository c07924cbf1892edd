"""Starts our programs for a suite, and stops them."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

#: How long a program may take to start, seconds.
LIMIT = 60


class Failure(Exception):
    """A suite could not run; the text says why and what to do."""


class Servers:
    """The programs that a suite needs. `names` are what its commands may mention: ports, sockets and the kubeconfig. `images` is an archive
    with the images of its pods, for machines."""

    def __init__(self, suite, built, folder, cluster, images=None):
        self.suite, self.built, self.folder, self.images = suite, Path(built), Path(folder), images
        self.names, self.processes = ({"kubeconfig": cluster.resolve()} if cluster else {}), []
        self.network, self.machines = None, []

    def __enter__(self):
        try:
            for name, arguments in self.suite.servers.items():
                if name == "cloudsim" and "kubeconfig" in self.names:
                    continue
                getattr(self, f"start_{name}")(arguments)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for machine in self.machines:
            machine.stop()
        if self.network:
            self.network.remove()

    def start(self, name, command, env=None):
        log = self.folder / f"{name}.log"
        with open(log, "wb") as output:
            try:
                process = subprocess.Popen([str(word) for word in command], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output,
                                           stderr=output, env={**os.environ, **(env or {})})
            except OSError as error:
                raise Failure(f"cannot run {command[0]}: {error}; build it with `make judges`") from error
        self.processes.append(process)
        return process, log

    def wait(self, process, log, is_ready):
        """Waits until a program is ready; fails with its output if it ends or takes too long."""
        until = time.monotonic() + LIMIT
        while not is_ready():
            if process.poll() is not None or time.monotonic() > until:
                raise Failure(f"a program of ours did not start; its output is {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def start_cloudsim(self, arguments):
        """A cloud with all its ports at places that are free. Arguments may mention names, such as `{gateway}`."""
        names = ["api", "https", "ws", "tunnel"]
        ports = dict(zip(names, free_ports(len(names))))
        kubeconfig = self.folder / "kubeconfig"
        process, log = self.start("cloudsim", [
            self.built / "debug/cloudsim", "up", "--data-dir", self.folder / "cloud", "--kubeconfig", kubeconfig, "--api-port", ports["api"],
            "--https-port", ports["https"], "--ws-port", ports["ws"], "--tunnel-port", ports["tunnel"], *(one.format(**self.names) for one in arguments)])
        self.wait(process, log, lambda: "is ready" in log.read_text(errors="replace"))
        self.names.update(kubeconfig=kubeconfig, **{f"{name}_port": port for name, port in ports.items()})

    def start_network(self, arguments):
        """A bridge for so many machines, before the cloud that listens there."""
        import machines

        self.network = machines.Network(int(arguments[0]))
        self.names.update(gateway=machines.GATEWAY)

    def start_machines(self, arguments):
        """So many machines with containerd and edge-agent, which have joined the cloud and are Ready."""
        import machines

        if self.images is None or not self.images.is_file():
            raise Failure(f"{self.images} does not exist; put an OCI archive with the images of the suite there")
        agent = self.folder / "edge-agent"
        shutil.copy(self.built / "debug/edge-agent", agent)
        token = machines.command(self.built / "debug/cloudsim", "token", "--kubeconfig", self.names["kubeconfig"]).strip()
        for number in range(2, int(arguments[0]) + 2):
            machine = machines.Machine(number, self.folder)
            self.machines.append(machine)
            machine.write_runtime_files(number)
            process, log = self.start(f"containerd-{machine.name}", machine.enter("containerd"))
            self.wait(process, log, lambda log=log: "successfully booted" in log.read_text(errors="replace"))
            machine.on("ctr", "--namespace", "k8s.io", "images", "import", self.images)
            machine.join(agent, self.names, token)
            self.start(f"agent-{machine.name}", machine.enter(agent, "--config", "/etc/kubeedge/config/edgecore.yaml"))
        kubectl = [self.built / "python/bin/kubectl", "--kubeconfig", self.names["kubeconfig"]]
        machines.command(*kubectl, "wait", "--for=create", *(f"node/{machine.name}" for machine in self.machines), f"--timeout={LIMIT}s")
        machines.command(*kubectl, "wait", "--for=condition=Ready", "node", "--all", f"--timeout={LIMIT}s")

    def start_runtime(self, arguments):
        """The simulated container runtime."""
        path = self.folder / "runtime.sock"
        process, log = self.start("runtime", [self.built / "debug/cloudsim", "runtime", "--socket", path, "--root",
                                              self.folder / "runtime", *arguments])
        self.wait(process, log, path.exists)
        self.names.update(runtime=path)

    def start_broker(self, arguments):
        """The MQTT broker of EventBus, alone."""
        (port,) = free_ports(1)
        process, log = self.start("mqtt", [self.built / "debug/mqtt-broker", "--listen", f"127.0.0.1:{port}", *arguments])
        self.wait(process, log, lambda: can_connect(port))
        self.names.update(mqtt_port=port)


def can_connect(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count):
    """Returns ports that were free a moment ago."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
