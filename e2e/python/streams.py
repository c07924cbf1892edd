"""Commands in a pod by the official client's WebSocket, and kubectl on a terminal. Prints what it saw as JSON."""

import json
import os
import pty
import select
import subprocess
import sys
import time

from kubernetes import client, config
from kubernetes.stream import portforward, stream

LIMIT = 60


def exec_once(api, pod, command):
    """Runs a command: what it prints, and its exit code."""
    answer = stream(api.connect_get_namespaced_pod_exec, pod, "default", command=command, stderr=True, stdin=False,
                    stdout=True, tty=False, _preload_content=False)
    answer.run_forever(timeout=LIMIT)
    return [answer.read_stdout(), answer.read_stderr(), answer.returncode]


def exec_talk(api, pod):
    """Writes to a command and reads what it answers."""
    answer = stream(api.connect_get_namespaced_pod_exec, pod, "default",
                    command=["sh", "-c", "while read word; do echo got $word; done"], stderr=True, stdin=True, stdout=True,
                    tty=False, _preload_content=False)
    answer.write_stdin("this\n")
    said = answer.readline_stdout(timeout=LIMIT)
    answer.close()
    return said


def forward(api, pod):
    """Bytes to a port and back."""
    ports = portforward(api.connect_get_namespaced_pod_portforward, pod, "default", ports="7000")
    socket = ports.socket(7000)
    socket.settimeout(LIMIT)
    socket.sendall(b"there and back")
    read = b""
    while len(read) < len(b"there and back"):
        read += socket.recv(64)
    socket.close()
    return read.decode()


def terminal(kubectl, pod):
    """A shell on a terminal: its size, what it echoes, and the code with which it is left."""
    main, other = pty.openpty()
    import fcntl
    import struct
    import termios
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 43, 101, 0, 0))
    process = subprocess.Popen(kubectl + ["exec", "-it", pod, "--", "sh"], stdin=other, stdout=other, stderr=other,
                               start_new_session=True)
    os.close(other)
    shown, end = b"", time.monotonic() + LIMIT
    # what changes the size is another stream than what asks for it
    os.write(main, b"until stty size | grep '43 101'; do usleep 10000; done; tty; exit 3\n")
    while time.monotonic() < end:
        readable, _, _ = select.select([main], [], [], 1)
        if readable:
            try:
                part = os.read(main, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
        elif process.poll() is not None:
            break
    code = process.wait(LIMIT)
    text = shown.decode()
    return ["43 101\r\n" in text, "/dev/pts/" in text, code]


def main():
    config.load_kube_config(os.environ["KUBECONFIG"])
    api, pod = client.CoreV1Api(), sys.argv[1]
    print(json.dumps({
        "exec": exec_once(api, pod, ["sh", "-c", "echo out; echo err >&2; exit 7"]),
        "talk": exec_talk(api, pod),
        "log": api.read_namespaced_pod_log(pod, "default", tail_lines=1),
        "forward": forward(api, pod),
        "terminal": terminal(["kubectl"], pod),
    }))


main()
