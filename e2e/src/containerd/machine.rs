//! A second machine: separate namespaces for network, mounts, processes and the host name, with a cable to this one, and containerd
//! in the distribution's usual place. Nothing that happens on it is seen on this machine, except for control groups; all of it ends
//! with it.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::{Context, ensure};
use serde_json::json;

use super::{
    BOOTED,
    image::{self, IMAGE, PAUSE},
};
use crate::{AGENT, Cri, Process, binary, ports, run, until};

/// The number of subnets of 128 addresses in the range for network tests (RFC 2544), from 198.18.0.0 on.
const SUBNETS: u16 = 1024;
/// How many machines one process may have before its numbers collide with those of another.
const SHARE: u16 = 2;
/// The number of machines that this process has booted.
static BOOTED_MACHINES: AtomicU16 = AtomicU16::new(0);
/// The default range of its pods' addresses.
const PODS: &str = "10.88.0.0/16";
/// Where the machine's own containerd listens.
const SOCKET: &str = "run/containerd/containerd.sock";

/// Directories that are empty on the machine: it must not see what an agent, a runtime and a network of this machine have left there,
/// and an overlay of image layers cannot lie on another overlay.
const FRESH: [&str; 9] = [
    "/etc/kubeedge",
    "/etc/containerd",
    "/etc/cni",
    "/var/lib/kubeedge",
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/cni",
    "/var/log/pods",
    "/var/log/containers",
];

/// The directories at the root in which the machine's changes stay on the machine.
const DISKS: [&str; 3] = ["etc", "usr", "var"];

/// A machine; everything that runs on it ends when this is dropped.
#[derive(Debug)]
pub struct Machine {
    // Dropped before the machine itself.
    containerd: Option<Process>,
    holder: Process,
    pid: u32,
    directory: PathBuf,
    /// This machine's end of the cable.
    cable: String,
    /// This machine's address on the cable.
    pub gateway: String,
    /// The address of the second machine.
    pub address: String,
}

impl Machine {
    /// Boots a machine with this name; what it keeps on disk is below `directory`.
    pub fn boot(name: &str, directory: &Path) -> anyhow::Result<Self> {
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--net",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]);
        unshare.args(["--propagation", "private", "sleep", "infinity"]);
        let holder = Process::start("machine", unshare, directory)?;
        let children = format!(
            "/proc/{0}/task/{0}/children",
            holder.id().context("it does not run")?
        );
        let pid = until("the machine's first process", || {
            let text = fs::read_to_string(&children)?;
            let pid: u32 = text
                .trim()
                .parse()
                .with_context(|| format!("{text:?} is no process"))?;
            // Its program is started in the last step of its creation.
            let program = fs::read_to_string(format!("/proc/{pid}/comm"))?;
            ensure!(program.trim() == "sleep", "it is still {program:?}");
            Ok::<_, anyhow::Error>(pid)
        })?;
        let made = BOOTED_MACHINES.fetch_add(1, Ordering::Relaxed) % SHARE;
        let number = (ports::mine()? * SHARE + made) % SUBNETS;
        let subnet = format!("198.{}.{}", 18 + number / 512, number / 2 % 256);
        let first = number % 2 * 128;
        let (gateway, address) = (
            format!("{subnet}.{}", first + 1),
            format!("{subnet}.{}", first + 2),
        );
        let cable = format!("em{number:x}");
        let machine = Self {
            containerd: None,
            holder,
            pid,
            directory: directory.to_owned(),
            cable: cable.clone(),
            gateway: gateway.clone(),
            address: address.clone(),
        };
        machine.run(&["hostname", name])?;
        let peer = pid.to_string();
        host(&[
            "ip", "link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns", &peer,
        ])?;
        host(&[
            "ip",
            "address",
            "add",
            &format!("{gateway}/25"),
            "dev",
            &cable,
        ])?;
        host(&["ip", "link", "set", &cable, "up"])?;
        machine.run(&["ip", "link", "set", "lo", "up"])?;
        machine.run(&[
            "ip",
            "address",
            "add",
            &format!("{address}/25"),
            "dev",
            "eth0",
        ])?;
        machine.run(&["ip", "link", "set", "eth0", "up"])?;
        machine.run(&["ip", "route", "add", "default", "via", &gateway])?;
        machine.own_disks()?;
        Ok(machine)
    }

    /// Gives it its own `/etc`, `/run`, `/usr` and `/var`, in memory.
    fn own_disks(&self) -> anyhow::Result<()> {
        let disk = self.directory.join("machine-disk");
        fs::create_dir_all(&disk)?;
        let disk = disk.display().to_string();
        self.run(&["mount", "-t", "tmpfs", "tmpfs", &disk])?;
        for name in DISKS {
            let (upper, work) = (format!("{disk}/{name}"), format!("{disk}/{name}.work"));
            self.run(&["mkdir", &upper, &work])?;
            let options = format!("lowerdir=/{name},upperdir={upper},workdir={work}");
            self.run(&[
                "mount",
                "-t",
                "overlay",
                "overlay",
                "-o",
                &options,
                &format!("/{name}"),
            ])?;
        }
        self.run(&["mount", "-t", "tmpfs", "tmpfs", "/run"])?;
        for place in FRESH {
            self.run(&["mkdir", "-p", place])?;
            self.run(&["mount", "-t", "tmpfs", "tmpfs", place])?;
        }
        self.run(&["mkdir", "/etc/cni/net.d"]).map(drop)
    }

    /// Starts containerd with the two images, as a person installs it: in the usual place.
    pub fn start_containerd(&mut self) -> anyhow::Result<()> {
        self.start_containerd_with(PODS)
    }

    /// Starts containerd with these addresses for its pods, a network such as `10.88.0.0/16`.
    pub fn start_containerd_with(&mut self, pods: &str) -> anyhow::Result<()> {
        let config = format!(
            "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"{PAUSE}\"\n\
             restrict_oom_score_adj = true\nstream_server_port = \"0\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = \"/usr/lib/cni\"\n"
        );
        fs::write(self.path("etc/containerd/config.toml"), config)?;
        let network = json!({"cniVersion": "0.4.0", "name": "edge", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]}}]});
        fs::write(
            self.path("etc/cni/net.d/10-edge.conflist"),
            network.to_string(),
        )?;
        let mut containerd =
            Process::start("containerd", self.command("containerd"), &self.directory)?;
        containerd
            .wait_for(BOOTED)
            .context("is containerd installed? `make needs` does it")?;
        self.containerd = Some(containerd);
        let home = self.directory.join("images");
        fs::create_dir_all(&home)?;
        let layer = image::layer(&home)?;
        for image in [IMAGE, PAUSE] {
            let archive = image::archive(&home, image, &layer)?.display().to_string();
            self.run(&["ctr", "--namespace", "k8s.io", "images", "import", &archive])?;
        }
        Ok(())
    }

    /// Returns a client of its containerd.
    pub fn cri(&self) -> anyhow::Result<Cri> {
        Cri::new(self.path(SOCKET))
    }

    /// Returns where this machine sees a path of that one, which is given without the leading slash.
    pub fn path(&self, path: &str) -> PathBuf {
        Path::new("/proc")
            .join(self.pid.to_string())
            .join("root")
            .join(path)
    }

    /// Returns a command on that machine, with the built programs in its `PATH`.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args([
                "--target",
                &self.pid.to_string(),
                "--net",
                "--mount",
                "--uts",
                "--pid",
                "--",
            ])
            .arg(program);
        command.env("PATH", self.programs());
        command
    }

    /// Returns the paths of everything that was created, changed or deleted below `/etc`, `/usr` and `/var`.
    pub fn changes(&self) -> anyhow::Result<BTreeSet<String>> {
        let disk = self.directory.join("machine-disk").display().to_string();
        let mut changes = BTreeSet::new();
        for name in DISKS {
            let found = self.run(&["find", &format!("{disk}/{name}"), "!", "-type", "d"])?;
            let below = found.lines().filter_map(|path| path.strip_prefix(&disk));
            changes.extend(below.map(str::to_owned));
        }
        for place in FRESH {
            let found = self.run(&["find", place, "-xdev", "!", "-type", "d"])?;
            changes.extend(found.lines().map(str::to_owned));
        }
        Ok(changes)
    }

    /// Returns its `PATH`: the built programs, then this machine's.
    pub fn programs(&self) -> String {
        let own = binary(AGENT)
            .ok()
            .and_then(|agent| Some(agent.parent()?.display().to_string()));
        format!(
            "{}:{}",
            own.unwrap_or_default(),
            std::env::var("PATH").unwrap_or_default()
        )
    }

    /// Returns a line, words separated by spaces, as the command that a person pastes.
    pub fn pasted_command(&self, line: &str) -> anyhow::Result<Command> {
        let mut words = line.split_whitespace();
        let mut command = self.command(words.next().context("an empty line")?);
        command.args(words);
        Ok(command)
    }

    /// Runs a program on it, which must not fail, and returns its output.
    pub fn run(&self, words: &[&str]) -> anyhow::Result<String> {
        let (program, arguments) = words.split_first().context("no program")?;
        Ok(run(self.command(program).args(arguments))?
            .success()?
            .text())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // All processes of the machine end with the first one, and its mounts with them.
        let _ = self.holder.kill();
        // The kernel removes its end of the cable when it has time; the next machine may need its name sooner.
        let _ = host(&["ip", "link", "delete", &self.cable]);
    }
}

fn host(words: &[&str]) -> anyhow::Result<()> {
    let (program, arguments) = words.split_first().context("no program")?;
    run(Command::new(program).args(arguments))?
        .success()
        .map(drop)
}
