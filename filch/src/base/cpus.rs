//! How many CPUs this process may use: affinity mask, cgroup quota, physical cores.
//!
//! U1. Every count is at least one, whatever the files say.
//! U2. A limit that cannot be read or parsed is no limit: counting never fails.
//! U3. The smallest quota on the way from our cgroup to the mounted root wins, over v1 and v2.
//! U4. A fraction of a CPU counts as one: ⌈quota / period⌉.
//!
//! Not here: what a runtime makes of the count (builder.rs), and following a quota that changes
//! while the process runs (docs/adr/0003-thread-count.md).

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
    thread::available_parallelism,
};

use crate::base::thread::current_affinity;

/// What was found out about the machine, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The CPUs of the affinity mask, ascending, never empty.
    mask: Vec<usize>,
    /// For each CPU of `mask`, in its order: the lowest CPU that shares its core.
    core_of: Vec<usize>,
    /// The cgroup quota in whole CPUs, rounded up.
    quota: Option<usize>,
    /// The CPUs that are there, in the kernel's list format, if it tells.
    present: Option<String>,
}

/// Which CPUs of the mask are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Within<'a> {
    /// All of them.
    Mask,
    /// Only those on this list, too.
    Cpus(&'a [usize]),
}

impl Machine {
    /// Reads the calling thread's mask, and on Linux the files of `/proc` and `/sys`.
    pub(crate) fn detect() -> Self {
        // Miri asks the real system for files of `/proc`, and has no cgroups.
        let root = Path::new(if cfg!(miri) { "/none" } else { "/" });
        let mask = current_affinity();
        if mask.is_empty() {
            let cpus = available_parallelism().map_or(1, |n| n.get());
            return Self::read(root, (0..cpus).collect());
        }
        Self::read(root, mask)
    }

    /// The same for a file tree below `root`.
    pub(crate) fn read(root: &Path, mask: Vec<usize>) -> Self {
        debug_assert!(mask.is_sorted());
        let mask = if mask.is_empty() { vec![0] } else { mask };
        let core_of = mask.iter().map(|&cpu| core_of(root, cpu)).collect();
        let present = fs::read_to_string(root.join("sys/devices/system/cpu/present")).ok();
        let present = present.map(|list| list.trim().to_owned());
        Self { mask, core_of, quota: quota(root), present }
    }

    /// The first of `cpus` that this machine does not have, and the list of those that it has. U2: if
    /// that cannot be read, it has them all.
    pub(crate) fn missing(&self, cpus: &[usize]) -> Option<(usize, &str)> {
        let list = self.present.as_deref()?;
        let present = parse_cpu_list(list)?;
        let missing = cpus.iter().find(|cpu| !present.contains(cpu))?;
        Some((*missing, list))
    }

    /// Logical CPUs `within`, limited by the quota.
    pub(crate) fn cpus(&self, within: Within<'_>) -> usize {
        self.limit(self.selected(within).count())
    }

    /// Physical cores with a CPU `within`, limited by the quota.
    pub(crate) fn cores(&self, within: Within<'_>) -> usize {
        let cores: BTreeSet<usize> = self.selected(within).map(|(_, core)| core).collect();
        self.limit(cores.len())
    }

    fn selected<'a>(&'a self, within: Within<'a>) -> impl Iterator<Item = (usize, usize)> + 'a {
        let pairs = self.mask.iter().copied().zip(self.core_of.iter().copied());
        pairs.filter(move |(cpu, _)| match within {
            Within::Mask => true,
            Within::Cpus(list) => list.contains(cpu),
        })
    }

    fn limit(&self, count: usize) -> usize {
        count.min(self.quota.unwrap_or(usize::MAX)).max(1)
    }
}

/// The lowest CPU on `cpu`'s core, or `cpu` itself where the topology is not told.
fn core_of(root: &Path, cpu: usize) -> usize {
    let topology = root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
    let siblings = ["core_cpus_list", "thread_siblings_list"]
        .iter()
        .find_map(|file| parse_cpu_list(&fs::read_to_string(topology.join(file)).ok()?));
    siblings.and_then(|list| list.into_iter().min()).unwrap_or(cpu)
}

/// Parses the kernel's list format, such as `0-3,8`; `None` if malformed or empty.
fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?;
        if range.is_empty() {
            return None;
        }
        cpus.extend(range);
    }
    Some(cpus)
}

/// One interface to the CPU controller: where it is mounted, and how its limit is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// The tightest quota in whole CPUs.
fn quota(root: &Path) -> Option<usize> {
    let cgroups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let limits = mounts.lines().filter_map(parse_mount).filter_map(|mount| {
        let group = group_path(&cgroups, mount.version)?;
        tightest(root, &mount, Path::new(group))
    });
    limits.min()
}

/// Walks from the group's directory up to the mount point (U3).
fn tightest(root: &Path, mount: &Mount, group: &Path) -> Option<usize> {
    let below = group.strip_prefix(&mount.root).ok()?;
    let top = root.join(mount.point.strip_prefix("/").ok()?);
    // A group outside our cgroup namespace shows as `/../…`: then only the mount point is ours.
    let escapes = below.components().any(|c| c == Component::ParentDir);
    let leaf = if escapes { top.clone() } else { top.join(below) };
    let levels = leaf.ancestors().take_while(|dir| dir.starts_with(&top));
    levels.filter_map(|dir| read_limit(dir, mount.version)).min()
}

fn read_limit(dir: &Path, version: Version) -> Option<usize> {
    let read = |file| fs::read_to_string(dir.join(file)).ok();
    match version {
        Version::V2 => parse_cpu_max(&read("cpu.max")?),
        Version::V1 => whole_cpus(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?),
    }
}

/// Parses `cpu.max`: `<quota|max> <period>`, both in microseconds.
fn parse_cpu_max(text: &str) -> Option<usize> {
    let (quota, period) = text.trim().split_once(' ')?;
    whole_cpus(quota, period)
}

/// ⌈quota / period⌉ (U4); `None` for `max`, for v1's −1, and for anything malformed (U2).
fn whole_cpus(quota: &str, period: &str) -> Option<usize> {
    let quota: u64 = quota.trim().parse().ok().filter(|&q| q > 0)?;
    let period: u64 = period.trim().parse().ok().filter(|&p| p > 0)?;
    usize::try_from(quota.div_ceil(period)).ok()
}

/// Our group's path in the hierarchy that may limit CPU time, from `/proc/self/cgroup`.
fn group_path(cgroups: &str, version: Version) -> Option<&str> {
    cgroups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let ours = match version {
            Version::V2 => id == "0" && controllers.is_empty(),
            Version::V1 => controllers.split(',').any(|c| c == "cpu"),
        };
        ours.then_some(path)
    })
}

/// A mounted cgroup hierarchy that may limit CPU time.
struct Mount {
    version: Version,
    /// The group that is visible at the mount point.
    root: PathBuf,
    point: PathBuf,
}

/// Parses a line of `/proc/self/mountinfo`; `None` for everything but a CPU controller.
fn parse_mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let (filesystem, _source, options) = (kind.next()?, kind.next()?, kind.next()?);
    let version = match filesystem {
        "cgroup2" => Version::V2,
        "cgroup" if options.split(',').any(|o| o == "cpu") => Version::V1,
        _ => return None,
    };
    let mut place = place.split(' ').skip(3);
    Some(Mount { version, root: unescape(place.next()?), point: unescape(place.next()?) })
}

/// Undoes mountinfo's escapes: space, tab, newline and backslash appear as `\` and three octals.
fn unescape(field: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let mut out = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (escape, plain) =
            escapes.into_iter().find(|(e, _)| rest.starts_with(e)).unwrap_or(("\\", "\\"));
        out.push_str(plain);
        rest = &rest[escape.len()..];
    }
    out.push_str(rest);
    PathBuf::from(out)
}

#[cfg(all(test, not(loom)))]
mod tests;
