use std::io;

use super::{Level, apply_level, name_with_suffix, set_affinity};

#[test]
fn normal_level_changes_nothing_and_succeeds() {
    assert!(apply_level(Level::Normal).is_ok());
}

#[test]
fn empty_affinity_is_refused() {
    let error = set_affinity(&[]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn long_prefix_is_cut_and_the_suffix_survives() {
    assert_eq!(name_with_suffix("filch", "io-3"), "filch-io-3");
    assert_eq!(name_with_suffix("a-very-long-name", "cpu-511"), "a-very--cpu-511");
    assert_eq!(name_with_suffix("ééééé", "cpu-5110"), "ééé-cpu-5110");
    assert_eq!(name_with_suffix("x", "a-suffix-of-twenty-b"), "a-suffix-of-twenty-b");
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use std::thread;

    use super::super::{Slice, apply_slice, current_affinity, displace_nobody, lend_slice};
    use super::*;

    /// Levels and affinity stick to a thread, so each test spends one of its own.
    fn on_a_fresh_thread<R: Send>(f: impl FnOnce() -> R + Send) -> R {
        thread::scope(|s| s.spawn(f).join().expect("the test thread panicked"))
    }

    fn nice() -> i32 {
        super::super::os::nice().expect("getpriority")
    }

    #[test]
    fn background_succeeds_and_stays_on_its_thread() {
        let before = nice();
        let inside = on_a_fresh_thread(|| {
            apply_level(Level::Background).expect("anybody may become nicer");
            nice()
        });
        assert_eq!(inside, before.max(10));
        assert_eq!(nice(), before, "the level leaked to another thread");
    }

    #[test]
    fn background_never_raises_a_nicer_thread() {
        on_a_fresh_thread(|| {
            super::super::os::set_nice(15).expect("anybody may become nicer");
            apply_level(Level::Background).expect("nothing to do");
            assert_eq!(nice(), 15);
        });
    }

    #[test]
    fn raising_is_granted_or_refused_without_harm() {
        for (level, value) in [(Level::Display, -4), (Level::Urgent, -8)] {
            on_a_fresh_thread(|| {
                let before = nice();
                match apply_level(level) {
                    Ok(()) => assert_eq!(nice(), value),
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                        assert_eq!(nice(), before);
                    }
                }
            });
        }
    }

    fn slice() -> u64 {
        super::super::os::Attributes::get().expect("sched_getattr").runtime
    }

    fn policy() -> u32 {
        super::super::os::Attributes::get().expect("sched_getattr").policy
    }

    #[test]
    fn slice_is_granted_or_refused_without_harm_and_goes_back() {
        let (usual, level) = (slice(), nice());
        for wish in [Slice::Short, Slice::Long] {
            on_a_fresh_thread(|| match apply_slice(wish) {
                Ok(()) => {
                    assert_eq!(slice(), wish.ns());
                    assert_eq!(on_a_fresh_thread(slice), wish.ns(), "a thread inherits it");
                    apply_slice(Slice::Usual).expect("what others have");
                    assert_eq!(slice(), usual);
                }
                Err(_) => assert_eq!(slice(), usual),
            });
        }
        assert_eq!((slice(), nice()), (usual, level), "it leaked to another thread");
    }

    /// Two loans that overlap, and the first ends first.
    fn lend_and_give_back() {
        let own = slice();
        let (Ok(first), Ok(second)) = (lend_slice(), lend_slice()) else {
            return assert_eq!(slice(), own);
        };
        assert_eq!(slice(), Slice::Short.ns());
        first.give_back().expect("nothing to do");
        assert_eq!(slice(), Slice::Short.ns(), "the second goes on");
        second.give_back().expect("what it had");
        assert_eq!(slice(), own);
    }

    #[test]
    fn slices_that_are_lent_end_with_the_last_of_them_and_leave_what_was_there() {
        on_a_fresh_thread(|| {
            lend_and_give_back();
            lend_and_give_back();
            let _ = apply_slice(Slice::Long);
            lend_and_give_back();
        });
    }

    #[test]
    fn slice_and_level_leave_each_other_alone() {
        on_a_fresh_thread(|| {
            let granted = apply_slice(Slice::Short).is_ok();
            apply_level(Level::Background).expect("anybody may become nicer");
            assert!(nice() >= 10);
            assert_eq!(slice() == Slice::Short.ns(), granted);
            let level = nice();
            let _ = apply_slice(Slice::Long);
            assert_eq!(nice(), level);
        });
    }

    #[test]
    fn who_displaces_nobody_keeps_level_and_slice() {
        on_a_fresh_thread(|| {
            let before = (nice(), slice());
            match displace_nobody() {
                Ok(()) => assert_eq!(policy(), libc::SCHED_BATCH as u32),
                Err(_) => assert_eq!(policy(), libc::SCHED_OTHER as u32),
            }
            assert_eq!((nice(), slice()), before);
        });
    }

    #[test]
    fn thread_that_is_not_ordinary_stays_as_it_is() {
        on_a_fresh_thread(|| {
            let idle = libc::sched_param { sched_priority: 0 };
            // SAFETY: the parameter lives during the call; it concerns the calling thread.
            let status = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const idle) };
            assert_eq!(status, 0, "anybody may become idle");
            apply_slice(Slice::Short).expect("nothing to do");
            displace_nobody().expect("nothing to do");
            assert_eq!(policy(), libc::SCHED_IDLE as u32);
        });
    }

    #[test]
    fn affinity_round_trips_through_one_cpu() {
        let all = current_affinity();
        assert!(!all.is_empty());
        let last = *all.last().expect("checked above");
        on_a_fresh_thread(|| {
            set_affinity(&[last]).expect("the CPU was in the mask");
            assert_eq!(current_affinity(), [last]);
            set_affinity(&all).expect("all of them were in the mask");
            assert_eq!(current_affinity(), all);
        });
        assert_eq!(current_affinity(), all, "the mask leaked to another thread");
    }

    #[test]
    fn affinity_to_cpus_that_do_not_exist_is_refused() {
        on_a_fresh_thread(|| {
            let before = current_affinity();
            assert!(set_affinity(&[1 << 19]).is_err());
            assert_eq!(
                set_affinity(&[usize::MAX]).unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
            assert_eq!(current_affinity(), before);
        });
    }
}
