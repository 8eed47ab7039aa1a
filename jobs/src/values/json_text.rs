//! JSON as text: spaced anew, with the digits of its numbers, of which a value in memory has 17.

/// Returns JSON text without the spaces between its parts, or with a line for each part if it is `pretty`. Numbers and
/// texts stay as they are written. The text must be JSON that `serde_json` has read, so its depth has a bound.
pub(crate) fn respaced(json: &str, pretty: bool) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    let line = |out: &mut String, depth: usize| {
        if pretty {
            out.push('\n');
            out.extend(core::iter::repeat_n("  ", depth));
        }
    };
    for c in json.chars() {
        if in_text {
            in_text = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            out.push(c);
            continue;
        }
        let is_first = out.ends_with(['{', '[']);
        match c {
            ' ' | '\t' | '\r' | '\n' => continue,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !is_first {
                    line(&mut out, depth);
                }
            }
            _ if is_first => line(&mut out, depth),
            _ => {}
        }
        out.push(c);
        match c {
            '"' => in_text = true,
            '{' | '[' => depth += 1,
            ',' => line(&mut out, depth),
            ':' if pretty => out.push(' '),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digits of a number stay, spaces between the parts of JSON go or become lines, and those within a text stay.
    #[test]
    fn numbers_keep_their_digits_and_texts_their_spaces() {
        let json =
            r#" { "n" : 1000000000000000000001, "t": "a\\\" {[ , : ]}", "e": [ ], "l": [1, {}] } "#;
        let compact = r#"{"n":1000000000000000000001,"t":"a\\\" {[ , : ]}","e":[],"l":[1,{}]}"#;
        assert_eq!(respaced(json, false), compact);
        // Without such a number, it is what `serde_json` prints.
        let plain = json.replace("000000000000000000000", "");
        let value: serde_json::Value = serde_json::from_str(&plain).unwrap();
        let again = respaced(&respaced(&value.to_string(), false), true);
        assert_eq!(again, serde_json::to_string_pretty(&value).unwrap());
    }
}
