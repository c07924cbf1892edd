//! Whether a program printed a line that a page shows, apart from what differs from run to run.

/// Reports whether a line of `said` is the line of a page. White space, ages (`5s`), durations (`1380 ms`) and, if `numbers_vary`, all
/// numbers may differ. `…` stands for any text.
pub fn shows(said: &str, shown: &str, numbers_vary: bool) -> bool {
    let shown = normal(shown, numbers_vary);
    shown.is_empty()
        || shown == "…"
        || said
            .lines()
            .any(|line| fits(&normal(line, numbers_vary), &shown))
}

/// Reports whether the parts of `shown` between `…` are in `line`, in this order.
fn fits(line: &str, shown: &str) -> bool {
    let Some((first, rest)) = shown.split_once('…') else {
        return line == shown;
    };
    let Some(mut left) = line.strip_prefix(first.trim_end()) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('…').map(str::trim).collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.split_once(part) {
            Some((_, after)) => left = after,
            None => return false,
        }
    }
    left.ends_with(last)
}

/// Returns the line with one space between its words, and with marks in place of ages and durations.
fn normal(line: &str, numbers_vary: bool) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut normal = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let has_unit = words.get(index + 1).is_some_and(|next| {
            ["ms", "s", "seconds"].contains(&next.trim_end_matches([',', '.']))
        });
        let word = match word.trim_matches(['(', ')', ',']) {
            bare if is_age(bare) => "AGE".to_owned(),
            bare if has_unit && bare.parse::<f64>().is_ok() => "NUMBER".to_owned(),
            _ if numbers_vary => without_numbers(word),
            _ => (*word).to_owned(),
        };
        normal.push(word);
    }
    normal.join(" ")
}

/// Reports whether the word is an age or a duration, such as `5s`, `3m20s`, `1380ms` or `0.5s`.
fn is_age(word: &str) -> bool {
    let mut rest = word;
    let mut parts = 0;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let unit = ["ms", "µs", "s", "m", "h", "d"]
            .iter()
            .find_map(|unit| number.strip_prefix(unit));
        match unit {
            Some(after) if number.len() < rest.len() => rest = after,
            _ => return false,
        }
        parts += 1;
    }
    parts > 0
}

/// Returns the word with `0` in place of each number.
fn without_numbers(word: &str) -> String {
    let mut text = String::new();
    for c in word.chars() {
        match c.is_ascii_digit() {
            true if text.ends_with('0') => {}
            true => text.push('0'),
            false => text.push(c),
        }
    }
    text
}
