//! The parameters of a request, from its query, a form or a JSON object: bounded in number and length.
//!
//! Ground rules:
//!
//! - A parameter that no reader asks for is ignored. One that is asked for and wrong is an error, never a default.
//! - An empty value is the same as none: forms send their empty fields.

use serde_json::Value;

use super::views::Problem;
use crate::values::id::JobId;

/// The longest query, in bytes.
const QUERY_BYTES: usize = 8 << 10;
/// The most parameters. A list of a hundred jobs has room in it.
const MOST: usize = 256;
/// The longest value of a parameter, in bytes: an error has 4096.
const VALUE_BYTES: usize = 4 << 10;

/// The parameters of a request, in their order.
#[derive(Clone, Default, Debug)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads the query of a URI.
    pub(crate) fn of_query(query: &str) -> Result<Params, Problem> {
        if query.len() > QUERY_BYTES {
            let message = format!("a query has at most {QUERY_BYTES} bytes");
            return Err(Problem { status: 414, error: "query_too_long", message });
        }
        Params::of_form(query.as_bytes())
    }

    /// Reads a form: `application/x-www-form-urlencoded`.
    pub(crate) fn of_form(form: &[u8]) -> Result<Params, Problem> {
        let pairs = form.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        let pair = |pair: &[u8]| {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            Ok((decoded(&pair[..at])?, decoded(pair.get(at + 1..).unwrap_or(&[]))?))
        };
        let pairs: Result<Vec<_>, Problem> = pairs.take(MOST + 1).map(pair).collect();
        Params::checked(pairs?)
    }

    /// Reads a JSON object of texts, numbers, truth values, and lists of these. An empty body is an empty object.
    pub(crate) fn of_json(json: &[u8]) -> Result<Params, Problem> {
        if json.trim_ascii().is_empty() {
            return Ok(Params::default());
        }
        let object = match serde_json::from_slice(json) {
            Ok(Value::Object(object)) => object,
            Ok(_) => return Err(wrong("the body is no JSON object")),
            Err(error) => return Err(wrong(&format!("the body is no JSON: {error}"))),
        };
        let mut pairs = Vec::new();
        for (name, value) in object {
            let values = match value {
                Value::Array(values) => values,
                other => vec![other],
            };
            for value in values {
                let text = match value {
                    Value::String(text) => text,
                    Value::Number(number) => number.to_string(),
                    Value::Bool(truth) => truth.to_string(),
                    Value::Null => continue,
                    Value::Array(_) | Value::Object(_) => {
                        return Err(wrong("a list or object inside of another is no parameter"));
                    }
                };
                pairs.push((name.clone(), text));
            }
        }
        Params::checked(pairs)
    }

    fn checked(pairs: Vec<(String, String)>) -> Result<Params, Problem> {
        if pairs.len() > MOST {
            return Err(wrong(&format!("there are at most {MOST} parameters")));
        }
        if pairs.iter().any(|(name, value)| name.len() > VALUE_BYTES || value.len() > VALUE_BYTES) {
            return Err(wrong(&format!("a parameter has at most {VALUE_BYTES} bytes")));
        }
        Ok(Params(pairs))
    }

    /// Adds the parameters of another place, which come after these.
    pub(crate) fn and(mut self, others: Params) -> Params {
        self.0.extend(others.0);
        self
    }

    /// Returns the first value of a parameter that is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns the values of a parameter that are not empty.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let its = move |(its, value): &'a (String, String)| {
            (its == name && !value.is_empty()).then_some(value.as_str())
        };
        self.0.iter().filter_map(its)
    }

    /// Returns all parameters that are not empty.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().filter(|(_, value)| !value.is_empty()).cloned()
    }

    /// Returns a text of at most 255 bytes, as names and keys are.
    pub(crate) fn name(&self, name: &'static str) -> Result<Option<String>, Problem> {
        match self.get(name) {
            Some(text) if text.len() > 255 => {
                Err(wrong(&format!("the parameter {name} has at most 255 bytes")))
            }
            other => Ok(other.map(str::to_owned)),
        }
    }

    /// Returns the name of a kind or a schedule, without which a request has no meaning.
    pub(crate) fn required(&self, name: &'static str) -> Result<String, Problem> {
        self.name(name)?.ok_or_else(|| wrong(&format!("the parameter {name} is missing")))
    }

    /// Returns the ids of the parameter `id`.
    pub(crate) fn ids(&self) -> Result<Vec<JobId>, Problem> {
        let mut ids = Vec::new();
        for text in self.all("id").chain(self.all("ids")) {
            let id = id(text).ok_or_else(|| wrong("an id has 32 hexadecimal digits"))?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// Says whether a parameter is set: `true`, `yes`, `1`, `on`.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "yes" | "1" | "on"))
    }
}

/// Reads an id as it is printed.
pub(crate) fn id(text: &str) -> Option<JobId> {
    text.parse().ok()
}

/// Returns the problem of a parameter.
pub(crate) fn wrong(message: &str) -> Problem {
    Problem { status: 400, error: "bad_parameter", message: message.to_owned() }
}

/// Reads a name or a value of a query or a form: percent-encoded, with a plus for a space.
fn decoded(text: &[u8]) -> Result<String, Problem> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| (*byte as char).to_digit(16));
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (Some(high), Some(low)) = (digit(text.get(at)), digit(text.get(at + 1))) else {
                    return Err(wrong("a percent sign stands before two hexadecimal digits"));
                };
                bytes.push((high * 16 + low) as u8);
                at += 2;
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong("a parameter is no UTF-8"))
}
