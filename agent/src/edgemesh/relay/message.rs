//! Messages of the relay's protocol, read from a stream and written to one. Their form is [`wire::relay`]'s.

use std::io;

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::relay::{HEADER_LENGTH, RelayError, body_length, decode, encode};

/// Why a message was not read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("the stream was interrupted: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Content(#[from] RelayError),
}

/// Reads a message.
pub(super) async fn read<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> Result<T, MessageError> {
    let mut header = [0; HEADER_LENGTH];
    from.read_exact(&mut header).await?;
    let mut body = vec![0; body_length(header)?];
    from.read_exact(&mut body).await?;
    Ok(decode(&body)?)
}

/// Writes a message, and flushes the stream.
pub(super) async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> Result<(), MessageError> {
    to.write_all(&encode(message)?).await?;
    Ok(to.flush().await?)
}
