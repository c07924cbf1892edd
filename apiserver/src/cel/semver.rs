//! Semantic versions, with the texts of the library that Kubernetes uses.

use std::{cmp::Ordering, fmt};

/// A version such as `1.2.3-rc.1+build`.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(super) numbers: [u64; 3],
    pre: Vec<Identifier>,
    build: Vec<String>,
}

/// A part of what stands before a release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl Version {
    /// Parses a version.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let numbers = [number("major", major)?, number("minor", minor)?];
        let (rest, build) = rest
            .split_once('+')
            .map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest
            .split_once('-')
            .map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let patch = number("patch", patch)?;
        let pre = pre
            .into_iter()
            .flat_map(|pre| pre.split('.'))
            .map(identifier);
        let pre = pre.collect::<Result<_, _>>()?;
        let build: Vec<_> = build
            .into_iter()
            .flat_map(|build| build.split('.'))
            .map(str::to_owned)
            .collect();
        for part in &build {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_word(part) {
                return Err(format!(
                    "Invalid character(s) found in build meta data {part:?}"
                ));
            }
        }
        let [major, minor] = numbers;
        Ok(Self {
            numbers: [major, minor, patch],
            pre,
            build,
        })
    }

    /// Parses a version that may begin with `v`, have fewer than three numbers, and zeros before them.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub(super) fn parse_tolerant(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    /// Compares two versions; builds do not count.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        // a release comes after what stands before it
        let releases = self.pre.is_empty().cmp(&other.pre.is_empty());
        self.numbers
            .cmp(&other.numbers)
            .then(releases)
            .then_with(|| self.pre.cmp(&other.pre))
    }

    /// Returns the number of bytes that it has at least.
    pub(super) fn length(&self) -> usize {
        let pre = self.pre.iter().map(|part| {
            if let Identifier::Text(text) = part {
                text.len()
            } else {
                1
            }
        });
        pre.chain(self.build.iter().map(String::len)).sum()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (index, part) in self.pre.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Text(text) => f.write_str(text)?,
            }
        }
        if self.build.is_empty() {
            Ok(())
        } else {
            write!(f, "+{}", self.build.join("."))
        }
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|first: char| first.is_ascii_digit()) {
        rest.to_owned()
    } else {
        format!("0{rest}")
    }
}

fn number(which: &str, text: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "Invalid character(s) found in {which} number {text:?}"
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        let (first, rest) = which.split_at(1);
        return Err(format!(
            "{}{rest} number must not contain leading zeroes {text:?}",
            first.to_uppercase()
        ));
    }
    integer(text)
}

fn integer(text: &str) -> Result<u64, String> {
    let why = if text.is_empty() {
        "invalid syntax"
    } else {
        "value out of range"
    };
    text.parse()
        .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: {why}"))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {text:?}"
            ));
        }
        return integer(text).map(Identifier::Number);
    }
    if is_word(text) {
        return Ok(Identifier::Text(text.to_owned()));
    }
    Err(format!("Invalid character(s) found in prerelease {text:?}"))
}

fn is_word(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
