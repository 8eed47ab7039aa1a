//! Properties that few jobs have: a retry policy of their own, and a key that is held until the end of the job.
//!
//! Ground rules:
//!
//! - A job without these properties stores no bytes for them.
//! - Every store keeps the same bytes, and returns them unchanged.
//!
//! | bytes | hold |
//! | --- | --- |
//! | 1 | the version, 1 |
//! | 1 | flags: 1 the job holds its key until its end, 2 a retry policy follows |
//! | 8 and 4 | the policy's first wait: seconds, nanoseconds |
//! | 8 and 4 | its longest wait, in the same form |
//! | 4 | its number of retries |
//! | 1 | 1 if the waits double |
//!
//! Every number is big-endian.

use super::retry::Retry;

/// Properties that few jobs have. A job without them has no `Extra`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Extra {
    /// The retry policy of this job, which overrides that of its handler.
    pub(crate) retry: Option<Retry>,
    /// The job holds its key until it has ended.
    pub(crate) holds_key: bool,
}

impl Extra {
    /// Returns the properties in a box, or `None` if there are none.
    pub(crate) fn boxed(self) -> Option<Box<Extra>> {
        (self != Extra::default()).then(|| Box::new(self))
    }
}

#[cfg(any(feature = "sqlite-unbundled", feature = "redis", test))]
mod bytes {
    use std::time::Duration;

    use super::Extra;
    use crate::values::error::StoreError;
    use crate::values::retry::Retry;

    const VERSION: u8 = 1;
    const HOLDS_KEY: u8 = 1;
    const HAS_RETRY: u8 = 2;

    impl Extra {
        /// Returns the bytes that a store keeps.
        pub(crate) fn to_bytes(&self) -> Vec<u8> {
            let mut bytes = vec![VERSION, 0];
            if self.holds_key {
                bytes[1] |= HOLDS_KEY;
            }
            if let Some(retry) = &self.retry {
                bytes[1] |= HAS_RETRY;
                let (base, cap, times, doubles) = retry.parts();
                for wait in [base, cap] {
                    bytes.extend(wait.as_secs().to_be_bytes());
                    bytes.extend(wait.subsec_nanos().to_be_bytes());
                }
                bytes.extend(times.to_be_bytes());
                bytes.push(u8::from(doubles));
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

    fn parse(bytes: &[u8]) -> Option<Extra> {
        let (&[VERSION, marks], mut rest) = bytes.split_first_chunk()? else { return None };
        let mut retry = None;
        if marks & HAS_RETRY != 0 {
            let (base, cap) = (wait(&mut rest)?, wait(&mut rest)?);
            let times = u32::from_be_bytes(take(&mut rest)?);
            let [doubles @ (0 | 1)] = take(&mut rest)? else { return None };
            retry = Some(Retry::from_parts(base, cap, times, doubles == 1));
        }
        let is_known = marks & !(HOLDS_KEY | HAS_RETRY) == 0;
        let extra = Extra { retry, holds_key: marks & HOLDS_KEY != 0 };
        (is_known && rest.is_empty()).then_some(extra)
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
    use std::time::Duration;

    use super::*;

    /// Properties are read back unchanged, and bytes that no program writes are refused.
    #[test]
    fn extra_is_read_back_as_it_was() {
        let second = Duration::from_secs(1);
        for retry in [
            None,
            Some(Retry::never()),
            Some(Retry::fixed(Duration::from_nanos(1))),
            Some(Retry::exponential(second).max_delay(Duration::MAX).max_retries(u32::MAX)),
        ] {
            for holds_key in [false, true] {
                let extra = Extra { retry, holds_key };
                let bytes = extra.to_bytes();
                assert_eq!(Extra::read(Some(&bytes)).unwrap(), extra.boxed());
                assert!(Extra::read(Some(&bytes[..bytes.len() - 1])).is_err());
                assert!(Extra::read(Some(&[&bytes[..], &[0]].concat())).is_err());
            }
        }
        for wrong in [&[][..], &[1], &[2, 1], &[1, 4]] {
            assert!(Extra::read(Some(wrong)).is_err(), "{wrong:?}");
        }
        assert_eq!(Extra::read(None).unwrap(), None);
        assert_eq!(Extra::default().boxed(), None);
    }
}
