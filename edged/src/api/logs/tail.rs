//! Finds the start of the last lines of a file.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

/// How many bytes are searched at a time.
const BLOCK: usize = 16 * 1024;

/// Returns the offset after the `lines + 1`-th newline from the end. As in the kubelet newlines are counted, so a last line
/// without one is returned in addition.
pub(super) fn start(file: &mut File, lines: u64) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    if lines == 0 {
        return Ok(end);
    }
    let mut block = [0; BLOCK];
    let mut found = 0;
    while end > 0 {
        let begin = end.saturating_sub(BLOCK as u64);
        let length = usize::try_from(end - begin).unwrap_or(BLOCK);
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut block[..length])?;
        for (index, byte) in block[..length].iter().enumerate().rev() {
            if *byte == b'\n' {
                found += 1;
                if found > lines {
                    return Ok(begin + index as u64 + 1);
                }
            }
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_lines_begin_after_the_newline_before_them() {
        let mut file = tempfile::tempfile().unwrap();
        let long = "x".repeat(3 * BLOCK);
        write!(file, "one\n{long}\nthree\n").unwrap();
        let after_long = 4 + long.len() as u64 + 1;
        for (lines, expected) in [
            (0, after_long + 6),
            (1, after_long),
            (2, 4),
            (3, 0),
            (4, 0),
            (u64::MAX, 0),
        ] {
            assert_eq!(start(&mut file, lines).unwrap(), expected, "{lines}");
        }
        write!(file, "no end").unwrap();
        assert_eq!(
            start(&mut file, 1).unwrap(),
            after_long,
            "as the kubelet counts"
        );
        assert_eq!(start(&mut tempfile::tempfile().unwrap(), 5).unwrap(), 0);
    }
}
