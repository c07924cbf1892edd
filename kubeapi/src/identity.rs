//! Who is calling.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The group that may do everything.
const MASTERS: &str = "system:masters";
/// The group of all authenticated callers.
pub const AUTHENTICATED: &str = "system:authenticated";
/// What names of service accounts as users begin with.
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The caller of a request, in its extensions. Over TLS it comes from the subject of the client's certificate; a request
/// without one may bring a service account's token instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The certificate's common name.
    pub user: String,
    /// The certificate's organisations.
    pub groups: Vec<String>,
    /// The UID of a service account, or of an impersonated user; else empty.
    pub uid: String,
    /// Further attributes, such as the pod that a token is bound to.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Returns the identity of a user who is in these groups.
    pub fn new<G: Into<String>>(
        user: impl Into<String>,
        groups: impl IntoIterator<Item = G>,
    ) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        Self {
            user: user.into(),
            groups,
            ..Self::default()
        }
    }

    /// An identity with all permissions, for callers in the same process.
    pub fn master() -> Self {
        Self::new("system:admin", [MASTERS, AUTHENTICATED])
    }

    /// Returns the identity of a service account.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let groups = [
            "system:serviceaccounts",
            &format!("system:serviceaccounts:{namespace}"),
            AUTHENTICATED,
        ];
        Self::new(format!("{ACCOUNT_PREFIX}{namespace}:{name}"), groups)
    }

    /// Returns the namespace and the name of the service account whose user name this is.
    pub fn account_of(user: &str) -> Option<(&str, &str)> {
        let (namespace, name) = user.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
        (!namespace.is_empty() && !name.is_empty() && !name.contains(':'))
            .then_some((namespace, name))
    }

    /// Whether it belongs to `system:masters`, the group that needs no rules to get in.
    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// Reports whether it belongs to this group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Adds the group of all authenticated callers.
    pub fn authenticated(mut self) -> Self {
        if !self.is_in(AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Returns it as Kubernetes' `UserInfo`.
    pub fn user_info(&self) -> Value {
        let mut info = json!({"username": self.user, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}
