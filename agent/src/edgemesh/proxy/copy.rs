//! Bytes between the two ends of a connection.

use std::{cell::RefCell, io, os::fd::AsRawFd};

use nix::{
    errno::Errno,
    sys::socket::{Shutdown, shutdown},
};
use tokio::{io::Interest, net::TcpStream, pin, task::coop::consume_budget};

/// Bytes that are read at one time.
const PORTION: usize = 64 * 1024;

thread_local! {
    /// What is read, by all connections in turn: nothing is awaited meanwhile, so that one on which nothing goes needs no memory of its own.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; PORTION]);
}

/// Hands on what each end sends, and that it has ended, until both have. An end that has ended and is then gone altogether, as a
/// program that was killed, is found out though nothing is sent to it: by its reset, or by keepalive.
///
/// # Errors
/// One end has broken off.
pub(super) async fn both_ways(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    let (there, back) = (one_way(client, server), one_way(server, client));
    pin!(there, back);
    tokio::select! {
        // cancel-safe, all: what is broken off is not gone on with
        ended = &mut there => {
            ended?;
            tokio::select! {
                ended = &mut back => ended,
                gone = gone(client) => gone,
            }
        }
        ended = &mut back => {
            ended?;
            tokio::select! {
                ended = &mut there => ended,
                gone = gone(server) => gone,
            }
        }
    }
}

async fn one_way(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    loop {
        consume_budget().await;
        from.readable().await?;
        match BUFFER.with_borrow_mut(|buffer| hand_on(from, to, buffer)) {
            Ok(Moved::Ended) => break,
            Ok(Moved::All) => {}
            Ok(Moved::Rest(rest)) => write(to, &rest).await?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    match shutdown(to.as_raw_fd(), Shutdown::Write) {
        // it is gone, which the other direction tells
        Ok(()) | Err(Errno::ENOTCONN) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// What became of what could be read.
enum Moved {
    /// It is written.
    All,
    /// This of it is not yet.
    Rest(Vec<u8>),
    /// Nothing comes any more.
    Ended,
}

/// Reads once, and writes that as far as it is taken at once.
fn hand_on(from: &TcpStream, to: &TcpStream, buffer: &mut [u8]) -> io::Result<Moved> {
    let read = match from.try_read(buffer)? {
        0 => return Ok(Moved::Ended),
        read => &buffer[..read],
    };
    let written = match to.try_write(read) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        other => other?,
    };
    Ok(if written == read.len() { Moved::All } else { Moved::Rest(read[written..].to_vec()) })
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

/// Waits until an end that sends nothing more is gone.
async fn gone(stream: &TcpStream) -> io::Result<()> {
    stream.ready(Interest::ERROR).await?;
    Err(stream.take_error()?.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()))
}
