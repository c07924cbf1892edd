//! The limits of a server's connections, and the reasons for a refusal.

/// The limits of a server's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections that have had a request.
    pub established: usize,
    /// The part of `established` that is reserved for privileged connections.
    pub reserved: usize,
    /// Connections that have not had a request yet.
    pub pending: usize,
    /// Connections of both kinds from one peer address other than loopback.
    pub per_address: usize,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The peer address has reached its limit, and all its connections are busy.
    Address,
    /// The server has reached its limit, and all its connections are busy.
    Server,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Address => "this address has as many connections as one may have",
            Self::Server => "the limit of connections is reached",
        })
    }
}

impl std::error::Error for Full {}
