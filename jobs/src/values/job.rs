//! The trait of a job: data of a named kind.

use std::io::{self, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{DecodeError, EncodeError};

/// A kind of job: the data that a handler needs, under a name that stays the same. (`tickwheel::Job` is another
/// type: a struct that holds a closure.)
///
/// The store keeps the name and finds the handler by it. So the name must not change while the store has jobs
/// of the kind; the name of the type may change. A field may be added if it has a default
/// (`#[serde(default)]`). If a payload does not decode any more, its job is dead and keeps the payload.
///
/// A payload is JSON, which has limits. The insert refuses a value that is nested more than 127 levels deep. It
/// does not refuse a NaN or an infinite number: JSON has `null` in its place, which does not decode as a
/// number, so the job is dead when it is due. Make such a field an `Option` or text, or refuse the value in an
/// `encode` of your own:
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use tickwheel_jobs::{EncodeError, Job};
/// #[derive(Serialize, Deserialize)]
/// struct Reprice {
///     factor: f64,
/// }
///
/// impl Job for Reprice {
///     const KIND: &'static str = "reprice";
///
///     fn encode(&self) -> Result<Vec<u8>, EncodeError> {
///         match self.factor.is_finite() {
///             true => serde_json::to_vec(self).map_err(EncodeError::new),
///             false => Err(EncodeError::new("the factor is no number")),
///         }
///     }
/// }
/// # assert!(Reprice { factor: f64::NAN }.encode().is_err());
/// # assert!(Reprice::decode(&Reprice { factor: 0.5 }.encode()?).is_ok());
/// # Ok::<(), EncodeError>(())
/// ```
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
///     const KIND: &'static str = "close-order";
/// }
/// # assert_eq!(CloseOrder { order: 7 }.encode()?, br#"{"order":7}"#);
/// # Ok::<(), tickwheel_jobs::EncodeError>(())
/// ```
#[doc(alias("task", "worker", "message", "payload"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no job: it has no name under which it could be stored",
    label = "`Job` is not implemented for this type",
    note = "a job is data with a name: `#[derive(serde::Serialize, serde::Deserialize)]` on the type, and \
            `impl tickwheel_jobs::Job for {Self} {{ const KIND: &'static str = \"a-name-that-stays\"; }}`"
)]
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The name of the kind: 1 to 255 bytes.
    const KIND: &'static str;

    /// The name of the flow, of 1 to 255 bytes: the kinds of one flow share its limits, which
    /// [`Kind::limit`](crate::Kind::limit) sets. By default each kind is a flow of its own.
    const FLOW: &'static str = Self::KIND;

    /// Returns the partition of the job: the name of its customer, device or host. By default a job has no partition.
    ///
    /// The due jobs of a kind are taken from its partitions in turn, so a partition with few jobs does not wait
    /// behind one with many. Within a partition they start in the order of their due times.
    /// [`Kind::limit_each`](crate::Kind::limit_each) limits how many of each run at once. A partition has 1 to 255
    /// bytes: the insert refuses others with [`StoreError::TooLong`](crate::StoreError::TooLong).
    ///
    /// The insert calls this once, and the store keeps what it returns. Occurrences of a schedule have no partition.
    #[doc(alias("tenant", "group", "shard", "concurrency_key"))]
    fn partition(&self) -> Option<String> {
        None
    }

    /// Returns the payload: JSON, unless an implementation chooses otherwise. The store keeps
    /// exactly these bytes.
    ///
    /// # Errors
    ///
    /// If the job cannot be encoded. The insert is refused then, and its error returns the job.
    fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut payload = Vec::with_capacity(128);
        let mut json = serde_json::Serializer::with_formatter(&mut payload, Levels(0));
        self.serialize(&mut json).map_err(EncodeError::new)?;
        Ok(payload)
    }

    /// Returns the job of a payload.
    ///
    /// # Errors
    ///
    /// If the bytes are not a job of this kind. The job is dead then, because a retry would fail too.
    fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        serde_json::from_slice(payload).map_err(DecodeError::new)
    }
}

/// The deepest nesting of arrays and objects: serde_json reads no deeper.
const MOST_LEVELS: u32 = 127;

/// Writes JSON without blanks, and counts the levels of nesting.
struct Levels(u32);

impl Levels {
    fn begin<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.0 += 1;
        if self.0 > MOST_LEVELS {
            return Err(io::Error::other(format!("nested more than {MOST_LEVELS} levels deep")));
        }
        writer.write_all(bracket)
    }

    fn end<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.0 -= 1;
        writer.write_all(bracket)
    }
}

impl serde_json::ser::Formatter for Levels {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }
}
