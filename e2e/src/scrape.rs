//! Requests the node's server over plain HTTP, and parses its metrics as strictly as `promtool check metrics` does.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, bail, ensure};

/// How long a response may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The response of a server.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status code.
    pub code: u16,
    /// The lines of its head.
    pub head: String,
    /// Its body.
    pub body: String,
}

impl Answer {
    /// Returns the value of a header in lower case; empty if it is absent.
    pub fn header(&self, name: &str) -> String {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let value = lines
            .into_iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        value
            .map(|(_, value)| value.trim().to_lowercase())
            .unwrap_or_default()
    }

    /// Returns itself if the code is 200.
    pub fn success(self) -> anyhow::Result<Self> {
        ensure!(self.code == 200, "{}: {}", self.code, self.body);
        Ok(self)
    }

    /// Returns its body as samples if the code is 200.
    pub fn samples(self) -> anyhow::Result<Vec<Sample>> {
        ensure!(
            self.header("content-type")
                .starts_with("text/plain; version=0.0.4"),
            "{}",
            self.head
        );
        samples(&self.success()?.body)
    }
}

/// Returns the response of the server at `address` to `GET path`.
pub fn get(address: SocketAddr, path: &str) -> anyhow::Result<Answer> {
    send(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    )
}

/// Sends these bytes and returns the response.
pub fn send(address: SocketAddr, request: &str) -> anyhow::Result<Answer> {
    let mut stream =
        TcpStream::connect(address).with_context(|| format!("{address} does not listen"))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    // A server that refuses a request may close before its end.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer)?;
    ensure!(!answer.is_empty(), "no answer: {read:?}");
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("the head has no end")?;
    let code = head.split(' ').nth(1).context("no code")?.parse()?;
    Ok(Answer {
        code,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The name of the series.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
    /// Its timestamp in Unix milliseconds; `None` means now.
    pub at: Option<i64>,
}

impl Sample {
    /// Returns the value of a label; empty if it is absent, as for scrapers.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// Returns the one sample of this name with (at least) these labels.
pub fn find<'a>(
    samples: &'a [Sample],
    name: &str,
    labels: &[(&str, &str)],
) -> anyhow::Result<&'a Sample> {
    let wanted = |sample: &&Sample| {
        sample.name == name
            && labels
                .iter()
                .all(|(key, value)| sample.label(key) == *value)
    };
    let found: Vec<_> = samples.iter().filter(wanted).collect();
    let [one] = found.as_slice() else {
        bail!("{} samples of {name} {labels:?}", found.len())
    };
    Ok(one)
}

/// Parses the exposition format, and refuses what a strict parser would: samples without a type or a help text, split families,
/// repeated series, counters without `_total`, histograms whose buckets do not add up.
pub fn samples(text: &str) -> anyhow::Result<Vec<Sample>> {
    ensure!(
        text.is_empty() || text.ends_with('\n'),
        "the last line has no end"
    );
    let (mut families, mut family) = (BTreeSet::new(), ("", "", ""));
    let (mut found, mut series) = (Vec::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').context("no help")?;
            ensure!(families.insert(name), "{name} is in pieces");
            family = (name, "", help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').context("no type")?;
            ensure!(name == family.0 && family.1.is_empty(), "{line}");
            ensure!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            ensure!(kind != "counter" || name.ends_with("_total"), "{line}");
            family.1 = kind;
        } else {
            let sample = sample(line).with_context(|| line.to_owned())?;
            let base = match family.1 {
                "" => bail!("{line}: no type"),
                "histogram" => {
                    let ends = ["_bucket", "_sum", "_count"];
                    ends.iter()
                        .find_map(|end| sample.name.strip_suffix(end))
                        .unwrap_or_default()
                }
                _ => &sample.name,
            };
            ensure!(base == family.0, "{line} is not of {}", family.0);
            ensure!(
                series.insert((sample.name.clone(), sample.labels.clone())),
                "{line} stands twice"
            );
            found.push(sample);
        }
    }
    check_histograms(&found)?;
    Ok(found)
}

fn sample(line: &str) -> anyhow::Result<Sample> {
    let end = line.find(['{', ' ']).context("no value")?;
    let (name, mut rest) = line.split_at(end);
    let word = |text: &str| {
        !text.is_empty()
            && !text.starts_with(|first: char| first.is_ascii_digit())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    ensure!(word(name), "no name");
    let mut labels = BTreeMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (label, after) = inside.split_once("=\"").context("no label")?;
            ensure!(word(label), "no label");
            let (value, after) = split_quoted(after).context("no end of a value")?;
            ensure!(
                labels.insert(label.to_owned(), value).is_none(),
                "a label stands twice"
            );
            match after.strip_prefix(',') {
                Some(more) => inside = more,
                None => {
                    rest = after.strip_prefix('}').context("no end of the labels")?;
                    break;
                }
            }
        }
    }
    let mut words = rest.strip_prefix(' ').context("no value")?.split(' ');
    let value = words.next().unwrap_or_default().parse()?;
    let at = words.next().map(str::parse).transpose()?;
    ensure!(words.next().is_none(), "something stands behind");
    Ok(Sample {
        name: name.to_owned(),
        labels,
        value,
        at,
    })
}

/// Returns the text before the closing quotation mark, and the text after it.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut letters) = (String::new(), text.char_indices());
    loop {
        match letters.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match letters.next()?.1 {
                'n' => '\n',
                other @ ('\\' | '"') => other,
                _ => return None,
            }),
            (_, other) => value.push(other),
        }
    }
}

fn check_histograms(samples: &[Sample]) -> anyhow::Result<()> {
    let mut last: Option<&Sample> = None;
    for sample in samples {
        let bucket = sample.name.strip_suffix("_bucket");
        if let (Some(_), Some(before)) = (bucket, last) {
            let others = |sample: &Sample| {
                let mut labels = sample.labels.clone();
                labels.remove("le");
                (sample.name.clone(), labels)
            };
            if others(before) == others(sample) {
                let bound = |sample: &Sample| sample.label("le").parse::<f64>();
                ensure!(
                    bound(before)? < bound(sample)?,
                    "{sample:?}: bounds must rise"
                );
                ensure!(before.value <= sample.value, "{sample:?}: counts must rise");
            } else {
                ensure!(before.label("le") == "+Inf", "{before:?} is the last");
            }
        }
        if let (Some(base), Some(before)) = (sample.name.strip_suffix("_count"), last)
            && before.name == format!("{base}_bucket")
        {
            ensure!(
                before.value == sample.value,
                "{sample:?}: not as many as in the buckets"
            );
        }
        // The sum stands between the buckets and the count.
        if !sample.name.ends_with("_sum") {
            last = bucket.map(|_| sample);
        }
    }
    Ok(())
}
