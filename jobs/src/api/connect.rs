//! A store by one text, such as a setting of the program: a path, or a URL. This file alone decides whether a text is a
//! path or a URL, for [`Jobs::connect`] and for the command.
//!
//! Ground rules:
//!
//! - Every text with a scheme of a store is a URL, and so is every other text that begins with a scheme and `://`.
//!   Otherwise a URL with a typing error in its scheme would be the name of a file, and an error would print its
//!   password. For the same reason a text that looks like a malformed URL is a URL, with an empty scheme: no store has
//!   that scheme.
//! - A path with its folder before it (`./`, `/`) is never a URL.
//! - An error names only the scheme of a URL. Any other part may have a password in it: without its `@`, a password
//!   looks like a host.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::builder::Builder;
use super::jobs::Jobs;
use crate::values::error::OpenError;

const FILE: &str = "file";

/// The scheme that other libraries write for a file. It is refused, because as a path it would name another file.
const SQLITE: &str = "sqlite";

/// The schemes of a server.
const SERVERS: [&str; 11] = [
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

/// The schemes over TLS.
const OVER_TLS: [&str; 4] = ["rediss", "valkeys", "rediss-cluster", "rediss-sentinel"];

/// A text that is a URL, and so is not a path. For [`Jobs::connect`] and the command `tickwheel-jobs`.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    text: String,
    /// The length of the scheme, which is zero in a malformed URL.
    scheme: usize,
}

impl StoreUrl {
    /// Returns the text as a URL, if it is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<StoreUrl> {
        // A parser of URLs ignores these characters.
        let text: String = text.chars().filter(|c| !['\t', '\n', '\r'].contains(c)).collect();
        let text = text.trim_matches(|c: char| c <= ' ');
        let url = well_formed(text);
        url.or_else(|| is_malformed(text).then(|| StoreUrl { text: text.to_owned(), scheme: 0 }))
    }

    /// Returns the whole URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the part of the URL that may be printed.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.text[..self.scheme]
    }

    /// Returns the path of a URL of a file, and `None` for a URL of a server.
    ///
    /// # Errors
    ///
    /// If no store has this scheme, or the URL of a file is not valid.
    pub fn file(&self) -> Result<Option<PathBuf>, OpenError> {
        if is_one_of(self.scheme(), &SERVERS) {
            return Ok(None);
        }
        if !is_one_of(self.scheme(), &[FILE]) {
            return Err(OpenError::UnknownScheme(self.scheme().to_owned()));
        }
        let wrong = |reason: &str| OpenError::Config(format!("the URL of the file: {reason}"));
        let rest = &self.text[FILE.len() + 1..];
        let path = match rest
            .strip_prefix("//")
            .map(|rest| rest.split_at(rest.find('/').unwrap_or(rest.len())))
        {
            None => rest,
            Some(("" | "localhost", path)) => path,
            Some(_) => {
                return Err(wrong(
                    "a host stands before its path: three slashes begin an absolute path, none a relative one",
                ));
            }
        };
        if path.contains(['?', '#']) {
            return Err(wrong("it has parameters, and a file takes none"));
        }
        let path = if is_drive_of_root(path) { &path[1..] } else { path };
        let path = percent_decoded(path).filter(|path| !path.is_empty());
        path.map(|path| Some(path.into())).ok_or_else(|| wrong("it has no path that is UTF-8"))
    }

    /// Returns the feature of this crate that the URL of a server needs.
    fn feature(&self) -> &'static str {
        if is_one_of(self.scheme(), &OVER_TLS) { "redis-tls" } else { "redis" }
    }
}

fn is_one_of(scheme: &str, schemes: &[&str]) -> bool {
    schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Returns the text as a URL, if it begins with a scheme of a store, or with another scheme and `://`.
fn well_formed(text: &str) -> Option<StoreUrl> {
    let (scheme, rest) = text.split_once(':')?;
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let is_scheme =
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(is_letter);
    let is_known = is_one_of(scheme, &SERVERS) || is_one_of(scheme, &[FILE, SQLITE]);
    let is_url = is_scheme && (is_known || rest.starts_with("//")) && !is_drive(scheme);
    is_url.then(|| StoreUrl { text: text.to_owned(), scheme: scheme.len() })
}

/// Says whether a text that is no URL may have been meant as one, and so may hold a password: it has `://`, a `@` after
/// a `:`, or the scheme of a server in quotes or before `//`. A path with its folder before it is none.
fn is_malformed(text: &str) -> bool {
    let (before_colon, after_colon) = text.split_once(':').unwrap_or((text, ""));
    let is_path = text.starts_with(['/', '.']) || cfg!(windows) && text.starts_with('\\');
    if is_path || is_drive(before_colon) {
        return false;
    }
    let names_server = |end: &str| {
        let scheme = text.split_once(end).map(|(scheme, _)| scheme);
        scheme.is_some_and(|it| is_one_of(it.trim_matches(['"', '\'', '`', '<', '>']), &SERVERS))
    };
    names_server(":") || names_server("//") || text.contains("://") || after_colon.contains('@')
}

/// Says whether a text before a `:` is a drive of Windows.
fn is_drive(name: &str) -> bool {
    cfg!(windows) && name.len() == 1 && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Says whether the path of a URL is one on a drive of Windows.
fn is_drive_of_root(path: &str) -> bool {
    let name = path.strip_prefix('/').and_then(|path| path.split_once(':'));
    name.is_some_and(|(name, _)| is_drive(name))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        // A number may have a sign, and the code has none.
        let code = Some(code).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

impl Jobs {
    /// Opens the jobs that a text names, such as a setting of the program. The text is a path, as [`Jobs::open`] takes
    /// it, a URL of a file (`file:shop.db`, `file:///var/lib/shop.db`), or any URL that `Jobs::redis` takes.
    ///
    /// A text is a URL if it begins with one of these schemes, or with any other scheme and `://`. So write a path that
    /// looks like a URL with its folder: `./unix:1`. A byte of a `file:` URL may be written as `%20`. A text that looks
    /// like a malformed URL is refused: it has a `@` after a `:` (`user:password@host`), a `://`, or `redis//`.
    /// A text that begins with `/` or `.` is a path always, so `//:password@host` is one.
    ///
    /// ```no_run
    /// # use tickwheel_jobs::Jobs;
    /// # fn open() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = std::env::var("JOBS_STORE").unwrap_or_else(|_| "shop.db".to_owned());
    /// let client = Jobs::connect(store)?.client()?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`OpenError::UnknownScheme`] if no store has the scheme of the URL; its scheme is empty for a malformed URL.
    /// [`OpenError::Config`] if the text is empty or ends in a line end. [`OpenError::FeatureIsOff`] if the program was
    /// built without the feature of this crate for the store. Otherwise the errors of [`Jobs::open`] and `Jobs::redis`.
    /// No error has any other part of a URL, or of a text that looks like one, than its scheme.
    #[doc(alias("from_url", "url", "dsn", "open_url"))]
    pub fn connect(store: impl AsRef<OsStr>) -> Result<Builder, OpenError> {
        let text = store.as_ref();
        let lossy = text.to_string_lossy();
        let wrong = |reason: &str| OpenError::Config(format!("the name of the store {reason}"));
        if lossy.is_empty() {
            return Err(wrong("is empty"));
        }
        let Some(url) = StoreUrl::parse(&lossy) else {
            if lossy.ends_with(['\n', '\r']) {
                return Err(wrong("ends in a line end"));
            }
            return on_path(Path::new(text));
        };
        if text.to_str().is_none() {
            return Err(OpenError::Config("the URL of the store is not UTF-8".to_owned()));
        }
        match url.file()? {
            Some(path) => on_path(&path),
            None => on_server(&url),
        }
    }
}

#[cfg(feature = "sqlite-unbundled")]
fn on_path(path: &Path) -> Result<Builder, OpenError> {
    Jobs::open(path)
}

#[cfg(not(feature = "sqlite-unbundled"))]
fn on_path(_: &Path) -> Result<Builder, OpenError> {
    Err(OpenError::FeatureIsOff { scheme: FILE.to_owned(), feature: "sqlite" })
}

fn on_server(url: &StoreUrl) -> Result<Builder, OpenError> {
    #[cfg(feature = "redis")]
    if cfg!(feature = "redis-tls") || url.feature() == "redis" {
        return Jobs::redis(url.as_str());
    }
    Err(OpenError::FeatureIsOff { scheme: url.scheme().to_owned(), feature: url.feature() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text is a URL if it begins with a scheme of a store, or with any scheme and two slashes. An error names only
    /// the scheme, so it has no password.
    #[test]
    fn url_is_known_by_its_scheme() {
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
            "redis://secret",
            "redis:secret@h",
        ];
        for text in urls {
            let url = StoreUrl::parse(text).unwrap_or_else(|| panic!("{text} is no URL"));
            assert!(!url.scheme().contains("secret"));
            assert!(matches!(url.file(), Ok(None)), "{text}");
        }
        for path in [
            "shop.db",
            "./redis://h",
            "./redis//h",
            "./a:b@c",
            "/redis:/h",
            "C:\\shop.db",
            "a:b.db",
            "a@b.db",
            "a@b:c.db",
            "redis/h",
            "",
            ":",
        ] {
            assert!(StoreUrl::parse(path).is_none(), "{path}");
        }
    }

    /// P105: A malformed URL is not a path, and an error has no part of it.
    #[test]
    fn malformed_url_is_no_path() {
        for text in [
            "\"redis://:secret@h/0\"",
            "'redis://:secret@h/0'",
            "\"unix:/s?pass=secret\"",
            "redis//:secret@h/0",
            "Redis//:secret@h/0",
            "re_dis://:secret@h/0",
            "r\u{e9}dis://:secret@h/0",
            "://:secret@h",
            "default:secret@h:6379",
            ":secret@h:6379/0",
            "default:sec/ret@h:6379",
            "a/b:secret@h",
            "\"redis//:secret@h\"",
            "my cache://:secret@h",
        ] {
            let error = Jobs::connect(text).expect_err("it is not well written");
            let is_malformed =
                matches!(&error, OpenError::UnknownScheme(scheme) if scheme.is_empty());
            assert!(is_malformed, "{text}: {error}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
    }

    /// An empty name and a name that ends in a line end are refused: the setting was read in a wrong way.
    #[test]
    fn name_that_was_read_in_a_wrong_way_is_refused() {
        for (text, reason) in [("", "is empty"), ("shop.db\n", "a line end"), ("a\r\n", "a line")] {
            let error = Jobs::connect(text).expect_err("it is no name of a store");
            let is_config = matches!(&error, OpenError::Config(why) if why.contains(reason));
            assert!(is_config, "{text:?}: {error}");
        }
    }

    /// On Windows a drive is no scheme.
    #[cfg(windows)]
    #[test]
    fn drive_is_no_scheme() {
        assert!(StoreUrl::parse("C://shop.db").is_none());
        assert!(StoreUrl::parse("C:/me@home/shop.db").is_none());
        assert!(StoreUrl::parse(r"\\?\C:\me@home\shop.db").is_none());
        let url = StoreUrl::parse("file:///C:/shop.db").expect("it is a URL");
        assert_eq!(url.file().unwrap(), Some(PathBuf::from("C:/shop.db")));
    }

    /// The URL of a file has a path, relative or absolute, and nothing else.
    #[test]
    fn url_of_a_file_has_a_path_alone() {
        let file = |text: &str| StoreUrl::parse(text).expect("it is a URL").file();
        for (url, path) in [
            ("file:shop.db", "shop.db"),
            ("FILE:/var/shop.db", "/var/shop.db"),
            ("file:///var/a%20b%C3%A9.db", "/var/a b\u{e9}.db"),
            ("file://localhost/var/shop.db", "/var/shop.db"),
        ] {
            assert_eq!(file(url).unwrap(), Some(PathBuf::from(path)), "{url}");
        }
        for wrong in [
            "file:",
            "file://secret",
            "file://secret/a",
            "file:a?mode=secret",
            "file:%f",
            "file:%ff%zz",
            "file:50%+1.db",
        ] {
            let error = file(wrong).unwrap_err();
            assert!(matches!(error, OpenError::Config(_)), "{wrong}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    /// A scheme that no store has, and one whose feature is off, are errors that name it and no password.
    #[test]
    fn schemes_that_cannot_be_opened_are_named() {
        for (url, wanted) in [
            ("redsi://:secret@h", "redsi"),
            ("sqlite:shop.db", "sqlite"),
            ("postgres://u:secret@h/d", "postgres"),
        ] {
            let error = Jobs::connect(url).expect_err("no store has the scheme");
            assert!(
                matches!(&error, OpenError::UnknownScheme(scheme) if scheme == wanted),
                "{error}"
            );
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let off = [
            ("file:/no/such/folder/jobs.db", "sqlite", cfg!(feature = "sqlite-unbundled")),
            ("/no/such/folder/jobs.db", "sqlite", cfg!(feature = "sqlite-unbundled")),
            ("redis://secret@[", "redis", cfg!(feature = "redis")),
            ("rediss://secret@[", "redis-tls", cfg!(feature = "redis-tls")),
        ];
        for (url, needed, is_on) in off {
            let error = Jobs::connect(url).expect_err("there is no such store");
            let is_off =
                matches!(&error, OpenError::FeatureIsOff { feature, .. } if *feature == needed);
            assert_eq!(is_off, !is_on, "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
