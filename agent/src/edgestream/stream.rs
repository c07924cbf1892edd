//! One stream, from its request to its end.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use edged::{KubeletRequest, KubeletResponse};
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
    RequestHandler, answer,
    flow_control::{Inbox, SendCredit},
    streams::StreamHandle,
};

/// The most bytes of one message to the cloud.
const MAX_CHUNK_BYTES: usize = 16 * 1024;

/// The sending half of one stream.
#[derive(Clone)]
pub(super) struct StreamSender {
    pub(super) id: u64,
    pub(super) frames: mpsc::Sender<Frame>,
    /// The credit for sending; `None` if the cloud has no windows and takes any number of bytes.
    pub(super) credit: Option<Arc<SendCredit>>,
}

/// The tunnel has ended.
struct TunnelClosed;

impl StreamSender {
    /// Sends bytes as the cloud takes them.
    async fn data(&self, mut bytes: Bytes) -> Result<(), TunnelClosed> {
        while !bytes.is_empty() {
            let part = match &self.credit {
                Some(credit) => credit.take(bytes.len()).await,
                None => bytes.len(),
            };
            self.send(Frame::new(self.id, Kind::Data, bytes.split_to(part)))
                .await?;
        }
        Ok(())
    }

    /// Returns credit to the cloud for bytes that were passed on.
    async fn return_credit(&self, inbox: &Inbox, bytes: usize) -> Result<(), TunnelClosed> {
        match inbox.record_passed(bytes).filter(|_| self.credit.is_some()) {
            Some(due) => self.send(Frame::window(self.id, due)).await,
            None => Ok(()),
        }
    }

    async fn send(&self, frame: Frame) -> Result<(), TunnelClosed> {
        self.frames.send(frame).await.map_err(|_| TunnelClosed)
    }

    /// Sends the end of the stream.
    pub(super) async fn end(&self) {
        // a tunnel that has ended has no streams
        let _ = self
            .send(Frame::new(self.id, Kind::RemoveConnect, Bytes::new()))
            .await;
    }

    /// Refuses a stream: sends the reason, if this kind of stream can carry it, and the end.
    pub(super) async fn refuse(&self, kind: Kind, status: StatusCode, why: &str) {
        if is_raw(kind) {
            let head = answer::head(status, &http::HeaderMap::new());
            let whole = [
                &head[..],
                &answer::chunk(why.as_bytes()),
                answer::END_OF_BODY,
            ]
            .concat();
            // a tunnel that has ended has no streams
            let _ = self.data(whole.into()).await;
        } else {
            let _ = self.data(Bytes::copy_from_slice(why.as_bytes())).await;
        }
        self.end().await;
    }
}

/// Reports whether the stream carries an HTTP connection with heads; otherwise it carries the body only.
fn is_raw(kind: Kind) -> bool {
    matches!(kind, Kind::Exec | Kind::Attach)
}

/// Runs a stream until it or the tunnel ends; its end is sent to the cloud, whichever side ended it.
pub(super) async fn run(
    kind: Kind,
    request: KubeletRequest,
    api: impl RequestHandler,
    place: StreamHandle,
    outbound: StreamSender,
) {
    let ended = place.ended.clone();
    clock::select! {
        // dropping the future closes the connection to the runtime, or the file
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
    api: &impl RequestHandler,
    inbox: &Inbox,
    outbound: &StreamSender,
) -> Result<(), TunnelClosed> {
    match api.answer(request).await {
        KubeletResponse::Response(response) => send(kind, response, inbox, outbound).await,
        KubeletResponse::Upgraded(stream) => relay(stream, inbox, outbound).await,
    }
}

/// Sends an ordinary response; bytes from the cloud are dropped meanwhile.
async fn send(
    kind: Kind,
    response: Response<Body>,
    inbox: &Inbox,
    outbound: &StreamSender,
) -> Result<(), TunnelClosed> {
    let is_raw = is_raw(kind);
    let (head, mut body) = response.into_parts();
    let sending = async {
        if is_raw {
            outbound
                .data(answer::head(head.status, &head.headers))
                .await?;
        }
        while let Some(frame) = body.frame().await {
            // the status was sent already; the missing last chunk shows that the body is incomplete
            let Ok(frame) = frame else { return Ok(()) };
            let Ok(mut bytes) = frame.into_data() else {
                continue;
            };
            while !bytes.is_empty() {
                let part = bytes.split_to(bytes.len().min(MAX_CHUNK_BYTES));
                outbound
                    .data(if is_raw { answer::chunk(&part) } else { part })
                    .await?;
            }
        }
        if is_raw {
            outbound.data(Bytes::from_static(answer::END_OF_BODY)).await
        } else {
            Ok(())
        }
    };
    clock::select! {
        sent = sending => sent,
        gone = drain(inbox, outbound) => gone,
    }
}

/// Drops the bytes that the cloud sends.
async fn drain(inbox: &Inbox, outbound: &StreamSender) -> Result<(), TunnelClosed> {
    loop {
        let bytes = inbox.take().await;
        outbound.return_credit(inbox, bytes.len()).await?;
    }
}

/// Copies bytes in both directions until the runtime closes its end.
async fn relay(
    stream: TcpStream,
    inbox: &Inbox,
    outbound: &StreamSender,
) -> Result<(), TunnelClosed> {
    let (reader, mut writer) = stream.into_split();
    let down = async {
        loop {
            let bytes = inbox.take().await;
            let written = writer.write_all(&bytes).await;
            outbound.return_credit(inbox, bytes.len()).await?;
            if written.is_err() {
                // the runtime takes no more; what it still sends is passed on
                return drain(inbox, outbound).await;
            }
        }
    };
    clock::select! {
        ended = send_output(&reader, outbound) => ended,
        gone = down => gone,
    }
}

async fn send_output(reader: &OwnedReadHalf, outbound: &StreamSender) -> Result<(), TunnelClosed> {
    loop {
        // no buffer is held while there is nothing to read
        if reader.readable().await.is_err() {
            return Ok(());
        }
        let mut bytes = BytesMut::with_capacity(MAX_CHUNK_BYTES);
        match reader.try_read_buf(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(_) => outbound.data(bytes.freeze()).await?,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return Ok(()),
        }
    }
}
