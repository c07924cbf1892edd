"""kubectl on a terminal, in pods and containers that it makes itself. Prints what it saw as JSON."""

import json
import os
import pty
import select
import subprocess
import sys
import time

LIMIT = 60


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command):
        self.main, other = pty.openpty()
        self.process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, start_new_session=True)
        os.close(other)
        self.shown = b""

    def read(self, wanted):
        """Reads until this is shown, or the program has ended; whether it is."""
        end = time.monotonic() + LIMIT
        while wanted not in self.shown and time.monotonic() < end:
            readable, _, _ = select.select([self.main], [], [], 1)
            if not readable:
                continue
            try:
                part = os.read(self.main, 4096)
            except OSError:
                break
            if not part:
                break
            self.shown += part
        return wanted in self.shown

    def type(self, text):
        os.write(self.main, text)

    def code(self):
        self.read(b"\0 is never shown")
        return self.process.wait(LIMIT)


def shell(command, code):
    """A shell: whether it has a terminal and computes, and the code with which kubectl ends."""
    terminal = Terminal(command)
    prompt = terminal.read(b"# ")
    terminal.type(b"tty; echo computed $((40+2)); exit %d\n" % code)
    computed = terminal.read(b"computed 42")
    code = terminal.code()
    if not (prompt and computed):
        print(terminal.shown.decode(errors="replace"), file=sys.stderr)
    return [prompt, b"/dev/pts/" in terminal.shown, computed, code]


def main():
    pod, image = sys.argv[1:]
    image = ["--image=" + image, "--image-pull-policy=Never"]
    run = ["kubectl", "run", "typed", "-it", "--rm", "--restart=Never", *image, "--command", "--", "sh"]
    debug = ["kubectl", "debug", "-it", pod, "--target=main", "-c", "typed", *image, "--", "sh"]
    print(json.dumps({"run": shell(run, 3), "debug": shell(debug, 0)}))


main()
