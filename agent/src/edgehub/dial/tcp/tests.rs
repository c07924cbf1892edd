//! A simulated proxy that accepts or refuses.

use tokio::net::TcpListener;

use super::*;

/// Runs a proxy that answers one request with `answer` and then echoes; also returns the request.
async fn dial_through_proxy(answer: &'static str) -> (io::Result<TcpStream>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://user:pass@{}", listener.local_addr().unwrap());
    let proxy =
        Proxy::from_environment(|name| (name == "HTTPS_PROXY").then(|| url.clone())).unwrap();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_response_head(&mut stream).await.unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
        (request, stream)
    });
    let server = HostPort {
        host: "cloud.example.com".into(),
        port: 10000,
    };
    let connected = connect(&server, &proxy).await;
    let (request, mut behind) = served.await.unwrap();
    if connected.is_ok() {
        behind.write_all(b"late").await.unwrap();
    }
    (connected, request)
}

#[tokio::test]
async fn the_proxy_gets_the_name_and_later_bytes_are_the_servers() {
    let (stream, request) =
        dial_through_proxy("HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nearly ").await;
    assert_eq!(
        request,
        "CONNECT cloud.example.com:10000 HTTP/1.1\r\nHost: cloud.example.com:10000\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n"
    );
    let mut said = [0; 10];
    stream.unwrap().read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"early late");
}

#[tokio::test]
async fn a_refusal_of_the_proxy_is_reported_without_the_password() {
    let (refused, _) =
        dial_through_proxy("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
    let said = refused.unwrap_err().to_string();
    assert!(
        said.contains("127.0.0.1") && said.contains("407") && !said.contains("dXNl"),
        "{said}"
    );
}

#[tokio::test]
async fn invalid_answers_of_a_proxy_are_rejected() {
    let (refused, _) = dial_through_proxy("SSH-2.0-x\r\n\r\n").await;
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
    let endless: &'static str = String::leak("x".repeat(MAX_HEAD_BYTES + 1));
    let (refused, _) = dial_through_proxy(endless).await;
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
}
