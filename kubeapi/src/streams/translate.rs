//! Translates exec and attach between a client's WebSocket and the node's SPDY: no container runtime speaks version 5, whose clients
//! can close their stdin.

use std::{io, time::Duration};

use bytes::Bytes;
use futures::{SinkExt, StreamExt, stream::SplitSink, stream::SplitStream};
use serde_json::{Value, json};
use spdy::{
    Headers, Role,
    session::{self, Session, Stream},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use super::{
    Tasks,
    channels::{CLOSE, Protocol, RESIZE, STATUS, STDERR, STDIN, STDOUT},
    copy::LastActivity,
    upgrade::ClientIo,
    websocket,
};
use crate::NodeIo;

/// Bytes that are read of a stream at a time, which bounds the size of a message.
const CHUNK_BYTES: usize = 32 * 1024;
/// Messages that are queued for the client, and for the command's stdin.
const CHANNEL_CAPACITY: usize = 4;
/// The largest status of a node in bytes.
const MAX_STATUS_BYTES: u64 = 64 * 1024;
/// How often a ping is sent while stdin is blocked and nothing is read from the client, its pings neither: kubectl gives a silent
/// connection up after a minute.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How long nothing is sent after the handshake to clients of version 5. kubectl before 1.34 makes its streams while it already reads:
/// what comes before is lost, and it prints "Unknown stream id". The API server has not reached the node by then.
const STREAMS_DELAY: Duration = Duration::from_millis(50);

/// The streams that a client requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestedStreams {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

/// The SPDY streams of a command on its node.
pub(super) struct Streams {
    session: Session,
    error: Stream,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
}

impl Streams {
    /// Opens the streams in the order that the node expects.
    pub(super) async fn open(
        io: Box<dyn NodeIo>,
        wants: RequestedStreams,
        tasks: &Tasks,
    ) -> io::Result<Self> {
        let (session, incoming, driver) = session::new(io, Role::Client);
        // a node opens no streams
        drop(incoming);
        tasks.spawn(async move {
            if let Err(error) = driver.run().await {
                tracing::debug!(%error, "stream to a node lost");
            }
        });
        let error = session
            .open(Headers::new().with("streamtype", "error"), false)
            .await?;
        let stdin = open_wanted(&session, "stdin", wants.stdin).await?;
        let stdout = open_wanted(&session, "stdout", wants.stdout).await?;
        let stderr = open_wanted(&session, "stderr", wants.stderr && !wants.tty).await?;
        let resize = open_wanted(&session, "resize", wants.tty).await?;
        Ok(Self {
            session,
            error,
            stdin,
            stdout,
            stderr,
            resize,
        })
    }

    /// Returns the lowest channel that is written to the client: the first message is an empty one on it.
    fn first_channel(&self) -> u8 {
        match (&self.stdout, &self.stderr) {
            (Some(_), _) => STDOUT,
            (None, Some(_)) => STDERR,
            (None, None) => STATUS,
        }
    }
}

async fn open_wanted(session: &Session, name: &str, is_wanted: bool) -> io::Result<Option<Stream>> {
    if !is_wanted {
        return Ok(None);
    }
    session
        .open(Headers::new().with("streamtype", name), false)
        .await
        .map(Some)
}

/// A message for the command's stdin.
enum Input {
    Bytes(Bytes),
    End,
}

/// Copies until the command or the client ends.
pub(super) async fn run(io: ClientIo, protocol: Protocol, streams: Streams, node: String) {
    let idle = LastActivity::new();
    let (sink, mut source) = websocket::accept(io).await.split();
    let (out, messages) = mpsc::channel(CHANNEL_CAPACITY);
    let (input, inputs) = mpsc::channel(CHANNEL_CAPACITY);
    let first = protocol.message(streams.first_channel(), &[]);
    let Streams {
        session,
        error,
        stdin,
        stdout,
        stderr,
        mut resize,
    } = streams;
    let written = async {
        if protocol.can_close {
            sleep(STREAMS_DELAY).await;
        }
        write(sink, first, messages, &idle).await;
    };
    let told = async {
        let (_, _, status) = tokio::join!(
            output(stdout, STDOUT, protocol, &out),
            output(stderr, STDERR, protocol, &out),
            status(error, &node)
        );
        end(status, protocol, &out).await;
    };
    let ends = async { tokio::join!(told, written) };
    let fed = async {
        feed(stdin, inputs).await;
        // the command may go on without input
        std::future::pending::<()>().await;
    };
    let heard = listen(&mut source, protocol, &input, resize.as_mut(), &out, &idle);
    let mut heard = std::pin::pin!(heard);
    clock::select! {
        _ = ends => {
            // the client answers to the end, and reads what is before it
            let _ = timeout(websocket::CLOSE_TIMEOUT, heard).await;
        }
        () = &mut heard => tracing::debug!("client disconnected from a command"),
        () = fed => {}
        () = idle.wait_idle() => tracing::debug!("idle command disconnected"),
    }
    session.close().await;
}

/// Writes messages to the client until the last one, or until a write fails.
async fn write(
    mut sink: SplitSink<WebSocketStream<ClientIo>, Message>,
    first: Message,
    mut messages: mpsc::Receiver<Message>,
    idle: &LastActivity,
) {
    let mut next = Some(first);
    while let Some(message) = next {
        let is_last = matches!(message, Message::Close(_));
        if sink.send(message).await.is_err() || is_last {
            return;
        }
        idle.touch();
        next = messages.recv().await;
    }
}

/// Copies a stream of the node to the client.
async fn output(
    stream: Option<Stream>,
    channel: u8,
    protocol: Protocol,
    out: &mpsc::Sender<Message>,
) {
    let Some(mut stream) = stream else { return };
    let mut chunk = vec![0; CHUNK_BYTES];
    // one that broke off is told by the missing status
    while let Ok(length) = stream.read(&mut chunk).await
        && length > 0
    {
        if out
            .send(protocol.message(channel, &chunk[..length]))
            .await
            .is_err()
        {
            return;
        }
    }
}

/// Reads the exit status of the command from the node's error stream; a missing one is a failure.
async fn status(error: Stream, node: &str) -> Value {
    let mut text = Vec::new();
    let read = error.take(MAX_STATUS_BYTES).read_to_end(&mut text).await;
    if let Ok(status @ Value::Object(_)) = serde_json::from_slice(&text) {
        return status;
    }
    let message = match (read, String::from_utf8_lossy(&text).trim()) {
        (Ok(_), "") => format!("the stream from node {node:?} has ended without a status"),
        (Ok(_), text) => text.to_owned(),
        (Err(error), _) => format!("the stream from node {node:?} was interrupted: {error}"),
    };
    failure(&message)
}

fn failure(message: &str) -> Value {
    let message = format!("Internal error occurred: {message}");
    json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "message": message, "code": 500})
}

/// Sends the status to the client; last, since some clients stop reading there.
async fn end(status: Value, protocol: Protocol, out: &mpsc::Sender<Message>) {
    let text = if protocol.has_status {
        Some(status.to_string())
    } else if status["status"] == "Success" {
        None
    } else {
        Some(
            status["message"]
                .as_str()
                .unwrap_or("the command failed")
                .to_owned(),
        )
    };
    if let Some(text) = text {
        // whoever has left needs none
        let _ = out.send(protocol.message(STATUS, text.as_bytes())).await;
    }
    let _ = out.send(websocket::normal_end()).await;
}

/// Copies stdin to the command, until stdin or the command ends.
async fn feed(stdin: Option<Stream>, mut inputs: mpsc::Receiver<Input>) {
    let Some(mut stdin) = stdin else {
        return while inputs.recv().await.is_some() {};
    };
    let mut takes = true;
    while let Some(input) = inputs.recv().await {
        match input {
            // what a command that has closed its input is sent is nobody's
            Input::Bytes(bytes) if takes => takes = stdin.write_all(&bytes).await.is_ok(),
            Input::Bytes(_) => {}
            Input::End => {
                takes = false;
                // one that has ended is at its end
                let _ = stdin.shutdown().await;
            }
        }
    }
    // kept until the client has left: dropped before, it would be reset
    std::future::pending().await
}

/// Reads the client's messages until it closes the connection or sends an invalid one.
async fn listen(
    source: &mut SplitStream<WebSocketStream<ClientIo>>,
    protocol: Protocol,
    input: &mpsc::Sender<Input>,
    mut resize: Option<&mut Stream>,
    out: &mpsc::Sender<Message>,
    idle: &LastActivity,
) {
    while let Some(Ok(message)) = source.next().await {
        idle.touch();
        let message = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            Message::Close(_) => return,
            // pings are answered by the library
            _ => continue,
        };
        let (channel, data) = match protocol.read(message) {
            Ok(Some(read)) => read,
            Ok(None) => continue,
            Err(why) => {
                return tracing::debug!(error = why.0, "malformed data of a client ignored");
            }
        };
        match channel {
            STDIN if !data.is_empty() => pass(Input::Bytes(data), input, out).await,
            RESIZE => {
                if let Some(resize) = resize.as_mut() {
                    // a terminal that has ended has no size
                    let _ = resize.write_all(&data).await;
                }
            }
            CLOSE if protocol.can_close => match data[..] {
                [STDIN] => pass(Input::End, input, out).await,
                [channel] if channel <= RESIZE => {}
                _ => return tracing::debug!("close of an unknown channel ignored"),
            },
            _ => {}
        }
    }
}

/// Waits for room in the queue of stdin, and pings the client meanwhile.
async fn pass(message: Input, input: &mpsc::Sender<Input>, out: &mpsc::Sender<Message>) {
    loop {
        clock::select! {
            permit = input.reserve() => {
                if let Ok(permit) = permit {
                    permit.send(message);
                }
                return;
            }
            () = sleep(KEEPALIVE_INTERVAL) => {
                // one that takes nothing either learns nothing
                let _ = out.try_send(Message::Pong(Bytes::new()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn while_input_waits_the_client_is_told_that_the_connection_lives() {
        let (input, mut inputs) = mpsc::channel(1);
        let (out, mut messages) = mpsc::channel(1);
        input.try_send(Input::End).unwrap();
        let waiting = tokio::spawn(async move {
            pass(Input::Bytes(Bytes::from_static(b"x")), &input, &out).await;
        });
        for _ in 0..3 {
            assert_eq!(messages.recv().await, Some(Message::Pong(Bytes::new())));
        }
        assert!(matches!(inputs.recv().await, Some(Input::End)));
        waiting.await.unwrap();
        assert!(matches!(inputs.recv().await, Some(Input::Bytes(_))));
    }

    #[tokio::test]
    async fn the_end_is_a_status_or_a_text_of_its_version() {
        let of = |name: &str| Protocol::choose(&[name.to_owned()]).unwrap();
        let success = json!({"status": "Success"});
        let text = "\u{3}Internal error occurred: gone".to_owned();
        for (protocol, status, expected) in [
            (
                "v4.channel.k8s.io",
                success.clone(),
                Some("\u{3}{\"status\":\"Success\"}".to_owned()),
            ),
            ("channel.k8s.io", success, None),
            ("channel.k8s.io", failure("gone"), Some(text)),
        ] {
            let (out, mut messages) = mpsc::channel(4);
            end(status, of(protocol), &out).await;
            if let Some(expected) = expected {
                assert_eq!(
                    messages.recv().await.unwrap().into_data(),
                    expected.into_bytes()
                );
            }
            assert_eq!(messages.recv().await, Some(websocket::normal_end()));
        }
    }
}
