//! The choices of a program for its dashboard, with its queues.

use std::sync::Arc;

use super::options::{AccessOf, Audit, Redact};
use super::read::Queue;

/// The choices of the program.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) queues: Vec<Queue>,
    pub(crate) title: String,
    pub(crate) access: Arc<AccessOf>,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) redact: Option<Arc<Redact>>,
    pub(crate) trace_link: Option<String>,
}
