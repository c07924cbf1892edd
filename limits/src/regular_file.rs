//! Reads files whose path somebody else chooses: a pipe without a writer would hold up the program, and a device may have no end.

use std::{
    fs::{self, File, FileType, OpenOptions},
    io::{self, ErrorKind, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

use nix::fcntl::OFlag;

/// Opens a regular file. Symbolic links are followed; anything else is refused, and nothing is waited for.
///
/// # Errors
/// The file cannot be opened, or is no regular file.
pub fn open_regular_file(path: &Path, options: &OpenOptions) -> io::Result<File> {
    // Opening a device may already have effects.
    match fs::metadata(path) {
        Ok(metadata) => require_regular(metadata.file_type())?,
        // It may be created.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = options.clone().custom_flags(flags.bits()).open(path)?;
    // It may be another one now.
    require_regular(file.metadata()?.file_type())?;
    Ok(file)
}

/// Reads a regular file of at most this many bytes.
///
/// # Errors
/// Those of [`open_regular_file`]; or the file is larger.
pub fn read_regular_file(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open_regular_file(path, OpenOptions::new().read(true))?;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= max_bytes) {
        return Ok(bytes);
    }
    Err(io::Error::new(
        ErrorKind::FileTooLarge,
        format!("it is larger than {max_bytes} bytes"),
    ))
}

/// The same for a file of text.
///
/// # Errors
/// Those of [`read_regular_file`]; or the file is not UTF-8.
pub fn read_regular_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    String::from_utf8(read_regular_file(path, max_bytes)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no text (UTF-8)"))
}

fn require_regular(found: FileType) -> io::Result<()> {
    let what = match found {
        found if found.is_file() => return Ok(()),
        found if found.is_dir() => "a directory",
        found if found.is_fifo() => "a named pipe",
        found if found.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::new(
        ErrorKind::InvalidInput,
        format!("it is {what}, not a regular file"),
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let directory = std::env::temp_dir().join(format!("regular-file-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = |name: &str| directory.join(name);
        fs::write(path("text"), "12345").unwrap();
        fs::write(path("bytes"), [0xff]).unwrap();
        symlink("text", path("link")).unwrap();
        mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        symlink("pipe", path("link-to-pipe")).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        for (name, expected) in [
            ("text", Ok("12345")),
            ("link", Ok("12345")),
            ("bytes", Err("it is no text (UTF-8)")),
            ("pipe", Err("it is a named pipe, not a regular file")),
            (
                "link-to-pipe",
                Err("it is a named pipe, not a regular file"),
            ),
            ("socket", Err("it is a socket, not a regular file")),
            (".", Err("it is a directory, not a regular file")),
            ("/dev/zero", Err("it is a device, not a regular file")),
        ] {
            let read = read_regular_text(&path(name), 5).map_err(|error| error.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), expected, "{name}");
        }
        let larger = read_regular_text(&path("text"), 4).unwrap_err();
        assert_eq!(larger.kind(), ErrorKind::FileTooLarge);
        let missing = read_regular_text(&path("none"), 4).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let mut append = OpenOptions::new();
        append.append(true).create(true);
        assert!(open_regular_file(&path("new"), &append).is_ok());
        assert!(open_regular_file(&path("pipe"), &append).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
