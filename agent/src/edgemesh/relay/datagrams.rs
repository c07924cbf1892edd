//! Datagrams of UDP over a stream: each one is a frame.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    net::UdpSocket,
    time::timeout,
};
use wire::relay::{HEADER_LENGTH, frame};

/// The largest datagram, bytes.
pub(in crate::edgemesh) const MAX_DATAGRAM: usize = 65_535;
/// How long an endpoint may be silent before its flow ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads a datagram, and returns its size.
pub(in crate::edgemesh) async fn receive(
    from: &mut (impl AsyncRead + Unpin),
    into: &mut [u8],
) -> io::Result<usize> {
    let mut header = [0; HEADER_LENGTH];
    from.read_exact(&mut header).await?;
    let size = usize::from(u16::from_be_bytes(header));
    let space = into.get_mut(..size).ok_or(io::ErrorKind::InvalidData)?;
    from.read_exact(space).await?;
    Ok(size)
}

/// Writes a datagram.
pub(in crate::edgemesh) async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    datagram: &[u8],
) -> io::Result<()> {
    let frame =
        frame(datagram).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    to.write_all(&frame).await?;
    to.flush().await
}

/// Copies datagrams in both directions, until the stream ends or the endpoint has been silent for [`IDLE_TIMEOUT`].
pub(super) async fn copy_both_ways(stream: impl AsyncRead + AsyncWrite, socket: &UdpSocket) {
    let (mut reader, mut writer) = split(stream);
    let inward = async {
        let mut datagram = vec![0; MAX_DATAGRAM];
        while let Ok(size) = receive(&mut reader, &mut datagram).await {
            // one that cannot be sent is lost, as datagrams are
            let _ = socket.send(&datagram[..size]).await;
        }
    };
    let outward = async {
        let mut datagram = vec![0; MAX_DATAGRAM];
        // an endpoint that does not listen shows as an error here, and ends the flow
        while let Ok(Ok(size)) = timeout(IDLE_TIMEOUT, socket.recv(&mut datagram)).await {
            if send(&mut writer, &datagram[..size]).await.is_err() {
                return;
            }
        }
    };
    clock::select! {
        // cancel-safe: the flow ends
        () = inward => {}
        () = outward => {}
    }
}
