//! A node that reaches its cloud through an HTTP proxy alone: enrolment and messages.

use std::{
    collections::BTreeSet,
    fs, io,
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use anyhow::ensure;
use e2e::{AGENT, CLOUD_NAME, Cloud, Node, Process, Runtime};

/// A proxy that knows where [`CLOUD_NAME`] is, and notes what it was asked for.
#[derive(Clone, Default)]
struct Proxy(Arc<Mutex<BTreeSet<String>>>);

impl Proxy {
    /// Serves from now on; its port.
    fn serve(&self) -> io::Result<u16> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let proxy = self.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let proxy = proxy.clone();
                thread::spawn(move || proxy.tunnel(client));
            }
        });
        Ok(port)
    }

    fn tunnel(&self, mut client: TcpStream) -> io::Result<()> {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let authority = head
            .strip_prefix("CONNECT ")
            .and_then(|rest| rest.split(' ').next());
        let authority = authority.unwrap_or_default().to_owned();
        let Some(port) = authority
            .strip_prefix(CLOUD_NAME)
            .and_then(|rest| rest.strip_prefix(':'))
        else {
            return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n");
        };
        let port: u16 = port.parse().map_err(io::Error::other)?;
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        self.0
            .lock()
            .map_err(|_| io::Error::other("a thread has panicked"))?
            .insert(authority);
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        let (from_client, from_server) = (client.try_clone()?, server.try_clone()?);
        thread::spawn(move || copy(from_client, server));
        copy(from_server, client)
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let copied = io::copy(&mut from, &mut to);
    to.shutdown(Shutdown::Both)?;
    copied.map(drop)
}

#[test]
fn a_node_joins_through_the_proxy_of_its_environment() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(directory.path())?;
    let _runtime = Runtime::start(directory.path())?;
    let proxy = Proxy::default();
    let port = proxy.serve()?;
    let config = Node::configure(directory.path(), cloud.ports, &cloud.token()?)?;
    let servers = [cloud.ports.https, cloud.ports.ws].map(|port| format!("{CLOUD_NAME}:{port}"));
    let mut text = fs::read_to_string(&config)?;
    for server in &servers {
        text = text.replace(&server.replace(CLOUD_NAME, "127.0.0.1"), server);
    }
    fs::write(&config, text)?;
    let mut command = Node::command(&config)?;
    command
        .env("HTTPS_PROXY", format!("http://127.0.0.1:{port}"))
        .env_remove("NO_PROXY")
        .env_remove("no_proxy");
    let _node = Process::start(AGENT, command, directory.path())?;
    cloud.wait_node("Ready")?;
    let asked = proxy
        .0
        .lock()
        .map_err(|_| io::Error::other("a thread has panicked"))?
        .clone();
    ensure!(asked == BTreeSet::from(servers), "{asked:?}");
    Ok(())
}
