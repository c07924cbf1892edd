//! The calls that are answered with a URL of the streaming server.

use tonic::Status;
use wire::cri::{AttachRequest, ExecRequest, PortForwardRequest};

use super::Service;
use crate::runtime::streaming::{StreamRequest, url};

impl Service {
    pub(super) fn exec_url(&self, request: ExecRequest) -> Result<String, Status> {
        check(
            request.stdin || request.stdout || request.stderr,
            request.tty && request.stderr,
        )?;
        if request.cmd.is_empty() {
            return Err(Status::invalid_argument("cmd must not be empty"));
        }
        self.core
            .read(|state| state.running(&request.container_id))?;
        url(&self.core, StreamRequest::Exec(request))
    }

    pub(super) fn attach_url(&self, request: AttachRequest) -> Result<String, Status> {
        check(
            request.stdin || request.stdout || request.stderr,
            request.tty && request.stderr,
        )?;
        self.core
            .read(|state| state.running(&request.container_id))?;
        url(&self.core, StreamRequest::Attach(request))
    }

    pub(super) fn ports_url(&self, request: PortForwardRequest) -> Result<String, Status> {
        self.core
            .read(|state| state.ready_sandbox(&request.pod_sandbox_id).map(|_| ()))?;
        url(&self.core, StreamRequest::PortForward(request))
    }
}

/// Checks the combination of streams; errors use the words of the kubelet's library.
fn check(has_streams: bool, has_both: bool) -> Result<(), Status> {
    if has_both {
        return Err(Status::invalid_argument(
            "tty and stderr cannot both be true",
        ));
    }
    if !has_streams {
        return Err(Status::invalid_argument(
            "one of stdin, stdout, or stderr must be set",
        ));
    }
    Ok(())
}
