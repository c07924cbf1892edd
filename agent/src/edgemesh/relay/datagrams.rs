//! Datagrams of UDP over a stream: each is a frame.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    net::UdpSocket,
    time::timeout,
};
use wire::relay::{HEAD, frame};

/// The largest datagram.
pub(in crate::edgemesh) const DATAGRAM: usize = 65_535;
/// Datagrams between which there is more time are another client's.
const IDLE: Duration = Duration::from_secs(60);

/// Reads a datagram; its size.
pub(in crate::edgemesh) async fn receive(
    from: &mut (impl AsyncRead + Unpin),
    into: &mut [u8],
) -> io::Result<usize> {
    let mut head = [0; HEAD];
    from.read_exact(&mut head).await?;
    let size = usize::from(u16::from_be_bytes(head));
    let space = into.get_mut(..size).ok_or(io::ErrorKind::InvalidData)?;
    from.read_exact(space).await?;
    Ok(size)
}

/// Writes a datagram.
pub(in crate::edgemesh) async fn send(to: &mut (impl AsyncWrite + Unpin), datagram: &[u8]) -> io::Result<()> {
    let frame = frame(datagram).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    to.write_all(&frame).await?;
    to.flush().await
}

/// Datagrams both ways, until the stream ends or nothing has gone for [`IDLE`].
pub(super) async fn carry(stream: impl AsyncRead + AsyncWrite, socket: &UdpSocket) {
    let (mut reader, mut writer) = split(stream);
    let inward = async {
        let mut datagram = vec![0; DATAGRAM];
        while let Ok(size) = receive(&mut reader, &mut datagram).await {
            // one that cannot be sent is lost, as datagrams are
            let _ = socket.send(&datagram[..size]).await;
        }
    };
    let outward = async {
        let mut datagram = vec![0; DATAGRAM];
        // an endpoint that does not listen is told of here, and the flow ends with it
        while let Ok(Ok(size)) = timeout(IDLE, socket.recv(&mut datagram)).await {
            if send(&mut writer, &datagram[..size]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        // cancel-safe, both: the flow ends
        () = inward => {}
        () = outward => {}
    }
}
