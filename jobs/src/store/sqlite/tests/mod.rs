//! Tests of the file that need private parts: the steps and the plans of its statements, and what is kept of ended
//! jobs.

pub(super) mod support;

mod completed;
mod kept;
mod lanes;
mod plans;
pub(crate) mod steps;
