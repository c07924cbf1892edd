//! Reads a recording into memory: what was sent over its connections, in order. Memory is bounded, whatever the recording says.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use record::{Body, Connection, Fault, Frame, Header, Line, ReadError, Reader, Side, Transport};
use serde_json::{Value, json};
use wire::{Message, Route, tunnel};

/// The most bytes of JSON that are read of a recording.
pub const MAX_BYTES: usize = 128 * 1024 * 1024;
/// The largest message, bytes of JSON: that of KubeEdge, and a quarter more for another notation.
pub const MAX_MESSAGE_BYTES: usize = 20 * 1024 * 1024;
/// The most messages that are read of a recording.
pub const MAX_MESSAGES: usize = 500_000;
/// The most connections that are open at a time.
pub const MAX_CONNECTIONS: usize = 100_000;

/// Something that was sent. Requests of enrolment and of the tunnel have the form of a message, too.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The number of the frame in the recording, from 1.
    pub frame: u64,
    /// The offset of its block in the file.
    pub offset: u64,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// The connection.
    pub connection: u64,
    /// What the connection is used for.
    pub transport: Transport,
    /// The node; empty if it is unknown.
    pub node: Arc<str>,
    /// The side that sent it.
    pub from: Side,
    /// The kind of message, by the name in the specification.
    pub kind: &'static str,
    /// The message as JSON, which needs less memory than the message.
    pub(crate) text: Box<str>,
}

/// What is read of a recording.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only this node.
    pub node: Option<String>,
    /// Only these kinds; all if it is empty.
    pub kinds: Vec<String>,
}

/// A recording in memory.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// What was sent, in order.
    pub sent: Vec<Sent>,
    /// Whether secrets were replaced; `false` if there is no header.
    pub is_redacted: bool,
    /// Frames that were not recorded.
    pub lost: u64,
    /// Frames of streams, and frames that cannot be decoded: the number of each kind. Their content is not compared.
    pub skipped: BTreeMap<&'static str, u64>,
    /// The offset at which the file ends within a block.
    pub truncated: Option<u64>,
    /// Connections that have no end: the recording is still written, or its program was killed.
    pub open: usize,
    bytes: usize,
}

/// Why a recording cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be opened.
    #[error("cannot open the recording")]
    Open(#[source] io::Error),
    /// The file is damaged, or no recording.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The recording needs too much memory.
    #[error(
        "the recording has more than {limit} {what} up to byte {offset}; select a part with --node and --kind"
    )]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// The offset of the block.
        offset: u64,
    },
}

impl Sent {
    /// Returns the message.
    pub fn message(&self) -> Message {
        // it was written by the same library
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Reports whether the message contains a text, before it is decoded.
    pub(crate) fn has_text(&self, text: &str) -> bool {
        self.text.contains(text)
    }
}

impl Script {
    /// Opens and reads a recording.
    ///
    /// # Errors
    /// It cannot be read, or is too large.
    pub fn open(path: &Path, selection: &Selection) -> Result<Self, LoadError> {
        let file = limits::open_regular_file(path, File::options().read(true));
        let file = file.map_err(LoadError::Open)?;
        Self::read(io::BufReader::new(file), selection)
    }

    /// Reads a recording. The end of a recording that a crash has cut off is noted, any other damage is an error.
    ///
    /// # Errors
    /// It is damaged or too large.
    pub fn read(input: impl Read, selection: &Selection) -> Result<Self, LoadError> {
        let mut reader = Reader::new(input);
        let mut script = Self::default();
        let mut open = HashMap::new();
        let mut frames = 0;
        while let Some(line) = reader.next() {
            let offset = reader.block_offset();
            let line = match line {
                Ok(line) => line,
                Err(error) if matches!(error.fault, Fault::Truncated) => {
                    script.truncated = Some(error.offset);
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            match line {
                Line::Recording(Header { redacted, .. }) => script.is_redacted |= redacted,
                Line::Connection(connection) => {
                    open.insert(connection.id, of_connection(&connection));
                    limit("open connections", open.len(), MAX_CONNECTIONS, offset)?;
                }
                Line::End(end) => {
                    open.remove(&end.connection);
                }
                Line::Gap(gap) => script.lost = script.lost.saturating_add(gap.frames),
                Line::Frame(frame) => {
                    frames += 1;
                    script.frame(&frame, (frames, offset), &open, selection)?;
                }
                Line::Unknown => {}
            }
        }
        script.open = open.len();
        Ok(script)
    }

    /// Adds a message, for example of a program that is being compared with a recording.
    ///
    /// # Errors
    /// The script is too large.
    pub(crate) fn push(&mut self, mut sent: Sent, message: &Message) -> Result<(), LoadError> {
        sent.text = wire::json::encode(message).into();
        let size = sent.text.len();
        limit("bytes in one message", size, MAX_MESSAGE_BYTES, sent.offset)?;
        self.bytes += size;
        limit("bytes of messages", self.bytes, MAX_BYTES, sent.offset)?;
        limit("messages", self.sent.len() + 1, MAX_MESSAGES, sent.offset)?;
        self.sent.push(sent);
        Ok(())
    }

    fn frame(
        &mut self,
        frame: &Frame,
        (number, offset): (u64, u64),
        open: &HashMap<u64, (Transport, Arc<str>)>,
        selection: &Selection,
    ) -> Result<(), LoadError> {
        let unknown = || (Transport::WebSocket, Arc::from(""));
        let (transport, node) = open.get(&frame.connection).cloned().unwrap_or_else(unknown);
        if selection.node.as_ref().is_some_and(|name| **name != *node) {
            return Ok(());
        }
        let Some((kind, message)) = message_of(frame) else {
            let kind = match &frame.body {
                Body::Tunnel { kind, .. } => {
                    tunnel_kind(*kind).map_or("unknown", tunnel::Kind::name)
                }
                _ => "undecoded",
            };
            *self.skipped.entry(kind).or_default() += 1;
            return Ok(());
        };
        if !selection.kinds.is_empty() && !selection.kinds.iter().any(|one| one == kind) {
            return Ok(());
        }
        let sent = Sent {
            frame: number,
            offset,
            time: frame.time,
            connection: frame.connection,
            transport,
            node,
            from: frame.from,
            kind,
            text: Box::default(),
        };
        self.push(sent, &message)
    }

    /// Returns the nodes in the order in which they appear.
    pub fn nodes(&self) -> Vec<Arc<str>> {
        let mut nodes: Vec<Arc<str>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for sent in &self.sent {
            if !sent.node.is_empty() && seen.insert(&sent.node) {
                nodes.push(sent.node.clone());
            }
        }
        nodes
    }
}

impl Default for Sent {
    fn default() -> Self {
        Self {
            frame: 0,
            offset: 0,
            time: 0,
            connection: 0,
            transport: Transport::WebSocket,
            node: Arc::from(""),
            from: Side::Edge,
            kind: "",
            text: Box::default(),
        }
    }
}

fn limit(what: &'static str, count: usize, limit: usize, offset: u64) -> Result<(), LoadError> {
    match count > limit {
        true => Err(LoadError::TooLarge {
            what,
            limit,
            offset,
        }),
        false => Ok(()),
    }
}

fn of_connection(connection: &Connection) -> (Transport, Arc<str>) {
    // a longer name is that of no node, and would be stored again for each message
    let end = connection.node.floor_char_boundary(253);
    (connection.transport, Arc::from(&connection.node[..end]))
}

fn tunnel_kind(number: u64) -> Option<tunnel::Kind> {
    let mut all = tunnel::Kind::ALL.iter();
    all.find(|kind| kind.number() == number).copied()
}

/// Returns the kind and the message of a frame; `None` if it has no content that could be compared.
fn message_of(frame: &Frame) -> Option<(&'static str, Message)> {
    let request = |operation: &str, resource: &str, content: Value| {
        let route = Route {
            operation: operation.to_owned().into(),
            resource: resource.into(),
            ..Route::default()
        };
        Message {
            route,
            content,
            ..Message::default()
        }
    };
    match &frame.body {
        Body::Message(message) => Some((
            record::kind_of(frame.from, message),
            Message::clone(message),
        )),
        Body::Request { method, path, .. } => Some(("request", request(method, path, Value::Null))),
        Body::Response { status, .. } => {
            Some(("response", request(&status.to_string(), "", Value::Null)))
        }
        Body::Tunnel { kind, data, .. } => {
            let kind = tunnel_kind(*kind)?;
            let data = STANDARD.decode(data.as_ref()?).ok()?;
            let connect = tunnel::Connect::decode(&data).ok()?;
            let content = json!({"query": connect.url.raw_query, "header": connect.header});
            let method = connect.method.as_deref().unwrap_or("GET");
            Some((kind.name(), request(method, &connect.url.path, content)))
        }
        Body::Raw(_) => None,
    }
}
