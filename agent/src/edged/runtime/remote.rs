//! The calls that say where the runtime serves a stream.

use tonic::Code;
use wire::cri;

use super::{CALL_TIMEOUT, CallError, Result, Runtime, limited};

impl CallError {
    /// What kind of failure it is.
    pub(crate) fn code(&self) -> Code {
        self.status.code()
    }
}

impl Runtime {
    /// Where a command can be begun in a container.
    pub(crate) async fn exec_url(&self, request: cri::ExecRequest) -> Result<String> {
        Ok(limited("Exec", CALL_TIMEOUT, self.runtime.clone().exec(request)).await?.url)
    }

    /// Where one is connected with a container.
    pub(crate) async fn attach_url(&self, request: cri::AttachRequest) -> Result<String> {
        Ok(limited("Attach", CALL_TIMEOUT, self.runtime.clone().attach(request)).await?.url)
    }

    /// Where one is connected with ports of a sandbox.
    pub(crate) async fn port_forward_url(&self, request: cri::PortForwardRequest) -> Result<String> {
        Ok(limited("PortForward", CALL_TIMEOUT, self.runtime.clone().port_forward(request)).await?.url)
    }

    /// What a container does; `None` when it is gone.
    pub(crate) async fn container_state(&self, id: &str) -> Result<Option<cri::ContainerState>> {
        Ok(self.container_status(id).await?.map(|status| status.state()))
    }
}
