//! Copies bytes between the two ends of a connection.

use std::{cell::RefCell, io, os::fd::AsRawFd};

use nix::{
    errno::Errno,
    sys::socket::{Shutdown, shutdown},
};
use tokio::{io::Interest, net::TcpStream, pin, task::coop::consume_budget};

/// How many bytes are read at a time.
const BUFFER_SIZE: usize = 64 * 1024;

thread_local! {
    /// The buffer of all connections of this thread: nothing is awaited while it is borrowed, so an idle connection needs no buffer of its own.
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
    tokio::select! {
        // cancel-safe, all: after an error nothing is continued
        ended = &mut there => {
            ended?;
            tokio::select! {
                ended = &mut back => ended,
                vanished = vanished(client) => vanished,
            }
        }
        ended = &mut back => {
            ended?;
            tokio::select! {
                ended = &mut there => ended,
                vanished = vanished(server) => vanished,
            }
        }
    }
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
    Ok(if written == read.len() { Copied::All } else { Copied::Rest(read[written..].to_vec()) })
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
async fn vanished(stream: &TcpStream) -> io::Result<()> {
    stream.ready(Interest::ERROR).await?;
    Err(stream.take_error()?.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()))
}
