//! Unix sockets on which gRPC is served, whatever clients call them.
//!
//! A request of HTTP/2 names whom it is for, its `:authority`. On a unix socket there is no host to name, so each gRPC library has
//! its own idea of it: grpc-go escapes the whole path, `%2Fetc%2Fkubeedge%2Fdmi.sock`, gRPC's C core (Python, C++, Ruby, PHP) all of it
//! but the first slash, `etc%2Fkubeedge%2Fdmi.sock`, others write what they like. Servers made with `hyper` take none but names of
//! hosts and reset the stream of any other request. Who has opened this socket has called this server: [`connections`] gives a
//! server the connections of a socket with an authority in each request that it takes.

mod authority;
mod connection;
mod hpack;

pub use connection::{Connection, connections, limited_connections};
