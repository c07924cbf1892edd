//! MQTT 5's reason codes, and what MQTT 3.1.1 says in their place.

/// Why a request is refused or a connection ends (MQTT 5, section 2.4): those that this broker sends or acts upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// 0x00: done; in DISCONNECT: normal, without a will.
    Success = 0x00,
    /// 0x04: the client leaves, and its will is to be published.
    DisconnectWithWill = 0x04,
    /// 0x10: accepted, and nobody listens.
    NoMatchingSubscribers = 0x10,
    /// 0x11: there was nothing to unsubscribe from.
    NoSubscriptionExisted = 0x11,
    /// 0x80: an error without a code of its own.
    Unspecified = 0x80,
    /// 0x81: the bytes are not an MQTT packet.
    MalformedPacket = 0x81,
    /// 0x82: a packet that may not come here, or not now.
    ProtocolError = 0x82,
    /// 0x84: a version of MQTT that is not spoken.
    UnsupportedVersion = 0x84,
    /// 0x85: a client identifier that is not taken.
    ClientIdentifierNotValid = 0x85,
    /// 0x86: unknown user or wrong password.
    BadUserNameOrPassword = 0x86,
    /// 0x87: the access rules say no.
    NotAuthorized = 0x87,
    /// 0x89: too many connections.
    ServerBusy = 0x89,
    /// 0x8B: the broker stops.
    ServerShuttingDown = 0x8B,
    /// 0x8C: enhanced authentication is not offered.
    BadAuthenticationMethod = 0x8C,
    /// 0x8D: nothing was heard for one and a half times the keep-alive.
    KeepAliveTimeout = 0x8D,
    /// 0x8E: the same client identifier connected anew.
    SessionTakenOver = 0x8E,
    /// 0x8F: not a topic filter.
    TopicFilterInvalid = 0x8F,
    /// 0x90: not a topic name.
    TopicNameInvalid = 0x90,
    /// 0x92: no exchange with this packet identifier is open.
    PacketIdentifierNotFound = 0x92,
    /// 0x93: more unacknowledged QoS 2 messages than were allowed.
    ReceiveMaximumExceeded = 0x93,
    /// 0x94: a topic alias that is 0, too high or unknown.
    TopicAliasInvalid = 0x94,
    /// 0x95: larger than the maximum packet size.
    PacketTooLarge = 0x95,
    /// 0x97: a bound of this broker is reached.
    QuotaExceeded = 0x97,
}

impl Reason {
    /// The byte on the wire.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// MQTT 3.1.1's return code of CONNACK for a refused connection (section 3.2.2.3); none where 3.1.1 closes silently.
    pub(crate) fn connect_code_311(self) -> Option<u8> {
        match self {
            Self::UnsupportedVersion => Some(1),
            Self::ClientIdentifierNotValid => Some(2),
            Self::ServerBusy | Self::QuotaExceeded | Self::ServerShuttingDown => Some(3),
            Self::BadUserNameOrPassword => Some(4),
            Self::NotAuthorized => Some(5),
            _ => None,
        }
    }
}

/// A fault of a peer: the code that answers it and the words for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{said} (0x{:02X})", reason.code())]
pub struct Fault {
    /// The code.
    pub reason: Reason,
    /// What was wrong.
    pub said: &'static str,
}

impl Fault {
    /// A fault answered with `reason`.
    pub(crate) fn new(reason: Reason, said: &'static str) -> Self {
        Self { reason, said }
    }

    /// Bytes that are no packet.
    pub(crate) fn malformed(said: &'static str) -> Self {
        Self::new(Reason::MalformedPacket, said)
    }

    /// A packet that may not be.
    pub(crate) fn protocol(said: &'static str) -> Self {
        Self::new(Reason::ProtocolError, said)
    }
}
