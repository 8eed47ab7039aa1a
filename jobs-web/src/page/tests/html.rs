//! A reader of the HTML that maud writes: its tags with their attributes, and the text between.

/// A piece of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    Open(Tag),
    Close(String),
    Text(String),
}

/// A tag that opens. Its attributes are in the order of the page, without their escapes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
}

impl Tag {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(has, _)| has == name).map(|(_, value)| &**value)
    }
}

/// Reads a page, strictly: what maud never writes is a panic.
pub(super) fn pieces(page: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    while !rest.is_empty() {
        let end = rest.find('<').unwrap_or(rest.len());
        if end > 0 {
            pieces.push(Piece::Text(unescaped(&rest[..end])));
        }
        rest = &rest[end..];
        if rest.is_empty() {
            break;
        }
        let end = end_of_tag(rest);
        let (tag, after) = (&rest[1..end], &rest[end + 1..]);
        rest = after;
        pieces.push(match tag.strip_prefix('/') {
            Some(name) => Piece::Close(name.to_owned()),
            None => Piece::Open(open(tag)),
        });
    }
    pieces
}

/// Returns where the tag at the begin of the text ends: the `>` behind its quoted values.
fn end_of_tag(text: &str) -> usize {
    let mut is_quoted = false;
    let end = text.char_indices().find(|(_, c)| {
        is_quoted ^= *c == '"';
        *c == '>' && !is_quoted
    });
    end.expect("a tag ends").0
}

fn open(tag: &str) -> Tag {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "a tag {name:?}");
    let mut attributes = Vec::new();
    while !rest.is_empty() {
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let name = &rest[..end];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        assert!(!name.is_empty() && name.chars().all(is_name), "an attribute {name:?}");
        let mut value = "";
        rest = &rest[end..];
        if let Some(quoted) = rest.strip_prefix("=\"") {
            let end = quoted.find('"').expect("a value ends");
            (value, rest) = (&quoted[..end], &quoted[end + 1..]);
        }
        assert!(!value.contains('<'), "a value {value:?}");
        attributes.push((name.to_owned(), unescaped(value)));
        rest = rest.trim_start_matches(' ');
    }
    Tag { name: name.to_owned(), attributes }
}

/// Returns the text without its escapes. An `&` of another kind is a panic.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split('&');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (name, after) = part.split_once(';').expect("an escape ends");
        out.push(match name {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            _ => panic!("an escape {name:?}"),
        });
        out.push_str(after);
    }
    out
}
