"""Draws a terminal session as an animated SVG: runs a command, and shows each line at the time at which it was printed.

    python3 docs/images/terminal.py OUTPUT.svg TITLE COMMAND [ARGUMENT...]

Needs nothing but Python 3.9. Pauses are cut at three seconds, and
lines at 104 characters. Viewers without animation, and those whose users prefer reduced motion,
show all lines at once.
"""

import html
import os
import re
import subprocess
import sys
import time

LINE_HEIGHT = 20
CHARACTER_WIDTH = 8.43
LONGEST_PAUSE = 3.0
COLUMNS = 104
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "36": "#76e3ea", "1": "#ffffff", "2": "#8b949e"}


def record(command):
    """Returns the lines that the command prints, each with the seconds since its start, without long pauses."""
    started = time.monotonic()
    environment = {**os.environ, "COLUMNS": str(COLUMNS)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as process:
        lines = [(time.monotonic() - started, line.rstrip("\n")) for line in process.stdout]
    if process.returncode != 0:
        sys.exit(f"{command[0]} failed with exit code {process.returncode}:\n" + "\n".join(line for _, line in lines))
    shown, before, now = [], 0.0, 0.0
    for at, line in lines:
        now += min(at - before, LONGEST_PAUSE)
        before = at
        shown.append((now, line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"))
    return shown


def spans(line):
    """Returns the line as SVG text, with its ANSI colours."""
    parts, colour = [], None
    for index, piece in enumerate(re.split(r"\x1b\[([0-9;]*)m", line)):
        if index % 2 == 1:
            colour = next((COLOURS[code] for code in piece.split(";") if code in COLOURS), None)
        elif piece:
            fill = f' fill="{colour}"' if colour else ""
            parts.append(f"<tspan{fill}>{html.escape(piece)}</tspan>")
    return "".join(parts)


def draw(title, prompt, lines):
    """Returns the SVG document."""
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for _, line in lines] + [f"$ {prompt}"]
    width = int(max(len(line) for line in plain) * CHARACTER_WIDTH) + 40
    height = (len(lines) + 1) * LINE_HEIGHT + 56
    rows = [f'<text x="20" y="62"><tspan fill="#7ee787">$</tspan> {html.escape(prompt)}</text>']
    for number, (at, line) in enumerate(lines, start=1):
        rows.append(f'<text x="20" y="{62 + number * LINE_HEIGHT}" class="line" style="animation-delay:{at + 0.5:.2f}s">{spans(line)}</text>')
    body = "\n".join(rows)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(title)}">
<style>
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e6edf3; white-space: pre }}
.line {{ opacity: 0; animation: show 0.01s forwards }}
@keyframes show {{ to {{ opacity: 1 }} }}
@media (prefers-reduced-motion: reduce) {{ .line {{ animation: none; opacity: 1 }} }}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
<circle cx="20" cy="20" r="6" fill="#ff5f57"/><circle cx="40" cy="20" r="6" fill="#febc2e"/><circle cx="60" cy="20" r="6" fill="#28c840"/>
<text x="84" y="25" style="fill:#8b949e">{html.escape(title)}</text>
{body}
</svg>
"""


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    output, title, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    lines = record(command)
    prompt = " ".join([os.path.basename(command[0]), *command[1:]])
    with open(output, "w", encoding="utf-8") as file:
        file.write(draw(title, prompt, lines))


if __name__ == "__main__":
    main()
