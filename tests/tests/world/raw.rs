//! A client of the cloud's servers that can do everything wrong: TLS with any certificate, HTTP and WebSocket by hand.

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::SystemTime};

use futures::{SinkExt, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer, ServerName, pem::PemObject},
};
use tests::{World, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, client::IntoClientRequest, handshake::client::Response, http::HeaderName},
};
use wire::{
    Message, Upstream,
    enroll::{Ca, Csr, Token},
};

/// The cloud's authority, with its key.
pub(crate) async fn authority(world: &World) -> Ca {
    let secret = Api::<Secret>::namespaced(world.client(), "kubeedge")
        .get("casecret")
        .await
        .unwrap();
    let data = secret.data.unwrap();
    Ca::from_der(&data["cadata"].0, &data["cakeydata"].0).unwrap()
}

/// Somebody with or without a certificate.
pub(crate) struct Caller {
    ca: Vec<u8>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Caller {
    /// Without a certificate.
    pub(crate) async fn anonymous(world: &World) -> Self {
        Self {
            ca: authority(world).await.cert_der().to_vec(),
            identity: None,
        }
    }

    /// With the certificate of a person.
    pub(crate) async fn admin(world: &World) -> Self {
        let ca = authority(world).await;
        Self {
            ca: ca.cert_der().to_vec(),
            identity: Some(ca.sign_admin(SystemTime::now()).unwrap()),
        }
    }

    /// With a node's certificate, enrolled as every node; a node that has the name is reset by an administrator before.
    pub(crate) async fn node(world: &World, name: &str) -> Self {
        world.cloud().reset_node(name).await.unwrap();
        let mut caller = Self::anonymous(world).await;
        let csr = Csr::for_node(name).unwrap();
        let token = Token::parse(world.cloud().token()).unwrap();
        let (status, certificate) = caller.enrol(world, token.jwt(), name, &csr).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&certificate));
        caller.identity = Some((certificate, csr.key_sec1_der()));
        caller
    }

    /// With any certificate and its key (DER).
    pub(crate) async fn with(world: &World, identity: (Vec<u8>, Vec<u8>)) -> Self {
        Self {
            ca: authority(world).await.cert_der().to_vec(),
            identity: Some(identity),
        }
    }

    /// With the certificate in a node's directory.
    pub(crate) async fn thief(world: &World, directory: &Path) -> Self {
        Self::with_files(authority(world).await.cert_der(), directory)
    }

    /// The same, at the cloud with this authority (DER).
    pub(crate) fn with_files(ca: &[u8], directory: &Path) -> Self {
        let certificate = CertificateDer::from_pem_file(directory.join("node.crt")).unwrap();
        let PrivateKeyDer::Sec1(key) =
            PrivateKeyDer::from_pem_file(directory.join("node.key")).unwrap()
        else {
            panic!("another form of key")
        };
        let identity = Some((certificate.to_vec(), key.secret_sec1_der().to_vec()));
        Self {
            ca: ca.to_owned(),
            identity,
        }
    }

    /// The status with which the hub refuses a session; `None` where it gives one.
    pub(crate) async fn refusal(&self, world: &World, name: &str) -> Option<u16> {
        match self
            .websocket(world, &[("node_id", name), ("connectionuse", "msg")])
            .await
        {
            Ok(_) => None,
            Err(tungstenite::Error::Http(answer)) => Some(answer.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// This caller's certificate, shown to another world.
    pub(crate) async fn at(self, world: &World) -> Self {
        Self {
            ca: authority(world).await.cert_der().to_vec(),
            ..self
        }
    }

    /// Asks for a certificate.
    pub(crate) async fn enrol(
        &self,
        world: &World,
        bearer: &str,
        header: &str,
        csr: &Csr,
    ) -> (u16, Vec<u8>) {
        let headers = format!("NodeName: {header}\r\nAuthorization: Bearer {bearer}\r\n");
        self.https(
            world.cloud().addresses().https,
            "/edge.crt",
            &headers,
            csr.der(),
        )
        .await
        .unwrap()
    }

    /// One GET request.
    pub(crate) async fn https(
        &self,
        address: SocketAddr,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> io::Result<(u16, Vec<u8>)> {
        let (status, _, body) = self.exchange(address, ("GET", path), headers, body).await?;
        Ok((status, body))
    }

    /// One request; returns the status, the head and the body of the response.
    pub(crate) async fn exchange(
        &self,
        address: SocketAddr,
        (method, path): (&str, &str),
        headers: &str,
        body: &[u8],
    ) -> io::Result<(u16, String, Vec<u8>)> {
        let mut stream = self.tls(address).await?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        let mut answer = Vec::new();
        within("an answer", stream.read_to_end(&mut answer)).await?;
        let text = String::from_utf8_lossy(&answer);
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no HTTP: {text}")))?;
        let end = answer
            .windows(4)
            .position(|bytes| bytes == b"\r\n\r\n")
            .unwrap()
            + 4;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        Ok((status, head, answer[end..].to_vec()))
    }

    /// A connection to the hub with these headers.
    pub(crate) async fn websocket(
        &self,
        world: &World,
        headers: &[(&str, &str)],
    ) -> Result<Session, tungstenite::Error> {
        Ok(Session(
            self.upgrade(world.cloud().addresses().websocket, headers)
                .await?
                .0,
        ))
    }

    /// The same at any address, and what is answered.
    pub(crate) async fn upgrade(
        &self,
        address: SocketAddr,
        headers: &[(&str, &str)],
    ) -> Result<(Socket, Response), tungstenite::Error> {
        let stream = self.tls(address).await?;
        let mut request = format!("wss://{address}/e632aba927ea4ac2b575ec1603d56f10/x/events")
            .into_client_request()?;
        for (name, value) in headers {
            request
                .headers_mut()
                .insert(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        within(
            "an upgrade",
            tokio_tungstenite::client_async(request, stream),
        )
        .await
    }

    /// A session as a node opens it.
    pub(crate) async fn session(&self, world: &World, name: &str) -> Session {
        self.websocket(world, &[("node_id", name), ("connectionuse", "msg")])
            .await
            .expect("a session")
    }

    /// A connection with TLS.
    pub(crate) async fn tls(&self, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(self.client()))
            .connect(name, TcpStream::connect(address).await?)
            .await
    }

    /// The TLS that this caller speaks.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.ca.clone())).unwrap();
        let builder = ClientConfig::builder().with_root_certificates(roots);
        match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key.clone()));
                builder
                    .with_client_auth_cert(vec![CertificateDer::from(certificate.clone())], key)
                    .unwrap()
            }
        }
    }
}

/// Frames to and from the hub.
pub(crate) type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// A connection to the hub.
pub(crate) struct Session(Socket);

impl Session {
    /// Sends any text.
    pub(crate) async fn say(&mut self, text: impl Into<String>) {
        // the cloud may have hung up in the middle of it, which the next read tells
        let _ = self.0.send(tungstenite::Message::text(text.into())).await;
    }

    /// The next message of the cloud.
    pub(crate) async fn next(&mut self) -> Message {
        let next = async {
            loop {
                let frame = self
                    .0
                    .next()
                    .await
                    .expect("the session goes on")
                    .expect("the session goes on");
                let tungstenite::Message::Text(text) = frame else {
                    continue;
                };
                return wire::json::decode(text.as_bytes(), wire::json::DEFAULT_LIMIT).unwrap();
            }
        };
        within("a message", next).await
    }

    /// Sends a request; its answer.
    pub(crate) async fn ask(&mut self, request: Upstream) -> Message {
        let request = request.into_message(0);
        self.say(wire::json::encode(&request)).await;
        let answer = async {
            loop {
                let frame = self
                    .0
                    .next()
                    .await
                    .expect("the session goes on")
                    .expect("the session goes on");
                let tungstenite::Message::Text(text) = frame else {
                    continue;
                };
                let message =
                    wire::json::decode(text.as_bytes(), wire::json::DEFAULT_LIMIT).unwrap();
                if message.header.parent_msg_id == request.header.msg_id {
                    return message;
                }
            }
        };
        within("an answer", answer).await
    }

    /// Whether a request is answered before the session ends.
    pub(crate) async fn answers(&mut self, request: Upstream) -> bool {
        let request = request.into_message(0);
        self.say(wire::json::encode(&request)).await;
        let answer = async {
            while let Some(Ok(frame)) = self.0.next().await {
                let tungstenite::Message::Text(text) = frame else {
                    continue;
                };
                let message =
                    wire::json::decode(text.as_bytes(), wire::json::DEFAULT_LIMIT).unwrap();
                if message.header.parent_msg_id == request.header.msg_id {
                    return true;
                }
            }
            false
        };
        within("an answer, or the end of the session", answer).await
    }

    /// Waits until the cloud ends the session: what it said.
    pub(crate) async fn wait_ended(&mut self) -> String {
        let end = async {
            loop {
                match self.0.next().await {
                    Some(Ok(tungstenite::Message::Close(Some(frame)))) => {
                        return frame.reason.to_string();
                    }
                    None | Some(Ok(tungstenite::Message::Close(None)) | Err(_)) => {
                        return String::new();
                    }
                    Some(Ok(_)) => {}
                }
            }
        };
        within("the end of the session", end).await
    }
}
