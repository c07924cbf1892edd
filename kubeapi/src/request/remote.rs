//! Requests for groups and versions that another server serves: the API forwards them (an `APIService` with a `service`).

use super::escapes::decode;

/// A group and version of another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteVersion {
    /// The API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// `spec.groupPriorityMinimum`: groups with a higher one come first.
    pub group_priority: i64,
    /// `spec.versionPriority`: versions with a higher one come first.
    pub version_priority: i64,
}

/// A request for one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePath {
    /// The API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The segments of the path after the version; `None` for the OpenAPI document of the version.
    pub(crate) rest: Option<Vec<String>>,
}

impl RemotePath {
    /// Returns the request for `path` if it is below one of these.
    pub fn find(versions: &[RemoteVersion], path: &str) -> Option<Self> {
        let path = decode(path);
        let segments: Vec<&str> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .collect();
        let (group, version, rest) = match segments.as_slice() {
            ["apis", group, version, rest @ ..] => (*group, *version, Some(rest)),
            ["openapi", "v3", "apis", group, version] => (*group, *version, None),
            _ => return None,
        };
        let known = versions
            .iter()
            .find(|known| known.group == group && known.version == version)?;
        Some(Self {
            group: known.group.clone(),
            version: known.version.clone(),
            rest: rest.map(|rest| rest.iter().map(|&segment| segment.to_owned()).collect()),
        })
    }
}
