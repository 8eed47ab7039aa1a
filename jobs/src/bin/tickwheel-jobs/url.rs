//! The URL of a server, as a user writes it.
//!
//! Ground rules:
//!
//! - Every text that `Jobs::redis` accepts is a URL here, and so is every other text that begins with a
//!   scheme and `://`. Otherwise a URL with a typing error in its scheme would be the name of a file, and
//!   its password would be printed.
//! - Only the scheme of a URL is printed: a password without its `@` looks like a host.

use core::fmt;
use std::error::Error;
use std::path::Path;

/// The environment variable with the password of the store.
pub(crate) const PASSWORD_VARIABLE: &str = "TICKWHEEL_STORE_PASSWORD";

/// The schemes that make a URL even without `//`: those that the library knows.
const SCHEMES: [&str; 11] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "unix",
    "redis+unix",
    "valkey+unix",
    "redis-cluster",
    "rediss-cluster",
    "redis-sentinel",
    "rediss-sentinel",
];

/// The schemes of a socket in the file system. Their URLs have the password as a parameter.
const SOCKETS: [&str; 3] = ["unix", "redis+unix", "valkey+unix"];

/// A text that is a URL, and so no path.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl(String);

impl ServerUrl {
    /// Returns the text as a URL, if it is one.
    pub(crate) fn parse(text: &str) -> Option<ServerUrl> {
        // A parser of URLs ignores these characters.
        let text: String = text.chars().filter(|c| !['\t', '\n', '\r'].contains(c)).collect();
        let text = text.trim_matches(|c: char| c <= ' ');
        let (scheme, rest) = text.split_once(':')?;
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        let is_scheme =
            scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(is_letter);
        let is_known = SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known));
        (is_scheme && (is_known || rest.starts_with("//"))).then(|| ServerUrl(text.to_owned()))
    }

    /// Returns the whole URL, for the library only.
    #[cfg(feature = "redis")]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part of the URL that may be printed.
    pub(crate) fn printable(&self) -> String {
        let scheme = self.0.split(':').next().unwrap_or_default();
        format!("{scheme}:..")
    }

    /// Returns the URL with this password, or `None` if it has one already.
    pub(crate) fn with_password(&self, password: &str) -> Option<ServerUrl> {
        let (scheme, rest) = self.0.split_once(':').unwrap_or(("", &self.0));
        let password = percent_encoded(password);
        if SOCKETS.iter().any(|socket| scheme.eq_ignore_ascii_case(socket)) {
            let rest = rest.split('#').next().unwrap_or_default();
            let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
            if query.split('&').any(|pair| pair.starts_with("pass=")) {
                return None;
            }
            let and = if query.is_empty() { "" } else { "&" };
            return Some(ServerUrl(format!("{scheme}:{path}?{query}{and}pass={password}")));
        }
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, has_password) = match login.split_once(':') {
            Some((user, password)) => (user, !password.is_empty()),
            None => (login, false),
        };
        let with = || ServerUrl(format!("{scheme}://{user}:{password}@{hosts}{tail}"));
        (!has_password).then(with)
    }
}

/// Returns the URL with the password from the file, or else from the environment. If the URL has its own password,
/// a file is an error, since the user gave both; the environment is ignored, since it is set for every call.
pub(crate) fn with_password(
    url: &ServerUrl,
    file: Option<&Path>,
) -> Result<ServerUrl, Box<dyn Error>> {
    if let Some(file) = file {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
        let password = text.strip_suffix('\n').unwrap_or(&text);
        let password = password.strip_suffix('\r').unwrap_or(password);
        if password.is_empty() {
            return Err(format!("{} has no password in it", file.display()).into());
        }
        let given = url.with_password(password);
        return given
            .ok_or_else(|| "two passwords: in the URL, and in --store-password-file".into());
    }
    let Some(password) = std::env::var_os(PASSWORD_VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(url.clone());
    };
    let Ok(password) = password.into_string() else {
        return Err(format!("{PASSWORD_VARIABLE} is not UTF-8").into());
    };
    Ok(url.with_password(&password).unwrap_or_else(|| url.clone()))
}

fn percent_encoded(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    encoded.collect()
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.printable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An argument is a URL if it begins with a scheme. Only the scheme is printed, so that no password is.
    #[test]
    fn url_is_known_by_its_scheme_and_printed_without_the_rest() {
        let urls = [
            "redis://:secret@h",
            "rediss://u:secret@h:1/2",
            "REDIS://:secret@h",
            " redis://:secret@h",
            "re\tdis://:secret@h",
            "valkey://:secret@h",
            "valkeys://:secret@h",
            "unix:///s?pass=secret",
            "unix:/s?pass=secret",
            "redis+unix:///s?pass=secret",
            "valkey+unix:///s?pass=secret",
            "redis-cluster://:secret@a,b",
            "rediss-sentinel://:secret@a?master=m&sentinel_password=secret",
            "redsi://:secret@h",
            "redis://secret",
            "redis:secret@h",
        ];
        for text in urls {
            let url = ServerUrl::parse(text).unwrap_or_else(|| panic!("{text} is no URL"));
            assert!(!format!("{url:?} {}", url.printable()).contains("secret"), "{url:?}");
        }
        for path in ["shop.db", "./redis://h", "/redis:/h", "C:\\shop.db", "a:b.db", "", ":", "://"]
        {
            assert_eq!(ServerUrl::parse(path), None, "{path}");
        }
    }

    /// A separate password is put into the URL where `redis` reads it. It is refused if the URL has a password
    /// already.
    #[test]
    fn password_is_put_into_the_url_where_redis_rs_reads_it() {
        let with = |url: &str| {
            let url = ServerUrl::parse(url).unwrap().with_password("a/@:+ é");
            url.map(|url| url.0.replace("a%2F%40%3A%2B%20%C3%A9", "PASSWORD"))
        };
        let cases = [
            ("redis://h", "redis://:PASSWORD@h"),
            ("redis://h:1/2?protocol=3", "redis://:PASSWORD@h:1/2?protocol=3"),
            ("redis://user@h", "redis://user:PASSWORD@h"),
            ("redis://user:@h/1", "redis://user:PASSWORD@h/1"),
            ("rediss-cluster://u@a:1,b:2", "rediss-cluster://u:PASSWORD@a:1,b:2"),
            ("redis-sentinel://a,b/3?master=m", "redis-sentinel://:PASSWORD@a,b/3?master=m"),
            ("unix:///s", "unix:///s?pass=PASSWORD"),
            ("unix:///s?db=1", "unix:///s?db=1&pass=PASSWORD"),
        ];
        for (url, wanted) in cases {
            assert_eq!(with(url).as_deref(), Some(wanted));
        }
        for url in ["redis://:p@h", "redis-cluster://u:p@a,b", "unix:///s?db=1&pass=p"] {
            assert_eq!(with(url), None, "{url}");
        }
    }
}
