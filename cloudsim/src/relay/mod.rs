//! The relay between nodes that do not reach each other: streams of one node's QUIC connection are joined to streams of another's.
//!
//! In: connections of nodes, each known by its certificate; streams, each with the name of another node. Out: a stream to that node, with the name
//! of the first, and the bytes of both. The two nodes speak TLS in it, so that the relay cannot read them. See [`wire::relay`].
//!
//! | part | what |
//! |---|---|
//! | `server` | the socket, who a node is, whether it may come |
//! | `node` | one node's connection: its streams, its reports |
//! | `splice` | bytes of one stream into another |
//! | `table` | who is there, and what went between whom |
//!
//! Bounds: a node has [`wire::relay::MAX_STREAMS`] streams that it asks for, and as many that others ask of it; of each at most
//! [`wire::relay::WINDOW`] bytes wait here. What is not read stays where it comes from, and holds up no other stream.

mod node;
mod server;
mod splice;
mod table;

pub use self::{
    server::{NoRelay, RelayServer},
    table::{Joined, RelayNode, RelayState, Relays},
};
