//! The errors for certificates of the cloud that cannot be verified.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadBuf};
use wire::enroll::Ca;

use hyper::StatusCode;

use super::*;

/// A connection that ends without notice, as TLS without a `close_notify`.
struct CutOff(DuplexStream);

impl AsyncRead for CutOff {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.0).poll_read(context, buffer);
        match read {
            Poll::Ready(Ok(())) if buffer.filled().len() == before => {
                Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()))
            }
            read => read,
        }
    }
}

impl AsyncWrite for CutOff {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Returns the result for a server that sends this text and closes the connection.
async fn answer_to(text: &str) -> Result<(StatusCode, Bytes), String> {
    let (client, mut server) = tokio::io::duplex(64 * 1024);
    let text = text.to_owned();
    let serve = tokio::spawn(async move {
        let mut request = [0; 4096];
        let _ = server.read(&mut request).await;
        let _ = server.write_all(text.as_bytes()).await;
    });
    let request = Request::get("/edge.crt")
        .header("host", "x")
        .body(Full::new(Bytes::new()))
        .unwrap();
    let answer = send_request(CutOff(client), request).await;
    serve.await.unwrap();
    answer
        .map(|(head, bytes)| (head.status, bytes))
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn an_answer_that_came_in_full_counts_however_the_connection_ends() {
    let whole = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n{}",
        "x".repeat(40_000)
    );
    for _ in 0..100 {
        let (status, bytes) = answer_to(&whole).await.unwrap();
        assert_eq!((status.as_u16(), bytes.len()), (200, 40_000));
    }
    for broken in ["", "HTTP/1.1 200", &whole[..whole.len() - 1]] {
        assert!(answer_to(broken).await.is_err(), "{}", broken.len());
    }
}

/// Returns the error for a certificate that this CA issued at `made` for `names`, on a connection to `host`.
fn enroll_error(
    ca: &Ca,
    trusted: &Ca,
    names: &[&str],
    host: &str,
    made: SystemTime,
) -> EnrollError {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let (cert, _) = ca.sign_server(&names, made).unwrap();
    let cert = CertificateDer::from(cert);
    let host_name = ServerName::try_from(host.to_owned()).unwrap();
    let verified = verifier(trusted.cert_der()).unwrap();
    let verified = verified.verify_server_cert(&cert, &[], &host_name, &[], UnixTime::now());
    verification_error("https://x", host, &cert, verified.unwrap_err())
}

#[test]
fn a_certificate_for_another_name_is_reported_with_its_names() {
    let ca = Ca::generate(clock::system_now()).unwrap();
    let error = enroll_error(
        &ca,
        &ca,
        &["127.0.0.1", "localhost"],
        "192.0.2.10",
        clock::system_now(),
    );
    let text = error.to_string();
    assert!(matches!(error, EnrollError::OtherName { .. }), "{text}");
    for part in ["192.0.2.10", "127.0.0.1", "localhost", "--name"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("token"), "the token is right: {text}");
}

#[test]
fn certificates_of_another_cloud_or_time_have_their_own_errors() {
    let now = clock::system_now();
    let (ca, other) = (Ca::generate(now).unwrap(), Ca::generate(now).unwrap());
    let error = enroll_error(&other, &ca, &["cloud"], "cloud", now);
    assert!(matches!(error, EnrollError::WrongCloud { .. }), "{error}");
    let error = enroll_error(
        &ca,
        &ca,
        &["cloud"],
        "cloud",
        now + Duration::from_secs(1_000_000),
    );
    assert!(
        matches!(error, EnrollError::WrongTime { .. }) && error.to_string().contains("clock"),
        "{error}"
    );
}
