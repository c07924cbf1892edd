//! A registry beside the node: the images of the test, for those who know the password.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use anyhow::Context;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::run;
use serde_json::json;

/// The user and the password.
pub(crate) const USER: &str = "puller:open sesame";
/// The repository that everybody may read.
const OPEN: &str = "/v2/open/";

/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;
/// The media type of an image's parts.
const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";

/// Speaks the OCI distribution specification, as far as pulls go, over HTTP.
pub(crate) struct Registry {
    /// As images have it in their names.
    pub(crate) host: String,
    /// The digest of its one image.
    pub(crate) digest: String,
    /// The first words of requests that were answered with a manifest.
    pub(crate) given: Arc<Mutex<Vec<String>>>,
}

type Blobs = BTreeMap<String, (&'static str, Vec<u8>)>;

impl Registry {
    /// Serves the image that is unpacked below `home`, the test's containerd.
    pub(crate) fn start(home: &Path) -> anyhow::Result<Self> {
        let parts = home.join("busybox-1");
        let (config, layer) = (
            fs::read(parts.join("config.json"))?,
            fs::read(parts.join("layer.tar"))?,
        );
        let describe = |kind: &str, digest: &str, size: usize| json!({"mediaType": kind, "digest": digest, "size": size});
        let (config_digest, layer_digest) = (
            digest(&parts.join("config.json"))?,
            digest(&parts.join("layer.tar"))?,
        );
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST,
            "config": describe(CONFIG, &config_digest, config.len()),
            "layers": [describe(LAYER, &layer_digest, layer.len())]});
        let manifest = manifest.to_string().into_bytes();
        fs::write(home.join("manifest.json"), &manifest)?;
        let own = digest(&home.join("manifest.json"))?;
        let blobs: Blobs = [
            ("1".to_owned(), (MANIFEST, manifest.clone())),
            (own.clone(), (MANIFEST, manifest)),
            (config_digest, ("application/octet-stream", config)),
            (layer_digest, ("application/octet-stream", layer)),
        ]
        .into();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let host = format!("127.0.0.1:{}", listener.local_addr()?.port());
        let (blobs, given) = (Arc::new(blobs), Arc::new(Mutex::new(Vec::new())));
        let (its_given, its_digest) = (given.clone(), own.clone());
        // ends with the test's process
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (blobs, given, digest) = (blobs.clone(), its_given.clone(), its_digest.clone());
                thread::spawn(move || answer(&stream, &blobs, &digest, &given));
            }
        });
        Ok(Self {
            host,
            digest: own,
            given,
        })
    }
}

fn digest(path: &Path) -> anyhow::Result<String> {
    let said = run(Command::new("sha256sum").arg(path))?.success()?.text();
    Ok(format!(
        "sha256:{}",
        said.split_whitespace()
            .next()
            .context("sha256sum says nothing")?
    ))
}

fn answer(
    stream: &TcpStream,
    blobs: &Blobs,
    digest: &str,
    given: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(testkit::PROCESS_TIMEOUT))?;
    // containerd 2 begins with TLS, and goes on without it if the answer is HTTP
    let mut begin = [0];
    if stream.peek(&mut begin)? == 1 && begin == [TLS_HANDSHAKE] {
        let mut stream = stream;
        // what is not read would reset the connection
        let _ = stream.read(&mut [0; 16 * 1024])?;
        return write!(stream, "HTTP/1.0 400 Bad Request\r\n\r\nplain HTTP, please");
    }
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let mut known = false;
    for line in lines {
        let line = line?;
        known |= line == format!("Authorization: Basic {}", STANDARD.encode(USER));
        if line.is_empty() {
            break;
        }
    }
    let mut stream = stream;
    let mut words = first.split(' ');
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    if !known && !path.starts_with(OPEN) {
        return write!(
            stream,
            "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm=\"e2e\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
    }
    let key = path.rsplit('/').next().unwrap_or_default();
    let Some((kind, bytes)) = blobs.get(key) else {
        return write!(
            stream,
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
    };
    if *kind == MANIFEST
        && let Ok(mut given) = given.lock()
    {
        given.push(first.clone());
    }
    let own = if *kind == MANIFEST { digest } else { key };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ndocker-content-digest: {own}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        bytes.len()
    )?;
    if method == "GET" {
        stream.write_all(bytes)
    } else {
        Ok(())
    }
}
