//! A job as a value: the trait of its data, its headers, and the properties that few jobs have: a partition, a retry
//! policy of their own, a key that is held until the end of the job, a group, an expiry, a burst, the progress of
//! earlier runs.
//!
//! Ground rules of the properties that few jobs have:
//!
//! - A job without these properties stores no bytes for them.
//! - Every store keeps the same bytes, and returns them unchanged.
//! - A later version may add sections. A reader that does not know a section refuses the bytes if the number of
//!   the section is below 128, and ignores the section otherwise.
//!
//! | bytes | hold |
//! | --- | --- |
//! | 1 | the version, 1 |
//! | 1 | marks: 1 the job holds its key until its end, 2 a caller waits for its end |
//! | 1, 2, and as many | of each section: its number, its length, its content |
//!
//! | section | content |
//! | --- | --- |
//! | 1, a retry policy | first and longest wait, each in seconds (8), nanoseconds (4); retries (4); 1 if doubling (1) |
//! | 2, headers | of each: the length of its name (1), the name, the length of its value (2), the value |
//! | 3, the partition | its text; the first section, or the one behind a burst |
//! | 4, the group of which the job is a member | the id of the group (16) |
//! | 5, the group whose callback the job is | the id of the group (16) |
//! | 6, the expiry: no run starts after it | the time, in milliseconds (8) |
//! | 128, a burst | the time of its first job, the longest wait, in milliseconds (8 each); the first section of all |
//! | 129, the progress that its earlier runs have left | JSON; the last section of all |
//!
//! Every number is big-endian. Headers are names and texts that travel beside the payload, such as the context of a
//! trace.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::StoreError;
use super::fail_and_retry::Retry;
use super::group::GroupId;
use super::invalid_input::InvalidInput;
use super::time::Millis;

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
/// # use std::error::Error;
/// # use tickwheel_jobs::Job;
/// #[derive(Serialize, Deserialize)]
/// struct Reprice {
///     factor: f64,
/// }
///
/// impl Job for Reprice {
///     const KIND: &'static str = "reprice";
///
///     fn encode(&self) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
///         match self.factor.is_finite() {
///             true => Ok(serde_json::to_vec(self)?),
///             false => Err("the factor is no number".into()),
///         }
///     }
/// }
/// # assert!(Reprice { factor: f64::NAN }.encode().is_err());
/// # assert!(Reprice::decode(&Reprice { factor: 0.5 }.encode()?).is_ok());
/// # Ok::<(), Box<dyn Error + Send + Sync>>(())
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
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
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

    /// How long after its due time a job of the kind may still start: a push that is ten minutes old, or a reminder of
    /// yesterday, is better not sent. The time counts from the due time that the job has at its insert.
    /// [`NewJob::expires`](crate::NewJob::expires) overrides it for one job. A due time in the past counts too, so such
    /// a job may have expired at its insert. By default no job expires.
    ///
    /// Every insert that knows the type applies it. Each occurrence of a schedule gets it in the process that runs the
    /// kind. It does not apply to a job whose due time is not known at the insert: to the callback of a
    /// [group](crate::Client::group), and to a job that keeps the due time of another
    /// ([`NewJob::keeping_time`](crate::NewJob::keeping_time)). It does not apply to a copy
    /// ([`Client::insert_copy`](crate::Client::insert_copy)) or to an occurrence that is made by hand. A stored job
    /// keeps its expiry when its due time changes: by a reschedule, or by the end of the burst of a debounced job.
    #[doc(alias("ttl", "timeout", "expires_in", "max_age"))]
    const EXPIRES: Option<Duration> = None;

    /// Returns the partition of the job: the name of its customer, device or host. By default a job has no partition.
    ///
    /// The due jobs of a kind are taken from its partitions in turn, so a partition with few jobs does not wait
    /// behind one with many. Within a partition they start in the order of their due times.
    /// [`Kind::limit_each`](crate::Kind::limit_each) limits how many of each run at once. A partition has 1 to 255
    /// bytes: the insert refuses others with [`InvalidInput::TooLong`].
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
    fn encode(&self) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        let mut payload = Vec::with_capacity(128);
        let mut json = serde_json::Serializer::with_formatter(&mut payload, Levels(0));
        self.serialize(&mut json)?;
        Ok(payload)
    }

    /// Returns the job of a payload.
    ///
    /// # Errors
    ///
    /// If the bytes are not a job of this kind. The job is dead then, because a retry would fail too.
    fn decode(payload: &[u8]) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(serde_json::from_slice(payload)?)
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

/// The headers of a job.
pub(crate) type Headers = BTreeMap<String, String>;

/// The most bytes of all headers of a job, as they are stored: each header takes 3 bytes more than its texts.
pub(crate) const HEADER_BYTES: usize = 4096;

/// Checks the headers of a new job.
pub(crate) fn check_headers(headers: &Headers) -> Result<(), StoreError> {
    for name in headers.keys() {
        let (bytes, most) = (name.len(), usize::from(u8::MAX));
        if bytes == 0 || bytes > most {
            return Err(InvalidInput::TooLong { what: "header's name", bytes, most }.into());
        }
    }
    let bytes = headers.iter().map(|(name, value)| 3 + name.len() + value.len()).sum();
    if bytes > HEADER_BYTES {
        return Err(InvalidInput::TooLong { what: "headers", bytes, most: HEADER_BYTES }.into());
    }
    Ok(())
}

pub(crate) fn headers_to_bytes(headers: &Headers) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in headers {
        bytes.push(name.len() as u8);
        bytes.extend(name.as_bytes());
        bytes.extend((value.len() as u16).to_be_bytes());
        bytes.extend(value.as_bytes());
    }
    bytes
}

/// Reads headers, or returns `None` if no program of this version wrote the bytes.
#[cfg_attr(
    not(any(feature = "sqlite-unbundled", feature = "redis", test)),
    allow(dead_code, reason = "memory keeps no bytes")
)]
pub(crate) fn read_headers(mut bytes: &[u8]) -> Option<Headers> {
    let mut headers = Headers::new();
    while !bytes.is_empty() {
        let ([length], rest) = bytes.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (length, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        headers.insert(text(name)?, text(value)?);
        bytes = rest;
    }
    Some(headers)
}

/// Properties that few jobs have. A job without them has no `Extra`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Extra {
    /// The retry policy of this job, which overrides that of its handler.
    pub(crate) retry: Option<Retry>,
    /// The job holds its key until it has ended.
    pub(crate) holds_key: bool,
    pub(crate) headers: Headers,
    /// A caller waits for the end of the job, so it is kept for a while.
    pub(crate) wanted: bool,
    /// The burst of jobs for which a debounced job stands.
    pub(crate) burst: Option<Burst>,
    /// The partition of the job: see [`Job::partition`].
    pub(crate) partition: Option<Arc<str>>,
    /// The group of which the job is a member.
    pub(crate) group: Option<GroupId>,
    /// The group keeps the result of the run. Only a server sets it, in a claim. It is not among the bytes of the extra.
    pub(crate) gives_result: bool,
    /// The group whose callback the job is.
    pub(crate) callback_of: Option<GroupId>,
    /// No run of the job starts after this time.
    pub(crate) expires: Option<Millis>,
    /// The latest progress of its earlier runs, as JSON.
    pub(crate) progress: Option<Box<[u8]>>,
}

/// The longest progress, in bytes of JSON.
pub(crate) const PROGRESS_BYTES: usize = 4 << 10;

/// A burst of debounced jobs, of which the last one is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Burst {
    /// When its first job was inserted.
    pub(crate) first: Millis,
    /// How long after that its job is due at the latest.
    pub(crate) at_most: Millis,
}

impl Burst {
    pub(crate) fn new(first: Millis, at_most: Duration) -> Burst {
        Burst { first, at_most: Millis::ZERO.plus(at_most) }
    }

    /// Returns when its job is due at the latest.
    pub(crate) fn latest(self) -> Millis {
        self.first.plus(self.at_most.since(Millis::ZERO))
    }
}

impl Extra {
    /// Returns the properties in a box, or `None` if there are none.
    pub(crate) fn boxed(self) -> Option<Box<Extra>> {
        (self != Extra::default()).then(|| Box::new(self))
    }

    /// Returns the properties with this progress, or with none. A value that is too long is no progress.
    pub(crate) fn with_progress(
        extra: Option<Box<Extra>>,
        progress: Option<Vec<u8>>,
    ) -> Option<Box<Extra>> {
        let progress = progress.filter(|json| json.len() <= PROGRESS_BYTES);
        if progress.is_none() && extra.as_ref().is_none_or(|extra| extra.progress.is_none()) {
            return extra;
        }
        Extra { progress: progress.map(Vec::into), ..*extra.unwrap_or_default() }.boxed()
    }
}

/// Says whether a job with these properties may still start.
pub(crate) fn may_start(extra: Option<&Extra>, now: Millis) -> bool {
    extra.and_then(|extra| extra.expires).is_none_or(|expires| is_in_time(expires, now))
}

/// Says whether a job with this expiry may still start: until the millisecond in which it expires is over.
pub(crate) fn is_in_time(expires: Millis, now: Millis) -> bool {
    expires >= now
}

/// Returns the partition of a job with these properties.
pub(crate) fn partition_of(extra: Option<&Extra>) -> Option<&Arc<str>> {
    extra.and_then(|extra| extra.partition.as_ref())
}

/// Returns the group of which a job with these properties is a member.
pub(crate) fn group_of(extra: Option<&Extra>) -> Option<GroupId> {
    extra.and_then(|extra| extra.group)
}

/// The properties of a job that [`JobInfo`](super::info::JobInfo) shows.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) partition: Option<String>,
    pub(crate) group: Option<GroupId>,
    pub(crate) retry: Option<Retry>,
    pub(crate) expires: Option<Millis>,
    pub(crate) headers: Headers,
    pub(crate) progress: Option<Vec<u8>>,
}

impl Shown {
    pub(crate) fn of(extra: &Extra) -> Shown {
        Shown {
            partition: extra.partition.as_ref().map(|partition| partition.to_string()),
            group: extra.group,
            retry: extra.retry,
            expires: extra.expires,
            headers: extra.headers.clone(),
            progress: extra.progress.as_deref().map(<[u8]>::to_vec),
        }
    }

    /// Damaged bytes have none of it: a list shows the job without them.
    #[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
    pub(crate) fn read(bytes: Option<&[u8]>) -> Shown {
        Extra::read(bytes).ok().flatten().as_deref().map_or_else(Shown::default, Shown::of)
    }
}

#[cfg_attr(
    not(any(feature = "sqlite-unbundled", feature = "redis", test)),
    allow(dead_code, reason = "memory keeps no bytes, and only counts them")
)]
mod bytes {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Burst, Extra, headers_to_bytes, read_headers};
    use crate::values::error::StoreError;
    use crate::values::fail_and_retry::{Growth, Retry};
    use crate::values::group::GroupId;
    use crate::values::time::Millis;

    const VERSION: u8 = 1;
    const HOLDS_KEY: u8 = 1;
    const WANTED: u8 = 2;
    const RETRY: u8 = 1;
    const HEADERS: u8 = 2;
    const PARTITION: u8 = 3;
    const GROUP: u8 = 4;
    const CALLBACK_OF: u8 = 5;
    /// An earlier version would start the job too late, so it must refuse this section.
    const EXPIRES: u8 = 6;
    /// From this number on, a reader may ignore a section.
    const OPTIONAL: u8 = 128;
    /// An earlier version, which cannot debounce, takes the job as any other.
    const BURST: u8 = OPTIONAL;
    const PROGRESS: u8 = OPTIONAL + 1;

    impl Extra {
        /// Returns the bytes that a store keeps.
        pub(crate) fn to_bytes(&self) -> Vec<u8> {
            let holds_key = if self.holds_key { HOLDS_KEY } else { 0 };
            let mut bytes = vec![VERSION, holds_key | if self.wanted { WANTED } else { 0 }];
            if let Some(Burst { first, at_most }) = self.burst {
                let content = [first, at_most].map(|time| time.get().to_be_bytes()).concat();
                add(&mut bytes, BURST, &content);
            }
            if let Some(partition) = &self.partition {
                add(&mut bytes, PARTITION, partition.as_bytes());
            }
            for (section, group) in [(GROUP, self.group), (CALLBACK_OF, self.callback_of)] {
                if let Some(group) = group {
                    add(&mut bytes, section, &group.to_u128().to_be_bytes());
                }
            }
            if let Some(expires) = self.expires {
                add(&mut bytes, EXPIRES, &expires.get().to_be_bytes());
            }
            if let Some(retry) = &self.retry {
                let mut content = Vec::with_capacity(29);
                for wait in [retry.base, retry.max_delay] {
                    content.extend(wait.as_secs().to_be_bytes());
                    content.extend(wait.subsec_nanos().to_be_bytes());
                }
                content.extend(retry.max_retries.to_be_bytes());
                content.push(u8::from(retry.growth == Growth::Doubled));
                add(&mut bytes, RETRY, &content);
            }
            if !self.headers.is_empty() {
                add(&mut bytes, HEADERS, &headers_to_bytes(&self.headers));
            }
            if let Some(progress) = &self.progress {
                add(&mut bytes, PROGRESS, progress);
            }
            bytes
        }

        /// Reads the bytes that a store has kept.
        ///
        /// # Errors
        ///
        /// If no program of this version wrote the bytes.
        pub(crate) fn read(bytes: Option<&[u8]>) -> Result<Option<Box<Extra>>, StoreError> {
            let Some(bytes) = bytes else { return Ok(None) };
            match parse(bytes) {
                Some(extra) => Ok(extra.boxed()),
                None => {
                    Err(StoreError::Damaged("what a job has besides makes no sense".to_owned()))
                }
            }
        }
    }

    fn add(bytes: &mut Vec<u8>, section: u8, content: &[u8]) {
        bytes.push(section);
        bytes.extend((content.len() as u16).to_be_bytes());
        bytes.extend(content);
    }

    fn parse(bytes: &[u8]) -> Option<Extra> {
        let (&[VERSION, marks @ 0..=3], mut rest) = bytes.split_first_chunk()? else {
            return None;
        };
        let (holds_key, wanted) = (marks & HOLDS_KEY != 0, marks & WANTED != 0);
        let mut extra = Extra { holds_key, wanted, ..Extra::default() };
        while !rest.is_empty() {
            let [section] = take(&mut rest)?;
            let length = u16::from_be_bytes(take(&mut rest)?);
            let (content, behind) = rest.split_at_checked(usize::from(length))?;
            rest = behind;
            match section {
                RETRY => extra.retry = Some(retry(content)?),
                HEADERS => extra.headers = read_headers(content)?,
                PARTITION => extra.partition = Some(Arc::from(str::from_utf8(content).ok()?)),
                GROUP => extra.group = Some(group(content)?),
                CALLBACK_OF => extra.callback_of = Some(group(content)?),
                EXPIRES => {
                    let expires = i64::from_be_bytes(content.try_into().ok()?);
                    extra.expires = Some(Millis::clamped(expires));
                }
                BURST => extra.burst = Some(burst(content)?),
                PROGRESS => extra.progress = Some(content.into()),
                _ if section >= OPTIONAL => {}
                _ => return None,
            }
        }
        Some(extra)
    }

    fn group(content: &[u8]) -> Option<GroupId> {
        Some(GroupId::from_u128(u128::from_be_bytes(content.try_into().ok()?)))
    }

    fn burst(mut content: &[u8]) -> Option<Burst> {
        let mut time = || Some(Millis::clamped(i64::from_be_bytes(take(&mut content)?)));
        let (first, at_most) = (time()?, time()?);
        content.is_empty().then_some(Burst { first, at_most })
    }

    fn retry(mut content: &[u8]) -> Option<Retry> {
        let (base, max_delay) = (wait(&mut content)?, wait(&mut content)?);
        let max_retries = u32::from_be_bytes(take(&mut content)?);
        let growth = match take(&mut content)? {
            [0] => Growth::Constant,
            [1] => Growth::Doubled,
            _ => return None,
        };
        content.is_empty().then_some(Retry { base, growth, max_delay, max_retries })
    }

    fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
        let (taken, behind) = rest.split_first_chunk()?;
        *rest = behind;
        Some(*taken)
    }

    fn wait(rest: &mut &[u8]) -> Option<Duration> {
        let seconds = u64::from_be_bytes(take(rest)?);
        let nanos = u32::from_be_bytes(take(rest)?);
        (nanos < 1_000_000_000).then(|| Duration::new(seconds, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, bytes: usize) -> Headers {
        [(name.to_owned(), "x".repeat(bytes))].into()
    }

    /// Headers are read back unchanged, and bytes that were cut are refused.
    #[test]
    fn headers_are_read_back() {
        let mut headers = header("traceparent", 55);
        headers.extend(header("", 0));
        headers.extend(header("t", 4000));
        let bytes = headers_to_bytes(&headers);
        assert_eq!(read_headers(&bytes), Some(headers));
        assert_eq!(read_headers(&[]), Some(Headers::new()));
        assert_eq!(read_headers(&bytes[..bytes.len() - 1]), None);
    }

    /// 4 KiB of headers are accepted, and one byte more is refused; so is a name that is empty or too long.
    #[test]
    fn headers_have_4_kib_at_most() {
        assert_eq!(check_headers(&header("n", HEADER_BYTES - 4)), Ok(()));
        let (what, most) = ("headers", HEADER_BYTES);
        let refused = StoreError::Invalid(InvalidInput::TooLong { what, bytes: most + 1, most });
        assert_eq!(check_headers(&header("n", HEADER_BYTES - 3)), Err(refused));
        assert!(check_headers(&header("", 1)).is_err());
        assert!(check_headers(&header(&"n".repeat(256), 1)).is_err());
        assert_eq!(check_headers(&header(&"n".repeat(255), 1)), Ok(()));
    }

    /// Properties are read back unchanged, and bytes that no program writes are refused.
    #[test]
    fn extra_is_read_back_as_it_was() {
        let second = Duration::from_secs(1);
        let trace: Headers = [("traceparent".to_owned(), "00-ab-cd-01".to_owned())].into();
        for retry in [
            None,
            Some(Retry::never()),
            Some(Retry::fixed(Duration::from_nanos(1))),
            Some(Retry::exponential(second).max_delay(Duration::MAX).max_retries(u32::MAX)),
        ] {
            for (holds_key, headers) in [(false, Headers::new()), (true, trace.clone())] {
                let burst = holds_key.then(|| Burst::new(Millis::MAX, Duration::MAX));
                let (partition, wanted) = (holds_key.then(|| Arc::from("acme")), !holds_key);
                let group = holds_key.then(GroupId::new);
                let callback_of = (!holds_key).then(GroupId::new);
                let expires = holds_key.then_some(Millis::MAX);
                let progress = holds_key.then(|| Box::from(*b"[70000]"));
                let extra = Extra {
                    retry,
                    holds_key,
                    headers,
                    wanted,
                    burst,
                    partition,
                    group,
                    gives_result: false,
                    callback_of,
                    expires,
                    progress,
                };
                let bytes = extra.to_bytes();
                assert_eq!(Extra::read(Some(&bytes)).unwrap(), extra.clone().boxed());
                assert!(Extra::read(Some(&bytes[..bytes.len() - 1])).is_err());
                assert!(Extra::read(Some(&[&bytes[..], &[0]].concat())).is_err());
                // A later version adds a section: 200 may be ignored, 100 may not.
                let with = |section| [&bytes[..], &[section, 0, 1, 7]].concat();
                assert_eq!(Extra::read(Some(&with(200))).unwrap(), extra.boxed());
                assert!(Extra::read(Some(&with(100))).is_err());
            }
        }
        // A version before the progress of runs ignores it. One before the expiry would start the job too late.
        let progress = Some(Box::from(*b"7"));
        let progress = Extra { progress, ..Extra::default() }.to_bytes();
        let expires = Extra { expires: Some(Millis::ZERO), ..Extra::default() }.to_bytes();
        assert!(
            (progress[2], progress.len()) == (129, 6) && (expires[2], expires.len()) == (6, 13)
        );
        for wrong in [&[][..], &[1], &[2, 1], &[1, 4]] {
            assert!(Extra::read(Some(wrong)).is_err(), "{wrong:?}");
        }
        assert_eq!(Extra::read(None).unwrap(), None);
        assert_eq!(Extra::default().boxed(), None);
    }
}
