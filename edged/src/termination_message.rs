//! Termination messages of containers: what a container wrote to its termination message path, or the end of its log.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use nix::fcntl::OFlag;

use super::observed::TerminationMessageFiles;

/// Maximum length of a container's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;
/// Maximum length of the messages of all containers of a pod, of which each has an equal share.
const MAX_POD_BYTES: usize = 12 * 1024;
/// Maximum length of a message from the log, in bytes.
const MAX_LOG_MESSAGE_BYTES: usize = 2048;
/// Maximum number of lines of a message from the log.
const MAX_LOG_LINES: usize = 80;
/// How many bytes of the log's end are read; records contain more than their text.
const MAX_LOG_READ_BYTES: u64 = 16 * 1024;

/// Appends a termination message to the runtime's `message`, and truncates the result to the share of one of `containers`.
pub(crate) fn append(message: &mut String, termination_message: &str, containers: usize) {
    if !termination_message.is_empty() && !message.is_empty() {
        message.push_str(": ");
    }
    message.push_str(termination_message);
    message.truncate(message.floor_char_boundary(max_message_bytes(containers)));
}

/// Returns the maximum length of the message of one of so many containers.
fn max_message_bytes(containers: usize) -> usize {
    MAX_MESSAGE_BYTES.min(MAX_POD_BYTES / containers.max(1))
}

/// Reads the termination message of a container that ended with `exit_code`; it is empty if it cannot be read. Blocks on the
/// disk.
pub(crate) fn read(files: &TerminationMessageFiles, exit_code: i32) -> String {
    let own = head(&files.file).unwrap_or_default();
    match &files.log {
        Some(log) if own.is_empty() && exit_code != 0 => {
            tail(log).map(|log| last_lines(&log)).unwrap_or_default()
        }
        _ => own,
    }
}

/// Opens a regular file. The path may have been prepared by the container: opening a pipe would block, opening a device may have
/// effects, and a link could lead to a file that is not the container's.
fn open(path: &Path, follow: OFlag) -> io::Result<File> {
    let itself = (OFlag::O_PATH | follow).bits();
    let itself = OpenOptions::new()
        .read(true)
        .custom_flags(itself)
        .open(path)?;
    if !itself.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    File::open(format!("/proc/self/fd/{}", itself.as_raw_fd()))
}

fn head(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open(path, OFlag::O_NOFOLLOW)?
        .take(MAX_MESSAGE_BYTES as u64)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the end of a log. Links are followed, as runtimes may link logs.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = open(path, OFlag::empty())?;
    let start = file.metadata()?.len().saturating_sub(MAX_LOG_READ_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG_READ_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line may be incomplete.
    let whole = if start == 0 {
        &text
    } else {
        text.split_once('\n').map_or("", |(_, rest)| rest)
    };
    Ok(whole.to_owned())
}

/// Returns the text of the last lines of a CRI log: time, stream, `F` or `P` for a partial line, text.
fn last_lines(log: &str) -> String {
    let mut text = String::new();
    let lines: Vec<&str> = log.lines().collect();
    for line in &lines[lines.len().saturating_sub(MAX_LOG_LINES)..] {
        let mut parts = line.splitn(4, ' ');
        let (Some(tag), Some(own)) = (parts.nth(2), parts.next()) else {
            continue;
        };
        text.push_str(own);
        if !tag.starts_with('P') {
            text.push('\n');
        }
    }
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_LOG_MESSAGE_BYTES));
    text.split_off(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_used_only_after_a_failure_without_message() {
        let dir = tempfile::tempdir().unwrap();
        let (file, log) = (dir.path().join("words"), dir.path().join("0.log"));
        std::fs::write(
            &log,
            "t stdout F one\nt stderr P tw\nt stderr F o\nt stdout F \nbroken\n",
        )
        .unwrap();
        let files = TerminationMessageFiles {
            file: file.clone(),
            log: Some(log),
        };
        assert_eq!(read(&files, 1), "one\ntwo\n\n");
        assert_eq!(read(&files, 0), "");
        std::fs::write(&file, "x".repeat(5000)).unwrap();
        assert_eq!(read(&files, 1).len(), 4096);
        assert_eq!(
            read(
                &TerminationMessageFiles {
                    file: dir.path().join("none"),
                    log: None
                },
                1
            ),
            ""
        );
    }

    #[test]
    fn only_a_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&place("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(place("file"), "words").unwrap();
        std::os::unix::fs::symlink(place("file"), place("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place("socket")).unwrap();
        let read = |file| read(&TerminationMessageFiles { file, log: None }, 1);
        assert_eq!(read(place("file")), "words");
        for other in [
            place("fifo"),
            place("link"),
            place("socket"),
            "/dev/zero".into(),
            "/dev/tty".into(),
            place(""),
        ] {
            assert_eq!(read(other.clone()), "", "{}", other.display());
        }
        let (file, log) = (place("none"), Some(place("fifo")));
        assert_eq!(super::read(&TerminationMessageFiles { file, log }, 1), "");
    }

    #[test]
    fn the_end_of_a_long_log_is_cut_between_characters() {
        let log = format!("t stdout F {}\n", "é".repeat(3000)).repeat(100);
        let text = last_lines(&log);
        assert!(text.len() <= MAX_LOG_MESSAGE_BYTES && text.ends_with("é\n"));
    }

    #[test]
    fn containers_of_a_pod_share_the_message_limit() {
        assert_eq!(
            [0, 1, 3, 4, 12].map(max_message_bytes),
            [4096, 4096, 4096, 3072, 1024]
        );
        let joined = |message: &str, termination_message: &str| {
            let mut message = message.to_owned();
            append(&mut message, termination_message, 12);
            message
        };
        assert_eq!(
            (joined("killed", ""), joined("", "bye")),
            ("killed".to_owned(), "bye".to_owned())
        );
        assert_eq!(joined("killed", "bye"), "killed: bye");
        assert_eq!(joined("killed", &"é".repeat(1000)).len(), 1024);
    }
}
