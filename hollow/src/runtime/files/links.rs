//! Symbolic links that a container has made. Links in mounts belong to the host and are followed there.

use std::io::{self, ErrorKind};

use super::{
    view::{Files, Kind, parent},
    written::Node,
};

/// The most links that are followed for one path.
const MAX_LINKS: usize = 40;
/// The most bytes of a link's target.
const MAX_TARGET: usize = 4096;

impl Files {
    /// Makes a symbolic link. With `replaces`, an existing file or link is replaced.
    pub(crate) fn link(&self, path: &str, target: &str, replaces: bool) -> io::Result<()> {
        let path = self.follow_above(path)?;
        self.check(&path)?;
        if target.is_empty() || target.len() > MAX_TARGET {
            return Err(ErrorKind::NotFound.into());
        }
        let is_link = self.link_at(&path).is_some();
        match self.kind(&path) {
            _ if is_link && replaces => {}
            Err(_) if !is_link => {}
            Ok(Kind::File(_)) if replaces => {}
            Ok(_) | Err(_) => return Err(ErrorKind::AlreadyExists.into()),
        }
        let (written, name) = self.place(&path);
        written.lock().put(&name, Node::Link(target.to_owned()))
    }

    /// Returns the target of the link at this path; `None` if there is no link.
    pub(crate) fn target(&self, path: &str) -> io::Result<Option<String>> {
        Ok(self.link_at(&self.follow_above(path)?))
    }

    /// Returns the path after all links are followed.
    pub(super) fn follow(&self, path: &str) -> io::Result<String> {
        self.lead(path, true)
    }

    /// Returns the path after all links but the last part are followed.
    pub(super) fn follow_above(&self, path: &str) -> io::Result<String> {
        self.lead(path, false)
    }

    fn lead(&self, path: &str, whole: bool) -> io::Result<String> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let Some(next) = self.behind_first_link(&path, whole) else {
                return Ok(path);
            };
            path = next;
        }
        Err(io::Error::other("Too many levels of symbolic links"))
    }

    /// Returns the path with its first link replaced by the target.
    fn behind_first_link(&self, path: &str, whole: bool) -> Option<String> {
        let ends = path
            .match_indices('/')
            .map(|(at, _)| at)
            .filter(|at| *at > 0);
        for end in ends.chain(whole.then_some(path.len())) {
            let (above, rest) = path.split_at_checked(end)?;
            if let Some(target) = self.link_at(above) {
                return Some(format!("{}{rest}", join(parent(above)?, &target)));
            }
        }
        None
    }

    /// Returns the target of the link at exactly this path.
    fn link_at(&self, path: &str) -> Option<String> {
        let (written, name) = self.place(path);
        match written.lock().nodes.get(&name) {
            Some(Node::Link(target)) => Some(target.clone()),
            Some(Node::Directory | Node::File { .. }) | None => None,
        }
    }
}

/// Returns the absolute path, without `.` and `..`, of a link's target in this directory.
fn join(directory: &str, target: &str) -> String {
    let start = if target.starts_with('/') {
        ""
    } else {
        directory
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in start.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.iter().flat_map(|part| ["/", *part]).collect()
}
