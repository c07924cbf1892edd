//! The output of programs that read nothing. Pure.

/// The most bytes that one program prints.
const MAX_TEXT: usize = 1 << 20;

pub(super) fn echo(arguments: &[String]) -> String {
    let flags = arguments
        .iter()
        .take_while(|argument| matches!(argument.as_str(), "-n" | "-e" | "-ne" | "-en"))
        .count();
    let (flags, words) = arguments.split_at(flags);
    let has = |flag: char| flags.iter().any(|flags| flags.contains(flag));
    let text = words.join(" ");
    let text = if has('e') { unescape(&text) } else { text };
    if has('n') { text } else { text + "\n" }
}

/// Formats arguments: `%s` and `%d` stand for them one after the other, and the format is repeated while some are left.
pub(super) fn printf(arguments: &[String]) -> String {
    let Some((format, values)) = arguments.split_first() else {
        return String::new();
    };
    let format = unescape(format);
    let mut values = values.iter().peekable();
    let mut text = String::new();
    loop {
        let left = values.len();
        let mut rest = format.as_str();
        while let Some((before, after)) = rest.split_once('%') {
            text.push_str(before);
            rest = match after.chars().next() {
                Some('s' | 'd' | 'i' | 'u') => {
                    text.push_str(values.next().map_or("", String::as_str));
                    &after[1..]
                }
                Some('b') => {
                    text.push_str(
                        &values
                            .next()
                            .map(|value| unescape(value))
                            .unwrap_or_default(),
                    );
                    &after[1..]
                }
                Some('%') => {
                    text.push('%');
                    &after[1..]
                }
                _ => {
                    text.push('%');
                    after
                }
            };
        }
        text.push_str(rest);
        if values.peek().is_none() || values.len() == left || text.len() > MAX_TEXT {
            return text;
        }
    }
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next != '\\' {
            plain.push(next);
            continue;
        }
        match rest.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('e') => plain.push('\u{1b}'),
            Some('\\') | None => plain.push('\\'),
            Some(other) => plain.extend(['\\', other]),
        }
    }
    plain
}

/// Returns the output of `seq LAST`, `seq FIRST LAST` or `seq FIRST STEP LAST`, of whole numbers.
pub(super) fn seq(arguments: &[String]) -> Result<String, String> {
    let number = |text: &String| {
        text.parse::<i64>()
            .map_err(|_| format!("invalid number '{text}'"))
    };
    let numbers = arguments
        .iter()
        .map(number)
        .collect::<Result<Vec<_>, _>>()?;
    let (first, step, last) = match numbers.as_slice() {
        [last] => (1, 1, *last),
        [first, last] => (*first, 1, *last),
        [first, step, last] => (*first, *step, *last),
        _ => return Err("one to three numbers are wanted".to_owned()),
    };
    if step == 0 {
        return Err("the step must not be zero".to_owned());
    }
    let mut text = String::new();
    let mut next = Some(first);
    while let Some(number) = next.filter(|number| {
        if step > 0 {
            *number <= last
        } else {
            *number >= last
        }
    }) {
        text.push_str(&format!("{number}\n"));
        if text.len() > MAX_TEXT {
            return Err("more numbers than are simulated".to_owned());
        }
        next = number.checked_add(step);
    }
    Ok(text)
}

pub(super) fn part_of_path(program: &str, arguments: &[String]) -> String {
    let path = arguments
        .first()
        .map_or("", |path| path.trim_end_matches('/'));
    let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
    if program == "dirname" {
        return format!("{}\n", if directory.is_empty() { "/" } else { directory });
    }
    let suffix = arguments.get(1).map_or("", String::as_str);
    format!(
        "{}\n",
        name.strip_suffix(suffix)
            .filter(|stem| !stem.is_empty())
            .unwrap_or(name)
    )
}

pub(super) fn uname(arguments: &[String], hostname: &str) -> String {
    const RELEASE: &str = "6.1.0-sim";
    let machine = std::env::consts::ARCH;
    let asked: String = arguments
        .iter()
        .filter_map(|argument| argument.strip_prefix('-'))
        .collect();
    if asked.contains('a') {
        return format!("Linux {hostname} {RELEASE} #1 SMP {machine} GNU/Linux\n");
    }
    let all = [
        ('s', "Linux"),
        ('n', hostname),
        ('r', RELEASE),
        ('v', "#1 SMP"),
        ('m', machine),
    ];
    let words: Vec<&str> = all
        .iter()
        .filter(|(letter, _)| asked.contains(*letter))
        .map(|(_, word)| *word)
        .collect();
    if words.is_empty() {
        "Linux\n".to_owned()
    } else {
        words.join(" ") + "\n"
    }
}
