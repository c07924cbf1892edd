//! `tar`, as `kubectl cp` calls it: `tar cf - <path>` and `tar -xmf - -C <directory>`, in the format ustar.

use std::io;

use bytes::{Bytes, BytesMut};

use super::super::{
    outcome::{Outcome, Stop},
    shell::Shell,
    streams::{Input, Streams},
};
use crate::runtime::files::{Files, Kind};

const BLOCK: usize = 512;
/// The largest file that is extracted from an archive, which is what a container may write.
const MAX_FILE: u64 = 1 << 20;
/// The most files and directories in one archive that is created.
const MAX_ENTRIES: usize = 4096;
/// How deep directories are searched.
const MAX_DEPTH: usize = 32;

impl Shell {
    /// Runs `tar` with these arguments.
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
            return self
                .extract(&directory, flags.contains('x'), is_listed, streams)
                .await;
        }
        broken("one of c, x and t is wanted")
    }

    async fn create(&mut self, directory: &str, paths: &[String], streams: &Streams) -> Outcome {
        let (mut code, mut is_empty) = (0, true);
        for path in paths {
            let base = self.resolve(directory);
            let full = if path.starts_with('/') {
                path.clone()
            } else {
                format!("{base}/{path}")
            };
            let name = path
                .trim_start_matches('/')
                .trim_end_matches('/')
                .to_owned();
            let root = self.resolve(&full);
            let found = self.files(&root, move |files, root| {
                let mut entries = Vec::new();
                collect(files, root, &name, 0, &mut entries)?;
                Ok(entries)
            });
            let entries = match found.await? {
                Ok(entries) => entries,
                Err(why) => {
                    self.print(&streams.error, format!("tar: {path}: {why}\n").as_bytes())
                        .await?;
                    code = 1;
                    continue;
                }
            };
            for (name, full, what) in entries {
                let content = match &what {
                    What::Directory | What::Link(_) => Vec::new(),
                    What::File => match self.files(&full, Files::read).await? {
                        Ok(content) => content,
                        Err(why) => {
                            self.print(&streams.error, format!("tar: {full}: {why}\n").as_bytes())
                                .await?;
                            code = 1;
                            continue;
                        }
                    },
                };
                let Some(bytes) = entry(&name, &what, &content) else {
                    self.print(
                        &streams.error,
                        format!("tar: {name}: the name is too long\n").as_bytes(),
                    )
                    .await?;
                    code = 1;
                    continue;
                };
                is_empty = false;
                self.print(&streams.output, &bytes).await?;
            }
        }
        // An archive without any entry gets no end mark, because `kubectl cp` would take it for success.
        if code == 0 || !is_empty {
            self.print(&streams.output, &[0; 2 * BLOCK]).await?;
        }
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
        let mut reader = Reader {
            input: &streams.input,
            rest: BytesMut::new(),
        };
        let (mut long_name, mut long_target) = (None, None);
        while let Some(head) = reader.block().await? {
            if head.iter().all(|byte| *byte == 0) {
                break;
            }
            let Some(Head {
                name,
                size,
                kind,
                target,
            }) = Head::read(&head)
            else {
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
                b'K' => {
                    let target = String::from_utf8_lossy(&content).into_owned();
                    long_target = Some(target.trim_end_matches('\0').to_owned());
                    continue;
                }
                b'x' => {
                    long_name = pax(&content, "path=");
                    long_target = pax(&content, "linkpath=");
                    continue;
                }
                b'g' => continue,
                _ => {}
            }
            let name = long_name.take().unwrap_or(name);
            let target = long_target.take().unwrap_or(target);
            if is_listed {
                self.print(&streams.output, format!("{name}\n").as_bytes())
                    .await?;
            }
            let path = format!("{base}/{name}");
            // `..` does not lead out of the container, and which directory is written to is the container's own affair.
            let done = match kind {
                _ if !writes => Ok(()),
                b'5' => {
                    self.files(&path, |files, path| files.make_directory(path, true))
                        .await?
                }
                b'0' | 0 => {
                    self.files(&path, move |files, path| write(files, path, &content))
                        .await?
                }
                b'1' => {
                    let other = self.resolve(&format!("{base}/{target}"));
                    let copy =
                        move |files: &Files, path: &str| write(files, path, &files.read(&other)?);
                    self.files(&path, copy).await?
                }
                b'2' => {
                    self.files(&path, move |files, path| link(files, path, &target))
                        .await?
                }
                _ => Err("devices are not simulated".to_owned()),
            };
            done.map_err(|why| Stop::Broken(format!("can't create {name}: {why}")))?;
        }
        // What follows the end mark is ignored.
        while streams.input.read().await?.is_some() {}
        Ok(0)
    }
}

/// Writes a file and creates its parent directories. A link in its place is replaced.
fn write(files: &Files, path: &str, content: &[u8]) -> io::Result<()> {
    make_above(files, path)?;
    if files.target(path)?.is_some() {
        files.remove(path)?;
    }
    files.write(path, content, false)
}

/// Makes a symbolic link and creates its parent directories. A link in its place is replaced.
fn link(files: &Files, path: &str, target: &str) -> io::Result<()> {
    make_above(files, path)?;
    files.link(path, target, true)
}

fn make_above(files: &Files, path: &str) -> io::Result<()> {
    match path.rsplit_once('/').filter(|(above, _)| !above.is_empty()) {
        Some((above, _)) => files.make_directory(above, true),
        None => Ok(()),
    }
}

/// The kind of an archive entry.
enum What {
    Directory,
    File,
    /// A symbolic link and its target.
    Link(String),
}

type Entries = Vec<(String, String, What)>;

fn collect(
    files: &Files,
    path: &str,
    name: &str,
    depth: usize,
    entries: &mut Entries,
) -> io::Result<()> {
    let what = match files.target(path)? {
        Some(target) => What::Link(target),
        None if files.kind(path)? == Kind::Directory => What::Directory,
        None => What::File,
    };
    if depth > MAX_DEPTH || entries.len() >= MAX_ENTRIES {
        return Err(io::Error::other("too many files"));
    }
    let is_directory = matches!(what, What::Directory);
    entries.push((name.to_owned(), path.to_owned(), what));
    if is_directory {
        for inner in files.list(path)? {
            let below = format!("{}/{inner}", path.trim_end_matches('/'));
            let name = if name.is_empty() {
                inner
            } else {
                format!("{name}/{inner}")
            };
            // A link that leads out of a mount cannot be read, so it is left out.
            match collect(files, &below, &name, depth + 1, entries) {
                Err(error) if error.kind() != io::ErrorKind::Other => {}
                other => other?,
            }
        }
    }
    Ok(())
}

/// Returns an entry's header and content, padded to whole blocks; `None` if the name is too long for the format.
fn entry(name: &str, what: &What, content: &[u8]) -> Option<Vec<u8>> {
    let (kind, mode, slash, target) = match what {
        What::Directory => (b"5", b"0000755\0", "/", ""),
        What::File => (b"0", b"0000644\0", "", ""),
        What::Link(target) => (b"2", b"0000777\0", "", target.as_str()),
    };
    if target.len() > 100 {
        return None;
    }
    let name = format!("{name}{slash}");
    let (prefix, short) = if name.len() <= 100 {
        ("", name.as_str())
    } else {
        let at = name
            .char_indices()
            .filter(|(at, letter)| *letter == '/' && *at <= 155 && name.len() - at - 1 <= 100);
        name.split_at_checked(at.map(|(at, _)| at).next()?)
            .map(|(prefix, rest)| (prefix, &rest[1..]))?
    };
    let mut head = [0_u8; BLOCK];
    let mut put = |at: usize, text: &[u8]| head[at..at + text.len()].copy_from_slice(text);
    let size = content.len();
    let now = clock::now().as_second();
    put(0, short.as_bytes());
    put(100, mode);
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, format!("{now:011o}\0").as_bytes());
    put(148, b"        ");
    put(156, kind);
    put(157, target.as_bytes());
    put(257, b"ustar\x0000");
    put(265, b"root");
    put(297, b"root");
    put(345, prefix.as_bytes());
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = head.to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    Some(bytes)
}

/// The header of an archive entry.
struct Head {
    name: String,
    size: u64,
    kind: u8,
    /// The target of a link.
    target: String,
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
        let prefix = if is_ustar {
            text(345, 155)?
        } else {
            String::new()
        };
        let name = if prefix.is_empty() {
            name
        } else {
            format!("{prefix}/{name}")
        };
        let size = u64::from_str_radix(text(124, 12)?.trim(), 8).ok()?;
        Some(Self {
            name,
            size,
            kind: *head.get(156)?,
            target: text(157, 100)?,
        })
    }
}

/// Returns a value of an extended (pax) header, whose lines are `length name=value`.
fn pax(content: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(content);
    let mut values = text
        .lines()
        .filter_map(|line| line.split_once(' ')?.1.strip_prefix(name));
    values.next().map(str::to_owned)
}

/// Reads an archive block by block.
struct Reader<'a> {
    input: &'a Input,
    rest: BytesMut,
}

impl Reader<'_> {
    /// Returns the next block; `None` at the end.
    async fn block(&mut self) -> Result<Option<Bytes>, Stop> {
        if !self.fill(BLOCK).await? {
            return if self.rest.is_empty() {
                Ok(None)
            } else {
                Err(Stop::Broken("short read".to_owned()))
            };
        }
        Ok(Some(self.rest.split_to(BLOCK).freeze()))
    }

    /// Reads a content of `size` bytes, at most [`MAX_FILE`], and the padding of its last block.
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
            let Some(chunk) = self.input.read().await? else {
                return Ok(false);
            };
            self.rest.extend_from_slice(&chunk);
        }
        Ok(true)
    }
}
