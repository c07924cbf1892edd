//! Parses a node's `/metrics/resource` as metrics-server does. Pure.
//!
//! Source: metrics-server's decoder, `pkg/scraper/client/resource/decode.go`. The format is Prometheus' text format, version 0.0.4.

use std::{borrow::Cow, collections::BTreeMap};

/// Namespace and name of a pod.
pub(super) type PodName = (String, String);

/// A sample of cumulative usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    /// The time by the node's clock, milliseconds since 1970.
    pub(super) at: i64,
    /// The CPU time since the start, nanoseconds.
    pub(super) cpu: u64,
    /// The working set, bytes.
    pub(super) memory: u64,
    /// The start, milliseconds since 1970; 0 if it is not reported, as for nodes.
    pub(super) start: i64,
}

/// The largest accepted difference from the cloud's clock, milliseconds: a week.
const MAX_CLOCK_SKEW_MS: u64 = 7 * 24 * 3600 * 1000;

/// The samples of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// The node; `None` if a value is missing or 0.
    pub(super) node: Option<Point>,
    /// The containers of each pod by name. A pod with a value that is missing or 0 is left out.
    pub(super) pods: BTreeMap<PodName, BTreeMap<String, Point>>,
}

/// The line of this number is not a sample.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {0} of /metrics/resource is not a sample in Prometheus' text format")]
pub(super) struct ParsePageError(usize);

/// Parses a page that was received at `now` (milliseconds since 1970), the time of samples without a timestamp.
pub(super) fn read(text: &str, now: i64) -> Result<Page, ParsePageError> {
    let (mut node, mut pods) = (
        Point::default(),
        BTreeMap::<PodName, BTreeMap<String, Point>>::new(),
    );
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let sample = sample(line).ok_or(ParsePageError(index + 1))?;
        let at = sample
            .at
            .filter(|at| now.abs_diff(*at) < MAX_CLOCK_SKEW_MS)
            .unwrap_or(now);
        let (of, what) = sample.name.split_once('_').unwrap_or_default();
        let point = match of {
            "node" => &mut node,
            "container" if is_known(what) => {
                let pod = (sample.label("namespace"), sample.label("pod"));
                pods.entry(pod)
                    .or_default()
                    .entry(sample.label("container"))
                    .or_default()
            }
            _ => continue,
        };
        match what {
            "cpu_usage_seconds_total" => (point.cpu, point.at) = (whole(sample.value * 1e9), at),
            "memory_working_set_bytes" => (point.memory, point.at) = (whole(sample.value), at),
            "start_time_seconds" => {
                point.start = i64::try_from(whole(sample.value * 1e3))
                    .unwrap_or(now)
                    .min(now)
            }
            _ => {}
        }
    }
    let is_whole = |point: &Point| point.cpu > 0 && point.memory > 0;
    pods.retain(|_, containers| containers.values().all(is_whole));
    Ok(Page {
        node: Some(node).filter(is_whole),
        pods,
    })
}

fn is_known(what: &str) -> bool {
    matches!(
        what,
        "cpu_usage_seconds_total" | "memory_working_set_bytes" | "start_time_seconds"
    )
}

/// Rounds to a whole number; NaN and negative values become 0.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast keeps to the bounds"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// One line: `name{label="value",…} value time`.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, Cow<'a, str>)>,
    value: f64,
    at: Option<i64>,
}

impl Sample<'_> {
    fn label(&self, name: &str) -> String {
        let mut labels = self.labels.iter();
        labels
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value.to_string())
            .unwrap_or_default()
    }
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(|char: char| char == '{' || char.is_ascii_whitespace())?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(mut within) = rest.strip_prefix('{') {
        loop {
            within = within.trim_start_matches([' ', ',']);
            if let Some(behind) = within.strip_prefix('}') {
                rest = behind;
                break;
            }
            let (label, behind) = within.split_once("=\"")?;
            let (value, behind) = split_quoted(behind)?;
            labels.push((label.trim(), value));
            within = behind;
        }
    }
    let mut words = rest.split_ascii_whitespace();
    let value = words.next()?.parse().ok()?;
    let at = words.next().map(str::parse).transpose().ok()?;
    words.next().is_none().then_some(Sample {
        name,
        labels,
        value,
        at,
    })
}

/// Splits a quoted text from what follows its closing quote.
fn split_quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    if let Some(behind) = text.get(end..)?.strip_prefix('"') {
        return Some((text.get(..end)?.into(), behind));
    }
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value.into(), text.get(at + 1..)?)),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            char => value.push(char),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read() {
        let text = "\
# HELP node_cpu_usage_seconds_total Cumulative cpu time
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 12.5 1700000000123
node_memory_working_set_bytes 1.048576e+06 1700000000123
node_swap_usage_bytes 0 1700000000123
container_cpu_usage_seconds_total{container=\"a\\\"}\",namespace=\"n\",pod=\"p\"} 0.25 1700000000456
container_memory_working_set_bytes{container=\"a\\\"}\",namespace=\"n\",pod=\"p\"} 4096 1700000000456
container_start_time_seconds{container=\"a\\\"}\", namespace=\"n\", pod=\"p\"} 1.6999999995e+09
container_swap_usage_bytes{container=\"x\",namespace=\"n\",pod=\"swap\"} 0
pod_cpu_usage_seconds_total{namespace=\"n\",pod=\"p\"} 0.25 1700000000456
resource_scrape_error 0
";
        let node = Point {
            at: 1_700_000_000_123,
            cpu: 12_500_000_000,
            memory: 1 << 20,
            start: 0,
        };
        let container = Point {
            at: 1_700_000_000_456,
            cpu: 250_000_000,
            memory: 4096,
            start: 1_699_999_999_500,
        };
        let pods = [(
            ("n".to_owned(), "p".to_owned()),
            [("a\"}".to_owned(), container)].into(),
        )]
        .into();
        assert_eq!(
            read(text, 1_700_000_001_000),
            Ok(Page {
                node: Some(node),
                pods
            })
        );
        // a clock that is far from the cloud's says nothing, and nothing has started later than now
        let text = "node_cpu_usage_seconds_total 1 -9223372036854775808\nnode_memory_working_set_bytes 1 9223372036854775807\n\
                    container_start_time_seconds 1e300\ncontainer_cpu_usage_seconds_total 1\ncontainer_memory_working_set_bytes 1\n";
        let page = read(text, 7).unwrap();
        assert_eq!(page.node.unwrap().at, 7);
        assert!(
            page.pods
                .values()
                .flat_map(BTreeMap::values)
                .all(|point| point.start == 7)
        );
        let untimed = read(
            "node_cpu_usage_seconds_total 1\nnode_memory_working_set_bytes 1\n",
            7,
        )
        .unwrap();
        assert_eq!(untimed.node.unwrap().at, 7);
    }

    #[test]
    fn what_is_missing_or_zero_drops_the_node_or_the_whole_pod() {
        let page = |figures: [u32; 4]| {
            let [node, first, second, memory] = figures;
            let text = format!(
                "node_cpu_usage_seconds_total {node}\nnode_memory_working_set_bytes 1\n\
                 container_cpu_usage_seconds_total{{container=\"a\",namespace=\"n\",pod=\"p\"}} {first}\n\
                 container_memory_working_set_bytes{{container=\"a\",namespace=\"n\",pod=\"p\"}} 1\n\
                 container_cpu_usage_seconds_total{{container=\"b\",namespace=\"n\",pod=\"p\"}} {second}\n\
                 container_memory_working_set_bytes{{container=\"b\",namespace=\"n\",pod=\"p\"}} {memory}\n"
            );
            let page = read(&text, 7).unwrap();
            (
                page.node.is_some(),
                page.pods.values().map(BTreeMap::len).collect::<Vec<_>>(),
            )
        };
        assert_eq!(page([1, 1, 1, 1]), (true, vec![2]));
        assert_eq!(page([0, 1, 1, 1]), (false, vec![2]));
        assert_eq!(page([1, 0, 1, 1]), (true, vec![]));
        assert_eq!(page([1, 1, 1, 0]), (true, vec![]));
        let started = "container_start_time_seconds{container=\"a\",namespace=\"n\",pod=\"p\"} 1\n";
        assert_eq!(read(started, 7), Ok(Page::default()));
    }

    #[test]
    fn what_is_no_sample_is_refused_and_no_number_goes_round() {
        for (line, number) in [
            ("x", 1),
            ("# fine\n\nx{a=\"b} 1", 3),
            ("x{a=\"b\\", 1),
            ("x{a} 1", 1),
            ("x one", 1),
            ("x 1 2 3", 1),
            ("x 1 1.5", 1),
        ] {
            assert_eq!(read(line, 7), Err(ParsePageError(number)), "{line}");
        }
        let odd = "node_cpu_usage_seconds_total +Inf\nnode_memory_working_set_bytes NaN\n";
        assert_eq!(read(odd, 7), Ok(Page::default()));
        let below = "node_cpu_usage_seconds_total -1\nnode_memory_working_set_bytes 1\n";
        assert_eq!(read(below, 7), Ok(Page::default()));
    }
}
