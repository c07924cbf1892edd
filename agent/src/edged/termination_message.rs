//! The last words of containers that have ended: what they wrote to their termination log, or the end of their log.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use nix::fcntl::OFlag;

use super::observed::TerminationMessageFiles;

/// Longest message of a container …
const MAX_WORDS: usize = 4096;
/// … and of all containers of a pod, of which each has an equal share.
const MAX_OF_POD: usize = 12 * 1024;
/// Longest end of a log that stands in.
const MAX_TAIL: usize = 2048;
/// Most lines of it.
const MAX_LINES: usize = 80;
/// As much of the log's end is read; it has more than its text in it.
const MAX_LOG: u64 = 16 * 1024;

/// Adds the last words to what the runtime says, in a pod of so many `containers`.
pub(crate) fn join(message: &mut String, words: &str, containers: usize) {
    if !words.is_empty() && !message.is_empty() {
        message.push_str(": ");
    }
    message.push_str(words);
    message.truncate(message.floor_char_boundary(share(containers)));
}

/// The longest message of one of so many containers.
fn share(containers: usize) -> usize {
    MAX_WORDS.min(MAX_OF_POD / containers.max(1))
}

/// The last words of a container that has ended with this code; none where they cannot be read. Blocks on the disk.
pub(crate) fn read(words: &TerminationMessageFiles, exit_code: i32) -> String {
    let own = head(&words.file).unwrap_or_default();
    match &words.log {
        Some(log) if own.is_empty() && exit_code != 0 => {
            tail(log).map(|log| last_lines(&log)).unwrap_or_default()
        }
        _ => own,
    }
}

/// Opens a file, and nothing else: what is there may be the container's own work. A pipe would be waited for, a device may do
/// something, and a link could lead to what is not the container's.
fn open(path: &Path, follow: OFlag) -> io::Result<File> {
    let itself = (OFlag::O_PATH | follow).bits();
    let itself = OpenOptions::new().read(true).custom_flags(itself).open(path)?;
    if !itself.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    File::open(format!("/proc/self/fd/{}", itself.as_raw_fd()))
}

fn head(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open(path, OFlag::O_NOFOLLOW)?.take(MAX_WORDS as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Logs are the runtime's, which may have linked to them.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = open(path, OFlag::empty())?;
    let start = file.metadata()?.len().saturating_sub(MAX_LOG);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line may be half of one.
    let whole = if start == 0 { &text } else { text.split_once('\n').map_or("", |(_, rest)| rest) };
    Ok(whole.to_owned())
}

/// The end of a log in CRI's form: time, stream, `F` or `P` for a part of a line, text.
fn last_lines(log: &str) -> String {
    let mut text = String::new();
    let lines: Vec<&str> = log.lines().collect();
    for line in &lines[lines.len().saturating_sub(MAX_LINES)..] {
        let mut parts = line.splitn(4, ' ');
        let (Some(tag), Some(own)) = (parts.nth(2), parts.next()) else { continue };
        text.push_str(own);
        if !tag.starts_with('P') {
            text.push('\n');
        }
    }
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_TAIL));
    text.split_off(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_stands_in_for_words_after_a_failure_only() {
        let dir = tempfile::tempdir().unwrap();
        let (file, log) = (dir.path().join("words"), dir.path().join("0.log"));
        std::fs::write(&log, "t stdout F one\nt stderr P tw\nt stderr F o\nt stdout F \nbroken\n").unwrap();
        let words = TerminationMessageFiles { file: file.clone(), log: Some(log) };
        assert_eq!(read(&words, 1), "one\ntwo\n\n");
        assert_eq!(read(&words, 0), "");
        std::fs::write(&file, "x".repeat(5000)).unwrap();
        assert_eq!(read(&words, 1).len(), 4096);
        assert_eq!(read(&TerminationMessageFiles { file: dir.path().join("none"), log: None }, 1), "");
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
        for other in
            [place("fifo"), place("link"), place("socket"), "/dev/zero".into(), "/dev/tty".into(), place("")]
        {
            assert_eq!(read(other.clone()), "", "{}", other.display());
        }
        let (file, log) = (place("none"), Some(place("fifo")));
        assert_eq!(super::read(&TerminationMessageFiles { file, log }, 1), "");
    }

    #[test]
    fn the_end_of_a_long_log_is_cut_between_characters() {
        let log = format!("t stdout F {}\n", "é".repeat(3000)).repeat(100);
        let text = last_lines(&log);
        assert!(text.len() <= MAX_TAIL && text.ends_with("é\n"));
    }

    #[test]
    fn the_containers_of_a_pod_share_the_room_for_words() {
        assert_eq!([0, 1, 3, 4, 12].map(share), [4096, 4096, 4096, 3072, 1024]);
        let joined = |message: &str, words: &str| {
            let mut message = message.to_owned();
            join(&mut message, words, 12);
            message
        };
        assert_eq!((joined("killed", ""), joined("", "bye")), ("killed".to_owned(), "bye".to_owned()));
        assert_eq!(joined("killed", "bye"), "killed: bye");
        assert_eq!(joined("killed", &"é".repeat(1000)).len(), 1024);
    }
}
