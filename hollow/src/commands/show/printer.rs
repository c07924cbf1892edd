//! Prints the lines of a recording that were asked for: as a table, as JSON lines or as swim lanes.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use record::{Body, CLOSE, Connection, Frame, Line, Side};
use wire::{
    text::{count, printable_short},
    tunnel::Connect,
};

use super::super::{output, table::Table, warn};
use crate::cli::{Show, ShowFormat};

/// The rows of a table that are aligned together.
const ALIGNED_ROWS: usize = 500;
/// The most connections whose names are kept; a damaged or hostile recording may have more.
const MAX_CONNECTIONS: usize = 100_000;
/// The width of an arrow in swim lanes, characters.
const LANE: usize = 56;

/// The node of a connection that was not recorded, or whose block is damaged.
const UNKNOWN_NODE: &str = "?";
/// The namespace of objects without one, as in paths of messages.
const NO_NAMESPACE: &str = "null";

/// Prints the lines that were asked for.
pub(super) struct Printer<'a> {
    show: &'a Show,
    connections: HashMap<u64, Connection>,
    /// Connection and stream of a tunnel -> the requested path.
    streams: HashMap<(u64, u64), String>,
    /// When the recording begins, nanoseconds since 1970.
    begin: Option<u64>,
    table: Table,
    rows: usize,
    widths: Vec<usize>,
    /// The number of the last file in its recording.
    part: u32,
    has_shown: bool,
    has_reader: bool,
}

impl<'a> Printer<'a> {
    pub(super) fn new(show: &'a Show) -> Self {
        let lanes = show.output == Some(ShowFormat::Lanes);
        Self {
            show,
            connections: HashMap::new(),
            streams: HashMap::new(),
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
            part: 0,
            has_shown: false,
            has_reader: true,
        }
    }

    /// Reports whether somebody reads the output.
    pub(super) fn has_reader(&self) -> bool {
        self.has_reader
    }

    pub(super) fn line(&mut self, line: &Line) -> anyhow::Result<()> {
        if let Some(time) = line.time() {
            self.begin.get_or_insert(time);
        }
        match line {
            Line::Connection(connection) if self.connections.len() < MAX_CONNECTIONS => {
                self.connections.insert(connection.id, connection.clone());
            }
            Line::End(end) => {
                self.connections.remove(&end.connection);
                self.streams.retain(|(id, _), _| *id != end.connection);
            }
            Line::Recording(header) => {
                let lost = header.part.saturating_sub(self.part).saturating_sub(1);
                if self.show.follow && self.part > 0 && lost > 0 {
                    let files = count(u64::from(lost), "file");
                    warn(&format!(
                        "{files} of the recording deleted before they were read"
                    ));
                }
                self.part = header.part;
            }
            Line::Gap(gap) => warn(&format!(
                "{} frames were not recorded before {}: the program sent more than the disk could write",
                gap.frames,
                clock(gap.time)
            )),
            Line::Frame(frame) => return self.frame(frame, line),
            Line::Connection(_) | Line::Unknown => {}
        }
        Ok(())
    }

    fn frame(&mut self, frame: &Frame, line: &Line) -> anyhow::Result<()> {
        let node = self
            .connections
            .get(&frame.connection)
            .map_or(UNKNOWN_NODE, |connection| connection.node.as_str())
            .to_owned();
        let elapsed =
            Duration::from_nanos(frame.time.saturating_sub(self.begin.unwrap_or_default()));
        // a stream's request counts even if it is not shown
        let (operation, resource) = self.subject(frame);
        if !is_shown(self.show, frame, &node, elapsed) {
            return Ok(());
        }
        self.has_shown = true;
        let row = match self.show.output {
            Some(ShowFormat::Json) => {
                return self.write(&serde_json::to_string(line)?);
            }
            Some(ShowFormat::Lanes) => {
                let text = format!("{} {resource}", printable_short(&frame.kind));
                vec![
                    clock(frame.time),
                    printable_short(&node),
                    arrow(frame.from, text.trim_end()),
                ]
            }
            None => vec![
                clock(frame.time),
                printable_short(&node),
                side(frame.from).to_owned(),
                printable_short(&frame.kind),
                operation,
                resource,
                frame.size.to_string(),
            ],
        };
        self.table.row(row);
        self.rows += 1;
        if self.rows == ALIGNED_ROWS || self.show.follow {
            self.print_rows()?;
        }
        Ok(())
    }

    fn print_rows(&mut self) -> anyhow::Result<()> {
        let rows = self.table.align(&mut self.widths);
        (self.table, self.rows) = (Table::without_head(), 0);
        self.write(rows.trim_end())
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        self.has_reader = output::write(&format!("{text}\n"))?;
        Ok(())
    }

    /// Prints the rest. `is_damaged`: the user knows already that something is missing.
    pub(super) fn finish(mut self, is_damaged: bool) -> anyhow::Result<()> {
        if self.rows > 0 {
            self.print_rows()?;
        }
        if !self.has_shown && !is_damaged {
            warn("no frame matches");
        }
        Ok(())
    }

    /// Returns the operation and the resource of a frame.
    fn subject(&mut self, frame: &Frame) -> (String, String) {
        let (operation, resource) = match &frame.body {
            Body::Message(message) => (
                message.route.operation.to_string(),
                message.route.resource.to_string(),
            ),
            Body::Tunnel { stream, data, .. } => {
                self.stream((frame.connection, *stream), data.as_deref())
            }
            Body::Request { method, path, .. } => (method.clone(), path.clone()),
            Body::Response { status, .. } => (status.to_string(), String::new()),
            Body::Raw(data) => (String::new(), close_code(&frame.kind, data)),
        };
        (printable_short(&operation), printable_short(&resource))
    }

    /// Returns the method and the path that a stream of a tunnel was opened for. The method is only in the frame that opens it.
    fn stream(&mut self, key: (u64, u64), data: Option<&str>) -> (String, String) {
        let request = data
            .and_then(|data| STANDARD.decode(data).ok())
            .and_then(|data| Connect::decode(&data).ok());
        let is_full = self.streams.len() >= MAX_CONNECTIONS;
        let path = match (request.as_ref(), self.streams.entry(key)) {
            (Some(request), Entry::Occupied(mut entry)) => {
                entry.insert(request.url.path.clone());
                request.url.path.clone()
            }
            (Some(request), Entry::Vacant(entry)) => {
                if !is_full {
                    entry.insert(request.url.path.clone());
                }
                request.url.path.clone()
            }
            (None, Entry::Occupied(entry)) => entry.get().clone(),
            (None, Entry::Vacant(_)) => String::new(),
        };
        // KubeEdge's logs and metrics have no method
        let method = request.map(|request| request.method.unwrap_or_else(|| "GET".to_owned()));
        let resource = format!("stream {} {path}", key.1);
        (method.unwrap_or_default(), resource.trim_end().to_owned())
    }
}

/// Returns the code of a close frame of WebSocket.
fn close_code(kind: &str, data: &str) -> String {
    let data = STANDARD.decode(data).unwrap_or_default();
    match data[..] {
        [high, low, ..] if kind == CLOSE => u16::from_be_bytes([high, low]).to_string(),
        _ => String::new(),
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
            Some((NO_NAMESPACE, name)) => path.namespace.is_none() && path.name == Some(name),
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
            (&["--object", "null/p1"], false),
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
    fn objects_without_a_namespace_are_found_by_name_and_with_null() {
        let frame = frame(Upstream::node_patch("edge-1", "{}".into()).into_message(1));
        for (object, expected) in [
            ("edge-1", true),
            ("null/edge-1", true),
            ("default/edge-1", false),
        ] {
            let show = show(&["--object", object]);
            let shown = is_shown(&show, &frame, "edge-1", Duration::ZERO);
            assert_eq!(shown, expected, "{object}");
        }
    }

    #[test]
    fn frames_of_a_tunnel_have_the_path_of_their_stream() {
        let show = show(&[]);
        let mut printer = Printer::new(&show);
        let mut row = |connection: u64, stream: u64, data: Option<&str>| {
            let mut frame = frame(Message::default());
            frame.connection = connection;
            frame.body = Body::Tunnel {
                stream,
                kind: 3,
                data: data.map(|data| STANDARD.encode(data)),
            };
            printer.subject(&frame)
        };
        let request = Connect::new(7, "/exec/default/p/c", "").method("POST");
        let request = serde_json::to_string(&request).unwrap();
        let of = |method: &str, resource: &str| (method.to_owned(), resource.to_owned());
        assert_eq!(
            row(1, 7, Some(&request)),
            of("POST", "stream 7 /exec/default/p/c")
        );
        assert_eq!(row(1, 7, None), of("", "stream 7 /exec/default/p/c"));
        assert_eq!(row(2, 7, None), of("", "stream 7"));
        assert_eq!(row(1, 8, Some("text")), of("", "stream 8"));
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
        let show = show(&[]);
        let subject = Printer::new(&show).subject(&evil);
        assert!(!subject.1.contains(char::is_control));
        assert_eq!(clock(evil.time), "03:20:19.727");
        assert_eq!(clock(u64::MAX).len(), 12);
    }
}
