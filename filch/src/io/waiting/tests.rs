use super::{Untold, Waiting};

fn taken(waiting: &mut Waiting<u32>, most: usize) -> Vec<u32> {
    let mut items = Vec::new();
    let count = waiting.take(most, |item| items.push(item));
    assert_eq!(count, items.len());
    items
}

fn with(items: std::ops::Range<u32>) -> Waiting<u32> {
    let mut waiting = Waiting::new();
    items.for_each(|item| waiting.push(item));
    waiting
}

#[test]
fn with_room_for_all_the_order_is_kept() {
    let mut waiting = with(0..5);
    assert_eq!(taken(&mut waiting, 5), [0, 1, 2, 3, 4]);
    assert!(waiting.is_empty());
}

#[test]
fn without_room_the_newest_come_first_and_every_eighth_is_the_oldest() {
    let mut waiting = with(0..20);
    assert_eq!(taken(&mut waiting, 7), [19, 18, 17, 16, 15, 14, 13]);
    assert_eq!(taken(&mut waiting, 3), [0, 12, 11]);
    assert_eq!(taken(&mut waiting, 99), (1..11).collect::<Vec<_>>());
}

#[test]
fn none_is_overtaken_for_ever_however_many_come() {
    let mut waiting = with(0..100);
    let mut left: std::collections::HashSet<u32> = (0..100).collect();
    for next in 100..900 {
        waiting.push(next);
        taken(&mut waiting, 1).iter().for_each(|item| assert!(left.remove(item) || *item >= 100));
    }
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_has_an_order_and_what_has_none_share_the_room() {
    for room in 1..9 {
        let mut untold = Untold::new();
        let (mut ordered, mut others) = (Vec::new(), 0);
        for next in 0..100 * room {
            untold.push_ordered((true, next));
            untold.push((false, next));
            if next % room > 0 {
                continue;
            }
            // Of both there is more than that.
            let count = untold.take(room.min(2 * (next + 1)), |(in_order, item)| match in_order {
                true => ordered.push(item),
                false => others += 1,
            });
            assert_eq!(count, room.min(2 * (next + 1)));
        }
        assert!(ordered.is_sorted() && ordered.iter().copied().eq(0..ordered.len()));
        assert!(ordered.len().abs_diff(others) <= room, "{} and {others}", ordered.len());
        untold.take(usize::MAX, |_| ());
        assert!(untold.is_empty());
    }
}

#[test]
fn room_that_one_side_does_not_need_is_the_others() {
    for (ordered, others, room) in [(5, 1, 4), (1, 5, 4), (0, 9, 4), (9, 0, 4), (2, 2, 9)] {
        let mut untold = Untold::new();
        (0..ordered).for_each(|item| untold.push_ordered(item));
        (0..others).for_each(|item| untold.push(item));
        assert_eq!(untold.take(room, |_| ()), room.min(ordered + others));
    }
}
