//! The answer to `GET snapshot`: the whole state of the cloud and of its nodes.

use std::{convert::Infallible, sync::Arc};

use futures::stream;
use http::StatusCode;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kubeapi::{Body, Identity};

use super::request::Refusal;
use crate::snapshot::TakeSnapshot;

/// Takes a snapshot for this caller; returns its lines.
pub(super) async fn take(
    source: Option<Arc<dyn TakeSnapshot>>,
    caller: &Identity,
) -> Result<Body, Refusal> {
    if !caller.is_master() {
        let user = &caller.user;
        let why =
            format!("{user} is no member of system:masters; a snapshot contains private keys");
        return Err((StatusCode::FORBIDDEN, why));
    }
    let why = "the state of this cloud is not in memory; stop it and copy its data directory, or use `cloudsim snapshot --objects`";
    let source = source.ok_or_else(|| (StatusCode::CONFLICT, why.to_owned()))?;
    let taken = clock::spawn_blocking(move || source.take()).await;
    let taken = taken.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let lines = taken.map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, why))?;
    let lines = lines.map(|line| Ok::<_, Infallible>(Frame::data(line.into())));
    let body = StreamBody::new(stream::iter(lines)).map_err(|never| match never {});
    Ok(body.boxed_unsync())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::SnapshotLines;

    #[derive(Clone, Debug)]
    struct Lines(Result<&'static str, &'static str>);

    impl TakeSnapshot for Lines {
        fn take(&self) -> Result<SnapshotLines, String> {
            let line = self.0.map_err(str::to_owned)?;
            Ok(Box::new(std::iter::once(line.as_bytes().to_vec())))
        }
    }

    #[tokio::test]
    async fn only_masters_get_what_is_in_memory() {
        let (ready, starting) = (Lines(Ok("state\n")), Lines(Err("2 nodes are starting")));
        let (master, other) = ("system:masters", "system:nodes");
        let (forbidden, on_disk) = (StatusCode::FORBIDDEN, StatusCode::CONFLICT);
        for (source, group, expected) in [
            (Some(&ready), master, Ok("state\n")),
            (
                Some(&ready),
                other,
                Err((forbidden, "jane is no member of system:masters")),
            ),
            (
                None,
                other,
                Err((forbidden, "jane is no member of system:masters")),
            ),
            (None, master, Err((on_disk, "cloudsim snapshot --objects"))),
            (
                Some(&starting),
                master,
                Err((StatusCode::SERVICE_UNAVAILABLE, "2 nodes are starting")),
            ),
        ] {
            let source = source.map(|source| Arc::new(source.clone()) as _);
            let taken = take(source, &Identity::new("jane", [group])).await;
            match (taken, expected) {
                (Ok(body), Ok(lines)) => {
                    assert_eq!(body.collect().await.unwrap().to_bytes(), lines);
                }
                (Err((status, text)), Err((expected, part))) => {
                    assert_eq!(status, expected);
                    assert!(text.contains(part), "{text}");
                }
                (taken, expected) => panic!("{:?}, not {expected:?}", taken.map(drop)),
            }
        }
    }
}
