//! A collection of a user's own: a binary tree whose items are iterated in order.

use std::collections::LinkedList;

use filch::par::plumbing::{Consumer, Folder, UnindexedProducer, bridge_unindexed};
use filch::par::prelude::*;

use super::{numbers, property, same};

#[derive(Default)]
struct Tree(Option<Box<Node>>);

struct Node {
    left: Tree,
    item: i32,
    right: Tree,
}

impl Tree {
    fn insert(&mut self, item: i32) {
        match &mut self.0 {
            None => self.0 = Some(Box::new(Node { left: Tree(None), item, right: Tree(None) })),
            Some(node) if item < node.item => node.left.insert(item),
            Some(node) => node.right.insert(item),
        }
    }
}

/// What is still to come: a subtree, an item after it, the next subtree, and so on.
struct Walk<'t>(Vec<Part<'t>>);

#[derive(Clone, Copy)]
enum Part<'t> {
    Subtree(&'t Node),
    Item(i32),
}

impl<'t> Walk<'t> {
    fn open(node: &'t Node) -> Self {
        let left = node.left.0.as_deref().map(Part::Subtree);
        let right = node.right.0.as_deref().map(Part::Subtree);
        Self(left.into_iter().chain([Part::Item(node.item)]).chain(right).collect())
    }
}

impl Walk<'_> {
    fn step(&mut self) -> Option<i32> {
        loop {
            if self.0.is_empty() {
                return None;
            }
            match self.0.remove(0) {
                Part::Item(item) => return Some(item),
                Part::Subtree(node) => drop(self.0.splice(0..0, Walk::open(node).0)),
            }
        }
    }
}

impl UnindexedProducer for Walk<'_> {
    type Item = i32;

    fn split(mut self) -> (Self, Option<Self>) {
        if let [Part::Subtree(node)] = self.0[..] {
            self = Walk::open(node);
        }
        match self.0.len() {
            0 | 1 => (self, None),
            parts => {
                let right = self.0.split_off(parts / 2);
                (self, Some(Walk(right)))
            }
        }
    }

    fn fold_with<F: Folder<i32>>(mut self, folder: F) -> F {
        folder.consume_iter(std::iter::from_fn(|| self.step()))
    }
}

impl ParallelIterator for Walk<'_> {
    type Item = i32;

    fn drive<C: Consumer<i32>>(self, consumer: C) -> C::Result {
        bridge_unindexed(self, consumer)
    }
}

impl<'t> IntoParallelIterator for &'t Tree {
    type Item = i32;
    type Iter = Walk<'t>;

    fn into_par_iter(self) -> Walk<'t> {
        Walk(self.0.as_deref().map(Part::Subtree).into_iter().collect())
    }
}

#[test]
fn tree_of_a_user_is_iterated_in_order() {
    property(numbers(), |(mut v, _)| {
        let mut tree = Tree::default();
        v.iter().for_each(|n| tree.insert(*n));
        v.sort_unstable();
        same!(tree.par_iter(), v.iter().copied());
        same!(
            tree.par_iter().map(|n| n * 2).filter(|n| *n > 0),
            v.iter().map(|n| n * 2).filter(|n| *n > 0)
        );
        assert_eq!(tree.par_iter().find_first(|n| *n > 0), v.iter().copied().find(|n| *n > 0));
        assert_eq!(tree.par_iter().find_last(|n| *n < 0), v.iter().copied().rfind(|n| *n < 0));
    });
}
