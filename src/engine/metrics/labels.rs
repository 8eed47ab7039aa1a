//! The labels of a sample, and the names that Prometheus takes.

use core::fmt;

/// The labels of a sample, sorted by name. Two samples with equal labels are of one series.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Labels(Vec<(&'static str, String)>);

impl Labels {
    pub(super) fn new(labels: &[(&'static str, &str)]) -> Labels {
        let mut all = Labels::default();
        labels.iter().for_each(|(name, value)| all.add(name, value));
        all
    }

    /// Adds a label. One without a text is left out: for Prometheus it is the same as no label.
    pub(super) fn add(&mut self, name: &'static str, value: &str) {
        assert!(is_label(name), "this is no name of a label: {name:?}");
        match self.0.binary_search_by_key(&name, |(name, _)| name) {
            Ok(_) => panic!("a sample has the label {name} twice"),
            Err(_) if value.is_empty() => {}
            Err(at) => self.0.insert(at, (name, plain(value))),
        }
    }
}

/// As the text has them, without the braces.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}=\"{}\"", escaped(value).replace('"', "\\\""))?;
        }
        Ok(())
    }
}

/// Returns whether a metric may have this name.
pub(super) fn is_name(name: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
    name.bytes().all(is_known) && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Returns whether a label may have this name. Prometheus keeps names that begin with `__` for itself, and `le` is the
/// bound of a bucket.
fn is_label(name: &str) -> bool {
    is_name(name) && !name.contains(':') && !name.starts_with("__") && name != "le"
}

/// Replaces control characters other than a line end, and those that change the direction of text: what shows a
/// label may be a terminal or a page.
pub(super) fn plain(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\n' => text.push('\n'),
            '\u{7f}' => text.push('\u{2421}'),
            '\0'..' ' => text.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{80}'..'\u{a0}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => text.push('\u{fffd}'),
            c => text.push(c),
        }
    }
    text
}

/// Escapes backslashes and line ends.
pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that Prometheus does not take is refused.
    #[test]
    fn names_are_those_that_prometheus_takes() {
        for name in ["", "1a", "a b", "é", "a\"", "a-b"] {
            assert!(!is_name(name) && !is_label(name), "{name:?}");
        }
        assert!(is_name("tickwheel:jobs_9") && is_name("le") && is_name("__a"));
        for name in ["tickwheel:jobs_9", "le", "__name__"] {
            assert!(!is_label(name), "{name:?}");
        }
        assert!(is_label("kind_9") && is_label("_kind"));
    }
}
