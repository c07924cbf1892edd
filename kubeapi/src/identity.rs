//! Who is calling.

/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// The caller of a request, in its extensions. Over TLS it comes from the subject of the client's certificate; a request
/// without one may bring a service account's token instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate's common name.
    pub user: String,
    /// The certificate's organisations.
    pub groups: Vec<String>,
}

impl Identity {
    /// An identity that may do everything: that of callers in the same process.
    pub fn master() -> Self {
        Self { user: "system:admin".into(), groups: vec![MASTERS.into()] }
    }

    /// Whether it belongs to `system:masters`, the group that needs no rules to get in.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}
