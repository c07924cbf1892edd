//! Properties of the machine, read from `/proc` and similar files. Values that cannot be read are empty or 0.

use std::{fs, path::Path};

use crate::{
    Capacity,
    cgroups::{self, CGROUP_ROOT},
    convert::MachineResources,
};

/// Properties of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Number of cores that this process may use.
    pub(super) cpus: i64,
    /// Memory in bytes.
    pub(super) memory: i64,
    /// Size in bytes of the disk that holds the pods.
    pub(super) storage: i64,
    pub(super) kernel: String,
    pub(super) os_image: String,
    pub(super) machine_id: String,
    pub(super) boot_id: String,
    pub(super) system_uuid: String,
    /// Architecture in Go's notation.
    pub(super) architecture: &'static str,
    /// Huge pages, smallest first.
    pub(super) huge_pages: Vec<HugePages>,
    /// Whether the kernel enforces AppArmor.
    pub(crate) apparmor: bool,
    /// Whether control groups are of version 2.
    pub(super) unified: bool,
    /// Whether the kernel can limit swap of control groups.
    pub(super) swap: bool,
}

/// Huge pages of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HugePages {
    /// Size of a page in bytes.
    pub(super) size: i64,
    pub(super) count: i64,
}

impl Machine {
    /// Reads the properties. `root` is a path on the disk that holds the pods.
    pub(crate) fn read(root: &Path) -> Self {
        let line = |path: &str| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let first = |paths: &[&str]| {
            paths
                .iter()
                .map(|path| line(path))
                .find(|text| !text.is_empty())
        };
        let machine_id =
            first(&["/etc/machine-id", "/var/lib/dbus/machine-id"]).unwrap_or_default();
        let unified = cgroups::is_unified(Path::new(CGROUP_ROOT));
        let storage = nix::sys::statvfs::statvfs(root).ok().and_then(|disk| {
            // These types differ between platforms.
            let (blocks, size) = (i128::from(disk.blocks()), i128::from(disk.fragment_size()));
            i64::try_from(blocks * size).ok()
        });
        Self {
            cpus: std::thread::available_parallelism()
                .map_or(1, |n| i64::try_from(n.get()).unwrap_or(1)),
            memory: memory(&line("/proc/meminfo")).unwrap_or(0),
            storage: storage.unwrap_or(0),
            kernel: line("/proc/sys/kernel/osrelease"),
            os_image: os_name(&line("/etc/os-release")).unwrap_or_else(|| "Linux".into()),
            machine_id: machine_id.clone(),
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            // Boards without such firmware are identified by their operating system's id.
            system_uuid: first(&[
                "/sys/class/dmi/id/product_uuid",
                "/proc/device-tree/vm,uuid",
            ])
            .unwrap_or(machine_id),
            architecture: architecture(std::env::consts::ARCH),
            huge_pages: huge_pages(Path::new("/sys/kernel/mm/hugepages")),
            apparmor: line("/sys/module/apparmor/parameters/enabled") == "Y",
            unified,
            swap: limits_swap(unified, &line("/proc/self/cgroup")),
        }
    }

    /// Replaces resources by those of a simulated node.
    pub(crate) fn with_capacity(mut self, capacity: Capacity) -> Self {
        self.cpus = capacity.cpus.unwrap_or(self.cpus);
        self.memory = capacity.memory.unwrap_or(self.memory);
        self
    }

    /// Returns the properties that determine containers' resources.
    pub(crate) fn machine_resources(&self) -> MachineResources {
        MachineResources {
            memory: self.memory,
            page_sizes: self.huge_pages.iter().map(|pages| pages.size).collect(),
            unified: self.unified,
            swap: self.swap,
        }
    }
}

/// Reports whether the file that limits a group's swap exists. `own` is the text of `/proc/self/cgroup`; the root group has no
/// such file.
fn limits_swap(unified: bool, own: &str) -> bool {
    let file = match own.lines().find_map(|line| line.strip_prefix("0::")) {
        Some(group) if unified => Path::new(group.trim_start_matches('/')).join("memory.swap.max"),
        _ => "memory/memory.memsw.limit_in_bytes".into(),
    };
    Path::new(CGROUP_ROOT).join(file).exists()
}

/// Reads the kernel's folder of huge pages, which has a subfolder for each size.
pub(super) fn huge_pages(folder: &Path) -> Vec<HugePages> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let pages = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let kib: i64 = name
            .strip_prefix("hugepages-")?
            .strip_suffix("kB")?
            .parse()
            .ok()?;
        let count = fs::read_to_string(entry.path().join("nr_hugepages"))
            .ok()?
            .trim()
            .parse()
            .ok()?;
        Some(HugePages {
            size: kib.checked_mul(1024)?,
            count,
        })
    });
    let mut pages: Vec<_> = pages.collect();
    pages.sort_by_key(|pages| pages.size);
    pages
}

/// Returns the memory in bytes from the text of `/proc/meminfo`.
pub(super) fn memory(meminfo: &str) -> Option<i64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the distribution's name from the text of `/etc/os-release`.
pub(super) fn os_name(os_release: &str) -> Option<String> {
    let name = os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn architecture(rust: &'static str) -> &'static str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "riscv64" => "riscv64",
        other => other,
    }
}
