//! The kubelet's API for other parts of this agent: requests to this node are answered in process, without the network.

use std::io::Cursor;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, response::Parts};
use http_body_util::{BodyExt, Full};
use kubeapi::{NodeAnswer, NodeError, NodeRequest, NodeStreams};
use percent_encoding::percent_decode_str;
use tokio::{
    io::{AsyncReadExt, join},
    net::TcpStream,
    time::{Duration, timeout},
};

use super::{KubeletApi, KubeletRequest, KubeletResponse};

/// How long the container runtime, which is on this machine, may take to send the head of its response.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a response's head, and of the text of an error response, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// Maximum number of headers of a response.
const MAX_HEADERS: usize = 64;

/// This node's kubelet API.
#[derive(Clone, Debug)]
pub struct LocalKubelet {
    node: String,
    api: KubeletApi,
}

impl LocalKubelet {
    /// Returns the API of `node`, which is this node.
    pub fn new(node: String, api: KubeletApi) -> Self {
        Self { node, api }
    }
}

#[async_trait]
impl NodeStreams for LocalKubelet {
    async fn ask(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, NodeError> {
        let broken = |why: String| NodeError::Broken(node.to_owned(), why);
        if node != self.node {
            return Err(broken(format!(
                "only node {:?} is reached from here",
                self.node
            )));
        }
        let NodeRequest {
            method,
            path_and_query,
            headers,
        } = request;
        let (path, query) = path_and_query
            .split_once('?')
            .unwrap_or((&path_and_query, ""));
        let path = percent_decode_str(path)
            .decode_utf8()
            .map_err(|error| broken(error.to_string()))?;
        let request = KubeletRequest {
            method,
            path: path.into_owned(),
            query: query.to_owned(),
            headers,
        };
        let stream = match self.api.answer(request).await {
            KubeletResponse::Response(response) => return Ok(NodeAnswer::Response(response)),
            KubeletResponse::Upgraded(stream) => stream,
        };
        match timeout(HEAD_TIMEOUT, read_response(stream)).await {
            Ok(answer) => {
                answer.map_err(|why| broken(format!("the container runtime's answer: {why}")))
            }
            Err(_) => Err(NodeError::Timeout(node.to_owned())),
        }
    }
}

/// Reads the response to the request that has been sent on `stream`.
async fn read_response(mut stream: TcpStream) -> Result<NodeAnswer, String> {
    let mut read = BytesMut::new();
    let head = loop {
        if let Some((length, head)) = parse_head(&read)? {
            let _ = read.split_to(length);
            break head;
        }
        read_more(&mut stream, &mut read).await?;
    };
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        let (reader, writer) = stream.into_split();
        // bytes that were read after the head are the first bytes of the connection
        let reader = Cursor::new(read.freeze()).chain(reader);
        return Ok(NodeAnswer::Upgraded(head, Box::new(join(reader, writer))));
    }
    let length = head
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    let length: usize = length.unwrap_or_default();
    while read.len() < length {
        read_more(&mut stream, &mut read).await?;
    }
    read.truncate(length);
    let body = Full::new(read.freeze())
        .map_err(|never| match never {})
        .boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    if let Some(kind) = head.headers.get(header::CONTENT_TYPE) {
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, kind.clone());
    }
    Ok(NodeAnswer::Response(response))
}

async fn read_more(stream: &mut TcpStream, read: &mut BytesMut) -> Result<(), String> {
    if read.len() >= MAX_RESPONSE_BYTES {
        return Err(format!("it is longer than {MAX_RESPONSE_BYTES} bytes"));
    }
    match stream.read_buf(read).await {
        Ok(0) => Err("it ended too soon".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses the head at the beginning of `bytes` and returns it with its length, or `None` if it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<(usize, Parts)>, String> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut headers);
    let length = match parsed.parse(bytes).map_err(|error| error.to_string())? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let (mut head, _) = Response::new(Bytes::new()).into_parts();
    head.status =
        StatusCode::from_u16(parsed.code.unwrap_or_default()).map_err(|error| error.to_string())?;
    head.headers = HeaderMap::new();
    for one in parsed.headers.iter() {
        let name =
            HeaderName::from_bytes(one.name.as_bytes()).map_err(|error| error.to_string())?;
        head.headers.append(
            name,
            HeaderValue::from_bytes(one.value).map_err(|error| error.to_string())?,
        );
    }
    Ok(Some((length, head)))
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncWriteExt, net::TcpListener};

    use super::*;

    /// What is made of these bytes, which come one by one before the last ones.
    async fn answer(bytes: &[u8]) -> Result<NodeAnswer, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let bytes = bytes.to_vec();
        let sent = componentbase::spawn(async move {
            for byte in bytes.iter().take(20) {
                server.write_all(&[*byte]).await.unwrap();
                server.flush().await.unwrap();
            }
            // whoever has read enough is gone
            let _ = server.write_all(bytes.get(20..).unwrap_or_default()).await;
        });
        let answer = read_response(stream).await;
        sent.await.unwrap();
        answer
    }

    #[tokio::test]
    async fn bytes_after_the_head_are_not_lost() {
        let bytes = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\nfirst bytes";
        let NodeAnswer::Upgraded(head, mut io) = answer(bytes).await.unwrap() else {
            panic!("no upgrade")
        };
        assert_eq!(head.headers["upgrade"], "SPDY/3.1");
        let mut read = String::new();
        io.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "first bytes");
    }

    #[tokio::test]
    async fn error_status_is_a_response_and_a_broken_head_an_error() {
        let refused =
            b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nno\nmore";
        let NodeAnswer::Response(response) = answer(refused).await.unwrap() else {
            panic!("an upgrade")
        };
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        assert_eq!(
            response.into_body().collect().await.unwrap().to_bytes(),
            "no\n"
        );
        for (bytes, why) in [
            (b"".to_vec(), "it ended too soon"),
            (
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n".to_vec(),
                "it ended too soon",
            ),
            (
                b"HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nno".to_vec(),
                "it ended too soon",
            ),
            (b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), "invalid HTTP version"),
            (
                b"HTTP/1.1 403 Forbidden\r\nContent-Length: 1000000\r\n\r\n".repeat(2_000),
                "longer than",
            ),
            (
                [b"HTTP/1.1 101 OK\r\nA: ".to_vec(), vec![b'a'; 100_000]].concat(),
                "longer than",
            ),
        ] {
            let error = answer(&bytes).await.unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
