//! Tests of the scheduler, on the rig.

mod settle;
