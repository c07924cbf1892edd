"""Draws the pictures of the documentation: each NAME.txt in this folder becomes NAME.svg.

    python3 docs/images/diagram.py           # draw all
    python3 docs/images/diagram.py --check   # exit code 1 if a picture is not that of its source

Needs nothing but Python 3.9. A source has one item per line:

    size WIDTH HEIGHT DESCRIPTION
    area X Y WIDTH HEIGHT TITLE              a frame
    box ID X Y WIDTH HEIGHT TITLE|LINE|…     a part; `state` instead of `box` rounds it, `main` emphasises it
    down FROM TO [at NUMBER] [: LABEL]       an arrow between two boxes; `up` is green, `off` is dashed and grey
    text X Y TEXT                            a note; `left` instead of `text` begins at X

An arrow is straight: horizontal or vertical where the boxes overlap, at `at` (a coordinate) if given. `via X,Y;X,Y` bends it.
A title of an area that begins with `<` is on the left.
The picture has its own background, so that it is legible in light and dark themes.
"""

import html
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent

STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; text-anchor: middle }
.small { font-size: 12px; fill: #59636e } .left { text-anchor: start } .title { font-weight: 600; font-size: 15px }
.page { fill: #ffffff; stroke: #d1d9e0 } .area { fill: #f6f8fa; stroke: #d1d9e0 } .box { fill: #ffffff; stroke: #8c959f }
.main { fill: #ddf4ff; stroke: #0969da }
.down { stroke: #0969da; marker-end: url(#down) } .up { stroke: #1a7f37; marker-end: url(#up) } .off { stroke: #8c959f; stroke-dasharray: 5 4; marker-end: url(#off) }
.arrow { stroke-width: 1.6; fill: none } .hd { fill: #0969da } .hu { fill: #1a7f37 } .ho { fill: #8c959f }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .small { fill: #9198a1 } .page { fill: #0d1117; stroke: #3d444d } .area { fill: #151b23; stroke: #3d444d } .box { fill: #0d1117; stroke: #656c76 }
.main { fill: #0c2d6b; stroke: #4493f8 }
.down { stroke: #4493f8 } .up { stroke: #3fb950 } .hd { fill: #4493f8 } .hu { fill: #3fb950 }
}
"""

HEADS = "".join(
    f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path class="{colour}" d="M0 0 10 5 0 10z"/></marker>'
    for name, colour in [("down", "hd"), ("up", "hu"), ("off", "ho")]
)


def box(kind, x, y, width, height, lines):
    """Returns a box with a title and smaller lines, all centred."""
    radius = 6 if kind != "state" else height / 2
    middle = y + height / 2 - (len(lines) - 1) * 8 + 5
    parts = [f'<rect class="{"main" if kind == "main" else "box"}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"/>']
    for number, line in enumerate(lines):
        at = middle + number * 16 + (1 if number else 0)
        small = ' class="small"' if number else ""
        parts.append(f'<text{small} x="{x + width / 2:g}" y="{at:g}">{html.escape(line)}</text>')
    return "".join(parts)


def ends(one, other, at):
    """Returns where a straight arrow between two boxes begins and ends."""
    (ax, ay, aw, ah), (bx, by, bw, bh) = one, other
    top, bottom = max(ay, by), min(ay + ah, by + bh)
    if top < bottom:
        y = at if at is not None else (top + bottom) / 2
        return ((ax + aw + 2, y), (bx - 2, y)) if ax < bx else ((ax - 2, y), (bx + bw + 2, y))
    left, right = max(ax, bx), min(ax + aw, bx + bw)
    if left >= right:
        raise ValueError("no straight arrow connects the boxes; use via")
    x = at if at is not None else (left + right) / 2
    return ((x, ay + ah + 2), (x, by - 2)) if ay < by else ((x, ay - 2), (x, by + bh + 2))


def towards(rect, point):
    """Returns the middle of the side of a box that faces a point."""
    x, y, width, height = rect
    if x <= point[0] <= x + width:
        return (point[0], y - 2 if point[1] < y else y + height + 2)
    return (x - 2 if point[0] < x else x + width + 2, min(max(point[1], y), y + height))


def arrow(kind, words, label, boxes):
    """Returns an arrow with its label, which covers the line behind it."""
    one, other = boxes[words[0]], boxes[words[1]]
    options = dict(zip(words[2::2], words[3::2]))
    at = float(options["at"]) if "at" in options else None
    if "via" in options:
        bends = [tuple(float(number) for number in bend.split(",")) for bend in options["via"].split(";")]
        points = [towards(one, bends[0]), *bends, towards(other, bends[-1])]
    else:
        points = list(ends(one, other, at))
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
    parts = [f'<path class="arrow {kind}" d="{path}"/>']
    if label:
        (x1, y1), (x2, y2) = points[0], points[1]
        x, y = (x1 + x2) / 2, (y1 + y2) / 2
        is_flat = y1 == y2
        for number, line in enumerate(label.split("|")):
            if is_flat:
                count = label.count("|") + 1
                parts.append(f'<text class="small" x="{x:g}" y="{y - 7 - (count - 1 - number) * 15:g}">{html.escape(line)}</text>')
            else:
                parts.append(f'<text class="small left" x="{x + 8:g}" y="{y + 4 + number * 15:g}">{html.escape(line)}</text>')
    return "".join(parts)


def draw(source):
    """Returns the SVG of a source."""
    boxes, areas, front = {}, [], []
    width = height = description = None
    for number, line in enumerate(source.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            kind, rest = line.split(" ", 1)
            if kind == "size":
                width, height, description = rest.split(" ", 2)
            elif kind == "area":
                x, y, w, h, title = rest.split(" ", 4)
                place = f'class="title" x="{float(x) + float(w) / 2:g}"'
                if title.startswith("<"):
                    title, place = title[1:].strip(), f'class="title left" x="{float(x) + 16:g}"'
                areas.append(f'<rect class="area" x="{x}" y="{y}" width="{w}" height="{h}" rx="8"/>'
                             f'<text {place} y="{float(y) + 24:g}">{html.escape(title)}</text>')
            elif kind in ("box", "state", "main"):
                name, x, y, w, h, lines = rest.split(" ", 5)
                rect = tuple(float(part) for part in (x, y, w, h))
                boxes[name] = rect
                front.append(box(kind, *rect, lines.split("|")))
            elif kind in ("down", "up", "off"):
                words, _, label = rest.partition(" : ")
                front.append(arrow(kind, words.split(), label, boxes))
            elif kind in ("text", "left"):
                x, y, text = rest.split(" ", 2)
                front.append(f'<text class="small {kind}" x="{x}" y="{y}">{html.escape(text)}</text>')
            else:
                raise ValueError(f"unknown item {kind!r}")
        except (ValueError, KeyError) as error:
            sys.exit(f"line {number}: {line}: {error}")
    body = "\n".join([*areas, *front])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'aria-label="{html.escape(description)}">\n<style>{STYLE}</style>\n<defs>{HEADS}</defs>\n'
            f'<rect class="page" x="0.5" y="0.5" width="{int(width) - 1}" height="{int(height) - 1}" rx="10"/>\n{body}\n</svg>\n')


def main():
    stale = []
    for source in sorted(FOLDER.glob("*.txt")):
        picture = source.with_suffix(".svg")
        text = draw(source.read_text(encoding="utf-8"))
        if "--check" not in sys.argv:
            picture.write_text(text, encoding="utf-8")
        elif not picture.is_file() or picture.read_text(encoding="utf-8") != text:
            stale.append(picture.name)
    if stale:
        sys.exit(f"run `python3 docs/images/diagram.py`: {', '.join(stale)} differ from their sources")


if __name__ == "__main__":
    main()
