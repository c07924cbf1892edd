//! The relay between nodes that do not reach each other: streams of one node's QUIC connection are joined to streams of another's.
//!
//! A node connects with its certificate, and opens a stream for each connection to another node, whose name it sends. The relay opens a
//! stream to that node, sends it the name of the first, and copies the bytes of both. The two nodes speak TLS in it, so that the relay
//! cannot read them. The protocol is [`wire::relay`].
//!
//! | file | what |
//! |---|---|
//! | `server` | the socket, and which nodes may connect |
//! | `node` | one node's connection: its streams, its reports |
//! | `join` | joins a stream to one of another node |
//! | `stream` | streams, and the messages with which they begin |
//! | `replicas` | streams to the relays of other replicas |
//! | `replica_server` | streams of other replicas |
//! | `splice` | copies the bytes of two streams into each other |
//! | `table` | the connected nodes, and the traffic between them |
//! | `metrics` | the counters of `/metrics` |
//!
//! Limits: a node has [`wire::relay::MAX_STREAMS`] streams that it has opened, and as many that others have opened to it, one other node a
//! quarter of them; of each at most [`wire::relay::WINDOW`] bytes wait here. What is not read stays with its sender, and holds up no other
//! stream.

mod join;
mod metrics;
mod node;
mod replica_server;
mod replicas;
mod server;
mod splice;
mod stream;
mod table;

pub(crate) use self::replica_server::ReplicaRelayServer;
pub use self::{
    server::{RelayBindError, RelayServer},
    table::{RelayNode, RelayPair, RelayState, Relays},
};
