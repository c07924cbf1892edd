//! Programs that read files or their input and print some of it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::super::{
    outcome::{Outcome, Stop},
    shell::{Shell, World},
    streams::{Input, Output, Streams},
};
use crate::runtime::files::Files;

/// How many lines `head` and `tail` print by default.
const LINES: usize = 10;
/// The most bytes of all files that one program reads, except `cat` and `wc`, which do not hold them together.
const MAX_CONTENTS: usize = 4 << 20;
/// The most lines that `sort` holds.
const MAX_SORTED: usize = 100_000;
/// The most letters in a set of `tr`.
const MAX_LETTERS: usize = 4096;

impl Shell {
    /// Runs one of these programs.
    pub(super) async fn filter(
        &mut self,
        name: &str,
        arguments: &[String],
        streams: &Streams,
    ) -> Outcome {
        match name {
            "cat" => self.cat(arguments, streams).await,
            "tee" => self.tee(arguments, streams).await,
            "wc" => self.wc(arguments, streams).await,
            "head" => self.head(arguments, streams).await,
            "tail" => self.tail(arguments, streams).await,
            "grep" => self.grep(arguments, streams).await,
            "tr" => {
                let all = streams.input.all().await?;
                let text =
                    translate(&String::from_utf8_lossy(&all), arguments).map_err(Stop::Broken)?;
                self.print(&streams.output, text.as_bytes())
                    .await
                    .map(|()| 0)
            }
            _ => {
                let (paths, flags) = split(arguments, "");
                let (contents, code) = self.contents(name, &paths, streams).await?;
                let all = contents.concat();
                let mut lines: Vec<&[u8]> = lines(&all).take(MAX_SORTED + 1).collect();
                if lines.len() > MAX_SORTED {
                    return Err(Stop::Broken(format!("more than {MAX_SORTED} lines")));
                }
                lines.sort_unstable();
                if flags.contains('r') {
                    lines.reverse();
                }
                if flags.contains('u') {
                    lines.dedup();
                }
                for line in lines {
                    self.print(&streams.output, &end_line(line)).await?;
                }
                Ok(code)
            }
        }
    }

    async fn cat(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        let (mut paths, _) = split(arguments, "");
        if paths.is_empty() {
            paths.push("-");
        }
        let mut code = 0;
        for path in paths {
            if path == "-" {
                while let Some(chunk) = streams.input.read().await? {
                    self.print(&streams.output, &chunk).await?;
                }
                continue;
            }
            match self.content("cat", path, streams).await? {
                Some(content) => self.print(&streams.output, &content).await?,
                None => code = 1,
            }
        }
        Ok(code)
    }

    async fn tee(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        let (paths, flags) = split(arguments, "");
        let mut outputs = vec![streams.output.clone()];
        for path in paths {
            let appends = flags.contains('a');
            let opened = self
                .files(path, move |files, path| files.write(path, b"", appends))
                .await?;
            opened.map_err(|why| Stop::Broken(format!("{path}: {why}")))?;
            outputs.push(Output::File(self.resolve(path)));
        }
        while let Some(chunk) = streams.input.read().await? {
            for output in &outputs {
                self.print(output, &chunk).await?;
            }
        }
        Ok(0)
    }

    async fn wc(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        let (paths, flags) = split(arguments, "");
        let is_read = paths.is_empty();
        let mut code = 0;
        for path in if is_read { vec!["-"] } else { paths } {
            let (mut lines, mut words, mut bytes, mut in_word) = (0_u64, 0_u64, 0_u64, false);
            let input = if is_read {
                streams.input.clone()
            } else if let Some(content) = self.content("wc", path, streams).await? {
                Input::bytes(content)
            } else {
                code = 1;
                continue;
            };
            while let Some(chunk) = input.read().await? {
                bytes += chunk.len() as u64;
                for byte in &chunk {
                    lines += u64::from(*byte == b'\n');
                    let is_space = byte.is_ascii_whitespace();
                    words += u64::from(!is_space && !in_word);
                    in_word = !is_space;
                }
            }
            let counts = [('l', lines), ('w', words), ('c', bytes)];
            let asked = |letter: char| flags.is_empty() || flags.contains(letter);
            let counts: Vec<String> = counts
                .iter()
                .filter(|(letter, _)| asked(*letter))
                .map(|(_, count)| count.to_string())
                .collect();
            let name = if is_read {
                String::new()
            } else {
                format!(" {path}")
            };
            self.print(
                &streams.output,
                format!("{}{name}\n", counts.join(" ")).as_bytes(),
            )
            .await?;
        }
        Ok(code)
    }

    async fn head(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        let (paths, flags) = split(arguments, "nc");
        let count = count(&flags).map_err(Stop::Broken)?;
        if paths.is_empty() && !flags.contains('c') {
            // What follows these lines stays for the next reader of the input.
            for _ in 0..count.1 {
                let Some(line) = streams.input.line().await? else {
                    break;
                };
                self.print(&streams.output, &line).await?;
            }
            return Ok(0);
        }
        let (contents, code) = self.contents("head", &paths, streams).await?;
        for content in contents {
            let end = if flags.contains('c') {
                count.1.min(content.len())
            } else {
                lines(&content).take(count.1).map(<[u8]>::len).sum()
            };
            self.print(&streams.output, &content[..end]).await?;
        }
        Ok(code)
    }

    async fn tail(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        let (paths, flags) = split(arguments, "nc");
        let (from_start, count) = count(&flags).map_err(Stop::Broken)?;
        let follows = flags
            .split('=')
            .next()
            .is_some_and(|flags| flags.contains(['f', 'F']));
        if follows && matches!(self.world, World::Planned(_)) {
            return Err(Stop::Serves);
        }
        let (contents, code) = self.contents("tail", &paths, streams).await?;
        for content in contents {
            let of_bytes = flags.contains('c');
            let all = if of_bytes {
                content.len()
            } else {
                lines(&content).count()
            };
            let skipped = if from_start {
                count.saturating_sub(1)
            } else {
                all.saturating_sub(count)
            };
            let start = if of_bytes {
                skipped.min(content.len())
            } else {
                lines(&content).take(skipped).map(<[u8]>::len).sum()
            };
            self.print(&streams.output, &content[start..]).await?;
        }
        if follows {
            std::future::pending().await
        } else {
            Ok(code)
        }
    }

    async fn grep(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        let (words, flags) = split(arguments, "e");
        let given = flags.split_once('=').map(|(_, pattern)| pattern.to_owned());
        let (pattern, paths) = match (given, words.as_slice()) {
            (Some(pattern), paths) => (pattern, paths.to_vec()),
            (None, [pattern, paths @ ..]) => ((*pattern).to_owned(), paths.to_vec()),
            (None, []) => return Err(Stop::Broken("a pattern is wanted".to_owned())),
        };
        let has = |flag: char| {
            flags
                .split('=')
                .next()
                .is_some_and(|flags| flags.contains(flag))
        };
        let pattern = Pattern::new(&pattern, has('i'));
        let (contents, failed) = self.contents("grep", &paths, streams).await?;
        let mut found = 0_usize;
        for (place, content) in contents.iter().enumerate() {
            for line in lines(content) {
                let text = String::from_utf8_lossy(line);
                if pattern.matches(text.trim_end_matches('\n')) == has('v') {
                    continue;
                }
                found += 1;
                if !has('c') && !has('q') {
                    if contents.len() > 1
                        && let Some(path) = paths.get(place)
                    {
                        self.print(&streams.output, format!("{path}:").as_bytes())
                            .await?;
                    }
                    self.print(&streams.output, &end_line(line)).await?;
                }
            }
        }
        if has('c') {
            self.print(&streams.output, format!("{found}\n").as_bytes())
                .await?;
        }
        Ok(if failed > 0 { 2 } else { i32::from(found == 0) })
    }

    /// Returns the contents of the named files, or of the input if none are named, and the exit code: whether all could be read.
    async fn contents(
        &mut self,
        name: &str,
        paths: &[&str],
        streams: &Streams,
    ) -> Result<(Vec<Bytes>, i32), Stop> {
        if paths.is_empty() {
            return Ok((vec![streams.input.all().await?], 0));
        }
        let (mut contents, mut size, mut code) = (Vec::new(), 0, 0);
        for path in paths {
            match self.content(name, path, streams).await? {
                Some(content) => {
                    size += content.len();
                    contents.push(content);
                }
                None => code = 1,
            }
            if size > MAX_CONTENTS {
                return Err(Stop::Broken(format!(
                    "more than {} MiB of files",
                    MAX_CONTENTS >> 20
                )));
            }
        }
        Ok((contents, code))
    }

    /// Returns a file's content; if it cannot be read, prints why.
    async fn content(
        &mut self,
        name: &str,
        path: &str,
        streams: &Streams,
    ) -> Result<Option<Bytes>, Stop> {
        match self.files(path, Files::read).await? {
            Ok(content) => {
                self.spend(content.len()).await?;
                Ok(Some(content.into()))
            }
            Err(why) => {
                self.print(
                    &streams.error,
                    format!("{name}: {path}: {why}\n").as_bytes(),
                )
                .await?;
                Ok(None)
            }
        }
    }
}

/// Returns the arguments that are no flags, and the letters of the flags; a flag's value follows after `=`.
fn split<'a>(arguments: &'a [String], valued: &str) -> (Vec<&'a str>, String) {
    let (mut words, mut letters, mut value) = (Vec::new(), String::new(), None);
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        match argument.strip_prefix('-').filter(|flags| !flags.is_empty()) {
            None => words.push(argument),
            Some("-") => words.extend(rest.by_ref()),
            Some(number) if valued.contains('n') && number.parse::<usize>().is_ok() => {
                letters.push('n');
                value = Some(number);
            }
            Some(flags) => {
                let at = flags.find(|letter| valued.contains(letter));
                let end = at.map_or(flags.len(), |at| at + 1);
                letters.push_str(&flags[..end]);
                if at.is_some() {
                    value = if end < flags.len() {
                        Some(&flags[end..])
                    } else {
                        rest.next()
                    };
                }
            }
        }
    }
    if let Some(value) = value {
        letters.push('=');
        letters.push_str(value);
    }
    (words, letters)
}

/// Returns how much `head` and `tail` print: whether it is counted from the start, and the count.
fn count(flags: &str) -> Result<(bool, usize), String> {
    let Some((_, value)) = flags.split_once('=') else {
        return Ok((false, LINES));
    };
    let number = value.trim_start_matches(['+', '-']);
    let count = number
        .parse()
        .map_err(|_| format!("invalid number '{value}'"))?;
    Ok((value.starts_with('+'), count))
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split_inclusive(|byte| *byte == b'\n')
}

fn end_line(line: &[u8]) -> Vec<u8> {
    let mut line = line.to_vec();
    if !line.ends_with(b"\n") {
        line.push(b'\n');
    }
    line
}

/// A search pattern: text stands for itself, `^` and `$` for a line's beginning and end, and `.*` for anything.
struct Pattern {
    starts: bool,
    ends: bool,
    /// The texts between the `.*`.
    parts: Vec<String>,
    ignores_case: bool,
}

impl Pattern {
    fn new(text: &str, ignores_case: bool) -> Self {
        let text = if ignores_case {
            text.to_lowercase()
        } else {
            text.to_owned()
        };
        let (starts, rest) = text
            .strip_prefix('^')
            .map_or((false, text.as_str()), |rest| (true, rest));
        let (ends, rest) = rest
            .strip_suffix('$')
            .map_or((false, rest), |rest| (true, rest));
        let mut parts: Vec<String> = rest.split(".*").map(str::to_owned).collect();
        let last = parts.len() - 1;
        let mut place = 0;
        // An empty text between two `.*` means nothing.
        parts.retain(|part| {
            place += 1;
            !part.is_empty() || place == 1 || place == last + 1
        });
        Self {
            starts,
            ends,
            parts,
            ignores_case,
        }
    }

    fn matches(&self, line: &str) -> bool {
        let folded = if self.ignores_case {
            line.to_lowercase()
        } else {
            line.to_owned()
        };
        let mut rest = folded.as_str();
        for (place, part) in self.parts.iter().enumerate() {
            let is_last = place + 1 == self.parts.len();
            let found = match (place == 0 && self.starts, is_last && self.ends) {
                (true, true) => (rest == part).then_some(0),
                (true, false) => rest.starts_with(part).then_some(0),
                (false, true) => rest.ends_with(part).then(|| rest.len() - part.len()),
                (false, false) => rest.find(part),
            };
            let Some(at) = found else { return false };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

/// Runs `tr a-z A-Z` or `tr -d x` on a text.
fn translate(text: &str, arguments: &[String]) -> Result<String, String> {
    match arguments {
        [flag, gone] if flag == "-d" => {
            let gone: BTreeSet<char> = letters(gone)?.into_iter().collect();
            Ok(text
                .chars()
                .filter(|letter| !gone.contains(letter))
                .collect())
        }
        [from, to] => {
            let (from, to) = (letters(from)?, letters(to)?);
            let last = *to.last().ok_or("the second set is empty")?;
            let to = to.into_iter().chain(std::iter::repeat(last));
            let mut map = BTreeMap::new();
            for (from, to) in from.into_iter().zip(to) {
                map.entry(from).or_insert(to);
            }
            Ok(text
                .chars()
                .map(|letter| map.get(&letter).copied().unwrap_or(letter))
                .collect())
        }
        _ => Err("two sets are wanted, or -d and one".to_owned()),
    }
}

/// Returns the letters of a set, which lists single letters and ranges.
fn letters(set: &str) -> Result<Vec<char>, String> {
    let set: Vec<char> = set
        .replace("\\n", "\n")
        .replace("\\t", "\t")
        .chars()
        .collect();
    let mut all = Vec::new();
    let mut rest = set.as_slice();
    while let [first, tail @ ..] = rest {
        if let ['-', last, more @ ..] = tail
            && first.is_ascii()
            && last.is_ascii()
        {
            all.extend(*first..=*last);
            rest = more;
        } else {
            all.push(*first);
            rest = tail;
        }
        if all.len() > MAX_LETTERS {
            return Err(format!("a set has more than {MAX_LETTERS} letters"));
        }
    }
    Ok(all)
}
