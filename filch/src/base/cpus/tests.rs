use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use super::{Machine, Within, parse_cpu_list, unescape};

/// A directory that plays `/`, removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("filch-cpus-{}-{name}", process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a writable temporary directory");
        Self(path)
    }

    fn with(self, file: &str, text: &str) -> Self {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().expect("a file has a parent")).expect("mkdir");
        fs::write(path, text).expect("write");
        self
    }

    /// A container-like v2 system whose process lives in `group`.
    fn v2(name: &str, group: &str) -> Self {
        Self::new(name).with("proc/self/cgroup", &format!("0::{group}\n")).with(
            "proc/self/mountinfo",
            "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
             31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 master:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        )
    }

    /// A v1 system as Docker mounts it: the host's group path, visible as the mount's root.
    fn v1(name: &str, group: &str, mount_root: &str) -> Self {
        Self::new(name)
            .with(
                "proc/self/cgroup",
                &format!("11:cpuset:/elsewhere\n4:cpu,cpuacct:{group}\n1:name=systemd:/init\n"),
            )
            .with(
                "proc/self/mountinfo",
                &format!(
                    "30 24 0:26 {mount_root} /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                     33 24 0:29 {mount_root} /sys/fs/cgroup/cpu\\040acct rw - cgroup cgroup rw,cpu,cpuacct\n"
                ),
            )
    }

    fn v1_limit(self, group: &str, quota: &str, period: &str) -> Self {
        let dir = format!("sys/fs/cgroup/cpu acct/{group}");
        self.with(&format!("{dir}/cpu.cfs_quota_us"), quota)
            .with(&format!("{dir}/cpu.cfs_period_us"), period)
    }

    /// Usable CPUs of a machine with sixteen in the mask.
    fn cpus(&self) -> usize {
        Machine::read(&self.0, (0..16).collect()).cpus(Within::Mask)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn without_files_the_mask_is_counted() {
    assert_eq!(Tree::new("bare").cpus(), 16);
}

#[test]
fn v2_half_a_cpu_counts_as_one() {
    let tree = Tree::v2("half", "/").with("sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_eq!(tree.cpus(), 1);
}

#[test]
fn v2_two_and_a_half_cpus_count_as_three() {
    let tree = Tree::v2("ceil", "/").with("sys/fs/cgroup/cpu.max", "250000 100000\n");
    assert_eq!(tree.cpus(), 3);
}

#[test]
fn v2_max_is_no_limit() {
    let tree = Tree::v2("max", "/a").with("sys/fs/cgroup/a/cpu.max", "max 100000\n");
    assert_eq!(tree.cpus(), 16);
}

#[test]
fn v2_tighter_parent_wins_over_its_child() {
    let tree = Tree::v2("parent", "/pod/box")
        .with("sys/fs/cgroup/pod/cpu.max", "200000 100000\n")
        .with("sys/fs/cgroup/pod/box/cpu.max", "900000 100000\n");
    assert_eq!(tree.cpus(), 2);
}

#[test]
fn v2_tighter_child_wins_over_its_parent() {
    let tree = Tree::v2("child", "/pod/box")
        .with("sys/fs/cgroup/pod/cpu.max", "900000 100000\n")
        .with("sys/fs/cgroup/pod/box/cpu.max", "200000 100000\n");
    assert_eq!(tree.cpus(), 2);
}

#[test]
fn v2_limits_of_siblings_are_not_ours() {
    let tree = Tree::v2("sibling", "/pod/box")
        .with("sys/fs/cgroup/pod/other/cpu.max", "100000 100000\n")
        .with("sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
    assert_eq!(tree.cpus(), 16);
}

#[test]
fn v2_group_outside_the_namespace_reads_the_mount_point_alone() {
    let tree = Tree::v2("escape", "/../other")
        .with("sys/fs/other/cpu.max", "100000 100000\n")
        .with("sys/fs/cgroup/cpu.max", "400000 100000\n");
    assert_eq!(tree.cpus(), 4);
}

#[test]
fn malformed_limits_are_no_limits() {
    for (i, text) in
        ["", "100000", "x 100000", "1 0", "0 100000", "-5 100000", "1 2 3"].iter().enumerate()
    {
        let tree = Tree::v2(&format!("malformed-{i}"), "/").with("sys/fs/cgroup/cpu.max", text);
        assert_eq!(tree.cpus(), 16, "cpu.max = {text:?}");
    }
    let tree = Tree::new("malformed-proc")
        .with("proc/self/cgroup", "what\n0:\n\n")
        .with("proc/self/mountinfo", "1 2 -\n - cgroup2\nx - cgroup2 a b\n");
    assert_eq!(tree.cpus(), 16);
}

#[test]
fn v1_quota_below_a_docker_mount_is_found() {
    let tree =
        Tree::v1("docker", "/docker/abc", "/docker/abc").v1_limit("", "250000\n", "100000\n");
    assert_eq!(tree.cpus(), 3);
}

#[test]
fn v1_minus_one_defers_to_the_parent() {
    let tree = Tree::v1("inherit", "/pod/box", "/")
        .v1_limit("pod/box", "-1\n", "100000\n")
        .v1_limit("pod", "50000\n", "25000\n");
    assert_eq!(tree.cpus(), 2);
}

#[test]
fn v1_mount_of_a_stranger_group_is_ignored() {
    let tree = Tree::v1("stranger", "/mine", "/theirs").v1_limit("", "100000", "100000");
    assert_eq!(tree.cpus(), 16);
}

#[test]
fn hybrid_system_takes_the_tighter_of_both() {
    let tree = Tree::new("hybrid")
        .with("proc/self/cgroup", "4:cpu:/a\n0::/b\n")
        .with(
            "proc/self/mountinfo",
            "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu\n\
             41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n",
        )
        .with("cg/cpu/a/cpu.cfs_quota_us", "500000")
        .with("cg/cpu/a/cpu.cfs_period_us", "100000")
        .with("cg/unified/b/cpu.max", "700000 100000");
    assert_eq!(tree.cpus(), 5);
}

#[test]
fn mask_smaller_than_the_quota_wins() {
    let tree = Tree::v2("mask", "/").with("sys/fs/cgroup/cpu.max", "900000 100000\n");
    assert_eq!(Machine::read(&tree.0, vec![3, 5]).cpus(Within::Mask), 2);
}

#[test]
fn one_cpu_and_an_empty_selection_still_count_as_one() {
    let machine = Machine::read(Path::new("/nonexistent"), vec![]);
    assert_eq!(machine.mask, [0]);
    assert_eq!(machine.cpus(Within::Mask), 1);
    assert_eq!(machine.cores(Within::Cpus(&[7])), 1);
}

#[test]
fn hyperthreads_share_a_core_within_the_mask() {
    let mut tree = Tree::new("cores");
    for (cpu, siblings) in [(0, "0,4"), (1, "1,5"), (2, "2,6"), (4, "0,4"), (5, "1,5")] {
        // Old kernels have only the second name.
        let file = if cpu % 2 == 0 { "core_cpus_list" } else { "thread_siblings_list" };
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/{file}");
        tree = tree.with(&path, &format!("{siblings}\n"));
    }
    let machine = Machine::read(&tree.0, vec![0, 1, 4, 5, 9]);
    assert_eq!(machine.cpus(Within::Mask), 5);
    assert_eq!(machine.cores(Within::Mask), 3, "CPU 9 tells no topology and is its own core");
    assert_eq!(machine.cores(Within::Cpus(&[0, 4])), 1);
    assert_eq!(machine.cpus(Within::Cpus(&[0, 4, 2])), 2, "CPU 2 is not in the mask");
}

#[test]
fn physical_cores_are_limited_by_the_quota_too() {
    let tree = Tree::v2("cores-quota", "/").with("sys/fs/cgroup/cpu.max", "150000 100000\n");
    assert_eq!(Machine::read(&tree.0, (0..8).collect()).cores(Within::Mask), 2);
}

#[test]
fn cpu_lists_parse_or_are_refused_whole() {
    assert_eq!(parse_cpu_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
    for bad in ["", "3-1", "a", "1,", "1-2-3"] {
        assert_eq!(parse_cpu_list(bad), None, "{bad:?}");
    }
}

#[test]
fn mount_paths_are_unescaped() {
    assert_eq!(unescape("/a\\040b\\134040"), PathBuf::from("/a b\\040"));
    assert_eq!(unescape("/odd\\"), PathBuf::from("/odd\\"));
}

#[test]
fn this_machine_has_a_cpu() {
    let machine = Machine::detect();
    assert!(machine.cpus(Within::Mask) >= machine.cores(Within::Mask));
    assert!(machine.cores(Within::Mask) >= 1);
    assert!(!machine.mask.is_empty());
}

#[test]
fn a_cpu_is_missing_if_the_kernel_lists_others() {
    let tree = Tree::new("present").with("sys/devices/system/cpu/present", "0-3,8\n");
    let machine = Machine::read(&tree.0, vec![0, 1]);
    assert_eq!(machine.missing(&[0, 3, 8]), None, "also those outside of the mask are there");
    assert_eq!(machine.missing(&[0, 5, 9]), Some((5, "0-3,8")));
    let untold = Machine::read(Path::new("/nonexistent"), vec![0]);
    assert_eq!(untold.missing(&[99]), None);
}
