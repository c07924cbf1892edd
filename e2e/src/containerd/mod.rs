//! A private containerd: its own root, state, socket, bridge and addresses, with runc and the CNI plugins of this machine. When it is
//! dropped, nothing of it is left: containers, mounts, network namespaces, the bridge.
//!
//! It needs root, as containers do, and what `make needs` installs.

mod image;
mod machine;
mod network;
mod proc_file;
mod raw_cri;
mod rig;
mod traces;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use wire::cri::{
    Image, ListImagesRequest, ListPodSandboxRequest, RemovePodSandboxRequest,
    StopPodSandboxRequest, runtime_service_client::RuntimeServiceClient,
};

use self::network::Network;
pub use self::{
    image::{IMAGE, PAUSE},
    machine::Machine,
    raw_cri::RawCri,
    rig::RealRig,
    traces::Traces,
};
use crate::{Cri, Process, cgroups::by_systemd, run, until};

/// The socket at which a node of [`Node::configure`](crate::Node::configure) expects its runtime.
const SOCKET: &str = "runtime.sock";
/// The line that containerd logs when all of its services answer.
const BOOTED: &str = "containerd successfully booted";

/// A containerd that belongs to one test.
#[derive(Debug)]
pub struct Containerd {
    /// The process; its shims, and so the containers, outlive it.
    pub process: Process,
    /// A client of it.
    pub cri: Cri,
    /// A client for every CRI call.
    pub raw_cri: RawCri,
    /// The layer of most images.
    layer: PathBuf,
    directory: PathBuf,
    network: Network,
}

impl Containerd {
    /// Starts one that keeps everything below `directory`, with the socket of [`Runtime`](crate::Runtime) and the two images.
    pub fn start(directory: &Path) -> anyhow::Result<Self> {
        let socket = directory.join(SOCKET);
        let network = Network::new()?;
        let home = home(directory);
        fs::create_dir_all(home.join("cni"))?;
        fs::write(
            home.join("cni/10-e2e.conflist"),
            network.configuration(&home),
        )?;
        let config = home.join("config.toml");
        fs::write(&config, configuration(&home, &socket))?;
        let mut command = Command::new("containerd");
        command.arg("--config").arg(config);
        let process = Process::start("containerd", command, directory)?;
        let cri = Cri::new(socket.clone())?;
        let raw_cri = RawCri::new(socket.clone())?;
        let mut containerd = Self {
            process,
            cri,
            raw_cri,
            layer: PathBuf::new(),
            directory: directory.to_owned(),
            network,
        };
        containerd
            .process
            .wait_for(BOOTED)
            .context("is containerd installed? `make needs` does it")?;
        containerd.layer = image::layer(&home)?;
        for image in [IMAGE, PAUSE] {
            containerd.add_image(image)?;
        }
        Ok(containerd)
    }

    /// Starts it again after its end, and waits until it answers.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.process.start_again()?;
        self.process.wait_for(BOOTED)
    }

    /// Returns what it and its containers occupy on the machine now.
    pub fn traces(&self) -> anyhow::Result<Traces> {
        Traces::of(&self.directory, self.network.bridge())
    }

    /// Returns the file in which libcni keeps the result for a sandbox's network.
    pub fn network_result(&self, sandbox: &str) -> PathBuf {
        self.network.result(sandbox)
    }

    /// Adds an image of this name, with the files of [`IMAGE`] and an id of its own.
    pub fn add_image(&self, name: &str) -> anyhow::Result<()> {
        let archive = image::archive(&home(&self.directory), name, &self.layer)?;
        self.import(&archive, name)
    }

    /// Adds an image of this name with these files: their paths in the image, and where they are now.
    pub fn add_image_of(&self, name: &str, files: &[(&str, &Path)]) -> anyhow::Result<()> {
        let home = home(&self.directory);
        let layer = image::layer_of(&home, files)?;
        self.import(&image::archive(&home, name, &layer)?, name)
    }

    /// Imports the image of this name from an archive.
    pub fn import(&self, archive: &Path, name: &str) -> anyhow::Result<()> {
        let mut import = Command::new("ctr");
        import.arg("--address").arg(self.directory.join(SOCKET));
        import
            .args(["--namespace", "k8s.io", "images", "import"])
            .arg(archive);
        run(&mut import)?.success()?;
        // The CRI service learns of imported images by events.
        until(&format!("the image {name}"), || {
            let images = self.images()?;
            ensure!(images.contains_key(name), "{images:?}");
            Ok(())
        })
    }

    /// Gives an imported image the name with its digest, which a pulled one has; returns the digest.
    pub fn add_digest(&self, repository: &str, tag: &str) -> anyhow::Result<String> {
        let ctr = |arguments: &[&str]| -> anyhow::Result<String> {
            let mut command = Command::new("ctr");
            command.arg("--address").arg(self.directory.join(SOCKET));
            command.args(["--namespace", "k8s.io", "images"]);
            Ok(run(command.args(arguments))?.success()?.text())
        };
        let name = format!("{repository}:{tag}");
        let listed = ctr(&["list", &format!("name=={name}")])?;
        let is_digest = |word: &&str| word.starts_with("sha256:");
        let digest = listed.split_whitespace().find(is_digest);
        let digest = digest.with_context(|| listed.clone())?;
        ctr(&["tag", &name, &format!("{repository}@{digest}")])?;
        until(&format!("the digest of {name}"), || {
            let all = self.raw_cri.images(async |mut client| {
                client.list_images(ListImagesRequest::default()).await
            })?;
            let known = all.images.iter().flat_map(|image| &image.repo_digests);
            let mut known = known.filter(|known| known.ends_with(digest));
            known
                .next()
                .map(drop)
                .context("the runtime has not seen it")
        })?;
        Ok(digest.to_owned())
    }

    /// Returns the ids of all images by their names.
    pub fn images(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let listed = self
            .raw_cri
            .images(async |mut client| client.list_images(ListImagesRequest::default()).await)?;
        let named = |image: Image| {
            image
                .repo_tags
                .into_iter()
                .map(move |name| (name, image.id.clone()))
        };
        Ok(listed.images.into_iter().flat_map(named).collect())
    }

    /// Ends all containers, the process and its shims, and removes what they leave.
    fn clean_up(&mut self) -> anyhow::Result<()> {
        if !self.process.runs() {
            self.start_again()?;
        }
        let listed = self.raw_cri.runtime(async |mut client| {
            client
                .list_pod_sandbox(ListPodSandboxRequest::default())
                .await
        })?;
        for sandbox in listed.items {
            let id = sandbox.id;
            self.raw_cri.runtime(async |client| end(client, id).await)?;
        }
        self.process.terminate()?;
        Ok(())
    }
}

async fn end(
    mut client: RuntimeServiceClient<tonic::transport::Channel>,
    id: String,
) -> Result<tonic::Response<wire::cri::RemovePodSandboxResponse>, tonic::Status> {
    client
        .stop_pod_sandbox(StopPodSandboxRequest {
            pod_sandbox_id: id.clone(),
        })
        .await?;
    client
        .remove_pod_sandbox(RemovePodSandboxRequest { pod_sandbox_id: id })
        .await
}

impl Drop for Containerd {
    // Printed on purpose: the test harness shows it for failed tests.
    #[allow(clippy::print_stderr)]
    fn drop(&mut self) {
        let done = self.clean_up();
        // What did not end on request is killed.
        let forced = self.process.kill().map_err(anyhow::Error::from);
        let swept = traces::sweep(&self.directory).and_then(|()| self.network.remove());
        for error in [done, forced, swept].into_iter().filter_map(Result::err) {
            eprintln!("--- containerd leaves something behind: {error:#}");
        }
    }
}

/// Returns the directory with everything of it.
fn home(directory: &Path) -> PathBuf {
    directory.join("containerd")
}

/// Returns its configuration. `restrict_oom_score_adj`: if the test itself may not lower the score, that of containers would be refused.
fn configuration(home: &Path, socket: &Path) -> String {
    let home = home.display();
    format!(
        r#"version = 2
root = "{home}/root"
state = "{home}/state"
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{home}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = {by_systemd}
[plugins."io.containerd.internal.v1.opt"]
path = "{home}/opt"
[plugins."io.containerd.nri.v1.nri"]
disable = true
"#,
        socket = socket.display(),
        by_systemd = by_systemd(),
    )
}
