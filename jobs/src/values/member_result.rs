//! The result of a member of a group.

use std::error::Error;

use serde::de::DeserializeOwned;

use super::fail_and_retry::AttemptError;
use super::id::JobId;
use super::info::JobState;

/// How a member of a group has ended, and its result: see [`Group::keep_results`](crate::Group::keep_results).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemberResult {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// How it has ended: completed, dead, cancelled or expired. A dead member that was deleted stays dead here, though
    /// its group counts it as cancelled.
    pub state: JobState,
    /// The JSON of its result, if its last run has completed and set one: see
    /// [`Run::set_result`](crate::Run::set_result).
    pub result: Option<String>,
    /// Its last five failed attempts, the newest first, if it is dead.
    pub errors: Vec<AttemptError>,
}

impl MemberResult {
    /// Returns the result as a value, if there is one.
    ///
    /// # Errors
    ///
    /// If the result does not decode as a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, Box<dyn Error + Send + Sync>> {
        let value = self.result.as_deref().map(serde_json::from_str).transpose();
        value.map_err(|error| format!("the result of {} does not decode: {error}", self.id).into())
    }
}
