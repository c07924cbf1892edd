//! Byte streams of connections, whatever carries them.

use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}
