//! MQTT 5 reason codes and their MQTT 3.1.1 counterparts.

/// Why a request is refused or a connection ends (MQTT 5, section 2.4); only the codes that this broker sends or acts upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// 0x00: success; in DISCONNECT a normal end without a will.
    Success = 0x00,
    /// 0x04: the client disconnects, and its will is to be published.
    DisconnectWithWill = 0x04,
    /// 0x10: the message was accepted, but its topic has no subscriber.
    NoMatchingSubscribers = 0x10,
    /// 0x11: there was no such subscription.
    NoSubscriptionExisted = 0x11,
    /// 0x80: an error without a code of its own.
    Unspecified = 0x80,
    /// 0x81: the bytes are not an MQTT packet.
    MalformedPacket = 0x81,
    /// 0x82: a packet that is not allowed here or now.
    ProtocolError = 0x82,
    /// 0x84: the MQTT version is not supported.
    UnsupportedVersion = 0x84,
    /// 0x85: the client identifier is not accepted.
    ClientIdentifierNotValid = 0x85,
    /// 0x86: the user is unknown or the password is wrong.
    BadUserNameOrPassword = 0x86,
    /// 0x87: the access rules forbid it.
    NotAuthorized = 0x87,
    /// 0x89: there are too many connections.
    ServerBusy = 0x89,
    /// 0x8B: the broker is shutting down.
    ServerShuttingDown = 0x8B,
    /// 0x8C: enhanced authentication is not supported.
    BadAuthenticationMethod = 0x8C,
    /// 0x8D: the client sent nothing for one and a half times the keep-alive.
    KeepAliveTimeout = 0x8D,
    /// 0x8E: a newer connection uses the same client identifier.
    SessionTakenOver = 0x8E,
    /// 0x8F: the topic filter is invalid.
    TopicFilterInvalid = 0x8F,
    /// 0x90: the topic name is invalid.
    TopicNameInvalid = 0x90,
    /// 0x92: no exchange with this packet identifier is open.
    PacketIdentifierNotFound = 0x92,
    /// 0x93: the client sent more unacknowledged QoS 2 messages than allowed.
    ReceiveMaximumExceeded = 0x93,
    /// 0x94: the topic alias is 0, too high or unknown.
    TopicAliasInvalid = 0x94,
    /// 0x95: the packet is larger than the maximum packet size.
    PacketTooLarge = 0x95,
    /// 0x97: a limit of this broker is reached.
    QuotaExceeded = 0x97,
}

impl Reason {
    /// Returns the code on the wire.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns MQTT 3.1.1's CONNACK return code of a refused connection (section 3.2.2.3), or `None` if 3.1.1 closes without an answer.
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

/// A peer's fault: the reason code of the answer and a text for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{said} (0x{:02X})", reason.code())]
pub struct Fault {
    /// The reason code.
    pub reason: Reason,
    /// A description of the fault.
    pub said: &'static str,
}

impl Fault {
    /// Creates a fault that is answered with `reason`.
    pub(crate) fn new(reason: Reason, said: &'static str) -> Self {
        Self { reason, said }
    }

    /// Creates the fault of bytes that are not a packet.
    pub(crate) fn malformed(said: &'static str) -> Self {
        Self::new(Reason::MalformedPacket, said)
    }

    /// Creates the fault of a packet that is not allowed.
    pub(crate) fn protocol(said: &'static str) -> Self {
        Self::new(Reason::ProtocolError, said)
    }
}
