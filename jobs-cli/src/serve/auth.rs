//! Who is let in: the password of HTTP Basic, and the names of the loopback.
//!
//! Ground rules:
//!
//! - The time of a comparison does not depend on the password.
//! - After ten wrong passwords of an address, each further try of it has to wait, longer each time. A try that comes
//!   too early is not compared, so it learns nothing. Of IPv6 the network of 64 bits counts, because one machine has
//!   all addresses of it.
//! - An address waits for its own wrong passwords alone. Where there is no room for another address, the one whose last
//!   wrong password is the oldest is forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// After this many wrong passwords, an address has to wait.
const FREE: u32 = 10;
const LONGEST: Duration = Duration::from_secs(30);
const REMEMBERED: Duration = Duration::from_secs(600);
const MOST: usize = 4096;

pub(crate) struct Gate {
    password: Option<String>,
    /// By [`network`].
    wrong: HashMap<IpAddr, Wrong>,
}

struct Wrong {
    many: u32,
    last: Instant,
    /// Until then, no password of the address is compared.
    next: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    Open,
    /// The request has no password, and its host is no name of the loopback.
    WrongHost,
    /// The request has no password, or a wrong one.
    NoPassword,
    /// The address has to wait before its next try.
    TooManyWrong(Duration),
}

impl Gate {
    pub(crate) fn with_password(password: String) -> Gate {
        Gate { password: Some(password), wrong: HashMap::new() }
    }

    pub(crate) fn of_loopback() -> Gate {
        Gate { password: None, wrong: HashMap::new() }
    }

    pub(crate) fn entry(
        &mut self,
        from: IpAddr,
        host: Option<&str>,
        authorization: Option<&str>,
        now: Instant,
    ) -> Entry {
        let Some(password) = &self.password else {
            return if host.is_some_and(is_loopback) { Entry::Open } else { Entry::WrongHost };
        };
        let Some(given) = authorization.and_then(given_password) else { return Entry::NoPassword };
        let from = network(from);
        if let Some(wrong) = self.wrong.get(&from) {
            if now.duration_since(wrong.last) >= REMEMBERED {
                self.wrong.remove(&from);
            } else if wrong.next > now {
                return Entry::TooManyWrong(wrong.next - now);
            }
        }
        if is_same(given.as_bytes(), password.as_bytes()) {
            self.wrong.remove(&from);
            return Entry::Open;
        }
        if self.wrong.len() >= MOST && !self.wrong.contains_key(&from) {
            let oldest = self.wrong.iter().min_by_key(|(_, wrong)| wrong.last);
            let oldest = oldest.map(|(address, _)| *address);
            oldest.and_then(|oldest| self.wrong.remove(&oldest));
        }
        let wrong = self.wrong.entry(from).or_insert(Wrong { many: 0, last: now, next: now });
        wrong.many = wrong.many.saturating_add(1);
        wrong.last = now;
        if wrong.many >= FREE {
            wrong.next = now + Duration::from_secs((wrong.many - FREE + 1).into()).min(LONGEST);
        }
        Entry::NoPassword
    }
}

/// Returns what counts as one address: of IPv6 its network of 64 bits.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::from((u128::from(address) >> 64 << 64).to_be_bytes())
        }
        other => other,
    }
}

/// Says whether a host, with or without a port, is a name of the loopback.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if port.is_empty() || port.starts_with(':') => name,
            _ => return false,
        },
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Compares two texts in a time that depends on the length of the given one alone.
fn is_same(given: &[u8], password: &[u8]) -> bool {
    let mut differs = given.len() ^ password.len();
    for (at, byte) in given.iter().enumerate() {
        let wanted = password[at % password.len().max(1)];
        differs |= core::hint::black_box(usize::from(byte ^ wanted));
    }
    differs == 0
}

/// Returns the password of a header `Authorization: Basic ..`. The user may have any name.
fn given_password(header: &str) -> Option<String> {
    let (scheme, code) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") || code.len() > 4096 {
        return None;
    }
    let bytes = base64(code.trim())?;
    let text = String::from_utf8(bytes).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

/// Reads base64 (RFC 4648), with or without padding.
fn base64(code: &str) -> Option<Vec<u8>> {
    let code = code.trim_end_matches('=');
    let (mut bits, mut many, mut bytes) = (0u32, 0, Vec::new());
    for digit in code.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        many += 6;
        if many >= 8 {
            many -= 8;
            bytes.push((bits >> many) as u8);
            bits &= (1 << many) - 1;
        }
    }
    Some(bytes)
}

/// Returns a password of 128 bits.
pub(crate) fn made_up() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    #[cfg(unix)]
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    // Elsewhere alone, and here besides: the keys of a hash table come from the system too.
    for half in bytes.chunks_mut(8) {
        let drawn = RandomState::new().hash_one(0).to_ne_bytes();
        half.iter_mut().zip(drawn).for_each(|(byte, drawn)| *byte ^= drawn);
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(code: &str) -> Option<String> {
        given_password(&format!("Basic {code}"))
    }

    fn now() -> Instant {
        tickwheel_jobs::tickwheel::Wheel::builder().manual().unwrap().1.now()
    }

    /// The password of a header is read, for any user; anything else is none.
    #[test]
    fn password_is_read_from_the_header() {
        assert_eq!(basic("YW5uOnNlY3JldA==").as_deref(), Some("secret"));
        assert_eq!(basic("OnNlY3JldA").as_deref(), Some("secret"));
        assert_eq!(basic("YW5uOmE6Yg==").as_deref(), Some("a:b"));
        for wrong in ["", "YW5u", "!!!!", "/////w=="] {
            assert_eq!(basic(wrong), None, "{wrong}");
        }
        assert_eq!(given_password("Bearer YW5uOnNlY3JldA=="), None);
    }

    /// Only the names of the loopback are let in without a password.
    #[test]
    fn loopback_has_its_names() {
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "127.1.2.3", "[::1]", "[::1]:80"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::1].x",
            "::1",
            "10.0.0.1",
            "0.0.0.0",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    /// Two passwords are the same if all of their bytes are.
    #[test]
    fn passwords_are_compared_whole() {
        assert!(is_same(b"secret", b"secret"));
        for given in [&b""[..], b"s", b"secre", b"secrets", b"secretsecret", b"SECRET", b"xecret"] {
            assert!(!is_same(given, b"secret"), "{given:?}");
        }
    }

    /// P95: After ten wrong passwords an address has to wait, and even the right one is refused until then. Another
    /// address need not wait.
    #[test]
    fn wrong_passwords_slow_down() {
        let (mut gate, now) = (Gate::with_password("secret".to_owned()), now());
        let (evil, good) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let (right, wrong) = (Some("Basic OnNlY3JldA=="), Some("Basic Ong="));
        for _ in 0..FREE {
            assert_eq!(gate.entry(evil, None, wrong, now), Entry::NoPassword);
        }
        let wait = Duration::from_secs(1);
        assert_eq!(gate.entry(evil, None, right, now), Entry::TooManyWrong(wait));
        assert_eq!(gate.entry(good, None, right, now), Entry::Open);
        assert_eq!(gate.entry(evil, None, wrong, now + wait), Entry::NoPassword);
        assert_eq!(gate.entry(evil, None, right, now + wait), Entry::TooManyWrong(2 * wait));
        assert_eq!(gate.entry(evil, None, right, now + 3 * wait), Entry::Open);
        assert_eq!(gate.entry(evil, None, wrong, now + 3 * wait), Entry::NoPassword);
        assert_eq!(gate.entry(evil, None, None, now), Entry::NoPassword);
    }

    /// P95: However many addresses send wrong passwords, another address need not wait for them, and they take a
    /// bounded part of the memory. The addresses of one IPv6 network count as one, and an IPv4 address written as IPv6
    /// is itself.
    #[test]
    fn many_addresses_lock_out_no_other_one() {
        let (mut gate, now) = (Gate::with_password("secret".to_owned()), now());
        let (right, wrong) = (Some("Basic OnNlY3JldA=="), Some("Basic Ong="));
        for number in 0..3 * MOST as u32 {
            let evil = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
            assert_eq!(gate.entry(evil, None, wrong, now), Entry::NoPassword);
        }
        assert_eq!(gate.wrong.len(), MOST);
        let good = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(gate.entry(good, None, wrong, now), Entry::NoPassword);
        assert_eq!(gate.entry(good, None, right, now), Entry::Open);
        let of_network =
            |network: u16, host| IpAddr::from([0x2001, 0xdb8, 0, network, host, 0, 0, 1]);
        for host in 0..FREE as u16 {
            assert_eq!(gate.entry(of_network(7, host), None, wrong, now), Entry::NoPassword);
        }
        let entry = gate.entry(of_network(7, 99), None, right, now);
        assert!(matches!(entry, Entry::TooManyWrong(_)), "{entry:?}");
        assert_eq!(gate.entry(of_network(8, 0), None, right, now), Entry::Open);
        assert_eq!(network("::ffff:192.0.2.1".parse().unwrap()), good);
    }

    /// A password that is made up is another each time.
    #[test]
    fn made_up_passwords_differ() {
        let (a, b) = (made_up().unwrap(), made_up().unwrap());
        assert!(a != b && a.len() == 32, "{a} {b}");
    }
}
