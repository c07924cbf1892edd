//! The registration of plugins, on `device-plugins/kubelet.sock` below the kubelet's root.
//!
//! Source: the kubelet, `pkg/kubelet/cm/devicemanager/plugin/v1beta1`.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::UnixStream,
    },
    path::Path,
};

use kubeapi::validate::tables::resources::is_extended;
use tonic::{Request, Response, Status, service::Routes};
use wire::device_plugin::{
    Empty, RegisterRequest, VERSION,
    registration_server::{Registration, RegistrationServer},
};

use super::{follow::add_plugin, manager::DeviceManager, plugin::Plugin};
use crate::names::is_below;

/// The largest request, bytes. A registration has some hundred.
const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// Mode of the directory, the kubelet's.
const DIRECTORY_MODE: u32 = 0o750;

/// The service at which plugins register.
struct Registrar(DeviceManager);

/// Returns the service at which plugins register.
pub(super) fn routes(manager: DeviceManager) -> Routes {
    Routes::new(
        RegistrationServer::new(Registrar(manager)).max_decoding_message_size(MAX_REQUEST_BYTES),
    )
}

/// Creates the directory of this socket, and removes the sockets of plugins in it: plugins take the removal of their socket, or a
/// new `kubelet.sock`, as the sign to register again. Nothing is removed while another kubelet serves the socket.
pub(super) fn prepare_directory(socket: &Path) -> io::Result<()> {
    let directory = socket.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(DIRECTORY_MODE))?;
    if UnixStream::connect(socket).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_socket() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[tonic::async_trait]
impl Registration for Registrar {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        let (resource, endpoint) = (request.resource_name.clone(), request.endpoint.clone());
        let done = self.connect(request).await;
        if let Err(status) = &done {
            let reason = status.message();
            tracing::warn!(resource, endpoint, reason, "device plugin rejected");
        }
        done.map(|()| Response::new(Empty {}))
    }
}

impl Registrar {
    async fn connect(&self, request: RegisterRequest) -> Result<(), Status> {
        let RegisterRequest {
            version,
            endpoint,
            resource_name,
            ..
        } = request;
        if version != VERSION {
            return Err(Status::invalid_argument(format!(
                "requested API version {version:?} is not supported by kubelet. Supported version is [{VERSION:?}]"
            )));
        }
        if !is_extended(&resource_name) {
            return Err(Status::invalid_argument(format!(
                "the ResourceName {resource_name:?} is invalid"
            )));
        }
        if !is_below(Path::new(&endpoint)) {
            return Err(Status::invalid_argument(format!(
                "endpoint {endpoint:?} is not the name of a socket in the directory of device plugins"
            )));
        }
        let plugin = Plugin::connect(&self.0.directory().join(endpoint)).await?;
        add_plugin(&self.0, resource_name, plugin)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn sockets_of_plugins_are_removed_unless_another_kubelet_runs() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("device-plugins");
        let kubelet = directory.join("kubelet.sock");
        prepare_directory(&kubelet).unwrap();
        let other = UnixListener::bind(&kubelet).unwrap();
        drop(UnixListener::bind(directory.join("plugin.sock")).unwrap());
        fs::write(directory.join("kubelet_internal_checkpoint"), "{}").unwrap();
        let names = || {
            let all = fs::read_dir(&directory).unwrap();
            let mut all: Vec<_> = all.map(|one| one.unwrap().file_name()).collect();
            all.sort();
            all
        };
        assert_eq!(
            prepare_directory(&kubelet).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        assert_eq!(names().len(), 3);
        drop(other);
        prepare_directory(&kubelet).unwrap();
        assert_eq!(names(), ["kubelet_internal_checkpoint"]);
        let mode = fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
    }
}
