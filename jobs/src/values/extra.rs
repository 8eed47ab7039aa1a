//! Properties that few jobs have: a partition, headers, a retry policy of their own, a key that is held until the end of
//! the job.
//!
//! Ground rules:
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
//! | 1, a retry policy | the first wait and the longest wait, each as seconds (8) and nanoseconds (4); the number of retries (4); 1 if the waits double (1) |
//! | 2, headers | see `headers.rs` |
//! | 3, the partition | its text; the first section, or the one behind a burst |
//! | 4, the group of which the job is a member | the id of the group (16) |
//! | 5, the group whose callback the job is | the id of the group (16) |
//! | 128, a burst | the time of its first job and the longest wait, each in milliseconds (8); the first section of all |
//!
//! Every number is big-endian.

use std::sync::Arc;
use std::time::Duration;

use super::group::GroupId;
use super::headers::Headers;
use super::retry::Retry;
use super::time::Millis;

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
    /// The partition of the job: see [`Job::partition`](crate::Job::partition).
    pub(crate) partition: Option<Arc<str>>,
    /// The group of which the job is a member.
    pub(crate) group: Option<GroupId>,
    /// The group whose callback the job is.
    pub(crate) callback_of: Option<GroupId>,
}

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
    pub(crate) headers: Headers,
}

impl Shown {
    pub(crate) fn of(extra: &Extra) -> Shown {
        Shown {
            partition: extra.partition.as_ref().map(|partition| partition.to_string()),
            group: extra.group,
            headers: extra.headers.clone(),
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

    use super::{Burst, Extra};
    use crate::values::error::StoreError;
    use crate::values::group::GroupId;
    use crate::values::headers;
    use crate::values::retry::Retry;
    use crate::values::time::Millis;

    const VERSION: u8 = 1;
    const HOLDS_KEY: u8 = 1;
    const WANTED: u8 = 2;
    const RETRY: u8 = 1;
    const HEADERS: u8 = 2;
    const PARTITION: u8 = 3;
    const GROUP: u8 = 4;
    const CALLBACK_OF: u8 = 5;
    /// From this number on, a reader may ignore a section.
    const OPTIONAL: u8 = 128;
    /// An earlier version, which cannot debounce, takes the job as any other.
    const BURST: u8 = OPTIONAL;

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
            if let Some(retry) = &self.retry {
                let (base, cap, times, doubles) = retry.parts();
                let mut content = Vec::with_capacity(29);
                for wait in [base, cap] {
                    content.extend(wait.as_secs().to_be_bytes());
                    content.extend(wait.subsec_nanos().to_be_bytes());
                }
                content.extend(times.to_be_bytes());
                content.push(u8::from(doubles));
                add(&mut bytes, RETRY, &content);
            }
            if !self.headers.is_empty() {
                add(&mut bytes, HEADERS, &headers::to_bytes(&self.headers));
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
                HEADERS => extra.headers = headers::read(content)?,
                PARTITION => extra.partition = Some(Arc::from(str::from_utf8(content).ok()?)),
                GROUP => extra.group = Some(group(content)?),
                CALLBACK_OF => extra.callback_of = Some(group(content)?),
                BURST => extra.burst = Some(burst(content)?),
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
        let (base, cap) = (wait(&mut content)?, wait(&mut content)?);
        let times = u32::from_be_bytes(take(&mut content)?);
        let [doubles @ (0 | 1)] = take(&mut content)? else { return None };
        content.is_empty().then(|| Retry::from_parts(base, cap, times, doubles == 1))
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
                let extra = Extra {
                    retry,
                    holds_key,
                    headers,
                    wanted,
                    burst,
                    partition,
                    group,
                    callback_of,
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
        for wrong in [&[][..], &[1], &[2, 1], &[1, 4]] {
            assert!(Extra::read(Some(wrong)).is_err(), "{wrong:?}");
        }
        assert_eq!(Extra::read(None).unwrap(), None);
        assert_eq!(Extra::default().boxed(), None);
    }
}
