//! Copies bytes between the two ends of a connection.

use std::{cell::RefCell, io, os::fd::AsRawFd};

use nix::{
    errno::Errno,
    sys::socket::{Shutdown, shutdown},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest, split},
    net::TcpStream,
    pin,
    task::coop::consume_budget,
};

/// How many bytes are read at a time.
const BUFFER_SIZE: usize = 64 * 1024;

thread_local! {
    /// The buffer of all connections of this thread: nothing is awaited while it is borrowed, so an idle connection needs no buffer of
    /// its own.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER_SIZE]);
}

/// Copies what each end sends to the other, and shuts the other down when it ends, until both have ended. An end that has shut down its
/// sending side and then vanishes, as a program that is killed, is noticed although nothing is sent to it: by its reset, or by keepalive.
///
/// # Errors
/// One end broke off.
pub(super) async fn both_ways(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    let (there, back) = (one_way(client, server), one_way(server, client));
    pin!(there, back);
    clock::select! {
        // cancel-safe: after an error nothing is continued
        ended = &mut there => {
            ended?;
            clock::select! {
                ended = &mut back => ended,
                vanished = wait_vanished(client) => vanished,
            }
        }
        ended = &mut back => {
            ended?;
            clock::select! {
                ended = &mut there => ended,
                vanished = wait_vanished(server) => vanished,
            }
        }
    }
}

/// Does what [`both_ways`] does, between a client and a stream over the relay. The other node notices by itself if its endpoint vanishes.
///
/// # Errors
/// One end broke off.
pub(super) async fn over_relay(
    client: &mut TcpStream,
    relayed: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_node, mut to_node) = split(relayed);
    let back = copy_to_end(&mut from_node, &mut to_client);
    pin!(back);
    {
        let there = copy_to_end(&mut from_client, &mut to_node);
        pin!(there);
        clock::select! {
            // cancel-safe: the one that goes on is awaited below
            ended = &mut there => ended?,
            ended = &mut back => {
                ended?;
                return there.await;
            }
        }
    }
    clock::select! {
        // cancel-safe: after an error nothing is continued
        ended = back => ended,
        vanished = wait_vanished(from_client.as_ref()) => vanished,
    }
}

async fn copy_to_end(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    tokio::io::copy(from, to).await?;
    to.shutdown().await
}

async fn one_way(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    loop {
        consume_budget().await;
        from.readable().await?;
        match BUFFER.with_borrow_mut(|buffer| try_copy(from, to, buffer)) {
            Ok(Copied::Ended) => break,
            Ok(Copied::All) => {}
            Ok(Copied::Rest(rest)) => write(to, &rest).await?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    match shutdown(to.as_raw_fd(), Shutdown::Write) {
        // the end is gone, which the other direction reports
        Ok(()) | Err(Errno::ENOTCONN) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The outcome of one read and write.
enum Copied {
    /// All that was read is written.
    All,
    /// These bytes remain to be written.
    Rest(Vec<u8>),
    /// The end of the stream.
    Ended,
}

/// Reads once, and writes as much of it as is accepted at once.
fn try_copy(from: &TcpStream, to: &TcpStream, buffer: &mut [u8]) -> io::Result<Copied> {
    let read = match from.try_read(buffer)? {
        0 => return Ok(Copied::Ended),
        read => &buffer[..read],
    };
    let written = match to.try_write(read) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        other => other?,
    };
    Ok(if written == read.len() {
        Copied::All
    } else {
        Copied::Rest(read[written..].to_vec())
    })
}

async fn write(to: &TcpStream, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        to.writable().await?;
        match to.try_write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until an end that has shut down its sending side vanishes.
async fn wait_vanished(stream: &TcpStream) -> io::Result<()> {
    stream.ready(Interest::ERROR).await?;
    Err(stream
        .take_error()?
        .unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()))
}

#[cfg(test)]
mod tests {
    use testkit::within;
    use tokio::{
        io::{AsyncReadExt, duplex},
        net::TcpListener,
    };

    use super::*;

    async fn connect_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    /// A program that is killed after it has shut down its sending side: nothing is sent to it that would show it.
    #[tokio::test]
    async fn a_client_that_vanishes_after_its_end_ends_its_connection_over_the_relay() {
        let ((mut program, mut client), (mut relayed, mut node)) =
            (connect_pair().await, duplex(1024));
        let forwarding =
            componentbase::spawn(async move { over_relay(&mut client, &mut relayed).await });
        program.write_all(b"hello").await.unwrap();
        program.shutdown().await.unwrap();
        let mut received = Vec::new();
        within("the end of the client", node.read_to_end(&mut received))
            .await
            .unwrap();
        assert_eq!(received, b"hello", "its end is forwarded");
        program.set_zero_linger().unwrap();
        drop(program);
        let ended = within("the end of the connection", forwarding)
            .await
            .unwrap();
        assert!(ended.is_err(), "it broke off");
    }

    #[tokio::test]
    async fn both_directions_over_the_relay_end_by_themselves() {
        for client_ends_first in [true, false] {
            let ((mut program, mut client), (mut relayed, mut node)) =
                (connect_pair().await, duplex(1024));
            let forwarding =
                componentbase::spawn(async move { over_relay(&mut client, &mut relayed).await });
            let text = vec![b'x'; 100_000];
            if client_ends_first {
                program.shutdown().await.unwrap();
                let (sent, mut received) = (text.clone(), Vec::new());
                let sending = async {
                    node.write_all(&sent).await.unwrap();
                    node.shutdown().await.unwrap();
                };
                tokio::join!(sending, async {
                    program.read_to_end(&mut received).await.unwrap()
                });
                assert!(received == text);
            } else {
                node.shutdown().await.unwrap();
                let (sent, mut received) = (text.clone(), Vec::new());
                let sending = async {
                    program.write_all(&sent).await.unwrap();
                    program.shutdown().await.unwrap();
                };
                tokio::join!(sending, async {
                    node.read_to_end(&mut received).await.unwrap()
                });
                assert!(received == text);
            }
            within("the end of the connection", forwarding)
                .await
                .unwrap()
                .unwrap();
        }
    }
}
