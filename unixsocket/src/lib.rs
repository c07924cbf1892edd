//! Serves gRPC on unix sockets, whatever `:authority` clients send.
//!
//! An HTTP/2 request names its host in `:authority`. On a unix socket there is no host, so each gRPC library sends something else: grpc-go
//! escapes the whole path, `%2Fetc%2Fkubeedge%2Fdmi.sock`; gRPC's C core (Python, C++, Ruby, PHP) escapes all of it but the first slash,
//! `etc%2Fkubeedge%2Fdmi.sock`; others differ again. Servers based on `hyper` accept only host names and reset the stream of any other
//! request. A client that has opened this socket means this server, so [`connections`] gives a server the connections of a socket with a
//! valid authority in each request.

mod authority;
mod connection;
mod hpack;
mod listen;

pub use connection::{Connection, connections, limited_connections};
pub use listen::listen;
