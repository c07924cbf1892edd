//! Calls a pod's gRPC health service, `grpc.health.v1.Health/Check`. Its two messages have one field each, so they are encoded
//! here rather than by generated code.

use std::{sync::Arc, time::Duration};

use bytes::{Buf, BufMut};
use http::{Uri, uri::PathAndQuery};
use hyper_util::rt::TokioIo;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::Endpoint,
};
use tower::service_fn;

use super::{address::Address, outcome::Outcome};
use crate::pod_network::PodNetwork;

/// The names of `ServingStatus`, by number.
const STATUSES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
/// Number of [`STATUSES`] that is a success.
const SERVING: u64 = 1;
/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 4096;

/// Checks the health of `service`. The caller enforces `timeout` as well; here it also appears in messages.
pub(super) async fn probe(
    network: &Arc<dyn PodNetwork>,
    address: &Address,
    service: &str,
    timeout: Duration,
) -> Outcome {
    let endpoint = match Endpoint::from_shared(format!("http://{address}")) {
        Ok(endpoint) => endpoint
            .connect_timeout(timeout)
            .user_agent("kube-probe/1.32"),
        Err(error) => return Outcome::Error(error.to_string()),
    };
    let (network, to) = (network.clone(), address.clone());
    let connector = service_fn(move |_: Uri| {
        let (network, to) = (network.clone(), to.clone());
        async move { network.connect(&to.host, to.port).await.map(TokioIo::new) }
    });
    let channel = match endpoint {
        Ok(endpoint) => endpoint.connect_with_connector(connector).await,
        Err(error) => Err(error),
    };
    let Ok(channel) = channel else {
        let target = address.to_string();
        return Outcome::Failure(format!(
            "timeout: failed to connect service {target:?} within {timeout:?}"
        ));
    };
    let mut client = Grpc::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let answer = match client.ready().await {
        Ok(()) => {
            client
                .unary(Request::new(service.to_owned()), path, HealthCodec)
                .await
        }
        Err(error) => Err(Status::unavailable(error.to_string())),
    };
    match answer.map(tonic::Response::into_inner) {
        Ok(SERVING) => Outcome::Success,
        Ok(other) => {
            let name = usize::try_from(other)
                .ok()
                .and_then(|at| STATUSES.get(at))
                .unwrap_or(&"UNKNOWN");
            Outcome::Failure(format!("service unhealthy (responded with {name:?})"))
        }
        Err(status) if status.code() == Code::Unimplemented => Outcome::Failure(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
            status.message()
        )),
        Err(status) => Outcome::Failure(format!(
            "error: health rpc probe failed: {}",
            status.message()
        )),
    }
}

/// Codec that sends the service name and receives the number of the status.
#[derive(Clone, Copy, Debug, Default)]
struct HealthCodec;

impl Codec for HealthCodec {
    type Encode = String;
    type Decode = u64;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for HealthCodec {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, service: String, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        if !service.is_empty() {
            // Field 1, of type string.
            out.put_u8(0x0a);
            put_varint(out, service.len() as u64);
            out.put_slice(service.as_bytes());
        }
        Ok(())
    }
}

impl Decoder for HealthCodec {
    type Item = u64;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<u64>, Status> {
        serving_status(from)
            .map(Some)
            .ok_or_else(|| Status::internal("the answer is no HealthCheckResponse"))
    }
}

fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn varint(from: &mut impl Buf) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = from.has_remaining().then(|| from.get_u8())?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Reads field 1 of the message, 0 if it is missing, and skips other fields.
fn serving_status(from: &mut impl Buf) -> Option<u64> {
    let mut found = 0;
    while from.has_remaining() {
        let key = varint(from)?;
        let skip = match key & 7 {
            0 => {
                let value = varint(from)?;
                if key >> 3 == 1 {
                    found = value;
                }
                0
            }
            1 => 8,
            2 => usize::try_from(varint(from)?).ok()?,
            5 => 4,
            _ => return None,
        };
        if from.remaining() < skip {
            return None;
        }
        from.advance(skip);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_of_the_response_are_skipped() {
        let read = |bytes: &[u8]| serving_status(&mut &bytes[..]);
        assert_eq!(read(&[]), Some(0));
        assert_eq!(read(&[0x08, 1]), Some(1));
        assert_eq!(read(&[0x12, 2, 9, 9, 0x08, 2, 0x1d, 0, 0, 0, 0]), Some(2));
        for bad in [&[0x08][..], &[0x12, 5, 0], &[0x0b], &[0xff; 12]] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        let mut long = Vec::new();
        put_varint(&mut long, 300);
        assert_eq!(long, [0xac, 2]);
    }
}
