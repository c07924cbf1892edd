//! The open files that a fleet needs: too low a limit is reported before nodes start, not by connections that fail later.

/// The files of the program itself.
const OF_PROCESS: u64 = 64;
/// The files of a node: its databases, watches of directories, and its connections, with the cloud's ends of them in the same process.
const OF_NODE: u64 = 32;
/// The same without databases and directories: two connections with both ends, and some while it joins.
const OF_NODE_IN_MEMORY: u64 = 8;

/// The limit of open files is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{nodes} nodes need about {needed} open files, and the limit is {limit}; raise it with `ulimit -n {needed}`, LimitNOFILE= of systemd or \
     --ulimit of docker, or start at most {possible} nodes"
)]
pub struct TooFewFiles {
    nodes: usize,
    needed: u64,
    limit: u64,
    possible: u64,
}

/// Checks whether this number of nodes, with their data in memory or on disk, can run with this limit of open files.
///
/// # Errors
/// They need more.
pub(super) fn check(nodes: usize, in_memory: bool, limit: u64) -> Result<(), TooFewFiles> {
    let of_node = match in_memory {
        true => OF_NODE_IN_MEMORY,
        false => OF_NODE,
    };
    let count = u64::try_from(nodes).unwrap_or(u64::MAX);
    let needed = of_node.saturating_mul(count).saturating_add(OF_PROCESS);
    if needed <= limit {
        return Ok(());
    }
    Err(TooFewFiles {
        nodes,
        needed,
        limit,
        possible: limit.saturating_sub(OF_PROCESS) / of_node,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_that_is_too_low_is_reported_with_the_number_that_is_needed() {
        for (nodes, in_memory, limit, possible) in [
            (1, false, 1024, None),
            (30, false, 1024, None),
            (31, false, 1024, Some(30)),
            (100, false, 1024, Some(30)),
            (1, false, 20, Some(0)),
            (120, true, 1024, None),
            (121, true, 1024, Some(120)),
        ] {
            let found = check(nodes, in_memory, limit).err();
            assert_eq!(
                found.map(|error| error.possible),
                possible,
                "{nodes} {in_memory} {limit}"
            );
        }
        let error = check(100, false, 1024).unwrap_err();
        assert_eq!(check(100, false, error.needed), Ok(()));
        assert!(
            error
                .to_string()
                .contains(&format!("ulimit -n {}", error.needed)),
            "{error}"
        );
    }
}
