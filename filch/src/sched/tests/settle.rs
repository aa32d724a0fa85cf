//! What the ledger's settling sets off.

use crate::group::group;
use crate::sched::rig::{Rig, config};

/// The last child's unit is in the ledger until the worker has run dry, so its own look for work
/// is what ends the group and wakes the parent, into a slot that it had found empty before.
#[test]
fn a_group_that_ends_when_its_worker_runs_dry_wakes_its_waiter_there() {
    let rig = Rig::new(config(1, 0));
    let log = rig.log.clone();
    drop(rig.task().spawn(async move {
        let result: Result<(), ()> = group(async |g| {
            drop(g.spawn(async { Ok(()) }));
            Ok(())
        })
        .await;
        log.note(format!("{result:?}"));
    }));
    rig.drive();
    assert_eq!(rig.log.take(), ["Ok(())"]);
}
