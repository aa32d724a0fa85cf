//! The jobs of filch.

use super::Filch;
use crate::bench::pools::Jobs;
use filch::Job;

impl Jobs for Filch {
    fn run_and_wait<J: Fn() + Copy + Send + 'static>(job: J) {
        Job::new(move |_| job()).run_and_wait();
    }

    fn run_children<J: Fn() + Copy + Send + 'static>(children: usize, job: J) {
        let parent = Job::new(move |parent| {
            (0..children).for_each(|_| parent.run_child(move |_| job()));
        });
        parent.run_and_wait();
    }
}
