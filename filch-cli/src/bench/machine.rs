//! Machine: where figures come from, the two clocks that std lacks, and where threads run.
//!
//! Unknown facts are left empty rather than guessed; only Linux tells all of them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::thread::available_parallelism;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where and how a file of results was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    #[serde(flatten)]
    pub machine: Machine,
    pub repeats: usize,
    /// Samples were too small to compare.
    pub quick: bool,
}

/// This computer and this build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    pub arch: String,
    pub os: String,
    pub kernel: String,
    pub memory_mib: u64,
    /// How the system chooses the frequency of the first core.
    pub governor: String,
    /// Whether cores may exceed their usual frequency: "on", "off".
    pub turbo: String,
    /// Load average over the last minute, before the first sample.
    pub load: f64,
    pub allocator: String,
    /// Seconds since 1970.
    pub time: u64,
    /// Of filch and of the crates that the peers come from.
    pub versions: BTreeMap<String, String>,
    /// Built without optimisation: figures mean nothing.
    pub debug_build: bool,
}

impl Machine {
    pub fn describe() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: available_parallelism().map_or(1, usize::from),
            arch: std::env::consts::ARCH.into(),
            os: std::env::consts::OS.into(),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            memory_mib: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|total| first_word(&total).parse::<u64>().ok())
                .map_or(0, |kib| kib / 1024),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim().into(),
            turbo: turbo(
                &read("/sys/devices/system/cpu/cpufreq/boost"),
                &read("/sys/devices/system/cpu/intel_pstate/no_turbo"),
            )
            .into(),
            load: first_word(&read("/proc/loadavg")).parse().unwrap_or(0.0),
            allocator: "system".into(),
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            versions: [
                "filch",
                "tokio",
                "async-executor",
                "async-channel",
                "rayon",
                "chili",
                "compio",
            ]
            .into_iter()
            .map(|name| (name.into(), locked_version(name).unwrap_or_default()))
            .collect(),
            debug_build: cfg!(debug_assertions),
        }
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        format!(
            "{}, {} cores, {} {}, load {:.2}",
            self.cpu, self.cores, self.os, self.kernel, self.load
        )
    }
}

/// What two drivers say of frequencies above the usual one, each in its own words.
fn turbo(boost: &str, no_turbo: &str) -> &'static str {
    match (boost.trim(), no_turbo.trim()) {
        ("1", _) | (_, "0") => "on",
        ("0", _) | (_, "1") => "off",
        _ => "",
    }
}

/// The value after `name` and a colon, on the first such line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().into())
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// The version of a crate that this program was built with.
fn locked_version(name: &str) -> Option<String> {
    let lock = include_str!(concat!(env!("OUT_DIR"), "/Cargo.lock"));
    let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?.1;
    Some(entry.split_once('"')?.0.into())
}

/// CPU time that all threads of this process have used.
pub fn process_cpu_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is valid for writing one `timespec`.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr()) };
    assert_eq!(status, 0, "the process clock exists on every Unix");
    // SAFETY: the call has succeeded, so it has written all fields.
    let time = unsafe { time.assume_init() };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Memory of this process that is resident, in bytes.
///
/// # Panics
/// Where there is no `/proc/self/smaps_rollup`: the figure would be made up.
pub fn resident_bytes() -> usize {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").expect("/proc is mounted");
    let resident = field(&rollup, "Rss").expect("a resident size");
    first_word(&resident).parse::<usize>().expect("a number of KiB") * 1024
}

/// The cores that the calling thread may use.
pub fn cores() -> Vec<usize> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the pointer is valid for writing one set, and its size is given.
    let status =
        unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) };
    assert_eq!(status, 0, "there is room for every core of this machine");
    // SAFETY: zeroed, and zeros are a set.
    let set = unsafe { set.assume_init() };
    // SAFETY: the number is within the set.
    let may_use = |&core: &usize| unsafe { libc::CPU_ISSET(core, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(may_use).collect()
}

/// Keeps the calling thread, and those that it starts from now on, to one core.
pub fn pin(core: usize) -> std::io::Result<()> {
    // SAFETY: zeros are a set.
    let mut set = unsafe { MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init() };
    // SAFETY: the core comes from `cores`, so it is within the set.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the pointer is valid for reading one set, and its size is given.
    let status = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if status < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Runs the calling thread before all that are not urgent, if the system lets it.
pub fn hurry() {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is valid for reading. A refusal is accepted.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const least) };
}

/// Names the calling thread, for profiles.
pub fn name_thread(name: &std::ffi::CStr) {
    // SAFETY: the name lives during the call. It cannot fail.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::{field, locked_version, process_cpu_time, resident_bytes, turbo};
    use std::hint::black_box;

    #[test]
    fn field_finds_the_first_line_of_that_name() {
        let text = "model\t: 1\nmodel name\t: A: b\nmodel name\t: C";
        assert_eq!(field(text, "model name"), Some("A: b".into()));
        assert_eq!(field(text, "flags"), None);
    }

    #[test]
    fn turbo_is_read_from_either_driver_or_unknown() {
        assert_eq!([turbo("1\n", ""), turbo("", "0\n")], ["on"; 2]);
        assert_eq!([turbo("0\n", ""), turbo("", "1\n")], ["off"; 2]);
        assert_eq!(turbo("", ""), "");
    }

    #[test]
    fn versions_come_from_the_lock_file() {
        assert!(locked_version("clap").is_some_and(|version| version.starts_with("4.")));
        assert_eq!(locked_version("no such crate"), None);
    }

    #[test]
    fn process_clock_advances_with_work() {
        let before = process_cpu_time();
        let mut sum = 0_u64;
        while process_cpu_time() == before {
            sum = black_box(sum + 1);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn touched_memory_is_resident() {
        let before = resident_bytes();
        let block = black_box(vec![1_u8; 64 << 20]);
        assert!(resident_bytes() >= before + (block.len() / 2));
    }
}
