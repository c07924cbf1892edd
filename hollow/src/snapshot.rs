//! A snapshot: the whole state of a cloud in memory and of its nodes, from which it starts again as it was.
//!
//! A file has one JSON value in each line: [`Head`], the objects of the cloud, each node, and a checksum of all of it. It contains private
//! keys and Secrets.

use std::{
    fmt, io,
    path::Path,
    sync::{Arc, OnceLock},
};

use cloudsim::snapshot::{SnapshotLines, TakeSnapshot};
use jiff::Timestamp;
use objectstore::{Image, LogLimits, MemoryStore, freeze};
use serde::{Deserialize, Serialize};

use crate::fleet::{Fleet, Machine, NodeHandle};

/// The largest file in bytes.
pub(crate) const MAX_BYTES: u64 = 4 << 30;

const API_VERSION: &str = "cloudsim/v1";
const KIND: &str = "Snapshot";

/// Why a file is no snapshot that can be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// A line is missing or invalid.
    #[error("line {line} of the snapshot {path} is damaged; take the snapshot again")]
    Line {
        /// The file.
        path: String,
        /// The number of the line, from 1.
        line: usize,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// Its checksum is wrong.
    #[error("the snapshot {0} is damaged: its checksum does not match; take the snapshot again")]
    Checksum(String),
    /// Another version of this program wrote the file.
    #[error(
        "version {found} wrote the snapshot {path}, this is {}; start it with that version", env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// The file.
        path: String,
        /// The version that wrote it.
        found: String,
    },
}

/// The first line of a file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Head {
    api_version: String,
    kind: String,
    /// The version of the program that wrote the file.
    version: String,
    /// When it was taken.
    taken: Timestamp,
    /// The number of nodes.
    nodes: usize,
}

/// The last line of a file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct End {
    /// CRC-32 of the lines before, with their ends.
    crc32: u32,
}

/// The state of a cloud and of its nodes.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When it was taken.
    pub taken: Timestamp,
    /// The objects of the cloud, with its keys and tokens.
    pub cloud: Image,
    /// The nodes, each with its state.
    pub nodes: Vec<Machine>,
}

impl Snapshot {
    /// Reads a file; `None` if it is another kind of file.
    ///
    /// # Errors
    /// The file cannot be read, is damaged or larger than 4 GiB, or was written by another version.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        let name = path.display().to_string();
        let text = limits::read_regular_file(path, MAX_BYTES).map_err(|source| Error::File {
            path: name.clone(),
            source,
        })?;
        let mut lines = text.split(|byte| *byte == b'\n');
        let head = lines.next().unwrap_or_default();
        let head = match serde_json::from_slice::<Head>(head) {
            Ok(head) if head.api_version == API_VERSION && head.kind == KIND => head,
            _ => return Ok(None),
        };
        if head.version != env!("CARGO_PKG_VERSION") {
            return Err(Error::Version {
                path: name,
                found: head.version,
            });
        }
        let mut next = Lines {
            path: &name,
            lines,
            line: 1,
        };
        let cloud = next.parse()?;
        let nodes = (0..head.nodes).map(|_| next.parse());
        let nodes = nodes.collect::<Result<_, _>>()?;
        let end: End = next.parse()?;
        let size = text.trim_ascii_end().len();
        let last = text[..size].iter().rposition(|byte| *byte == b'\n');
        let body = text.get(..last.map_or(0, |last| last + 1));
        if crc32fast::hash(body.unwrap_or_default()) != end.crc32 {
            return Err(Error::Checksum(name));
        }
        Ok(Some(Self {
            taken: head.taken,
            cloud,
            nodes,
        }))
    }

    /// Returns the number of nodes in the first line of a file.
    pub(crate) fn count_nodes(head: &[u8]) -> serde_json::Result<usize> {
        serde_json::from_slice(head).map(|head: Head| head.nodes)
    }

    /// Returns a store with the objects of the cloud, for [`cloudsim::Options::store`].
    pub fn store(&self) -> Arc<MemoryStore> {
        MemoryStore::from_image(self.cloud.clone(), LogLimits::CLOUD)
    }

    fn head(&self) -> Head {
        Head {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            taken: self.taken,
            nodes: self.nodes.len(),
        }
    }

    /// Returns the lines of a file.
    pub fn into_lines(self) -> impl Iterator<Item = Vec<u8>> + Send + 'static {
        let first = [json_line(&self.head()), json_line(&self.cloud)];
        let nodes = self.nodes.into_iter().map(|node| json_line(&node));
        let mut lines = first.into_iter().chain(nodes);
        let mut sum = Some(crc32fast::Hasher::new());
        std::iter::from_fn(move || match lines.next() {
            Some(line) => {
                sum.as_mut()?.update(&line);
                Some(line)
            }
            None => Some(json_line(&End {
                crc32: sum.take()?.finalize(),
            })),
        })
    }
}

/// Writes a value in a line. Objects of a store are JSON and names are text, so it cannot fail; a line without a value would be refused
/// when it is read.
fn json_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The lines of a file.
struct Lines<'a, L> {
    path: &'a str,
    lines: L,
    /// The number of the last one.
    line: usize,
}

impl<'a, L: Iterator<Item = &'a [u8]>> Lines<'_, L> {
    fn parse<T: Deserialize<'a>>(&mut self) -> Result<T, Error> {
        self.line += 1;
        serde_json::from_slice(self.lines.next().unwrap_or_default()).map_err(|source| {
            Error::Line {
                path: self.path.to_owned(),
                line: self.line,
                source,
            }
        })
    }
}

/// A cloud in memory and its nodes, as they are at the moment. Cheap to clone.
#[derive(Clone, Default)]
pub struct Source(Arc<Parts>);

#[derive(Default)]
struct Parts {
    cloud: OnceLock<Arc<MemoryStore>>,
    nodes: OnceLock<Vec<NodeHandle>>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

impl Source {
    /// Makes a source of the cloud with this store; its nodes follow.
    pub fn new(cloud: Arc<MemoryStore>) -> Self {
        let source = Self::default();
        let _ = source.0.cloud.set(cloud);
        source
    }

    /// Adds the nodes, once.
    pub fn set_nodes(&self, fleet: Option<&Fleet>) {
        let nodes = fleet.map(Fleet::handles).unwrap_or_default();
        let _ = self.0.nodes.set(nodes);
    }

    /// Takes a snapshot. No object is written meanwhile: to cloud and nodes, it is as if all of them lost power at one moment.
    ///
    /// # Errors
    /// The nodes are still being started.
    pub fn take(&self) -> Result<Snapshot, Starting> {
        let (cloud, nodes) = (self.0.cloud.get(), self.0.nodes.get());
        let (Some(cloud), Some(nodes)) = (cloud, nodes) else {
            return Err(Starting);
        };
        let databases = nodes.iter().map(NodeHandle::database);
        let frozen = freeze(std::iter::once(&**cloud).chain(databases));
        let mut images = frozen.images().into_iter();
        let cloud = images.next().ok_or(Starting)?;
        let nodes = nodes.iter().zip(images);
        Ok(Snapshot {
            taken: clock::now(),
            cloud,
            nodes: nodes.map(|(node, image)| node.machine(image)).collect(),
        })
    }
}

/// The nodes are still being started.
#[derive(Debug, thiserror::Error)]
#[error("the cloud is still starting its nodes; try again when it is ready")]
pub struct Starting;

impl TakeSnapshot for Source {
    fn take(&self) -> Result<SnapshotLines, String> {
        let snapshot = Self::take(self).map_err(|error| error.to_string())?;
        Ok(Box::new(snapshot.into_lines()))
    }
}
