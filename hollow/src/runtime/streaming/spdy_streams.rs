//! A command or an attachment over SPDY: a stream for each of its inputs and outputs, and one for its status.

use std::{sync::Weak, time::Duration};

use bytes::Bytes;
use spdy::{
    Role, Status,
    session::{self, Incoming, Stream},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    time::timeout,
};

use super::{
    command::{self, Wanted},
    request::StreamRequest,
};
use crate::runtime::core::Core;

/// How long a client may take to open all streams.
const CREATION: Duration = Duration::from_secs(30);
/// How long a client may take to read the remaining output at the end.
const FLUSH: Duration = Duration::from_secs(10);
/// How many bytes are read at a time.
const CHUNK: usize = 16 * 1024;

/// The streams that a client has opened.
#[derive(Default)]
struct Streams {
    error: Option<Stream>,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
}

/// Serves one connection to its end.
pub(super) async fn serve(
    io: impl AsyncRead + AsyncWrite + Send,
    core: Weak<Core>,
    ask: StreamRequest,
) {
    let (session, mut incoming, driver) = session::new(io, Role::Server);
    let driver = driver.run();
    tokio::pin!(driver);
    let work = async {
        let wanted = Wanted::of(&ask);
        let streams = timeout(CREATION, streams(&mut incoming, wanted)).await;
        // Further streams are refused.
        drop(incoming);
        if let Ok(Some(streams)) = streams {
            run(core, ask, wanted, streams).await;
        }
        session.close().await;
    };
    clock::select! {
        // The client has left.
        _ = &mut driver => return,
        () = work => {}
    }
    drop(session);
    let _ = timeout(FLUSH, driver).await;
}

/// Accepts streams, each at once, until all that were asked for are open.
async fn streams(incoming: &mut Incoming, wanted: Wanted) -> Option<Streams> {
    let mut streams = Streams::default();
    let mut missing = 1 + [wanted.stdin, wanted.stdout, wanted.stderr, wanted.tty]
        .iter()
        .filter(|one| **one)
        .count();
    while missing > 0 {
        let request = incoming.next().await?;
        let kind = request
            .headers
            .get("streamtype")
            .unwrap_or_default()
            .to_ascii_lowercase();
        let (place, is_wanted) = match kind.as_str() {
            "error" => (&mut streams.error, true),
            "stdin" => (&mut streams.stdin, wanted.stdin),
            "stdout" => (&mut streams.stdout, wanted.stdout),
            "stderr" => (&mut streams.stderr, wanted.stderr),
            "resize" => (&mut streams.resize, wanted.tty),
            _ => {
                request.refuse(Status::ProtocolError).await;
                continue;
            }
        };
        if !is_wanted || place.is_some() {
            request.refuse(Status::ProtocolError).await;
            continue;
        }
        *place = Some(request.accept().await.ok()?);
        missing -= 1;
    }
    Some(streams)
}

async fn run(core: Weak<Core>, ask: StreamRequest, wanted: Wanted, streams: Streams) {
    let Streams {
        error,
        stdin,
        stdout,
        stderr,
        resize,
    } = streams;
    let (client, channels) = command::channels(wanted);
    let typed = feed(stdin, client.stdin);
    let sizes = async {
        // Terminal sizes are discarded: no program uses them.
        if let Some(mut resize) = resize {
            let _ = tokio::io::copy(&mut resize, &mut tokio::io::sink()).await;
        }
    };
    let inputs = async { tokio::join!(typed, sizes) };
    let ended = async {
        tokio::join!(
            command::run(core, ask, channels),
            show(client.stdout, stdout),
            show(client.stderr, stderr)
        )
        .0
    };
    tokio::pin!(inputs, ended);
    let ended = clock::select! {
        ended = &mut ended => ended,
        // The end of the input does not end the command.
        _ = &mut inputs => ended.await,
    };
    if let Some(mut error) = error {
        // A client that has left does not need the status.
        let _ = error.write_all(ended.status().to_string().as_bytes()).await;
        let _ = error.shutdown().await;
    }
}

async fn feed(stream: Option<Stream>, to: mpsc::Sender<Bytes>) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; CHUNK];
    while let Ok(read) = stream.read(&mut buffer).await {
        if read == 0
            || to
                .send(Bytes::copy_from_slice(&buffer[..read]))
                .await
                .is_err()
        {
            return;
        }
    }
    // A broken connection does not end the input alone: it ends the whole session.
    std::future::pending::<()>().await;
}

/// Sends an output to its stream; an output that the client did not ask for is discarded.
async fn show(mut output: mpsc::Receiver<Bytes>, mut stream: Option<Stream>) {
    while let Some(bytes) = output.recv().await {
        if let Some(to) = &mut stream
            && to.write_all(&bytes).await.is_err()
        {
            // The client has closed only this stream.
            return;
        }
    }
    if let Some(mut stream) = stream {
        let _ = stream.shutdown().await;
    }
}
