//! `tar`, as `kubectl cp` calls it: `tar cf - <path>` and `tar -xmf - -C <directory>`, in the format ustar.

use std::io;

use bytes::{Bytes, BytesMut};

use super::super::{
    Stop,
    shell::{Outcome, Shell},
    streams::{Input, Streams},
};
use crate::runtime::files::{Files, Kind};

const BLOCK: usize = 512;
/// The largest file that is taken out of an archive: what a container may write.
const MAX_FILE: u64 = 1 << 20;
/// Files and directories of one archive that is made.
const MAX_ENTRIES: usize = 4096;
/// How deep directories are gone into.
const MAX_DEPTH: usize = 32;

impl Shell {
    /// `tar` with these arguments.
    pub(super) async fn tar(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        let mut flags = String::new();
        let (mut archive, mut directory, mut paths) = (None, ".".to_owned(), Vec::new());
        let mut rest = arguments.iter();
        let mut is_first = true;
        while let Some(argument) = rest.next() {
            let letters = match argument.strip_prefix('-') {
                Some(long) if long.starts_with('-') => "",
                Some(letters) => letters,
                None if is_first => argument,
                None => {
                    paths.push(argument.clone());
                    continue;
                }
            };
            is_first = false;
            flags.push_str(letters);
            if letters.ends_with('f') {
                archive = rest.next();
            } else if letters.ends_with('C') {
                directory = rest.next().cloned().unwrap_or_default();
            }
        }
        let broken = |why: &str| Err(Stop::Broken(why.to_owned()));
        if flags.contains('z') || flags.contains('j') {
            return broken("compression is not simulated");
        }
        if archive.is_some_and(|archive| archive != "-") {
            return broken("only archives at the standard input and output are simulated");
        }
        if flags.contains('c') {
            return self.create(&directory, &paths, streams).await;
        }
        if flags.contains('x') || flags.contains('t') {
            let is_listed = flags.contains('t') || flags.contains('v');
            return self.extract(&directory, flags.contains('x'), is_listed, streams).await;
        }
        broken("one of c, x and t is wanted")
    }

    async fn create(&mut self, directory: &str, paths: &[String], streams: &Streams) -> Outcome {
        let mut code = 0;
        for path in paths {
            let base = self.resolve(directory);
            let full = if path.starts_with('/') { path.clone() } else { format!("{base}/{path}") };
            let name = path.trim_start_matches('/').trim_end_matches('/').to_owned();
            let root = self.resolve(&full);
            let found = self.files(&root, move |files, root| {
                let mut entries = Vec::new();
                collect(files, root, &name, 0, &mut entries)?;
                Ok(entries)
            });
            let entries = match found.await? {
                Ok(entries) => entries,
                Err(why) => {
                    self.print(&streams.error, format!("tar: {path}: {why}\n").as_bytes()).await?;
                    code = 1;
                    continue;
                }
            };
            for (name, full, kind) in entries {
                let content = match kind {
                    Kind::Directory => None,
                    Kind::File(_) => match self.files(&full, Files::read).await? {
                        Ok(content) => Some(content),
                        Err(why) => {
                            self.print(&streams.error, format!("tar: {full}: {why}\n").as_bytes()).await?;
                            code = 1;
                            continue;
                        }
                    },
                };
                let Some(bytes) = entry(&name, content.as_deref()) else {
                    self.print(&streams.error, format!("tar: {name}: the name is too long\n").as_bytes())
                        .await?;
                    code = 1;
                    continue;
                };
                self.print(&streams.output, &bytes).await?;
            }
        }
        self.print(&streams.output, &[0; 2 * BLOCK]).await?;
        Ok(code)
    }

    async fn extract(
        &mut self,
        directory: &str,
        writes: bool,
        is_listed: bool,
        streams: &Streams,
    ) -> Outcome {
        let base = self.resolve(directory);
        let mut reader = Reader { input: &streams.input, rest: BytesMut::new() };
        let mut long_name = None;
        while let Some(head) = reader.block().await? {
            if head.iter().all(|byte| *byte == 0) {
                break;
            }
            let Some(Head { name, size, kind }) = Head::read(&head) else {
                return Err(Stop::Broken("invalid tar header".to_owned()));
            };
            if size > MAX_FILE {
                return Err(Stop::Broken(format!("{name}: No space left on device")));
            }
            let content = reader.content(size).await?;
            match kind {
                b'L' => {
                    let name = String::from_utf8_lossy(&content).into_owned();
                    long_name = Some(name.trim_end_matches('\0').to_owned());
                    continue;
                }
                b'x' => {
                    long_name = pax_path(&content);
                    continue;
                }
                b'g' => continue,
                _ => {}
            }
            let name = long_name.take().unwrap_or(name);
            if is_listed {
                self.print(&streams.output, format!("{name}\n").as_bytes()).await?;
            }
            let path = format!("{base}/{name}");
            // `..` does not lead out of the container, and the directory is the container's own affair
            let done = match kind {
                _ if !writes => Ok(()),
                b'5' => self.files(&path, |files, path| files.make_directory(path, true)).await?,
                b'0' | 0 => self.files(&path, move |files, path| write(files, path, &content)).await?,
                _ => Err("links and devices are not simulated".to_owned()),
            };
            done.map_err(|why| Stop::Broken(format!("can't create {name}: {why}")))?;
        }
        // what follows the end is for nobody
        while streams.input.read().await?.is_some() {}
        Ok(0)
    }
}

/// Writes a file, and makes the directories that it is in.
fn write(files: &Files, path: &str, content: &[u8]) -> io::Result<()> {
    if let Some((above, _)) = path.rsplit_once('/').filter(|(above, _)| !above.is_empty()) {
        files.make_directory(above, true)?;
    }
    files.write(path, content, false)
}

type Entries = Vec<(String, String, Kind)>;

fn collect(files: &Files, path: &str, name: &str, depth: usize, entries: &mut Entries) -> io::Result<()> {
    let kind = files.kind(path)?;
    if depth > MAX_DEPTH || entries.len() >= MAX_ENTRIES {
        return Err(io::Error::other("too many files"));
    }
    entries.push((name.to_owned(), path.to_owned(), kind));
    if kind == Kind::Directory {
        for inner in files.list(path)? {
            let below = format!("{}/{inner}", path.trim_end_matches('/'));
            let name = if name.is_empty() { inner } else { format!("{name}/{inner}") };
            // a link out of a mount is nobody's file
            match collect(files, &below, &name, depth + 1, entries) {
                Err(error) if error.kind() != io::ErrorKind::Other => {}
                other => other?,
            }
        }
    }
    Ok(())
}

/// A head and its content, filled up to whole blocks; none where the name is too long for the format.
fn entry(name: &str, content: Option<&[u8]>) -> Option<Vec<u8>> {
    let name = if content.is_none() { format!("{name}/") } else { name.to_owned() };
    let (prefix, short) = if name.len() <= 100 {
        ("", name.as_str())
    } else {
        let at = name
            .char_indices()
            .filter(|(at, letter)| *letter == '/' && *at <= 155 && name.len() - at - 1 <= 100);
        name.split_at_checked(at.map(|(at, _)| at).next()?).map(|(prefix, rest)| (prefix, &rest[1..]))?
    };
    let mut head = [0_u8; BLOCK];
    let mut put = |at: usize, text: &[u8]| head[at..at + text.len()].copy_from_slice(text);
    let size = content.map_or(0, <[u8]>::len);
    let now = jiff::Timestamp::now().as_second();
    put(0, short.as_bytes());
    put(100, if content.is_none() { b"0000755\0" } else { b"0000644\0" });
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, format!("{now:011o}\0").as_bytes());
    put(148, b"        ");
    put(156, if content.is_none() { b"5" } else { b"0" });
    put(257, b"ustar\x0000");
    put(265, b"root");
    put(297, b"root");
    put(345, prefix.as_bytes());
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = head.to_vec();
    bytes.extend_from_slice(content.unwrap_or_default());
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    Some(bytes)
}

/// What a head says of what follows it.
struct Head {
    name: String,
    size: u64,
    kind: u8,
}

impl Head {
    fn read(head: &[u8]) -> Option<Self> {
        let text = |from: usize, length: usize| {
            let field = head.get(from..from + length)?;
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(length);
            Some(String::from_utf8_lossy(&field[..end]).into_owned())
        };
        let name = text(0, 100)?;
        let is_ustar = head.get(257..262)? == b"ustar";
        let prefix = if is_ustar { text(345, 155)? } else { String::new() };
        let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        let size = u64::from_str_radix(text(124, 12)?.trim(), 8).ok()?;
        Some(Self { name, size, kind: *head.get(156)? })
    }
}

/// The path in an extended head: lines of `length path=value`.
fn pax_path(content: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(content);
    let mut values = text.lines().filter_map(|line| line.split_once(' ')?.1.strip_prefix("path="));
    values.next().map(str::to_owned)
}

/// An archive, block by block.
struct Reader<'a> {
    input: &'a Input,
    rest: BytesMut,
}

impl Reader<'_> {
    /// The next block; none at the end.
    async fn block(&mut self) -> Result<Option<Bytes>, Stop> {
        if !self.fill(BLOCK).await? {
            return if self.rest.is_empty() { Ok(None) } else { Err(Stop::Broken("short read".to_owned())) };
        }
        Ok(Some(self.rest.split_to(BLOCK).freeze()))
    }

    /// So many bytes, which are no more than [`MAX_FILE`], and what fills up their last block.
    async fn content(&mut self, size: u64) -> Result<Bytes, Stop> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let whole = size.next_multiple_of(BLOCK);
        if !self.fill(whole).await? {
            return Err(Stop::Broken("short read".to_owned()));
        }
        Ok(self.rest.split_to(whole).freeze().slice(..size))
    }

    async fn fill(&mut self, bytes: usize) -> Result<bool, Stop> {
        while self.rest.len() < bytes {
            let Some(chunk) = self.input.read().await? else { return Ok(false) };
            self.rest.extend_from_slice(&chunk);
        }
        Ok(true)
    }
}
