//! The headers of a job: names and texts that travel beside its payload, such as the context of a trace.
//!
//! | bytes of each header | hold |
//! | --- | --- |
//! | 1, and as many | the length of the name; the name |
//! | 2, and as many | the length of the value; the value |
//!
//! Every number is big-endian.

use std::collections::BTreeMap;

use super::error::StoreError;

/// The headers of a job.
pub(crate) type Headers = BTreeMap<String, String>;

/// The most bytes of all headers of a job, as they are stored: each header takes 3 bytes more than its texts.
pub(crate) const HEADER_BYTES: usize = 4096;

/// Checks the headers of a new job.
pub(crate) fn check(headers: &Headers) -> Result<(), StoreError> {
    for name in headers.keys() {
        let (bytes, most) = (name.len(), usize::from(u8::MAX));
        if bytes == 0 || bytes > most {
            return Err(StoreError::TooLong { what: "header's name", bytes, most });
        }
    }
    let bytes = headers.iter().map(|(name, value)| 3 + name.len() + value.len()).sum();
    if bytes > HEADER_BYTES {
        return Err(StoreError::TooLong { what: "headers", bytes, most: HEADER_BYTES });
    }
    Ok(())
}

pub(crate) fn to_bytes(headers: &Headers) -> Vec<u8> {
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
pub(crate) fn read(mut bytes: &[u8]) -> Option<Headers> {
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
        let bytes = to_bytes(&headers);
        assert_eq!(read(&bytes), Some(headers));
        assert_eq!(read(&[]), Some(Headers::new()));
        assert_eq!(read(&bytes[..bytes.len() - 1]), None);
    }

    /// 4 KiB of headers are accepted, and one byte more is refused; so is a name that is empty or too long.
    #[test]
    fn headers_have_4_kib_at_most() {
        assert_eq!(check(&header("n", HEADER_BYTES - 4)), Ok(()));
        let (what, most) = ("headers", HEADER_BYTES);
        let refused = StoreError::TooLong { what, bytes: most + 1, most };
        assert_eq!(check(&header("n", HEADER_BYTES - 3)), Err(refused));
        assert!(check(&header("", 1)).is_err());
        assert!(check(&header(&"n".repeat(256), 1)).is_err());
        assert_eq!(check(&header(&"n".repeat(255), 1)), Ok(()));
    }
}
