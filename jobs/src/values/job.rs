//! What a job is: data with a name.

use core::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind of job: the data that a handler needs, under a name that stays the same.
///
/// The name leads from the store to the handler, so it must not change while jobs of the kind are in
/// a store; the name of the type may. Fields may be added if they have a default
/// (`#[serde(default)]`). A payload that does not decode any more makes the job dead, with its bytes.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tickwheel_jobs::Job;
///
/// #[derive(Serialize, Deserialize)]
/// struct CloseOrder {
///     order: u64,
/// }
///
/// impl Job for CloseOrder {
///     const NAME: &'static str = "close-order";
/// }
/// # assert_eq!(CloseOrder { order: 7 }.encode()?, br#"{"order":7}"#);
/// # Ok::<(), tickwheel_jobs::EncodeError>(())
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The name of the kind: 1 to 255 bytes.
    const NAME: &'static str;

    /// Returns the payload: JSON, unless an implementation chooses otherwise. The store keeps
    /// exactly these bytes.
    ///
    /// # Errors
    ///
    /// If the job cannot be encoded. The insert is refused then, and the job comes back.
    fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        serde_json::to_vec(self).map_err(EncodeError::new)
    }

    /// Returns the job of a payload.
    ///
    /// # Errors
    ///
    /// If the bytes are not a job of this kind. The job is dead then, because trying again would not
    /// help.
    fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        serde_json::from_slice(payload).map_err(DecodeError::new)
    }
}

/// A job that could not be turned into bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodeError(String);

/// Bytes that could not be turned into a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodeError(String);

impl EncodeError {
    /// Returns the error with this reason.
    pub fn new(reason: impl fmt::Display) -> EncodeError {
        EncodeError(reason.to_string())
    }
}

impl DecodeError {
    /// Returns the error with this reason.
    pub fn new(reason: impl fmt::Display) -> DecodeError {
        DecodeError(reason.to_string())
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the job does not encode: {}", self.0)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the payload does not decode: {}", self.0)
    }
}

impl std::error::Error for EncodeError {}
impl std::error::Error for DecodeError {}
