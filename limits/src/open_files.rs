//! Raises the limit of open files of the process; each connection is one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// A limit that is enough for all connections of our servers together, and for other files.
const WANTED: u64 = 65_536;

/// Raises the soft limit of open files to the hard limit, but at most 65,536, and returns the new limit. Go programs do this at their
/// start: most systems set 1,024 because of `select(2)`, which nothing here calls.
///
/// # Errors
/// The system refuses; the old limit stays.
pub fn raise_open_files() -> std::io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = WANTED.min(hard);
    if soft >= wanted {
        return Ok(soft);
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)?;
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_what_the_hard_one_allows() {
        let (before, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let now = raise_open_files().unwrap();
        assert_eq!(now, before.max(WANTED.min(hard)));
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (now, hard));
    }
}
