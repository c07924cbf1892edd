//! One stream, from its request to its end.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use kubeapi::Body;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpStream, tcp::OwnedReadHalf},
    sync::mpsc,
};
use wire::tunnel::{Frame, Kind};

use super::{
    Answers, answer,
    flow::{Allowance, Inbox},
    streams::Place,
};
use crate::edged::{KubeletRequest, KubeletResponse};

/// Bytes of one message to the cloud at most.
const CHUNK: usize = 16 * 1024;

/// The way to the cloud of one stream.
#[derive(Clone)]
pub(super) struct Outbound {
    pub(super) id: u64,
    pub(super) frames: mpsc::Sender<Frame>,
    /// How many bytes the cloud takes before it has read any; `None`: it has no windows and takes any number.
    pub(super) allowance: Option<Arc<Allowance>>,
}

/// The tunnel has ended.
struct Gone;

impl Outbound {
    /// Sends bytes, in its turn, when the cloud takes them.
    async fn data(&self, mut bytes: Bytes) -> Result<(), Gone> {
        while !bytes.is_empty() {
            let part = match &self.allowance {
                Some(allowance) => allowance.take(bytes.len()).await,
                None => bytes.len(),
            };
            self.send(Frame::new(self.id, Kind::Data, bytes.split_to(part))).await?;
        }
        Ok(())
    }

    /// So many bytes of the cloud were passed on.
    async fn passed(&self, inbox: &Inbox, bytes: usize) -> Result<(), Gone> {
        match inbox.passed(bytes).filter(|_| self.allowance.is_some()) {
            Some(due) => self.send(Frame::window(self.id, due)).await,
            None => Ok(()),
        }
    }

    async fn send(&self, frame: Frame) -> Result<(), Gone> {
        self.frames.send(frame).await.map_err(|_| Gone)
    }

    /// The stream has ended.
    pub(super) async fn end(&self) {
        // a tunnel that has ended has no streams
        let _ = self.send(Frame::new(self.id, Kind::RemoveConnect, Bytes::new())).await;
    }

    /// There is no stream: says why, where the kind of stream can, and ends it.
    pub(super) async fn refuse(&self, kind: Kind, status: StatusCode, why: &str) {
        if is_raw(kind) {
            let head = answer::head(status, &http::HeaderMap::new());
            let whole = [&head[..], &answer::chunk(why.as_bytes()), answer::END].concat();
            // the same
            let _ = self.data(whole.into()).await;
        } else {
            let _ = self.data(Bytes::copy_from_slice(why.as_bytes())).await;
        }
        self.end().await;
    }
}

/// Whether the stream carries an HTTP connection, heads included; else it is the body alone.
fn is_raw(kind: Kind) -> bool {
    matches!(kind, Kind::Exec | Kind::Attach)
}

/// Runs a stream until it or the tunnel ends; the cloud is told of its end, whichever side ended it.
pub(super) async fn run(
    kind: Kind,
    request: KubeletRequest,
    api: impl Answers,
    place: Place,
    outbound: Outbound,
) {
    let ended = place.ended.clone();
    tokio::select! {
        // What is dropped here is the connection to the runtime, or the file.
        () = ended.cancelled() => {}
        _ = serve(kind, request, &api, &place.inbox, &outbound) => {}
    }
    // from now on its number may be used again
    drop(place);
    outbound.end().await;
}

async fn serve(
    kind: Kind,
    request: KubeletRequest,
    api: &impl Answers,
    inbox: &Inbox,
    outbound: &Outbound,
) -> Result<(), Gone> {
    match api.answer(request).await {
        KubeletResponse::Response(response) => send(kind, response, inbox, outbound).await,
        KubeletResponse::Upgraded(stream) => relay(stream, inbox, outbound).await,
    }
}

/// Sends an ordinary answer; bytes of the cloud are dropped meanwhile.
async fn send(kind: Kind, response: Response<Body>, inbox: &Inbox, outbound: &Outbound) -> Result<(), Gone> {
    let is_raw = is_raw(kind);
    let (head, mut body) = response.into_parts();
    let sending = async {
        if is_raw {
            outbound.data(answer::head(head.status, &head.headers)).await?;
        }
        while let Some(frame) = body.frame().await {
            // The status has gone; all that is left is to end, which chunks tell from a complete body.
            let Ok(frame) = frame else { return Ok(()) };
            let Ok(mut bytes) = frame.into_data() else { continue };
            while !bytes.is_empty() {
                let part = bytes.split_to(bytes.len().min(CHUNK));
                outbound.data(if is_raw { answer::chunk(&part) } else { part }).await?;
            }
        }
        if is_raw { outbound.data(Bytes::from_static(answer::END)).await } else { Ok(()) }
    };
    tokio::select! {
        sent = sending => sent,
        gone = dropping(inbox, outbound) => gone,
    }
}

/// Drops what the cloud sends.
async fn dropping(inbox: &Inbox, outbound: &Outbound) -> Result<(), Gone> {
    loop {
        let bytes = inbox.take().await;
        outbound.passed(inbox, bytes.len()).await?;
    }
}

/// Copies bytes both ways until the runtime closes its end.
async fn relay(stream: TcpStream, inbox: &Inbox, outbound: &Outbound) -> Result<(), Gone> {
    let (reader, mut writer) = stream.into_split();
    let down = async {
        loop {
            let bytes = inbox.take().await;
            let written = writer.write_all(&bytes).await;
            outbound.passed(inbox, bytes.len()).await?;
            if written.is_err() {
                // It takes no more; what it still says is sent on.
                return dropping(inbox, outbound).await;
            }
        }
    };
    tokio::select! {
        ended = up(&reader, outbound) => ended,
        gone = down => gone,
    }
}

async fn up(reader: &OwnedReadHalf, outbound: &Outbound) -> Result<(), Gone> {
    loop {
        // no buffer is held while there is nothing to read
        if reader.readable().await.is_err() {
            return Ok(());
        }
        let mut bytes = BytesMut::with_capacity(CHUNK);
        match reader.try_read_buf(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(_) => outbound.data(bytes.freeze()).await?,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return Ok(()),
        }
    }
}
