//! The scanner: splits a source into words.
//!
//! It skips comments, strings, characters and lifetimes. The words of the code are left, with the
//! signs between them.

/// A word, a `::`, or a single sign.
#[derive(Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut rest, mut line) = (Vec::new(), source, 1);
    while !rest.is_empty() {
        let skipped = skip(rest);
        let length = skipped.unwrap_or_else(|| token_length(rest));
        let (text, after) = rest.split_at(length);
        if skipped.is_none() {
            tokens.push(Token { text, line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

fn token_length(rest: &str) -> usize {
    let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
    match word {
        0 if rest.starts_with("::") => 2,
        0 => rest.chars().next().map_or(0, char::len_utf8),
        word => word,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the space, comment, string or quote that the source begins with, if any.
fn skip(rest: &str) -> Option<usize> {
    space(rest).or_else(|| comment(rest)).or_else(|| string(rest)).or_else(|| quote(rest))
}

fn space(rest: &str) -> Option<usize> {
    let length = rest.len() - rest.trim_start().len();
    (length > 0).then_some(length)
}

fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    rest.starts_with("/*").then(|| block_comment(rest))
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let step = match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (1, 2),
            [b'*', b'/', ..] => (-1, 2),
            _ => (0, 1),
        };
        depth += step.0;
        at += step.1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// A string of any kind: plain, of bytes, for C, and each of them raw.
fn string(rest: &str) -> Option<usize> {
    ["", "b", "c", "r", "br", "cr"].iter().find_map(|prefix| {
        let quoted = rest.strip_prefix(prefix)?;
        let length = if prefix.ends_with('r') { raw(quoted) } else { escaped(quoted, '"') };
        Some(prefix.len() + length?)
    })
}

/// From a quote to the next one like it that is not escaped.
fn escaped(quoted: &str, quote: char) -> Option<usize> {
    let body = quoted.strip_prefix(quote)?;
    let mut escape = false;
    let end = body.find(|c| {
        let ends = c == quote && !escape;
        escape = c == '\\' && !escape;
        ends
    });
    Some(end.map_or(quoted.len(), |end| end + 2))
}

/// From `#"` to `"#`, with any number of `#`, also none.
fn raw(quoted: &str) -> Option<usize> {
    let body = quoted.trim_start_matches('#');
    let hashes = &quoted[..quoted.len() - body.len()];
    let end = format!("\"{hashes}");
    let start = hashes.len() + 1;
    let length = body.strip_prefix('"')?.find(&end).map(|at| start + at + end.len());
    Some(length.unwrap_or(quoted.len()))
}

/// A character, or the name of a lifetime.
fn quote(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('\'')?;
    let mut chars = body.chars();
    let (first, second) = (chars.next()?, chars.next());
    if first == '\\' || second == Some('\'') {
        return escaped(rest, '\'');
    }
    Some(1 + body.find(|c| !is_word(c)).unwrap_or(body.len()))
}
