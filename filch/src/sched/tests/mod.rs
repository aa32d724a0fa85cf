//! Tests of the scheduler, on the rig.
