//! How many files the process may have open; each connection is one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// What is enough for all connections that our servers take together, and files beside them.
const WANTED: u64 = 65_536;

/// Raises the soft limit of open files as far as the hard one allows, up to 65,536, as programs written in Go do at their start: most
/// systems give 1,024 for the sake of `select(2)`, which nothing here calls. The limit that holds then.
///
/// # Errors
/// The system refuses; the old limit holds.
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
