//! How many connections there may be, and why there is no place for one.

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Those that have had a request.
    pub established: usize,
    /// How many places of these only privileged connections have.
    pub reserved: usize,
    /// Those that have not.
    pub pending: usize,
    /// Of one peer address other than loopback, of both kinds.
    pub per_address: usize,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The peer has as many connections as one address may have, and all are at work.
    Address,
    /// As many connections as there may be are at work.
    Server,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Address => "this address has as many connections as one may have",
            Self::Server => "there are as many connections as there may be",
        })
    }
}

impl std::error::Error for Full {}
