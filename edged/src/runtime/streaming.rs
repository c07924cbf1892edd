//! Calls that return URLs of the runtime's streaming server.

use wire::cri;

use super::{CALL_TIMEOUT, Result, Runtime, with_timeout};

impl Runtime {
    /// Returns the URL at which a command is executed in a container.
    pub(crate) async fn exec_url(&self, request: cri::ExecRequest) -> Result<String> {
        Ok(
            with_timeout("Exec", CALL_TIMEOUT, self.runtime.clone().exec(request))
                .await?
                .url,
        )
    }

    /// Returns the URL of a container's own streams.
    pub(crate) async fn attach_url(&self, request: cri::AttachRequest) -> Result<String> {
        Ok(
            with_timeout("Attach", CALL_TIMEOUT, self.runtime.clone().attach(request))
                .await?
                .url,
        )
    }

    /// Returns the URL of connections to a sandbox's ports.
    pub(crate) async fn port_forward_url(
        &self,
        request: cri::PortForwardRequest,
    ) -> Result<String> {
        Ok(with_timeout(
            "PortForward",
            CALL_TIMEOUT,
            self.runtime.clone().port_forward(request),
        )
        .await?
        .url)
    }

    /// Returns the container's state, or `None` if it is gone.
    pub(crate) async fn container_state(&self, id: &str) -> Result<Option<cri::ContainerState>> {
        Ok(self
            .container_status(id)
            .await?
            .map(|status| status.state()))
    }
}
