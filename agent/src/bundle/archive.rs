//! An archive of files, tar.gz, which only its owner can read.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Stdout, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use wire::text::count;

/// The mode of the archive and of its files.
const MODE: u32 = 0o600;
/// The name of the file of failed parts.
const ERRORS: &str = "errors.txt";

/// Where an archive is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To a new file.
    File(PathBuf),
    /// To stdout.
    Stdout,
}

impl Target {
    /// Returns the target that was named: `-` is stdout. By default it is a file of this name in the working directory.
    pub fn of(output: Option<&Path>, name: &str) -> Self {
        match output {
            None => Self::File(format!("{name}.tar.gz").into()),
            Some(path) if path == Path::new("-") => Self::Stdout,
            Some(path) => Self::File(path.to_owned()),
        }
    }
}

/// An archive that is being written.
pub struct Archive {
    tar: tar::Builder<GzEncoder<Output>>,
    path: Option<PathBuf>,
    directory: String,
    seconds: u64,
    files: usize,
    errors: Vec<String>,
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive")
            .field("path", &self.path)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Output {
    File(File),
    Stdout(Stdout),
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(stdout) => stdout.flush(),
        }
    }
}

/// An archive cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file of this name exists.
    #[error("{0} exists; name another file with --output, or delete that one")]
    Exists(String),
    /// Any other error.
    #[error(
        "cannot write the archive {path}; choose another path with --output, or free disk space"
    )]
    Write {
        /// The path, or what stands for it.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

/// A complete archive.
#[derive(Debug)]
pub struct CompleteArchive {
    /// Its path, unless it went to stdout.
    pub path: Option<PathBuf>,
    /// The number of its files.
    pub files: usize,
    /// The parts that failed, each with the reason.
    pub errors: Vec<String>,
}

impl CompleteArchive {
    /// Returns the lines that report an archive in a file; there are none for one on stdout.
    pub fn lines(&self) -> Vec<String> {
        let Some(path) = &self.path else {
            return Vec::new();
        };
        let mut lines = vec![format!("{}: {}", path.display(), count(self.files, "file"))];
        lines.extend(self.errors.iter().map(|error| format!("  failed: {error}")));
        lines.push(
            "Secrets are replaced by ***; check the content before you send the file.".to_owned(),
        );
        lines
    }
}

impl Archive {
    /// Creates an archive whose files are in a directory of this name. A file must not exist yet.
    ///
    /// # Errors
    /// The file exists or cannot be created.
    pub fn create(target: Target, directory: &str, now: Timestamp) -> Result<Self, ArchiveError> {
        let (output, path) = match target {
            Target::Stdout => (Output::Stdout(io::stdout()), None),
            Target::File(path) => {
                let created = OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(MODE)
                    .open(&path);
                let file = created.map_err(|source| match source.kind() {
                    io::ErrorKind::AlreadyExists => {
                        ArchiveError::Exists(path.display().to_string())
                    }
                    _ => ArchiveError::Write {
                        path: path.display().to_string(),
                        source,
                    },
                })?;
                (Output::File(file), Some(path))
            }
        };
        Ok(Self {
            tar: tar::Builder::new(GzEncoder::new(output, Compression::default())),
            path,
            directory: directory.to_owned(),
            seconds: u64::try_from(now.as_second()).unwrap_or_default(),
            files: 0,
            errors: Vec::new(),
        })
    }

    /// Adds a file, or the error of the part.
    pub fn add(&mut self, name: &str, content: Result<Vec<u8>, String>) {
        match content {
            Ok(bytes) => {
                if let Err(error) = self.write(name, &bytes) {
                    self.fail(name, Some(error.to_string()));
                }
            }
            Err(why) => self.fail(name, Some(why)),
        }
    }

    /// Records that a part failed.
    pub fn fail(&mut self, name: &str, why: Option<String>) {
        let line = why.map(|why| format!("{name}: {}", why.replace('\n', " ")));
        self.errors.extend(line);
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(MODE);
        header.set_mtime(self.seconds);
        let path = format!("{}/{name}", self.directory);
        self.tar.append_data(&mut header, path, bytes)?;
        self.files += 1;
        Ok(())
    }

    /// Adds the file of failed parts, and completes the archive.
    ///
    /// # Errors
    /// The archive cannot be written; an incomplete file is removed.
    pub fn finish(mut self) -> Result<CompleteArchive, ArchiveError> {
        let errors = std::mem::take(&mut self.errors);
        let text: String = errors.iter().map(|line| format!("{line}\n")).collect();
        let path = self.path.clone();
        let written = self.write(ERRORS, text.as_bytes());
        let files = self.files;
        let finished = written.and_then(|()| {
            let mut output = self.tar.into_inner()?.finish()?;
            output.flush()?;
            match output {
                Output::File(file) => file.sync_all(),
                Output::Stdout(_) => Ok(()),
            }
        });
        match finished {
            Ok(()) => Ok(CompleteArchive {
                path,
                files,
                errors,
            }),
            Err(source) => {
                if let Some(path) = &path {
                    let _ = fs::remove_file(path);
                }
                let path =
                    path.map_or_else(|| "on stdout".to_owned(), |path| path.display().to_string());
                Err(ArchiveError::Write { path, source })
            }
        }
    }
}
