//! A command or an attachment over WebSocket: the first byte of each message names its stream.

use std::{sync::Weak, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split},
    sync::mpsc,
    time::timeout,
};
use wire::websocket::{Decoder, Message, Role, encode};

use super::{
    command::{self, Wanted},
    request::StreamRequest,
};
use crate::runtime::core::Core;

/// The subprotocol in which a client can end its input.
pub(super) const WITH_CLOSE: &str = "v5.channel.k8s.io";
/// The subprotocols of commands; port forwards use all but the first.
pub(super) const PROTOCOLS: [&str; 2] = [WITH_CLOSE, "v4.channel.k8s.io"];
/// The largest message of a client; kubectl's have 32 KiB.
const MAX_MESSAGE: usize = 1 << 20;
/// How many messages may wait for the client.
const QUEUE_LENGTH: usize = 4;
/// How long a client may take to read the remaining output at the end.
const FLUSH: Duration = Duration::from_secs(10);

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
/// The channel of [`WITH_CLOSE`] whose messages name a channel that has ended.
const CLOSE: u8 = 255;
/// The close code of a normal end.
const NORMAL: &[u8] = &1000_u16.to_be_bytes();

/// Messages from a client.
pub(super) struct Reader<T> {
    io: ReadHalf<T>,
    decoder: Decoder,
    input: BytesMut,
}

/// Messages to a client.
pub(super) struct Writer<T>(WriteHalf<T>);

/// Returns both ends of an upgraded connection.
pub(super) fn ends<T: AsyncRead + AsyncWrite>(io: T) -> (Reader<T>, Writer<T>) {
    let (reader, writer) = split(io);
    let decoder = Decoder::new(Role::Server, MAX_MESSAGE);
    (
        Reader {
            io: reader,
            decoder,
            input: BytesMut::new(),
        },
        Writer(writer),
    )
}

impl<T: AsyncRead> Reader<T> {
    /// Returns the next message; `None` if the client has left or violates the protocol.
    pub(super) async fn next(&mut self) -> Option<Message> {
        loop {
            match self.decoder.next(&mut self.input) {
                Ok(Some(Message::Close(_))) | Err(_) => return None,
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
            }
            if self.io.read_buf(&mut self.input).await.ok()? == 0 {
                return None;
            }
        }
    }
}

impl<T: AsyncWrite> Writer<T> {
    /// Sends messages until all senders are dropped, or until the client cannot be written to.
    pub(super) async fn run(&mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(message) = messages.recv().await {
            if self.send(&message).await.is_none() {
                return;
            }
        }
    }

    async fn send(&mut self, message: &Message) -> Option<()> {
        let mut out = BytesMut::new();
        encode(&mut out, message, None);
        self.0.write_all(&out).await.ok()?;
        self.0.flush().await.ok()
    }

    /// Closes the connection with the code of a normal end.
    pub(super) async fn close(mut self) {
        let close = async {
            self.send(&Message::Close(Bytes::from_static(NORMAL))).await;
            // The client may have left already.
            let _ = self.0.shutdown().await;
        };
        let _ = timeout(FLUSH, close).await;
    }
}

/// Returns a message of a channel.
pub(super) fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut payload = BytesMut::with_capacity(bytes.len() + 1);
    payload.put_u8(channel);
    payload.put_slice(bytes);
    Message::Binary(payload.freeze())
}

/// Serves one connection to its end.
pub(super) async fn serve<T: AsyncRead + AsyncWrite + Send>(
    io: T,
    core: Weak<Core>,
    ask: StreamRequest,
    with_close: bool,
) {
    let (mut reader, mut writer) = ends(io);
    let (to_client, messages) = mpsc::channel(QUEUE_LENGTH);
    let wanted = Wanted::of(&ask);
    let (client, channels) = command::channels(wanted);
    let first = if wanted.stdout {
        STDOUT
    } else if wanted.stderr {
        STDERR
    } else {
        ERROR
    };
    let pongs = to_client.clone();
    let read = read(&mut reader, client.stdin, pongs, with_close);
    let work = async move {
        // An empty message tells the client which channels exist.
        let _ = to_client.send(message(first, b"")).await;
        let ended = tokio::join!(
            command::run(core, ask, channels),
            show(client.stdout, wanted.stdout.then_some(STDOUT), &to_client),
            show(client.stderr, wanted.stderr.then_some(STDERR), &to_client),
        );
        let _ = to_client
            .send(message(ERROR, ended.0.status().to_string().as_bytes()))
            .await;
    };
    let both = async {
        clock::select! {
            // The client has left.
            () = read => false,
            () = work => true,
        }
    };
    // The writer ends when all senders are dropped.
    let (is_done, ()) = tokio::join!(both, writer.run(messages));
    if is_done {
        writer.close().await;
    }
}

/// Reads the client's messages until it leaves.
async fn read<T: AsyncRead>(
    reader: &mut Reader<T>,
    stdin: mpsc::Sender<Bytes>,
    pongs: mpsc::Sender<Message>,
    with_close: bool,
) {
    let mut stdin = Some(stdin);
    while let Some(next) = reader.next().await {
        let mut payload = match next {
            Message::Ping(payload) => {
                let _ = pongs.send(Message::Pong(payload)).await;
                continue;
            }
            // Some clients send text messages.
            Message::Binary(payload) | Message::Text(payload) => payload,
            Message::Pong(_) | Message::Close(_) => continue,
        };
        if payload.is_empty() {
            continue;
        }
        let channel = payload.split_to(1);
        match (channel.as_ref(), payload.as_ref()) {
            ([STDIN], [_, ..]) => {
                if let Some(stdin) = &stdin {
                    // A command that has ended reads nothing.
                    let _ = stdin.send(payload).await;
                }
            }
            ([CLOSE], [STDIN]) if with_close => stdin = None,
            // Terminal sizes are discarded: no program uses them.
            _ => {}
        }
    }
}

/// Sends an output to its channel; an output that the client did not ask for is discarded.
async fn show(
    mut output: mpsc::Receiver<Bytes>,
    channel: Option<u8>,
    to_client: &mpsc::Sender<Message>,
) {
    while let Some(bytes) = output.recv().await {
        if let Some(channel) = channel {
            let _ = to_client.send(message(channel, &bytes)).await;
        }
    }
}
