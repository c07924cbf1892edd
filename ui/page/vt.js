// The screen of a terminal: what programs print, with the escape sequences of VT100 and xterm that shells and editors use. Pure.

const MAX_HISTORY = 1000;
const BLANK = { char: " ", style: "" };
const STYLES = { 1: "bold", 3: "italic", 4: "underline", 7: "inverse" };

export class Screen {
  constructor(columns = 80, rows = 24) {
    this.columns = columns;
    this.rows = rows;
    this.history = [];
    // what the terminal has to answer to the program
    this.answer = "";
    this.rest = "";
    this.reset();
  }

  reset() {
    this.lines = this.blankLines(this.rows);
    Object.assign(this, { x: 0, y: 0, style: new Set(), colour: "", top: 0, bottom: this.rows - 1, saved: [0, 0], other: null, isHidden: false });
  }

  blankLines = (count) => Array.from({ length: count }, () => this.blankLine());
  blankLine = () => Array(this.columns).fill(BLANK);

  resize(columns, rows) {
    const fit = (lines) => {
      const kept = lines.slice(Math.max(0, lines.length - rows)).map((line) => [...line.slice(0, columns), ...Array(Math.max(0, columns - line.length)).fill(BLANK)]);
      this.columns = columns;
      return [...kept, ...this.blankLines(rows - kept.length)];
    };
    // the line of the cursor stays
    const removed = Math.max(0, this.y - rows + 1);
    this.lines = fit(this.lines.slice(removed, removed + rows));
    if (this.other) this.other = fit(this.other);
    Object.assign(this, { rows, y: Math.min(this.y - removed, rows - 1), x: Math.min(this.x, columns - 1), top: 0, bottom: rows - 1 });
  }

  write(text) {
    const input = this.rest + text;
    this.rest = "";
    for (let at = 0; at < input.length; ) {
      const char = input.codePointAt(at) > 0xffff ? input.slice(at, at + 2) : input[at];
      if (char === "\x1b") {
        const length = this.escape(input.slice(at));
        if (!length) {
          // an unfinished sequence waits for its end, unless it is none
          this.rest = input.length - at < 4096 ? input.slice(at) : "";
          return;
        }
        at += length;
        continue;
      }
      at += char.length;
      this.put(char);
    }
  }

  put(char) {
    if (char === "\n" || char === "\v" || char === "\f") this.lineFeed();
    else if (char === "\r") this.x = 0;
    else if (char === "\b") this.x = Math.max(0, Math.min(this.x, this.columns - 1) - 1);
    else if (char === "\t") this.x = Math.min(this.columns - 1, (Math.floor(this.x / 8) + 1) * 8);
    else if (char >= " " && char !== "\x7f") {
      if (this.x >= this.columns) {
        this.x = 0;
        this.lineFeed();
      }
      this.lines[this.y][this.x] = { char, style: [...this.style, this.colour].filter(Boolean).join(" ") };
      this.x += 1;
    }
  }

  lineFeed() {
    if (this.y === this.bottom) this.scroll(1);
    else if (this.y < this.rows - 1) this.y += 1;
  }

  // Scrolls the region up, or down by a negative number.
  scroll(count, top = this.top) {
    for (let left = Math.min(Math.abs(count), this.rows); left > 0; left--) {
      const [from, to] = count > 0 ? [top, this.bottom] : [this.bottom, top];
      const [line] = this.lines.splice(from, 1);
      this.lines.splice(to, 0, this.blankLine());
      if (count > 0 && top === 0 && !this.other) this.history.push(line);
    }
    if (this.history.length > MAX_HISTORY) this.history.splice(0, this.history.length - MAX_HISTORY);
  }

  // Carries out an escape sequence and returns its length; 0 if it is not complete.
  escape(text) {
    const csi = /^\x1b\[([?>=!]?)([\d;:]*)([ -/]*)([@-~])/.exec(text);
    if (csi) {
      this.control(csi[1], csi[2].split(/[;:]/).map(Number), csi[4]);
      return csi[0].length;
    }
    if (/^\x1b\[[?>=!]?[\d;:]*[ -/]*$/.test(text)) return 0;
    // titles and the like
    const string = /^\x1b[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)/.exec(text);
    if (string) return string[0].length;
    if (/^\x1b[\]P_^X][^\x07\x1b]*\x1b?$/.test(text) || text.length < 2) return 0;
    if (/^\x1b[()*+#%]/.test(text)) return text.length < 3 ? 0 : 3;
    const actions = {
      7: () => (this.saved = [this.x, this.y]),
      8: () => this.move(...this.saved),
      D: () => this.lineFeed(),
      E: () => this.put("\r") ?? this.lineFeed(),
      M: () => (this.y === this.top ? this.scroll(-1) : (this.y = Math.max(0, this.y - 1))),
      c: () => this.reset(),
    };
    actions[text[1]]?.();
    return 2;
  }

  control(prefix, numbers, name) {
    const first = numbers[0] || 0;
    const count = Math.max(1, first);
    const move = (x, y) => this.move(x, y);
    const actions = {
      A: () => move(this.x, this.y - count),
      B: () => move(this.x, this.y + count),
      C: () => move(this.x + count, this.y),
      D: () => move(this.x - count, this.y),
      E: () => move(0, this.y + count),
      F: () => move(0, this.y - count),
      G: () => move(count - 1, this.y),
      d: () => move(this.x, count - 1),
      H: () => move((numbers[1] || 1) - 1, count - 1),
      f: () => move((numbers[1] || 1) - 1, count - 1),
      J: () => this.erase(first, true),
      K: () => this.erase(first, false),
      L: () => this.y >= this.top && this.y <= this.bottom && this.scroll(-count, this.y),
      M: () => this.y >= this.top && this.y <= this.bottom && this.removeLines(count),
      P: () => this.shift(count),
      "@": () => this.shift(-count),
      X: () => this.lines[this.y].fill(BLANK, this.x, this.x + count),
      S: () => this.scroll(count),
      T: () => this.scroll(-count),
      m: () => this.look(numbers),
      n: () => first === 6 && (this.answer += `\x1b[${this.y + 1};${Math.min(this.x, this.columns - 1) + 1}R`),
      c: () => !prefix && (this.answer += "\x1b[?1;2c"),
      r: () => {
        const [top, bottom] = [count - 1, Math.min(numbers[1] || this.rows, this.rows) - 1];
        if (top < bottom) Object.assign(this, { top, bottom, x: 0, y: 0 });
      },
      s: () => (this.saved = [this.x, this.y]),
      u: () => this.move(...this.saved),
      h: () => prefix === "?" && numbers.forEach((number) => this.mode(number, true)),
      l: () => prefix === "?" && numbers.forEach((number) => this.mode(number, false)),
    };
    actions[name]?.();
  }

  move(x, y) {
    this.x = Math.min(Math.max(x, 0), this.columns - 1);
    this.y = Math.min(Math.max(y, 0), this.rows - 1);
  }

  removeLines(count) {
    const removed = Math.min(count, this.bottom - this.y + 1);
    this.lines.splice(this.y, removed);
    this.lines.splice(this.bottom - removed + 1, 0, ...this.blankLines(removed));
  }

  mode(number, isOn) {
    if (number === 25) this.isHidden = !isOn;
    if (number === 1) this.areKeysOfApplication = isOn;
    if (![47, 1047, 1049].includes(number) || isOn === !!this.other) return;
    if (isOn) [this.other, this.lines, this.savedMain] = [this.lines, this.blankLines(this.rows), [this.x, this.y]];
    else {
      [this.lines, this.other] = [this.other, null];
      this.move(...this.savedMain);
    }
  }

  erase(part, isScreen) {
    const line = this.lines[this.y];
    if (part === 0) line.fill(BLANK, this.x);
    if (part === 1) line.fill(BLANK, 0, this.x + 1);
    if (part >= 2) line.fill(BLANK);
    if (!isScreen) return;
    this.lines.forEach((one, number) => {
      if (part >= 2 || (part === 0 && number > this.y) || (part === 1 && number < this.y)) one.fill(BLANK);
    });
  }

  shift(count) {
    const line = this.lines[this.y];
    const at = Math.min(this.x, this.columns);
    const blank = Array(Math.min(Math.abs(count), this.columns - at)).fill(BLANK);
    this.lines[this.y] = (count > 0 ? [...line.slice(0, at), ...line.slice(at + count), ...blank] : [...line.slice(0, at), ...blank, ...line.slice(at)]).slice(0, this.columns);
  }

  look(numbers) {
    for (let at = 0; at < numbers.length; at++) {
      const number = numbers[at];
      if (number === 0) [this.style, this.colour] = [new Set(), ""];
      else if (STYLES[number]) this.style.add(STYLES[number]);
      else if (number === 22) this.style.delete("bold");
      else if (STYLES[number - 20]) this.style.delete(STYLES[number - 20]);
      else if (number === 38 || number === 48) at += numbers[at + 1] === 5 ? 2 : 4;
      else if (number >= 30 && number <= 37) this.colour = `c${number - 30}`;
      else if (number >= 90 && number <= 97) this.colour = `c${number - 90}`;
      else if (number === 39) this.colour = "";
    }
  }

  // Returns a line as parts of one style each; `isCurrent` marks the cursor.
  parts(line, isCurrent) {
    const parts = [];
    const cursor = isCurrent && !this.isHidden ? Math.min(this.x, this.columns - 1) : -1;
    const end = Math.max(line.findLastIndex((one) => one.char !== " " || one.style), cursor);
    for (let at = 0; at <= end; at++) {
      const { char, style } = line[at];
      const look = at === cursor ? `${style} cursor` : style;
      const last = parts.at(-1);
      if (last?.style === look) last.text += char;
      else parts.push({ style: look, text: char });
    }
    return parts;
  }
}

const KEYS = { Enter: "\r", Backspace: "\x7f", Escape: "\x1b", Tab: "\t", Delete: "\x1b[3~", PageUp: "\x1b[5~", PageDown: "\x1b[6~", Insert: "\x1b[2~" };
const CURSOR_KEYS = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };

// Returns what a key sends to the program; nothing for keys of the browser.
export function keyText(event, areKeysOfApplication) {
  const { key, ctrlKey, altKey, metaKey, shiftKey } = event;
  if (metaKey || (key === "Tab" && shiftKey)) return "";
  if (CURSOR_KEYS[key]) return `\x1b${areKeysOfApplication ? "O" : "["}${CURSOR_KEYS[key]}`;
  if (ctrlKey && !altKey && /^[a-z@[\\\]^_]$/i.test(key) && !shiftKey) return String.fromCharCode(key.toUpperCase().charCodeAt(0) & 31);
  if (ctrlKey) return "";
  const text = KEYS[key] || (key.length === 1 ? key : "");
  return altKey && text ? `\x1b${text}` : text;
}
