//! `cloudsim show`: prints a recording as a table, as JSON lines or as swim lanes.

use std::{collections::HashMap, path::Path, process::ExitCode, time::Duration};

use anyhow::Context;
use jiff::Timestamp;
use record::{Body, Connection, Frame, Line, Reader, Side};
use wire::text::printable_short;

use super::{print_line, table::Table, warn};
use crate::cli::{Show, ShowFormat};

/// The rows of a table that are aligned together.
const ALIGNED_ROWS: usize = 500;
/// The most connections whose names are kept; a damaged or hostile recording may have more.
const MAX_CONNECTIONS: usize = 100_000;
/// The width of an arrow in swim lanes, characters.
const LANE: usize = 56;

pub(super) fn run(show: &Show) -> anyhow::Result<ExitCode> {
    let mut printer = Printer::new(show);
    let mut is_damaged = false;
    for file in &show.files {
        is_damaged |= !print_file(file, &mut printer)?;
    }
    printer.finish();
    Ok(match is_damaged {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Prints a file. Returns false if a part of it cannot be read, which is reported.
fn print_file(file: &Path, printer: &mut Printer<'_>) -> anyhow::Result<bool> {
    let name = file.display();
    let reader = Reader::open(file).with_context(|| format!("cannot open {name}"))?;
    let mut is_whole = true;
    for line in reader {
        match line {
            Ok(line) => printer.line(&line)?,
            Err(error) => {
                is_whole = false;
                warn(&format!("{name}: {error}"));
            }
        }
    }
    Ok(is_whole)
}

/// Prints the lines that were asked for.
struct Printer<'a> {
    show: &'a Show,
    connections: HashMap<u64, Connection>,
    /// When the recording begins, nanoseconds since 1970.
    begin: Option<u64>,
    table: Table,
    rows: usize,
    widths: Vec<usize>,
}

impl<'a> Printer<'a> {
    fn new(show: &'a Show) -> Self {
        let lanes = show.output == Some(ShowFormat::Lanes);
        Self {
            show,
            connections: HashMap::new(),
            begin: None,
            table: if lanes {
                Table::new(&["TIME", "NODE", "EDGE", "CLOUD"])
            } else {
                Table::new(&[
                    "TIME",
                    "NODE",
                    "FROM",
                    "KIND",
                    "OPERATION",
                    "RESOURCE",
                    "BYTES",
                ])
            },
            rows: 0,
            widths: Vec::new(),
        }
    }

    fn line(&mut self, line: &Line) -> anyhow::Result<()> {
        if let Some(time) = line.time() {
            self.begin.get_or_insert(time);
        }
        match line {
            Line::Connection(connection) if self.connections.len() < MAX_CONNECTIONS => {
                self.connections.insert(connection.id, connection.clone());
            }
            Line::End(end) => {
                self.connections.remove(&end.connection);
            }
            Line::Gap(gap) => warn(&format!(
                "{} frames were not recorded before {}: the program sent more than the disk could write",
                gap.frames,
                clock(gap.time)
            )),
            Line::Frame(frame) => return self.frame(frame, line),
            Line::Connection(_) | Line::Recording(_) | Line::Unknown => {}
        }
        Ok(())
    }

    fn frame(&mut self, frame: &Frame, line: &Line) -> anyhow::Result<()> {
        let node = self
            .connections
            .get(&frame.connection)
            .map_or("", |connection| connection.node.as_str());
        let elapsed =
            Duration::from_nanos(frame.time.saturating_sub(self.begin.unwrap_or_default()));
        if !is_shown(self.show, frame, node, elapsed) {
            return Ok(());
        }
        let (operation, resource) = subject(frame);
        let row = match self.show.output {
            Some(ShowFormat::Json) => {
                print_line(&serde_json::to_string(line)?);
                return Ok(());
            }
            Some(ShowFormat::Lanes) => {
                let text = format!("{} {resource}", printable_short(&frame.kind));
                vec![
                    clock(frame.time),
                    printable_short(node),
                    arrow(frame.from, text.trim_end()),
                ]
            }
            None => vec![
                clock(frame.time),
                printable_short(node),
                side(frame.from).to_owned(),
                printable_short(&frame.kind),
                operation,
                resource,
                frame.size.to_string(),
            ],
        };
        self.table.row(row);
        self.rows += 1;
        if self.rows == ALIGNED_ROWS {
            self.print_rows();
        }
        Ok(())
    }

    fn print_rows(&mut self) {
        print_line(self.table.align(&mut self.widths).trim_end());
        (self.table, self.rows) = (Table::without_head(), 0);
    }

    fn finish(mut self) {
        if self.rows > 0 {
            self.print_rows();
        } else if self.widths.is_empty() && self.show.output != Some(ShowFormat::Json) {
            warn("no frame matches");
        }
    }
}

/// Reports whether a frame was asked for. `elapsed`: the time since the begin of the recording.
fn is_shown(show: &Show, frame: &Frame, node: &str, elapsed: Duration) -> bool {
    let is_about = |object: &String| {
        let Body::Message(message) = &frame.body else {
            return false;
        };
        let path = message.route.resource.as_object();
        path.is_some_and(|path| match object.split_once('/') {
            Some((namespace, name)) => path.namespace == Some(namespace) && path.name == Some(name),
            None => path.name == Some(object),
        })
    };
    show.node.as_ref().is_none_or(|wanted| wanted == node)
        && (show.kinds.is_empty() || show.kinds.contains(&frame.kind))
        && show.object.as_ref().is_none_or(is_about)
        && show.since.is_none_or(|since| elapsed >= since.get())
        && show.until.is_none_or(|until| elapsed <= until.get())
}

/// Returns the operation and the resource of a frame.
fn subject(frame: &Frame) -> (String, String) {
    match &frame.body {
        Body::Message(message) => (
            printable_short(&message.route.operation),
            printable_short(&message.route.resource),
        ),
        Body::Tunnel { stream, .. } => (String::new(), format!("stream {stream}")),
        Body::Request { method, path, .. } => (printable_short(method), printable_short(path)),
        Body::Response { status, .. } => (status.to_string(), String::new()),
        Body::Raw(_) => (String::new(), String::new()),
    }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Edge => "edge",
        Side::Cloud => "cloud",
    }
}

/// Returns an arrow with a text on it.
fn arrow(from: Side, text: &str) -> String {
    let text: String = text.chars().take(LANE - 6).collect();
    let rest = "─".repeat(LANE - 4 - text.chars().count());
    match from {
        Side::Edge => format!("─ {text} {rest}▶"),
        Side::Cloud => format!("◀{rest} {text} ─"),
    }
}

/// Returns the time of day, UTC, with milliseconds.
fn clock(nanoseconds: u64) -> String {
    let time = Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default();
    time.strftime("%H:%M:%S%.3f").to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;
    use wire::{Message, Upstream};

    use super::*;
    use crate::cli::{Cli, Command};

    fn show(arguments: &[&str]) -> Show {
        let all = [&["cloudsim", "show", "file"], arguments].concat();
        match Cli::parse_from(all).command {
            Command::Show(show) => show,
            other => panic!("{other:?}"),
        }
    }

    fn frame(message: Message) -> Frame {
        Frame {
            connection: 1,
            time: 1_795_231_219_727_000_000,
            from: Side::Edge,
            size: 10,
            kind: "pod-status".to_owned(),
            body: Body::Message(Box::new(message)),
        }
    }

    #[test]
    fn frames_are_filtered_by_node_kind_object_and_time() {
        let frame = frame(Upstream::pod_patch("default", "p1", "{}".into()).into_message(1));
        for (arguments, expected) in [
            (&[][..], true),
            (&["--node", "edge-1"], true),
            (&["--node", "edge-2"], false),
            (&["--kind", "lease", "--kind", "pod-status"], true),
            (&["--kind", "lease"], false),
            (&["--object", "p1"], true),
            (&["--object", "default/p1"], true),
            (&["--object", "other/p1"], false),
            (&["--object", "p"], false),
            (&["--since", "5s", "--until", "5s"], true),
            (&["--since", "6s"], false),
            (&["--until", "4s"], false),
        ] {
            let show = show(arguments);
            let shown = is_shown(&show, &frame, "edge-1", Duration::from_secs(5));
            assert_eq!(shown, expected, "{arguments:?}");
        }
    }

    #[test]
    fn lanes_are_of_one_width_and_texts_of_peers_are_cleaned() {
        for text in ["", "keepalive", &"ä".repeat(100)] {
            for from in [Side::Edge, Side::Cloud] {
                assert_eq!(arrow(from, text).chars().count(), LANE, "{text}");
            }
        }
        let mut evil = frame(Message::new(Default::default(), json!(null), 1));
        if let Body::Message(message) = &mut evil.body {
            message.route.resource = "a\u{1b}[31m\n".into();
        }
        assert!(!subject(&evil).1.contains(char::is_control));
        assert_eq!(clock(evil.time), "03:20:19.727");
        assert_eq!(clock(u64::MAX).len(), 12);
    }
}
