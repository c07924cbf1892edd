//! The packages of both programs, made by packaging/package.py from the tested programs: installed, used and removed.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{
    AGENT, Api, CLOUDSIM, Kubectl, Process, binary,
    containerd::{IMAGE, Machine},
    ensure_says, installed_program, run,
};

use crate::join::{cloud, pretend_systemd};

/// The version of the packages.
const VERSION: &str = "1.2.3";
/// What an installer keeps of what it did, by the beginnings of paths.
const INSTALLER: [&str; 6] = [
    "/var/lib/dpkg/",
    "/var/log/dpkg.log",
    "/var/lib/rpm/",
    "/usr/lib/sysimage/rpm/",
    "/var/cache/",
    "/etc/ld.so.cache",
];

/// Returns the command that packs the program in this file.
fn packer(program: &Path) -> anyhow::Result<Command> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("packaging/package.py");
    let mut pack = Command::new(installed_program("python")?);
    let installed = installed_program("nfpm")?;
    let programs = installed.parent().context("no folder")?.display();
    let path = std::env::var("PATH").unwrap_or_default();
    pack.env("PATH", format!("{programs}:{path}"));
    pack.arg("-B").arg(script).arg("--program").arg(program);
    Ok(pack)
}

/// Packs a program; returns the path of a package without its format.
fn pack(program: &str, formats: &str, directory: &Path) -> anyhow::Result<PathBuf> {
    let stripped = directory.join(format!("{program}.stripped"));
    // Most of the program is debug information.
    let mut strip = Command::new("strip");
    run(strip.arg("-o").arg(&stripped).arg(binary(program)?))?.success()?;
    let pages = directory.join("pages");
    if !pages.exists() {
        run(Command::new(binary("examples/man")?).arg(&pages))?.success()?;
    }
    let mut pack = packer(&stripped)?;
    pack.args(["--name", program, "--version", VERSION, "--fast"]);
    pack.arg("--dynamic");
    pack.args(["--formats", formats]).arg("--pages").arg(&pages);
    run(pack.arg("--output").arg(directory))?.success()?;
    fs::remove_file(stripped)?;
    let machine = std::env::consts::ARCH;
    Ok(directory.join(format!("{program}-{VERSION}-{machine}")))
}

/// Returns what is on the machine that was not there `before`, without an installer's own files.
fn leftovers(machine: &Machine, before: &BTreeSet<String>) -> anyhow::Result<Vec<String>> {
    let after = machine.changes()?;
    let new = after.difference(before);
    let is_own = |path: &&String| !INSTALLER.iter().any(|prefix| path.starts_with(prefix));
    Ok(new.filter(is_own).cloned().collect())
}

#[test]
fn deb_package_joins_a_machine_and_its_purge_leaves_nothing() -> anyhow::Result<()> {
    const NAME: &str = "edge-2";
    let directory = tempfile::tempdir()?;
    let mut machine = Machine::boot(NAME, directory.path())?;
    machine.start_containerd()?;
    pretend_systemd(&machine)?;
    let before = machine.changes()?;
    let package = pack(AGENT, "deb", directory.path())?;
    let package = format!("{}.deb", package.display());
    let path = format!("PATH=/run/bin:{}", std::env::var("PATH")?);
    let dpkg = |option: &str, what: &str| machine.run(&["env", &path, "dpkg", option, what]);
    let said = dpkg("--install", &package)?;
    ensure_says(&said, &["Join this machine to a cloud: edge-agent join"])?;
    ensure!(
        machine
            .run(&["/usr/bin/edge-agent", "--version"])?
            .contains("edge-agent"),
        "no version"
    );

    let (_cloud, line) = cloud(directory.path())?;
    let kubeconfig = directory.path().join("kubeconfig");
    let line = line.replace("edge-agent join", "/usr/bin/edge-agent join");
    let environment = ["env", &path, "HTTPS_PROXY=", "NO_PROXY=cloud.test"];
    let said = machine.run(&[&environment, &*line.split(' ').collect::<Vec<_>>()].concat())?;
    ensure_says(&said, &["journalctl -u edge-agent"])?;
    // the package's own service runs it
    ensure!(
        !machine
            .path("etc/systemd/system/edge-agent.service")
            .exists(),
        "a second service"
    );
    let variables = machine.path("etc/systemd/system/edge-agent.service.d/join.env");
    let mode = fs::metadata(&variables)?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "{mode:o}");
    let unit = fs::read_to_string(machine.path("usr/lib/systemd/system/edge-agent.service"))?;
    let started = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .context("the service starts nothing")?;
    let mut agent = Process::start(AGENT, machine.pasted_command(started)?, directory.path())?;
    agent.wait_for("edge-agent started")?;
    let kubectl = Kubectl::new(&kubeconfig, directory.path());
    e2e::until("the node", || {
        Api::new(&kubeconfig)?
            .get(&format!("/api/v1/nodes/{NAME}"))?
            .context("it is not there")
    })?;
    kubectl.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers:\n  \
         - {{name: main, image: \"{IMAGE}\", imagePullPolicy: Never}}\n"
    ))?;
    kubectl.run(&["wait", "--for=condition=Ready", "pod/web", "--timeout=100s"])?;

    // installed again after its removal, the service is enabled as before
    dpkg("--remove", AGENT)?;
    let kept = machine.path("var/lib/edge-agent");
    ensure!(kept.join("reset").exists(), "no program for a purge");
    let said = dpkg("--install", &package)?;
    ensure_says(&said, &["starting it"])?;
    ensure!(!kept.exists(), "files of the removal stay");
    let asked = fs::read_to_string(machine.path("run/systemctl.log"))?;
    ensure!(
        asked.ends_with("enable edge-agent.service\nrestart edge-agent.service\n"),
        "{asked}"
    );

    // removed, it is not a node any longer that anybody manages, but its pods run; purged, it is gone
    dpkg("--remove", AGENT)?;
    ensure!(
        !machine.path("usr/bin/edge-agent").exists(),
        "the program stays"
    );
    let cri = machine.cri()?;
    ensure!(cri.running()?.len() == 1, "{:?} runs", cri.running()?);
    let said = dpkg("--purge", AGENT)?;
    ensure_says(&said, &["default/web"])?;
    ensure!(
        cri.containers()?.is_empty(),
        "{:?} is left",
        cri.containers()?
    );
    let left = leftovers(&machine, &before)?;
    // the runtime keeps what it keeps
    let is_runtime = |path: &&String| {
        ["/var/lib/containerd/", "/var/lib/cni/"]
            .iter()
            .any(|prefix| path.starts_with(prefix))
    };
    let left: Vec<_> = left.iter().filter(|path| !is_runtime(path)).collect();
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

#[test]
fn packages_of_both_programs_install_run_and_leave_nothing() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let machine = Machine::boot("edge-3", directory.path())?;
    let before = machine.changes()?;
    for (program, formats) in [(CLOUDSIM, "deb,tar.zst"), (AGENT, "rpm")] {
        let package = pack(program, formats, directory.path())?
            .display()
            .to_string();
        let installed = format!("/usr/bin/{program}");
        let file = |format: &str| format!("{package}.{format}");
        for format in formats.split(',') {
            let (install, remove, run): (Vec<&str>, Vec<&str>, &str) = match format {
                "deb" => (
                    vec!["dpkg", "--install"],
                    vec!["dpkg", "--purge", program],
                    &installed,
                ),
                "rpm" => (
                    vec!["rpm", "--force-debian", "--nodeps", "--install"],
                    vec!["rpm", "--force-debian", "--nodeps", "--erase", program],
                    &installed,
                ),
                _ => (
                    vec![
                        "tar",
                        "--directory=/var/tmp",
                        "--extract",
                        "--zstd",
                        "--file",
                    ],
                    vec!["rm", "-r", "/var/tmp/cloudsim-1.2.3"],
                    "/var/tmp/cloudsim-1.2.3/usr/bin/cloudsim",
                ),
            };
            let file = file(format);
            machine.run(&[&install[..], &[&file]].concat())?;
            let version = machine.run(&[run, "--version"])?;
            ensure!(version.contains(program), "{file}: {version}");
            let new = leftovers(&machine, &before)?.join("\n");
            ensure_says(
                &new,
                &[
                    &format!("man1/{program}.1.gz"),
                    &format!("bash-completion/completions/{program}"),
                    &format!("{program}.service"),
                    &format!("doc/{program}/copyright"),
                ],
            )?;
            machine.run(&remove)?;
            let folder = format!("/usr/share/doc/{program}");
            machine.run(&["test", "!", "-e", &folder])?;
            let left = leftovers(&machine, &before)?;
            ensure!(left.is_empty(), "{file} leaves {left:?}");
        }
    }
    Ok(())
}

#[test]
fn package_is_the_same_each_time() -> anyhow::Result<()> {
    let (one, two) = (tempfile::tempdir()?, tempfile::tempdir()?);
    for format in ["deb", "rpm", "tar.zst"] {
        let bytes = |directory: &Path| {
            let path = pack(AGENT, format, directory)?.display().to_string();
            anyhow::Ok(fs::read(format!("{path}.{format}"))?)
        };
        ensure!(
            bytes(one.path())? == bytes(two.path())?,
            "{format} differs between two runs"
        );
    }
    Ok(())
}

#[test]
fn program_that_needs_the_libraries_of_this_machine_is_not_packed() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut pack = packer(Path::new("/bin/sh"))?;
    pack.args(["--name", AGENT, "--version", VERSION]);
    pack.args(["--pages", "none", "--output"])
        .arg(directory.path());
    let said = run(&mut pack)?.failure()?;
    ensure_says(&said, &["/bin/sh is dynamically linked"])
}
