//! Runs a command by the runtime alone.

use std::sync::Arc;

use anyhow::{Context, ensure};
use e2e::containerd::RealRig;
use http::Uri;
use spdy::{Headers, Role, session};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use wire::cri;

/// The most bytes of a response's head.
const MAX_HEAD: usize = 8 * 1024;

/// Runs the command and returns how many bytes it wrote.
pub(super) async fn exec(
    rig: &Arc<RealRig>,
    container: &str,
    command: &[&str],
) -> anyhow::Result<u64> {
    let request = cri::ExecRequest {
        container_id: container.to_owned(),
        cmd: command.iter().map(|&word| word.to_owned()).collect(),
        stdout: true,
        ..cri::ExecRequest::default()
    };
    let asked = rig.clone();
    let url = tokio::task::spawn_blocking(move || {
        asked
            .containerd
            .raw_cri
            .runtime(async |mut client| client.exec(request).await)
    });
    let stream = connect_upgraded(&url.await??.url).await?;
    let (session, _incoming, driver) = session::new(stream, Role::Client);
    let driver = tokio::spawn(driver.run());
    let of = |kind: &str| Headers::new().with("streamtype", kind);
    let mut error = session.open(of("error"), true).await?;
    let mut stdout = session.open(of("stdout"), true).await?;
    let (mut came, mut part) = (0, vec![0; 64 * 1024]);
    while let read @ 1.. = stdout.read(&mut part).await? {
        came += u64::try_from(read)?;
    }
    let mut status = String::new();
    error.read_to_string(&mut status).await?;
    ensure!(
        status.contains("Success"),
        "{} ended with {status}",
        command.join(" ")
    );
    session.close().await;
    // The driver ends with the connection.
    let _ = driver.await?;
    Ok(came)
}

/// Returns the connection to one of the runtime's URLs, upgraded to SPDY.
async fn connect_upgraded(url: &str) -> anyhow::Result<TcpStream> {
    let uri: Uri = url.parse()?;
    let authority = uri
        .authority()
        .context("the URL names no server")?
        .as_str()
        .to_owned();
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let mut stream = TcpStream::connect(&authority).await?;
    stream.set_nodelay(true)?;
    let request = format!(
        "POST {target} HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(
            head.len() < MAX_HEAD,
            "the runtime's answer has a long head"
        );
        head.push(stream.read_u8().await?);
    }
    ensure!(
        head.starts_with(b"HTTP/1.1 101"),
        "{}",
        String::from_utf8_lossy(&head)
    );
    Ok(stream)
}
