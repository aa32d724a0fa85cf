use std::sync::{Arc, Weak};

use crate::spawn;
use crate::task::group::Group;

fn current_group() -> Weak<Group> {
    spawn::current(|_, group, _| Arc::downgrade(&group.to_ref()))
}

#[test]
fn nested_groups_leave_no_cycle_behind() {
    let runtime = crate::Builder::new().workers(1).build().unwrap();
    let groups: Result<_, ()> = runtime.block_on(async {
        let around = current_group();
        crate::group(async |_| {
            let outer = current_group();
            let inner = crate::group(async |_| Ok(current_group())).await?;
            Ok([around, outer, inner])
        })
        .await
    });
    for group in groups.unwrap() {
        assert!(group.upgrade().is_none());
    }
}

#[test]
fn groups_of_children_leave_no_cycle_behind() {
    let runtime = crate::Builder::new().workers(1).build().unwrap();
    let groups: Result<_, ()> = runtime.block_on(crate::group(async |g| {
        let outer = current_group();
        let child = g.spawn(async { crate::group(async |_| Ok(current_group())).await });
        let job = g.spawn_fn(|| Ok(crate::block_on_fn(current_group)));
        Ok([outer, child.await, job.await.unwrap()])
    }));
    // Workers let go of what they ran at the latest when they end.
    drop(runtime);
    for group in groups.unwrap() {
        assert!(group.upgrade().is_none());
    }
}
