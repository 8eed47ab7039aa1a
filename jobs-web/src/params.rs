//! The parameters of a request, from its query, a form or a JSON object, bounded in number and length; and times among
//! them: RFC 3339, a date, or a distance from the present.
//!
//! Ground rules:
//!
//! - Each place says which parameters it knows ([`Known`]). Another one is an error that names it, and so is a value of
//!   another type, or a second value where one is wanted. None is ignored, and none becomes a default.
//! - An empty value is a value, except in a form with optional fields, because a browser also sends empty fields: see
//!   [`Params::of_fields`].

use core::fmt;
use core::str::FromStr;
use std::time::{Duration, Instant, SystemTime};

use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::Pieces;
use jiff::{SignedDuration, Span, SpanRelativeTo};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::views::Problem;
use tickwheel_jobs::JobId;
use tickwheel_jobs::view::Number;

const QUERY_BYTES: usize = 8 << 10;
/// The most parameters. A list of a hundred jobs has room in it.
const MOST: usize = 256;
/// The longest value of a parameter, in bytes: an error has 4096.
const VALUE_BYTES: usize = 4 << 10;
/// The longest payload of a job that is inserted by hand, in bytes.
const PAYLOAD_BYTES: usize = 48 << 10;

/// The names of the parameters that a place knows, with their sorts.
pub(crate) type Known = &'static [(&'static str, Sort)];

/// What a parameter is as JSON. In a query and in a form each is a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    Text,
    /// A number, or a text of it.
    Number,
    /// `true`, or the text `yes`.
    Flag,
    /// A list of texts. In a query or a form, the parameter comes several times.
    Texts,
}

#[derive(Clone, Default, Hash, Debug)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn of_query(query: &str) -> Result<Params, Problem> {
        if query.len() > QUERY_BYTES {
            let message = format!("a query has at most {QUERY_BYTES} bytes");
            return Err(Problem::new(414, "query_too_long", message));
        }
        Params::of_form(query.as_bytes())
    }

    pub(crate) fn of_form(form: &[u8]) -> Result<Params, Problem> {
        let pairs = form.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        let pair = |pair: &[u8]| {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            Ok((decoded(&pair[..at])?, decoded(pair.get(at + 1..).unwrap_or(&[]))?))
        };
        let pairs: Result<Vec<_>, Problem> = pairs.take(MOST + 1).map(pair).collect();
        Params::checked(pairs?)
    }

    /// Reads a JSON object of the parameters that a place knows. An empty body is an empty object.
    pub(crate) fn of_json(json: &[u8], known: Known) -> Result<Params, Problem> {
        if json.trim_ascii().is_empty() {
            return Ok(Params::default());
        }
        let Object(object) =
            serde_json::from_slice(json).map_err(|error| match error.is_data() {
                true => wrong("the body is no JSON object"),
                false => wrong(format!("the body is no JSON: {error}")),
            })?;
        let mut pairs = Vec::new();
        for (name, value) in object {
            let sort = sort(known, &name)?;
            let mut values = match value {
                Value::Array(values) if sort == Sort::Texts && !values.is_empty() => values,
                other => vec![other],
            };
            for value in values.drain(..) {
                let text = match (value, sort) {
                    (Value::String(text), _) => text,
                    (Value::Number(number), Sort::Number) => number.to_string(),
                    (Value::Bool(truth), Sort::Flag) => truth.to_string(),
                    (_, Sort::Text) => return Err(wrong(format!("{name} is a text"))),
                    (_, Sort::Number) => return Err(wrong(format!("{name} is a number"))),
                    (_, Sort::Flag) => return Err(wrong(format!("{name} is true or false"))),
                    (_, Sort::Texts) => {
                        return Err(wrong(format!("{name} is a list of texts, and not empty")));
                    }
                };
                pairs.push((name.clone(), text));
            }
        }
        Params::checked(pairs)
    }

    /// Refuses a parameter that the place does not know, and a second value where one is wanted.
    pub(crate) fn known(self, known: Known) -> Result<Params, Problem> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            let is_second = self.0[..at].iter().any(|(before, _)| before == name);
            if sort(known, name)? != Sort::Texts && is_second {
                return Err(wrong(format!("the parameter {name} comes twice")));
            }
        }
        Ok(self)
    }

    /// Removes the empty fields of a form whose field `form` is `search` or `set`: a browser also sends empty fields.
    /// The field `keep` has, as a query, a filter whose text no field can hold. It counts unless the field of that
    /// filter has a text.
    pub(crate) fn of_fields(mut self) -> Result<Params, Problem> {
        let is_mark = |(name, value): &(String, String)| {
            name == "form" && matches!(&**value, "search" | "set")
        };
        if !self.0.iter().any(is_mark) {
            return Ok(self);
        }
        self.0.retain(|pair| !is_mark(pair) && !pair.1.is_empty());
        let (kept, typed): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.0).into_iter().partition(|(name, _)| name == "keep");
        self.0 = typed;
        for (_, kept) in kept {
            for pair in Params::of_form(kept.as_bytes())?.0 {
                if self.get(&pair.0).is_none() {
                    self.0.push(pair);
                }
            }
        }
        Ok(self)
    }

    fn checked(pairs: Vec<(String, String)>) -> Result<Params, Problem> {
        if pairs.len() > MOST {
            return Err(wrong(format!("there are at most {MOST} parameters")));
        }
        let most = |name: &str| if name == "payload" { PAYLOAD_BYTES } else { VALUE_BYTES };
        let is_long = |(name, value): &&(String, String)| {
            name.len() > VALUE_BYTES || value.len() > most(name)
        };
        if let Some((name, _)) = pairs.iter().find(is_long) {
            let most = most(name);
            return Err(wrong(format!("a parameter has at most {most} bytes")));
        }
        Ok(Params(pairs))
    }

    /// Adds the parameters of another place, which come after these.
    pub(crate) fn and(mut self, others: Params) -> Params {
        self.0.extend(others.0);
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(its, _)| its == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().cloned()
    }

    pub(crate) fn text(&self, name: &'static str, most: usize) -> Result<Option<String>, Problem> {
        match self.get(name) {
            Some("") => Err(wrong(format!("the parameter {name} is empty"))),
            Some(text) if text.len() > most => {
                Err(wrong(format!("the parameter {name} has at most {most} bytes")))
            }
            other => Ok(other.map(str::to_owned)),
        }
    }

    /// Returns a name or a key, which has 1 to 255 bytes.
    pub(crate) fn name(&self, name: &'static str) -> Result<Option<String>, Problem> {
        self.text(name, 255)
    }

    /// Returns the name of a kind or a schedule, without which a request has no meaning.
    pub(crate) fn required(&self, name: &'static str) -> Result<String, Problem> {
        self.name(name)?.ok_or_else(|| wrong(format!("the parameter {name} is missing")))
    }

    pub(crate) fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, Problem> {
        let wrong = || wrong(format!("{name} is a whole number, and not too large"));
        self.get(name).map(|text| text.trim().parse().map_err(|_| wrong())).transpose()
    }

    /// Returns a duration: `30s`, `2h 30m`, `3d`.
    pub(crate) fn duration(&self, name: &'static str) -> Result<Option<Duration>, Problem> {
        let wrong = || wrong(format!("{name} is a duration as 30s, 5m, 2h 30m or 3d"));
        let duration = |text| {
            let distance = distance(text).and_then(|it| Duration::try_from(it).ok());
            distance.ok_or_else(wrong)
        };
        self.get(name).map(duration).transpose()
    }

    /// Returns the due time of a job: the parameter `when`. Without it, the job is due now.
    pub(crate) fn when(&self, now: SystemTime) -> Result<SystemTime, Problem> {
        let Some(text) = self.get("when") else { return Ok(now) };
        let wrong = || wrong("when is a time as 2026-11-22T10:00:00Z, or a distance as 2h 30m");
        time(text, now).ok_or_else(wrong)
    }

    pub(crate) fn ids(&self) -> Result<Vec<JobId>, Problem> {
        let mut ids = Vec::new();
        for text in self.all("id") {
            let id = text.parse().map_err(|_| wrong("an id has 32 hexadecimal digits"))?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// Says whether a flag is set: `yes`, or `true` as in JSON.
    pub(crate) fn is_set(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            Some("yes" | "true") => Ok(true),
            None | Some("no" | "false") => Ok(false),
            Some(_) => Err(wrong(format!("{name} is yes or no"))),
        }
    }

    /// Returns the number of jobs that was confirmed: `8`, or `10000+` for that many or more.
    pub(crate) fn confirmed(&self) -> Result<Option<Number>, Problem> {
        let Some(text) = self.get("confirm") else { return Ok(None) };
        let (digits, is_exact) = text.strip_suffix('+').map_or((text, true), |it| (it, false));
        let count = digits.parse().ok().filter(|_| digits.bytes().all(|it| it.is_ascii_digit()));
        let wrong = || wrong("confirm is the number of jobs of the question: 8, or 10000+");
        count.map(|count| Some(Number { count, is_exact })).ok_or_else(wrong)
    }
}

/// The fields of a JSON object, in their order. A name that comes twice is here twice.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Object;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// Returns the sort of a parameter, which the place has to know. Every place knows the queue.
fn sort(known: Known, name: &str) -> Result<Sort, Problem> {
    let queue = [("queue", Sort::Text)];
    let found = known.iter().chain(&queue).find(|(its, _)| *its == name);
    found.map(|(_, sort)| *sort).ok_or_else(|| {
        let names: Vec<&str> = known.iter().chain(&queue).map(|(name, _)| *name).collect();
        wrong(format!("there is no parameter {name:?} here, but {}", names.join(", ")))
    })
}

pub(crate) fn wrong(message: impl Into<String>) -> Problem {
    Problem::new(400, "bad_parameter", message)
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

/// Returns the present. A manual clock has no effect on the dashboard.
#[expect(clippy::disallowed_methods, reason = "the only clock of the dashboard")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Reads a time: `2026-11-22T10:00:00Z`, `2026-11-22T10:00` and `2026-11-22` in UTC, or `30s`, `2h 30m`, `-3d`
/// from the present.
pub(crate) fn time(text: &str, now: SystemTime) -> Option<SystemTime> {
    let text = text.trim();
    absolute(text).or_else(|| {
        let distance = distance(text)?;
        match Duration::try_from(distance) {
            Ok(after) => now.checked_add(after),
            Err(_) => now.checked_sub(distance.unsigned_abs()),
        }
    })
}

fn distance(text: &str) -> Option<SignedDuration> {
    let distance: Span = text.trim().parse().ok()?;
    distance.to_duration(SpanRelativeTo::days_are_24_hours()).ok()
}

/// Reads a time with an offset, or in UTC. A `Timestamp` ends 26 hours before the year 9999 does.
fn absolute(text: &str) -> Option<SystemTime> {
    let pieces = Pieces::parse(text).ok().filter(|it| it.time_zone_annotation().is_none())?;
    let civil = pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight()));
    let offset = pieces.to_numeric_offset().map_or(0, |offset| offset.seconds());
    let since = civil.duration_since(EPOCH) - SignedDuration::from_secs(offset.into());
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from(since).unwrap_or_default())
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

#[cfg(test)]
mod tests {
    use super::*;

    /// Times are read in every form that a form or a program sends, and nothing else is.
    #[test]
    fn times_are_read() {
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let now = at(1_000_000);
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-22T10:00:00.250Z", 1_795_341_600_250),
            ("2026-11-22T11:00:00.25+01:00", 1_795_341_600_250),
            ("2026-11-22T10:00", 1_795_341_600_000),
            ("2000-02-29", 951_782_400_000),
            ("2028-02-29", 1_835_395_200_000),
            ("2026-12-31", 1_798_675_200_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("30s", 1_030_000),
            ("1m 40s", 1_100_000),
            ("-500s", 500_000),
            ("0s", 1_000_000),
        ];
        for (text, ms) in cases {
            assert_eq!(time(text, now), Some(at(ms)), "{text}");
        }
        let wrong = [
            "",
            "-",
            "now",
            "10",
            "2026",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-01-32",
            "2026-04-31",
            "2027-02-29",
            "2027-02-31",
            "2100-02-29",
            "2026-11-22T24:00",
            "1y",
            "2026-11-22Tzz:00",
            "é",
        ];
        for text in wrong.iter().chain(&[
            "99999999999999999999s",
            "2026-11-22T10:00:00.Z",
            "2026-11-22T10:00:00+1",
        ]) {
            assert_eq!(time(text, now), None, "{text}");
        }
    }
}
